"""Targets of the feet: footholds, swings and stance anchors (planner.md 4). All vectors are in the world frame."""

from __future__ import annotations

import math
from typing import NamedTuple, Protocol

import numpy as np

from idcontrol.kernels.jit import njit
from idcontrol.kernels.linear import assign
from idcontrol.planners.commands import LimitedCommand
from idcontrol.planners.gait import Gait, Timing
from idcontrol.planners.governor import Ability, Stride, within_reach
from idcontrol.planners.measured import Measured, heading
from idcontrol.types import Array, Integers

GRAVITY = 9.81
"""Gravitational acceleration [m/s²]."""

CAPTURE_GAIN = 0.5
"""k_f of planner.md 4.3 [-]: share of the capture point's shift that a foothold follows."""

FREEZE = 0.75
"""Share of a swing after which its foothold no longer changes [-]."""

LATE_GAP = 1e-3
"""A foot that no longer descends counts as landed up to this height above the expected ground [m]; farther up, only a
blocked foot does (`BLOCKED`)."""

BLOCKED = 5e-4
"""A foot that hardly descends (`HELD`) counts as blocked by an obstacle if it is farther than this above its plan
[m]."""

HELD = 0.1
"""Largest descent speed of a blocked foot, as a share of the touchdown speed [-]."""

LATE_DEPTH = 0.03
"""Depth below the expected ground to which a late foot searches [m]."""

HASTE = 4.0
"""Downward acceleration of a late foot [m/s²]."""

TOUCH_GAP = 2e-4
"""Distance from the expected ground below which a foot that stops descending early counts as landed [m]."""

SETTLE_S = 0.03
"""Time after touchdown in which a foot measures the height of the ground [s]."""

SETTLING = 5e-3
"""Time constant for measuring the height of the ground [s]."""

BRAKING = 5e-3
"""Time constant for stopping a foot that slides at landing [s]."""

STANDING, SWINGING, LATE = 0, 1, 2
"""Phases of a foot. A late foot is due to stand but has not yet touched the ground."""


class Ground(Protocol):
    """The planner's map of the ground; x and y are arrays of shape (n,) [m]."""

    def height(self, x: Array, y: Array) -> Array:
        """Return the height of the ground at the points, shape (n,) [m]."""
        ...

    def normal(self, x: Array, y: Array) -> Array:
        """Return upward unit normals at the points, shape (n, 3)."""
        ...


class NominalStance(NamedTuple):
    """The robot in its home pose.

    Attributes:
        height: Height of the base over the ground, z0 [m].
        com_height: Height of the centre of mass over the ground, z_c [m].
        feet: Foot centres in the horizontal frame, their mean under the centre of mass, shape (n, 3) [m].
        radius: Radii of the foot spheres, shape (n,) [m].
        lead: Largest distance of the base reference from the base along the ground [m], and in heading [rad], shape
            (2,).
    """

    height: float
    com_height: float
    feet: Array
    radius: Array
    lead: Array


class GroundSamples(NamedTuple):
    """The ground at one point per foot; arrays change in place.

    Attributes:
        points: x and y of the points, shape (2, n) [m]: the landing point of a swinging foot, the anchor of a standing
            foot, or the measured position of a foot that is due to stand.
        height: Height of the ground, shape (n,) [m].
        normal: Upward unit normals of the ground, shape (n, 3).
    """

    points: Array
    height: Array
    normal: Array

    @staticmethod
    def of(n: int) -> GroundSamples:
        """Return samples of the plane z = 0 for `n` feet."""
        return GroundSamples(
            points=np.zeros((2, n)),
            height=np.zeros(n),
            normal=np.tile([0.0, 0.0, 1.0], (n, 1)),
        )


