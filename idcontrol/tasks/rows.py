r"""Rows of whole-body tasks: linear equations for the accelerations a with which tasks follow their references.

    A a = y,     y = s̈_ref + kp e + kd (ṡ_ref - ṡ) - Ȧ v

in which e is the position error of the task, ṡ its velocity, and ṡ_ref and s̈_ref are its reference velocity and
acceleration. As in a control step, ``a = (v⁺ - v) / h``: the axes of a base's linear velocity are fixed within the
step, and the drift ``Ȧ v`` refers to these axes (`idcontrol.dynamics.system`). The rows follow from the multibody terms
of the step:

- The rows of a frame come from the spatial Jacobian, the frame's velocity and drift from `Motion`. For a frame relative
  to another frame, rows, velocity and drift are differences between both bodies at the same point, in the axes of the
  other frame. The Coriolis acceleration is subtracted from the drift.
- The rows of the centre of mass come from the base's rows of M and c, which contain the robot's momentum and its rate:
  ``ẍ = R (M a + c)_linear / m + g`` (Orin, Goswami & Lee 2013, Centroidal dynamics, eqs. 27 to 40).
- The rows of the angular momentum about the centre of mass are ``k̇ = R (M a + c)_angular - r × R (M a + c)_linear``,
  with r from the base's origin to the centre of mass.
- The horizontal rows of a pendulum of height z are ``ẍ + k̇_y / (m z)`` and ``ÿ - k̇_x / (m z)``. They equal
  ``g / z (x - p)`` with the zero-moment point p, whatever the limbs do (Gong & Grizzle 2022, Zero dynamics, pendulum
  models, and angular momentum in feedback control of bipedal locomotion).
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from idcontrol.dynamics.system import Motion
from idcontrol.kernels.arena import Arena, matrix, vector
from idcontrol.kernels.jit import njit
from idcontrol.types import Array, Booleans, Integers

FRAME: Final = 0
"""A task on a frame: rows of its position, then of its orientation."""
CENTROID: Final = 1
"""A task on the centre of mass (linear rows) and on the angular momentum about it (angular rows)."""

WORLD: Final = 0
"""Velocities and accelerations at the world's origin, like Pinocchio's ``WORLD``; the world may be replaced by another
frame (`Targets.base`)."""
LOCAL_WORLD_ALIGNED: Final = 1
"""Velocities and accelerations at the frame's origin, in the world's axes."""
LOCAL: Final = 2
"""Velocities and accelerations at the frame's origin, in the frame's axes."""


class Targets(NamedTuple):
    """References and gains of k tasks with six rows each, linear rows first.

    Attributes:
        kind: `FRAME` or `CENTROID`, shape (k,).
        axes: Axes of a frame's errors, velocities, gains and weights, shape (k,); with `WORLD`, axes of errors, gains
            and weights are as in `LOCAL_WORLD_ALIGNED`.
        joint: Joint that carries the frame, shape (k,).
        offset: Origin of the frame in its joint, shape (k, 3) [m]. For a task on the centre of mass, (0, 0, z) with the
            height z of its pendulum, 0 without a pendulum.
        turn: Axes of the frame in its joint (columns), shape (k, 3, 3).
        base: Joint that carries the frame of reference, shape (k,); -1 is the world.
        base_offset: Origin of the frame of reference in its joint, shape (k, 3) [m].
        base_turn: Axes of the frame of reference in its joint (columns), shape (k, 3, 3).
        position: Reference position in the frame of reference, or of the centre of mass in the world, shape (k, 3) [m].
        rotation: Reference axes (columns) in the frame of reference, shape (k, 3, 3).
        velocity: Reference velocity [m/s, rad/s], or reference angular momentum [N m s], shape (k, 6).
        acceleration: Reference acceleration [m/s², rad/s²], or rate of the angular momentum [N m], shape (k, 6).
        kp: Stiffness, shape (k, 6) [1/s²].
        kd: Damping, shape (k, 6) [1/s].
        weight: Weight of each row, shape (k, 6): 0 omits the row, inf makes it strict.
        error: Overwritten with ``reference - actual`` of each row, shape (k, 6) [m, rad, or N m s of angular momentum].
    """

    kind: Integers
    axes: Integers
    joint: Integers
    offset: Array
    turn: Array
    base: Integers
    base_offset: Array
    base_turn: Array
    position: Array
    rotation: Array
    velocity: Array
    acceleration: Array
    kp: Array
    kd: Array
    weight: Array
    error: Array


class Placement(NamedTuple):
    """Positions and motion of a robot's joints, and gravity.

    Attributes:
        position: Origins of the joints in the world, shape (n_joints, 3) [m].
        rotation: Axes of the joints (columns), shape (n_joints, 3, 3).
        jacobian: `System.jacobian`, shape (6, m).
        support: `System.support`, shape (n_joints, m).
        motion: `System.motion`.
        gravity: Acceleration of gravity, shape (3,) [m/s²].
    """

    position: Array
    rotation: Array
    jacobian: Array
    support: Booleans
    motion: Motion
    gravity: Array


@njit(cache=True, inner=True, error_model="numpy")
def _cross(a: Array, b: Array, out: Array) -> None:
    """Add a × b to `out`, shapes (3,)."""
    out[0] += a[1] * b[2] - a[2] * b[1]
    out[1] += a[2] * b[0] - a[0] * b[2]
    out[2] += a[0] * b[1] - a[1] * b[0]


@njit(cache=True, inner=True, error_model="numpy")
def rotation_vector(goal: Array, actual: Array, out: Array, arena: Arena) -> None:
    """Write the rotation vector of ``goal actualᵀ``, shape (3,) [rad], with a length up to π.

    It is computed from the quaternion, whose largest entry is at least 1/2, so no angle is singular (Shepperd 1978).

    Args:
        goal: Rotation matrix, shape (3, 3).
        actual: Rotation matrix, shape (3, 3).
        out: Result, in the axes in which the columns of both matrices are expressed.
        arena: Arena for all arrays.
    """
    R = matrix(arena, 3, 3)
    for i in range(3):
        for j in range(3):
            R[i, j] = goal[i, 0] * actual[j, 0] + goal[i, 1] * actual[j, 1] + goal[i, 2] * actual[j, 2]
    trace = R[0, 0] + R[1, 1] + R[2, 2]
    largest, i = trace, 3
    for k in range(3):
        if R[k, k] > largest:
            largest, i = R[k, k], k
    if i == 3:
        w = 1.0 + trace
        out[0], out[1], out[2] = R[2, 1] - R[1, 2], R[0, 2] - R[2, 0], R[1, 0] - R[0, 1]
    else:
        j, k = (i + 1) % 3, (i + 2) % 3
        w = R[k, j] - R[j, k]
        out[i] = 1.0 + 2.0 * R[i, i] - trace
        out[j], out[k] = R[j, i] + R[i, j], R[k, i] + R[i, k]
    sine = np.sqrt(out[0] * out[0] + out[1] * out[1] + out[2] * out[2])
    sign = 1.0 if w >= 0.0 else -1.0
    factor = sign * (2.0 * np.arctan2(sine, abs(w)) / sine if sine > 0.0 else 0.0)
    for k in range(3):
        out[k] *= factor


@njit(cache=True, inner=True, error_model="numpy")
def place(at: Placement, joint: int, offset: Array, turn: Array, p: Array, R: Array) -> None:
    """Write origin (3,) and axes (3, 3) of a frame mounted on a joint, in the world."""
    base, turned = at.position[joint], at.rotation[joint]
    for x in range(3):
        p[x] = base[x]
        for k in range(3):
            p[x] += turned[x, k] * offset[k]
            R[x, k] = 0.0
            for o in range(3):
                R[x, k] += turned[x, o] * turn[o, k]


@njit(cache=True, inner=True, error_model="numpy")
def _add_motion(
    at: Placement, joint: int, sign: float, p: Array, A: Array, velocity: Array, drift: Array, arena: Arena
) -> None:
    """Add Jacobian (6, m), velocity (6,) and drift (6,) of a joint's body at point p (3,), multiplied by `sign`."""
    V, D, v, d = at.motion.velocity[joint], at.motion.drift[joint], vector(arena, 6), vector(arena, 6)
    for x in range(6):
        v[x], d[x] = V[x], D[x]
    _cross(V[3:], p, v)
    _cross(D[3:], p, d)
    _cross(V[3:], v, d)
    for x in range(6):
        velocity[x] += sign * v[x]
        drift[x] += sign * d[x]
    for k in range(A.shape[1]):
        if at.support[joint, k]:
            w0, w1, w2 = at.jacobian[3, k], at.jacobian[4, k], at.jacobian[5, k]
            A[0, k] += sign * (at.jacobian[0, k] + w1 * p[2] - w2 * p[1])
            A[1, k] += sign * (at.jacobian[1, k] + w2 * p[0] - w0 * p[2])
            A[2, k] += sign * (at.jacobian[2, k] + w0 * p[1] - w1 * p[0])
            A[3, k] += sign * w0
            A[4, k] += sign * w1
            A[5, k] += sign * w2


