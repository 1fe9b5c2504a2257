"""Judge a machine's state: encoders, inertial sensor, drives, supply, and a base that tips over.

Checksums detect damage in transmission; these checks detect errors made before sending.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

import numpy as np

from idcontrol.dynamics.system import rotate
from idcontrol.kernels.bound import Bound
from idcontrol.kernels.jit import njit
from idcontrol.kernels.linear import assign
from idcontrol.loop.encoders import FINER, Drives, Heard, Trust, contradiction, disobeys, expect, sticks
from idcontrol.loop.inertial import Carried, Inertial, accelerates, senses
from idcontrol.loop.safety import Fault
from idcontrol.loop.wire import Health
from idcontrol.types import Array, Booleans, Integers


class Bearable(NamedTuple):
    """Limits beyond which temperature and voltage are faults."""

    hot: float
    """Highest temperature [°C]."""
    low: float
    """Lowest voltage [V]."""
    high: float
    """Highest voltage [V]."""


DRIVE, HOT, VOLTAGE, ESTOP, QUATERNION, ENCODER, TIPPED, TORQUE, ACCELEROMETER = (
    int(fault)
    for fault in (
        Fault.DRIVE, Fault.HOT, Fault.VOLTAGE, Fault.ESTOP, Fault.QUATERNION, Fault.ENCODER, Fault.TIPPED,
        Fault.TORQUE, Fault.ACCELEROMETER,
    )
)  # fmt: skip
UNUSED: Final = QUATERNION | ENCODER
"""Faults for which a state is not used."""
MOVES: Final = Fault.ENCODER | Fault.ACCELEROMETER | Fault.TIPPED | Fault.MOTION | Fault.WEAK | Fault.SLIP
"""Faults that only a state at a new time can show or refute."""
UNIT: Final = 1e-3
"""Largest difference between the norm of a quaternion and 1."""


@njit(cache=True, inner=True)
def off_unit(quaternion: Array) -> float:  # pragma: no cover - compiled
    """Return the absolute difference between 1 and the norm of a quaternion, shape (4,)."""
    square = 0.0
    for x in quaternion:
        square += x * x
    return abs(math.sqrt(square) - 1.0)


@njit(cache=True, inner=True)
def ailing(health: Health, bearable: Bearable) -> int:  # pragma: no cover - compiled
    """Return faults of drives, supply and emergency stop as a sum of `Fault`; NaN (not measured) causes no fault."""
    faults = 0
    for i in range(health.drive_error.shape[0]):
        if health.drive_error[i] > 0.0 or health.drive_error[i] < 0.0:
            faults |= DRIVE
        if health.temperature[i] > bearable.hot:
            faults |= HOT
    if health.supply[0] < bearable.low or health.supply[0] > bearable.high:
        faults |= VOLTAGE
    if health.supply[1] > 0.0:
        faults |= ESTOP
    return faults


@njit(cache=True)
def tilt(quaternion: Array) -> float:  # pragma: no cover - compiled
    """Return the angle between a base's z axis and the world's [rad]; the orientation is x, y, z, w, shape (4,)."""
    x, y, z, w = quaternion[0], quaternion[1], quaternion[2], quaternion[3]
    return 2.0 * math.atan2(math.sqrt(x * x + y * y), math.sqrt(z * z + w * w))


class Joints(NamedTuple):
    """The indices of the actuated joints in a state, and the joints' positions and velocities in the last state.

    Attributes:
        at_q: Indices of the joints in a configuration, shape (a,).
        circle: True for joints that are stored as cosine and sine, shape (a,).
        at_v: Indices of the joints in a velocity, shape (a,).
        q: Positions, shape (a,) [rad or m]; continuous joints within (-π, π].
        v: Velocities, shape (a,) [rad/s or m/s].
    """

    at_q: Integers
    circle: Booleans
    at_v: Integers
    q: Array
    v: Array


@njit(cache=True, inner=True)
def joint_angle(joints: Joints, j: int, q: Array) -> float:  # pragma: no cover - compiled
    """Return the position of joint j [rad or m] in a configuration in Pinocchio's layout, shape (nq,)."""
    at = joints.at_q[j]
    return math.atan2(q[at + 1], q[at]) if joints.circle[j] else q[at]


@njit(cache=True)
def see(joints: Joints, q: Array, v: Array) -> None:  # pragma: no cover - compiled
    """Write positions and velocities of a state, in Pinocchio's layout, shapes (nq,) and (nv,), into `joints`."""
    for j in range(joints.at_q.shape[0]):
        joints.q[j] = joint_angle(joints, j, q)
        joints.v[j] = v[joints.at_v[j]]


