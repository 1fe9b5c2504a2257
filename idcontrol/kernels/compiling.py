"""Announcement of long compilation, and a helper process that compiles on a second core."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any

from numba.core import event

SAYS = "idcontrol: compiling"
"""Beginning of the announcement."""
NOTICED_S = 1.0
"""Processor time of compilation after which it is announced [s]; many runs compile a few kernels in less time."""
WORTH_S = 2.0
"""Shorter compilation needs no help [s of processor time]."""
GRACE_S = 5.0
"""Time after which a helper that does not end is killed [s]."""


@contextlib.contextmanager
def announced(what: str, helper: Sequence[str] = ()) -> Iterator[None]:
    """Print one line on stderr once compilation within the context has taken `NOTICED_S`.

    Args:
        what: Purpose of the kernels, e.g. ``"trot with pid on coulomb-lcp"``.
        helper: Command of a helper process, which compiles the kernels needed last. It is started when compilation has
            taken `WORTH_S` and a core is idle. It must end when its standard input is closed. Empty for no helper.
    """
    clock = _Clock(what, helper)
    event.register("numba:compile", clock)
    try:
        yield
    finally:
        event.unregister("numba:compile", clock)
        clock.dismiss()


class _Clock(event.Listener):  # type: ignore[misc]  # numba has no types
    """Sums the processor time of this thread's compilations (nested ones count once), and acts on the sum."""

    _helper: subprocess.Popen[bytes] | None

    def __init__(self, what: str, helper: Sequence[str]) -> None:
        self._what, self._command, self._helper = what, helper, None
        self._spent_s, self._began, self._depth, self._said = 0.0, 0.0, 0, False

    def on_start(self, event: Any) -> None:
        """Record that the compilation of a kernel begins."""
        if self._depth == 0:
            self._began = time.thread_time() - self._spent_s
        self._depth += 1
        spent = time.thread_time() - self._began
        if not self._said and spent > NOTICED_S:
            self._said = True
            line = f"{SAYS} kernels for {self._what}: a minute or two of processor time the first time, none later"
            print(line, file=sys.stderr, flush=True)
        if self._command and spent > WORTH_S and os.getloadavg()[0] < len(os.sched_getaffinity(0)) - 1.0:
            nothing, command, self._command = subprocess.DEVNULL, self._command, ()
            with contextlib.suppress(OSError):  # without resources for another process, this one compiles everything
                self._helper = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=nothing, stderr=nothing)

    def on_end(self, event: Any) -> None:
        """Record that the compilation of a kernel has ended."""
        self._depth -= 1
        self._spent_s = time.thread_time() - self._began

    def dismiss(self) -> None:
        """End the helper."""
        if self._helper is None:
            return
        try:
            self._helper.communicate(timeout=GRACE_S)
        except subprocess.TimeoutExpired:
            self._helper.kill()
            self._helper.wait()
