"""Metrics of a recorded run: pure functions of its arrays.

The arrays come from `idcontrol.record.recording`, one row per control tick. Channels of a locomotion run with `a`
actuated joints and `nf` feet (shape of one row, unit)::

    t ()                             time at which the tick began                                  s
    q (nq,), v (nv,)                 state, in Pinocchio's layout
    q_des, v_des, a_des (a,)         reference of the actuated joints                              rad, rad/s, rad/s²
    tau (a,)                         joint torques of the period that begins at t                  N m
    stance (nf,)                     1 if the foot is in planned stance, else 0
    feet, feet_des (nf, 3)           measured and planned centres of the foot spheres, or origins
                                     of the frames of soles, world                                 m
    gap (nf,), slip (nf,)            gap; tangential speed of the contact point; for a sole the
                                     smallest gap and largest speed of its corners                 m, m/s
    force, force_pred (nf, 3)        contact forces of the plant and predicted forces, world,
                                     averages over the period that begins at t, summed over a sole;
                                     0 for a foot without force, NaN without a prediction          N
    moment, moment_pred (nf, 3)      moments about ``feet``, likewise; only robots with soles      N m
    cop, cop_pred (nf, 3)            centres of pressure, world; for a foot without force the point
                                     of the ground below the foot; only robots with soles          m
    status, residual, clipped ()     as in the controller's `idcontrol.types.Command`
    rate_off ()                      1 if the torque-rate limit was dropped; absent in records of older versions
    solved_by ()                     index in `idcontrol.types.SOLVED_BY`; NaN for any other solver
    gap_nm ()                        `Command.gap`: no solution is closer to the last torques by more
                                     than this; NaN if the controller does not search              N m
    base_ref (4,)                    reference of the base: x, y, z, yaw                           m, rad
    base_tilt ()                     angle between the base's and the world's z                    rad
    com (3,)                         centre of mass, world                                         m
    target, segment (2,)             current and previous waypoint: x, y                           m
    commanded, granted (3,)          command before and after governor and limiter: ahead, left,
                                     counter-clockwise; absent if the planner does not report it   m/s, rad/s
    base_seen (13,)                  sensed base: position, quaternion, velocity in base axes;
                                     absent if the true base was used                              m, m/s, rad/s
    waypoints (), turning ()         waypoints reached so far; 1 while turning in place
    step_us ()                       wall time of the controller                                   µs
    plant_status, plant_residual, plant_regularization ()

A mean or maximum over an empty set (no stance foot, no prediction, no waypoint) is None. So is a mean or maximum over
data with a NaN, unless the docstring says that NaN is left out.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import msgspec
import numpy as np

from idcontrol.errors import InputError
from idcontrol.record.files import checked
from idcontrol.types import SOLVED_BY, TOUCHING_N, Array, Booleans, Integers, Status

FALLEN_HEIGHT = 0.5
"""A robot has fallen if its base has sunk by more than this share of the standing height."""
FALLEN_TILT_RAD = 0.6
"""A robot has fallen if its base leans more than this [rad]."""
SHORTFALL = 0.1
"""Largest error of distance and turn in a completed walk, as a share of the demand."""
SLACK_HEIGHTS, SLACK_RAD = 0.1, 0.3
"""Errors of distance, as a share of the standing height, and of turn [rad] that are allowed in addition to `SHORTFALL`.
Pushes turn a robot."""
POWER_ABOVE_HZ = (20, 50, 100)
"""Frequencies above which the power of the torque rate is reported [Hz]."""
AT_REST_S = 3.0
"""Time that a robot is assumed to need to come to rest over its feet, once all feet are in planned stance [s]."""
ARM_M = 0.1
"""Lever arm by which moments are compared with forces in `sole_wrenches`: about half the length of a sole [m]."""
SOLES = ("moment", "moment_pred", "cop", "cop_pred")
"""Channels that only robots with soles have."""


Index = Annotated[int, msgspec.Meta(ge=0)]
Duration = Annotated[float, msgspec.Meta(ge=0, le=1e6)]


class Layout(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Facts about a locomotion run that are not in its arrays; stored in the run's `meta` under ``"layout"``.

    Attributes:
        joints: Names of the actuated joints.
        feet: Names of the feet.
        joint_q: Indices of the actuated joints in ``q``, shape (a,).
        joint_v: Indices of the actuated joints in ``v``, shape (a,).
        torque_limit: Torque limit of each actuated joint [N m]; None for no limit.
        lower, upper: Position limits of each actuated joint [rad]; None for no limit. Empty in records of older
            versions.
        speed_limit: Largest speed of each actuated joint [rad/s]; None for no limit. Empty in records of older
            versions.
        period_s: Control period, the time between rows [s].
        gait_period_s: Period of the planned gait [s].
        swing_s: Duration of a planned swing [s].
        base_height_m: Height of the centre of mass above the ground in the standing pose [m]. The root frame may be
            anywhere, even on the ground.
        waypoints: Waypoints in order, x and y [m]; empty if the run has none.
        acceleration_m_s2: Largest rate of change of the granted velocity [m/s²].
        turn_acceleration_rad_s2: Largest rate of change of the granted turning rate [rad/s²].
    """

    joints: tuple[str, ...]
    feet: tuple[str, ...]
    joint_q: tuple[Index, ...]
    joint_v: tuple[Index, ...]
    torque_limit: tuple[float | None, ...]
    period_s: Annotated[float, msgspec.Meta(ge=1e-9)]
    gait_period_s: Duration
    swing_s: Duration
    base_height_m: float
    waypoints: tuple[tuple[float, float], ...] = ()
    lower: tuple[float | None, ...] = ()
    upper: tuple[float | None, ...] = ()
    speed_limit: tuple[float | None, ...] = ()
    acceleration_m_s2: Annotated[float, msgspec.Meta(gt=0)] = 0.5
    turn_acceleration_rad_s2: Annotated[float, msgspec.Meta(gt=0)] = 8.0


