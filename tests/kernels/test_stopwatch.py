"""Clocks of a run stand still while kernels are compiled."""

from __future__ import annotations

import contextlib
import threading
import time
from types import SimpleNamespace

import pytest
from numba import config
from numba.core import event
from numba.core.compiler_lock import global_compiler_lock

from idcontrol.kernels import stopwatch
from idcontrol.kernels.hooks import PLAIN
from idcontrol.kernels.jit import njit

hooked = pytest.mark.skipif(PLAIN or config.DISABLE_JIT, reason="numba.njit stops no clock")
CLOCKS = ((time.perf_counter, stopwatch.wall_s), (time.process_time, stopwatch.processor_s))


class Hands(event.Listener):
    """A clock whose hands move by a second as each function begins to be compiled."""

    def __init__(self):
        self.now, self.looked = 100.0, lambda: None

    def read(self):
        now = self.now
        self.looked()
        return now

    def on_start(self, event):
        self.now += 1.0

    def on_end(self, event):
        pass


@pytest.fixture
def hands(monkeypatch):
    """What the stopwatch looks at instead of the system's clocks."""
    hands = Hands()
    monkeypatch.setattr(stopwatch, "time", SimpleNamespace(perf_counter=hands.read, process_time=hands.read))
    with event.install_listener("numba:compile", hands):
        yield hands


@hooked
@pytest.mark.parametrize("stops", [stops for _, stops in CLOCKS])
def test_time_in_which_functions_are_compiled_is_not_counted(hands, stops):
    inner = njit()(lambda x: x + 1.0)
    outer = njit()(lambda x: 2.0 * inner(x))
    began, since = hands.now, stops()
    assert outer(1.0) == 4.0
    assert hands.now == began + 2.0
    assert stops() == since


@pytest.mark.parametrize(("clock", "stops"), CLOCKS)
def test_all_other_time_is_counted(clock, stops):
    since, began = stops(), clock()
    while clock() - began < 0.02:
        pass
    assert stops() - since >= 0.02


@contextlib.contextmanager
def another_thread(within):
    """Another thread is within a context; ended by the event, or with this."""
    begun, over = threading.Event(), threading.Event()

    def wait():
        with within:
            begun.set()
            over.wait()

    thread = threading.Thread(target=wait)
    thread.start()
    begun.wait()
    try:
        yield over
    finally:
        over.set()
        thread.join()


@pytest.mark.parametrize(("clock", "stops"), CLOCKS)
def test_time_in_which_another_thread_compiles_is_counted(clock, stops):
    """A run of this thread goes on, and would end before it began."""
    with another_thread(stopwatch.stopped()):
        since, began = stops(), clock()
        while clock() - began < 0.02:
            pass
    assert stops() - since >= 0.02


@hooked
def test_time_in_which_a_function_waits_until_others_are_compiled_is_not_counted(hands):
    @contextlib.contextmanager
    def compiling():
        with global_compiler_lock:
            yield
            hands.now += 60.0

    with another_thread(compiling()) as over:
        since = stopwatch.wall_s()
        hands.looked = over.set  # others are done only once the function's clock has stopped
        assert njit()(lambda x: x + 1.0)(1.0) == 2.0
    assert stopwatch.wall_s() == since
