"""An arm of two joints that swings after a reference, and connections that lose, delay, repeat and damage."""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec
import numpy as np
import pinocchio as pin

from idcontrol import controllers
from idcontrol.config.configuration import Duration, Rate, Seed
from idcontrol.dynamics.system import System
from idcontrol.loop import machine, telemetry
from idcontrol.loop.clock import NS, Cycle, VirtualClock
from idcontrol.loop.machine import Machine
from idcontrol.loop.order import MachineOrder
from idcontrol.loop.real import ControlLoop, run
from idcontrol.loop.safety import Limits, Mode, Policy, Rule
from idcontrol.loop.session import Parts, wire_format
from idcontrol.loop.transport import inprocess
from idcontrol.loop.wire import SessionNumbers
from idcontrol.record.channels import views, width
from idcontrol.types import Command, ContactForces, Reference, State

PERIOD = NS // 1000
H = 1e-3
LOOK = PERIOD // 100
"""Time between two checks for new datagrams [ns]."""
TORQUE, RATE = np.array([30.0, 8.0]), np.array([3000.0, 1000.0])
KP, KD = np.array([200.0, 60.0]), np.array([20.0, 5.0])


QUICK = Policy(damp_s=0.1)
"""The default policy with a shorter braking time."""

PATIENCE_S = 60.0
"""Time for which a process may be held up: longer than any delay on a shared computer [s]."""
HELD = ("overrun", "clock", "encoder", "astray")
"""Faults of a process that is held up: it misses cycles while the arm continues to swing."""

PATIENT = Policy(
    start_s=PATIENCE_S, late_s=PATIENCE_S, hang_s=PATIENCE_S, damp_s=0.2, **dict.fromkeys(HELD, Rule(then="hold"))
)  # fmt: skip
"""A policy for the wall clock: no process that is held up ends the loop."""

PATIENCE = [
    f"--set=loop.{setting}"
    for setting in (
        f"plant_silence_s={PATIENCE_S}",
        *(f"policy.{limit}={PATIENCE_S}" for limit in ("start_s", "late_s", "hang_s")),
        *(f"policy.{name}.then=hold" for name in HELD),
    )
]
"""The same policy on the command line."""


def arm() -> System:
    """Return two links of half a metre, 1 kg each, that hang down and swing about y."""
    model = pin.Model()
    joint = 0
    for name, place in (("shoulder", np.zeros(3)), ("elbow", np.array([0.0, 0.0, -0.5]))):
        joint = model.addJoint(joint, pin.JointModelRY(), pin.SE3(np.eye(3), place), name)
        body = pin.Inertia(1.0, np.array([0.0, 0.0, -0.25]), 0.03 * np.eye(3))
        model.appendBodyToJoint(joint, body, pin.SE3.Identity())
    return System(model, effort_limit=TORQUE)


def limits() -> Limits:
    free = np.full(2, np.inf)
    return Limits(
        torque=TORQUE, torque_rate=RATE, low=-free, high=free, speed=np.full(2, 50.0), damping=np.array([2.0, 0.5])
    )


def missed_brake(q, v, tau, last=None) -> float:
    """Return the largest difference between an arm's torques and ``-D q̇⁺`` of the resulting velocities [N m].

    The torques `tau`, shape (n, 2), each begin at the state `q`, `v`, shape (n, 2). The brake neglects gravity. A
    torque at its limit must only oppose the motion. With the torque `last` before them, shape (2,), torques may change
    at most at their rate, and are not judged at that rate.
    """
    system, bounds, missed = arm(), limits(), []
    for q_before, v_before, applied in zip(q, v, tau, strict=True):
        change, last = 0.0 if last is None else np.abs(applied - last), None if last is None else applied
        assert (change <= RATE * H + 1e-9).all()  # rounding of the product
        if (change >= RATE * H - 1e-9).any():
            continue
        full = np.abs(applied) == bounds.torque
        if full.any():
            assert (applied * v_before <= 0.0)[full].all()
            continue
        system.update(q_before, v_before)
        v_plus = v_before + H * np.linalg.solve(system.M, applied)
        missed.append(np.abs(applied + bounds.damping * v_plus).max())
    assert np.abs(v[0]).max() > 0.1, "it rests, so that there is nothing to brake"
    return float(np.max(missed))


class Swing:
    """A planner: both joints swing at 1 Hz, and so many feet stand."""

    def __init__(self, feet=0):
        self.begin, self.feet = 0.0, feet

    def reset(self, state):
        self.begin = state.t

    def __call__(self, state):
        phase = 2 * np.pi * (state.t - self.begin)
        held = Reference.standing(0.3 * np.sin(phase) * np.ones(2), self.feet)
        return msgspec.structs.replace(held, v=0.6 * np.pi * np.cos(phase) * np.ones(2))

    def notes(self):
        return np.zeros(0)


