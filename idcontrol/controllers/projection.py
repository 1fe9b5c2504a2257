r"""Desired joint velocities that contact allows (math.md, section 12.1).

Prescribed joints and footholds over-determine a robot, and feedback makes them inconsistent. So the desired joint
velocity b is first projected onto the velocities that are consistent with the planned contacts:

    v̄ = argmin ½ |P v - b|²_W   s.t.   J v = d,          b ← P v̄,          W = M_qq

P selects the joints; d are the target velocities of the contacts; J_b are the columns of J for the unactuated
velocities. The objective does not contain the unactuated velocities. The left null space of J_b eliminates them and
leaves constraints on the joints alone.
"""

from __future__ import annotations

import numpy as np

from idcontrol.kernels.arena import HEAP, Arena, indices, matrix, vector, zeros
from idcontrol.kernels.jit import njit
from idcontrol.kernels.lanes import dot
from idcontrol.kernels.linear import add, assign
from idcontrol.solvers.basis import column_basis, reflect
from idcontrol.types import Array, Integers

DEMAND_RANK_TOLERANCE = 1e-8
"""Relative length below which a direction counts as linearly dependent (math.md, section 12.1)."""


@njit(cache=True, inner=True, error_model="numpy")
def _metric(M: Array, u: int, C: Array, begin: Integers) -> bool:
    """Factor M_qq = C Cᵀ; write C and each row's first nonzero column; return False if M_qq is not positive definite.

    Legs that meet only in the base form separate blocks of M_qq and C, so the entries of a row before column `begin`
    are zero, and are not written. The diagonal of C is stored as its reciprocal.
    """
    a = C.shape[0]
    for i in range(a):
        begin[i] = i
        for j in range(i):
            if M[u + i, u + j] != 0.0:
                begin[i] = j
                break
        for j in range(begin[i], i + 1):
            s = M[u + i, u + j]
            for k in range(max(begin[i], begin[j]), j):
                s -= C[i, k] * C[j, k]
            if j < i:
                C[i, j] = s * C[j, j]
            elif s > 0.0:
                C[i, i] = 1.0 / np.sqrt(s)
            else:
                return False
    return True


@njit(cache=True, error_model="numpy")
def projection_kernel(M: Array, J: Array, d: Array, b: Array, arena: Arena) -> Array:
    """Run `project` inside a control step; the result is an array of the arena."""
    m, rows, a = M.shape[0], J.shape[0], b.shape[0]
    u, tolerance = m - a, DEMAND_RANK_TOLERANCE
    out: Array = vector(arena, a)
    assign(out, b)
    C, begin = matrix(arena, a, a), indices(arena, a)
    if not _metric(M, u, C, begin):
        return out
    # [J_b, J_q C⁻ᵀ, d - J_q b], transposed: in this layout the contact rows, now columns, do not wait for each other
    G, squares = matrix(arena, m + 1, rows), zeros(arena, rows)
    for r in range(rows):
        for i in range(m):
            G[i, r] = J[r, i]
        G[m, r] = d[r]
    widest, longest = 0.0, 0.0
    for i in range(u):
        widest = max(widest, dot(G[i], G[i]))
    for i in range(a):
        add(G[m], -b[i], G[u + i])
        for k in range(begin[i], i):
            add(G[u + i], -C[i, k], G[u + k])
        for r in range(rows):
            G[u + i, r] *= C[i, i]
            squares[r] += G[u + i, r] * G[u + i, r]
    for r in range(rows):
        longest = max(longest, squares[r])
    # rows beyond the rank of J_b span its left null space: contact velocities that only joints can provide
    rank = reflect(G, u, tolerance * np.sqrt(widest), arena)
    free_rows = rows - rank
    e = vector(arena, free_rows)
    assign(e, G[m][rank:])
    A = matrix(arena, a, free_rows)
    for i in range(a):
        assign(A[i], G[u + i][rank:])
    E, carried = column_basis(A, e, tolerance * np.sqrt(longest), arena)
    x = zeros(arena, a)
    for k in range(carried.size):
        for i in range(a):
            x[i] += carried[k] * E[k, i]
    for i in range(a - 1, -1, -1):
        x[i] *= C[i, i]
        for k in range(begin[i], i):
            x[k] -= C[i, k] * x[i]
        out[i] += x[i]
    return out


def project(M: Array, jacobian: Array, target: Array, b: Array) -> Array:
    """Return the joint velocities closest to `b` that let the contacts have their target velocities.

    Args:
        M: Joint-space inertia, unactuated velocities first, shape (m, m); its actuated block is the metric.
        jacobian: Contact Jacobian, shape (r, m).
        target: Target velocities of the contacts, shape (r,) [m/s].
        b: Desired actuated velocities, shape (a,) [rad/s].

    Returns:
        Joint velocities, shape (a,) [rad/s]. Rows that depend on other rows within the rank tolerance are dropped: the
        constraint of a singular leg disappears instead of demanding infinite speed. If the actuated block of `M` is not
        positive definite, `b` is returned.
    """
    if jacobian.shape[0] == 0:
        return b
    projected: Array = projection_kernel(M, jacobian, target, b, HEAP)
    return projected
