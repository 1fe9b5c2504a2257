"""A reference governor: limits commands to the ability of the legs (planner.md 3.4).

A standing foot with the nominal position n moves at -u relative to the base, ``u = v + ω × n``. Within the time T_sw of
a swing, the foot must cover a whole stride ``u T``, where T = T_st + T_sw includes the stance. With the leg's Jacobian
J and the step height H, three limits bound the stride:

    reach:         u T_st ≤ 2 · 0.8 s        a stance covers at most 0.8 of the ellipse of half-axes s within reach
    joint speed:   |J⁻¹| ṗ_B ≤ q̇_max         a foot passes the base at 1.875 u T/T_sw - u in mid-swing; while it rises
                                             and sinks fastest, at 1.2 u T/T_sw - u and 3.43 H/T_sw upwards
    torque:        |J⁻¹| 5.77 u T/T_sw² ≤ 0.45 q̈_max   the rest of the torque carries the machine

In all three a shorter stance allows higher speed, as in animals: T_sw is constant and T_st shrinks, down to the
smallest duty that keeps the minimum number of stance feet. If the joints are too slow for this, the swing is also
stretched and the step lowered. The turn in a stride is limited, since feet swing along a chord. The acceleration in a
curve must obey the limit of the command. If even the best stride is too slow, v and ω are reduced by the same factor,
which preserves the curvature of the path.
"""

from __future__ import annotations

import bisect
import functools
import math
from typing import NamedTuple

import numpy as np

from idcontrol.errors import InputError
from idcontrol.kernels.jit import njit
from idcontrol.planners.gait import Gait, Timing, write_timing
from idcontrol.planners.legs import IK_TOLERANCE, LegPose, Legs, reach, stretched
from idcontrol.types import Array

QUINTIC_SPEED, QUINTIC_ACCELERATION = 1.875, 5.7735
"""Peak speed and acceleration of a quintic from rest to rest, for unit length and duration [-]: 15/8 and 10/√3."""

RISING_SPEED, RISING_ARCH = 1.2, 3.435
"""Speeds of the quintic and of the arch, at the instant when the arch of a swing rises or sinks fastest, for unit
length, height and duration [-].
"""

TORQUE_SHARE = 0.45
"""Share of the motors' torque that may accelerate a swinging leg [-]; the rest carries the machine."""

CARRYING_SHARE = 0.75
"""Share of the motors' torque with which a standing leg may carry its load [-]."""

MOST_TURN = 0.8
"""Largest turn in a stride [rad]: a foot swings along a chord of its circle, up to 8 % of the radius inside it."""

OVERLAP = 0.02
"""Share of the cycle by which a stance is longer than the minimum number of stance feet requires [-]."""

OWN_LOAD = 1.15
"""The gait's own stride is kept while it needs at most this share of every limit [-]; `limit_joints` clips short
peaks."""

LOW_STEP = 0.55
"""Minimum height of a step, relative to the gait's height [-]."""

REACH_SHARE = 0.8
"""Share of a foot's reach that a planned stance covers [-]; capture steps and the lag of the base use the rest."""

STEADY, UNSTEADY = 0.03, 0.15
"""Tilts of the base in a level gait above which the robot slows down, and above which it stops [rad]. A fast trot may
lean farther sideways with every step; it recovers by slowing down."""

SMOOTHED_S = 0.01
"""Time constant of the average tilt [s]."""

REGAINED_S = 5.0
"""Time in which a robot regains its speed after a stop for tilt [s]."""

HALVINGS = 12
"""Number of bisections for a share or a ratio; the result is exact to one part in four thousand."""

STRETCHES = 5
"""Number of tried durations of a swing, from the gait's duration to twice as long."""

LEAST_GRIP = 2.0 / 3.0
"""Smallest singular value of a leg's Jacobian, as a fraction of its value at home, at which a point counts as within
reach [-]."""

MAKING_UP = 1.0
"""Speed at which a joint reference follows a jump of its plan [rad/s]: 1 mrad in a period of 1 ms."""

REACH_STEP = 2e-3
"""Step size for probing the reach of a leg [m]."""


WAYS: Array = np.array([[1.0, 0.0, 0.0], [-1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, -1.0, 0.0]])
"""Directions in which the reach is probed: forward, back, left, right; shape (4, 3)."""


