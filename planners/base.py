"""Where the base should be: level, moved by the command, on a leash to where it is (planner.md 3.2)."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit

from idcontrol.planners.commands import LimitedCommand
from idcontrol.types import Array

LEASH = 2.0
"""Rate at which the reference is pulled to the measured planar pose [1/s]: slow against a gait, quick against drift."""


class BaseReference(NamedTuple):
    """The level base reference in its four coordinates (x, y, z, yaw), world frame; arrays change in place.

    Attributes:
        pose: Position and heading, shape (4,) [m, m, m, rad].
        twist: Their velocities, shape (4,) [m/s, rad/s].
        rate: Their accelerations, shape (4,) [m/s², rad/s²].
    """

    pose: Array
    twist: Array
    rate: Array

    @staticmethod
    def at_rest() -> BaseReference:
        """At rest at the origin."""
        return BaseReference(pose=np.zeros(4), twist=np.zeros(4), rate=np.zeros(4))


@njit(cache=True)
def wrap(angle: float) -> float:  # pragma: no cover - compiled
    """Wrap an angle into [-π, π) [rad]."""
    return (angle + math.pi) % (2.0 * math.pi) - math.pi


@njit(cache=True)
def advance_base(dt: float, base: BaseReference) -> None:  # pragma: no cover - compiled
    """Move the pose by `dt` [s], with the twist and the rate that the reference had at the beginning of that time."""
    pose, twist, rate = base.pose, base.twist, base.rate
    for k in range(4):
        pose[k] += dt * (twist[k] + 0.5 * dt * rate[k])
    twist[2] += dt * rate[2]


@njit(cache=True)
def hold_base(position: Array, yaw: float, lead: Array, base: BaseReference) -> None:  # pragma: no cover - compiled
    """Keep the reference within the reach of the feet of where the base is: a machine that is held does not run away.

    Args:
        position: Measured base position, shape (3,) [m].
        yaw: Measured heading [rad].
        lead: How far the reference may be away along the ground [m], and in heading [rad], shape (2,).
        base: In and out: its pose.
    """
    pose = base.pose
    x, y = pose[0] - position[0], pose[1] - position[1]
    far = math.sqrt(x * x + y * y)
    if far > lead[0]:
        pose[0], pose[1] = position[0] + lead[0] / far * x, position[1] + lead[0] / far * y
    turned = wrap(pose[3] - yaw)
    if abs(turned) > lead[1]:
        pose[3] = yaw + math.copysign(lead[1], turned)


@njit(cache=True)
def command_base(
    position: Array,
    yaw: float,
    command: LimitedCommand,
    height: float,
    ground: Array,
    bandwidth: float,
    base: BaseReference,
) -> None:  # pragma: no cover - compiled
    """Velocity and acceleration of the reference at its present pose (planner.md 3.2).

        v_r = Rz(ψ_r) V + k_l (x - x_r),   ω_r = ω + k_l wrap(ψ - ψ_r),   a_r = Rz(ψ_r) dV/dt + ω e_z × Rz(ψ_r) V

    The derivative of the leash is left out of a_r: it would feed measured velocities, with their jumps at touchdown,
    straight into torque. The height follows the mean ground under the feet, critically damped, so that steps of the
    ground move the base smoothly.

    Args:
        position: Measured base position, shape (3,) [m].
        yaw: Measured heading [rad].
        command: The command V and its time derivative.
        height: Height of the base over the ground, z0 [m].
        ground: Height of the ground under each foothold, shape (n,) [m].
        bandwidth: Bandwidth with which the height follows the ground [1/s].
        base: In: its pose and vertical velocity; out: its twist and rate.
    """
    pose, twist, rate = base.pose, base.twist, base.rate
    V, dV = command.velocity, command.acceleration
    c, s = math.cos(pose[3]), math.sin(pose[3])
    v_x, v_y = c * V[0] - s * V[1], s * V[0] + c * V[1]
    twist[0] = v_x + LEASH * (position[0] - pose[0])
    twist[1] = v_y + LEASH * (position[1] - pose[1])
    twist[3] = V[2] + LEASH * wrap(yaw - pose[3])
    rate[0] = c * dV[0] - s * dV[1] - V[2] * v_y
    rate[1] = s * dV[0] + c * dV[1] + V[2] * v_x
    rate[2] = bandwidth * (bandwidth * (height + ground.mean() - pose[2]) - 2.0 * twist[2])
    rate[3] = dV[2]
