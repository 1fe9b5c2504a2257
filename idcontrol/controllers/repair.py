r"""The motion without slip that is closest to the demand, within friction and motor limits (math.md, section 12.2).

    minimize   ½ |P v⁺ - b|²_W + small ½|hτ|² + small ½|f|²                       W = M_qq
    s.t.       M v⁺ + κ = Jᵀf + Pᵀ(hτ)
               N v⁺ + φ/h = 0, S v⁺ = 0, T v⁺ = 0,  f in the friction pyramid      contacts that are held
               N v⁺ + φ/h ≥ 0,  f = 0                                             contacts that may open
               least ≤ hτ ≤ most

P selects the joints; N, S and T are the normal and tangential rows of the contacts, with gaps φ; small are the weights
`MOTOR_WEIGHT` and `CONTACT_WEIGHT`.

The program differs from Zapolsky & Drumwright 2017, eqs. 46-51: it squares the norm of eq. 46, and adds pyramids and
motor limits. Their eq. 47 allows a contact to press while it opens; here, held contacts stay closed, and tracking is
relaxed instead. If no motion satisfies the constraints, the program has no answer, and contacts must slip.

The unknowns x are the impulses of held contacts and rigid bilateral rows, followed by hτ. The velocity is
v⁺ = A (x, 1).
"""

from __future__ import annotations

from typing import Final

import numpy as np

from idcontrol.kernels.arena import Arena, indices, matrix, vector, zeros
from idcontrol.kernels.jit import njit
from idcontrol.kernels.linear import cholesky
from idcontrol.kernels.linked import linked
from idcontrol.models.distribution import Bounds, Cones, into_cones
from idcontrol.models.whitened import Whitened
from idcontrol.solvers.active_set_qp import QuadraticProgram, qp_kernel
from idcontrol.types import Array, Booleans, Integers

MOTOR_WEIGHT: Final = 1e-8
"""Weight of the motor impulses, relative to their effect on tracking. It is too small to change the tracking."""

CONTACT_WEIGHT: Final = 1e-10
"""Weight of the contact impulses, relative to their effect on tracking. It makes duplicate contacts share a load
evenly."""

ACCURATE: Final = 1e-6
"""Largest residual of a usable answer [-]. If tracking is exact, the gradient consists of the terms of the small
weights. They are 1e-10 of the terms that cancel, so rounding prevents residuals below about 1e-8.
"""


@njit(cache=True, inner=True, forceinline=True, error_model="numpy")
def _subtract(row: Array, factor: float, other: Array) -> None:
    """Subtract `factor` times `other` from `row`, shapes (n,)."""
    for j in range(row.shape[0]):
        row[j] -= factor * other[j]


@njit(cache=True, inner=True, forceinline=True, error_model="numpy")
def _divide(row: Array, by: float) -> None:
    """Divide a row by a number."""
    for j in range(row.shape[0]):
        row[j] /= by


@njit(cache=True, inner=True, error_model="numpy")
def condition(w: Whitened, i: int, A: Array, row: Array) -> float:
    """Write row i of J A, without its last column, into `row` (k,); return the ``row · x`` at which row i is at rest.

    Args:
        w: The step in whitened form.
        i: Number of the row.
        A: Velocities per unit impulse, shape (m, k + 1); the last column has the velocities without impulses.
        row: Result.
    """
    k = row.shape[0]
    row[:] = 0.0
    still = -w.c[i]
    for d in range(A.shape[0]):
        along = w.rows[i, d]
        still += along * (w.v_free[d] - A[d, k])
        for j in range(k):
            row[j] += along * A[d, j]
    return still


@njit(cache=True, inner=True, error_model="numpy")
def roles(w: Whitened, held: Booleans, arena: Arena) -> tuple[Integers, Integers, Integers]:
    """Return the held contacts, the other contacts, and the rows of held contacts and all rigid bilateral rows."""
    n, s, parts = held.shape[0], 0, 0
    stand, apart = indices(arena, n), indices(arena, n)
    for i in range(n):
        if held[i]:
            stand[s] = i
            s += 1
        else:
            apart[parts] = i
            parts += 1
    rows = 3 * s + w.rows.shape[0] - 3 * n
    pushing = indices(arena, rows)
    for j in range(s):
        for axis in range(3):
            pushing[axis * s + j] = axis * n + stand[j]
    for j in range(3 * s, rows):
        pushing[j] = 3 * (n - s) + j
    return stand[:s], apart[:parts], pushing


@njit(cache=True, inner=True, error_model="numpy")
def motions(w: Whitened, pushing: Integers, A: Array, arena: Arena) -> bool:
    """Write A = M⁻¹ [J_heldᵀ, Pᵀ, -κ], shape (m, k + 1); return False if M is not positive definite."""
    m, rows, size = A.shape[0], pushing.shape[0], A.shape[1] - 1
    L = matrix(arena, m, m)
    if not cholesky(w.M, L):
        return False
    for i in range(m):
        for j in range(rows):
            A[i, j] = w.rows[pushing[j], i]
        for j in range(rows, size):
            A[i, j] = 1.0 if i == w.fixed[j - rows] else 0.0
        A[i, size] = -w.kappa[i]
        for o in range(i):
            _subtract(A[i], L[i, o], A[o])
        _divide(A[i], L[i, i])
    for i in range(m - 1, -1, -1):
        for o in range(i + 1, m):
            _subtract(A[i], L[o, i], A[o])
        _divide(A[i], L[i, i])
    return True


