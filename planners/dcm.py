"""Footsteps, and a motion of the centre of mass that stance feet can support.

For a centre of mass x at constant height z, let ω = √(g/z) and p the zero-moment point. The divergent component of
motion ξ = x + ẋ/ω obeys ``ξ̇ = ω (ξ - p)``, and x follows ξ: ``ẋ = ω (ξ - x)`` (Englsberger, Ott & Albu-Schäffer 2015,
Three-dimensional bipedal walking control based on divergent component of motion). ξ is unstable forwards in time, so it
is computed backwards from the end of the walk, as in that paper. Here p moves at constant speed between knots, which
gives a closed form. Over a piece from t0 to t1 with ``ṗ = s`` and constants D and B,

    ξ = p + s/ω + D e^{ω (t - t1)},     x = p + D/2 e^{ω (t - t1)} + B e^{-ω (t - t0)}
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, Final, NamedTuple

import msgspec
import numpy as np

from idcontrol.config.configuration import NotNegative, Positive
from idcontrol.errors import InputError
from idcontrol.types import Array

GRAVITY: Final = 9.81
"""Gravitational acceleration [m/s²]."""
SETTLE_S: Final = 1.5
"""Time after the last load transfer in which the centre of mass approaches the middle of the soles [s]."""
FRICTION_SHARE: Final = 0.8
"""Share of the friction that a plan uses; the rest is for the forces and moments of swinging legs."""
TURNING_SHARE: Final = 0.95
"""Share of the friction that a plan uses with the yaw moments of base and swinging legs."""
SAMPLED: Final = tuple(np.linspace(0.05, 0.95, 13).tolist())
"""Phases of a swing at which its yaw moment is compared with the friction."""
LONGEST_S: Final = 10.0
"""Longest shift of load, and longest swing, of a walk on low friction [s]."""


class Steps(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A walk of equal steps; in the last step the middle of the feet stays in place.

    Attributes:
        count: Number of steps.
        together: Names of the feet that step simultaneously, group by group; null means one foot at a time.
        first: Name of the foot that begins; null means the first foot of the robot file, or the second for a walk or
            turn to the right.
        length_m: Forward step length, measured at the middle of the feet; for a biped, the distance by which one foot
            lands in front of the other.
        sideways_m: Sideways step length, positive to the left.
        turn_rad: Turn of each step, positive to the left; less where friction could not support it.
        single_s: Time of single support; longer where friction could not support the yaw moment otherwise.
        double_s: Time of double support between steps; longer where friction could not support the motion otherwise.
        height_m: Height of a swing.
        touchdown_m_s: Downward speed of a foot at touchdown.
        reach_m: Largest distance of a foothold from its place beside the standing feet, for steps that catch a pushed
            machine (`idcontrol.planners.capture`). If this is not 0, a standing machine that is pushed also steps.
    """

    count: Annotated[int, msgspec.Meta(ge=0)] = 0
    together: tuple[tuple[str, ...], ...] | None = None
    first: str | None = None
    length_m: float = 0.2
    sideways_m: float = 0.0
    turn_rad: float = 0.0
    single_s: Positive = 0.7
    double_s: Positive = 0.3
    height_m: Positive = 0.05
    touchdown_m_s: NotNegative = 0.03
    reach_m: NotNegative = 0.0


class Footstep(NamedTuple):
    """One step.

    Attributes:
        feet: Indices of the k swinging feet.
        lift_s: Time of lift-off [s].
        land_s: Time of touchdown [s].
        places: Landing positions of these feet: x, y [m] and yaw [rad], shape (k, 3).
    """

    feet: tuple[int, ...]
    lift_s: float
    land_s: float
    places: Array


class Twist(NamedTuple):
    """Yaw moment of a step on low friction, per mass of the machine.

    Attributes:
        swing: Factor of the second derivative of the minimum-jerk profile of the swing [m²].
        lift: Factor of the second derivative of the profile of a foot's height, relative to its maximum [m²].
        spread: Ways in which the k contact points of the standing feet can share a yaw moment: horizontal forces
            relative to the load of a point, for a moment of 1 per weight, shape (c, k, 2) [1/m].
        tips: True if the contact points are on a line, over which the machine tips during a long swing.
    """

    swing: float
    lift: float
    spread: Array
    tips: bool


