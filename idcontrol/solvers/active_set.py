"""Dual active set (Goldfarb and Idnani, 1983): strictly convex quadratic programs, finite and with certificates.

Every problem is brought to the smallest-norm point of a polyhedron, min ½|y|² s.t. E y = e, A y ≥ b with rows of length
one: a general objective ½xᵀHx + gᵀx becomes that with H = UᵀU, y = Ux + U⁻ᵀg. The projection of stage I
(math.md 4.4, 7.3) is that already.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numba import njit

from idcontrol.errors import InputError
from idcontrol.solvers.factor import append, remove, solve_upper, solve_upper_transposed, split
from idcontrol.solvers.lcp import (
    RowLcpResult,
    checked_rows,
    gram_residual,
    gram_residual_doubled,
    row_lcp_result,
)
from idcontrol.solvers.status import INACCURATE, INFEASIBLE, ITERATIONS, SOLVED, TOLERANCE, SolverStatus
from idcontrol.types import Array, Integers

_FEASIBLE: Final = 1e-10
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
        tolerance[i] = _FEASIBLE * r_max / lengths[i]
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


@njit(cache=True, error_model="numpy")
def qp_residual(H: Array, g: Array, A: Array, b: Array, E: Array, e: Array, x: Array, u: Array, v: Array) -> float:
    """Largest relative violation of the optimality conditions of min ½xᵀHx + gᵀx s.t. A x ≥ b, E x = e.

    Violated rows are measured as a distance relative to the longer of |x| and |g| / max H_ii, gradients (stationarity
    Hx + g = Aᵀu + Eᵀv, signs of u) relative to the largest of their terms, u·(A x - b) relative to the product of both.

    Args:
        H: Shape (k, k).
        g: Shape (k,).
        A: Inequality rows, shape (p, k).
        b: Shape (p,).
        E: Equality rows, shape (m, k).
        e: Shape (m,).
        x: Point, shape (k,).
        u: Multipliers of A, shape (p,).
        v: Multipliers of E, shape (m,).

    Returns:
        Zero at the optimum; inf if anything is NaN.
    """
    k = x.size
    gradient, push, stationarity, steepest = 0.0, 0.0, 0.0, 0.0
    x_square, g_square = 0.0, 0.0
    for i in range(k):
        curvature, forces = 0.0, 0.0
        for j in range(k):
            curvature += H[i, j] * x[j]
        for j in range(b.size):
            forces += A[j, i] * u[j]
        for j in range(e.size):
            forces += E[j, i] * v[j]
        gradient = max(gradient, max(abs(curvature), abs(g[i])))
        push = max(push, abs(forces))
        wrong = curvature + g[i] - forces
        if not np.isfinite(wrong):
            return np.inf
        stationarity = max(stationarity, abs(wrong))
        steepest = max(steepest, H[i, i])
        x_square += x[i] * x[i]
        g_square += g[i] * g[i]
    gradient = max(gradient, push)
    length = max(np.sqrt(x_square), np.sqrt(g_square) / steepest)
    worst = stationarity / gradient if gradient > 0.0 else 0.0
    for j in range(e.size + b.size):
        equality = j < e.size
        row = E[j] if equality else A[j - e.size]
        slack = -e[j] if equality else -b[j - e.size]
        square = 0.0
        for i in range(k):
            slack += row[i] * x[i]
            square += row[i] * row[i]
        norm = np.sqrt(square) if square > 0.0 else 1.0
        distance = slack / norm
        if not np.isfinite(distance):
            return np.inf
        violation = abs(distance) if equality else max(-distance, 0.0)
        if violation > 0.0:
            worst = max(worst, violation / length if length > 0.0 else np.inf)
        if not equality:
            pressure = u[j - e.size] * norm
            if pressure < 0.0:
                worst = max(worst, -pressure / gradient)
            elif pressure > 0.0 and distance > 0.0:
                worst = max(worst, pressure * distance / (gradient * length))
    return worst


@njit(cache=True, error_model="numpy")
def _cholesky(H: Array, U: Array) -> bool:
    """Upper factor H = UᵀU from the upper triangle of H; False if H is not positive definite."""
    k = H.shape[0]
    for i in range(k):
        for j in range(i, k):
            U[i, j] = H[i, j]
    for d in range(k):
        if not U[d, d] > 0.0:
            return False
        pivot = 1.0 / np.sqrt(U[d, d])
        for j in range(d, k):
            U[d, j] *= pivot
        for i in range(d + 1, k):
            for j in range(i, k):
                U[i, j] -= U[d, i] * U[d, j]
    return True


@njit(cache=True, error_model="numpy")
def _whiten(U: Array, x: Array) -> None:
    """Solve Uᵀx = x in place."""
    for d in range(x.size):
        x[d] /= U[d, d]
        for i in range(d + 1, x.size):
            x[i] -= U[d, i] * x[d]


@njit(cache=True, error_model="numpy")
def _unwhiten(U: Array, x: Array) -> None:
    """Solve U x = x in place."""
    for d in range(x.size - 1, -1, -1):
        total = x[d]
        for i in range(d + 1, x.size):
            total -= U[d, i] * x[i]
        x[d] = total / U[d, d]


@njit(cache=True, error_model="numpy")
def _whiten_rows(
    U: Array, origin: Array, A: Array, b: Array, E: Array, e: Array, taken: int, columns: Array, sides: Array
) -> None:
    """The first rows of E, A in y = Ux + U⁻ᵀg: U⁻ᵀa, b + (U⁻ᵀa)·(U⁻ᵀg), both over |U⁻ᵀa|, which goes to sides[2]."""
    k, m = origin.size, e.size
    white_sides, lengths = sides[0], sides[2]
    for i in range(taken):
        row = E[i] if i < m else A[i - m]
        for d in range(k):
            columns[d, i] = row[d]
        white_sides[i] = e[i] if i < m else b[i - m]
        lengths[i] = 0.0
    # U⁻ᵀ on all rows at once
    for d in range(k):
        for i in range(taken):
            columns[d, i] /= U[d, d]
            lengths[i] += columns[d, i] * columns[d, i]
            white_sides[i] += columns[d, i] * origin[d]
        for c in range(d + 1, k):
            for i in range(taken):
                columns[c, i] -= U[d, c] * columns[d, i]
    for i in range(taken):
        lengths[i] = np.sqrt(lengths[i]) if lengths[i] > 0.0 else 1.0
        white_sides[i] /= lengths[i]
    for d in range(k):
        for i in range(taken):
            columns[d, i] /= lengths[i]


@njit(cache=True, error_model="numpy")
def _holds(A: Array, b: Array, x: Array, tolerance: Array, length: float) -> bool:
    """Whether A x ≥ b to tolerance * length; False for a NaN."""
    for i in range(b.size):
        slack = -b[i]
        for d in range(x.size):
            slack += A[i, d] * x[d]
        if not slack >= -tolerance[i] * length:
            return False
    return True


@njit(cache=True, error_model="numpy")
def _refine(
    H: Array,
    g: Array,
    A: Array,
    b: Array,
    E: Array,
    e: Array,
    x: Array,
    multipliers: Array,
    active: Integers,
    count: int,
    lengths: Array,
    work: Array,
) -> None:
    """One step of iterative refinement of x and the multipliers on the active rows.

    With s = -(Hx + g - Σ multiplier · row) and t what the active rows miss, dx and du solve H dx - Σ du · row = s,
    row · dx = t; the factors in `work` are those of H and of the whitened active rows of length one.
    """
    k, m = x.size, e.size
    U, s, dy = work[:k], work[k], work[k + 1]
    basis, upper, t, along = work[k + 2 : 2 * k + 2], work[2 * k + 2 : 3 * k + 2], work[3 * k + 2], work[3 * k + 3]
    for d in range(k):
        s[d] = -g[d]
        for i in range(k):
            s[d] -= H[d, i] * x[i]
    for c in range(count):
        i = active[c]
        row = E[i] if i < m else A[i - m]
        t[c] = e[i] if i < m else b[i - m]
        for d in range(k):
            s[d] += multipliers[i] * row[d]
            t[c] -= row[d] * x[d]
        t[c] /= lengths[i]
    _whiten(U, s)
    solve_upper_transposed(upper, count, t)
    for d in range(k):
        dy[d] = s[d]
    for c in range(count):
        along[c] = 0.0
        for d in range(k):
            along[c] += basis[c, d] * dy[d]
        for d in range(k):
            dy[d] += (t[c] - along[c]) * basis[c, d]
        t[c] -= along[c]
    _unwhiten(U, dy)
    solve_upper(upper, count, t)
    for d in range(k):
        x[d] += dy[d]
    for c in range(count):
        i = active[c]
        multipliers[i] += t[c] / lengths[i]
        if i >= m:
            multipliers[i] = max(multipliers[i], 0.0)


@njit(cache=True, error_model="numpy")
def qp_kernel(
    H: Array,
    g: Array,
    A: Array,
    b: Array,
    E: Array,
    e: Array,
    x: Array,
    multipliers: Array,
    active: Integers,
    rows: Array,
    sides: Array,
    work: Array,
) -> tuple[int, int, int, float]:
    """Solve min ½xᵀHx + gᵀx s.t. A x ≥ b, E x = e by the dual active set.

    Args:
        H: Symmetric positive definite, shape (k, k); only its upper triangle is factored.
        g: Shape (k,).
        A: Inequality rows, shape (p, k).
        b: Shape (p,).
        E: Equality rows, shape (m, k); those that depend on earlier ones are skipped where they hold.
        e: Shape (m,).
        x: Result, shape (k,).
        multipliers: Result, shape (m + p,), of E, then of A: Hx + g = Eᵀv + Aᵀu. Where the status is INFEASIBLE the
            certificate c: c ≥ 0 on A, Eᵀc_E + Aᵀc_A = 0, e·c_E + b·c_A > 0.
        active: Result, shape (k,): the active rows, numbered as the multipliers.
        rows: Scratch, (m + p) k numbers in any shape.
        sides: Scratch, shape (3, m + p).
        work: Scratch from `qp_work`.

    Returns:
        Status number (INACCURATE also where H is not positive definite), iterations, number of active rows,
        `qp_residual`; inf where there is no answer.
    """
    k, m, p = g.size, e.size, b.size
    U, origin, y = work[:k], work[k], work[k + 1]
    flat = rows.reshape(rows.size)
    white_sides, tolerance, lengths = sides[0], sides[1], sides[2]
    for d in range(k):
        x[d] = 0.0
        origin[d] = g[d]
    for i in range(m + p):
        multipliers[i] = 0.0
    if not _cholesky(H, U):
        return INACCURATE, 0, 0, np.inf

    # a length of the order of the answer's, from what is known before
    steepest, g_square = 0.0, 0.0
    for d in range(k):
        steepest = max(steepest, H[d, d])
        g_square += g[d] * g[d]
    length = np.sqrt(g_square) / steepest
    for i in range(m + p):
        row = E[i] if i < m else A[i - m]
        side = e[i] if i < m else b[i - m]
        square = 0.0
        for d in range(k):
            square += row[d] * row[d]
        norm = np.sqrt(square) if square > 0.0 else 1.0
        length = max(length, (abs(side) if i < m else side) / norm)
        tolerance[i] = _FEASIBLE * norm
    if not np.isfinite(length):
        return INACCURATE, 0, 0, np.inf
    _whiten(U, origin)
    status, iterations, count = SOLVED, 0, 0
    # often no inequality is active: they are whitened only where the equalities alone do not meet them
    for taken in (m, m + p):
        _whiten_rows(U, origin, A, b, E, e, taken, flat[: k * taken].reshape(k, taken), sides)
        for i in range(taken):
            tolerance[i] *= length / lengths[i]
        status, iterations, count = smallest_norm_kernel(
            flat[: k * taken].reshape(k, taken),
            white_sides[:taken],
            m,
            tolerance[:taken],
            y,
            multipliers[:taken],
            active,
            work[k + 2 :],
        )
        for i in range(taken):
            multipliers[i] /= lengths[i]
            tolerance[i] *= lengths[i] / length
        if status != SOLVED:
            return status, iterations, count, np.inf
        for d in range(k):
            x[d] = y[d] - origin[d]
        _unwhiten(U, x)
        if taken == m + p or _holds(A, b, x, tolerance[m:], length):
            break
    residual = qp_residual(H, g, A, b, E, e, x, multipliers[m:], multipliers[:m])
    for _ in range(2):
        if residual <= 1e-3 * TOLERANCE:
            break
        _refine(H, g, A, b, E, e, x, multipliers, active, count, lengths, work)
        residual = qp_residual(H, g, A, b, E, e, x, multipliers[m:], multipliers[:m])
    return (SOLVED if residual <= TOLERANCE else INACCURATE), iterations, count, residual


def qp_work(k: int) -> Array:
    """Scratch of `qp_kernel` for k variables."""
    return np.empty((3 * k + 6, k))


@dataclass(frozen=True, slots=True, kw_only=True)
class QpResult:
    """Outcome of a quadratic program.

    Attributes:
        status: SOLVED, INFEASIBLE, ITERATIONS or INACCURATE (also where H is not positive definite).
        x: Minimizer, shape (k,); zeros where there is none.
        multipliers: Of the inequalities, shape (p,), ≥ 0: Hx + g = Aᵀu + Eᵀv.
        equality_multipliers: Of the equalities, shape (m,).
        active: Inequalities of the final active set.
        residual: Largest relative violation of the optimality conditions (`qp_residual`); inf where there is no answer.
        iterations: Rows taken in.
        certificate: Where the status is INFEASIBLE: (c_A, c_E), c_A ≥ 0, with Aᵀc_A + Eᵀc_E = 0 and
            b·c_A + e·c_E > 0, so that no x meets the rows.
    """

    status: SolverStatus
    x: Array
    multipliers: Array
    equality_multipliers: Array
    active: Integers
    residual: float
    iterations: int
    certificate: tuple[Array, Array] | None = None


def checked_qp(
    H: Array, g: Array, A: Array | None, b: Array | None, E: Array | None, e: Array | None
) -> tuple[Array, Array, Array, Array, Array, Array]:
    """The program as contiguous float64, absent rows as no rows; raises InputError where the shapes do not fit."""
    H, g = np.ascontiguousarray(H, dtype=np.float64), np.ascontiguousarray(g, dtype=np.float64)
    k = g.size
    A = np.zeros((0, k)) if A is None else np.ascontiguousarray(A, dtype=np.float64)
    b = np.zeros(0) if b is None else np.ascontiguousarray(b, dtype=np.float64)
    E = np.zeros((0, k)) if E is None else np.ascontiguousarray(E, dtype=np.float64)
    e = np.zeros(0) if e is None else np.ascontiguousarray(e, dtype=np.float64)
    if g.shape != (k,) or H.shape != (k, k) or A.shape != (b.size, k) or E.shape != (e.size, k):
        raise InputError(
            f"qp: H {H.shape}, g {g.shape}, A {A.shape}, b {b.shape}, E {E.shape}, e {e.shape} do not fit: "
            "give (k, k), (k,), (p, k), (p,), (m, k), (m,)"
        )
    return H, g, A, b, E, e


def solve_qp(
    H: Array,
    g: Array,
    A: Array | None = None,
    b: Array | None = None,
    E: Array | None = None,
    e: Array | None = None,
) -> QpResult:
    """Solve min ½xᵀHx + gᵀx s.t. A x ≥ b, E x = e by the dual active set.

    Args:
        H: Symmetric positive definite, shape (k, k).
        g: Shape (k,).
        A: Inequality rows, shape (p, k).
        b: Shape (p,).
        E: Equality rows, shape (m, k); they may depend on each other where they agree.
        e: Shape (m,).

    Returns:
        The outcome, its residual checked; INFEASIBLE with a certificate if no x meets the rows.

    Raises:
        InputError: The shapes do not fit.
    """
    H, g, A, b, E, e = checked_qp(H, g, A, b, E, e)
    k, m, p = g.size, e.size, b.size
    x, multipliers, active = np.empty(k), np.empty(m + p), np.empty(k, dtype=np.int64)
    status, iterations, count, residual = qp_kernel(
        H, g, A, b, E, e, x, multipliers, active, np.empty((m + p, k)), np.empty((3, m + p)), qp_work(k)
    )
    v, u = multipliers[:m], multipliers[m:]
    infeasible = status == INFEASIBLE
    taken = active[:count]
    return QpResult(
        status=SolverStatus(status),
        x=x,
        multipliers=np.zeros(p) if infeasible else u,
        equality_multipliers=np.zeros(m) if infeasible else v,
        active=taken[taken >= m] - m,
        residual=residual,
        iterations=iterations,
        certificate=(u, v) if infeasible else None,
    )
