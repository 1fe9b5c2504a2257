"""Progress of a long call if stderr is not a terminal."""

import pytest

from idcontrol.kernels import stopwatch
from idcontrol.sweeps import progress


@pytest.fixture
def clock(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(stopwatch.time, "perf_counter", lambda: now[0])
    return now


def test_a_long_call_reports_progress_every_half_minute(clock, capsys):
    with progress.progress_bar("scaling") as update:
        for second in range(100):
            clock[0] = 100.0 + second
            update(second / 120.0)
    assert capsys.readouterr().err.splitlines() == [
        "idcontrol: scaling: 25 %, 90 s left",
        "idcontrol: scaling: 50 %, 60 s left",
        "idcontrol: scaling: 75 %, 30 s left",
    ]


def test_the_remaining_time_does_not_count_compiling(clock, capsys):
    with progress.progress_bar("scaling") as update:
        with stopwatch.stopped():
            clock[0] += 300.0
        clock[0] += 10.0
        update(0.25)
    assert capsys.readouterr().err == "idcontrol: scaling: 25 %, 30 s left\n"


def test_the_first_estimate_leaves_out_the_preparation(clock, capsys):
    with progress.progress_bar("trot") as update:
        clock[0] += 36.0  # kernels are loaded, helpers compile
        for step in range(1, 30_001):
            update(step / 30_000)
            clock[0] += 0.002
    assert capsys.readouterr().err.splitlines() == ["idcontrol: trot: 0 %", "idcontrol: trot: 50 %, 30 s left"]


def test_before_the_first_progress_the_remaining_time_is_unknown(clock, capsys):
    with progress.progress_bar("scaling") as update:
        clock[0] += progress.LINE_EVERY_S
        update(0.0)
    assert capsys.readouterr().err == "idcontrol: scaling: 0 %\n"


@pytest.mark.parametrize("quiet", [True, False])
def test_a_short_call_and_a_quiet_one_say_nothing(quiet, clock, capsys):
    with progress.progress_bar("scaling", quiet) as update:
        clock[0] += 1000.0 if quiet else 0.9 * progress.LINE_EVERY_S
        update(0.5)
    assert capsys.readouterr().err == ""