def layout_of(meta: Mapping[str, Any], arrays: Mapping[str, Array], where: str) -> Layout | None:
    """Return the layout of a recorded walk, after checking that the arrays fit it; None for runs of other kinds.

    Args:
        meta: The facts about the run.
        arrays: Channels of the run.
        where: Name of the record, for error messages.

    Raises:
        InputError: The layout is malformed, a channel is missing or has another shape, or times are not in order.
    """
    if "layout" not in meta:
        return None
    layout = checked(meta["layout"], Layout, f"{where}: meta.layout")
    joints, feet = (len(layout.joints),), (len(layout.feet),)
    counts = {len(layout.lower), len(layout.upper), len(layout.speed_limit)} - {0}
    if not {len(layout.joint_q), len(layout.joint_v), len(layout.torque_limit), *counts} == {*joints}:
        raise InputError(f"{where}: meta.layout is damaged: its lists of joints differ in length")
    shapes = {
        **dict.fromkeys(("q_des", "v_des", "tau"), joints),
        **dict.fromkeys(("stance", "slip"), feet),
        **dict.fromkeys(("feet", "feet_des", "force", "force_pred"), (*feet, 3)),
        **dict.fromkeys(("t", "status", "clipped", "base_tilt", "waypoints", "turning"), ()),
        **dict.fromkeys(("plant_status", "plant_residual", "plant_regularization"), ()),
        **dict.fromkeys({"commanded", "granted"} & arrays.keys(), (3,)),
        **dict.fromkeys({"base_seen"} & arrays.keys(), (13,)),
        **dict.fromkeys(SOLES if "cop" in arrays else (), (*feet, 3)),
        **{"base_ref": (4,), "com": (3,), "target": (2,), "segment": (2,)},
    }
    fits = all(name in arrays and arrays[name].shape[1:] == shape for name, shape in shapes.items())
    for name, least, index in (("q", 3, layout.joint_q), ("v", 0, layout.joint_v)):
        fits = fits and name in arrays and arrays[name].shape[1:] > (max(least - 1, *index, 0),)
    if not fits:
        raise InputError(f"{where} is damaged: its channels do not describe a walk")
    times = arrays["t"]
    if not (np.isfinite(times).all() and (np.diff(times) >= 0.0).all()):
        raise InputError(f"{where} is damaged: its times are not numbers in order")
    return layout


