"""Cycles: absolute deadlines; missed cycles are counted and skipped, never bunched."""

from __future__ import annotations

import itertools
import time
from collections import deque

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from idcontrol.loop.clock import AWAKE_NS, NS, SPIN_NS, Pacer, VirtualClock, WallClock

P = NS // 1000


def test_cycles_are_due_at_multiples_of_the_period_whatever_each_one_costs():
    clock = VirtualClock()
    clock.spend(12_345)
    pacer, rng = Pacer(clock, P), np.random.default_rng(0)
    for k in range(1, 1000):
        cycle = pacer.wait()
        assert (cycle.index, cycle.due, cycle.woke, cycle.missed) == (k, 12_345 + k * P, 12_345 + k * P, 0)
        clock.spend(int(rng.integers(0, P)))


def test_cycles_are_half_a_period_apart_or_more_and_skipped_cycles_are_counted():
    clock, rng = VirtualClock(), np.random.default_rng(2)
    pacer = Pacer(clock, P)
    woke, index, missed = [], [], 0
    for _ in range(2000):
        cycle = pacer.wait()
        woke.append(cycle.woke)
        index.append(cycle.index)
        missed += cycle.missed
        clock.spend(int(rng.exponential(P)))
    assert np.diff(woke).min() >= P // 2
    assert missed == index[-1] - len(index)
    assert missed > 500