class FootPlan(NamedTuple):
    """The planned motion of all feet; arrays change in place.

    Attributes:
        phase: STANDING, SWINGING or LATE, shape (n,).
        position: Centres of the foot spheres, shape (n, 3) [m].
        velocity: Velocities of the centres, shape (n, 3) [m/s].
        acceleration: Accelerations of the centres, shape (n, 3) [m/s²].
        course: Position, velocity and acceleration of each swing without its arch, shape (n, 3, 3).
        slide: Remaining part of the slip velocity that each standing foot had at landing, shape (n, 3) [m/s].
        landing: Landing point of each foot's centre, future or past, shape (n, 3) [m].
        level: Height of the ground under the last foothold of each foot, as measured by the foot, shape (n,) [m].
        offset: Difference between `level` and the expected height, due to the ground or to the sensors, shape (n,) [m].
        touched: Time of the last touchdown of each foot, -inf before the first, shape (n,) [s].
    """

    phase: Integers
    position: Array
    velocity: Array
    acceleration: Array
    course: Array
    slide: Array
    landing: Array
    level: Array
    offset: Array
    touched: Array

    @staticmethod
    def of(n: int) -> FootPlan:
        """Allocate a plan for `n` feet."""
        return FootPlan(
            phase=np.zeros(n, dtype=np.int64),
            position=np.zeros((n, 3)),
            velocity=np.zeros((n, 3)),
            acceleration=np.zeros((n, 3)),
            course=np.zeros((n, 3, 3)),
            slide=np.zeros((n, 3)),
            landing=np.zeros((n, 3)),
            level=np.zeros(n),
            offset=np.zeros(n),
            touched=np.full(n, -np.inf),
        )


@njit(cache=True, inner=True)
def late_depth(since: float, gait: Gait) -> float:  # pragma: no cover - compiled
    """Return the depth [m] below its landing point that a late foot reaches `since` [s] after its touchdown was due."""
    return (gait.touchdown_speed_m_s + 0.5 * HASTE * since) * since


@njit(cache=True, inner=True)
def lifts_too_early(t: float, gait: Gait, timing: Timing, plan: FootPlan) -> bool:  # pragma: no cover - compiled
    """True if a standing foot is due to lift while another foot is still searching for the ground.

    Args:
        t: Time [s].
        gait: Gait; only its touchdown speed is used.
        timing: The planned timing.
        plan: Phases and touchdowns of the feet.
    """
    lifts, looks = False, False
    for i in range(timing.stance.shape[0]):
        lifts |= plan.phase[i] == STANDING and not timing.stance[i]
        depth = late_depth(t - plan.touched[i], gait)
        looks |= plan.phase[i] == LATE and 0.0 < depth < LATE_DEPTH
    return lifts and looks


@njit(cache=True, inner=True)
def _meets(
    i: int, gap: float, within: float, gait: Gait, measured: Measured, plan: FootPlan
) -> bool:  # pragma: no cover
    """True if foot i has stopped descending, either blocked above its plan or with a `gap` below `within` [m]."""
    speed = measured.feet_velocity[i, 2]
    raised = measured.feet[i, 2] - plan.position[i, 2] > BLOCKED
    blocked = raised and speed > -HELD * gait.touchdown_speed_m_s
    return speed > -0.5 * gait.touchdown_speed_m_s and (blocked or gap < within)


@njit(cache=True, inner=True)
def notice_touchdowns(
    t: float, gait: Gait, stride: Stride, measured: Measured, timing: Timing, plan: FootPlan
) -> None:  # pragma: no cover - compiled
    """Switch feet that have touched the ground early to stance, and record each foot's touchdown.

    In the last part of its swing, a foot counts as standing once it has stopped descending, either at the expected
    ground or blocked above its plan. Without this rule, the foot would be dragged along and pushed into the ground
    until its planned touchdown. Touchdowns are recorded even after the gait has ended.

    Args:
        t: Time [s].
        gait: The gait.
        stride: The stride.
        measured: Measured motion; foot centres and their velocities are used.
        timing: In: the planned timing at `t`; out: corrected for early landings, with the time since touchdown of every
            standing foot that has touched down.
        plan: In: phases, and positions and landing points from the last call of `move_feet`; out: `touched`.
    """
    stance_s, swing_s = stride.duty[0] * stride.period[0], (1.0 - stride.duty[0]) * stride.period[0]
    early_s = (1.0 - FREEZE) * swing_s
    for i in range(timing.stance.shape[0]):
        planned = t - timing.since_touchdown[i]
        if timing.stance[i] and plan.phase[i] == SWINGING and planned == -np.inf:
            planned = t  # its landing was due at the end of the gait
        if planned > plan.touched[i] + early_s and plan.phase[i] != LATE:
            plan.touched[i] = planned
        if not timing.stance[i] and timing.to_touchdown[i] <= early_s:
            gap = measured.feet[i, 2] - plan.landing[i, 2]
            if plan.phase[i] == SWINGING and _meets(i, gap, TOUCH_GAP, gait, measured, plan):
                plan.touched[i] = t
            elif plan.phase[i] != STANDING:
                continue
            timing.stance[i] = True
            timing.to_liftoff[i] = timing.to_touchdown[i] + stance_s
            timing.since_liftoff[i] = 0.0
            timing.to_touchdown[i] += stance_s + swing_s
        timing.since_touchdown[i] = t - plan.touched[i] if timing.stance[i] else np.inf


