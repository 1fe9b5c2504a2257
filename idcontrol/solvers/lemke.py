"""Lemke's method for the linear complementarity problem w = Qz + r, 0 ≤ z ⊥ w ≥ 0 (003 section 5, math.md 5.2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numba import njit

from idcontrol.errors import InputError
from idcontrol.solvers.lcp import lcp_residual
from idcontrol.solvers.linear import solve_in_place
from idcontrol.solvers.status import INACCURATE, ITERATIONS, RAY, SOLVED, TOLERANCE, SolverStatus
from idcontrol.types import Array, Integers

# In scaled units, where entries are about 1. Pivots of 1e-12 once led to a wrong basis (math.md 5.2).
_PIVOT: Final = 1e-9
# Rows whose variable would be this close to zero after a step are tied. Ties are the rule where feet stick, and there
# the constants come from projected demands (math.md 12.1), whose rounding parts exact ties by some 1e-12.
_TIE: Final = 1e-10
_COVERS: Final = 3
"""Covering vectors that are tried, the others only after a failure."""

TIKHONOV: Final = (1e-12, 1e-10, 1e-8)
"""Regularizations that `solve_regularized` tries, relative to the mean diagonal entry (math.md 13.5)."""


def lemke_work(n: int) -> tuple[Array, Integers]:
    """Scratch of `lemke_kernel` for n variables."""
    return np.empty((2 * n + 3, n + 2)), np.empty(5 * n + 2, dtype=np.int64)


@njit(cache=True, error_model="numpy")
def _lexicographic(tableau: Array, place: Integers, tied: Integers, count: int, column: int) -> int:
    """Of the tied rows, the one whose row of the inverse basis, over its pivot, is lexicographically smallest."""
    n = tableau.shape[0]
    for k in range(n):
        if count == 1:
            break
        at = place[k]
        smallest = np.inf
        for c in range(count):
            i = tied[c]
            entry = -tableau[i, at] if at >= 0 else (1.0 if i == -1 - at else 0.0)
            smallest = min(smallest, entry / -tableau[i, column])
        kept = 0
        for c in range(count):
            i = tied[c]
            entry = -tableau[i, at] if at >= 0 else (1.0 if i == -1 - at else 0.0)
            if entry / -tableau[i, column] <= smallest + _TIE * (1.0 + abs(smallest)):
                tied[kept] = i
                kept += 1
        count = kept
    return int(tied[0])


@njit(cache=True, error_model="numpy")
def _pivot(tableau: Array, row: int, column: int) -> None:
    """Exchange the basic variable of `row` with the nonbasic one of `column` in x_B = T x_N + p."""
    n, width = tableau.shape
    inverse = 1.0 / tableau[row, column]
    for j in range(width):
        tableau[row, j] *= -inverse
    tableau[row, column] = inverse
    for i in range(n):
        factor = tableau[i, column]
        if i == row or factor == 0.0:
            continue
        tableau[i, column] = 0.0
        for j in range(width):
            tableau[i, j] += factor * tableau[row, j]


@njit(cache=True, error_model="numpy")
def _ratio_test(T: Array, place: Integers, tied: Integers, column: int) -> int:
    """The row whose variable reaches zero first as the one of `column` grows; -1 if none does.

    The covering variable leaves whenever it can; other ties are broken lexicographically.
    """
    n, width = T.shape
    step = np.inf
    for i in range(n):
        if T[i, column] < -_PIVOT:
            step = min(step, max(T[i, width - 1], 0.0) / -T[i, column])
    if step == np.inf:
        return -1
    count = 0
    for i in range(n):
        if T[i, column] < -_PIVOT and T[i, width - 1] + T[i, column] * step <= _TIE * (1.0 + step):
            if place[2 * n] == -1 - i:
                return i
            tied[count] = i
            count += 1
    return int(_lexicographic(T, place, tied, count, column))


@njit(cache=True, error_model="numpy")
def _solve_basis(
    Q: Array, r: Array, scale: Array, tikhonov: float, place: Integers, members: Integers, A: Array, z: Array
) -> bool:
    """Solve Q'_BB z_B = -r_B for the final basis B, all else 0; False if Q'_BB is singular.

    Args:
        Q: Matrix as given, shape (n, n).
        r: Scaled constant, shape (n,).
        scale: Factors of Q', shape (n,).
        tikhonov: Added to the diagonal of Q'.
        place: Where each variable is; z_i is basic if place[n + i] < 0.
        members: Scratch, shape (n,).
        A: Scratch, shape (n, n + 1) or more.
        z: Result, shape (n,), clipped at zero.
    """
    n = scale.size
    size = 0
    for i in range(n):
        z[i] = 0.0
        if place[n + i] < 0:
            members[size] = i
            size += 1
    for a in range(size):
        i = members[a]
        for b in range(size):
            j = members[b]
            A[a, b] = scale[i] * Q[i, j] * scale[j]
        A[a, a] += tikhonov
        A[a, size] = -r[i]
    if not solve_in_place(A, size):
        return False
    for a in range(size):
        z[members[a]] = max(A[a, size], 0.0)
    return True


@njit(cache=True, error_model="numpy")
def _scaled_residual(Q: Array, r: Array, scale: Array, z: Array, w: Array) -> float:
    """Set the scaled w = Q'z + r and return the residual of the problem as given."""
    n = scale.size
    for i in range(n):
        total = 0.0
        for j in range(n):
            if z[j] != 0.0:
                total += Q[i, j] * (scale[j] * z[j])
        w[i] = scale[i] * total + r[i]
    return float(lcp_residual(z, w, r))