class Motion(NamedTuple):
    """Value, velocity and acceleration of a quantity, all of the same shape."""

    value: Array
    velocity: Array
    acceleration: Array


class DcmPlan(NamedTuple):
    """A horizontal motion of the centre of mass in k pieces; the last piece has no end.

    Attributes:
        omega: ω = √(g/z) [1/s].
        begin: Start time of each piece, shape (k,) [s].
        end: End time of each piece, shape (k,) [s]; inf for the last piece.
        zmp: Zero-moment point at the start of each piece, shape (k, 2) [m].
        slope: Velocity of the zero-moment point in each piece, shape (k, 2) [m/s].
        growing: D of each piece, the factor of e^{ω (t - end)} in ξ, shape (k, 2) [m].
        fading: B of each piece, the factor of e^{-ω (t - begin)} in x, shape (k, 2) [m].
    """

    omega: float
    begin: Array
    end: Array
    zmp: Array
    slope: Array
    growing: Array
    fading: Array


def compose(at: Array, relative: Array) -> Array:
    """Compose the planar pose `at` (x, y, yaw) with the motion `relative`, in the axes of `at`."""
    c, s = math.cos(at[2]), math.sin(at[2])
    x, y, yaw = relative
    return at + np.array([c * x - s * y, s * x + c * y, yaw])


def footsteps(steps: Steps, feet: Array, groups: Sequence[tuple[int, ...]], begin_s: float) -> list[Footstep]:
    """Return the steps of a walk. In each step except the last, the middle of the feet advances.

    Args:
        steps: The walk.
        feet: Poses (x, y, yaw) of the n feet at the start, shape (n, 3).
        groups: Groups of feet that step simultaneously, in order; after the last group, the first steps again.
        begin_s: Time of the first lift-off [s].
    """
    middle = feet.mean(axis=0)
    c, s = math.cos(middle[2]), math.sin(middle[2])
    beside = (feet - middle) @ np.array([[c, -s, 0.0], [s, c, 0.0], [0.0, 0.0, 1.0]])  # in the middle's axes
    beside[:, 2] = 0.0
    stride = np.array([steps.length_m, steps.sideways_m, steps.turn_rad])
    out = []
    for k in range(steps.count):
        group = groups[k % len(groups)]
        if k < steps.count - 1:
            middle = compose(middle, stride)
        lift = begin_s + k * (steps.single_s + steps.double_s)
        places = np.array([compose(middle, beside[foot]) for foot in group])
        out.append(Footstep(group, lift, lift + steps.single_s, places))
    return out


def zmp_knots(steps: Sequence[Footstep], feet: Array, double_s: float, begin_s: float) -> tuple[Array, Array]:
    """Return knots of the zero-moment point, which moves to the middle of the stance feet before each step.

    Args:
        steps: The steps.
        feet: Poses (x, y, yaw) of the n feet at the start, shape (n, 3).
        double_s: Time of a shift between steps [s].
        begin_s: Time at which the motion begins, before the first shift [s].

    Returns:
        Times, shape (k,) [s], and positions, shape (k, 2) [m]. The first two knots, at the start and at the first
        shift, are in the middle of all feet.
    """
    feet = feet[:, :2].copy()
    times = [begin_s, steps[0].lift_s - double_s if steps else begin_s + double_s]
    zmp = [feet.mean(axis=0)] * 2
    for step in steps:
        times += [step.lift_s, step.land_s]
        zmp += [np.delete(feet, step.feet, axis=0).mean(axis=0)] * 2
        feet[list(step.feet)] = step.places[:, :2]
    return np.array([*times, times[-1] + double_s]), np.array([*zmp, feet.mean(axis=0)])


