"""Clocks of a run stand still while kernels are compiled."""

from __future__ import annotations

import contextlib
import threading
import time

import pytest
from numba import config
from numba.core.compiler_lock import global_compiler_lock

from idcontrol.kernels import stopwatch
from idcontrol.kernels.jit import njit

CLOCKS = ((time.perf_counter, stopwatch.wall_s), (time.process_time, stopwatch.processor_s))


@pytest.mark.skipif(config.DISABLE_JIT, reason="nothing is compiled")
@pytest.mark.parametrize(("clock", "stops"), CLOCKS)
def test_time_in_which_functions_are_compiled_is_not_counted(clock, stops):
    inner = njit()(lambda x: x + 1.0)
    outer = njit()(lambda x: 2.0 * inner(x))
    began, since = clock(), stops()
    assert outer(1.0) == 4.0
    took, counted = clock() - began, stops() - since
    assert 0.0 <= counted < 0.2 * took  # Numba looks at the arguments, and the call itself takes microseconds


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


@pytest.mark.skipif(config.DISABLE_JIT, reason="nothing is compiled")
def test_time_in_which_a_function_waits_until_others_are_compiled_is_not_counted():
    with another_thread(global_compiler_lock) as over:
        threading.Timer(0.3, over.set).start()
        began, since = time.perf_counter(), stopwatch.wall_s()
        assert njit()(lambda x: x + 1.0)(1.0) == 2.0
        took, counted = time.perf_counter() - began, stopwatch.wall_s() - since
    assert took > 0.25
    assert 0.0 <= counted < 0.2 * took
