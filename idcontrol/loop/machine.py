"""The machine's side of the conversation: a plant that behaves as the electronics of a robot do.

It is held still (a robot on its stand, its brakes closed) until the loop is running for the first time, applies the
newest command until a newer one comes, brakes its joints as soon as commands stop, whether they were to or not, until
these rest, and tells its state in every tick. Drives go on holding the
positions of an impedance command while the silence is tolerated. Its world stands still while its process does: what
the computer steals from it is not charged to the controller. It stops where the plant leaves all bounds
(`Format.state_range`), as one does that a controller has made unstable: no brake helps there.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from idcontrol.kernels.jit import njit
from idcontrol.loop.brake import brake
from idcontrol.loop.clock import NS, Beat
from idcontrol.loop.safety import NOT_BEGUN, Fault, Inputs, Mode, Policy, Safety, advance, patience
from idcontrol.loop.session import Session, wire_format
from idcontrol.loop.transport import Endpoint, Link
from idcontrol.loop.wire import NOT_MEASURED, Drop, Format, Inbox, Kind, Outbox, SessionNumbers, within
from idcontrol.plants.drive import drive_torque
from idcontrol.record.channels import ChannelRow
from idcontrol.types import Array, ContactForces, Plant, State

GRAVITY = np.array([0.0, 0.0, -9.81])
FAREWELL = 20
"""Number of ticks in which a stopped side still tells that it has stopped."""


WATCHDOG: Final = Policy(damp_s=3.0)
"""The policy of a machine: it brakes for 3 s at most. Robots that stood lie half a second after their joints were
braked."""


def channels(session_format: Format) -> dict[str, tuple[int, ...]]:
    """Shapes of the channels that record a tick of the machine: its true state, its torques, its faults."""
    a = len(session_format.torque_limit)
    return {
        "t": (),
        "mode": (),
        "faults": (),
        "q": (session_format.nq,),
        "v": (session_format.nv,),
        "tau": (a,),
        "force": (session_format.n_feet, 3),
        "silence_us": (),
        "dropped": (len(Drop),),
        "step_us": (),
        "late_us": (),
        "missed": (),
    }


UNITS = {"t": "s", "tau": "N m", "force": "N", "silence_us": "us", "step_us": "us", "late_us": "us"}
WALL_TIME = ("silence_us", "step_us", "late_us", "missed")


@dataclass(slots=True)
class _Motion:
    """Result of the plant's last step."""

    state: State
    tau: Array
    accelerometer: Array


