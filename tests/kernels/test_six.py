"""Blocks of six numbers a row against NumPy, and against loops to the last bit."""

import numpy as np
import pytest
from numba import config, njit

from idcontrol.kernels import six


@njit
def _subtract_product(P, Q, A):
    six.subtract_product(P, Q, A)


@njit
def _add_product(P, G, Q, A):
    six.add_product(P, G, Q, A)


@njit
def _solve_transposed(U, A, X):
    six.solve_transposed(U, A, X)


@njit
def _rows(P, U, x, out):
    six.subtract_times(P, x, out[0])
    six.subtract_times_transposed(P, x, out[1])
    six.solve_row(U, out[2])
    six.solve_row_transposed(U, out[3])
    out[4, 0], out[4, 1], out[4, 2] = six.times(P[:3], x)
    six.add_rows(P[:3], x[0], x[1], x[2], out[5])


@pytest.fixture
def blocks():
    return np.random.default_rng(0).normal(size=(3, 6, 6))


@pytest.mark.skipif(config.DISABLE_JIT, reason="NumPy adds in an order of its own")
def test_products_are_rounded_as_in_loops_whatever_the_processor_fuses(blocks):
    P, Q, A = blocks
    expected = A.copy()
    for k in range(6):
        expected -= P[k][:, None] * Q[k]
    result = A.copy()
    _subtract_product(P, Q, result)
    np.testing.assert_array_equal(result, expected)
    expected, result = A.copy(), A.copy()
    numbers = tuple(np.random.default_rng(1).normal(size=6))
    G = np.array(numbers)[[[0, 1, 2], [1, 3, 4], [2, 4, 5]]]
    for k in range(3):
        expected += P[k][:, None] * (G[k, 0] * Q[0] + G[k, 1] * Q[1] + G[k, 2] * Q[2])
    _add_product(P[:3], numbers, Q[:3], result)
    np.testing.assert_array_equal(result, expected)


def test_a_block_may_be_multiplied_with_itself_and_solved_in_place(blocks):
    P, Q, A = blocks
    expected = A - P.T @ P
    _subtract_product(P, P, A)
    np.testing.assert_allclose(A, expected, atol=1e-14)
    U = np.triu(P) + 6.0 * np.eye(6)
    expected = np.linalg.solve(U.T, Q)
    U[np.tril_indices(6, -1)] = np.nan  # not read
    _solve_transposed(U, Q, Q)
    np.testing.assert_allclose(Q, expected, atol=1e-14)


def test_blocks_times_single_rows_and_their_triangular_systems_agree_with_numpy(blocks):
    P, Q, A = blocks
    x, U = Q[0], np.triu(A) + 6.0 * np.eye(6)
    expected = np.array(
        [
            P[0] - P @ x,
            P[1] - P.T @ x,
            np.linalg.solve(U, P[2]),
            np.linalg.solve(U.T, P[3]),
            [*(P[:3] @ x), *P[4, 3:]],
            P[5] + P[:3].T @ x[:3],
        ]
    )
    U[np.tril_indices(6, -1)] = np.nan  # not read
    out = P.copy()
    _rows(P, U, x, out)
    np.testing.assert_allclose(out, expected, atol=1e-14)
