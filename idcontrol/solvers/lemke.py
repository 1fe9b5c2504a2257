"""Lemke's method for the linear complementarity problem w = Qz + r, 0 ≤ z ⊥ w ≥ 0 (math.md, section 5.2)."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from idcontrol.errors import InputError
from idcontrol.kernels.arena import HEAP, Arena, indices, mark, matrix, release, vector, zeros
from idcontrol.kernels.jit import njit
from idcontrol.kernels.linear import solve_in_place
from idcontrol.kernels.linked import linked
from idcontrol.solvers.lcp import LcpAnswer, LcpResult, missed, rounding
from idcontrol.solvers.status import INACCURATE, ITERATIONS, RAY, SOLVED, TOLERANCE, SolverStatus
from idcontrol.types import Array, Integers

# Smallest pivot, in scaled units, in which entries are about 1. Smaller pivots may lead to a wrong basis (math.md,
# section 5.2).
_PIVOT: Final = 1e-9
# Largest difference between the variables of tied rows after a step. Ties are common when feet stick: the constants
# then come from projected demands (math.md, section 12.1), whose rounding separates exact ties by about 1e-12.
_TIE: Final = 1e-10
_COVERS: Final = 3
"""Maximum number of covering vectors to try."""

TIKHONOV: Final = (1e-12, 1e-10, 1e-8)
"""Regularizations that `solve_regularized` tries, relative to the mean diagonal entry (math.md, section 13.5)."""


class _Scaled(NamedTuple):
    """The problem scaled by factors s: matrix Q' = s_i Q_ij s_j, constant s_i r_i divided by `largest`.

    Attributes:
        Q: Unscaled matrix, shape (n, n).
        scale: Factors s, shape (n,).
        r: Scaled constant, shape (n,).
        largest: Size of the most negative s_i r_i; 0 if there is none.
    """

    Q: Array
    scale: Array
    r: Array
    largest: float


class _Dictionary(NamedTuple):
    """Basic variables as functions of nonbasic variables, x_B = T x_N + p.

    Variable i is w_i, n + i is z_i, and 2n is the covering variable.

    Attributes:
        T: Matrix T with the constants p in its last column, shape (n, n + 2).
        basic: Variable of each row, shape (n,).
        nonbasic: Variable of each column, shape (n + 1,).
        place: Place of each variable: its column, or -1 - row, shape (2n + 1,).
        tied: Rows that are tied in a ratio test, shape (n,).
    """

    T: Array
    basic: Integers
    nonbasic: Integers
    place: Integers
    tied: Integers


@njit(cache=True, inner=True, error_model="numpy")
def _lexicographic(dictionary: _Dictionary, count: int, column: int) -> int:
    """Return the tied row whose row of the inverse basis, divided by its pivot, is lexicographically smallest."""
    tableau, _, _, place, tied = dictionary
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


@njit(cache=True, inner=True, error_model="numpy")
def _pivot(tableau: Array, row: int, column: int) -> None:
    """Exchange the basic variable of `row` with the nonbasic variable of `column` in x_B = T x_N + p."""
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


@njit(cache=True, inner=True, error_model="numpy")
def _ratio_test(dictionary: _Dictionary, column: int) -> int:
    """Return the row whose variable reaches zero first while the variable of `column` grows; -1 if none reaches zero.

    The covering variable leaves whenever it can; other ties are broken lexicographically.
    """
    T, _, _, place, tied = dictionary
    n, width = T.shape
    step, first = np.inf, -1
    for i in range(n):
        own = max(T[i, width - 1], 0.0) / -T[i, column] if T[i, column] < -_PIVOT else np.inf
        if own < step:
            step, first = own, i
    if first == -1 or not np.isfinite(T[first, column]):
        return -1
    count = 0
    for i in range(n):
        if T[i, column] < -_PIVOT and T[i, width - 1] + T[i, column] * step <= _TIE * (1.0 + step):
            if place[2 * n] == -1 - i:
                return i
            tied[count] = i
            count += 1
    # rounding of large numbers may exceed the tolerance
    return int(_lexicographic(dictionary, count, column)) if count > 0 else first


@njit(cache=True, inner=True, error_model="numpy")
def _solve_basis(problem: _Scaled, tikhonov: float, place: Integers, z: Array, arena: Arena) -> bool:
    """Solve (Q' + `tikhonov` I)_BB z_B = -r_B for the final basis B; return False if the matrix is singular.

    Args:
        problem: The problem in the scale of the pivoting.
        tikhonov: Amount added to the diagonal of Q'.
        place: Place of each variable; z_i is basic if place[n + i] < 0.
        z: Result, shape (n,), clipped at zero; zero outside B.
        arena: Arena for scratch, released on return.
    """
    Q, scale, r, _ = problem
    n = scale.size
    at = mark(arena)
    members, A = indices(arena, n), matrix(arena, n, n + 1)
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
    solved = solve_in_place(A, size)
    if solved:
        for a in range(size):
            z[members[a]] = max(A[a, size], 0.0)
    release(arena, at)
    return bool(solved)


@njit(cache=True, inner=True, error_model="numpy")
def _scaled_residual(problem: _Scaled, z: Array, w: Array, arena: Arena) -> float:
    """Write w = Q'z + r of the scaled problem, and return the residual of z, scaled per row."""
    Q, scale, r, _ = problem
    n, at = scale.size, mark(arena)
    unit = vector(arena, n)
    for i in range(n):
        total = 0.0
        for j in range(n):
            if z[j] != 0.0:
                total += Q[i, j] * (scale[j] * z[j])
        total *= scale[i]
        w[i] = total + r[i]
        unit[i] = abs(total) + abs(r[i])
    worst = _worst(problem, z, w, unit)
    if worst > TOLERANCE:  # compute the rounding bound only if the verdict depends on it
        largest = 0.0  # the basis is solved up to rounding of its largest unknown, in balanced units
        for i in range(n):
            largest = max(largest, scale[i] * np.sqrt(max(Q[i, i], 0.0)) * z[i])
        for i in range(n):
            size = abs(r[i]) + scale[i] * np.sqrt(max(Q[i, i], 0.0)) * largest
            for j in range(n):
                size += abs(scale[i] * Q[i, j] * (scale[j] * z[j]))
            unit[i] += min(rounding(2 * n, size) / TOLERANCE, 1.0)  # the cap is relative to the fastest approach
        worst = _worst(problem, z, w, unit)
    release(arena, at)
    return worst


@njit(cache=True, inner=True, error_model="numpy")
def _worst(problem: _Scaled, z: Array, w: Array, unit: Array) -> float:
    """Return the largest `missed` of all rows, for the units `unit`."""
    Q, scale, r, _ = problem
    n, worst = scale.size, 0.0
    for i in range(n):
        own, mobility = unit[i], scale[i] * Q[i, i] * scale[i]
        # the unknown is a slip speed, whose diagonal entry is zero: its units follow from the rows coupled to it
        if not mobility > 0.0 and not (z[i] == 0.0 and w[i] >= 0.0):
            own, natural, does = abs(r[i]), np.inf, 0.0
            for j in range(n):
                entry = abs(scale[i] * Q[i, j] * scale[j])
                if entry > 0.0:
                    own += entry * z[j]
                    diagonal = scale[j] * Q[j, j] * scale[j]
                    natural = min(natural, unit[j] / diagonal if diagonal > 0.0 else np.inf)
                if Q[j, i] != 0.0:
                    does = max(does, unit[j] / abs(scale[j] * Q[j, i] * scale[i]))
            own += natural if natural < np.inf else 0.0
            mobility = own / does if does > 0.0 else 0.0
        worst = max(worst, missed(z[i], w[i], own, mobility))
    return float(worst)


@njit(cache=True, inner=True, error_model="numpy")
def _original_residual(original: _Scaled, pivoted: _Scaled, z: Array, w: Array, arena: Arena) -> float:
    """Convert z from the units of `pivoted` to the units of `original`, and return its residual there."""
    for i in range(z.size):
        z[i] *= pivoted.scale[i] * pivoted.largest / (original.scale[i] * original.largest)
    return float(_scaled_residual(original, z, w, arena))


@njit(cache=True, inner=True, error_model="numpy")
def _follow(
    problem: _Scaled, tikhonov: float, turn: int, max_pivots: int, dictionary: _Dictionary
) -> tuple[int, int, int]:
    """Pivot from w = (Q' + `tikhonov` I) z + d z0 + r until z0 leaves (SOLVED), to a ray, or to the limit of pivots.

    Args:
        problem: The problem in the scale of the pivoting; some r is negative.
        tikhonov: Amount added to the diagonal of Q'.
        turn: Number of the covering vector d; z0 is the covering variable. Vector 0 is all ones; entries of vectors
            1, 2, ... are spread over [1, 2) by an irrational stride.
        max_pivots: Limit of pivots.
        dictionary: Result, the final dictionary.

    Returns:
        Status number, number of pivots, column of the variable that would enter next (it spans the ray).
    """
    Q, scale, r, _ = problem
    T, basic, nonbasic, place, _ = dictionary
    n = r.size
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

    # the covering variable enters; among rows with the smallest ratio the last is lexicographically smallest
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
        row = _ratio_test(dictionary, column)
        if row < 0:
            return RAY, pivots, column
    return ITERATIONS, pivots, column


@njit(cache=True, inner=True, error_model="numpy")
def _is_ray(problem: _Scaled, u: Array) -> bool:
    """True if the scaled u has the properties that every ray of a copositive Q has.

    u ≥ 0 has the largest entry 1, and Q'u ≥ 0, uᵀQ'u = 0 and r·u < 0. If False, pivoting lost the path to rounding.
    """
    Q, scale, r, _ = problem
    n = r.size
    power, most, push, pushed = 0.0, 0.0, 0.0, 0.0
    for i in range(n):
        v, size = 0.0, 0.0
        for j in range(n):
            term = scale[i] * Q[i, j] * scale[j] * u[j]
            v += term
            size += abs(term)
        if v < -TOLERANCE * size:
            return False
        power += u[i] * v
        most += u[i] * size
        push += r[i] * u[i]
        pushed += abs(r[i] * u[i])
    return bool(abs(power) <= TOLERANCE * most and push < -TOLERANCE * pushed)


@njit(cache=True, error_model="numpy")
def _equilibrate(Q: Array, scale: Array) -> None:
    """Compute factors that make each diagonal entry 1.

    For a diagonal entry of 0, the largest entry that couples the row to another row becomes 1.
    """
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


@njit(cache=True, inner=True, error_model="numpy")
def _in_units(Q: Array, r: Array, scale: Array, arena: Arena) -> _Scaled:
    """Return the problem scaled by `scale`, with r in units of its most negative entry (`_Scaled.largest`)."""
    scaled, largest = vector(arena, r.size), 0.0
    for i in range(r.size):
        scaled[i] = scale[i] * r[i]
        largest = max(largest, -scaled[i])  # distant contacts (r large and positive) do not set the unit
    if largest > 0.0:
        for i in range(r.size):
            scaled[i] /= largest
    return _Scaled(Q, scale, scaled, largest)


@njit(cache=True, inner=True, error_model="numpy")
def _to_largest_one(z: Array) -> None:
    """Divide z by its largest entry if that is positive."""
    largest = 0.0
    for i in range(z.size):
        largest = max(largest, z[i])
    for i in range(z.size):
        z[i] /= largest if largest > 0.0 else 1.0


@njit(cache=True, inner=True, error_model="numpy")
def _ray(original: _Scaled, pivoted: _Scaled, dictionary: _Dictionary, column: int, z: Array) -> bool:
    """Write the z part of the ray in original units; return True if it has the properties of a ray (`_is_ray`).

    The ray is the direction in which the variable of `column` grows.
    """
    T, place, n = dictionary.T, dictionary.place, z.size
    for i in range(n):
        at = place[n + i]
        z[i] = max(T[-1 - at, column], 0.0) if at < 0 else (1.0 if at == column else 0.0)
        z[i] *= pivoted.scale[i] / original.scale[i]
    _to_largest_one(z)
    return _is_ray(original, z)


@njit(cache=True, inner=True, error_model="numpy")
def _basic_solution(
    original: _Scaled, pivoted: _Scaled, tikhonov: float, dictionary: _Dictionary, z: Array, w: Array, arena: Arena
) -> float:
    """Write the solution z of the final basis, and w, in original units; return its residual.

    If the basis is singular to rounding, the regularized solution or the dictionary's constants may still solve the
    problem.
    """
    T, place, n, residual = dictionary.T, dictionary.place, z.size, np.inf
    if _solve_basis(pivoted, 0.0, place, z, arena):
        residual = _original_residual(original, pivoted, z, w, arena)
    if residual <= TOLERANCE:
        return residual
    if not (tikhonov > 0.0 and _solve_basis(pivoted, tikhonov, place, z, arena)):
        for i in range(n):
            at = place[n + i]
            z[i] = max(T[-1 - at, n + 1], 0.0) if at < 0 else 0.0
    return _original_residual(original, pivoted, z, w, arena)


@njit(cache=True, inner=True)
def _dictionary(n: int, arena: Arena) -> _Dictionary:
    """Allocate the dictionary of n variables."""
    place = indices(arena, 2 * n + 1)
    return _Dictionary(matrix(arena, n, n + 2), indices(arena, n), indices(arena, n + 1), place, indices(arena, n))


@linked
@njit(cache=True, error_model="numpy")
def lemke_kernel(Q: Array, r: Array, scale: Array, tikhonov: float, max_pivots: int, arena: Arena) -> LcpAnswer:
    """Run Lemke's method with the lexicographic ratio test (math.md, section 5.2).

    The final basis is solved again from the original matrix; only the residual of the original problem decides whether
    the status is SOLVED. The first covering vector is all ones. In 1 of 300 contact problems, rounding errors lead off
    the path, or break ties inconsistently so that the path becomes a cycle. Then two more covering vectors are tried,
    on the problem scaled to a diagonal of ones (`balancing_scale`).

    Args:
        Q: Matrix, shape (n, n).
        r: Constant, shape (n,).
        scale: Positive factors s, shape (n,): the method works on s_i Q_ij s_j and s_i r_i, whose entries should be
            about 1 (math.md, section 13.2).
        tikhonov: Added to the diagonal of the scaled matrix while pivoting; the answer contains it only if the final
            basis is singular without it.
        max_pivots: Limit of pivots per covering vector.
        arena: Arena for all arrays, including the arrays of the answer.

    Returns:
        The answer with its residual in scaled units. If the status is RAY, z is the z part of the ray (largest entry 1)
        and w is r. If the status is ITERATIONS, z is zero.
    """
    n = r.size
    z, w, total = zeros(arena, n), vector(arena, n), 0.0
    for i in range(n):
        w[i] = r[i]
        total += scale[i] * r[i]
    if not np.isfinite(total):
        return LcpAnswer(INACCURATE, 0, np.inf, z, w)
    original = _in_units(Q, r, scale, arena)
    if original.largest == 0.0:
        return LcpAnswer(SOLVED, 0, 0.0, z, w)

    dictionary, z_scaled, w_scaled = _dictionary(n, arena), vector(arena, n), vector(arena, n)
    status, pivots, residual = ITERATIONS, 0, np.inf
    pivoted = original  # the scale of the pivoting
    for turn in range(_COVERS):
        if turn == 1:
            balanced = vector(arena, n)
            _equilibrate(Q, balanced)
            pivoted = _in_units(Q, r, balanced, arena)
        status, more, column = _follow(pivoted, tikhonov, turn, max_pivots, dictionary)
        pivots += more
        if status == RAY and _ray(original, pivoted, dictionary, column, z_scaled):
            break
        if status == SOLVED:
            residual = _basic_solution(original, pivoted, tikhonov, dictionary, z_scaled, w_scaled, arena)
            if residual <= TOLERANCE:
                break
            status = INACCURATE

    if status == RAY:
        for i in range(n):
            z[i] = scale[i] * z_scaled[i]
        _to_largest_one(z)
    if status in (RAY, ITERATIONS):
        return LcpAnswer(status, pivots, np.inf, z, w)
    for i in range(n):
        z[i] = original.largest * scale[i] * z_scaled[i]
        w[i] = original.largest * w_scaled[i] / scale[i]
    return LcpAnswer(status, pivots, residual, z, w)


def proves_infeasible(Q: Array, r: Array, ray: Array, tolerance: float = 1e-10) -> bool:
    """True if u = ray proves that no z ≥ 0 has Qz + r ≥ 0: u ≥ 0, Qᵀu ≤ 0 and rᵀu < 0 imply uᵀ(Qz + r) < 0.

    Every sum is compared with the magnitude of its terms, so rounding never counts as a proof, whatever the units.

    Args:
        Q: Matrix, shape (n, n).
        r: Constant, shape (n,).
        ray: Candidate u, shape (n,).
        tolerance: (Qᵀu)_j may exceed 0 by this times Σ_i |Q_ij| u_i; rᵀu must fall below 0 by this times Σ |r_i| u_i.

    Returns:
        True if it is a proof, to the tolerance.
    """
    if not ray.size or not float(ray.min()) >= 0.0:
        return False
    above = Q.T @ ray <= tolerance * (np.abs(Q).T @ ray)
    return bool(above.all()) and float(r @ ray) < -tolerance * float(np.abs(r) @ ray)


def balancing_scale(Q: Array) -> Array:
    """Return factors that make each nonzero diagonal entry 1, shape (n,).

    For a diagonal entry of 0, the largest entry that couples the row to another row becomes 1.
    """
    scale = np.empty(Q.shape[0])
    _equilibrate(Q, scale)
    return scale


def _checked(Q: Array, r: Array, scale: Array | None) -> tuple[Array, Array, Array]:
    """Return the problem as contiguous float64; raise InputError if shapes do not fit or `scale` is not positive."""
    Q = np.ascontiguousarray(Q, dtype=np.float64)
    r = np.ascontiguousarray(r, dtype=np.float64)
    scale = balancing_scale(Q) if scale is None else np.ascontiguousarray(scale, dtype=np.float64)
    n = r.size
    if r.shape != (n,) or Q.shape != (n, n) or scale.shape != (n,):
        raise InputError(f"lemke: Q {Q.shape}, r {r.shape}, scale {scale.shape} do not fit: give (n, n), (n,), (n,)")
    if not bool(np.all(scale > 0.0)):
        raise InputError("lemke: scale has an entry that is not positive: give positive factors or None")
    return Q, r, scale


def _run(Q: Array, r: Array, scale: Array, relative: float, max_pivots: int | None) -> LcpResult:
    """Run Lemke's method with `relative` times the mean of the scaled diagonal added to the diagonal."""
    tikhonov = relative * float(np.mean(scale**2 * np.diag(Q))) if relative > 0.0 else 0.0
    limit = 50 * r.size + 100 if max_pivots is None else max_pivots
    answer = lemke_kernel(Q, r, scale, tikhonov, limit, HEAP)
    ray = answer.z if answer.status == RAY else None
    return LcpResult(
        status=SolverStatus(answer.status),
        z=answer.z if ray is None else np.zeros(r.size),
        w=answer.w,
        residual=answer.residual,
        iterations=answer.iterations,
        ray=ray,
        regularization=relative,
    )


def solve_lemke(Q: Array, r: Array, scale: Array | None = None, *, max_pivots: int | None = None) -> LcpResult:
    """Solve w = Qz + r, 0 ≤ z ⊥ w ≥ 0 by Lemke's method (math.md, section 5.2).

    Args:
        Q: Matrix, shape (n, n); for a copositive Q the method ends with a solution or a ray.
        r: Constant, shape (n,).
        scale: Positive factors that make entries of Q about 1 (math.md, section 13.2), shape (n,); by default the
            factors that make the diagonal 1.
        max_pivots: Limit of pivots, 50 n + 100 by default.

    Returns:
        The outcome with its checked residual.

    Raises:
        InputError: The shapes do not fit, or a factor is not positive.
    """
    Q, r, scale = _checked(Q, r, scale)
    return _run(Q, r, scale, 0.0, max_pivots)


def solve_regularized(Q: Array, r: Array, scale: Array | None = None, *, max_pivots: int | None = None) -> LcpResult:
    """Run `solve_lemke`; after a failure, retry with 1e-12, 1e-10, 1e-8 of the mean diagonal added to the diagonal.

    This is the regularization of math.md, section 13.5. The residual always refers to the original problem, so a
    regularized solution counts as solved only if it also solves the original problem. If no attempt succeeds, the
    outcome of the attempt without regularization is returned. Arguments and errors are as for `solve_lemke`.
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
