"""Whether what a machine says of itself can be: joints that jump or stand still, a base that tips over.

Cyclic redundancy checks find damage on the way; these find what was wrong before it was sent.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit

from idcontrol.kernels.linear import assign
from idcontrol.loop.safety import Fault
from idcontrol.loop.wire import Health
from idcontrol.types import Array


class Heard(NamedTuple):
    """The last plausible message about the joints, overwritten by the next one."""

    t: Array
    """Time, shape (1,) [s]; NaN before the first message."""
    q: Array
    """Positions, shape (a,) [rad or m]; cosines of continuous joints, which change no faster."""
    v: Array
    """Velocities, shape (a,) [rad/s or m/s]."""
    still: Array
    """For how long each position has not changed by a bit while its velocity said that it does, shape (a,) [s]."""


class Trust(NamedTuple):
    """How far encoders are trusted."""

    jump: float
    """How far a joint may be from where its velocities lead [rad or m]."""
    speed: float
    """Velocity above which a joint must be seen to move [rad/s or m/s]."""
    still: float
    """Time within which that must be seen [s]."""


def nothing(joints: int) -> Heard:
    """Nothing was heard yet of a number of joints."""
    return Heard(t=np.full(1, np.nan), q=np.zeros(joints), v=np.zeros(joints), still=np.zeros(joints))


@njit(cache=True, error_model="numpy")
def believable(heard: Heard, trust: Trust, t: float, q: Array, v: Array) -> bool:  # pragma: no cover - compiled
    """Whether joints may be at `q` with velocities `v`, shape (a,), at time t; if so, that is `heard`.

    Between two messages a joint moves by no more than the larger of their velocities allows, and `Trust.jump`. What is
    not believed is forgotten, so that one message alone does no harm, and a lasting offset is not got used to. The
    first message is believed, and the first after the machine's clock went back, which is a fault of its own.
    """
    after, believed = t - heard.t[0], True
    if after >= 0.0:
        for i in range(q.shape[0]):
            moved = abs(q[i] - heard.q[i])
            if after > 0.0:
                heard.still[i] = heard.still[i] + after if moved == 0.0 and abs(v[i]) > trust.speed else 0.0
            if moved > trust.jump + max(abs(v[i]), abs(heard.v[i])) * after or heard.still[i] > trust.still:
                believed = False
    else:
        heard.still[:] = 0.0
    if believed:
        heard.t[0] = t
        assign(heard.q, q)
        assign(heard.v, v)
    return believed


@njit(cache=True)
def farthest(q: Array, other: Array) -> float:  # pragma: no cover - compiled
    """Largest difference of two vectors (a,)."""
    most = 0.0
    for i in range(q.shape[0]):
        most = max(most, abs(q[i] - other[i]))
    return most


def off_unit(quaternion: Array) -> float:
    """How far the norm of an orientation, shape (4,), is from 1."""
    x, y, z, w = quaternion
    return abs(math.hypot(x, y, z, w) - 1.0)


class Bearable(NamedTuple):
    """Limits beyond which temperature and voltage are faults."""

    hot: float
    """Temperature [°C]."""
    low: float
    """Least voltage [V]."""
    high: float
    """Largest voltage [V]."""


DRIVE, HOT, VOLTAGE, ESTOP = (int(fault) for fault in (Fault.DRIVE, Fault.HOT, Fault.VOLTAGE, Fault.ESTOP))


@njit(cache=True)
def ailing(health: Health, bearable: Bearable) -> int:  # pragma: no cover - compiled
    """The faults of drives and supply, a sum of `Fault`; what is not measured (NaN) is none."""
    found = 0
    for i in range(health.drive_error.shape[0]):
        if health.drive_error[i] > 0.0 or health.drive_error[i] < 0.0:
            found |= DRIVE
        if health.temperature[i] > bearable.hot:
            found |= HOT
    if health.supply[0] < bearable.low or health.supply[0] > bearable.high:
        found |= VOLTAGE
    if health.supply[1] > 0.0:
        found |= ESTOP
    return found


def tilt(quaternion: Array) -> float:
    """Angle between a base's z axis and the world's [rad], from its orientation, shape (4,): x, y, z, w."""
    x, y, z, w = quaternion
    return 2.0 * math.atan2(math.hypot(x, y), math.hypot(z, w))
