"""A base that yields to the reaction of its swinging legs: constant momentum, not constant speed (planner.md 3.3).

Swinging legs push the base along the ground with several times what friction 0.1 can hold. So momentum is prescribed:
find the planar motion u = (v_x, v_y, ω) of the base with

    A_g (u, q̇(u)) = h_cmd,        q̇_i(u) = J_i⁻¹ ṗ_i - D_i u,        D_i = J_i⁻¹ [e_x, e_y, e_z × p_i]

A_g holds the rows linear x, linear y and angular z about the centre of mass of the centroidal momentum matrix; h_cmd is
the momentum of the machine moving rigidly, in its nominal stance, with the commanded twist. Accelerations follow from
the time derivative, the same 3x3 system with another right-hand side, in which Ȧ_g is exact: Pinocchio's bias forces.
All in the axes of the level reference base.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pinocchio as pin
from numba import njit

from idcontrol.planners.legs import Legs, leg_bias, leg_solve
from idcontrol.system import System
from idcontrol.types import Array, Integers


@dataclass(frozen=True, slots=True, kw_only=True)
class Yield:
    """What the solutions for velocity and acceleration of one instant share; arrays change in place.

    Attributes:
        nominal: Planar centre of mass in the base frame [m] and squared yaw radius of gyration about it [m²], (3,).
        own: Joint velocities J_i⁻¹ṗ_i at rest of the base, shape (n, 3) [rad/s].
        give: D_i, shape (n, 3, 3).
        A: Matrix of the system, shape (3, 3).
    """

    nominal: Array
    own: Array
    give: Array
    A: Array


class MomentumBase:
    """Pinocchio's terms of the planned motion, and room for what follows from them.

    Attributes:
        M: Inertia matrix at the planned joint angles and a level base, Pinocchio's order, shape (nv, nv): a view.
        bias: Bias forces of the planned motion, Pinocchio's order, shape (nv,) [N, N m]: a view.
        v: Velocity of the planned motion, Pinocchio's layout, shape (nv,).
        work: See `Yield`.
    """

    def __init__(self, system: System, legs: Legs, home: Array) -> None:
        """Prepare for a machine whose legs are `legs` and whose nominal joint angles are `home` (a,) [rad]."""
        self._model, self._q_index = system.model, legs.q_index
        self._data = self._model.createData()
        self._q = system.configuration(home, np.array([0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0]))
        self.v: Array = np.zeros(self._model.nv)
        pin.crba(self._model, self._data, self._q)
        pin.nonLinearEffects(self._model, self._data, self._q, self.v)
        self.M: Array = self._data.M
        self.bias: Array = self._data.nle
        mass = self.M[0, 0]
        com = np.array([self.M[1, 5], -self.M[0, 5]]) / mass
        n = legs.foot.shape[0]
        self.work = Yield(
            nominal=np.array([*com, self.M[5, 5] / mass - com @ com]),
            own=np.zeros((n, 3)),
            give=np.zeros((n, 3, 3)),
            A=np.zeros((3, 3)),
        )

    def find_inertia(self, motion: Array) -> None:
        """Compute M at the angles of `motion` (`joints.LegPlan`)."""
        _place(motion, self._q_index, self._q)
        pin.crba(self._model, self._data, self._q)

    def find_bias(self) -> None:
        """Compute the bias forces at the same angles and the velocity `v`.

        They contain gravity, which has no part in the three rows as long as the base is level.
        """
        pin.nonLinearEffects(self._model, self._data, self._q, self.v)


@njit(cache=True)
def _place(motion: Array, q_index: Integers, q: Array) -> None:  # pragma: no cover - compiled
    for i in range(q_index.shape[0]):
        for k in range(3):
            q[q_index[i, k]] = motion[0, i, k]


@njit(cache=True, error_model="numpy")
def _solve3(A: Array, b: tuple[float, float, float]) -> tuple[float, float, float]:  # pragma: no cover - compiled
    """Cramer's rule; A is an inertia, far from singular."""
    c0 = A[1, 1] * A[2, 2] - A[1, 2] * A[2, 1]
    c1 = A[1, 2] * A[2, 0] - A[1, 0] * A[2, 2]
    c2 = A[1, 0] * A[2, 1] - A[1, 1] * A[2, 0]
    det = A[0, 0] * c0 + A[0, 1] * c1 + A[0, 2] * c2
    x = b[0] * c0 + A[0, 1] * (A[1, 2] * b[2] - b[1] * A[2, 2]) + A[0, 2] * (b[1] * A[2, 1] - A[1, 1] * b[2])
    y = A[0, 0] * (b[1] * A[2, 2] - A[1, 2] * b[2]) + b[0] * c1 + A[0, 2] * (A[1, 0] * b[2] - b[1] * A[2, 0])
    z = A[0, 0] * (A[1, 1] * b[2] - b[1] * A[2, 1]) + A[0, 1] * (b[1] * A[2, 0] - A[1, 0] * b[2]) + b[0] * c2
    return x / det, y / det, z / det


