r"""Unilateral springs without friction: the symmetric LCP of math.md, section 11.2, with compliance on its diagonal.

    0 ≤ Λ ⊥ (ρρᵀ + C) Λ + c ≥ 0,     C = diag C_i > 0

This is the law ``Λ_i = max(0, -(c_i + ρ_i y)) / C_i`` at the velocity change ``y = ρᵀΛ``, and y minimizes

    ½ |y|² + Σ max(0, -(c_i + ρ_i y))² / 2 C_i

which is convex in the unknown velocities and quadratic between kinks. Newton's method with an exact line search ends
after finitely many steps. A step costs n k² + k³ for n constraints and k velocities, whereas an LCP method on the n
forces costs n³.
"""

from __future__ import annotations

import numpy as np

from idcontrol.kernels.arena import HEAP, Arena, indices, matrix, vector, zeros
from idcontrol.kernels.jit import njit
from idcontrol.kernels.linear import assign, cholesky, solve_lower, solve_lower_transposed
from idcontrol.kernels.linked import linked
from idcontrol.solvers.lcp import gram_residual, lost, missed, row_rounding
from idcontrol.solvers.psd import solve_psd_lcp
from idcontrol.solvers.status import INACCURATE, ITERATIONS, SOLVED, TOLERANCE, SolverStatus
from idcontrol.types import Array, Integers

_ITERATIONS = 100
_REFINEMENTS = 3
_STILL = 1e-30
"""A Newton step counts as rounding if its square is below this fraction of |y|²."""
_SHARP = 1e-14
"""Residual below which the solution is not refined."""


@njit(cache=True, inner=True, error_model="numpy")
def _along(rho: Array, i: int, x: Array) -> float:
    """Return ``ρ_i x`` without BLAS: for a row of six, the call would take longer than the sum."""
    total = 0.0
    for a in range(x.size):
        total += rho[i, a] * x[a]
    return total


@njit(cache=True, inner=True, error_model="numpy")
def _factor(rho: Array, C: Array, active: Integers, H: Array, L: Array) -> bool:
    """Write ``H = I + Σ_active ρ_iᵀρ_i / C_i`` and its Cholesky factor L; return False if that fails."""
    n, k = rho.shape
    H[:] = 0.0
    for a in range(k):
        H[a, a] = 1.0
    for i in range(n):
        if active[i]:
            for a in range(k):
                weighted = rho[i, a] / C[i]
                for b in range(a + 1):
                    H[a, b] += weighted * rho[i, b]
    return bool(cholesky(H, L))


@njit(cache=True, inner=True, error_model="numpy")
def _line_search(s: Array, ds: Array, C: Array, yd: float, dd: float, kinks: Array) -> float:
    """Return the α in [0, 1] that minimizes ½|y + α d|² + Σ max(0, -(s + α ds))² / 2C.

    The derivative is piecewise linear.

    Args:
        s: Velocities c + ρy, shape (n,).
        ds: Change of s with d, shape (n,).
        C: Compliances, shape (n,).
        yd: y · d.
        dd: d · d.
        kinks: Scratch, shape (n,).
    """
    n, count = s.size, 0
    for i in range(n):
        if ds[i] != 0.0:
            at = -s[i] / ds[i]
            if 0.0 < at < 1.0:
                kinks[count] = at
                count += 1
    kinks = kinks[:count]
    kinks.sort()
    low, high = -1, count  # the derivative is at most 0 at kink `low` (-1: α = 0), and positive at kink `high`
    while high - low > 1:
        middle = (low + high) // 2
        alpha = kinks[middle]
        slope = yd + alpha * dd
        for i in range(n):
            at = s[i] + alpha * ds[i]
            if at < 0.0:
                slope += at * ds[i] / C[i]
        if slope > 0.0:
            high = middle
        else:
            low = middle
    start = kinks[low] if low >= 0 else 0.0
    end = kinks[high] if high < count else 1.0
    middle_of_piece = 0.5 * (start + end)
    slope, curvature = yd, dd
    for i in range(n):
        if s[i] + middle_of_piece * ds[i] < 0.0:
            slope += s[i] * ds[i] / C[i]
            curvature += ds[i] * ds[i] / C[i]
    return float(min(max(-slope / curvature, start), end))


@njit(cache=True, inner=True, error_model="numpy")
def _respond(rho: Array, C: Array, active: Integers, L: Array, x: Array, sign: float, d: Array) -> None:
    """Replace d by ``H⁻¹(d + sign Σ_active ρ_iᵀ x_i / C_i)``, with the factor L of H."""
    for i in range(x.size):
        if active[i]:
            force = sign * x[i] / C[i]
            for a in range(d.size):
                d[a] += rho[i, a] * force
    solve_lower(L, d)
    solve_lower_transposed(L, d)


