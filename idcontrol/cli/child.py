"""The command ``idcontrol`` for one run of a sweep. It ends when the process that started it ends, for any reason.

Standard input is a pipe from that process. Nothing is written to the pipe, and it closes when that process ends.
"""

import os
import sys
import threading
from collections.abc import Callable

from idcontrol.cli import main


def end_with_the_pipe(last: Callable[[], object] = lambda: None) -> None:
    """Start a thread that waits until standard input closes, then calls `last` and ends this process."""

    def wait() -> None:
        while os.read(0, 1):  # not sys.stdin.read: this thread would hold the lock of sys.stdin when Python exits
            pass
        last()
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


if __name__ == "__main__":
    end_with_the_pipe()
    sys.exit(main())
