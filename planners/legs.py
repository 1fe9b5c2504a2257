"""Kinematics of legs with three revolute joints: foot position and Jacobian, their inverses, and J̇q̇ (planner.md 5).

A leg is represented by three screws and the centre of its foot sphere in the base frame at zero joint angles. The
position is a product of rotations about fixed lines,

    p(q) = e^{[s₁] q₁} e^{[s₂] q₂} e^{[s₃] q₃} p(0),        s_k the line of joint k at q = 0,

so the order of joints in a file and its link frames do not matter. All vectors are in base axes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pinocchio as pin

from idcontrol.dynamics.system import System
from idcontrol.errors import InputError
from idcontrol.kernels.jit import njit
from idcontrol.kernels.linear import assign, assign_rows
from idcontrol.types import Array, Integers

REGULARIZATION = 1e-10
"""ε, added to the diagonal of JᵀJ [m²]: far below the eigenvalues of JᵀJ in a bent leg, about (0.05 m)², and above
their rounding error in a stretched leg."""

IK_TOLERANCE = 1e-10
"""Distance at which a foot position counts as reached [m]."""

_IK_PASSES = 12
"""Maximum number of Newton iterations in one call of `reach`."""

_IK_DAMPING = 100.0
"""Factor on the damping after an iteration without progress."""

_IK_STEP = 0.3
"""Largest change of a joint angle in one Newton iteration [rad]; for larger changes the linear model of a leg is
inaccurate."""

STRETCHED = 0.02
"""A leg counts as stretched if the smallest singular value of its Jacobian is below this share of the largest [-], as
with a knee bent by less than 0.1 rad. In the home poses of the included robots this share is 0.27 to 0.37."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Feet:
    """The feet of a robot.

    Attributes:
        names: Names of the feet, for messages and records.
        frames: Frame of each foot sphere in the Pinocchio model.
        radii: Radii of the spheres, shape (n_feet,) [m].
        offsets: Centres of the spheres in those frames, shape (n_feet, 3) [m].
    """

    names: tuple[str, ...]
    frames: tuple[int, ...]
    radii: Array
    offsets: Array


class LegPose(NamedTuple):
    """One leg at some joint angles, base axes.

    Attributes:
        origin: A point on the line of each joint, from the hip down, shape (3, 3) [m].
        axis: Directions of the lines, shape (3, 3).
        foot: Centre of the foot sphere, shape (3,) [m].
    """

    origin: Array
    axis: Array
    foot: Array


class Legs(NamedTuple):
    """Legs as screws at zero joint angles, and the indices of their joints in the robot's vectors.

    Attributes:
        origin: A point on the line of each joint, shape (n_feet, 3, 3): leg, joint from the hip down, coordinates [m].
        axis: Direction of each line, shape (n_feet, 3, 3).
        foot: Centre of each foot sphere, shape (n_feet, 3) [m].
        q_index: Position of each joint in `State.q`, shape (n_feet, 3).
        v_index: Position of each joint in `State.v`, shape (n_feet, 3).
        actuated: Position of each joint in `System.actuated_names`, shape (n_feet, 3).
    """

    origin: Array
    axis: Array
    foot: Array
    q_index: Integers
    v_index: Integers
    actuated: Integers

    @staticmethod
    def of(system: System, feet: Feet) -> Legs:
        """Read the legs from the kinematic tree: the joints between each foot and the floating base.

        Raises:
            InputError: The robot has no floating base as its first joint, or a leg does not have exactly three
                actuated revolute joints with limits, which no other leg uses.
        """
        model = system.model
        if model.njoints < 2 or model.nqs[1] != 7 or model.nvs[1] != 6:
            raise InputError("legs need a machine whose first joint is a free-flyer; load it with a floating base")
        data = model.createData()
        pin.computeJointJacobians(model, data, pin.neutral(model))
        pin.updateFramePlacements(model, data)
        to_base = data.oMi[1].inverse()

        chains = [_chain(system, name, frame) for name, frame in zip(feet.names, feet.frames, strict=True)]
        if len({joint for chain in chains for joint in chain}) != 3 * len(chains):
            raise InputError("two feet share a joint; every foot needs a leg of its own")
        n = len(chains)
        origin, axis, foot = np.zeros((n, 3, 3)), np.zeros((n, 3, 3)), np.zeros((n, 3))
        index = np.zeros((3, n, 3), dtype=np.int64)
        for i, chain in enumerate(chains):
            foot[i] = to_base.act(data.oMf[feet.frames[i]].act(np.asarray(feet.offsets[i], dtype=np.float64)))
            for k, joint in enumerate(chain):
                # Columns of data.J are world twists for unit joint velocity; the angular part is the axis of a revolute
                # joint.
                column = data.J[:, model.idx_vs[joint]]
                if abs(np.linalg.norm(column[3:]) - 1.0) > 1e-9:
                    raise InputError(f"joint {model.names[joint]!r} of foot {feet.names[i]!r} is not revolute")
                origin[i, k] = to_base.act(data.oMi[joint].translation)
                axis[i, k] = to_base.rotation @ column[3:]
                index[:, i, k] = (
                    model.idx_qs[joint],
                    model.idx_vs[joint],
                    system.actuated_names.index(model.names[joint]),
                )
        return Legs(origin=origin, axis=axis, foot=foot, q_index=index[0], v_index=index[1], actuated=index[2])


