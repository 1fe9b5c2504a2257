r"""The motion that tasks demand within friction cones and motor limits: a strictly convex quadratic program.

    minimize    ½ Σ w_j (a_j - ã_j)² + ½ Σ w_i (A_i a - y_i)² + ½ ε |F / f|²
    subject to  J a = d,   A_i a = y_i (strict rows),   M_b a + c_b = J_bᵀ F
                F in the friction pyramids,   F_N ≥ `LOADED` m,   a within bounds,
                M_q a + c_q - J_qᵀ F = τ within bounds

f is the weight of the robot, m its mass; the index q selects the joints, as b selects the unactuated velocities. This
is the program of `idcontrol.tasks.demand`, which defines the other symbols, with the contact forces F as further
unknowns. Equations are eliminated first: with x = (a, F / f), all their solutions are ``x = x₀ + Bᵀz``.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from idcontrol.kernels.arena import HEAP, Arena, matrix, vector, zeros
from idcontrol.kernels.jit import njit
from idcontrol.kernels.lanes import dot
from idcontrol.kernels.linear import add, assign
from idcontrol.solvers.active_set_qp import QuadraticProgram, qp_kernel
from idcontrol.solvers.basis import all_solutions
from idcontrol.solvers.status import SOLVED
from idcontrol.tasks.demand import RANK_TOLERANCE
from idcontrol.types import Array

FORCE_WEIGHT: Final = 1e-6
"""Factor ε of the term ½ ε |F / f|² in the objective. It makes the forces unique."""

INSIDE: Final = 1e-6
"""Reserved fraction of friction and torque range. The control step computes forces for the same motion again, and
rounding must not push these forces out of bounds."""


LOADED: Final = 0.01
"""Smallest normal force of each contact per mass of the robot [N/kg], a thousandth of the weight. Without it, the
centre of pressure could lie exactly on the edge of the soles. The forces of such a motion would lie on two or three
corners, and an angle that changes by 1e-7 rad would exchange the corners and change torques by tens of N m.
"""


class Rows(NamedTuple):
    """Rows of tasks, from `idcontrol.tasks.rows.task_rows`, and the reference of the joints.

    Attributes:
        A: Rows of the tasks, shape (p, m).
        y: Constants of the rows, shape (p,) [m/s², rad/s², or N m for angular momentum].
        weight: Weights of the rows, shape (p,); inf makes a row strict.
        joints: Accelerations of the joints' reference, shape (a,) [rad/s²].
        joint_weight: Weights of the joints' reference, positive, shape (a,).
    """

    A: Array
    y: Array
    weight: Array
    joints: Array
    joint_weight: Array


class Dynamics(NamedTuple):
    """Dynamics and limits of a robot in contact.

    Attributes:
        M: Inertia, unactuated velocities first, shape (m, m).
        bias: c of ``M a + c = Pᵀτ + Jᵀf``, shape (m,).
        J: Rows of n contacts [N; S; T], shape (3 n, m).
        d: Required J a, shape (3 n,) [m/s²].
        mu: Friction, shape (n,); inf for no bound.
        least: Smallest torques, shape (a,) [N m].
        most: Largest torques, shape (a,) [N m].
        slowest: Smallest accelerations of the joints, shape (a,) [rad/s²].
        fastest: Largest accelerations of the joints, shape (a,) [rad/s²].
    """

    M: Array
    bias: Array
    J: Array
    d: Array
    mu: Array
    least: Array
    most: Array
    slowest: Array
    fastest: Array


@njit(cache=True, inner=True, error_model="numpy")
def _equations(dynamics: Dynamics, rows: Rows, unit: float, arena: Arena) -> tuple[Array, Array]:
    """Compute rows (e, m + 3 n) and constants (e,) of the program's equations in x = (a, F / unit)."""
    M, J = dynamics.M, dynamics.J
    (r, m), u = J.shape, M.shape[0] - rows.joints.shape[0]
    strict = 0
    for i in range(rows.weight.shape[0]):
        strict += int(rows.weight[i] == np.inf)
    E, e = matrix(arena, r + u + strict, m + r), vector(arena, r + u + strict)
    E[:] = 0.0
    for i in range(r):
        assign(E[i], J[i])
        e[i] = dynamics.d[i]
    for k in range(u):
        e[r + k] = -dynamics.bias[k] / unit
        for i in range(m):
            E[r + k, i] = M[k, i] / unit
        for i in range(r):
            E[r + k, m + i] = -J[i, k]
    at = r + u
    for i in range(rows.weight.shape[0]):
        if rows.weight[i] == np.inf:
            assign(E[at], rows.A[i])
            e[at] = rows.y[i]
            at += 1
    return E, e


