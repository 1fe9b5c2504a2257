"""Velocity commands: a planar velocity for the robot, made continuous by a limiter (planner.md 3.1)."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

import msgspec
import numpy as np

from idcontrol.errors import InputError
from idcontrol.kernels.jit import njit
from idcontrol.types import Array


class VelocityCommand(msgspec.Struct, frozen=True, kw_only=True):
    """A command in the horizontal frame, which has the base's position and heading, but not its roll and pitch.

    Attributes:
        v_x: Forward speed [m/s].
        v_y: Speed to the left [m/s].
        omega: Turning rate, counter-clockwise [rad/s].
        walk: False to come to rest, then stand on all feet; True with zero velocity to trot on the spot.
    """

    v_x: float = 0.0
    v_y: float = 0.0
    omega: float = 0.0
    walk: bool = True


class CommandSource(Protocol):
    """A source of velocity commands: a schedule, waypoints, a joystick."""

    def reset(self, position: Array) -> None:
        """Restart with the base at `position`, world frame, shape (3,) [m]."""
        ...

    def __call__(self, t: float, position: Array, yaw: float) -> VelocityCommand:
        """Return the command at time `t` [s] for a base at `position`, world frame, (3,) [m], heading `yaw` [rad]."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandLimits:
    """Limits on the change of the command; friction has to provide these accelerations.

    Attributes:
        linear_m_s2: Largest norm of the planar acceleration [m/s²].
        angular_rad_s2: Largest angular acceleration about the vertical [rad/s²].

    Raises:
        InputError: A limit is not positive.
    """

    linear_m_s2: float = 0.5
    angular_rad_s2: float = 8.0

    def __post_init__(self) -> None:
        """Refuse limits that would never let the robot move."""
        for name in ("linear_m_s2", "angular_rad_s2"):
            if not getattr(self, name) > 0.0:
                raise InputError(f"command limit {name} is {getattr(self, name)}; it must be positive")


class LimitedCommand(NamedTuple):
    """The command after the limiter, horizontal frame; arrays change in place.

    Attributes:
        velocity: V = (v_x, v_y, ω), shape (3,) [m/s, m/s, rad/s].
        acceleration: Time derivative of V, shape (3,) [m/s², m/s², rad/s²].
    """

    velocity: Array
    acceleration: Array

    @staticmethod
    def at_rest() -> LimitedCommand:
        """Return the zero command."""
        return LimitedCommand(velocity=np.zeros(3), acceleration=np.zeros(3))


class Schedule:
    """Commands by time: each piece ``(t, v_x, v_y, omega)`` holds until the time of the next piece."""

    def __init__(self, pieces: Sequence[tuple[float, float, float, float]], *, stand_from_s: float = math.inf) -> None:
        """Follow `pieces` [s, m/s, m/s, rad/s]; the robot stands before the first piece and from `stand_from_s` [s] on.

        Raises:
            InputError: A number is not finite or the times do not increase.
        """
        self._pieces = tuple((float(t), float(v_x), float(v_y), float(omega)) for t, v_x, v_y, omega in pieces)
        if not all(math.isfinite(number) for piece in self._pieces for number in piece):
            raise InputError(f"a schedule of commands needs finite numbers; it is {self._pieces}")
        times = [piece[0] for piece in self._pieces]
        if any(later <= earlier for earlier, later in itertools.pairwise(times)):
            raise InputError(f"the times of a schedule of commands must increase; they are {times}")
        self._stand_from = stand_from_s

    @staticmethod
    def constant(v_x: float, v_y: float = 0.0, omega: float = 0.0) -> Schedule:
        """Return a schedule with one command from t = 0 on [m/s, m/s, rad/s]."""
        return Schedule([(0.0, v_x, v_y, omega)])

    def reset(self, position: Array) -> None:
        """Do nothing: a schedule depends only on time."""

    def __call__(self, t: float, position: Array, yaw: float) -> VelocityCommand:
        """Return the command that holds at time `t` [s]; the pose does not matter."""
        if t < self._stand_from:
            for begin, v_x, v_y, omega in reversed(self._pieces):
                if t >= begin:
                    return VelocityCommand(v_x=v_x, v_y=v_y, omega=omega)
        return VelocityCommand(walk=False)


DEAD_BAND: Final = 0.05
"""Deflection below which a joystick axis counts as released; sticks at rest report up to 0.02."""


class Joystick:
    """Commands by a joystick. The robot stands while no axis is moved, and without a joystick."""

    def __init__(self, *, speed: float, turn: float) -> None:
        """Set the speeds commanded at full deflection of an axis: `speed` [m/s] and `turn` [rad/s]."""
        self._most = np.array([speed, speed, turn])
        self._asked = np.zeros(3)

    def steer(self, axes: Array) -> None:
        """Set the axes forward, left and turn to the left, clipped to -1 to 1; NaN for missing axes.

        Further axes are ignored.
        """
        stick = np.nan_to_num(axes[:3]).clip(-1.0, 1.0)
        self._asked[:] = np.sign(stick) * np.maximum(np.abs(stick) - DEAD_BAND, 0.0) / (1.0 - DEAD_BAND) * self._most

    def reset(self, position: Array) -> None:
        """Do nothing: the next `steer` updates the axes."""

    def __call__(self, t: float, position: Array, yaw: float) -> VelocityCommand:
        """Return the velocity that the axes command; time and pose do not matter."""
        v_x, v_y, omega = self._asked.tolist()
        return VelocityCommand(v_x=v_x, v_y=v_y, omega=omega, walk=bool(self._asked.any()))


@njit(cache=True, inner=True)
def limit_command(
    dt: float, target: tuple[float, float, float], linear: float, angular: float, command: LimitedCommand
) -> None:  # pragma: no cover - compiled
    """Move the command towards a target for one tick.

    Args:
        dt: Duration of the tick [s].
        target: (v_x, v_y, ω) [m/s, m/s, rad/s].
        linear: Largest norm of the planar acceleration [m/s²].
        angular: Largest angular acceleration [rad/s²].
        command: In and out; its acceleration is the mean over the tick, or zero if `dt` is not positive.
    """
    V, dV = command.velocity, command.acceleration
    if dt <= 0.0:
        dV[:] = 0.0
        return
    dx, dy = target[0] - V[0], target[1] - V[1]
    norm = math.sqrt(dx * dx + dy * dy)
    share = min(1.0, linear * dt / norm) if norm > 0.0 else 1.0
    turn = min(max(target[2] - V[2], -angular * dt), angular * dt)
    dV[0], dV[1], dV[2] = share * dx / dt, share * dy / dt, turn / dt
    # exactly the target if within reach: a stopping robot gets the command zero, not almost zero
    V[0] = target[0] if share == 1.0 else V[0] + share * dx
    V[1] = target[1] if share == 1.0 else V[1] + share * dy
    V[2] = target[2] if turn == target[2] - V[2] else V[2] + turn
