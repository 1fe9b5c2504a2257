r"""Derivatives of the joint velocities that whole-body tasks demand.

The demand solves a quadratic program in the accelerations a and the contact forces F (`idcontrol.tasks.program`),

    minimize    ½ |a_q - ã|²_W + ½ Σ w_i r_i² + ½ ε |F / f|²,       r = y - A a
    subject to  J a = d,   r_i = 0 (strict rows),   z_K(M a + c - Jᵀ F) = limit,   active limits of F and a

in which z_K selects the unactuated velocities and the motors at a torque limit. Without limits of friction and motors ε
is zero, and F stands for the momenta that contacts can change (`idcontrol.tasks.demand`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np

from idcontrol.controllers.feedback import NEARING, nearing
from idcontrol.controllers.gradient.demand import bound_slope, momentum
from idcontrol.controllers.gradient.equations import fit, optimum
from idcontrol.controllers.gradient.site import Site
from idcontrol.controllers.step import BRAKING_1_S, AssembledStep
from idcontrol.controllers.tasks import BOUNDED
from idcontrol.dynamics.derivatives import inertia_times
from idcontrol.kernels.arena import HEAP
from idcontrol.tasks.program import FORCE_WEIGHT, INSIDE, Dynamics, Rows, bounded_demand
from idcontrol.tasks.rows import task_rows
from idcontrol.tasks.sensitivity import Body, miss_slopes, transposed_slope
from idcontrol.types import Array, Booleans, Integers

AT_LIMIT: Final = 1e-7
"""Distance from a limit up to which it is active, relative to the largest number of its kind."""


class Wanted(NamedTuple):
    """The demand of tasks.

    Attributes:
        b: Derivative of the joint velocities, shape (a, P).
        miss: ``y - A a`` of each task row, shape (p,).
        miss_slope: Derivative of `miss`, shape (p, P).
        error: Relative error of conditions and linear equations, as `Site.errors`.
    """

    b: Array
    miss: Array
    miss_slope: Array
    error: Array


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


class _Program(NamedTuple):
    """The program of the tasks, and its solution x = (a, F / f); f is `unit` [N]."""

    x: Array
    unit: float
    rows: Rows
    force_weight: float


def task_demand(site: Site, step: AssembledStep, wanted: tuple[Array, Array], d: Array, load: Array) -> Wanted:
    """Return the derivative of the joint velocities that tasks demand.

    Args:
        site: The robot and its contacts.
        step: The step with all joints tracked.
        wanted: Joint velocities of the reference, and their derivative.
        d: Derivative of the target velocities of the contacts.
        load: Estimated load on the base, shape (3,) [N].
    """
    tasks, M, J, at, h = site.machine.tasks, site.system.M, site.contacts.jacobian, site.columns, site.machine.h
    m, u = M.shape[0], M.shape[0] - step.b.size
    A, y, weight = task_rows(M, site.machine.terms.bias, site.v, tasks.placement, tasks.targets, HEAP)
    rows = Rows(A, y, weight, (wanted[0] - site.v[u:]) / h, tasks.joint_weight)
    unit = max(float(M[0, 0] * np.linalg.norm(tasks.placement.gravity)), 1.0)
    limits: list[_Limit] = []
    if tasks.outcome[0] == BOUNDED:
        program, limits = _bounded(site, step, rows, unit)
    else:
        program = _free(site, step, rows, unit)
    a = program.x[:m]
    change = momentum(site, site.v + h * a, load) / h  # of M a + c at constant a
    change[:, at.v] += M / h
    body = Body(
        site.system,
        tasks.placement,
        site.motion,
        site.v,
        a,
        M @ a + site.machine.terms.bias,
        change[:, at.q],
        change[:, at.v],
    )
    miss = site.zeros(weight.size)
    miss[:, at.q], miss[:, at.v] = miss_slopes(body, tasks.targets)
    miss[:, at.task] += np.eye(weight.size)
    contacts = d - site.rows_times(site.v + h * a)
    contacts[:, at.v] -= J
    strict = weight == np.inf
    equations = _equations(site, program, (contacts / h, miss[strict]), limits)
    return _solution(site, program, equations, body, change, miss, wanted[1])


def _free(site: Site, step: AssembledStep, rows: Rows, unit: float) -> _Program:
    """Return the program without limits; its base motion follows from contacts, and momenta that they cannot change."""
    M, J, h = site.system.M, site.contacts.jacobian, site.machine.h
    r, u = J.shape[0], M.shape[0] - step.b.size
    joints = (step.b - site.v[u:]) / h
    E = np.block([[J[:, :u], np.zeros((r, r))], [M[:u, :u] / unit, -J[:, :u].T]])
    rest = site.machine.terms.bias[:u] + M[:u, u:] @ joints
    x, _ = fit(E, np.concatenate(((step.target - J @ site.v) / h - J[:, u:] @ joints, -rest / unit)))
    return _Program(np.concatenate((x[:u], joints, x[u:])), unit, rows, 0.0)


def _bounded(site: Site, step: AssembledStep, rows: Rows, unit: float) -> tuple[_Program, list[_Limit]]:
    """Return the program within limits of friction, motors and joints, and the limits active at its solution."""
    h, u = site.machine.h, site.v.size - step.b.size
    slowest, fastest = (
        _Speed((one.value - site.v[u:]) / h, one.by_q / h, (one.by_v - 1.0) / h) for one in _speed_limits(site)
    )
    dynamics = Dynamics(
        M=site.system.M,
        bias=site.machine.terms.bias,
        J=site.contacts.jacobian,
        d=(step.target - site.contacts.jacobian @ site.v) / h,
        mu=step.cones.mu,
        least=step.bounds.least / h,
        most=step.bounds.most / h,
        slowest=slowest.value,
        fastest=fastest.value,
    )
    _, x = bounded_demand(dynamics, rows, unit, HEAP)
    limits = [*_facets(site, dynamics, x), *_torques(site, step, dynamics, x, unit), *_rates(site, slowest, x, 1.0)]
    return _Program(x, unit, rows, FORCE_WEIGHT), [*limits, *_rates(site, fastest, x, -1.0)]


class _Limit(NamedTuple):
    """One limit, as in `_Equations`."""

    C: Array
    z: Array
    slope: Array
    cone: int


def _facets(site: Site, dynamics: Dynamics, x: Array) -> Iterator[_Limit]:
    """Yield the active facets of friction cones."""
    n, m, at = dynamics.mu.size, site.v.size, site.columns
    scale = AT_LIMIT * np.abs(x[m:]).max(initial=0.0)
    for i, mu in enumerate(dynamics.mu.tolist()):
        rubs = mu < np.inf
        for s, t in ((1.0, 1.0), (1.0, -1.0), (-1.0, 1.0), (-1.0, -1.0)) if rubs else ((0.0, 0.0),):
            C, slope = np.zeros(x.size), np.zeros(at.total)
            C[m + i], C[m + n + i], C[m + 2 * n + i] = (1.0 - INSIDE) * mu if rubs else 1.0, s, t
            if rubs:
                slope[at.mu.start + i] = -(1.0 - INSIDE) * x[m + i]
            if C @ x <= scale:
                yield _Limit(C, np.zeros(m), slope, i if rubs else -1)


def _torques(site: Site, step: AssembledStep, dynamics: Dynamics, x: Array, unit: float) -> Iterator[_Limit]:
    """Yield the active limits of torque."""
    M, J, u, h = dynamics.M, dynamics.J, site.v.size - step.b.size, site.machine.h
    torque = (M @ x[: site.v.size] + dynamics.bias)[u:] - unit * J[:, u:].T @ x[site.v.size :]
    room = dynamics.most - dynamics.least
    inside = np.where(room < np.inf, INSIDE * room, 0.0)
    lower, upper = bound_slope(site, step)
    moved = np.where(room < np.inf, INSIDE, 0.0)[:, None] * (upper - lower)
    ends = (1.0, dynamics.least + inside, lower + moved), (-1.0, dynamics.most - inside, upper - moved)
    for sign, bounds, slope in ends:
        for j in np.flatnonzero(sign * (torque - bounds) <= AT_LIMIT * np.abs(bounds)):
            z = np.zeros(site.v.size)
            z[u + j] = sign / unit
            yield _Limit(np.concatenate((M @ z, -unit * J @ z)), z, sign * slope[j] / (h * unit), -1)


class _Speed(NamedTuple):
    """Limits of the joints' velocities or accelerations, and their derivatives by angle and speed, shapes (a,)."""

    value: Array
    by_q: Array
    by_v: Array