@njit(cache=True, inner=True)
def _predict_base(
    base: tuple[float, float], yaw: float, command: Array, ahead: float
) -> tuple[float, float, float, float]:  # pragma: no cover - compiled
    """Predict the pose of a base that follows the command for `ahead` [s], from (x, y) [m] and heading `yaw` [rad].

    Returns:
        x_m, y_m [m], and cosine and sine of ψ_m (`choose_footholds`).
    """
    turn = command[2] * ahead
    c, s = math.cos(yaw + 0.5 * turn), math.sin(yaw + 0.5 * turn)
    x = base[0] + (c * command[0] - s * command[1]) * ahead
    y = base[1] + (s * command[0] + c * command[1]) * ahead
    return x, y, math.cos(yaw + turn), math.sin(yaw + turn)


@njit(cache=True, inner=True)
def choose_footholds(
    stride: Stride,
    ability: Ability,
    nominal: NominalStance,
    command: LimitedCommand,
    sway: Array,
    measured: Measured,
    timing: Timing,
    plan: FootPlan,
    ground: GroundSamples,
) -> None:  # pragma: no cover - compiled
    """Choose the horizontal landing point of each swinging foot, and the points of `ground` (planner.md 4.3).

    The base is predicted for the middle of the coming stance, t_m ahead, and the nominal foot n_i is placed under it:

        x_m = x + Rz(ψ + ω t_m/2)(v_x, v_y) t_m,   ψ_m = ψ + ω t_m,
        p_land = x_m + Rz(ψ_m) n_i + k_f √(z_c/g) (v - v_cmd)

    with k_f = `CAPTURE_GAIN`. x and v are position and velocity of the base without its sway, ψ is its heading. A
    foothold beyond the leg's reach at touchdown is moved into the ellipse of its reach. After the share `FREEZE` of a
    swing, the landing point is kept.

    Args:
        stride: The stride.
        ability: Reach of the feet.
        nominal: The feet n_i and the height z_c.
        command: The command (v_x, v_y, ω).
        sway: Sway of the base, which footholds do not follow (`base.BaseReference`).
        measured: Position, heading and velocity of the base, and the foot centres.
        timing: The timing, including early landings.
        plan: In: phases and positions; out: x and y of the landing points of swinging feet.
        ground: Out: `points`.
    """
    yaw = heading(measured.rotation)
    c, s = math.cos(yaw), math.sin(yaw)
    u_x, u_y = command.velocity[0] + sway[1, 0], command.velocity[1] + sway[1, 1]
    slip_x = measured.velocity[0] - (c * u_x - s * u_y)
    slip_y = measured.velocity[1] - (s * u_x + c * u_y)
    base = (
        measured.position[0] - (c * sway[0, 0] - s * sway[0, 1]),
        measured.position[1] - (s * sway[0, 0] + c * sway[0, 1]),
    )
    # a hanging robot's centre of mass is below its feet: no step can catch it
    capture_s = CAPTURE_GAIN * math.sqrt(max(nominal.com_height, 0.0) / GRAVITY)
    stance_s = stride.duty[0] * stride.period[0]
    for i in range(timing.stance.shape[0]):
        since_liftoff, to_touchdown = timing.since_liftoff[i], timing.to_touchdown[i]
        if timing.stance[i]:
            at = plan.position if plan.phase[i] == STANDING else measured.feet
            ground.points[0, i], ground.points[1, i] = at[i, 0], at[i, 1]
            continue
        if plan.phase[i] != SWINGING or since_liftoff < FREEZE * (since_liftoff + to_touchdown):
            n_x, n_y = nominal.feet[i, 0], nominal.feet[i, 1]
            x_m, y_m, c, s = _predict_base(base, yaw, command.velocity, to_touchdown + 0.5 * stance_s)
            plan.landing[i, 0] = x_m + c * n_x - s * n_y + capture_s * slip_x
            plan.landing[i, 1] = y_m + s * n_x + c * n_y + capture_s * slip_y
            x_t, y_t, c, s = _predict_base(base, yaw, command.velocity, to_touchdown)
            off_x, off_y = plan.landing[i, 0] - x_t, plan.landing[i, 1] - y_t
            off_x, off_y = c * off_x + s * off_y - n_x, c * off_y - s * off_x - n_y
            within = within_reach(off_x, off_y, ability.reach[i])
            if within < 1.0:
                off_x, off_y = n_x + within * off_x, n_y + within * off_y
                plan.landing[i, 0] = x_t + c * off_x - s * off_y
                plan.landing[i, 1] = y_t + s * off_x + c * off_y
        ground.points[0, i], ground.points[1, i] = plan.landing[i, 0], plan.landing[i, 1]


