"""The command ``idcontrol`` for one run of a sweep; it ends when the process that started it is gone.

Its standard input is a pipe that is never written to. When the other side dies, in whatever way, the pipe ends, and so
does this process: no run goes on that nobody waits for.
"""

from __future__ import annotations

import os
import sys
import threading

from idcontrol.cli import main


def _end_with_the_pipe() -> None:
    while os.read(0, 1):  # not sys.stdin, whose lock a thread that still reads would hold when Python ends
        pass
    os._exit(1)


if __name__ == "__main__":
    threading.Thread(target=_end_with_the_pipe, daemon=True).start()
    sys.exit(main())
