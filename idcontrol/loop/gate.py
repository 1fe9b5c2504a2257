"""The setpoints of the drives, and the gate: the limits that every setpoint passes before it is sent.

The gate of torques is `idcontrol.loop.safety.admit`. For drives with gains, the gate computes the torques
``tau + kp (q_des - q) + kd (v_des - v)`` of the new command and of the last, both at the measured state. It limits the
change from the last torques to the new ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

import numpy as np

from idcontrol.dynamics.system import shorter
from idcontrol.kernels.bound import Bound, bind, entry
from idcontrol.kernels.jit import njit
from idcontrol.loop.plausible import Joints
from idcontrol.loop.safety import Cut, Fault, Limits, admit_kernel
from idcontrol.loop.wire import FARTHEST, FASTEST, LARGEST_GAIN, STIFFEST_RAD, STIFFEST_RAD_S
from idcontrol.types import Array

TIED: Final = 0.2
"""Largest torque of a drive's stiffness or damping due to targets away from the reference, as a share of the torque
limit."""
ASIDE: Final = (0.05, 0.5)
"""Largest distance of targets from the reference [rad or m, rad/s or m/s]. Soft drives that pull a joint further aside
are weaker than `TIED`, but the planner follows the measured posture, which then runs away."""
EXCESS: Final = 5.0
"""A commanded torque beyond this multiple of the motor's full torque is a fault: no right controller computes it."""
UNABLE: Final = int(Cut.RATE | Cut.TORQUE)
"""Limits whose cuts mean that the motors could not follow the command; a fault after `Policy.cut_s`."""
WRONG: Final = int(Cut.GAIN | Cut.TARGET)
"""Limits beyond which no right command is; a fault after `Policy.wrong_s`."""
USABLE, BAD, HUGE = 0, 1, 2
"""Verdicts of `take`."""


class Asked(NamedTuple):
    """The arrays into which `take` writes a command, and the joints that it compares with their reference.

    Attributes:
        most: Largest usable torque, shape (a,) [N m].
        wanted: Out: commanded torques, shape (a,) [N m].
        held: Out: commanded rows q, v, kp, kd of the drives, shape (4, a); zero if the command has only torques.
        q_des: Reference positions of the joints, shape (a,) [rad or m].
        joints: Positions of the joints.
    """

    most: Array
    wanted: Array
    held: Array
    q_des: Array
    joints: Joints


@njit(cache=True, inner=True)
def away(joints: Joints, j: int, target: float) -> float:  # pragma: no cover - compiled
    """Return `target` minus the position of joint j [rad or m]; for a continuous joint, the shorter way."""
    error = target - joints.q[j]
    return shorter(error) if joints.circle[j] else error


@njit(cache=True)
def take(bound: Bound, command: Array) -> tuple[int, float]:  # pragma: no cover - compiled
    """Adopt a command if it is usable: torques (a,), or rows tau, q, v, kp, kd for the drives (5 a,).

    Returns:
        `USABLE` and the largest distance of a joint from its reference [rad or m], for a continuous joint the shorter
        way; `BAD` and 0 if the command is not finite, `HUGE` and 0 if a torque is larger than `Asked.most`.
    """
    asked: Asked = bound.borrowed
    for x in command:
        if not np.isfinite(x):
            return BAD, 0.0
    a, most = asked.wanted.shape[0], 0.0
    for j in range(a):
        if abs(command[j]) > asked.most[j]:
            return HUGE, 0.0
    for j in range(a):
        most = max(most, abs(away(asked.joints, j, asked.q_des[j])))
        asked.wanted[j] = command[j]
        for row in range(4):
            asked.held[row, j] = command[(1 + row) * a + j] if command.shape[0] > a else 0.0
    return USABLE, most


class Gate(NamedTuple):
    """The arrays that the gate reads and writes.

    Attributes:
        limits: `Limits.gate`, with its torques and torque rates scaled by `power` (`Setpoints.admit`).
        joints: Positions and velocities of the joints.
        wanted: Commanded torques, shape (a,) [N m].
        held: Commanded rows q, v, kp, kd of the drives, shape (4, a).
        q_des: Reference positions of the joints, shape (a,) [rad or m].
        v_des: Reference velocities of the joints, shape (a,) [rad/s or m/s].
        a_des: Reference accelerations of the joints, shape (a,) [rad/s² or m/s²].
        v_before: In: velocities of the joints when rows were sent last; out: velocities in `joints`; shape (a,).
        tau: Out: torques of the drives at the positions and velocities in `joints`, shape (a,) [N m].
        sent: In: rows tau, q, v, kp, kd that were sent last; out: rows that may be sent, shape (5, a).
        cut_ticks: Number of calls with `drives` in a row that cut a drive for `WRONG`, or for `UNABLE` if none was cut
            for `WRONG`, shape (a,).
    """

    limits: Array
    joints: Joints
    wanted: Array
    held: Array
    q_des: Array
    v_des: Array
    a_des: Array
    v_before: Array
    tau: Array
    sent: Array
    cut_ticks: Array


