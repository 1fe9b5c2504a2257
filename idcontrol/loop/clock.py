"""Clocks, and the cycles of a fixed-rate loop.

Deadlines are absolute: cycle k is due at ``epoch + k·period``, so lateness never adds up. Cycles that would start more
than half a period late are counted and skipped.

If the machine has a separate clock, the cycles follow its datagrams. A cycle begins as soon as a datagram arrives close
to the deadline, and the next deadline moves towards that time by a small amount per period. The loop thus keeps its
rate and reads datagrams as early as possible; without datagrams it continues by its own clock.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

import msgspec

NS = 1_000_000_000
"""Nanoseconds in a second."""

SPIN_NS = 60_000
"""Length of the last part of a wait, in which the process spins [ns]. A sleep may end late by this much, since Linux
rounds it up by 50 µs.
"""

AWAKE_NS = 300_000
"""Length of the last part of a wait, in which a loop spins to keep its CPU awake [ns]. During a sleep the CPU halts or
runs other processes, and the next tick takes longer: in a virtual machine, p99 and p99.9 of a tick's duration were a
tenth larger.
"""

PATIENCE = 0.25
"""Largest distance between a cycle's deadline and the datagram with which the cycle begins, in periods."""

GAIN = 0.05
"""Fraction of the distance between a datagram and the deadline by which the next deadline moves. The deadline converges
within about 20 cycles, and the jitter of single datagrams is averaged.
"""

LARGEST_SHIFT = 0.01
"""Largest change of the deadline per cycle, in periods. It exceeds the difference between quartz clocks, a
ten-thousandth. The rate never deviates by more than this value.
"""

JUMP_NS = 1 * NS
"""Largest advance of the clock from the start of a cycle to the next call of `Pacer.wait` [ns]. A larger advance, or
any step backwards, counts as a jump, e.g. because the process was suspended.
"""


class Clock(Protocol):
    """A source of time, which determines the pacing of a loop.

    Attributes:
        utc_ns: UTC, as Unix time, minus `now` when the clock was made [ns]; None for simulated time.
    """

    utc_ns: int | None

    def now(self) -> int:
        """Return the time [ns]."""

    def sleep_until(self, deadline: int) -> None:
        """Sleep until `deadline` [ns]; return immediately if it has passed."""


