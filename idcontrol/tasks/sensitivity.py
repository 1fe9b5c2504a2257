"""Derivatives of the rows of whole-body tasks (`idcontrol.tasks.rows`) with respect to configuration and velocity.

Tasks relative to another frame (`Targets.base`) are not supported.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from idcontrol.contact.sensitivity import acceleration_slope
from idcontrol.dynamics.derivatives import MotionDerivatives, inertia_times, skew, turn_by
from idcontrol.kernels.arena import HEAP
from idcontrol.kernels.bound import Bound
from idcontrol.kernels.jit import njit
from idcontrol.tasks.rows import FRAME, LOCAL, WORLD, Placement, Targets, place, rotation_vector
from idcontrol.types import Array, Booleans


class Body(NamedTuple):
    """A moving robot with m velocities, the derivatives of its motion, and its tasks.

    Attributes:
        at: Placement of the robot.
        targets: The tasks.
        motion: Derivatives of the robot's motion.
        M: Inertia, shape (m, m).
        v: Velocity, shape (m,).
        a: Acceleration, shape (m,).
        force: ``M a + c``, shape (m,).
        force_q: Derivative of `force` by q at constant a, shape (m, m).
        force_v: Derivative of `force` by v at constant a, shape (m, m).
    """

    at: Placement
    targets: Targets
    motion: MotionDerivatives
    M: Array
    v: Array
    a: Array
    force: Array
    force_q: Array
    force_v: Array


@njit(cache=True, inner=True, error_model="numpy")
def miss_slopes(bound: Bound) -> tuple[Array, Array]:
    """Return the derivatives of ``y - A a`` by q and by v at constant a, for all rows with weight, shapes (p, m).

    `bound` is a `Body`.
    """
    targets, m = bound.borrowed.targets, bound.borrowed.v.shape[0]
    by_q, by_v, p = np.zeros((targets.weight.size, m)), np.zeros((targets.weight.size, m)), 0
    for i in range(targets.kind.shape[0]):
        of_q, of_v = _frame_miss(bound, i) if targets.kind[i] == FRAME else _centroid_miss(bound, i)
        for x in range(6):
            if targets.weight[i, x] > 0.0:
                by_q[p], by_v[p] = of_q[x], of_v[x]
                p += 1
    return by_q[:p].copy(), by_v[:p].copy()


@njit(cache=True, inner=True, error_model="numpy")
def transposed_slope(bound: Bound, s: Array) -> Array:
    """Return the derivative of ``Aᵀ s`` by q at constant s (p,), shape (m, m); `bound` is a `Body`."""
    targets, m, p = bound.borrowed.targets, bound.borrowed.v.shape[0], 0
    out, pull = np.zeros((m, m)), np.zeros(6)
    for i in range(targets.kind.shape[0]):
        for x in range(6):
            pull[x] = 0.0
            if targets.weight[i, x] > 0.0:
                pull[x] = s[p]
                p += 1
        out += _frame_transposed(bound, i, pull) if targets.kind[i] == FRAME else _centroid_transposed(bound, i, pull)
    return out


class _Placed(NamedTuple):
    """The frame of a task in the world, and derivatives by q.

    Attributes:
        moves: True for each velocity that moves the frame, shape (m,).
        p: Position, shape (3,) [m].
        R: Axes (columns), shape (3, 3).
        columns: Jacobian of the body that carries the frame, at the world's origin, shape (6, m).
        point: Derivative of p, shape (3, m).
        turns: Derivative of the orientation, shape (3, m).
    """

    moves: Booleans
    p: Array
    R: Array
    columns: Array
    point: Array
    turns: Array


@njit(cache=True, inner=True, error_model="numpy")
def _placed(bound: Bound, i: int) -> _Placed:
    """Place the frame of task i."""
    at, targets = bound.borrowed.at, bound.borrowed.targets
    joint, p, R = targets.joint[i], np.zeros(3), np.zeros((3, 3))
    place(at, joint, targets.offset[i], targets.turn[i], p, R)
    moves = at.support[joint].copy()
    columns = at.jacobian * moves
    turns = columns[3:].copy()
    return _Placed(moves, p, R, columns, columns[:3] - skew(p) @ turns, turns)


@njit(cache=True, inner=True, error_model="numpy")
def _changed(column: Array, moves: Booleans, x: Array, out: Array) -> None:
    """Add the derivative by q of ``J x`` to `out` (6, m); `column` has the derivatives of J's columns, (6, m, m)."""
    for y in range(6):
        for k in range(x.shape[0]):
            if moves[k]:
                out[y] += x[k] * column[y, k]


