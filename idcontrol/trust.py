"""Why one may believe a torque: claims that physics decides, each measured anew on this machine.

Every claim compares what idcontrol computes with something that does not come from idcontrol: a weight, a formula of
the school book, the same bits twice. The machines are built here, so that nothing but the library is needed; the tests
that a claim names go further, on real robots and against other engines.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pinocchio as pin

from idcontrol import controllers, plants
from idcontrol.contact.spheres import SphereContacts
from idcontrol.contact.terrain import Terrain, plane
from idcontrol.system import System
from idcontrol.types import Array, Command, ContactForces, Reference, State

H = 1e-3
"""Period of every control and plant step here [s]."""
G = 9.81
SLIDING = 0.2
"""Friction of what is to slide; what is to stand has `HOLDING`."""
HOLDING = 0.7
SLOPE = np.deg2rad(15.0)

STIFF = ("coulomb-lcp", "dissipation", "noslip", "constraint")
"""Plants whose contacts do not give way, or by less than a millionth."""
CONES = ("coulomb-lcp", "dissipation")
"""Rigid plants with friction that ends in a cone."""
EXACT = ("id-noslip-lcp", "id-coulomb-lcp", "id-coulomb-smooth", "id-coulomb-qp", "id-coulomb-qp-raw", "id-noslip-qp")
"""Controllers whose contacts do not give way."""
PREDICTING = (*EXACT, "id-coulomb-qp-1", "id-sap", "id-constraint")


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """Something that physics decides, and how to see it.

    Attributes:
        statement: What is claimed.
        measure: By how much it is missed, at worst; 0 is not at all.
        unit: Of that figure; "" for a relative one.
        limit: The largest figure with which the claim holds.
        test: The tests that ask for more of the same.
        quick: Whether `idcontrol doctor` asks for it, too.
    """

    statement: str
    measure: Callable[[], float]
    limit: float
    test: str
    unit: str = ""
    quick: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What became of a claim.

    Attributes:
        claim: The claim.
        figure: What was measured; NaN where that failed.
        fault: Why it failed; "" where it did not.
    """

    claim: Claim
    figure: float
    fault: str = ""

    @property
    def holds(self) -> bool:
        """Whether the figure is within the limit."""
        return self.figure <= self.claim.limit


def weigh(claim: Claim) -> Verdict:
    """Measure one claim; whatever goes wrong meanwhile counts against it."""
    try:
        return Verdict(claim=claim, figure=float(claim.measure()))
    except Exception as error:
        return Verdict(claim=claim, figure=float("nan"), fault=f"{type(error).__name__}: {error}")


SLED_MASS = 2.0
_SLED_FEET = np.array([[x, y, -0.05] for x in (0.15, -0.15) for y in (0.1, -0.1)])
_BALL = 0.02


def sled(name: str, mu: float, ground: Terrain) -> plants.SimulatedPlant:
    """A plant with one body on four ball feet; its inertia is a ball's, so that its spin takes no torque."""
    model = pin.Model()
    joint = model.addJoint(0, pin.JointModelFreeFlyer(), pin.SE3.Identity(), "sled")
    model.appendBodyToJoint(joint, pin.Inertia(SLED_MASS, np.zeros(3), 0.02 * np.eye(3)), pin.SE3.Identity())
    model.addJointFrame(joint)
    system = System(model, actuated=())
    contacts = SphereContacts(system, ("sled",) * 4, _BALL, ground, mu, offsets=_SLED_FEET)
    return plants.make(name, plants.Setup(system=system, contacts=contacts, dt=H))


def sled_state(slope: float, v: Array | None = None) -> State:
    """The sled with its feet on a plane that falls along x by `slope` [rad]."""
    height = 0.05 + _BALL
    q = np.array([height * np.sin(slope), 0.0, height * np.cos(slope), 0.0, np.sin(slope / 2), 0.0, np.cos(slope / 2)])
    return State(t=0.0, q=q, v=np.zeros(6) if v is None else v)


LEG = 0.3
"""Height of the walker's trunk above the centres of its feet [m]."""
_FOOT = 0.02
WALKER_MASS = 4.0 + 4 * 0.6