def dcm_at_knots(times: Array, zmp: Array, omega: float) -> Array:
    """Return the divergent component at the knots [m]; the zero-moment point rests at the last knot.

    The result has the shape (k, ...) of `zmp`, and is linear in `zmp`. For the identity matrix, row i of the result
    contains the weights of all knots in the component at knot i.
    """
    xi, decay = zmp.copy(), np.exp(-omega * np.diff(times))
    for i in reversed(range(len(decay))):
        ahead = (zmp[i + 1] - zmp[i]) / (times[i + 1] - times[i]) / omega
        xi[i] = zmp[i] + ahead + (xi[i + 1] - zmp[i + 1] - ahead) * decay[i]
    return xi


def dcm_plan(times: Array, zmp: Array, omega: float, com: Array, dcm: Array, free: Sequence[int] = (1,)) -> DcmPlan:
    """Return the motion whose zero-moment point passes through knots and rests at the last knot.

    Some knots are moved so that the motion begins with the divergent component `dcm`. For example, before a step to the
    left the zero-moment point first moves to the right.

    Args:
        times: Times of knots, increasing, shape (k,) [s].
        zmp: Zero-moment points at the knots, shape (k, 2) [m].
        omega: ω [1/s].
        com: Centre of mass at the start, shape (2,) [m].
        dcm: Divergent component at the start, shape (2,) [m].
        free: Indices of the knots that are moved, all by the same shift.
    """
    moved, weights = zmp.copy(), dcm_at_knots(times, np.eye(len(times)), omega)[0]
    moved[list(free)] += (dcm - weights @ zmp) / weights[list(free)].sum()
    xi, decay = dcm_at_knots(times, moved, omega), np.exp(-omega * np.diff(times))
    slope = np.vstack([np.diff(moved, axis=0) / np.diff(times)[:, None], np.zeros((1, 2))])
    growing = np.vstack([xi[1:] - moved[1:] - slope[:-1] / omega, np.zeros((1, 2))])
    fading, x = np.empty_like(moved), np.array(com, dtype=np.float64)
    for i, e in enumerate((*decay, 0.0)):
        fading[i] = x - moved[i] - 0.5 * growing[i] * e
        if i < len(decay):
            x = moved[i + 1] + 0.5 * growing[i] + fading[i] * e
    return DcmPlan(omega, times, np.append(times[1:], np.inf), moved, slope, growing, fading)


def slowed(
    times: Array, zmp: Array, omega: float, com: Array, mu: float, norm: int = 2, twists: Sequence[Twist] = ()
) -> Array:
    """Return times of the knots at which the motion is within friction.

    The acceleration of the centre of mass uses at most `FRICTION_SHARE` of the friction; together with the yaw moment
    of a swing, at most `TURNING_SHARE`. Where the acceleration is too large, the shifts of load before, between and
    after the steps last longer. Where the yaw moment is too large, the swing lasts longer, except if the machine would
    tip meanwhile (`Twist.tips`). A motion within the limits keeps its times.

    Args:
        times: Times of the knots (`zmp_knots`), shape (k,) [s].
        zmp: Zero-moment points at the knots, shape (k, 2) [m].
        omega: ω [1/s].
        com: Centre of mass at the start, where it rests, shape (2,) [m].
        mu: Friction coefficient.
        norm: Order of the norm of horizontal forces: 2 for circular friction cones, 1 for pyramids (|f_x| + |f_y|).
        twists: Yaw moments of the steps (`idcontrol.planners.turning.twists`); empty to ignore them.

    Raises:
        InputError: A shift of load or a swing would take longer than `LONGEST_S`.
    """
    limit, most = FRICTION_SHARE * mu * GRAVITY, TURNING_SHARE * mu * GRAVITY
    while True:
        plan = dcm_plan(times, zmp, omega, com, com)
        # each component obeys ä = ω²a between knots, so its magnitude is convex, and greatest at a knot
        needs = np.array([np.linalg.norm(com_at(plan, t).acceleration, norm) for t in times])
        lasts = np.diff(times)
        if needs.max() > limit:
            # the acceleration decreases more slowly than 1/duration; the last percent is added to end
            lasts[1::2] *= np.maximum(1.0, 1.01 * np.maximum(needs[:-1], needs[1:])[1::2] / max(limit, 1e-9))
        else:
            turns = turning_needs(plan, times, twists, norm) * [not twist.tips for twist in twists]
            if turns.max(initial=0.0) <= most:
                return times
            # the yaw moment decreases with the square of the duration, the acceleration does not
            lasts[2::2] *= np.maximum(1.0, 1.01 * np.sqrt(turns / most))
        if lasts[lasts > np.diff(times)].max() > LONGEST_S:
            raise InputError(
                f"friction {mu:g} is too low to walk: a shift of load or a swing takes over {LONGEST_S:g} s; raise mu"
            )
        times = np.append(times[0], times[0] + np.cumsum(lasts))


