"""Dual active set (Goldfarb and Idnani, 1983): the smallest-norm point of a polyhedron, finite and with certificates.

The kernel solves min ½|y|² s.t. E y = e, A y ≥ b with rows of length one. The projection of stage I (math.md 4.4, 7.3)
is that already, and is here; every strictly convex quadratic program can be brought to it
(`idcontrol.solvers.active_set_qp`).
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numba import njit

from idcontrol.solvers.factor import append, remove, solve_upper, solve_upper_transposed, split
from idcontrol.solvers.lcp import (
    RowLcpResult,
    checked_rows,
    gram_residual,
    gram_residual_doubled,
    row_lcp_result,
)
from idcontrol.solvers.status import INACCURATE, INFEASIBLE, ITERATIONS, SOLVED, TOLERANCE
from idcontrol.types import Array, Integers

FEASIBLE: Final = 1e-10
"""Relative violation of a row that is left alone: two digits better than what is called solved."""
_ROUNDING: Final = 1e-15
"""Violation, relative to |y|, that rounding makes."""
_DEPENDENT: Final = 1e-20
"""A row of length one is a combination of the active ones if |row⊥|² is below this."""
_SAME: Final = 1e-11
"""A row that depends on the active ones says what they say if it misses by less than this times |y|: the noise that
whitening with a condition number of 1e8 leaves in the rows."""
_DEPENDENT_EQUALITY: Final = 1e-16
"""The same for equalities, which come with the noise of earlier computations (math.md 13.4)."""
_REFINEMENTS: Final = 3
"""Of multipliers; one is what it takes."""


@njit(cache=True, error_model="numpy")
def _solve_active(basis: Array, upper: Array, active: Integers, count: int, b: Array, y: Array, u: Array) -> None:
    """The smallest-norm y on the active rows, a·y = b, and its multipliers u_a, in the order of the active set."""
    for a in range(count):
        u[a] = b[active[a]]
    solve_upper_transposed(upper, count, u)
    for d in range(y.size):
        y[d] = 0.0
    for a in range(count):
        for d in range(y.size):
            y[d] += u[a] * basis[a, d]
    solve_upper(upper, count, u)


@njit(cache=True, error_model="numpy")
def smallest_norm_kernel(
    columns: Array,
    b: Array,
    equalities: int,
    tolerance: Array,
    y: Array,
    multipliers: Array,
    active: Integers,
    work: Array,
) -> tuple[int, int, int]:
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
        y: Result, shape (k,).
        multipliers: Result, shape (p,): y = Σ multiplier · row, ≥ 0 on inequalities. Where the status is INFEASIBLE the
            certificate c: c ≥ 0 on inequalities, Σ c row = 0, b·c > 0.
        active: Result, shape (k,): the active rows, equalities first.
        work: Scratch from `active_set_work`.

    Returns:
        Status number (SOLVED: each row holds to its tolerance), rows taken in, number of active rows.
    """
    k, p = columns.shape
    basis, upper = work[:k], work[k : 2 * k]
    u, coefficients, rest, loss = work[2 * k], work[2 * k + 1], work[2 * k + 2], work[2 * k + 3]
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
        square = split(basis, count, rest, coefficients, rest)
        if count == k or not square > _DEPENDENT_EQUALITY:
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
            return INFEASIBLE, 0, count
        append(basis, upper, active, count, i, coefficients, rest, np.sqrt(square))
        for d in range(k):
            y[d] += missing / square * rest[d]
        count += 1
    fixed = count
    _solve_active(basis, upper, active, count, b, y, u)

    below = multipliers  # how much each row misses, until there are multipliers to return
    limit = 20 * (p + k) + 50
    fresh = True  # y and u were computed from the active rows, not summed up on the way
    iteration = 0
    while iteration < limit:
        norm = 0.0
        for d in range(k):
            norm += y[d] * y[d]
        rounding = _ROUNDING * np.sqrt(norm)
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
            _solve_active(basis, upper, active, count, b, y, u)
            fresh = True
            continue
        if enter < 0:
            if not np.isfinite(norm):
                return INACCURATE, iteration, count
            for i in range(p):
                multipliers[i] = 0.0
            for a in range(count):
                multipliers[active[a]] = u[a] if a < fixed else max(u[a], 0.0)
            return SOLVED, iteration, count

        gained = 0.0  # multiplier of the entering row
        while True:
            for d in range(k):
                rest[d] = columns[d, enter]
            square = split(basis, count, rest, coefficients, rest)
            dependent = count == k or not square > _DEPENDENT
            if dependent and gained == 0.0 and violation <= _SAME * np.sqrt(norm):
                tolerance[enter] = violation
                break
            root = np.sqrt(square)
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
            if dependent and leave < 0:
                for i in range(p):
                    multipliers[i] = 0.0
                multipliers[enter] = 1.0
                for a in range(count):
                    multipliers[active[a]] = -loss[a] if a < fixed else max(-loss[a], 0.0)
                return INFEASIBLE, iteration, count
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
                append(basis, upper, active, count, enter, coefficients, rest, root)
                u[count] = gained
                count += 1
                break
            remove(basis, upper, active, count, leave)
            count -= 1
            for a in range(leave, count):
                u[a] = u[a + 1]
        fresh = False
        iteration += 1
    return ITERATIONS, limit, count


