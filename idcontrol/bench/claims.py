"""Evidence for the torques: claims that physics decides, measured on this computer.

Every claim compares a result of idcontrol with an independent reference: the judge of contact laws, a weight, a
textbook formula, Pinocchio's forward dynamics, torque limits. The tests named by a claim go further, with real robots,
random input and longer runs.
"""

import importlib.util
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pinocchio as pin
from msgspec import structs

from idcontrol import controllers, plants
from idcontrol.bench import judge
from idcontrol.bench.judge.models import MODELS
from idcontrol.bench.problems import machines
from idcontrol.bench.problems.steps import hostile_step, numbered_step
from idcontrol.contact.spheres import SphereContacts
from idcontrol.contact.terrain import plane
from idcontrol.dynamics.system import System
from idcontrol.types import Array, Command, State, Status

EXTRAS: Final = {"mujoco": ("mujoco",)}
"""Modules that each extra installs, for the extras that claims need."""
JUDGED: Final = 200
"""Number of judged random steps, and number of judged hostile steps."""
STIFF: Final = ("coulomb-lcp", "coulomb-cone", "dissipation", "noslip", "constraint")
"""Plants with rigid or nearly rigid contacts."""
NO_JOINTS: Final[Array] = np.zeros(0)
SLOPE: Final = float(np.deg2rad(15.0))


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A statement that physics or arithmetic decides, and its measurement.

    Attributes:
        statement: The claim in words.
        measure: Returns the largest violation; 0 or less if there is none.
        unit: Unit of the violation; "" for a relative violation.
        limit: Largest violation with which the claim holds.
        tests: Files of tests, or single tests, that examine the claim further.
        extra: Extra of idcontrol that the measurement needs; "" if it needs no extra.
        quick: True if `idcontrol doctor` also measures the claim.
    """

    statement: str
    measure: Callable[[], float]
    limit: float
    tests: tuple[str, ...]
    unit: str = ""
    extra: str = ""
    quick: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The result of measuring a claim.

    Attributes:
        claim: The claim.
        figure: The measured violation; NaN without a measurement.
        fault: The error raised by the measurement; "" without an error.
        lacks: The missing extra; "" if none is missing.
    """

    claim: Claim
    figure: float
    fault: str = ""
    lacks: str = ""

    @property
    def holds(self) -> bool:
        """True if the figure is within the limit, or if a missing extra prevented the measurement."""
        return bool(self.lacks) or self.figure <= self.claim.limit

    def as_json(self) -> dict[str, Any]:
        """Return the row of ``idcontrol trust --json``; figure and verdict are None if an extra is missing."""
        claim = self.claim
        return {
            "claim": claim.statement,
            "figure": None if self.lacks else self.figure,
            "holds": None if self.lacks else self.holds,
            "fault": self.fault,
            **{name: getattr(claim, name) for name in ("limit", "unit", "extra", "tests")},
        }


def claim(
    statement: str, limit: float, *tests: str, unit: str = "", extra: str = "", quick: bool = False
) -> Callable[[Callable[[], float]], Claim]:
    """Return a decorator that turns a function into the `Claim` that it measures."""
    return lambda measure: Claim(
        statement=statement, measure=measure, limit=limit, tests=tests, unit=unit, extra=extra, quick=quick
    )


def weigh(item: Claim) -> Verdict:
    """Measure one claim, unless its extra is missing; an error during the measurement counts against the claim."""
    if any(importlib.util.find_spec(name) is None for name in EXTRAS.get(item.extra, ())):
        return Verdict(claim=item, figure=float("nan"), lacks=item.extra)
    try:
        return Verdict(claim=item, figure=float(item.measure()))
    except Exception as error:
        return Verdict(claim=item, figure=float("nan"), fault=f"{type(error).__name__}: {error}")


