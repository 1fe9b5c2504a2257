"""A compiled function has no wrappers for compiled callers, who compile it once for all numbers."""

from __future__ import annotations

import copy
import pickle

import pytest
from numba import config, typeof, types

from tests.kernels.linking import cubes, raised

pytestmark = pytest.mark.skipif(config.DISABLE_JIT, reason="kernels run as Python")


GIVEN = (types.float64, types.int64)


def has_wrapper(kernel):
    """Whether what is compiled of `kernel` can be called from Python."""
    kernel.compile(GIVEN)
    compiled = kernel.overloads[GIVEN]
    return compiled.library.get_pointer_to_function(compiled.fndesc.llvm_cpython_wrapper_name) != 0


def test_compiled_functions_and_python_get_the_same_from_it():
    assert cubes(1.5, 4) == raised(1.5, 2) + raised(1.5, power=3) + raised(1.5, 4)


def test_a_literal_number_is_a_number_to_it():
    call = typeof(raised).get_call_type(raised.typingctx, (types.float64, types.literal(2)), {})
    assert call.args == GIVEN


def test_only_what_python_calls_has_a_wrapper_for_it():
    assert has_wrapper(raised)
    assert not has_wrapper(raised.inner)


def test_what_only_python_calls_is_compiled_for_python_alone():
    cubes(1.5, 4)
    assert cubes.overloads
    assert "inner" not in vars(cubes)


def test_it_is_copied_and_pickled_as_the_function_that_it_is():
    assert copy.deepcopy(raised) is pickle.loads(pickle.dumps(raised)) is raised
    assert raised.__name__ == "raised"
    assert raised.inner.py_func(2.0, 3) == raised.py_func(2.0, 3) == 8.0
