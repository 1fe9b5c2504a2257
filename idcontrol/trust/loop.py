"""Measures the claims on the loop: damaged datagrams, the safety gate for torques, the brake.

The brake is measured on a flywheel, whose motion has a closed form.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import Any, Final

import msgspec
import numpy as np
import pinocchio as pin

from idcontrol import controllers
from idcontrol.config.configuration import Duration, Rate
from idcontrol.contact.spheres import SphereContacts
from idcontrol.contact.terrain import plane
from idcontrol.dynamics.system import System
from idcontrol.loop import launch
from idcontrol.loop.safety import Limits, Mode, Policy, admit
from idcontrol.loop.session import Session
from idcontrol.loop.wire import Inbox, Kind, Outbox
from idcontrol.problems import machines
from idcontrol.record.recording import load
from idcontrol.robots.schema import MachineOrder
from idcontrol.trust.claims import claim
from idcontrol.types import Array, Command, ContactForces, Plant, Reference, State

INERTIA: Final = 0.2
"""Moment of inertia of the flywheel about its axis [kg m²]."""
DAMPING: Final = 0.5
"""Damping of the flywheel's brake [N m s/rad]."""
TORQUE: Final = 3.0
"""Torque limit of the flywheel's motor [N m]."""
PUSH: Final = 1.5
"""Torque with which the flywheel is driven [N m]."""
SLOWED: Final = 1.0 / (1.0 + machines.H * DAMPING / INERTIA)
"""Speed after a period of braking, relative to that before: the implicit damper I (v⁺ - v) = -h D v⁺."""


class FlywheelConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything that decides a run of the flywheel."""

    controller: str = f"{__name__}:ConstantPush"
    rate_hz: Rate = 1.0 / machines.H
    duration_s: Duration = 0.2


class ConstantPush:
    """A controller that always asks for `PUSH`."""

    def reset(self) -> None:
        """Do nothing: no call depends on an earlier one."""

    def __call__(self, state: State, reference: Reference) -> Command:
        """The torque."""
        return Command(tau=np.array([PUSH]))


class HeldStill:
    """A planner that always asks for rest at zero."""

    def reset(self, state: State) -> None:
        """Do nothing: no call depends on an earlier one."""

    def __call__(self, state: State) -> Reference:
        """The reference."""
        return Reference.standing(np.zeros(1), 0)

    def notes(self) -> Array:
        """No number is noted."""
        return np.zeros(0)


class FreeWheel:
    """A plant: the flywheel, on which nothing acts but its motor."""

    def __init__(self) -> None:
        self._state = State(t=0.0, q=np.zeros(1), v=np.zeros(1))

    def reset(self, state: State) -> State:
        """Start from `state`."""
        self._state = state
        return state

    def step(self, tau: Array, dt: float) -> State:
        """Hold `tau`, shape (1,) [N m], for `dt` [s]."""
        v = self._state.v + dt * tau / INERTIA
        self._state = State(t=self._state.t + dt, q=self._state.q + dt * v, v=v)
        return self._state

    def contact_forces(self) -> ContactForces:
        """There is no contact."""
        return ContactForces.none()


class Flywheel:
    """The session of a loop with the flywheel (`idcontrol.loop.session.Session`)."""

    robot: str = "flywheel"
    feet: tuple[str, ...] = ()
    notes: int = 0
    orders: Mapping[str, MachineOrder] = MappingProxyType({})
    lying: State | None = None

    def __init__(self) -> None:
        model = pin.Model()
        joint = model.addJoint(0, pin.JointModelRZ(), pin.SE3.Identity(), "axle")
        model.appendBodyToJoint(joint, pin.Inertia(1.0, np.zeros(3), INERTIA * np.eye(3)), pin.SE3.Identity())
        self.system = System(model, effort_limit=np.array([TORQUE]))
        self.start = State(t=0.0, q=np.zeros(1), v=np.zeros(1))
        free = np.array([np.inf])
        self.limits = Limits(
            torque=np.array([TORQUE]), torque_rate=free, low=-free, high=free, speed=free, damping=np.array([DAMPING])
        )

    def planner(self) -> HeldStill:
        """The planner."""
        return HeldStill()

    def setup(self) -> controllers.Setup:
        """The setup of its controllers."""
        nothing = SphereContacts(self.system, (), machines.FOOT, plane(), machines.SLIDING)
        return controllers.Setup(system=self.system, contacts=nothing, h=machines.H)

    def plant(self, dt: float) -> Plant:
        """The wheel."""
        return FreeWheel()

    def between(self) -> None:
        """It neither stands nor lies."""

    def channels(self) -> tuple[dict[str, tuple[int, ...]], dict[str, str]]:
        """The channels that are recorded, and their units."""
        return {"t": (), "q": (1,), "v": (1,), "tau": (1,), "step_us": ()}, {"t": "s", "tau": "N m"}

    def derive(self, row: Mapping[str, Array]) -> Mapping[str, Any]:
        """No further channel."""
        return {}

    def meta(self) -> dict[str, Any]:
        """The name of the experiment."""
        return {"experiment": "flywheel"}

    def metrics(self, arrays: dict[str, Array]) -> dict[str, Any]:
        """Number of rows."""
        return {"steps": len(arrays["t"])}


class FlywheelLoop:
    """The flywheel as an experiment of `idcontrol.loop.launch`."""

    presets: Final = MappingProxyType({"default": FlywheelConfig()})

    def session(self, config: FlywheelConfig) -> Session:
        """A new session."""
        return Flywheel()


flywheel = FlywheelLoop()
TARGET: Final = f"{__name__}:flywheel"


@claim(
    "a datagram with a flipped bit, or cut short, is dropped", 0.0, "tests/loop/test_wire.py", unit="datagrams accepted"
)
def accepted_damage() -> float:
    """Number of accepted datagrams among those with a flipped bit or a missing end."""
    sender = Outbox(Kind.COMMAND, "walker", 12, 7)
    sender.values[:] = np.random.default_rng(0).normal(size=12)
    data = bytes(sender.seal(0, 1, 2))
    low = np.full(12, -1e300)
    taken = 0
    for at in range(len(data)):
        turned = [data[:at] + bytes([data[at] ^ (1 << bit)]) + data[at + 1 :] for bit in range(8)]
        for damaged in (*turned, data[:at]):
            taken += Inbox(Kind.COMMAND, "walker", low, -low).accept(damaged) is not None
    if Inbox(Kind.COMMAND, "walker", low, -low).accept(data) is None:
        raise ArithmeticError("a sound datagram is refused")
    return float(taken)


def _limits(rng: np.random.Generator) -> Limits:
    return Limits(
        torque=rng.uniform(1.0, 50.0, 12),
        torque_rate=rng.uniform(1.0, 5e3, 12),
        low=rng.uniform(-1.0, -0.5, 12),
        high=rng.uniform(0.5, 1.0, 12),
        speed=rng.uniform(1.0, 10.0, 12),
        damping=10.0 ** rng.uniform(-2.0, 6.0, 12),
    )


@claim("no torque leaves the safety gate beyond its limit or its largest rate", 1e-12, "tests/loop/test_safety.py")
def passed_excess() -> float:
    """Largest excess of torques behind the gate over their limit or largest rate, relative to the limit.

    Of torques far beyond both, and of torques within a hundredth of the limit, or of the largest rate.
    """
    rng, worst = np.random.default_rng(0), []
    for trial in range(2000):
        limits = _limits(rng)
        last = rng.uniform(-1.0, 1.0, 12) * limits.torque
        around, side = rng.uniform(0.99, 1.01, 12), rng.choice([-1.0, 1.0], 12)
        if trial % 3 == 0:
            wanted = side * around * limits.torque
            last = wanted * rng.uniform(0.9999, 1.0, 12) / np.maximum(1.0, around)
        elif trial % 3 == 1:
            wanted = last + side * around * limits.torque_rate * machines.H
        else:
            wanted = 10.0 ** rng.uniform(0.0, 6.0) * rng.normal(size=12)
        share = 1.0 if trial % 3 < 2 else rng.uniform()
        out = np.empty(12)
        q, v = rng.uniform(-2.0, 2.0, 12), 10.0 * rng.normal(size=12)
        admit(limits, wanted, last, q, v, share, machines.H, out)
        worst += [
            np.max(np.abs(out) / limits.torque) - 1.0,
            np.max((np.abs(out - last) - limits.torque_rate * machines.H) / limits.torque),
        ]
    return float(np.max(worst))


@claim("a loop that ends brakes its machine", 1e-9, "tests/loop/test_faults.py", "tests/loop/test_launch.py")
def missed_braking() -> float:
    """Return the largest relative miss of ``v / (1 + h D / I)``, a flywheel's speed after a period of braking.

    It is taken in a loop that has ended: from the machine's speeds, and from the torques that the loop sends.
    """
    with TemporaryDirectory() as parent:
        how = launch.LoopSettings(transport="inprocess", pacing="fast", policy=Policy(damp_s=0.1))
        launch.run(TARGET, FlywheelConfig(), how, Path(parent))
        body, loop = load(Path(parent) / "machine").arrays, load(parent).arrays
    at = np.flatnonzero(body["mode"] == Mode.DAMPED)
    ended = np.flatnonzero(loop["mode"] == Mode.DAMPED)
    if min(at.size, ended.size) < 40:
        raise ArithmeticError("a machine that should be damped is not")
    speeds = body["v"][at, 0] / (body["v"][at - 1, 0] * SLOWED)
    torques = loop["tau"][ended, 0] / (-DAMPING * loop["v"][ended, 0] * SLOWED)
    return float(np.abs(np.concatenate((speeds, torques)) - 1.0).max())
