"""Time: what the clock says, and the beats of a fixed-rate loop on it.

Deadlines are absolute: beat k is due at ``epoch + k·period``, so lateness never adds up. A beat that could not be kept
is counted and skipped; two beats are never closer than half a period.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

import msgspec

NS = 1_000_000_000
"""Nanoseconds in a second."""

SPIN_NS = 60_000
"""The last part of a wait is spun away, because a sleep may end late by this much [ns]: Linux rounds up by 50 µs."""

AWAKE_NS = 300_000
"""A loop spins for this last part of a wait, so that its CPU is awake [ns]: right after a sleep, in which the CPU halts
or works for others, a tick takes longer (in a virtual machine its p99 and p99.9 by a tenth)."""

JUMP_NS = 1 * NS
"""A clock that goes back, or ahead by more than this between two beats, has jumped: the process was suspended."""


class Clock(Protocol):
    """A source of time. Which one a loop is given decides its pacing; nothing else in the loop can tell."""

    def now(self) -> int:
        """Time [ns]."""
        ...

    def sleep_until(self, deadline: int) -> None:
        """Return at `deadline` [ns], or at once if it has passed."""
        ...


class WallClock:
    """The machine's monotonic clock: sleeps, then spins."""

    def __init__(self, *, awake: int = SPIN_NS) -> None:
        """Spin for `awake` [ns] before a deadline, or half of the wait, so that others have the rest; see `SPIN_NS`."""
        self._awake = awake

    def now(self) -> int:
        """Time [ns]."""
        return time.monotonic_ns()

    def sleep_until(self, deadline: int) -> None:
        """Return at `deadline` [ns]."""
        left = deadline - time.monotonic_ns()
        asleep = left - max(SPIN_NS, min(self._awake, left // 2))
        if asleep > 0:
            time.sleep(asleep * 1e-9)
        while time.monotonic_ns() < deadline:
            pass


class VirtualClock:
    """Simulated time: it moves only when somebody waits, or says that something took time.

    Events at a rate of their own (a plant, a delayed datagram) are entered with `every` or `at` and happen, in the
    order of time, while the loop waits. The same calls give the same times: runs are reproducible.
    """

    def __init__(self, *, pace: float | None = None) -> None:
        """Begin at time zero.

        Args:
            pace: Simulated seconds per second of the wall clock; None is as fast as possible.
        """
        self._now = 0
        self._entered = 0
        self._due: list[tuple[int, int, int, Callable[[], None]]] = []
        self._pace, self._began = pace, time.monotonic_ns()

    def now(self) -> int:
        """Time [ns]."""
        return self._now

    def every(self, period: int, call: Callable[[], None]) -> None:
        """Call again and again, for the first time one `period` [ns] from now."""
        self._enter(self._now + period, period, call)

    def at(self, when: int, call: Callable[[], None]) -> None:
        """Call once at `when` [ns]."""
        self._enter(when, 0, call)

    def spend(self, duration: int) -> None:
        """Say that something took `duration` [ns]."""
        self.sleep_until(self._now + duration)

    def jump(self, by: int) -> None:
        """Move the hands by `by` [ns], backwards too, without anything happening in between."""
        self._now += by

    def sleep_until(self, deadline: int) -> None:
        """Let time pass until `deadline` [ns], and everything that is due until then happen."""
        while self._due and (first := min(self._due))[0] <= deadline:
            self._due.remove(first)
            when, _, period, call = first
            self._now = max(self._now, when)
            if period:
                self._enter(when + period, period, call)
            call()
        self._now = max(self._now, deadline)
        if self._pace is not None:
            left = self._now / self._pace - (time.monotonic_ns() - self._began)
            if left > 0:
                time.sleep(left / NS)

    def _enter(self, when: int, period: int, call: Callable[[], None]) -> None:
        self._entered += 1  # of two calls that are due at once the first one entered goes first; calls are not compared
        self._due.append((when, self._entered, period, call))


class Beat(msgspec.Struct, frozen=True):
    """One period of the loop.

    It is made in every tick, hence a `msgspec.Struct`: a frozen dataclass takes longer.

    Attributes:
        index: Number of the period; skipped ones count.
        due: When it should have begun [ns].
        woke: When it began [ns].
        missed: How many were skipped just before it.
        jumped: Whether the clock jumped; the beats have begun anew from here.
    """

    index: int
    due: int
    woke: int
    missed: int = 0
    jumped: bool = False


class Pacer:
    """The beats of a loop."""

    def __init__(self, clock: Clock, period: int) -> None:
        """Prepare beats of `period` [ns]; the first one is due one period after the first call of `wait`."""
        self._clock, self._period = clock, period
        self._epoch: int | None = None
        self._index, self._woke = 0, 0

    def wait(self) -> Beat:
        """Wait for the next beat that can be kept."""
        now = self._clock.now()
        if self._epoch is None:
            self._epoch = self._woke = now
        jumped = now < self._woke or now - self._woke > JUMP_NS
        index = self._index + 1
        if jumped:
            self._epoch = now - self._index * self._period
        else:
            late = now - (self._epoch + index * self._period)
            if late > self._period // 2:
                index += (late + self._period // 2) // self._period
        due = self._epoch + index * self._period
        self._clock.sleep_until(due)
        missed, self._index, self._woke = index - self._index - 1, index, self._clock.now()
        return Beat(index=index, due=due, woke=self._woke, missed=missed, jumped=jumped)
