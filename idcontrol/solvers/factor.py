"""Orthogonal factor of a changing set of rows, shared by the pivoting and active-set methods.

A row is appended by Gram-Schmidt and removed by Givens rotations, in time O(k c) for c rows of length k, without
recomputing the factor. The functions are inlined into their callers, since a call would take longer than appending a
row.
"""

from __future__ import annotations

from typing import NamedTuple

from idcontrol.kernels.arena import Arena, indices, matrix, vector
from idcontrol.kernels.jit import njit
from idcontrol.types import Array, Integers


class RowFactor(NamedTuple):
    """The active rows a_0 … a_{c-1}, each of length k, as a_l = Σ_j upper[j, l] basis[j].

    The `count` c of active rows is stored separately; only the first c entries, rows and columns are in use.

    Attributes:
        active: Numbers of the active rows, shape (k,).
        basis: Orthonormal rows, shape (k, k).
        upper: Upper triangular, shape (k, k).
        coefficients: Shape (k,); the last row passed to `split` is Σ_j coefficients[j] basis[j] + rest.
        rest: Component of that row orthogonal to the basis, shape (k,).
    """

    active: Integers
    basis: Array
    upper: Array
    coefficients: Array
    rest: Array


@njit(cache=True, inner=True)
def empty_factor(k: int, arena: Arena) -> RowFactor:  # pragma: no cover - compiled
    """Return a factor without rows, for rows of length k."""
    return RowFactor(indices(arena, k), matrix(arena, k, k), matrix(arena, k, k), vector(arena, k), vector(arena, k))


@njit(cache=True, inner=True, error_model="numpy", forceinline=True)
def split(factor: RowFactor, count: int, row: Array) -> float:
    """Write `row` = Σ_j coefficients[j] basis[j] + rest, orthogonalized twice if needed.

    Args:
        factor: Factor of the active rows; its `coefficients` and `rest` are overwritten.
        count: Number of active rows.
        row: Shape (k,); it may be `factor.rest` itself.

    Returns:
        |rest|².
    """
    basis, coefficients, rest = factor.basis, factor.coefficients, factor.rest
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
        # rest is orthogonal to rounding unless cancellation was severe; a second round restores orthogonality
        if square > 0.25 * before or before < 0.0:
            return square
        before = -1.0


@njit(cache=True, inner=True, error_model="numpy", forceinline=True)
def append(factor: RowFactor, count: int, number: int, length: float) -> None:
    """Append the last row passed to `split` to the active rows.

    Args:
        factor: Factor of the active rows.
        count: Number of active rows without the new row.
        number: Index of the new row among all rows.
        length: |rest| of the new row, positive.
    """
    active, basis, upper, coefficients, rest = factor
    active[count] = number
    for j in range(count):
        upper[j, count] = coefficients[j]
    upper[count, count] = length
    for d in range(rest.size):
        basis[count, d] = rest[d] / length


@njit(cache=True, inner=True, error_model="numpy", forceinline=True)
def remove(factor: RowFactor, count: int, place: int) -> None:
    """Remove the row at position `place` of `count` active rows; later rows move up by one position."""
    active, basis, upper = factor.active, factor.basis, factor.upper
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