@njit(cache=True, error_model="numpy")
def _rows(M: Array, j: int) -> tuple[float, float, float]:  # pragma: no cover - compiled
    """Column j of A_g: linear x, linear y, angular z about the centre of mass; crba fills the upper triangle."""
    com_x, com_y = M[1, 5] / M[0, 0], -M[0, 5] / M[0, 0]
    x = M[0, j]
    y = M[1, j] if j >= 1 else M[0, 1]
    z = M[5, j] if j >= 5 else M[j, 5]
    return x, y, z - com_x * y + com_y * x


@njit(cache=True, error_model="numpy")
def momentum_velocity(
    M: Array,
    nominal: Array,
    v_index: Integers,
    feet_velocity: Array,
    foot: Array,
    jacobian: Array,
    pose: Array,
    twist: Array,
    rate: Array,
    own: Array,
    give: Array,
    A: Array,
    v: Array,
) -> None:  # pragma: no cover - compiled
    """Solve for the velocity of the base.

    Args:
        M: Inertia matrix at the planned joint angles and a level base, Pinocchio's order, shape (nv, nv).
        nominal: Planar centre of mass in the base frame [m] and squared yaw radius of gyration about it [m²], (3,).
        v_index: See `legs.Legs`.
        feet_velocity: Planned, world axes, shape (n, 3) [m/s].
        foot: Feet in the base frame, shape (n, 3) [m].
        jacobian: Of the feet, base frame, shape (n, 3, 3) [m].
        pose: Reference base, shape (4,).
        twist: In: commanded velocity; out: the one that keeps the momentum, shape (4,).
        rate: In: commanded acceleration; out: rate of the commanded momentum per mass, in base axes, shape (4,).
        own: Out: joint velocities J_i⁻¹ṗ_i at rest of the base, shape (n, 3) [rad/s].
        give: Out: D_i, shape (n, 3, 3).
        A: Out: matrix of the system, shape (3, 3).
        v: Out: velocity of the planned motion, Pinocchio's layout, shape (nv,).
    """
    c, s = math.cos(pose[3]), math.sin(pose[3])
    com_x, com_y, gyration = nominal[0], nominal[1], nominal[2]
    mass, omega, alpha = M[0, 0], twist[3], rate[3]
    g_x = c * twist[0] + s * twist[1] - omega * com_y
    g_y = c * twist[1] - s * twist[0] + omega * com_x
    h_x, h_y, h_z = mass * g_x, mass * g_y, mass * gyration * omega

    for k in range(3):
        A[0, k], A[1, k], A[2, k] = _rows(M, k if k < 2 else 5)
    b = np.empty(3)
    for i in range(v_index.shape[0]):
        b[0] = c * feet_velocity[i, 0] + s * feet_velocity[i, 1]
        b[1] = c * feet_velocity[i, 1] - s * feet_velocity[i, 0]
        b[2] = feet_velocity[i, 2] - twist[2]
        leg_solve(jacobian[i], b, own[i])
        for k in range(3):
            b[0] = 1.0 if k == 0 else (-foot[i, 1] if k == 2 else 0.0)
            b[1] = 1.0 if k == 1 else (foot[i, 0] if k == 2 else 0.0)
            b[2] = 0.0
            leg_solve(jacobian[i], b, give[i, k])
        for j in range(3):
            x, y, z = _rows(M, v_index[i, j])
            h_x -= x * own[i, j]
            h_y -= y * own[i, j]
            h_z -= z * own[i, j]
            for k in range(3):
                A[0, k] -= x * give[i, k, j]
                A[1, k] -= y * give[i, k, j]
                A[2, k] -= z * give[i, k, j]
    u_x, u_y, u_w = _solve3(A, (h_x, h_y, h_z))

    v[0], v[1], v[2], v[3], v[4], v[5] = u_x, u_y, twist[2], 0.0, 0.0, u_w
    for i in range(v_index.shape[0]):
        for j in range(3):
            v[v_index[i, j]] = own[i, j] - give[i, 0, j] * u_x - give[i, 1, j] * u_y - give[i, 2, j] * u_w
    twist[0], twist[1], twist[3] = c * u_x - s * u_y, s * u_x + c * u_y, u_w
    # The commanded momentum turns with the reference, which yields in heading too: u_w, where the command has ω.
    extra = u_w - omega
    a_x = c * rate[0] + s * rate[1] - alpha * com_y - omega * omega * com_x - extra * g_y
    a_y = c * rate[1] - s * rate[0] + alpha * com_x - omega * omega * com_y + extra * g_x
    rate[0], rate[1], rate[3] = a_x, a_y, gyration * alpha


