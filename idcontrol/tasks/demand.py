r"""The motion that whole-body tasks demand, subject to the standing contacts and the balance of momentum.

    minimize    ½ Σ w_j (a_j - ã_j)² + ½ Σ w_i (A_i a - y_i)²           joints' reference; weighted task rows
    subject to  J a = d,   A_i a = y_i                                 contacts in stance; strict task rows
                Nᵀ(M_b a + c_b) = 0,   J_b N = 0                       momenta that no contact force can change

a are the accelerations, ã_j the reference of joint j. J are the rows of the contacts, d their required accelerations;
J_b are the columns of J, and M_b the rows of M, of the unactuated velocities. The columns of N span the momenta of the
base that contacts cannot change: none on a sole, one on two point feet, six in flight. With the last line of the
program, the demanded base motion equals the base motion of the subsequent inverse dynamics.

Slacks ``s = √w (y - A a)`` turn the weighted rows into equations, so one reduction treats all rows. The unactuated
velocities have no cost, and the rows of contacts and balance determine them: they are eliminated from all other rows.
The solution is the shortest vector that satisfies the remaining independent equations.

Strict tasks that contradict contacts, the balance of momentum or each other are relaxed: contacts and balance hold, and
the sum of the squares of what strict tasks miss is as small as possible.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from idcontrol.kernels.arena import Arena, matrix, vector, zeros
from idcontrol.kernels.jit import njit
from idcontrol.kernels.lanes import dot
from idcontrol.kernels.linear import add, assign
from idcontrol.solvers.basis import all_solutions, column_basis, eliminate, reflect, shortest
from idcontrol.types import Array

RANK_TOLERANCE: Final = 1e-8
"""Relative length below which a direction counts as linearly dependent."""
ELIMINATION_TOLERANCE: Final = 1e-2 * RANK_TOLERANCE
"""Relative size below which an entry is no pivot. It is smaller than `RANK_TOLERANCE`, so that every direction that
`balance_rows` leaves to the contacts has a pivot."""
CONTRADICTION: Final = 1e-2
"""Largest miss of a strict row that does not count as a contradiction [m/s², rad/s²; N m for angular momentum].
Rounding causes much less. A task that holds a standing foot misses this much at 1 kHz if the foot creeps by
10 µm/s."""


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
    rank = reflect(G, r, RANK_TOLERANCE * np.sqrt(widest), arena) if r > 0 else 0
    rows, constants = matrix(arena, u - rank, m), zeros(arena, u - rank)
    rows[:] = 0.0
    for i in range(u - rank):
        for k in range(u):
            factor = G[r + k, rank + i] / M[0, 0]
            add(rows[i], factor, M[k])
            constants[i] -= factor * bias[k]
    return rows, constants


@njit(cache=True, inner=True, error_model="numpy")
def relax(
    rows: Array, slack: Array, constants: Array, first: int, x: Array, missed: Array, smallest: float, arena: Arena
) -> bool:
    """Relax strict tasks that contradict contacts or each other: reduce their constants to what is possible.

    Args:
        rows: Rows of contacts and momentum, then of tasks, without the unactuated velocities, shape (n, k).
        slack: Factor of each row's slack, shape (n,); 0 in strict rows.
        constants: Constants of the rows, shape (n,). If tasks are relaxed, `missed` is subtracted.
        first: Number of rows of contacts and momentum.
        x: Solution of the rows without the dependent ones, shape (k,).
        missed: As in `free_demand`, shape (n - first,).
        smallest: A row whose remainder is no longer than this counts as dependent.
        arena: Arena for all arrays.

    Returns:
        True if tasks are relaxed.
    """
    (n, k), strict, largest = rows.shape, 0, 0.0
    missed[:] = 0.0
    for i in range(first, n):
        strict += int(slack[i] == 0.0)
    for i in range(n if strict > 0 else 0):
        if slack[i] == 0.0:
            largest = max(largest, abs(constants[i] - dot(rows[i], x)))
    if not largest > CONTRADICTION:
        return False
    # rest becomes the part of the constants that no motion allowed by the contacts can change
    held, d = matrix(arena, first, k), vector(arena, first)
    for i in range(first):
        assign(held[i], rows[i])
        d[i] = constants[i]
    start, ways = all_solutions(held, d, smallest, arena)
    moved, rest, at = matrix(arena, strict, ways.shape[0]), vector(arena, strict), 0
    for i in range(first, n):
        if slack[i] == 0.0:
            rest[at] = constants[i] - dot(rows[i], start)
            for j in range(ways.shape[0]):
                moved[at, j] = dot(rows[i], ways[j])
            at += 1
    basis, _ = column_basis(moved, zeros(arena, ways.shape[0]), smallest, arena)
    for j in range(basis.shape[0]):
        add(rest, -dot(basis[j], rest), basis[j])
    largest, at = 0.0, 0
    for i in range(strict):
        largest = max(largest, abs(rest[i]))
    if not largest > CONTRADICTION:  # only contacts contradict each other
        return False
    for i in range(first, n):
        if slack[i] == 0.0:
            missed[i - first] = rest[at]
            constants[i] -= rest[at]
            at += 1
    return True


@njit(cache=True, inner=True, error_model="numpy")
def free_demand(
    strict: Array,
    d: Array,
    A: Array,
    y: Array,
    weight: Array,
    joints: Array,
    joint_weight: Array,
    missed: Array,
    arena: Arena,
) -> tuple[Array, bool]:
    """Solve the program of this module: find the motion that tasks demand, without limits of friction and motors.

    Args:
        strict: Rows of contacts and momentum, shape (r, m); their columns of unactuated velocities have full rank.
        d: Constants of these rows, shape (r,).
        A: Rows of the tasks, shape (p, m).
        y: Constants of the task rows, shape (p,).
        weight: Weights of the task rows, shape (p,); inf makes a row strict.
        joints: Accelerations ã of the joints' reference, shape (a,).
        joint_weight: Weights of the joints' reference, positive, shape (a,).
        missed: Overwritten with ``y - A a`` of strict tasks that are relaxed; zero in all other rows, shape (p,).
        arena: Arena for all arrays.

    Returns:
        Accelerations of the joints, shape (a,), and True if strict tasks are relaxed. Dependent rows are dropped.
    """
    (r, m), p, a = strict.shape, A.shape[0], joints.shape[0]
    u, rows = m - a, r + p
    # columns: unactuated velocities, joints divided by the root of their weight, constants
    G, slack, root = matrix(arena, rows, m + 1), zeros(arena, rows), vector(arena, a)
    widest, longest = 0.0, 0.0
    for j in range(a):
        root[j] = 1.0 / np.sqrt(joint_weight[j])
    for i in range(rows):
        row, scale, constant = strict[i] if i < r else A[i - r], 1.0, d[i] if i < r else y[i - r]
        if i >= r:
            # a slack longer than its row would make all other rows seem short
            size = np.sqrt(weight[i - r])
            scale = min(1.0, size)
            slack[i] = scale / size
        for k in range(u):
            G[i, k] = scale * row[k]
            widest = max(widest, abs(G[i, k]))
        for j in range(a):
            G[i, u + j] = scale * root[j] * row[u + j]
        G[i, m] = scale * (constant - dot(row[u:], joints))
        longest = max(longest, slack[i] * slack[i] + dot(G[i][u:m], G[i][u:m]))
    # slacks stay with their rows: the rows of contacts and balance determine the unactuated velocities without tasks
    rank = eliminate(G, u, r, ELIMINATION_TOLERANCE * widest)
    independent, e = matrix(arena, rows - rank, a), vector(arena, rows - rank)
    for i in range(rows - rank):
        assign(independent[i], G[rank + i][u:m])
        e[i] = G[rank + i, m]
    smallest = RANK_TOLERANCE * np.sqrt(longest)
    out: Array = shortest(independent, slack[rank:], e, smallest, arena)
    relaxes = relax(independent, slack[rank:], e, r - rank, out, missed, smallest, arena)
    if relaxes:
        out = shortest(independent, slack[rank:], e, smallest, arena)
    for j in range(a):
        out[j] = joints[j] + root[j] * out[j]
    return out, relaxes