def turning_needs(plan: DcmPlan, times: Array, twists: Sequence[Twist], norm: int = 2) -> Array:
    """Return the largest horizontal force on a contact point in each swing, relative to its load / g [m/s²].

    Args:
        plan: The motion of the centre of mass.
        times: Times of its knots (`zmp_knots`), shape (k,) [s].
        twists: Yaw moments of the n steps, or none.
        norm: Order of the norm of horizontal forces (`slowed`).

    Returns:
        The forces, shape (n,); zero where a single contact point stands, which resists no yaw moment.
    """
    out = np.zeros(len(twists))
    for k, (lift, land, twist) in enumerate(zip(times[2:-1:2], times[3:-1:2], twists, strict=False)):
        for s in SAMPLED if len(twist.spread) else ():
            moment = (twist.swing * smooth(s)[2] + 64.0 * twist.lift * _rise(s)[2]) / (land - lift) ** 2
            mean = com_at(plan, lift + s * (land - lift)).acceleration
            forces = np.linalg.norm(mean + moment * twist.spread, norm, axis=2)
            out[k] = max(out[k], float(forces.max(axis=1).min()))
    return out


def retimed(steps: Sequence[Footstep], times: Array) -> list[Footstep]:
    """Return the steps with the lift-offs and touchdowns of `times`, the knots of `zmp_knots`, shape (k,) [s]."""
    return [
        step._replace(lift_s=float(lift), land_s=float(land))
        for step, lift, land in zip(steps, times[2:-1:2], times[3:-1:2], strict=True)
    ]


def zmp_at(plan: DcmPlan, t: float) -> Array:
    """Return the zero-moment point at `t` [s], shape (2,) [m]; `t` must not be before the start of the plan."""
    i = max(int(np.searchsorted(plan.begin, t, side="right")) - 1, 0)
    return np.asarray(plan.zmp[i] + plan.slope[i] * (t - plan.begin[i]))


def com_at(plan: DcmPlan, t: float) -> Motion:
    """Return the horizontal motion of the centre of mass at `t` [s].

    Value, velocity and acceleration have shape (2,) each [m, m/s, m/s²]; ξ is value + velocity / ω. `t` must not be
    before the start of the plan.
    """
    i = max(int(plan.begin.searchsorted(t, side="right")) - 1, 0)
    omega, since, ahead = plan.omega, t - float(plan.begin[i]), t - float(plan.end[i])
    grown, faded = 0.5 * math.exp(omega * ahead), math.exp(-omega * since)
    pieces = [x[i].tolist() for x in (plan.zmp, plan.slope, plan.growing, plan.fading)]
    axes = []  # NumPy takes three times as long for two numbers
    for zmp, slope, growing, fading in zip(*pieces, strict=True):
        growing, fading = growing * grown, fading * faded
        x = zmp + slope * since + growing + fading
        axes.append((x, slope + omega * (growing - fading), omega**2 * (growing + fading)))
    return Motion(*np.array(axes).T)


def smooth(s: float) -> tuple[float, float, float]:
    """Return a minimum-jerk rise from 0 to 1 (Flash & Hogan 1985) and its first two derivatives, for s within [0, 1].

    Outside this range, s is clipped.
    """
    s = min(max(s, 0.0), 1.0)
    return s**3 * (10.0 - 15.0 * s + 6.0 * s**2), 30.0 * (s * (1.0 - s)) ** 2, 60.0 * s * (1.0 - s) * (1.0 - 2.0 * s)