class Machine:
    """A plant behind a link.

    Attributes:
        safety: Its state machine.
        row: Telemetry of the last tick (`channels`).
        health: What it says of drives, supply and joystick, which no plant has: NaN, to be filled by whoever has one.
        finished: Whether it has stopped, and told so.
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
            session: Tells the start, the limits of the joints and the format of the datagrams; its multibody terms
                are the brake's from now on.
            period_s: Time between two ticks [s].
            numbers: Session numbers of the conversation.
            policy: Faults that are tolerated.
            start: Where it begins; None is the session's start.
        """
        self._plant, self._system, self._limits = plant, session.system, session.limits
        self._wire = wire = wire_format(session)
        self._dt, self._policy = period_s, policy
        self._late = round((policy.late_s or patience(period_s)) * NS)
        self.endpoint = Endpoint(
            link,
            Inbox(Kind.COMMAND, wire.robot, *wire.command_range(), numbers.other),
            Outbox(Kind.STATE, wire.robot, wire.state_values, numbers.own),
        )
        a = len(wire.torque_limit)
        state = plant.reset(session.start if start is None else start)
        at_rest = specific_force(state, state, 1.0, wire.floating)
        self._motion = _Motion(State(t=0.0, q=state.q, v=state.v), np.zeros(a), at_rest)
        self.safety = Safety()
        self.row = ChannelRow(channels(wire))
        self.row.of["dropped"][:] = 0.0
        self.endpoint.inbox.dropped = self.row.of["dropped"]  # counted where they are recorded
        self.finished = False
        self._farewell = 0
        self._values = np.zeros(wire.state_values)
        self.health: Array = np.full(wire.health_values, NOT_MEASURED)
        self._range, self._lost, self._begun = wire.state_range(), False, False

    def tick(self, beat: Beat, *, stop: bool = False) -> None:
        """Take what has come, move for one period, and send the new state.

        Args:
            beat: The period that begins.
            stop: Whether to stop, whatever the loop says.
        """
        now = beat.woke
        self.endpoint.poll(now)
        heard, silence = self.endpoint.newest, self.endpoint.silence(now)
        self.safety, faults = follow(
            self.safety, self._policy, now, self.endpoint, self._late, slow=self._slow, stop=stop, lost=self._lost
        )
        self._begun |= self.safety.mode is Mode.RUNNING
        began = time.perf_counter_ns()
        motion = self._moved(None if heard is None else heard.values)
        spent = time.perf_counter_ns() - began
        self._tell(motion)
        if motion is not self._motion:
            self._lost = not within(self._range[0], self._values, self._range[1])
            if self._lost:
                self._tell(self._motion)
            else:
                self._motion = motion
        self.endpoint.post(self.safety.mode, self._values, now)
        self._describe(beat, faults, silence, spent)
        if self.safety.mode is Mode.STOPPED:
            self._farewell += 1
            self.finished = self._farewell >= FAREWELL

    def _slow(self) -> bool:
        speed = np.abs(self._system.joint_velocities(self._motion.state.v)).max(initial=0.0)
        return bool(speed < self._policy.rest_speed)

    def _tell(self, motion: _Motion) -> None:
        self._wire.write_state(self._values, motion.state, motion.tau, motion.accelerometer, self.health)

    def _moved(self, command: Array | None) -> _Motion:
        """How it moves for one period; as before where it does not."""
        mode, limits, before = self.safety.mode, self._limits, self._motion.state
        if self._lost or (mode in NOT_BEGUN and not self._begun):
            return self._motion
        told: Array | None = None
        if mode is Mode.RUNNING and command is not None:
            rows = command.reshape(5, -1)
            tau = rows[0]  # within the limits: the inbox drops whatever is not
            if rows[3:].any():
                q, v = self._system.joint_positions(before.q), self._system.joint_velocities(before.v)
                errors = self._system.position_errors(rows[1], q)
                told, tau = rows, drive_torque(rows, errors, v, limits.torque)
        elif mode is not Mode.STOPPED:
            tau = brake(self._system, limits, before, self._dt)
        else:
            tau = np.zeros_like(limits.torque)
        try:
            after = self._plant.step(tau if told is None else told, self._dt)
        except (ArithmeticError, np.linalg.LinAlgError):  # its numbers have left the range of floating point
            self._lost = True
            return self._motion
        state = State(t=before.t + self._dt, q=after.q, v=after.v, forces=self._feet(self._plant.contact_forces()))
        return _Motion(state, tau, specific_force(before, state, self._dt, self._wire.floating))

    def _feet(self, forces: ContactForces) -> ContactForces:
        """The forces of the feet, which come before whatever else touches the ground."""
        of = forces.identity < self._wire.n_feet
        return (
            forces
            if of.all()
            else ContactForces(identity=forces.identity[of], force=forces.force[of], normal=forces.normal[of])
        )

    def _describe(self, beat: Beat, faults: Fault, silence: int, spent: int) -> None:
        of, motion = self.row.of, self._motion
        of["t"][...], of["mode"][...], of["faults"][...] = motion.state.t, self.safety.mode, faults
        of["q"][:], of["v"][:], of["tau"][:] = motion.state.q, motion.state.v, motion.tau
        of["force"][:] = 0.0
        if motion.state.forces is not None:
            of["force"][motion.state.forces.identity] = motion.state.forces.force
        of["silence_us"][...], of["step_us"][...] = 1e-3 * silence, 1e-3 * spent
        of["late_us"][...], of["missed"][...] = 1e-3 * (beat.woke - beat.due), beat.missed


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
    """Advance the state machine of a machine, which follows its loop; returns it, and what is wrong.

    Args:
        safety: State before.
        policy: Faults that are tolerated.
        now: Time [ns].
        endpoint: The machine's side of the conversation, which has taken what has come.
        late: Silence of the loop that is tolerated [ns].
        slow: Tells whether all joints are slow; asked while they are braked.
        stop: Whether to stop, whatever the loop says.
        lost: Whether the machine's own numbers are lost.
    """
    mode, heard = safety.mode, endpoint.newest
    asked = Mode.IDLE if heard is None else Mode(heard.mode)
    left = asked is Mode.STOPPED  # who has said farewell is not missed
    faults = Fault.SILENT if endpoint.silence(now) > late and not left else Fault.NONE
    if lost:
        faults |= Fault.NOT_FINITE
    ends = stop or left
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
    """Reading of an accelerometer at the base's origin, base axes, shape (3,) [m/s²]; zero for a fixed base.

    It is ``dv/dt + ω × v - Rᵀ g`` with the velocities of the base in base axes.
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
        own = gravity[i] + w * turned[i] - (q[3 + j] * turned[k] - q[3 + k] * turned[j])
        out[i] = (v[i] - v_before[i]) / dt + v[3 + j] * v[k] - v[3 + k] * v[j] - own
    return out
