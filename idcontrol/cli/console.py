"""Output of the commands: tables on stdout, one line on stderr, and the exit statuses."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from rich.console import Console

DONE, TASK_FAILED, UNUSABLE, FAULT = 0, 1, 2, 3
INTERRUPTED = 130
"""Exit status that shells expect of a command that Ctrl-C ended: 128 + SIGINT."""


def console() -> Console:
    """A console for tables on stdout; wide unless that is a terminal, so that lines stay whole in files and pipes."""
    from rich.console import Console

    return Console(highlight=False, width=None if sys.stdout.isatty() else 200)


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


def real(text: str) -> float:
    """Type of an option that is a number, which is read like those of ``--set``."""
    from idcontrol.config.configuration import number

    try:
        return number(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None
