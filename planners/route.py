"""Footsteps along a route: poses that the middle of the feet passes at given times.

Each step aims at the pose of the route half a step after its landing, starting from the present standing feet. So a
machine that was pushed off the route returns to it, within the limits of a step.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Final, NamedTuple

import msgspec
import numpy as np

from idcontrol.config.configuration import NotNegative, Positive
from idcontrol.planners.dcm import Footstep, Steps, compose
from idcontrol.types import Array

AHEAD: Final = 4
"""Number of planned steps; later steps change the present divergent component by less than a millimetre."""
ARRIVED: Final = 0.01
"""A foot takes no further step if it is closer than this to its last place [m, rad]."""
RETURN_M: Final = 0.2
"""Longest sideways motion of a foot in one step along a route [m].

A foot that landed far aside after a push returns in several steps: returning at once would saturate the arms' torques
and tilt the standing sole.
"""
STOPS: Final = 0.15
"""Probability that a drawn segment is a turn on the spot."""
STRAFES: Final = 0.2
"""Probability that a drawn segment goes sideways."""


class Route(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Waypoints for the middle of the feet, and the limits of steps towards them.

    Attributes:
        count: Number of waypoints, drawn at random: ahead, to a side, on the spot, all with a turn; 0 for no route.
        each_s: Time from waypoint to waypoint.
        far_m: Largest distance between waypoints.
        turn_rad: Largest turn between waypoints.
        step_m: Largest distance at which a foot lands ahead of or behind its place beside the other foot.
        aside_m: Largest distance at which a foot lands farther out than its place beside the other foot.
        step_turn_rad: Largest turn of a step.
    """

    count: Annotated[int, msgspec.Meta(ge=0)] = 0
    each_s: Positive = 5.0
    far_m: NotNegative = 1.0
    turn_rad: NotNegative = 0.8
    step_m: Positive = 0.3
    aside_m: Positive = 0.1
    step_turn_rad: Positive = 0.25


class Way(NamedTuple):
    """A route with its times.

    Attributes:
        times: Times of the waypoints, shape (n,) [s].
        poses: Waypoints (x, y, yaw), shape (n, 3); the first is the start.
        route: The limits of steps.
    """

    times: Array
    poses: Array
    route: Route


def drawn(route: Route, start: Array, begin_s: float, rng: np.random.Generator) -> Way:
    """Draw the waypoints of a route that begins at the pose `start` (x, y, yaw) at `begin_s` [s]."""
    poses = [start]
    for _ in range(route.count):
        kind, far = rng.uniform(), route.far_m * rng.uniform(0.4, 1.0)
        move = np.array([far, 0.0, route.turn_rad * rng.uniform(-1.0, 1.0)])
        if kind < STOPS:
            move[0] = 0.0
        elif kind < STOPS + STRAFES:
            move[:2] = 0.0, 0.5 * far * rng.choice([-1.0, 1.0])
        poses.append(compose(poses[-1], move))
    return Way(begin_s + route.each_s * np.arange(float(len(poses))), np.array(poses), route)


def pose_at(way: Way, t: float) -> Array:
    """Return the pose (x, y, yaw) of the route at `t` [s], shape (3,): before and after the route, its nearest end."""
    return np.array([np.interp(t, way.times, column) for column in way.poses.T])


def footsteps(
    way: Way, walk: Steps, feet: Array, home: Array, groups: Sequence[tuple[int, ...]], lift_s: float
) -> list[Footstep]:
    """Return at most `AHEAD` next steps of a walk along a route.

    After the last waypoint's time, the list ends once all feet stand at the route's end. Until then, feet that already
    stand there step on the spot when it is their turn.

    Args:
        way: The route.
        walk: Provides the times of single and double support.
        feet: Poses (x, y, yaw) of the n feet, shape (n, 3).
        home: Poses of the feet in the home pose, shape (n, 3).
        groups: Groups of feet that step simultaneously, in order; after the last group, the first steps again.
        lift_s: Time of the first lift-off [s].
    """
    feet, beside, period = feet.copy(), home - home.mean(axis=0), walk.single_s + walk.double_s
    # measured yaws jump at half a turn, but a route's yaw goes on
    yaw = pose_at(way, lift_s)[2]
    feet[:, 2] = yaw + np.remainder(feet[:, 2] - yaw + np.pi, 2.0 * np.pi) - np.pi

    def places(group: tuple[int, ...], aim: Array) -> Array:
        stands = [foot for foot in range(len(feet)) if foot not in group]
        return np.array([
            _nearer(_within(aim, feet[stands], beside[stands], beside[foot], way.route), feet[foot], aim[2])
            for foot in group
        ])  # fmt: skip

    out: list[Footstep] = []
    for k in range(AHEAD):
        group, lift = groups[k % len(groups)], lift_s + k * period
        # a step lands half a step ahead of the middle of the feet
        aim = pose_at(way, lift + walk.single_s + 0.5 * period)
        if lift > way.times[-1] and all(np.abs(places(g, aim) - feet[list(g)]).max() < ARRIVED for g in groups):
            break
        landing = places(group, aim)
        feet[list(group)] = landing
        out.append(Footstep(tuple(group), lift, lift + walk.single_s, landing))
    return out


def _within(aim: Array, standing: Array, their: Array, own: Array, route: Route) -> Array:
    """Return the landing place (x, y, yaw) that brings the middle of the feet to `aim`, within the limits of a step.

    Args:
        aim: Pose of the middle, shape (3,).
        standing: Poses of the k standing feet, shape (k, 3).
        their: Positions of the standing feet relative to the middle in the home pose, shape (k, 3).
        own: Position of the foot relative to the middle in the home pose, shape (3,).
        route: The limits.
    """
    amid, off = standing.mean(axis=0), their.mean(axis=0)
    middle = compose(amid, -off)
    turn = float(np.clip(aim[2] - middle[2], -route.step_turn_rad, route.step_turn_rad))
    goal = compose(np.append(aim[:2], middle[2] + turn), own)  # the foot at the aim
    c, s = np.cos(amid[2]), np.sin(amid[2])
    away = np.array([[c, s], [-s, c]]) @ (goal[:2] - amid[:2]) - (own - off)[:2]  # from its place beside the others
    outside = float(np.sign((own - off)[1]))
    inside_m = 0.2 * abs(float((own - off)[1]))
    low, high = sorted((-outside * inside_m, outside * route.aside_m))
    along = np.clip(away[0], -route.step_m, route.step_m), np.clip(away[1], low, high)
    return compose(amid, np.append((own - off)[:2] + along, goal[2] - amid[2]))


def _nearer(place: Array, foot: Array, yaw: float) -> Array:
    """Return a landing place (x, y, yaw) moved so that the foot moves sideways, across `yaw`, by at most `RETURN_M`."""
    across = np.array([-np.sin(yaw), np.cos(yaw)])
    side = float(across @ (place - foot)[:2])
    return place + np.append((np.clip(side, -RETURN_M, RETURN_M) - side) * across, 0.0)