def active_set_work(k: int) -> Array:
    """Scratch of `smallest_norm_kernel` for k variables."""
    return np.empty((2 * k + 4, k))


@njit(cache=True, error_model="numpy")
def _refine_multipliers(
    rho: Array,
    r: Array,
    lengths: Array,
    active: Integers,
    count: int,
    z: Array,
    y: Array,
    w: Array,
    work: Array,
) -> float:
    """Refine the multipliers z of the active rows, residuals in twice the precision; returns the last residual.

    Where rows nearly depend on each other multipliers are large, and already what is lost in rounding each of them
    moves y by more than the tolerance. Hence the rows are factored afresh, those that push most last; their multipliers
    are computed first, and each is rounded before the next one is computed, which then makes up for it (Babai's nearest
    plane).
    """
    k = y.size
    basis, upper = work[:k], work[k : 2 * k]
    step, coefficients, rest, low = work[2 * k], work[2 * k + 1], work[2 * k + 2], work[2 * k + 3]
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
        square = split(basis, a, rest, coefficients, rest)
        append(basis, upper, active, a, i, coefficients, rest, np.sqrt(square))
    residual = gram_residual_doubled(rho, r, z, y, low, w)
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
        residual = gram_residual_doubled(rho, r, z, y, low, w)
    return float(residual)


@njit(cache=True, error_model="numpy")
def project_kernel(
    rho: Array,
    r: Array,
    active: Integers,
    z: Array,
    y: Array,
    w: Array,
    rows: Array,
    sides: Array,
    work: Array,
) -> tuple[int, int, int, float]:
    """The dual of LCP(r, ρρᵀ): min ½|y|² s.t. ρy + r ≥ 0; its multipliers are z (math.md 4.4).

    Args:
        rho: Rows ρ, shape (n, k).
        r: Constants, shape (n,).
        active: Result, shape (k,): the active rows.
        z: Result, shape (n,): the multipliers, or the certificate c when the status is INFEASIBLE: c ≥ 0, ρᵀc = 0 and
            r·c < 0.
        y: Result ρᵀz, shape (k,).
        w: Result ρy + r, shape (n,).
        rows: Scratch, n k numbers in any shape.
        sides: Scratch, shape (3, n).
        work: Scratch from `active_set_work`.

    Returns:
        Status number, iterations, number of active rows, relative residual (math.md 13.3), measured in twice the
        precision where double does not do; inf where no answer.
    """
    n, k = rho.shape
    columns = rows.reshape(k, n)
    b, tolerance, lengths = sides[0], sides[1], sides[2]
    r_max, total = 0.0, 0.0
    for i in range(n):
        r_max = max(r_max, abs(r[i]))
        total += r[i]
    if not np.isfinite(total):
        for i in range(n):
            z[i] = 0.0
            w[i] = r[i]
        for d in range(k):
            y[d] = 0.0
        return INACCURATE, 0, 0, np.inf
    for i in range(n):
        square = 0.0
        for d in range(k):
            square += rho[i, d] * rho[i, d]
        lengths[i] = np.sqrt(square) if square > 0.0 else 1.0
        for d in range(k):
            columns[d, i] = rho[i, d] / lengths[i]
        b[i] = -r[i] / lengths[i]
        tolerance[i] = FEASIBLE * r_max / lengths[i]
    status, iterations, count = smallest_norm_kernel(columns, b, 0, tolerance, y, z, active, work)
    for i in range(n):
        z[i] /= lengths[i]
    if status != SOLVED:
        for i in range(n):
            w[i] = r[i]
        for d in range(k):
            y[d] = 0.0
        return status, iterations, count, np.inf
    residual = gram_residual(rho, r, z, y, w)
    if not residual <= TOLERANCE:
        residual = _refine_multipliers(rho, r, lengths, active, count, z, y, w, work)
    return (SOLVED if residual <= TOLERANCE else INACCURATE), iterations, count, residual


def project(rho: Array, r: Array) -> RowLcpResult:
    """Solve min ½|y|² s.t. ρy + r ≥ 0, whose multipliers z solve LCP(r, ρρᵀ) (math.md 4.4).

    Args:
        rho: Rows ρ, shape (n, k).
        r: Constants, shape (n,).

    Returns:
        The outcome, its residual checked; INFEASIBLE with a certificate if no y has ρy + r ≥ 0.

    Raises:
        InputError: The shapes do not fit.
    """
    rho, r = checked_rows(rho, r)
    n, k = rho.shape
    active, z, y, w = np.empty(k, dtype=np.int64), np.empty(n), np.empty(k), np.empty(n)
    status, iterations, count, residual = project_kernel(
        rho, r, active, z, y, w, np.empty((n, k)), np.empty((3, n)), active_set_work(k)
    )
    return row_lcp_result(status, z, y, w, active[:count], residual, iterations, "active set")
