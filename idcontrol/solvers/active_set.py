"""Dual active set (Goldfarb & Idnani 1983): smallest-norm point of a polyhedron, or a proof that it is empty.

`smallest_norm_kernel` solves min ½|y|² s.t. E y = e, A y ≥ b with rows of length one. The search for impulses of
maximal dissipation (stage I; math.md, sections 4.4 and 7.3) has this form. Every strictly convex quadratic program can
be transformed to this form (`idcontrol.solvers.active_set_qp`). If rows are added, `resume_kernel` continues from the
active rows. The search `approach` ends after finitely many steps; branch and bound (`idcontrol.solvers.enumerate`)
continues it from node to node.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numba import typeof

from idcontrol.kernels.arena import HEAP, Arena, indices, matrix, vector, zeros
from idcontrol.kernels.jit import njit
from idcontrol.kernels.linear import assign, solve_upper, solve_upper_transposed
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
from idcontrol.types import Array, Integers

FEASIBLE: Final = 1e-10
"""Violation up to which a row counts as satisfied, relative to the row's scale, such as the size of its constant."""
ROUNDING: Final = 1e-15
"""Violation that rounding causes, relative to |y|."""
DEPENDENT: Final = 1e-20
"""Bound on |row⊥|² below which a row of length one counts as linearly dependent on the active rows."""
SAME: Final = 1e-11
"""Largest violation, relative to |y|, at which a row that depends on the active rows counts as consistent with them.
This is the noise in rows after whitening with a condition number of 1e8.
"""
DEPENDENT_EQUALITY: Final = 1e-16
"""Value of `DEPENDENT` for equalities, which carry the noise of earlier computations (math.md, section 13.4)."""
_REFINEMENTS: Final = 3
"""Rounds in which multipliers may be refined; one is usually enough."""


# Demands on the value of a row.
FREE: Final = 0
POSITIVE: Final = 1
NEGATIVE: Final = 2
ZERO: Final = 3

CUT_OFF: Final = -1
"""Outcome of `approach` in addition to the numbers of a `SolverStatus`: the point lies beyond the limit."""


class Rows(NamedTuple):
    """Rows of length one (or zero) over y: the value of row r is columns[:, r]·y + offset[r].

    Attributes:
        columns: Column r holds row r, so that one loop tests all rows, shape (k, p).
        offset: Constants of the rows, shape (p,).
        tolerance: Violation of `Point.demand` up to which a row counts as satisfied, in addition to 1e-15 |y|, shape
            (p,). The search raises it for rows that depend on the active rows and contradict them only slightly.
    """

    columns: Array
    offset: Array
    tolerance: Array


class Point(NamedTuple):
    """The smallest y at which the active rows are zero, and the demands on all rows.

    Attributes:
        y: Shape (k,).
        u: Multipliers of the active rows, y = Σ u · row; shape (k,).
        factor: Factor of the active rows.
        value: Values of the rows at y, shape (p,).
        demand: What each row's value must be, shape (p,): `FREE` (anything), `POSITIVE` (≥ 0), `NEGATIVE` (≤ 0) or
            `ZERO`.
    """

    y: Array
    u: Array
    factor: RowFactor
    value: Array
    demand: Integers


class Approach(NamedTuple):
    """Outcome of `approach`.

    Attributes:
        status: SOLVED (each row meets its demand), INFEASIBLE, ITERATIONS or CUT_OFF (½|y|² ≥ the limit).
        size: Number of active rows.
        steps: Number of rows added.
        row: Row that contradicts the active rows; -1 unless the status is INFEASIBLE.
        violation: Distance by which this row misses its demand; 0 unless the status is INFEASIBLE.
    """

    status: int
    size: int
    steps: int
    row: int
    violation: float