def locomotion(arrays: Mapping[str, Array], layout: Layout, duration_s: float) -> dict[str, Any]:
    """Return all metrics of a locomotion run.

    Args:
        arrays: The channels listed in the module's docstring, shape (rows, ...). These may be absent: ``a_des``,
            ``residual``, ``step_us``, ``commanded``, ``granted``, ``base_seen``, ``rate_off``, ``solved_by``,
            ``gap_nm``, ``gap``, channels of soles.
        layout: Facts that are not in the arrays.
        duration_s: Intended duration of the run [s].

    Returns:
        The metrics that the functions of this module return. The metrics of `following` are absent without a recorded
        command, and the metrics of `sole_wrenches` are absent for robots without soles. Also ``steps``, ``completed``,
        ``fell_at_s``, ``missed`` (the sentence of `shortfall`; None for a robot that completed its task or fell, or
        without a recorded command), ``qd_ref_max_rad_s`` (largest joint velocity reference), ``torque_clipped_steps``,
        ``rate_bound_off_steps``, ``waypoints_reached``, mean errors of the base and the feet, and the objects
        ``step_us``, ``solver`` and ``plant_solver``.
    """
    h = layout.period_s
    base = arrays["q"][:, :3]
    rows = len(base)
    fell = fell_at(arrays["t"], base[:, 2], arrays["base_ref"][:, 2], arrays["base_tilt"], layout.base_height_m)
    reached_end = rows > 0 and arrays["t"][-1] + 1.5 * h > duration_s
    waypoints = int(arrays["waypoints"][-1]) if rows and np.isfinite(arrays["waypoints"][-1]) else 0
    missed, asked = None, dict[str, float | None]()
    if rows and "granted" in arrays:
        asked = following(arrays["q"], arrays["commanded"], arrays["granted"], layout)
        if fell is None:
            progress = path_progress(base[-1], waypoints, layout.waypoints) if layout.waypoints else None
            missed = shortfall(asked, layout, waypoints, progress)
    return {
        "steps": rows,
        "completed": bool(fell is None and reached_end and np.isfinite(arrays["q"]).all() and missed is None),
        "fell_at_s": fell,
        "missed": missed,
        **asked,
        **tracking(
            arrays["q"][:, list(layout.joint_q)], arrays["v"][:, list(layout.joint_v)], arrays["q_des"], arrays["v_des"]
        ),
        "qd_ref_max_rad_s": _largest(np.abs(arrays["v_des"])),
        **torques(arrays["tau"], h),
        "torque_clipped_steps": int(np.count_nonzero(arrays["clipped"] > 0)),
        "rate_bound_off_steps": marked(arrays, "rate_off"),
        **at_limits(arrays["q"][:, list(layout.joint_q)], arrays["v"][:, list(layout.joint_v)], layout),
        **contact_forces(arrays["force"][:, :, 2], arrays["force_pred"][:, :, 2]),
        **(sole_wrenches(arrays) if "cop" in arrays else {}),
        **estimate(arrays["q"], arrays["v"], arrays.get("base_seen")),
        "base_pos_err_m": _mean(np.linalg.norm(base - arrays["base_ref"][:, :3], axis=1)),
        "base_height_err_m": height_error(
            arrays["t"], base[:, 2], arrays["base_ref"][:, 2], round(layout.gait_period_s / h)
        ),
        "base_tilt_rad": _mean(arrays["base_tilt"]),
        "foot_err_m": _mean(np.linalg.norm(arrays["feet"] - arrays["feet_des"], axis=2)),
        "standing_drift_m": standing_drift(base, arrays["feet"], arrays["stance"] > 0.5, h),
        **slip(arrays["slip"], arrays["stance"] > 0.5),
        "touchdown_err_s": touchdown_error(arrays["stance"] > 0.5, arrays["force"], layout.swing_s, h),
        **com_path(arrays["com"], arrays["segment"], arrays["target"], arrays["turning"] > 0.5),
        "distance_m": distance(base, round(layout.gait_period_s / h)),
        "waypoints_reached": waypoints,
        "step_us": percentiles(arrays["step_us"]) if "step_us" in arrays else percentiles(np.empty(0)),
        "solver": statuses(arrays["status"], arrays.get("solved_by"), arrays.get("gap_nm")),
        "plant_solver": plant_solver(arrays["plant_status"], arrays["plant_residual"], arrays["plant_regularization"]),
    }


def marked(arrays: Mapping[str, Array], name: str) -> int | None:
    """Return the number of steps in which channel `name` is above zero; None in records without that channel."""
    return int(np.count_nonzero(arrays[name] > 0)) if name in arrays else None


def estimate(q: Array, v: Array, seen: Array | None) -> dict[str, float | None]:
    """Compare the estimated base with the true base.

    Args:
        q: Configurations, shape (rows, nq): position and quaternion (x, y, z, w) of the base first.
        v: Velocities, shape (rows, nv): velocity of the base first, base axes.
        seen: Channel ``base_seen``, shape (rows, 13); None without an estimate of the base.

    Returns:
        Errors of the estimate; all are None without an estimate. ``estimate_drift_m`` (horizontal position) and
        ``estimate_yaw_rad`` (heading) are errors at the end. ``estimate_height_m`` is the largest error of the height,
        and ``estimate_velocity_m_s`` the root mean square error of the velocity.
    """
    if seen is None or len(seen) == 0:
        return dict.fromkeys(("estimate_drift_m", "estimate_height_m", "estimate_velocity_m_s", "estimate_yaw_rad"))
    off = seen[:, :3] - q[:, :3]
    turned = np.unwrap(heading(seen)) - np.unwrap(heading(q))
    return {
        "estimate_drift_m": _finite(float(np.linalg.norm(off[-1, :2]))),
        "estimate_height_m": _largest(np.abs(off[:, 2])),
        "estimate_velocity_m_s": _finite(float(np.sqrt(np.mean(np.sum((seen[:, 7:10] - v[:, :3]) ** 2, axis=1))))),
        "estimate_yaw_rad": _finite(float(turned[-1])),
    }