@njit(cache=True, inner=True, error_model="numpy")
def _inequalities(dynamics: Dynamics, unit: float, arena: Arena) -> tuple[Array, Array]:
    """Compute rows C (i, m + 3 n) and constants (i,) of the program's inequalities C x ≥ constants."""
    M, J, mu = dynamics.M, dynamics.J, dynamics.mu
    (r, m), n, a = J.shape, mu.shape[0], dynamics.least.shape[0]
    u = m - a
    C, least = matrix(arena, 4 * n + 4 * a, m + r), vector(arena, 4 * n + 4 * a)
    C[:] = 0.0
    at, reserve = 0, LOADED * M[0, 0] / unit
    for i in range(n):
        if mu[i] == np.inf:
            C[at, m + i], least[at] = 1.0, reserve
            at += 1
            continue
        for s in (1.0, -1.0):
            for t in (1.0, -1.0):
                C[at, m + i], C[at, m + n + i], C[at, m + 2 * n + i] = (1.0 - INSIDE) * mu[i], s, t
                least[at] = C[at, m + i] * reserve
                at += 1
    for j in range(a):
        room = dynamics.most[j] - dynamics.least[j]
        inside = INSIDE * room if room < np.inf else 0.0
        for sign, torque, acceleration in (
            (1.0, dynamics.least[j] + inside, dynamics.slowest[j]),
            (-1.0, dynamics.most[j] - inside, dynamics.fastest[j]),
        ):
            if np.isfinite(torque):
                for i in range(m):
                    C[at, i] = sign * M[u + j, i] / unit
                for i in range(r):
                    C[at, m + i] = -sign * J[i, u + j]
                least[at] = sign * (torque - dynamics.bias[u + j]) / unit
                at += 1
            if np.isfinite(acceleration):
                C[at, u + j], least[at] = sign, sign * acceleration
                at += 1
    return C[:at], least[:at]


@njit(cache=True, inner=True, error_model="numpy")
def _add_square(H: Array, g: Array, row: Array, weight: float, constant: float) -> None:
    """Add ½ weight (row z - constant)² to ½ zᵀHz + gᵀz."""
    for i in range(row.shape[0]):
        factor = weight * row[i]
        if factor != 0.0:
            add(H[i], factor, row)
            g[i] -= factor * constant


@njit(cache=True, inner=True, error_model="numpy")
def bounded_demand(dynamics: Dynamics, rows: Rows, unit: float, arena: Arena = HEAP) -> tuple[bool, Array]:
    """Solve the program of this module: find the motion that tasks demand within all limits.

    Args:
        dynamics: The robot and its limits.
        rows: The tasks.
        unit: The robot's weight f [N].
        arena: Arena for all arrays.

    Returns:
        True if the program is solved, False if contacts and limits allow no motion or the solver fails; and x = (a,
            F / unit), the accelerations [m/s², rad/s²] and the forces relative to the weight, shape (m + 3 n,). If the
            program is not solved, x satisfies only the equations.
    """
    (r, m), a, p = dynamics.J.shape, rows.joints.shape[0], rows.y.shape[0]
    u, wide = m - a, m + r
    E, e = _equations(dynamics, rows, unit, arena)
    longest = 0.0
    for i in range(e.shape[0]):
        longest = max(longest, dot(E[i], E[i]))
    origin, ways = all_solutions(E, e, RANK_TOLERANCE * np.sqrt(longest), arena)
    free = ways.shape[0]
    H, g, row, column = matrix(arena, free, free), zeros(arena, free), vector(arena, free), vector(arena, wide)
    H[:] = 0.0
    for i in range(p + a + r):
        column[:] = 0.0
        if i < p:
            if rows.weight[i] == np.inf:
                continue
            assign(column, rows.A[i])
            weight, constant = rows.weight[i], rows.y[i]
        elif i < p + a:
            column[u + i - p] = 1.0
            weight, constant = rows.joint_weight[i - p], rows.joints[i - p]
        else:
            column[m + i - p - a] = 1.0
            weight, constant = FORCE_WEIGHT, 0.0
        for k in range(free):
            row[k] = dot(column, ways[k])
        _add_square(H, g, row, weight, constant - dot(column, origin))
    C, least = _inequalities(dynamics, unit, arena)
    A = matrix(arena, least.shape[0], free)
    for i in range(least.shape[0]):
        for k in range(free):
            A[i, k] = dot(C[i], ways[k])
        least[i] -= dot(C[i], origin)
    answer = qp_kernel(QuadraticProgram(H, g, A, least, matrix(arena, 0, free), vector(arena, 0)), arena)
    if answer.status != SOLVED:
        return False, origin
    for k in range(free):
        add(origin, answer.x[k], ways[k])
    return True, origin
