"""Named sweeps that say what they show.

A package adds one as an entry point of the group ``idcontrol.studies``: a `Study`, under its name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from idcontrol.show.drawing import Picture
    from idcontrol.sweeps.record import RunOutcome


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table with the sentence that says what it shows.

    Attributes:
        name: Of its CSV file.
        title: Its heading.
        sentence: What it shows, computed from its numbers.
        header: Names of the columns, units in them.
        rows: Values: text, numbers, truth values, None where there is nothing.
        printed: Whether people read it; otherwise it is the data of a figure, and only written.
    """

    name: str
    title: str
    sentence: str
    header: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    printed: bool = True


def _nothing(outcomes: Sequence[RunOutcome]) -> tuple[Picture, ...]:
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Study:
    """A named sweep.

    Attributes:
        experiment: What it runs.
        summary: One line.
        runs: Changes of each run by dotted key, ``preset`` among them.
        tables: From what came out to the tables that answer the study's question.
        pictures: The same for figures.
        grouping: From a run to the names of its line and of its panel in the general figures; None names lines by
            controllers and panels by whatever else differs.
    """

    experiment: str
    summary: str
    runs: Sequence[Mapping[str, Any]]
    tables: Callable[[Sequence[RunOutcome]], Sequence[Table]]
    pictures: Callable[[Sequence[RunOutcome]], Sequence[Picture]] = _nothing
    grouping: Callable[[RunOutcome], tuple[str, str]] | None = None
