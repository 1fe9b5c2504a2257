"""The derivative of a step, compiled: the chain of `idcontrol.controllers.gradient` from the demand to the torques."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from idcontrol.controllers.gradient.choice import Chosen
from idcontrol.controllers.gradient.demand import (
    bound_slope,
    demand,
    friction_slope,
    held_slope,
    momentum,
    projection,
    target,
)
from idcontrol.controllers.gradient.equations import EXPLAINED, Columns, rows_transposed
from idcontrol.controllers.gradient.impulses import Goal, Optimum, no_optimum, raw_impulses, share, torque_unit
from idcontrol.controllers.gradient.motion import NO_SLIP, Motion, Moved, Roles, Sources, Yielding, motion
from idcontrol.controllers.gradient.site import NO_ERRORS
from idcontrol.dynamics.derivatives import skew, turn_by
from idcontrol.kernels.bound import Bound, bind
from idcontrol.kernels.jit import njit
from idcontrol.models.distribution import CIRCLE
from idcontrol.types import Array, Integers


class Solution(NamedTuple):
    """A solved step, and what its derivative needs in addition.

    Attributes:
        v_plus: Velocity at the end of the period, shape (m,).
        f: Impulses of the contacts, shape (3 n,) [N s].
        tau: Torques, shape (a,) [N m].
        chosen: The scheme's choice.
        b: Derivative of the joint velocities that tasks demand, shape (a, P); empty without tasks.
        task: Derivative of the misses ``y - A a`` of the task rows, shape (p, P); empty without tasks.
        error: Relative errors of the tasks' equations (`equations.errors`).
    """

    v_plus: Array
    f: Array
    tau: Array
    chosen: Chosen
    b: Array
    task: Array
    error: Array


class Limits(NamedTuple):
    """What bounds the active set of a step with n contacts, m velocities and p tracked joints.

    Attributes:
        law: Law of the contacts (`motion.contact_roles`).
        shares: True if stage II chose the impulses.
        determined: True if impulses of the contact model are a part of the solution.
        rigid: True if the contacts are rigid.
        v_tol: Slip up to which stage II counts a contact as at rest [m/s].
        roles: The roles.
        mu: Friction, shape (n,).
        cone: Edges of the cones of stage II, shape (n,).
        u: Velocities of the contacts relative to their targets, shape (3 n,) [m/s].
        D: Compliance of the contacts, shape (3 n,) [m/s per N s].
        vertex: Impulses of the contact model, shape (3 n,) [N s].
        kept: As `Chosen.kept`.
        J: Rows of the contacts, shape (3 n, m).
        stage: Stage II.
        edge: True if a contact is at the edge between two roles.
        jump: Smallest change of a velocity at which derivatives of the demand or of targets jump [m/s, rad/s].
    """

    law: int
    shares: bool
    determined: bool
    rigid: bool
    v_tol: float
    roles: Roles
    mu: Array
    cone: Integers
    u: Array
    D: Array
    vertex: Array
    kept: Array
    J: Array
    stage: Optimum
    edge: bool
    jump: float


class Slopes(NamedTuple):
    """Derivatives of a step, as users see them: forces in world axes, velocities in Pinocchio's layout.

    Attributes:
        identity: Identities of the contacts, shape (n,).
        tau: Derivative of the torques, shape (a, P).
        at: Columns of the variables.
        reference: Derivatives of `Columns.demand` by q, v, a, kp and kd of each joint's reference, shape (5, a).
        held: Derivatives of `Columns.held` by q and kp of each joint's reference, shape (2, a).
        friction: Derivative of the friction of motors by the reference velocities, shape (a,); empty without motors.
        away: Change of the joint velocities by the projection, shape (a,); empty without a projection.
        v_plus: Velocity at the end of the period, in the system's order and in the axes at its beginning, shape (m,).
        force: Forces, shape (n, 3) [N].
        force_slope: Derivative of the forces, shape (3 n, P).
        v_next: Velocity at the end of the period, shape (m,).
        v_slope: Derivative of `v_next`, shape (m, P).
        task: Derivative of the misses ``y - A a`` of the task rows, shape (p, P).
        kinds: Roles of the contacts (`motion.ROLES`), shape (n,).
        joints: 0 for a tracked joint, 1 for a tracked joint at a bound, 2 for a released joint, shape (a,).
        lag: Smallest lag of a released joint; inf if no joint is released [rad/s].
        room: Smallest distance of the impulse of a motor to its bound, of joints that are free [N m s].
        moved: Errors of the equations of the motion (`equations.errors`).
        error: Errors of all equations.
        finite: True if the derivatives of torques, forces and velocity are finite; `task` is not checked.
        limits: The `Limits`, bound.
    """

    identity: Integers
    tau: Array
    at: Columns
    reference: Array
    held: Array
    friction: Array
    away: Array
    v_plus: Array
    force: Array
    force_slope: Array
    v_next: Array
    v_slope: Array
    task: Array
    kinds: Integers
    joints: Integers
    lag: float
    room: float
    moved: Array
    error: Array
    finite: bool
    limits: Bound


@njit(cache=True, error_model="numpy")
def derive(bound: Bound, visited: Bound, joints: Bound, solved: Bound, solution: Bound) -> Slopes:
    """Return the derivative of a solved step.

    Args:
        bound: The `Machine` at the inputs of the step.
        visited: The `Site`.
        joints: The step with all joints tracked (`AssembledStep`).
        solved: The step that was solved last, maybe with released joints.
        solution: The `Solution`.
    """
    machine, site, step, known = bound.borrowed, visited.borrowed, solved.borrowed, solution.borrowed
    chosen, f, terms, h = known.chosen, known.f, site.terms, machine.h
    m, a, free, fixed, J = site.v.shape[0], known.tau.shape[0], step.w.free, step.w.fixed, terms.J
    (d, jump), task, b, wrong = target(bound, visited), known.task.copy(), known.b, known.error
    (wanted, slope, reference, clamp), away = demand(bound, visited), np.zeros(0)
    if b.shape[0] == 0:
        task = np.zeros((0, site.at.total))
        b, wrong, away = projection(bound, visited, joints, wanted, slope, d)
    least, most = bound_slope(bound, visited, joints)
    held, b_slope = np.full(a, 2), np.zeros((fixed.shape[0], site.at.total))
    bounded = _at_bounds(joints, solution, least, most)
    p = momentum(bound, visited, (known.v_plus - site.v) / h)
    for k in range(fixed.shape[0]):
        held[fixed[k] - (m - a)], b_slope[k] = 0, b[fixed[k] - (m - a)]
    for j in range(a):
        if held[j] == 2:
            p[m - a + j] -= bounded[j]
    yielding = chosen.yielding
    if chosen.rigid:
        yielding = Yielding(np.zeros(f.shape[0]), np.zeros((f.shape[0], site.at.total)))
    at = Motion(
        free, fixed, step.w.kappa, J @ step.w.v_free - step.target, step.target, step.cones.mu, known.v_plus, chosen.raw
    )
    goal, of_held = held_slope(bound, visited, joints)
    sources, limits = Sources(b_slope, d, p, yielding), (least, most)
    moved, f_slope, unexplained, shared, edge = _moved(visited, solved, solution, at, sources, goal, limits)
    for k in shared.bounded:
        held[fixed[k] - (m - a)] = 1
    out = _torque_slope(moved.p - rows_transposed(terms, f) - np.ascontiguousarray(J.T) @ f_slope, fixed, bounded)
    error = np.maximum(np.maximum(wrong, moved.error), unexplained)
    force, force_slope = world_forces(site.contacts.axes, site.rows.axes, f, f_slope)
    v_next, v_slope = turned(site.flyers, h, known.v_plus, moved.slope)
    back = np.argsort(machine.terms.order)
    s = (terms.M @ moved.v_plus + step.w.kappa)[fixed] - np.ascontiguousarray(J[:, fixed].T) @ f
    lag, room = _rooms(joints, solved, chosen.shares, shared.bounded, moved.v_plus, s)
    return Slopes(
        site.contacts.identity.copy(),
        out / h,
        site.at,
        reference,
        of_held,
        friction_slope(bound, visited),
        away,
        known.v_plus.copy(),
        force / h,
        force_slope / h,
        v_next[back],
        v_slope[back],
        task,
        moved.roles.kind,
        held,
        lag,
        room,
        moved.error,
        error,
        bool(np.isfinite(out.sum() + force_slope.sum() + v_slope.sum())),
        bind(_limits(solved, solution, J, yielding.D, moved, shared, edge, min(jump, clamp))),
    )


@njit(cache=True, inner=True, error_model="numpy")
def _torque_slope(pushed: Array, fixed: Integers, bounded: Array) -> Array:
    """Return the derivative of the motor impulses: `pushed` (m, P) at fixed joints, else `bounded` (a, P)."""
    out = bounded.copy()
    for k in fixed:
        out[k - (pushed.shape[0] - out.shape[0])] = pushed[k]
    return out


@njit(cache=True, inner=True, error_model="numpy")
def _moved(
    visited: Bound, solved: Bound, solution: Bound, at: Motion, sources: Sources, goal: Array,
    limits: tuple[Array, Array],
) -> tuple[Moved, Array, Array, Optimum, bool]:  # fmt: skip
    """Return the motion, the results of `_impulse_slope`, and True if a contact is at the edge between two roles.

    At rest, impulses on a face of their cone stay on it on one side only: where the contact slides along the face, or
    opens. If sticking does not explain the impulses, this side does. Arguments are as for `motion` and
    `_impulse_slope`.
    """
    known, terms = solution.borrowed, visited.borrowed.terms
    chosen = known.chosen
    moved = motion(terms, chosen.law, at, sources, False)
    f_slope, unexplained, shared = _impulse_slope(visited, solved, solution, moved, goal, limits)
    if not chosen.rigid or chosen.slides in (NO_SLIP, CIRCLE) or _explained(unexplained, moved.error):
        return moved, f_slope, unexplained, shared, False
    there = Motion(at.free, at.fixed, at.kappa, at.rest, at.target, at.mu, at.v_plus, known.f)
    other = motion(terms, chosen.slides, there, sources, True)
    f_other, missed, after = _impulse_slope(visited, solved, solution, other, goal, limits)
    if _explained(missed, other.error):
        return other, f_other, missed, after, True
    return moved, f_slope, unexplained, shared, False


@njit(cache=True, inner=True, error_model="numpy")
def _explained(first: Array, second: Array) -> bool:
    """True if errors of equations are small for configuration, velocity and demand."""
    return bool((np.maximum(first, second)[np.array([0, 2, 3])] <= EXPLAINED).all())


@njit(cache=True, inner=True, error_model="numpy")
def _at_bounds(joints: Bound, solution: Bound, least: Array, most: Array) -> Array:
    """Return the derivative of the bound that each motor's torque is closest to, shape (a, P) [N m s]."""
    bounds, known, h = joints.borrowed.bounds, solution.borrowed, joints.borrowed.h
    out = least.copy()
    for j in range(out.shape[0]):
        if h * known.tau[j] > 0.5 * (bounds.least[j] + bounds.most[j]):
            out[j] = most[j]
    return out