@njit(cache=True, inner=True, error_model="numpy")
def _objective(w: Whitened, stand: Integers, rows: int, weight: Array, A: Array, arena: Arena) -> tuple[Array, Array]:
    """Return H and g of ½ |P v⁺ - b|²_W + small ½|hτ|² + small ½|f|² = ½ xᵀH x + gᵀx.

    Args:
        w: The step in whitened form.
        stand: Held contacts, shape (s,).
        rows: Number of impulses of held contacts and rigid bilateral rows.
        weight: Extra weight of each contact's impulse, shape (n,).
        A: From `motions`.
        arena: Arena for all arrays.
    """
    size, p, s = A.shape[1] - 1, w.fixed.shape[0], stand.shape[0]
    H, g, carried = matrix(arena, size, size), zeros(arena, size), vector(arena, size + 1)
    H[:, :] = 0.0
    for a in range(p):
        carried[:] = 0.0
        for other in range(p):
            _subtract(carried, -w.M[w.fixed[a], w.fixed[other]], A[w.fixed[other]])
        miss = A[w.fixed[a], size] - w.v_free[w.fixed[a]]
        for i in range(size):
            g[i] += carried[i] * miss
            _subtract(H[i], -A[w.fixed[a], i], carried[:size])
    worth, torque_worth = 0.0, 0.0
    for i in range(size):
        if i < rows:
            worth += CONTACT_WEIGHT * H[i, i] / rows
        else:
            torque_worth += MOTOR_WEIGHT * H[i, i] / p
    for i in range(size):
        if i < 3 * s:
            H[i, i] += worth * (1.0 + weight[stand[i % s]])
        else:
            H[i, i] += worth if i < rows else torque_worth
    return H, g


@njit(cache=True, inner=True, error_model="numpy")
def write_limits(mu: Array, bounds: Bounds, stand: Integers, G: Array, least: Array) -> int:
    """Write rows G x ≥ least of the friction of contacts `stand` and of the motors' limits; return their number."""
    size, p, s = G.shape[1], bounds.least.shape[0], stand.shape[0]
    rows, count = size - p, 0
    G[: 5 * s + 2 * p] = 0.0
    least[: 5 * s + 2 * p] = 0.0
    for j in range(s):
        G[count, j] = 1.0
        count += 1
        if np.isfinite(mu[stand[j]]):
            for sign in (1.0, -1.0):
                for across in (1.0, -1.0):
                    G[count, j], G[count, s + j], G[count, 2 * s + j] = mu[stand[j]], sign, across
                    count += 1
    for a in range(p):
        for sign, bound in ((1.0, bounds.least[a]), (-1.0, bounds.most[a])):
            if np.isfinite(bound):
                G[count, rows + a], least[count] = sign, sign * bound
                count += 1
    return count


@njit(cache=True, inner=True, error_model="numpy")
def _limit_rows(
    w: Whitened, mu: Array, bounds: Bounds, stand: Integers, apart: Integers, A: Array, arena: Arena
) -> tuple[Array, Array]:
    """Return G and `least` of G x ≥ least: friction of contacts `stand`, motor limits, no penetration at `apart`."""
    most = 5 * stand.shape[0] + 2 * w.fixed.shape[0] + apart.shape[0]
    G, least = matrix(arena, most, A.shape[1] - 1), zeros(arena, most)
    count = write_limits(mu, bounds, stand, G, least)
    for i in apart:  # these contacts may close their gap, but not penetrate
        least[count] = condition(w, i, A, G[count])
        count += 1
    return G[:count], least[:count]


@linked
@njit(cache=True, inner=True, error_model="numpy")
def nearest_motion_kernel(
    w: Whitened, cones: Cones, held: Booleans, bounds: Bounds, f: Array, impulse: Array, arena: Arena
) -> float:
    """Solve the program of this module: find the motion without slip that is closest to the demand.

    Args:
        w: The step in whitened form, with contacts and rigid bilateral rows.
        cones: Friction, and extra weights of impulses.
        held: Contacts that neither slip nor open, shape (n,).
        bounds: Bounds of the motor impulses.
        f: Result, impulses of the contacts, shape (3 n,).
        impulse: Result, motor impulses, shape (p,).
        arena: Arena for all arrays.

    Returns:
        Residual of the program. If there is no answer, the residual is inf, and f and impulse are unchanged.
    """
    stand, apart, pushing = roles(w, held, arena)
    rows, p, mu = pushing.shape[0], w.fixed.shape[0], cones.mu
    A = matrix(arena, w.M.shape[0], rows + p + 1)
    if not motions(w, pushing, A, arena):
        return np.inf
    H, g = _objective(w, stand, rows, cones.weight, A, arena)
    G, least = _limit_rows(w, mu, bounds, stand, apart, A, arena)
    E, e = matrix(arena, rows, rows + p), vector(arena, rows)
    for r in range(rows):
        e[r] = condition(w, pushing[r], A, E[r])
    answer = qp_kernel(QuadraticProgram(H, g, G, least, E, e), arena)
    if not answer.residual <= ACCURATE:
        return np.inf
    f[:] = 0.0
    for j in range(3 * stand.shape[0]):
        f[pushing[j]] = answer.x[j]
    into_cones(mu, np.isinf(mu), f)
    for a in range(p):
        impulse[a] = min(max(answer.x[rows + a], bounds.least[a]), bounds.most[a])
    return answer.residual
