"""Signals that end a program, wherever in it they come.

Python lets the handler of a signal raise within whatever runs. Within a callback from compiled code that is of no use:
ctypes prints the exception and drops it, and numba, whose kernels are compiled through such callbacks, then fails with
an error of its own ("no compiled object yet"), or goes on as if nobody had asked for the end.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from types import FrameType

AGAIN_S = 0.02
"""Time after which a signal comes again [s]; the compiler's callbacks take microseconds."""


def postponed(number: int, frame: FrameType | None) -> bool:
    """Whether `frame`, where signal `number` has come, is in a callback of the compiler; then it comes again soon."""
    while frame is not None:
        if frame.f_globals.get("__name__") == "llvmlite.binding.executionengine" and "_raw" in frame.f_code.co_name:
            again = threading.Timer(AGAIN_S, os.kill, (os.getpid(), number))
            again.daemon = True
            again.start()
            return True
        frame = frame.f_back
    return False


class Terminated(SystemExit):
    """SIGTERM asked for the end; `code` is the exit status that shells expect after it."""


@contextlib.contextmanager
def ctrl_c_is_heard() -> Iterator[None]:
    """Let Ctrl-C raise KeyboardInterrupt where it is not lost; in another thread than the main one, change nothing."""
    main = threading.current_thread() is threading.main_thread()
    if not main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    signal.signal(signal.SIGINT, _interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _interrupt(number: int, frame: FrameType | None) -> None:
    if not postponed(number, frame):
        raise KeyboardInterrupt