@njit(cache=True, inner=True, error_model="numpy")
def _impulse_slope(
    visited: Bound, solved: Bound, solution: Bound, moved: Moved, goal: Array, limits: tuple[Array, Array]
) -> tuple[Array, Array, Optimum]:
    """Return the derivative of the contact impulses, its errors (`equations.errors`), and stage II.

    Args:
        visited: The `Site`.
        solved: The step that was solved last.
        solution: The `Solution`.
        moved: The motion and its derivative.
        goal: Derivative of the impulses of internal forces, shape (a, P).
        limits: Derivatives of the smallest and largest motor impulses, shape (a, P) each.

    Returns:
        The derivative, shape (3 n, P); its errors; the optimality conditions of stage II, `no_optimum` without it.
    """
    step, known, terms = solved.borrowed, solution.borrowed, visited.borrowed.terms
    chosen, free, fixed, J = known.chosen, step.w.free, step.w.fixed, terms.J
    tracked = fixed - (terms.M.shape[0] - known.tau.shape[0])
    shared = no_optimum()
    f_slope, unexplained = moved.y_slope, NO_ERRORS.copy()
    if chosen.rigid and (chosen.adds or not chosen.shares):
        f_slope, unexplained = raw_impulses(terms, free, chosen.raw, moved, chosen.kept)
    if chosen.shares:
        goal = goal[tracked]
        if chosen.adds:
            across = np.ascontiguousarray(J[:, fixed].T)
            goal += moved.p[fixed] - rows_transposed(terms, chosen.raw)[fixed] - across @ f_slope
        typical, unit = torque_unit(visited, solved, bool(step.cones.weight.any()))
        stage = Goal(
            free, fixed, step.w.kappa, step.cones.mu, step.cones.weight, chosen.cone, known.f, chosen.reference, goal,
            step.bounds.least, step.bounds.most, limits[0][tracked], limits[1][tracked], typical, unit,
        )  # fmt: skip
        result = share(terms, stage, known.v_plus, moved.p)
        f_slope, unexplained, shared = result.slope, np.maximum(unexplained, result.error), result.at
    return f_slope, unexplained, shared


