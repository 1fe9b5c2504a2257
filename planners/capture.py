"""Steps that catch a pushed machine: the divergent component of motion ξ determines their places and times.

While the zero-moment point p is at rest, ξ moves away from p, ``ξ(T) = p + (ξ - p) e^{ωT}`` with ω of
`idcontrol.planners.dcm`. The machine comes to rest if p follows ξ. If p can follow ξ within the soles, the machine
leans on their edge; otherwise it steps (Koolen, de Boer, Rebula, Goswami & Pratt 2012, Capturability-based analysis and
control of legged locomotion).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np

from idcontrol.planners.dcm import DcmPlan, Footstep, Motion, Steps, compose, dcm_at_knots, dcm_plan, zmp_at, zmp_knots
from idcontrol.types import Array

SOONEST: Final = 0.65
"""Minimum duration of a hurried step, relative to the planned time of single support."""
LAST_S: Final = 0.1
"""A landing is no longer moved if it is due within this time [s]."""
LATER_S: Final = 0.15
"""Longest delay of a landing so that its foot moves farther [s]."""
LATEST: Final = 0.95
"""Largest phase that a swing keeps if its landing moves; the minimum-jerk profile is then within 0.2 % of its end."""
SOONER_S: Final = 0.02
"""Interval between the landing times that are compared [s]."""
APART: Final = 0.8
"""Minimum distance of two feet, as a share of their distance in the home pose, unless their soles are much narrower."""
SWIFTEST_M_S: Final = 2.0
"""Largest mean speed of a foot on its way to a landing; g1 reached 2.2 m/s in steps that landed too near [m/s]."""
LEANS_S: Final = (0.2, 0.4, 0.7, 1.0)
"""Times for which a pushed machine may lean on the edge of its soles, tried in turn [s]."""
RETURNS_S: Final = 0.4
"""Time in which the zero-moment point returns after leaning [s]."""
STARTS_S: Final = 0.05
"""Time to move the load off a foot before an unplanned step [s]."""
HURRY_M_S: Final = 1.0
"""Cost of time in the choice of a step: landing one second sooner or later costs as much as this distance [m/s]."""
SLIGHT_M: Final = 0.002
"""Tolerated error of the divergent component [m]."""


class Ground(NamedTuple):
    """The feet and contact points on which a machine stands while it takes a step.

    Attributes:
        feet: Poses (x, y, yaw) of the n feet, shape (n, 3) [m, m, rad].
        corners: Contact points that stay on the ground during the next step, shape (k, 2) [m].
        home: Poses of the feet in the home pose, shape (n, 3) [m, m, rad].
        apart: Minimum distance of two feet, as a share of their distance in the home pose. It is measured along the
            line between the feet in that pose.
    """

    feet: Array
    corners: Array
    home: Array
    apart: float = APART


class _Present(NamedTuple):
    """The situation in which steps are chosen; the arguments of `caught` that have these names."""

    ground: Ground
    walk: Steps
    plan: DcmPlan
    t: float


class Caught(NamedTuple):
    """Steps and a motion of the centre of mass that continue from a measured state.

    Attributes:
        steps: The remaining steps; if a foot is in the air, its step is the first.
        plan: The motion.
        missing: Error of the divergent component that remains although the machine leans and steps, minus the
            tolerated `SLIGHT_M`; at least 0 [m].
        effort: Distances by which landings move, plus the cost of landing sooner or later (`HURRY_M_S`) [m].
    """

    steps: list[Footstep]
    plan: DcmPlan
    missing: float
    effort: float


def caught(steps: list[Footstep], ground: Ground, walk: Steps, plan: DcmPlan, t: float, com: Motion) -> Caught:
    """Choose the positions and times of the next steps so that they catch the centre of mass.

    First the zero-moment point moves within the sole. The next landing then moves so that the remaining error of the
    divergent component vanishes, as far as the reach allows. All later landings move by the same shift (Englsberger,
    Ott & Albu-Schäffer 2015). What the reach leaves is corrected by the landing after it, and so on: a machine that
    would have to cross its legs sets the foot down beside the other one, which then steps aside. The error grows by
    ``e^{ωt}`` until the landing, so the step may also land sooner (Khadiv, Herzog, Moosavian & Righetti 2020, Walking
    control based on step timing adaptation), and if necessary all later steps are as short as `hurried` makes them. If
    even this fails, a foot in the air may land later and farther, provided that this catches the centre of mass.

    Args:
        steps: The remaining steps; if a foot is in the air, its step is the first.
        ground: The feet and contact points on which the machine stands.
        walk: Provides the times of a walk and the reach.
        plan: The present plan. Provides ω and, before the first lift-off, the zero-moment point at `t`.
        t: Present time [s].
        com: Measured horizontal motion of the centre of mass, shapes (2,); its acceleration is not used.
    """
    dcm, best = com.value + com.velocity / plan.omega, (np.inf, np.inf)
    present = _Present(ground, walk, plan, t)
    for later, landings in _timings(steps, walk, t):
        if best[0] == 0.0:
            break
        for land_s in landings:
            timed = retimed(later, float(land_s), t)
            times, zmp = _knots_from(timed, present)
            weights, stands = dcm_at_knots(times, np.eye(len(times)), plan.omega)[0], times <= land_s
            stands[0] = t >= timed[0].lift_s
            share, centre = weights[stands].sum(), zmp[stands][-1]
            error = dcm - weights @ zmp
            error = error - share * (closest(ground.corners, centre + error / share) - centre)
            moved, missing, way_m = _moved(timed, error, weights, zmp, present)
            # compare the missing part of the component first, then the cost of shifts and time
            cost = max(missing - SLIGHT_M, 0.0), way_m + HURRY_M_S * abs(steps[0].land_s - land_s)
            # a foot whose landing is put off without catching would be put off again and again
            if cost < best and (land_s <= steps[0].land_s or cost[0] == 0.0):
                best, chosen, free = cost, moved, np.flatnonzero(stands).tolist()
    times, zmp = _knots_from(chosen, present)
    return Caught(chosen, dcm_plan(times, zmp, plan.omega, com.value, dcm, free), *best)


def _timings(steps: list[Footstep], walk: Steps, t: float) -> Iterator[tuple[list[Footstep], Array]]:
    """Yield steps with landing times of their first step, to be compared if all earlier ones do not suffice.

    The first step may land sooner. Then later steps are `hurried`, too. At last, a foot in the air may land later, to
    move farther.
    """
    latest, quick = steps[0].land_s, hurried(steps, walk)
    soonest = min(max(min(steps[0].lift_s, t + STARTS_S) + SOONEST * walk.single_s, t + LAST_S), latest)
    sooner = np.arange(latest, soonest - 1e-9, -SOONER_S)
    yield steps, sooner
    yield quick, sooner
    if t >= steps[0].lift_s:
        yield quick, np.arange(max(latest + SOONER_S, t + LAST_S), latest + LATER_S, SOONER_S)


def _moved(
    steps: list[Footstep], error: Array, weights: Array, zmp: Array, present: _Present
) -> tuple[list[Footstep], float, float]:
    """Move the landings, one after the other, so that an error of the divergent component vanishes.

    Args:
        steps: The steps.
        error: The error, shape (2,) [m].
        weights: Weights of the knots in the component, shape (k,).
        zmp: Positions of the knots with these steps, shape (k, 2) [m].
        present: The present situation.

    Returns:
        The steps, the error that remains [m], and the sum of all shifts [m].
    """
    ground, walk, _, t = present
    feet, way_m, moved = ground.feet.copy(), 0.0, list(steps)
    for k, step in enumerate(steps):
        time_s = step.land_s - max(step.lift_s, t)
        if time_s >= LAST_S - 1e-9:
            aside = [*steps[:k], *moved_by(steps[k:], np.array([1.0, 0.0]))]
            knots, travel_m = _knots_from(aside, present)[1], SWIFTEST_M_S * time_s
            share = float(weights @ (knots - zmp)[:, 0])
            if step.lift_s < t:  # a foot on its way reaches at least its present goal
                way = (step.places - feet[list(step.feet)])[:, :2].mean(axis=0)
                travel_m = max(travel_m, float(np.linalg.norm(way)))
            shift = _allowed(error / share, moved[k], ground._replace(feet=feet), walk.reach_m, travel_m)
            error = error - share * shift
            moved[k:] = moved_by(moved[k:], shift)
            way_m += float(np.linalg.norm(shift))
        feet[list(step.feet)] = moved[k].places
        if np.linalg.norm(error) < SLIGHT_M:
            break
    return moved, float(np.linalg.norm(error)), way_m


def hurried(steps: list[Footstep], walk: Steps) -> list[Footstep]:
    """Return the steps, hurried from the second on.

    A swing takes at most `SOONEST` times ``walk.single_s``, and begins at most `STARTS_S` after the previous landing.
    """
    out, land_s = [steps[0]], steps[0].land_s
    for step in steps[1:]:
        lift_s = min(step.lift_s, land_s + STARTS_S)
        land_s = lift_s + min(step.land_s - step.lift_s, SOONEST * walk.single_s)
        out.append(step._replace(lift_s=lift_s, land_s=land_s))
    return out


def on_the_spot(walk: Steps, feet: Array, groups: Sequence[tuple[int, ...]], begin_s: float) -> list[Footstep]:
    """Return one step in place for each group of feet, from `begin_s` on.

    The load moves from foot to foot within `STARTS_S`, as the machine falls sideways onto the landed foot.
    """
    lifts = [begin_s + k * (walk.single_s + STARTS_S) for k in range(len(groups))]
    return [
        Footstep(group, lift, lift + walk.single_s, feet[list(group)])
        for group, lift in zip(groups, lifts, strict=True)
    ]


def leant(feet: Array, corners: Array, plan: DcmPlan, t: float, com: Motion) -> DcmPlan | None:
    """Return a motion that brings a standing machine to rest without a step; None if its soles are too small.

    Args:
        feet: Poses (x, y, yaw) of the n feet, shape (n, 3) [m, m, rad].
        corners: Corners of the soles, shape (k, 2) [m].
        plan: Provides ω.
        t: Present time [s].
        com: Measured horizontal motion of the centre of mass, shapes (2,); its acceleration is not used.
    """
    amid, dcm = feet[:, :2].mean(axis=0), com.value + com.velocity / plan.omega
    for lasts_s in LEANS_S:
        times, zmp = t + np.array([0.0, lasts_s, lasts_s + RETURNS_S]), np.array([amid] * 3)
        motion = dcm_plan(times, zmp, plan.omega, com.value, dcm, free=(0, 1))
        if np.linalg.norm(closest(corners, motion.zmp[0]) - motion.zmp[0]) < SLIGHT_M:
            return motion
    return None


def retimed(steps: Sequence[Footstep], land_s: float, t: float) -> list[Footstep]:
    """Return the steps with the first landing at `land_s` [s], and all later steps shifted by the same time.

    If the first step has not begun at `t`, its lift-off is shifted by the same time, but not advanced to before
    ``t + STARTS_S``: unloading the foot takes this time. If its foot swings, the lift-off is changed so that the foot
    keeps its phase, up to `LATEST`.
    """
    first, later = steps[0], land_s - steps[0].land_s
    lift_s = max(min(first.lift_s, t + STARTS_S), first.lift_s + later) if t < first.lift_s else first.lift_s
    if lift_s < t < first.land_s and later != 0.0:
        phase = min((t - lift_s) / (first.land_s - lift_s), LATEST)
        lift_s = (t - phase * land_s) / (1.0 - phase)
    rest = [step._replace(lift_s=step.lift_s + later, land_s=step.land_s + later) for step in steps[1:]]
    return [first._replace(lift_s=lift_s, land_s=land_s), *rest]


def moved_by(steps: Sequence[Footstep], shift: Array) -> list[Footstep]:
    """Return the steps with all landings moved by `shift`, shape (2,) [m]."""
    return [step._replace(places=step.places + np.append(shift, 0.0)) for step in steps]


def closest(corners: Array, point: Array) -> Array:
    """Return the point of the convex hull of `corners`, shape (k, 2), that is closest to `point`, shape (2,)."""
    others = corners[None, :, :] - corners[:, None, :]
    out, least = corners[0], np.inf
    inside = len(corners) > 2
    for a, way in zip(corners, others, strict=True):
        for edge in way[np.abs(way).max(axis=1) > 0.0]:
            side = edge[0] * way[:, 1] - edge[1] * way[:, 0]
            if (side < -1e-12).any():
                continue  # not a counterclockwise edge of the hull
            beyond = edge[0] * (point - a)[1] - edge[1] * (point - a)[0]
            inside = inside and beyond >= 0.0
            there = a + min(max(edge @ (point - a) / (edge @ edge), 0.0), 1.0) * edge
            if (distance := float(np.linalg.norm(there - point))) < least:
                out, least = there, distance
    return np.asarray(point if inside else out)


def _knots_from(steps: Sequence[Footstep], present: _Present) -> tuple[Array, Array]:
    """Return the knots of `zmp_knots` from the present time on, beginning with a knot at this time.

    Before the first lift-off, the first knot is the zero-moment point of the present plan.
    """
    ground, walk, plan, t = present
    double_s = walk.double_s
    times, zmp = zmp_knots(steps, ground.feet, double_s, min(t, steps[0].lift_s - 2.0 * double_s))
    now = zmp_at(plan, t) if t < steps[0].lift_s else np.array([np.interp(t, times, axis) for axis in zmp.T])
    ahead = times > t + 1e-9
    return np.append(t, times[ahead]), np.vstack([now, zmp[ahead]])


def _allowed(shift: Array, step: Footstep, ground: Ground, reach_m: float, travel_m: float) -> Array:
    """Limit the `shift` of a step, shape (2,) [m]: within reach, at most `travel_m` from its feet, without crossing."""
    stands = [foot for foot in range(len(ground.feet)) if foot not in step.feet]
    amid, home = ground.feet[stands].mean(axis=0), ground.home[stands].mean(axis=0)
    off = shift + step.places[:, :2].mean(axis=0)
    off -= np.mean([compose(amid, ground.home[foot] - home)[:2] for foot in step.feet], axis=0)
    shift = shift - off * max(1.0 - reach_m / max(float(np.linalg.norm(off)), 1e-9), 0.0)
    way = shift + (step.places - ground.feet[list(step.feet)])[:, :2].mean(axis=0)
    shift = shift - way * max(1.0 - travel_m / max(float(np.linalg.norm(way)), 1e-9), 0.0)
    for (foot, place), other in itertools.product(zip(step.feet, step.places, strict=True), stands):
        way = compose(amid, ground.home[foot] - ground.home[other])[:2] - amid[:2]
        least, along = ground.apart * float(way @ way), place[:2] + shift - ground.feet[other, :2]
        shift = shift + max(least - float(way @ along), 0.0) / float(way @ way) * way
    return np.asarray(shift)
