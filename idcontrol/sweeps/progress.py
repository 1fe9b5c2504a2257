"""Show the progress of a long call: a bar in a notebook or on a terminal, occasional lines elsewhere.

The remaining time is estimated from the completed share and the elapsed time, without compilation and preparation.
"""

import contextlib
import html
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

from idcontrol.kernels import stopwatch

EVERY_S = 0.2
"""Period of updates of the bar in a notebook [s]."""
SURE = 0.01
"""Minimum completed share for an estimate of the remaining time."""
LINE_EVERY_S = 30.0
"""Period of lines in a file or a pipe [s]; shorter calls print no line."""


@contextlib.contextmanager
def progress_bar(title: str, quiet: bool = False) -> Iterator[Callable[[float], None]]:
    """Show a progress bar within the context, or lines in a file or a pipe; show nothing if `quiet`.

    Yield the function to call with the completed share, 0 to 1.
    """
    if quiet:
        yield lambda share: None
    elif _in_a_notebook():
        with _notebook_bar(title) as update:
            yield update
    elif sys.stderr.isatty():
        from rich.console import Console
        from rich.progress import Progress

        with Progress(console=Console(stderr=True), transient=True, get_time=stopwatch.wall_s) as bar:
            task = bar.add_task(title, total=1.0)
            yield lambda share: bar.update(task, completed=share)
    else:
        yield _lines(title)


def _lines(title: str) -> Callable[[float], None]:
    reached, said = _estimate(), time.monotonic()

    def update(share: float) -> None:
        nonlocal said
        words, now = reached(share), time.monotonic()
        if now - said >= LINE_EVERY_S:
            said = now
            print(f"idcontrol: {title}: {words}", file=sys.stderr, flush=True)

    return update


def _estimate() -> Callable[[float], str]:
    """Return a function of the completed share, 0 to 1, that describes this share and the remaining time in words.

    If the share in the first update is below `SURE`, the pace is measured from this update on and thus excludes the
    preparation.
    """
    began = stopwatch.wall_s()
    first: tuple[float, float] | None = None

    def reached(share: float) -> str:
        nonlocal first
        now = stopwatch.wall_s()
        if first is None:
            first = (share, now) if share < SURE else (0.0, began)
        gained, taken_s = share - first[0], now - first[1]
        remaining = f", {taken_s * (1.0 - share) / gained:.0f} s left" if gained >= SURE else ""
        return f"{100.0 * share:.0f} %{remaining}"

    return reached


def _in_a_notebook() -> bool:
    """True if this process is a notebook kernel, which has already imported IPython."""
    shell: Any = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    return getattr(shell, "kernel", None) is not None


@contextlib.contextmanager
def _notebook_bar(title: str) -> Iterator[Callable[[float], None]]:
    from IPython.display import HTML, display

    reached, shown = _estimate(), 0.0
    handle = display(HTML(""), display_id=True)
    assert handle is not None

    def update(share: float) -> None:
        nonlocal shown
        words, now = reached(share), time.monotonic()
        if now - shown < EVERY_S:
            return
        shown = now
        bar = f'<progress value="{share:.4f}"></progress>'
        handle.update(HTML(f"{bar} {html.escape(title)}: {words}"))

    try:
        yield update
    finally:
        handle.update(HTML(""))
