"""Output of the commands: tables and JSON on stdout, one line on stderr, and the exit statuses."""

from __future__ import annotations

import json
import sys
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

DONE, TASK_FAILED, UNUSABLE, FAULT = 0, 1, 2, 3
INTERRUPTED = 130
"""Exit status that shells expect of a command that Ctrl-C ended: 128 + SIGINT."""


def console() -> Console:
    """A console for tables on stdout; wide unless that is a terminal, so that lines stay whole in files and pipes."""
    from rich.console import Console

    return Console(highlight=False, width=None if sys.stdout.isatty() else 200)


def show(*parts: Any, style: str = "") -> None:
    """Print tables and lines on stdout; brackets in a line are no markup, and a long one is not broken."""
    from rich.text import Text

    screen = console()
    for part in parts:
        line = isinstance(part, str | Text)
        screen.print(Text(part, style=style) if isinstance(part, str) else part, soft_wrap=line)


def print_json(value: Any) -> None:
    """Print one JSON object on stdout; NaN becomes null, infinity becomes "inf"."""
    from idcontrol.config.configuration import jsonable

    click.echo(json.dumps(jsonable(value), allow_nan=False))


def grid(*headings: str, words: Collection[str] = ("",), **look: Any) -> Table:
    """Return a table without a frame; its columns are numbers except under the headings `words`."""
    from rich.table import Column, Table
    from rich.text import Text

    columns = (Column(Text(name), justify="left" if name in words else "right") for name in headings)
    return Table(*columns, box=None, title_justify="left", **look)


def mark(holds: bool | None) -> Text:
    """A tick if something holds, a cross if it does not, nothing for None."""
    from rich.text import Text

    return Text("") if holds is None else Text("✓", style="green") if holds else Text("✗", style="red")


def say(line: str, status: int) -> int:
    """Print one line on stderr; returns `status`."""
    click.echo(f"idcontrol: {one_line(line)}", err=True)
    return status


def one_line(text: object) -> str:
    """`text` without line breaks; an empty one becomes the name of its type."""
    return " ".join(str(text).split()) or type(text).__name__


def cell(value: Any) -> str:
    """A value as a table shows it."""
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, Iterable) and not isinstance(value, str | Mapping):
        return ", ".join(cell(item) for item in value)
    return str(value)
