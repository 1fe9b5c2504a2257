"""A base that moves with the reaction of swinging legs: constant momentum, not constant speed (planner.md 3.3).

Swinging legs push the base horizontally, with several times the friction force available at μ = 0.1. So the momentum is
prescribed instead of the speed: the planar motion u = (v_x, v_y, ω) of the base solves

    A_g (u, q̇(u)) = h_cmd,        q̇_i(u) = J_i⁻¹ ṗ_i - D_i u,        D_i = J_i⁻¹ [e_x, e_y, e_z × p_i]

p_i is the position of foot i, and J_i is its Jacobian by the joint angles q_i of its leg. A_g has three rows of the
centroidal momentum matrix: linear x, linear y, and angular z about the centre of mass. h_cmd is the momentum of the
rigid robot in its nominal stance with the commanded twist. Accelerations follow from the time derivative: the same 3x3
system with a different right-hand side, in which the bias forces give Ȧ_g exactly. All quantities are in the axes of
the level reference base.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from idcontrol.dynamics.multibody import CompiledSystem, bias_kernel, inertia_kernel
from idcontrol.dynamics.system import System
from idcontrol.kernels.bound import Bound
from idcontrol.kernels.jit import njit
from idcontrol.planners.base import BaseReference
from idcontrol.planners.feet import FootPlan
from idcontrol.planners.joints import LegPlan
from idcontrol.planners.legs import LegPose, Legs, leg_bias, leg_solve
from idcontrol.types import Array


class MomentumSystem(NamedTuple):
    """The 3x3 system for u and its parts; arrays change in place.

    Attributes:
        nominal: Planar centre of mass of the nominal stance in the base frame [m] and squared yaw radius of gyration
            about it [m²], shape (3,).
        resting: Joint velocities J_i⁻¹ṗ_i for a base at rest, shape (n, 3) [rad/s]; later overwritten by the
            accelerations.
        D: The matrices D_i, transposed, shape (n, 3, 3).
        A: Matrix of the system, shape (3, 3).
    """

    nominal: Array
    resting: Array
    D: Array
    A: Array

    @staticmethod
    def of(n: int) -> MomentumSystem:
        """Allocate the system of `n` legs."""
        return MomentumSystem(nominal=np.zeros(3), resting=np.zeros((n, 3)), D=np.zeros((n, 3, 3)), A=np.zeros((3, 3)))


class Planned(NamedTuple):
    """The planned motion of the whole robot, for kernels; `CompiledSystem.work` has its multibody terms.

    Attributes:
        q: Configuration with a level base, Pinocchio's layout, shape (nq,).
        v: Velocity, Pinocchio's layout, shape (nv,).
        work: The argument of `inertia_kernel` and `bias_kernel`.
    """

    q: Array
    v: Array
    work: Bound


class MomentumBase:
    """Inertia and bias forces of the planned motion.

    Attributes:
        planned: The motion, for kernels.
        nominal: Planar centre of mass and squared yaw radius of gyration (`MomentumSystem`), shape (3,).
    """

    def __init__(self, system: System, home: Array) -> None:
        """Prepare for the robot `system` with the nominal joint angles `home`, shape (a,) [rad].

        Raises:
            InputError: A kind of joint is not supported by kernels.
        """
        # all joints in the order of the tree, so that velocities have Pinocchio's layout
        self._machine = CompiledSystem(system.model)
        q = system.configuration(home, np.array([0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0]))
        self.planned = Planned(q, np.zeros(system.n_velocities), self._machine.work)
        self._machine.update(*self.planned[:2])
        M = self._machine.M
        com = np.array([M[1, 5], -M[0, 5]]) / M[0, 0]
        self.nominal: Array = np.array([*com, M[5, 5] / M[0, 0] - com @ com])


@njit(cache=True, inner=True, error_model="numpy")
def yield_base(
    legs: Legs, plan: FootPlan, leg_plan: LegPlan, base: BaseReference, system: MomentumSystem, planned: Planned
) -> None:  # pragma: no cover - compiled
    """Move the base with the reaction of the feet: `momentum_velocity`, then `momentum_acceleration`.

    Bias forces contain gravity, but gravity has no effect on the three rows of a level base.

    Args:
        legs: The legs.
        plan: Planned motion of the feet.
        leg_plan: The legs at the planned joint angles.
        base: In: commanded twist and rate; out: twist and rate with the commanded momentum.
        system: Overwritten, except `nominal`.
        planned: Overwritten.
    """
    q, v = planned.q, planned.v
    for i in range(legs.q_index.shape[0]):
        for k in range(3):
            q[legs.q_index[i, k]] = leg_plan.motion[0, i, k]
    inertia_kernel(planned.work, q)
    terms = planned.work.borrowed.terms
    momentum_velocity(terms.M, legs, plan, leg_plan, base, system, v)
    bias_kernel(planned.work, v)
    momentum_acceleration(terms.M, terms.bias, v, legs, plan, leg_plan, base, system)


@njit(cache=True, inner=True, error_model="numpy")
def _solve3(A: Array, b: tuple[float, float, float]) -> tuple[float, float, float]:  # pragma: no cover - compiled
    """Return the solution of ``A x = b`` by Cramer's rule; A, shape (3, 3), must be far from singular."""
    c0 = A[1, 1] * A[2, 2] - A[1, 2] * A[2, 1]
    c1 = A[1, 2] * A[2, 0] - A[1, 0] * A[2, 2]
    c2 = A[1, 0] * A[2, 1] - A[1, 1] * A[2, 0]
    det = A[0, 0] * c0 + A[0, 1] * c1 + A[0, 2] * c2
    x = b[0] * c0 + A[0, 1] * (A[1, 2] * b[2] - b[1] * A[2, 2]) + A[0, 2] * (b[1] * A[2, 1] - A[1, 1] * b[2])
    y = A[0, 0] * (b[1] * A[2, 2] - A[1, 2] * b[2]) + b[0] * c1 + A[0, 2] * (A[1, 0] * b[2] - b[1] * A[2, 0])
    z = A[0, 0] * (A[1, 1] * b[2] - b[1] * A[2, 1]) + A[0, 1] * (b[1] * A[2, 0] - A[1, 0] * b[2]) + b[0] * c2
    return x / det, y / det, z / det