@njit(cache=True, inner=True, error_model="numpy")
def _frame(at: Placement, targets: Targets, i: int, A: Array, y: Array, arena: Arena) -> None:
    """Write the six rows of the frame task i into A (6, m) and y (6,); see the module."""
    joint, base, error = targets.joint[i], targets.base[i], targets.error[i]
    p, velocity, drift, R = vector(arena, 3), vector(arena, 6), vector(arena, 6), matrix(arena, 3, 3)
    place(at, joint, targets.offset[i], targets.turn[i], p, R)
    A[:], velocity[:], drift[:] = 0.0, 0.0, 0.0
    _add_motion(at, joint, 1.0, p, A, velocity, drift, arena)
    if base >= 0:
        o, Q, spin, m = vector(arena, 3), matrix(arena, 3, 3), at.motion.velocity[base, 3:], A.shape[1]
        place(at, base, targets.base_offset[i], targets.base_turn[i], o, Q)
        _add_motion(at, base, -1.0, p, A, velocity, drift, arena)
        _cross(velocity, spin, drift)  # Coriolis: -2 ω x v
        _cross(velocity, spin, drift)
        _cross(velocity[3:], spin, drift[3:])
        for x in range(3):
            p[x] -= o[x]
            _into_axes(Q, R[:, x])
        _into_axes(Q, p)
        for half in (0, 3):
            _into_axes(Q, velocity[half:])
            _into_axes(Q, drift[half:])
            for k in range(m):
                _into_axes(Q, A[half:, k])
    for x in range(3):
        error[x] = targets.position[i, x] - p[x]
    rotation_vector(targets.rotation[i], R, error[3:], arena)
    goal, change = vector(arena, 6), vector(arena, 6)
    for x in range(6):
        goal[x], change[x] = targets.velocity[i, x], targets.acceleration[i, x]
    if targets.axes[i] == WORLD:
        _cross(goal[3:], p, goal)
        _cross(change[3:], p, change)
        _cross(goal[3:], goal, change)
    if targets.axes[i] == LOCAL:
        for half in (0, 3):
            _into_axes(R, velocity[half:])
            _into_axes(R, drift[half:])
            _into_axes(R, error[half:])
            for k in range(A.shape[1]):
                _into_axes(R, A[half:, k])
    for x in range(6):
        y[x] = change[x] + targets.kp[i, x] * error[x] + targets.kd[i, x] * (goal[x] - velocity[x]) - drift[x]


