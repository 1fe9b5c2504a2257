"""Time: what the clock says, and the beats of a fixed-rate loop on it.

Deadlines are absolute: beat k is due at ``epoch + k·period``, so lateness never adds up. A beat that could not be kept
is counted and skipped; two beats are never closer than half a period.

Where the machine has a clock of its own, the beats follow its news: each begins as soon as news come near the time it
is due, and the time at which the next is due gives way towards them, a little in each period. The loop keeps its rate
so, and takes no news later than it must; without them it beats on.
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

PATIENCE = 0.25
"""How long before and after the time it is due a beat may begin to follow the news, in periods."""

GAIN = 0.05
"""Share of its distance from the news by which the time at which beats are due moves in each of them: it settles within
some 20 beats, and knows little of the jitter of single news."""

GIVES_WAY = 0.01
"""How far it may move at most, in periods. Clocks of quartz differ by a ten-thousandth, and a period is made up for in
100 beats; the rate remains what it is to within this."""

JUMP_NS = 1 * NS
"""A clock that goes back, or ahead by more than this between two beats, has jumped: the process was suspended."""


class Clock(Protocol):
    """A source of time. Which one a loop is given decides its pacing; nothing else in the loop can tell."""

    def now(self) -> int:
        """Time [ns]."""

    def sleep_until(self, deadline: int) -> None:
        """Return at `deadline` [ns], or at once if it has passed."""


class WallClock:
    """The machine's monotonic clock: sleeps, then spins.

    Attributes:
        beforehand: Called once in each wait, with its deadline, where time begins to be spun away.
        meanwhile: Called again and again in that time; what either takes longer makes the wait longer.
    """

    def __init__(self, *, awake: int = SPIN_NS) -> None:
        """Spin for `awake` [ns] before a deadline, or half of the wait, so that others have the rest; see `SPIN_NS`."""
        self._awake = awake
        self.beforehand: Callable[[int], object] = lambda deadline: None
        self.meanwhile: Callable[[], object] = lambda: None

    def now(self) -> int:
        """Time [ns]."""
        return time.monotonic_ns()

    def sleep_until(self, deadline: int) -> None:
        """Return at `deadline` [ns]."""
        left = deadline - time.monotonic_ns()
        asleep = left - max(SPIN_NS, min(self._awake, left // 2))
        if asleep > 0:
            time.sleep(asleep * 1e-9)
        self.beforehand(deadline)
        while time.monotonic_ns() < deadline:
            self.meanwhile()


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
        due: When it should have begun [ns]; where beats follow news, when these were expected.
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

    def __init__(self, clock: Clock, period: int, heard: Callable[[int], bool] | None = None) -> None:
        """Prepare beats; the first one is due one period after the first call of `wait`.

        Args:
            clock: The clock.
            period: Time between two beats [ns].
            heard: Waits until there are news or until a deadline [ns], and returns whether there are; the beats follow
                them. None has them follow the clock alone.
        """
        self._clock, self._period, self._heard = clock, period, heard
        self._due: int | None = None
        self._index, self._woke = 0, 0

    def wait(self) -> Beat:
        """Wait for the next beat that can be kept."""
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
        return Beat(index=index, due=due, woke=self._woke, missed=missed, jumped=jumped)

    def _follow(self, heard: Callable[[int], bool], due: int, opens: int) -> int:
        """Wait for the news of a beat that may begin as soon as the time `opens`; returns how far it gives way.

        News that come before that time only make it begin when it is due at the latest: if the machine speaks more
        often than the loop beats, newer ones come in time.
        """
        clock, came = self._clock, None
        while clock.now() < opens and heard(opens):
            came = clock.now()
        if heard(due + round(PATIENCE * self._period) if came is None else due):
            came = clock.now()
        most = round(GIVES_WAY * self._period)
        return 0 if came is None else min(max(round(GAIN * (came - due)), -most), most)
