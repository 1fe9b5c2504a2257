r"""Derivatives of the joint velocities that whole-body tasks demand.

The demand solves a quadratic program in the accelerations a and the contact forces F (`idcontrol.tasks.program`),

    minimize    ½ |a_q - ã|²_W + ½ Σ w_i r_i² + ½ ε |F / f|²,       r = y - A a
    subject to  J a = d,   r_i = 0 (strict rows),   z_K(M a + c - Jᵀ F) = limit,   active limits of F and a

in which z_K selects the unactuated velocities and the motors at a torque limit. Without limits of friction and motors ε
is zero, and F stands for the momenta that contacts can change (`idcontrol.tasks.demand`).
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from idcontrol.controllers.feedback import NEARING, nearing
from idcontrol.controllers.gradient.demand import bound_slope, demand, momentum, target
from idcontrol.controllers.gradient.equations import errors, fit, optimum, rows_times, rows_transposed
from idcontrol.controllers.step import BRAKING_1_S, joint_error, task_speeds
from idcontrol.controllers.tasks import BOUNDED
from idcontrol.dynamics.derivatives import inertia_times
from idcontrol.kernels.arena import HEAP
from idcontrol.kernels.bound import Bound, bind
from idcontrol.kernels.jit import njit
from idcontrol.tasks.program import FORCE_WEIGHT, INSIDE, LOADED, Dynamics, Rows, bounded_demand
from idcontrol.tasks.rows import task_rows
from idcontrol.tasks.sensitivity import Body, miss_slopes, transposed_slope
from idcontrol.types import Array, Booleans, Integers

AT_LIMIT: Final = 1e-7
"""Distance up to which a limit is active, relative to the limit, or for friction to the largest contact force."""


class Wanted(NamedTuple):
    """The derivative of the demand of tasks.

    Attributes:
        b: Derivative of the joint velocities, shape (a, P).
        miss: ``y - A a`` of each task row, shape (p,).
        miss_slope: Derivative of `miss`, shape (p, P).
        error: Relative error of conditions and linear equations (`equations.errors`).
        room: `Limits.room`, then the smallest multiplier of an active limit, relative to the largest entry of the
            gradient, shape (4,).
    """

    b: Array
    miss: Array
    miss_slope: Array
    error: Array
    room: Array


class Limits(NamedTuple):
    """The i active limits of the program, as rows ``C x`` or ``z (M a + c - Jᵀ F)`` that are at their smallest value.

    Attributes:
        C: Rows, shape (i, m + 3 n).
        z: Matrix of the rows with z, zero in other rows, shape (i, m).
        slope: As `_Equations.slope`, shape (i, P).
        cone: As `_Equations.cone`, shape (i,).
        room: Smallest distance of the solution to other limits: of a contact force [N], of a joint's velocity [rad/s],
            and of a torque [N m]; shape (3,).
    """

    C: Array
    z: Array
    slope: Array
    cone: Integers
    room: Array


class Program(NamedTuple):
    """The program of the tasks, and its solution x = (a, F / f); f is `unit` [N].

    Attributes:
        x: The solution, shape (m + 3 n,).
        unit: f [N].
        rows: Rows of the tasks, and the reference of the joints.
        b: Derivative of the joint velocities of the reference, shape (a, P).
        force_weight: ε.
        limits: The limits that are active at the solution.
    """

    x: Array
    unit: float
    rows: Rows
    b: Array
    force_weight: float
    limits: Limits


class _Equations(NamedTuple):
    """Equations ``C x = e`` of x = (a, F / f): contacts, strict tasks, momenta of the base, active limits.

    Rows with z are ``z (M a + c - Jᵀ F) = e``. The Lagrangian contains ``λᵀ(C x - e)``, so multipliers λ of limits are
    at most zero.

    Attributes:
        C: Rows, shape (i, m + 3 n).
        z: Matrix of the rows with z, zero in other rows, shape (i, m).
        slope: Derivative of e minus the derivative of C x at constant x, shape (i, P); in rows with z, the derivative
            of e alone.
        cone: Contact of each row that is a facet of a friction cone, -1 for other rows, shape (i,).
        limit: True for limits, shape (i,).
    """

    C: Array
    z: Array
    slope: Array
    cone: Integers
    limit: Booleans


@njit(cache=True, inner=True, error_model="numpy")
def pose(bound: Bound, visited: Bound, joints: Bound) -> Bound:
    """Return the `Program` of a step, bound."""
    machine, site, step = bound.borrowed, visited.borrowed, joints.borrowed
    tasks, (M, J), h = machine.tasks, (site.terms.M, site.terms.J), machine.h
    (r, m), u = J.shape, M.shape[0] - step.b.shape[0]
    A, y, weight = task_rows(M, site.bias, site.v, tasks.placement, tasks.targets, HEAP)
    b, slope, _, _ = demand(bound, visited)
    rows = Rows(A.copy(), y.copy(), weight.copy(), (b - site.v[u:]) / h, tasks.joint_weight.copy())
    unit = max(M[0, 0] * np.linalg.norm(tasks.placement.gravity), 1.0)
    if tasks.outcome[0] == BOUNDED:
        slowest, fastest = task_speeds(machine, site.v, HEAP)
        least, most = step.bounds.least / h, step.bounds.most / h
        now, d = site.v[u:], (step.target - J @ site.v) / h
        dynamics = Dynamics(M, site.bias, J, d, step.cones.mu, least, most, (slowest - now) / h, (fastest - now) / h)
        _, x = bounded_demand(dynamics, rows, unit, HEAP)
        limits = _limits(bound, visited, joints, dynamics, x, unit)
        return bind(Program(x, unit, rows, slope, FORCE_WEIGHT, limits))
    # without limits the motion of the base follows from contacts, and momenta that they cannot change
    accelerations = (step.b - site.v[u:]) / h
    E, e = np.zeros((r + u, u + r)), np.zeros(r + u)
    E[:r, :u], E[r:, :u], E[r:, u:] = J[:, :u], M[:u, :u] / unit, -J[:, :u].T
    e[:r] = (step.target - J @ site.v) / h - J[:, u:].copy() @ accelerations
    e[r:] = -(site.bias[:u] + M[:u, u:].copy() @ accelerations) / unit
    unknown, _ = fit(E, e)
    x = np.concatenate((unknown[:u], accelerations, unknown[u:]))
    none = np.zeros((0, m + r))
    limits = Limits(none, np.zeros((0, m)), np.zeros((0, site.at.total)), np.zeros(0, np.int64), np.full(3, np.inf))
    program: Bound = bind(Program(x, unit, rows, slope, 0.0, limits))
    return program


@njit(cache=True, inner=True, error_model="numpy")
def _limits(bound: Bound, visited: Bound, joints: Bound, dynamics: Dynamics, x: Array, unit: float) -> Limits:
    """Return the limits that are active at the solution x."""
    site, h = visited.borrowed, bound.borrowed.h
    M, J, mu, at = dynamics.M, dynamics.J, dynamics.mu, site.at
    (r, m), n, a, k = J.shape, mu.shape[0], dynamics.least.shape[0], 0
    u, most = m - a, 4 * n + 4 * a
    C, z, slope, cone = np.zeros((most, m + r)), np.zeros((most, m)), np.zeros((most, at.total)), np.full(most, -1)
    reserve = LOADED * M[0, 0] / unit
    scale, room = AT_LIMIT * np.abs(x[m:]).max() if r > 0 else 0.0, np.full(3, np.inf)
    for i in range(n):
        rubs = mu[i] < np.inf
        for edge in range(4 if rubs else 1):
            s, t = (1.0 if edge < 2 else -1.0, 1.0 if edge % 2 == 0 else -1.0) if rubs else (0.0, 0.0)
            normal = (1.0 - INSIDE) * mu[i] if rubs else 1.0
            inside = normal * (x[m + i] - reserve) + s * x[m + n + i] + t * x[m + 2 * n + i]
            if inside > scale:
                room[0] = min(room[0], unit * inside / np.sqrt(normal**2 + s**2 + t**2))
            else:
                C[k, m + i], C[k, m + n + i], C[k, m + 2 * n + i] = normal, s, t
                if rubs:
                    slope[k, at.mu + i], cone[k] = -(1.0 - INSIDE) * (x[m + i] - reserve), i
                k += 1
    lower, upper = bound_slope(bound, visited, joints)
    torque = (M @ x[:m] + dynamics.bias)[u:] - unit * (np.ascontiguousarray(J[:, u:].T) @ x[m:])
    for sign in (1.0, -1.0):
        for j in range(a):
            width = dynamics.most[j] - dynamics.least[j]
            inside = INSIDE if width < np.inf else 0.0
            end, moved = (dynamics.least[j], lower[j]) if sign > 0.0 else (dynamics.most[j], upper[j])
            end = end + sign * inside * width if inside > 0.0 else end
            if sign * (torque[j] - end) > AT_LIMIT * abs(end):
                room[2] = min(room[2], sign * (torque[j] - end))
            elif np.isfinite(end):
                z[k, u + j] = sign / unit
                C[k, :m], C[k, m:] = M[u + j] * z[k, u + j], -unit * z[k, u + j] * J[:, u + j]
                slope[k] = sign * (moved + sign * inside * (upper[j] - lower[j])) / (h * unit)
                k += 1
    for sign in (1.0, -1.0):
        for j in range(a):
            end = dynamics.slowest[j] if sign > 0.0 else dynamics.fastest[j]
            if sign * (x[u + j] - end) > AT_LIMIT * abs(end):
                room[1] = min(room[1], h * sign * (x[u + j] - end))
            elif np.isfinite(end):
                by_q, by_v = _speed_slope(bound, site.v[u + j], j, sign)
                C[k, u + j] = sign
                slope[k, at.q + u + j], slope[k, at.v + u + j] = sign * by_q / h, sign * (by_v - 1.0) / h
                k += 1
    return Limits(C[:k].copy(), z[:k].copy(), slope[:k].copy(), cone[:k].copy(), room)


@njit(cache=True, inner=True, error_model="numpy")
def _speed_slope(bound: Bound, speed: float, j: int, sign: float) -> tuple[float, float]:
    """Return the derivatives by angle and speed of joint j's slowest (sign 1) or fastest (-1) speed (`task_speeds`)."""
    machine = bound.borrowed
    room, h = machine.joints.room, machine.h
    angle, _ = joint_error(machine.terms, machine.inputs, j)
    # speeds towards the limit are positive
    towards, own, other = -sign * speed, room.lower[j], room.upper[j]
    if sign < 0.0:
        own, other = other, own
    free, share = 0.5 * BRAKING_1_S * sign * (angle - own), min(2.0 * BRAKING_1_S * h, 1.0)
    smooth = towards + share * (min(free, room.speed[j]) - towards)
    stop, back = -sign * nearing(angle, own, h), -sign * nearing(angle, other, h)
    if back > min(smooth, stop) or stop < smooth:
        return -NEARING / h, 0.0
    return -share * 0.5 * BRAKING_1_S if free < room.speed[j] else 0.0, 1.0 - share


