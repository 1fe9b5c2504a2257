"""Orthogonal factor of a changing set of rows: the memory of the pivoting and active-set methods.

The active rows a_0 … a_{c-1}, each of length k, are kept as a_l = Σ_j upper[j, l] basis[j], with orthonormal rows in
`basis` (k, k) and an upper triangular `upper` (k, k); `active` (k,) holds their numbers. Only the first c entries, rows
and columns are in use. A row is appended by Gram-Schmidt and removed by Givens rotations, O(k c) each: nothing is ever
factored again.
"""

from __future__ import annotations

from numba import njit

from idcontrol.types import Array, Integers


@njit(cache=True, error_model="numpy")
def split(basis: Array, count: int, row: Array, coefficients: Array, rest: Array) -> float:
    """Write `row` = Σ_j coefficients[j] basis[j] + rest, orthogonalized twice where that is needed.

    Args:
        basis: Orthonormal rows, the first `count` in use, shape (k, k).
        count: Rows in use.
        row: Shape (k,).
        coefficients: Result, shape (k,), the first `count` entries.
        rest: Result, shape (k,).

    Returns:
        |rest|².
    """
    k = row.size
    before = 0.0
    for d in range(k):
        rest[d] = row[d]
        before += row[d] * row[d]
    for j in range(count):
        coefficients[j] = 0.0
    while True:
        for j in range(count):
            along = 0.0
            for d in range(k):
                along += basis[j, d] * rest[d]
            coefficients[j] += along
            for d in range(k):
                rest[d] -= along * basis[j, d]
        square = 0.0
        for d in range(k):
            square += rest[d] * rest[d]
        # what is left is orthogonal to rounding unless most of it was taken away; then the second round makes it so
        if square > 0.25 * before or before < 0.0:
            return square
        before = -1.0


@njit(cache=True, error_model="numpy")
def append(
    basis: Array, upper: Array, active: Integers, count: int, row: int, coefficients: Array, rest: Array, length: float
) -> None:
    """Append row number `row`, which `split` took apart, with length = |rest| > 0."""
    active[count] = row
    for j in range(count):
        upper[j, count] = coefficients[j]
    upper[count, count] = length
    for d in range(rest.size):
        basis[count, d] = rest[d] / length


@njit(cache=True, error_model="numpy")
def remove(basis: Array, upper: Array, active: Integers, count: int, place: int) -> None:
    """Remove the row at `place` of `count` active ones; the later ones move up by one."""
    for a in range(place, count - 1):
        active[a] = active[a + 1]
    k = basis.shape[1]
    for column in range(place + 1, count):
        for j in range(column + 1):
            upper[j, column - 1] = upper[j, column]
    for j in range(place, count - 1):
        a, b = upper[j, j], upper[j + 1, j]
        length = (a * a + b * b) ** 0.5
        c, s = a / length, b / length
        upper[j, j] = length
        upper[j + 1, j] = 0.0
        for column in range(j + 1, count - 1):
            a, b = upper[j, column], upper[j + 1, column]
            upper[j, column] = c * a + s * b
            upper[j + 1, column] = c * b - s * a
        for d in range(k):
            a, b = basis[j, d], basis[j + 1, d]
            basis[j, d] = c * a + s * b
            basis[j + 1, d] = c * b - s * a


@njit(cache=True, error_model="numpy")
def solve_upper(upper: Array, count: int, x: Array) -> None:
    """Overwrite x with upper⁻¹ x, its first `count` entries."""
    for j in range(count - 1, -1, -1):
        total = x[j]
        for i in range(j + 1, count):
            total -= upper[j, i] * x[i]
        x[j] = total / upper[j, j]


@njit(cache=True, error_model="numpy")
def solve_upper_transposed(upper: Array, count: int, x: Array) -> None:
    """Overwrite x with upper⁻ᵀ x, its first `count` entries."""
    for j in range(count):
        x[j] /= upper[j, j]
        for i in range(j + 1, count):
            x[i] -= upper[j, i] * x[j]
