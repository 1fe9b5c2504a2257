"""Clocks that stand still while a kernel is compiled or loaded: how long a run takes, wherever kernels come from.

Each thread has its own: what one compiles, no run of another waits for. They go on while `numba.njit` compiles, so also
with `idcontrol.kernels.hooks.PLAIN`.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator


class _Stopped(threading.local):
    """For how long the clocks of a thread have stood still: on the wall clock, and of the processor's time [s]."""

    def __init__(self) -> None:
        self.wall_s = self.processor_s = 0.0
        self.depth = 0


_STOPPED = _Stopped()


def wall_s() -> float:
    """Time on the wall clock; differences within a thread count [s]."""
    return time.perf_counter() - _STOPPED.wall_s


def processor_s() -> float:
    """Processor time of this process; differences within a thread count [s]."""
    return time.process_time() - _STOPPED.processor_s


@contextlib.contextmanager
def stopped() -> Iterator[None]:
    """Let the clocks of this thread stand still."""
    wall, processor = wall_s(), processor_s()
    _STOPPED.depth += 1
    try:
        yield
    finally:
        _STOPPED.depth -= 1
        if _STOPPED.depth == 0:
            _STOPPED.wall_s += wall_s() - wall
            _STOPPED.processor_s += processor_s() - processor