def stretched(J: Array, foot: str) -> str:
    """Return a message if a foot's Jacobian J (3, 3) [m] at home is nearly singular: its leg is stretched; else ""."""
    most, _, least = np.linalg.svd(J)[1]
    if least >= STRETCHED * most:
        return ""
    return (
        f"the leg of foot {foot} is stretched in the home pose: its joints cannot move the foot along it; bend its knee"
    )


def _chain(system: System, name: str, frame: int) -> Sequence[int]:
    """Return the joints between the floating base and `frame`, from the base on.

    Raises:
        InputError: The leg does not consist of three actuated joints with limits.
    """
    model = system.model
    chain: list[int] = []
    joint = int(model.frames[frame].parentJoint)
    while joint > 1:
        chain.insert(0, joint)
        joint = int(model.parents[joint])
    if joint != 1 or len(chain) != 3:
        raise InputError(f"foot {name!r} hangs on {len(chain)} joints below the base; the planner needs three per leg")
    for joint in chain:
        if model.names[joint] not in system.actuated_names:
            raise InputError(f"joint {model.names[joint]!r} of foot {name!r} is not actuated; a leg needs all three")
        if model.nqs[joint] != 1:
            raise InputError(f"joint {model.names[joint]!r} of foot {name!r} is continuous; give it limits in the URDF")
    return chain


@njit(cache=True, inner=True)
def _turn(c: float, s: float, axis: Array, point: Array, x: Array) -> None:  # pragma: no cover - compiled
    """Rotate the point `x` in place about the line through `point` along `axis` (Rodrigues).

    c and s are cosine and sine of the angle.
    """
    ax, ay, az = axis[0], axis[1], axis[2]
    rx, ry, rz = x[0] - point[0], x[1] - point[1], x[2] - point[2]
    along = (1.0 - c) * (ax * rx + ay * ry + az * rz)
    x[0] = point[0] + c * rx + s * (ay * rz - az * ry) + along * ax
    x[1] = point[1] + c * ry + s * (az * rx - ax * rz) + along * ay
    x[2] = point[2] + c * rz + s * (ax * ry - ay * rx) + along * az


_ZERO = np.zeros(3)


@njit(cache=True)
def place_leg(zero: LegPose, q: Array, pose: LegPose) -> None:  # pragma: no cover - compiled
    """Write into `pose` a leg at the joint angles `q`, shape (3,) [rad]; `zero` is its pose at zero angles."""
    origin, axis = pose.origin, pose.axis
    assign(pose.foot, zero.foot)
    assign_rows(origin, zero.origin)
    assign_rows(axis, zero.axis)
    for k in range(2, -1, -1):
        c, s = math.cos(q[k]), math.sin(q[k])
        _turn(c, s, zero.axis[k], zero.origin[k], pose.foot)
        for j in range(k + 1, 3):
            _turn(c, s, zero.axis[k], zero.origin[k], origin[j])
            _turn(c, s, zero.axis[k], _ZERO, axis[j])


