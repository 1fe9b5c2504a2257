"""The loop's view of its machine: reads and judges states, and provides the state for planner and controller."""

from __future__ import annotations

from typing import Final

import numpy as np
from msgspec import structs

from idcontrol.kernels.bound import bind, entry
from idcontrol.loop.clock import NS
from idcontrol.loop.encoders import Drives, Trust, nothing
from idcontrol.loop.inertial import Carried, unread
from idcontrol.loop.motion import MotionJudge
from idcontrol.loop.plausible import MOVES, UNUSED, Bearable, Joints, Judge, judge, see, tilt
from idcontrol.loop.safety import Fault, Policy
from idcontrol.loop.session import Parts, Sense, Steered
from idcontrol.loop.telemetry import Telemetry
from idcontrol.loop.transport import SENT
from idcontrol.loop.wire import Datagram
from idcontrol.record.channels import views
from idcontrol.types import Array, Sensed, State

SLOWER: Final = 10.0
"""Ratio of elapsed time to the change of the machine's time above which the machine's time counts as standing still. A
state that is repeated with a time that creeps is old. A simulated machine on a busy computer may be slow."""


RARE: Final = 6.0
"""Ratio of the tolerated silence to the longest usual time between two states with different times: a loop at 1 kHz
needs a new state every 3.3 ms. A trot of `links` bears 3 ms and, at 4 ms, falls when it halts."""
RENEWALS: Final = 20.0
"""Number of new states over which the usual time between them is averaged."""


class Observer:
    """Last messages and state of the machine. A message is the content of a datagram.

    Attributes:
        datagram: The last datagram that was read; None before the first datagram.
        faults: Faults of that datagram.
        stays: Faults of the last state at another time that this datagram neither shows nor refutes.
        message: The last plausible message; None before the first plausible message.
        advanced: Time of the loop up to which the time in the machine's messages has kept pace [ns]: the time of the
            newest message, unless torques flow and the machine's clock is slower than the loop's by a factor of more
            than `SLOWER`.
        state: State for planner and controller, from the message or estimated; None before the first message.
        joints: Positions and velocities of the joints in that state.
    """

    def __init__(self, parts: Parts, policy: Policy, telemetry: Telemetry, late: int) -> None:
        """Start without observations; every state that is read is written into the row of the `telemetry`.

        `late` is the tolerated silence of the machine [ns].
        """
        self._parts, self._policy, self._telemetry, self._late = parts, policy, telemetry, late
        self.datagram: Datagram | None = None
        self.faults = self.stays = Fault.NONE
        self.message: Sensed | None = None
        self.state: State | None = None
        self.advanced, self._time, self._usual = 0, -1.0, 0.0
        self._sense: Sense | None = None
        self._used, self._epoch = False, 0.0
        self._steered = parts.planner if isinstance(parts.planner, Steered) else None
        said = telemetry.state
        of = views(said, parts.wire.state)
        self._axes, self._buttons, self._doubted = of["axes"], of["buttons"], telemetry.row.of["doubted"]
        self._sent, off, lost = (telemetry.row.of[name] for name in ("sent", "torque_off", "torque_lost"))
        self._rows, self._moved, self._number = np.zeros((SENT, *self._sent.shape)), np.zeros_like(self._sent), 0
        material = _material(parts, policy, telemetry, self._moved)
        self.joints, self._heard, self._drives = material.joints, material.heard, material.drives
        self._judge = bind(material)
        self._judged = entry(judge, self._judge, said, 0.0, False)
        full = parts.limits.torque / parts.limits.power
        self._motion = None if parts.feet is None else MotionJudge(parts.feet, full, parts.friction, off, lost)

    def read(self, datagram: Datagram, now: int, *, running: bool, working: bool, lies: bool = False) -> None:
        """Read a state and judge it.

        Args:
            datagram: The state; it is not used if it is implausible.
            now: Time [ns].
            running: True if torques flow; the state must then be a plausible successor of the last state.
            working: True if planner and controller are called; an estimator, if there is one, is then called too.
            lies: True if the robot lies down: the ground may hold joints whose references move.
        """
        parts, self.datagram = self._parts, datagram
        values = datagram.values if parts.translation is None else parts.translation.state(datagram.values)
        message = parts.wire.read_state(values, self._epoch)
        if not working:  # the ground may hold joints on the way down and, for the longer clocks, up
            self._drives.reference_before[0 if lies else 1 :] = self._drives.reference
        echo, last = datagram.echo, self._number  # some machines echo no number, or a wrong one
        self._moved[:] = self._rows[(echo if 0 < echo <= last else last) % SENT]
        flags = self._judged(self._judge, values, message.state.t, not running)
        t = float(values[0])  # also of an implausible message: the machine's time moves
        ahead, self._time = t - self._time, t
        if ahead > 0.0:
            self._usual += (min(ahead, self._late / NS) - self._usual) / RENEWALS
        if self._usual > self._late / NS / RARE:
            flags |= Fault.RARE
        if ahead < 0.0 or (running and ahead * NS > now - self.advanced + self._late):
            flags |= Fault.CLOCK
        kept = self.advanced + round(SLOWER * ahead * NS) if running else now
        self.advanced = max(self.advanced, min(now, kept))
        again = running and ahead == 0.0
        self.stays = (self.faults | self.stays) & MOVES if again else Fault.NONE
        if flags & UNUSED or again:
            self.faults = Fault(flags)
            if working and self._sense is not None and self.state is not None:
                self._show(self.state)
            return
        self.message, self.state = message, message.state
        if self._motion is not None:
            if not working or flags & Fault.ACCELEROMETER:
                self._motion.restart()
            else:
                flags |= int(self._motion(message, self._moved, self._policy.motion_share))
                if self._motion.slips >= 0 and not flags & Fault.TORQUE:
                    self._doubted.fill(self._motion.slips)
        if working and self._sense is not None:
            self._estimate(self._sense, message)
            leans = parts.system.floats and tilt(self.state.q[3:7]) > self._policy.tilt_rad
            flags = flags | Fault.TIPPED if leans else flags & ~Fault.TIPPED
        if self._steered is not None:
            self._steered.steer(self._axes)
        self.faults = Fault(flags) if flags else Fault.NONE

    def remember(self, number: int) -> None:
        """Remember the setpoints of the command with this `number`; states that echo it were moved by them."""
        self._number = number
        self._rows[number % SENT] = self._sent

    def warm(self) -> State:
        """Estimate the state once with a separate estimator, to compile all code; return the estimate.

        Without an estimator, return the state of the last message.
        """
        assert self.message is not None
        make, state = self._parts.sense, self.message.state
        if make is not None:
            state, self._sense = make()(self.message), make()
            see(self.joints, self._telemetry.row.of["q"], self._telemetry.row.of["v"])
            _ = self._parts.system.floats and tilt(state.q[3:7])
        self.state = state
        return state

    def renew(self) -> None:
        """Replace the estimator, if it has been used, by a new estimator.

        Call this before the loop is armed: creating an estimator takes 0.1 s, after which the machine's messages are
        old.
        """
        if self._used and self._parts.sense is not None:
            self._sense, self._used = self._parts.sense(), False

    def begin_work(self) -> None:
        """Set time zero to the time of the last message; with an estimator, also estimate the state at that time."""
        assert self.message is not None
        state = self.message.state
        self._epoch, self._heard.t[0] = self._epoch + state.t, np.nan
        self.message = structs.replace(self.message, state=structs.replace(state, t=0.0))
        self.state = self.message.state
        if self._sense is not None:
            self._estimate(self._sense, self.message)

    @property
    def stops(self) -> bool:
        """True if the operator presses the joystick's `Policy.stop_button`."""
        buttons = float(self._buttons)
        return buttons > 0.0 and bool(int(buttons) >> self._policy.stop_button & 1)  # NaN without a joystick

    def slow(self) -> bool:
        """Return True if all joints are slower than `Policy.rest_speed`."""
        assert self.message is not None
        v = self._parts.system.joint_velocities(self.message.state.v)
        return bool(np.abs(v).max(initial=0.0) < self._policy.rest_speed)

    def _estimate(self, sense: Sense, message: Sensed) -> None:
        """Estimate the state from `message`, and record it."""
        self._telemetry.lap("read")
        self._used = True
        self.state = state = sense(message)
        self._telemetry.lap("estimate")
        self._show(state)
        of = self._telemetry.row.of
        see(self.joints, of["q"], of["v"])
        if state.forces is not None:
            for channel, felt in (("force_sensed", state.forces.force), ("normal_sensed", state.forces.normal)):
                of[channel][:] = 0.0
                of[channel][state.forces.identity] = felt

    def _show(self, state: State) -> None:
        """Record an estimated state instead of the state that the machine sent."""
        of = self._telemetry.row.of
        of["q_machine"][:], of["v_machine"][:] = of["q"], of["v"]
        of["q"][:], of["v"][:] = state.q, state.v


