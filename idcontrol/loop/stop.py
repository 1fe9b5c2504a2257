"""Signals that end a loop: immediately if nothing moves; otherwise after the machine has come to rest."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any, Final

from idcontrol.record.interrupts import postponed

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""The signals that end a loop."""


class Interrupted(KeyboardInterrupt):
    """A signal requested the end before anything moved.

    Attributes:
        number: Number of the signal.
    """

    def __init__(self, number: int) -> None:
        """Store the number of the signal."""
        super().__init__(number)
        self.number = number


class Stop:
    """A request to end, made by a signal: SIGINT, SIGTERM or SIGHUP (the terminal has closed; not under ``nohup``).

    Until `begin` a signal raises `Interrupted`, at the latest in `begin`. After that the first signal is stored in
    `asked`, and the second signal ends the process immediately. Python handles signals only in the main thread; in any
    other thread, this object has no effect.

    Attributes:
        asked: Number of the signal; 0 before a signal.
        moving: True if the machine may move, so that it must first come to rest.
        on_alarm: Called at SIGALRM; it may raise.
    """

    def __init__(self) -> None:
        """Start without a request and without motion."""
        self.asked, self.moving = 0, False
        self.on_alarm: Callable[[], None] = lambda: None
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Stop:
        if threading.current_thread() is not threading.main_thread():
            return self
        for number in SIGNALS:
            if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:  # nohup ignores SIGHUP
                self._before[number] = signal.signal(number, self._on_signal)
        self._before[signal.SIGALRM] = signal.signal(signal.SIGALRM, lambda number, frame: self.on_alarm())
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if self._before:
            signal.setitimer(signal.ITIMER_REAL, 0.0)
        for number, handler in self._before.items():
            signal.signal(number, handler)
        if error is not None and self.asked and not self.moving and not isinstance(error, Interrupted):
            raise Interrupted(self.asked) from error  # interrupted code, e.g. a compiler, may raise a different error

    def begin(self) -> None:
        """Mark the start of the time in which the machine may move.

        Raises:
            Interrupted: A signal arrived earlier, but its exception was postponed, or swallowed by other code.
        """
        if self.asked:
            raise Interrupted(self.asked)
        self.moving = True

    @property
    def heeded(self) -> bool:
        """True if this object handles the signals: within its context, in the main thread."""
        return bool(self._before)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if not self.moving:
            self.asked = number
            if postponed(number, frame):
                return
            raise Interrupted(number)
        if self.asked:
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)
        self.asked = number
