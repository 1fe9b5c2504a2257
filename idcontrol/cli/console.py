"""Output of the commands: tables and JSON on stdout, one line on stderr, and the exit statuses."""

from __future__ import annotations

import io
import json
import os
import re
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import click

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

DONE, TASK_FAILED, UNUSABLE, FAULT = 0, 1, 2, 3
INTERRUPTED = 130
"""Exit status of a command ended by Ctrl-C, as shells expect it: 128 + SIGINT."""


GAP = 2
"""Blanks between two columns."""
EASY = 18
"""Width up to which text columns have priority over spare columns [characters]."""
FOLDED = 32
"""Length of the longest word that is never broken into two lines."""
WIDEST = 16
"""Width above which the heading of a column of numbers is broken into lines."""


class Grid:
    """A frameless table that fits the terminal. Columns without room are left out; only very long words are broken.

    Args:
        headings: Headings of the columns.
        words: Headings of the columns that hold text; all other columns hold numbers.
        spare: Headings of the columns to leave out first, in this order. Then columns are left out from the right.
        title: Line above the table.
        header: True if the headings are shown.
    """

    def __init__(
        self,
        *headings: str,
        words: Collection[str] = (),
        spare: Sequence[str] = (),
        title: str = "",
        header: bool = True,
    ) -> None:
        self.headings, self.words, self.spare, self.title, self.header = headings, words, spare, title, header
        self.rows: list[tuple[str | Text, ...]] = []

    def add(self, *cells: str | Text) -> None:
        """Add a row."""
        self.rows.append(cells)

    def fit(self, most: int) -> tuple[Table, list[str]]:
        """Return the table without empty columns, at most `most` characters wide, and the headings left out."""
        from rich.cells import cell_len
        from rich.table import Table
        from rich.text import Text

        cells = list(zip(*self.rows, strict=True)) or [("",)] * len(self.headings)
        filled = [i for i, column in enumerate(cells) if any(map(str, column)) or not self.rows]
        heads = [heading.replace(" [", "\n[") for heading in self.headings]
        texts = [[head] * self.header + list(map(str, column)) for head, column in zip(heads, cells, strict=True)]
        # a unit in brackets is one word, even if it contains blanks
        parts = [re.findall(r"\[.*?\]|\S+", " ".join(column)) for column in texts]
        least = {i: min(FOLDED, max(map(cell_len, parts[i]), default=0)) for i in filled}
        longest = [
            max((cell_len(line) for text in column for line in text.splitlines()), default=0) for column in texts
        ]
        easy = {i: max(least[i], min(longest[i], EASY)) if self.headings[i] in self.words else least[i] for i in filled}
        for i in map(self.headings.index, self.spare):
            if i in easy and len(easy) > 1 and _taken(easy) > most:
                del easy[i]
        width = {i: least[i] for i in easy}
        while len(width) > 1 and _taken(width) > most:
            width.popitem()
        room = most - _taken(width)
        for i in sorted(width, key=lambda i: self.headings[i] not in self.words):
            more = (longest[i] if self.headings[i] in self.words else min(longest[i], WIDEST)) - width[i]
            width[i] += max(0, min(room, more))
            room -= max(0, min(room, more))
        look: dict[str, Any] = {"show_header": self.header, "header_style": "dim", "pad_edge": False}
        table = Table(box=None, padding=(0, GAP, 0, 0), **look)
        for i, columns in width.items():
            side: Literal["left", "right"] = "left" if self.headings[i] in self.words else "right"
            table.add_column(Text(heads[i]), justify=side, width=columns, overflow="fold")
        for row in self.rows:
            shown = (row[i] for i in width)
            table.add_row(*(Text(each) if isinstance(each, str) else each for each in shown))
        return table, [self.headings[i] for i in filled if i not in width and self.headings[i].strip()]


def _taken(width: Mapping[int, int]) -> int:
    return sum(width.values()) + GAP * (len(width) - 1)


def console() -> Console:
    """Return a console for stdout. In files and pipes it is 200 characters wide, unless COLUMNS is set."""
    from rich.console import Console

    return Console(highlight=False, width=None if sys.stdout.isatty() or "COLUMNS" in os.environ else 200)


def show(*parts: str | Text | Grid, style: str = "") -> None:
    """Print tables and lines on stdout; brackets are printed as they are, and a long line is not broken."""
    from rich.text import Text

    screen = console()
    for part in parts:
        if not isinstance(part, Grid):
            screen.print(Text(part, style=style) if isinstance(part, str) else part, soft_wrap=True)
            continue
        table, dropped = part.fit(screen.width)
        if part.title:
            screen.print(Text(part.title, style="bold"), soft_wrap=True)
        screen.print(table)
        if dropped:
            screen.print(Text(f"no room for: {'; '.join(dropped)} (--json has all)", style="dim"), soft_wrap=True)


def print_any_text() -> None:
    """Let stdout print a question mark for each character that its encoding lacks, such as µ in the locale C."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")


def print_json(value: Any) -> None:
    """Print one JSON object on stdout; NaN becomes null, infinity becomes "inf"."""
    from idcontrol.config.configuration import jsonable

    click.echo(json.dumps(jsonable(value), allow_nan=False))


def mark(holds: bool | None) -> Text:
    """Return a tick for True, a cross for False, an empty text for None."""
    from rich.text import Text

    return Text("") if holds is None else Text("✓", style="green") if holds else Text("✗", style="red")


def say(line: str, status: int) -> int:
    """Print one line on stderr and return `status`."""
    click.echo(f"idcontrol: {one_line(line)}", err=True)
    return status


def one_line(text: object) -> str:
    """Return `text` without line breaks; an empty text becomes the name of its type."""
    return " ".join(str(text).split()) or type(text).__name__


def cell(value: Any) -> str:
    """Return a value as a table shows it; "–" for None."""
    if value is None or isinstance(value, bool):
        return {None: "–", True: "yes", False: "no"}[value]
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, Iterable) and not isinstance(value, str | Mapping):
        return ", ".join(cell(item) for item in value)
    return str(value)