@njit(cache=True, inner=True, error_model="numpy")
def _equations(visited: Bound, program: Bound, contacts: Array, strict: Array) -> _Equations:
    """Return the equations; `contacts` and `strict` are `_Equations.slope` of contacts and of strict tasks."""
    site, known = visited.borrowed, program.borrowed
    M, J, limits, unit = site.terms.M, site.terms.J, known.limits, known.unit
    (r, m), i = J.shape, limits.C.shape[0]
    u, first = m - known.rows.joints.shape[0], r + strict.shape[0]
    count, at = first + u + i, first + u
    C, z, slope = np.zeros((count, m + r)), np.zeros((count, m)), np.zeros((count, site.at.total))
    cone, limit = np.full(count, -1), np.zeros(count, np.bool_)
    C[:r, :m], slope[:r], slope[r:first] = J, contacts, strict
    C[r:first, :m] = known.rows.A[known.rows.weight == np.inf]
    for k in range(u):
        z[first + k, k] = 1.0 / unit
        C[first + k, :m], C[first + k, m:] = M[k] / unit, -J[:, k]
    C[at:], z[at:], slope[at:], cone[at:], limit[at:] = limits.C, limits.z, limits.slope, limits.cone, True
    return _Equations(C, z, slope, cone, limit)


@njit(cache=True, inner=True, error_model="numpy")
def _multipliers(equations: _Equations, gradient: Array) -> tuple[_Equations, Array, float]:
    """Return the equations without limits of positive multiplier, all multipliers, and the error of stationarity.

    The error is relative to the gradient.
    """
    while True:
        multipliers, wrong = fit(np.ascontiguousarray(equations.C.T), -gradient)
        stays = ~(equations.limit & (multipliers > 0.0))
        if stays.all():
            return equations, multipliers, wrong
        C, z, slope, cone, limit = equations
        equations = _Equations(C[stays], z[stays], slope[stays], cone[stays], limit[stays])


