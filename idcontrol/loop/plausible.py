"""Faults in a machine's state: coordinates that jump or stand still, a base that tips over, faulty drives or supply.

Checksums detect damage in transmission; these checks detect errors made before sending.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

import numpy as np

from idcontrol.dynamics.system import rotate, shorter
from idcontrol.kernels.bound import Bound
from idcontrol.kernels.jit import njit
from idcontrol.kernels.linear import assign
from idcontrol.loop.safety import Fault
from idcontrol.loop.wire import Health
from idcontrol.sensing.legs import GRAVITY
from idcontrol.types import Array, Booleans, Integers

SETTLE_S: Final = 0.02
"""Time constant with which ranges of recent values follow [s]; it is longer than `LAG_S`."""
FORGOTTEN_S: Final = 0.2
"""Time constant with which differences between motion and integrated velocity of the base decay [s]. Its sensors have
constant errors; encoders do not (`DRIFT_S`)."""
DRIFT_S: Final = 1.0
"""The same for joints; an encoder whose offset drifts faster than `Trust.jump` in this time is noticed."""
LAG_S: Final = 0.01
"""Largest lag of velocities that drives filter [s]. The integral of such a velocity lags behind the position by this
time multiplied by the change of the velocity."""

STEPS: Final = 50.0
"""Motion of a reference, in steps of the joint's encoder, that a driven joint cannot miss. Joints that stop while they
are pushed read the same position, and a velocity of exactly zero, for 14 steps (`anymal`, 15 bits)."""
FINE: Final = 5e-4
"""Smallest motion of a reference that a joint with a fine encoder cannot miss [rad or m]."""

GAP_S: Final = 0.004
"""Longest time between two states whose differences add up [s]: in a longer time a joint may stop and move on, which
the two velocities do not show."""
USUAL_S: Final = 1e-3
"""Longest time between two states for which `Trust.jump` and `DRIFT_S` hold [s]. States farther apart miss what impacts
do in between: feet of `links` that land between states 2 ms apart leave 0.004 rad of a knee's motion unexplained."""
MISSING: Final = 1.5
"""Ratio of the times between states above which a state is missing."""
SWIFTEST: Final = 2000.0
"""Largest acceleration of a joint between two states [rad/s² or m/s²]; feet that land hard stop their joints within
milliseconds."""
FINER: Final = 2.0
"""Factor on position and linear velocity of the base, to which the limits of joints then apply."""
TURN: Final = 0.002
"""Turn of the base that orientation and gyroscope both show [rad]: 16 steps of an orientation of 16 bits."""
LURCH: Final = 0.15
"""Largest change of the base's velocity beyond the integral of its accelerometer's reading [m/s]; errors of tilt and
accelerometer of 0.01 rad and 0.2 m/s² give 0.06."""


class Heard(NamedTuple):
    """The last plausible state of the joints and the base, overwritten by each plausible state.

    The coordinates are the places, followed by the base's rotation about its three axes. The places are the positions
    of the joints and, of a floating robot, the position of the base in the world times `FINER`.
    """

    t: Array
    """Time of the state, shape (1,) [s]; NaN before the first message."""
    judged: Array
    """Time of the last state, plausible or not, shape (1,) [s]."""
    q: Array
    """Places, shape (n,) [rad or m]."""
    turned: Array
    """Orientation of the base as a quaternion (x, y, z, w), shape (4,)."""
    forgotten: Array
    """Time constants with which `off` and `swung` decay, shape (n + 3,) [s]."""
    v: Array
    """Velocities of the coordinates, shape (n + 3,) [rad/s or m/s]."""
    off: Array
    """Motion of each coordinate beyond the integral of its velocity, shape (n + 3,) [rad or m]."""
    still: Array
    """Time for which each coordinate has been bitwise constant despite its velocity, shape (n + 3,) [s]."""
    way: Array
    """Integral of the velocity over that time, shape (n + 3,) [rad or m]."""
    moving: Array
    """Velocity before that time, shape (n + 3,) [rad/s or m/s]."""
    swung: Array
    """Change of each velocity, shape (n + 3,) [rad/s or m/s]; it decays as `off` does."""


class Trust(NamedTuple):
    """Limits within which encoders and the pose of the base are trusted."""

    jump: float
    """Largest motion of a coordinate beyond the integral of its constant velocity [rad or m]."""
    speed: float
    """Velocity above which a coordinate must change [rad/s or m/s]."""
    still: float
    """Time within which the coordinate must change [s] if the integral of its velocity exceeds `way`."""
    way: float
    """Integral of the velocity above which the coordinate must have changed [rad or m]."""


