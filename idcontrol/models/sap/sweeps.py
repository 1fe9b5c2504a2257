"""A start for the search of many bodies: sweeps over contacts on the dual problem, then Newton steps on the primal.

    minimize over γ in the friction cones   ½ |ρᵀγ|² + ½ γᵀR γ + cᵀγ

Castro, Permenter & Han 2022 start from the last velocities. In collisions these are far from the solution, and most
Newton steps only determine which contacts open, stick or slide. Projected successive over-relaxation finds most of
these modes at a tenth of the cost, and one Newton step with the contact law in these modes finds nearly all others.
Newton's method then converges to the required accuracy.
"""

from __future__ import annotations

from idcontrol.kernels.arena import Arena, mark, matrix, release, vector, zeros
from idcontrol.kernels.jit import njit
from idcontrol.kernels.linear import assign_rows
from idcontrol.kernels.six import add_rows, times
from idcontrol.models.sap.blocks import Cost, Hessian, Optimum, descend, hessian, impulse, velocities
from idcontrol.models.sap.cone import answered, derivative, nearest
from idcontrol.models.sap.newton import respond
from idcontrol.solvers.block_cholesky import BLOCK, factorize, solve
from idcontrol.types import Array

FAR = 1e-2
"""Relative momentum error at the start above which a search begins with sweeps."""

SWEEPS, SETTLED = 50, 1e-3
"""Limit of sweeps, and relative change of momentum per sweep below which sweeps end."""

RELAXED = 1.2
"""Over-relaxation of a sweep."""


@njit(cache=True, inner=True, error_model="numpy")
def _sweep(cost: Cost, gamma: Array, z: Array, arena: Arena) -> None:  # pragma: no cover - compiled
    """Minimize the dual roughly, contact by contact.

    Args:
        cost: Cost of the island.
        gamma: Start, overwritten, shape (3 n,).
        z: Overwritten with ρᵀγ, shape (nodes, 6).
        arena: Arena for scratch; the caller releases it.
    """
    rows, c, law, momentum = cost.rows, cost.c, cost.law, cost.momentum
    n, nodes = law.mu.shape[0], z.shape[0]
    scale, keep, mu_hat = matrix(arena, n, 2), matrix(arena, n, 2), vector(arena, n)
    for i in range(n):
        normal, s, t = 0.0, 0.0, 0.0
        for at in range(rows.start[i], rows.start[i + 1]):
            for k in range(BLOCK):
                normal += rows.rho[at, 0, k] ** 2
                s += rows.rho[at, 1, k] ** 2
                t += rows.rho[at, 2, k] ** 2
        scale[i, 0], scale[i, 1] = RELAXED / (normal + law.R_n[i]), RELAXED / (max(s, t) + law.R_t[i])
        keep[i, 0], keep[i, 1] = 1.0 - law.R_n[i] * scale[i, 0], 1.0 - law.R_t[i] * scale[i, 1]
        mu_hat[i] = law.mu[i] * scale[i, 0] / scale[i, 1]
    impulse(rows, gamma, z)
    for _ in range(SWEEPS):
        change = 0.0
        for i in range(n):
            a, b, d = c[i], c[n + i], c[2 * n + i]
            for at in range(rows.start[i], rows.start[i + 1]):
                p, q, r = times(rows.rho[at], z[rows.node[at]])
                a, b, d = a + p, b + q, d + r
            g_n, g_s, g_t = gamma[i], gamma[n + i], gamma[2 * n + i]
            along, across = scale[i, 0], scale[i, 1]
            _, p, q, r = nearest(
                keep[i, 0] * g_n - along * a,
                keep[i, 1] * g_s - across * b,
                keep[i, 1] * g_t - across * d,
                law.mu[i],
                mu_hat[i],
            )
            a, b, d = p - g_n, q - g_s, r - g_t
            if a == 0.0 and b == 0.0 and d == 0.0:
                continue
            gamma[i], gamma[n + i], gamma[2 * n + i] = p, q, r
            change += a * a / along + (b * b + d * d) / across
            for at in range(rows.start[i], rows.start[i + 1]):
                add_rows(rows.rho[at], a, b, d, z[rows.node[at]])
        size = 0.0
        for i in range(nodes):
            for k in range(BLOCK):
                size += (momentum[i, k] + z[i, k]) ** 2
        if not change > SETTLED * SETTLED * size:
            break