def heading(q: Array) -> Array:
    """Return the heading of a floating base in the configurations `q`, shape (rows, nq); shape (rows,) [rad]."""
    return np.arctan2(2.0 * (q[:, 6] * q[:, 5] + q[:, 3] * q[:, 4]), 1.0 - 2.0 * (q[:, 4] ** 2 + q[:, 5] ** 2))


AT_END_RAD = 1e-3
"""A joint closer than this to its position limit is at the limit [rad]."""

AT_SPEED = 0.999
"""Fraction of the speed limit from which on a joint counts as at the limit."""


def at_limits(q: Array, v: Array, layout: Layout) -> dict[str, int | None]:
    """Count the steps with a joint at a position limit, and the steps with a joint at its speed limit.

    Args:
        q: Positions of the actuated joints, shape (rows, a) [rad].
        v: Velocities of the actuated joints, shape (rows, a) [rad/s].
        layout: Limits of positions and speeds.

    Returns:
        ``position_limit_steps`` and ``speed_limit_steps``; None in records without the limits.
    """
    if not (layout.lower and layout.upper and layout.speed_limit):
        return {"position_limit_steps": None, "speed_limit_steps": None}
    lower = np.array([-np.inf if end is None else end for end in layout.lower])
    upper = np.array([np.inf if end is None else end for end in layout.upper])
    speed = np.array([np.inf if most is None else most for most in layout.speed_limit])
    return {
        "position_limit_steps": int(at_ends(q, lower, upper).any(axis=1).sum()),
        "speed_limit_steps": int((np.abs(v) >= AT_SPEED * speed).any(axis=1).sum()),
    }


def at_ends(q: Array, lower: Array, upper: Array) -> Booleans:
    """Return True where a joint is at a position limit: positions of shape (rows, a), limits of shape (a,) [rad]."""
    return (q < lower + AT_END_RAD) | (q > upper - AT_END_RAD)


def following(q: Array, commanded: Array, granted: Array, layout: Layout) -> dict[str, float | None]:
    """Compare the commanded, granted and actual motion of a walk.

    Args:
        q: Configurations, shape (rows, nq): position and quaternion (x, y, z, w) of the base first.
        commanded: Commands of the source (v_x, v_y, ω) in the base's heading, shape (rows, 3) [m/s, rad/s].
        granted: Commands after governor and limiter, shape (rows, 3) [m/s, rad/s].
        layout: The time between rows, and the largest rates of change of the granted motion.

    Returns:
        ``commanded_m_s`` and ``granted_m_s`` are mean planar speeds; ``commanded_rad_s`` and ``granted_rad_s`` are mean
        absolute turning rates. ``commanded_m`` and ``granted_m`` are distances, and ``followed_m`` is the distance that
        the base moved along the granted direction. ``commanded_rad`` and ``granted_rad`` are turns, and
        ``followed_rad`` is the change of heading. The commanded distance and turn are computed from commands with
        limited rates of change (`accelerated`).
    """
    h, possible = layout.period_s, accelerated(commanded, layout)
    speed = np.linalg.norm(granted[:, :2], axis=1)
    yaw = heading(q)
    way = np.arctan2(granted[:, 1], granted[:, 0]) + yaw
    along = np.stack((np.cos(way), np.sin(way)), axis=1) * (speed > 0.0)[:, None]
    turned = np.unwrap(yaw)
    return {
        "commanded_m_s": _mean(np.linalg.norm(commanded[:, :2], axis=1)),
        "granted_m_s": _mean(speed),
        "commanded_rad_s": _mean(np.abs(commanded[:, 2])),
        "granted_rad_s": _mean(np.abs(granted[:, 2])),
        "commanded_m": _finite(h * np.linalg.norm(possible[:, :2], axis=1).sum()),
        "granted_m": _finite(h * speed.sum()),
        "followed_m": _finite(np.sum(along[:-1] * np.diff(q[:, :2], axis=0))),
        "commanded_rad": _finite(h * possible[:, 2].sum()),
        "granted_rad": _finite(h * granted[:, 2].sum()),
        "followed_rad": _finite(turned[-1] - turned[0]),
    }


