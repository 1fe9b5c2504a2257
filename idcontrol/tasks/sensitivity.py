"""Derivatives of the rows of whole-body tasks (`idcontrol.tasks.rows`) with respect to configuration and velocity.

Tasks relative to another frame (`Targets.base`) are not supported.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import pinocchio as pin

from idcontrol.contact.sensitivity import acceleration_slope
from idcontrol.dynamics.derivatives import MotionDerivatives, inertia_times, skew
from idcontrol.dynamics.system import System
from idcontrol.tasks.rows import CENTROID, FRAME, LOCAL, WORLD, Placement, Targets
from idcontrol.types import Array, Booleans


class Body(NamedTuple):
    """A moving robot and the derivatives of its motion; m velocities.

    Attributes:
        system: The robot, updated.
        at: Placement of the robot.
        motion: Derivatives of the robot's motion.
        v: Velocity, shape (m,).
        a: Acceleration, shape (m,).
        force: ``M a + c``, shape (m,).
        force_q: Derivative of `force` by q at constant a, shape (m, m).
        force_v: Derivative of `force` by v at constant a, shape (m, m).
    """

    system: System
    at: Placement
    motion: MotionDerivatives
    v: Array
    a: Array
    force: Array
    force_q: Array
    force_v: Array


def miss_slopes(body: Body, targets: Targets) -> tuple[Array, Array]:
    """Return the derivatives of ``y - A a`` by q and by v at constant a, for all rows with weight, shapes (p, m)."""
    each = [_MISSES[int(kind)](body, targets, i) for i, kind in enumerate(targets.kind)]
    used = targets.weight.ravel() > 0.0
    by_q, by_v = (np.concatenate([one[part] for one in each])[used] for part in (0, 1))
    return by_q, by_v


def transposed_slope(body: Body, targets: Targets, s: Array) -> Array:
    """Return the derivative of ``Aᵀ s`` by q at constant s (p,), shape (m, m)."""
    pulls, out = np.zeros(targets.weight.size), np.zeros((body.v.size, body.v.size))
    pulls[targets.weight.ravel() > 0.0] = s
    for i, kind in enumerate(targets.kind):
        out += _TRANSPOSED[int(kind)](body, targets, i, pulls[6 * i : 6 * i + 6])
    return out


class _Placed(NamedTuple):
    """The frame of a task in the world, and derivatives by q.

    Attributes:
        moves: True if a velocity moves the frame, shape (m,).
        p: Position, shape (3,) [m].
        R: Axes (columns), shape (3, 3).
        point: Derivative of p, shape (3, m).
        turns: Derivative of the orientation, shape (3, m).
        column: Derivative of the Jacobian of the body that carries the frame, shape (6, m, m).
    """

    moves: Booleans
    p: Array
    R: Array
    point: Array
    turns: Array
    column: Array


def _placed(body: Body, targets: Targets, i: int) -> _Placed:
    joint, at, J = int(targets.joint[i]), body.at, body.system.jacobian
    moves, p = at.support[joint], at.position[joint] + at.rotation[joint] @ targets.offset[i]
    point, turns = (J[:3] - skew(p) @ J[3:]) * moves, J[3:] * moves
    return _Placed(moves, p, at.rotation[joint] @ targets.turn[i], point, turns, body.motion.column_q * moves[:, None])


def _frame_miss(body: Body, targets: Targets, i: int) -> tuple[Array, Array]:
    """Return the derivatives of the misses of a frame task (`rows._frame`)."""
    joint, at, (moves, p, R, point, turns, column) = int(targets.joint[i]), body.at, _placed(body, targets, i)
    columns, still = body.system.jacobian * moves, np.zeros_like(point)
    V, dV = at.motion.velocity[joint], body.motion.velocity_q[joint]
    A, dA_v = at.motion.drift[joint] + columns @ body.a, body.motion.drift_v[joint]
    dA_q = body.motion.drift_q[joint] + np.einsum("xkl,k->xl", column, body.a)
    acceleration_q = np.vstack((acceleration_slope((V, A), (dV, dA_q), (p, p), (point, point)), dA_q[3:]))
    acceleration_v = np.vstack((acceleration_slope((V, A), (columns, dA_v), (p, p), (still, still)), dA_v[3:]))
    velocity_q = np.vstack((dV[:3] - skew(p) @ dV[3:] + skew(V[3:]) @ point, dV[3:]))
    velocity_v = np.vstack((point, turns))
    error = np.concatenate((targets.position[i] - p, pin.log3(targets.rotation[i] @ R.T)))
    error_q = np.vstack((-point, -pin.Jlog3(pin.exp3(error[3:])) @ turns))
    goal_q, change_q = np.zeros_like(error_q), np.zeros_like(error_q)
    if targets.axes[i] == WORLD:
        turning, rate = skew(targets.velocity[i, 3:]), skew(targets.acceleration[i, 3:])
        goal_q[:3] = turning @ point
        change_q[:3] = rate @ point + turning @ goal_q[:3]
    if targets.axes[i] == LOCAL:
        speed = V[:3] + np.cross(V[3:], p)
        linear = A[:3] + np.cross(A[3:], p) + np.cross(V[3:], speed)
        acceleration_q = _turned(R, acceleration_q, np.concatenate((linear, A[3:])), turns)
        velocity_q = _turned(R, velocity_q, np.concatenate((speed, V[3:])), turns)
        error_q = _turned(R, error_q, error, turns)
        acceleration_v, velocity_v = (_turned(R, slope, np.zeros(6), turns) for slope in (acceleration_v, velocity_v))
    kp, kd = targets.kp[i][:, None], targets.kd[i][:, None]
    by_q = change_q + kp * error_q + kd * (goal_q - velocity_q) - acceleration_q
    return by_q, -kd * velocity_v - acceleration_v


def _turned(R: Array, slope: Array, x: Array, turns: Array) -> Array:
    """Return the derivative of both halves of x (6,) in axes R, from their derivative (6, m) in world axes."""
    return np.vstack([R.T @ (slope[half] + skew(x[half]) @ turns) for half in (slice(0, 3), slice(3, 6))])


def _frame_transposed(body: Body, targets: Targets, i: int, s: Array) -> Array:
    """Return the derivative of ``Aᵀ s`` of a frame task, shape (m, m)."""
    at = _placed(body, targets, i)
    pull, turn = s[:3], s[3:]
    out = np.zeros((body.v.size, body.v.size))
    if targets.axes[i] == LOCAL:
        pull, turn = at.R @ pull, at.R @ turn
        out -= at.point.T @ skew(pull) @ at.turns + at.turns.T @ skew(turn) @ at.turns
    # pull · (J_linear + J_angular × p) + turn · J_angular
    out += np.einsum("x,xkl->kl", np.concatenate((pull, turn + np.cross(at.p, pull))), at.column)
    return out - at.turns.T @ skew(pull) @ at.point


class _Centred(NamedTuple):
    """The centre of mass relative to the base, and derivatives by q.

    Attributes:
        R: Axes of the base (columns), shape (3, 3).
        mass: Mass of the robot [kg].
        r: Vector from the base's origin to the centre of mass, world axes, shape (3,) [m].
        centre: Derivative of the centre of mass, shape (3, m).
        arm: Derivative of r, shape (3, m).
        turns: Derivative of the orientation of the base, shape (3, m).
    """

    R: Array
    mass: float
    r: Array
    centre: Array
    arm: Array
    turns: Array

    def about(self, x: Array, slope: Array, *, turns: bool) -> Array:
        """Return the derivative of ``R x_linear / mass`` and ``R x_angular - r × R x_linear``, shape (6, m).

        Args:
            x: Vector whose first six entries are in the axes of the base, shape (m,).
            slope: Derivative of x, shape (m, m).
            turns: True for a derivative by q, with which R and r change, too.
        """
        linear, angular = self.R @ slope[:3], self.R @ slope[3:6]
        if turns:
            linear = linear - skew(self.R @ x[:3]) @ self.turns
            angular = angular - skew(self.R @ x[3:6]) @ self.turns + skew(self.R @ x[:3]) @ self.arm
        return np.vstack((linear / self.mass, angular - skew(self.r) @ linear))


def _centred(body: Body) -> _Centred:
    R, M = body.at.rotation[1], body.system.M
    centre, base = R @ M[:3] / M[0, 0], np.zeros((3, M.shape[0]))
    base[:, :3] = R
    r = R @ np.array([M[5, 1], M[3, 2], M[4, 0]]) / M[0, 0]
    return _Centred(R, M[0, 0], r, centre, centre - base, body.system.jacobian[3:] * body.at.support[1])


def _pendulum(targets: Targets, i: int, mass: float) -> Array:
    """Return the matrix that turns rows of centre and momentum into the rows of a pendulum, shape (6, 6)."""
    mix, height = np.eye(6), targets.offset[i, 2]
    if height > 0.0:
        mix[0, 4], mix[1, 3] = 1.0 / (mass * height), -1.0 / (mass * height)
    return mix


def _centroid_miss(body: Body, targets: Targets, i: int) -> tuple[Array, Array]:
    """Return the derivatives by q and v of the misses of a task on centre of mass and momentum (`rows._centroid`)."""
    M, at = body.system.M, _centred(body)
    mix = _pendulum(targets, i, at.mass)
    acceleration_q = mix @ at.about(body.force, body.force_q, turns=True)
    acceleration_v = mix @ at.about(body.force, body.force_v, turns=False)
    velocity_q = mix @ at.about(M @ body.v, inertia_times(body.motion.tree, body.v), turns=True)
    velocity_v = mix @ at.about(body.v, M, turns=False)
    error_q = np.vstack((-at.centre, -velocity_q[3:]))
    error_v = np.vstack((np.zeros_like(at.centre), -velocity_v[3:]))
    kp, kd = targets.kp[i][:, None], targets.kd[i][:, None]
    return kp * error_q - kd * velocity_q - acceleration_q, kp * error_v - kd * velocity_v - acceleration_v


def _centroid_transposed(body: Body, targets: Targets, i: int, s: Array) -> Array:
    """Return the derivative of ``Aᵀ s`` of a task on centre of mass and angular momentum, shape (m, m)."""
    at, x = _centred(body), np.zeros(body.v.size)
    s = _pendulum(targets, i, at.mass).T @ s
    pull, turn = s[:3] / at.mass + np.cross(at.r, s[3:]), s[3:]
    x[:3], x[3:6] = at.R.T @ pull, at.R.T @ turn
    moved = np.vstack((at.R.T @ (skew(pull) @ at.turns - skew(turn) @ at.arm), at.R.T @ skew(turn) @ at.turns))
    return inertia_times(body.motion.tree, x) + body.system.M[:, :6] @ moved


_MISSES: Final = {FRAME: _frame_miss, CENTROID: _centroid_miss}
_TRANSPOSED: Final = {FRAME: _frame_transposed, CENTROID: _centroid_transposed}
