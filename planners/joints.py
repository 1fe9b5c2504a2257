"""From feet in the world to joints: each foot is seen from a base that its phase chooses (planner.md 5).

Standing feet are mapped through the reference base, so that the joint error of a standing leg is the pose error of the
base; swinging and late feet through the measured base, so that theirs is the tracking error of the foot. Vectors
without a suffix are in the world frame, those with ``_B`` in the axes of the base.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numba import njit

from idcontrol.planners.legs import IK_TOLERANCE, Legs, leg_bias, leg_solve, place_leg, reach
from idcontrol.types import Array, Booleans, Integers, State

UNREACHED = 1e-6
"""A foot that stays farther than this from its plan is out of reach [m]: its leg is asked to hold still."""


_ORIGIN = np.zeros(3)


@dataclass(slots=True)
class Measured:
    """What the planner reads from a state; arrays change in place.

    Attributes:
        position: Base, shape (3,) [m].
        rotation: Base to world, shape (3, 3).
        velocity: Of the base, world axes, shape (3,) [m/s].
        omega_B: Angular velocity of the base, its own axes, shape (3,) [rad/s].
        angles: Leg joints, shape (n, 3) [rad].
        feet: Centres of the foot spheres, shape (n, 3) [m].
        feet_velocity: Their velocities, world axes, shape (n, 3) [m/s].
        shank_rate: Angular velocities of the links that carry the feet, world axes, shape (n, 3) [rad/s].
        yaw: Heading [rad].
    """

    position: Array
    rotation: Array
    velocity: Array
    omega_B: Array
    angles: Array
    feet: Array
    feet_velocity: Array
    shank_rate: Array
    yaw: float = 0.0

    @staticmethod
    def of(n: int) -> Measured:
        """Room for `n` feet."""
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
        """Read a state; one with a NaN or inf changes nothing.

        Returns:
            Whether the state was finite.
        """
        yaw = measure(
            state.q,
            state.v,
            legs.q_index,
            legs.v_index,
            legs.origin,
            legs.axis,
            legs.foot,
            self.position,
            self.rotation,
            self.velocity,
            self.omega_B,
            self.angles,
            self.feet,
            self.feet_velocity,
            self.shank_rate,
        )
        if math.isnan(yaw):
            return False
        self.yaw = yaw
        return True


@dataclass(slots=True)
class LegPlan:
    """Legs at the planned joint angles; arrays change in place.

    Attributes:
        motion: Angles, velocities and accelerations of the joints, shape (3, n, 3) [rad, rad/s, rad/s²]; the last
            angles are the first guess of the next.
        origin: Points on the lines of the joints, base frame, shape (n, 3, 3) [m].
        axis: Directions of the lines, base frame, shape (n, 3, 3).
        foot: Foot centres, base frame, shape (n, 3) [m].
        jacobian: Of the foot centres, base frame, shape (n, 3, 3) [m].
        residual: Distance between each foot and its plan, shape (n,) [m].
    """

    motion: Array
    origin: Array
    axis: Array
    foot: Array
    jacobian: Array
    residual: Array

    @staticmethod
    def of(n: int) -> LegPlan:
        """Room for `n` legs."""
        return LegPlan(
            motion=np.zeros((3, n, 3)),
            origin=np.zeros((n, 3, 3)),
            axis=np.zeros((n, 3, 3)),
            foot=np.zeros((n, 3)),
            jacobian=np.zeros((n, 3, 3)),
            residual=np.zeros(n),
        )


@njit(cache=True)
def _turn(omega: Array, rate: float, tip: Array, root: Array, out: Array) -> None:  # pragma: no cover - compiled
    """Add ``ω rate × (tip - root)``."""
    x, y, z = rate * (tip[0] - root[0]), rate * (tip[1] - root[1]), rate * (tip[2] - root[2])
    out[0] += omega[1] * z - omega[2] * y
    out[1] += omega[2] * x - omega[0] * z
    out[2] += omega[0] * y - omega[1] * x


@njit(cache=True)
def measure(
    q: Array,
    v: Array,
    q_index: Integers,
    v_index: Integers,
    origin0: Array,
    axis0: Array,
    foot0: Array,
    position: Array,
    rotation: Array,
    velocity: Array,
    omega_B: Array,
    angles: Array,
    feet: Array,
    feet_velocity: Array,
    shank_rate: Array,
) -> float:  # pragma: no cover - compiled
    """Read base and feet from a state in Pinocchio's layout.

    Returns:
        The heading [rad]; NaN, and nothing is written, if the state is not finite.
    """
    for i in range(q.shape[0]):
        if not math.isfinite(q[i]):
            return math.nan
    for i in range(v.shape[0]):
        if not math.isfinite(v[i]):
            return math.nan
    x, y, z, w = q[3], q[4], q[5], q[6]
    R = rotation
    R[0, 0], R[0, 1], R[0, 2] = 1.0 - 2.0 * (y * y + z * z), 2.0 * (x * y - z * w), 2.0 * (x * z + y * w)
    R[1, 0], R[1, 1], R[1, 2] = 2.0 * (x * y + z * w), 1.0 - 2.0 * (x * x + z * z), 2.0 * (y * z - x * w)
    R[2, 0], R[2, 1], R[2, 2] = 2.0 * (x * z - y * w), 2.0 * (y * z + x * w), 1.0 - 2.0 * (x * x + y * y)
    for k in range(3):
        position[k] = q[k]
        omega_B[k] = v[3 + k]
        velocity[k] = R[k, 0] * v[0] + R[k, 1] * v[1] + R[k, 2] * v[2]
    origin, axis, foot, rate, dp = np.empty((3, 3)), np.empty((3, 3)), np.empty(3), np.empty(3), np.empty(3)
    for i in range(q_index.shape[0]):
        for k in range(3):
            angles[i, k] = q[q_index[i, k]]
        place_leg(origin0[i], axis0[i], foot0[i], angles[i], origin, axis, foot)
        rate[:], dp[:] = omega_B, 0.0
        _turn(omega_B, 1.0, foot, _ORIGIN, dp)
        for k in range(3):
            qd = v[v_index[i, k]]
            for d in range(3):
                rate[d] += axis[k, d] * qd
            _turn(axis[k], qd, foot, origin[k], dp)
        for k in range(3):
            feet[i, k] = position[k] + R[k, 0] * foot[0] + R[k, 1] * foot[1] + R[k, 2] * foot[2]
            feet_velocity[i, k] = velocity[k] + R[k, 0] * dp[0] + R[k, 1] * dp[1] + R[k, 2] * dp[2]
            shank_rate[i, k] = R[k, 0] * rate[0] + R[k, 1] * rate[1] + R[k, 2] * rate[2]
    return math.atan2(R[1, 0], R[0, 0])


@njit(cache=True)
def reach_feet(
    through_measured: Booleans,
    feet: Array,
    pose: Array,
    position: Array,
    rotation: Array,
    origin0: Array,
    axis0: Array,
    foot0: Array,
    motion: Array,
    origin: Array,
    axis: Array,
    foot: Array,
    jacobian: Array,
    residual: Array,
) -> None:  # pragma: no cover - compiled
    """Joint angles that put the feet where they are planned, ``p_B = Rᵀ(p - x)``.

    Args:
        through_measured: Which feet are seen from the measured base, shape (n,); the others from the reference base.
        feet: Planned centres, shape (n, 3) [m].
        pose: Reference base (x, y, z, yaw), shape (4,).
        position: Measured base, shape (3,) [m].
        rotation: Measured base, shape (3, 3).
        origin0: See `legs.Legs`, as the next two.
        axis0: See there.
        foot0: See there.
        motion: See `LegPlan`, as all that follow; angles in and out.
        origin: Out.
        axis: Out.
        foot: Out.
        jacobian: Out.
        residual: Out.
    """
    p_B = np.empty(3)
    c, s = math.cos(pose[3]), math.sin(pose[3])
    for i in range(feet.shape[0]):
        if through_measured[i]:
            dx, dy, dz = feet[i, 0] - position[0], feet[i, 1] - position[1], feet[i, 2] - position[2]
            for k in range(3):
                p_B[k] = rotation[0, k] * dx + rotation[1, k] * dy + rotation[2, k] * dz
        else:
            dx, dy = feet[i, 0] - pose[0], feet[i, 1] - pose[1]
            p_B[0], p_B[1], p_B[2] = c * dx + s * dy, c * dy - s * dx, feet[i, 2] - pose[2]
        residual[i] = reach(
            origin0[i], axis0[i], foot0[i], p_B, IK_TOLERANCE, motion[0, i], origin[i], axis[i], foot[i], jacobian[i]
        )


@njit(cache=True)
def move_joints(
    through_measured: Booleans,
    feet_velocity: Array,
    feet_acceleration: Array,
    pose: Array,
    twist: Array,
    rate: Array,
    righting: Array,
    rotation: Array,
    base_velocity: Array,
    omega_B: Array,
    origin: Array,
    axis: Array,
    foot: Array,
    jacobian: Array,
    residual: Array,
    motion: Array,
) -> None:  # pragma: no cover - compiled
    """Joint velocities and accelerations for the planned motion of the feet (planner.md 5).

        ṗ_B = Rᵀ(ṗ - ẋ) - ω × p_B,                                      v = J⁻¹ ṗ_B
        p̈_B = Rᵀ(p̈ - a) - α × p_B - 2ω × ṗ_B - ω × (ω × p_B),           a = J⁻¹(p̈_B - J̇v)

    Swinging feet use the measured pose and velocity of the base, with the acceleration of the reference.

    Args:
        through_measured: See `reach_feet`.
        feet_velocity: Planned, shape (n, 3) [m/s].
        feet_acceleration: Planned, shape (n, 3) [m/s²].
        pose: Reference base, shape (4,).
        twist: Its velocity, shape (4,).
        rate: Its acceleration, shape (4,).
        righting: Angular acceleration of the base asked of standing legs in addition, base axes, shape (3,) [rad/s²].
        rotation: Measured base, shape (3, 3).
        base_velocity: Measured, world axes, shape (3,) [m/s].
        omega_B: Measured, base axes, shape (3,) [rad/s].
        origin: See `LegPlan`, as all that follow.
        axis: See there.
        foot: See there.
        jacobian: See there.
        residual: See there.
        motion: Out: velocities and accelerations.
    """
    level = np.zeros((3, 3))
    c, s = math.cos(pose[3]), math.sin(pose[3])
    level[0, 0], level[0, 1], level[1, 0], level[1, 1], level[2, 2] = c, -s, s, c, 1.0
    b, bias = np.empty(3), np.empty(3)
    for i in range(feet_velocity.shape[0]):
        if residual[i] > UNREACHED:
            motion[1:, i] = 0.0
            continue
        if through_measured[i]:
            R = rotation
            ux, uy, uz = base_velocity[0], base_velocity[1], base_velocity[2]
            wx, wy, wz = omega_B[0], omega_B[1], omega_B[2]
            ex, ey, ez = R[2, 0] * rate[3], R[2, 1] * rate[3], R[2, 2] * rate[3]
        else:
            R = level
            ux, uy, uz = twist[0], twist[1], twist[2]
            wx, wy, wz = 0.0, 0.0, twist[3]
            ex, ey, ez = righting[0], righting[1], righting[2] + rate[3]
        px, py, pz = foot[i, 0], foot[i, 1], foot[i, 2]
        wpx, wpy, wpz = wy * pz - wz * py, wz * px - wx * pz, wx * py - wy * px

        dx, dy, dz = feet_velocity[i, 0] - ux, feet_velocity[i, 1] - uy, feet_velocity[i, 2] - uz
        vx = R[0, 0] * dx + R[1, 0] * dy + R[2, 0] * dz - wpx
        vy = R[0, 1] * dx + R[1, 1] * dy + R[2, 1] * dz - wpy
        vz = R[0, 2] * dx + R[1, 2] * dy + R[2, 2] * dz - wpz
        b[0], b[1], b[2] = vx, vy, vz
        leg_solve(jacobian[i], b, motion[1, i])
        leg_bias(origin[i], axis[i], foot[i], motion[1, i], bias)

        # -2ω × ṗ_B - ω × (ω × p_B) = -ω × (2ṗ_B + ω × p_B)
        gx, gy, gz = 2.0 * vx + wpx, 2.0 * vy + wpy, 2.0 * vz + wpz
        dx = feet_acceleration[i, 0] - rate[0]
        dy = feet_acceleration[i, 1] - rate[1]
        dz = feet_acceleration[i, 2] - rate[2]
        b[0] = R[0, 0] * dx + R[1, 0] * dy + R[2, 0] * dz - (ey * pz - ez * py) - (wy * gz - wz * gy) - bias[0]
        b[1] = R[0, 1] * dx + R[1, 1] * dy + R[2, 1] * dz - (ez * px - ex * pz) - (wz * gx - wx * gz) - bias[1]
        b[2] = R[0, 2] * dx + R[1, 2] * dy + R[2, 2] * dz - (ex * py - ey * px) - (wx * gy - wy * gx) - bias[2]
        leg_solve(jacobian[i], b, motion[2, i])


@njit(cache=True)
def collect(motion: Array, residual: Array, actuated: Integers, joints: Array) -> float:  # pragma: no cover - compiled
    """Put the motion of the legs (3, n, 3) into that of all joints (3, a); returns the largest residual [m]."""
    largest = 0.0
    for i in range(actuated.shape[0]):
        largest = max(largest, residual[i])
        for k in range(3):
            for d in range(3):
                joints[d, actuated[i, k]] = motion[d, i, k]
    return largest