@njit(cache=True, error_model="numpy")
def _given_residual(
    Q: Array, r: Array, scale: Array, r_max: float, factors: Array, largest: float, z: Array, w: Array
) -> float:
    """Bring z from the scale `factors`, where constants are at most `largest`, to the given one; then as above."""
    for i in range(z.size):
        z[i] *= factors[i] * largest / (scale[i] * r_max)
    return float(_scaled_residual(Q, r, scale, z, w))


@njit(cache=True, error_model="numpy")
def _follow(
    Q: Array, r: Array, scale: Array, tikhonov: float, turn: int, max_pivots: int, T: Array, order: Integers
) -> tuple[int, int, int]:
    """Pivot from w = Q'z + d z0 + r until the covering variable z0 leaves (SOLVED), a ray, or the limit.

    Args:
        Q: Matrix as given, shape (n, n).
        r: Scaled constant, not ≥ 0, shape (n,).
        scale: Factors of Q', shape (n,).
        tikhonov: Added to the diagonal of Q'.
        turn: Which covering vector d: 0 for ones; 1, 2, ... for entries spread over [1, 2) by an irrational stride.
        max_pivots: Pivots allowed.
        T: Dictionary x_B = T x_N + p, the constants p in its last column, shape (n, n + 2).
        order: Variables of rows and columns of T and their places, as in `lemke_kernel`.

    Returns:
        Status number, pivots made, column of the variable that would enter next (the ray's).
    """
    n = r.size
    basic, nonbasic, place, tied = order[:n], order[n : 2 * n + 1], order[2 * n + 1 : 4 * n + 2], order[4 * n + 2 :]
    for i in range(n):
        for j in range(n):
            T[i, j] = scale[i] * Q[i, j] * scale[j]
        T[i, i] += tikhonov
        T[i, n] = 1.0 + (0.6180339887498949 * turn * (i + 1)) % 1.0
        T[i, n + 1] = r[i]
        basic[i], nonbasic[i] = i, n + i
        place[i], place[n + i] = -1 - i, i
    cover = 2 * n
    nonbasic[n], place[cover] = cover, n

    # the covering variable enters; of equal smallest ratios the last row is the lexicographically smallest
    row, column = 0, n
    for i in range(n):
        if r[i] * T[row, n] <= r[row] * T[i, n]:
            row = i
    pivots = 0
    while pivots < max_pivots:
        _pivot(T, row, column)
        pivots += 1
        leaving, entering = basic[row], nonbasic[column]
        basic[row], nonbasic[column] = entering, leaving
        place[entering], place[leaving] = -1 - row, column
        if leaving == cover:
            return SOLVED, pivots, column
        column = place[leaving + n if leaving < n else leaving - n]
        row = _ratio_test(T, place, tied, column)
        if row < 0:
            return RAY, pivots, column
    return ITERATIONS, pivots, column