@njit(cache=True, inner=True, error_model="numpy")
def _rows(M: Array, j: int) -> tuple[float, float, float]:  # pragma: no cover - compiled
    """Return column j of A_g: linear x, linear y, angular z about the centre of mass."""
    com_x, com_y = M[1, 5] / M[0, 0], -M[0, 5] / M[0, 0]
    x, y, z = M[0, j], M[1, j], M[5, j]
    return x, y, z - com_x * y + com_y * x


@njit(cache=True, inner=True, error_model="numpy")
def _follow_base(
    J: Array, foot: Array, target: tuple[float, float, float], resting: Array, D: Array
) -> None:  # pragma: no cover - compiled
    """Solve for the joint velocities of a leg that moves its foot as planned, as a function of u.

    Args:
        J: Jacobian of the foot, shape (3, 3) [m].
        foot: The foot p_i, shape (3,) [m].
        target: Velocity ṗ_i of the foot [m/s].
        resting: Out: ``J_i⁻¹ ṗ_i``, shape (3,).
        D: Out: ``D_i`` transposed, shape (3, 3).
    """
    b = np.empty(3)
    b[0], b[1], b[2] = target
    leg_solve(J, b, resting)
    for k in range(3):
        b[0] = 1.0 if k == 0 else (-foot[1] if k == 2 else 0.0)
        b[1] = 1.0 if k == 1 else (foot[0] if k == 2 else 0.0)
        b[2] = 0.0
        leg_solve(J, b, D[k])


