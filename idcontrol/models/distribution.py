r"""Stage II: of the impulses that give the same motion, those with the smallest torque (math.md 7.4; 003 (98)-(112)).

In y = (f_N, f_S, f_T) the torque is affine, ``hτ(y) = hτ(y₁) + Lτ (y - y₁)`` with ``Lτ = M_qb M_bb⁻¹ J_bᵀ - J_qᵀ``, and

    minimize ½ |hτ(y) - hτ_ref|² + ½ Σ w_i |y_i|²
    s.t.     J_bᵀ y = J_bᵀ y₁                          v⁺ is kept
             y_i in the cone of the friction edges e of contact i with G_e v⁺ + φ/h ≤ v_tol

The last line is the edge rule: an open contact keeps no edge and so no force, a sliding one the edge or the two that
oppose it, a sticking one all four. Three edges or fewer are linearly independent, so their multipliers are the
unknowns; the full pyramid has its three components as unknowns and its four facets as inequalities.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from idcontrol.kernels.arena import HEAP, Arena, indices, matrix, vector, zeros
from idcontrol.models.reduction import Reduction
from idcontrol.solvers.active_set_qp import QuadraticProgram, qp_kernel
from idcontrol.solvers.basis import pivoted_basis
from idcontrol.solvers.status import SOLVED
from idcontrol.types import Array, Booleans, Integers

RIDGE = 1e-8
"""Weight of ½|y|² relative to the mean of diag(LτᵀLτ): makes duplicate contacts share evenly (math.md 7.4)."""

MOTION_RANK_TOLERANCE = 1e-8
"""Relative length below which a direction of J_bᵀ depends on the others (math.md 7.4, 13.4)."""


@njit(cache=True, error_model="numpy")
def torque_map_kernel(
    M: Array, free: Integers, fixed: Integers, L: Array, rows: Array, rho: Array, n3: int, arena: Arena
) -> Array:  # pragma: no cover - compiled
    """Lτ = (L⁻¹ M_bq)ᵀ ρᵀ - J_qᵀ, shape (p, 3 n)."""
    k, p = free.shape[0], fixed.shape[0]
    X = matrix(arena, k, p)
    for i in range(k):
        for a in range(p):
            X[i, a] = M[free[i], fixed[a]]
        for o in range(i):
            for a in range(p):
                X[i, a] -= L[i, o] * X[o, a]
        inverse = 1.0 / L[i, i]
        for a in range(p):
            X[i, a] *= inverse
    columns = matrix(arena, k, n3)
    for r in range(n3):
        for i in range(k):
            columns[i, r] = rho[r, i]
    out: Array = matrix(arena, p, n3)
    for a in range(p):
        for r in range(n3):
            out[a, r] = -rows[r, fixed[a]]
        for i in range(k):
            for r in range(n3):
                out[a, r] += X[i, a] * columns[i, r]
    return out


@njit(cache=True)
def _generators(
    u: Array, mu: Array, held: Booleans, v_tol: float, row: Integers, other: Integers, weight: Array, A: Array
) -> tuple[int, int]:  # pragma: no cover - compiled
    """Generators B with y = B ξ (3 n x d), and inequality rows A ξ ≥ 0, after the edge rule.

    Column j of B has 1 at `row[j]` and `weight[j]` at `other[j]`: a single component (weight 0) or a friction edge.
    `u` are contact velocities (3 n,), φ/h included; `held` contacts do not slip: their friction has no bound.

    Returns:
        d, and the number of rows of A.
    """
    n = mu.shape[0]
    d, rows = 0, 0
    for i in range(n):
        sticks = held[i] and u[i] <= v_tol
        allowed = 0
        if not held[i] and mu[i] > 0.0:
            for axis in range(1, 3):
                for sign in (1.0, -1.0):
                    if u[i] + sign * mu[i] * u[axis * n + i] <= v_tol:
                        allowed += 1
        if sticks or allowed == 4:
            for axis in range(3):
                row[d + axis] = axis * n + i
                other[d + axis] = axis * n + i
                weight[d + axis] = 0.0
            if sticks:
                A[rows] = 0.0
                A[rows, d] = 1.0
                rows += 1
            else:
                for s in (1.0, -1.0):
                    for t in (1.0, -1.0):
                        A[rows] = 0.0
                        A[rows, d] = mu[i]
                        A[rows, d + 1] = s
                        A[rows, d + 2] = t
                        rows += 1
            d += 3
        elif held[i]:
            continue
        elif mu[i] == 0.0:
            if u[i] <= v_tol:
                row[d], other[d], weight[d] = i, i, 0.0
                A[rows] = 0.0
                A[rows, d] = 1.0
                rows += 1
                d += 1
        else:
            for axis in range(1, 3):
                for sign in (1.0, -1.0):
                    if u[i] + sign * mu[i] * u[axis * n + i] <= v_tol:
                        row[d], other[d], weight[d] = i, axis * n + i, sign * mu[i]
                        A[rows] = 0.0
                        A[rows, d] = 1.0
                        rows += 1
                        d += 1
    return d, rows


@njit(cache=True, error_model="numpy")
def _into_cones(mu: Array, held: Booleans, y: Array) -> None:  # pragma: no cover - compiled
    """Take from y (3 n,) what rounding has put outside the pyramids of its contacts, `held` ones but pressing.

    It is rounding of the impulses that would give the torque alone, and those of feet that carry little are smaller.
    """
    n = mu.shape[0]
    for i in range(n):
        y[i] = max(y[i], 0.0)
        if held[i]:
            continue
        friction, most = abs(y[n + i]) + abs(y[2 * n + i]), mu[i] * y[i]
        if friction > most:
            share = most / friction
            y[n + i] *= share
            y[2 * n + i] *= share


@njit(cache=True, error_model="numpy")
def smallest_torque_kernel(
    M: Array,
    free: Integers,
    fixed: Integers,
    L: Array,
    rows: Array,
    rho: Array,
    c: Array,
    y: Array,
    constant: Array,
    mu: Array,
    held: Booleans,
    v_tol: float,
    reluctance: Array,
    out: Array,
    arena: Arena,
) -> bool:  # pragma: no cover - compiled
    """The QP of the module; `out` gets the new impulses. `constant` is hτ(y) - hτ_ref."""
    n3, p = y.shape[0], fixed.shape[0]
    x = zeros(arena, rho.shape[1])
    for r in range(n3):
        for i in range(x.shape[0]):
            x[i] += rho[r, i] * y[r]
    torque = torque_map_kernel(M, free, fixed, L, rows, rho, n3, arena)
    rest = vector(arena, p)
    rest[:] = constant
    for a in range(p):
        for r in range(n3):
            rest[a] -= torque[a, r] * y[r]
    return bool(share_kernel(rho, c, x, torque, rest, mu, held, v_tol, reluctance, out, arena))


@njit(cache=True, error_model="numpy")
def share_kernel(
    rho: Array,
    c: Array,
    x: Array,
    torque: Array,
    rest: Array,
    mu: Array,
    held: Booleans,
    v_tol: float,
    reluctance: Array,
    out: Array,
    arena: Arena,
) -> bool:  # pragma: no cover - compiled
    """The QP of the module, for a motion that is known without impulses y₁.

    Args:
        rho: Whitened contact rows, shape (3 n, k).
        c: Their constants, shape (3 n,).
        x: The whitened velocity change ρᵀy that is kept, shape (k,).
        torque: Lτ, shape (p, 3 n).
        rest: hτ(0) - hτ_ref, the first at zero contact impulse, where v⁺ = v°, shape (p,).
        mu: Friction, shape (n,).
        held: Contacts whose friction is not bounded, shape (n,).
        v_tol: Of the edge rule.
        reluctance: Extra weights, shape (n,).
        out: Result, shape (3 n,).
        arena: Where arrays come from.

    Returns:
        Whether impulses were found.
    """
    n3, k = rho.shape
    n, p = n3 // 3, rest.shape[0]
    u = vector(arena, n3)
    for r in range(n3):
        u[r] = c[r]
        for i in range(k):
            u[r] += rho[r, i] * x[i]
    row, other, weight = indices(arena, n3), indices(arena, n3), vector(arena, n3)
    space = matrix(arena, 4 * n, n3)
    d, limits = _generators(u, mu, held, v_tol, row, other, weight, space)
    if d == 0:
        out[:] = 0.0
        return not np.any(x != 0.0)
    A = matrix(arena, limits, d)
    A[:] = space[:limits, :d]
    typical = 0.0
    for a in range(p):
        for r in range(n3):
            typical += torque[a, r] * torque[a, r]
    typical /= n3
    TB = matrix(arena, p, d)
    for a in range(p):
        for j in range(d):
            TB[a, j] = torque[a, row[j]] + weight[j] * torque[a, other[j]]
    H, g = matrix(arena, d, d), zeros(arena, d)
    H[:] = 0.0
    for a in range(p):
        for i in range(d):
            share = TB[a, i] / typical
            g[i] += share * rest[a]
            for j in range(d):
                H[i, j] += share * TB[a, j]
    for i in range(d):
        for j in range(d):
            if row[i] == row[j]:
                H[i, j] += RIDGE + reluctance[row[i] % n]
            if weight[i] * weight[j] != 0.0 and other[i] == other[j]:
                H[i, j] += (RIDGE + reluctance[row[i] % n]) * weight[i] * weight[j]
    # J_bᵀ y is kept: dependent rows first removed, or rounding would decide whether they agree
    span, motion = matrix(arena, k, d), vector(arena, k)
    motion[:] = x
    longest = 0.0
    for i in range(k):
        square = 0.0
        for j in range(d):
            span[i, j] = rho[row[j], i] + weight[j] * rho[other[j], i]
            square += span[i, j] * span[i, j]
        longest = max(longest, square)
    E, e = pivoted_basis(span, motion, MOTION_RANK_TOLERANCE * np.sqrt(longest), arena)
    answer = qp_kernel(QuadraticProgram(H, g, A, zeros(arena, limits), E, e), arena)
    if answer.status != SOLVED:
        return False
    out[:] = 0.0
    for j in range(d):
        out[row[j]] += answer.x[j]
        out[other[j]] += weight[j] * answer.x[j]
    _into_cones(mu, held, out)
    return True


def torque_map(reduction: Reduction, n: int) -> Array:
    """Lτ of the module: how motor impulses answer to the impulses [N; S; T] of n contacts, shape (p, 3 n)."""
    r = reduction
    mapped: Array = torque_map_kernel(r.M, r.free, r.fixed, r.L, r.rows, r.rho, 3 * n, HEAP)
    return mapped


def smallest_torque(
    reduction: Reduction,
    y: Array,
    torque_impulse: Array,
    mu: Array,
    *,
    held: Booleans,
    v_tol: float = 1e-3,
    reluctance: Array | None = None,
    reference: Array | None = None,
) -> tuple[Array, bool]:
    """Redistribute contact impulses for the smallest torque, without changing the motion.

    Args:
        reduction: The whitened problem that `y` solves.
        y: Impulses in block order [N; S; T], shape (3 n,) [N s].
        torque_impulse: Motor impulses hτ that belong to `y`, shape (p,) [N m s].
        mu: Friction coefficients, shape (n,); not used where `held`.
        held: Contacts whose friction is not bounded (no slip), shape (n,).
        v_tol: An edge whose velocity exceeds this carries no impulse [m/s].
        reluctance: Extra weight of each contact's impulse, in units of the mean of diag(LτᵀLτ), shape (n,): unloads
            feet that are about to lift or have just landed (planner.md 7).
        reference: hτ_ref, shape (p,) [N m s]; zero by default.

    Returns:
        The new impulses and True, or `y` and False where no better point was found.
    """
    n = mu.shape[0]
    r = reduction
    if n == 0 or r.fixed.size == 0:
        return y, True
    constant = torque_impulse if reference is None else torque_impulse - reference
    weights = np.zeros(n) if reluctance is None else reluctance
    out = np.empty(3 * n)
    better = smallest_torque_kernel(
        r.M, r.free, r.fixed, r.L, r.rows, r.rho[: 3 * n], r.c, y, constant, mu, held, v_tol, weights, out, HEAP
    )
    return (out, True) if better else (y, False)
