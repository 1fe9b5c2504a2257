"""Sums in vector registers against exact ones, and against the readable order to the last bit."""

import math

import numpy as np
import pytest
from numba import config, njit
from numba.core.errors import TypingError

from idcontrol.kernels import lanes


@njit
def _dot(a, b):
    return lanes.dot(a, b)


@pytest.mark.parametrize("length", [0, 1, 3, 4, 12, 15, 16, 17, 31, 32, 100, 1203])
def test_products_are_added_in_the_readable_order(length):
    a, b = np.random.default_rng(length).normal(size=(2, length))
    assert _dot(a, b) == lanes._dot(a, b)


@pytest.mark.parametrize("length", [1, 16, 100, 1203])
def test_a_sum_is_exact_to_the_rounding_of_its_terms(length):
    a, b = np.random.default_rng(length).normal(size=(2, length))
    exact = math.fsum(np.array(a, dtype=np.longdouble) * b)
    assert abs(_dot(a, b) - exact) <= length * np.finfo(float).eps * (np.abs(a) @ np.abs(b))


@pytest.mark.skipif(config.DISABLE_JIT, reason="interpreted code steps over gaps")
def test_rows_with_gaps_are_refused():
    a = np.ones(8)
    with pytest.raises(TypingError):
        _dot(a[::2], a[:4])


@pytest.mark.parametrize("at", [0, 16, 32])
def test_a_term_that_is_no_number_is_not_lost(at):
    a, b = np.ones((2, 33))
    a[at] = np.nan
    assert np.isnan(_dot(a, b))
