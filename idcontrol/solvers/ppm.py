"""Modified Principal Pivoting I for LCP(r, ρρᵀ), without forming its matrix (math.md, section 4.4).

Source: Zapolsky & Drumwright 2017, Algorithm 2; Drumwright 2015, Algorithm 1.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from idcontrol.kernels.arena import HEAP, Arena, matrix, vector, zeros
from idcontrol.kernels.jit import njit
from idcontrol.kernels.linear import assign, solve_upper
from idcontrol.kernels.linked import linked
from idcontrol.solvers.active_set import SAME, solve_active
from idcontrol.solvers.factor import RowFactor, append, empty_factor, remove, split
from idcontrol.solvers.lcp import (
    PPM,
    SLIGHT,
    RowLcpAnswer,
    RowLcpResult,
    checked_rows,
    gram_residual,
    rounding,
    row_lcp_result,
    row_residual,
    warm_start,
)
from idcontrol.solvers.status import INACCURATE, INFEASIBLE, ITERATIONS, SOLVED, TOLERANCE
from idcontrol.types import Array, Integers

_SIGN: Final = 1e-9
"""Relative size below which negative values count as zero. The reference of a velocity is its value at zero impulse
plus its change; the reference of an impulse is the largest impulse.
"""
_DEPENDENT: Final = 1e-12
"""Ratio |ρ⊥|²/|ρ|² below which a row counts as dependent on the active rows."""

_ZERO: Final = 1e-20
"""Ratio |ρ⊥|²/|ρ|² below which a row certainly depends on the active rows, despite rounding."""


@njit(cache=True, inner=True, error_model="numpy")
def _first_to_vanish(z: Array, alpha: Array, count: int) -> int:
    """Return the index a of argmin {z_a / α_a : α_a > 0}; -1 if no α is positive."""
    largest = 0.0
    for a in range(count):
        largest = max(largest, abs(alpha[a]))
    first, smallest = -1, np.inf
    for a in range(count):
        if alpha[a] > 1e-10 * largest and z[a] / alpha[a] < smallest:
            smallest = z[a] / alpha[a]
            first = a
    return first


@njit(cache=True, inner=True, error_model="numpy")
def _hash(i: int) -> int:
    """Return a hash of `i`, very different for successive numbers (SplitMix64 without its last round)."""
    x = (np.int64(i) + 1) * np.int64(-7046029254386353131)
    x = (x ^ (x >> 30)) * np.int64(-4658895280553007687)
    return int(x ^ (x >> 27))


@njit(cache=True, inner=True, error_model="numpy")
def _signature(factor: RowFactor, count: int) -> int:
    """Return a sum of hashes that distinguishes sets of active rows."""
    signature = np.int64(count)
    for a in range(count):
        signature += _hash(factor.active[a])
    return int(signature)


@njit(cache=True, inner=True, error_model="numpy")
def _add_row(factor: RowFactor, count: int, rho: Array, i: int) -> int:
    """Make row i active unless it depends on the active rows; return the number of active rows."""
    square = 0.0
    for d in range(rho.shape[1]):
        square += rho[i, d] * rho[i, d]
    apart = split(factor, count, rho[i])
    if count == rho.shape[1] or not apart > _DEPENDENT * square:
        return count
    append(factor, count, i, np.sqrt(apart))
    return count + 1


@njit(cache=True, inner=True, error_model="numpy")
def _velocities(rho: Array, columns: Array, r: Array, roundoff: Array, y: Array, w: Array) -> None:
    """Write w = ρy + r; values that are negative only by rounding become zero. `columns` is ρᵀ."""
    n, k = rho.shape
    assign(w, r)
    for d in range(k):  # one pass over all rows, so that no sum waits for the previous term
        for i in range(n):
            w[i] += columns[d, i] * y[d]
    for i in range(n):
        along = w[i]
        if along < 0.0 and along >= -_SIGN * (abs(r[i]) + abs(along - r[i])):
            along = 0.0
        elif along < 0.0:  # negative relative to the row's unit, unless within rounding of its terms
            size = abs(r[i])
            for d in range(k):
                size += abs(rho[i, d] * y[d])
            along = along if along < -roundoff[i] - rounding(1 + k, size) else 0.0
        w[i] = along


@njit(cache=True, inner=True, error_model="numpy")
def _most_negative(impulses: Array, count: int) -> tuple[int, bool]:
    """Return the position of the smallest impulse, and True if it is negative beyond rounding.

    The position is -1 if there is no impulse.
    """
    largest, place = 0.0, -1
    for a in range(count):
        largest = max(largest, abs(impulses[a]))
        if place < 0 or impulses[a] < impulses[place]:
            place = a
    return place, place >= 0 and impulses[place] < -_SIGN * largest


@njit(cache=True, inner=True, error_model="numpy")
def _exchange(factor: RowFactor, count: int, rho: Array, enter: int, z_active: Array) -> bool:
    """Replace an active row by row `enter`, which depends on the active rows: ρ_enter = Σ α_a ρ_a.

    The active row whose impulse vanishes first is replaced.

    Returns:
        False if no impulse vanishes; then `factor.coefficients` are the α.
    """
    solve_upper(factor.upper, count, factor.coefficients)
    leave = _first_to_vanish(z_active, factor.coefficients, count)
    if leave < 0:
        return False
    remove(factor, count, leave)
    append(factor, count - 1, enter, np.sqrt(split(factor, count - 1, rho[enter])))
    return True


class _Lcp(NamedTuple):
    """LCP(r, ρρᵀ) with ρ, its transpose, and the rounding bounds `roundoff` of r."""

    rho: Array
    columns: Array
    r: Array
    roundoff: Array


@njit(cache=True, inner=True, error_model="numpy")
def _contradiction(factor: RowFactor, count: int, lcp: _Lcp, enter: int, y: Array, w: float, z: Array) -> int:
    """Write the certificate c = e_enter - α of infeasibility, with ρᵀc = 0 and r·c = w < 0, into z.

    Returns:
        INFEASIBLE; or INACCURATE, with z unchanged, if w < 0 or ρᵀc = 0 may be an effect of rounding.
    """
    square, norm, apart, r = 0.0, 0.0, 0.0, lcp.r[enter]
    for d in range(y.size):
        square += lcp.rho[enter, d] * lcp.rho[enter, d]
        norm += y[d] * y[d]
        apart += factor.rest[d] * factor.rest[d]
    noise = max(SLIGHT * (abs(r) + abs(w - r)), SAME * np.sqrt(square * norm))
    if -w <= noise or not apart <= _ZERO * square:
        return INACCURATE
    z[enter] = 1.0
    for a in range(count):
        z[factor.active[a]] = max(-factor.coefficients[a], 0.0)
    return INFEASIBLE


@njit(cache=True, inner=True, error_model="numpy")
def _basic_solution(
    lcp: _Lcp, factor: RowFactor, count: int, impulses: Array, y: Array, w: Array
) -> tuple[int, bool, int]:
    """Write the basic solution of the active rows B: z_B = -(ρ_B ρ_Bᵀ)⁻¹ r_B, y = ρ_Bᵀ z_B, and w of all rows.

    `impulses` are z_B; w is 0 in B.

    Returns:
        The position of the smallest impulse; True if it is negative beyond rounding; the row with the smallest w.
    """
    solve_active(lcp.r, factor, count, y, impulses)
    _velocities(lcp.rho, lcp.columns, lcp.r, lcp.roundoff, y, w)
    for a in range(count):
        w[factor.active[a]] = 0.0
    leave, negative = _most_negative(impulses, count)
    enter = 0
    for i in range(w.size):
        if w[i] < w[enter]:
            enter = i
    return leave, negative, enter


@linked
@njit(cache=True, error_model="numpy")
def ppm_kernel(rho: Array, r: Array, roundoff: Array, max_passes: int, start: Integers, arena: Arena) -> RowLcpAnswer:
    """Run Modified Principal Pivoting I (math.md, section 4.4).

    The active rows, with z free and w = 0, are always linearly independent.

    Args:
        rho: Rows ρ, shape (n, k); the matrix of the LCP is ρρᵀ.
        r: Constants, shape (n,).
        roundoff: Rounding bounds of r, shape (n,).
        max_passes: Limit of passes.
        start: Initial active set; the rows must exist.
        arena: Arena for all arrays, including the arrays of the answer.

    Returns:
        The answer, with a certificate if the status is INFEASIBLE; ITERATIONS if pivoting cycles or reaches the limit.
    """
    n, k = rho.shape
    factor, columns, z_active = empty_factor(k, arena), matrix(arena, k, n), vector(arena, k)
    lcp, z, y, w = _Lcp(rho, columns, r, roundoff), zeros(arena, n), zeros(arena, k), vector(arena, n)
    lowest, total, count = 0.0, 0.0, 0
    for i in range(n):
        w[i] = r[i]
        lowest = min(lowest, r[i] + roundoff[i])
        total += r[i]
        for d in range(k):
            columns[d, i] = rho[i, d]
    if not np.isfinite(total):
        return RowLcpAnswer(INACCURATE, 0, np.inf, PPM, z, y, w, factor.active[:0])
    if lowest == 0.0:
        return RowLcpAnswer(SOLVED, 0, row_residual(rho, r, roundoff, z, y, w), PPM, z, y, w, factor.active[:0])
    for a in range(start.size):
        count = _add_row(factor, count, rho, start[a])

    status, passes, residual = ITERATIONS, 0, np.inf
    # once an active set comes back, pivoting cycles for ever: compare with the set of pass 1, 2, 4, 8, ... (Brent's
    # cycle detection)
    remembered, remember_at = np.int64(0), 1
    while passes < max_passes:
        passes += 1
        signature = _signature(factor, count)
        if passes == remember_at:
            remembered, remember_at = signature, 2 * remember_at
        elif signature == remembered:
            break
        leave, negative, enter = _basic_solution(lcp, factor, count, z_active, y, w)
        if w[enter] >= 0.0 and not negative:
            for a in range(count):
                z[factor.active[a]] = max(z_active[a], 0.0)
            residual = gram_residual(rho, r, roundoff, z, y, w)
            status = SOLVED if residual <= TOLERANCE else INACCURATE
            break
        if w[enter] < 0.0:
            longer = _add_row(factor, count, rho, enter)
            if longer == count:
                negative = False
                if not _exchange(factor, count, rho, enter, z_active):
                    status = _contradiction(factor, count, lcp, enter, y, w[enter], z)
                    break
            count = longer
        elif not w[enter] >= 0.0:
            status = INACCURATE
            break
        if negative:
            remove(factor, count, leave)
            count -= 1
    return RowLcpAnswer(status, passes, residual, PPM, z, y, w, factor.active[:count])


def solve_ppm(rho: Array, r: Array, warm: Integers | None = None) -> RowLcpResult:
    """Solve w = ρρᵀz + r, 0 ≤ z ⊥ w ≥ 0 by modified Principal Pivoting I (math.md, section 4.4).

    The method is fast and its answers are checked, but it may cycle. In that case `idcontrol.solvers.psd.solve_psd_lcp`
    calls a finite method.

    Args:
        rho: Rows ρ, shape (n, k).
        r: Constants, shape (n,).
        warm: Initial active set, the `active` of an earlier result; rows that do not exist or depend on earlier rows
            are skipped.

    Returns:
        The outcome with its checked residual.

    Raises:
        InputError: The shapes do not fit.
    """
    rho, r = checked_rows(rho, r)
    n, k = rho.shape
    return row_lcp_result(ppm_kernel(rho, r, np.zeros(n), 20 * n + 50, warm_start(warm, n, k), HEAP))