@njit(cache=True, inner=True, error_model="numpy")
def _value(cost: Cost, z: Array, u: Array, gamma: Array, arena: Arena) -> float:  # pragma: no cover - compiled
    """Return ℓ(z) [J]; overwrite u and gamma, shape (3 n,), with velocities and impulses at z."""
    velocities(cost.rows, z, cost.c, u)
    value = respond(u, cost.law, gamma, arena)
    for i in range(z.shape[0]):
        for k in range(BLOCK):
            value += 0.5 * z[i, k] ** 2
    return value


@njit(cache=True, inner=True, error_model="numpy")
def _toward(cost: Cost, H: Hessian, impulses: Array, z: Array, arena: Arena) -> bool:  # pragma: no cover - compiled
    """Advance ``z = ρᵀγ`` by a Newton step in the modes of the impulses γ, shape (3 n,).

    The modes follow from the impulses rather than from the velocities at z: at a near-rigid contact a small velocity
    error can mean any impulse. If û is a velocity at which a contact has the impulse γ, its linearized law is ``γ -
    G(û)(u - û)``, and the momentum balance gives the Newton step ``(I + ρᵀGρ) dz = -ρᵀG(u - û)``.
    """
    rows, c, law = cost.rows, cost.c, cost.law
    n, at = law.mu.shape[0], mark(arena)
    u, linear, dz = vector(arena, 3 * n), vector(arena, 3 * n), matrix(arena, z.shape[0], BLOCK)
    velocities(rows, z, c, u)
    for i in range(n):
        now = (u[i], u[n + i], u[2 * n + i])
        mu, R_n, R_t = law.mu[i], law.R_n[i], law.R_t[i]
        there = answered(impulses[i], impulses[n + i], impulses[2 * n + i], now, mu, R_n, R_t)
        u[i], u[n + i], u[2 * n + i] = there
        nn, ns, nt, ss, st, tt = derivative(u[i], u[n + i], u[2 * n + i], mu, R_n, R_t)
        p, q, r = there[0] - now[0], there[1] - now[1], there[2] - now[2]
        linear[i] = nn * p + ns * q + nt * r
        linear[n + i] = ns * p + ss * q + st * r
        linear[2 * n + i] = nt * p + st * q + tt * r
    hessian(rows, u, law, H)
    definite = factorize(H.structure, H.diagonal, H.upper)
    if definite:
        impulse(rows, linear, dz)
        solve(H.structure, H.diagonal, H.upper, dz)
        for i in range(z.shape[0]):
            for k in range(BLOCK):
                z[i, k] += dz[i, k]
    release(arena, at)
    return definite


@njit(cache=True, inner=True, error_model="numpy")
def start_from(
    cost: Cost, H: Hessian, impulses: Array, at: Optimum, arena: Arena
) -> int:  # pragma: no cover - compiled
    """Improve the start z by sweeps from `impulses` (overwritten) and a Newton step, if z is far from the solution.

    A result that does not lower the cost is rejected. At rest the last velocities nearly solve the problem, so no sweep
    is needed.

    Returns:
        Number of Newton steps taken, 0 or 1.
    """
    z, gamma, u = at.z, at.gamma, at.u
    taken = mark(arena)
    nodes, steps = z.shape[0], 0
    other, j = matrix(arena, nodes, BLOCK), matrix(arena, nodes, BLOCK)
    value = _value(cost, z, u, gamma, arena)
    impulse(cost.rows, gamma, j)
    error, p2, j2 = 0.0, 0.0, 0.0
    for i in range(nodes):
        for k in range(BLOCK):
            error += (j[i, k] - z[i, k]) ** 2
            p2 += (cost.momentum[i, k] + z[i, k]) ** 2
            j2 += j[i, k] ** 2
    if error > FAR * FAR * max(p2, j2):
        _sweep(cost, impulses, other, arena)
        if _value(cost, other, u, gamma, arena) < value:
            assign_rows(z, other)
        if _toward(cost, H, impulses, other, arena):
            steps = 1
            _value(cost, z, u, gamma, arena)
            du, none = vector(arena, u.shape[0]), zeros(arena, u.shape[0])
            for i in range(nodes):
                for k in range(BLOCK):
                    other[i, k] -= z[i, k]
            velocities(cost.rows, other, none, du)
            descend(at, other, du, cost.law, 0.0)
    release(arena, taken)
    return steps
