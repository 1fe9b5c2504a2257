"""Joint motion from the motion of the feet, relative to a base that depends on the phase of each foot (planner.md 5).

Stance feet are planned relative to the reference base; the joint error of a standing leg is then the pose error of the
base. Swinging and late feet are planned relative to the measured base; their joint error is then the tracking error of
the foot. Vectors without a suffix are in the world frame; vectors with ``_B`` are in the axes of the base.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from idcontrol.kernels.jit import njit
from idcontrol.planners.base import BaseReference, turned_base
from idcontrol.planners.feet import STANDING, FootPlan, NominalStance
from idcontrol.planners.governor import Ability, within_reach
from idcontrol.planners.legs import IK_TOLERANCE, LegPose, Legs, leg_bias, leg_solve, reach
from idcontrol.planners.measured import Measured
from idcontrol.types import Array, Integers

UNREACHED = 1e-6
"""A foot farther than this from its plan is out of reach [m]; the planned velocities and accelerations of its joints
are then zero."""


class LegPlan(NamedTuple):
    """Legs at the planned joint angles; arrays change in place.

    Attributes:
        motion: Angles, velocities and accelerations of the joints, shape (3, n, 3) [rad, rad/s, rad/s²]; the angles
            are the first guess of the next call.
        origin: Points on the lines of the joints, base frame, shape (n, 3, 3) [m].
        axis: Directions of the lines, base frame, shape (n, 3, 3).
        foot: Foot centres, base frame, shape (n, 3) [m].
        jacobian: Jacobians of the foot centres, base frame, shape (n, 3, 3) [m].
        residual: Distance between each foot and its plan, shape (n,) [m].
        reference: Demanded motion of the joints (`governor.limit_joints`), shape (3, n, 3) [rad, rad/s, rad/s²].
    """

    motion: Array
    origin: Array
    axis: Array
    foot: Array
    jacobian: Array
    residual: Array
    reference: Array

    @staticmethod
    def of(n: int) -> LegPlan:
        """Allocate a plan for `n` legs."""
        return LegPlan(
            motion=np.zeros((3, n, 3)),
            origin=np.zeros((n, 3, 3)),
            axis=np.zeros((n, 3, 3)),
            foot=np.zeros((n, 3)),
            jacobian=np.zeros((n, 3, 3)),
            residual=np.zeros(n),
            reference=np.full((3, n, 3), np.nan),
        )


@njit(cache=True, inner=True)
def reach_feet(
    legs: Legs,
    ability: Ability,
    nominal: NominalStance,
    plan: FootPlan,
    base: BaseReference,
    measured: Measured,
    leg_plan: LegPlan,
) -> None:  # pragma: no cover - compiled
    """Compute joint angles that bring the feet as close as possible to their plan, ``p_B = Rᵀ(p - x)``.

    p is the planned foot; x and R are position and rotation of the base. The plan is first moved into the leg's reach.

    Args:
        legs: The legs.
        ability: Reach of the feet.
        nominal: The nominal feet, from which the reach is measured.
        plan: Planned phases and positions of the feet.
        base: The reference base, for stance feet.
        measured: The measured base, for all other feet.
        leg_plan: In: the first guess of the angles; out: everything except velocities, accelerations and `reference`.
    """
    p_B = np.empty(3)
    turned = np.empty((3, 3))
    turned_base(base, turned)
    for i in range(plan.phase.shape[0]):
        p = plan.position[i]
        standing = plan.phase[i] == STANDING
        R, x = (turned, base.pose[:3]) if standing else (measured.rotation[:], measured.position[:])  # plain arrays
        dx, dy, dz = p[0] - x[0], p[1] - x[1], p[2] - x[2]
        for k in range(3):
            p_B[k] = R[0, k] * dx + R[1, k] * dy + R[2, k] * dz
        zero = LegPose(legs.origin[i], legs.axis[i], legs.foot[i])
        here = LegPose(leg_plan.origin[i], leg_plan.axis[i], leg_plan.foot[i])
        off_x, off_y = p_B[0] - nominal.feet[i, 0], p_B[1] - nominal.feet[i, 1]
        within, short = within_reach(off_x, off_y, ability.reach[i]), 0.0
        if within < 1.0:
            short = (1.0 - within) * math.sqrt(off_x * off_x + off_y * off_y)
            p_B[0], p_B[1] = nominal.feet[i, 0] + within * off_x, nominal.feet[i, 1] + within * off_y
        miss = reach(zero, p_B, IK_TOLERANCE, leg_plan.motion[0, i], here, leg_plan.jacobian[i])
        leg_plan.residual[i] = miss + short


@njit(cache=True, inner=True)
def move_joints(
    plan: FootPlan,
    base: BaseReference,
    righting: tuple[float, float, float],
    measured: Measured,
    leg_plan: LegPlan,
) -> None:  # pragma: no cover - compiled
    """Compute joint velocities and accelerations for the planned motion of the feet (planner.md 5).

        ṗ_B = Rᵀ(ṗ - ẋ) - ω × p_B,                                      q̇ = J⁻¹ ṗ_B
        p̈_B = Rᵀ(p̈ - ẍ) - α × p_B - 2ω × ṗ_B - ω × (ω × p_B),           q̈ = J⁻¹(p̈_B - J̇q̇)

    p is a foot, and p_B the foot relative to the base, in base axes; x, R, ω and α are position, rotation, angular
    velocity and angular acceleration of the base. J is the Jacobian of p_B by the angles q of the leg. Swinging and
    late feet use the measured pose and velocity of the base, with the acceleration of the reference. For feet out of
    reach (`UNREACHED`), velocities and accelerations are zero.

    Args:
        plan: Planned phases, velocities and accelerations of the feet.
        base: Reference base.
        righting: Additional angular acceleration of the base demanded of standing legs, base axes [rad/s²].
        measured: Measured base.
        leg_plan: In: the legs at the planned angles (`reach_feet`); out: velocities and accelerations.
    """
    motion, twist, rate = leg_plan.motion, base.twist, base.rate
    turned = np.empty((3, 3))
    roll, pitch, yaw, rolls, pitches, yaws = turned_base(base, turned)
    b, bias = np.empty(3), np.empty(3)
    for i in range(plan.phase.shape[0]):
        if leg_plan.residual[i] > UNREACHED:
            motion[1:, i] = 0.0
            continue
        if plan.phase[i] != STANDING:
            R = measured.rotation[:]  # a plain array, like `turned`
            ux, uy, uz = measured.velocity[0], measured.velocity[1], measured.velocity[2]
            wx, wy, wz = measured.omega_B[0], measured.omega_B[1], measured.omega_B[2]
            ex, ey, ez = R[2, 0] * rate[3] + base.sway[2, 3], R[2, 1] * rate[3] + base.sway[2, 4], R[2, 2] * rate[3]
        else:
            R = turned
            ux, uy, uz = twist[0], twist[1], twist[2]
            wx, wy, wz = roll, pitch, yaw
            ex, ey, ez = righting[0] + rolls, righting[1] + pitches, righting[2] + yaws
        pose = LegPose(leg_plan.origin[i], leg_plan.axis[i], leg_plan.foot[i])
        px, py, pz = pose.foot[0], pose.foot[1], pose.foot[2]
        wpx, wpy, wpz = wy * pz - wz * py, wz * px - wx * pz, wx * py - wy * px

        dp, ddp, J = plan.velocity[i], plan.acceleration[i], leg_plan.jacobian[i]
        dx, dy, dz = dp[0] - ux, dp[1] - uy, dp[2] - uz
        vx = R[0, 0] * dx + R[1, 0] * dy + R[2, 0] * dz - wpx
        vy = R[0, 1] * dx + R[1, 1] * dy + R[2, 1] * dz - wpy
        vz = R[0, 2] * dx + R[1, 2] * dy + R[2, 2] * dz - wpz
        b[0], b[1], b[2] = vx, vy, vz
        leg_solve(J, b, motion[1, i])
        leg_bias(pose, motion[1, i], bias)

        # -2ω × ṗ_B - ω × (ω × p_B) = -ω × (2ṗ_B + ω × p_B)
        gx, gy, gz = 2.0 * vx + wpx, 2.0 * vy + wpy, 2.0 * vz + wpz
        dx, dy, dz = ddp[0] - rate[0], ddp[1] - rate[1], ddp[2] - rate[2]
        b[0] = R[0, 0] * dx + R[1, 0] * dy + R[2, 0] * dz - (ey * pz - ez * py) - (wy * gz - wz * gy) - bias[0]
        b[1] = R[0, 1] * dx + R[1, 1] * dy + R[2, 1] * dz - (ez * px - ex * pz) - (wz * gx - wx * gz) - bias[1]
        b[2] = R[0, 2] * dx + R[1, 2] * dy + R[2, 2] * dz - (ex * py - ey * px) - (wx * gy - wy * gx) - bias[2]
        leg_solve(J, b, motion[2, i])


@njit(cache=True, inner=True)
def collect_joints(
    motion: Array, residual: Array, actuated: Integers, joints: tuple[Array, Array, Array]
) -> float:  # pragma: no cover - compiled
    """Copy the legs' motion, shape (3, n, 3), into all joints' motion, shapes (a,); return the largest residual."""
    q, v, a = joints
    for i in range(actuated.shape[0]):
        for k in range(3):
            joint = actuated[i, k]
            q[joint], v[joint], a[joint] = motion[0, i, k], motion[1, i, k], motion[2, i, k]
    largest: float = residual.max()
    return largest