class SmallestNorm(NamedTuple):
    """The point of smallest norm that satisfies all rows; its arrays come from the caller's arena.

    Attributes:
        status: SOLVED (each row holds to its tolerance), INFEASIBLE, ITERATIONS or INACCURATE.
        iterations: Number of rows added to the active set.
        y: The point, shape (k,).
        multipliers: y = Σ multiplier · row, ≥ 0 on inequalities, shape (p,). If the status is INFEASIBLE, the
            certificate c: c ≥ 0 on inequalities, Σ c row = 0, offset·c < 0.
        factor: Factor of the active rows, equalities first.
        n_active: Number of active rows.
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
"""Zero as a NumPy integer; with a literal zero, Numba would compile `smallest_norm_kernel` separately."""


@njit(cache=True, inner=True, error_model="numpy", forceinline=True)
def solve_active(offset: Array, factor: RowFactor, count: int, y: Array, u: Array) -> None:
    """Write the smallest y with row · y + offset = 0 on the active rows, and its multipliers u.

    With t = -upper⁻ᵀ offset the solution is y = basisᵀ t and u = upper⁻¹ t.
    """
    active, basis, upper = factor.active, factor.basis, factor.upper
    for a in range(count):
        u[a] = -offset[active[a]]
    solve_upper_transposed(upper, count, u)
    for d in range(y.size):
        y[d] = 0.0
    for a in range(count):
        for d in range(y.size):
            y[d] += u[a] * basis[a, d]
    solve_upper(upper, count, u)


@njit(cache=True, inner=True, error_model="numpy", forceinline=True)
def _evaluate(rows: Rows, point: Point) -> float:
    """Write the values of the rows at y; return |y|²."""
    columns, offset, y, value = rows.columns, rows.offset, point.y, point.value
    square = 0.0
    assign(value, offset)
    for d in range(y.size):
        yd = y[d]
        square += yd * yd
        for r in range(offset.size):
            value[r] += columns[d, r] * yd
    return square


@njit(cache=True, inner=True, error_model="numpy", forceinline=True)
def _most_violated(rows: Rows, point: Point, rounding: float) -> tuple[int, float]:
    """Return the row that misses its demand most, beyond its tolerance and `rounding`, and its violation.

    The row is -1 if every row meets its demand.
    """
    value, demand, tolerance = point.value, point.demand, rows.tolerance
    enter, violation = -1, 0.0
    for r in range(value.size):
        asked = demand[r]
        if asked != FREE:
            v = value[r]
            miss = -v if asked == POSITIVE else (v if asked == NEGATIVE else abs(v))
            if miss > violation and miss > tolerance[r] + rounding:
                enter, violation = r, miss
    return enter, violation


@njit(cache=True, inner=True, error_model="numpy", forceinline=True)
def _first_to_leave(point: Point, count: int, loss: Array) -> tuple[int, float]:
    """Return the position of the active row whose multiplier reaches zero first, and the step length until then.

    Multipliers change at the rates -`loss`. If no multiplier reaches zero, the position is -1 and the length inf.
    """
    u, active, demand = point.u, point.factor.active, point.demand
    biggest = 1.0
    for a in range(count):
        biggest = max(biggest, abs(loss[a]))
    leave, step, steepest = -1, np.inf, 0.0
    for a in range(count):
        asked = demand[active[a]]
        if asked != ZERO:
            side = 1.0 if asked == POSITIVE else -1.0
            rate = side * loss[a]
            if rate > 1e-12 * biggest:
                ratio = max(side * u[a], 0.0) / rate
                if ratio < step or (ratio == step and rate > steepest):
                    leave, step, steepest = a, ratio, rate
    return leave, step


@njit(cache=True, inner=True, error_model="numpy", forceinline=True)
def _take_in(
    rows: Rows, point: Point, count: int, row: int, violation: float, same: float, loss: Array
) -> tuple[bool, int, float]:
    """Move to the smallest y that satisfies the active rows and one more row (Goldfarb & Idnani 1983, step 2).

    The new row equals Σ coefficient · active row + rest. When its multiplier grows by one, y moves by rest, and the
    multiplier of each active row falls by the coefficient of that row. An active row leaves the set when its multiplier
    reaches zero during the move.

    Args:
        rows: The rows.
        point: The point.
        count: Number of active rows.
        row: The row to add.
        violation: Distance by which the row misses its demand.
        same: Largest violation at which a row that depends on the active rows counts as consistent with them.
        loss: Result, shape (k,): coefficients of the active rows, even if the row contradicts them.

    Returns:
        False if the row contradicts the active rows; number of active rows; remaining violation.
    """
    y, u, factor = point.y, point.u, point.factor
    coefficients, rest, k = factor.coefficients, factor.rest, point.y.size
    sign = 1.0 if point.value[row] < 0.0 else -1.0
    threshold = DEPENDENT_EQUALITY if point.demand[row] == ZERO else DEPENDENT
    gained = 0.0  # multiplier of the entering row
    while True:
        for d in range(k):
            rest[d] = rows.columns[d, row]
        square = split(factor, count, rest)
        dependent = count == k or not square > threshold
        if dependent and gained == 0.0 and violation <= same:
            rows.tolerance[row] = violation
            return True, count, violation
        for a in range(count):
            loss[a] = coefficients[a]
        solve_upper(factor.upper, count, loss)
        for a in range(count):
            loss[a] *= sign
        leave, step = _first_to_leave(point, count, loss)
        if dependent and leave < 0:
            return False, count, violation
        full = np.inf if dependent else violation / square
        taken = min(step, full)
        gained += taken
        for a in range(count):
            u[a] -= taken * loss[a]
        if not dependent:
            for d in range(k):
                y[d] += taken * sign * rest[d]
            violation -= taken * square
        if full <= step:
            append(factor, count, row, np.sqrt(square))
            u[count] = sign * gained
            return True, count + 1, 0.0
        remove(factor, count, leave)
        count -= 1
        for a in range(leave, count):
            u[a] = u[a + 1]


@njit(cache=True, inner=True, error_model="numpy")
def approach(rows: Rows, point: Point, count: int, limit: float, max_steps: int, loss: Array) -> Approach:
    """Continue from a dual feasible point to the smallest y that meets all demands.

    Each step adds the row that misses its demand most. |y| grows with each step, so no active set recurs, and the
    search may end once ½|y|² reaches `limit`.

    Args:
        rows: The rows.
        point: The point; multipliers of active rows have the sign of their demand.
        count: Number of active rows.
        limit: The search ends at points with ½|y|² at or above this.
        max_steps: Limit of steps.
        loss: Scratch, shape (k,); if the status is INFEASIBLE, the contradicting row is Σ loss · active row, up to its
            sign.

    Returns:
        The outcome.
    """
    for step in range(max_steps):
        square = _evaluate(rows, point)
        if not 0.5 * square < limit:
            return Approach(CUT_OFF, count, step, -1, 0.0)
        length = np.sqrt(square)
        row, violation = _most_violated(rows, point, ROUNDING * length)
        if row < 0:
            return Approach(SOLVED, count, step, -1, 0.0)
        agrees, count, violation = _take_in(rows, point, count, row, violation, SAME * length, loss)
        if not agrees:
            return Approach(INFEASIBLE, count, step, row, violation)
    return Approach(ITERATIONS, count, max_steps, -1, 0.0)


@njit(cache=True, inner=True, error_model="numpy")
def _hold_equalities(rows: Rows, y: Array, factor: RowFactor, equalities: int) -> tuple[int, int, float]:
    """Add the equality rows to y and the empty `factor`; skip a row that depends on earlier rows and already holds.

    Returns:
        Number of active rows; the row that contradicts earlier rows, -1 if no row does; its violation.
    """
    columns, offset = rows.columns, rows.offset
    count, largest = 0, 0.0
    for i in range(equalities):
        largest = max(largest, abs(offset[i]))
        missing = -offset[i]
        for d in range(y.size):
            missing -= columns[d, i] * y[d]
            factor.rest[d] = columns[d, i]
        square = split(factor, count, factor.rest)
        if count < y.size and square > DEPENDENT_EQUALITY:
            append(factor, count, i, np.sqrt(square))
            for d in range(y.size):
                y[d] += missing / square * factor.rest[d]
            count += 1
            continue
        norm = 0.0
        for d in range(y.size):
            norm += y[d] * y[d]
        if not abs(missing) <= rows.tolerance[i] + TOLERANCE * (largest + np.sqrt(norm)):
            solve_upper(factor.upper, count, factor.coefficients)
            return count, i, missing
    return count, -1, 0.0


@linked
@njit(cache=True, inner=True, error_model="numpy")
def resume_kernel(rows: Rows, equalities: int, fixed: int, known: SmallestNorm, arena: Arena) -> SmallestNorm:
    """Run `smallest_norm_kernel` from the active rows of an answer to some of the rows.

    Args:
        rows: The rows, equalities first; the rows of `known` have the same numbers.
        equalities: Number of rows that are equalities.
        fixed: Number of active rows that are equalities.
        known: Start: a solution without the rows added since; its y and factor are overwritten.
        arena: Arena for all other arrays, including the multipliers of the answer.

    Returns:
        The point, or a certificate that no point satisfies the rows.
    """
    k, p = rows.columns.shape
    y, factor, u, multipliers, loss = known.y, known.factor, vector(arena, k), vector(arena, p), vector(arena, k)
    point = Point(y, u, factor, multipliers, indices(arena, p))
    active, limit = factor.active, 20 * (p + k) + 50
    for i in range(p):
        point.demand[i] = ZERO if i < equalities else POSITIVE
    count, steps, status = known.n_active, 0, ITERATIONS
    while steps < limit:
        # recompute accumulated values until the active set no longer changes
        solve_active(rows.offset, factor, count, y, u)
        end = approach(rows, point, count, np.inf, limit - steps, loss)
        count = end.size
        if end.status == SOLVED and end.steps == 0:
            status = SOLVED
            break
        steps += end.steps
        if end.status == CUT_OFF:
            return SmallestNorm(INACCURATE, steps, y, multipliers, factor, count)
        if end.status == INFEASIBLE:
            side = abs(rows.offset[end.row])
            if not end.violation <= SLIGHT * (side + abs(rows.offset[end.row] + end.violation)):
                status = INFEASIBLE
                break
            rows.tolerance[end.row] = end.violation  # tolerate this contradiction, and restart
            count = fixed
            steps += 1
    if status == ITERATIONS:
        return SmallestNorm(ITERATIONS, limit, y, multipliers, factor, count)
    for i in range(p):
        multipliers[i] = 0.0
    if status == INFEASIBLE:
        multipliers[end.row] = 1.0
    for a in range(count):
        push = u[a] if status == SOLVED else -loss[a]
        multipliers[active[a]] = push if a < fixed else max(push, 0.0)
    return SmallestNorm(status, steps, y, multipliers, factor, count)


@linked
@njit(cache=True, inner=True, error_model="numpy")
def smallest_norm_kernel(rows: Rows, equalities: int, arena: Arena) -> SmallestNorm:
    """Find the y of smallest norm at which the first `equalities` rows are zero and all other rows are nonnegative.

    Args:
        rows: The rows, equalities first; some tolerances may be raised (`Rows.tolerance`).
        equalities: Number of rows that are equalities.
        arena: Arena for all arrays, including the arrays of the answer.

    Returns:
        The point, or a certificate that no point satisfies the rows.
    """
    k, p = rows.columns.shape
    y, multipliers, factor = zeros(arena, k), vector(arena, p), empty_factor(k, arena)
    fixed, wrong, missing = _hold_equalities(rows, y, factor, equalities)
    if wrong >= 0:
        sign = 1.0 if missing > 0.0 else -1.0
        for i in range(p):
            multipliers[i] = 0.0
        multipliers[wrong] = sign
        for a in range(fixed):
            multipliers[factor.active[a]] = -sign * factor.coefficients[a]
        return SmallestNorm(INFEASIBLE, 0, y, multipliers, factor, fixed)
    return resume_kernel(rows, equalities, fixed, SmallestNorm(SOLVED, 0, y, multipliers, factor, fixed), arena)


@njit(cache=True, inner=True, error_model="numpy")
def _refine_multipliers(
    rho: Array, r: Array, roundoff: Array, lengths: Array, solution: SmallestNorm, w: Array, arena: Arena
) -> float:
    """Refine the multipliers z of the active rows, with residuals in doubled precision; return the last residual.

    If rows are nearly dependent, multipliers are so large that rounding one of them moves y beyond the tolerance. So
    the rows are factored again with the largest multipliers last. Back substitution computes and rounds the largest
    multipliers first. Each later multiplier compensates for the rounding of the earlier ones (Babai's nearest plane).
    """
    y, z, factor, count = solution.y, solution.multipliers, solution.factor, solution.n_active
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
    residual = gram_residual_doubled(rho, r, roundoff, z, y, w, arena)
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
        residual = gram_residual_doubled(rho, r, roundoff, z, y, w, arena)
    return float(residual)


@late(lambda *_: typeof(_NO_ANSWER))
@njit(cache=True, error_model="numpy")
def project_kernel(rho: Array, r: Array, roundoff: Array, arena: Arena) -> RowLcpAnswer:
    """Solve the dual of LCP(r, ρρᵀ): min ½|y|² s.t. ρy + r ≥ 0; its multipliers are z (math.md, section 4.4).

    Args:
        rho: Rows ρ, shape (n, k).
        r: Constants, shape (n,).
        roundoff: Rounding bounds of r, shape (n,).
        arena: Arena for all arrays, including the arrays of the answer.

    Returns:
        The answer, with a certificate if the status is INFEASIBLE. Its residual is measured in doubled precision if
        double precision is not sufficient.
    """
    n, k = rho.shape
    w, columns = vector(arena, n), matrix(arena, k, n)
    offset, tolerance, lengths = vector(arena, n), vector(arena, n), vector(arena, n)
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
        offset[i] = r[i] / lengths[i]
        tolerance[i] = (FEASIBLE * abs(r[i]) + roundoff[i]) / lengths[i]
    solution = smallest_norm_kernel(Rows(columns, offset, tolerance), _NO_EQUALITIES, arena)
    status, y, z, active = (
        solution.status,
        solution.y,
        solution.multipliers,
        solution.factor.active[: solution.n_active],
    )
    for i in range(n):
        z[i] /= lengths[i]
    residual = np.inf
    if status == SOLVED:
        residual = gram_residual(rho, r, roundoff, z, y, w)
        if not residual <= TOLERANCE:
            residual = _refine_multipliers(rho, r, roundoff, lengths, solution, w, arena)
        status = SOLVED if residual <= TOLERANCE else INACCURATE
    else:
        y[:] = 0.0
    return RowLcpAnswer(status, solution.iterations, residual, ACTIVE_SET, z, y, w, active)


def project(rho: Array, r: Array) -> RowLcpResult:
    """Solve min ½|y|² s.t. ρy + r ≥ 0, whose multipliers z solve LCP(r, ρρᵀ) (math.md, section 4.4).

    Args:
        rho: Rows ρ, shape (n, k).
        r: Constants, shape (n,).

    Returns:
        The outcome with its checked residual; INFEASIBLE with a certificate if no y has ρy + r ≥ 0.

    Raises:
        InputError: The shapes do not fit.
    """
    rho, r = checked_rows(rho, r)
    return row_lcp_result(project_kernel(rho, r, np.zeros(r.size), HEAP))