@njit(cache=True, inner=True, error_model="numpy")
def momentum_velocity(
    M: Array,
    legs: Legs,
    plan: FootPlan,
    leg_plan: LegPlan,
    base: BaseReference,
    system: MomentumSystem,
    v: Array,
) -> None:  # pragma: no cover - compiled
    """Solve for the velocity u of the base.

    Args:
        M: Inertia matrix at the planned joint angles and a level base, Pinocchio's order, shape (nv, nv).
        legs: The legs.
        plan: Planned velocities of the feet.
        leg_plan: The legs at the planned joint angles.
        base: In: commanded twist and rate; out: the twist that has the commanded momentum. `rate` then holds the time
            derivative of the commanded momentum per mass, base axes.
        system: In: `nominal`; out: the rest.
        v: Out: velocity of the planned motion, Pinocchio's layout, shape (nv,).
    """
    twist, rate = base.twist, base.rate
    resting, D, A = system.resting, system.D, system.A
    c, s = math.cos(base.pose[3]), math.sin(base.pose[3])
    com_x, com_y, gyration = system.nominal[0], system.nominal[1], system.nominal[2]
    mass, omega, alpha = M[0, 0], twist[3], rate[3]
    g_x = c * twist[0] + s * twist[1] - omega * com_y
    g_y = c * twist[1] - s * twist[0] + omega * com_x
    h_x, h_y, h_z = mass * g_x, mass * g_y, mass * gyration * omega

    for k in range(3):
        A[0, k], A[1, k], A[2, k] = _rows(M, k if k < 2 else 5)
    for i in range(legs.v_index.shape[0]):
        dp = plan.velocity[i]
        target = (c * dp[0] + s * dp[1], c * dp[1] - s * dp[0], dp[2] - twist[2])
        _follow_base(leg_plan.jacobian[i], leg_plan.foot[i], target, resting[i], D[i])
        for j in range(3):
            x, y, z = _rows(M, legs.v_index[i, j])
            h_x -= x * resting[i, j]
            h_y -= y * resting[i, j]
            h_z -= z * resting[i, j]
            for k in range(3):
                A[0, k] -= x * D[i, k, j]
                A[1, k] -= y * D[i, k, j]
                A[2, k] -= z * D[i, k, j]
    u_x, u_y, u_w = _solve3(A, (h_x, h_y, h_z))

    v[0], v[1], v[2], v[3], v[4], v[5] = u_x, u_y, twist[2], 0.0, 0.0, u_w
    for i in range(legs.v_index.shape[0]):
        for j in range(3):
            v[legs.v_index[i, j]] = resting[i, j] - D[i, 0, j] * u_x - D[i, 1, j] * u_y - D[i, 2, j] * u_w
    twist[0], twist[1], twist[3] = c * u_x - s * u_y, s * u_x + c * u_y, u_w
    # the commanded momentum rotates with the reference, whose heading turns at u_w, not at the commanded ω
    extra = u_w - omega
    a_x = c * rate[0] + s * rate[1] - alpha * com_y - omega * omega * com_x - extra * g_y
    a_y = c * rate[1] - s * rate[0] + alpha * com_x - omega * omega * com_y + extra * g_x
    rate[0], rate[1], rate[3] = a_x, a_y, gyration * alpha


@njit(cache=True, inner=True, error_model="numpy")
def momentum_acceleration(
    M: Array,
    bias: Array,
    v: Array,
    legs: Legs,
    plan: FootPlan,
    leg_plan: LegPlan,
    base: BaseReference,
    system: MomentumSystem,
) -> None:  # pragma: no cover - compiled
    """Solve for the acceleration of the base: the rate of momentum is ``A_g v̇ + bias``.

    Args:
        M: Inertia matrix at the planned joint angles and a level base, Pinocchio's order, shape (nv, nv).
        bias: Bias forces of the planned motion for classical accelerations (`System.bias`), shape (nv,) [N, N m].
        v: Velocity of the planned motion, from `momentum_velocity`, shape (nv,).
        legs: The legs.
        plan: Planned accelerations of the feet.
        leg_plan: The legs at the planned joint angles.
        base: In: rate from `momentum_velocity`; out: acceleration of the base instead.
        system: From `momentum_velocity`; `resting` is overwritten.
    """
    rate, foot, resting = base.rate, leg_plan.foot, system.resting
    c, s = math.cos(base.pose[3]), math.sin(base.pose[3])
    mass, omega = M[0, 0], v[5]
    com_x, com_y = M[1, 5] / mass, -M[0, 5] / mass
    r_x = mass * rate[0] - bias[0]
    r_y = mass * rate[1] - bias[1]
    r_z = mass * rate[3] - (bias[5] - com_x * bias[1] + com_y * bias[0])
    b, extra, qd = np.empty(3), np.empty(3), np.empty(3)
    for i in range(legs.v_index.shape[0]):
        for j in range(3):
            qd[j] = v[legs.v_index[i, j]]
        leg_bias(LegPose(leg_plan.origin[i], leg_plan.axis[i], leg_plan.foot[i]), qd, extra)
        # ṗ_B from the joints; -2ω × ṗ_B - ω × (ω × p_B) has only planar parts.
        J, ddp = leg_plan.jacobian[i], plan.acceleration[i]
        vx = vy = 0.0
        for j in range(3):
            vx += J[0, j] * qd[j]
            vy += J[1, j] * qd[j]
        b[0] = c * ddp[0] + s * ddp[1] + 2.0 * omega * vy + omega * omega * foot[i, 0] - extra[0]
        b[1] = c * ddp[1] - s * ddp[0] - 2.0 * omega * vx + omega * omega * foot[i, 1] - extra[1]
        b[2] = ddp[2] - rate[2] - extra[2]
        leg_solve(J, b, resting[i])
        for j in range(3):
            x, y, z = _rows(M, legs.v_index[i, j])
            r_x -= x * resting[i, j]
            r_y -= y * resting[i, j]
            r_z -= z * resting[i, j]
    a_x, a_y, a_w = _solve3(system.A, (r_x, r_y, r_z))
    rate[0], rate[1], rate[3] = c * a_x - s * a_y, s * a_x + c * a_y, a_w
