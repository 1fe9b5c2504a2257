"""A compiled function is compiled once, for compiled callers, for Python and for all numbers."""

from __future__ import annotations

import copy
import pickle

import pytest
from numba import config, typeof, types

from idcontrol.kernels.jit import njit
from tests.kernels.linking import cubes, raised

pytestmark = pytest.mark.skipif(config.DISABLE_JIT, reason="kernels run as Python")


@njit()
def total(a):
    """Sum of the entries of a."""
    found = 0.0
    for i in range(a.shape[0]):
        found += a[i]
    return found


GIVEN = (types.float64, types.int64)


def test_compiled_functions_and_python_get_the_same_from_it():
    assert cubes(1.5, 4) == raised(1.5, 2) + raised(1.5, power=3) + raised(1.5, 4)


def test_a_literal_number_is_a_number_to_it():
    call = typeof(raised).get_call_type(raised.typingctx, (types.float64, types.literal(2)), {})
    assert call.args == GIVEN


def test_what_compiled_code_has_called_python_calls_without_compiling():
    """A step that gives way in Python, in a loop on the wall clock, must not wait for a compiler."""
    cubes(1.5, 4)
    known = len(raised.overloads)
    assert GIVEN in raised.overloads
    raised(1.5, 2)
    assert len(raised.overloads) == known


def test_it_is_copied_and_pickled_as_the_function_that_it_is():
    assert copy.deepcopy(raised) is pickle.loads(pickle.dumps(raised)) is raised
    assert raised.__name__ == "raised"
    assert raised.py_func(2.0, 3) == 8.0


def test_loops_of_unknown_length_are_not_unrolled():
    """Most of ours have 6 to 18 turns: what unrolling adds is seldom run, and LLVM has to compile it."""
    total.compile((types.float64[::1],))
    assert total.overloads[(types.float64[::1],)].library.get_llvm_str().count("fadd ") == 1