@njit(cache=True, error_model="numpy")
def _is_ray(Q: Array, r: Array, scale: Array, u: Array) -> bool:
    """Whether the scaled u ≥ 0, largest entry 1, has Q'u ≥ 0, uᵀQ'u = 0 and r·u < 0, as every ray of a copositive Q.

    Where it has not, rounding has lost the path.
    """
    n = r.size
    power, push = 0.0, 0.0
    for i in range(n):
        v = 0.0
        for j in range(n):
            v += scale[i] * Q[i, j] * scale[j] * u[j]
        if v < -TOLERANCE:
            return False
        power += u[i] * v
        push += r[i] * u[i]
    return bool(abs(power) <= TOLERANCE and push < -TOLERANCE)


@njit(cache=True, error_model="numpy")
def _equilibrate(Q: Array, scale: Array) -> None:
    """Factors that make each diagonal entry 1; where it is 0, the largest entry that meets another variable."""
    n = scale.size
    for i in range(n):
        scale[i] = 1.0 / np.sqrt(Q[i, i]) if Q[i, i] > 0.0 else 0.0
    for i in range(n):
        if Q[i, i] > 0.0:
            continue
        largest = 0.0
        for j in range(n):
            if Q[j, j] > 0.0:
                largest = max(largest, scale[j] * max(abs(Q[i, j]), abs(Q[j, i])))
        scale[i] = 1.0 / largest if largest > 0.0 else 1.0


