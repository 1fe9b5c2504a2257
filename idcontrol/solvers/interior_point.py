"""A feasible interior point method for LCPs whose matrix is P0 (Trinkle et al. 1997, appendix; math.md, chapter 9)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from idcontrol.errors import InputError
from idcontrol.kernels.arena import HEAP, Arena, matrix, vector
from idcontrol.kernels.jit import njit
from idcontrol.kernels.linear import assign, solve_in_place
from idcontrol.kernels.linked import linked
from idcontrol.solvers.lcp import LcpAnswer, lcp_residual
from idcontrol.solvers.lemke import solve_lemke
from idcontrol.solvers.status import INACCURATE, ITERATIONS, SOLVED, TOLERANCE, SolverStatus
from idcontrol.types import Array, Integers

# Constants of Trinkle et al. 1997, appendix.
_CENTRING: Final = 0.1  # β
_TO_BOUNDARY: Final = 0.995  # η
_BACKTRACK: Final = 0.5  # ρ
_DECREASE: Final = 1e-4  # σ
_CLOSE: Final = 1e-11  # stop at this residual: zᵀw alone would leave pairs at which both vanish at its square root
_SHORTEST: Final = 1e-12  # a shorter step than this means that rounding has the last word


@njit(cache=True, inner=True, error_model="numpy")
def _potential(z: Array, w: Array, dz: Array, dw: Array, step: float) -> float:
    """ψ = (n + ζ) ln zᵀw - Σ ln z_i w_i with ζ = √n, at a step along (dz, dw); NaN outside the positive orthant."""
    n = z.size
    gap, logs = 0.0, 0.0
    for i in range(n):
        a, b = z[i] + step * dz[i], w[i] + step * dw[i]
        gap += a * b
        logs += np.log(a) + np.log(b)
    return float((n + np.sqrt(n)) * np.log(gap) - logs)


@linked
@njit(cache=True, error_model="numpy")
def interior_point_kernel(Q: Array, r: Array, start: Array, max_iterations: int, arena: Arena) -> LcpAnswer:
    """Follow the central path by potential reduction (Trinkle et al. 1997, appendix).

    The sign of the right side of eq. 38 is corrected.

    Args:
        Q: Matrix, P0, shape (n, n).
        r: Constant, shape (n,).
        start: A point with start > 0 and Q start + r > 0, shape (n,).
        max_iterations: Iterations allowed.
        arena: Where arrays come from, those of the answer included.

    Returns:
        The answer; INACCURATE also where the start is not inside.
    """
    n = r.size
    z, w, dz, dw = vector(arena, n), vector(arena, n), vector(arena, n), vector(arena, n)
    system = matrix(arena, n, n + 1)
    assign(z, start)
    for i in range(n):
        w[i] = r[i]
        for j in range(n):
            w[i] += Q[i, j] * z[j]
    if not (np.all(z > 0.0) and np.all(w > 0.0)):
        return LcpAnswer(INACCURATE, 0, np.inf, z, w)
    iterations, status = 0, SOLVED
    while not lcp_residual(z, w, r) <= _CLOSE:
        if iterations == max_iterations:
            status = ITERATIONS
            break
        iterations += 1
        gap = 0.0
        for i in range(n):
            gap += z[i] * w[i]
        centre = _CENTRING * gap / n  # βξ
        for i in range(n):
            for j in range(n):
                system[i, j] = z[i] * Q[i, j]
            system[i, i] += w[i]
            system[i, n] = centre - z[i] * w[i]
            largest = 0.0
            for j in range(n):
                largest = max(largest, abs(system[i, j]))
            for j in range(n + 1):
                system[i, j] /= largest
        if not solve_in_place(system, n):
            status = INACCURATE
            break
        step = 1.0
        for i in range(n):
            dz[i] = system[i, n]
            dw[i] = (centre - w[i] * dz[i]) / z[i] - w[i]
            if dz[i] < 0.0:
                step = min(step, -z[i] / dz[i])
            if dw[i] < 0.0:
                step = min(step, -w[i] / dw[i])
        step *= _TO_BOUNDARY
        here = _potential(z, w, dz, dw, 0.0)
        slope = _DECREASE * (1.0 - _CENTRING) * np.sqrt(n)  # σ (1 - β) ζ
        while not _potential(z, w, dz, dw, step) - here <= -slope * step and step > _SHORTEST:
            step *= _BACKTRACK
        if not step > _SHORTEST:
            status = INACCURATE
            break
        for i in range(n):
            z[i] += step * dz[i]
            w[i] += step * dw[i]
    for i in range(n):
        w[i] = r[i]
        for j in range(n):
            w[i] += Q[i, j] * z[j]
    residual = lcp_residual(z, w, r)
    if residual <= TOLERANCE:
        status = SOLVED
    elif status == SOLVED:
        status = INACCURATE
    return LcpAnswer(status, iterations, residual, z, w)


@dataclass(frozen=True, slots=True, kw_only=True)
class InteriorPointResult:
    """Outcome of the interior point method.

    Attributes:
        status: SOLVED, ITERATIONS or INACCURATE (also where the start is not inside).
        z: Unknowns, shape (n,), all positive.
        w: Qz + r, shape (n,).
        residual: Relative residual (math.md, section 13.3); inf where the start is not inside.
        iterations: Newton steps.
    """

    status: SolverStatus
    z: Array
    w: Array
    residual: float
    iterations: int


def solve_interior_point(Q: Array, r: Array, start: Array, *, max_iterations: int = 200) -> InteriorPointResult:
    """Solve w = Qz + r, 0 ≤ z ⊥ w ≥ 0 from a point inside (math.md, chapter 9).

    Args:
        Q: Matrix, P0, shape (n, n).
        r: Constant, shape (n,).
        start: A point with start > 0 and Q start + r > 0, shape (n,); `pyramid_start` makes one for the problem
            of Trinkle et al. 1997.
        max_iterations: Newton steps allowed.

    Returns:
        The outcome, its residual checked.

    Raises:
        InputError: The shapes do not fit.
    """
    Q, r = np.ascontiguousarray(Q, dtype=np.float64), np.ascontiguousarray(r, dtype=np.float64)
    start = np.ascontiguousarray(start, dtype=np.float64)
    n = r.size
    if Q.shape != (n, n) or start.shape != (n,):
        raise InputError(f"interior point: Q {Q.shape}, r {r.shape}, start {start.shape}: give (n, n), (n,), (n,)")
    answer = interior_point_kernel(Q, r, start, max_iterations, HEAP)
    return InteriorPointResult(
        status=SolverStatus(answer.status),
        z=answer.z,
        w=answer.w,
        residual=answer.residual,
        iterations=answer.iterations,
    )


def pyramid_start(Q: Array, r: Array, mu: Array, rolling: Integers) -> Array | None:
    """A point inside the pyramid LCP of Trinkle et al. 1997: large enough normal forces, no friction.

    See math.md, chapter 9.

    Args:
        Q: Matrix of the LCP in (c_n, s_t, s_o, a_t⁻, a_o⁻), shape (n + 4 p, n + 4 p) with p rolling contacts.
        r: Its constant, shape (n + 4 p,).
        mu: Friction of all n contacts, positive at the rolling ones, shape (n,).
        rolling: The p rolling contacts; the others slide and their friction is part of the first columns of Q.

    Returns:
        The start, shape (n + 4 p,); None if the normal problem has no solution.
    """
    n, p = mu.size, rolling.size
    U = mu[rolling]
    s_t, s_o = slice(n, n + p), slice(n + p, n + 2 * p)
    # c_n with s = μ c_n, that is without friction, acts through these columns
    frictionless = Q[:n, :n].copy()
    frictionless[:, rolling] += (Q[:n, s_t] + Q[:n, s_o]) * U
    delta = 0.1 * max(1.0, float(np.abs(r).max(initial=0.0)))
    normal = solve_lemke(frictionless, r[:n] - 2.0 * delta)
    if normal.status is not SolverStatus.SOLVED:
        return None
    largest = float(np.abs(frictionless).sum(axis=1).max(initial=0.0))
    z = np.zeros(n + 4 * p)
    z[:n] = normal.z + min(1.0, delta / largest if largest > 0.0 else 1.0)
    z[s_t] = z[s_o] = U * z[rolling]
    tangential = slice(n, n + 2 * p)
    z[n + 2 * p :] = np.maximum(0.0, -(Q[tangential] @ z + r[tangential])) + delta
    return z
