"""Derivatives of the contact impulses of a motion, by stage II and by the contact models.

Derivatives have one column for each of the P parameters (`idcontrol.controllers.gradient.equations.Columns`).
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from idcontrol.controllers.gradient.equations import (
    RANK,
    Terms,
    column_length,
    errors,
    fit,
    least_squares,
    optimum,
    pseudo_inverse,
    rows_times,
    rows_transposed,
)
from idcontrol.controllers.gradient.motion import ON_FACE, SLIDE, Moved, edges_along
from idcontrol.dynamics.derivatives import inertia_times
from idcontrol.kernels.bound import Bound
from idcontrol.kernels.jit import njit
from idcontrol.models.distribution import RIDGE
from idcontrol.models.reduced import ALL_EDGES, PRESSES
from idcontrol.types import Array, Booleans, Integers

AT_BOUND: Final = 1e-8
"""Distance from a bound up to which a motor impulse is at the bound, relative to the distance between both bounds."""


@njit(cache=True, error_model="numpy")
def used_edges(cone: int) -> Booleans:
    """Return True for each edge in the bit set `cone` (`idcontrol.models.reduced`), shape (4,)."""
    return np.array([cone >> k & 1 == 1 for k in range(4)])


@njit(cache=True, inner=True, error_model="numpy")
def _face(cone: int, y: Array, mu: float, scale: float) -> tuple[Array, Array]:
    """Return directions of the face of a cone that contains y, and their derivative by μ; no directions at the apex.

    Args:
        cone: Edges as in `idcontrol.models.reduced`.
        y: Impulse, shape (3,) [N s].
        mu: Friction coefficient.
        scale: Impulse that counts as one [N s].
    """
    small, every = ON_FACE * scale, np.eye(3)
    if cone == PRESSES:
        B = every if y[0] > small else every[:, 1:].copy()
        return B, np.zeros_like(B)
    if cone == 0 or y[0] <= small:
        return np.zeros((3, 0)), np.zeros((3, 0))
    if mu == 0.0:
        return every[:, :1].copy(), np.zeros((3, 1))
    edges, slope = edges_along(used_edges(cone), mu)
    if cone != ALL_EDGES:
        shares, _ = fit(edges, y)
        used = shares > small
        return edges[:, used].copy(), slope[:, used].copy()
    on, inside = False, np.ones(4, np.bool_)
    for s in (1.0, -1.0):
        for t in (1.0, -1.0):
            slack = mu * y[0] + s * y[1] + t * y[2]
            if slack > small * (1.0 + mu):
                continue
            on = True
            for k in range(4):  # edges of the other facets
                inside[k] &= abs(mu * edges[0, k] + s * edges[1, k] + t * edges[2, k]) <= 1e-12 * (1.0 + mu)
    if not on:
        return every, np.zeros((3, 3))
    return edges[:, inside].copy(), slope[:, inside].copy()


class Faces(NamedTuple):
    """Faces of the cones of n contacts that contain their impulses.

    Attributes:
        owner: Contact of each direction, shape (d,).
        B: Directions, shape (3 n, d).
        B_mu: Derivative of each direction by the friction of its contact.
        shares: Impulse along each direction, shape (d,) [N s].
    """

    owner: Integers
    B: Array
    B_mu: Array
    shares: Array


@njit(cache=True, error_model="numpy")
def faces(cone: Integers, f: Array, mu: Array, scale: float) -> Faces:
    """Return the faces that contain impulses f (3 n,).

    Args:
        cone: Edges of each contact's cone as in `idcontrol.models.reduced`, shape (n,).
        f: The impulses [N s].
        mu: Friction coefficients, shape (n,).
        scale: Impulse that counts as one [N s].
    """
    n, d = cone.shape[0], 0
    owner, shares, B, B_mu = (
        np.zeros(4 * n, np.int64),
        np.zeros(4 * n),
        np.zeros((3 * n, 4 * n)),
        np.zeros((3 * n, 4 * n)),
    )
    for i in range(n):
        y = f[i::n].copy()
        edges, slope = _face(cone[i], y, mu[i], scale)
        size = edges.shape[1]
        along, _ = fit(edges, y)
        for k in range(size):
            owner[d + k], shares[d + k] = i, along[k]
            for axis in range(3):
                B[axis * n + i, d + k], B_mu[axis * n + i, d + k] = edges[axis, k], slope[axis, k]
        d += size
    return Faces(owner[:d], B[:, :d].copy(), B_mu[:, :d].copy(), shares[:d])


class Goal(NamedTuple):
    """Stage II of a step with n contacts and p tracked joints.

    Attributes:
        free: Velocities that the step solves for.
        fixed: Velocities of the tracked joints.
        kappa: κ of the step (`idcontrol.models.step.StepProblem`), shape (m,) [N s].
        mu: Friction, shape (n,).
        weight: Weights on the impulses of feet close to lift-off or touchdown, shape (n,).
        cone: Edges of each contact's cone, shape (n,).
        f: The impulses, shape (3 n,) [N s].
        reference: hτ_ref, shape (p,) [N m s].
        slope: Derivative of `reference`, shape (p, P).
        least: Smallest impulses of the tracked motors, shape (p,) [N m s].
        most: Largest impulses of the tracked motors, shape (p,) [N m s].
        least_slope: Derivative of `least`, shape (p, P).
        most_slope: Derivative of `most`, shape (p, P).
        typical: Mean of diag(LτᵀLτ), the unit of `weight` (`torque_unit`).
        typical_slope: Derivative of `typical`, shape (P,).
    """

    free: Integers
    fixed: Integers
    kappa: Array
    mu: Array
    weight: Array
    cone: Integers
    f: Array
    reference: Array
    slope: Array
    least: Array
    most: Array
    least_slope: Array
    most_slope: Array
    typical: float
    typical_slope: Array


class Optimum(NamedTuple):
    """The optimality conditions of stage II at its solution.

    Attributes:
        faces: The faces that contain the impulses; their directions are B.
        bounded: Indices of the tracked joints that a motor bound holds: their multiplier has the sign of the bound.
        above: True for joints at the upper bound, shape (p,).
        keeps: Indices of the velocities whose momentum balance constrains the impulses: unknown velocities, and
            velocities of motors at a bound, shape (k,).
        multipliers: Multipliers of these balances, shape (k,).
        z: Multipliers such that ``Bᵀ (J z + ridge f) = 0``, shape (m,).
        ridge: Weight of each impulse in the objective, shape (3 n,).
        gradient: ``J z + ridge f``, shape (3 n,).
        scale: Largest term of the gradient.
        error: Relative error of the conditions.
    """

    faces: Faces
    bounded: Integers
    above: Booleans
    keeps: Integers
    multipliers: Array
    z: Array
    ridge: Array
    gradient: Array
    scale: float
    error: float


@njit(cache=True, error_model="numpy")
def no_optimum() -> Optimum:
    """Return an `Optimum` without contacts and joints."""
    none, one, rows = np.zeros(0, np.int64), np.zeros(0), np.zeros((0, 0))
    return Optimum(Faces(none, rows, rows, one), none, none > 0, none, one, one, one, one, 1.0, 0.0)


class Shared(NamedTuple):
    """Impulses of stage II.

    Attributes:
        slope: Derivative of the impulses, shape (3 n, P).
        error: Relative error of conditions and linear equations, as `errors`.
        at: The optimality conditions.
    """

    slope: Array
    error: Array
    at: Optimum


@njit(cache=True, inner=True, error_model="numpy")
def torque_unit(visited: Bound, solved: Bound, slope: bool) -> tuple[float, Array]:
    """Return the mean of diag(LτᵀLτ), the unit of the weights of impulses, and its derivative, shape (P,).

    Lτ maps contact impulses to motor impulses. If it is zero, the unit is 1 and its derivative zero.

    Args:
        visited: The `Site`.
        solved: The step.
        slope: False to leave the derivative at zero.
    """
    site, w = visited.borrowed, solved.borrowed.w
    free, fixed, M, J = w.free, w.fixed, site.terms.M, site.terms.J
    (rows, m), p, out = J.shape, fixed.shape[0], np.zeros(site.at.total)
    M_free, J_free = M[free][:, free].copy(), np.ascontiguousarray(J[:, free].T)
    directions = np.zeros((m, p))
    through = np.linalg.solve(M_free, M[free][:, fixed].copy())
    for k in range(free.shape[0]):
        directions[free[k]] = through[k]
    for k in range(p):
        directions[fixed[k], k] = -1.0
    L = J @ directions
    typical = float((L * L).sum()) / rows
    if not typical > 0.0:
        return 1.0, out
    if slope:
        out[site.at.unit : site.at.limits] = 1.0
        lifted = np.linalg.solve(M_free, J_free @ L)
        across = np.ascontiguousarray(directions.T)
        pulls, sways = L @ across, lifted @ across
        for r in range(rows):
            for k in range(m):
                if site.terms.moves[r % site.terms.moves.shape[0], k]:
                    for o in range(site.at.v):
                        out[site.at.q + o] += 2.0 / rows * pulls[r, k] * site.terms.slopes[r, k, o]
        for k in range(free.shape[0]):
            inertia = inertia_times(site.motion.tree, sways[k])
            for o in range(m):
                out[site.at.q + o] -= 2.0 / rows * inertia[free[k], o]
    return typical, out


@njit(cache=True, inner=True, error_model="numpy")
def _conditions(J: Array, goal: Goal, s: Array) -> Optimum:
    """Return the optimality conditions of stage II.

    Args:
        J: Rows of the contacts, shape (3 n, m).
        goal: Stage II.
        s: Motor impulses, shape (p,) [N m s].
    """
    f, free, fixed = goal.f, goal.free, goal.fixed
    face = faces(goal.cone, f, goal.mu, np.abs(f).max() if f.shape[0] else 0.0)
    B_T, J_fixed = np.ascontiguousarray(face.B.T), J[:, fixed].copy()
    room = goal.most - goal.least
    slack = AT_BOUND * np.where(np.isfinite(room), room, np.abs(s))
    above, below = s >= goal.most - slack, s <= goal.least + slack
    ridge = np.zeros(f.shape[0])
    for r in range(f.shape[0]):
        ridge[r] = goal.typical * (RIDGE + goal.weight[r % goal.weight.shape[0]])
    away, ramp = s - goal.reference, ridge * f
    pull = ramp - J_fixed @ away
    while True:
        bounded = np.flatnonzero(above | below)
        keeps = np.concatenate((free, fixed[bounded]))
        J_keeps = J[:, keeps].copy()
        multipliers, _ = fit(B_T @ J_keeps, -(B_T @ pull))
        idle = False  # an impulse may be at its bound although no multiplier holds it there
        for k in range(bounded.shape[0]):
            held = multipliers[free.shape[0] + k]
            if (held if above[bounded[k]] else -held) > 0.0:
                above[bounded[k]], below[bounded[k]], idle = False, False, True
        if not idle:
            break
    gradient = pull + J_keeps @ multipliers
    z = np.zeros(J.shape[1])
    z[fixed] = -away
    for k in range(keeps.shape[0]):
        z[keeps[k]] += multipliers[k]
    scale, ramped, error = 1e-300, 0.0, 0.0
    for r in range(f.shape[0]):
        scale, ramped = max(scale, np.abs(J_fixed[r] * away).sum()), max(ramped, abs(ramp[r]))
    for one in B_T @ gradient:
        error = max(error, abs(one))
    scale += ramped
    return Optimum(face, bounded, above, keeps, multipliers, z, ridge, gradient, scale, error / scale)


@njit(cache=True, inner=True, error_model="numpy")
def share(terms: Terms, goal: Goal, v_plus: Array, p: Array) -> Shared:
    """Return the derivative of the impulses of stage II.

    Args:
        terms: The robot and its contacts.
        goal: Stage II.
        v_plus: Velocity at the end of the period, shape (m,).
        p: Derivative of ``M v⁺ + κ``, shape (m, P).
    """
    f, free, fixed, J, ends = goal.f, goal.free, goal.fixed, terms.J, terms.ends
    J_fixed = J[:, fixed].copy()
    J_across = np.ascontiguousarray(J_fixed.T)
    s = (terms.M @ v_plus + goal.kappa)[fixed] - J_across @ f
    at = _conditions(J, goal, s)
    B, B_mu, owner = at.faces.B, at.faces.B_mu, at.faces.owner
    B_T = np.ascontiguousarray(B.T)
    # changes of the faces, by friction
    turned, twisted = np.zeros((f.shape[0], ends[-1] - ends[-2])), np.zeros((owner.shape[0], ends[-1] - ends[-2]))
    for k in range(owner.shape[0]):
        for r in range(f.shape[0]):
            turned[r, owner[k]] += B_mu[r, k] * at.faces.shares[k]
            twisted[k, owner[k]] += B_mu[r, k] * at.gradient[r]
    pushed = rows_transposed(terms, f)
    ds = (p - pushed)[fixed]  # of s at constant f
    stiff = J_fixed @ J_across + np.diag(at.ridge)
    g = J_fixed @ (ds - goal.slope) - rows_times(terms, at.z)
    g -= (at.ridge * f / goal.typical).reshape(-1, 1) * goal.typical_slope
    J_keeps = np.ascontiguousarray(J[:, at.keeps].T)
    e = np.zeros((at.keeps.shape[0], ends[-1]))
    e[: free.shape[0]] = (p - pushed)[free]
    for k in range(at.bounded.shape[0]):
        j = at.bounded[k]
        e[free.shape[0] + k] = ds[j] - (goal.most_slope[j] if at.above[j] else goal.least_slope[j])
    mu = ends[-2]
    g[:, mu:] -= stiff @ turned
    e[:, mu:] -= J_keeps @ turned
    A = J_keeps @ B
    S, E = optimum(B_T @ stiff @ B, A)
    xi = (S @ B_T) @ g + E @ e
    xi[:, mu:] -= S @ twisted
    slope = B @ xi
    slope[:, mu:] += turned
    # without a foot on the ground e is rounding, and only the motor impulses in p have a size
    return Shared(slope, np.maximum(errors(ends, A @ xi - e, np.vstack((e, p))), at.error), at)


@njit(cache=True, error_model="numpy")
def raw_impulses(terms: Terms, free: Integers, f: Array, moved: Moved, kept: Array) -> tuple[Array, Array]:
    """Return the derivative of a rigid contact model's impulses, shape (3 n, P), and its relative errors as `errors`.

    Solvers of rigid contacts return a vertex of the set of solutions, i.e. impulses along independent directions; the
    motion determines them.

    Args:
        terms: The robot and its contacts.
        free: Velocities that the step solves for.
        f: The impulses, shape (3 n,).
        moved: The motion.
        kept: As `Chosen.kept`, shape (3 n, k).
    """
    roles, size, turned = moved.roles, 1e-300, np.zeros((f.shape[0], terms.ends[-1]))
    n, largest = roles.kind.shape[0], np.abs(f).max() if f.shape[0] > 0 else 0.0
    for i in range(n):
        if roles.kind[i] == SLIDE:
            mine = np.flatnonzero(roles.owner == i)
            along, _ = fit(roles.B[i::n][:, mine].copy(), f[i::n].copy())
            for k in range(mine.shape[0]):
                for axis in range(3):
                    turned[axis * n + i, terms.ends[-2] + i] += roles.B_mu[axis * n + i, mine[k]] * along[k]
    J_free = np.ascontiguousarray(terms.J[:, free].T)
    e = (moved.p - rows_transposed(terms, f))[free] - J_free @ turned
    A, wrong = J_free @ kept, 0.0
    xi = least_squares(A, e)
    if kept.shape[1] > 0:
        along, _ = fit(kept, f)
        wrong = np.abs(kept @ along - f).max() / max(largest, size)
        if pseudo_inverse(A, RANK * column_length(A))[1].shape[1] > 0:
            wrong = np.inf  # no vertex: nothing is known of internal forces
    # without a foot on the ground e is rounding, and only the motor impulses in p have a size
    return kept @ xi + turned, np.maximum(errors(terms.ends, A @ xi - e, np.vstack((e, moved.p))), wrong)
