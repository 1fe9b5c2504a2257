"""Where the feet should be: footholds, swings and stance anchors (planner.md 4). All vectors are in the world frame."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numba import njit

from idcontrol.types import Array, Booleans, Integers

CAPTURE_GAIN = 0.5
"""k_f of planner.md 4.3 [-]: share of the capture point's shift that a foothold follows."""

FREEZE = 0.75
"""Part of a swing after which its foothold stays [-]."""

LATE_GAP = 1e-3
"""A foot farther from the ground than this at its planned touchdown is late [m]."""

LATE_DEPTH = 0.01
"""How far below the expected ground a late foot searches [m]."""

TOUCH_GAP = 2e-4
"""A foot that descends no longer and is nearer to the ground than this has landed [m]."""

BRAKING = 3e-3
"""Time constant in which a foot that slides as it lands is brought to rest [s]."""

STANDING, SWINGING, LATE = 0, 1, 2


class Ground(Protocol):
    """The ground as the planner sees it; x and y are arrays of shape (n,) [m]."""

    def height(self, x: Array, y: Array) -> Array:
        """Height of the ground at the points, shape (n,) [m]."""
        ...

    def normal(self, x: Array, y: Array) -> Array:
        """Upward unit normals at the points, shape (n, 3)."""
        ...


@dataclass(slots=True)
class FootPlan:
    """The planned motion of all feet; arrays change in place.

    Attributes:
        phase: STANDING, SWINGING or LATE (landing is due, the ground is not yet met), shape (n,).
        position: Centres of the foot spheres, shape (n, 3) [m].
        velocity: Their velocities, shape (n, 3) [m/s].
        acceleration: Their accelerations, shape (n, 3) [m/s²].
        course: Position, velocity and acceleration of each swing without its arch, shape (n, 3, 3).
        slide: What is left of the velocity with which each standing foot slid when it landed, shape (n, 3) [m/s].
        landing: Where the centre of each foot will land or has landed, shape (n, 3) [m].
        level: Height of the ground under the last foothold of each foot, shape (n,) [m].
    """

    phase: Integers
    position: Array
    velocity: Array
    acceleration: Array
    course: Array
    slide: Array
    landing: Array
    level: Array

    @staticmethod
    def of(n: int) -> FootPlan:
        """Room for `n` feet."""
        return FootPlan(
            phase=np.zeros(n, dtype=np.int64),
            position=np.zeros((n, 3)),
            velocity=np.zeros((n, 3)),
            acceleration=np.zeros((n, 3)),
            course=np.zeros((n, 3, 3)),
            slide=np.zeros((n, 3)),
            landing=np.zeros((n, 3)),
            level=np.zeros(n),
        )


@njit(cache=True)
def notice_touchdowns(
    t: float,
    stance_s: float,
    swing_s: float,
    touchdown_speed: float,
    measured: Array,
    measured_velocity: Array,
    phase: Integers,
    landing: Array,
    stance: Booleans,
    since_touchdown: Array,
    to_liftoff: Array,
    since_liftoff: Array,
    to_touchdown: Array,
    touched: Array,
) -> None:  # pragma: no cover - compiled
    """Let feet stand that have met the ground before their time, and remember when each foot touched down.

    In the last part of its swing a foot stands from the moment in which it is at the ground and has stopped to descend.
    Left to swing on, it would be dragged and pushed against the ground until its planned touchdown. Touchdowns are
    remembered also when the gait that planned them has ended.

    Args:
        t: Now [s].
        stance_s: Time of one stance [s].
        swing_s: Time of one swing [s].
        touchdown_speed: v_td [m/s].
        measured: Measured foot centres, shape (n, 3) [m].
        measured_velocity: Their velocities, shape (n, 3) [m/s].
        phase: See `FootPlan`.
        landing: See `FootPlan`; heights as of the last call of `move_feet`.
        stance: In: planned stance; out: with the feet that have landed early, shape (n,).
        since_touchdown: In and out: see `gait.Timing`, as the next three; out, inf only in swing and before the first
            touchdown.
        to_liftoff: In and out.
        since_liftoff: In and out.
        to_touchdown: In and out.
        touched: In and out: times of the touchdowns, -inf before the first, shape (n,) [s].
    """
    early_s = (1.0 - FREEZE) * swing_s
    for i in range(stance.shape[0]):
        planned = t - since_touchdown[i]
        if planned > touched[i] + early_s:
            touched[i] = planned
        if not stance[i] and to_touchdown[i] <= early_s:
            touches = measured[i, 2] - landing[i, 2] < TOUCH_GAP and measured_velocity[i, 2] > -0.5 * touchdown_speed
            if phase[i] == SWINGING and touches:
                touched[i] = t
            elif phase[i] != STANDING:
                continue
            stance[i] = True
            to_liftoff[i] = to_touchdown[i] + stance_s
            since_liftoff[i] = 0.0
            to_touchdown[i] += stance_s + swing_s
        since_touchdown[i] = t - touched[i] if stance[i] else np.inf