@njit(cache=True, inner=True)
def leg_jacobian(pose: LegPose, J: Array) -> None:  # pragma: no cover - compiled
    """Write the Jacobian of the foot centre p, ``ṗ = J q̇``, shape (3, 3) [m].

    Its columns are ``a_k × (p - o_k)``, with axis a_k and origin o_k of joint k.
    """
    origin, axis, foot = pose.origin, pose.axis, pose.foot
    for k in range(3):
        rx, ry, rz = foot[0] - origin[k, 0], foot[1] - origin[k, 1], foot[2] - origin[k, 2]
        J[0, k] = axis[k, 1] * rz - axis[k, 2] * ry
        J[1, k] = axis[k, 2] * rx - axis[k, 0] * rz
        J[2, k] = axis[k, 0] * ry - axis[k, 1] * rx


@njit(cache=True, inner=True)
def leg_bias(pose: LegPose, qd: Array, out: Array) -> None:  # pragma: no cover - compiled
    """Write the acceleration J̇q̇ of the foot centre at zero joint acceleration, with the base at rest.

    Down the leg, each link rotates with ω and carries the next joint (or the foot) at lever arm r: ω̇ grows by ω × a
    q̇, and the acceleration by ω̇ × r + ω × (ω × r).

    Args:
        pose: The leg at its joint angles.
        qd: Joint velocities, shape (3,) [rad/s].
        out: Out: the acceleration, shape (3,) [m/s²].
    """
    origin, axis, foot = pose.origin, pose.axis, pose.foot
    wx = wy = wz = 0.0
    ex = ey = ez = 0.0
    out[:] = 0.0
    for k in range(3):
        ax, ay, az = axis[k, 0] * qd[k], axis[k, 1] * qd[k], axis[k, 2] * qd[k]
        ex += wy * az - wz * ay
        ey += wz * ax - wx * az
        ez += wx * ay - wy * ax
        wx += ax
        wy += ay
        wz += az
        tip = origin[k + 1] if k < 2 else foot
        rx, ry, rz = tip[0] - origin[k, 0], tip[1] - origin[k, 1], tip[2] - origin[k, 2]
        vx, vy, vz = wy * rz - wz * ry, wz * rx - wx * rz, wx * ry - wy * rx
        out[0] += ey * rz - ez * ry + wy * vz - wz * vy
        out[1] += ez * rx - ex * rz + wz * vx - wx * vz
        out[2] += ex * ry - ey * rx + wx * vy - wy * vx


@njit(cache=True, inner=True, error_model="numpy")
def solve_symmetric(
    diagonal: tuple[float, float, float], lower: tuple[float, float, float], y: tuple[float, float, float]
) -> tuple[float, float, float]:  # pragma: no cover - compiled
    """Solve a symmetric positive definite 3x3 system by LDLᵀ.

    Args:
        diagonal: (a00, a11, a22).
        lower: (a10, a20, a21).
        y: Right-hand side.
    """
    (a00, a11, a22), (a01, a02, a12), (y0, y1, y2) = diagonal, lower, y
    l10, l20 = a01 / a00, a02 / a00
    d1 = a11 - l10 * a01
    l21 = (a12 - l20 * a01) / d1
    d2 = a22 - l20 * a02 - l21 * l21 * d1
    y1 -= l10 * y0
    y2 -= l20 * y0 + l21 * y1
    x2 = y2 / d2
    x1 = y1 / d1 - l21 * x2
    return y0 / a00 - l10 * x1 - l20 * x2, x1, x2


@njit(cache=True, inner=True, error_model="numpy")
def leg_solve(J: Array, b: Array, x: Array) -> None:  # pragma: no cover - compiled
    """Solve ``J x = b`` with the regularized inverse ``(JᵀJ + ε)⁻¹Jᵀ``, ε = 1e-10 m² (planner.md 5)."""
    solve_damped(J, b, REGULARIZATION, x)