def accelerated(commanded: Array, layout: Layout) -> Array:
    """Return the commands (v_x, v_y, ω) with limited rates of change, starting at rest, shape (rows, 3) [m/s, rad/s].

    Args:
        commanded: Commands without this limit, shape (rows, 3) [m/s, rad/s].
        layout: The time between rows, and the largest rates of change.
    """
    steps = layout.period_s * layout.acceleration_m_s2, layout.period_s * layout.turn_acceleration_rad_s2
    velocity, omega = 0.0j, 0.0
    reached = []
    for v_x, v_y, turn in commanded.tolist():
        lacking = complex(v_x, v_y) - velocity
        velocity += lacking * min(1.0, steps[0] / abs(lacking)) if lacking else 0.0
        omega += min(max(turn - omega, -steps[1]), steps[1])
        reached.append((velocity.real, velocity.imag, omega))
    return np.array(reached)


def shortfall(asked: Mapping[str, float | None], layout: Layout, waypoints: int, progress: float | None) -> str | None:
    """Describe how a walk failed its task; return None if it completed the task.

    For a commanded walk, the distance must match the commanded distance within 10 % plus a tenth of the standing
    height. The turn must match the commanded turn within 10 % plus 0.3 rad. Both demands allow for limited rates of
    change (`accelerated`).

    Between waypoints, the commanded speed is only a bound, and the heading is not part of the task. Three bounds
    hold within the same tolerances: the progress along the path reaches the granted distance, the distance is at most
    the length of the finished legs and the current leg, and the turn is at most half a turn for each of these legs.

    Args:
        asked: Result of `following`.
        layout: The waypoints and the height.
        waypoints: Number of waypoints reached.
        progress: Progress along the path between the waypoints [m]; None without waypoints.
    """
    if any(number is None for number in asked.values()):
        return "its motion is not finite"
    numbers = {key: float(number or 0.0) for key, number in asked.items()}
    slack = SLACK_HEIGHTS * layout.base_height_m
    if progress is not None:
        legs = waypoints + 1
        enough = progress >= (1.0 - SHORTFALL) * numbers["granted_m"] - slack
        straight = numbers["followed_m"] <= (1.0 + SHORTFALL) * path_length(legs, layout.waypoints) + slack
        if enough and straight and abs(numbers["followed_rad"]) <= (1.0 + SHORTFALL) * math.pi * legs + SLACK_RAD:
            return None
        return (
            f"reached {waypoints} waypoints: came {progress:.2f} m along their path, of {numbers['granted_m']:.2f} m "
            f"granted, and turned {numbers['followed_rad']:.2f} rad"
        )
    missed = []
    for key, part, least in (("m", "went", slack), ("rad", "turned", SLACK_RAD)):
        went, far = numbers[f"followed_{key}"], numbers[f"commanded_{key}"]
        if abs(went - far) > SHORTFALL * abs(far) + least:
            missed.append(f"{part} {went:.2f} of {far:.2f} {key} commanded ({numbers[f'granted_{key}']:.2f} granted)")
    return ", ".join(missed) or None


def path_length(legs: int, waypoints: Sequence[tuple[float, float]]) -> float:
    """Return the length of the first `legs` legs of the path from the origin through all waypoints, repeatedly [m]."""
    corners = np.array([(0.0, 0.0), *(waypoints[k % len(waypoints)] for k in range(legs))])
    return float(np.linalg.norm(np.diff(corners, axis=0), axis=1).sum())


def path_progress(at: Array, reached: int, waypoints: Sequence[tuple[float, float]]) -> float:
    """Return a walk's progress along its path: the finished legs, plus the approach to the next waypoint [m].

    Args:
        at: Position, shape (2 or more,) [m].
        reached: Number of waypoints reached.
        waypoints: The waypoints; the path starts at the origin and continues from the last waypoint to the first.
    """
    to_go = math.dist(at[:2], waypoints[reached % len(waypoints)])
    return path_length(reached + 1, waypoints) - to_go


def tracking(q: Array, v: Array, q_des: Array, v_des: Array) -> dict[str, float | None]:
    """Return the mean over joints and time of ``|q - q_des|`` and ``|q̇ - q̇_des|``; all arrays have shape (rows, a)."""
    return {"q_err_rad": _mean(np.abs(q - q_des)), "qd_err_rad_s": _mean(np.abs(v - v_des))}


