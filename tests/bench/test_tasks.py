"""Times of steps with whole-body tasks."""

import os
import sys

import pytest

from idcontrol.bench import tasks
from idcontrol.bench.measurement import Effort
from idcontrol.errors import InputError
from tests.parameters import one_fast

FEW = Effort(samples=50, budget_s=0.05)
TSID = os.environ.get("TSID_PYTHON")


@pytest.mark.slow  # rows of `bench solvers` are timed in `make test`
def test_cases_need_no_program_and_are_timed_without_tsid(monkeypatch):
    monkeypatch.delenv("TSID_PYTHON", raising=False)
    timings = list(tasks.rows(None, FEW))
    assert [row.benchmark.what for row in timings] == [case.what for case in tasks.CASES]
    for row, case in zip(timings, tasks.CASES, strict=True):
        assert row.benchmark.note == ("demand free, sticking" if case.tasks else "sticking")
        assert row.us["p50"] > 0.0
        assert row.peer is None


@pytest.mark.parametrize("python", one_fast(("/no/such/python", sys.executable), sys.executable))
def test_an_interpreter_without_tsid_is_refused_in_one_line(python, monkeypatch):
    monkeypatch.setenv("TSID_PYTHON", python)
    with pytest.raises(InputError, match="does not run TSID") as caught:
        next(iter(tasks.rows(None, FEW)))
    assert "\n" not in str(caught.value)


@pytest.mark.skipif(TSID is None, reason="TSID_PYTHON names no interpreter with TSID")
def test_tsid_finds_the_same_accelerations():
    for row in tasks.rows(None, FEW):
        assert row.peer is None or row.agrees, row.difference
