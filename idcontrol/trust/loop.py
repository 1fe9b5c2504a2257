"""Measures the claims on the loop: datagrams and their units, the safety gate for torques, the brake, the recorder.

They are measured on a flywheel, whose motion has a closed form, and on a sled that slides on level ground.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import Any, Final

import msgspec
import numpy as np
import pinocchio as pin

from idcontrol import controllers, plants
from idcontrol.config.configuration import Duration, Rate
from idcontrol.contact.spheres import SphereContacts
from idcontrol.contact.terrain import plane
from idcontrol.dynamics.system import System
from idcontrol.loop import jobs, launch, machine, real
from idcontrol.loop.brake import brake
from idcontrol.loop.clock import NS, Beat
from idcontrol.loop.machine import Machine
from idcontrol.loop.memory import anonymous
from idcontrol.loop.record import Ending
from idcontrol.loop.ring import Ring, ring_bytes
from idcontrol.loop.safety import Limits, Mode, Policy, admit
from idcontrol.loop.session import Session, wire_format
from idcontrol.loop.transport import inprocess
from idcontrol.loop.wire import Inbox, Kind, Outbox, SessionNumbers
from idcontrol.record.channels import views, width
from idcontrol.record.recording import load
from idcontrol.robots.schema import MachineOrder
from idcontrol.trust import machines
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
        self.limits = _free_limits(np.array([TORQUE]), np.array([DAMPING]))

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


class SlidingSled(Flywheel):
    """The session of a sled without motors that has been pushed, whose ground force and deceleration are known."""

    robot = "sled"
    feet: tuple[str, ...] = ("body",) * 4

    def __init__(self) -> None:
        self._ground = machines.sled(plane(), machines.SLIDING)
        self.system = self._ground.system
        self.start = machines.sled_state(v=np.array([1.0, 0.0, 0.0, 0.0, 0.0, 0.0]))
        self.limits = _free_limits(np.zeros(0), np.zeros(0))

    def plant(self, dt: float) -> Plant:
        """The sled on its ground."""
        return plants.build("coulomb-lcp", self._ground)


class FlywheelLoop:
    """The flywheel as an experiment of `idcontrol.loop.launch`."""

    presets: Final = MappingProxyType({"default": FlywheelConfig()})

    def session(self, config: FlywheelConfig) -> Session:
        """A new session."""
        return Flywheel()


flywheel = FlywheelLoop()
TARGET: Final = f"{__name__}:flywheel"


def _free_limits(torque: Array, damping: Array) -> Limits:
    free = np.full_like(torque, np.inf)
    return Limits(torque=torque, torque_rate=free, low=-free, high=free, speed=free, damping=damping)


def _command(robot: str, mode: Mode, sequence: int, tau: Array) -> bytes:
    """A command, written byte by byte as `idcontrol.loop.wire` describes it."""
    crc = zlib.crc32
    head = struct.pack("<4sHHII", b"IDC2", 1, mode, crc(robot.encode()), 9)
    head += struct.pack("<QqQI", sequence, sequence, 0, 5 * tau.size)
    values = struct.pack(f"<{5 * tau.size}d", *tau, *np.zeros(4 * tau.size))
    return head + struct.pack("<I", crc(head + values)) + values


def _conversation(session: Session, modes: Sequence[Mode | None], tau: Array) -> Iterator[tuple[Mode, int, Array]]:
    """Mode, stamp [ns] and values of a machine's datagrams, one a period, when it is sent these modes with `tau`.

    It is sent nothing where the mode is None.
    """
    here, there = inprocess.pair()
    numbers = SessionNumbers(own=1)
    body = Machine(there, session.plant(machines.H), session, period_s=machines.H, numbers=numbers)
    period = round(machines.H * NS)
    for k, mode in enumerate(modes, 1):
        if mode is not None:
            here.send(memoryview(_command(session.robot, mode, k, tau)))
        body.tick(Beat(index=k, due=k * period, woke=k * period))
        data = here.receive()
        assert data is not None
        told, stamp = struct.unpack_from("<H", data, 6)[0], struct.unpack_from("<q", data, 24)[0]
        yield Mode(told), stamp, np.array(struct.unpack_from(f"<{(len(data) - 48) // 8}d", data, 48))


def wrong_units() -> float:
    """Largest relative difference of a field of datagrams from what physics says that it must be.

    A flywheel that is driven, and a sled that slides: time, positions, velocities, torques, specific force, contact
    forces, normals and stamps are read from the bytes, and a torque is written into them, as the description has it.
    """
    steps, h, g = 50, machines.H, machines.G
    worst = []
    driven = _conversation(Flywheel(), [Mode.IDLE] + [Mode.RUNNING] * (steps + 1), np.array([PUSH]))
    moving = [(stamp, values) for mode, stamp, values in driven if mode is Mode.RUNNING]
    for k, (stamp, values) in enumerate(moving, 1):
        v = k * h * PUSH / INERTIA
        q = h * (k + 1) / 2.0 * v
        expected = np.array([k * h, q, v, PUSH, 0.0, 0.0, 0.0])
        worst.append(np.abs(values[:7] / np.where(expected == 0.0, 1.0, expected) - (expected != 0.0)).max())
        worst.append(abs(values[-2] / zlib.crc32(",".join(Flywheel().system.actuated_names).encode()) - 1.0))
        worst.append(abs((stamp - moving[0][0]) - (k - 1) * h * 1e9) * 1e-9 / h)
    slides = _conversation(SlidingSled(), [Mode.IDLE] + [Mode.RUNNING] * (steps + 1), np.zeros(0))
    for k, (_, _, values) in enumerate((told for told in slides if told[0] is Mode.RUNNING), 1):
        position, velocity, felt = values[1:4], values[8:11], values[14:17]
        forces, normals = values[17:41].reshape(2, 4, 3)
        slowed = 1.0 - machines.SLIDING * g * k * h
        way = h * (k - machines.SLIDING * g * h * k * (k + 1) / 2.0)
        pull = np.array([-machines.SLIDING * g, 0.0, g])
        worst += [
            abs(values[0] / (k * h) - 1.0),
            abs(position[0] / way - 1.0),
            np.abs(velocity - [slowed, 0.0, 0.0]).max(),
            np.abs(felt - pull).max() / g,
            np.abs(forces.sum(axis=0) / machines.SLED_MASS - pull).max() / g,
            np.abs(normals[forces[:, 2] > 0.0] - [0.0, 0.0, 1.0]).max(),
        ]
    if len(worst) != 3 * (steps + 1) + 6 * (steps + 1):
        raise ArithmeticError("a machine that was told to run did not")
    return float(np.max(worst))


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


def applied_excess() -> float:
    """Largest excess of a torque that a machine applies over its limit [N m], when it is sent more than that."""
    session, worst = Flywheel(), []
    for factor in (1.001, 2.0, 1e6, -1.001, np.inf):
        modes = [Mode.IDLE] + [Mode.RUNNING] * 10
        for _, _, values in _conversation(session, modes, np.array([factor * TORQUE])):
            speed, applied = values[2], values[3]
            worst += [abs(applied) - TORQUE, abs(speed) - 10 * machines.H * TORQUE / INERTIA]
    return float(np.max(worst))


def energy_of_the_brake() -> float:
    """Largest relative growth of kinetic energy in a period of the brake, with any damping, if nothing else acts."""
    rng, worst = np.random.default_rng(0), []
    system, _ = machines.walker()
    at_home = machines.walker_state(system)
    for _ in range(200):
        limits = replace(_limits(rng), torque=np.full(12, np.inf))
        v = rng.normal(size=18)
        tau = brake(system, limits, msgspec.structs.replace(at_home, v=v), machines.H)
        system.update(at_home.q, v)
        now = system.from_pinocchio(v)
        push = np.concatenate((np.zeros(6), tau))
        after = now + machines.H * np.linalg.solve(system.M, push)
        worst.append(after @ system.M @ after / (now @ system.M @ now) - 1.0)
    return float(np.max(worst))


def missed_braking() -> float:
    """Largest relative difference of a flywheel's speed from ``v / (1 + h D / I)`` after each period of braking.

    In a loop that has ended, as the machine and as the loop's own torques have it; in a machine that was told to brake;
    and in one that hears nothing any more.
    """
    found: list[tuple[Array, Array]] = []
    running = [Mode.IDLE] + [Mode.RUNNING] * 50
    for ending in ([Mode.DAMPED] * 50, [None] * 70):
        told = list(_conversation(Flywheel(), [*running, *ending], np.array([PUSH])))
        speed = np.array([values[2] for _, _, values in told])
        damped = np.array([mode is Mode.DAMPED for mode, _, _ in told])
        at = np.flatnonzero(damped)
        found.append((speed[at], speed[at - 1] * SLOWED))
    with TemporaryDirectory() as parent:
        how = launch.LoopSettings(transport="inprocess", pacing="fast", policy=Policy(damp_s=0.1))
        launch.run(TARGET, FlywheelConfig(), how, Path(parent))
        body, loop = load(Path(parent) / "machine").arrays, load(parent).arrays
    at = np.flatnonzero(body["mode"] == Mode.DAMPED)
    found.append((body["v"][at, 0], body["v"][at - 1, 0] * SLOWED))
    at = np.flatnonzero(loop["mode"] == Mode.DAMPED)
    found.append((loop["tau"][at, 0], -DAMPING * loop["v"][at, 0] * SLOWED))
    if any(len(speed) < 40 for speed, _ in found):
        raise ArithmeticError("a machine that should be damped is not")
    return float(np.max([np.abs(speed / expected - 1.0).max() for speed, expected in found]))


def rows_lost_by_the_recorder() -> float:
    """Number of rows of a loop and of its machine that its recorder, a process of its own, has lost or changed.

    They come all at once, just before the end: most of them wait in its memory when it is told to finish.
    """
    rows, wire = 2345, wire_format(Flywheel())
    layouts = real.channels(wire, 0), machine.channels(wire)
    sent, descriptors = [], []
    for layout in layouts:
        values = np.random.default_rng(0).normal(size=(rows, width(layout)))
        of = views(values, layout)
        of["mode"][:], of["faults"][:] = Mode.RUNNING, 0
        if "tick" in of:
            of["tick"][:] = np.arange(rows)
        descriptor, memory = anonymous(ring_bytes(width(layout), 2 * rows))
        ring = Ring(memory, width(layout))
        for row in values:
            ring.push(row)
        sent.append(of["v"])
        descriptors.append(descriptor)
    with TemporaryDirectory() as parent:
        job = jobs.RecordJob(
            target=TARGET, config={}, settings=msgspec.to_builtins(launch.LoopSettings()),
            out=str(Path(parent) / "run"), period=round(machines.H * NS),
            ring=descriptors[0], machine_ring=descriptors[1],
        )  # fmt: skip
        process = jobs.start("idcontrol.loop.record", job, descriptors)
        process.communicate(jobs.encode(Ending(ended="duration", overruns=0, missed=0, realtime={})))
        kept = load(Path(job.out)).arrays["v"], load(Path(job.out) / "machine").arrays["v"]
    for descriptor in descriptors:
        os.close(descriptor)
    lost = 0
    for one, other in zip(sent, kept, strict=True):
        common = min(len(one), len(other))
        lost += abs(len(one) - len(other)) + int(np.count_nonzero(one[:common] != other[:common]))
    return float(lost)
