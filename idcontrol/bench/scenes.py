"""The states that the bench runs on, and the contact problems that come up in them.

Who can make a robot walk, or drop bodies on a heap, is found by name (`Scenes`, the entry point group
``idcontrol.bench``), as the library itself knows no robots.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import pinocchio as pin

from idcontrol import controllers
from idcontrol.bench.timing import Job
from idcontrol.bodies import BodyState
from idcontrol.contact.spheres import SphereContacts
from idcontrol.controllers.inverse import InverseDynamics
from idcontrol.controllers.schemes import COULOMB_QP, Outcome, Scheme, Step
from idcontrol.models.problem import StepProblem
from idcontrol.plants.bodies import FreeBodies
from idcontrol.system import System
from idcontrol.types import Array, Booleans, Reference, State

MOST_COPIES = 10_000
"""Identity of a copy: that of its contact times this, and its number."""

FILM = 1e-6
"""Feet are this much larger in engines that feel a contact only once it is closed: ours are closed to rounding [m]."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """One period of a walk.

    Attributes:
        state: At its beginning.
        reference: What was asked for.
        tau: Torques that were held, shape (a,) [N m].
        after: At its end.
        pressing: How many feet pressed on the ground in it.
    """

    state: State
    reference: Reference
    tau: Array
    after: State
    pressing: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Walk:
    """A walk that was recorded, and the means to step through it again.

    Attributes:
        robot: Which.
        h: Control period [s].
        moments: In order.
        setup: What a controller is built from, afresh with each call.
        machine: Its terms and its feet on the ground, with the true friction, likewise.
        feet: Names of the frames of the feet.
    """

    robot: str
    h: float
    moments: Sequence[Moment]
    setup: Callable[[], controllers.Setup]
    machine: Callable[[], tuple[System, SphereContacts]]
    feet: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Heap:
    """Balls and boxes in a container on flat ground.

    Attributes:
        plant: Where they fall.
        start: From where.
        round: Which of them are balls, shape (n,).
        radius_m: Of a ball.
        side_m: Of a box.
        width_m: Of the container, inside; it is as high.
        wall_m: How thick its walls are.
        mu: Friction of everything.
        period_s: Of a step.
    """

    plant: FreeBodies
    start: BodyState
    round: Booleans
    radius_m: float
    side_m: float
    width_m: float
    wall_m: float
    mu: float
    period_s: float


class Scenes(Protocol):
    """What an entry point of the group ``idcontrol.bench`` gives."""

    def walk(self, robot: str, plant: str, periods: int) -> Walk:
        """A walk of `robot` on `plant`, `periods` long."""
        ...

    def heap(self, bodies: int) -> Heap:
        """So many balls and boxes above the floor of a container."""
        ...


def floor(walk: Walk) -> Job:
    """What Pinocchio takes, called from Python, for M, the bias and the Jacobians of the feet."""
    system = walk.setup().system
    model, frames = system.model, [system.frame(name) for name in walk.feet]
    data, states = model.createData(), [moment.state for moment in walk.moments]

    def run(i: int) -> None:
        q, v = states[i].q, states[i].v
        pin.crba(model, data, q)
        pin.nonLinearEffects(model, data, q, v)
        pin.computeJointJacobians(model, data, q)
        pin.updateFramePlacements(model, data)
        for frame in frames:
            pin.getFrameJacobian(model, data, frame, pin.LOCAL_WORLD_ALIGNED)

    return Job(run=run)


@dataclass(frozen=True, slots=True, kw_only=True)
class Posed:
    """A contact problem as a controller poses it.

    Attributes:
        problem: With the joints prescribed.
        step: What else a scheme may use.
        moment: Number of the moment in the walk.
    """

    problem: StepProblem
    step: Step
    moment: int


MOST_ROWS = 20_000
"""Contacts in all problems of a set together: more would fill the memory, and caches anyhow."""


def problems(walk: Walk, contacts: int | None = None) -> list[Posed]:
    """The problems that inverse dynamics poses along a walk.

    Args:
        walk: Where.
        contacts: Take only those with all feet on the ground, with so many contacts in place of theirs (`copied`);
            None is all, as they are. Of many contacts there are fewer problems (`MOST_ROWS`), at least two.
    """
    found: list[Posed] = []

    def note(problem: StepProblem, step: Step) -> Outcome:
        kept = replace(problem, M=problem.M.copy(), contacts=problem.contacts.take(np.arange(len(problem.contacts))))
        found.append(Posed(problem=kept, step=step, moment=moment))
        return COULOMB_QP.solve(problem, step)

    setup = walk.setup()
    noting = Scheme(solve=note, model=COULOMB_QP.model, ramp_follows=False)
    controller = InverseDynamics(noting, setup.system, setup.contacts, setup.acceleration_gains, setup.h)
    for moment, each in enumerate(walk.moments):  # noqa: B007 - `note` reads it
        controller(each.state, each.reference)
    if contacts is None:
        return found
    stood = [posed for posed in found if len(posed.problem.contacts) == len(walk.feet)]
    return [
        replace(posed, problem=copied(posed.problem, contacts), step=replace(posed.step, warm={}, reluctance=None))
        for posed in stood[: max(2, MOST_ROWS // contacts)]
    ]


def copied(problem: StepProblem, contacts: int) -> StepProblem:
    """The same step with `contacts` contacts: copies of those that there are, or the first of them.

    So did 003 (section 8.4.2), "artificially increasing the number of simultaneous contacts" under each foot: the
    motion is the same, whatever their number.
    """
    there = len(problem.contacts)
    which = np.sort(np.resize(np.arange(there), contacts))
    taken = problem.contacts.take(which)
    copy = np.arange(contacts) - np.searchsorted(which, which)
    return replace(problem, contacts=replace(taken, identity=taken.identity * MOST_COPIES + copy))
