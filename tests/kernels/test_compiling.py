"""Before kernels are compiled, a line says so."""

from __future__ import annotations

import numpy as np
import pytest
from numba import config, njit

from idcontrol.kernels import compiling

pytestmark = pytest.mark.skipif(config.DISABLE_JIT, reason="nothing is compiled")

KERNEL = """
from numba import njit

@njit(cache=True)
def inner(x):
    return x + 1.0

@njit(cache=True)
def double(x):
    return 2.0 * inner(x)
"""


@pytest.fixture
def kernel(tmp_path, monkeypatch):
    """Imports a kernel as a new process would; its cache lies beside its file."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(compiling, "WORTH_S", 0.0)
    path = tmp_path / "kernel.py"
    path.write_text(KERNEL)

    def again():
        names: dict = {"__name__": "kernel", "__file__": str(path)}
        exec(compile(KERNEL, str(path), "exec"), names)
        return names["double"]

    return again


def test_a_compilation_is_announced_in_one_line_and_its_time_the_next_time(kernel, capsys, tmp_path):
    with compiling.announced("a walk"):
        assert kernel()(1.0) == 4.0
    assert capsys.readouterr().err == ("idcontrol: compiling kernels for a walk, once; that takes a minute or two\n")
    took = compiling._remembered()["a walk"]
    for cached in tmp_path.rglob("*.nb[ic]"):
        cached.unlink()
    compiling._file().write_text('{"a walk": 41.7, "another": 3.0}')
    with compiling.announced("a walk"):
        assert kernel()(1.0) == 4.0
    assert "once; it took 42 s last time\n" in capsys.readouterr().err
    # a few kernels say nothing of all: the longer time is kept
    assert took < 20.0
    assert compiling._remembered() == {"a walk": 41.7, "another": 3.0}


def test_kernels_from_the_cache_and_kernels_that_are_never_cached_are_not_announced(kernel, capsys):
    kernel()(1.0)
    with compiling.announced("a walk"):
        assert kernel()(1.0) == 4.0
        assert njit(lambda x: x - 1.0)(np.float64(2.0)) == 1.0
    assert capsys.readouterr().err == ""


def test_a_file_of_times_that_is_damaged_is_no_reason_to_stop(kernel, capsys):
    compiling._file().parent.mkdir(parents=True)
    compiling._file().write_text('["not", "times"]')
    with compiling.announced("a walk"):
        kernel()(1.0)
    assert "that takes a minute or two" in capsys.readouterr().err
    assert "a walk" in compiling._remembered()
