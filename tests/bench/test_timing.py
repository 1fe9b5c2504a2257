"""Alternating timing."""

import gc
from types import SimpleNamespace

import numpy as np
import pytest

from idcontrol.bench import timing
from idcontrol.bench.measurement import Benchmark, Effort, Peer, measure
from idcontrol.bench.timing import Job, in_turns
from idcontrol.loop.clock import VirtualClock


def test_jobs_take_turns_state_by_state_and_each_pass_begins_with_a_reset():
    log = []
    jobs = [
        Job(
            run=lambda i, name=name: log.append((name, i)),
            prepare=lambda i, name=name: log.append((f"prepare {name}", i)),
            reset=lambda name=name: log.append((f"reset {name}", None)),
        )
        for name in "ab"
    ]
    times, state_of = in_turns(jobs, states=2, samples=3, budget_s=10.0)
    one = [(f"{word}{name}", i) for i in (0, 1) for name in "ab" for word in ("prepare ", "")]
    resets = [("reset a", None), ("reset b", None)]
    assert log == resets + one + resets + one[:4]
    assert times.shape == (3, 2)
    assert state_of.tolist() == [0, 1, 0]


@pytest.fixture(autouse=True)
def no_garbage(monkeypatch):
    """Keep the collector from searching other tests' objects after each pass."""
    monkeypatch.setattr(timing.gc, "collect", lambda: 0)


@pytest.fixture
def clock(monkeypatch):
    """The clock of the timed jobs, which advances only by `spend`."""
    clock = VirtualClock()
    monkeypatch.setattr(timing, "time", SimpleNamespace(perf_counter_ns=clock.now))
    return clock


def test_preparation_is_not_timed(clock):
    job = Job(run=lambda i: clock.spend(2_000), prepare=lambda i: clock.spend(5_000_000))
    times, _ = in_turns([job], states=4, samples=8, budget_s=10.0)
    np.testing.assert_array_equal(times, np.full((8, 1), 2.0))  # us


def test_the_budget_ends_a_slow_job_after_one_sample_at_least(clock):
    job = Job(run=lambda i: clock.spend(10_000_000))
    times, _ = in_turns([job], states=100, samples=100, budget_s=1e-6)
    np.testing.assert_array_equal(times, [[1e4]])


@pytest.mark.parametrize("collecting", [True, False])
def test_garbage_collection_is_unchanged(collecting):
    before = gc.isenabled()
    try:
        (gc.enable if collecting else gc.disable)()
        in_turns([Job(run=lambda i: gc.isenabled())], states=2, samples=2, budget_s=1.0)
        assert gc.isenabled() is collecting
    finally:
        (gc.enable if before else gc.disable)()


def benchmark(job, states, **more):
    floor = Job(run=lambda i: None)
    return Benchmark(what="job", contacts=4, job=job, floor=floor, states=states, **more)


def row(theirs, *, tolerance=0.1, bar=None, counted=None):
    ours = Job(run=lambda i: float(i))
    peer = Peer(
        name="peer",
        job=Job(run=lambda i: theirs(i)),
        difference=lambda a, b: abs(a - b),
        tolerance=tolerance,
        unit="m/s",
        solved=lambda answer: answer is not None,
    )
    return measure(benchmark(ours, 10, counted=counted, bar=bar), Effort(samples=50, budget_s=60.0), peer)


def test_answers_that_differ_are_shown_not_hidden():
    assert row(lambda i: i + 0.05).agrees
    off = row(lambda i: i + (0.5 if i == 7 else 0.0))
    assert not off.agrees
    assert off.difference.startswith("5.0e-01")
