"""The setpoints of the drives. One compiled call adopts them from a command, another passes them through the gate.

`idcontrol.loop.safety.admit` is the gate of torques; this module adds positions, velocities and gains of the drives.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from idcontrol.kernels.bound import Bound, bind, entry
from idcontrol.kernels.jit import njit
from idcontrol.loop.plausible import Joints, farthest
from idcontrol.loop.safety import Cut, Fault, Limits, admit_kernel
from idcontrol.types import Array


class Asked(NamedTuple):
    """The arrays that store a command, and the positions that are compared.

    Attributes:
        wanted: Torques, shape (a,) [N m].
        held: Rows q, v, kp, kd for drives, shape (4, a); zero if the command has only torques.
        q_des: Reference positions of the joints, shape (a,) [rad].
        q: Positions of the joints, shape (a,) [rad].
    """

    wanted: Array
    held: Array
    q_des: Array
    q: Array


@njit(cache=True)
def take(bound: Bound, command: Array) -> tuple[bool, float]:  # pragma: no cover - compiled
    """Adopt the setpoints of a command, shape (a,) or (5 a,), if they are finite.

    Returns:
        True if the setpoints are finite; the largest distance of a joint from its reference.
    """
    asked: Asked = bound.borrowed
    for x in command:
        if not np.isfinite(x):
            return False, 0.0
    a = asked.wanted.shape[0]
    for j in range(a):
        asked.wanted[j] = command[j]
        for row in range(4):
            asked.held[row, j] = command[(1 + row) * a + j] if command.shape[0] > a else 0.0
    return True, farthest(asked.q_des, asked.q)


class Gate(NamedTuple):
    """The arrays that the gate reads and writes.

    Attributes:
        limits: `Limits.gate`.
        wanted: Commanded torques, shape (a,) [N m].
        held: Commanded rows q, v, kp, kd of the drives, shape (4, a).
        q: Joint positions, shape (a,) [rad].
        v: Joint velocities, shape (a,) [rad/s].
        tau: In: torques that were sent last; out: torques that may be sent, shape (a,) [N m].
        sent: Out: rows tau, q, v, kp, kd that may be sent, shape (5, a).
    """

    limits: Array
    wanted: Array
    held: Array
    q: Array
    v: Array
    tau: Array
    sent: Array


@njit(cache=True)
def let_through(bound: Bound, drives: bool, share: float, dt: float) -> int:  # pragma: no cover - compiled
    """Admit the setpoints of a `Gate`: torques, and with `drives` also positions and velocities, cut to the limits.

    The `share` also scales the gains.
    """
    gate: Gate = bound.borrowed
    cut = admit_kernel(gate.limits, gate.wanted, gate.tau, gate.q, gate.v, share, dt, gate.tau)
    _, _, low, high, speed = gate.limits
    for j in range(gate.tau.shape[0]):
        gate.sent[0, j] = gate.tau[j]
        if drives:
            gate.sent[1, j] = min(max(gate.held[0, j], low[j]), high[j])
            gate.sent[2, j] = min(max(gate.held[1, j], -speed[j]), speed[j])
            gate.sent[3, j], gate.sent[4, j] = share * gate.held[2, j], share * gate.held[3, j]
        else:
            gate.sent[1:, j] = 0.0
    return cut


class Setpoints:
    """The setpoints of the drives, as commanded and as sent.

    Attributes:
        wanted: Commanded torques, shape (a,) [N m].
        held: Commanded rows q, v, kp, kd of the drives, shape (4, a).
        tau: Torques sent last, shape (a,) [N m].
        sent: Rows tau, q, v, kp, kd that were sent last, shape (5, a).
        values: View of `sent` as the values of a datagram, shape (5 a,).
    """

    def __init__(self, of: Mapping[str, Array], joints: Joints, limits: Limits) -> None:
        """Start without torque; torques are stored in the channels `of` a loop's row, so that no tick copies them."""
        self.wanted, self.tau = of["tau_wanted"], of["tau"]
        a = len(self.tau)
        self.sent, self.held = np.zeros((5, a)), np.zeros((4, a))
        self.values = self.sent.ravel()
        self._desired = of["q_des"], of["v_des"]
        self._asked = bind(Asked(self.wanted, self.held, of["q_des"], joints.q))
        self._take = entry(take, self._asked, self.tau)
        self._gate = bind(Gate(limits.gate, self.wanted, self.held, joints.q, joints.v, self.tau, self.sent))
        self._admit = entry(let_through, self._gate, False, 0.0, 0.0)

    def take(self, command: Array, tracking: float) -> Fault:
        """Adopt a command, if it is finite: torques, shape (a,), or rows for the drives, shape (5, a).

        A joint that is further than `tracking` from its reference is also a fault.
        """
        finite, off = self._take(self._asked, command.ravel())
        if not finite:
            return Fault.NOT_FINITE
        return Fault.ASTRAY if off > tracking else Fault.NONE

    def follow(self, rows: Array, tracking: float) -> Fault:
        """Adopt rows for the drives, shape (5, a), whose positions and velocities are also the reference."""
        self._desired[0][:], self._desired[1][:] = rows[1], rows[2]
        return self.take(rows, tracking)

    def admit(self, share: float, dt: float, *, drives: bool) -> Cut:
        """Pass the commanded setpoints through the gate; see `idcontrol.loop.safety.admit`."""
        cut = self._admit(self._gate, drives, share, dt)
        return Cut(cut) if cut else Cut.NONE

    def clear(self) -> None:
        """Set all torques to zero."""
        self.tau[:], self.sent[:] = 0.0, 0.0