def _rates(site: Site, limit: _Speed, x: Array, sign: float) -> Iterator[_Limit]:
    """Yield the active limits of acceleration; `sign` is -1 for upper limits."""
    at, u = site.columns, site.v.size - limit.value.size
    for j in np.flatnonzero(sign * (x[u : site.v.size] - limit.value) <= AT_LIMIT * np.abs(limit.value)):
        C, slope = np.zeros(x.size), np.zeros(at.total)
        C[u + j] = sign
        slope[at.q.start + u + j], slope[at.v.start + u + j] = sign * limit.by_q[j], sign * limit.by_v[j]
        yield _Limit(C, np.zeros(site.v.size), slope, -1)


def _speed_limits(site: Site) -> tuple[_Speed, _Speed]:
    """Return the smallest and the largest velocities that tasks may demand of joints (`step.task_speeds`)."""
    room, h = site.machine.joints.room, site.machine.h
    angle, speed = site.system.joint_positions(site.machine.inputs.q), site.v[site.v.size - room.lower.size :]
    share, one = min(2.0 * BRAKING_1_S * h, 1.0), np.ones_like(speed)

    def braked(speed: Array, way: Array) -> _Speed:
        free = 0.5 * BRAKING_1_S * way
        close = free < room.speed
        return _Speed(
            speed + share * (np.where(close, free, room.speed) - speed),
            np.where(close, share * 0.5 * BRAKING_1_S, 0.0),
            (1.0 - share) * one,
        )

    def choose(first: _Speed, other: _Speed, larger: bool) -> _Speed:
        other_wins = (other.value > first.value) == larger
        return _Speed(*(np.where(other_wins, b, a) for a, b in zip(first, other, strict=True)))

    down, up = braked(-speed, angle - room.lower), braked(speed, room.upper - angle)
    lowest, highest = (
        _Speed(nearing(angle, end, h), -NEARING / h * one, 0.0 * one) for end in (room.lower, room.upper)
    )
    down, up = _Speed(-down.value, -down.by_q, down.by_v), _Speed(up.value, -up.by_q, up.by_v)
    slowest = choose(choose(down, lowest, larger=True), highest, larger=False)
    return slowest, choose(choose(up, highest, larger=False), lowest, larger=True)


