r"""Which joints cannot follow: with all of their torque they lag behind what is asked of them (math.md, section 12.4).

Motors within bounds are part of one convex problem with the contacts, that of maximal dissipation
(`idcontrol.models.dissipation`): each gives all of its torque towards what is asked, up to a stop there,

    hτ_j = bound_j - σ_j t_j,     0 ≤ t_j  ⊥  σ_j (b_j - v_j) ≥ 0        σ_j = 1 at the upper bound, -1 at the lower

A stop is a contact without friction, so that one linear complementarity problem tells of all joints. A motor that it
holds with more than the room between the bounds has to give all of its torque the other way.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from idcontrol.kernels.arena import Arena, indices, mark, matrix, release, vector, zeros
from idcontrol.kernels.jit import njit
from idcontrol.kernels.linear import assign
from idcontrol.kernels.linked import late
from idcontrol.models.dissipation import STEEP, edge_lcp_kernel
from idcontrol.models.distribution import MET, Bounds
from idcontrol.models.whitened import Whitened, recover_kernel, whiten_kernel
from idcontrol.solvers.status import SOLVED
from idcontrol.types import Array

HOLDS: Final = 1 << 4
"""The row of a contact without friction among the active ones of `edge_lcp_kernel`."""


@late(lambda *arguments: arguments[-2])
@njit(cache=True, inner=True, error_model="numpy")
def behind(
    w: Whitened, target: Array, mu: Array, b: Array, bounds: Bounds, impulse: Array, known: Array, arena: Arena
) -> Array:
    """Write the bounds of the joints that cannot follow and NaN for the others, and return them.

    Friction beyond `STEEP` counts as that. Where the problem is not solved, `known` stays as it is.

    Args:
        w: A step in whitened form, for its inertia and rows.
        target: Velocities that the rows of contacts are measured against, shape (3 n,) [m/s].
        mu: Friction, shape (n,).
        b: Desired joint velocities, shape (a,).
        bounds: Of the motor impulses.
        impulse: Motor impulses with all joints tracked, shape (a,): the bound that is nearer is tried first.
        known: In and out, shape (a,) [N m s].
        arena: Where arrays come from.
    """
    before = mark(arena)
    m, a, n = w.M.shape[0], b.shape[0], mu.shape[0]
    u, stops, largest = m - a, 0, 0.0
    free, fixed, prescribed, side = indices(arena, m), indices(arena, a), vector(arena, a), vector(arena, a)
    for i in range(u):
        free[i] = i
    for j in range(a):
        largest = max(largest, abs(b[j]))
        side[j] = 1.0 if bounds.most[j] - impulse[j] < impulse[j] - bounds.least[j] else -1.0
        if np.isfinite(bounds.most[j] if side[j] > 0.0 else bounds.least[j]):
            free[u + stops] = u + j
            stops += 1
        else:
            fixed[j - stops], prescribed[j - stops] = u + j, b[j]
    free, fixed, prescribed = free[: u + stops], fixed[: a - stops], prescribed[: a - stops]

    rows = n + stops
    J, surface, friction = matrix(arena, 3 * rows, m), zeros(arena, 3 * rows), zeros(arena, rows)
    J[:, :] = 0.0
    for i in range(n):
        friction[i] = min(mu[i], STEEP)
        for axis in range(3):
            assign(J[axis * rows + i], w.rows[axis * n + i])
            surface[axis * rows + i] = target[axis * n + i]
    kappa, f, active = vector(arena, m), vector(arena, 3 * rows), indices(arena, rows)
    active[:n], active[n:] = 0, HOLDS
    begun = mark(arena)
    for _ in range(a + 1):
        release(arena, begun)
        assign(kappa, w.kappa)
        for s in range(stops):
            j = free[u + s] - u
            kappa[u + j] -= bounds.most[j] if side[j] > 0.0 else bounds.least[j]
            J[n + s, u + j], surface[n + s] = -side[j], -side[j] * b[j]
        driven = whiten_kernel(w.M, kappa, free, fixed, prescribed, J, arena)
        for r in range(3 * rows):
            driven.c[r] -= surface[r]
        ending, _, _ = edge_lcp_kernel(driven.rho, driven.c, driven.left, friction, active, f, arena)
        if ending != SOLVED:
            break
        turns = False
        for s in range(stops):
            j = free[u + s] - u
            if f[n + s] > (1.0 + MET) * (bounds.most[j] - bounds.least[j]):
                side[j], turns = -side[j], True
        if turns:
            continue
        v, _ = recover_kernel(driven, f, arena)
        known[:] = np.nan
        for s in range(stops):
            j = free[u + s] - u
            # one that its stop holds follows, whatever rounding leaves of that where nothing moves
            if f[n + s] == 0.0 and side[j] * (b[j] - v[u + j]) > MET * largest:
                known[j] = bounds.most[j] if side[j] > 0.0 else bounds.least[j]
        break
    release(arena, before)
    return known
