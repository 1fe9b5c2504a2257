"""Equations of Coulomb's law with circular cones (`idcontrol.models.coulomb_cone`), and their violation."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from idcontrol.kernels.arena import Arena, mark, matrix, release, vector, zeros
from idcontrol.kernels.jit import njit
from idcontrol.kernels.linear import assign
from idcontrol.solvers.lcp import missed, row_rounding, sum_rounding
from idcontrol.solvers.status import TOLERANCE
from idcontrol.types import Array


class Cones(NamedTuple):
    """The balanced problem: contact i has impulses f/size_i and velocities u size_i, so that its cone keeps its shape.

    Attributes:
        G: ρρᵀ, balanced so that each contact's mean diagonal entry is 1, shape (3 n, 3 n).
        c: Velocities at zero impulse, shape (3 n,).
        mu: Friction coefficients, shape (n,). inf counts as 0: `idcontrol.models.sticking` holds the tangents.
        size: Balancing factors, shape (n,).
        roundoff: Rounding bound of c, the largest over each contact's axes, shape (n,).
        fastest: Largest magnitude in c, not balanced [m/s].
        rho: The whitened rows, not balanced, shape (3 n, k).
        exact: Constants of the rows, not balanced, shape (3 n,) [m/s].
        terms: Half the number of terms in a velocity, so that rounding bounds are stricter here than in any later
            check.
    """

    G: Array
    c: Array
    mu: Array
    size: Array
    roundoff: Array
    fastest: float
    terms: int
    rho: Array
    exact: Array


@njit(cache=True, inner=True, error_model="numpy")
def balance(rho: Array, c: Array, roundoff: Array, mu: Array, arena: Arena) -> Cones:  # pragma: no cover - compiled
    """Balance the problem with whitened rows `rho` (3 n, k), constants `c` and their rounding bounds (3 n,)."""
    n, k = mu.shape[0], rho.shape[1]
    G, balanced = matrix(arena, 3 * n, 3 * n), vector(arena, 3 * n)
    size, friction, uncertain = zeros(arena, n), vector(arena, n), zeros(arena, n)
    for i in range(3 * n):
        for j in range(i + 1):
            s = 0.0
            for a in range(k):
                s += rho[i, a] * rho[j, a]
            G[i, j] = G[j, i] = s
        size[i % n] += G[i, i] / 3.0
    largest, fastest = 0.0, 0.0
    for i in range(n):
        largest = max(largest, size[i])
    for i in range(n):
        # keep the factor finite for a contact that no impulse moves
        size[i] = 1.0 / np.sqrt(max(size[i], 1e-20 * largest)) if largest > 0.0 else 1.0
        friction[i] = 0.0 if mu[i] == np.inf else mu[i]
    for i in range(3 * n):
        fastest = max(fastest, abs(c[i]))
        balanced[i] = size[i % n] * c[i]
        uncertain[i % n] = max(uncertain[i % n], size[i % n] * roundoff[i])
        for j in range(3 * n):
            G[i, j] *= size[i % n] * size[j % n]
    return Cones(G, balanced, friction, size, uncertain, fastest, (3 * n + k) // 2, rho, c)


@njit(cache=True, inner=True, error_model="numpy")
def velocities(p: Cones, f: Array, u: Array) -> None:  # pragma: no cover - compiled
    """Write u = c + Gf."""
    assign(u, p.c)
    for j in range(f.shape[0]):
        if f[j] != 0.0:
            for i in range(u.shape[0]):
                u[i] += p.G[j, i] * f[j]


@njit(cache=True, inner=True, error_model="numpy")
def exact_velocities(p: Cones, f: Array, u: Array, arena: Arena) -> None:  # pragma: no cover
    """Write u = c + ρ(ρᵀf), balanced; unlike c + Gf it keeps its digits when impulses cancel."""
    n, at, rho = p.mu.shape[0], mark(arena), p.rho
    x = zeros(arena, rho.shape[1])
    for row in range(3 * n):
        for a in range(x.shape[0]):
            x[a] += rho[row, a] * (p.size[row % n] * f[row])
    for row in range(3 * n):
        u[row] = p.exact[row]
        for a in range(x.shape[0]):
            u[row] += rho[row, a] * x[a]
        u[row] *= p.size[row % n]
    release(arena, at)


@njit(cache=True, inner=True, error_model="numpy")
def velocity_rounding(p: Cones, f: Array, u: Array, i: int) -> float:  # pragma: no cover - compiled
    """Bound the rounding error of the balanced velocity of contact i, along its worst axis."""
    n, energy, roundoff = p.mu.shape[0], 0.0, 0.0
    for row in range(3 * n):
        energy += f[row] * (u[row] - p.c[row])
    for row in (i, n + i, 2 * n + i):
        pushed = 0.0
        for other in range(3 * n):
            pushed += abs(p.G[row, other] * f[other])
        reach = min(np.sqrt(p.G[row, row] * max(energy, 0.0)), p.size[i] * p.fastest)
        roundoff = max(roundoff, sum_rounding(p.roundoff[i], p.terms, pushed, reach))
    return roundoff


@njit(cache=True, inner=True, error_model="numpy")
def violation(p: Cones, f: Array, u: Array, rounded: bool) -> float:  # pragma: no cover - compiled
    """Return the largest violation of the module's equations, scaled per contact (math.md, section 13.3).

    The reference of a velocity is its value at zero impulse plus the net change by impulses and, if `rounded`, plus its
    rounding bound. The reference of an impulse is the impulse itself or, if larger, the impulse that causes the
    reference velocity.
    """
    worst = 0.0
    for i in range(p.mu.shape[0]):
        miss = contact_violation(p, f, u, i, 0.0)
        if rounded and miss > TOLERANCE:  # compute the rounding bound only if the verdict depends on it
            miss = contact_violation(p, f, u, i, velocity_rounding(p, f, u, i) / TOLERANCE)
        worst = max(worst, miss)
    return worst


@njit(cache=True, inner=True, forceinline=True, error_model="numpy")
def contact_violation(p: Cones, f: Array, u: Array, i: int, least: float) -> float:  # pragma: no cover - compiled
    """Return `violation` of contact i, with `least` added to its reference velocities."""
    n = p.mu.shape[0]
    s, t = n + i, 2 * n + i
    if not np.isfinite(u[i] + u[s] + u[t] + f[i] + f[s] + f[t]):  # `max` may ignore a NaN
        return np.inf
    along = missed(f[i], u[i], abs(p.c[i]) + abs(u[i] - p.c[i]) + least, p.G[i, i])
    slip = np.hypot(p.c[s], p.c[t]) + np.hypot(u[s] - p.c[s], u[t] - p.c[t]) + least
    radius, mobility = p.mu[i] * max(f[i], 0.0), max(p.G[s, s], p.G[t, t])
    # without mobility, the unit of friction is its bound, or its own size if that is larger
    hold = max(radius, np.hypot(f[s], f[t]), slip / mobility if mobility > 0.0 else 0.0)
    if slip == 0.0 or hold == 0.0:
        return along
    y_s, y_t = f[s] / hold - u[s] / slip, f[t] / hold - u[t] / slip
    length = np.hypot(y_s, y_t)
    shorter = radius / hold / length if length > radius / hold else 1.0
    return max(along, np.hypot(f[s] / hold - shorter * y_s, f[t] / hold - shorter * y_t))


@njit(cache=True, inner=True, error_model="numpy")
def onto_cones(mu: Array, part: float, f: Array) -> bool:  # pragma: no cover - compiled
    """Project impulses onto cones with `part` times the friction coefficients.

    Returns True if the impulses were within the full cones.
    """
    n, within = mu.shape[0], True
    for i in range(n):
        used, friction, shrink = np.hypot(f[n + i], f[2 * n + i]), part * mu[i], 1.0
        within = within and used <= mu[i] * f[i]
        if friction * used <= -f[i]:
            f[i] = shrink = 0.0
        elif used > friction * f[i]:
            f[i] = (f[i] + friction * used) / (1.0 + friction * friction)
            shrink = friction * f[i] / used
        f[n + i] *= shrink
        f[2 * n + i] *= shrink
    return within


@njit(cache=True, error_model="numpy")
def cone_residual(
    rho: Array, c: Array, roundoff: Array, mu: Array, f: Array, arena: Arena
) -> float:  # pragma: no cover
    """Compute `coulomb.pyramid_residual` for circular cones."""
    n, worst = mu.shape[0], 0.0
    p = balance(rho[: 3 * n], c[: 3 * n], roundoff[: 3 * n], mu, arena)
    y, g, u = zeros(arena, rho.shape[1]), vector(arena, 3 * n), vector(arena, 3 * n)
    for row in range(f.shape[0]):
        for a in range(y.shape[0]):
            y[a] += rho[row, a] * f[row]
    for row in range(3 * n):
        u[row] = c[row]
        for a in range(y.shape[0]):
            u[row] += rho[row, a] * y[a]
        g[row], u[row] = f[row] / p.size[row % n], u[row] * p.size[row % n]
    for i in range(n):
        lost = 0.0
        for row in (i, n + i, 2 * n + i):
            lost = max(lost, p.size[i] * row_rounding(rho, c, roundoff, f, y, row))
            if mu[i] == np.inf and row >= n:
                g[row] = u[row] = 0.0
        worst = max(worst, contact_violation(p, g, u, i, lost / TOLERANCE))
    return worst