def _equations(site: Site, program: _Program, slopes: tuple[Array, Array], limits: list[_Limit]) -> _Equations:
    """Return the equations; `slopes` are the values of `_Equations.slope` for contacts and for strict tasks."""
    M, J = site.system.M, site.contacts.jacobian
    (r, m), u, strict = J.shape, site.v.size - program.rows.joints.size, program.rows.weight == np.inf
    z = np.eye(m)[:u] / program.unit
    joints = np.vstack((J, program.rows.A[strict]))
    count = joints.shape[0]
    empty = _Limit(np.zeros(m + r), np.zeros(m), np.zeros(site.columns.total), -1)
    C, other, slope, cone = (np.array(part) for part in zip(empty, *limits, strict=True))
    return _Equations(
        C=np.vstack((np.hstack((joints, np.zeros((count, r)))), np.hstack((z @ M, -program.unit * z @ J.T)), C[1:])),
        z=np.vstack((np.zeros((count, m)), z, other[1:])),
        slope=np.vstack((*slopes, site.zeros(u), slope[1:])),
        cone=np.concatenate((np.full(count + u, -1), cone[1:])),
        limit=np.arange(count + u + len(limits)) >= count + u,
    )


def _multipliers(equations: _Equations, gradient: Array) -> tuple[_Equations, Array, float]:
    """Return the equations without limits of positive multiplier, all multipliers, and the error of stationarity.

    The error is relative to the gradient.
    """
    while True:
        multipliers, wrong = fit(equations.C.T, -gradient)
        idle = equations.limit & (multipliers > 0.0)
        if not idle.any():
            return equations, multipliers, wrong
        C, z, slope, cone, limit = equations
        equations = _Equations(C[~idle], z[~idle], slope[~idle], cone[~idle], limit[~idle])


