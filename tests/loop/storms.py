"""Random faults of a robot that walks: link, sensors, drives, supply, controller, clock, recorder, pushes.

A storm lets a robot walk for half a second on the virtual clock, with up to three faults at random times.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pinocchio as pin
from msgspec import structs

from idcontrol import controllers, sensing
from idcontrol.loop import motion
from idcontrol.loop.clock import NS
from idcontrol.loop.machine import WATCHDOG
from idcontrol.loop.safety import Fault, Mode, Policy
from idcontrol.loop.session import resolve, wire_format
from idcontrol.record.channels import views
from idcontrol.scenes.walk import CommandSettings, WalkConfig, WalkPath
from idcontrol.sensing import Sensing
from idcontrol.types import Command, Status
from tests.loop.rig import Rig

WALK = "idcontrol.experiments.live:loop"
WALK_S = 0.5
"""Duration of the walk [s]; faults begin in the first two thirds."""
PLANNED = Sensing()
"""The base is sent, and contacts are planned."""
UNBALANCED = Fault.TIPPED | Fault.ASTRAY | Fault.FALLBACK | Fault.FAILED | Fault.CUT
"""Faults of a robot that loses its balance or its tracking."""


class Body:
    """Sensors and drives of a rig's machine that may go wrong.

    Attributes:
        lies: Functions that change the values that the machine sends, called with views of them by name.
        strength: Share of its torque that each drive applies, shape (a,).
        offset: Constant errors of the positions that the drives feed back, shape (a,) [rad].
    """

    def __init__(self, rig):
        self.lies: list[Callable] = []
        self.strength = np.ones(rig.session.limits.torque.size)
        self.offset = np.zeros_like(self.strength)
        shifted = np.zeros_like(self.strength)  # torques by which these errors change the drives'
        wire, post, step = wire_format(rig.session), rig.machine.endpoint.post, rig.machine._plant.step

        def posted(mode, values, now):
            if not self.lies and (self.strength == 1.0).all():
                return post(mode, values, now)
            of = views(values := values.copy(), wire.state)
            of["tau_applied"][:] = self.strength * (of["tau_applied"] - shifted)
            for lie in tuple(self.lies):
                lie(of)
            return post(mode, values, now)

        def stepped(command, dt):
            scaled = self.strength * command
            shifted[:] = 0.0
            if command.ndim == 2:
                scaled[1:3] = command[1:3]  # targets
                scaled[1] -= self.offset
                shifted[:] = command[3] * self.offset
            return step(scaled, dt)

        rig.machine.endpoint.post, rig.machine._plant.step = posted, stepped


class Moody:
    """A controller whose next `calls` commands are replaced by ``whim(command)``."""

    def __init__(self, controller):
        self.whim, self.calls = None, 0
        self._controller = controller

    @property
    def load(self):
        return self._controller.load

    def reset(self):
        self._controller.reset()

    def __call__(self, state, reference):
        command = self._controller(state, reference)
        if self.calls > 0:
            self.calls -= 1
            return self.whim(command)
        return command


@dataclass
class Storm:
    """A robot that walks, and its faults.

    Attributes:
        rig: Loop and machine.
        body: The machine's sensors and drives.
        rng: Generator of all random numbers of the storm.
        faults: Begin [s], end [s] and name of each fault that has begun.
        recorded_until: Time at which the recorder ends [s].
    """

    rig: Rig
    body: Body
    rng: np.random.Generator
    faults: list[tuple[float, float, str]] = field(default_factory=list)
    recorded_until: float = np.inf

    def at(self, t, call):
        self.rig.clock.at(round(t * NS), call)

    def lie(self, t, end, lie):
        self.at(t, lambda: self.body.lies.append(lie))
        self.at(end, lambda: self.body.lies.remove(lie))

    def during(self, t, end, thing, name, value):
        """Set an attribute of `thing` at `t`, and its old value at `end`."""
        before = getattr(thing, name)
        self.at(t, lambda: setattr(thing, name, value))
        self.at(end, lambda: setattr(thing, name, before))

    def ail(self, t, end, place, value):
        health = self.rig.machine.health
        self.at(t, lambda: health.__setitem__(place, value))
        self.at(end, lambda: health.__setitem__(place, np.nan))

    def whim(self, t, end, whim):
        def begin():
            self.rig.controller.whim, self.rig.controller.calls = whim, max(1, round(1e3 * (end - t)))

        self.at(t, begin)

    @property
    def joint(self):
        return int(self.rng.integers(self.body.strength.size))

    def sign(self):
        return float(self.rng.choice([-1.0, 1.0]))


# --- kinds of faults: functions (storm, begin [s], end [s]) ---


def states_lost(storm, t, end):
    storm.during(t, end, storm.rig.to_loop, "cut", True)


def commands_lost(storm, t, end):
    storm.during(t, end, storm.rig.to_machine, "cut", True)


def all_lost(storm, t, end):
    states_lost(storm, t, end)
    commands_lost(storm, t, end)


def late(storm, t, end):
    weather = (storm.rig.states, storm.rig.commands)[storm.rng.integers(2)]
    storm.during(t, end, weather, "delay_s", (0.0, float(storm.rng.uniform(0.001, 0.05))))


def damaged(storm, t, end):
    weather = (storm.rig.states, storm.rig.commands)[storm.rng.integers(2)]
    storm.during(t, end, weather, "damage", float(storm.rng.uniform(0.1, 1.0)))


def estop(storm, t, end):
    storm.ail(t, end, 2 * storm.body.strength.size + 1, 1.0)


def drive_error(storm, t, end):
    storm.ail(t, end, storm.joint, 3.0)


def hot(storm, t, end):
    storm.ail(t, end, storm.body.strength.size + storm.joint, 95.0)


def voltage(storm, t, end):
    storm.ail(t, end, 2 * storm.body.strength.size, storm.rng.choice([10.0, 40.0]))


def encoder_jumps(storm, t, end):
    joint, by = storm.joint, storm.sign() * storm.rng.uniform(0.08, 1.0)
    storm.lie(t, end, lambda of: of["q"].__setitem__(7 + joint, of["q"][7 + joint] + by))


def encoder_freezes(storm, t, end):
    joint, held = storm.joint, []
    still = storm.rng.integers(2)

    def lie(of):
        held.append((of["q"][7 + joint], of["v"][6 + joint]))
        of["q"][7 + joint], of["v"][6 + joint] = held[0][0], 0.0 if still else held[0][1]

    storm.lie(t, end, lie)


def velocity_jumps(storm, t, end):
    joint, by = storm.joint, storm.sign() * storm.rng.uniform(20.0, 500.0)
    storm.lie(t, end, lambda of: of["v"].__setitem__(6 + joint, of["v"][6 + joint] + by))


def imu_freezes(storm, t, end):
    held = []

    def lie(of):
        held.append((of["q"][3:7].copy(), of["v"][3:6].copy(), of["accelerometer"].copy()))
        of["q"][3:7], of["v"][3:6], of["accelerometer"][:] = held[0]

    storm.lie(t, end, lie)


def imu_jumps(storm, t, end):
    by = pin.exp3(storm.rng.choice([0.1, 0.5]) * storm.rng.standard_normal(3) / np.sqrt(3.0))

    def lie(of):
        turned = pin.Quaternion(pin.Quaternion(of["q"][3:7].copy()).matrix() @ by)
        of["q"][3:7] = turned.normalized().coeffs()

    storm.lie(t, end, lie)


def base_jumps(storm, t, end):
    by = storm.rng.uniform(0.1, 0.5, 3)
    storm.lie(t, end, lambda of: of["q"][:3].__iadd__(by))


def quaternion_shrinks(storm, t, end):
    storm.lie(t, end, lambda of: of["q"][3:7].__imul__(0.9))


def state_is_nan(storm, t, end):
    name = storm.rng.choice(["q", "v", "accelerometer"])
    storm.lie(t, end, lambda of: of[name].__setitem__(-1, np.nan))


def machine_repeats_itself(storm, t, end):
    held = []

    def lie(of):
        held.append({name: value.copy() for name, value in of.items()})
        for name, value in held[0].items():
            of[name][...] = value

    storm.lie(t, end, lie)


def machine_time_jumps(storm, t, end):
    by = storm.rng.choice([0.05, 10.0, -0.05])
    storm.lie(t, end, lambda of: of["t"].__iadd__(by))


def drives_weaken(storm, t, end):
    joint, share = storm.joint, storm.rng.uniform(0.0, 0.6)
    storm.at(t, lambda: storm.body.strength.__setitem__(joint, share))
    storm.at(end, lambda: storm.body.strength.__setitem__(joint, 1.0))


def controller_raises(storm, t, end):
    def whim(command):
        raise ZeroDivisionError("a gain is zero")

    storm.whim(t, end, whim)


def controller_is_nan(storm, t, end):
    storm.whim(t, end, lambda command: structs.replace(command, tau=np.nan * command.tau))


def controller_is_wild(storm, t, end):
    a, rng = storm.body.strength.size, storm.rng
    storm.whim(t, end, lambda command: Command(tau=1e3 * rng.standard_normal(a)))


def gains_are_wild(storm, t, end):
    a, rng = storm.body.strength.size, storm.rng

    def whim(command):
        q, v = rng.uniform(-1.0, 1.0, (2, a))
        kp, kd = 10.0 ** rng.uniform(0.0, 6.0, (2, a))
        return Command(tau=command.tau, q=q, v=v, kp=kp, kd=kd)

    storm.whim(t, end, whim)


def controller_fails(storm, t, end):
    storm.whim(t, end, lambda command: Command(tau=0.0 * command.tau, status=Status.FAILED))


def controller_is_slow(storm, t, end):
    by = round(NS * storm.rng.uniform(0.0005, 0.004))

    def whim(command):
        storm.rig.clock.spend(by)
        return command

    storm.whim(t, end, whim)


def controller_hangs(storm, t, end):
    def whim(command):
        storm.rig.clock.spend(round(NS * min(end - t, 0.5)))
        return command

    storm.whim(t, t, whim)


def clock_jumps(storm, t, end):
    by = round(NS * storm.rng.choice([-1.0, 0.2, 5.0]))

    def whim(command):
        storm.rig.clock.jump(by)
        return command

    storm.whim(t, t, whim)


def recorder_ends(storm, t, end):
    storm.recorded_until = t


def pushed(storm, t, end):
    velocity = storm.rng.uniform(-1.0, 1.0, 3) * np.array([1.0, 1.0, 0.5])
    storm.at(t, lambda: storm.rig.machine._plant.push(velocity))


def foot_sensor_sticks(storm, t, end):
    foot = int(storm.rng.integers(4))
    normal, force = np.array([0.0, 0.0, 1.0]), np.array([0.0, 0.0, storm.rng.choice([0.0, 60.0])])

    def lie(of):
        of["force_sensed"][foot], of["normal_sensed"][foot] = force, normal * (force[2] > 0.0)

    storm.lie(t, end, lie)


HELD = Fault.SILENT | Fault.PEER
KINDS: dict[Callable, Fault] = {
    states_lost: HELD,
    commands_lost: HELD,
    all_lost: HELD,
    late: HELD,
    damaged: HELD,
    estop: Fault.ESTOP,
    drive_error: Fault.DRIVE,
    hot: Fault.HOT,
    voltage: Fault.VOLTAGE,
    # drives with gains use their own encoders here, so their torques differ from the torques at the sent state
    encoder_jumps: Fault.ENCODER | Fault.TORQUE | Fault.MOTION,
    encoder_freezes: Fault.ENCODER | Fault.TORQUE | Fault.MOTION,
    velocity_jumps: Fault.ENCODER | Fault.TORQUE | Fault.MOTION,
    imu_freezes: Fault.ENCODER,
    imu_jumps: Fault.ENCODER,
    base_jumps: Fault.ENCODER,
    quaternion_shrinks: Fault.QUATERNION,
    state_is_nan: HELD,
    machine_repeats_itself: Fault.STALE,
    machine_time_jumps: Fault.CLOCK,
    drives_weaken: Fault.TORQUE | Fault.MOTION,
    controller_raises: Fault.RAISED,
    controller_is_nan: Fault.NOT_FINITE,
    controller_is_wild: Fault.CUT | Fault.EXCESS,
    gains_are_wild: Fault.CUT,
    controller_fails: Fault.FAILED,
    controller_is_slow: Fault.OVERRUN,
    controller_hangs: Fault.OVERRUN | HELD,
    clock_jumps: Fault.CLOCK | HELD,
    recorder_ends: Fault.RECORDER,
    pushed: UNBALANCED,
    foot_sensor_sticks: UNBALANCED,
}
"""Kinds of faults, and the reasons with which each may end a run."""
BALANCED = {"estop", "drive_error", "hot", "voltage", "recorder_ends", "state_is_nan"}
"""Kinds of faults that do not disturb the motion, so that a loss of balance is no reason."""


AHEAD = (0.2, 0.0, 0.0)
"""Velocity of a walk: forward, left [m/s], turn [rad/s]."""


@functools.cache
def session_of(robot, kind, velocity=AHEAD):
    """Return the session of a walk with a velocity."""
    path = WalkPath(kind="command", command=((0.0, *velocity),))
    return resolve(WALK, WalkConfig(robot=robot, duration_s=30.0, command=CommandSettings(kind=kind), path=path))


@functools.cache
def system_of(robot):
    return resolve(WALK, WalkConfig(robot=robot)).system


def sensed(session, way):
    """Return the parts of a loop that estimate the base and sense contacts as `way`, a `Sensing`, demands."""

    def feet():
        return session.setup().contacts

    def sense():
        return sensing.sense(way, feet, session.start)

    return {
        "sense": None if sense() is None else sense,
        "base_sent": way.base == "plant",
        "stance": sensing.stance(way, feet),
    }


def walking(robot, kind, way=PLANNED, velocity=AHEAD, **options):
    """Return a rig in which `robot` walks from its standing pose.

    The `kind` of commands is torque or impedance; `way` determines how base and contacts are known.
    """
    session = session_of(robot, kind, velocity)
    controller = controllers.build(WalkConfig().controller, session.setup())
    usual = {"policy": Policy(voltage_v=(20.0, 30.0)), "machine_policy": WATCHDOG, "duration_s": WALK_S}
    usual["parts"] = sensed(session, way) | {"feet": motion.judged(session.setup().contacts)}
    system = system_of(robot)
    return Rig(session=session, system=system, controller=Moody(controller), **(usual | options))


def storm(seed, contacts="planned"):
    """Return a robot after a storm of one to three faults; each is short, or lasts until the end.

    Most robots are `links` with torque commands, which is cheap to simulate. A robot whose `contacts` are not planned
    may also have faulty force sensors.
    """
    rng = np.random.default_rng(seed)
    robot = "go1" if seed % 8 == 0 else "anymal" if seed % 16 == 2 else "links"
    kind = "impedance" if seed % 4 == 1 else "torque"
    rig = walking(robot, kind, Sensing(contacts=contacts), seed=seed)
    storm = Storm(rig, Body(rig), rng)
    kinds = tuple(kind for kind in KINDS if kind is not foot_sensor_sticks or contacts != "planned")
    for t in np.sort(rng.uniform(0.1, 0.1 + 2.0 / 3.0 * WALK_S, rng.integers(1, 4))).tolist():
        kind = kinds[rng.integers(len(kinds))]
        end = t + rng.choice([0.02 * rng.random(), 0.2 * rng.random(), 9.0])
        storm.at(t, functools.partial(storm.faults.append, (t, end, kind.__name__)))
        kind(storm, t, end)
    rig.run(unrecorded_at=storm.recorded_until)
    storm.faults = list(storm.faults)  # faults that begin after the run explain nothing
    brake(rig)
    return storm


def brake(rig):
    """Let time pass until the machine has braked, for at most 25 s."""
    for _ in range(250):
        if rig.machine.finished:
            break
        rig.clock.spend(NS // 10)


def problems(storm):
    """Return in words what a robot in a storm did that no robot may do; empty if there is nothing.

    - A torque of loop or machine exceeds its limit, or changes faster than its rate.
    - Torques end although the robot can still fall: without torque, its base sinks by 20 mm in 0.3 s.
    - The run ends for a reason that none of the faults until then explains, or without a reason.
    """
    rig, said = storm.rig, []
    if not (rig.machine.finished and rig.loop.finished):
        return ["a side did not end"]
    limits = rig.session.limits
    torque = limits.torque
    for rows in (rig.rows, rig.machine_rows):
        most = max(np.max(np.abs(row["tau"]) / torque) for row in rows)
        if most > 1.0:
            said.append(f"a torque of {most:.3f} of its limit")
    said += _fast(rig)
    said += _limp(rig)
    ended = rig.loop.safety.ended_by
    true = Fault.NONE
    for _, _, name in storm.faults:
        true |= KINDS[globals()[name]] | (Fault.NONE if name in BALANCED else UNBALANCED)
    if ended & ~true:
        said.append(f"ended by {ended!r}, explained is {true!r}")
    if not ended and not rig.loop.counts.complete:
        said.append("ended without a reason")
    return said


def _fast(rig):
    """Return the largest change of the drives' torques of a tick beyond the rate, in words, at the tick's state."""
    limits, system, last = rig.session.limits, rig.session.system, None
    most = 0.0
    for row in rig.rows:
        if int(row["mode"]) in (Mode.RUNNING, Mode.DAMPED) and last is not None and not int(row["faults"]):
            q, v = system.joint_positions(row["q"]), system.joint_velocities(row["v"])
            tau, before = (
                np.clip(rows[0] + rows[3] * (rows[1] - q) + rows[4] * (rows[2] - v), -limits.torque, limits.torque)
                for rows in (row["sent"], last)
            )
            most = max(most, np.max(np.abs(tau - before) / (limits.torque_rate * 1e-3 * (1 + row["missed"]))))
        last = row["sent"]
    return [f"a torque changed by {most:.3f} times its rate"] if most > 1.0 + 1e-6 else []


def _limp(rig):
    """Return in words by how much the base sinks within 0.3 s after torques have ended, if by more than 20 mm."""
    if Mode.RUNNING not in rig.modes(rig.machine_rows):
        return []
    plant, none = rig.machine._plant, np.zeros(rig.session.limits.torque.size)
    before = rig.machine_rows[-1]["q"][2]
    for _ in range(300):
        after = plant.step(none, 1e-3)
    sank = before - after.q[2]
    return [f"limp: it sank by {1e3 * sank:.0f} mm"] if sank > 0.02 else []
