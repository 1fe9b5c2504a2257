"""Clocks that stand still while a kernel is compiled or loaded: how long a run takes, wherever kernels come from."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator

_STOPPED = [0.0, 0.0]
"""Time on the wall clock, and the processor's, for which the clocks have stood still [s]."""
_DEPTH = [0]


def wall_s() -> float:
    """Time on the wall clock; differences count [s]."""
    return time.perf_counter() - _STOPPED[0]


def processor_s() -> float:
    """Processor time of this process [s]."""
    return time.process_time() - _STOPPED[1]


@contextlib.contextmanager
def stopped() -> Iterator[None]:
    """Let the clocks stand still."""
    wall, processor = wall_s(), processor_s()
    _DEPTH[0] += 1
    try:
        yield
    finally:
        _DEPTH[0] -= 1
        if _DEPTH[0] == 0:
            _STOPPED[0] += wall_s() - wall
            _STOPPED[1] += processor_s() - processor
