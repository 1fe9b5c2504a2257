"""Stiffness of constraints: springs, spheres (Hertz), elastic foundations, joint limits, bilateral springs.

Source: Drumwright 2019, section 5.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from idcontrol.contact.contacts import Contacts
from idcontrol.errors import InputError
from idcontrol.models.constraint.solver import solve
from idcontrol.models.step import PUSH_OUT_SPEED, Bilateral, ContactModel, StepProblem, StepSolution, WarmStart
from idcontrol.types import Array, Integers

ContactLaw: TypeAlias = Callable[[Contacts], Contacts]
"""Sets the stiffness and damping of contacts; a law that linearizes may also change the gap."""

SHALLOWEST = 1e-7
"""Smallest depth at which Hertz' law is linearized [m]; at smaller depths the same linear law applies.

The stiffness of Hertz' law vanishes at the surface. A law linearized there would let a body fall through the ground in
one step and throw it back in the next. A kilogram at rest sinks into steel a few times as deep as this.
"""


def _refuse_negative(**values: npt.ArrayLike) -> None:
    for name, value in values.items():
        if not (np.asarray(value) >= 0.0).all():
            raise InputError(f"{name} of a constraint is {value!s}; it must be 0 or more")


def springs(stiffness: float, damping: float = 0.0) -> ContactLaw:
    """Return a law with the same linear spring and damper at every contact.

    Args:
        stiffness: K [N/m]; inf is rigid.
        damping: B [N s/m].

    Raises:
        InputError: `stiffness` or `damping` is negative or not a number.
    """
    _refuse_negative(stiffness=stiffness, damping=damping)

    def law(contacts: Contacts) -> Contacts:
        n = len(contacts)
        return replace(contacts, stiffness=np.full(n, stiffness), damping=np.full(n, damping))

    return law


STIFFNESS, DAMPING = 1e10, 1.0
"""Steel under a small foot [N/m] and "a little damping" [N s/m] (Drumwright 2019, section 6.4)."""

NEARLY_RIGID = springs(STIFFNESS, DAMPING)
"""Ground into which robots sink by nanometres; the load distribution among feet is still unique."""


def elastic_foundation(modulus: float, depth: float, area: npt.ArrayLike, damping: float = 0.0) -> ContactLaw:
    """Return the law of a bed of springs (Winkler), one per contact: ``K = E A / L`` (Drumwright 2019, section 5.5).

    Args:
        modulus: E [Pa].
        depth: L, thickness of the bed [m].
        area: Area A of the element under each contact, shape (n,) or one number for all [m²].
        damping: B of each element [N s/m].

    Raises:
        InputError: An argument is negative or not a number, or the depth is zero.
    """
    areas = np.asarray(area, dtype=np.float64)
    _refuse_negative(modulus=modulus, depth=depth, area=areas, damping=damping)
    if depth == 0.0:
        raise InputError("an elastic foundation needs a depth above 0 m; make contacts rigid with springs(inf)")

    def law(contacts: Contacts) -> Contacts:
        n = len(contacts)
        stiffness = np.broadcast_to(modulus / depth * areas, (n,)).copy()
        return replace(contacts, stiffness=stiffness, damping=np.full(n, damping))

    return law


def hertz(modulus: float, radius: float, damping: float = 0.0) -> ContactLaw:
    r"""Return the linearized law of a sphere on an elastic half-space, ``f = k_H d^{3/2}``, ``k_H = 4/3 E* √r``.

    The tangent of this law at depth d is a spring of stiffness ``K = 3/2 k_H √d`` with its rest position d/3 below the
    surface. The gap becomes ``φ + d/3``, i.e. -2/3 d at depth d. A body at rest is exactly at Hertz' depth. Drumwright
    2019, eqs. 121-123, omits the 4/3 and uses ``d^{3/2}`` as the gap, whose rate then differs from the velocity of the
    normal row (math.md, section 11.3).

    Args:
        modulus: Effective modulus E* [Pa].
        radius: Radius r of the spheres [m].
        damping: B [N s/m].

    Raises:
        InputError: An argument is negative or not a number, or modulus or radius is zero.
    """
    _refuse_negative(modulus=modulus, radius=radius, damping=damping)
    if modulus == 0.0 or radius == 0.0:
        raise InputError("Hertz' law needs a modulus and a radius above 0; use springs(stiffness) for points")
    k_H = 4.0 / 3.0 * modulus * np.sqrt(radius)

    def law(contacts: Contacts) -> Contacts:
        d = np.maximum(-contacts.gap, SHALLOWEST)
        return replace(
            contacts,
            gap=contacts.gap + d / 3.0,
            stiffness=1.5 * k_H * np.sqrt(d),
            damping=np.full(len(contacts), damping),
        )

    return law


def compliant(law: ContactLaw, model: ContactModel = solve) -> ContactModel:
    """Return a contact model in which `law` sets the stiffness of contacts; bilateral rows keep their compliance."""

    def with_law(problem: StepProblem, warm: WarmStart | None = None) -> StepSolution:
        return model(replace(problem, contacts=law(problem.contacts)), warm)

    return with_law


def recovering_slowly(model: ContactModel) -> ContactModel:
    """Return the contact model with penetration corrected at no more than `PUSH_OUT_SPEED`.

    Springs that are too stiff for the step would correct penetration within one step, at the unphysical speed φ/h.
    """

    def with_cap(problem: StepProblem, warm: WarmStart | None = None) -> StepSolution:
        contacts = problem.contacts
        gap = np.maximum(contacts.gap, -problem.h * PUSH_OUT_SPEED)
        return model(replace(problem, contacts=replace(contacts, gap=gap)), warm)

    return with_cap


def solve_nearly_rigid(problem: StepProblem, warm: WarmStart | None = None) -> StepSolution:
    """Solve one step on `NEARLY_RIGID` ground, whatever the stiffness and damping of the contacts."""
    return solve(replace(problem, contacts=NEARLY_RIGID(problem.contacts)), warm)


def spring_rows(
    rows: Array, deviation: Array, h: float, stiffness: npt.ArrayLike, damping: npt.ArrayLike = 0.0
) -> Bilateral:
    """Model bilateral constraints φ = 0 as stiff springs, ``λ = -K φ⁺ - B φ̇⁺`` at the end of the step.

    Args:
        rows: Jacobian G of the constraints, shape (k, m).
        deviation: φ at the start of the step, shape (k,) [m or rad].
        h: Length of the step [s].
        stiffness: K, shape (k,) or one number for all [N/m or N m/rad]; inf is rigid.
        damping: B, shape (k,) or one number for all [N s/m or N m s/rad].

    Returns:
        The rows ``G v⁺ = -C h K φ - C Λ`` with impulses Λ and ``C = 1/(h²K + hB)``; rigid rows have C = 0 and target
        -φ/h (math.md, section 11.1).

    Raises:
        InputError: A stiffness or damping is negative, or both of a row are zero.
    """
    k = deviation.shape[0]
    K, B = (np.broadcast_to(np.asarray(x, dtype=np.float64), (k,)) for x in (stiffness, damping))
    _refuse_negative(stiffness=K, damping=B)
    if not (K + B > 0.0).all():
        raise InputError("a bilateral spring needs stiffness or damping above 0; leave the row out instead")
    rigid = np.isinf(K)
    finite = np.where(rigid, 1.0, K)
    compliance = np.where(rigid, 0.0, 1.0 / (h * (h * finite + B)))
    target = -deviation * np.where(rigid, 1.0 / h, finite / (h * finite + B))
    return Bilateral(rows=rows, target=target, compliance=compliance)


def joint_limits(
    velocity: Integers,
    position: Array,
    lower: Array,
    upper: Array,
    m: int,
    *,
    stiffness: float = np.inf,
    damping: float = 0.0,
) -> Contacts:
    """Model joint ranges as contacts without friction: ``q - lower ≥ 0`` and ``upper - q ≥ 0`` (math.md, section 12.5).

    `idcontrol.contact.contacts.concatenate` combines them with other contacts. Their impulses are torques or forces
    times time [N m s or N s], and they have no point in the world.

    Args:
        velocity: Index of each joint's velocity, shape (k,).
        position: Positions of the joints, shape (k,) [rad or m].
        lower: Lower limits, shape (k,); -inf for no limit.
        upper: Upper limits, shape (k,); inf for no limit.
        m: Number of velocities.
        stiffness: K [N m/rad or N/m].
        damping: B [N m s/rad or N s/m].

    Returns:
        One contact per finite limit, first all lower limits. The identity is -1 - 2 j for the lower limit of velocity j
        and -2 - 2 j for the upper limit; feet have no negative identities.
    """
    gap = np.concatenate((position - lower, upper - position))
    sign = np.repeat([1.0, -1.0], velocity.size)
    identity = np.concatenate((-1 - 2 * velocity, -2 - 2 * velocity))
    finite = np.isfinite(gap)
    n = int(finite.sum())
    jacobian = np.zeros((3 * n, m))
    jacobian[np.arange(n), np.tile(velocity, 2)[finite]] = sign[finite]
    return Contacts(
        identity=identity[finite].astype(np.int64),
        point=np.zeros((n, 3)),
        axes=np.zeros((n, 3, 3)),
        gap=gap[finite],
        mu=np.zeros(n),
        jacobian=jacobian,
        stiffness=np.full(n, stiffness),
        damping=np.full(n, damping),
    )
