"""A feasible interior point method for LCPs whose matrix is P0 (Trinkle et al. 1997, appendix; math.md, chapter 9)."""

from __future__ import annotations

from typing import Final

import numpy as np

from idcontrol.errors import InputError
from idcontrol.solvers.lcp import LcpResult, lcp_residual
from idcontrol.solvers.lemke import solve_lemke
from idcontrol.solvers.status import TOLERANCE, SolverStatus
from idcontrol.types import Array, Integers

# Constants of Trinkle et al. 1997, appendix.
_CENTRING: Final = 0.1  # β
_TO_BOUNDARY: Final = 0.995  # η
_BACKTRACK: Final = 0.5  # ρ
_DECREASE: Final = 1e-4  # σ
_CLOSE: Final = 1e-11  # where both entries of a pair vanish, they are only as accurate as the square root of zᵀw
_SHORTEST: Final = 1e-12  # a shorter step means that rounding dominates


def _potential(z: Array, w: Array) -> float:
    """Return ψ = (n + ζ) ln zᵀw - Σ ln z_i w_i with ζ = √n; NaN outside the positive orthant."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return float((z.size + np.sqrt(z.size)) * np.log(z @ w) - (np.log(z) + np.log(w)).sum())


def _direction(Q: Array, z: Array, w: Array) -> tuple[Array, Array]:
    """Return the Newton step (dz, dw) to the point of the central path with z_i w_i = βξ, ξ = zᵀw/n.

    The right side has the opposite sign of eq. 38 in Trinkle et al. 1997, where the sign is a misprint.

    Raises:
        numpy.linalg.LinAlgError: The matrix ``diag(z) Q + diag(w)`` of the Newton step is singular.
    """
    centre = _CENTRING * (z @ w) / z.size
    system = z[:, None] * Q + np.diag(w)
    largest = np.abs(system).max(axis=1)
    dz = np.linalg.solve(system / largest[:, None], (centre - z * w) / largest)
    return dz, (centre - w * dz) / z - w


def _step_length(z: Array, w: Array, dz: Array, dw: Array) -> float:
    """Return a step length: close to the boundary, then halved until ψ falls by σ (1 - β) ζ times the length.

    Halving also ends at `_SHORTEST`; ψ may then not fall enough.
    """
    both, change = np.concatenate((z, w)), np.concatenate((dz, dw))
    step = _TO_BOUNDARY * min(1.0, float((both[change < 0.0] / -change[change < 0.0]).min(initial=1.0)))
    here, slope = _potential(z, w), _DECREASE * (1.0 - _CENTRING) * np.sqrt(z.size)
    while not _potential(z + step * dz, w + step * dw) - here <= -slope * step and step > _SHORTEST:
        step *= _BACKTRACK
    return step


def solve_interior_point(Q: Array, r: Array, start: Array, *, max_iterations: int = 200) -> LcpResult:
    """Solve w = Qz + r, 0 ≤ z ⊥ w ≥ 0 from an interior point, by potential reduction along the central path.

    Source: Trinkle et al. 1997, appendix; math.md, chapter 9.

    Args:
        Q: Matrix, P0, shape (n, n).
        r: Constant, shape (n,).
        start: A point with start > 0 and Q start + r > 0, shape (n,); `pyramid_start` computes one for the problem of
            Trinkle et al. 1997.
        max_iterations: Limit of Newton steps.

    Returns:
        The outcome with its checked residual; INACCURATE with residual inf if the start is not an interior point.

    Raises:
        InputError: The shapes do not fit.
    """
    Q, r, z = (np.asarray(array, dtype=np.float64) for array in (Q, r, start))
    n = r.size
    if Q.shape != (n, n) or z.shape != (n,):
        raise InputError(f"interior point: Q {Q.shape}, r {r.shape}, start {z.shape}: give (n, n), (n,), (n,)")
    w = Q @ z + r
    if not (np.all(z > 0.0) and np.all(w > 0.0)):
        return LcpResult(status=SolverStatus.INACCURATE, z=z, w=w, residual=np.inf, iterations=0)
    iterations, status = 0, SolverStatus.INACCURATE
    while not lcp_residual(z, w, r) <= _CLOSE:
        if iterations == max_iterations:
            status = SolverStatus.ITERATIONS
            break
        iterations += 1
        try:
            dz, dw = _direction(Q, z, w)
        except np.linalg.LinAlgError:
            break
        step = _step_length(z, w, dz, dw)
        if not step > _SHORTEST:
            break
        z, w = z + step * dz, w + step * dw
    w = Q @ z + r
    residual = float(lcp_residual(z, w, r))
    if residual <= TOLERANCE:
        status = SolverStatus.SOLVED
    return LcpResult(status=status, z=z, w=w, residual=residual, iterations=iterations)


def pyramid_start(Q: Array, r: Array, mu: Array, rolling: Integers) -> Array | None:
    """Return an interior point of the pyramid LCP of Trinkle et al. 1997: large enough normal forces, no friction.

    See math.md, chapter 9.

    Args:
        Q: Matrix of the LCP in (c_n, s_t, s_o, a_t⁻, a_o⁻), shape (n + 4 p, n + 4 p) with p rolling contacts.
        r: Constant of the LCP, shape (n + 4 p,).
        mu: Friction coefficients of all n contacts, positive at rolling contacts, shape (n,).
        rolling: The p rolling contacts; all other contacts slide, and their friction is part of the first n columns of
            Q.

    Returns:
        The start, shape (n + 4 p,); None if the normal problem has no solution.
    """
    n, p = mu.size, rolling.size
    U = mu[rolling]
    s_t, s_o = slice(n, n + p), slice(n + p, n + 2 * p)
    # normal forces without friction, c_n with s = μ c_n, act through these columns
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