@njit(cache=True, error_model="numpy")
def momentum_acceleration(
    M: Array,
    bias: Array,
    v: Array,
    v_index: Integers,
    feet_acceleration: Array,
    origin: Array,
    axis: Array,
    foot: Array,
    jacobian: Array,
    pose: Array,
    rate: Array,
    own: Array,
    give: Array,
    A: Array,
) -> None:  # pragma: no cover - compiled
    """Solve for the acceleration of the base: the rate of momentum is ``A_g v̇ + bias``.

    Args:
        M: See `momentum_velocity`, as all that are not named here.
        bias: Bias forces of the planned motion, Pinocchio's order, shape (nv,) [N, N m].
        v: Planned motion, from `momentum_velocity`, shape (nv,).
        v_index: See there.
        feet_acceleration: Planned, world axes, shape (n, 3) [m/s²].
        origin: See `joints.LegPlan`, as the next three.
        axis: See there.
        foot: See there.
        jacobian: See there.
        pose: See there.
        rate: In: from `momentum_velocity`; out: acceleration of the base, shape (4,).
        own: Work, shape (n, 3).
        give: From `momentum_velocity`.
        A: From `momentum_velocity`.
    """
    c, s = math.cos(pose[3]), math.sin(pose[3])
    mass, omega = M[0, 0], v[5]
    com_x, com_y = M[1, 5] / mass, -M[0, 5] / mass
    # Pinocchio's linear acceleration of a free-flyer is a - ω × v: the part with ω goes to the right-hand side.
    r_x = mass * (rate[0] - omega * v[1]) - bias[0]
    r_y = mass * (rate[1] + omega * v[0]) - bias[1]
    r_z = mass * rate[3] - (bias[5] - com_x * bias[1] + com_y * bias[0])
    b, extra, qd = np.empty(3), np.empty(3), np.empty(3)
    for i in range(v_index.shape[0]):
        for j in range(3):
            qd[j] = v[v_index[i, j]]
        leg_bias(origin[i], axis[i], foot[i], qd, extra)
        # ṗ_B from the joints; -2ω × ṗ_B - ω × (ω × p_B) has only planar parts.
        vx = vy = 0.0
        for j in range(3):
            vx += jacobian[i, 0, j] * qd[j]
            vy += jacobian[i, 1, j] * qd[j]
        dx, dy = feet_acceleration[i, 0], feet_acceleration[i, 1]
        b[0] = c * dx + s * dy + 2.0 * omega * vy + omega * omega * foot[i, 0] - extra[0]
        b[1] = c * dy - s * dx - 2.0 * omega * vx + omega * omega * foot[i, 1] - extra[1]
        b[2] = feet_acceleration[i, 2] - rate[2] - extra[2]
        leg_solve(jacobian[i], b, own[i])
        for j in range(3):
            x, y, z = _rows(M, v_index[i, j])
            r_x -= x * own[i, j]
            r_y -= y * own[i, j]
            r_z -= z * own[i, j]
    a_x, a_y, a_w = _solve3(A, (r_x, r_y, r_z))
    rate[0], rate[1], rate[3] = c * a_x - s * a_y, s * a_x + c * a_y, a_w
