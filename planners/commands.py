"""What the machine is asked to do: a planar velocity, made continuous by a limiter (planner.md 3.1)."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import msgspec
from numba import njit

from idcontrol.errors import InputError
from idcontrol.types import Array


class Drive(msgspec.Struct, frozen=True, kw_only=True):
    """A command in the horizontal frame (base position, heading only).

    Attributes:
        v_x: Speed ahead [m/s].
        v_y: Speed to the left [m/s].
        omega: Turning rate, counter-clockwise [rad/s].
        walk: False: come to rest, then stand on all feet. True with zero velocity: trot on the spot.
    """

    v_x: float = 0.0
    v_y: float = 0.0
    omega: float = 0.0
    walk: bool = True


class Guide(Protocol):
    """Where commands come from: a schedule, waypoints, a joystick."""

    def reset(self, position: Array) -> None:
        """Begin anew with the base at `position` (world, (3,) [m])."""
        ...

    def __call__(self, t: float, position: Array, yaw: float) -> Drive:
        """The command at time `t` [s] with the base at `position` (world, (3,) [m]), heading `yaw` [rad]."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandLimits:
    """How fast the command may change: friction has to provide it.

    Attributes:
        linear_m_s2: Largest rate of the planar velocity (its norm) [m/s²].
        angular_rad_s2: Largest rate of the turning rate [rad/s²].

    Raises:
        InputError: A limit is not positive.
    """

    linear_m_s2: float = 0.5
    angular_rad_s2: float = 8.0

    def __post_init__(self) -> None:
        """Refuse limits that would never let the machine move."""
        for name in ("linear_m_s2", "angular_rad_s2"):
            if not getattr(self, name) > 0.0:
                raise InputError(f"command limit {name} is {getattr(self, name)}; it must be positive")


class Schedule:
    """Commands by the clock: each piece ``(t, v_x, v_y, omega)`` holds from its time until the next one's."""

    def __init__(self, pieces: Sequence[tuple[float, float, float, float]], *, stand_from_s: float = math.inf) -> None:
        """Hold `pieces` [s, m/s, m/s, rad/s]; the machine stands before the first and from `stand_from_s` [s] on.

        Raises:
            InputError: A number is not finite or the times do not increase.
        """
        self._pieces = tuple((float(t), float(v_x), float(v_y), float(omega)) for t, v_x, v_y, omega in pieces)
        if not all(math.isfinite(number) for piece in self._pieces for number in piece):
            raise InputError(f"a schedule of commands has a number that is not finite: {self._pieces}")
        times = [piece[0] for piece in self._pieces]
        if any(later <= earlier for earlier, later in itertools.pairwise(times)):
            raise InputError(f"the times of a schedule of commands must increase; they are {times}")
        self._stand_from = stand_from_s

    @staticmethod
    def constant(v_x: float, v_y: float = 0.0, omega: float = 0.0) -> Schedule:
        """One command for ever [m/s, m/s, rad/s]."""
        return Schedule([(0.0, v_x, v_y, omega)])

    def reset(self, position: Array) -> None:
        """Nothing is remembered."""

    def __call__(self, t: float, position: Array, yaw: float) -> Drive:
        """The piece that holds at time `t` [s]; the pose does not matter."""
        if t < self._stand_from:
            for begin, v_x, v_y, omega in reversed(self._pieces):
                if t >= begin:
                    return Drive(v_x=v_x, v_y=v_y, omega=omega)
        return Drive(walk=False)


@njit(cache=True)
def limit_command(
    dt: float, target: tuple[float, float, float], linear: float, angular: float, command: Array, rate: Array
) -> None:  # pragma: no cover - compiled
    """Move `command` (v_x, v_y, ω) towards `target` for `dt` seconds within the limits; `rate` is its derivative."""
    if dt <= 0.0:
        rate[:] = 0.0
        return
    dx, dy = target[0] - command[0], target[1] - command[1]
    norm = math.sqrt(dx * dx + dy * dy)
    share = min(1.0, linear * dt / norm) if norm > 0.0 else 1.0
    turn = min(max(target[2] - command[2], -angular * dt), angular * dt)
    rate[0], rate[1], rate[2] = share * dx / dt, share * dy / dt, turn / dt
    # Exactly the target where it is within reach: a machine that stops has the command zero, not almost zero.
    command[0] = target[0] if share == 1.0 else command[0] + share * dx
    command[1] = target[1] if share == 1.0 else command[1] + share * dy
    command[2] = target[2] if turn == target[2] - command[2] else command[2] + turn
