"""Shared by the solvers of linear complementarity problems: the residual that decides, and the forms of the answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numba import njit

from idcontrol.errors import InputError
from idcontrol.kernels.arena import Arena, mark, release, vector
from idcontrol.solvers.status import INFEASIBLE, SolverStatus
from idcontrol.types import Array, Integers

METHODS = ("ppm", "active set", "lemke")
"""The methods for LCPs on rows, in the order in which they are tried; kernels return the number."""
PPM: Final = 0
ACTIVE_SET: Final = 1
LEMKE: Final = 2


class LcpAnswer(NamedTuple):
    """How a kernel for w = Qz + r, 0 ≤ z ⊥ w ≥ 0 ended; its arrays come from the caller's arena.

    Attributes:
        status: Number of a `SolverStatus`.
        iterations: Pivots or iterations.
        residual: Relative residual (math.md, section 13.3); inf where there is no answer.
        z: Unknowns, shape (n,).
        w: Qz + r, shape (n,).
    """

    status: int
    iterations: int
    residual: float
    z: Array
    w: Array


class RowLcpAnswer(NamedTuple):
    """How a kernel for LCP(r, ρρᵀ) ended; its arrays come from the caller's arena.

    Attributes:
        status: Number of a `SolverStatus`.
        iterations: Passes or iterations.
        residual: Relative residual (math.md, section 13.3); inf where there is no answer.
        method: Place in `METHODS` of the method that answered.
        z: Unknowns, shape (n,); where the status is INFEASIBLE the certificate c: c ≥ 0, ρᵀc = 0 and r·c < 0, so that
            no y has ρy + r ≥ 0.
        y: ρᵀz, shape (k,).
        w: ρy + r, shape (n,).
        active: Rows with z free and w = 0, at most k: where the next call may start.
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
    """Relative residual max|min(z / max|z|, w / max|r|)| of an LCP w = Qz + r, 0 ≤ z ⊥ w ≥ 0 (math.md, section 13.3).

    Args:
        z: Unknowns, shape (n,).
        w: Their complements Qz + r, shape (n,).
        r: Constant, shape (n,).

    Returns:
        Zero at a solution; inf if anything is NaN.
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


@njit(cache=True, error_model="numpy")
def gram_residual(rho: Array, r: Array, z: Array, y: Array, w: Array) -> float:
    """Set y = ρᵀz and w = ρy + r and return the residual of z in LCP(r, ρρᵀ).

    Args:
        rho: Rows, shape (n, k).
        r: Constant, shape (n,).
        z: Unknowns, shape (n,).
        y: Result, shape (k,).
        w: Result, shape (n,).

    Returns:
        `lcp_residual`; inf if anything is NaN.
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
    return float(lcp_residual(z, w, r))


@njit(cache=True, error_model="numpy")
def _add_product(total: float, rest: float, a: float, b: float) -> tuple[float, float]:
    """(total, rest) + a b, where total + rest is a sum to twice the precision (Ogita, Rump & Oishi 2005, Dot2)."""
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


@njit(cache=True, error_model="numpy")
def gram_residual_doubled(rho: Array, r: Array, z: Array, y: Array, w: Array, arena: Arena) -> float:
    """`gram_residual` in twice the precision, for multipliers so large that rounding in ρρᵀz is above the tolerance.

    Args:
        rho: Rows, shape (n, k).
        r: Constant, shape (n,).
        z: Unknowns, shape (n,).
        y: Result, shape (k,).
        w: Result, shape (n,).
        arena: Where scratch comes from, and goes back to.

    Returns:
        `lcp_residual`; inf if anything is NaN.
    """
    n, k = rho.shape
    at = mark(arena)
    low = vector(arena, k)  # what y is less than ρᵀz
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
    return float(lcp_residual(z, w, r))


@dataclass(frozen=True, slots=True, kw_only=True)
class RowLcpResult:
    """Outcome of LCP(r, ρρᵀ): w = ρy + r, y = ρᵀz, 0 ≤ z ⊥ w ≥ 0.

    Attributes:
        status: SOLVED, INFEASIBLE, ITERATIONS or INACCURATE.
        z: Unknowns, shape (n,); zeros unless SOLVED or INACCURATE.
        y: ρᵀz, shape (k,).
        w: ρy + r, shape (n,).
        active: Rows with z free and w = 0, at most k: the warm start of the next call.
        residual: Relative residual (math.md, section 13.3); inf where there is no answer.
        iterations: Passes or iterations of the method that answered.
        method: Which one answered: ``"ppm"``, ``"active set"`` or ``"lemke"``.
        certificate: Where the status is INFEASIBLE: c ≥ 0 with ρᵀc = 0 and r·c < 0, shape (n,), so that no y has
            ρy + r ≥ 0.
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
    """The result of a kernel that leaves its certificate in z."""
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
    """The problem as contiguous float64; raises InputError where the shapes do not fit."""
    rho = np.ascontiguousarray(rho, dtype=np.float64)
    r = np.ascontiguousarray(r, dtype=np.float64)
    if rho.ndim != 2 or r.shape != rho.shape[:1]:
        raise InputError(f"LCP on rows: ρ {rho.shape} and r {r.shape} do not fit: give (n, k) and (n,)")
    return rho, r


def warm_start(warm: Integers | None, n: int, k: int) -> Integers:
    """Those rows of `warm` that exist, k at most."""
    given = np.zeros(0, dtype=np.int64) if warm is None else np.asarray(warm, dtype=np.int64)
    return np.ascontiguousarray(given[(given >= 0) & (given < n)][:k])