def _material(parts: Parts, policy: Policy, telemetry: Telemetry, moved: Array) -> Judge:
    """Return what the kernel `judge` reads and writes about the states in `telemetry`, and their setpoints `moved`."""
    system, said, row = parts.system, telemetry.state, telemetry.row.of
    of, a = views(said, parts.wire.state), system.n_actuated
    placed = system.floats and parts.base_sent
    places = a + 3 * placed
    circle = np.zeros(places, dtype=np.bool_)
    circle[:a] = system.joint_circle
    return Judge(
        floats=system.floats,
        placed=placed,
        needed=parts.sense is not None,
        doubted=row["doubted"].reshape(1),
        joints=Joints(
            at_q=system.joint_q,
            circle=system.joint_circle,
            at_v=system.order[system.n_unactuated :],
            q=np.zeros(a),
            v=np.zeros(a),
        ),
        circle=circle,
        heard=nothing(places, a),
        trust=Trust(policy.jump, policy.rest_speed, policy.frozen_s, policy.frozen),
        drives=Drives(
            moved,
            parts.limits.torque / parts.limits.power,
            np.zeros(a),
            of["tau_applied"],
            row["q_des"],
            policy.torque_share * parts.limits.torque,
            parts.friction * np.ones(a),
            np.full(a, np.inf),
            *np.zeros((4, a)),
            *np.zeros((3, 3, a)),
        ),
        inertial=unread(places),
        carried=Carried(np.zeros(3), np.zeros(3), np.zeros(3), np.full(1, np.inf)),
        bearable=Bearable(policy.hot_c or parts.limits.hot_c, *(policy.voltage_v or parts.limits.voltage_v)),
        tilt_rad=policy.tilt_rad,
        values=said,
        q=of["q"],
        v=of["v"],
        specific=of["accelerometer"],
        health=parts.wire.health(said),
    )