@njit(cache=True, inner=True, error_model="numpy")
def _into_axes(R: Array, x: Array) -> None:
    """Overwrite the first three entries of x with Rᵀx."""
    a, b, c = x[0], x[1], x[2]
    for k in range(3):
        x[k] = R[0, k] * a + R[1, k] * b + R[2, k] * c


@njit(cache=True, inner=True, error_model="numpy")
def _centroid(
    M: Array, bias: Array, v: Array, at: Placement, targets: Targets, i: int, A: Array, y: Array, arena: Arena
) -> None:
    """Write the six rows of the centroid task i into A (6, m) and y (6,); see the module."""
    R, m = at.rotation[1], M.shape[0]
    mass, r, drift, error = M[0, 0], vector(arena, 3), vector(arena, 6), targets.error[i]
    centre = (M[5, 1] / mass, M[3, 2] / mass, M[4, 0] / mass)
    for x in range(3):
        r[x] = R[x, 0] * centre[0] + R[x, 1] * centre[1] + R[x, 2] * centre[2]
        error[x] = targets.position[i, x] - at.position[1, x] - r[x]
    for half in (0, 3):
        for x in range(3):
            drift[half + x] = R[x, 0] * bias[half] + R[x, 1] * bias[half + 1] + R[x, 2] * bias[half + 2]
            for k in range(m):
                A[half + x, k] = R[x, 0] * M[half, k] + R[x, 1] * M[half + 1, k] + R[x, 2] * M[half + 2, k]
    for x in range(3):
        y1, y2 = (x + 1) % 3, (x + 2) % 3
        drift[3 + x] -= r[y1] * drift[y2] - r[y2] * drift[y1]
        for k in range(m):
            A[3 + x, k] -= r[y1] * A[y2, k] - r[y2] * A[y1, k]
    for x in range(3):
        drift[x] = drift[x] / mass + at.gravity[x]
        for k in range(m):
            A[x, k] /= mass
    if targets.offset[i, 2] > 0.0:
        share = 1.0 / (mass * targets.offset[i, 2])
        for x, turning, sign in ((0, 4, share), (1, 3, -share)):
            drift[x] += sign * drift[turning]
            for k in range(m):
                A[x, k] += sign * A[turning, k]
    for x in range(6):
        now = 0.0
        for k in range(m):
            now += A[x, k] * v[k]
        if x >= 3:
            error[x] = targets.velocity[i, x] - now
        change = targets.acceleration[i, x] + targets.kp[i, x] * error[x]
        y[x] = change + targets.kd[i, x] * (targets.velocity[i, x] - now) - drift[x]