class WallClock:
    """The computer's monotonic clock; a wait first sleeps, then spins.

    Attributes:
        beforehand: Called once in each wait, with the deadline, when the clock begins to spin.
        meanwhile: Called repeatedly while the clock spins. Both functions may prolong the wait.
    """

    def __init__(self, *, awake: int = SPIN_NS) -> None:
        """Spin for `awake` [ns] before a deadline, but at most for half of the wait: other processes need the CPU.

        The last `SPIN_NS` are always spun.
        """
        self._awake = awake
        self.utc_ns: int | None = time.time_ns() - time.monotonic_ns()
        self.beforehand: Callable[[int], object] = lambda deadline: None
        self.meanwhile: Callable[[], object] = lambda: None

    def now(self) -> int:
        """Return the time [ns]."""
        return time.monotonic_ns()

    def sleep_until(self, deadline: int) -> None:
        """Sleep until `deadline` [ns]."""
        wait = deadline - time.monotonic_ns()
        asleep = wait - max(SPIN_NS, min(self._awake, wait // 2))
        if asleep > 0:
            time.sleep(asleep * 1e-9)
        self.beforehand(deadline)
        while time.monotonic_ns() < deadline:
            self.meanwhile()


class VirtualClock:
    """Simulated time, which moves only in `sleep_until`, `spend` and `jump`.

    Other events, e.g. of a plant or a delayed datagram, are registered by `every` or `at`, and happen in chronological
    order while the loop waits. The same calls give the same times, so runs are reproducible.
    """

    def __init__(self, *, pace: float | None = None) -> None:
        """Start at time zero.

        Args:
            pace: Simulated seconds per second of the wall clock; None means as fast as possible.
        """
        self.utc_ns: int | None = None
        self._now = 0
        self._entered = 0
        self._due: list[tuple[int, int, int, Callable[[], None]]] = []
        self._pace, self._began = pace, time.monotonic_ns()

    def now(self) -> int:
        """Return the time [ns]."""
        return self._now

    def every(self, period: int, call: Callable[[], None]) -> None:
        """Call `call` once per `period` [ns], the first time one period from now."""
        self._enter(self._now + period, period, call)

    def at(self, when: int, call: Callable[[], None]) -> None:
        """Call `call` once at `when` [ns]."""
        self._enter(when, 0, call)

    def spend(self, duration: int) -> None:
        """Advance the clock by `duration` [ns]."""
        self.sleep_until(self._now + duration)

    def jump(self, by: int) -> None:
        """Move the clock by `by` [ns], possibly backwards; events in between happen in the next wait."""
        self._now += by

    def sleep_until(self, deadline: int) -> None:
        """Let time pass until `deadline` [ns], with all events that are due until then."""
        while self._due and (first := min(self._due))[0] <= deadline:
            self._due.remove(first)
            when, _, period, call = first
            self._now = max(self._now, when)
            if period:
                self._enter(when + period, period, call)
            call()
        self._now = max(self._now, deadline)
        if self._pace is not None:
            ahead = self._now / self._pace - (time.monotonic_ns() - self._began)
            if ahead > 0:
                time.sleep(ahead / NS)

    def _enter(self, when: int, period: int, call: Callable[[], None]) -> None:
        self._entered += 1  # simultaneous calls happen in order of registration
        self._due.append((when, self._entered, period, call))


class Cycle(msgspec.Struct, frozen=True):
    """One period of the loop.

    Attributes:
        index: Number of the period; skipped periods count.
        due: Deadline of the start [ns]; if cycles follow datagrams, the expected time of the datagram.
        woke: Actual start [ns].
        missed: Number of cycles skipped immediately before this cycle.
        jumped: True if the clock jumped; the deadlines have been restarted from this cycle.
    """

    index: int
    due: int
    woke: int
    missed: int = 0
    jumped: bool = False


class Pacer:
    """Waits for the cycles of a loop."""

    def __init__(self, clock: Clock, period: int, heard: Callable[[int, bool], bool] | None = None) -> None:
        """Prepare cycles; the first cycle is due one period after the first call of `wait`.

        Args:
            clock: The clock.
            period: Time between two cycles [ns].
            heard: Waits for a datagram until a deadline [ns], and returns True if a datagram came; its second argument
                is True if the cycle may already begin. Cycles follow these datagrams; with None they follow only the
                clock.
        """
        self._clock, self._period, self._heard = clock, period, heard
        self._due: int | None = None
        self._index, self._woke = 0, 0

    def wait(self) -> Cycle:
        """Wait for the next cycle that can start in time, and return it."""
        now, period = self._clock.now(), self._period
        if self._due is None:
            self._due = self._woke = now
        jumped = now < self._woke or now - self._woke > JUMP_NS
        index, due = self._index + 1, self._due + period
        if jumped:
            due, self._woke = now + period, now
        elif now - due > period // 2:
            skipped = (now - due + period // 2) // period
            index, due = index + skipped, due + skipped * period
        self._due = due
        if self._heard is None:
            self._clock.sleep_until(due)
        else:
            self._due += self._follow(self._heard, due, max(due - round(PATIENCE * period), self._woke + period // 2))
        missed, self._index, self._woke = index - self._index - 1, index, self._clock.now()
        return Cycle(index=index, due=due, woke=self._woke, missed=missed, jumped=jumped)

    def _follow(self, heard: Callable[[int, bool], bool], due: int, opens: int) -> int:
        """Wait for the datagram with which a cycle begins; return the shift of the next deadline [ns].

        If a datagram comes before `opens`, the cycle waits for a newer datagram, at most until its deadline: a machine
        that sends more than once per period sends a newer datagram in time.

        Args:
            heard: As in the constructor.
            due: Deadline of the cycle [ns].
            opens: Earliest time at which the cycle may begin [ns].
        """
        clock, came = self._clock, None
        while clock.now() < opens and heard(opens, False):
            came = clock.now()
        if heard(due + round(PATIENCE * self._period) if came is None else due, True):
            came = clock.now()
        most = round(LARGEST_SHIFT * self._period)
        return 0 if came is None else min(max(round(GAIN * (came - due)), -most), most)
