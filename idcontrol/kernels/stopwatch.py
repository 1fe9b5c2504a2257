"""Clocks that pause while a kernel is compiled or loaded, so that run times do not depend on the cache.

Each thread has its own clocks, since compilation in one thread delays no run in another. The clocks do not pause while
plain `numba.njit` compiles, so with `idcontrol.kernels.hooks.PLAIN` they never pause.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator


class _Stopped(threading.local):
    """Wall-clock time and processor time for which a thread's clocks have paused [s], and the number of open pauses."""

    def __init__(self) -> None:
        self.wall_s = self.processor_s = 0.0
        self.depth = 0


_STOPPED = _Stopped()


def wall_s() -> float:
    """Return the time on the wall clock without this thread's pauses [s]; only differences have a meaning."""
    return time.perf_counter() - _STOPPED.wall_s


def processor_s() -> float:
    """Return the processor time of this process without this thread's pauses [s].

    Only differences within one thread have a meaning.
    """
    return time.process_time() - _STOPPED.processor_s


@contextlib.contextmanager
def stopped() -> Iterator[None]:
    """On exit, take the time in the context off the clocks of this thread; readings in the context still have it."""
    wall, processor = wall_s(), processor_s()
    _STOPPED.depth += 1
    try:
        yield
    finally:
        _STOPPED.depth -= 1
        if _STOPPED.depth == 0:
            _STOPPED.wall_s += wall_s() - wall
            _STOPPED.processor_s += processor_s() - processor
