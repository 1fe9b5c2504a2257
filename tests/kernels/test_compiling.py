"""Long compilation is announced in one line, and helped by a process if a core is idle."""

import contextlib
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

LINE = "idcontrol: compiling kernels for a walk: a minute or two of processor time the first time, none later\n"


@pytest.mark.skipif(config.DISABLE_JIT, reason="nothing is compiled")
def test_a_compilation_of_numba_is_announced(monkeypatch, capsys):
    monkeypatch.setattr(compiling, "NOTICED_S", 0.0)
    inner = njit(lambda x: x + 1.0)
    outer = njit(lambda x: 2.0 * inner(x))
    with compiling.announced("a walk"):
        assert outer(np.float64(1.0)) == 4.0
    assert capsys.readouterr().err == LINE


class Compiler:
    """Simulates Numba's compilation events, with a clock that tests set."""

    def __init__(self, monkeypatch) -> None:
        self.now = 100.0
        monkeypatch.setattr(compiling.time, "thread_time", lambda: self.now)

    @contextlib.contextmanager
    def kernel(self, seconds):
        """A kernel that takes this time, in addition to the kernels compiled within it."""
        with event.trigger_event("numba:compile", data={"dispatcher": SimpleNamespace()}):
            self.now += seconds
            yield


@pytest.fixture
def compiler(monkeypatch):
    return Compiler(monkeypatch)


def test_only_what_takes_longer_than_a_second_is_announced_and_once(compiler, capsys):
    with compiling.announced("a walk"):
        with compiler.kernel(0.4), compiler.kernel(0.5):
            pass
        compiler.now += 50.0  # a walk
        with compiler.kernel(0.2):
            assert capsys.readouterr().err == ""
        for _ in range(2):
            with compiler.kernel(0.0):
                pass
    assert capsys.readouterr().err == LINE


def test_time_in_an_unfinished_compilation_counts(compiler, capsys):
    with compiling.announced("a walk"), compiler.kernel(1.5), compiler.kernel(0.0):
        assert capsys.readouterr().err == LINE


HELPS = """
import pathlib, sys
told = pathlib.Path(sys.argv[1])
told.write_text("begun")
sys.stdin.read()
told.write_text("over")
"""


@pytest.fixture
def helper(tmp_path, monkeypatch):
    """A command that logs its start and end in a file, and the file; all cores are idle."""
    monkeypatch.setattr(compiling.os, "getloadavg", lambda: (0.0, 0.0, 0.0))
    monkeypatch.setattr(compiling.os, "sched_getaffinity", lambda _: {0, 1})
    log = tmp_path / "log"
    return [sys.executable, "-c", HELPS, str(log)], log


def test_a_helper_begins_once_compiling_has_taken_long_and_is_over_with_it(compiler, helper):
    command, log = helper
    with compiling.announced("a walk", command):
        with compiler.kernel(2.5), compiler.kernel(0.0):
            assert not log.exists()
        for _ in range(2):
            with compiler.kernel(0.0):
                deadline = time.monotonic() + GUARD_S
                while not log.exists() and time.monotonic() < deadline:
                    time.sleep(0.01)
    assert log.read_text() == "over"


@pytest.mark.parametrize(("load", "seconds"), [(0.0, 1.0), (1.2, 10.0)])
def test_short_compilations_and_busy_computers_get_no_helper(compiler, helper, monkeypatch, load, seconds):
    monkeypatch.setattr(compiling.os, "getloadavg", lambda: (load, 0.0, 0.0))
    command, log = helper
    with compiling.announced("a walk", command):
        for _ in range(2):
            with compiler.kernel(seconds / 2.0):
                pass
    assert not log.exists()


def test_without_other_processes_compiling_is_serial(compiler, helper, capsys):
    with compiling.announced("a walk", ["no such command"]):
        for _ in range(3):
            with compiler.kernel(5.0):
                pass
    assert capsys.readouterr().err == LINE


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