class JointLimits(NamedTuple):
    """Limits of the joints of n legs, shape (n, 3) each.

    Attributes:
        lower: Smallest angles [rad].
        upper: Largest angles [rad].
        speed: Largest speeds [rad/s].
        acceleration: Largest accelerations [rad/s²]: full torque of the motor over the inertia at home.
        torque: Largest torques [N m].
    """

    lower: Array
    upper: Array
    speed: Array
    acceleration: Array
    torque: Array


class Ability(NamedTuple):
    """Reach, speed and acceleration of n legs about their nominal stance.

    Attributes:
        reach: Reach of each foot forward, back, left and right, shape (n, 4) [m].
        stroke: Smallest reach of all feet along x and along y, shape (2,) [m]: half-axes of an ellipse.
        speed: Share of a joint's speed limit that a foot velocity of 1 m/s along x, y or z takes, shape (n, 3, 3): leg,
            joint, direction [s/m].
        speed_at_rim: As `speed`, but the largest share at `REACH_SHARE` of `stroke` from home, same shape [s/m].
        acceleration: Share of a joint's acceleration limit that a foot acceleration of 1 m/s² takes, same shape [s²/m].
        duty: Smallest duty of a stride (`least_duty`), shape (1,) [-]; if it equals the gait's duty, the stride never
            changes.
    """

    reach: Array
    stroke: Array
    speed: Array
    speed_at_rim: Array
    acceleration: Array
    duty: Array

    @staticmethod
    def of(legs: Legs, home: Array, feet: Array, limits: JointLimits, gait: Gait, weight: float) -> Ability:
        """Probe the legs about their nominal feet.

        A foot reaches a point if its joints are within their limits, its leg is far from stretched, and its motors can
        carry the foot's share of the weight while the fewest feet stand (in a swaying gait: on average over stances).

        Args:
            legs: The legs.
            home: Joint angles for the first guess, shape (n, 3) [rad].
            feet: The nominal feet, base axes, shape (n, 3) [m].
            limits: Limits of the joints.
            gait: The gait.
            weight: Weight of the machine [N].

        Raises:
            InputError: A leg is stretched in the nominal stance.
        """
        load = weight / (len(home) * gait.duty if gait.sways else max(least_standing(gait, gait.duty), 1))
        n = len(home)
        reached, (speed, rim, acceleration) = np.zeros((n, 4)), np.zeros((3, n, 3, 3))
        for i in range(n):
            zero = LegPose(legs.origin[i], legs.axis[i], legs.foot[i])
            pose, J = LegPose(np.empty((3, 3)), np.empty((3, 3)), np.empty(3)), np.empty((3, 3))
            nominal = home[i].copy()
            reach(zero, feet[i], IK_TOLERANCE, nominal, pose, J)
            if fault := stretched(J, f"{i + 1} of {n}"):
                raise InputError(fault)
            grip = np.linalg.svd(J)[1][-1]
            inverse = np.abs(np.linalg.inv(J))
            speed[i] = inverse / limits.speed[i][:, None]
            acceleration[i] = inverse / limits.acceleration[i][:, None]
            for k, way in enumerate(WAYS):
                q, further = nominal.copy(), True
                while further:
                    aim = feet[i] + (reached[i, k] + REACH_STEP) * way
                    further = bool(
                        reach(zero, aim, IK_TOLERANCE, q, pose, J) <= IK_TOLERANCE
                        and np.linalg.svd(J)[1][-1] > LEAST_GRIP * grip
                        and np.all((limits.lower[i] < q) & (q < limits.upper[i]))
                        and np.all(load * np.abs(J[2]) < CARRYING_SHARE * limits.torque[i])
                    )
                    reached[i, k] += REACH_STEP * further
        reached = np.maximum(reached, REACH_STEP)
        stroke = np.array([reached[:, :2].min(), reached[:, 2:].min()])
        for i in range(n):
            zero = LegPose(legs.origin[i], legs.axis[i], legs.foot[i])
            for way in WAYS:
                q = home[i].copy()
                for far in np.linspace(0.0, REACH_SHARE, 9):
                    reach(zero, feet[i] + far * stroke[np.abs(way).argmax()] * way, IK_TOLERANCE, q, pose, J)
                rim[i] = np.maximum(rim[i], np.abs(np.linalg.inv(J)) / limits.speed[i][:, None])
        return Ability(reached, stroke, speed, rim, acceleration, np.array([least_duty(gait)]))


