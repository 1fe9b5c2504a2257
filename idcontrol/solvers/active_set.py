"""Dual active set (Goldfarb & Idnani 1983): the smallest-norm point of a polyhedron, finite and with certificates.

The kernel solves min ½|y|² s.t. E y = e, A y ≥ b with rows of length one. The projection of stage I (math.md, sections
4.4 and 7.3) has that form already and is solved here; every strictly convex quadratic program can be brought to it
(`idcontrol.solvers.active_set_qp`).
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numba import typeof

from idcontrol.kernels.arena import HEAP, Arena, indices, matrix, vector, zeros
from idcontrol.kernels.jit import njit
from idcontrol.kernels.linear import solve_upper, solve_upper_transposed
from idcontrol.kernels.linked import late, linked
from idcontrol.solvers.factor import RowFactor, append, empty_factor, remove, split
from idcontrol.solvers.lcp import (
    ACTIVE_SET,
    SLIGHT,
    RowLcpAnswer,
    RowLcpResult,
    checked_rows,
    gram_residual,
    gram_residual_doubled,
    row_lcp_result,
)
from idcontrol.solvers.status import INACCURATE, INFEASIBLE, ITERATIONS, SOLVED, TOLERANCE
from idcontrol.types import Array

FEASIBLE: Final = 1e-10
"""Violation of a row that is left alone, relative to its constant: two digits better than what is called solved."""
ROUNDING: Final = 1e-15
"""Violation that rounding causes, relative to |y|."""
DEPENDENT: Final = 1e-20
"""A row of length one is a combination of the active ones if |row⊥|² is below this."""
SAME: Final = 1e-11
"""A row that depends on the active ones agrees with them if it is violated by less than this times |y|: the noise that
whitening with a condition number of 1e8 leaves in the rows."""
DEPENDENT_EQUALITY: Final = 1e-16
"""`DEPENDENT` for equalities, which carry the noise of earlier computations (math.md, section 13.4)."""
_REFINEMENTS: Final = 3
"""Rounds in which multipliers may be refined; one is usually enough."""


class SmallestNorm(NamedTuple):
    """The point of smallest norm that meets some rows; its arrays come from the caller's arena.

    Attributes:
        status: SOLVED (each row holds to its tolerance), INFEASIBLE, ITERATIONS or INACCURATE.
        iterations: Rows taken in.
        y: The point, shape (k,).
        multipliers: y = Σ multiplier · row, ≥ 0 on inequalities, shape (p,). Where the status is INFEASIBLE the
            certificate c: c ≥ 0 on inequalities, Σ c row = 0, b·c > 0.
        factor: Factor of the active rows, equalities first.
        n_active: How many they are.
    """

    status: int
    iterations: int
    y: Array
    multipliers: Array
    factor: RowFactor
    n_active: int


_NO_ANSWER: Final = RowLcpAnswer(
    SOLVED, 0, 0.0, ACTIVE_SET, np.empty(0), np.empty(0), np.empty(0), np.empty(0, dtype=np.int64)
)
_NO_EQUALITIES = np.int64(0)
"""No literal, for which Numba would compile `smallest_norm_kernel` anew."""


@njit(cache=True, inner=True, error_model="numpy", forceinline=True)
def _solve_active(factor: RowFactor, count: int, b: Array, y: Array, u: Array) -> None:
    """The smallest-norm y on the active rows, a·y = b, and its multipliers u_a, in the order of the active set."""
    active, basis, upper = factor.active, factor.basis, factor.upper
    for a in range(count):
        u[a] = b[active[a]]
    solve_upper_transposed(upper, count, u)
    for d in range(y.size):
        y[d] = 0.0
    for a in range(count):
        for d in range(y.size):
            y[d] += u[a] * basis[a, d]
    solve_upper(upper, count, u)


@linked
@njit(cache=True, inner=True, error_model="numpy")
def smallest_norm_kernel(columns: Array, b: Array, equalities: int, tolerance: Array, arena: Arena) -> SmallestNorm:
    """The y of smallest norm with row·y = b for the first `equalities` rows and row·y ≥ b for the others.

    Each step takes the most violated row in and moves along the part of it that is orthogonal to the active ones; a row
    whose multiplier reaches zero on the way leaves. |y| grows with each row taken in, hence no active set returns.
    Equalities that depend on earlier ones are skipped if they hold.

    Args:
        columns: The rows, of length one (or zero), transposed so that all of them are tested at once, shape (k, p).
        b: Right sides, shape (p,).
        equalities: How many of the rows, the first ones, are equalities.
        tolerance: Violation of each row that counts as none, shape (p,), beside 1e-15 |y|; raised here for rows that
            depend on the active ones and contradict them by rounding only.
        arena: Where arrays come from, those of the answer included.

    Returns:
        The point, or the certificate that there is none.
    """
    k, p = columns.shape
    y, multipliers, factor = vector(arena, k), vector(arena, p), empty_factor(k, arena)
    active, upper, coefficients, rest = factor.active, factor.upper, factor.coefficients, factor.rest
    u, loss = vector(arena, k), vector(arena, k)
    for d in range(k):
        y[d] = 0.0

    count = 0
    largest = 0.0
    for i in range(equalities):
        largest = max(largest, abs(b[i]))
        missing = b[i]
        for d in range(k):
            missing -= columns[d, i] * y[d]
            rest[d] = columns[d, i]
        square = split(factor, count, rest)
        if count == k or not square > DEPENDENT_EQUALITY:
            norm = 0.0
            for d in range(k):
                norm += y[d] * y[d]
            if abs(missing) <= tolerance[i] + TOLERANCE * (largest + np.sqrt(norm)):
                continue
            solve_upper(upper, count, coefficients)
            sign = 1.0 if missing > 0.0 else -1.0
            for j in range(p):
                multipliers[j] = 0.0
            multipliers[i] = sign
            for a in range(count):
                multipliers[active[a]] = -sign * coefficients[a]
            return SmallestNorm(INFEASIBLE, 0, y, multipliers, factor, count)
        append(factor, count, i, np.sqrt(square))
        for d in range(k):
            y[d] += missing / square * rest[d]
        count += 1
    fixed = count
    _solve_active(factor, count, b, y, u)

    below = multipliers  # how much each row misses, until there are multipliers to return
    limit = 20 * (p + k) + 50
    fresh = True  # y and u were computed from the active rows, not summed up on the way
    iteration = 0
    while iteration < limit:
        norm = 0.0
        for d in range(k):
            norm += y[d] * y[d]
        rounding = ROUNDING * np.sqrt(norm)
        for i in range(p):
            below[i] = b[i]
        for d in range(k):
            for i in range(p):
                below[i] -= columns[d, i] * y[d]
        enter, violation = -1, 0.0
        for i in range(equalities, p):
            if below[i] > violation and below[i] > tolerance[i] + rounding:
                violation = below[i]
                enter = i
        if enter < 0 and not fresh:
            _solve_active(factor, count, b, y, u)
            fresh = True
            continue
        if enter < 0:
            if not np.isfinite(norm):
                return SmallestNorm(INACCURATE, iteration, y, multipliers, factor, count)
            for i in range(p):
                multipliers[i] = 0.0
            for a in range(count):
                multipliers[active[a]] = u[a] if a < fixed else max(u[a], 0.0)
            return SmallestNorm(SOLVED, iteration, y, multipliers, factor, count)

        gained = 0.0  # multiplier of the entering row
        while True:
            for d in range(k):
                rest[d] = columns[d, enter]
            square = split(factor, count, rest)
            dependent = count == k or not square > DEPENDENT
            if dependent and gained == 0.0 and violation <= SAME * np.sqrt(norm):
                tolerance[enter] = violation
                break
            # what the other multipliers lose per unit of the new one: row = Σ coefficient · active rows + rest
            for a in range(count):
                loss[a] = coefficients[a]
            solve_upper(upper, count, loss)
            biggest = 1.0
            for a in range(count):
                biggest = max(biggest, abs(loss[a]))
            leave, step = -1, np.inf
            for a in range(fixed, count):
                if loss[a] > 1e-12 * biggest:
                    ratio = max(u[a], 0.0) / loss[a]
                    if ratio < step or (ratio == step and loss[a] > loss[leave]):
                        step = ratio
                        leave = a
            if dependent and leave < 0 and violation <= SLIGHT * (abs(b[enter]) + abs(b[enter] - violation)):
                tolerance[enter] = violation  # and begin again
                count = fixed
                _solve_active(factor, count, b, y, u)
                break
            if dependent and leave < 0:
                for i in range(p):
                    multipliers[i] = 0.0
                multipliers[enter] = 1.0
                for a in range(count):
                    multipliers[active[a]] = -loss[a] if a < fixed else max(-loss[a], 0.0)
                return SmallestNorm(INFEASIBLE, iteration, y, multipliers, factor, count)
            full = np.inf if dependent else violation / square
            taken = min(step, full)
            gained += taken
            for a in range(count):
                u[a] -= taken * loss[a]
            if not dependent:
                for d in range(k):
                    y[d] += taken * rest[d]
                violation -= taken * square
            if full <= step:
                append(factor, count, enter, np.sqrt(square))
                u[count] = gained
                count += 1
                break
            remove(factor, count, leave)
            count -= 1
            for a in range(leave, count):
                u[a] = u[a + 1]
        fresh = False
        iteration += 1
    return SmallestNorm(ITERATIONS, limit, y, multipliers, factor, count)


@njit(cache=True, inner=True, error_model="numpy")
def _refine_multipliers(
    rho: Array, r: Array, left: Array, lengths: Array, found: SmallestNorm, w: Array, arena: Arena
) -> float:
    """Refine the multipliers z of the active rows, residuals in twice the precision; returns the last residual.

    Where rows nearly depend on each other, multipliers are so large that rounding any one of them moves y by more than
    the tolerance. Hence the rows are factored afresh, those that push most last; their multipliers are computed first,
    and each is rounded before the next one is computed, which then makes up for it (Babai's nearest plane).
    """
    y, z, factor, count = found.y, found.multipliers, found.factor, found.n_active
    active, upper, rest = factor.active, factor.upper, factor.rest
    k = y.size
    step = vector(arena, k)
    for a in range(1, count):
        i, place = active[a], a
        while place > 0 and z[active[place - 1]] * lengths[active[place - 1]] > z[i] * lengths[i]:
            active[place] = active[place - 1]
            place -= 1
        active[place] = i
    for a in range(count):
        i = active[a]
        for d in range(k):
            rest[d] = rho[i, d] / lengths[i]
        square = split(factor, a, rest)
        append(factor, a, i, np.sqrt(square))
    residual = gram_residual_doubled(rho, r, left, z, y, w, arena)
    for _ in range(_REFINEMENTS):
        if residual <= TOLERANCE:
            break
        for a in range(count):
            step[a] = -w[active[a]] / lengths[active[a]]
        solve_upper_transposed(upper, count, step)
        for a in range(count - 1, -1, -1):
            total = step[a]
            for c in range(a + 1, count):
                total -= upper[a, c] * step[c]
            i = active[a]
            before = z[i]
            z[i] = max(before + total / (upper[a, a] * lengths[i]), 0.0)
            step[a] = (z[i] - before) * lengths[i]
        residual = gram_residual_doubled(rho, r, left, z, y, w, arena)
    return float(residual)


@late(lambda *_: typeof(_NO_ANSWER))
@njit(cache=True, error_model="numpy")
def project_kernel(rho: Array, r: Array, left: Array, arena: Arena) -> RowLcpAnswer:
    """The dual of LCP(r, ρρᵀ): min ½|y|² s.t. ρy + r ≥ 0; its multipliers are z (math.md, section 4.4).

    Args:
        rho: Rows ρ, shape (n, k).
        r: Constants, shape (n,).
        left: What rounding may leave of them, shape (n,).
        arena: Where arrays come from, those of the answer included.

    Returns:
        The answer, with a certificate when the status is INFEASIBLE. Its residual is measured in twice the precision
        where double does not do.
    """
    n, k = rho.shape
    w, columns = vector(arena, n), matrix(arena, k, n)
    b, tolerance, lengths = vector(arena, n), vector(arena, n), vector(arena, n)
    total = 0.0
    for i in range(n):
        w[i] = r[i]
        total += r[i]
    if not np.isfinite(total):
        return RowLcpAnswer(INACCURATE, 0, np.inf, ACTIVE_SET, zeros(arena, n), zeros(arena, k), w, indices(arena, 0))
    for i in range(n):
        square = 0.0
        for d in range(k):
            square += rho[i, d] * rho[i, d]
        lengths[i] = np.sqrt(square) if square > 0.0 else 1.0
        for d in range(k):
            columns[d, i] = rho[i, d] / lengths[i]
        b[i] = -r[i] / lengths[i]
        tolerance[i] = (FEASIBLE * abs(r[i]) + left[i]) / lengths[i]
    found = smallest_norm_kernel(columns, b, _NO_EQUALITIES, tolerance, arena)
    status, y, z, active = found.status, found.y, found.multipliers, found.factor.active[: found.n_active]
    for i in range(n):
        z[i] /= lengths[i]
    residual = np.inf
    if status == SOLVED:
        residual = gram_residual(rho, r, left, z, y, w)
        if not residual <= TOLERANCE:
            residual = _refine_multipliers(rho, r, left, lengths, found, w, arena)
        status = SOLVED if residual <= TOLERANCE else INACCURATE
    else:
        y[:] = 0.0
    return RowLcpAnswer(status, found.iterations, residual, ACTIVE_SET, z, y, w, active)


def project(rho: Array, r: Array) -> RowLcpResult:
    """Solve min ½|y|² s.t. ρy + r ≥ 0, whose multipliers z solve LCP(r, ρρᵀ) (math.md, section 4.4).

    Args:
        rho: Rows ρ, shape (n, k).
        r: Constants, shape (n,).

    Returns:
        The outcome, its residual checked; INFEASIBLE with a certificate if no y has ρy + r ≥ 0.

    Raises:
        InputError: The shapes do not fit.
    """
    rho, r = checked_rows(rho, r)
    return row_lcp_result(project_kernel(rho, r, np.zeros(r.size), HEAP))
