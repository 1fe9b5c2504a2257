r"""Impacts that rebound: Poisson's restitution on all impulses of any contact model.

Models of rigid contact let no contact approach at the end of a step, so impacts are plastic. A step in which a contact
closes faster than `SLOWEST` is solved in two phases. In compression, the model computes impulses f and v⁺ from the
velocity v* without contact. In restitution, the share e of all impulses, including friction, acts again,

    v_e = v* + (1 + e) M⁻¹Jᵀf = v⁺ + e (v⁺ - v*)

and the model is solved again from v_e, for contacts that close during the rebound. Friction stays within its cone,
because it is scaled together with the normal impulse. The rebound adds no kinetic energy. With the contact velocities
u⁺ = J v⁺ and the Delassus operator W = J M⁻¹Jᵀ the change of energy is

    E(v_e) - E(v*) = (1 + e) fᵀu⁺ - ½ (1 - e²) fᵀW f ≤ 0     for 0 ≤ e ≤ 1

because fᵀu⁺ ≤ 0 for every model of rigid contact here: friction opposes slip, and an opening contact has no impulse or,
in convex models, friction that removes the energy of the opening. Newton's hypothesis, ``u_N⁺ ≥ -e u_N``, has no such
bound with friction. The proof needs e to scale friction, too, so a sticking contact also rebounds along its tangents.

The time step moves bodies with the velocity at its end, so with e = 1 a ball gains height in proportion to h. Dropped
from 0.3 m, it rebounds 0.8 % higher at 1 ms, and 0.2 % higher at 0.2 ms.

Source: Poisson's hypothesis as in Anitescu & Potra 1997, but applied to all impulses instead of only the normal
    impulses.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import msgspec
import numpy as np

from idcontrol.errors import InputError
from idcontrol.models.step import ContactModel, StepProblem, StepSolution, WarmStart

SLOWEST: Final = 0.05
"""Speed below which impacts are plastic [m/s], so that resting bodies do not hop. Gravity adds 0.01 m/s in a step of 1
ms.
"""


def rebounding(model: ContactModel, restitution: float, impact: ContactModel | None = None) -> ContactModel:
    """Return a contact model for forward steps in which impacts rebound with a share of their impulses.

    A contact that closes in the step is assumed to touch from the start of the step. Its penetration is not corrected
    in that step, since the correction would add energy.

    Args:
        model: Any contact model.
        restitution: Share e of the impulses that is returned, 0 (plastic) to 1.
        impact: Model that solves impacts, by default `model`; contacts must not approach at the end of its steps. On
            compliant ground compression does not end with the step, so another model is needed.

    Raises:
        InputError: `restitution` is not between 0 and 1.
    """
    if not 0.0 <= restitution <= 1.0:
        raise InputError(f"restitution must be between 0 (plastic) and 1, not {restitution}")

    rigid = model if impact is None else impact

    def solve(problem: StepProblem, warm: WarmStart | None = None) -> StepSolution:
        contacts = problem.contacts
        free = np.linalg.solve(problem.M, -problem.kappa)
        speed = contacts.N @ free - contacts.surface_velocity[: len(contacts)]
        fast = speed < -SLOWEST
        hits = fast & (problem.h * speed + contacts.gap < 0.0)
        if not hits.any():  # compliant ground may already brake a foot whose contact closes only in the next step
            return (rigid if fast.any() else model)(problem, warm)
        touching = replace(contacts, gap=np.where(hits, 0.0, np.maximum(contacts.gap, 0.0)))
        compressed = rigid(replace(problem, contacts=touching), warm)
        rebound = compressed.v_plus + restitution * (compressed.v_plus - free)
        ended = rigid(replace(problem, contacts=touching, kappa=-problem.M @ rebound), compressed.warm)
        return msgspec.structs.replace(
            ended,
            impulses=ended.impulses + (1.0 + restitution) * compressed.impulses,
            status=max(compressed.status, ended.status),
            residual=max(compressed.residual, ended.residual),
            iterations=compressed.iterations + ended.iterations,
        )

    return solve
