"""Signals that end a program at any point of its execution.

The handler of a signal may raise in any running code, but Python drops exceptions in callbacks from C (weak references,
finalizers, ctypes). Numba compiles kernels through such callbacks. If an exception is dropped there, Numba fails later
with another error ("no compiled object yet"). A signal that arrives in a callback is therefore repeated later.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Iterator
from types import FrameType

from idcontrol.errors import Terminated

AGAIN_S = 0.02
"""Time after which a signal is repeated [s]; the compiler's callbacks take microseconds."""


def postponed(number: int, frame: FrameType | None) -> bool:
    """True if Python would drop an exception raised in `frame`; then also repeat signal `number` after `AGAIN_S`."""
    while frame is not None:
        of_compiler = "_raw" in frame.f_code.co_name
        module = frame.f_globals.get("__name__")
        if module == __name__ or (module == "llvmlite.binding.executionengine" and of_compiler):
            _send_again(number)
            return True
        frame = frame.f_back
    return False


@contextlib.contextmanager
def ctrl_c_is_heard() -> Iterator[None]:
    """Let Ctrl-C raise KeyboardInterrupt only outside callbacks from C.

    Do nothing outside the main thread, or if SIGINT has a handler other than Python's.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        with _raised(signal.SIGINT, KeyboardInterrupt):
            yield
    else:
        yield


@contextlib.contextmanager
def sigterm_is_heard() -> Iterator[None]:
    """Let SIGTERM raise `Terminated`, only outside callbacks from C; do nothing outside the main thread."""
    with _raised(signal.SIGTERM, Terminated):
        yield


@contextlib.contextmanager
def _raised(number: int, kind: type[BaseException]) -> Iterator[None]:
    """Raise `kind` when signal `number` arrives; if Python drops the exception, raise it again."""
    if threading.current_thread() is not threading.main_thread():  # only the main thread may set handlers
        yield
        return

    def handle(number: int, frame: FrameType | None) -> None:
        if not postponed(number, frame):
            raise kind

    def drop(lost: sys.UnraisableHookArgs) -> None:
        if lost.exc_type is kind:
            _send_again(number)
        else:
            report(lost)

    report, sys.unraisablehook = sys.unraisablehook, drop
    handler = signal.signal(number, handle)
    try:
        yield
    finally:
        signal.signal(number, handler)
        sys.unraisablehook = report


def _send_again(number: int) -> None:
    again = threading.Timer(AGAIN_S, os.kill, (os.getpid(), number))
    again.daemon = True
    again.start()