def torques(tau: Array, h: float) -> dict[str, Any]:
    """Return the mean |τ| and statistics of the torque rate, over joints and steps.

    Args:
        tau: Torques, shape (rows, a) [N m].
        h: Time between rows [s].

    Returns:
        ``tau_mean_nm``; mean, root mean square, median, 99 and 99.9 % quantile and maximum of |Δτ/Δt| [N m/s]; and
        ``dtau_power_above``, the fractions of the power of Δτ/Δt above 20, 50 and 100 Hz.
    """
    change = np.diff(tau, axis=0) / h
    rate, good = np.abs(change), change.size > 0 and bool(np.isfinite(change).all())
    p50, p99, p999 = np.percentile(rate, [50.0, 99.0, 99.9]).tolist() if good else [None] * 3
    power = np.square(np.abs(np.fft.rfft(change, axis=0))).sum(axis=1) if good else np.zeros(1)
    frequency, all_of_it = np.fft.rfftfreq(max(len(change), 1), h), power.sum()
    return {
        "tau_mean_nm": _mean(np.abs(tau)),
        "dtau_mean_nm_s": _mean(rate),
        "dtau_rms_nm_s": _finite(math.sqrt(np.mean(np.square(rate)))) if good else None,
        "dtau_p50_nm_s": p50,
        "dtau_p99_nm_s": p99,
        "dtau_p999_nm_s": p999,
        "dtau_max_nm_s": _largest(rate),
        "dtau_power_above": {
            str(f): float(power[frequency > f].sum() / all_of_it) if good and all_of_it > 0.0 else None
            for f in POWER_ABOVE_HZ
        },
    }


def contact_forces(force: Array, predicted: Array) -> dict[str, float | None]:
    """Return the error of the predicted sum of normal forces.

    The error ``e(t) = |Σ_feet predicted - Σ_feet force|`` is taken over the ticks with a prediction. The result
    contains the mean of e, its median, and its mean relative to the mean of ``Σ_feet force`` over the same ticks.

    In some ticks, exactly the predicted feet carry load: no foot lands or lifts off unexpectedly, so the error is due
    to the contact model alone. The result also contains the relative error over these ticks, and their fraction.

    Args:
        force: The plant's normal forces, shape (rows, nf) [N].
        predicted: Predicted normal forces, shape (rows, nf) [N]; NaN at all feet in a tick without a prediction. In
            other ticks, NaN counts as 0.
    """
    counted = ~np.isnan(predicted).all(axis=1)
    force, predicted = force[counted], np.nan_to_num(predicted[counted])
    total = force.sum(axis=1)
    error = np.abs(predicted.sum(axis=1) - total)
    same = ((force > TOUCHING_N) == (predicted > TOUCHING_N)).all(axis=1)
    return {
        "force_err_n": _mean(error),
        "force_err_median_n": _finite(np.median(error)) if error.size else None,
        "force_err_rel": _relative(error, total),
        "force_err_same_feet_rel": _relative(error[same], total[same]),
        "force_same_feet_share": _mean(same),
    }


def sole_wrenches(arrays: Mapping[str, Array]) -> dict[str, float | None]:
    """Return errors of the predicted wrenches of loaded soles, in ticks with a prediction.

    Args:
        arrays: The channels ``force``, ``force_pred`` and `SOLES`.

    Returns:
        ``wrench_err_rel``, the median of ``|w_pred - w| / |w|`` over soles and ticks, with moments divided by `ARM_M`;
        and ``cop_err_m``, the mean distance between predicted and real centres of pressure.
    """
    wrench, predicted = (
        np.concatenate((arrays[f"force{of}"], arrays[f"moment{of}"] / ARM_M), axis=2) for of in ("", "_pred")
    )
    size, error = np.linalg.norm(wrench, axis=2), np.linalg.norm(predicted - wrench, axis=2)
    counted = (size > TOUCHING_N) & np.isfinite(error)
    ratio = error[counted] / size[counted]
    away = np.linalg.norm(arrays["cop_pred"] - arrays["cop"], axis=2)[counted]
    return {"wrench_err_rel": _finite(np.median(ratio)) if ratio.size else None, "cop_err_m": _mean(away)}


def _relative(error: Array, total: Array) -> float | None:
    mean, load = _mean(error), _mean(total)
    return _finite(mean / load) if mean is not None and load else None


def fallen(height: Any, height_ref: Any, tilt: Any, standing_m: float) -> Any:
    """True if a base has sunk by more than half the standing height, or leans more than 0.6 rad.

    Args:
        height: Height of the base [m], a number or an array.
        height_ref: Reference of the height [m]; shape as `height`.
        tilt: Angle between the base's z axis and the world's [rad]; shape as `height`.
        standing_m: Height of the centre of mass above the ground in the standing pose [m]. The height of the base
            itself does not show how far the robot can sink, because some root frames are on the ground.
    """
    return (height < height_ref - FALLEN_HEIGHT * standing_m) | (tilt > FALLEN_TILT_RAD)


