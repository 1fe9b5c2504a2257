"""The command ``idcontrol`` for one run of a sweep; it ends when the process that started it is gone.

Its standard input is a pipe that is never written to. When the other side dies, in whatever way, the pipe ends, and so
does this process: no run goes on without its caller.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable

from idcontrol.cli import main


def end_with_the_pipe(last: Callable[[], object] = lambda: None) -> None:
    """From now on, do what is `last` and end as soon as standard input does."""

    def wait() -> None:
        while os.read(0, 1):  # not sys.stdin, whose lock a thread that still reads would hold when Python ends
            pass
        last()
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


if __name__ == "__main__":
    end_with_the_pipe()
    sys.exit(main())
