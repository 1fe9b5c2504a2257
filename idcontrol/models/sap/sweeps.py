"""A start for the search of many bodies: sweeps over contacts on the dual problem, before Newton steps on the primal.

    minimize over γ in the friction cones   ½ |ρᵀγ|² + ½ γᵀR γ + cᵀγ

Castro, Permenter & Han 2022 start from the last velocities. Where bodies collide that is far off, and most Newton steps
go into finding which contacts part, stick or slide. Projected successive over-relaxation finds most of them at a tenth
of the cost, and Newton's method the digits.
"""

from __future__ import annotations

from numba import njit

from idcontrol.kernels.arena import Arena, mark, matrix, release, vector
from idcontrol.models.sap.blocks import Cost, Optimum, impulse, velocities
from idcontrol.models.sap.cone import project
from idcontrol.models.sap.newton import respond
from idcontrol.solvers.block_cholesky import BLOCK
from idcontrol.types import Array

FAR = 1e-2
"""A search begins with sweeps over the contacts where the momentum error at its start is above this."""

SWEEPS, SETTLED = 50, 1e-4
"""Most sweeps, and the change of momentum in one, relative to all of it, below which they end."""

RELAXED = 1.2
"""Over-relaxation of a sweep."""


@njit(cache=True, error_model="numpy")
def _sweep(cost: Cost, gamma: Array, z: Array, arena: Arena) -> None:  # pragma: no cover - compiled
    """Minimize the dual roughly, contact by contact.

    Args:
        cost: The cost of an island.
        gamma: Start, overwritten, shape (3 n,).
        z: Overwritten with ρᵀγ, shape (nodes, 6).
        arena: Where scratch comes from; the caller gives it back.
    """
    rows, c, law, momentum = cost.rows, cost.c, cost.law, cost.momentum
    n, nodes = law.mu.shape[0], z.shape[0]
    d_n, d_t, one = vector(arena, n), vector(arena, n), vector(arena, 3)
    for i in range(n):
        normal, s, t = 0.0, 0.0, 0.0
        for at in range(rows.start[i], rows.start[i + 1]):
            for k in range(BLOCK):
                normal += rows.rho[at, 0, k] ** 2
                s += rows.rho[at, 1, k] ** 2
                t += rows.rho[at, 2, k] ** 2
        d_n[i], d_t[i] = (normal + law.R_n[i]) / RELAXED, (max(s, t) + law.R_t[i]) / RELAXED
    impulse(rows, gamma, z)
    for _ in range(SWEEPS):
        change = 0.0
        for i in range(n):
            a, b, d = c[i], c[n + i], c[2 * n + i]
            for at in range(rows.start[i], rows.start[i + 1]):
                rho, x = rows.rho[at], z[rows.node[at]]
                for k in range(BLOCK):
                    a += rho[0, k] * x[k]
                    b += rho[1, k] * x[k]
                    d += rho[2, k] * x[k]
            g_n, g_s, g_t = gamma[i], gamma[n + i], gamma[2 * n + i]
            project(
                a + (law.R_n[i] - d_n[i]) * g_n,
                b + (law.R_t[i] - d_t[i]) * g_s,
                d + (law.R_t[i] - d_t[i]) * g_t,
                law.mu[i],
                d_n[i],
                d_t[i],
                one,
            )
            a, b, d = one[0] - g_n, one[1] - g_s, one[2] - g_t
            if a == 0.0 and b == 0.0 and d == 0.0:
                continue
            gamma[i], gamma[n + i], gamma[2 * n + i] = one[0], one[1], one[2]
            change += d_n[i] * a * a + d_t[i] * (b * b + d * d)
            for at in range(rows.start[i], rows.start[i + 1]):
                rho, x = rows.rho[at], z[rows.node[at]]
                for k in range(BLOCK):
                    x[k] += rho[0, k] * a + rho[1, k] * b + rho[2, k] * d
        size = 0.0
        for i in range(nodes):
            for k in range(BLOCK):
                size += (momentum[i, k] + z[i, k]) ** 2
        if not change > SETTLED * SETTLED * size:
            break


@njit(cache=True, error_model="numpy")
def _value(cost: Cost, z: Array, u: Array, gamma: Array, arena: Arena) -> float:  # pragma: no cover - compiled
    """ℓ(z) [J]; u and gamma, shape (3 n,), are overwritten with velocities and impulses there."""
    velocities(cost.rows, z, cost.c, u)
    value = respond(u, cost.law, gamma, arena)
    for i in range(z.shape[0]):
        for k in range(BLOCK):
            value += 0.5 * z[i, k] ** 2
    return value


@njit(cache=True, error_model="numpy")
def start_from(cost: Cost, impulses: Array, at: Optimum, arena: Arena) -> None:  # pragma: no cover - compiled
    """Replace the start z by that which sweeps from `impulses`, overwritten, find, if z is far off and that is better.

    At rest the last velocities are nearly the solution and no sweep is made.
    """
    z, gamma, u = at.z, at.gamma, at.u
    taken = mark(arena)
    other, j = matrix(arena, z.shape[0], BLOCK), matrix(arena, z.shape[0], BLOCK)
    value = _value(cost, z, u, gamma, arena)
    impulse(cost.rows, gamma, j)
    error, p2, j2 = 0.0, 0.0, 0.0
    for i in range(z.shape[0]):
        for k in range(BLOCK):
            error += (j[i, k] - z[i, k]) ** 2
            p2 += (cost.momentum[i, k] + z[i, k]) ** 2
            j2 += j[i, k] ** 2
    if error > FAR * FAR * max(p2, j2):
        _sweep(cost, impulses, other, arena)
        if _value(cost, other, u, gamma, arena) < value:
            z[:] = other
    release(arena, taken)
