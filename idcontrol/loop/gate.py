"""Keep what a controller asks for, and let through what may be sent: one compiled call each, of arrays bound once.

`idcontrol.loop.safety.admit` is the gate of torques; here drives that hold joints are beside it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from idcontrol.kernels.bound import Bound
from idcontrol.kernels.jit import njit
from idcontrol.loop.plausible import farthest
from idcontrol.loop.safety import admit_kernel
from idcontrol.types import Array


class Asked(NamedTuple):
    """Where what a controller asks for is kept, and what its reference is compared with.

    Attributes:
        wanted: Torques, shape (a,) [N m].
        held: Rows q, v, kp, kd for drives, shape (4, a); zero where it gives torques alone.
        q_des: Positions of the joints that the reference has, shape (a,) [rad].
        q: Their positions, shape (a,) [rad].
    """

    wanted: Array
    held: Array
    q_des: Array
    q: Array


@njit(cache=True)
def take(bound: Bound, told: Array) -> tuple[bool, float]:  # pragma: no cover - compiled
    """Keep what a controller asks for, shape (a,) or (5 a,), if it is finite.

    Returns:
        Whether it is; the largest distance of a joint from its reference.
    """
    asked: Asked = bound.borrowed
    for x in told:
        if not np.isfinite(x):
            return False, 0.0
    a = asked.wanted.shape[0]
    for j in range(a):
        asked.wanted[j] = told[j]
        for row in range(4):
            asked.held[row, j] = told[(1 + row) * a + j] if told.shape[0] > a else 0.0
    return True, farthest(asked.q_des, asked.q)


class Gate(NamedTuple):
    """What goes through the gate, and what comes out.

    Attributes:
        limits: `Limits.gate`.
        wanted: Torques that are asked for, shape (a,) [N m].
        held: Rows q, v, kp, kd that drives are asked to hold, shape (4, a).
        q: Joint positions, shape (a,) [rad].
        v: Joint velocities, shape (a,) [rad/s].
        tau: In: torques that were sent last; out: those that may be sent, shape (a,) [N m].
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
    """`admit` for what a `Gate` is bound to; where `drives` hold joints, within the joints' limits.

    Gains are softened by the `share`, too.
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
