"""LCP(r, ρρᵀ) by the first method that works; frictionless contact problems and convex pyramid models have this form.

math.md, section 4.4, compares the methods.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from idcontrol.kernels.arena import HEAP, Arena, mark, release
from idcontrol.kernels.jit import njit
from idcontrol.kernels.linked import linked
from idcontrol.solvers.active_set import project_kernel
from idcontrol.solvers.lcp import (
    LEMKE,
    METHODS,
    RowLcpAnswer,
    RowLcpResult,
    checked_rows,
    gram_residual,
    row_lcp_result,
    warm_start,
)
from idcontrol.solvers.lemke import balancing_scale, lemke_kernel
from idcontrol.solvers.ppm import ppm_kernel
from idcontrol.solvers.status import INFEASIBLE, SOLVED, TOLERANCE, SolverStatus
from idcontrol.types import Array, Integers

_LEMKE_ROWS = 400
"""Largest number of rows for Lemke's method, which needs the full matrix."""


@linked
@njit(cache=True, error_model="numpy")
def psd_lcp_kernel(
    rho: Array, r: Array, roundoff: Array, start: Integers, arena: Arena
) -> RowLcpAnswer:  # pragma: no cover - compiled
    """Run principal pivoting from an active set and, if that fails, the dual active-set method.

    Args:
        rho: Rows ρ, shape (n, k).
        r: Constants, shape (n,).
        roundoff: Rounding bounds of r, shape (n,).
        start: Initial active set; the rows must exist.
        arena: Arena for all arrays, including the arrays of the answer.

    Returns:
        The answer, with a certificate if the status is INFEASIBLE.
    """
    at = mark(arena)
    # successful pivoting takes about ten passes; more would cost more than the dual active-set method, which always
    # ends
    answer: RowLcpAnswer = ppm_kernel(rho, r, roundoff, 10 + 2 * rho.shape[1], start, arena)
    if answer.status in (SOLVED, INFEASIBLE):
        return answer
    release(arena, at)
    answer = project_kernel(rho, r, roundoff, arena)
    return answer


def solve_psd_lcp(rho: Array, r: Array, warm: Integers | None = None) -> RowLcpResult:
    """Solve w = ρρᵀz + r, 0 ≤ z ⊥ w ≥ 0: principal pivoting, then the dual active set, then (if small) Lemke.

    Args:
        rho: Rows ρ, shape (n, k).
        r: Constants, shape (n,).
        warm: Initial active set, the `active` of an earlier result; rows that do not exist are skipped.

    Returns:
        The outcome with its checked residual; `method` names the method that ended the search.

    Raises:
        InputError: The shapes do not fit.
    """
    rho, r = checked_rows(rho, r)
    n, k = rho.shape
    result = row_lcp_result(psd_lcp_kernel(rho, r, np.zeros(n), warm_start(warm, n, k), HEAP))
    if result.status in (SolverStatus.SOLVED, SolverStatus.INFEASIBLE) or n > _LEMKE_ROWS:
        return result
    return _by_lemke(rho, r, result)


def _by_lemke(rho: Array, r: Array, otherwise: RowLcpResult) -> RowLcpResult:
    """Return the solution of Lemke's method on the whole matrix, or `otherwise` if this fails."""
    n, k = rho.shape
    Q = rho @ rho.T
    answer = lemke_kernel(Q, r, balancing_scale(Q), 0.0, 50 * n + 100, HEAP)
    z, y, w = answer.z, np.empty(k), answer.w
    residual = gram_residual(rho, r, np.zeros(n), z, y, w) if answer.status == SOLVED else np.inf
    if not residual <= TOLERANCE:
        return otherwise
    return replace(
        otherwise,
        status=SolverStatus.SOLVED,
        z=z,
        y=y,
        w=w,
        active=np.flatnonzero(z)[:k],
        residual=residual,
        iterations=answer.iterations,
        method=METHODS[LEMKE],
    )