def blend(a: Array, b: Array, begin_s: float, end_s: float, t: float) -> Motion:
    """Return at `t` [s] a minimum-jerk motion from `a` to `b` between two times, at rest before and after."""
    T = end_s - begin_s
    s, ds, dds = smooth((t - begin_s) / T)
    return Motion(a + s * (b - a), ds / T * (b - a), dds / T**2 * (b - a))


def toward(begin: Motion, goal: Array, begin_s: float, end_s: float, t: float) -> Motion:
    """Return at `t` [s] a quintic motion that continues `begin` and comes to rest at `goal` at `end_s`."""
    T = float(end_s - begin_s)
    s = min(float(t - begin_s) / T, 1.0)
    axes = []  # NumPy takes four times as long for two numbers
    for place, speed, change, end in zip(*(x.tolist() for x in (*begin, goal)), strict=True):
        way, v, a = end - place, T * speed, 0.5 * T**2 * change
        c3, c4, c5 = 10.0 * way - 6.0 * v - 3.0 * a, 8.0 * v - 15.0 * way + 3.0 * a, 6.0 * way - 3.0 * v - a
        axes.append((
            place + s * (v + s * (a + s * (c3 + s * (c4 + s * c5)))),
            (v + s * (2.0 * a + s * (3.0 * c3 + s * (4.0 * c4 + s * 5.0 * c5)))) / T,
            (2.0 * a + s * (6.0 * c3 + s * (12.0 * c4 + s * 20.0 * c5))) / T**2,
        ))  # fmt: skip
    return Motion(*np.array(axes).T)


def swing_height(steps: Steps, step: Footstep, t: float) -> tuple[float, float, float]:
    """Return height, velocity and acceleration of a foot above its lift-off position at `t` [m, m/s, m/s²].

    The time `t` [s] is not before lift-off. The foot leaves the ground smoothly and returns with the touchdown speed,
    at which it continues downwards after the planned touchdown.
    """
    T, v = step.land_s - step.lift_s, steps.touchdown_m_s
    s = (t - step.lift_s) / T
    if s >= 1.0:
        return -v * (t - step.land_s), -v, 0.0
    up, down = 64.0 * steps.height_m, v * T  # derivatives of s³(1-s)³, whose maximum is 1/64, and of s³(1-s)(4-3s)
    rise, d_rise, dd_rise = _rise(s)
    landing = s**3 * (1.0 - s) * (4.0 - 3.0 * s)
    d_landing, dd_landing = s**2 * (12.0 - 28.0 * s + 15.0 * s**2), s * (24.0 - 84.0 * s + 60.0 * s**2)
    return (
        up * rise + down * landing,
        (up * d_rise + down * d_landing) / T,
        (up * dd_rise + down * dd_landing) / T**2,
    )


def _rise(s: float) -> tuple[float, float, float]:
    """Return s³(1-s)³ and its first two derivatives; the maximum is 1/64."""
    return (
        s**3 * (1.0 - s) ** 3,
        3.0 * s**2 * (1.0 - s) ** 2 * (1.0 - 2.0 * s),
        6.0 * s * (1.0 - s) * (1.0 - 5.0 * s + 5.0 * s**2),
    )


def heading_at(steps: Sequence[Footstep], feet: Array, t: float) -> tuple[float, float, float]:
    """Return the mean yaw of the feet at `t` [s], its rate and its acceleration [rad, rad/s, rad/s²].

    The yaw turns while a foot swings. `feet` are the poses (x, y, yaw) before the first of the `steps`, shape (n, 3).
    """
    yaw: list[float] = feet[:, 2].tolist()
    mean = sum(yaw) / len(yaw)
    for k, step in enumerate(steps):
        before = mean
        for foot, turned in zip(step.feet, step.places[:, 2].tolist(), strict=True):
            yaw[foot] = turned
        mean = sum(yaw) / len(yaw)
        if k + 1 == len(steps) or t < steps[k + 1].lift_s:
            T = step.land_s - step.lift_s
            s, ds, dds = smooth((t - step.lift_s) / T)
            return before + s * (mean - before), ds / T * (mean - before), dds / T**2 * (mean - before)
    return mean, 0.0, 0.0