@linked
@njit(cache=True, error_model="numpy")
def spring_kernel(
    rho: Array, c: Array, roundoff: Array, C: Array, z: Array, w: Array, arena: Arena
) -> tuple[int, int, float]:  # pragma: no cover - compiled
    """Minimize the cost of this module by Newton's method.

    Args:
        rho: Whitened rows, shape (n, k).
        c: Constants, shape (n,) [m/s].
        roundoff: Rounding bounds of the constants, shape (n,) [m/s].
        C: Compliances, positive, shape (n,) [m/s per N s].
        z: Result Λ, shape (n,).
        w: Result (ρρᵀ + C) Λ + c, shape (n,).
        arena: Arena for scratch.

    Returns:
        Status number, iterations, relative residual (math.md, section 13.3).
    """
    n, k = rho.shape
    H, L, active = matrix(arena, k, k), matrix(arena, k, k), indices(arena, n)
    y, d, s, ds, kinks = zeros(arena, k), vector(arena, k), vector(arena, n), vector(arena, n), vector(arena, n)
    L[:] = 0.0
    assign(s, c)
    for i in range(n):
        active[i] = s[i] < 0.0
    iterations, settled = 0, False
    while not settled:
        if iterations == _ITERATIONS or not _factor(rho, C, active, H, L):
            return ITERATIONS if iterations == _ITERATIONS else INACCURATE, iterations, np.inf
        iterations += 1
        for a in range(k):
            d[a] = -y[a]
        _respond(rho, C, active, L, s, -1.0, d)
        for i in range(n):
            ds[i] = _along(rho, i, d)
        dd = np.dot(d, d)
        if dd <= _STILL * np.dot(y, y):  # a constraint exactly at its kink must not change sides for ever
            break
        alpha = _line_search(s, ds, C, np.dot(y, d), dd, kinks)
        for a in range(k):
            y[a] += alpha * d[a]
        settled = True
        for i in range(n):
            s[i] = c[i] + _along(rho, i, y)
            settled = settled and active[i] == (s[i] < 0.0)
            active[i] = s[i] < 0.0
    for i in range(n):
        z[i] = -s[i] / C[i] if active[i] else 0.0
    # if C is small, s is a small difference of large numbers: refine Λ on the active rows
    residual = _residual(rho, c, roundoff, C, z, w, y)
    for _ in range(_REFINEMENTS):
        if residual <= _SHARP:
            break
        d[:] = 0.0
        _respond(rho, C, active, L, w, 1.0, d)
        for i in range(n):
            if active[i]:
                z[i] = max(0.0, z[i] - (w[i] - _along(rho, i, d)) / C[i])
        residual = _residual(rho, c, roundoff, C, z, w, y)
    residual = max(residual, lost(rho, z, y))
    return SOLVED if residual <= TOLERANCE else INACCURATE, iterations, residual


@njit(cache=True, inner=True, error_model="numpy")
def _residual(rho: Array, c: Array, roundoff: Array, C: Array, z: Array, w: Array, y: Array) -> float:
    gram_residual(rho, c, roundoff, z, y, w)
    worst = 0.0
    for i in range(z.size):
        w[i] += C[i] * z[i]
        mobility = C[i]
        for a in range(y.size):
            mobility += rho[i, a] * rho[i, a]
        unit = abs(c[i]) + abs(w[i] - c[i])
        miss = missed(z[i], w[i], unit, mobility)
        if miss > TOLERANCE:  # compute the rounding bound only for rows whose verdict depends on it
            miss = missed(z[i], w[i], unit + row_rounding(rho, c, roundoff, z, y, i) / TOLERANCE, mobility)
        worst = max(worst, miss)
    return worst


def solve_springs(
    rho: Array, c: Array, C: Array, roundoff: Array | None = None
) -> tuple[SolverStatus, Array, int, float]:
    """Solve ``0 ≤ Λ ⊥ (ρρᵀ + C)Λ + c ≥ 0`` by Newton's method or, if it fails or some C is 0, as an LCP on rows.

    Args:
        rho: Whitened rows, shape (n, k).
        c: Constants, shape (n,) [m/s].
        C: Compliances, nonnegative, shape (n,) [m/s per N s].
        roundoff: Rounding bounds of c, shape (n,) [m/s]; zero by default.

    Returns:
        Status, Λ (n,) [N s], iterations, relative residual. INFEASIBLE is possible only if some C is 0.
    """
    if (C > 0.0).all():
        z, w = np.empty(c.size), np.empty(c.size)
        status, iterations, residual = spring_kernel(
            rho, c, np.zeros(c.size) if roundoff is None else roundoff, C, z, w, HEAP
        )
        if status == SOLVED:
            return SolverStatus.SOLVED, z, iterations, residual
    # ρρᵀ + C is the Gram matrix of [ρ, √C]
    result = solve_psd_lcp(np.hstack((rho, np.diag(np.sqrt(C)))), c)
    uncertain = lost(rho, result.z, rho.T @ result.z)
    if result.status is SolverStatus.SOLVED and uncertain > TOLERANCE:
        return SolverStatus.INACCURATE, result.z, result.iterations, uncertain
    return result.status, result.z, result.iterations, result.residual