@njit(cache=True, inner=True, error_model="numpy")
def solve_damped(J: Array, b: Array, damping: float, x: Array) -> None:  # pragma: no cover - compiled
    """Write the minimizer of ``|J x - b|² + damping |x|²`` into `x`, shape (3,) [rad].

    J has the shape (3, 3) [m], b the shape (3,) [m]; `damping` is in m².
    """
    a00 = J[0, 0] * J[0, 0] + J[1, 0] * J[1, 0] + J[2, 0] * J[2, 0] + damping
    a11 = J[0, 1] * J[0, 1] + J[1, 1] * J[1, 1] + J[2, 1] * J[2, 1] + damping
    a22 = J[0, 2] * J[0, 2] + J[1, 2] * J[1, 2] + J[2, 2] * J[2, 2] + damping
    a01 = J[0, 0] * J[0, 1] + J[1, 0] * J[1, 1] + J[2, 0] * J[2, 1]
    a02 = J[0, 0] * J[0, 2] + J[1, 0] * J[1, 2] + J[2, 0] * J[2, 2]
    a12 = J[0, 1] * J[0, 2] + J[1, 1] * J[1, 2] + J[2, 1] * J[2, 2]
    y0 = J[0, 0] * b[0] + J[1, 0] * b[1] + J[2, 0] * b[2]
    y1 = J[0, 1] * b[0] + J[1, 1] * b[1] + J[2, 1] * b[2]
    y2 = J[0, 2] * b[0] + J[1, 2] * b[1] + J[2, 2] * b[2]
    x[0], x[1], x[2] = solve_symmetric((a00, a11, a22), (a01, a02, a12), (y0, y1, y2))


@njit(cache=True, error_model="numpy")
def reach(
    zero: LegPose, target: Array, tolerance: float, q: Array, pose: LegPose, J: Array
) -> float:  # pragma: no cover - compiled
    """Compute joint angles of one leg that put its foot at `target`, by Newton's method from a first guess.

    Steps are limited to 0.3 rad, and the damping grows after an iteration without progress (Levenberg-Marquardt). If
    the target is out of reach, the leg therefore approaches the nearest pose over several calls, and its knee keeps its
    direction of bending.

    Args:
        zero: The leg at zero angles.
        target: Target of the foot centre, base axes, shape (3,) [m].
        tolerance: Distance at which the target counts as reached [m].
        q: In: first guess; out: the angles, shape (3,) [rad].
        pose: Out: the leg at `q`.
        J: Out: the Jacobian at `q`, shape (3, 3) [m].

    Returns:
        Remaining distance [m].
    """
    foot = pose.foot
    step, trial, miss = np.empty(3), np.empty(3), np.empty(3)
    place_leg(zero, q, pose)
    for k in range(3):
        miss[k] = target[k] - foot[k]
    remaining = math.sqrt(miss[0] ** 2 + miss[1] ** 2 + miss[2] ** 2)
    damping = REGULARIZATION
    leg_jacobian(pose, J)
    for _ in range(_IK_PASSES):
        if remaining <= tolerance:
            break
        solve_damped(J, miss, damping, step)
        longest = max(abs(step[0]), abs(step[1]), abs(step[2]))
        share = _IK_STEP / longest if longest > _IK_STEP else 1.0
        for k in range(3):
            trial[k] = q[k] + share * step[k]
        place_leg(zero, trial, pose)
        dx, dy, dz = target[0] - foot[0], target[1] - foot[1], target[2] - foot[2]
        distance = math.sqrt(dx * dx + dy * dy + dz * dz)
        if distance < remaining:
            assign(q, trial)
            remaining = distance
            miss[0], miss[1], miss[2] = dx, dy, dz
            damping = max(0.1 * damping, REGULARIZATION)
            leg_jacobian(pose, J)
        else:
            damping *= _IK_DAMPING
    place_leg(zero, q, pose)
    return remaining