@functools.lru_cache(maxsize=64)
def least_duty(gait: Gait) -> float:
    """Return the smallest duty with the same minimum number of stance feet, plus `OVERLAP`, at most the gait's duty.

    A swaying gait keeps its duty.

    Results are cached, because planners call this function within a tick when they change the gait, always for the same
    few gaits.
    """
    if gait.sways:
        return gait.duty
    most, duties = least_standing(gait, gait.duty), np.arange(gait.duty, 0.0, -0.005)
    # a smaller duty never has more stance feet
    fewer = bisect.bisect_left(duties, 1, key=lambda duty: least_standing(gait, duty) < most)
    return min(gait.duty, float(duties[fewer - 1]) + OVERLAP)


def least_standing(gait: Gait, duty: float) -> int:
    """Return the minimum number of feet in simultaneous stance over a cycle of `gait` with another `duty` [-]."""
    phase = np.linspace(0.0, 1.0, 2000, endpoint=False)[:, None] - np.array(gait.touchdown) + 1e-9
    return int(((phase % 1.0) < duty).sum(axis=1).min())


class Stride(NamedTuple):
    """The current stride; arrays, of shape (1,) unless stated, change in place.

    Attributes:
        begin: Start time of the gait, extrapolated with the current period [s]; inf if the robot does not walk.
        period: Time of one cycle T [s].
        duty: Share D of the cycle in stance [-].
        height: Apex H of a swing above the line from lift-off to landing [m].
        pace: Share of the commanded speed that the base's tilt permits [-].
        lean: Smoothed vertical components of the unit vectors along the base's x and y axes, shape (2,) [-].
    """

    begin: Array
    period: Array
    duty: Array
    height: Array
    pace: Array
    lean: Array

    @staticmethod
    def of(gait: Gait) -> Stride:
        """Return the nominal stride of the gait, before its start."""
        return Stride(
            begin=np.array([np.inf]),
            period=np.array([gait.period_s]),
            duty=np.array([gait.duty]),
            height=np.array([gait.step_height_m]),
            pace=np.ones(1),
            lean=np.zeros(2),
        )


@njit(cache=True, inner=True)
def steady_pace(rotation: Array, dt: float, stride: Stride) -> float:  # pragma: no cover - compiled
    """Return the share of its speed that a tilted base keeps: up to 1 for tilts up to `STEADY`, 0 from `UNSTEADY` on.

    When the tilt decreases, the share grows by at most ``dt /`` `REGAINED_S` per call.

    Args:
        rotation: Base to world, shape (3, 3).
        dt: Time since the last call [s].
        stride: In and out: `pace`, `lean`.
    """
    for k in range(2):  # without smoothing, noise would count as tilt
        stride.lean[k] += dt / (SMOOTHED_S + dt) * (rotation[2, k] - stride.lean[k])
    lean = math.sqrt(stride.lean[0] ** 2 + stride.lean[1] ** 2)
    steady = max((UNSTEADY - lean) / (UNSTEADY - STEADY), 0.0)
    stride.pace[0] = min(min(stride.pace[0] + dt / REGAINED_S, steady), 1.0)
    return float(stride.pace[0])