@njit(cache=True)
def choose_footholds(
    stance: Booleans,
    since_liftoff: Array,
    to_touchdown: Array,
    stance_s: float,
    base_position: Array,
    yaw: float,
    base_velocity: Array,
    command: Array,
    nominal: Array,
    capture_s: float,
    measured: Array,
    phase: Integers,
    position: Array,
    landing: Array,
    where: Array,
) -> None:  # pragma: no cover - compiled
    """Horizontal landing point of each swinging foot, and the points where the ground has to be known (planner.md 4.3).

    The base is predicted at the middle of the coming stance, t_m ahead, and the nominal foot is put under it:

        x_m = x + Rz(ψ + ω t_m/2)(v_x, v_y) t_m,   ψ_m = ψ + ω t_m,
        p_land = x_m + Rz(ψ_m) n_i + k_f √(z0/g) (v - v_cmd)

    Args:
        stance: Planned stance, shape (n,).
        since_liftoff: Time since lift-off of the swinging feet, shape (n,) [s].
        to_touchdown: Time to their touchdown, shape (n,) [s].
        stance_s: Time of one stance [s].
        base_position: Measured, shape (3,) [m].
        yaw: Measured heading [rad].
        base_velocity: Measured, world axes, shape (3,) [m/s].
        command: (v_x, v_y, ω) in the horizontal frame, shape (3,).
        nominal: Feet of the standing machine in the horizontal frame, shape (n, 3) [m].
        capture_s: k_f √(z0/g) [s].
        measured: Measured foot centres, shape (n, 3) [m].
        phase: See `FootPlan`.
        position: See `FootPlan`.
        landing: Out: x and y of the landing points of swinging feet, shape (n, 3) [m].
        where: Out: where each foot needs the ground (landing point, anchor, or where it is), shape (2, n) [m].
    """
    c, s = math.cos(yaw), math.sin(yaw)
    slip_x = base_velocity[0] - (c * command[0] - s * command[1])
    slip_y = base_velocity[1] - (s * command[0] + c * command[1])
    for i in range(stance.shape[0]):
        if stance[i]:
            standing = phase[i] == STANDING
            where[0, i] = position[i, 0] if standing else measured[i, 0]
            where[1, i] = position[i, 1] if standing else measured[i, 1]
            continue
        if phase[i] != SWINGING or since_liftoff[i] < FREEZE * (since_liftoff[i] + to_touchdown[i]):
            ahead = to_touchdown[i] + 0.5 * stance_s
            turn = command[2] * ahead
            c, s = math.cos(yaw + 0.5 * turn), math.sin(yaw + 0.5 * turn)
            x_m = base_position[0] + (c * command[0] - s * command[1]) * ahead
            y_m = base_position[1] + (s * command[0] + c * command[1]) * ahead
            c, s = math.cos(yaw + turn), math.sin(yaw + turn)
            landing[i, 0] = x_m + c * nominal[i, 0] - s * nominal[i, 1] + capture_s * slip_x
            landing[i, 1] = y_m + s * nominal[i, 0] + c * nominal[i, 1] + capture_s * slip_y
        where[0, i], where[1, i] = landing[i, 0], landing[i, 1]


@njit(cache=True)
def advance_quintic(state: Array, target: Array, remaining: float, dt: float) -> None:  # pragma: no cover - compiled
    """Advance the motion `state` by `dt` along the quintic that comes to rest at `target` after `remaining` seconds.

    Args:
        state: Position, velocity and acceleration, shape (3, 3): derivative, axis; in place.
        target: Where velocity and acceleration shall be zero, shape (3,) [m].
        remaining: Time left at the beginning, > 0 [s].
        dt: Time to advance, at most `remaining` [s].
    """
    s, T = dt / remaining, remaining
    for k in range(3):
        p, v, a = state[0, k], state[1, k] * T, state[2, k] * T * T
        d = target[k] - p
        c3 = 10.0 * d - 6.0 * v - 1.5 * a
        c4 = -15.0 * d + 8.0 * v + 1.5 * a
        c5 = 6.0 * d - 3.0 * v - 0.5 * a
        state[0, k] = p + s * (v + s * (0.5 * a + s * (c3 + s * (c4 + s * c5))))
        state[1, k] = (v + s * (a + s * (3.0 * c3 + s * (4.0 * c4 + s * 5.0 * c5)))) / T
        state[2, k] = (a + s * (6.0 * c3 + s * (12.0 * c4 + s * 20.0 * c5))) / (T * T)


@njit(cache=True)
def arch(u: float, height: float, speed: float, swing_s: float) -> tuple[float, float, float]:  # pragma: no cover
    """The vertical part of a swing beyond the straight course: height, velocity, acceleration (planner.md 4.4).

        z = 64 H u³(1-u)³ - v_td T_sw (u⁵ - u⁴),      ż(1) = -v_td

    Args:
        u: Elapsed part of the swing [-].
        height: H [m].
        speed: v_td [m/s].
        swing_s: T_sw [s].
    """
    w = 1.0 - u
    lift = 64.0 * height
    sink = speed * swing_s
    z = lift * u**3 * w**3 + sink * u**4 * w
    dz = lift * 3.0 * u**2 * w**2 * (1.0 - 2.0 * u) + sink * (4.0 * u**3 - 5.0 * u**4)
    ddz = lift * 6.0 * u * w * (1.0 - 5.0 * u * w) + sink * (12.0 * u**2 - 20.0 * u**3)
    return z, dz / swing_s, ddz / (swing_s * swing_s)


