r"""Sparse Cholesky factorization ``A = UᵀU`` in blocks of six (Castro et al. 2022, section VIII-D).

A is symmetric positive definite. Its blocks belong to a graph: block (i, j) is nonzero only if nodes i and j share an
edge. Nodes are eliminated in the order of smallest degree, so that contact graphs cause little fill-in. `analyze` finds
the structure once per graph; `factorize` and `solve` work on every matrix with that graph.

The blocks of U are stored row by row, so that every inner loop runs along memory.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from idcontrol.kernels.jit import njit
from idcontrol.kernels.six import (
    SIX,
    solve_row,
    solve_row_transposed,
    solve_transposed,
    subtract_product,
    subtract_times,
    subtract_times_transposed,
)
from idcontrol.types import Array, Integers

BLOCK = SIX
"""Number of rows of a block: the six velocities of a rigid body."""

_ONE = np.uint64(1)
_WORD = 64


class Structure(NamedTuple):
    """Sparsity of U; the *place* of a node is its number in the order of elimination.

    Attributes:
        place: Place of each node, shape (n,).
        start: Blocks right of the diagonal in row k are ``start[k]`` to ``start[k + 1]``, shape (n + 1,).
        column: Columns of these blocks as places, ascending in each row, shape (nnz,).
    """

    place: Integers
    start: Integers
    column: Integers


@njit(cache=True, inner=True)
def _count(word: np.uint64) -> int:  # pragma: no cover - compiled
    """Return the number of set bits in `word`."""
    x = word
    x = x - ((x >> _ONE) & np.uint64(0x5555555555555555))
    x = (x & np.uint64(0x3333333333333333)) + ((x >> np.uint64(2)) & np.uint64(0x3333333333333333))
    x = (x + (x >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return int(np.int64((x * np.uint64(0x0101010101010101)) >> np.uint64(56)))


@njit(cache=True, inner=True)
def _sort(values: Integers) -> None:  # pragma: no cover - compiled
    """Sort a short array in place."""
    for at in range(1, values.shape[0]):
        value, to = values[at], at
        while to > 0 and values[to - 1] > value:
            values[to] = values[to - 1]
            to -= 1
        values[to] = value


@njit(cache=True, inner=True)
def analyze(n: int, edges: Integers) -> Structure:  # pragma: no cover - compiled
    """Find the elimination order by smallest degree (ties: lower number first), and the structure of U.

    Args:
        n: Number of nodes.
        edges: Pairs of nodes, shape (e, 2); repetitions and loops are ignored.
    """
    words = (n + _WORD - 1) // _WORD
    adjacent = np.zeros((n, words), dtype=np.uint64)
    for e in range(edges.shape[0]):
        i, j = edges[e, 0], edges[e, 1]
        if i != j:
            adjacent[i, j // _WORD] |= _ONE << np.uint64(j % _WORD)
            adjacent[j, i // _WORD] |= _ONE << np.uint64(i % _WORD)
    degree = np.zeros(n, dtype=np.int64)
    for i in range(n):
        for w in range(words):
            degree[i] += _count(adjacent[i, w])
    place, start = np.full(n, -1), np.zeros(n + 1, dtype=np.int64)
    column = np.empty(max(4 * n, 16), dtype=np.int64)
    for k in range(n):
        pivot, least = -1, n + 1
        for i in range(n):
            if place[i] < 0 and degree[i] < least:
                pivot, least = i, degree[i]
        place[pivot] = k
        if start[k] + least > column.shape[0]:
            longer = np.empty(2 * column.shape[0] + least, dtype=np.int64)
            for at in range(start[k]):
                longer[at] = column[at]
            column = longer
        fill = start[k]
        for w in range(words):
            rest = adjacent[pivot, w]
            while rest != np.uint64(0):
                below = (rest & (~rest + _ONE)) - _ONE
                column[fill] = w * _WORD + _count(below)
                fill += 1
                rest = rest & (rest - _ONE)
        start[k + 1] = fill
        for at in range(start[k], fill):
            j = column[at]
            total = 0
            for w in range(words):
                adjacent[j, w] |= adjacent[pivot, w]
            adjacent[j, j // _WORD] &= ~(_ONE << np.uint64(j % _WORD))
            adjacent[j, pivot // _WORD] &= ~(_ONE << np.uint64(pivot % _WORD))
            for w in range(words):
                total += _count(adjacent[j, w])
            degree[j] = total
    column = column[: start[n]].copy()
    for at in range(start[n]):
        column[at] = place[column[at]]
    for k in range(n):
        _sort(column[start[k] : start[k + 1]])
    return Structure(place, start, column)


@njit(cache=True, inner=True)
def slot(structure: Structure, i: int, j: int) -> int:  # pragma: no cover - compiled
    """Return the index in `Structure.column` of the block in row i and column j > i of U; the block must exist."""
    low, high = int(structure.start[i]), int(structure.start[i + 1])
    while low < high:
        middle = (low + high) // 2
        if structure.column[middle] < j:
            low = middle + 1
        else:
            high = middle
    return low


@njit(cache=True, inner=True, error_model="numpy")
def _factor_diagonal(A: Array) -> bool:  # pragma: no cover - compiled
    """Overwrite A with its upper factor; only the upper triangle is read. Return False if A is not positive definite.

    With the size known to the compiler this is three times as fast as `idcontrol.kernels.linear.cholesky`.
    """
    for r in range(BLOCK):
        for q in range(r):
            for c in range(r, BLOCK):
                A[r, c] -= A[q, r] * A[q, c]
        if not A[r, r] > 0.0:
            return False
        A[r, r] = np.sqrt(A[r, r])
        for c in range(r + 1, BLOCK):
            A[r, c] /= A[r, r]
    return True


@njit(cache=True, inner=True, error_model="numpy")
def factorize(structure: Structure, diagonal: Array, upper: Array) -> bool:  # pragma: no cover - compiled
    """Replace A by its upper factor U.

    Args:
        structure: From `analyze`.
        diagonal: Diagonal blocks by place, shape (n, 6, 6); upper triangles are read.
        upper: Blocks right of the diagonal by `slot`, shape (nnz, 6, 6), zero at the fill-in of U.

    Returns:
        False if A is not positive definite.
    """
    start, column = structure.start, structure.column
    n = start.shape[0] - 1
    # a linked list from first[j] holds the rows whose next block is in column j; reached[k] is the block of row k in
    # that column
    first, following, reached = np.full(n, -1), np.full(n, -1), start[:n].copy()
    where = np.full(n, -1)
    for j in range(n):
        for at in range(start[j], start[j + 1]):
            where[column[at]] = at
        k = first[j]
        while k >= 0:
            after, at = following[k], reached[k]
            P = upper[at]
            subtract_product(P, P, diagonal[j])
            for other in range(at + 1, start[k + 1]):
                subtract_product(P, upper[other], upper[where[column[other]]])
            reached[k] += 1
            if reached[k] < start[k + 1]:
                i = column[reached[k]]
                following[k] = first[i]
                first[i] = k
            k = after
        if not _factor_diagonal(diagonal[j]):
            return False
        for at in range(start[j], start[j + 1]):
            solve_transposed(diagonal[j], upper[at], upper[at])
        if start[j] < start[j + 1]:
            i = column[start[j]]
            following[j] = first[i]
            first[i] = j
    return True


@njit(cache=True, inner=True, error_model="numpy")
def solve(structure: Structure, diagonal: Array, upper: Array, x: Array) -> None:  # pragma: no cover - compiled
    """Overwrite x with A⁻¹ x for a factorized A.

    Args:
        structure: From `analyze`.
        diagonal: From `factorize`.
        upper: From `factorize`.
        x: Vector, its nodes in the order of their places (`Structure`), shape (n, 6).
    """
    start, column = structure.start, structure.column
    n = start.shape[0] - 1
    for j in range(n):
        solve_row_transposed(diagonal[j], x[j])
        for at in range(start[j], start[j + 1]):
            subtract_times_transposed(upper[at], x[j], x[column[at]])
    for j in range(n - 1, -1, -1):
        for at in range(start[j], start[j + 1]):
            subtract_times(upper[at], x[column[at]], x[j])
        solve_row(diagonal[j], x[j])
