"""Says that kernels are about to be compiled, before a user wonders what takes so long."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from numba.core import event

SAYS = "idcontrol: compiling"
"""How the line begins."""
WORTH_S = 2.0
"""Shorter compilations are not remembered [s of processor time]."""
PART = 0.5
"""Nor are those that took less than this part of the last: they compiled a few kernels of all."""


@contextlib.contextmanager
def announced(what: str) -> Iterator[None]:
    """Print one line on stderr before the first kernel is compiled, with the processor time that it took last time.

    Processor time is what an idle core needs; on a busy machine the clock on the wall shows more.

    Kernels that are read from Numba's cache are not announced.

    Args:
        what: Who needs the kernels, e.g. ``"trot with pid on coulomb-lcp"``.
    """
    clock = _Clock(what)
    event.register("numba:compile", clock)
    try:
        yield
    finally:
        event.unregister("numba:compile", clock)
        clock.remember()


class _Clock(event.Listener):  # type: ignore[misc]  # numba has no types
    """Measures the processor time between the start and the end of the outermost compilation."""

    def __init__(self, what: str) -> None:
        self.what, self.spent_s = what, 0.0
        self._depth, self._began, self._said = 0, 0.0, False

    def on_start(self, event: Any) -> None:
        """A kernel begins to be compiled."""
        if not self._said and event.data["dispatcher"]._cache.cache_path:  # others are compiled every time
            self._said = True
            print(f"{SAYS} kernels for {self.what}, once; {_expected(self.what)}", file=sys.stderr, flush=True)
        self._depth += 1
        if self._depth == 1:
            self._began = time.thread_time()

    def on_end(self, event: Any) -> None:
        """A kernel is compiled."""
        self._depth -= 1
        if self._depth == 0:
            self.spent_s += time.thread_time() - self._began

    def remember(self) -> None:
        """Keep the time for the next announcement."""
        times = _remembered()
        if not self._said or self.spent_s < max(WORTH_S, PART * times.get(self.what, 0.0)):
            return
        with contextlib.suppress(OSError):  # a home that cannot be written to is no reason to stop
            _file().parent.mkdir(parents=True, exist_ok=True)
            _file().write_text(json.dumps(times | {self.what: round(self.spent_s, 1)}), encoding="utf-8")


def _expected(what: str) -> str:
    """What is known of the processor time: that of the last time, else those of others, else our own measurement."""
    times = _remembered()
    if what in times:
        return f"all took {times[what]:.0f} s of processor time last time"
    if times:
        return f"others took up to {max(times.values()):.0f} s of processor time"
    return "the first ones ever take about two minutes"


def _file() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "idcontrol" / "compiled_cpu_s.json"


def _remembered() -> dict[str, float]:
    try:
        found = json.loads(_file().read_text(encoding="utf-8"))
        return {str(what): float(took) for what, took in found.items()}
    except (OSError, ValueError, AttributeError, TypeError):
        return {}
