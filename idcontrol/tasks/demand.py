r"""The motion that whole-body tasks demand, subject to the standing contacts and the balance of momentum.

    minimize    ½ Σ w_j (a_j - ã_j)² + ½ Σ w_i (A_i a - y_i)²           joints' reference; weighted task rows
    subject to  J a = d,   A_i a = y_i                                 contacts in stance; strict task rows
                Nᵀ(M_b a + c_b) = 0,   J_b N = 0                       momenta that no contact force can change

J are the rows of the contacts; J_b are the columns of J, and M_b the rows of M, of the unactuated velocities. The
columns of N span the momenta of the base that contacts cannot change: none on a sole, one on two point feet, six in
flight. With these rows the demanded base motion equals the base motion of the subsequent inverse dynamics.

Slacks ``s = √w (y - A a)`` turn the weighted rows into equations, so one reduction treats all rows. The unactuated
velocities have no cost, and are eliminated by Householder reflections as in `idcontrol.controllers.projection`. The
solution is the shortest vector that satisfies the remaining independent equations.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from idcontrol.kernels.arena import Arena, matrix, vector, zeros
from idcontrol.kernels.jit import njit
from idcontrol.kernels.lanes import dot
from idcontrol.kernels.linear import add, assign
from idcontrol.solvers.basis import reflect, shortest
from idcontrol.types import Array

RANK_TOLERANCE: Final = 1e-8
"""Relative length below which a direction counts as linearly dependent."""


@njit(cache=True, inner=True, error_model="numpy")
def balance_rows(M: Array, bias: Array, J: Array, u: int, arena: Arena) -> tuple[Array, Array]:
    """Compute the rows Nᵀ M_b and the constants -Nᵀ c_b of the base's momentum that no contact changes.

    Args:
        M: Inertia, unactuated velocities first, shape (m, m).
        bias: c of ``M a + c = Pᵀτ + Jᵀf``, shape (m,).
        J: Rows of the contacts, shape (r, m).
        u: Number of unactuated velocities.
        arena: Arena for all arrays.

    Returns:
        Rows, shape (k, m), and constants, shape (k,), divided by the robot's mass; N has k columns.
    """
    r, m = J.shape
    # rows of G are the columns of J_bᵀ and of the identity: a reflection mixes the entries of a row
    G = matrix(arena, r + u, u)
    G[r:] = 0.0
    widest = 0.0
    for i in range(r):
        for k in range(u):
            G[i, k] = J[i, k]
        widest = max(widest, dot(G[i], G[i]))
    for k in range(u):
        G[r + k, k] = 1.0
    rank = reflect(G, r, 0, u, RANK_TOLERANCE * np.sqrt(widest), arena) if r > 0 else 0
    rows, constants = matrix(arena, u - rank, m), zeros(arena, u - rank)
    rows[:] = 0.0
    for i in range(u - rank):
        for k in range(u):
            factor = G[r + k, rank + i] / M[0, 0]
            add(rows[i], factor, M[k])
            constants[i] -= factor * bias[k]
    return rows, constants


@njit(cache=True, inner=True, error_model="numpy")
def free_demand(
    strict: Array, d: Array, A: Array, y: Array, weight: Array, joints: Array, joint_weight: Array, arena: Arena
) -> Array:
    """Solve the program of this module: find the motion that tasks demand, without limits of friction and motors.

    Args:
        strict: Rows of contacts and momentum, shape (r, m).
        d: Constants of these rows, shape (r,).
        A: Rows of the tasks, shape (p, m).
        y: Constants of the task rows, shape (p,).
        weight: Weights of the task rows, shape (p,); inf makes a row strict.
        joints: Accelerations ã of the joints' reference, shape (a,).
        joint_weight: Weights of the joints' reference, positive, shape (a,).
        arena: Arena for all arrays.

    Returns:
        Accelerations of the joints, shape (a,). Dependent rows are dropped.
    """
    (r, m), p, a = strict.shape, A.shape[0], joints.shape[0]
    u, rows = m - a, r + p
    # columns as rows: unactuated velocities, joints divided by the root of their weight, constants, slacks
    G, root = matrix(arena, m + 1 + p, rows), vector(arena, a)
    G[m:] = 0.0
    for j in range(a):
        root[j] = np.sqrt(joint_weight[j])
    for i in range(rows):
        row, scale = strict[i] if i < r else A[i - r], 1.0
        if i >= r:
            # a slack longer than its row would make all other rows seem short
            scale = min(1.0, np.sqrt(weight[i - r]))
            G[m + 1 + i - r, i] = scale / np.sqrt(weight[i - r])
        for k in range(u):
            G[k, i] = scale * row[k]
        for j in range(a):
            G[u + j, i] = scale * row[u + j] / root[j]
        G[m, i] = scale * (d[i] if i < r else y[i - r])
    widest, longest, squares = 0.0, 0.0, zeros(arena, rows)
    for k in range(u):
        widest = max(widest, dot(G[k], G[k]))
    for j in range(a):
        add(G[m], -joints[j] * root[j], G[u + j])
    for i in range(p):
        squares[r + i] = G[m + 1 + i, r + i] * G[m + 1 + i, r + i]
    for k in range(u, m):
        for i in range(rows):
            squares[i] += G[k, i] * G[k, i]
    for i in range(rows):
        longest = max(longest, squares[i])
    # unless the rows of contacts and balance are nearly dependent, they determine the unactuated velocities without
    # slacks
    rank = reflect(G[: m + 1], u, 0, r, RANK_TOLERANCE * np.sqrt(widest), arena)
    rank = reflect(G, u, rank, rows, RANK_TOLERANCE * np.sqrt(widest), arena)
    independent, e = matrix(arena, rows - rank, a + p), vector(arena, rows - rank)
    assign(e, G[m][rank:])
    for i in range(rows - rank):
        for k in range(a):
            independent[i, k] = G[u + k, rank + i]
        for k in range(p):
            independent[i, a + k] = G[m + 1 + k, rank + i]
    out: Array = shortest(independent, e, RANK_TOLERANCE * np.sqrt(longest), arena)[:a]
    for j in range(a):
        out[j] = joints[j] + out[j] / root[j]
    return out
