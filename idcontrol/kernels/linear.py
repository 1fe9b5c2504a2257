"""Linear algebra of small dense matrices inside kernels, without LAPACK, whose calls take longer.

Symmetric matrices are factored as A = L Lᵀ with a lower triangular L; the factors of `idcontrol.solvers.factor` are
upper triangular. No function allocates memory.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from idcontrol.kernels.jit import njit
from idcontrol.types import Array, Booleans, Integers

AnyArray: TypeAlias = Array | Integers | Booleans


@njit(cache=True, inner=True, error_model="numpy")
def assign(out: AnyArray, values: AnyArray) -> None:  # pragma: no cover - compiled
    """Write values (n,) into the first n entries of out.

    ``out[:] = values`` would first check whether both arrays overlap. This check takes ten times as much code, which is
    compiled anew into every caller.
    """
    for i in range(values.shape[0]):
        out[i] = values[i]


@njit(cache=True, inner=True, error_model="numpy")
def assign_rows(out: Array, values: Array) -> None:  # pragma: no cover - compiled
    """Write values (n, k) into the first n rows and k columns of out; see `assign`."""
    for i in range(values.shape[0]):
        for j in range(values.shape[1]):
            out[i, j] = values[i, j]


@njit(cache=True, inner=True, error_model="numpy")
def add(a: Array, factor: float, b: Array) -> None:  # pragma: no cover - compiled
    """Add ``factor * b`` to a, shapes (n,)."""
    for i in range(a.shape[0]):
        a[i] += factor * b[i]


@njit(cache=True, inner=True, error_model="numpy")
def cholesky(A: Array, L: Array) -> bool:  # pragma: no cover - compiled
    """Write the lower factor of a symmetric matrix A = L Lᵀ.

    Args:
        A: Shape (n, n); only its lower triangle is read.
        L: Result, shape (n, n); entries above the diagonal are unchanged.

    Returns:
        False if A is not positive definite.
    """
    n = A.shape[0]
    for j in range(n):  # by columns: below the diagonal, entries of a column do not depend on each other
        for i in range(j, n):
            s = A[i, j]
            for k in range(j):
                s -= L[i, k] * L[j, k]
            if i > j:
                L[i, j] = s / L[j, j]
            elif s > 0.0:
                L[j, j] = np.sqrt(s)
            else:
                return False
    return True


@njit(cache=True, error_model="numpy")
def solve_lower(L: Array, x: Array) -> None:  # pragma: no cover - compiled
    """Overwrite x (n,) with L⁻¹ x; L has shape (n, n), and only its lower triangle is read."""
    for i in range(L.shape[0]):
        s = x[i]
        for k in range(i):
            s -= L[i, k] * x[k]
        x[i] = s / L[i, i]


@njit(cache=True, error_model="numpy")
def solve_lower_transposed(L: Array, x: Array) -> None:  # pragma: no cover - compiled
    """Overwrite x (n,) with L⁻ᵀ x; L has shape (n, n), and only its lower triangle is read."""
    for i in range(L.shape[0] - 1, -1, -1):
        s = x[i]
        for k in range(i + 1, L.shape[0]):
            s -= L[k, i] * x[k]
        x[i] = s / L[i, i]


@njit(cache=True, error_model="numpy")
def solve_upper(upper: Array, count: int, x: Array) -> None:
    """Overwrite the first `count` entries of x with upper⁻¹ x.

    Only the upper triangle of the first `count` rows and columns of `upper` is read.
    """
    for j in range(count - 1, -1, -1):
        total = x[j]
        for i in range(j + 1, count):
            total -= upper[j, i] * x[i]
        x[j] = total / upper[j, j]


@njit(cache=True, inner=True, error_model="numpy")
def solve_upper_transposed(upper: Array, count: int, x: Array) -> None:
    """Overwrite the first `count` entries of x with upper⁻ᵀ x; `upper` is read as by `solve_upper`."""
    for j in range(count):
        x[j] /= upper[j, j]
        for i in range(j + 1, count):
            x[i] -= upper[j, i] * x[j]


@njit(cache=True, inner=True, error_model="numpy")
def solve_in_place(A: Array, n: int) -> bool:
    """Solve A[:n, :n] x = A[:n, n] with row pivoting; x replaces A[:n, n], and A[:n, :n] is overwritten.

    Args:
        A: Matrix and right side, n rows and n + 1 columns or more.
        n: Number of unknowns.

    Returns:
        False if A is singular to rounding.
    """
    largest = 0.0
    for i in range(n):
        for j in range(n):
            largest = max(largest, abs(A[i, j]))
    for k in range(n):
        best = k
        for i in range(k + 1, n):
            if abs(A[i, k]) > abs(A[best, k]):
                best = i
        if not abs(A[best, k]) > 1e-14 * largest:
            return False
        if best != k:
            for j in range(k, n + 1):
                A[k, j], A[best, j] = A[best, j], A[k, j]
        inverse = 1.0 / A[k, k]
        for i in range(k + 1, n):
            factor = A[i, k] * inverse
            if factor != 0.0:
                for j in range(k + 1, n + 1):
                    A[i, j] -= factor * A[k, j]
    for k in range(n - 1, -1, -1):
        x = A[k, n]
        for j in range(k + 1, n):
            x -= A[k, j] * A[j, n]
        A[k, n] = x / A[k, k]
    return True
