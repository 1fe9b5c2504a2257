"""Encoders that contradict themselves or their drives: positions that jump, drift or stand still.

A position must follow the integral of its velocity, and a driven joint must move. The position and orientation of a
floating base are judged alike, as places (`Heard`).
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from idcontrol.dynamics.system import shorter
from idcontrol.kernels.jit import njit
from idcontrol.kernels.linear import assign
from idcontrol.types import Array, Booleans

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
LONGER: Final = 7.0
"""Factor on the time if the velocity decays or the position wobbles. The filtered velocity of a sound joint also decays
within a step of a coarse encoder: while the reference moves by 20 steps, for less than 60 ms in walks and for 91 ms in
a thigh of `solo12` that stands up with half its torque (12 bits)."""
COARSE: Final = 20.0
"""Smallest motion of a reference in these cases, in steps of the encoder; it is at least twice `Trust.way`."""
WOBBLE: Final = 1e-3
"""Largest change of the filtered position of a frozen encoder with noise [rad or m]."""
STEADY_S: Final = 0.005
"""Time constant of this filter [s]. It reduces white noise to 0.30 at 1 kHz and 0.41 at 500 Hz: noise with a standard
deviation of 0.5 mrad stays within `WOBBLE`."""
AFAR: Final = 1.5
"""Factor on the motion of the reference if the position wobbles: in walks, sound joints stay within `WOBBLE` for up to
132 ms while their references move by 20 mrad, and for up to 50 ms while they move by 30 mrad."""
SHY: Final = 0.25
"""Share of the motion of a reference at which another joint is held, too: ground and walls hold several joints."""
FINE: Final = 5e-4
"""Smallest motion of a reference that a joint with a fine encoder cannot miss [rad or m]."""

GAP_S: Final = 0.004
"""Longest time between two states whose differences add up [s]: in a longer time a joint may stop and move on, which
the two velocities do not show."""
USUAL_S: Final = 1e-3
"""Longest time between two states for which `Trust.jump` and `DRIFT_S` hold [s]. States farther apart miss what impacts
do in between: feet of `links` that land between states 2 ms apart leave 0.004 rad of a knee's motion unexplained."""
SWIFTEST: Final = 2000.0
"""Largest acceleration of a joint between two states [rad/s² or m/s²]; feet that land hard stop their joints within
milliseconds."""
FINER: Final = 2.0
"""Factor on position and linear velocity of the base, to which the limits of joints then apply."""


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


