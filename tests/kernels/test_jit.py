"""A compiled function is compiled once, for compiled callers, for Python and for all numbers."""

import ast

import numba
import numpy as np
import pytest
from numba import config, typeof, types

from idcontrol.kernels.hooks import PLAIN
from idcontrol.kernels.jit import njit
from idcontrol.kernels.sources import ROOT
from tests.kernels.linking import cubes, raised, scaled, scaled_twice
from tests.kernels.programs import modules, run

pytestmark = pytest.mark.skipif(config.DISABLE_JIT, reason="kernels run as Python")
hooked = pytest.mark.skipif(PLAIN, reason="numba.njit compiles all")


KINDS = (types.float64, types.int64)


def test_compiled_functions_and_python_get_the_same_from_it():
    assert cubes(1.5, 4) == raised(1.5, 2) + raised(1.5, power=3) + raised(1.5, 4)


@hooked
def test_python_calls_a_kernel_without_compiling_after_compiled_code_called_it():
    """In a loop on the wall clock, a step that falls back to Python must not wait for a compiler."""
    cubes(1.5, 4)
    compiled = raised.stats.cache_misses.copy()
    raised(1.5, 2)
    assert raised.stats.cache_misses == compiled
    assert set(raised.overloads) == {KINDS}  # compiled for `cubes`, or in the cache where `cubes` was, too


@pytest.mark.parametrize("decorator", [njit(), numba.njit])
def test_array_sums_in_callees_do_not_change_options(decorator):
    @njit()
    def summed(x):
        return (x + 2.0 * x).sum()

    @decorator
    def divided(x, y):
        return x / y

    @njit()
    def both(x, y):
        return summed(x) + divided(1.0, y)

    with pytest.raises(ZeroDivisionError):  # in an array expression it is infinite
        both(np.ones(3), 0.0)


def has_wrapper(kernel):
    """True if the compiled code of `kernel` can be called from Python."""
    (compiled,) = kernel.overloads.values()
    return compiled.library.get_pointer_to_function(compiled.fndesc.llvm_cpython_wrapper_name) != 0


VALUES = np.linspace(0.1, 2.0, 7)


@hooked
def test_python_can_call_an_inner_function_which_has_no_wrapper():
    np.testing.assert_array_equal(scaled_twice(VALUES), scaled(scaled(VALUES)))
    np.testing.assert_array_equal(scaled(VALUES, times=3.0), 3.0 * VALUES)
    scaled.compile((typeof(VALUES), types.float64))
    assert has_wrapper(scaled_twice)
    assert not has_wrapper(scaled)
    with pytest.raises(TypeError, match="not enough arguments"):
        scaled()


@pytest.mark.slow
@hooked
def test_the_copy_of_an_inner_function_for_python_comes_from_the_cache(tmp_path):
    lines = (
        "from tests.kernels.linking import scaled",
        "print(scaled(np.ones(3), 2.0).sum())",
        "print(sum(scaled._for_python.stats.cache_misses.values()), len(scaled.overloads))",
    )
    first, second = (run(*lines, NUMBA_CACHE_DIR=tmp_path)[0] for _ in range(2))
    assert (first, second) == (["6.0", "1", "0"], ["6.0", "0", "0"])


@pytest.mark.slow
@hooked
def test_a_full_disk_is_reported_once_and_does_not_stop_the_program(tmp_path):
    lines = (
        "import errno",
        "from pathlib import Path",
        "def full(*_): raise OSError(errno.ENOSPC, 'No space left on device')",
        "Path.write_bytes = full",
        "from tests.kernels.linking import cubes",  # which calls another
        "print(cubes(1.5, 4))",
    )
    line = "idcontrol: compiled code is not kept; the next start compiles again: No space left on device\n"
    assert run(*lines, NUMBA_CACHE_DIR=tmp_path) == ([f"{cubes(1.5, 4)}"], line)


def compiled_functions():
    """Return for each compiled function True if Python cannot call it; and the full names that Python code uses."""
    inner, named, known = {}, set(), {}
    for file in modules():
        module = ".".join((ROOT.name, *file.relative_to(ROOT).with_suffix("").parts)).removesuffix(".__init__")
        tree, python = ast.parse(file.read_text(encoding="utf-8")), []
        names = {node.name: f"{module}.{node.name}" for node in tree.body if isinstance(node, ast.FunctionDef)}
        pending = [tree]
        while pending:
            node = pending.pop()
            if isinstance(node, ast.ImportFrom):
                names |= {each.asname or each.name: f"{node.module}.{each.name}" for each in node.names}
            options = _options(node)
            if options is not None:
                inner[f"{module}.{node.name}"] = options.get("inner", False) or options.get("inline") == "always"
                continue
            python.append(node)
            pending += ast.iter_child_nodes(node)
        known |= {f"{module}.{name}": full for name, full in names.items()}
        for node in python:
            if isinstance(node, ast.Name):
                named.add(f"{module}.{node.id}")
            elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                named.add(f"{names.get(node.value.id)}.{node.attr}")
    for _ in range(3):  # names that a package has from its modules
        named |= {known[name] for name in named if name in known}
    return inner, named


def _options(node):
    """The dispatcher of a compiled function; None for other objects."""
    for each in getattr(node, "decorator_list", ()):
        if isinstance(each, ast.Call) and ast.unparse(each.func) == "njit":
            return {option.arg: ast.literal_eval(option.value) for option in each.keywords}
    return None


def test_inner_functions_are_exactly_those_without_a_python_caller():
    """A loop on the wall clock would wait for the compiler at the first call of a function without a wrapper."""
    inner, named = compiled_functions()
    assert {name for name, bare in inner.items() if bare and name in named} == set()
    assert {
        name for name, bare in inner.items() if not bare and name not in named
    } == set()  # wrappers that nothing needs