@njit(cache=True, error_model="numpy")
def world_forces(axes: Array, axes_slope: Array, f: Array, slope: Array) -> tuple[Array, Array]:
    """Return impulses in world axes, shape (n, 3), and their derivative, shape (3 n, P).

    Args:
        axes: Axes of the contacts, shape (n, 3, 3).
        axes_slope: Derivative of the axes by q and normals, shape (n, 3, 3, w).
        f: Impulses, shape (3 n,).
        slope: Derivative of f; its first w columns belong to q and normals.
    """
    n, m = axes.shape[0], axes_slope.shape[3]
    force, out = np.zeros((n, 3)), np.zeros_like(slope)
    for i in range(n):
        for x in range(3):
            for axis in range(3):
                along, y = axes[i, axis, x], f[axis * n + i]
                force[i, x] += y * along
                out[3 * i + x] += along * slope[axis * n + i]
                for k in range(m):
                    out[3 * i + x, k] += y * axes_slope[i, axis, x, k]
    return force, out


@njit(cache=True, error_model="numpy")
def turned(flyers: Integers, h: float, v_plus: Array, slope: Array) -> tuple[Array, Array]:
    """Return v⁺ in the final axes of free-flyers, as `System.advance` does, and its derivative."""
    v, out = v_plus.copy(), slope.copy()
    for rows in flyers:
        linear, angular = rows[:3], rows[3:]
        R, J = turn_by(h * v_plus[angular])
        R_T = np.ascontiguousarray(R.T)
        moved = R_T @ v_plus[linear]
        changed = R_T @ slope[linear] + skew(moved) @ J @ (h * slope[angular])
        for x in range(3):
            v[linear[x]], out[linear[x]] = moved[x], changed[x]
    return v, out


