"""Before kernels are compiled, a line says so."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
import time
from types import SimpleNamespace

import numpy as np
import pytest
from numba import config, njit
from numba.core import event

from idcontrol.kernels import compiling
from tests import GUARD_S

compiles = pytest.mark.skipif(config.DISABLE_JIT, reason="nothing is compiled")

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


@compiles
def test_a_compilation_is_announced_in_one_line_and_its_time_the_next_time(kernel, capsys, tmp_path):
    with compiling.announced("a walk"):
        assert kernel()(1.0) == 4.0
    assert capsys.readouterr().err == (
        "idcontrol: compiling kernels for a walk, once; the first ones ever take about two minutes\n"
    )
    took = compiling._remembered()["a walk"]
    for cached in tmp_path.rglob("*.nb[ic]"):
        cached.unlink()
    compiling._file().write_text('{"a walk": 41.7, "another": 3.0}')
    with compiling.announced("a walk"):
        assert kernel()(1.0) == 4.0
    assert "once; all took 42 s of processor time last time\n" in capsys.readouterr().err
    # a few kernels say nothing of all: the longer time is kept
    assert took < 20.0
    assert compiling._remembered() == {"a walk": 41.7, "another": 3.0}


@compiles
def test_kernels_from_the_cache_and_kernels_that_are_never_cached_are_not_announced(kernel, capsys):
    kernel()(1.0)
    with compiling.announced("a walk"):
        assert kernel()(1.0) == 4.0
        assert njit(lambda x: x - 1.0)(np.float64(2.0)) == 1.0
    assert capsys.readouterr().err == ""


class Compiler:
    """Compiles as Numba's events tell of it, on a clock that is set by hand; its memory is a file of `tmp_path`."""

    def __init__(self, tmp_path, monkeypatch) -> None:
        self.now = 100.0
        self.memory = tmp_path / "idcontrol" / "compiled_cpu_s.json"
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
        monkeypatch.setattr(compiling.time, "thread_time", lambda: self.now)

    @contextlib.contextmanager
    def kernel(self, seconds, cached=True):
        """A kernel that takes so long, and as long as those that are compiled meanwhile."""
        dispatcher = SimpleNamespace(_cache=SimpleNamespace(cache_path="here" if cached else None))
        with event.trigger_event("numba:compile", data={"dispatcher": dispatcher}):
            self.now += seconds
            yield

    def remembered(self):
        return json.loads(self.memory.read_text()) if self.memory.exists() else {}


@pytest.fixture
def compiler(tmp_path, monkeypatch):
    return Compiler(tmp_path, monkeypatch)


def test_what_is_remembered_is_the_time_of_all_kernels_each_counted_once(compiler, capsys):
    with compiling.announced("a walk"):
        with compiler.kernel(2.0), compiler.kernel(3.0), compiler.kernel(0.5):
            pass
        compiler.now += 50.0  # a walk
        with compiler.kernel(1.25):
            pass
    with compiler.kernel(7.0):  # nobody asked
        pass
    assert compiler.remembered() == {"a walk": 6.8}
    line = "idcontrol: compiling kernels for a walk, once; "
    assert capsys.readouterr().err == f"{line}the first ones ever take about two minutes\n"
    with compiling.announced("a walk"), compiler.kernel(0.0):
        pass
    with compiling.announced("a grasp"), compiler.kernel(0.0):
        pass
    assert capsys.readouterr().err == (
        f"{line}all took 7 s of processor time last time\n"
        "idcontrol: compiling kernels for a grasp, once; others took up to 7 s of processor time\n"
    )


@pytest.mark.parametrize(
    ("seconds", "last", "kept"),
    [
        (1.99, None, None),
        (2.0, None, 2.0),
        (19.9, 40.0, 40.0),  # a few kernels of all
        (20.0, 40.0, 20.0),
        (50.0, 40.0, 50.0),
        (1.99, 3.0, 3.0),
    ],
)
def test_times_are_remembered_that_are_long_and_most_of_the_last(compiler, seconds, last, kept):
    compiler.memory.parent.mkdir()
    compiler.memory.write_text(json.dumps({"other": 3.0} | ({} if last is None else {"a walk": last})))
    with compiling.announced("a walk"), compiler.kernel(seconds):
        pass
    assert compiler.remembered() == {"other": 3.0} | ({} if kept is None else {"a walk": kept})