@njit(cache=True, inner=True, error_model="numpy")
def task_rows(
    M: Array, bias: Array, v: Array, at: Placement, targets: Targets, arena: Arena
) -> tuple[Array, Array, Array]:
    """Compute the rows with a positive weight, of all tasks.

    Args:
        M: Inertia, shape (m, m).
        bias: c of ``M a + c = Pᵀτ + Jᵀf``, shape (m,).
        v: Velocity in the system's order, shape (m,).
        at: Placement of the robot.
        targets: The tasks; their errors are overwritten.
        arena: Arena for all arrays.

    Returns:
        Rows A, shape (p, m), constants y, shape (p,), and the weight of each row, shape (p,).
    """
    m, tasks = M.shape[0], targets.kind.shape[0]
    A, y, weight = matrix(arena, 6 * tasks, m), vector(arena, 6 * tasks), vector(arena, 6 * tasks)
    p = 0
    for i in range(tasks):
        if targets.kind[i] == FRAME:
            _frame(at, targets, i, A[p : p + 6], y[p:], arena)
        else:
            _centroid(M, bias, v, at, targets, i, A[p:], y[p:], arena)
        first = p
        for x in range(6):
            if targets.weight[i, x] > 0.0:
                y[p], weight[p] = y[first + x], targets.weight[i, x]
                for k in range(m if p < first + x else 0):
                    A[p, k] = A[first + x, k]
                p += 1
    return A[:p], y[:p], weight[:p]
