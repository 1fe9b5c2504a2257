"""Walks, heaps and boxes to replay, and the contact problems of a controller along a walk."""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from idcontrol import controllers
from idcontrol.bench.problems.machines import free_body
from idcontrol.contact.spheres import SphereContacts
from idcontrol.contact.terrain import plane
from idcontrol.controllers.inverse import InverseDynamics
from idcontrol.controllers.schemes import COULOMB_QP
from idcontrol.controllers.step import AssembledStep, problem_of, step_from_problem
from idcontrol.dynamics.bodies import BodyState
from idcontrol.dynamics.system import System
from idcontrol.errors import InputError
from idcontrol.models import sap
from idcontrol.models.step import StepProblem
from idcontrol.plants.bodies import FreeBodies
from idcontrol.scenes import clutter
from idcontrol.scenes.walk import WalkConfig, WalkPath, WalkScene
from idcontrol.types import Array, Booleans, Reference, State

MOST_COPIES = 10_000
"""Stride of the identities of copied contacts: the identity of a copy is the original identity times this, plus the
number of the copy."""

SETTLING = 480
"""Periods skipped at the start of a walk, while the robot accelerates."""

HEAP_MU, HEAP_STEP_S = 1.0, 0.01
"""Friction coefficient of a heap, and the step of its plant [s]."""

HEAP_TOLERANCE = 1e-6
"""Tolerance ε_r of SAP's stopping rule (Castro et al. 2022, eq. 20), as in Drake; each group of connected bodies must
meet it."""

PATCH_MU, PATCH_M, PATCH_M_S, PATCH_FOOT_M = 0.5, 0.2, 0.2, 1e-3
"""A box on a plate: friction coefficient, edge of the square of its contacts [m], initial sliding speed [m/s], radius
of its feet [m].
"""

FILM = 1e-6
"""Increment of the radius of feet in simulators whose contacts act only in penetration [m]. In states of this package
contacts are closed to rounding, so the gap has either sign.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """One period of a walk.

    Attributes:
        state: State at the start of the period.
        reference: Reference at the start of the period.
        tau: Joint torques held during the period, shape (a,) [N m].
        after: State at the end of the period.
        pressing: Number of feet with a contact force.
    """

    state: State
    reference: Reference
    tau: Array
    after: State
    pressing: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedWalk:
    """A recorded walk, and the functions to replay it.

    Attributes:
        robot: Name of the robot.
        h: Control period [s].
        moments: The periods in order.
        setup: Creates a new setup of a controller.
        machine: Creates new multibody terms, and the detector of the feet on the ground with the true friction.
        feet: Names of the foot frames.
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
        plant: Plant that steps the bodies.
        start: State before the bodies fall.
        round: True for balls, False for boxes, shape (n,).
        radius_m: Radius of a ball.
        side_m: Edge of a box.
        width_m: Inner width of the container; its height is the same.
        wall_m: Thickness of the container's walls.
        mu: Friction coefficient of all surfaces.
        period_s: Time step of the plant.
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


def walk(robot: str, plant: str, periods: int) -> RecordedWalk:
    """Return `periods` control periods of a straight trot on flat ground, after the first `SETTLING` periods.

    Raises:
        InputError: The robot falls.
    """
    scene = WalkScene.of(WalkConfig(robot=robot, plant=plant, path=WalkPath(kind="command")))
    simulated = scene.simulated()
    moments = [
        Moment(
            state=tick.state,
            reference=tick.reference,
            tau=tick.command.tau,
            after=tick.after,
            pressing=len(tick.forces.identity),
        )
        for tick in itertools.islice(simulated.ticks(SETTLING + periods), SETTLING, None)
    ]
    if moments[-1].state.q[2] < 0.5 * simulated.start.q[2]:
        raise InputError(f"{robot} falls on the plant {plant}; choose a plant on which it walks")

    def machine() -> tuple[System, SphereContacts]:
        observer = scene.observer()
        return observer.system, observer

    return RecordedWalk(
        robot=robot,
        h=scene.period_s,
        moments=moments,
        setup=scene.controller_setup,
        machine=machine,
        feet=tuple(foot.frame for foot in scene.robot.description.feet),
    )


