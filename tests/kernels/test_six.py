"""Blocks of six numbers a row against NumPy, and against loops to the last bit."""

import numpy as np
import pytest
from numba import njit

from idcontrol.kernels import six


@njit
def _subtract_product(P, Q, A):
    six.subtract_product(P, Q, A)


@njit
def _add_product(P, Q, A):
    six.add_product(P, Q, A)


@njit
def _solve_transposed(U, A, X):
    six.solve_transposed(U, A, X)


@pytest.fixture
def blocks():
    return np.random.default_rng(0).normal(size=(3, 6, 6))


def test_products_are_rounded_as_in_loops_whatever_the_processor_fuses(blocks):
    P, Q, A = blocks
    expected = A.copy()
    for k in range(6):
        expected -= P[k][:, None] * Q[k]
    found = A.copy()
    _subtract_product(P, Q, found)
    np.testing.assert_array_equal(found, expected)
    expected, found = A.copy(), A.copy()
    for k in range(3):
        expected += P[k][:, None] * Q[k]
    _add_product(P[:3], Q[:3], found)
    np.testing.assert_array_equal(found, expected)


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


def test_nothing_beyond_the_block_is_touched(blocks):
    stack = blocks
    before = stack.copy()
    _subtract_product(before[0], before[2], stack[1])
    np.testing.assert_array_equal(stack[[0, 2]], before[[0, 2]])