@claim(
    "random steps are solved, and every answer called solved, even on hostile problems, obeys the law of each contact",
    judge.TOLERANCE,
    "tests/bench/judge/test_hostile.py",
    "tests/models/test_coulomb.py",
)
def unlawful() -> float:
    """Return the largest violation of a model's law by its solutions, scaled per contact.

    The violation is infinite if a model finds no solution of a random forward step (`Status.FALLBACK`), because every
    such step has a solution.
    """
    worst = []
    for number in range(JUDGED):
        random, hostile = numbered_step(number, most_contacts=16), hostile_step(number)
        for problem in (random, hostile):
            for law, solve in MODELS.items():
                solution = solve(problem, None)
                if solution.status is Status.SOLVED:
                    worst.append(judge.violation(law, problem, solution))
                elif solution.status is Status.FALLBACK and problem is random and problem.prescribed is None:
                    return float(np.inf)
    return float(np.max(worst))  # here and below not Python's `max`, which may ignore a NaN


# the compliant contacts of id-coulomb-qp-1, id-sap and id-constraint let the machine sink a little
@claim(
    "the forces that controllers predict at rest carry the weight",
    1e-3,
    "tests/controllers/test_inverse.py",
    quick=True,
)
def missed_weight_predicted() -> float:
    """Return the largest difference between the predicted forces at rest and the weight, relative to the weight."""
    worst, weight = [], machines.WALKER_MASS * machines.G
    for name in machines.task_controllers():
        predicted = machines.first_command(name).predicted
        total = np.zeros(3) if predicted is None else predicted.force.sum(axis=0)
        worst.append(np.abs(total - [0.0, 0.0, weight]).max() / weight)
    return float(np.max(worst))


@claim(
    "joints accelerate as demanded in Pinocchio's forward dynamics with the predicted forces",
    1e-6,
    "tests/controllers/test_inverse.py",
    "tests/peers/test_quadruped.py",
    unit="m/s²",
    quick=True,
)
def missed_acceleration() -> float:
    """Return the largest error of joint accelerations [m/s²] in Pinocchio's forward dynamics with the predicted forces.

    At first the trunk moves and the feet are at rest. With no-slip controllers the trunk starts at rest, because these
    ignore the part of the demand that fixed feet cannot follow.
    """
    wanted, speed = np.tile([-0.5, 0.3, -0.8], 4), np.array([0.2, -0.3, 0.1, 0.8, -0.5, 1.0])
    system, contacts = machines.walker()
    at_rest = machines.walker_state(system)
    system.update(at_rest.q, at_rest.v)
    trunk, legs = np.split(contacts.detect(np.inf).jacobian, [6], axis=1)
    moving = np.concatenate((speed, np.linalg.solve(legs, -trunk @ speed)))
    worst = []
    for name in machines.task_controllers():
        v = np.zeros(18) if "noslip" in name else moving
        control, _ = machines.controller(name, settings=controllers.InverseSettings(project=False))
        state = structs.replace(at_rest, v=system.to_pinocchio(v))
        reference = structs.replace(machines.standing(wanted), v=v[6:])
        got = _under_predicted_forces(control(state, reference), system, contacts, state)
        worst.append(np.abs(got[6:] - wanted).max())
    return float(np.max(worst))


def _under_predicted_forces(command: Command, system: System, contacts: SphereContacts, state: State) -> Array:
    """Return Pinocchio's acceleration (m,) under a command's torques and forces, in the order of `System.order`."""
    model, data = system.model, system.model.createData()
    system.update(state.q, state.v)
    contacts.detect(np.inf)
    pin.forwardKinematics(model, data, state.q)
    outside = pin.StdVec_Force()
    for _ in range(model.njoints):
        outside.append(pin.Force.Zero())
    if command.predicted is not None:
        for foot, force in zip(command.predicted.identity, command.predicted.force, strict=True):
            joint = model.getJointId(f"leg{foot}_z")
            at_world = pin.Force(force, np.cross(contacts.point[foot], force))
            outside[joint] += data.oMi[joint].actInv(at_world)
    torque = np.zeros(18)
    torque[system.order[6:]] = command.tau
    return pin.aba(model, data, state.q, state.v, torque, outside)[system.order]


