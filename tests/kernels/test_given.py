"""Arrays that compiled code finds in a tuple of objects."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from numba import njit

from idcontrol.kernels.given import ARRAY, LOGICAL, REAL, Given, is_plain, read


class Sub(np.ndarray):
    """Not for its author alone to say what it is."""


@njit
def _is_plain(given, place, array, kind, axes):
    return is_plain(given, place, array, kind, axes)


@njit
def _doubled(given, place, like):
    found = read(given, place, like)
    found *= 2.0
    return found.sum()


ODD = {
    "nothing": None,
    "a number": 1.0,
    "a list": [1.0, 2.0],
    "a tuple": (1.0, 2.0),
    "two axes": np.ones((2, 2)),
    "no axis": np.array(1.0),
    "gaps": np.ones(6)[::2],
    "backward": np.ones(6)[::-1],
    "single precision": np.ones(3, dtype=np.float32),
    "integers": np.ones(3, dtype=np.int64),
    "big-endian": np.ones(3, dtype=">f8"),
    "objects": np.ones(3, dtype=object),
    "of a subclass": np.ones(3).view(Sub),
    "not aligned": np.frombuffer(bytes(25), dtype=np.float64, offset=1),
}


@pytest.mark.parametrize("what", ODD)
def test_what_is_no_plain_vector_of_real_numbers_is_told(what):
    assert not _is_plain(Given((np.ones(3), ODD[what])), 1, ARRAY, REAL, 1)


OWN = np.ones(3).view(pickle.loads(pickle.dumps(np.dtype(np.float64))))
"""Its number type is equal to that of other arrays, but another object."""


@pytest.mark.parametrize("values", [np.ones(3), np.ones(0), np.ones(4)[1:3], np.frombuffer(bytes(24)), OWN])
def test_a_plain_vector_is_told_by_its_number_type(values):
    given = Given((values, values.astype(np.bool_)))
    assert _is_plain(given, 0, ARRAY, REAL, 1)
    assert _is_plain(given, 1, ARRAY, LOGICAL, 1)
    assert not _is_plain(given, 0, ARRAY, LOGICAL, 1)
    assert not _is_plain(given, 1, ARRAY, REAL, 1)


def test_a_number_type_of_its_own_is_none_of_ours():
    assert OWN.dtype is not np.ones(3).dtype


def test_compiled_code_reads_and_writes_the_vector_itself():
    values = np.arange(5.0)
    assert _doubled(Given((None, values[1:4])), 1, np.zeros(0)) == 12.0
    np.testing.assert_array_equal(values, [0.0, 2.0, 4.0, 6.0, 4.0])


@pytest.mark.parametrize("values", [np.arange(6.0).reshape(3, 2), np.arange(6.0).reshape(2, 3), np.ones((0, 3))])
def test_compiled_code_reads_and_writes_the_rows_and_columns_of_a_matrix(values):
    given, doubled = Given((values,)), 2.0 * values
    assert _is_plain(given, 0, ARRAY, REAL, 2)
    assert not _is_plain(given, 0, ARRAY, REAL, 1)
    assert _doubled(given, 0, np.zeros((0, 0))) == doubled.sum()
    np.testing.assert_array_equal(values, doubled)


@pytest.mark.parametrize("values", [np.ones((3, 4)).T, np.ones((3, 4))[:, 1:], np.ones((4, 4))[::2]])
def test_a_matrix_by_columns_or_with_gaps_is_not_plain(values):
    assert not _is_plain(Given((values,)), 0, ARRAY, REAL, 2)