def fell_at(t: Array, height: Array, height_ref: Array, tilt: Array, standing_m: float) -> float | None:
    """Return the first time at which the base is `fallen` [s]; None if it never falls.

    All arrays have shape (rows,).
    """
    when = np.flatnonzero(fallen(height, height_ref, tilt, standing_m))
    return float(t[when[0]]) if when.size else None


def height_error(t: Array, height: Array, height_ref: Array, window: int) -> float | None:
    """Return the largest absolute mean, over any `window` rows, of the error of a base's height [m].

    Windows begin 1 s after the start or later. With windows of one gait period, the average removes the bobbing within
    a step and leaves slow rising and sagging.

    Args:
        t: Times, shape (rows,) [s].
        height: Height of the base, shape (rows,) [m].
        height_ref: Reference of the height, shape (rows,) [m].
        window: Number of rows in a window.

    Returns:
        The error; None if fewer than `window` rows remain after the first second.
    """
    late = t >= t[0] + 1.0 if len(t) else np.zeros(0, dtype=bool)
    error = (height - height_ref)[late]
    if window < 1 or len(error) < window:
        return None
    total = np.concatenate([[0.0], np.cumsum(error)])
    return _largest(np.abs(total[window:] - total[:-window]) / window)


def slip(speed: Array, stance: Booleans) -> dict[str, float | None]:
    """Return mean and largest tangential speed of feet in planned stance; both inputs have shape (rows, nf) [m/s]."""
    standing = speed[stance]
    return {"slip_m_s": _mean(standing), "slip_max_m_s": _largest(standing)}


def standing_drift(base: Array, feet: Array, stance: Booleans, h: float) -> float | None:
    """Return the largest horizontal drift of a base relative to its standing feet, after it came to rest [m].

    ``base_pos_err_m`` does not contain this drift if the reference of the base drifts, too.

    Args:
        base: Positions of the base, shape (rows, 3) [m].
        feet: Positions of the feet, shape (rows, nf, 3) [m].
        stance: True if a foot is in planned stance, shape (rows, nf).
        h: Time between rows [s].

    Returns:
        The drift; None if no interval with all feet in planned stance is longer than `AT_REST_S`.
    """
    over = base[:, :2] - feet[:, :, :2].mean(axis=1)
    changes = np.flatnonzero(np.diff(np.concatenate(([False], stance.all(axis=1), [False]))))
    rests = ((begin + round(AT_REST_S / h), end) for begin, end in changes.reshape(-1, 2))
    return _largest(np.array([np.linalg.norm(over[a:end] - over[a], axis=1).max() for a, end in rests if a < end]))


def touchdown_error(stance: Booleans, force: Array, swing_s: float, h: float) -> float | None:
    """Return the mean time between planned and real touchdowns [s]; None without planned touchdowns.

    A touchdown is planned at the tick in which `stance` of a foot begins. The real touchdown is the first tick with
    force after a tick without force, within half a swing before and after the planned touchdown. If there is no real
    touchdown, half a swing counts. Planned touchdowns less than half a swing from an end of the record are skipped.

    Args:
        stance: True if a foot is in planned stance, shape (rows, nf).
        force: Contact forces, shape (rows, nf, 3) [N].
        swing_s: Duration of a planned swing [s].
        h: Time between rows [s].
    """
    touching = np.linalg.norm(force, axis=2) > TOUCHING_N
    landed = touching[1:] & ~touching[:-1]
    planned = stance[1:] & ~stance[:-1]
    half = max(round(swing_s / 2 / h), 1)
    errors = []
    for foot in range(stance.shape[1]):
        for k in np.flatnonzero(planned[:, foot]):
            if k - half < 0 or k + half >= len(planned):
                continue
            touchdowns: Integers = np.flatnonzero(landed[k - half : k + half + 1, foot])
            errors.append(abs(int(touchdowns[0]) - half) if touchdowns.size else half)
    return float(np.mean(errors)) * h if errors else None


def com_path(com: Array, start: Array, end: Array, turning: Booleans) -> dict[str, float | None]:
    """Return the mean and largest horizontal distance of the centre of mass from the segment between two waypoints.

    Args:
        com: Centre of mass, shape (rows, 2 or more) [m].
        start: Previous waypoint, shape (rows, 2) [m]; NaN in ticks without a waypoint, which are left out.
        end: Current waypoint, shape (rows, 2) [m]; NaN in ticks without a waypoint, which are left out.
        turning: True for ticks of turning in place, which are left out, shape (rows,).
    """
    counted = ~turning & np.isfinite(start).all(axis=1) & np.isfinite(end).all(axis=1)
    off = distance_to_segment(com[counted], start[counted], end[counted])
    return {"com_path_err_m": _mean(off), "com_path_max_m": _largest(off)}