@njit(cache=True, inner=True)
def feedback(joints: Joints, sent: Array, j: int) -> float:  # pragma: no cover - compiled
    """Return the torque that drive j adds by its gains, for rows `sent`, at the state in `joints` [N m]."""
    return sent[3, j] * away(joints, j, sent[1, j]) + sent[4, j] * (sent[2, j] - joints.v[j])


@njit(cache=True, inner=True, error_model="numpy")
def tie(gate: Gate, j: int, dt: float) -> bool:  # pragma: no cover - compiled
    """Move the targets of drive j in ``Gate.sent`` towards its reference; return True if one was too far.

    They may be as far ahead as the reference moves in the time `dt` [s], and beyond that by `TIED` and `ASIDE`.
    """
    sent, far, reference = gate.sent, False, (gate.q_des[j], gate.v_des[j], gate.a_des[j])
    for row, aside in ((1, ASIDE[0]), (2, ASIDE[1])):
        if sent[row + 2, j] == 0.0:
            continue
        planned, ahead = reference[row - 1], abs(reference[row]) * dt
        most, off = ahead + min(aside, TIED * gate.limits[0, j] / sent[row + 2, j]), sent[row, j] - planned
        if abs(off) > most:  # False without a reference
            sent[row, j] = planned + np.copysign(most, off)
            far = True
    return far


@njit(cache=True, inner=True, error_model="numpy")
def soften(gate: Gate, j: int, dt: float) -> bool:  # pragma: no cover - compiled
    """Reduce the gains of drive j in ``Gate.sent`` if its torque would change too fast; return True if it would.

    Until the next rows arrive, after the time `dt` [s], targets stay where they are while the joint moves on. The
    velocity is assumed to change as much as since the last rows.
    """
    sent, v = gate.sent, gate.joints.v[j]
    change, most = v - gate.v_before[j], gate.limits[1, j] * dt
    slide = abs(sent[3, j] * (v + 0.5 * change) * dt + sent[4, j] * change)
    gate.v_before[j] = v
    if not slide > most:  # also in the first rows: `v_before` is NaN
        return False
    sent[3, j] *= most / slide
    sent[4, j] *= most / slide
    return True


@njit(cache=True)
def let_through(bound: Bound, drives: bool, tied: bool, share: float, dt: float) -> int:  # pragma: no cover - compiled
    """Write the rows that may be sent into `Gate.sent`: torques, and with `drives` also targets and gains.

    Bounds on the gains limit the drives' reaction to motion. To reduce a drive's torque, the gate changes the
    feed-forward torque; if that would exceed the torque limit, it also reduces the gains.

    Args:
        bound: A `Gate`.
        drives: True to send targets and gains, False to send only torques.
        tied: True to keep targets near the reference (`tie`).
        share: Factor on commanded torques and gains.
        dt: Time since the last rows were sent [s].

    Returns:
        The sum of `idcontrol.loop.safety.Cut` for the limits at which a setpoint was cut.
    """
    gate: Gate = bound.borrowed
    joints, sent, tau = gate.joints, gate.sent, gate.tau
    torque, _, low, high, speed = gate.limits
    wanted, last, back = np.empty(tau.shape[0]), np.empty(tau.shape[0]), np.zeros(tau.shape[0])
    cuts = np.zeros(tau.shape[0], dtype=np.int64)
    for j in range(tau.shape[0]):
        cut = 0
        last[j] = min(max(sent[0, j] + feedback(joints, sent, j), -torque[j]), torque[j])
        sent[:, j] = 0.0
        if drives:
            # joints without limits have bounds, too: a target of 1e308 has no finite torque
            for row, least, most, beyond in ((1, low[j], high[j], FARTHEST), (2, -speed[j], speed[j], FASTEST)):
                target = gate.held[row - 1, j]
                sent[row, j] = min(max(target, least, -beyond), most, beyond)
                if abs(target) > beyond:
                    cut |= 32
            for row, most in ((3, torque[j] / STIFFEST_RAD), (4, torque[j] / STIFFEST_RAD_S)):
                sent[row, j] = max(min(share * gate.held[row - 1, j], most, LARGEST_GAIN), 0.0)
                if sent[row, j] != share * gate.held[row - 1, j]:
                    cut |= 16
            if soften(gate, j, dt):
                cut |= 64
            if tied and tie(gate, j, dt):
                cut |= 32
            back[j] = feedback(joints, sent, j)
        wanted[j], cuts[j] = share * gate.wanted[j] + back[j], cut
    admit_kernel(gate.limits, wanted, last, joints.q, joints.v, 1.0, dt, tau, cuts)
    every = 0
    for j in range(tau.shape[0]):
        sent[0, j] = share * gate.wanted[j] if tau[j] == wanted[j] else tau[j] - back[j]
        if abs(sent[0, j]) > torque[j]:
            # the targets are so far away that no feed-forward torque within the limit can cancel their torque: relax
            # the gains
            share_back = (torque[j] + np.copysign(tau[j], tau[j] * back[j])) / abs(back[j])
            sent[0, j] = min(max(tau[j] - share_back * back[j], -torque[j]), torque[j])
            sent[3, j] *= share_back
            sent[4, j] *= share_back
            cuts[j] |= 8
        every |= cuts[j]
    blamed = WRONG if every & WRONG else UNABLE
    if drives:  # the brake keeps the counts that ended the run
        for j in range(tau.shape[0]):
            gate.cut_ticks[j] = gate.cut_ticks[j] + 1.0 if cuts[j] & blamed else 0.0
    return every


