"""Named sweeps with conclusions.

A package adds a `Study` by an entry point of the group ``idcontrol.studies``, named like the study.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from idcontrol.config.entries import STUDIES, entry_points
from idcontrol.errors import InputError, UnknownName

if TYPE_CHECKING:
    from idcontrol.record.drawing import Picture
    from idcontrol.sweeps.record import RunOutcome


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table with a caption.

    Attributes:
        name: Name of its CSV file.
        title: Heading.
        sentence: Explanation of the table.
        header: Names of the columns, with units.
        rows: Values: text, numbers or truth values; None for an empty cell.
    """

    name: str
    title: str
    sentence: str
    header: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]


def _nothing(outcomes: Sequence[RunOutcome]) -> tuple[()]:
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Study:
    """A named sweep.

    Attributes:
        experiment: Name of its experiment.
        summary: One line that describes it.
        runs: Changes of each run by dotted key; the key ``preset`` names the preset.
        tables: Computes the tables of the study from the outcomes.
        pictures: Draws the figures of the study.
        further: Returns the next runs from all outcomes so far; the sweep ends when it returns none.
        grouping: Returns the names of a run's line and panel in the general figures. None means one line per
            controller, or per value of the first varied setting if all runs have the same controller, and one panel per
            combination of the other varied settings.
    """

    experiment: str
    summary: str
    runs: Sequence[Mapping[str, Any]]
    tables: Callable[[Sequence[RunOutcome]], Sequence[Table]]
    pictures: Callable[[Sequence[RunOutcome]], Sequence[Picture]] = _nothing
    further: Callable[[Sequence[RunOutcome]], Sequence[Mapping[str, Any]]] = _nothing
    grouping: Callable[[RunOutcome], tuple[str, str]] | None = None


def load_study(name: str, experiment: str | None = None) -> Study:
    """Return the study called `name`.

    Args:
        name: Name of the study.
        experiment: The experiment of the study; None means any.

    Raises:
        UnknownName: The study does not exist.
        InputError: The study belongs to a different experiment.
    """
    entries = entry_points(STUDIES)
    if name not in entries:
        raise UnknownName("study", name, entries)
    study: Study = entries[name].load()
    if experiment is not None and study.experiment != experiment:
        other = study.experiment
        raise InputError(f"{name} is a study of {other}; call it as: idcontrol compare {other} --study {name}")
    return study
