"""Hooks into Numba act only on functions of this package, and everything runs without them."""

import gc
import tomllib
from pathlib import Path

import numba
import numpy as np
import pytest
from numba import config, types
from numba.core import event
from numba.core.codegen import JITCodeLibrary
from numba.core.errors import TypingError
from numba.core.registry import cpu_target
from packaging.requirements import Requirement

from idcontrol.kernels.hooks import PLAIN, TESTED
from idcontrol.kernels.jit import njit
from tests.kernels.linking import below, cubes, total
from tests.kernels.programs import run

pytestmark = pytest.mark.skipif(config.DISABLE_JIT, reason="kernels run as Python")


def added(a):
    """Sum of the entries of a."""
    amount = 0.0
    for i in range(a.shape[0]):
        amount += a[i]
    return amount


def additions(compiled):
    """Number of additions in the machine code of `added`: the number of unrolled iterations."""
    compiled.compile((types.float64[::1],))
    return compiled.overloads[(types.float64[::1],)].library.get_llvm_str().count("fadd ")


def test_only_our_loops_are_not_unrolled():
    """Most loops have 6 to 18 iterations: unrolled code is seldom run, but costs compile time."""
    plain = additions(numba.njit(added))
    assert plain > 1
    assert additions(njit()(added)) == (plain if PLAIN else 1)


def test_functions_of_others_are_compiled_by_numba_itself():
    total(np.ones(3), 1)
    assert cpu_target.target_context.codegen()._library_class is JITCodeLibrary
    foreign = numba.njit(added)
    assert type(foreign) is numba.core.registry.CPUDispatcher
    foreign(np.ones(3))
    (compiled,) = foreign.overloads.values()
    assert type(compiled.library) is JITCodeLibrary


@pytest.mark.skipif(PLAIN, reason="ours are compiled as others are")
def test_functions_of_numba_are_compiled_apart_for_ours_and_for_others():
    """Otherwise a user's function would contain the package's code of `np.any`."""

    def above(a):
        return np.any(a > 1.0)

    assert not njit()(above)(np.ones(3))
    with event.install_recorder("numba:compile") as recorder:
        assert not numba.njit(above)(np.ones(3))
    dispatchers = {happened.data["dispatcher"] for _, happened in recorder.buffer}
    assert len(dispatchers) > 1
    compiled = [overload for each in dispatchers for overload in each.overloads.values()]
    assert {type(overload.library) for overload in compiled} == {JITCodeLibrary}


def test_a_failed_compilation_leaves_no_hook_behind():
    threshold = gc.get_threshold()
    with pytest.raises(TypingError):
        njit()(lambda a: a.nothing)(np.ones(3))
    assert gc.get_threshold() == threshold
    assert cpu_target.target_context.codegen()._library_class is JITCodeLibrary


def test_a_version_of_numba_that_is_not_tested_has_no_hooks_and_says_so():
    code = "import numba; numba.__version__ = '9.1.2'; from idcontrol.kernels.hooks import PLAIN; print(PLAIN)"
    line = "Numba 9.1.2 is not tested; kernels compile and run slower, as with IDCONTROL_PLAIN_NUMBA=1"
    assert run(code, IDCONTROL_PLAIN_NUMBA="") == (["True"], f"idcontrol: {line}\n")
    assert run(code, IDCONTROL_PLAIN_NUMBA=1) == (["True"], "")


@pytest.mark.slow
def test_hooks_are_tested_with_every_version_that_can_be_installed():
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    (bound,) = (line for line in project["dependencies"] if line.startswith("numba"))
    minors = [f"0.{minor}" for minor in range(100)]
    assert [each for each in minors if Requirement(bound).specifier.contains(f"{each}.0")] == list(TESTED)


@pytest.mark.slow
def test_plain_numba_gives_the_same(tmp_path):
    lines = (
        "import numba",
        "from tests.kernels.linking import cubes, far, below, total",
        "print(cubes(1.5, 4), total(np.ones(3), 2), below(np.ones(4), 3.0))",
        "print({type(each) is numba.core.registry.CPUDispatcher for each in (cubes, far, below, total)})",
    )
    values = [f"{cubes(1.5, 4)}", f"{total(np.ones(3), 2)}", f"{below(np.ones(4), 3.0)}"]
    for _ in range(2):
        assert run(*lines, IDCONTROL_PLAIN_NUMBA=1, NUMBA_CACHE_DIR=tmp_path) == ([*values, "{True}"], "")


@pytest.mark.slow
def test_a_trot_with_plain_numba_is_the_same_to_the_bit(tmp_path):
    lines = (
        "import hashlib, os, pathlib",
        "from idcontrol.record.recording import load",
        "from idcontrol.scenes.locomotion import record_walk",
        "from idcontrol.scenes.walk import WalkConfig, WalkScene",
        "folder = pathlib.Path(os.environ['FOLDER'])",
        "record_walk(WalkScene.of(WalkConfig(duration_s=1.0)), folder)",
        "arrays = load(folder).arrays",
        "timed = {'step_us'}",
        "print({n: hashlib.sha256(arrays[n].tobytes()).hexdigest() for n in sorted(arrays) if n not in timed})",
    )
    hooked, plain = (run(*lines, FOLDER=tmp_path / f"run{on}", IDCONTROL_PLAIN_NUMBA=on)[0] for on in ("", 1))
    assert hooked == plain != []
