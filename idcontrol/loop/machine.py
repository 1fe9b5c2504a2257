"""The machine's side of the conversation: a plant that behaves like the electronics of a robot.

The machine is held still (a robot on its stand, its brakes closed) until the loop runs for the first time. It applies
the newest command until a newer command comes, and sends its state in every tick. If the loop is silent, the last
command applies for the tolerated time; then the machine brakes until its joints or its base rest (`WATCHDOG`,
`SINKS_S`), and its torques change at most at `Limits.torque_rate`. Simulated time stands still while the process is not
running, so CPU time taken by other processes does not disturb the controller. The machine stops at once if the plant
leaves the bounds of `Format.state_range`, e.g. under an unstable controller: braking would not help.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from idcontrol.contact.soles import by_foot
from idcontrol.kernels.jit import njit
from idcontrol.loop.brake import brake
from idcontrol.loop.clock import NS, Cycle
from idcontrol.loop.safety import NOT_BEGUN, Fault, Inputs, Mode, Policy, Safety, advance
from idcontrol.loop.session import Session, wire_format
from idcontrol.loop.transport import Endpoint, Link
from idcontrol.loop.wire import NOT_MEASURED, Drop, Format, SessionNumbers, within
from idcontrol.plants.drive import drive_torque
from idcontrol.record.channels import ChannelRow
from idcontrol.types import Array, ContactForces, Plant, State

GRAVITY = np.array([0.0, 0.0, -9.81])
WATCHDOG: Final = Policy(damp_s=20.0)
"""Policy of a machine: it brakes for at most 20 s. A standing robot sinks to the ground within half a second of
braking, but a robot that was thrown may roll for 5 s (`anymal`, 2 m/s sideways)."""
SINKS_S: Final = 1.0
"""Braking time after which a base that rests is on the ground, so that it does not matter if legs still sink [s]."""
RESTS: Final = 0.01
"""Velocity below which a base rests [m/s, rad/s]."""
COURSE = ("t", "mode", "faults", "silence_us", "step_us", "late_us", "missed")
"""Scalar channels about a tick of the machine, adjacent in a row."""


def channels(wire: Format) -> dict[str, tuple[int, ...]]:
    """Return the shapes of the channels that record a tick of the machine: true state, torques, forces and faults."""
    return {
        **dict.fromkeys(COURSE, ()),
        "q": (wire.nq,),
        "v": (wire.nv,),
        "tau": (len(wire.torque_limit),),
        "force": (wire.n_feet, 3),
        "dropped": (len(Drop),),
    }


UNITS = {"t": "s", "tau": "N m", "force": "N", "silence_us": "us", "step_us": "us", "late_us": "us"}
WALL_TIME = ("silence_us", "step_us", "late_us", "missed")


@dataclass(slots=True)
class _Motion:
    """Result of the last step of the plant."""

    state: State
    tau: Array
    accelerometer: Array


class Machine:
    """A plant at one end of a link.

    Attributes:
        safety: State machine of the machine.
        endpoint: The machine's side of the conversation.
        row: Telemetry of the last tick (`channels`).
        health: Values of drives, supply and joystick in a state. They are NaN unless the caller sets them, because a
            plant has none. Only the emergency stop may come from the plant, from its attribute `estop`.
    """

    def __init__(
        self,
        link: Link,
        plant: Plant,
        session: Session,
        *,
        period_s: float,
        numbers: SessionNumbers,
        policy: Policy = WATCHDOG,
        start: State | None = None,
    ) -> None:
        """Hold `plant` at the start.

        Args:
            link: Connection to the loop.
            plant: The plant.
            session: Initial state, limits of the joints, and format of the datagrams. The brake updates its `system`.
            period_s: Time between two ticks [s].
            numbers: Session numbers of the conversation.
            policy: Faults that are tolerated.
            start: Initial state; None means the start of the session.
        """
        self._plant, self._system, self._limits = plant, session.system, session.limits
        self._wire = wire = wire_format(session)
        self._dt, self._policy, self._late = period_s, policy, policy.late_ns(period_s)
        self.endpoint = Endpoint.of_machine(link, wire, numbers)
        state = plant.reset(session.start if start is None else start)
        at_rest = specific_force(state, state, 1.0, wire.floating)
        self._motion = _Motion(State(t=0.0, q=state.q, v=state.v), np.zeros(len(wire.torque_limit)), at_rest)
        self.safety = Safety()
        self.row = ChannelRow(channels(wire))
        self.row.of["dropped"][:] = 0.0
        self.endpoint.inbox.dropped = self.row.of["dropped"]  # counters are views of the recorded row
        self._write_course = self.row.writer(COURSE)
        self._values = np.zeros(wire.state_values)
        self.health: Array = np.full(wire.health_values, NOT_MEASURED)
        self._range, self._lost, self._begun = wire.state_range(), False, False

    @property
    def finished(self) -> bool:
        """True if the machine has stopped and has announced it."""
        return self.endpoint.finished

    def tick(self, cycle: Cycle, *, stop: bool = False) -> None:
        """Read the incoming datagrams, move for one period, and send the new state.

        Args:
            cycle: The period that begins.
            stop: True if the machine must brake and stop, whatever the loop sends.
        """
        now = cycle.woke
        self.endpoint.poll(now)
        heard, silence = self.endpoint.newest, self.endpoint.silence(now)
        self.safety, faults = follow(
            self.safety, self._policy, now, self.endpoint, self._late,
            slow=lambda: self._slow(now), stop=stop, lost=self._lost,
        )  # fmt: skip
        self._begun |= self.safety.mode is Mode.RUNNING
        began = time.perf_counter_ns()
        motion = self._moved(None if heard is None else heard.values)
        spent = time.perf_counter_ns() - began
        self._write(motion)
        if motion is not self._motion:
            self._lost = not within(self._range[0], self._values, self._range[1])
            if self._lost:
                self._write(self._motion)
            else:
                self._motion = motion
        self.endpoint.post(self.safety.mode, self._values, now)
        self._describe(cycle, faults, silence, spent)

    def _slow(self, now: int) -> bool:
        """Return True if all joints are slow, or the base of a robot that has sunk to the ground rests."""
        v = np.abs(self._motion.state.v)
        if self._wire.floating and now - self.safety.since > SINKS_S * NS and v[:6].max() < RESTS:
            return True
        return bool(self._system.joint_velocities(v).max(initial=0.0) < self._policy.rest_speed)

    def _write(self, motion: _Motion) -> None:
        self._wire.write_state(self._values, motion.state, motion.tau, motion.accelerometer, self.health)
        if getattr(self._plant, "estop", False):
            self._wire.health(self._values).supply[1] = 1.0

    def _moved(self, command: Array | None) -> _Motion:
        """Return the motion after one period; the last motion if the machine is held or has left all bounds."""
        mode, limits, before, last = self.safety.mode, self._limits, self._motion.state, self._motion.tau
        if self._lost or (mode in NOT_BEGUN and not self._begun):
            return self._motion
        applied: Array | None = None
        if mode is Mode.RUNNING and command is not None:
            rows = command.reshape(5, -1)
            tau = rows[0]  # within the limits: the inbox drops all other commands
            if rows[3:].any():
                q, v = self._system.joint_positions(before.q), self._system.joint_velocities(before.v)
                errors = self._system.position_errors(rows[1], q)
                applied, tau = rows, drive_torque(rows, errors, v, limits.torque)
        elif mode is not Mode.STOPPED:
            step = limits.torque_rate * self._dt
            tau = brake(self._system, limits, before, self._dt).clip(last - step, last + step)
        else:
            tau = np.zeros_like(limits.torque)
        try:
            after = self._plant.step(tau if applied is None else applied, self._dt)
        except (ArithmeticError, np.linalg.LinAlgError):  # a number has overflowed
            self._lost = True
            return self._motion
        state = State(t=before.t + self._dt, q=after.q, v=after.v, forces=self._feet(self._plant.contact_forces()))
        return _Motion(state, tau, specific_force(before, state, self._dt, self._wire.floating))

    def _feet(self, forces: ContactForces) -> ContactForces:
        """Return one force per foot, without forces on other bodies, which have larger identities."""
        forces = by_foot(forces, self._wire.patch)
        of = forces.identity < self._wire.n_feet
        if of.all():
            return forces
        return ContactForces(identity=forces.identity[of], force=forces.force[of], normal=forces.normal[of])

    def _describe(self, cycle: Cycle, faults: Fault, silence: int, spent: int) -> None:
        of, motion = self.row.of, self._motion
        late_us = 1e-3 * (cycle.woke - cycle.due)
        self._write_course(
            motion.state.t, self.safety.mode, faults, 1e-3 * silence, 1e-3 * spent, late_us, cycle.missed
        )  # fmt: skip
        of["q"][:], of["v"][:], of["tau"][:] = motion.state.q, motion.state.v, motion.tau
        of["force"][:] = 0.0
        if motion.state.forces is not None:
            of["force"][motion.state.forces.identity] = motion.state.forces.force


def follow(
    safety: Safety,
    policy: Policy,
    now: int,
    endpoint: Endpoint,
    late: int,
    *,
    slow: Callable[[], bool],
    stop: bool = False,
    lost: bool = False,
) -> tuple[Safety, Fault]:
    """Advance the state machine of a machine that follows its loop; return the new state and the faults.

    Args:
        safety: State before.
        policy: Faults that are tolerated.
        now: Time [ns].
        endpoint: The machine's side of the conversation, after reading the incoming datagrams.
        late: Silence of the loop that is tolerated [ns].
        slow: Returns True if the machine seems to rest; called only while the joints are braked.
        stop: True if the machine must brake and stop, whatever the loop sends.
        lost: True if the plant has left its bounds; the machine then stops at once.
    """
    mode, heard = safety.mode, endpoint.newest
    asked = Mode.IDLE if heard is None else Mode(heard.mode)
    over = asked is Mode.STOPPED  # the silence of a stopped loop is not a fault
    faults = Fault.SILENT if endpoint.silence(now) > late and not over else Fault.NONE
    if lost:
        faults |= Fault.NOT_FINITE
    ends = stop or over
    inputs = Inputs(
        faults=faults,
        heard=heard is not None,
        start=asked is Mode.RUNNING,
        damp=mode is Mode.RUNNING and (stop or asked is not Mode.RUNNING),
        stop=lost or (ends and mode in NOT_BEGUN),
        slow=mode is Mode.DAMPED and slow(),
        recover=asked is Mode.READY,
        wait=not (ends or faults),
    )
    return advance(safety, policy, now, inputs), faults


def specific_force(before: State, after: State, dt: float, floating: bool) -> Array:
    """Return the reading of an accelerometer at the base's origin, base axes, shape (3,) [m/s²].

    The reading is ``dv/dt + ω × v - Rᵀ g`` with the velocities of the base in base axes, and zero for a fixed base.

    Args:
        before: State before a step.
        after: State after the step.
        dt: Duration of the step [s].
        floating: True if the base floats.
    """
    return _specific_force(before.v, after.v, after.q, dt, GRAVITY) if floating else np.zeros(3)


@njit(cache=True)
def _specific_force(
    v_before: Array, v: Array, q: Array, dt: float, gravity: Array
) -> Array:  # pragma: no cover - compiled
    out, turned = np.empty(3), np.empty(3)
    w = q[6]
    for i in range(3):  # Rᵀ g by the inverse of the quaternion: g + w t - x × t, t = -2 x × g
        j, k = (i + 1) % 3, (i + 2) % 3
        turned[i] = -2.0 * (q[3 + j] * gravity[k] - q[3 + k] * gravity[j])
    for i in range(3):
        j, k = (i + 1) % 3, (i + 2) % 3
        pull = gravity[i] + w * turned[i] - (q[3 + j] * turned[k] - q[3 + k] * turned[j])
        out[i] = (v[i] - v_before[i]) / dt + v[3 + j] * v[k] - v[3 + k] * v[j] - pull
    return out
