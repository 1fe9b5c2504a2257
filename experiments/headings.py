"""Tables of the studies; titles, sentences and column heads come from ``paper/headings.toml``."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from idcontrol.sweeps.study import Table


class Heading(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The parts of a `Table` that are the same in every comparison."""

    title: str
    sentence: str
    header: tuple[str, ...]


HEADINGS: Final = msgspec.toml.decode(
    (Path(__file__).parent / "paper" / "headings.toml").read_bytes(), type=dict[str, Heading]
)


def headed(name: str, rows: Iterable[Sequence[Any]], columns: Iterable[str] = ()) -> Table:
    """Make the table called `name`; the headings `columns`, which depend on the runs, follow the headings on file."""
    own = HEADINGS[name]
    return Table(
        name=name,
        title=own.title,
        sentence=own.sentence,
        header=(*own.header, *columns),
        rows=tuple(tuple(row) for row in rows),
    )