def _solution(
    site: Site, program: _Program, equations: _Equations, body: Body, change: Array, miss: Array, b_slope: Array
) -> Wanted:
    """Return the derivative of the program's solution.

    Args:
        site: The robot and its contacts.
        program: The program.
        equations: Equations of the program.
        body: The robot at the accelerations of the program.
        change: Derivative of ``M a + c`` at constant a, shape (m, P).
        miss: Derivative of ``y - A a`` at constant a, shape (p, P).
        b_slope: Derivative of the joint velocities of the reference, shape (a, P).
    """
    J, at, h, rows, x, unit = (
        site.contacts.jacobian,
        site.columns,
        site.machine.h,
        program.rows,
        program.x,
        program.unit,
    )
    (r, m), u = J.shape, site.v.size - rows.joints.size
    strict, each = rows.weight == np.inf, np.arange(m + r)
    weight, missed = np.where(strict, 0.0, rows.weight), rows.y - rows.A @ x[:m]
    H, gradient = np.zeros((m + r, m + r)), program.force_weight * np.concatenate((np.zeros(m), x[m:]))
    H[:m, :m] = rows.A.T @ (weight[:, None] * rows.A)
    H[each, each] += np.concatenate((np.zeros(u), rows.joint_weight, np.full(r, program.force_weight)))
    gradient[:m] -= rows.A.T @ (weight * missed)
    gradient[u:m] += rows.joint_weight * (x[u:m] - rows.joints)
    equations, multipliers, wrong = _multipliers(equations, gradient)
    z, pull = multipliers @ equations.z, weight * missed
    pull[strict] -= multipliers[r : r + int(strict.sum())]
    g = np.vstack(
        (rows.A.T @ (weight[:, None] * miss) - site.rows_transposed(multipliers[:r]), unit * site.rows_times(z))
    )
    g[:m, at.q] += transposed_slope(body, site.machine.tasks.targets, pull) - inertia_times(body.motion.tree, z)
    g[u:m] += rows.joint_weight[:, None] / h * b_slope
    g[u:m, at.v][:, u:] -= np.diag(rows.joint_weight / h)
    for row in np.flatnonzero(equations.cone >= 0):
        contact = equations.cone[row]
        g[m + contact, at.mu.start + contact] -= (1.0 - INSIDE) * multipliers[row]
    e = equations.slope + equations.z @ (site.rows_transposed(unit * x[m:]) - change)
    slope = optimum(H, equations.C, g, e)
    b = h * slope[u:m]
    b[:, at.v][:, u:] += np.eye(m - u)
    significant = np.abs(gradient).max() > 1e-6 * np.abs(rows.joint_weight * rows.joints).max(initial=1e-300)
    error = np.maximum(site.errors(equations.C @ slope - e, e), wrong if significant else 0.0)
    return Wanted(b, missed, miss - rows.A @ slope[:m], error)