class Setpoints:
    """The setpoints of the drives, as commanded and as sent.

    Attributes:
        wanted: Commanded torques, shape (a,) [N m].
        held: Commanded rows q, v, kp, kd of the drives, shape (4, a).
        tau: Torques of the drives for the last sent rows, at the state known when they were sent, shape (a,) [N m].
        sent: Rows tau, q, v, kp, kd that were sent last, shape (5, a).
        values: View of `sent` as the values of a datagram, shape (5 a,).
    """

    def __init__(self, of: Mapping[str, Array], joints: Joints, limits: Limits) -> None:
        """Start without torque.

        Args:
            of: Channels of the loop's telemetry by name; torques and sent rows are written into them.
            joints: The joints of the last state that was used.
            limits: Limits of the joints.
        """
        self.wanted, self.tau = of["tau_wanted"], of["tau"]
        a = len(self.tau)
        self.sent, self.held = of["sent"], np.zeros((4, a))
        self.values = self.sent.ravel()
        self._desired, self._v = (of["q_des"], of["v_des"], of["a_des"]), np.full(a, np.nan)
        self._limits, self._share, self._tied = limits.gate, 1.0, False
        self._admitted = limits.gate.copy()
        most = EXCESS / limits.power * limits.torque
        self._asked = bind(Asked(most, self.wanted, self.held, of["q_des"], joints))
        self._take = entry(take, self._asked, self.tau)
        out = self._v, self.tau, self.sent, of["cut_ticks"]
        self._gate = bind(Gate(self._admitted, joints, self.wanted, self.held, *self._desired, *out))
        self._admit = entry(let_through, self._gate, False, False, 0.0, 0.0)

    def take(self, command: Array, tracking: float, *, tied: bool = False) -> Fault:
        """Adopt a command, torques (a,) or rows for the drives (5, a), if it is usable; return the fault.

        If `tied`, its torques alone suffice for the reference, and its targets must be near the reference (`tie`).

        The fault is `NOT_FINITE` if the command is not finite, `EXCESS` if a torque is beyond any reason (`EXCESS`),
        `ASTRAY` if a joint is further than `tracking` [rad] from its reference, and otherwise `NONE`.
        """
        self._tied = tied
        verdict, off = self._take(self._asked, command.ravel())
        if verdict != USABLE:
            return Fault.NOT_FINITE if verdict == BAD else Fault.EXCESS
        return Fault.ASTRAY if off > tracking else Fault.NONE

    def follow(self, rows: Array, tracking: float) -> Fault:
        """Adopt rows for the drives, shape (5, a), also as reference positions and velocities; return the fault."""
        self._desired[0][:], self._desired[1][:] = rows[1], rows[2]
        return self.take(rows, tracking)

    def admit(self, share: float, dt: float, *, drives: bool, power: float = 1.0) -> Cut:
        """Write the setpoints that may be sent into `sent`; return the limits at which a setpoint was cut.

        Args:
            share: Factor on commanded torques and gains, 0 to 1.
            dt: Time since setpoints were last sent [s].
            drives: True to send targets and gains, too.
            power: Factor on the limits of torques and torque rates.
        """
        if power != self._share:
            self._share, self._admitted[:2] = power, power * self._limits[:2]
        cut = self._admit(self._gate, drives, self._tied, share, dt)
        return Cut(cut) if cut else Cut.NONE

    def clear(self) -> None:
        """Set `tau` and `sent` to zero."""
        self.tau[:], self.sent[:], self._v[:] = 0.0, 0.0, np.nan