@njit(cache=True, inner=True)
def advance_quintic(state: Array, target: Array, remaining: float, dt: float) -> None:  # pragma: no cover - compiled
    """Advance the motion `state` by `dt` along the quintic that ends at rest at `target` after `remaining` seconds.

    Args:
        state: In and out: position, velocity and acceleration (rows) of each axis (columns), shape (3, 3).
        target: Position at rest, shape (3,) [m].
        remaining: Time until rest, > 0 [s].
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


@njit(cache=True, inner=True)
def arch(u: float, height: float, speed: float, swing_s: float) -> tuple[float, float, float]:  # pragma: no cover
    """Return the height of a swing above its course (`FootPlan.course`), and two derivatives (planner.md 4.4).

        z = 64 H u³(1-u)³ - v_td T_sw (u⁵ - u⁴),      ż(1) = -v_td

    Args:
        u: Elapsed share of the swing [-].
        height: Step height H [m].
        speed: Touchdown speed v_td [m/s].
        swing_s: Duration of the swing T_sw [s].

    Returns:
        z [m], ż [m/s] and z̈ [m/s²].
    """
    w = 1.0 - u
    lift = 64.0 * height
    sink = speed * swing_s
    z = lift * u**3 * w**3 + sink * u**4 * w
    dz = lift * 3.0 * u**2 * w**2 * (1.0 - 2.0 * u) + sink * (4.0 * u**3 - 5.0 * u**4)
    ddz = lift * 6.0 * u * w * (1.0 - 5.0 * u * w) + sink * (12.0 * u**2 - 20.0 * u**3)
    return z, dz / swing_s, ddz / (swing_s * swing_s)


@njit(cache=True, inner=True)
def _swing(
    i: int, dt: float, gait: Gait, stride: Stride, measured: Measured, timing: Timing, plan: FootPlan
) -> None:  # pragma: no cover - compiled
    """Move foot i along the quintic from its current plan to its landing point, plus the arch.

    At lift-off the quintic begins at the measured position, at rest.
    """
    course, since_liftoff, to_touchdown = plan.course[i], timing.since_liftoff[i], timing.to_touchdown[i]
    step = min(dt, since_liftoff)
    if plan.phase[i] != SWINGING:
        plan.phase[i] = SWINGING
        course[:] = 0.0
        assign(course[0], measured.feet[i])
        step = since_liftoff
    advance_quintic(course, plan.landing[i], to_touchdown + step, step)
    swing_s = since_liftoff + to_touchdown
    z, dz, ddz = arch(since_liftoff / swing_s, stride.height[0], gait.touchdown_speed_m_s, swing_s)
    assign(plan.position[i], course[0])
    assign(plan.velocity[i], course[1])
    assign(plan.acceleration[i], course[2])
    plan.position[i, 2] += z
    plan.velocity[i, 2] += dz
    plan.acceleration[i, 2] += ddz


@njit(cache=True, inner=True)
def _search(i: int, depth: float, gait: Gait, plan: FootPlan) -> None:  # pragma: no cover - compiled
    """Move the late foot i farther down, to `depth` [m] below its landing point, at most `LATE_DEPTH`."""
    plan.phase[i] = LATE
    assign(plan.position[i], plan.landing[i])
    plan.position[i, 2] -= min(depth, LATE_DEPTH)
    plan.velocity[i], plan.acceleration[i] = 0.0, 0.0
    if depth < LATE_DEPTH:
        plan.velocity[i, 2] = -math.sqrt(gait.touchdown_speed_m_s**2 + 2.0 * HASTE * depth)
        plan.acceleration[i, 2] = -HASTE


@njit(cache=True, inner=True)
def _land(i: int, normal: Array, measured: Measured, timing: Timing, plan: FootPlan) -> None:  # pragma: no cover
    """Switch foot i to stance in place; its slip beyond rolling continues along the ground."""
    plan.phase[i] = STANDING
    plan.position[i, 0], plan.position[i, 1] = measured.feet[i, 0], measured.feet[i, 1]
    plan.touched[i] += timing.since_touchdown[i]
    timing.since_touchdown[i] = 0.0
    slide = plan.slide[i]
    for d in range(3):
        slide[d] = measured.feet_velocity[i, d] - plan.velocity[i, d]
    along = np.dot(normal, slide)
    for d in range(3):
        slide[d] -= normal[d] * along


@njit(cache=True, inner=True)
def _roll(i: int, r: float, normal: Array, measured: Measured, plan: FootPlan) -> None:  # pragma: no cover - compiled
    """Set the velocity of foot i to rolling without slip: its centre moves with ω × r n."""
    omega, velocity = measured.shank_rate[i], plan.velocity[i]
    velocity[0] = r * (omega[1] * normal[2] - omega[2] * normal[1])
    velocity[1] = r * (omega[2] * normal[0] - omega[0] * normal[2])
    velocity[2] = r * (omega[0] * normal[1] - omega[1] * normal[0])


@njit(cache=True, inner=True)
def move_feet(
    dt: float,
    gait: Gait,
    stride: Stride,
    radius: Array,
    ground: GroundSamples,
    measured: Measured,
    timing: Timing,
    plan: FootPlan,
) -> None:  # pragma: no cover - compiled
    """Advance the planned feet by `dt` (planner.md 4.2, 4.4).

    A standing foot keeps its touchdown point (its anchor), which moves as the sphere of the foot rolls. It keeps its
    measured height, even if map and sensors disagree. The next step of the foot uses the same offset from the map,
    since a constant sensor error misplaces a foot equally at each touchdown. If the foot slides at landing, its leg
    stops it within milliseconds. A swinging foot follows the arch plus one quintic per axis from the current plan to
    the landing point; the quintic is replanned at every call and starts with the current velocity and acceleration. A
    foot that is due to land continues downwards, ever faster (`HASTE`), until it stops descending, at most `LATE_DEPTH`
    below the expected ground.

    Args:
        dt: Time since the last call [s].
        gait: Gait; only its touchdown speed is used.
        stride: Stride; only its step height is used.
        radius: Radii of the foot spheres, shape (n,) [m].
        ground: The map of the ground at the points of `choose_footholds`.
        measured: Measured motion; foot centres, their velocities, and angular velocities of the shanks are used.
        timing: In: the timing, including early landings; out: the time since touchdown, 0 for a foot that lands.
        plan: In and out; x and y of `landing` stay unchanged.
    """
    for i in range(timing.stance.shape[0]):
        r, height, normal = radius[i], ground.height[i] + plan.offset[i], ground.normal[i]
        if not timing.stance[i]:
            plan.landing[i, 2] = height + r / normal[2]
            _swing(i, dt, gait, stride, measured, timing, plan)
            continue
        _roll(i, r, normal, measured, plan)
        position, slide, learns = plan.position[i], plan.slide[i], min(dt / SETTLING, 1.0)
        if plan.phase[i] == STANDING:
            fading = math.exp(-dt / BRAKING)
            for d in range(3):
                slide[d] *= fading
        else:
            depth = late_depth(timing.since_touchdown[i], gait)
            gap = (measured.feet[i, 2] - height) * normal[2] - r
            if not _meets(i, gap, LATE_GAP if depth < LATE_DEPTH else -np.inf, gait, measured, plan):
                _search(i, depth, gait, plan)
                continue
            _land(i, normal, measured, timing, plan)
            learns = 1.0
        if timing.since_touchdown[i] < SETTLE_S:
            excess = measured.feet[i, 2] - r / normal[2] - height
            plan.offset[i] += learns * excess
            height += learns * excess
        plan.level[i] = height
        for d in range(3):
            plan.velocity[i, d] += slide[d]
            plan.acceleration[i, d] = -slide[d] / BRAKING
        position[0] += dt * plan.velocity[i, 0]
        position[1] += dt * plan.velocity[i, 1]
        position[2] = height + r / normal[2] + dt * plan.velocity[i, 2]