def nothing(places: int, joints: int) -> Heard:
    """Return a `Heard` before the first state, for so many places; the first ones are joints."""
    forgotten = np.where(np.arange(places + 3) < joints, DRIFT_S, FORGOTTEN_S)
    return Heard(
        np.full(1, np.nan), np.zeros(1), np.zeros(places), np.zeros(4), forgotten, *np.zeros((6, places + 3))
    )  # fmt: skip


@njit(cache=True, inner=True, error_model="numpy")
def widen(low: Array, high: Array, j: int, value: float, after: float) -> None:  # pragma: no cover - compiled
    """Update the range of recent values, ``low[j]`` to ``high[j]``, with `value`, the time `after` [s] after the last.

    The ends approach `value` with the time constant `SETTLE_S`. If `after` is negative or NaN, both become `value`.
    """
    share = after / (after + SETTLE_S) if after >= 0.0 else 1.0
    low[j] = min(value, low[j] + share * (value - low[j]))
    high[j] = max(value, high[j] + share * (value - high[j]))


@njit(cache=True, inner=True)
def rotated(last: Array, now: Array, i: int) -> float:  # pragma: no cover - compiled
    """Return entry i of twice the vector part of the quaternion from orientation `last` to `now`, the angle [rad].

    The first four entries of both are quaternions (x, y, z, w) of either sign.
    """
    same = 0.0
    for k in range(4):
        same += last[k] * now[k]
    j, k = (i + 1) % 3, (i + 2) % 3
    vector = last[3] * now[i] - now[3] * last[i] - (last[j] * now[k] - last[k] * now[j])
    return np.copysign(2.0, same) * vector


@njit(cache=True, inner=True, error_model="numpy")
def travel(heard: Heard, circle: Booleans, q: Array, turned: Array) -> Array:  # pragma: no cover - compiled
    """Return the motion of the coordinates since the last plausible state, shape (n + 3,) [rad or m].

    Places marked in `circle` take the shorter way. The rotation is small (`rotated`).
    """
    a = q.shape[0]
    moved = np.empty(a + 3)
    for i in range(a):
        moved[i] = q[i] - heard.q[i]
        if circle[i]:
            moved[i] -= 2.0 * np.pi * np.round(moved[i] / (2.0 * np.pi))
    for i in range(3):
        moved[a + i] = rotated(heard.turned, turned, i)
    return moved


@njit(cache=True, inner=True, error_model="numpy")
def frozen(heard: Heard, trust: Trust, i: int, moved: float, v: float, after: float) -> bool:  # pragma: no cover
    """Update `still`, `way` and `moving` of coordinate i; True if it stood still for longer than its velocity permits.

    Args:
        heard: The last plausible state.
        trust: Limits.
        i: The coordinate.
        moved: Motion of the coordinate since that state [rad or m].
        v: Its velocity [rad/s or m/s].
        after: Time since that state [s].
    """
    if moved == 0.0 and abs(v) > trust.speed:
        heard.still[i] += after
        heard.way[i] += v * after
    elif after > 0.0:
        heard.still[i] = heard.way[i] = 0.0
        heard.moving[i] = v
    # the filtered velocity of a joint that has stopped decays, and has an integral
    lag = LAG_S * abs(v - heard.moving[i])
    return heard.still[i] > trust.still and abs(heard.way[i]) > trust.way + lag


