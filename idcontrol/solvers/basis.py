"""Orthonormal bases of rows that may depend on each other."""

from __future__ import annotations

import numpy as np
from numba import njit

from idcontrol.types import Array


@njit(cache=True)
def pivoted_basis(rows: Array, extra: Array, smallest: float, basis: Array, carried: Array) -> int:
    # pragma: no cover - compiled
    """Gram-Schmidt with row pivoting down to the length `smallest`; `extra` (one number a row) is carried along.

    Overwrites rows and extra; returns the rank.
    """
    n = rows.shape[0]
    size = np.empty(n)
    for i in range(n):
        size[i] = np.dot(rows[i], rows[i])
    rank = 0
    while rank < min(n, rows.shape[1]):
        best = 0
        for i in range(n):
            if size[i] > size[best]:
                best = i
        norm = np.sqrt(np.dot(rows[best], rows[best]))
        if not norm > smallest:
            break
        basis[rank] = rows[best] / norm
        carried[rank] = extra[best] / norm
        rank += 1
        for i in range(n):
            if size[i] < 0.0:
                continue
            for _ in range(2):  # twice, for orthogonality
                p = np.dot(basis[rank - 1], rows[i])
                rows[i] -= p * basis[rank - 1]
                extra[i] -= p * carried[rank - 1]
            size[i] = np.dot(rows[i], rows[i])
        size[best] = -1.0
    return rank
