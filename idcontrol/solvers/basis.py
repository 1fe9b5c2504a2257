"""Orthonormal bases of rows that may be linearly dependent."""

from __future__ import annotations

from typing import Final

import numpy as np

from idcontrol.kernels.arena import Arena, indices, matrix, vector, zeros
from idcontrol.kernels.jit import njit
from idcontrol.kernels.lanes import dot
from idcontrol.kernels.linear import add, assign, cholesky, solve_lower, solve_lower_transposed
from idcontrol.types import Array


@njit(cache=True, inner=True, error_model="numpy")
def all_solutions(
    rows: Array, extra: Array, smallest: float, arena: Arena
) -> tuple[Array, Array]:  # pragma: no cover - compiled
    """Find all x with rows x = extra, as x = shortest + waysᵀ z, by Householder reflections with row pivoting.

    Args:
        rows: Shape (n, k); overwritten.
        extra: Right sides, shape (n,); overwritten.
        smallest: A row counts as dependent and is skipped if the length of its remainder is at most this.
        arena: Arena for all arrays.

    Returns:
        The shortest solution, shape (k,), and orthonormal directions in which no row changes, shape (k - rank, k).
    """
    n, k = rows.shape
    mirrors, shortest = matrix(arena, min(n, k), k), zeros(arena, k)
    rank = 0
    while rank < min(n, k):
        best, square = rank, 0.0
        for i in range(rank, n):
            tail = rows[i][rank:]
            size = dot(tail, tail)
            if size > square:
                best, square = i, size
        norm = np.sqrt(square)
        if not norm > smallest:
            break
        for d in range(k):
            rows[rank, d], rows[best, d] = rows[best, d], rows[rank, d]
        extra[rank], extra[best] = extra[best], extra[rank]
        # reflect the remainder of this row onto one coordinate
        mirror = mirrors[rank]
        own = -norm if rows[rank, rank] > 0.0 else norm
        length = np.sqrt(norm * (norm + abs(rows[rank, rank])))
        for d in range(k):
            mirror[d] = rows[rank, d] / length
        for d in range(rank):
            mirror[d] = 0.0
        mirror[rank] -= own / length
        for i in range(rank + 1, n):
            add(rows[i], -dot(rows[i], mirror), mirror)
        shortest[rank] = extra[rank]
        for j in range(rank):
            shortest[rank] -= rows[rank, j] * shortest[j]
        shortest[rank] /= own
        rank += 1
    ways = matrix(arena, k - rank, k)
    for j in range(k - rank):
        ways[j] = 0.0
        ways[j, rank + j] = 1.0
    for r in range(rank - 1, -1, -1):
        add(shortest, -dot(shortest, mirrors[r]), mirrors[r])
        for j in range(k - rank):
            add(ways[j], -dot(ways[j], mirrors[r]), mirrors[r])
    return shortest, ways


@njit(cache=True, inner=True, error_model="numpy")
def _add_squares(sums: Array, row: Array) -> None:  # pragma: no cover - compiled
    """Add the squares of a row to `sums`, shapes (n,)."""
    for i in range(row.shape[0]):
        sums[i] += row[i] * row[i]


@njit(cache=True, inner=True, error_model="numpy")
def column_basis(
    columns: Array, extra: Array, smallest: float, arena: Arena
) -> tuple[Array, Array]:  # pragma: no cover - compiled
    """Reduce columnsᵀ x = extra to independent equations with orthonormal rows, by Gram-Schmidt with row pivoting.

    Args:
        columns: The rows, one per column, so that one loop reduces all rows, shape (k, n); overwritten.
        extra: Right side of each row, shape (n,); overwritten.
        smallest: A row whose remainder is no longer than this counts as dependent.
        arena: Arena for all arrays.

    Returns:
        The basis, shape (rank, k), and its right sides, shape (rank,).
    """
    k, n = columns.shape
    basis, carried = matrix(arena, min(n, k), k), vector(arena, min(n, k))
    size, along, square = vector(arena, n), vector(arena, n), vector(arena, n)
    for i in range(n):
        size[i] = 0.0
    for d in range(k):
        _add_squares(size, columns[d])
    rank = 0
    while rank < min(n, k):
        best = 0
        for i in range(n):
            if size[i] > size[best]:
                best = i
        norm = np.sqrt(size[best])
        if not norm > smallest:
            break
        for d in range(k):
            basis[rank, d] = columns[d, best] / norm
        carried[rank] = extra[best] / norm
        size[best] = -1.0
        for again in (False, True):
            for i in range(n):
                along[i] = 0.0
            for d in range(k):
                add(along, basis[rank, d], columns[d])
            if again:  # recompute rows that lost most of their length, unless they are too short to be chosen
                for i in range(n):
                    if not (size[i] > 0.0 and smallest * smallest < square[i] <= 0.25 * size[i]):
                        along[i] = 0.0
            for i in range(n):
                square[i] = 0.0
            for d in range(k):
                add(columns[d], -basis[rank, d], along)
                _add_squares(square, columns[d])
            add(extra, -carried[rank], along)
            if not again:
                lost = 0
                for i in range(n):
                    if size[i] > 0.0 and smallest * smallest < square[i] <= 0.25 * size[i]:
                        lost += 1
                if lost == 0:
                    break
        for i in range(n):
            size[i] = square[i] if size[i] > 0.0 else size[i]
        rank += 1
    return basis[:rank], carried[:rank]


