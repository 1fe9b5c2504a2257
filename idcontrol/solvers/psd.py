"""LCP(r, ρρᵀ), the form of every frictionless or convex contact problem, by whichever method can (math.md 4.4)."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np
from numba import njit

from idcontrol.solvers.active_set import active_set_work, project_kernel
from idcontrol.solvers.lcp import RowLcpResult, checked_rows, gram_residual, row_lcp_result, warm_start
from idcontrol.solvers.lemke import lemke_kernel, lemke_work, uniform_scale
from idcontrol.solvers.ppm import ppm_kernel
from idcontrol.solvers.status import INFEASIBLE, SOLVED, TOLERANCE, SolverStatus
from idcontrol.types import Array, Integers

METHODS = ("ppm", "active set", "lemke")
"""The methods in the order in which they are tried; kernels return the number."""
PPM: Final = 0
ACTIVE_SET: Final = 1
LEMKE: Final = 2

_LEMKE_ROWS = 400
"""Rows up to which Lemke's method, which forms the matrix, is worth its cubic cost."""


@njit(cache=True, error_model="numpy")
def psd_lcp_kernel(
    rho: Array,
    r: Array,
    active: Integers,
    count: int,
    z: Array,
    y: Array,
    w: Array,
    rows: Array,
    sides: Array,
    work: Array,
) -> tuple[int, int, int, float, int]:
    """Principal pivoting from the given active set; the dual active set where that gives up.

    Args:
        rho: Rows ρ, shape (n, k).
        r: Constants, shape (n,).
        active: In: rows to start from, the first `count`; out: the final active set. Shape (k,).
        count: How many rows to start from.
        z: Result, shape (n,): the solution, or the certificate when the status is INFEASIBLE.
        y: Result ρᵀz, shape (k,).
        w: Result ρy + r, shape (n,).
        rows: Scratch, n k numbers in any shape.
        sides: Scratch, shape (3, n).
        work: Scratch from `psd_work`.

    Returns:
        Status number, iterations, size of the final active set, relative residual, place in `METHODS` of who answered.
    """
    # where it answers it does so in some ten passes; more of them cost more than the finite method
    status, iterations, count, residual = ppm_kernel(rho, r, 10 + 2 * rho.shape[1], active, count, z, y, w, work)
    if status in (SOLVED, INFEASIBLE):
        return status, iterations, count, residual, PPM
    status, iterations, count, residual = project_kernel(rho, r, active, z, y, w, rows, sides, work)
    return status, iterations, count, residual, ACTIVE_SET


def psd_work(k: int) -> Array:
    """Scratch of `psd_lcp_kernel` for rows of length k."""
    return active_set_work(k)


def solve_psd_lcp(rho: Array, r: Array, warm: Integers | None = None) -> RowLcpResult:
    """Solve w = ρρᵀz + r, 0 ≤ z ⊥ w ≥ 0: principal pivoting, then the dual active set, then Lemke's method.

    Args:
        rho: Rows ρ, shape (n, k).
        r: Constants, shape (n,).
        warm: Rows to start from, the `active` of an earlier result; those that do not exist are left out.

    Returns:
        The outcome, its residual checked; `method` says who answered.

    Raises:
        InputError: The shapes do not fit.
    """
    rho, r = checked_rows(rho, r)
    n, k = rho.shape
    active, count = warm_start(warm, n, k)
    z, y, w = np.empty(n), np.empty(k), np.empty(n)
    status, iterations, count, residual, method = psd_lcp_kernel(
        rho, r, active, count, z, y, w, np.empty((n, k)), np.empty((3, n)), psd_work(k)
    )
    result = row_lcp_result(status, z, y, w, active[:count], residual, iterations, METHODS[method])
    if result.status in (SolverStatus.SOLVED, SolverStatus.INFEASIBLE) or n > _LEMKE_ROWS:
        return result
    return _by_lemke(rho, r, result)


def _by_lemke(rho: Array, r: Array, otherwise: RowLcpResult) -> RowLcpResult:
    """The solution that Lemke's method finds on the whole matrix; `otherwise` if it does not solve the problem."""
    n, k = rho.shape
    Q = rho @ rho.T
    z, y, w = np.empty(n), np.empty(k), np.empty(n)
    status, pivots, _ = lemke_kernel(Q, r, uniform_scale(Q), 0.0, 50 * n + 100, z, w, *lemke_work(n))
    residual = gram_residual(rho, r, z, y, w) if status == SOLVED else np.inf
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
        iterations=pivots,
        method=METHODS[LEMKE],
    )