@njit(cache=True, inner=True, error_model="numpy")
def contradiction(
    heard: Heard, trust: Trust, circle: Booleans, t: float, q: Array, v: Array, turned: Array
) -> int:  # pragma: no cover - compiled
    """Return the first implausible coordinate of a state at time t; if all are plausible, store it and return -1.

    A coordinate must not stand still despite its velocity (`frozen`). Its motion may differ from the integral of its
    velocity by `Trust.jump`, and by `LAG_S` times the change of the velocity in recent plausible states; differences
    add up over states at most `GAP_S` apart, and decay (`Heard.forgotten`). The limit grows with the time since the
    last plausible state, and with the time since any state (`USUAL_S`) and its square (`SWIFTEST`), because the
    velocity may change in between; differences then also decay faster. The limit does not grow with the velocity of
    this state: a wrong velocity is as implausible as a wrong position. An implausible state is not stored, so a single
    wrong state does no harm, and an offset stays implausible until the limit has grown to it. The first state is
    plausible. So is the first state after the machine's time went back, which is a separate fault.

    Args:
        heard: The last plausible state.
        trust: Limits.
        circle: True for continuous joints, whose positions are in (-π, π], shape (n,).
        t: Time [s].
        q: Places, shape (n,).
        v: Velocities of the coordinates, shape (n + 3,).
        turned: Orientation of the base, as a quaternion (x, y, z, w) of either sign, shape (4,).
    """
    after, gap, doubted = t - heard.t[0], t - heard.judged[0], -1
    heard.judged[0] = t
    off, swung = np.zeros(v.shape[0]), np.zeros(v.shape[0])
    if after >= 0.0:
        moved = travel(heard, circle, q, turned)
        coarse = max(1.0, gap / USUAL_S)
        limit = trust.jump * (coarse + after / SETTLE_S) + 0.5 * SWIFTEST * gap**2
        for i in range(v.shape[0]):
            kept = 1.0 / (1.0 + coarse * after / heard.forgotten[i]) if gap <= GAP_S else 0.0
            off[i] = kept * heard.off[i] + moved[i] - 0.5 * (v[i] + heard.v[i]) * after
            swung[i] = kept * heard.swung[i] + v[i] - heard.v[i]
            stands = frozen(heard, trust, i, moved[i], v[i], after)
            most = limit + LAG_S * abs(heard.swung[i])
            if doubted < 0 and (stands or not abs(off[i]) <= most):
                doubted = i
    else:
        heard.still[:] = heard.way[:] = 0.0
        assign(heard.moving, v)
    if doubted < 0:
        heard.t[0] = t
        assign(heard.q, q)
        assign(heard.v, v)
        assign(heard.turned, turned)
        assign(heard.off, off)
        assign(heard.swung, swung)
    return doubted


@njit(cache=True, inner=True)
def farthest(q: Array, other: Array) -> float:  # pragma: no cover - compiled
    """Return the largest absolute difference between entries of two vectors, shape (n,) each."""
    most = 0.0
    for i in range(q.shape[0]):
        most = max(most, abs(q[i] - other[i]))
    return most


@njit(cache=True, inner=True)
def off_unit(quaternion: Array) -> float:  # pragma: no cover - compiled
    """Return the absolute difference between 1 and the norm of a quaternion, shape (4,)."""
    square = 0.0
    for x in quaternion:
        square += x * x
    return abs(math.sqrt(square) - 1.0)


class Drives(NamedTuple):
    """Torques that were sent to the drives and applied by them, and how long joints stood still; arrays of shape (a,).

    `rows`, `applied` and `reference` are views of the loop's telemetry.

    Attributes:
        rows: Rows tau, q, v, kp, kd that were sent last, shape (5, a).
        limit: Torque limits [N m].
        sent: Torques of the drives by `rows` at the newest state that the machine sent [N m] (`expect`).
        applied: Torques that the drives report [N m]; NaN is not judged.
        reference: Reference positions of the joints [rad or m]; NaN if there are none.
        most: Largest allowed distance of an applied torque from the range of recently sent torques [N m].
        friction: Dry friction of the joints [N m].
        finest: Smallest step of each encoder; inf before the first step [rad or m].
        low: Lower end of the range of recently sent torques [N m].
        high: Upper end of this range [N m].
        still: Time for which position and velocity of each joint have been bitwise constant [s].
        sent_before: Torque last sent to each joint before it stood still [N m].
        reference_before: Reference position of each joint before it stood still [rad or m].
    """

    rows: Array
    limit: Array
    sent: Array
    applied: Array
    reference: Array
    most: Array
    friction: Array
    finest: Array
    low: Array
    high: Array
    still: Array
    sent_before: Array
    reference_before: Array


@njit(cache=True, inner=True, error_model="numpy")
def expect(drives: Drives, circle: Booleans, q: Array, v: Array) -> None:  # pragma: no cover - compiled
    """Write ``Drives.sent``: the torques of the drives at positions and velocities of the joints, shapes (a,).

    The loop may use estimated positions instead, or add the errors of simulated sensors to them, but the drives feed
    back their own readings.
    """
    rows = drives.rows
    for j in range(drives.sent.shape[0]):
        away = rows[1, j] - q[j]
        if circle[j]:
            away = shorter(away)
        torque = rows[0, j] + rows[3, j] * away + rows[4, j] * (rows[2, j] - v[j])
        drives.sent[j] = min(max(torque, -drives.limit[j]), drives.limit[j])