@njit(cache=True, inner=True, error_model="numpy")
def reflect(G: Array, wide: int, smallest: float, arena: Arena) -> int:
    """Triangularize the first `wide` columns of a matrix by reflecting its rows (Householder, with column pivoting).

    Args:
        G: In and out, shape (columns, rows): each row of G holds a column of the matrix. Below the rank the first
            `wide` columns end up zero, or no longer than `smallest`.
        wide: Number of columns to triangularize.
        smallest: Columns that are no longer than this count as zero.
        arena: Arena for all arrays.

    Returns:
        The rank.
    """
    columns, rows = G.shape
    v, used, rank = vector(arena, rows), indices(arena, wide), 0
    used[:] = 0
    while rank < min(rows, wide):
        best, square = 0, 0.0
        for c in range(wide):
            tail = G[c][rank:]
            size = 0.0 if used[c] else dot(tail, tail)
            if size > square:
                best, square = c, size
        norm = np.sqrt(square)
        if not norm > smallest:
            break
        used[best] = 1
        mirror = v[rank:]
        assign(mirror, G[best][rank:])
        mirror[0] += norm if mirror[0] >= 0.0 else -norm
        weight = 1.0 / (norm * abs(mirror[0]))
        for c in range(columns):
            tail = G[c][rank:]
            add(tail, -weight * dot(mirror, tail), mirror)
        rank += 1
    return rank


@njit(cache=True, inner=True, error_model="numpy")
def eliminate(G: Array, wide: int, last: int, smallest: float) -> int:
    """Eliminate the first `wide` unknowns of equations by Gauss's method with complete pivoting.

    Args:
        G: In and out, the equations, shape (n, columns). The pivot rows become the first rows; multiples of them are
            subtracted from all later rows, which then are zero in the columns of the pivots. In the rows from the rank
            to `last`, all of the first `wide` entries end up zero, or no larger than `smallest`.
        wide: Number of unknowns to eliminate.
        last: Number of rows, from the first on, that may become pivot rows.
        smallest: Entries that are no larger than this are no pivots.

    Returns:
        The rank: the number of pivot rows.
    """
    rank = 0
    while rank < min(last, wide):
        row, column, largest = rank, 0, 0.0
        for i in range(rank, last):
            for k in range(wide):
                size = abs(G[i, k])
                if size > largest:
                    row, column, largest = i, k, size
        if not largest > smallest:
            break
        if row != rank:
            for k in range(G.shape[1]):
                G[rank, k], G[row, k] = G[row, k], G[rank, k]
        inverse = 1.0 / G[rank, column]
        for i in range(rank + 1, G.shape[0]):
            add(G[i], -inverse * G[i, column], G[rank])
            G[i, column] = 0.0
        rank += 1
    return rank


WELL_CONDITIONED: Final = 1e-3
"""Smallest pivot that `shortest` accepts, relative to the longest row. One refinement then corrects the error that the
squared condition number of the Gram matrix causes.
"""


@njit(cache=True, inner=True, error_model="numpy")
def shortest(rows: Array, slack: Array, extra: Array, smallest: float, arena: Arena) -> Array:
    """Find the shortest (x, s) with ``rows x + slack s = extra``, where each row has a slack variable of its own.

    The equations with the rows' Gram matrix are solved and refined once. If rows are dependent or nearly dependent,
    `column_basis` is used instead.

    Args:
        rows: Shape (n, k).
        slack: Factor of each row's slack variable, shape (n,); 0 for a row without slack.
        extra: Shape (n,).
        smallest: A row whose remainder is no longer than this counts as dependent and is skipped.
        arena: Arena for all arrays.

    Returns:
        The vector x, shape (k,).
    """
    n, k = rows.shape
    x: Array = zeros(arena, k)
    gram, longest, least = matrix(arena, n, n), 0.0, np.inf
    for i in range(n):
        for j in range(i + 1):
            gram[i, j] = dot(rows[i], rows[j])
        gram[i, i] += slack[i] * slack[i]
        longest = max(longest, gram[i, i])
    positive = cholesky(gram, gram)
    for i in range(n):
        least = min(least, gram[i, i])
    # without other rows, the noise of dependent ones would seem well conditioned
    if positive and least > max(smallest, WELL_CONDITIONED * np.sqrt(longest)):
        change, total = vector(arena, n), zeros(arena, n)
        for _ in range(2):  # with one pass, the certificate refused some motions in which contacts stick
            for i in range(n):
                change[i] = extra[i] - dot(rows[i], x) - slack[i] * slack[i] * total[i]
            solve_lower(gram, change)
            solve_lower_transposed(gram, change)
            for i in range(n):
                add(x, change[i], rows[i])
                total[i] += change[i]
        return x
    columns, carried = matrix(arena, k + n, n), vector(arena, n)
    columns[k:] = 0.0
    for i in range(n):
        for d in range(k):
            columns[d, i] = rows[i, d]
        columns[k + i, i] = slack[i]
    assign(carried, extra)
    basis, constants = column_basis(columns, carried, smallest, arena)
    for i in range(constants.shape[0]):
        add(x, constants[i], basis[i][:k])
    return x
