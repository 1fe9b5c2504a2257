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
from idcontrol.controllers.gradient.equations import EXPLAINED, Columns, fit, rows_transposed
from idcontrol.controllers.gradient.impulses import Goal, Optimum, faces, no_optimum, raw_impulses, share, torque_unit
from idcontrol.controllers.gradient.motion import NO_SLIP, PART, SLIDE, Motion, Moved, Roles, Sources, Yielding, motion
from idcontrol.controllers.gradient.site import NO_ERRORS
from idcontrol.dynamics.derivatives import skew, turn_by
from idcontrol.kernels.bound import Bound, bind
from idcontrol.kernels.jit import njit
from idcontrol.models.distribution import CIRCLE, COULOMB, DISSIPATION
from idcontrol.models.reduced import ALL_EDGES
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
        distances: Distances of impulses [N s], speeds [m/s] and motor impulses [N m s] to the next change, shape (3,).
        moved: Errors of the equations of the motion (`equations.errors`).
        error: Errors of all equations.
        finite: True if the derivatives of torques, forces and velocity are finite; `task` is not checked.
        limited: True if a contact force of stage II lies on a face of its cone.
        limits: Arguments of `impulses.smallest_multiplier`, bound; meaningless unless `limited`.
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
    distances: Array
    moved: Array
    error: Array
    finite: bool
    limited: bool
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
    d, task, b, wrong = target(bound, visited), known.task.copy(), known.b, known.error
    (wanted, slope, reference), away = demand(bound, visited), np.zeros(0)
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
    distances = _distances(visited, joints, solved, solution, moved, shared)
    if edge:
        distances[0] = 0.0
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
        distances,
        moved.error,
        error,
        bool(np.isfinite(out.sum() + force_slope.sum() + v_slope.sum())),
        chosen.shares and shared.faces.owner.shape[0] < f.shape[0],
        bind((J.copy(), chosen.cone.copy(), step.cones.mu.copy(), shared)),
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
def _distances(visited: Bound, joints: Bound, solved: Bound, solution: Bound, moved: Moved, shared: Optimum) -> Array:
    """Return `Slopes.distances`."""
    site, step, known = visited.borrowed, solved.borrowed, solution.borrowed
    chosen, fixed, b = known.chosen, step.w.fixed, joints.borrowed.b
    determined = chosen.adds or not chosen.shares  # otherwise stage II alone chooses the forces
    u = site.terms.J @ moved.v_plus - step.target
    room = np.inf
    vertex = chosen.raw if determined else np.zeros(0)
    least, speed = distances(chosen.law, moved.roles, step.cones.mu, u, vertex, chosen.kept, step.cones.v_tol)
    s = (site.terms.M @ moved.v_plus + step.w.kappa)[fixed] - np.ascontiguousarray(site.terms.J[:, fixed].T) @ known.f
    for k in range(fixed.shape[0]):
        if not chosen.shares or not (shared.bounded == k).any():
            room = min(room, min(step.bounds.most[k] - s[k], s[k] - step.bounds.least[k]))
    for k in step.w.free[moved.v_plus.shape[0] - b.shape[0] :]:  # a released joint that no longer lags is tracked
        speed = min(speed, abs(b[k - moved.v_plus.shape[0] + b.shape[0]] - moved.v_plus[k]))
    force = min(least, shared.faces.distance if chosen.shares else np.inf)
    return np.array((force, speed, room))


@njit(cache=True, error_model="numpy")
def distances(
    law: int, roles: Roles, mu: Array, u: Array, vertex: Array, kept: Array, v_tol: float
) -> tuple[float, float]:
    """Return the distances of impulses [N s] and of speeds [m/s] to the next change of the roles of n contacts.

    Args:
        law: Law of the contacts (`motion.contact_roles`).
        roles: The roles.
        mu: Friction, shape (n,).
        u: Velocities of the contacts relative to their targets, shape (3 n,) [m/s].
        vertex: Impulses of a rigid contact model, shape (3 n,); empty if another choice determines the forces.
        kept: As `Chosen.kept`, for these impulses.
        v_tol: Speed up to which a contact counts as at rest [m/s].
    """
    n, force, speed = mu.shape[0], np.inf, np.inf
    if vertex.shape[0] > 0:
        force = faces(np.full(n, ALL_EDGES), vertex, np.minimum(mu, 1e6), np.abs(vertex).max()).distance
        if kept.shape[1] > 0:
            force = min(force, np.abs(fit(kept, vertex)[0]).min())
    for i in range(n):
        kind, along, across = roles.kind[i], abs(u[n + i]), abs(u[2 * n + i])
        slip = max(along, across)
        if vertex.shape[0] > 0 and kind != PART and not vertex[i::n].any():  # another vertex may load this contact
            force = 0.0
        if kind == PART:
            lifts = (u[i] - mu[i] * slip) / np.hypot(1.0, mu[i]) if law == DISSIPATION and mu[i] < np.inf else u[i]
            speed = min(speed, lifts)
        elif kind == SLIDE:
            speed = min(speed, min(slip, abs(slip - v_tol)))
            if law in (COULOMB, DISSIPATION) and mu[i] > 0.0 and (roles.owner == i).sum() == 1:
                speed = min(speed, abs(along - across))  # at equal speeds a second edge carries friction, too
    return force, speed
