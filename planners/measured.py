"""The measured motion of base and feet.

Vectors without a suffix are in the world frame; vectors with ``_B`` are in the axes of the base.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from idcontrol.kernels.jit import njit
from idcontrol.kernels.linear import assign
from idcontrol.planners.legs import LegPose, Legs, place_leg
from idcontrol.planners.packing import Record
from idcontrol.types import Array, State

_ORIGIN = np.zeros(3)


class Measured(NamedTuple):
    """The motion of base, legs and feet in the last finite state; arrays change in place.

    Attributes:
        position: Position of the base, shape (3,) [m].
        rotation: Base to world, shape (3, 3).
        velocity: Velocity of the base, world axes, shape (3,) [m/s].
        omega_B: Angular velocity of the base, base axes, shape (3,) [rad/s].
        angles: Angles of the leg joints, shape (n, 3) [rad].
        feet: Centres of the foot spheres, shape (n, 3) [m].
        feet_velocity: Velocities of the centres, world axes, shape (n, 3) [m/s].
        shank_rate: Angular velocities of the links that carry the feet, world axes, shape (n, 3) [rad/s].
    """

    position: Array
    rotation: Array
    velocity: Array
    omega_B: Array
    angles: Array
    feet: Array
    feet_velocity: Array
    shank_rate: Array

    @staticmethod
    def of(n: int) -> Measured:
        """Allocate the motion of `n` feet."""
        return Measured(
            position=np.zeros(3),
            rotation=np.eye(3),
            velocity=np.zeros(3),
            omega_B=np.zeros(3),
            angles=np.zeros((n, 3)),
            feet=np.zeros((n, 3)),
            feet_velocity=np.zeros((n, 3)),
            shank_rate=np.zeros((n, 3)),
        )

    def read(self, state: State, legs: Legs) -> bool:
        """Read a state, unless it has a NaN or inf.

        Returns:
            True if the state was finite.
        """
        return bool(measure(state.q, state.v, legs, self))


@njit(cache=True)
def heading(rotation: Array) -> float:  # pragma: no cover - compiled
    """Return the yaw ψ of a base with the orientation `rotation`, base to world, shape (3, 3) [rad]."""
    return math.atan2(rotation[1, 0], rotation[0, 0])


@njit(cache=True, inner=True)
def _add_cross(omega: Array, rate: float, tip: Array, root: Array, out: Array) -> None:  # pragma: no cover - compiled
    """Add the velocity ``ω rate × (tip - root)`` to `out`; all vectors have shape (3,)."""
    x, y, z = rate * (tip[0] - root[0]), rate * (tip[1] - root[1]), rate * (tip[2] - root[2])
    out[0] += omega[1] * z - omega[2] * y
    out[1] += omega[2] * x - omega[0] * z
    out[2] += omega[0] * y - omega[1] * x


@njit(cache=True)
def measure(q: Array, v: Array, legs: Legs, measured: Measured) -> bool:  # pragma: no cover - compiled
    """Read base and feet from a state in Pinocchio's layout.

    Args:
        q: Configuration, shape (nq,).
        v: Velocity, shape (nv,).
        legs: The legs.
        measured: Out: everything.

    Returns:
        True if the state is finite; otherwise nothing is written.
    """
    for i in range(q.shape[0]):
        if not math.isfinite(q[i]):
            return False
    for i in range(v.shape[0]):
        if not math.isfinite(v[i]):
            return False
    R, position, velocity, omega_B = measured.rotation, measured.position, measured.velocity, measured.omega_B
    x, y, z, w = q[3], q[4], q[5], q[6]
    R[0, 0], R[0, 1], R[0, 2] = 1.0 - 2.0 * (y * y + z * z), 2.0 * (x * y - z * w), 2.0 * (x * z + y * w)
    R[1, 0], R[1, 1], R[1, 2] = 2.0 * (x * y + z * w), 1.0 - 2.0 * (x * x + z * z), 2.0 * (y * z - x * w)
    R[2, 0], R[2, 1], R[2, 2] = 2.0 * (x * z - y * w), 2.0 * (y * z + x * w), 1.0 - 2.0 * (x * x + y * y)
    for k in range(3):
        position[k] = q[k]
        omega_B[k] = v[3 + k]
        velocity[k] = R[k, 0] * v[0] + R[k, 1] * v[1] + R[k, 2] * v[2]
    pose, rate, dp = LegPose(np.empty((3, 3)), np.empty((3, 3)), np.empty(3)), np.empty(3), np.empty(3)
    foot = pose.foot
    for i in range(legs.q_index.shape[0]):
        for k in range(3):
            measured.angles[i, k] = q[legs.q_index[i, k]]
        place_leg(LegPose(legs.origin[i], legs.axis[i], legs.foot[i]), measured.angles[i], pose)
        assign(rate, omega_B)
        dp[:] = 0.0
        _add_cross(omega_B, 1.0, foot, _ORIGIN, dp)
        for k in range(3):
            qd = v[legs.v_index[i, k]]
            for d in range(3):
                rate[d] += pose.axis[k, d] * qd
            _add_cross(pose.axis[k], qd, foot, pose.origin[k], dp)
        for k in range(3):
            measured.feet[i, k] = position[k] + R[k, 0] * foot[0] + R[k, 1] * foot[1] + R[k, 2] * foot[2]
            measured.feet_velocity[i, k] = velocity[k] + R[k, 0] * dp[0] + R[k, 1] * dp[1] + R[k, 2] * dp[2]
            measured.shank_rate[i, k] = R[k, 0] * rate[0] + R[k, 1] * rate[1] + R[k, 2] * rate[2]
    return True


@njit(cache=True)
def read_state(record: Record, q: Array, v: Array) -> float:  # pragma: no cover - compiled
    """Read a state into the `Measured` of a planner's record; return the heading of the last finite state [rad]."""
    parts = record[0]
    measure(q, v, parts.legs, parts.measured)
    yaw: float = heading(parts.measured.rotation)
    return yaw