def walker(limit: float = 1e3) -> tuple[System, SphereContacts]:
    """A trunk on four legs of three sliding joints each, limited to `limit` [N], over level ground."""
    model = pin.Model()
    trunk = model.addJoint(0, pin.JointModelFreeFlyer(), pin.SE3.Identity(), "trunk")
    model.appendBodyToJoint(trunk, pin.Inertia(4.0, np.zeros(3), np.diag([0.03, 0.06, 0.07])), pin.SE3.Identity())
    slides = {"x": pin.JointModelPX, "y": pin.JointModelPY, "z": pin.JointModelPZ}
    tips: list[str] = []
    for x, y in ((0.2, 0.12), (0.2, -0.12), (-0.2, 0.12), (-0.2, -0.12)):
        parent, placement = trunk, pin.SE3(np.eye(3), np.array([x, y, -LEG]))
        for axis, kind in slides.items():
            tip = f"leg{len(tips)}_{axis}"
            parent = model.addJoint(parent, kind(), placement, tip)
            model.appendBodyToJoint(parent, pin.Inertia(0.2, np.zeros(3), 1e-4 * np.eye(3)), pin.SE3.Identity())
            placement = pin.SE3.Identity()
        model.addJointFrame(parent)
        tips.append(tip)
    system = System(model, effort_limit=np.full(12, limit))
    return system, SphereContacts(system, tips, _FOOT, plane(), HOLDING)


def walker_state(system: System) -> State:
    """The walker at rest on its four feet."""
    q = system.configuration(np.zeros(12), np.array([0.0, 0.0, LEG + _FOOT, 0.0, 0.0, 0.0, 1.0]))
    return State(t=0.0, q=q, v=np.zeros(18))


def first_command(name: str, *, acceleration: Array | None = None, limit: float = 1e3) -> Command:
    """What a controller answers when the walker stands and its joints are asked for `acceleration` (12,) [m/s²]."""
    system, contacts = walker(limit)
    control = controllers.make(name, controllers.Setup(system=system, contacts=contacts, h=H))
    standing = Reference.standing(np.zeros(12), 4)
    return control(walker_state(system), standing if acceleration is None else replace(standing, a=acceleration))


# Below, the worst of several figures is taken by NumPy: unlike Python's `max` it passes no NaN over.


def _off_weight(forces: ContactForces | None, weight: float) -> float:
    """By how much, relative, the sum of forces differs from what holds `weight` [N]."""
    total = np.zeros(3) if forces is None else forces.force.sum(axis=0)
    return float(np.abs(total - [0.0, 0.0, weight]).max() / weight)


def _resting_weight() -> float:
    misses = []
    for name in STIFF:
        plant = sled(name, HOLDING, plane())
        plant.reset(sled_state(0.0))
        for _ in range(100):
            plant.step(np.zeros(0), H)
        misses.append(_off_weight(plant.contact_forces(), SLED_MASS * G))
    return float(np.max(misses))


def _sliding_distance() -> float:
    steps = 300
    downhill = np.array([np.cos(SLOPE), 0.0, -np.sin(SLOPE)])
    plant = sled("coulomb-lcp", SLIDING, plane((np.sin(SLOPE), 0.0, np.cos(SLOPE))))
    start = state = plant.reset(sled_state(SLOPE))
    for _ in range(steps):
        state = plant.step(np.zeros(0), H)
    # velocities first, then positions: the steps' sum is n (n + 1) h² / 2 where the school book has t² / 2
    expected = 0.5 * G * (np.sin(SLOPE) - SLIDING * np.cos(SLOPE)) * H**2 * steps * (steps + 1)
    return float(abs(downhill @ (state.q[:3] - start.q[:3]) / expected - 1.0))


def _thrown(name: str) -> tuple[float, float]:
    """Largest excess of friction over the cone, and largest gain of energy in a step; both in shares."""
    plant = sled(name, SLIDING, plane())
    state = plant.reset(sled_state(0.0, np.array([0.5, 0.3, 0.0, 0.3, -0.4, 1.0])))
    excess, energies = [0.0], []
    for _ in range(300):
        state = plant.step(np.zeros(0), H)
        force = plant.contact_forces()
        pressure = np.einsum("ij,ij->i", force.force, force.normal)
        along = np.linalg.norm(force.force - pressure[:, None] * force.normal, axis=1)
        excess += list((along - SLIDING * pressure) / (SLED_MASS * G))
        v = state.v
        energies.append(0.5 * (SLED_MASS * v[:3] @ v[:3] + 0.02 * v[3:] @ v[3:]) + SLED_MASS * G * state.q[2])
    gain = np.diff(energies) / (energies[0] - energies[-1])
    return float(np.max(excess)), float(np.max([0.0, *gain]))


