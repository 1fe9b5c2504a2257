"""Tables of the studies; their titles, sentences and heads of columns are data, ``paper/headings.toml``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from idcontrol.sweeps.study import Table


class Heading(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is the same in a table of every comparison, as in `Table`."""

    title: str
    sentence: str
    header: tuple[str, ...]


HEADINGS: Final = msgspec.toml.decode(
    (Path(__file__).parent / "paper" / "headings.toml").read_bytes(), type=dict[str, Heading]
)


def headed(name: str, rows: Iterable[Sequence[Any]], columns: Iterable[str] = ()) -> Table:
    """Make the table called `name`; `columns` are those that depend on the runs, after the others."""
    own = HEADINGS[name]
    return Table(
        name=name,
        title=own.title,
        sentence=own.sentence,
        header=(*own.header, *columns),
        rows=tuple(tuple(row) for row in rows),
    )