def heap(bodies: int) -> Heap:
    """Return `bodies` balls and boxes above the floor of a container (Castro et al. 2022, section X-C)."""
    parameters = sap.Parameters(tolerance=HEAP_TOLERANCE)
    plant, start = clutter.drop(bodies, walls=True, mu=HEAP_MU, step_s=HEAP_STEP_S, parameters=parameters)
    return Heap(
        plant=plant,
        start=start,
        # a box as wide as a ball weighs nearly twice as much
        round=plant.inertias.mass < 0.75 * clutter.DENSITY_KG_M3 * clutter.SIDE_M**3,
        radius_m=clutter.RADIUS_M,
        side_m=clutter.SIDE_M,
        width_m=clutter.CONTAINER_M,
        wall_m=clutter.WALL_M,
        mu=HEAP_MU,
        period_s=HEAP_STEP_S,
    )


def patch(side: int) -> tuple[System, SphereContacts, State]:
    """Return a box on a plate and its initial state.

    The box slides and turns on side² contacts in a square, then comes to rest.
    """
    system, contacts = free_body(np.diag([0.01, 0.01, 0.015])), side * side
    x, y = np.meshgrid(*2 * [np.linspace(-0.5 * PATCH_M, 0.5 * PATCH_M, side)])
    feet = np.column_stack((x.ravel(), y.ravel(), np.full(contacts, PATCH_FOOT_M - 0.05)))
    ground = SphereContacts(system, ("body",) * contacts, PATCH_FOOT_M, plane(), PATCH_MU, offsets=feet)
    start = State(
        t=0.0, q=np.array([0.0, 0.0, 0.05, 0.0, 0.0, 0.0, 1.0]), v=np.array([PATCH_M_S, 0.0, 0.0, 0.0, 0.0, 1.0])
    )
    return system, ground, start


@dataclass(frozen=True, slots=True, kw_only=True)
class WalkStep:
    """A controller's contact problem at one moment of a walk.

    Attributes:
        step: The assembled control step.
        moment: Index of the moment in the walk.
    """

    step: AssembledStep
    moment: int

    @property
    def problem(self) -> StepProblem:
        """Return the step problem, with the joint velocities prescribed."""
        return problem_of(self.step)


MOST_ROWS = 20_000
"""Limit on the total number of contacts in a set of problems, to bound memory."""


def problems(walk: RecordedWalk, contacts: int | None = None) -> list[WalkStep]:
    """Return the problems of inverse dynamics along a walk.

    Args:
        walk: The walk.
        contacts: Number of contacts per problem (`copied`); only problems in which all feet stand are used. With many
            contacts there are fewer problems (`MOST_ROWS`), but at least two. If None, all problems are used unchanged.
    """
    setup, steps = walk.setup(), []
    controller = InverseDynamics(COULOMB_QP, setup.system, setup.contacts, setup.acceleration_gains, setup.h)
    for moment, each in enumerate(walk.moments):
        steps.append(WalkStep(step=controller.problem(each.state, each.reference), moment=moment))
        controller(each.state, each.reference)
    if contacts is None:
        return steps
    stood = [each for each in steps if len(each.problem.contacts) == len(walk.feet)]
    return [repeated(each, contacts) for each in stood[: max(2, MOST_ROWS // contacts)]]


def repeated(moment: WalkStep, contacts: int) -> WalkStep:
    """Return a control step with `contacts` contacts, as `copied`, without extra weights (`Cones.weight`).

    The step has no warm start.
    """
    problem = copied(moment.problem, contacts)
    mu = problem.contacts.mu
    cones = moment.step.cones._replace(mu=mu, held=np.isinf(mu), weight=np.zeros(contacts))
    return replace(moment, step=step_from_problem(problem, cones, last=moment.step.last))


def copied(problem: StepProblem, contacts: int) -> StepProblem:
    """Return the step with `contacts` contacts: copies of the existing contacts, or only the first of these.

    Zapolsky & Drumwright (2017, section 8.4.2) do the same, "artificially increasing the number of simultaneous
    contacts" under each foot: the motion does not depend on the number of contacts.
    """
    there = len(problem.contacts)
    which = np.sort(np.resize(np.arange(there), contacts))
    taken = problem.contacts.take(which)
    copy = np.arange(contacts) - np.searchsorted(which, which)
    return replace(problem, contacts=replace(taken, identity=taken.identity * MOST_COPIES + copy))
