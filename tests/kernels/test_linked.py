"""A linked kernel is called, not copied, and returns the same as when Python calls it."""

import copy
import pickle

import numpy as np
import pytest
from numba import config, njit, typeof, types

from idcontrol.kernels import linked
from idcontrol.kernels.hooks import PLAIN
from tests.kernels.linking import raised, scale, total, twice
from tests.kernels.programs import run

pytestmark = pytest.mark.skipif(config.DISABLE_JIT, reason="kernels run as Python")
hooked = pytest.mark.skipif(PLAIN, reason="only our cache tells which kernels its code calls")

VALUES = np.linspace(0.1, 2.0, 7)


def test_compiled_functions_and_python_get_the_same_from_it():
    scaled = scale(VALUES, 3)
    assert total(VALUES, 3) == scaled.values.sum() + scaled.times
    np.testing.assert_allclose(scaled.values, np.tanh(VALUES) * 3, rtol=1e-15)  # NumPy has its own tanh


def test_an_exception_of_a_linked_kernel_reaches_its_caller():
    with pytest.raises(ValueError, match="negative"):
        total(VALUES, -1)
    assert total(VALUES, 1) == scale(VALUES, 1).values.sum() + 2  # nothing is left of it


@pytest.mark.parametrize("kernel", [scale, raised])
def test_a_linked_kernel_is_copied_and_pickled_as_its_function(kernel):
    assert copy.deepcopy(kernel) is pickle.loads(pickle.dumps(kernel)) is kernel
    assert (kernel.__name__, kernel.__doc__) == (kernel.py_func.__name__, kernel.py_func.__doc__)


@pytest.mark.slow
@hooked
def test_a_cached_caller_loads_its_kernel_without_compiling(tmp_path):
    lines = (
        "from tests.kernels.linking import scale, total",
        "print(total(np.ones(3), 2))",
        "print(sum(total.stats.cache_misses.values()) + sum(scale.stats.cache_misses.values()))",
    )
    first, second = (run(*lines, NUMBA_CACHE_DIR=tmp_path)[0] for _ in range(2))
    value = f"{total(np.ones(3), 2)}"
    assert (first, second) == ([value, "2"], [value, "0"])
    code_of = {name: next(tmp_path.rglob(f"linking.{name}-*.nbc")).read_bytes() for name in ("scale", "total")}
    assert b"tanh" in code_of["scale"]
    assert b"tanh" not in code_of["total"]


def output(tmp_path, *lines):
    """Return how often a late kernel, and a kernel that it calls, were compiled and loaded after each of `lines`."""
    begin = "from idcontrol.kernels.linked import *; from tests.kernels.linking import *"
    stats = "[sum(getattr(kernel.stats, what).values()) for kernel in (distance, square)]"
    count = "; ".join(f"what = 'cache_{what}'; print(*{stats})" for what in ("misses", "hits"))
    counts, _ = run(begin, *(f"{line}; {count}" for line in lines), NUMBA_CACHE_DIR=tmp_path)
    return [(*map(int, counts[at : at + 4]),) for at in range(0, len(counts), 4)]


@pytest.mark.slow
@hooked
def test_a_late_kernel_is_compiled_on_first_use_and_known_before(tmp_path):
    """A loop on the wall clock loads the kernel and its callees before its first tick, also from the cache."""
    unbounded, bounded = "assert below(np.ones(4), np.inf)", "assert below(np.ones(4), 3.0)"
    assert output(tmp_path, unbounded, bounded) == [(0, 0, 0, 0), (1, 1, 0, 0)]
    assert output(tmp_path, unbounded, "compile_linked()", bounded) == [(0, 0, 0, 0), (0, 0, 1, 1), (0, 0, 1, 1)]


def test_a_caller_compiled_for_another_result_is_refused():
    kinds = (typeof(VALUES), types.int64)
    name = linked.name_of(scale, kinds, types.float64)
    with pytest.raises(RuntimeError, match=r"linking\.scale returns .*, not float64: if it has changed"):
        linked.find(name)


def test_one_caller_calls_any_kernel_by_its_address():
    for kernel in (total, mean):
        where = linked.address(kernel, types.float64, VALUES, 3)
        assert twice(where, VALUES, 3) == 2.0 * kernel(VALUES, 3)
    with pytest.raises(ValueError, match="negative"):
        twice(linked.address(total, types.float64, VALUES, 3), VALUES, -1)


def test_only_kernels_with_the_expected_result_have_an_address():
    with pytest.raises(TypeError, match=r"total returns float64, not int64"):
        linked.address(total, types.int64, VALUES, 3)


@njit
def mean(values, times):
    return values.mean() * times


def test_a_compiled_function_may_not_name_its_arguments():
    @njit
    def named(values):
        return scale(values=values, times=1).times

    with pytest.raises(Exception, match="keyword"):
        named(VALUES)
