"""Clocks of a run stand still while kernels are compiled."""

import time
from types import SimpleNamespace

import pytest
from numba import config
from numba.core import event

from idcontrol.kernels import stopwatch
from idcontrol.kernels.hooks import PLAIN
from idcontrol.kernels.jit import njit

hooked = pytest.mark.skipif(PLAIN or config.DISABLE_JIT, reason="numba.njit stops no clock")
CLOCKS = ((time.perf_counter, stopwatch.wall_s), (time.process_time, stopwatch.processor_s))


class Hands(event.Listener):
    """A clock that advances by a second at the beginning of each compilation."""

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
    """Replacements of the system's clocks for the stopwatch."""
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
    assert stops() == pytest.approx(since, abs=1e-9)  # rounding of the paused seconds


@pytest.mark.parametrize(("clock", "stops"), CLOCKS)
def test_all_other_time_is_counted(clock, stops):
    since, began = stops(), clock()
    while clock() - began < 0.02:
        pass
    assert stops() - since >= 0.02
