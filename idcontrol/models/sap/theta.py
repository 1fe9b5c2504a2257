r"""The θ-method: which terms a step evaluates at its start, and which at its end.

    q^θq = θ_q q⁺ + (1 - θ_q) q,    v^θv = θ_v v⁺ + (1 - θ_v) v,    q⁺ = q ⊕ h (θ_vq v⁺ + (1 - θ_vq) v)

Springs and dampers are linear, and θ sets how implicit they are. The velocity v* without contact is therefore the
solution of one linear system, and contact acts on ``A = M + h² θ_q θ_vq K + h θ_v D`` (Castro, Permenter & Han 2022,
section IV, eq. 11). The four schemes below have the orders 1, 1, 1, 2 in h. The compliance of contacts assumes
``φ⁺ = φ + h v_n``, which holds for θ_vq = 1.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from idcontrol.contact.contacts import Contacts
from idcontrol.models.step import StepProblem
from idcontrol.types import Array


@dataclass(frozen=True, slots=True, kw_only=True)
class Theta:
    """A scheme of the θ-method; each number is between 0 (start of the step) and 1 (end of the step).

    Attributes:
        q: θ_q, for the configuration at which forces are evaluated.
        v: θ_v, for the velocity at which forces are evaluated.
        vq: θ_vq, for the velocity with which the configuration moves.
    """

    q: float
    v: float
    vq: float

    def mean_velocity(self, v: Array, v_plus: Array) -> Array:
        """Return the velocity that moves the configuration from the start of a step to its end, shape (m,)."""
        return self.vq * v_plus + (1.0 - self.vq) * v


EXPLICIT_EULER = Theta(q=0.0, v=0.0, vq=0.0)
SYMPLECTIC_EULER = Theta(q=0.0, v=0.0, vq=1.0)
IMPLICIT_EULER = Theta(q=1.0, v=1.0, vq=1.0)
MIDPOINT = Theta(q=0.5, v=0.5, vq=0.5)


@dataclass(frozen=True, slots=True, kw_only=True)
class Springs:
    """Linear forces ``-K (q - q_r) - D v`` in joint space.

    Attributes:
        stiffness: K, positive semidefinite, shape (m, m) [N/m or N m/rad].
        damping: D, positive semidefinite, shape (m, m) [N s/m or N m s/rad].
        deflection: q - q_r at the start of the step, in velocity coordinates, shape (m,).
    """

    stiffness: Array
    damping: Array
    deflection: Array


def step_problem(
    theta: Theta, h: float, M: Array, v: Array, force: Array, springs: Springs, contacts: Contacts
) -> StepProblem:
    """Build the forward step of a scheme.

    Args:
        theta: The scheme.
        h: Length of the step [s].
        M: Inertia at q^θq, shape (m, m).
        v: Velocity at the start of the step, shape (m,).
        force: All other forces, at q^θq and v^θv, shape (m,).
        springs: Linear forces; the share that θ evaluates at the end of the step is implicit.
        contacts: Contacts with rows at q^θq and gaps at the start of the step.

    Returns:
        A problem whose inertia is A and whose κ is ``-A v*``.
    """
    K, D = springs.stiffness, springs.damping
    A = M + h * h * theta.q * theta.vq * K + h * theta.v * D
    # A v* = M v - h K (q + h θ_q (1 - θ_vq) v - q_r) - h (1 - θ_v) D v + h force
    seen = springs.deflection + h * theta.q * (1.0 - theta.vq) * v
    kappa = h * (K @ seen) + h * (1.0 - theta.v) * (D @ v) - h * force - M @ v
    return StepProblem(h=h, M=A, kappa=np.ascontiguousarray(kappa), contacts=contacts)