@njit(cache=True, inner=True)
def govern(
    target: tuple[float, float, float], acceleration: float, gait: Gait, feet: Array, ability: Ability
) -> tuple[float, tuple[float, float, float]]:  # pragma: no cover - compiled
    """Return the feasible share of a command, and its stride; if possible, the nominal stride of the gait.

    Args:
        target: The command (v_x, v_y, ω) [m/s, m/s, rad/s].
        acceleration: Largest acceleration of the base along the ground [m/s²]; it limits the speed in a curve.
        gait: The gait, with its own stride.
        feet: Nominal feet in the horizontal frame, shape (n, 3) [m].
        ability: Ability of the legs.

    Returns:
        The share [-], and period [s], duty [-] and step height [m] of the stride.
    """
    curve = math.sqrt(target[0] ** 2 + target[1] ** 2) * abs(target[2])
    most = math.sqrt(acceleration / curve) if curve > acceleration else 1.0
    target = (most * target[0], most * target[1], most * target[2])
    strain = _strain(target, feet, ability)
    height, own_swing_s = gait.step_height_m, (1.0 - gait.duty) * gait.period_s
    own, quickest = gait.duty / (1.0 - gait.duty), ability.duty[0] / (1.0 - ability.duty[0])
    if _fits(1.0, own_swing_s, own, height, OWN_LOAD, strain):
        return most, (gait.period_s, gait.duty, height)
    if quickest >= own:
        return most * _most_share(0.0, own_swing_s, own, height, OWN_LOAD, strain), (gait.period_s, gait.duty, height)
    share, lift, swing_s = 0.0, height, own_swing_s
    for k in range(2 * STRETCHES):
        low_lift = height if k < STRETCHES else LOW_STEP * height
        longer = (1.0 + (k % STRETCHES) / (STRETCHES - 1)) * own_swing_s
        if share < 1.0 and _fits(share, longer, quickest, low_lift, 1.0, strain):
            share, lift, swing_s = _most_share(share, longer, quickest, low_lift, 1.0, strain), low_lift, longer
    low, high = quickest, own
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        if _fits(share, swing_s, middle, lift, 1.0, strain):
            low = middle
        else:
            high = middle
    return most * share, (swing_s * (1.0 + low), low / (1.0 + low), lift)


@njit(cache=True, inner=True)
def _most_share(
    least: float, swing_s: float, ratio: float, height: float, load: float, strain: Array
) -> float:  # pragma: no cover - compiled
    """Return the largest share of a command, at least `least`, that a stride allows; arguments as for `_fits`."""
    most = 1.0
    if _fits(most, swing_s, ratio, height, load, strain):
        return most
    for _ in range(HALVINGS):
        middle = 0.5 * (least + most)
        if _fits(middle, swing_s, ratio, height, load, strain):
            least = middle
        else:
            most = middle
    return least


@njit(cache=True, inner=True)
def _strain(target: tuple[float, float, float], feet: Array, ability: Ability) -> Array:  # pragma: no cover - compiled
    """Return the load of a command on each joint of each leg, for `_fits`.

    Returns:
        Shape (3 n, 7): speed of the foot relative to the half-axes of its reach [1/s]; share of the joint's speed limit
        that this speed takes at home, and at the rim of the reach [-]; share that a foot speed of 1 m/s upwards takes
        at home, and at the rim [s/m]; share of the joint's acceleration limit that gaining the speed of the foot in 1 s
        takes [s]; turning rate [rad/s].
    """
    strain = np.zeros((3 * feet.shape[0], 7))
    for i in range(feet.shape[0]):
        u_x, u_y = abs(target[0] - target[2] * feet[i, 1]), abs(target[1] + target[2] * feet[i, 0])
        stroke = math.sqrt((u_x / ability.stroke[0]) ** 2 + (u_y / ability.stroke[1]) ** 2)
        for j in range(3):
            at_home, at_rim, thrust = ability.speed[i, j], ability.speed_at_rim[i, j], ability.acceleration[i, j]
            row = strain[3 * i + j]
            row[0] = stroke
            row[1], row[2] = at_home[0] * u_x + at_home[1] * u_y, at_rim[0] * u_x + at_rim[1] * u_y
            row[3], row[4] = at_home[2], at_rim[2]
            row[5] = thrust[0] * u_x + thrust[1] * u_y
            row[6] = abs(target[2])
    return strain


@njit(cache=True, inner=True)
def _fits(
    share: float, swing_s: float, ratio: float, height: float, load: float, strain: Array
) -> bool:  # pragma: no cover - compiled
    """True if a share of a command needs at most the share `load` of every limit.

    Args:
        share: The share [-].
        swing_s: T_sw [s].
        ratio: T_st/T_sw [-].
        height: H [m].
        load: Share of the limits [-].
        strain: Result of `_strain`.
    """
    for i in range(strain.shape[0]):
        row = strain[i]
        stroke = 0.5 * share * row[0] * ratio * swing_s / REACH_SHARE
        rim = min(stroke * stroke, 1.0)
        lifting = (row[3] + rim * (row[4] - row[3])) * RISING_ARCH * height / swing_s
        rising = share * (row[1] + rim * (row[2] - row[1])) * (RISING_SPEED * (1.0 + ratio) - 1.0)
        passing = share * row[1] * (QUINTIC_SPEED * (1.0 + ratio) - 1.0)
        thrust = share * row[5] * QUINTIC_ACCELERATION * (1.0 + ratio) / (swing_s * TORQUE_SHARE)
        turn = share * row[6] * (1.0 + ratio) * swing_s / MOST_TURN
        if max(stroke, lifting + rising, passing, thrust, turn) > load:
            return False
    return True