def test_kernels_that_are_compiled_every_time_are_neither_announced_nor_remembered(compiler, capsys):
    with compiling.announced("a walk"), compiler.kernel(10.0, cached=False):
        pass
    assert (capsys.readouterr().err, compiler.remembered()) == ("", {})


def test_times_are_kept_below_the_home_where_no_folder_for_caches_is_named(compiler, monkeypatch, tmp_path):
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for _ in range(2):  # the folder is made, and may be there
        with compiling.announced("a walk"), compiler.kernel(10.0):
            pass
    assert json.loads((tmp_path / "home/.cache/idcontrol/compiled_cpu_s.json").read_text()) == {"a walk": 10.0}


def test_a_home_that_cannot_be_written_to_is_no_reason_to_stop(compiler):
    compiler.memory.parent.write_text("a file, no folder")
    with compiling.announced("a walk"), compiler.kernel(10.0):
        pass
    assert compiler.memory.parent.read_text() == "a file, no folder"


def test_no_home_is_no_reason_to_stop(compiler, monkeypatch, capsys):
    """A user without an entry of its own, as in containers, and without HOME."""

    def nowhere():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(compiling.Path, "home", nowhere)
    with compiling.announced("a walk"), compiler.kernel(10.0):
        pass
    assert "the first ones ever take about two minutes" in capsys.readouterr().err


@pytest.mark.parametrize("damaged", ['["not", "times"]', '{"a walk": null}', '{"a walk": "long"}', "{", b"\xff"])
def test_a_file_of_times_that_is_damaged_is_written_anew(compiler, capsys, damaged):
    compiler.memory.parent.mkdir()
    compiler.memory.write_bytes(damaged if isinstance(damaged, bytes) else damaged.encode())
    with compiling.announced("a walk"), compiler.kernel(10.0):
        pass
    assert "the first ones ever take about two minutes" in capsys.readouterr().err
    assert compiler.remembered() == {"a walk": 10.0}


HELPS = """
import pathlib, sys
told = pathlib.Path(sys.argv[1])
told.write_text("begun")
sys.stdin.read()
told.write_text("over")
"""


@pytest.fixture
def helper(tmp_path, monkeypatch):
    """A command that writes what it does into a file, and that file; all cores are idle."""
    monkeypatch.setattr(compiling.os, "getloadavg", lambda: (0.0, 0.0, 0.0))
    monkeypatch.setattr(compiling.os, "sched_getaffinity", lambda _: {0, 1})
    told = tmp_path / "told"
    return [sys.executable, "-c", HELPS, str(told)], told


def test_a_helper_begins_once_compiling_has_taken_long_and_is_over_with_it(compiler, helper):
    command, told = helper
    with compiling.announced("a walk", command):
        with compiler.kernel(2.5), compiler.kernel(0.0):
            assert not told.exists()
        for _ in range(2):
            with compiler.kernel(0.0):
                deadline = time.monotonic() + 20.0
                while not told.exists() and time.monotonic() < deadline:
                    time.sleep(0.01)
    assert told.read_text() == "over"


@pytest.mark.parametrize(("load", "seconds"), [(0.0, 1.0), (1.2, 10.0)])
def test_what_is_soon_compiled_or_has_no_idle_core_has_no_helper(compiler, helper, monkeypatch, load, seconds):
    monkeypatch.setattr(compiling.os, "getloadavg", lambda: (load, 0.0, 0.0))
    command, told = helper
    with compiling.announced("a walk", command):
        for _ in range(2):
            with compiler.kernel(seconds / 2.0):
                pass
    assert not told.exists()


def test_where_no_other_process_can_be_made_nothing_helps(compiler, helper):
    with compiling.announced("a walk", ["no such command"]):
        for _ in range(3):
            with compiler.kernel(5.0):
                pass
    assert compiler.remembered() == {"a walk": 15.0}


def test_a_helper_that_does_not_end_is_killed(compiler, helper, monkeypatch):
    monkeypatch.setattr(compiling, "GRACE_S", 0.2)
    start, helpers = subprocess.Popen, []

    def started(*words, **pipes):
        helpers.append(start(*words, **pipes))
        return helpers[-1]

    monkeypatch.setattr(compiling.subprocess, "Popen", started)
    with compiling.announced("a walk", [sys.executable, "-c", f"import time; time.sleep({GUARD_S})"]):
        for _ in range(2):
            with compiler.kernel(5.0):
                pass
    assert [helper.returncode for helper in helpers] == [-signal.SIGKILL]
