"""The residual that judges all solvers of linear complementarity problems, and the types of their results."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from idcontrol.errors import InputError
from idcontrol.kernels.arena import Arena, mark, release, vector
from idcontrol.kernels.jit import njit
from idcontrol.solvers.status import INFEASIBLE, TOLERANCE, SolverStatus
from idcontrol.types import Array, Integers

METHODS = ("ppm", "active set", "lemke")
"""Methods for LCPs on rows, in the order in which they are tried; kernels return the index."""
PPM: Final = 0
ACTIVE_SET: Final = 1
LEMKE: Final = 2

EPSILON: Final = 2.0**-52
"""Distance from 1 to the next number in double precision."""


SLIGHT: Final = 0.5 * TOLERANCE
"""Fraction of a row's reference velocity below which a violation does not prove that rows contradict each other, and
to which rounding bounds are capped."""


class LcpAnswer(NamedTuple):
    """Outcome of a kernel for w = Qz + r, 0 ≤ z ⊥ w ≥ 0; its arrays come from the caller's arena.

    Attributes:
        status: Number of a `SolverStatus`.
        iterations: Pivots or iterations.
        residual: Relative residual (math.md, section 13.3); inf if there is no answer.
        z: Unknowns, shape (n,).
        w: Qz + r, shape (n,).
    """

    status: int
    iterations: int
    residual: float
    z: Array
    w: Array


@dataclass(frozen=True, slots=True, kw_only=True)
class LcpResult:
    """Outcome of w = Qz + r, 0 ≤ z ⊥ w ≥ 0.

    Attributes:
        status: SOLVED, RAY, ITERATIONS or INACCURATE.
        z: Unknowns, shape (n,); zeros if the status is RAY.
        w: Qz + r, shape (n,).
        residual: Relative residual of the original problem (math.md, section 13.3); inf if there is no answer.
        iterations: Pivots of Lemke's method, or Newton steps of the interior point method.
        ray: If the status is RAY, z ≥ 0 with largest entry 1, shape (n,). For a positive semidefinite Q the ray proves
            infeasibility (see `proves_infeasible`); for a copositive Q a solution may still exist.
        regularization: Amount added to the diagonal of the (scaled) matrix, relative to its mean; 0 without
            regularization.
    """

    status: SolverStatus
    z: Array
    w: Array
    residual: float
    iterations: int
    ray: Array | None = None
    regularization: float = 0.0


class RowLcpAnswer(NamedTuple):
    """Outcome of a kernel for LCP(r, ρρᵀ); its arrays come from the caller's arena.

    Attributes:
        status: Number of a `SolverStatus`.
        iterations: Passes or iterations.
        residual: Relative residual (math.md, section 13.3); inf if there is no answer.
        method: Index in `METHODS` of the method that ended the search.
        z: Unknowns, shape (n,). If the status is INFEASIBLE, the certificate c with c ≥ 0, ρᵀc = 0 and r·c < 0, which
            proves that no y has ρy + r ≥ 0.
        y: ρᵀz, shape (k,).
        w: ρy + r, shape (n,).
        active: Rows with z free and w = 0, at most k: the warm start of the next call.
    """

    status: int
    iterations: int
    residual: float
    method: int
    z: Array
    y: Array
    w: Array
    active: Integers


@njit(cache=True, error_model="numpy")
def lcp_residual(z: Array, w: Array, r: Array) -> float:
    """Compute the relative residual max|min(z / max|z|, w / max|r|)| of an LCP w = Qz + r, 0 ≤ z ⊥ w ≥ 0.

    All rows must have the same unit. Residuals of contact impulses are scaled per row instead (math.md, section 13.3).

    Args:
        z: Unknowns, shape (n,).
        w: Complements Qz + r, shape (n,).
        r: Constant, shape (n,).

    Returns:
        Zero at a solution; inf if any value is not finite.
    """
    z_max, r_max = 0.0, 0.0
    for i in range(z.size):
        z_max = max(z_max, abs(z[i]))
        r_max = max(r_max, abs(r[i]))
    z_unit = 1.0 / z_max if z_max > 0.0 else 0.0
    w_unit = 1.0 / r_max if r_max > 0.0 else 1.0
    worst = 0.0
    for i in range(z.size):
        a, b = z[i] * z_unit, w[i] * w_unit
        if not np.isfinite(a + b):
            return np.inf
        worst = max(worst, abs(min(a, b)))
    return worst


@njit(cache=True, inner=True, error_model="numpy", inline="always")
def rounding(count: int, size: float) -> float:
    """Bound the rounding error of a sum by ``count ε size`` (Higham 2002, section 4.2).

    If boxes rest on each other, the velocity of a row, ``w_i = r_i + Σ_j Q_ij z_j``, is only the rounding error of
    velocities and impulses that cancel. A velocity below this bound counts as zero.

    Args:
        count: Number of terms, including the terms of each Q_ij.
        size: Sum of the magnitudes of the terms.
    """
    return count * EPSILON * size


@njit(cache=True, inner=True, error_model="numpy", inline="always")
def sum_rounding(roundoff: float, count: int, size: float, reach: float) -> float:
    """Bound the rounding error of a velocity (a constant plus a sum), with a cap for strong cancellation.

    Impulses may cancel until fewer than 8 digits of the motion remain, for example if two fingers press with 1e7 N s.
    The bound must not hide motion, so it is capped at `SLIGHT` times the speed that the impulses could cause. `SLIGHT`
    is half of the judge's cap, `idcontrol.bench.judge.DIGITS`.

    Args:
        roundoff: Rounding bound of the constant.
        count: Number of terms in the sum.
        size: Sum of the magnitudes of the terms.
        reach: The smaller of the speed that the energy of all impulses could cause, and the largest constant.
    """
    return roundoff + min(rounding(count, size), SLIGHT * reach)


@njit(cache=True, inner=True, error_model="numpy")
def row_rounding(rho: Array, r: Array, roundoff: Array, z: Array, y: Array, i: int) -> float:
    """Return `sum_rounding` of ``w_i = r_i + Σ_j ρ_i·ρ_j z_j``.

    The energy of y = ρᵀz could give this row at most the speed |ρ_i||y|, which bounds `reach`.

    Args:
        rho: Rows, shape (n, k).
        r: Constant, shape (n,).
        roundoff: Rounding bounds of r, shape (n,).
        z: Unknowns, shape (n,).
        y: ρᵀz, shape (k,).
        i: Index of the row.
    """
    n, k = z.size, y.size
    size, length, energy, largest = 0.0, 0.0, 0.0, 0.0
    for d in range(k):
        length += rho[i, d] * rho[i, d]
        energy += y[d] * y[d]
    for j in range(n):
        largest = max(largest, abs(r[j]))
        if z[j] != 0.0:
            entry = 0.0
            for d in range(k):
                entry += rho[i, d] * rho[j, d]
            size += abs(entry * z[j])
    return float(sum_rounding(roundoff[i], n + k, size, min(np.sqrt(length * energy), largest)))


@njit(cache=True, error_model="numpy")
def lost(rho: Array, z: Array, y: Array) -> float:
    """Return the fraction of the motion y = ρᵀz that rounding of z makes uncertain, ``ε Σ_j |ρ_j||z_j| / |y|``.

    If the fraction exceeds the tolerance, a small residual is meaningless: another rounding would give another
    residual. The fraction is inf if any value is not finite.
    """
    size, square = 0.0, 0.0
    for d in range(y.size):
        square += y[d] * y[d]
    for j in range(z.size):
        if z[j] != 0.0:
            length = 0.0
            for d in range(y.size):
                length += rho[j, d] * rho[j, d]
            size += np.sqrt(length) * abs(z[j])
    if not np.isfinite(size + square):
        return np.inf
    return rounding(1, size) / np.sqrt(square) if square > 0.0 else 0.0


@njit(cache=True, inner=True, error_model="numpy")
def missed(z: float, w: float, unit: float, mobility: float) -> float:
    """Compute the relative violation of 0 ≤ z ⊥ w ≥ 0 by one row, scaled per row (math.md, section 13.3).

    Args:
        z: The row's unknown.
        w: Complement of z.
        unit: Reference of w: magnitude of its value at z = 0, plus magnitude of the net change by all unknowns. The sum
            of the separate changes would be wrong: it grows with the forces of two fingers that press against each
            other, and would hide their approach.
        mobility: Change of w per z, the diagonal entry of the row.

    Returns:
        ``|min(z / max(|z|, unit / mobility), w / unit)|``; inf if any value is not finite.
    """
    if not np.isfinite(z + w):
        return np.inf
    if z >= 0.0 and (w == 0.0 or (z == 0.0 and w > 0.0)):  # nearly all rows end here, without a division
        return 0.0
    if not np.isfinite(unit):
        return np.inf
    if unit == 0.0:
        return 0.0 if z >= 0.0 else np.inf
    if w < 0.0 <= z:
        return -w / unit
    push = abs(z)
    if mobility > 0.0:
        push = max(push, unit / mobility)
    return abs(min(z / push if push > 0.0 else 0.0, w / unit))


@njit(cache=True, error_model="numpy")
def gram_residual(rho: Array, r: Array, roundoff: Array, z: Array, y: Array, w: Array) -> float:
    """Set y = ρᵀz and w = ρy + r; return the residual of z in LCP(r, ρρᵀ), scaled per row.

    Args:
        rho: Rows, shape (n, k).
        r: Constant, shape (n,).
        roundoff: Rounding bounds of r, shape (n,).
        z: Unknowns, shape (n,).
        y: Result, shape (k,).
        w: Result, shape (n,).

    Returns:
        The largest violation of a row (`missed`); inf if any value is NaN.
    """
    n, k = rho.shape
    for d in range(k):
        y[d] = 0.0
    for i in range(n):
        if z[i] != 0.0:
            for d in range(k):
                y[d] += z[i] * rho[i, d]
    for i in range(n):
        along = r[i]
        for d in range(k):
            along += rho[i, d] * y[d]
        w[i] = along
    return float(row_residual(rho, r, roundoff, z, y, w))


@njit(cache=True, inner=True, error_model="numpy")
def row_residual(rho: Array, r: Array, roundoff: Array, z: Array, y: Array, w: Array) -> float:
    """Return the largest `missed` of LCP(r, ρρᵀ) at z, y = ρᵀz and w = ρy + r; arguments as in `gram_residual`."""
    n, k, worst = r.size, rho.shape[1], 0.0
    for i in range(n):
        square, unit = 0.0, abs(r[i]) + abs(w[i] - r[i])
        if z[i] > 0.0 and w[i] > 0.0:
            for d in range(k):
                square += rho[i, d] * rho[i, d]
        miss = missed(z[i], w[i], unit, square)
        if miss > TOLERANCE:  # compute the rounding bound only for rows whose verdict depends on it
            miss = missed(z[i], w[i], unit + row_rounding(rho, r, roundoff, z, y, i) / TOLERANCE, square)
        worst = max(worst, miss)
    return worst


@njit(cache=True, inner=True, error_model="numpy")
def _add_product(total: float, rest: float, a: float, b: float) -> tuple[float, float]:
    """Return (total, rest) + a b, where total + rest is a sum in doubled precision (Ogita, Rump & Oishi 2005, Dot2)."""
    product = a * b
    # Dekker: the halves of a and b have 26 bits, their products are exact
    shifted = 134217729.0 * a
    a_high = shifted - (shifted - a)
    shifted = 134217729.0 * b
    b_high = shifted - (shifted - b)
    a_low, b_low = a - a_high, b - b_high
    error = a_low * b_low - (((product - a_high * b_high) - a_low * b_high) - a_high * b_low)
    after = total + product
    share = after - total
    return after, rest + (((total - (after - share)) + (product - share)) + error)


@njit(cache=True, inner=True, error_model="numpy")
def gram_residual_doubled(rho: Array, r: Array, roundoff: Array, z: Array, y: Array, w: Array, arena: Arena) -> float:
    """Compute `gram_residual` in doubled precision, for multipliers so large that rounding exceeds the tolerance.

    Args:
        rho: Rows, shape (n, k).
        r: Constant, shape (n,).
        roundoff: Rounding bounds of r, shape (n,).
        z: Unknowns, shape (n,).
        y: Result, shape (k,).
        w: Result, shape (n,).
        arena: Arena for scratch, released on return.

    Returns:
        The largest violation of a row (`missed`); inf if any value is NaN.
    """
    n, k = rho.shape
    at = mark(arena)
    low = vector(arena, k)  # y + low is ρᵀz in doubled precision
    for d in range(k):
        y[d] = 0.0
        low[d] = 0.0
    for i in range(n):
        if z[i] != 0.0:
            for d in range(k):
                y[d], low[d] = _add_product(y[d], low[d], z[i], rho[i, d])
    for i in range(n):
        along, rest = r[i], 0.0
        for d in range(k):
            along, rest = _add_product(along, rest, rho[i, d], y[d])
            rest += rho[i, d] * low[d]
        w[i] = along + rest
    release(arena, at)
    return float(row_residual(rho, r, roundoff, z, y, w))


@dataclass(frozen=True, slots=True, kw_only=True)
class RowLcpResult:
    """Outcome of LCP(r, ρρᵀ): w = ρy + r, y = ρᵀz, 0 ≤ z ⊥ w ≥ 0.

    Attributes:
        status: SOLVED, INFEASIBLE, ITERATIONS or INACCURATE.
        z: Unknowns, shape (n,); zeros if INFEASIBLE, arbitrary if ITERATIONS.
        y: ρᵀz, shape (k,).
        w: ρy + r, shape (n,).
        active: Rows with z free and w = 0, at most k: the warm start of the next call.
        residual: Relative residual (math.md, section 13.3); inf if there is no answer.
        iterations: Passes or iterations of `method`.
        method: Method that ended the search: ``"ppm"``, ``"active set"`` or ``"lemke"``.
        certificate: If the status is INFEASIBLE, c ≥ 0 with ρᵀc = 0 and r·c < 0, shape (n,): a proof that no y has ρy +
            r ≥ 0.
    """

    status: SolverStatus
    z: Array
    y: Array
    w: Array
    active: Integers
    residual: float
    iterations: int
    method: str
    certificate: Array | None = None


def row_lcp_result(answer: RowLcpAnswer) -> RowLcpResult:
    """Build the result of a kernel that returns its certificate in z."""
    infeasible = answer.status == INFEASIBLE
    return RowLcpResult(
        status=SolverStatus(answer.status),
        z=np.zeros_like(answer.z) if infeasible else answer.z,
        y=answer.y,
        w=answer.w,
        active=answer.active,
        residual=answer.residual,
        iterations=answer.iterations,
        method=METHODS[answer.method],
        certificate=answer.z if infeasible else None,
    )


def checked_rows(rho: Array, r: Array) -> tuple[Array, Array]:
    """Return the problem as contiguous float64; raise InputError if shapes do not fit."""
    rho = np.ascontiguousarray(rho, dtype=np.float64)
    r = np.ascontiguousarray(r, dtype=np.float64)
    if rho.ndim != 2 or r.shape != rho.shape[:1]:
        raise InputError(f"LCP on rows: ρ {rho.shape} and r {r.shape} do not fit: give (n, k) and (n,)")
    return rho, r


def warm_start(warm: Integers | None, n: int, k: int) -> Integers:
    """Return the rows of `warm` that exist, at most k."""
    rows = np.zeros(0, dtype=np.int64) if warm is None else np.asarray(warm, dtype=np.int64)
    return np.ascontiguousarray(rows[(rows >= 0) & (rows < n)][:k])