@njit(cache=True, inner=True, error_model="numpy")
def _limits(
    solved: Bound, solution: Bound, J: Array, D: Array, moved: Moved, stage: Optimum, edge: bool, jump: float
) -> Limits:
    """Return what bounds the active set; arguments as the attributes of `Limits`."""
    step, known = solved.borrowed, solution.borrowed
    chosen, u = known.chosen, J @ moved.v_plus - step.target
    return Limits(
        chosen.law, chosen.shares, chosen.adds or not chosen.shares, chosen.rigid, step.cones.v_tol, moved.roles,
        step.cones.mu.copy(), chosen.cone.copy(), u, D.copy(), chosen.raw.copy(), chosen.kept.copy(), J.copy(), stage,
        edge, jump,
    )  # fmt: skip


@njit(cache=True, inner=True, error_model="numpy")
def _rooms(
    joints: Bound, solved: Bound, shares: bool, bounded: Integers, v_plus: Array, s: Array
) -> tuple[float, float]:
    """Return the smallest lag of a released joint [rad/s] and the smallest distance of an impulse to its bound [N m s].

    Args:
        joints: The step with all joints tracked (`AssembledStep`).
        solved: The step that was solved last.
        shares: True if stage II chose the impulses.
        bounded: Indices of the tracked joints that a motor bound holds.
        v_plus: Velocity at the end of the period, shape (m,).
        s: Impulses of the tracked motors, shape (p,).
    """
    step, b, lag, room = solved.borrowed, joints.borrowed.b, np.inf, np.inf
    first = v_plus.shape[0] - b.shape[0]
    for k in range(s.shape[0]):
        if not shares or not (bounded == k).any():
            room = min(room, min(step.bounds.most[k] - s[k], s[k] - step.bounds.least[k]))
    for k in step.w.free[first:]:  # a released joint that no longer lags is tracked
        lag = min(lag, abs(b[k - first] - v_plus[k]))
    return lag, room
