"""Small matrices: each kernel against NumPy, and the entries that it must not touch."""

import numpy as np
import pytest

from idcontrol.kernels.linear import (
    cholesky,
    solve_in_place,
    solve_lower,
    solve_lower_transposed,
    solve_upper,
    solve_upper_transposed,
)

N = 4
RNG = np.random.default_rng(0)
A = RNG.normal(size=(N, N))
SQUARE = A @ A.T + np.eye(N)
LOWER = np.linalg.cholesky(SQUARE)
B = RNG.normal(size=N)
UNREAD = np.triu(np.full((N, N), 1e3), 1)
"""Entries above the diagonal, which a triangular solve must not read."""


def test_a_factor_times_its_transpose_is_the_matrix():
    factor = UNREAD.copy()
    assert cholesky(np.tril(SQUARE) + UNREAD, factor)
    # condition number 30: rounding is far below 1e-12
    np.testing.assert_allclose(np.tril(factor), LOWER, rtol=0, atol=1e-12)
    np.testing.assert_array_equal(np.triu(factor, 1), UNREAD)


@pytest.mark.parametrize("last", [0.0, -1.0, np.nan])
def test_a_matrix_that_is_not_positive_definite_has_no_factor(last):
    assert not cholesky(np.diag([1.0, last]), np.zeros((2, 2)))
    assert cholesky(np.diag([1.0, 0.25]), np.zeros((2, 2)))


def test_triangular_systems_are_solved_from_their_own_triangle_only():
    x = B.copy()
    solve_lower(LOWER + UNREAD, x)
    np.testing.assert_allclose(LOWER @ x, B, rtol=0, atol=1e-12)
    solve_lower_transposed(LOWER + UNREAD, x)
    np.testing.assert_allclose(SQUARE @ x, B, rtol=0, atol=1e-12)


@pytest.mark.parametrize("count", [0, 1, 3, N])
def test_upper_systems_are_solved_for_their_first_unknowns(count):
    R = LOWER.T + UNREAD.T
    head = LOWER.T[:count, :count]
    x, y = B.copy(), B.copy()
    solve_upper(R, count, x)
    np.testing.assert_allclose(head @ x[:count], B[:count], rtol=0, atol=1e-12)
    solve_upper_transposed(R, count, y)
    np.testing.assert_allclose(head.T @ y[:count], B[:count], rtol=0, atol=1e-12)
    np.testing.assert_array_equal([x[count:], y[count:]], [B[count:], B[count:]])


def solved(matrix, right):
    """The unknowns by `solve_in_place`, in a work array with a row and a column more; None where it is singular."""
    n = len(right)
    work = np.full((n + 1, n + 2), 1e9)
    work[:n, :n], work[:n, n] = matrix, right
    regular = solve_in_place(work, n)
    assert np.all(work[n] == 1e9)
    assert np.all(work[:, n + 1] == 1e9)
    return work[:n, n] if regular else None


@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_a_square_system_is_solved_in_place(n):
    np.testing.assert_allclose(A[:n, :n] @ solved(A[:n, :n], B[:n]), B[:n], rtol=0, atol=1e-12)


def test_a_tiny_pivot_is_exchanged_for_a_larger_one_of_either_sign():
    # without row exchange 1 - 1e16 swallows the 2 of the right side, and the first unknown comes out as 0
    np.testing.assert_allclose(
        solved(np.array([[1e-12, 1.0], [-1.0, 1.0]]), np.array([1.0, 2.0])), [-1.0, 1.0], atol=1e-11
    )


@pytest.mark.parametrize("size", [1e-9, 1.0, 1e9])
def test_a_matrix_is_singular_to_rounding_whatever_its_unit(size):
    right = np.array([1.0, 1.0])
    assert solved(size * np.array([[1.0, -3.0], [2.0, -6.0]]), right) is None
    assert solved(np.diag([size, -1e-15 * size]), right) is None
    assert solved(np.diag([size, -1e-13 * size]), right) is not None
    assert solved(np.zeros((2, 2)), right) is None
