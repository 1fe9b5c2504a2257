"""Where the base should be: level, moved by the command, on a leash to where it is (planner.md 3.2)."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numba import njit

from idcontrol.types import Array

LEASH = 2.0
"""Rate at which the reference is pulled to the measured planar pose [1/s]: slow against a gait, quick against drift."""


@dataclass(slots=True)
class BaseReference:
    """The level base reference in its four coordinates (x, y, z, yaw), world frame; arrays change in place.

    Attributes:
        pose: Position and heading, shape (4,) [m, m, m, rad].
        twist: Their velocities, shape (4,) [m/s, rad/s].
        rate: Their accelerations, shape (4,) [m/s², rad/s²].
    """

    pose: Array = field(default_factory=lambda: np.zeros(4))
    twist: Array = field(default_factory=lambda: np.zeros(4))
    rate: Array = field(default_factory=lambda: np.zeros(4))


@njit(cache=True)
def wrap(angle: float) -> float:  # pragma: no cover - compiled
    """The same angle within [-π, π) [rad]."""
    return (angle + math.pi) % (2.0 * math.pi) - math.pi


@njit(cache=True)
def advance_base(dt: float, pose: Array, twist: Array, rate: Array) -> None:  # pragma: no cover - compiled
    """Move the pose by `dt` [s] with the twist and the rate of its beginning."""
    for k in range(4):
        pose[k] += dt * (twist[k] + 0.5 * dt * rate[k])
    twist[2] += dt * rate[2]


@njit(cache=True)
def command_base(
    position: Array,
    yaw: float,
    command: Array,
    command_rate: Array,
    height: float,
    ground: Array,
    bandwidth: float,
    pose: Array,
    twist: Array,
    rate: Array,
) -> None:  # pragma: no cover - compiled
    """Velocity and acceleration of the reference at its present pose (planner.md 3.2).

        v_r = Rz(ψ_r) V + k_l (x - x_r),   ω_r = ω + k_l wrap(ψ - ψ_r),   a_r = Rz(ψ_r) dV/dt + ω e_z × Rz(ψ_r) V

    The derivative of the leash is left out of a_r: it would feed measured velocities, with their jumps at touchdown,
    straight into torque. Height follows the mean ground under the feet critically damped: its steps become smooth.

    Args:
        position: Measured base position, shape (3,) [m].
        yaw: Measured heading [rad].
        command: (v_x, v_y, ω) in the horizontal frame, shape (3,) [m/s, rad/s].
        command_rate: Its time derivative, shape (3,).
        height: Of the base over the ground, z0 [m].
        ground: Height of the ground under each foothold, shape (n,) [m].
        bandwidth: Of the height's motion [1/s].
        pose: Reference pose, shape (4,).
        twist: In: vertical velocity; out: velocity of the reference, shape (4,).
        rate: Out: its acceleration, shape (4,).
    """
    c, s = math.cos(pose[3]), math.sin(pose[3])
    v_x, v_y = c * command[0] - s * command[1], s * command[0] + c * command[1]
    twist[0] = v_x + LEASH * (position[0] - pose[0])
    twist[1] = v_y + LEASH * (position[1] - pose[1])
    twist[3] = command[2] + LEASH * wrap(yaw - pose[3])
    rate[0] = c * command_rate[0] - s * command_rate[1] - command[2] * v_y
    rate[1] = s * command_rate[0] + c * command_rate[1] + command[2] * v_x
    rate[2] = bandwidth * (bandwidth * (height + ground.mean() - pose[2]) - 2.0 * twist[2])
    rate[3] = command_rate[2]
