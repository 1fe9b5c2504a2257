"""Alternating timing of several jobs over a sequence of states."""

import gc
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from idcontrol.types import Array, Integers


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A piece of work for each state of a sequence.

    Attributes:
        run: The timed part: takes the index of a state and returns an answer.
        prepare: Untimed preparation, called with the same index before `run`.
        reset: Forgets all earlier states.
    """

    run: Callable[[int], Any]
    prepare: Callable[[int], None] = lambda state: None
    reset: Callable[[], None] = lambda: None


def answers(job: Job, count: int, budget_s: float = np.inf) -> list[Any]:
    """Return answers of a job for the first `count` states, in order; stop early once `budget_s` [s] has passed."""
    job.reset()
    results: list[Any] = []
    end = time.perf_counter() + budget_s
    for state in range(count):
        if results and time.perf_counter() > end:
            break
        job.prepare(state)
        results.append(job.run(state))
    return results


def in_turns(jobs: Sequence[Job], states: int, samples: int, budget_s: float) -> tuple[Array, Integers]:
    """Time all jobs alternately, state by state, and repeat the sequence until there are enough samples.

    Args:
        jobs: The jobs; all are reset at the beginning of every pass over the sequence.
        states: Length of the sequence.
        samples: Largest number of measurements of each job.
        budget_s: Time after which to stop early [s].

    Returns:
        Times, shape (taken, jobs) [us], and the index of the state of each row, shape (taken,); taken ≤ `samples`.
    """
    taken = np.empty((samples, len(jobs)))
    state_of = np.empty(samples, dtype=np.int64)
    clock, count = time.perf_counter_ns, 0
    collecting = gc.isenabled()
    gc.disable()
    try:
        end = clock() + int(1e9 * budget_s)
        while count < samples:
            for job in jobs:
                job.reset()
            for state in range(min(states, samples - count)):
                for at, job in enumerate(jobs):
                    job.prepare(state)
                    began = clock()
                    job.run(state)
                    taken[count, at] = clock() - began
                state_of[count] = state
                count += 1
                if clock() > end:
                    return 1e-3 * taken[:count], state_of[:count]
            gc.collect()
    finally:
        if collecting:
            gc.enable()
    return 1e-3 * taken, state_of


def percentiles(times: Array) -> dict[str, float]:
    """Return the median, 99th and 99.9th percentile of `times`, in their unit."""
    p50, p99, p999 = np.percentile(times, (50.0, 99.0, 99.9))
    return {"p50": float(p50), "p99": float(p99), "p999": float(p999)}