@njit(cache=True, error_model="numpy")
def lemke_kernel(
    Q: Array,
    r: Array,
    scale: Array,
    tikhonov: float,
    max_pivots: int,
    z: Array,
    w: Array,
    work: Array,
    order: Integers,
) -> tuple[int, int, float]:
    """Lemke's method with the lexicographic ratio test (math.md 5.2).

    The basis that pivoting ends with is solved afresh; only the residual of the problem as given decides whether the
    answer is called solved. The covering vector is 1; where rounding lost the path or closed it to a cycle (in 1 of 300
    contact problems, with many dependent rows or with masses that differ by thousands), two others are tried, with
    every variable balanced by itself.

    Args:
        Q: Matrix, shape (n, n).
        r: Constant, shape (n,).
        scale: Positive factors s, shape (n,): the method works on s_i Q_ij s_j and s_i r_i, whose entries should be
            about 1 (math.md 13.2).
        tikhonov: Added to the diagonal of the scaled matrix while pivoting; it stays in the answer only where the
            final basis is singular without it.
        max_pivots: Pivots allowed for each covering vector.
        z: Result, shape (n,): the solution; the z part of the ray, largest entry 1, when the status is RAY.
        w: Result, shape (n,): Qz + r.
        work: Scratch from `lemke_work`.
        order: Scratch from `lemke_work`.

    Returns:
        Status number, pivots made, relative residual (math.md 13.3) in scaled units; inf where there is no answer.
    """
    n = r.size
    # Variable i is w_i, n + i is z_i, 2n covers. `order` holds the variable of each row of T, that of each column, then
    # the place of each variable: its column, or -1 - row.
    T, A = work[:n], work[n : 2 * n]
    z_scaled, w_scaled, r_scaled = work[2 * n, :n], work[2 * n + 1, :n], work[2 * n + 2, :n]
    place, members = order[2 * n + 1 : 4 * n + 2], order[4 * n + 2 :]

    r_max, lowest, total = 0.0, 0.0, 0.0
    for i in range(n):
        z[i] = 0.0
        w[i] = r[i]
        r_scaled[i] = scale[i] * r[i]
        r_max = max(r_max, abs(r_scaled[i]))
        lowest = min(lowest, r_scaled[i])
        total += r_scaled[i]
    if not np.isfinite(total):
        return INACCURATE, 0, np.inf
    if lowest == 0.0:
        return SOLVED, 0, 0.0
    for i in range(n):
        r_scaled[i] /= r_max

    status, pivots, residual = ITERATIONS, 0, np.inf
    # the scale that is pivoted in, and the constants in it; z and w hold those of later turns until the end
    factors, constants, largest = scale, r_scaled, r_max
    for turn in range(_COVERS):
        if turn == 1:
            factors, constants, largest = w, z, 0.0
            _equilibrate(Q, factors)
            for i in range(n):
                largest = max(largest, abs(factors[i] * r[i]))
            for i in range(n):
                constants[i] = factors[i] * r[i] / largest
        status, more, column = _follow(Q, constants, factors, tikhonov, turn, max_pivots, T, order)
        pivots += more
        if status == ITERATIONS:
            continue  # ties that rounding breaks anew make a cycle; another covering vector has others
        if status == RAY:
            longest = 0.0
            for i in range(n):
                at = place[n + i]
                z_scaled[i] = max(T[-1 - at, column], 0.0) if at < 0 else (1.0 if at == column else 0.0)
                z_scaled[i] *= factors[i] / scale[i]
                longest = max(longest, z_scaled[i])
            for i in range(n):
                z_scaled[i] /= longest if longest > 0.0 else 1.0
            if _is_ray(Q, r_scaled, scale, z_scaled):
                break
        elif status == SOLVED:
            residual = np.inf
            if _solve_basis(Q, constants, factors, 0.0, place, members, A, z_scaled):
                residual = _given_residual(Q, r_scaled, scale, r_max, factors, largest, z_scaled, w_scaled)
            if not residual <= TOLERANCE:
                # a basis that is singular to rounding: with the regularization, or as pivoting left it, it may still do
                if not (tikhonov > 0.0 and _solve_basis(Q, constants, factors, tikhonov, place, members, A, z_scaled)):
                    for i in range(n):
                        at = place[n + i]
                        z_scaled[i] = max(T[-1 - at, n + 1], 0.0) if at < 0 else 0.0
                residual = _given_residual(Q, r_scaled, scale, r_max, factors, largest, z_scaled, w_scaled)
            if residual <= TOLERANCE:
                break
            status = INACCURATE

    if status in (RAY, ITERATIONS):
        longest = 0.0
        for i in range(n):
            z[i] = scale[i] * z_scaled[i] if status == RAY else 0.0
            w[i] = r[i]
            longest = max(longest, z[i])
        for i in range(n):
            z[i] /= longest if longest > 0.0 else 1.0
        return status, pivots, np.inf
    for i in range(n):
        z[i] = r_max * scale[i] * z_scaled[i]
        w[i] = r_max * w_scaled[i] / scale[i]
    return status, pivots, residual


@dataclass(frozen=True, slots=True, kw_only=True)
class LemkeResult:
    """Outcome of Lemke's method.

    Attributes:
        status: SOLVED, RAY, ITERATIONS or INACCURATE.
        z: Unknowns, shape (n,); zeros unless the status is SOLVED or INACCURATE.
        w: Qz + r, shape (n,).
        residual: Relative residual of the problem as given (math.md 13.3); inf where there is no answer.
        iterations: Pivots.
        ray: Where the status is RAY: z ≥ 0 with largest entry 1, shape (n,). For a positive semidefinite Q it proves
            that there is no solution (see `proves_infeasible`); for a copositive one there may be one nevertheless.
        regularization: What was added to the diagonal of the (scaled) matrix, relative to its mean; 0 for nothing.
    """

    status: SolverStatus
    z: Array
    w: Array
    residual: float
    iterations: int
    ray: Array | None = None
    regularization: float = 0.0


