"""Quadratic programs that get their inequalities row by row, as the solution violates them.

The search continues from the active rows whenever rows are added (`active_set.resume_kernel`). Programs have few active
rows, so most rows are never whitened.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from idcontrol.kernels.arena import Arena, matrix, vector, zeros
from idcontrol.kernels.jit import njit
from idcontrol.kernels.lanes import dot
from idcontrol.kernels.linear import add, assign
from idcontrol.solvers.active_set import FEASIBLE, Rows, SmallestNorm, resume_kernel
from idcontrol.solvers.active_set_qp import QpAnswer, QuadraticProgram, WhiteRows, refined_answer
from idcontrol.solvers.factor import empty_factor
from idcontrol.solvers.status import INACCURATE, SOLVED
from idcontrol.types import Array

_NONE: Final = np.int64(0)
"""Zero rows, as a NumPy integer; with a literal zero, Numba would compile `resume_kernel` separately."""


class Cuts(NamedTuple):
    """A program without equalities, and its solution under the rows added by `cut`.

    Attributes:
        H: As in `QuadraticProgram`, shape (k, k).
        g: Shape (k,).
        L: Lower factor of H, shape (k, k); entries above the diagonal are not written.
        origin: L⁻¹g, shape (k,).
        white: The p added rows.
        nearest: Solution of the whitened program; its status is SOLVED if there is one.
    """

    H: Array
    g: Array
    L: Array
    origin: Array
    white: WhiteRows
    nearest: SmallestNorm


@njit(cache=True, inner=True, error_model="numpy")
def _whiten(L: Array, x: Array) -> None:
    """Overwrite x (k,) with L⁻¹x; sums run along the rows of L, many terms at once."""
    for i in range(x.size):
        x[i] = (x[i] - dot(L[i, :i], x[:i])) / L[i, i]


@njit(cache=True, inner=True, error_model="numpy")
def uncut(H: Array, g: Array, arena: Arena) -> Cuts:
    """Return the program min ½xᵀHx + gᵀx without rows; its status is INACCURATE if H is not positive definite."""
    k, status = g.size, SOLVED
    L, origin, empty = matrix(arena, k, k), vector(arena, k), vector(arena, 0)
    for i in range(k):
        for j in range(i):
            L[i, j] = (H[i, j] - dot(L[i, :j], L[j, :j])) / L[j, j]
        square = H[i, i] - dot(L[i, :i], L[i, :i])
        if not square > 0.0:
            status = INACCURATE
        L[i, i] = np.sqrt(square)
    assign(origin, g)
    _whiten(L, origin)
    white = WhiteRows(Rows(matrix(arena, k, 0), empty, empty), empty, 0.0)
    return Cuts(H, g, L, origin, white, SmallestNorm(status, 0, zeros(arena, k), empty, empty_factor(k, arena), 0))


@njit(cache=True, inner=True, error_model="numpy")
def cut(cuts: Cuts, A: Array, b: Array, arena: Arena) -> Cuts:
    """Add rows A x ≥ b, shapes (q, k) and (q,), to a program of status SOLVED, and continue from its active rows."""
    known, (k, p) = cuts.white, cuts.white.rows.columns.shape
    columns, row, q = matrix(arena, k, p + b.size), vector(arena, k), b.size
    offset, tolerance, lengths = vector(arena, p + q), vector(arena, p + q), vector(arena, p + q)
    for d in range(k):
        assign(columns[d], known.rows.columns[d])
    assign(offset, known.rows.offset)
    assign(tolerance, known.rows.tolerance)
    assign(lengths, known.lengths)
    steepest = 0.0
    for d in range(k):
        steepest = max(steepest, cuts.H[d, d])
    scale = np.sqrt(dot(cuts.g, cuts.g)) / steepest
    for i in range(q):
        square = dot(A[i], A[i])
        norm = np.sqrt(square) if square > 0.0 else 1.0
        scale = max(scale, b[i] / norm)
        tolerance[p + i] = FEASIBLE * norm
    for i in range(q):
        assign(row, A[i])
        _whiten(cuts.L, row)
        square = dot(row, row)
        length = np.sqrt(square) if square > 0.0 else 1.0
        for d in range(k):
            columns[d, p + i] = row[d] / length
        offset[p + i] = (-b[i] - dot(row, cuts.origin)) / length
        tolerance[p + i] *= scale / length
        lengths[p + i] = length
    white = WhiteRows(Rows(columns, offset, tolerance), lengths, scale)
    nearest = resume_kernel(white.rows, _NONE, _NONE, cuts.nearest, arena)
    return Cuts(cuts.H, cuts.g, cuts.L, cuts.origin, white, nearest)


@njit(cache=True, inner=True, error_model="numpy")
def minimizer(cuts: Cuts, x: Array) -> None:
    """Write the minimizer, shape (k,), under the rows added so far; the status of the program is SOLVED."""
    for d in range(x.size):
        x[d] = cuts.nearest.y[d] - cuts.origin[d]
    for i in range(x.size - 1, -1, -1):
        x[i] /= cuts.L[i, i]
        add(x[:i], -x[i], cuts.L[i, :i])


@njit(cache=True, inner=True, error_model="numpy")
def unscaled(cuts: Cuts, arena: Arena) -> Array:
    """Return the multipliers of the added rows, shape (p,); if the status is INFEASIBLE, the certificate."""
    multipliers = vector(arena, cuts.white.lengths.size)
    for i in range(multipliers.size):
        multipliers[i] = cuts.nearest.multipliers[i] / cuts.white.lengths[i]
    return multipliers


@njit(cache=True, inner=True, error_model="numpy")
def refined(cuts: Cuts, A: Array, b: Array, arena: Arena) -> QpAnswer:
    """Refine and check the solution of a program of status SOLVED with all added rows A x ≥ b."""
    k = cuts.g.size
    program = QuadraticProgram(cuts.H, cuts.g, A, b, matrix(arena, 0, k), vector(arena, 0))
    x, multipliers = vector(arena, k), unscaled(cuts, arena)
    return refined_answer(program, cuts.L, cuts.origin, cuts.white.lengths, cuts.nearest, x, multipliers, arena)