@njit(cache=True, inner=True, error_model="numpy")
def _frame_miss(bound: Bound, i: int) -> tuple[Array, Array]:
    """Return the derivatives of ``y - A a`` of the frame task i by q and by v, shapes (6, m)."""
    body, (moves, p, R, columns, point, turns) = bound.borrowed, _placed(bound, i)
    at, targets, motion = body.at, body.targets, body.motion
    joint, m, still = targets.joint[i], body.v.shape[0], np.zeros_like(point)
    V, dV = at.motion.velocity[joint].copy(), motion.velocity_q[joint].copy()
    A, dA_q, dA_v = at.motion.drift[joint] + columns @ body.a, motion.drift_q[joint].copy(), motion.drift_v[joint]
    _changed(motion.column_q, moves, body.a, dA_q)
    acceleration_q, acceleration_v = np.zeros((6, m)), np.zeros((6, m))
    acceleration_q[:3], acceleration_q[3:] = acceleration_slope((V, A), (dV, dA_q), (p, p), (point, point)), dA_q[3:]
    acceleration_v[:3] = acceleration_slope((V, A), (columns, dA_v.copy()), (p, p), (still, still))
    acceleration_v[3:] = dA_v[3:]
    velocity_q, velocity_v, error_q = dV.copy(), np.zeros((6, m)), np.zeros((6, m))
    velocity_q[:3] += skew(V[3:]) @ point - skew(p) @ dV[3:].copy()
    velocity_v[:3], velocity_v[3:] = point, turns
    error, goal_q, change_q = np.zeros(6), np.zeros((6, m)), np.zeros((6, m))
    error[:3] = targets.position[i] - p
    rotation_vector(targets.rotation[i], R, error[3:], HEAP)
    error_q[:3], error_q[3:] = -point, -np.linalg.solve(turn_by(error[3:].copy())[1], turns)
    if targets.axes[i] == WORLD:
        turning, rate = skew(targets.velocity[i, 3:]), skew(targets.acceleration[i, 3:])
        goal_q[:3] = turning @ point
        change_q[:3] = rate @ point + turning @ (turning @ point)
    if targets.axes[i] == LOCAL:
        speed, acceleration, none = V.copy(), A.copy(), np.zeros(6)
        speed[:3] += skew(V[3:]) @ p
        acceleration[:3] += skew(A[3:]) @ p + skew(V[3:]) @ speed[:3]
        acceleration_q, velocity_q = (
            _turned(R, acceleration_q, acceleration, turns),
            _turned(R, velocity_q, speed, turns),
        )
        acceleration_v, velocity_v = _turned(R, acceleration_v, none, turns), _turned(R, velocity_v, none, turns)
        error_q = _turned(R, error_q, error, turns)
    kp, kd = targets.kp[i].copy().reshape(6, 1), targets.kd[i].copy().reshape(6, 1)
    by_q = change_q + kp * error_q + kd * (goal_q - velocity_q) - acceleration_q
    return by_q, -kd * velocity_v - acceleration_v


@njit(cache=True, inner=True, error_model="numpy")
def _turned(R: Array, slope: Array, x: Array, turns: Array) -> Array:
    """Return the derivative (6, m) of ``Rᵀ x`` for both halves of x (6,).

    It follows from the derivatives `slope` (6, m) of x, and `turns` (3, m) of the orientation R.
    """
    out, R_T = slope.copy(), np.ascontiguousarray(R.T)
    out[:3] = R_T @ (slope[:3] + skew(x[:3]) @ turns)
    out[3:] = R_T @ (slope[3:] + skew(x[3:]) @ turns)
    return out


@njit(cache=True, inner=True, error_model="numpy")
def _frame_transposed(bound: Bound, i: int, s: Array) -> Array:
    """Return the derivative by q of ``Aᵀ s`` of a frame task, shape (m, m)."""
    body, (moves, p, R, _, point, turns) = bound.borrowed, _placed(bound, i)
    m, column = body.v.shape[0], body.motion.column_q
    pull, turn, out = s[:3].copy(), s[3:].copy(), np.zeros((m, m))
    point_T, turns_T = np.ascontiguousarray(point.T), np.ascontiguousarray(turns.T)
    if body.targets.axes[i] == LOCAL:
        pull, turn = R @ pull, R @ turn
        out -= point_T @ (skew(pull) @ turns) + turns_T @ (skew(turn) @ turns)
    # pull · (J_linear + J_angular × p) + turn · J_angular
    turn = turn + skew(p) @ pull
    for k in range(m):
        if moves[k]:
            for x in range(3):
                out[k] += pull[x] * column[x, k] + turn[x] * column[3 + x, k]
    return out - turns_T @ (skew(pull) @ point)


