"""Arrays that compiled code finds in a tuple of objects."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from numba import njit

from idcontrol.kernels.given import ARRAY, LOGICAL, REAL, Given, is_vector, vector


class Sub(np.ndarray):
    """Not for its author alone to say what it is."""


@njit
def _is_vector(given, place, array, kind):
    return is_vector(given, place, array, kind)


@njit
def _doubled(given, place, like):
    found = vector(given, place, like)
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
    assert not _is_vector(Given((np.ones(3), ODD[what])), 1, ARRAY, REAL)


OWN = np.ones(3).view(pickle.loads(pickle.dumps(np.dtype(np.float64))))
"""Its number type is equal to that of other arrays, but another object."""


@pytest.mark.parametrize("values", [np.ones(3), np.ones(0), np.ones(4)[1:3], np.frombuffer(bytes(24)), OWN])
def test_a_plain_vector_is_told_by_its_number_type(values):
    given = Given((values, values.astype(np.bool_)))
    assert _is_vector(given, 0, ARRAY, REAL)
    assert _is_vector(given, 1, ARRAY, LOGICAL)
    assert not _is_vector(given, 0, ARRAY, LOGICAL)
    assert not _is_vector(given, 1, ARRAY, REAL)


def test_a_number_type_of_its_own_is_none_of_ours():
    assert OWN.dtype is not np.ones(3).dtype


def test_compiled_code_reads_and_writes_the_vector_itself():
    values = np.arange(5.0)
    assert _doubled(Given((None, values[1:4])), 1, np.zeros(0)) == 12.0
    np.testing.assert_array_equal(values, [0.0, 2.0, 4.0, 6.0, 4.0])
