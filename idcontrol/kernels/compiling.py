"""Says that kernels are about to be compiled, before a user wonders what takes so long, and lets a second core help."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from numba.core import event

SAYS = "idcontrol: compiling"
"""How the line begins."""
WORTH_S = 2.0
"""Shorter compilations are not remembered, and need no help [s of processor time]."""
PART = 0.5
"""Nor are those that took less than this part of the last: they compiled a few kernels of all."""
GRACE_S = 5.0
"""A helper that does not end when it is told to is killed after so long [s]."""


@contextlib.contextmanager
def announced(what: str, helper: Sequence[str] = ()) -> Iterator[None]:
    """Print one line on stderr before the first kernel is compiled, with the processor time that it took last time.

    Processor time is what an idle core needs; on a busy machine the clock on the wall shows more.

    Kernels that are read from Numba's cache are not announced.

    Args:
        what: Who needs the kernels, e.g. ``"trot with pid on coulomb-lcp"``.
        helper: Command of a process that compiles those which are needed last, and ends as its standard input does;
            begun when compiling has taken `WORTH_S` and a core is idle, and over with this.
    """
    clock = _Clock(what, helper)
    event.register("numba:compile", clock)
    try:
        yield
    finally:
        event.unregister("numba:compile", clock)
        clock.remember()
        clock.dismiss()


class _Clock(event.Listener):  # type: ignore[misc]  # numba has no types
    """Measures the processor time between the start and the end of the outermost compilation."""

    _helper: subprocess.Popen[bytes] | None

    def __init__(self, what: str, helper: Sequence[str]) -> None:
        self.what, self.spent_s = what, 0.0
        self._command, self._helper = helper, None
        self._depth, self._began, self._said = 0, 0.0, False

    def on_start(self, event: Any) -> None:
        """A kernel begins to be compiled."""
        if not self._said and event.data["dispatcher"]._cache.cache_path:  # others are compiled every time
            self._said = True
            print(f"{SAYS} kernels for {self.what}, once; {_expected(self.what)}", file=sys.stderr, flush=True)
        if self._command and self.spent_s > WORTH_S and os.getloadavg()[0] < len(os.sched_getaffinity(0)) - 1.0:
            nothing, command, self._command = subprocess.DEVNULL, self._command, ()
            with contextlib.suppress(OSError):  # a machine that has no room for another process compiles all in this
                self._helper = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=nothing, stderr=nothing)
        self._depth += 1
        if self._depth == 1:
            self._began = time.thread_time()

    def on_end(self, event: Any) -> None:
        """A kernel is compiled."""
        self._depth -= 1
        if self._depth == 0:
            self.spent_s += time.thread_time() - self._began

    def dismiss(self) -> None:
        """End the helper."""
        if self._helper is None:
            return
        try:
            self._helper.communicate(timeout=GRACE_S)
        except subprocess.TimeoutExpired:
            self._helper.kill()
            self._helper.wait()

    def remember(self) -> None:
        """Keep the time for the next announcement."""
        times = _remembered()
        if not self._said or self.spent_s < max(WORTH_S, PART * times.get(self.what, 0.0)):
            return
        with contextlib.suppress(OSError):  # a home that cannot be written to is no reason to stop
            _file().parent.mkdir(parents=True, exist_ok=True)
            _file().write_text(json.dumps(times | {self.what: round(self.spent_s, 1)}), encoding="utf-8")


def _expected(what: str) -> str:
    """Says how long compiling takes: as long as last time, else as others took, else as our own measurement tells."""
    times = _remembered()
    if what in times:
        return f"all took {times[what]:.0f} s of processor time last time"
    if times:
        return f"others took up to {max(times.values()):.0f} s of processor time"
    return "the first ones ever take about two minutes"


def _file() -> Path:
    """The file of times.

    Raises:
        OSError: Nobody knows where the home of this user is.
    """
    try:
        caches = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    except RuntimeError as error:
        raise OSError("there is no home") from error
    return Path(caches) / "idcontrol" / "compiled_cpu_s.json"


def _remembered() -> dict[str, float]:
    try:
        found = json.loads(_file().read_text(encoding="utf-8"))
        return {str(what): float(took) for what, took in found.items()}
    except (OSError, ValueError, AttributeError, TypeError):
        return {}
