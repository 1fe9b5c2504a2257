"""Clocks of a run stand still while kernels are compiled."""

from __future__ import annotations

import time

import pytest
from numba import config

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
