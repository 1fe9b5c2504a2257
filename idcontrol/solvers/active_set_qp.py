"""Strictly convex quadratic programs by the dual active set (Goldfarb & Idnani 1983).

With H = L Lᵀ and y = Lᵀx + L⁻¹g the program min ½xᵀHx + gᵀx s.t. A x ≥ b, E x = e becomes the smallest-norm point of a
polyhedron, which `idcontrol.solvers.active_set` finds. This module transforms the program and the solution, refines the
solution, and computes the residual that decides whether the status is SOLVED.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numba import types

from idcontrol.errors import InputError
from idcontrol.kernels.arena import HEAP, Arena, indices, mark, matrix, release, vector, zeros
from idcontrol.kernels.jit import njit
from idcontrol.kernels.linear import (
    assign,
    cholesky,
    solve_lower,
    solve_lower_transposed,
    solve_upper,
    solve_upper_transposed,
)
from idcontrol.kernels.linked import late, linked
from idcontrol.solvers.active_set import FEASIBLE, Rows, SmallestNorm, smallest_norm_kernel
from idcontrol.solvers.status import INACCURATE, INFEASIBLE, SOLVED, TOLERANCE, SolverStatus
from idcontrol.types import Array, Integers

EXACT = 1e-3 * TOLERANCE
"""Residual below which an answer is not refined."""


class QuadraticProgram(NamedTuple):
    """The program min ½xᵀHx + gᵀx s.t. A x ≥ b, E x = e, every array contiguous.

    Attributes:
        H: Symmetric positive definite, shape (k, k); only its lower triangle is factored.
        g: Shape (k,).
        A: Inequality rows, shape (p, k).
        b: Shape (p,).
        E: Equality rows, shape (m, k); rows that depend on earlier rows are skipped if they hold.
        e: Shape (m,).
    """

    H: Array
    g: Array
    A: Array
    b: Array
    E: Array
    e: Array


class QpAnswer(NamedTuple):
    """Outcome of `qp_kernel`; its arrays come from the caller's arena.

    Attributes:
        status: Number of a `SolverStatus`; INACCURATE also if H is not positive definite.
        iterations: Number of rows added to the active set.
        residual: `qp_residual`; inf if there is no answer.
        x: Minimizer, shape (k,).
        multipliers: Multipliers v of E, then u of A, shape (m + p,): Hx + g = Eᵀv + Aᵀu. If the status is INFEASIBLE,
            the certificate c: c ≥ 0 on A, Eᵀc_E + Aᵀc_A = 0, e·c_E + b·c_A > 0.
        active: The active rows, numbered as the multipliers.
    """

    status: int
    iterations: int
    residual: float
    x: Array
    multipliers: Array
    active: Integers


@njit(cache=True, inner=True, error_model="numpy")
def _distance(row: Array, side: float, x: Array) -> tuple[float, float]:
    """Return the signed distance of x above the plane row · x = side, and the length of the row, 1 for a zero row."""
    slack, square = -side, 0.0
    for i in range(x.size):
        slack += row[i] * x[i]
        square += row[i] * row[i]
    norm = np.sqrt(square) if square > 0.0 else 1.0
    return slack / norm, norm


@njit(cache=True, inner=True, error_model="numpy")
def qp_residual(program: QuadraticProgram, x: Array, u: Array, v: Array) -> float:
    """Compute the largest relative violation of the optimality conditions of a quadratic program.

    The violation of a row is its distance, divided by the larger of |x| and |g| / max H_ii. The violations of
    stationarity (Hx + g = Aᵀu + Eᵀv) and of the signs of u are divided by the largest term of the gradient. The
    complementarity u·(A x - b) is divided by the product of these two references.

    Args:
        program: The program.
        x: Point, shape (k,).
        u: Multipliers of A, shape (p,).
        v: Multipliers of E, shape (m,).

    Returns:
        Zero at the optimum; inf if any value is not finite.
    """
    H, g = program.H, program.g
    A, b, E, e = program.A, program.b, program.E, program.e
    k = x.size
    gradient, push, stationarity, steepest = 0.0, 0.0, 0.0, 0.0
    x_square, g_square = 0.0, 0.0
    for i in range(k):
        curvature, forces = 0.0, 0.0
        for j in range(k):
            curvature += H[i, j] * x[j]
        for j in range(b.size):
            forces += A[j, i] * u[j]
        for j in range(e.size):
            forces += E[j, i] * v[j]
        gradient = max(gradient, max(abs(curvature), abs(g[i])))
        push = max(push, abs(forces))
        wrong = curvature + g[i] - forces
        if not np.isfinite(wrong):
            return np.inf
        stationarity = max(stationarity, abs(wrong))
        steepest = max(steepest, H[i, i])
        x_square += x[i] * x[i]
        g_square += g[i] * g[i]
    gradient = max(gradient, push)
    length = max(np.sqrt(x_square), np.sqrt(g_square) / steepest)
    worst = stationarity / gradient if gradient > 0.0 else 0.0
    for j in range(e.size + b.size):
        equality = j < e.size
        distance, norm = _distance(E[j], e[j], x) if equality else _distance(A[j - e.size], b[j - e.size], x)
        if not np.isfinite(distance):
            return np.inf
        violation = abs(distance) if equality else max(-distance, 0.0)
        if violation > 0.0:
            worst = max(worst, violation / length if length > 0.0 else np.inf)
        if not equality:
            pressure = u[j - e.size] * norm
            if pressure < 0.0:
                worst = max(worst, -pressure / gradient)
            elif pressure > 0.0 and distance > 0.0:
                worst = max(worst, pressure * distance / (gradient * length))
    return worst


class WhiteRows(NamedTuple):
    """Rows a·x - b of a program over y = Lᵀx + L⁻¹g.

    Attributes:
        rows: The p rows of E, then of A, scaled to length one.
        lengths: |L⁻¹a|, 1 for a zero row, shape (p,).
        scale: Estimate of the length of x; tolerances are relative to it.
    """

    rows: Rows
    lengths: Array
    scale: float


@njit(cache=True, inner=True, error_model="numpy")
def _whiten_rows(program: QuadraticProgram, L: Array, origin: Array, arena: Arena) -> WhiteRows:
    """Whiten the rows of E, then of A; `origin` is L⁻¹g, shape (k,)."""
    A, b, E, e = program.A, program.b, program.E, program.e
    k, m, p = origin.size, e.size, e.size + b.size
    columns, offset, tolerance, lengths = matrix(arena, k, p), vector(arena, p), vector(arena, p), zeros(arena, p)
    steepest, g_square = 0.0, 0.0
    for d in range(k):
        steepest = max(steepest, program.H[d, d])
        g_square += program.g[d] * program.g[d]
    scale = np.sqrt(g_square) / steepest
    for i in range(p):
        row = E[i] if i < m else A[i - m]
        side = e[i] if i < m else b[i - m]
        square = 0.0
        for d in range(k):
            columns[d, i] = row[d]
            square += row[d] * row[d]
        norm = np.sqrt(square) if square > 0.0 else 1.0
        scale = max(scale, (abs(side) if i < m else side) / norm)
        offset[i], tolerance[i] = -side, FEASIBLE * norm
    # apply L⁻¹ to all rows in one pass
    for d in range(k):
        for i in range(p):
            columns[d, i] /= L[d, d]
            lengths[i] += columns[d, i] * columns[d, i]
            offset[i] -= columns[d, i] * origin[d]
        for c in range(d + 1, k):
            for i in range(p):
                columns[c, i] -= L[c, d] * columns[d, i]
    for i in range(p):
        lengths[i] = np.sqrt(lengths[i]) if lengths[i] > 0.0 else 1.0
        offset[i] /= lengths[i]
        tolerance[i] *= scale / lengths[i]
    for d in range(k):
        for i in range(p):
            columns[d, i] /= lengths[i]
    return WhiteRows(Rows(columns, offset, tolerance), lengths, scale)


@late(lambda *_: types.none)
@njit(cache=True, inner=True, error_model="numpy")
def _refine(
    program: QuadraticProgram,
    L: Array,
    lengths: Array,
    nearest: SmallestNorm,
    x: Array,
    multipliers: Array,
    arena: Arena,
) -> None:
    """Refine x and the multipliers on the active rows by one step of iterative refinement.

    With s = -(Hx + g - Σ multiplier · row) and t the residuals of the active rows, dx and du solve H dx - Σ du · row =
    s, row · dx = t. The factors of H and of the whitened active rows are reused; `lengths` are the lengths of the
    whitened rows.
    """
    H, g = program.H, program.g
    A, b, E, e = program.A, program.b, program.E, program.e
    k, m, count = x.size, e.size, nearest.n_active
    active, basis, upper = nearest.factor.active, nearest.factor.basis, nearest.factor.upper
    at = mark(arena)
    s, dy, t, along = vector(arena, k), vector(arena, k), vector(arena, k), vector(arena, k)
    for d in range(k):
        s[d] = -g[d]
        for i in range(k):
            s[d] -= H[d, i] * x[i]
    for c in range(count):
        i = active[c]
        row = E[i] if i < m else A[i - m]
        t[c] = e[i] if i < m else b[i - m]
        for d in range(k):
            s[d] += multipliers[i] * row[d]
            t[c] -= row[d] * x[d]
        t[c] /= lengths[i]
    solve_lower(L, s)
    solve_upper_transposed(upper, count, t)
    for d in range(k):
        dy[d] = s[d]
    for c in range(count):
        along[c] = 0.0
        for d in range(k):
            along[c] += basis[c, d] * dy[d]
        for d in range(k):
            dy[d] += (t[c] - along[c]) * basis[c, d]
        t[c] -= along[c]
    solve_lower_transposed(L, dy)
    solve_upper(upper, count, t)
    for d in range(k):
        x[d] += dy[d]
    for c in range(count):
        i = active[c]
        multipliers[i] += t[c] / lengths[i]
        if i >= m:
            multipliers[i] = max(multipliers[i], 0.0)
    release(arena, at)


@njit(cache=True, inner=True, error_model="numpy")
def refined_answer(
    program: QuadraticProgram,
    L: Array,
    origin: Array,
    lengths: Array,
    nearest: SmallestNorm,
    x: Array,
    multipliers: Array,
    arena: Arena,
) -> QpAnswer:
    """Return the minimizer for the point `nearest`, refined if needed; x and multipliers are written."""
    k, m = x.size, program.e.size
    for d in range(k):
        x[d] = nearest.y[d] - origin[d]
    solve_lower_transposed(L, x)
    residual = qp_residual(program, x, multipliers[m:], multipliers[:m])
    for _ in range(2):
        if residual <= EXACT:
            break
        _refine(program, L, lengths, nearest, x, multipliers, arena)
        residual = qp_residual(program, x, multipliers[m:], multipliers[:m])
    return QpAnswer(
        SOLVED if residual <= TOLERANCE else INACCURATE,
        nearest.iterations,
        residual,
        x,
        multipliers,
        nearest.factor.active[: nearest.n_active],
    )


@njit(cache=True, inner=True, error_model="numpy")
def _holds(A: Array, b: Array, x: Array) -> bool:
    """True if A x ≥ b; False for a NaN."""
    for i in range(b.size):
        reached = 0.0
        for d in range(x.size):
            reached += A[i, d] * x[d]
        if not reached >= b[i]:
            return False
    return True


@linked
@njit(cache=True, error_model="numpy")
def qp_kernel(program: QuadraticProgram, arena: Arena) -> QpAnswer:
    """Solve min ½xᵀHx + gᵀx s.t. A x ≥ b, E x = e by the dual active set.

    Args:
        program: The program.
        arena: Arena for all arrays, including the arrays of the answer.

    Returns:
        The answer, with a certificate if the status is INFEASIBLE.
    """
    H, g = program.H, program.g
    A, b, E, e = program.A, program.b, program.E, program.e
    k, m, p = g.size, e.size, b.size
    x, multipliers = zeros(arena, k), zeros(arena, m + p)
    L, origin = matrix(arena, k, k), vector(arena, k)
    assign(origin, g)
    if not cholesky(H, L):
        return QpAnswer(INACCURATE, 0, np.inf, x, multipliers, indices(arena, 0))

    solve_lower(L, origin)
    if m == 0:  # no row is active if the unconstrained minimum satisfies all rows, as in most steps of a standing robot
        for d in range(k):
            x[d] = -origin[d]
        solve_lower_transposed(L, x)
        if _holds(A, b, x):
            residual = qp_residual(QuadraticProgram(H, g, A[:0], b[:0], E, e), x, multipliers[:0], multipliers[:0])
            if residual <= EXACT:
                return QpAnswer(SOLVED, 0, residual, x, multipliers, indices(arena, 0))
        x[:] = 0.0
    white = _whiten_rows(program, L, origin, arena)
    if not np.isfinite(white.scale):
        return QpAnswer(INACCURATE, 0, np.inf, x, multipliers, indices(arena, 0))
    lengths = white.lengths
    nearest = smallest_norm_kernel(white.rows, m, arena)
    active = nearest.factor.active[: nearest.n_active]
    for i in range(m + p):
        multipliers[i] = nearest.multipliers[i] / lengths[i]
    if nearest.status != SOLVED:
        return QpAnswer(nearest.status, nearest.iterations, np.inf, x, multipliers, active)
    return refined_answer(program, L, origin, lengths, nearest, x, multipliers, arena)


@dataclass(frozen=True, slots=True, kw_only=True)
class QpResult:
    """Outcome of a quadratic program.

    Attributes:
        status: SOLVED, INFEASIBLE, ITERATIONS or INACCURATE (also if H is not positive definite).
        x: Minimizer, shape (k,); zeros if there is no minimizer.
        multipliers: Multipliers u ≥ 0 of the inequalities, shape (p,): Hx + g = Aᵀu + Eᵀv. Zeros if the status is
            INFEASIBLE.
        equality_multipliers: Multipliers v of the equalities, shape (m,). Zeros if the status is INFEASIBLE.
        active: Inequalities of the final active set.
        residual: Largest relative violation of the optimality conditions (`qp_residual`); inf if there is no answer.
        iterations: Number of rows added to the active set.
        certificate: If the status is INFEASIBLE, (c_A, c_E) with c_A ≥ 0, Aᵀc_A + Eᵀc_E = 0 and b·c_A + e·c_E > 0: a
            proof that no x satisfies the constraints.
    """

    status: SolverStatus
    x: Array
    multipliers: Array
    equality_multipliers: Array
    active: Integers
    residual: float
    iterations: int
    certificate: tuple[Array, Array] | None = None


def checked_qp(
    H: Array, g: Array, A: Array | None, b: Array | None, E: Array | None, e: Array | None
) -> QuadraticProgram:
    """Return the program as contiguous float64, with empty arrays for absent rows.

    Raise InputError if shapes do not fit.
    """
    H, g = np.ascontiguousarray(H, dtype=np.float64), np.ascontiguousarray(g, dtype=np.float64)
    k = g.size
    A = np.zeros((0, k)) if A is None else np.ascontiguousarray(A, dtype=np.float64)
    b = np.zeros(0) if b is None else np.ascontiguousarray(b, dtype=np.float64)
    E = np.zeros((0, k)) if E is None else np.ascontiguousarray(E, dtype=np.float64)
    e = np.zeros(0) if e is None else np.ascontiguousarray(e, dtype=np.float64)
    if g.shape != (k,) or H.shape != (k, k) or A.shape != (b.size, k) or E.shape != (e.size, k):
        raise InputError(
            f"qp: H {H.shape}, g {g.shape}, A {A.shape}, b {b.shape}, E {E.shape}, e {e.shape} do not fit: "
            "give (k, k), (k,), (p, k), (p,), (m, k), (m,)"
        )
    return QuadraticProgram(H, g, A, b, E, e)


def solve_qp(
    H: Array,
    g: Array,
    A: Array | None = None,
    b: Array | None = None,
    E: Array | None = None,
    e: Array | None = None,
) -> QpResult:
    """Solve min ½xᵀHx + gᵀx s.t. A x ≥ b, E x = e by the dual active set.

    Args:
        H: Symmetric positive definite, shape (k, k).
        g: Shape (k,).
        A: Inequality rows, shape (p, k).
        b: Shape (p,).
        E: Equality rows, shape (m, k); dependent rows are allowed if they agree.
        e: Shape (m,).

    Returns:
        The outcome with its checked residual; INFEASIBLE with a certificate if no x satisfies the constraints.

    Raises:
        InputError: The shapes do not fit.
    """
    program = checked_qp(H, g, A, b, E, e)
    m, p = program.e.size, program.b.size
    answer = qp_kernel(program, HEAP)
    v, u, active = answer.multipliers[:m], answer.multipliers[m:], answer.active
    infeasible = answer.status == INFEASIBLE
    return QpResult(
        status=SolverStatus(answer.status),
        x=answer.x,
        multipliers=np.zeros(p) if infeasible else u,
        equality_multipliers=np.zeros(m) if infeasible else v,
        active=active[active >= m] - m,
        residual=answer.residual,
        iterations=answer.iterations,
        certificate=(u, v) if infeasible else None,
    )
