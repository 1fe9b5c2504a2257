r"""Newton's method on the primal cost of 004 (17), in whitened velocities (004 VIII).

With ``z = Lᵀ(v - v*)``, A = L Lᵀ, and contact velocities ``u = c + ρ z`` measured against v̂,

    ℓ(z) = ½|z|² + ½ Σ γᵀRγ,    ∇ℓ = z - ρᵀγ(u),    H = I + ρᵀG ρ

The D that scales momenta in 004 (19) is the identity in these coordinates. Beside contacts there may be scalar rows
whose impulse is limited, ``g = clip(-u/C, lower, upper)``: joint limits, motors, springs.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from idcontrol.kernels.linear import cholesky, solve_lower, solve_lower_transposed
from idcontrol.models.sap.cone import cost, derivative, project
from idcontrol.types import Array

CONVERGED, STALLED, NOT_FINITE, UNPHYSICAL = 0, 1, 2, 3

ACCEPTED = 1e-6
"""Momentum error, 004 (24), of a search that rounding ended: up to this it is solved."""

ABSOLUTE = 1e-16
"""ε_a of 004 (20) [sqrt J]."""

ROUNDING = 1e-9
"""A search whose momentum error is below this and no longer halves has met the limit of rounding."""

BACKTRACK = 0.8
ARMIJO = 1e-4


class Law(NamedTuple):
    """How impulses answer to velocities: n contacts, e scalar rows.

    Attributes:
        mu: Friction coefficients, shape (n,).
        R_n: Normal regularization, shape (n,) [m/s per N s].
        R_t: Tangential regularization, shape (n,).
        C: Compliance of the scalar rows, shape (e,) [velocity per impulse].
        lower: Their smallest impulses, shape (e,).
        upper: Their largest.
    """

    mu: Array
    R_n: Array
    R_t: Array
    C: Array
    lower: Array
    upper: Array


@njit(cache=True, error_model="numpy")
def respond(u: Array, law: Law, gamma: Array) -> float:  # pragma: no cover - compiled
    """Impulses γ (3 n + e,), block order, of all rows at the velocities u; returns their part of ℓ [J]."""
    n, e = law.mu.shape[0], law.C.shape[0]
    total = 0.0
    one = np.empty(3)
    for i in range(n):
        project(u[i], u[n + i], u[2 * n + i], law.mu[i], law.R_n[i], law.R_t[i], one)
        total += cost(one, law.R_n[i], law.R_t[i])
        gamma[i], gamma[n + i], gamma[2 * n + i] = one[0], one[1], one[2]
    for r in range(e):
        y = -u[3 * n + r] / law.C[r]
        g = min(max(y, law.lower[r]), law.upper[r])
        gamma[3 * n + r] = g
        total += law.C[r] * g * (y - 0.5 * g)
    return total


@njit(cache=True, error_model="numpy")
def slope(
    alpha: float,
    u: Array,
    du: Array,
    zdz: float,
    dzdz: float,
    law: Law,
) -> tuple[float, float]:  # pragma: no cover - compiled
    """First and second derivative of ℓ along a search direction, in O(n) (004 VIII-C).

    Args:
        alpha: Length of the step.
        u: Velocities of all rows at its beginning, shape (3 n + e,).
        du: Their change, shape (3 n + e,).
        zdz: z · dz.
        dzdz: dz · dz.
        law: How impulses answer to velocities.
    """
    n, e = law.mu.shape[0], law.C.shape[0]
    first, second = zdz + alpha * dzdz, dzdz
    one, G = np.empty(3), np.empty((3, 3))
    for i in range(n):
        a, b, c = du[i], du[n + i], du[2 * n + i]
        if a == 0.0 and b == 0.0 and c == 0.0:
            continue
        u_n, u_s, u_t = u[i] + alpha * a, u[n + i] + alpha * b, u[2 * n + i] + alpha * c
        project(u_n, u_s, u_t, law.mu[i], law.R_n[i], law.R_t[i], one)
        first -= one[0] * a + one[1] * b + one[2] * c
        if derivative(u_n, u_s, u_t, law.mu[i], law.R_n[i], law.R_t[i], G):
            second += a * a * G[0, 0] + b * b * G[1, 1] + c * c * G[2, 2]
            second += 2.0 * (a * b * G[0, 1] + a * c * G[0, 2] + b * c * G[1, 2])
    for r in range(e):
        d = du[3 * n + r]
        y = -(u[3 * n + r] + alpha * d) / law.C[r]
        first -= min(max(y, law.lower[r]), law.upper[r]) * d
        if law.lower[r] <= y <= law.upper[r]:
            second += d * d / law.C[r]
    return first, second


@njit(cache=True, error_model="numpy")
def exact_step(
    start: float,
    u: Array,
    du: Array,
    zdz: float,
    dzdz: float,
    law: Law,
) -> float:  # pragma: no cover - compiled
    """Root of the slope on (0, 1], to rounding: Newton inside a bracket that bisection shrinks (rtsafe, 004 VIII-B).

    The full step is taken where the cost still falls at its end.

    Args:
        start: Slope at 0, negative.
        u: See `slope`, like all that follow.
        du: The same.
        zdz: The same.
        dzdz: The same.
        law: The same.
    """
    first, second = slope(1.0, u, du, zdz, dzdz, law)
    if first <= 0.0:
        return 1.0
    low, high, alpha, last = 0.0, 1.0, 1.0, 1.0
    for _ in range(100):
        step = first / second
        if low < alpha - step < high and abs(2.0 * step) <= abs(last):
            last = step
            alpha -= step
        else:
            last = 0.5 * (high - low)
            alpha = low + last
        if abs(last) <= 1e-15 * alpha or high - low <= 1e-15 * high:
            break
        first, second = slope(alpha, u, du, zdz, dzdz, law)
        if abs(first) <= -1e-14 * start:
            break
        if first < 0.0:
            low = alpha
        else:
            high = alpha
    return alpha


@njit(cache=True, error_model="numpy")
def backtracked_step(
    start: float,
    cost_now: float,
    u: Array,
    du: Array,
    zz: float,
    zdz: float,
    dzdz: float,
    law: Law,
    gamma: Array,
) -> float:  # pragma: no cover - compiled
    """Armijo's rule from the full step downwards (004 VIII-B).

    From the full step, not from the 1.5 that 004 names: the rule would accept 1.5 near the optimum every time, and
    Newton's method would converge by halves.

    Args:
        start: Slope at 0, negative.
        cost_now: ℓ at 0.
        u: See `slope`.
        du: The same.
        zz: z · z.
        zdz: See `slope`, like the next two.
        dzdz: The same.
        law: The same.
        gamma: Room for impulses, shape (3 n + e,).
    """
    alpha = 1.0
    for _ in range(100):
        trial = 0.5 * (zz + 2.0 * alpha * zdz + alpha * alpha * dzdz)
        trial += respond(u + alpha * du, law, gamma)
        # what rounding hides is no increase
        if trial <= cost_now + ARMIJO * alpha * start + 1e-15 * cost_now:
            break
        alpha *= BACKTRACK
    return alpha


@njit(cache=True, error_model="numpy")
def hessian(rho: Array, u: Array, law: Law, H: Array) -> None:  # pragma: no cover - compiled
    """``H = I + ρᵀG ρ`` in its lower triangle, shape (k, k)."""
    n, e, k = law.mu.shape[0], law.C.shape[0], rho.shape[1]
    H[:] = 0.0
    for i in range(k):
        H[i, i] = 1.0
    G, W = np.empty((3, 3)), np.empty((3, k))
    for i in range(n):
        if not derivative(u[i], u[n + i], u[2 * n + i], law.mu[i], law.R_n[i], law.R_t[i], G):
            continue
        normal, s, t = rho[i], rho[n + i], rho[2 * n + i]
        for a in range(3):
            for j in range(k):
                W[a, j] = G[a, 0] * normal[j] + G[a, 1] * s[j] + G[a, 2] * t[j]
        for p in range(k):
            for q in range(p + 1):
                H[p, q] += normal[p] * W[0, q] + s[p] * W[1, q] + t[p] * W[2, q]
    for r in range(e):
        if not law.lower[r] <= -u[3 * n + r] / law.C[r] <= law.upper[r]:
            continue
        row = rho[3 * n + r]
        for p in range(k):
            for q in range(p + 1):
                H[p, q] += row[p] * row[q] / law.C[r]


@njit(cache=True, error_model="numpy")
def minimize(
    rho: Array,
    c: Array,
    law: Law,
    momentum: Array,
    tolerance: float,
    most: int,
    exact: bool,
    z: Array,
    gamma: Array,
) -> tuple[int, int, float]:  # pragma: no cover - compiled
    """Algorithm 1 of 004.

    Args:
        rho: Whitened rows of n contacts in block order, then of e scalar rows, shape (3 n + e, k).
        c: Their velocities at z = 0, measured against v̂ and targets, shape (3 n + e,).
        law: How impulses answer to velocities.
        momentum: Whitened momentum ``Lᵀv*`` at z = 0, which the residual is compared with, shape (k,).
        tolerance: ε_r of 004 (20).
        most: Largest number of iterations.
        exact: Exact line search, else backtracking.
        z: Start, overwritten with the result, shape (k,).
        gamma: Overwritten with the impulses at z, shape (3 n + e,).

    Returns:
        `CONVERGED`, `STALLED` or `NOT_FINITE`; iterations; momentum error 004 (24).
    """
    k = z.shape[0]
    H, L, dz = np.empty((k, k)), np.zeros((k, k)), np.empty(k)
    residual = np.inf
    for iteration in range(most + 1):
        u = c + np.dot(rho, z)
        zz = np.dot(z, z)
        value = 0.5 * zz + respond(u, law, gamma)
        j = np.dot(gamma, rho)
        size = np.sqrt(max(np.dot(momentum + z, momentum + z), np.dot(j, j)))
        error = np.linalg.norm(z - j)
        if not np.isfinite(error):
            return NOT_FINITE, iteration, np.inf
        last, residual = residual, error / size if size > 0.0 else 0.0
        if error < ABSOLUTE + tolerance * size:
            return CONVERGED, iteration, residual
        if iteration == most or (residual < ROUNDING and residual > 0.5 * last):
            return STALLED, iteration, residual
        hessian(rho, u, law, H)
        if not cholesky(H, L):
            return STALLED, iteration, residual
        dz[:] = j - z
        solve_lower(L, dz)
        solve_lower_transposed(L, dz)
        du = np.dot(rho, dz)
        zdz, dzdz = np.dot(z, dz), np.dot(dz, dz)
        start = zdz - np.dot(gamma, du)
        # a step that rounding swallows is none
        if not start < 0.0 or dzdz < (1e-15 * size) ** 2:
            return STALLED, iteration, residual
        if exact:
            alpha = exact_step(start, u, du, zdz, dzdz, law)
        else:
            alpha = backtracked_step(start, value, u, du, zz, zdz, dzdz, law, gamma)
        z += alpha * dz
    return STALLED, most, residual