def _friction_cone() -> float:
    return float(np.max([_thrown(name)[0] for name in CONES]))


def _energy_gain() -> float:
    return float(np.max([_thrown(name)[1] for name in CONES]))


def _predicted_weight() -> float:
    return float(np.max([_off_weight(first_command(name).predicted, WALKER_MASS * G) for name in PREDICTING]))


def _delivered_acceleration() -> float:
    """The trunk is to be pushed off by all legs alike, feet at rest: what the joints do under those torques."""
    wanted = np.tile([-0.5, 0.3, -0.8], 4)
    misses = []
    for name in EXACT:
        system, contacts = walker()
        plant = plants.make("coulomb-lcp", plants.Setup(system=system, contacts=contacts, dt=H))
        plant.reset(walker_state(system))
        after = plant.step(first_command(name, acceleration=wanted).tau, H)
        misses.append(np.abs(system.joint_velocities(after.v) / H - wanted).max())
    return float(np.max(misses))


def _torque_excess() -> float:
    """By how much a torque exceeds its limit under absurd demands; negative below it."""
    limit, excess = 12.0, []
    rng = np.random.default_rng(0)
    for name in PREDICTING:
        for size in (1e2, 1e4, 1e6):
            command = first_command(name, acceleration=size * rng.normal(size=12), limit=limit)
            excess.append(np.abs(command.tau).max() - limit)
    return float(np.max(excess))


def _differing_bits() -> float:
    def run() -> Array:
        system, contacts = walker()
        control = controllers.make("id-coulomb-qp", controllers.Setup(system=system, contacts=contacts, h=H))
        own, ground = walker()
        plant = plants.make("coulomb-lcp", plants.Setup(system=own, contacts=ground, dt=H))
        state = plant.reset(walker_state(own))
        reference = Reference.standing(0.005 * np.random.default_rng(0).normal(size=12), 4)
        rows = []
        for _ in range(100):
            tau = control(state, reference).tau
            state = plant.step(tau, H)
            rows.append(np.concatenate((tau, state.q, state.v)))
        return np.array(rows)

    return float(np.count_nonzero(run() != run()))


CLAIMS = (
    Claim(
        statement="a body at rest presses with its weight",
        measure=_resting_weight,
        limit=1e-6,
        test="tests/plants/test_every_plant.py, tests/peers",
        quick=True,
    ),
    Claim(
        statement="a body slides down a slope as g (sin θ - μ cos θ) says",
        measure=_sliding_distance,
        limit=1e-6,
        test="tests/plants/test_every_plant.py, tests/peers",
        quick=True,
    ),
    Claim(
        statement="friction stays in its cone",
        measure=_friction_cone,
        limit=1e-9,
        test="tests/plants, tests/models, tests/fuzz",
    ),
    Claim(
        statement="contact gives no energy",
        measure=_energy_gain,
        limit=1e-6,
        test="tests/plants/test_every_plant.py",
    ),
    Claim(
        statement="the forces that controllers predict at rest carry the weight",
        measure=_predicted_weight,
        # contacts of id-coulomb-qp-1, id-sap and id-constraint give way, and the machine falls that much slower
        limit=1e-3,
        test="tests/controllers/test_inverse.py, tests/peers",
        quick=True,
    ),
    Claim(
        statement="joints accelerate as was asked under the torques for it",
        measure=_delivered_acceleration,
        unit="m/s²",
        limit=1e-6,
        test="tests/models, tests/controllers/test_inverse.py",
        quick=True,
    ),
    Claim(
        statement="torque limits hold whatever is asked",
        measure=_torque_excess,
        unit="N",
        limit=0.0,
        test="tests/controllers/test_inverse.py, tests/fuzz",
    ),
    Claim(
        statement="two equal runs give equal bits",
        measure=_differing_bits,
        unit="numbers that differ",
        limit=0.0,
        test="tests/test_determinism.py",
    ),
)