@njit(cache=True, inner=True, error_model="numpy")
def obeys(drives: Drives, after: float) -> bool:  # pragma: no cover - compiled
    """True if the torques that all drives report are within `Drives.most` of the range of recently sent torques.

    The range is updated first, for the time `after` [s] since the last state (`widen`). `SETTLE_S` is longer than
    transport and drives take.
    """
    obey = True
    for j in range(drives.sent.shape[0]):
        widen(drives.low, drives.high, j, drives.sent[j], after)
        off = max(drives.low[j] - drives.applied[j], drives.applied[j] - drives.high[j])
        obey = obey and not off > drives.most[j]
    return obey


@njit(cache=True, inner=True, error_model="numpy")
def sticks(heard: Heard, drives: Drives, trust: Trust, q: Array, v: Array, after: float) -> int:  # pragma: no cover
    """Return the joint whose reading stays bitwise constant although its torque and its reference have changed, or -1.

    A fine encoder never reads the same position and velocity of a moving joint twice. Readings may repeat at a joint
    at rest or with a coarse encoder, but not while torque and reference drive the joint elsewhere: the reference has
    moved by more than a way of `STEPS` steps of the encoder, at least `FINE` and at most `Trust.way`, and the product
    of this motion and the change of the torque, beyond dry friction, is more than half of ``way * Drives.most``.
    """
    stuck = -1
    for j in range(drives.sent.shape[0]):
        step = abs(q[j] - heard.q[j])
        if after >= 0.0 and step > 0.0:
            drives.finest[j] = min(drives.finest[j], step)
        if after >= 0.0 and step == 0.0 and v[j] == heard.v[j]:
            drives.still[j] += after
        else:
            drives.still[j], drives.sent_before[j] = 0.0, drives.sent[j]
            drives.reference_before[j] = drives.reference[j]
        way = min(trust.way, max(STEPS * drives.finest[j], FINE))
        ahead = abs(drives.reference[j] - drives.reference_before[j])
        # a joint that sticks reverses all of its friction before it moves
        pull = abs(drives.sent[j] - drives.sent_before[j]) - 2.0 * drives.friction[j]
        driven = 2.0 * ahead * pull > way * drives.most[j]
        if driven and ahead > way and drives.still[j] > trust.still:
            stuck = j
    return stuck


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
        after: Time between the last two states, shape (1,) [s].
    """

    v: Array
    specific: Array
    off: Array
    after: Array


@njit(cache=True, inner=True, error_model="numpy")
def accelerates(carried: Carried, turned: Array, v: Array, specific: Array, after: float) -> bool:  # pragma: no cover
    """True unless the base's velocity changes otherwise than its accelerometer reads, by more than `LURCH`.

    The comparison begins anew if states are more than `GAP_S` apart, if a state is missing, because it may have read a
    push, or if the accelerometer repeats its reading: a slow sensor misses impacts, and a constant value is no
    measurement.

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
    continues = 0.0 < after <= min(GAP_S, MISSING * carried.after[0]) and not same
    if after > 0.0:
        carried.after[0] = after
    for i in range(3):
        change = velocity[i] - carried.v[i] - (pull[i] + GRAVITY[i]) * after
        off = carried.off[i] / (1.0 + after / FORGOTTEN_S) + change
        carried.off[i] = off if continues and np.isfinite(off) else 0.0
        agrees = agrees and abs(carried.off[i]) <= LURCH
        carried.v[i], carried.specific[i] = velocity[i], specific[i]
    return agrees


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
UNIT: Final = 1e-3
"""Largest difference between the norm of a quaternion and 1."""


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
        doubted: Out: number of the joint whose readings are implausible; a, `a + 1` or `a + 2` for the base's position,
            its orientation or gyroscope, and its accelerometer; -1 without one; shape (1,).
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
    if not obeys(by.drives, after):
        faults |= TORQUE
    doubted = sticks(by.heard, by.drives, by.trust, q, v, after)
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
    by.doubted[0] = doubted
    if doubted >= 0:
        return faults | ENCODER
    see(by.joints, by.q, by.v)
    if by.floats and tilt(by.q[3:7]) > by.tilt_rad:
        faults |= TIPPED
    return faults