@claim(
    "torque limits hold whatever is demanded",
    0.0,
    "tests/controllers/test_inverse.py",
    "tests/test_long_runs.py",
    unit="N m",
)
def torque_excess() -> float:
    """Return the largest torque under absurd demands minus its limit [N m]; zero or negative if all limits hold."""
    limit, rng, predicting = 12.0, np.random.default_rng(1), machines.task_controllers()
    torques = [
        machines.first_command(name, acceleration=size * rng.normal(size=12), limit=limit).tau
        for name in predicting
        for size in (1e2, 1e4, 1e6)
    ]
    for name in (name for name in controllers.available() if name not in predicting):
        control, state = machines.controller(name, limit=limit)
        far = structs.replace(machines.standing(1e4 * rng.normal(size=12)), q=1e4 * rng.normal(size=12))
        torques.append(control(state, far).tau)
    return float(np.max([np.abs(tau).max() - limit for tau in torques]))


def _missed_weight(*names: str, steps: int = 100) -> float:
    """Return the largest error of the ground's forces on a resting sled, relative to its weight."""
    worst, weight = [], machines.SLED_MASS * machines.G
    for name in names:
        plant = plants.build(name, machines.sled(plane(), machines.HOLDING))
        plant.reset(machines.sled_state())
        for _ in range(steps):
            plant.step(NO_JOINTS, machines.H)
        worst.append(np.abs(plant.contact_forces().force.sum(axis=0) - [0.0, 0.0, weight]).max() / weight)
    return float(np.max(worst))


@claim("a body at rest presses with its weight", 1e-6, "tests/plants/test_every_plant.py", quick=True)
def missed_weight_pressed() -> float:
    """Return the largest error of the forces under a resting sled on the stiff plants, relative to its weight."""
    return _missed_weight(*STIFF)


# MuJoCo's soft contact reaches the weight within a thousandth
@claim("in MuJoCo the same body presses with its weight", 1e-3, "tests/peers/test_bodies.py", extra="mujoco")
def missed_weight_in_mujoco() -> float:
    """Return the largest error of the forces under a resting sled in MuJoCo, relative to its weight."""
    return _missed_weight("mujoco", steps=500)


@claim(
    "a body slides down a slope with the acceleration g (sin θ - μ cos θ)",
    1e-6,
    "tests/plants/test_every_plant.py",
    quick=True,
)
def missed_slide() -> float:
    """Return the relative error of the distance slid down a slope, compared with ½ g (sin θ - μ cos θ) n (n + 1) h²."""
    steps, mu = 300, machines.SLIDING
    downhill = np.array([np.cos(SLOPE), 0.0, -np.sin(SLOPE)])
    plant = plants.build("coulomb-lcp", machines.sled(plane((np.sin(SLOPE), 0.0, np.cos(SLOPE))), mu))
    start = state = plant.reset(machines.sled_state(SLOPE))
    for _ in range(steps):
        state = plant.step(NO_JOINTS, machines.H)
    # velocities are stepped before positions, so the sum n (n + 1) h² / 2 replaces the textbook's t² / 2
    expected = 0.5 * machines.G * (np.sin(SLOPE) - mu * np.cos(SLOPE)) * machines.H**2 * steps * (steps + 1)
    return float(abs(downhill @ (state.q[:3] - start.q[:3]) / expected - 1.0))


CLAIMS: Final[Mapping[str, tuple[Claim, ...]]] = {
    "models": (unlawful,),
    "controllers": (missed_weight_predicted, missed_acceleration, torque_excess),
    "plants": (missed_weight_pressed, missed_weight_in_mujoco, missed_slide),
}
"""All claims by part of the library."""
