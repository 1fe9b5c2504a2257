r"""Desired joint velocities that contact allows (math.md 12.1).

Joints and footholds prescribed together over-determine a machine; exact consistency is an accident, and feedback
destroys it. So the desired velocity b is first projected onto the velocities that the planned contacts allow:

    v̄ = argmin ½ |P v - b|²_W   s.t.   J v = d,          b ← P v̄,          W = M_qq

The unactuated velocities cost nothing: they are eliminated with the left null space of J_b, and what remains are
constraints on the joints alone, solved in the metric W.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from idcontrol.models.reduction import cholesky, solve_lower, solve_lower_transposed
from idcontrol.solvers.basis import pivoted_basis
from idcontrol.types import Array

RANK_TOLERANCE = 1e-8
"""Directions shorter than this, relative to the longest, are dependent (math.md 12.1)."""


@njit(cache=True)
def projection_kernel(
    M: Array, J: Array, d: Array, b: Array, u: int, tolerance: float
) -> Array:  # pragma: no cover - compiled
    """`project`, compiled; u velocities are unactuated."""
    m, rows = M.shape[0], J.shape[0]
    a = m - u
    # orthonormal basis of the columns of J_b
    columns = np.empty((u, rows))
    longest = 0.0
    for i in range(u):
        for r in range(rows):
            columns[i, r] = J[r, i]
        longest = max(longest, np.dot(columns[i], columns[i]))
    U = np.empty((u, rows))
    nothing = np.zeros(u)
    rank = pivoted_basis(columns, nothing.copy(), tolerance * np.sqrt(longest), U, nothing)
    W = np.empty((a, a))
    for i in range(a):
        for j in range(a):
            W[i, j] = M[u + i, u + j]
    C = np.zeros((a, a))
    out = b.copy()
    if not cholesky(W, C):
        return out
    # (I - U Uᵀ) [J_q C⁻ᵀ, d - J_q b]: what the unactuated velocities cannot take up, in the metric W = C Cᵀ
    A = np.empty((rows, a))
    e = d.copy()
    longest = 0.0
    for r in range(rows):
        for j in range(a):
            A[r, j] = J[r, u + j]
            e[r] -= A[r, j] * b[j]
        solve_lower(C, A[r])
        longest = max(longest, np.dot(A[r], A[r]))
    p = np.empty(a)
    for k in range(rank):
        p[:] = 0.0
        s = 0.0
        for r in range(rows):
            s += U[k, r] * e[r]
            for j in range(a):
                p[j] += U[k, r] * A[r, j]
        for r in range(rows):
            e[r] -= U[k, r] * s
            for j in range(a):
                A[r, j] -= U[k, r] * p[j]
    E = np.empty((min(rows, a), a))
    s_carried = np.empty(min(rows, a))
    rank = pivoted_basis(A, e, tolerance * np.sqrt(longest), E, s_carried)
    x = np.zeros(a)
    for k in range(rank):
        x += s_carried[k] * E[k]
    solve_lower_transposed(C, x)
    return out + x


def project(M: Array, jacobian: Array, target: Array, b: Array) -> Array:
    """The joint velocities nearest to `b` for which the contacts can move as they should.

    Args:
        M: Joint-space inertia, unactuated velocities first, shape (m, m); its actuated block is the metric.
        jacobian: Rows of the contacts that are to move as `target`, shape (r, m).
        target: Their velocities, shape (r,) [m/s].
        b: Desired actuated velocities, shape (a,) [rad/s].

    Returns:
        Shape (a,) [rad/s]. Rows that depend on others within the rank tolerance are dropped, so a singular leg loses a
        constraint instead of asking for infinite speed.
    """
    if jacobian.shape[0] == 0:
        return b
    projected: Array = projection_kernel(M, jacobian, target, b, M.shape[0] - b.shape[0], RANK_TOLERANCE)
    return projected