@njit(cache=True, error_model="numpy")
def task_demand(bound: Bound, visited: Bound, joints: Bound) -> Wanted:
    """Return the derivative of the joint velocities that tasks demand.

    Args:
        bound: The `Machine`.
        visited: The `Site`.
        joints: The step with all joints tracked.
    """
    program = pose(bound, visited, joints)
    machine, site, known = bound.borrowed, visited.borrowed, program.values  # only this function holds the program
    (M, J), at, h, rows, x, unit = (site.terms.M, site.terms.J), site.at, machine.h, known.rows, known.x, known.unit
    (r, m), a = J.shape, x[: site.v.shape[0]].copy()
    u, strict = m - rows.joints.shape[0], rows.weight == np.inf
    change = momentum(bound, visited, a) / h  # of M a + c at constant a
    change[:, at.v : at.v + m] += M / h
    by_q, by_v = change[:, at.q : at.q + m].copy(), change[:, at.v : at.v + m].copy()
    targets, placement = machine.tasks.targets, machine.tasks.placement
    body = bind(Body(placement, targets, site.motion, M, site.v, a, M @ a + site.bias, by_q, by_v))
    miss, (miss_q, miss_v) = np.zeros((rows.y.shape[0], at.total)), miss_slopes(body)
    miss[:, at.q : at.q + m], miss[:, at.v : at.v + m] = miss_q, miss_v
    for i in range(rows.y.shape[0]):
        miss[i, at.task + i] += 1.0
    contacts = target(bound, visited)[0] - rows_times(site.terms, site.v + h * a)
    contacts[:, at.v : at.v + m] -= J
    weight, missed = np.where(strict, 0.0, rows.weight), rows.y - rows.A @ a
    weighted = weight.copy().reshape(-1, 1)
    A_T, H, gradient = np.ascontiguousarray(rows.A.T), np.zeros((m + r, m + r)), known.force_weight * x
    H[:m, :m] = A_T @ (weighted * rows.A)
    gradient[:m] = -(A_T @ (weight * missed))
    for k in range(u, m + r):
        H[k, k] += rows.joint_weight[k - u] if k < m else known.force_weight
        if k < m:
            gradient[k] += rows.joint_weight[k - u] * (x[k] - rows.joints[k - u])
    equations, multipliers, wrong = _multipliers(_equations(visited, program, contacts / h, miss[strict]), gradient)
    z, pull = multipliers @ equations.z, weight * missed
    pull[strict] -= multipliers[r : r + strict.sum()]
    g = np.zeros((m + r, at.total))
    g[:m] = A_T @ (weighted * miss) - rows_transposed(site.terms, multipliers[:r].copy())
    g[m:] = unit * rows_times(site.terms, z)
    g[:m, at.q : at.q + m] += transposed_slope(body, pull) - inertia_times(site.motion.tree, z)
    largest = 1e-3 * np.abs(H).max()  # a gradient of accelerations of 1e-9 is rounding, as in a pose of rest
    for j in range(m - u):
        pulls = rows.joint_weight[j]
        g[u + j] += pulls / h * known.b[j]
        g[u + j, at.v + u + j] -= pulls / h
        largest = max(largest, abs(pulls * rows.joints[j]))
    for row in range(equations.cone.shape[0]):
        contact = equations.cone[row]
        if contact >= 0:
            g[m + contact, at.mu + contact] -= (1.0 - INSIDE) * multipliers[row]
    e = equations.slope + equations.z @ (rows_transposed(site.terms, unit * x[m:]) - change)
    S, E = optimum(H, equations.C)
    slope = S @ g + E @ e
    b = h * slope[u:m]
    for j in range(m - u):
        b[j, at.v + u + j] += 1.0
    if not np.abs(gradient).max() > 1e-6 * largest:
        wrong = 0.0
    error = np.maximum(errors(site.terms.ends, equations.C @ slope - e, e), wrong)
    room, size = np.append(known.limits.room, np.inf), np.abs(gradient).max()
    for limit in np.flatnonzero(equations.limit):
        room[3] = min(room[3], -multipliers[limit] * np.abs(equations.C[limit]).max() / max(size, 1e-300))
    return Wanted(b, missed, miss - rows.A @ slope[:m], error, room)