class Pd:
    """A controller; `wrong` maps the number of the call and the right command to the returned command."""

    def __init__(self, setup=None, wrong=None):
        self.wrong, self.calls = wrong, 0

    def reset(self):
        self.calls = 0

    def __call__(self, state, reference):
        self.calls += 1
        tau = KP * (reference.q - state.q) + KD * (reference.v - state.v)
        command = Command(tau=np.clip(tau, -TORQUE, TORQUE))
        return command if self.wrong is None else self.wrong(self.calls, command)


class Arm:
    """The plant: explicit in velocity, implicit in position."""

    def __init__(self, dt=H):
        self.system = arm()
        self.state = State(t=0.0, q=np.zeros(2), v=np.zeros(2))

    def reset(self, state):
        self.state = state
        return state

    def step(self, tau, dt):
        q, v = self.state.q, self.state.v
        self.system.update(q, v)
        v = v + dt * np.linalg.solve(self.system.M, tau - self.system.bias)
        self.state = State(t=self.state.t + dt, q=q + dt * v, v=v)
        return self.state

    def contact_forces(self):
        return ContactForces.none()


class Config(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    controller: str = "tests.loop.rig:Pd"
    robot: str = "arm"
    rate_hz: Rate = 1000.0
    duration_s: Duration = 0.5
    seed: Seed = 0
    mu: float = float("inf")


class ArmSession:
    """The session of the loops in these tests."""

    def __init__(self, config: Config | None = None):
        self.config = config or Config()
        self.robot, self.system, self.limits, self.feet, self.notes = "arm", arm(), limits(), (), 0
        self.start = State(t=0.0, q=np.array([0.1, -0.1]), v=np.zeros(2))
        self.lying = self.friction = None
        self.orders = {"swapped": MachineOrder(joints=("elbow", "shoulder"), turned=("elbow",))}

    def planner(self):
        return Swing(len(self.feet))

    def setup(self):
        return controllers.Setup(system=arm(), contacts=None, h=1.0 / self.config.rate_hz)

    def plant(self, dt):
        return Arm(dt)

    def between(self):
        return None

    def channels(self):
        names = ("t", "q", "v", "q_des", "tau", "status", "residual", "clipped", "force_pred", "step_us")
        one = ((), (2,), (2,), (2,), (2,), (), (), (), (0, 3), ())
        return dict(zip(names, one, strict=True)), {"t": "s", "tau": "N m"}

    def derive(self, row):
        return {}

    def meta(self):
        return {"experiment": "arm"}

    def metrics(self, arrays):
        return {"steps": len(arrays["t"]), "q_err_rad": float(np.abs(arrays["q"] - arrays["q_des"]).mean())}


class Offer:
    name, summary, presets = "arm", "an arm swings", {"default": Config()}

    def session(self, config):
        return ArmSession(config)


offer = Offer()


@dataclass
class Weather:
    """The faults of a link in one direction.

    Attributes:
        drop, twice, damage: Probabilities that a datagram is lost, sent twice, or damaged.
        delay_s: Smallest and largest delay; each datagram has a different delay, so that a later datagram may arrive
            first.
    """

    drop: float = 0.0
    twice: float = 0.0
    damage: float = 0.0
    delay_s: tuple[float, float] = (0.0, 0.0)


class Cable:
    """A link with the faults of a `Weather`."""

    def __init__(self, link, clock, weather, rng):
        self.link, self.clock, self.weather, self.rng, self.cut = link, clock, weather, rng, False

    def send(self, data):
        w, rng = self.weather, self.rng
        if self.cut or rng.random() < w.drop:
            return
        data = bytearray(data)
        if rng.random() < w.damage:
            data[rng.integers(len(data))] ^= 1 << rng.integers(8)
        for _ in range(2 if rng.random() < w.twice else 1):
            late = round(NS * rng.uniform(*w.delay_s))
            if late:
                self.clock.at(self.clock.now() + late, lambda d=bytes(data): self.link.send(memoryview(d)))
            else:
                self.link.send(memoryview(data))

    def receive(self):
        return self.link.receive()

    def settle(self):
        self.link.settle()

    def close(self):
        self.link.close()


class Row:
    """The channels of a tick by name; a channel is looked up on access, since most are not used."""

    __slots__ = ("_values", "_where")

    def __init__(self, values, where):
        self._values, self._where = values, where

    def __getitem__(self, name):
        return self._values[self._where[name]]


def where(channels) -> dict[str, np.ndarray | int]:
    """Return the position of each channel in a row."""
    return {name: at if at.shape else int(at) for name, at in views(np.arange(width(channels)), channels).items()}


@dataclass
class Rig:
    """Loop and machine on one virtual clock; the telemetry of all ticks of both is stored.

    The machine begins at `start`, by default the start of its session; `system` is the system of the loop, and `parts`
    are further parts of the loop. The machine's clock ticks every `machine_period` [ns] of the loop's time. If
    `follows`, the loop follows the machine's clock.
    """

    controller: object = field(default_factory=Pd)
    states: Weather = field(default_factory=Weather)
    commands: Weather = field(default_factory=Weather)
    policy: Policy = QUICK
    duration_s: float = 0.4
    seed: int = 0
    session: object = field(default_factory=ArmSession)
    attended: bool = False
    machine_policy: Policy = QUICK
    start: State | None = None
    system: object = None
    machine_period: int = PERIOD
    follows: bool = False
    parts: dict = field(default_factory=dict)
    interrupt: bool = False

    def __post_init__(self):
        self.clock = VirtualClock()
        rng = np.random.default_rng(self.seed)
        here, there = inprocess.pair()
        self.to_loop = Cable(there, self.clock, self.states, rng)
        self.to_machine = Cable(here, self.clock, self.commands, rng)
        session = self.session
        wire = wire_format(session)
        self.machine = Machine(
            self.to_loop, session.plant(H), session,
            period_s=H, numbers=SessionNumbers(own=7), policy=self.machine_policy, start=self.start,
        )  # fmt: skip
        self.planner = session.planner()
        parts = Parts(
            planner=self.planner, controller=self.controller, system=self.system or type(session)().system,
            wire=wire, limits=session.limits, notes=session.notes, between=session.between(),
            **self.parts,
        )  # fmt: skip
        self.loop = ControlLoop(
            self.to_machine, parts, self.clock, self.policy,
            period=PERIOD, duration=round(self.duration_s * NS), numbers=SessionNumbers(own=9),
            interrupt=self.interrupt, attended=self.attended,
        )  # fmt: skip
        self.machine_alive, self._machine_where = True, where(machine.channels(wire))
        self.rows, self.machine_rows = [], []
        self.clock.every(self.machine_period, self._machine_tick)

    def _machine_tick(self):
        if self.machine_alive and not self.machine.finished:
            now = self.clock.now()
            self.machine.tick(Cycle(index=now // PERIOD, due=now, woke=now))
            self.machine_rows.append(Row(self.machine.row.values.copy(), self._machine_where))

    def _heard(self, deadline, due):
        while not self.loop.hear():
            if self.clock.now() >= deadline:
                return False
            self.clock.sleep_until(min(deadline, self.clock.now() + LOOK))
        return True

    def run(self, damp_at: float = np.inf, unrecorded_at: float = np.inf, acts=()):
        """Run until the loop has stopped.

        The end is requested at `damp_at` [s]. After each of the times `acts` [s] the operator acts as soon as the loop
        waits for an act.
        """
        due = sorted(round(act * NS) for act in acts)
        assert self.loop.connect(1.0)

        loop_where = where(telemetry.channels(wire_format(self.session), self.session.notes))

        def keep(values):
            self.rows.append(Row(values.copy(), loop_where))

        run(
            self.loop, self.clock, PERIOD, keep, lambda: self.clock.now() > damp_at * NS,
            recorded=lambda: self.clock.now() <= unrecorded_at * NS,
            acts=lambda mode: (
                mode in (Mode.READY, Mode.DAMPED) and bool(due) and self.clock.now() >= due[0] and bool(due.pop(0))
            ),
            heard=self._heard if self.follows else None,
        )  # fmt: skip
        self.clock.spend(NS // 10)  # the machine finishes its announcements of the stop
        return self

    def modes(self, rows=None) -> list[Mode]:
        """Return the sequence of modes."""
        sequence: list[Mode] = []
        for row in self.rows if rows is None else rows:
            mode = Mode(int(row["mode"]))
            if not sequence or sequence[-1] is not mode:
                sequence.append(mode)
        return sequence

    def ticks(self, mode) -> int:
        return sum(int(row["mode"]) == mode for row in self.rows)

    def faults(self) -> int:
        """Return all faults of the running ticks and of the tick that ended them."""
        seen = 0
        for before, row in zip([None, *self.rows], self.rows, strict=False):
            if int(row["mode"]) == Mode.RUNNING or (before is not None and int(before["mode"]) == Mode.RUNNING):
                seen |= int(row["faults"])
        return seen