class Drives(NamedTuple):
    """Torques that were sent to the drives and applied by them, and how long joints stood still; mostly shape (a,).

    `applied` and `reference` are views of the loop's telemetry.

    Attributes:
        rows: Rows tau, q, v, kp, kd of the command that the newest state echoes, shape (5, a).
        limit: Torque limits [N m].
        sent: Torques of the drives by `rows` at the newest state that the machine sent [N m] (`expect`).
        applied: Torques that the drives report [N m]; NaN is not judged.
        reference: Reference positions of the joints [rad or m]; NaN if there are none.
        most: Largest allowed distance of an applied torque from the range of recently sent torques [N m].
        friction: Dry friction of the joints [N m].
        finest: Smallest step of each encoder; inf before the first step [rad or m].
        low: Lower end of the range of recently sent torques [N m].
        high: Upper end of this range [N m].
        steady: Position of each joint, filtered by `STEADY_S` [rad or m].
        anchor: Filtered position of each joint when its third clock began [rad or m].
        still: Three clocks, shape (3, a): time for which position and velocity of each joint have been bitwise
            constant, for which its velocity may also have decayed, and for which its filtered position has stayed
            within `WOBBLE` [s].
        sent_before: Torque last sent to each joint before each clock began, shape (3, a) [N m].
        reference_before: Reference position of each joint before each clock began, shape (3, a) [rad or m].
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
    steady: Array
    anchor: Array
    still: Array
    sent_before: Array
    reference_before: Array


@njit(cache=True, inner=True)
def apart(turns: bool, to: float, start: float) -> float:  # pragma: no cover - compiled
    """Return the way between two positions of a joint; the shorter way if it `turns` without end."""
    return shorter(to - start) if turns else to - start


@njit(cache=True, inner=True, error_model="numpy")
def expect(drives: Drives, circle: Booleans, q: Array, v: Array) -> None:  # pragma: no cover - compiled
    """Write ``Drives.sent``: the torques of the drives at positions and velocities of the joints, shapes (a,).

    The loop may use estimated positions instead, or add the errors of simulated sensors to them, but the drives feed
    back their own readings.
    """
    rows = drives.rows
    for j in range(drives.sent.shape[0]):
        away = apart(circle[j], rows[1, j], q[j])
        torque = rows[0, j] + rows[3, j] * away + rows[4, j] * (rows[2, j] - v[j])
        drives.sent[j] = min(max(torque, -drives.limit[j]), drives.limit[j])


@njit(cache=True, inner=True, error_model="numpy")
def disobeys(drives: Drives, after: float) -> int:  # pragma: no cover - compiled
    """Return the drive whose reported torque is farthest from the range of recent torques; -1 if all are near it.

    Distances are in units of `Drives.most`, and smaller ones than 1 are near. The range is updated first, for the time
    `after` [s] since the last state (`widen`). `SETTLE_S` is longer than transport and drives take.
    """
    worst, most = -1, 1.0
    for j in range(drives.sent.shape[0]):
        widen(drives.low, drives.high, j, drives.sent[j], after)
        off = max(drives.low[j] - drives.applied[j], drives.applied[j] - drives.high[j]) / drives.most[j]
        if off > most:
            worst, most = j, off
    return worst


@njit(cache=True, inner=True)
def held(
    drives: Drives, circle: Booleans, k: int, j: int, way: float, longest: float
) -> bool:  # pragma: no cover - compiled
    """True if clock k shows that joint j has read one position for longer than a sound joint can.

    The reference has moved by more than `way`, and the product of this motion and the change of the torque, beyond dry
    friction, is more than half of ``way * Drives.most``.
    """
    ahead = abs(apart(circle[j], drives.reference[j], drives.reference_before[k, j]))
    # a joint that sticks reverses all of its friction before it moves
    pull = abs(drives.sent[j] - drives.sent_before[k, j]) - 2.0 * drives.friction[j]
    return ahead > way and 2.0 * ahead * pull > way * drives.most[j] and drives.still[k, j] > longest


@njit(cache=True, inner=True, error_model="numpy")
def sticks(
    heard: Heard, drives: Drives, trust: Trust, circle: Booleans, q: Array, v: Array, after: float
) -> int:  # pragma: no cover - compiled
    """Return the joint whose position stays constant although its torque and its reference have changed, or -1.

    A fine encoder never reads the same position and velocity of a moving joint twice. Readings may repeat at a joint
    at rest or with a coarse encoder, but not while torque and reference drive the joint elsewhere (`held`), by `STEPS`
    steps of the encoder, at least `FINE` and at most `Trust.way`. The second clock bears a velocity that decays,
    because drives filter the velocity of an encoder that has frozen, and the third a position that wobbles, if no other
    joint is held and the reference does not return to the position; `LONGER` and `COARSE` apply to both.
    """
    stuck, wobbles, shy = -1, -1, 0
    share = after / (after + STEADY_S) if after >= 0.0 else 1.0
    for j in range(drives.sent.shape[0]):
        step = abs(q[j] - heard.q[j])
        if after >= 0.0 and step > 0.0:
            drives.finest[j] = min(drives.finest[j], step)
        equal, decays = v[j] == heard.v[j], 0.0 < abs(v[j]) < abs(heard.v[j])
        drives.steady[j] += share * (q[j] - drives.steady[j])
        rests = abs(drives.steady[j] - drives.anchor[j]) <= WOBBLE
        stays = step == 0.0 and equal, step == 0.0 and (equal or decays), rests
        for k in range(3):
            if after >= 0.0 and stays[k]:
                drives.still[k, j] += after
            else:
                drives.still[k, j], drives.sent_before[k, j] = 0.0, drives.sent[j]
                drives.reference_before[k, j] = drives.reference[j]
                if k == 2:
                    drives.anchor[j] = drives.steady[j]
        way, far = min(trust.way, max(STEPS * drives.finest[j], FINE)), max(2.0 * trust.way, COARSE * drives.finest[j])
        if held(drives, circle, 0, j, way, trust.still) or held(drives, circle, 1, j, far, LONGER * trust.still):
            stuck = j
        if held(drives, circle, 2, j, SHY * far, LONGER * trust.still):
            shy += 1
            away = abs(apart(circle[j], drives.reference[j], drives.steady[j]))
            if 2.0 * away > AFAR * far and held(drives, circle, 2, j, AFAR * far, LONGER * trust.still):
                wobbles = j
    return wobbles if stuck < 0 and shy == 1 else stuck