@njit(cache=True, inner=True)
def adopt_stride(
    t: float, dt: float, new: tuple[float, float, float], gait: Gait, stride: Stride, timing: Timing
) -> None:  # pragma: no cover - compiled
    """Change the stride, only in a tick with a touchdown and no foot in the air, so that no swing changes its duration.

    Args:
        t: Time [s].
        dt: Time since the last tick [s].
        new: Period [s], duty [-] and step height [m] of the new stride.
        gait: Gait; only its touchdowns are used.
        stride: In and out.
        timing: In and out: the timing at `t`.
    """
    period, duty, height = new
    same = period == stride.period[0] and duty == stride.duty[0] and height == stride.height[0]
    if same or not timing.since_touchdown.min() < dt:
        return
    begin = t - (t - stride.begin[0]) / stride.period[0] * period
    if _in_the_air(dt, timing):
        return
    write_timing(t - begin, period, duty, gait.touchdown, timing)
    if _in_the_air(dt, timing):
        write_timing(t - stride.begin[0], stride.period[0], stride.duty[0], gait.touchdown, timing)
    else:
        stride.begin[0], stride.period[0], stride.duty[0], stride.height[0] = begin, period, duty, height


@njit(cache=True, inner=True)
def _in_the_air(dt: float, timing: Timing) -> bool:  # pragma: no cover - compiled
    """True if a foot is in swing, except a foot that lifted off within the last `dt`."""
    return bool(timing.since_liftoff.max() >= dt)  # since_liftoff is zero in stance


@njit(cache=True, inner=True)
def within_reach(x: float, y: float, reached: Array) -> float:  # pragma: no cover - compiled
    """Return the largest share, up to 1, of a displacement (x, y) [m] within a foot's reach.

    `reached` is the reach forward, back, left and right, shape (4,) [m], half-axes of quarter ellipses.
    """
    x /= reached[0 if x > 0.0 else 1]
    y /= reached[2 if y > 0.0 else 3]
    far = math.sqrt(x * x + y * y)
    return 1.0 / far if far > 1.0 else 1.0


@njit(cache=True, inner=True)
def limit_joints(
    dt: float, limits: JointLimits, motion: Array, reference: Array
) -> None:  # pragma: no cover - compiled
    """Write the joint reference: the planned motion, made continuous and within the limits.

    Planned angles jump when the plan switches between reference and measured base, or when a foot deviates from its
    plan. The reference then follows the planned velocity and approaches the plan at 1 rad/s; its velocity does not
    include this additional speed. Velocities are means over the period `dt` that ends now, as for a robot with constant
    acceleration over each period. Feedback on instantaneous velocities would drive the robot ahead of its plan.

    Args:
        dt: Time since the last tick [s].
        limits: Limits of the joints.
        motion: Planned angles, velocities at this instant, and accelerations, shape (3, n, 3) [rad, rad/s, rad/s²].
        reference: In: the last reference, NaN for none; out: the current one. Shape as `motion`.
    """
    for i in range(motion.shape[1]):
        for k in range(3):
            ahead = reference[0, i, k] + dt * (reference[1, i, k] + dt * reference[2, i, k])
            step, fastest, q = motion[0, i, k] - ahead, MAKING_UP * dt, motion[0, i, k]
            if abs(step) > fastest:
                q = ahead + math.copysign(fastest, step)
            a = min(max(motion[2, i, k], -limits.acceleration[i, k]), limits.acceleration[i, k])
            v = motion[1, i, k] - 0.5 * dt * a
            reference[0, i, k] = min(max(q, limits.lower[i, k]), limits.upper[i, k])
            reference[1, i, k] = min(max(v, -limits.speed[i, k]), limits.speed[i, k])
            reference[2, i, k] = a
