"""Modified Principal Pivoting I for LCP(r, ρρᵀ), whose matrix is never formed (math.md, section 4.4).

Zapolsky & Drumwright 2017, Algorithm 2; Drumwright 2015, Algorithm 1.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from idcontrol.kernels.arena import HEAP, Arena, matrix, vector
from idcontrol.kernels.jit import njit
from idcontrol.kernels.linear import assign, solve_upper, solve_upper_transposed
from idcontrol.kernels.linked import linked
from idcontrol.solvers.active_set import SAME
from idcontrol.solvers.factor import append, empty_factor, remove, split
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
"""Size of a negative velocity that counts as zero, relative to that at zero impulse and its change, and of a negative
impulse, relative to the largest."""
_DEPENDENT: Final = 1e-12
"""A row is dependent on the active ones if |ρ⊥|² is below this times |ρ|²."""

_ZERO: Final = 1e-20
"""A row is certainly a combination of the active ones, whatever rounding did, if |ρ⊥|² is below this times |ρ|²."""


@njit(cache=True, inner=True, error_model="numpy")
def _first_to_vanish(z: Array, alpha: Array, count: int) -> int:
    """The place a of argmin {z_a / α_a : α_a > 0}; -1 if no α is positive."""
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
    """A hash that sends neighbours far apart (SplitMix64 without its last round)."""
    x = (np.int64(i) + 1) * np.int64(-7046029254386353131)
    x = (x ^ (x >> 30)) * np.int64(-4658895280553007687)
    return int(x ^ (x >> 27))


@linked
@njit(cache=True, error_model="numpy")
def ppm_kernel(rho: Array, r: Array, left: Array, max_passes: int, start: Integers, arena: Arena) -> RowLcpAnswer:
    """Modified Principal Pivoting I with exchange of dependent rows (math.md, section 4.4).

    The active set holds the rows with z free and w = 0: at most k of them, always independent.

    Args:
        rho: Rows ρ, shape (n, k); the matrix of the LCP is ρρᵀ.
        r: Constants, shape (n,).
        left: What rounding may leave of them, shape (n,).
        max_passes: Passes allowed; a cycle is noticed before.
        start: Active set to start from, rows that exist.
        arena: Where arrays come from, those of the answer included.

    Returns:
        The answer, with a certificate when the status is INFEASIBLE; ITERATIONS where pivoting goes in circles.
    """
    n, k = rho.shape
    factor = empty_factor(k, arena)
    active, basis, upper, coefficients = factor.active, factor.basis, factor.upper, factor.coefficients
    t, z_active = vector(arena, k), vector(arena, k)
    z, y, w = vector(arena, n), vector(arena, k), vector(arena, n)

    lowest, total = 0.0, 0.0
    for i in range(n):
        z[i] = 0.0
        w[i] = r[i]
        lowest = min(lowest, r[i] + left[i])
        total += r[i]
    for d in range(k):
        y[d] = 0.0
    if not np.isfinite(total):
        return RowLcpAnswer(INACCURATE, 0, np.inf, PPM, z, y, w, active[:0])
    if lowest == 0.0:
        return RowLcpAnswer(SOLVED, 0, row_residual(rho, r, left, z, y, w), PPM, z, y, w, active[:0])

    columns = matrix(arena, k, n)  # all rows are tested at once, where no sum waits for the one before
    for i in range(n):
        for d in range(k):
            columns[d, i] = rho[i, d]

    # the given active set, without rows that depend on earlier ones
    count = 0
    for a in range(start.size):
        i = start[a]
        square = 0.0
        for d in range(k):
            square += rho[i, d] * rho[i, d]
        apart = split(factor, count, rho[i])
        if count < k and apart > _DEPENDENT * square:
            append(factor, count, i, np.sqrt(apart))
            count += 1

    # A pass depends on nothing but the active set, so a set that returns will return for ever. Brent's cycle detection
    # looks for it: each set is compared, by a sum of hashes, with the one after 1, 2, 4, 8, ... passes.
    remembered, remember_at = np.int64(0), 1
    passes = 0
    while passes < max_passes:
        passes += 1
        signature = np.int64(count)
        for a in range(count):
            signature += _hash(active[a])
        if passes == remember_at:
            remembered, remember_at = signature, 2 * remember_at
        elif signature == remembered:
            return RowLcpAnswer(ITERATIONS, passes, np.inf, PPM, z, y, w, active[:count])
        # z_B = -(ρ_B ρ_Bᵀ)⁻¹ r_B, y = ρ_Bᵀ z_B through the factor ρ_Bᵀ = basisᵀ upper
        for a in range(count):
            t[a] = -r[active[a]]
        solve_upper_transposed(upper, count, t)
        for d in range(k):
            y[d] = 0.0
        for a in range(count):
            for d in range(k):
                y[d] += t[a] * basis[a, d]
            z_active[a] = t[a]
        solve_upper(upper, count, z_active)
        assign(w, r)
        for d in range(k):
            for i in range(n):
                w[i] += columns[d, i] * y[d]
        for i in range(n):
            along = w[i]
            if along < 0.0 and along >= -_SIGN * (abs(r[i]) + abs(along - r[i])):
                along = 0.0
            elif along < 0.0:  # below zero in the units of the row, unless rounding of its terms
                size = abs(r[i])
                for d in range(k):
                    size += abs(rho[i, d] * y[d])
                along = along if along < -left[i] - rounding(1 + k, size) else 0.0
            w[i] = along
        z_max, leave = 0.0, -1
        for a in range(count):
            w[active[a]] = 0.0
            z_max = max(z_max, abs(z_active[a]))
            if leave < 0 or z_active[a] < z_active[leave]:
                leave = a
        negative = leave >= 0 and z_active[leave] < -_SIGN * z_max
        enter = 0
        for i in range(n):
            if w[i] < w[enter]:
                enter = i

        if w[enter] >= 0.0:
            if negative:
                remove(factor, count, leave)
                count -= 1
                continue
            for a in range(count):
                z[active[a]] = max(z_active[a], 0.0)
            residual = gram_residual(rho, r, left, z, y, w)
            status = SOLVED if residual <= TOLERANCE else INACCURATE
            return RowLcpAnswer(status, passes, residual, PPM, z, y, w, active[:count])
        if not w[enter] < 0.0:
            return RowLcpAnswer(INACCURATE, passes, np.inf, PPM, z, y, w, active[:count])

        square = 0.0
        for d in range(k):
            square += rho[enter, d] * rho[enter, d]
        apart = split(factor, count, rho[enter])
        if count == k or not apart > _DEPENDENT * square:
            # ρ_enter = Σ α_a ρ_a: it replaces the active row whose impulse it takes over first (math.md, section 4.4)
            solve_upper(upper, count, coefficients)
            leave = _first_to_vanish(z_active, coefficients, count)
            if leave < 0:
                # c = e_enter - α: ρᵀc = 0, r·c = w_enter < 0, a proof only where ρ⊥ is zero to rounding
                norm = 0.0
                for d in range(k):
                    norm += y[d] * y[d]
                noise = max(SLIGHT * (abs(r[enter]) + abs(w[enter] - r[enter])), SAME * np.sqrt(square * norm))
                if -w[enter] <= noise or not apart <= _ZERO * square:
                    return RowLcpAnswer(INACCURATE, passes, np.inf, PPM, z, y, w, active[:count])
                z[enter] = 1.0
                for a in range(count):
                    z[active[a]] = max(-coefficients[a], 0.0)
                return RowLcpAnswer(INFEASIBLE, passes, np.inf, PPM, z, y, w, active[:count])
            remove(factor, count, leave)
            count -= 1
            negative = False
            apart = split(factor, count, rho[enter])
        append(factor, count, enter, np.sqrt(apart))
        count += 1
        if negative:
            remove(factor, count, leave)
            count -= 1
    return RowLcpAnswer(ITERATIONS, passes, np.inf, PPM, z, y, w, active[:count])


def solve_ppm(rho: Array, r: Array, warm: Integers | None = None) -> RowLcpResult:
    """Solve w = ρρᵀz + r, 0 ≤ z ⊥ w ≥ 0 by modified Principal Pivoting I (math.md, section 4.4).

    Fast, and its answers are checked, but it may go in circles: `idcontrol.solvers.psd.solve_psd_lcp` then calls a
    finite method.

    Args:
        rho: Rows ρ, shape (n, k).
        r: Constants, shape (n,).
        warm: Rows to start from, the `active` of an earlier result; those that do not exist or depend on others are
            left out.

    Returns:
        The outcome, its residual checked.

    Raises:
        InputError: The shapes do not fit.
    """
    rho, r = checked_rows(rho, r)
    n, k = rho.shape
    return row_lcp_result(ppm_kernel(rho, r, np.zeros(n), 20 * n + 50, warm_start(warm, n, k), HEAP))
