"""A command that follows a list of points in the plane (planner.md 8)."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from idcontrol.errors import InputError
from idcontrol.planners.base import wrap
from idcontrol.planners.commands import VelocityCommand
from idcontrol.types import Array

RADIUS = 0.02
"""A waypoint counts as reached within this distance of the base [m]."""

CARROT = 0.12
"""Distance at which the carrot, the point that the machine follows, is ahead on the line between waypoints [m]."""

TURN_FROM, TURN_UNTIL = math.pi / 8.0, 0.06
"""Heading errors at which turning on the spot begins and ends [rad], with hysteresis."""

TURN_GAIN = 6.0
"""Gain from heading error to turning rate on the spot [1/s]."""

CRAWL = 0.04
"""Lower bound of the speed limit close to a waypoint [m/s]."""

BRAKING = 0.25
"""Deceleration towards a waypoint [m/s²]; at a distance d from it, the speed is at most ``√(2 BRAKING d)``."""


def plane_points(points: Sequence[Sequence[float]]) -> Array:
    """Return waypoints (x, y) as an array, shape (n, 2) [m].

    Raises:
        InputError: The points are not a list of finite pairs, at least one.
    """
    try:
        pairs: Array = np.array(points, dtype=np.float64)
    except (TypeError, ValueError):  # unequal lengths, or no numbers
        pairs = np.zeros(0)
    if pairs.ndim != 2 or pairs.shape[1] != 2 or not np.all(np.isfinite(pairs)):
        raise InputError(f"waypoints must be a list of (x, y) in metres; got {points!r}")
    return pairs


class Waypoints:
    """A command that leads from point to point in a loop.

    On the line from the previous to the next waypoint, the machine follows a point ahead of itself (the carrot).
    If the heading error exceeds `TURN_FROM`, the machine turns on the spot until the error is at most `TURN_UNTIL`;
    smaller errors are corrected while walking. The machine slows down towards each waypoint.

    Attributes:
        points: All waypoints, shape (n, 2) [m].
        target: The next waypoint, shape (2,) [m].
        previous: The previous waypoint, or the start, shape (2,) [m].
        reached: Number of waypoints reached.
        turning: True if the machine turns on the spot.
    """

    def __init__(
        self, points: Sequence[Sequence[float]], *, speed: float, turn: float, stand_from_s: float = math.inf
    ) -> None:
        """Follow `points`.

        Args:
            points: Waypoints in the world's plane, at least one, (x, y) each [m].
            speed: Walking speed [m/s].
            turn: Largest turning rate [rad/s].
            stand_from_s: Time at which to stop and stand [s].

        Raises:
            InputError: The points are not a list of finite pairs, two successive points are equal, or `speed` or `turn`
                is not positive.
        """
        self.points = plane_points(points)
        if len(self.points) > 1 and np.any(np.all(self.points == np.roll(self.points, -1, axis=0), axis=1)):
            raise InputError(f"two waypoints in a row are equal: {points!r}; leave one of them out")
        if not (speed > 0.0 and turn > 0.0):
            raise InputError(f"speed and turn must be positive; they are {speed} m/s and {turn} rad/s")
        self._speed, self._turn, self._stand_from = speed, turn, stand_from_s
        self.reset(np.zeros(3))

    def reset(self, position: Array) -> None:
        """Begin with the first waypoint, coming from `position`, world frame, shape (3,) [m]."""
        self.reached = 0
        self._go(np.array(position[:2], dtype=np.float64), self.points[0])
        self.turning = False

    def __call__(self, t: float, position: Array, yaw: float) -> VelocityCommand:
        """Return the command at time `t` [s] for a base at `position`, shape (3,) [m], heading `yaw` [rad]."""
        if t >= self._stand_from:
            self.turning = False
            return VelocityCommand(walk=False)
        x, y = float(position[0]), float(position[1])
        _, _, x1, y1 = self._line
        distance = math.hypot(x1 - x, y1 - y)
        if distance < RADIUS:
            self.reached += 1
            self._go(self.target, self.points[self.reached % len(self.points)])
            _, _, x1, y1 = self._line
            distance = math.hypot(x1 - x, y1 - y)

        aim_x, aim_y = _carrot(x, y, *self._line)
        error = wrap(math.atan2(aim_y - y, aim_x - x) - yaw)
        self.turning = abs(error) > (TURN_UNTIL if self.turning else TURN_FROM)
        if self.turning:
            return VelocityCommand(omega=min(max(TURN_GAIN * error, -self._turn), self._turn))
        slow = max(CRAWL, math.sqrt(2.0 * BRAKING * distance))
        return VelocityCommand(
            v_x=min(self._speed * math.cos(error), slow), omega=min(max(2.0 * error, -self._turn), self._turn)
        )

    def _go(self, previous: Array, target: Array) -> None:
        """Set out from one point to the next, shapes (2,) [m]."""
        self.previous, self.target = previous, target
        self._line: tuple[float, float, float, float] = (*previous.tolist(), *target.tolist())


def _carrot(x: float, y: float, x0: float, y0: float, x1: float, y1: float) -> tuple[float, float]:
    """Return the point `CARROT` ahead of the projection of (x, y) on the line (x0, y0) → (x1, y1), at most its end."""
    dx, dy = x1 - x0, y1 - y0
    length = math.hypot(dx, dy)
    if length == 0.0:
        return x0, y0
    along = (dx * (x - x0) + dy * (y - y0)) / length + CARROT
    share = min(along / length, 1.0)
    return x0 + share * dx, y0 + share * dy