def distance_to_segment(points: Array, start: Array, end: Array) -> Array:
    """Return the horizontal distance of the point in each row from the segment in that row, shape (rows,) [m].

    Args:
        points: Points, shape (rows, 2 or more) [m].
        start: Start of each segment, shape (rows, 2) [m].
        end: End of each segment, shape (rows, 2) [m].
    """
    along, away = end - start, points[:, :2] - start
    squared = np.maximum(np.einsum("ij,ij->i", along, along), np.finfo(float).tiny)  # a segment may be a single point
    share = np.clip(np.einsum("ij,ij->i", away, along) / squared, 0.0, 1.0)
    return np.linalg.norm(away - share[:, None] * along, axis=1)


def distance(base: Array, stride: int) -> float | None:
    """Return the length of the base's horizontal path [m]; None without rows.

    The path is sampled once per gait period, so that sway does not count.

    Args:
        base: Position of the base, shape (rows, 2 or more) [m].
        stride: Number of rows in one gait period.
    """
    if len(base) == 0:
        return None
    ticks = np.append(np.arange(0, len(base) - 1, max(stride, 1)), len(base) - 1)
    return _finite(np.linalg.norm(np.diff(base[ticks, :2], axis=0), axis=1).sum())


def percentiles(values: Array) -> dict[str, float | None]:
    """Return median, 99th, 99.9th, 99.99th percentile and maximum of the finite `values` (rows,).

    Their keys are ``p50``, ``p99``, ``p999``, ``p9999`` and ``max``. All are None if no value is finite.
    """
    values = values[np.isfinite(values)]
    touchdowns = np.percentile(values, [50.0, 99.0, 99.9, 99.99, 100.0]).tolist() if values.size else [None] * 5
    return dict(zip(("p50", "p99", "p999", "p9999", "max"), touchdowns, strict=True))


def solver_number(solved_by: str | None) -> float:
    """Return `Command.solved_by` as stored in records: its index in `SOLVED_BY`; NaN for None and other names."""
    return float(SOLVED_BY.index(solved_by)) if solved_by in SOLVED_BY else math.nan


def statuses(status: Array, solved_by: Array | None = None, gap: Array | None = None) -> dict[str, Any]:
    """Count the outcomes of the controller's steps.

    Args:
        status: `Status` of each step, shape (rows,).
        solved_by: `solver_number` of each step, shape (rows,); None if it was not recorded.
        gap: `Command.gap` of each step, shape (rows,) [N m]; None if it was not recorded.

    Returns:
        The number of steps with each `Status`. Under ``by``, the number of steps solved by sticking or by each contact
        model, if any. If the controller searches for the closest torque, ``nearest`` has the numbers of steps in which
        the search ``proved`` or did not prove (``unproved``) that no torque is closer, and the largest gap,
        ``gap_max_nm``.
    """
    counts: dict[str, Any] = {name.name.lower(): int(np.count_nonzero(status == name)) for name in Status}
    counts["by"] = {}
    if solved_by is not None:
        steps = {name: int(np.count_nonzero(solved_by == number)) for number, name in enumerate(SOLVED_BY)}
        counts["by"] = {name: count for name, count in steps.items() if count}
    if gap is not None and not np.isnan(gap).all():
        counts["nearest"] = {
            "proved": int(np.count_nonzero(gap == 0.0)),
            "unproved": int(np.count_nonzero(gap > 0.0)),
            "gap_max_nm": _largest(gap[np.isfinite(gap)]),
        }
    return counts


def plant_solver(status: Array, residual: Array, regularization: Array) -> dict[str, float | int | None]:
    """Count the outcomes of the plant's steps; all arrays have shape (rows,), with NaN if the plant does not report.

    Returns:
        The number of ``steps`` with a status; the numbers of ``repaired``, ``regularized`` and ``unsolved`` steps
        (fallback or failed); and the largest residual, ``residual_max``.
    """
    return {
        "steps": int(np.count_nonzero(np.isfinite(status))),
        "repaired": int(np.count_nonzero(status == Status.REPAIRED)),
        "regularized": int(np.count_nonzero(regularization > 0)),
        "unsolved": int(np.count_nonzero(status >= Status.FALLBACK)),
        "residual_max": _largest(residual[np.isfinite(residual)]),
    }


def _finite(value: Any) -> float | None:
    return float(value) if math.isfinite(value) else None


def _mean(values: Array) -> float | None:
    return _finite(values.mean()) if values.size else None


def _largest(values: Array) -> float | None:
    return _finite(values.max()) if values.size else None
