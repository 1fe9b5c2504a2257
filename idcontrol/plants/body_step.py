"""One step of free bodies with SAP in one compiled call: contacts, impulses, v⁺ and the final state.

The result equals the step of `idcontrol.plants.bodies`, which calls the same functions.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np

from idcontrol.contact.body_contacts import BodyArrays, candidates, touching
from idcontrol.contact.detection import untracked
from idcontrol.contact.manifold import Tracked
from idcontrol.dynamics.bodies import (
    BodyState,
    Inertias,
    advance,
    first_beyond,
    free_velocities,
    inertia_blocks,
    reaches,
    rotations,
)
from idcontrol.kernels.arena import Arena
from idcontrol.kernels.bound import Bound, bind
from idcontrol.kernels.jit import njit
from idcontrol.kernels.linear import assign
from idcontrol.models.sap.many import Result, Touching, Trees, solve_all
from idcontrol.models.sap.newton import UNPHYSICAL, Parameters
from idcontrol.types import Array, Integers

Ended: TypeAlias = tuple[int, int, float, int]
"""Outcome of SAP, iterations, residual and number of islands, as returned by `solve_all`."""

MARGIN = 1e-3
"""Contacts are listed if their gap is below this plus the motion of the bodies within the step [m].

Half of this applies to contacts with the world.
"""

FASTEST = 3e8
"""Limit of each component of a body's velocity [m/s, rad/s]: the speed of light.

A faster body indicates a wrong force, mass or step size.
"""


class World(NamedTuple):
    """Data that is constant from step to step.

    Attributes:
        inertias: Masses and inertias of the n bodies.
        gravity: Acceleration of gravity, world frame, shape (3,) [m/s²].
        radius: Radius of a bounding sphere of each body, shape (n,) [m].
        scene: `BodyDetector.scene`.
        size: Number of velocities of each body, shape (n,): six.
        parameters: Parameters of SAP.
        arena: Memory for SAP.
    """

    inertias: Inertias
    gravity: Array
    radius: Array
    scene: Bound
    size: Integers
    parameters: Parameters
    arena: Arena


class StepResult(NamedTuple):
    """Result of a step: contacts, a record that matches them with later contacts, problem and solution.

    `carried` are the impulses of the same contacts in the previous step, zero for new contacts: the search began there.
    """

    contacts: BodyArrays
    tracked: Tracked
    M: Array
    v: Array
    v_star: Array
    carried: Array
    result: Result


def nothing() -> Bound:
    """Return an empty result, for the first step."""
    none: Integers = np.zeros(0, dtype=np.int64)
    scalars = np.zeros(0)
    return bind(
        StepResult(
            contacts=BodyArrays(
                identity=none,
                body=none.reshape(0, 2),
                point=np.zeros((0, 3)),
                axes=np.zeros((0, 3, 3)),
                gap=scalars,
                mu=scalars,
                stiffness=scalars,
                damping=scalars,
                rows=np.zeros((0, 2, 3, 6)),
            ),
            tracked=untracked(),
            M=np.zeros((0, 6, 6)),
            v=np.zeros((0, 6)),
            v_star=np.zeros((0, 6)),
            carried=np.zeros((0, 3)),
            result=Result(np.zeros((0, 6)), np.zeros((0, 3)), np.zeros((0, 3))),
        )
    )


@njit(cache=True)
def values(after: Bound) -> StepResult:
    """Return the `StepResult` in `after`, for Python code."""
    return after.values


@njit(cache=True)
def reaches_in(h: float, v_star: Array, radius: Array) -> Array:
    """Bound how far bodies with velocities `v_star` (n, 6) and radii (n,) move in `h` [s]; shape (n,) [m].

    Half of `MARGIN` is added. The bound of a body uses only its own velocity, so a contact with a faster body may be
    listed one step too late.
    """
    return reaches(v_star, radius, h, 0.5 * MARGIN)


@njit(cache=True)
def carried(before: Integers, impulses: Array, now: Integers) -> Array:
    """Carry `impulses` (k, 3) of contacts `before` (k,) over to contacts `now` (n,), 0 for new ones; shape (n, 3)."""
    order = np.argsort(before)
    sorted_ = before[order]
    out = np.zeros((now.shape[0], 3))
    for i in range(now.shape[0]):
        at = np.searchsorted(sorted_, now[i])
        if at < before.shape[0] and sorted_[at] == now[i]:
            assign(out[i], impulses[order[at]])
    return out


@njit(cache=True, error_model="numpy")
def step_with_sap(
    bound: Bound, before: Bound, state: BodyState, wrench: Array, h: float
) -> tuple[BodyState, Bound, bool, Ended]:
    """Take one step.

    Args:
        bound: The `World`.
        before: Result of the previous step.
        state: The bodies.
        wrench: Force and torque on each body about its centre of mass, world axes, shape (n, 6) [N, N m].
        h: Length of the step [s].

    Returns:
        Final state; result of the step; True if both are valid (otherwise `idcontrol.plants.bodies` reports the error);
        outcome of SAP.
    """
    world, last = bound.borrowed, before.borrowed
    rotation = rotations(state.orientation)
    v_star = free_velocities(world.inertias, state, rotation, wrench, world.gravity, h)
    if first_beyond(v_star, FASTEST) >= 0:
        return state, before, False, (0, 0, 0.0, 0)
    reach = reaches_in(h, v_star, world.radius)
    pairs = candidates(world.scene, state.position, rotation, reach)
    contacts, tracked = touching(world.scene, pairs, last.tracked)
    M, n = inertia_blocks(world.inertias, rotation), contacts.gap.shape[0]
    start = carried(last.contacts.identity, last.result.impulses, contacts.identity)
    trees = Trees(world.size, M, state.velocity, v_star)
    rows = Touching(
        contacts.body,
        contacts.rows,
        contacts.gap,
        contacts.mu,
        contacts.stiffness,
        contacts.damping,
        np.zeros((n, 3)),
        start,
    )
    result = Result(np.empty(v_star.shape), np.empty((n, 3)), np.empty((n, 3)))
    ended = solve_all(h, trees, rows, world.parameters, result, world.arena)
    after = bind(StepResult(contacts, tracked, M, state.velocity, v_star, start, result))
    if ended[0] == UNPHYSICAL or first_beyond(result.v_plus, FASTEST) >= 0:
        return state, after, False, ended
    return advance(world.inertias, state, rotation, result.v_plus, h), after, True, ended