class Judge(NamedTuple):
    """Limits by which states are judged, and arrays into which states are written.

    Attributes:
        floats: True if a configuration begins with a position and a quaternion.
        placed: True if position and linear velocity of the base are used; otherwise they are not judged.
        needed: True if the accelerometer is used.
        doubted: Out: number of the joint whose readings are implausible or whose drive disobeys; a, `a + 1` or `a + 2`
            for the base's position, its orientation or gyroscope, and its accelerometer; -1 without one; shape (1,).
        joints: The joints of the last state that was used.
        circle: True for places that are continuous joints, shape (n,).
        heard: The last plausible state of the joints and the base.
        trust: Limits within which encoders and the orientation are trusted.
        drives: Sent and applied torques.
        inertial: How long the readings of the inertial sensor have been constant.
        carried: Velocity and accelerometer of the base in the last state.
        bearable: Limits of drives and supply.
        tilt_rad: Largest angle of the base from upright [rad].
        values: All values of the last state, usable or not.
        q: View of the configuration in `values`, shape (nq,).
        v: View of the velocity in `values`, shape (nv,).
        specific: View of the accelerometer in `values`, shape (3,).
        health: View of drives and supply in `values`.
    """

    floats: bool
    placed: bool
    needed: bool
    doubted: Array
    joints: Joints
    circle: Booleans
    heard: Heard
    trust: Trust
    drives: Drives
    inertial: Inertial
    carried: Carried
    bearable: Bearable
    tilt_rad: float
    values: Array
    q: Array
    v: Array
    specific: Array
    health: Health


@njit(cache=True, error_model="numpy")
def judge(bound: Bound, values: Array, t: float, fresh: bool) -> int:  # pragma: no cover - compiled
    """Return the faults of a state as a sum of `Fault`; store its values and, if it is plausible, its joints.

    A state at the time of the last state has no faults of `MOVES`, and its joints are not stored.

    Args:
        bound: A `Judge`.
        values: The values of the state.
        t: Time of the state [s].
        fresh: True to compare with no earlier state: joints may be anywhere.
    """
    by: Judge = bound.borrowed
    assign(by.values, values)
    faults = ailing(by.health, by.bearable)
    if by.floats and off_unit(by.q[3:7]) > UNIT:
        return faults | QUATERNION
    if fresh:
        by.heard.t[0] = np.nan
    a, n = by.joints.q.shape[0], by.circle.shape[0]
    q, v, turned = np.zeros(n), np.zeros(n + 3), np.zeros(4)
    for j in range(a):
        q[j], v[j] = joint_angle(by.joints, j, by.q), by.v[by.joints.at_v[j]]
    if by.floats:
        assign(turned, by.q[3:7])
        assign(v[n:], by.v[3:6])
    if by.placed:
        rotate(turned, by.v, v[a:])
        for i in range(3):
            q[a + i], v[a + i] = FINER * by.q[i], FINER * v[a + i]
    expect(by.drives, by.joints.circle, q, v)
    after = t - by.heard.t[0]
    disobeying = disobeys(by.drives, after)
    if disobeying >= 0:
        faults |= TORQUE
    if not fresh and t == by.heard.judged[0]:  # motion within no time is no jump
        by.doubted[0] = disobeying
        return faults
    doubted = sticks(by.heard, by.drives, by.trust, by.joints.circle, q, v, after)
    if by.placed:
        gap = np.nan if fresh else t - by.heard.judged[0]
        if not accelerates(by.carried, turned, by.v, by.specific, gap):
            doubted = a
    readings = np.empty(10)
    assign(readings[:4], turned)
    assign(readings[4:7], v[n:])
    assign(readings[7:], by.specific)
    turns, falls = senses(by.inertial, by.trust, q, readings, after)
    if not turns:
        doubted = a + 1
    if not falls:
        faults |= ACCELEROMETER
        if by.needed:
            doubted = a + 2
    strange = contradiction(by.heard, by.trust, by.circle, t, q, v, turned)
    if strange >= 0:
        doubted = strange if strange < a else a if strange < n else a + 1
    by.doubted[0] = doubted if doubted >= 0 else disobeying
    if doubted >= 0:
        return faults | ENCODER
    see(by.joints, by.q, by.v)
    if by.floats and tilt(by.q[3:7]) > by.tilt_rad:
        faults |= TIPPED
    return faults