def proves_infeasible(Q: Array, r: Array, ray: Array, tolerance: float = 1e-8) -> bool:
    """Whether u = ray shows that no z ≥ 0 has Qz + r ≥ 0: u ≥ 0, Qᵀu ≤ 0, rᵀu < 0 (then uᵀ(Qz + r) < 0 for all z ≥ 0).

    Args:
        Q: Matrix, shape (n, n).
        r: Constant, shape (n,).
        ray: Candidate u, shape (n,).
        tolerance: What Qᵀu may be above 0 and rᵀu must be below, relative to max|Q| Σu and max|r| Σu.

    Returns:
        True if it is a proof, to the tolerance.
    """
    size = float(np.abs(ray).sum())
    if not size > 0.0 or float(ray.min()) < 0.0:
        return False
    above, below = float((Q.T @ ray).max()), float(r @ ray)
    return above <= tolerance * float(np.abs(Q).max()) * size and below < -tolerance * float(np.abs(r).max()) * size


def uniform_scale(Q: Array) -> Array:
    """One factor for all variables that makes the largest entry of the scaled matrix 1, shape (n,)."""
    largest = float(np.abs(Q).max(initial=0.0))
    return np.full(Q.shape[0], 1.0 / np.sqrt(largest) if 0.0 < largest < np.inf else 1.0)


def _checked(Q: Array, r: Array, scale: Array | None) -> tuple[Array, Array, Array]:
    """The problem as contiguous float64; raises InputError where the shapes do not fit."""
    Q = np.ascontiguousarray(Q, dtype=np.float64)
    r = np.ascontiguousarray(r, dtype=np.float64)
    scale = uniform_scale(Q) if scale is None else np.ascontiguousarray(scale, dtype=np.float64)
    n = r.size
    if r.shape != (n,) or Q.shape != (n, n) or scale.shape != (n,):
        raise InputError(f"lemke: Q {Q.shape}, r {r.shape}, scale {scale.shape} do not fit: give (n, n), (n,), (n,)")
    if not bool(np.all(scale > 0.0)):
        raise InputError("lemke: scale has an entry that is not positive: give positive factors or None")
    return Q, r, scale


def _run(Q: Array, r: Array, scale: Array, relative: float, max_pivots: int | None) -> LemkeResult:
    n = r.size
    z, w = np.empty(n), np.empty(n)
    work, order = lemke_work(n)
    tikhonov = relative * float(np.mean(scale**2 * np.diag(Q))) if relative > 0.0 else 0.0
    limit = 50 * n + 100 if max_pivots is None else max_pivots
    status, pivots, residual = lemke_kernel(Q, r, scale, tikhonov, limit, z, w, work, order)
    ray = None
    if status == RAY:
        ray, z = z, np.zeros(n)
    return LemkeResult(
        status=SolverStatus(status),
        z=z,
        w=w,
        residual=residual,
        iterations=pivots,
        ray=ray,
        regularization=relative,
    )


def solve_lemke(Q: Array, r: Array, scale: Array | None = None, *, max_pivots: int | None = None) -> LemkeResult:
    """Solve w = Qz + r, 0 ≤ z ⊥ w ≥ 0 by Lemke's method (math.md 5.2).

    Args:
        Q: Matrix, shape (n, n); copositive for the method to be sure of an answer.
        r: Constant, shape (n,).
        scale: Positive factors, shape (n,), math.md 13.2; one factor for all variables where it is not given.
        max_pivots: Pivots allowed, 50 n + 100 where it is not given.

    Returns:
        The outcome, its residual checked.

    Raises:
        InputError: The shapes do not fit, or a factor is not positive.
    """
    Q, r, scale = _checked(Q, r, scale)
    return _run(Q, r, scale, 0.0, max_pivots)


def solve_regularized(Q: Array, r: Array, scale: Array | None = None, *, max_pivots: int | None = None) -> LemkeResult:
    """As `solve_lemke`; after a failure again with 1e-12, 1e-10, 1e-8 of the mean diagonal added to it (math.md 13.5).

    The residual is always that of the problem as given, so an answer that was bought with regularization is called
    solved only if it solves the problem without it. Where none does, the outcome of the exact attempt is returned:
    a ray stays a ray.
    """
    Q, r, scale = _checked(Q, r, scale)
    exact = _run(Q, r, scale, 0.0, max_pivots)
    if exact.status is SolverStatus.SOLVED:
        return exact
    for relative in TIKHONOV:
        result = _run(Q, r, scale, relative, max_pivots)
        if result.status is SolverStatus.SOLVED:
            return result
    return exact
