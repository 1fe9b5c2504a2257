"""Inertial sensors that repeat their readings, or contradict the velocity of the base."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from idcontrol.dynamics.system import rotate
from idcontrol.kernels.jit import njit
from idcontrol.kernels.linear import assign
from idcontrol.loop.encoders import FORGOTTEN_S, GAP_S, Trust, farthest, rotated
from idcontrol.sensing.legs import GRAVITY
from idcontrol.types import Array

TURN: Final = 0.002
"""Turn of the base that orientation and gyroscope both show [rad]: 16 steps of an orientation of 16 bits."""
LURCH: Final = 0.15
"""Largest change of the base's velocity beyond the integral of its accelerometer's reading [m/s]; errors of tilt and
accelerometer of 0.01 rad and 0.2 m/s² give 0.06."""
MISSING: Final = 1.5
"""Ratio of the time between states to the machine's period above which a state is missing."""
FOLLOWS: Final = (0.1, 0.003)
"""Shares by which the assumed period follows the time between two states, and the time over missing states, which a
slow loop misses for a while."""


class Inertial(NamedTuple):
    """How long each part of the inertial sensor has been bitwise constant: orientation, gyroscope, accelerometer.

    Attributes:
        readings: The last readings: quaternion, angular velocity, specific force; shape (10,).
        still: Time since each part last changed, shape (3,) [s].
        q_before: Places when each part last changed, shape (3, n) [rad or m].
        spun: Integral of the angular velocity since the orientation last changed, shape (3,) [rad].
        turned: Orientation when the angular velocity last changed, shape (4,).
        seen: 1 once a reading of each part was neither zero nor NaN, shape (3,).
    """

    readings: Array
    still: Array
    q_before: Array
    spun: Array
    turned: Array
    seen: Array


def unread(places: int) -> Inertial:
    """Return an `Inertial` before the first state, for so many places."""
    return Inertial(np.zeros(10), np.zeros(3), np.zeros((3, places)), np.zeros(3), np.zeros(4), np.zeros(3))


@njit(cache=True, inner=True)
def repeats(inertial: Inertial, trust: Trust, part: int, q: Array) -> bool:  # pragma: no cover - compiled
    """True if a part of the sensor is constant for longer than `Trust.still`, although a place moves by `Trust.way`.

    A working sensor may repeat its readings for a few states, between two measurements.
    """
    return inertial.still[part] > trust.still and farthest(q, inertial.q_before[part]) > trust.way


@njit(cache=True, inner=True, error_model="numpy")
def senses(
    inertial: Inertial, trust: Trust, q: Array, readings: Array, after: float
) -> tuple[bool, bool]:  # pragma: no cover - compiled
    """Judge whether orientation and gyroscope work, and whether the accelerometer works.

    Orientation or gyroscope fail if they repeat their readings, and the other one shows a turn by more than `TURN`
    meanwhile, or repeats its readings, too. As long as all angular velocities are exactly zero, both may be constant: a
    simulated base may rest while joints move. The accelerometer fails if it repeats a reading, or reads NaN, and the
    gyroscope does not repeat its readings. An accelerometer that has always read NaN does not exist, and does not fail.

    Args:
        inertial: The last readings; overwritten.
        trust: Limits.
        q: Places, shape (n,).
        readings: As `Inertial.readings`.
        after: Time since the last state [s]; negative or NaN to begin anew.

    Returns:
        False if orientation or gyroscope fail; False if the accelerometer fails.
    """
    last, still, seen = inertial.readings, inertial.still, inertial.seen
    for part in range(3):
        begin, end = max(0, 3 * part + 1), 3 * part + 4
        same, number = True, True
        for i in range(begin, end):
            same, number = same and readings[i] == last[i], number and np.isfinite(readings[i])
            if readings[i] != 0.0 and number:
                seen[part] = 1.0
        if after >= 0.0 and (same or not number):
            still[part] += after
        else:
            still[part] = 0.0
            assign(inertial.q_before[part], q)
    assign(last, readings)
    if still[0] == 0.0:
        inertial.spun[:] = 0.0
    if still[1] == 0.0:
        assign(inertial.turned, readings[:4])
    spun, leans = 0.0, 0.0
    for i in range(3):
        inertial.spun[i] += readings[4 + i] * after if still[0] > 0.0 else 0.0
        spun += inertial.spun[i] ** 2
        leans += rotated(inertial.turned, readings, i) ** 2
    flat, mute = repeats(inertial, trust, 0, q), repeats(inertial, trust, 1, q)
    fails = (flat and spun > TURN**2) or (mute and leans > TURN**2) or (flat and mute and seen[1] > 0.0)
    return not fails, not (repeats(inertial, trust, 2, q) and not mute and seen[2] > 0.0)


class Carried(NamedTuple):
    """Velocity and accelerometer of the base in the last state.

    Attributes:
        v: Velocity, axes of the world, shape (3,) [m/s].
        specific: Reading of the accelerometer, axes of the base, shape (3,) [m/s²].
        off: Change of the velocity beyond the integral of the reading, shape (3,) [m/s]; it decays over `FORGOTTEN_S`.
        period: Mean time between states, the machine's period, shape (1,) [s]; inf at first.
    """

    v: Array
    specific: Array
    off: Array
    period: Array


@njit(cache=True, inner=True, error_model="numpy")
def accelerates(carried: Carried, turned: Array, v: Array, specific: Array, after: float) -> bool:  # pragma: no cover
    """True unless the base's velocity changes otherwise than its accelerometer reads, by more than `LURCH`.

    The comparison begins anew if states are more than `GAP_S` apart, or if the accelerometer repeats its reading: a
    slow sensor misses impacts, and a constant value is no measurement. A change over a missing state, which may have
    read a push, is not compared.

    Args:
        carried: The last state; overwritten.
        turned: Orientation of the base, as a quaternion (x, y, z, w), shape (4,).
        v: Velocity of the base, axes of the base, first three entries [m/s].
        specific: Reading of the accelerometer, shape (3,) [m/s²]; NaN without one.
        after: Time since the last state [s]; NaN to begin anew.
    """
    velocity, pull, same, agrees = np.empty(3), np.empty(3), True, True
    rotate(turned, v, velocity)
    rotate(turned, specific, pull)
    for i in range(3):
        same = same and specific[i] == carried.specific[i]
    period = carried.period[0]
    gap = after > MISSING * period
    continues = 0.0 < after <= GAP_S and not same
    if after > 0.0:
        share = FOLLOWS[1] if gap else FOLLOWS[0]
        carried.period[0] = period + share * (after - period) if np.isfinite(period) else after
    for i in range(3):
        change = velocity[i] - carried.v[i] - (pull[i] + GRAVITY[i]) * after
        off = carried.off[i] / (1.0 + after / FORGOTTEN_S) + (0.0 if gap else change)
        carried.off[i] = off if continues and np.isfinite(off) else 0.0
        agrees = agrees and abs(carried.off[i]) <= LURCH
        carried.v[i], carried.specific[i] = velocity[i], specific[i]
    return agrees
