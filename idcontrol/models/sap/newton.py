r"""Newton's method on the primal cost, in whitened velocities (Castro, Permenter & Han 2022, eq. 17, section VIII).

With ``z = Lᵀ(v - v*)``, the inertia A = L Lᵀ, and contact velocities ``u = c + ρ z`` relative to v̂,

    ℓ(z) = ½|z|² + ½ Σ γᵀRγ,    ∇ℓ = z - ρᵀγ(u),    H = I + ρᵀG ρ

The matrix D that scales momenta in eq. 19 of the paper is the identity in these coordinates. In addition to contacts
there may be scalar rows of limited impulse, ``g = clip(-u/C, lower, upper)``, for joint limits, motors and springs.
Equations and sections in this module refer to Castro, Permenter & Han 2022.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from idcontrol.kernels.arena import Arena, mark, matrix, release, vector
from idcontrol.kernels.jit import njit
from idcontrol.kernels.linear import cholesky, solve_lower, solve_lower_transposed
from idcontrol.models.sap.cone import OPEN, cost, derivative, nearest, project
from idcontrol.models.sap.regularization import BETA, SIGMA
from idcontrol.types import Array, Booleans, Integers

CONVERGED, STALLED, NOT_FINITE, UNPHYSICAL, UNSETTLED = 0, 1, 2, 3, 4

ACCEPTED = 1e-7
"""Momentum error, from `minimize`, up to which a search counts as solved although rounding has ended it."""

PRECISE = 1e-10
"""Limit of `_own_error` for a converged search, unless a coarser tolerance is set."""

ABSOLUTE = 1e-16
"""ε_a of the stopping rule [sqrt J] (Castro, Permenter & Han 2022, eq. 20)."""

ROUNDING = 1e-9
"""Momentum error below which rounding ends the search as soon as a step does not halve the error."""

BACKTRACK = 0.8
ARMIJO = 1e-4


class Parameters(NamedTuple):
    """Parameters of the method; only β and σ are physical, and their defaults are the values in the paper.

    Attributes:
        beta: Period of a near-rigid contact, in steps.
        sigma: Tangential regularization relative to the inverse mass.
        tolerance: ε_r of the stopping rule, eq. 20.
        iterations: Limit of Newton steps.
        exact: True for an exact line search, False for backtracking.
    """

    beta: float = BETA
    sigma: float = SIGMA
    tolerance: float = 1e-13
    iterations: int = 100
    exact: bool = True


class Law(NamedTuple):
    """Parameters of the law from velocities to impulses, for n contacts and e scalar rows.

    Attributes:
        mu: Friction coefficients, shape (n,).
        R_n: Normal regularization, shape (n,) [m/s per N s].
        R_t: Tangential regularization, shape (n,) [m/s per N s].
        C: Compliance of the scalar rows, shape (e,) [velocity per impulse].
        lower: Smallest impulses of the scalar rows, shape (e,).
        upper: Largest impulses of the scalar rows, shape (e,).
    """

    mu: Array
    R_n: Array
    R_t: Array
    C: Array
    lower: Array
    upper: Array


class Cost(NamedTuple):
    """The cost ℓ of the module's docstring, in whitened form.

    Attributes:
        rho: Whitened rows of n contacts in block order, then of e scalar rows, shape (3 n + e, k).
        c: Velocities of the rows at z = 0, relative to v̂ and targets, shape (3 n + e,).
        law: Law of the impulses at row velocities.
        momentum: Whitened momentum ``Lᵀv*`` at z = 0, the reference of the residual, shape (k,).
    """

    rho: Array
    c: Array
    law: Law
    momentum: Array


class Line(NamedTuple):
    """A search direction dz from a point z.

    Attributes:
        u: Velocities of all rows at z, shape (3 n + e,).
        du: Change of u with dz, shape (3 n + e,).
        zz: z · z.
        zdz: z · dz.
        dzdz: dz · dz.
    """

    u: Array
    du: Array
    zz: float
    zdz: float
    dzdz: float


@njit(cache=True, inner=True, error_model="numpy")
def respond(u: Array, law: Law, gamma: Array, arena: Arena) -> float:  # pragma: no cover - compiled
    """Write impulses γ (3 n + e,) of all rows, block order, at the velocities u; return their contribution to ℓ [J]."""
    n, e = law.mu.shape[0], law.C.shape[0]
    total, at = 0.0, mark(arena)
    one = vector(arena, 3)
    for i in range(n):
        project(u[i], u[n + i], u[2 * n + i], law.mu[i], law.R_n[i], law.R_t[i], one)
        total += cost(one, law.R_n[i], law.R_t[i])
        gamma[i], gamma[n + i], gamma[2 * n + i] = one[0], one[1], one[2]
    for r in range(e):
        y = -u[3 * n + r] / law.C[r]
        g = min(max(y, law.lower[r]), law.upper[r])
        gamma[3 * n + r] = g
        total += law.C[r] * g * (y - 0.5 * g)
    release(arena, at)
    return total


@njit(cache=True, inner=True, error_model="numpy")
def slope(alpha: float, line: Line, law: Law) -> tuple[float, float]:  # pragma: no cover - compiled
    """Return the first and second derivative of ℓ at ``z + alpha dz``, along dz, in time O(n) (section VIII-C)."""
    u, du = line.u, line.du
    n, e = law.mu.shape[0], law.C.shape[0]
    first, second = line.zdz + alpha * line.dzdz, line.dzdz
    for i in range(n):
        a, b, c = du[i], du[n + i], du[2 * n + i]
        if a == 0.0 and b == 0.0 and c == 0.0:
            continue
        u_n, u_s, u_t = u[i] + alpha * a, u[n + i] + alpha * b, u[2 * n + i] + alpha * c
        mu, R_n, R_t = law.mu[i], law.R_n[i], law.R_t[i]
        per_n, per_t = 1.0 / R_n, 1.0 / R_t  # as in `derivative`, so that the compiler does each division only once
        _, g_n, g_s, g_t = nearest(-u_n * per_n, -u_s * per_t, -u_t * per_t, mu, mu * R_t * per_n)
        first -= g_n * a + g_s * b + g_t * c
        nn, ns, nt, ss, st, tt = derivative(u_n, u_s, u_t, mu, R_n, R_t)
        second += a * a * nn + b * b * ss + c * c * tt
        second += 2.0 * (a * b * ns + a * c * nt + b * c * st)
    for r in range(e):
        d = du[3 * n + r]
        y = -(u[3 * n + r] + alpha * d) / law.C[r]
        first -= min(max(y, law.lower[r]), law.upper[r]) * d
        if law.lower[r] <= y <= law.upper[r]:
            second += d * d / law.C[r]
    return first, second


@njit(cache=True, inner=True, error_model="numpy")
def exact_step(start: float, line: Line, law: Law, flat: float = 1e-14) -> float:  # pragma: no cover - compiled
    """Find the root of the slope on (0, 1] by Newton's method, safeguarded by bisection (section VIII-B).

    The full step is taken if the cost still falls at its end, or is flat there.

    Args:
        start: Slope at 0, negative.
        line: The search direction.
        law: Law of the impulses at row velocities.
        flat: Slope at which the search ends, relative to the slope at 0; by default, rounding.
    """
    first, second = slope(1.0, line, law)
    if first <= -flat * start:
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
        first, second = slope(alpha, line, law)
        if abs(first) <= -flat * start:
            break
        if first < 0.0:
            low = alpha
        else:
            high = alpha
    return alpha


@njit(cache=True, inner=True, error_model="numpy")
def backtracked_step(
    start: float, value: float, line: Line, law: Law, gamma: Array, arena: Arena
) -> float:  # pragma: no cover - compiled
    """Apply Armijo's rule from the full step downwards (section VIII-B).

    The search starts at the full step. The paper starts at 1.5. Close to the optimum the rule would always accept 1.5,
    and Newton's method would converge only linearly.

    Args:
        start: Slope at 0, negative.
        value: ℓ at 0.
        line: The search direction.
        law: Law of the impulses at row velocities.
        gamma: Overwritten with impulses at the last trial, shape (3 n + e,).
        arena: Arena for scratch, released on return.
    """
    alpha, at = 1.0, mark(arena)
    u = vector(arena, line.u.shape[0])
    for _ in range(100):
        trial = 0.5 * (line.zz + 2.0 * alpha * line.zdz + alpha * alpha * line.dzdz)
        for r in range(u.shape[0]):
            u[r] = line.u[r] + alpha * line.du[r]
        trial += respond(u, law, gamma, arena)
        # an increase within rounding does not count
        if trial <= value + ARMIJO * alpha * start + 1e-15 * value:
            break
        alpha *= BACKTRACK
    release(arena, at)
    return alpha


@njit(cache=True, inner=True, error_model="numpy")
def read_modes(u: Array, law: Law, mode: Integers, arena: Arena) -> None:  # pragma: no cover - compiled
    """Write the mode of each contact (open, stick or slide) at velocities u, shape (n,)."""
    n, one = law.mu.shape[0], vector(arena, 3)
    for i in range(n):
        mode[i] = project(u[i], u[n + i], u[2 * n + i], law.mu[i], law.R_n[i], law.R_t[i], one)


@njit(cache=True, inner=True, error_model="numpy")
def change_roles(mu: Array, mode: Integers, released: Booleans) -> bool:  # pragma: no cover - compiled
    """Release contacts of infinite friction that open; if no contact opens, hold released contacts that press.

    Args:
        mu: Friction coefficients, shape (n,); 0 instead of inf for released contacts.
        mode: Mode of each contact (open, stick or slide), shape (n,).
        released: Contacts that were released earlier, shape (n,); each contact is released only once.

    Returns:
        False if no contact changes its role.
    """
    changed = False
    for i in range(mu.shape[0]):
        if mu[i] == np.inf and mode[i] == OPEN and not released[i]:
            mu[i], released[i], changed = 0.0, True, True
    if changed:
        return True
    for i in range(mu.shape[0]):
        if released[i] and mu[i] == 0.0 and mode[i] != OPEN:
            mu[i], changed = np.inf, True
    return changed


@njit(cache=True, inner=True, error_model="numpy")
def hessian(rho: Array, u: Array, law: Law, H: Array, arena: Arena) -> None:  # pragma: no cover - compiled
    """Write the lower triangle of ``H = I + ρᵀG ρ`` at row velocities u, shape (k, k)."""
    n, e, k = law.mu.shape[0], law.C.shape[0], rho.shape[1]
    H[:] = 0.0
    for i in range(k):
        H[i, i] = 1.0
    at = mark(arena)
    W = matrix(arena, 3, k)
    for i in range(n):
        nn, ns, nt, ss, st, tt = derivative(u[i], u[n + i], u[2 * n + i], law.mu[i], law.R_n[i], law.R_t[i])
        if nn == 0.0 and ss == 0.0:
            continue
        normal, s, t = rho[i], rho[n + i], rho[2 * n + i]
        for j in range(k):
            W[0, j] = nn * normal[j] + ns * s[j] + nt * t[j]
            W[1, j] = ns * normal[j] + ss * s[j] + st * t[j]
            W[2, j] = nt * normal[j] + st * s[j] + tt * t[j]
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
    release(arena, at)


@njit(cache=True, inner=True, error_model="numpy")
def minimize(
    cost: Cost, parameters: Parameters, z: Array, gamma: Array, arena: Arena
) -> tuple[int, int, float]:  # pragma: no cover - compiled
    """Minimize ℓ (Castro, Permenter & Han 2022, Algorithm 1).

    Args:
        cost: ℓ.
        parameters: Stopping rule and line search; the law already contains β and σ.
        z: Start, overwritten with the result, shape (k,).
        gamma: Overwritten with the impulses at z, shape (3 n + e,).
        arena: Arena for scratch, released on return.

    Returns:
        `CONVERGED`, `STALLED` or `NOT_FINITE`; iterations; momentum error of eq. 24 or, if the search has stalled, the
        larger of this error and `_own_error`.
    """
    at = mark(arena)
    ending, iterations, residual = _newton(cost, parameters, z, gamma, arena)
    release(arena, at)
    return ending, iterations, residual


@njit(cache=True, inner=True, error_model="numpy")
def _own_error(cost: Cost, z: Array, gamma: Array, dz: Array) -> float:  # pragma: no cover - compiled
    """Return the largest component of the momentum error ``dz = ρᵀγ - z``, each relative to the size of its terms.

    The error of eq. 24 is relative to the momentum of the whole robot, which hides the momentum of a light body.
    """
    worst = 0.0
    for i in range(z.shape[0]):
        size = abs(z[i]) + abs(cost.momentum[i])
        for r in range(gamma.shape[0]):
            size += abs(cost.rho[r, i] * gamma[r])
        if dz[i] != 0.0:
            worst = max(worst, abs(dz[i]) / size)
    return worst


@njit(cache=True, inner=True, error_model="numpy")
def _newton(
    cost: Cost, parameters: Parameters, z: Array, gamma: Array, arena: Arena
) -> tuple[int, int, float]:  # pragma: no cover - compiled
    rho, law, most = cost.rho, cost.law, parameters.iterations
    rows, k = rho.shape
    H, L, dz, p = matrix(arena, k, k), matrix(arena, k, k), vector(arena, k), vector(arena, k)
    u, du, j = vector(arena, rows), vector(arena, rows), vector(arena, k)
    L[:] = 0.0
    residual, own, swallowed = np.inf, np.inf, False
    for iteration in range(most + 1):
        np.dot(rho, z, u)
        for r in range(rows):
            u[r] += cost.c[r]
        zz = np.dot(z, z)
        value = 0.5 * zz + respond(u, law, gamma, arena)
        np.dot(gamma, rho, j)
        for i in range(k):
            p[i] = cost.momentum[i] + z[i]
            dz[i] = j[i] - z[i]
        size = np.sqrt(max(np.dot(p, p), np.dot(j, j)))
        error = np.linalg.norm(dz)
        if not np.isfinite(error + size):
            return NOT_FINITE, iteration, np.inf
        last, residual = residual, error / size if size > 0.0 else 0.0
        close = swallowed or error < ABSOLUTE + parameters.tolerance * size
        close = close or (residual < ROUNDING and residual > 0.5 * last)
        if close or iteration == most:
            before, own = own, _own_error(cost, z, gamma, dz)
            if own <= max(PRECISE, parameters.tolerance):
                return CONVERGED, iteration, residual
            if iteration == most or not own < 0.5 * before:
                return STALLED, iteration, max(residual, own)
        hessian(rho, u, law, H, arena)
        if not cholesky(H, L):
            return STALLED, iteration, max(residual, _own_error(cost, z, gamma, dz))
        solve_lower(L, dz)
        solve_lower_transposed(L, dz)
        if close:
            # the remaining error belongs to light bodies; their share of the cost is below rounding, so a line search
            # is useless
            for i in range(k):
                z[i] += dz[i]
            continue
        np.dot(rho, dz, du)
        line = Line(u, du, zz, np.dot(z, dz), np.dot(dz, dz))
        start = line.zdz - np.dot(gamma, du)
        swallowed = not start < 0.0 or line.dzdz < (1e-15 * size) ** 2
        if swallowed:
            alpha = 1.0
        elif parameters.exact:
            alpha = exact_step(start, line, law)
        else:
            alpha = backtracked_step(start, value, line, law, gamma, arena)
        for i in range(k):
            z[i] += alpha * dz[i]
    return STALLED, most, residual