@njit(cache=True)
def move_feet(
    dt: float,
    stance: Booleans,
    since_touchdown: Array,
    since_liftoff: Array,
    to_touchdown: Array,
    step_height: float,
    touchdown_speed: float,
    measured: Array,
    measured_velocity: Array,
    shank_rate: Array,
    radius: Array,
    ground: Array,
    normal: Array,
    phase: Integers,
    position: Array,
    velocity: Array,
    acceleration: Array,
    course: Array,
    slide: Array,
    landing: Array,
    level: Array,
) -> None:  # pragma: no cover - compiled
    """Advance the planned feet by `dt` (planner.md 4.2, 4.4).

    A standing foot keeps the place where it touched down (its anchor), moved by the rolling of its sphere, at the
    height that the ground has; if it slid as it landed, its own leg brings it to rest within milliseconds, before the
    machine has to. A swinging foot follows one quintic per axis from where the plan is now to where the
    foot shall land, planned anew at every call and therefore twice continuously differentiable, plus the arch. A foot
    whose landing is due but that is not at the ground goes on down, at touchdown speed, to at most 1 cm below.

    Args:
        dt: Time since the last call [s].
        stance: Planned stance, shape (n,).
        since_touchdown: Time since planned touchdown of the standing feet, shape (n,) [s].
        since_liftoff: Time since lift-off of the swinging feet, shape (n,) [s].
        to_touchdown: Time to their touchdown, shape (n,) [s].
        step_height: H [m].
        touchdown_speed: v_td [m/s].
        measured: Measured foot centres, shape (n, 3) [m].
        measured_velocity: Their velocities, shape (n, 3) [m/s].
        shank_rate: Measured angular velocity of the links that carry the feet, shape (n, 3) [rad/s].
        radius: Radii of the foot spheres, shape (n,) [m].
        ground: Height of the ground at the points that `choose_footholds` asked for, shape (n,) [m].
        normal: Its normals there, shape (n, 3).
        phase: See `FootPlan`, as all that follow; in and out.
        position: Out.
        velocity: Out.
        acceleration: Out.
        course: In and out.
        slide: In and out.
        landing: In: x and y; out: z of the landing points.
        level: Out.
    """
    for i in range(stance.shape[0]):
        if not stance[i]:
            step = dt
            if phase[i] != SWINGING:
                phase[i] = SWINGING
                course[i] = 0.0
                course[i, 0] = measured[i]
                step = since_liftoff[i]
            step = min(step, since_liftoff[i])
            landing[i, 2] = ground[i] + radius[i] / normal[i, 2]
            advance_quintic(course[i], landing[i], to_touchdown[i] + step, step)
            swing_s = since_liftoff[i] + to_touchdown[i]
            z, dz, ddz = arch(since_liftoff[i] / swing_s, step_height, touchdown_speed, swing_s)
            position[i], velocity[i], acceleration[i] = course[i, 0], course[i, 1], course[i, 2]
            position[i, 2] += z
            velocity[i, 2] += dz
            acceleration[i, 2] += ddz
            continue

        # Rolling without slipping: the centre moves with ω × r n.
        r = radius[i]
        velocity[i, 0] = r * (shank_rate[i, 1] * normal[i, 2] - shank_rate[i, 2] * normal[i, 1])
        velocity[i, 1] = r * (shank_rate[i, 2] * normal[i, 0] - shank_rate[i, 0] * normal[i, 2])
        velocity[i, 2] = r * (shank_rate[i, 0] * normal[i, 1] - shank_rate[i, 1] * normal[i, 0])
        if phase[i] == STANDING:
            slide[i] *= math.exp(-dt / BRAKING)
        else:
            acceleration[i] = 0.0
            gap = (measured[i, 2] - ground[i]) * normal[i, 2] - r
            if gap > LATE_GAP:
                phase[i] = LATE
                depth = touchdown_speed * since_touchdown[i]
                position[i] = landing[i]
                position[i, 2] -= min(depth, LATE_DEPTH)
                velocity[i] = 0.0
                velocity[i, 2] = -touchdown_speed if depth < LATE_DEPTH else 0.0
                continue
            phase[i] = STANDING
            position[i, 0], position[i, 1] = measured[i, 0], measured[i, 1]
            level[i] = ground[i]
            slide[i] = measured_velocity[i] - velocity[i]
            slide[i] -= normal[i] * np.dot(normal[i], slide[i])
        velocity[i] += slide[i]
        acceleration[i] = -slide[i] / BRAKING
        position[i, 0] += dt * velocity[i, 0]
        position[i, 1] += dt * velocity[i, 1]
        position[i, 2] = ground[i] + r / normal[i, 2] + dt * velocity[i, 2]