@pytest.mark.parametrize(
    ("late", "index"), [(0, 2), (P // 2, 2), (P // 2 + 1, 3), (P, 3), (P * 3 // 2 - 1, 3), (P * 3 // 2 + 1, 4)]
)
def test_a_cycle_that_is_late_by_more_than_half_a_period_is_skipped(late, index):
    clock = VirtualClock()
    pacer = Pacer(clock, P)
    pacer.wait()
    clock.spend(P + late)
    cycle = pacer.wait()
    assert (cycle.index, cycle.missed, cycle.due) == (index, index - 2, index * P)
    assert cycle.woke == max(2 * P + late, index * P)


@pytest.mark.parametrize(("by", "jumped"), [(-1, True), (0, False), (NS, False), (NS + 1, True)])
def test_a_clock_has_jumped_if_it_goes_back_or_ahead_by_more_than_a_second(by, jumped):
    clock = VirtualClock()
    pacer = Pacer(clock, P)
    pacer.wait()
    clock.jump(by)
    assert pacer.wait().jumped is jumped


def test_events_on_a_virtual_clock_happen_in_chronological_order():
    clock, seen = VirtualClock(), []
    clock.every(3, lambda: seen.append(("three", clock.now())))
    clock.every(2, lambda: seen.append(("two", clock.now())))
    clock.at(5, lambda: seen.append(("five", clock.now())))
    clock.sleep_until(6)
    # simultaneous calls are made in the order in which they were registered
    assert seen == [("two", 2), ("three", 3), ("two", 4), ("five", 5), ("three", 6), ("two", 6)]


@pytest.mark.parametrize("pace", [0.5, 1.0])
def test_a_paced_simulation_is_no_faster_than_its_pace_on_the_wall_clock(pace):
    wall, clock = WallClock(), VirtualClock(pace=pace)
    began = wall.now()
    for k in range(1, 5):
        clock.sleep_until(k * NS // 100)
        assert wall.now() - began >= k * NS // 100 / pace


@pytest.mark.parametrize("awake", [SPIN_NS, AWAKE_NS])
def test_the_wall_clock_does_not_return_early(awake):
    clock = WallClock(awake=awake)
    for _ in range(20):
        deadline = clock.now() + NS // 2000
        clock.sleep_until(deadline)
        assert clock.now() >= deadline


def test_a_clock_that_keeps_awake_leaves_half_of_a_wait_to_others():
    clock, wait = WallClock(awake=AWAKE_NS), AWAKE_NS
    began = time.thread_time_ns()
    for _ in range(100):
        clock.sleep_until(clock.now() + wait)
    assert time.thread_time_ns() - began < 0.9 * 100 * wait


class Undisturbed:
    """Functions of `time` on a computer whose sleeps end on time; each read of its clock takes 1 µs."""

    def __init__(self):
        self.ns = 0

    def monotonic_ns(self):
        self.ns += 1000
        return self.ns

    def time_ns(self):
        return 0

    def sleep(self, seconds):
        self.ns += round(seconds * NS)


def test_meanwhile_is_called_while_the_clock_spins_but_not_while_it_sleeps(monkeypatch):
    monkeypatch.setattr("idcontrol.loop.clock.time", undisturbed := Undisturbed())
    clock, calls = WallClock(awake=AWAKE_NS), []
    clock.meanwhile = lambda: calls.append(undisturbed.ns)
    deadline = clock.now() + 20 * AWAKE_NS
    clock.sleep_until(deadline)
    assert len(calls) == AWAKE_NS // 1000 - 1  # at the last read the deadline is reached
    assert deadline - AWAKE_NS <= calls[0] <= calls[-1] < deadline


def test_beforehand_is_called_once_in_each_wait_before_the_clock_spins():
    clock, calls = WallClock(awake=AWAKE_NS), []
    clock.beforehand = lambda deadline: calls.append((deadline, clock.now()))
    clock.meanwhile = lambda: calls.append(None)
    deadline = clock.now() + 20 * AWAKE_NS
    clock.sleep_until(deadline)
    assert calls[0][0] == deadline
    assert calls[0][1] >= deadline - AWAKE_NS
    assert set(calls[1:]) <= {None}


def test_the_wall_clock_keeps_its_mean_period():
    """The mean holds however late single cycles are on a busy computer, because deadlines are absolute."""
    pacer = Pacer(WallClock(), P)
    cycles = [pacer.wait() for _ in range(200)]
    for before, after in itertools.pairwise(cycles):
        assert after.due - before.due == (after.index - before.index) * P
    assert all(cycle.woke >= cycle.due for cycle in cycles)


# --- cycles that follow datagrams ---


def followed(news, cycles, cost=P // 3):
    """Return `cycles` cycles that follow datagrams, each with the arrival of its newest datagram [ns] or None.

    Datagrams arrive at the rising times `news` [ns]. A tick takes `cost` [ns], or `cost()` [ns].
    """
    clock, waiting, taken, log = VirtualClock(), deque(news), None, []

    def heard(deadline, due):
        nonlocal taken
        clock.sleep_until(max(clock.now(), min(deadline, waiting[0] if waiting else deadline)))
        fresh = False
        while waiting and waiting[0] <= clock.now():
            taken, fresh = waiting.popleft(), True
        return fresh

    pacer = Pacer(clock, P, heard)
    for _ in range(cycles):
        log.append((pacer.wait(), taken))
        clock.spend(cost() if callable(cost) else cost)
    return log


LOCKED = 150
"""Number of cycles until they follow, from any start: one period at a hundredth per cycle, and 50 to converge."""


@given(phase=st.integers(0, P - 1), drift=st.floats(-1e-3, 1e-3), cost=st.integers(0, P // 2), seed=st.integers(0, 99))
def test_each_datagram_is_taken_on_arrival_for_any_phase_and_drift(phase, drift, cost, seed):
    """Jitter is up to 0.15 periods; datagrams are in order, and each cycle takes the datagram that belongs to it."""
    late = np.random.default_rng(seed).uniform(-0.15, 0.15, 400)
    news = (phase + (1.0 + drift) * P * (1 + np.arange(400)) + P * late).astype(int)
    cycles = followed(news.tolist(), 300, cost)[LOCKED:]
    assert all(cycle.woke == came for cycle, came in cycles)
    assert sum(cycle.missed for cycle, _ in cycles) == 0
    assert (np.diff([came for _, came in cycles]) > 0).all()


def test_cycles_continue_without_datagrams_and_follow_the_next_one_at_once():
    rng = np.random.default_rng(1)
    lost = rng.random(1000) < 0.2
    news = 0.4 * P + 1.0005 * P * np.arange(1000)
    cycles = followed(news[~lost].astype(int).tolist(), 800)[LOCKED:]
    fresh = np.array([cycle.woke == came for cycle, came in cycles])
    assert abs(fresh.mean() - 0.8) < 0.05
    waited = [cycle.woke - cycle.due for (cycle, _), new in zip(cycles, fresh, strict=True) if not new]
    assert set(waited) == {P // 4}  # as long as its patience
    assert sum(cycle.missed for cycle, _ in cycles) == 0


def test_a_datagram_too_late_for_a_tick_is_taken_by_the_next_tick():
    news = (0.4 * P + P * np.arange(300)).astype(int)
    news[200] += int(0.6 * P)
    late = followed(news.tolist(), 280)
    times = [came for _, came in late]
    assert times.count(news[199]) == 2
    assert news[200] not in times  # the datagram of the next cycle came soon after, and is newer
    assert news[201] in times


@pytest.mark.parametrize("ratio", [0.0, 0.5, 1.6, 2.0, 3.7])
def test_a_loop_keeps_its_rate_whatever_the_rate_of_its_machine(ratio):
    """`ratio` is in datagrams per period; the cycles yield by at most a hundredth of a period."""
    news = (P * np.arange(1, 1 + int(1200 * ratio)) / ratio).astype(int).tolist() if ratio else []
    cycles = [cycle for cycle, _ in followed(news, 1000)]
    mean = (cycles[-1].woke - cycles[LOCKED].woke) / (cycles[-1].index - cycles[LOCKED].index)
    assert abs(mean / P - 1.0) < (1e-3 if ratio in (0.0, 0.5, 2.0) else 0.0101)
    assert sum(cycle.missed for cycle in cycles) == 0


@given(seed=st.integers(0, 1000))
def test_cycles_that_follow_datagrams_are_half_a_period_apart_or_more(seed):
    rng = np.random.default_rng(seed)
    news = np.cumsum(rng.exponential(P, 300)).astype(int).tolist()
    cycles = [cycle for cycle, _ in followed(news, 200, lambda: int(rng.exponential(0.7 * P)))]
    assert np.diff([cycle.woke for cycle in cycles]).min() >= P // 2
    assert sum(cycle.missed for cycle in cycles) == cycles[-1].index - len(cycles)


@pytest.mark.parametrize("by", [-NS, -P, 5 * NS])
@pytest.mark.parametrize("follows", [False, True])
def test_cycles_go_on_after_a_jump_of_the_clock(by, follows):
    clock = VirtualClock()

    def heard(deadline, due):
        clock.sleep_until(max(clock.now(), deadline))
        return False

    pacer = Pacer(clock, P, heard if follows else None)
    for _ in range(10):
        pacer.wait()
    clock.jump(by)
    now, cycle = clock.now(), pacer.wait()
    assert cycle.jumped
    assert (cycle.index, cycle.missed, cycle.due) == (11, 0, now + P)
    after = pacer.wait()
    assert (after.jumped, after.due) == (False, now + 2 * P)