class _Centred(NamedTuple):
    """The centre of mass relative to the base, and derivatives by q.

    Attributes:
        R: Axes of the base (columns), shape (3, 3).
        mass: Mass of the robot [kg].
        r: Vector from the base's origin to the centre of mass, world axes, shape (3,) [m].
        centre: Derivative of the centre of mass, shape (3, m).
        arm: Derivative of r, shape (3, m).
        turns: Derivative of the orientation of the base, shape (3, m).
        mix: Matrix that turns rows of centre and momentum into the rows of the task's pendulum, shape (6, 6).
    """

    R: Array
    mass: float
    r: Array
    centre: Array
    arm: Array
    turns: Array
    mix: Array


@njit(cache=True, inner=True, error_model="numpy")
def _centred(bound: Bound, i: int) -> _Centred:
    """Return the centre of mass with its derivatives, and the pendulum's matrix `mix` of task i."""
    body = bound.borrowed
    M, R = body.M, body.at.rotation[1].copy()
    mass, mix, height = M[0, 0], np.eye(6), body.targets.offset[i, 2]
    centre = R @ M[:3] / mass
    arm = centre.copy()
    arm[:, :3] -= R
    r = R @ np.array((M[5, 1], M[3, 2], M[4, 0])) / mass
    if height > 0.0:
        mix[0, 4], mix[1, 3] = 1.0 / (mass * height), -1.0 / (mass * height)
    return _Centred(R, mass, r, centre, arm, body.at.jacobian[3:] * body.at.support[1], mix)


@njit(cache=True, inner=True, error_model="numpy")
def _about(at: _Centred, x: Array, slope: Array, turns: bool) -> Array:
    """Return the derivative of ``R x_linear / mass`` and ``R x_angular - r × R x_linear``, shape (6, m).

    Both together are multiplied by `_Centred.mix`.

    Args:
        at: The centre of mass.
        x: Vector whose first six entries are in the axes of the base, shape (m,).
        slope: Derivative of x, shape (m, m).
        turns: True for a derivative by q, with which R and r change, too.
    """
    out = np.zeros((6, slope.shape[1]))
    linear, angular = at.R @ slope[:3], at.R @ slope[3:6]
    if turns:
        linear -= skew(at.R @ x[:3]) @ at.turns
        angular += skew(at.R @ x[:3]) @ at.arm - skew(at.R @ x[3:6]) @ at.turns
    out[:3], out[3:] = linear / at.mass, angular - skew(at.r) @ linear
    return at.mix @ out


@njit(cache=True, inner=True, error_model="numpy")
def _centroid_miss(bound: Bound, i: int) -> tuple[Array, Array]:
    """Return the derivatives by q and v of ``y - A a`` of a task on centre of mass and momentum, shapes (6, m)."""
    body, at, targets = bound.borrowed, _centred(bound, i), bound.borrowed.targets
    acceleration_q = _about(at, body.force, body.force_q, True)
    acceleration_v = _about(at, body.force, body.force_v, False)
    velocity_q = _about(at, body.M @ body.v, inertia_times(body.motion.tree, body.v), True)
    velocity_v = _about(at, body.v, body.M, False)
    error_q, error_v = -velocity_q, -velocity_v
    error_q[:3], error_v[:3] = -at.centre, 0.0
    kp, kd = targets.kp[i].copy().reshape(6, 1), targets.kd[i].copy().reshape(6, 1)
    return kp * error_q - kd * velocity_q - acceleration_q, kp * error_v - kd * velocity_v - acceleration_v


@njit(cache=True, inner=True, error_model="numpy")
def _centroid_transposed(bound: Bound, i: int, s: Array) -> Array:
    """Return the derivative by q of ``Aᵀ s`` of a task on centre of mass and angular momentum, shape (m, m)."""
    body, at = bound.borrowed, _centred(bound, i)
    m, R_T = body.v.shape[0], np.ascontiguousarray(at.R.T)
    s = np.ascontiguousarray(at.mix.T) @ s
    x, moved, turn = np.zeros(m), np.zeros((6, m)), s[3:].copy()
    pull = s[:3] / at.mass + skew(at.r) @ turn
    x[:3], x[3:6] = R_T @ pull, R_T @ turn
    moved[:3] = R_T @ (skew(pull) @ at.turns - skew(turn) @ at.arm)
    moved[3:] = R_T @ (skew(turn) @ at.turns)
    return inertia_times(body.motion.tree, x) + body.M[:, :6].copy() @ moved
