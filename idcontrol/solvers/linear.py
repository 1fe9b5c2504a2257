"""Dense linear equations inside kernels, without a call into LAPACK and without allocation."""

from __future__ import annotations

from numba import njit

from idcontrol.types import Array


@njit(cache=True, error_model="numpy")
def solve_in_place(A: Array, n: int) -> bool:
    """Solve A[:n, :n] x = A[:n, n] with row pivoting; x replaces A[:n, n], the rest of A is overwritten.

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
