"""Runs the sections of the bench in order."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from idcontrol.bench import batch, controllers, models, plants, solvers, tasks, tick
from idcontrol.bench.machine import machine
from idcontrol.bench.measurement import Effort, TimingRow, floor
from idcontrol.bench.problems import walks
from idcontrol.bench.problems.walks import RecordedWalk
from idcontrol.bench.timing import in_turns
from idcontrol.errors import InputError, UnknownName

SECTIONS = ("solvers", "models", "controllers", "tasks", "plants", "batch", "tick")
ROBOT, PLANT = "solo12", "coulomb-lcp"
PERIODS = 640
"""Length of the recorded walk in control periods of 1 ms: two gait periods."""


def run(
    section: str,
    effort: Effort,
    *,
    contacts: Sequence[int] | None = None,
    on_row: Callable[[dict[str, Any]], None] = lambda row: None,
) -> dict[str, Any]:
    """Run one section of the bench, or all of them.

    Args:
        section: One of `SECTIONS`, or ``all``.
        effort: How long to measure each row.
        contacts: Numbers of contacts for the sections ``solvers`` and ``models``; None means their defaults.
        on_row: Called with each row as soon as it is measured.

    Returns:
        Floor, rows and the computer, as ``idcontrol bench --json`` prints them; and for each incomplete section, the
        reason.

    Raises:
        UnknownName: The section does not exist.
    """
    if section not in (*SECTIONS, "all"):
        raise UnknownName("section of the bench", section, (*SECTIONS, "all"))
    before = machine()
    walk = walks.walk(ROBOT, PLANT, PERIODS)
    floor_us, _ = in_turns([floor(walk)], len(walk.moments), effort.samples, effort.budget_s)
    rows, failed = [], {}
    for name in SECTIONS if section == "all" else (section,):
        try:
            for row in _rows(name, walk, effort, contacts):
                rows.append({"section": name, **row.as_json()})
                on_row(rows[-1])
        except InputError as error:  # a section takes minutes: its rows before the failure are kept
            failed[name] = str(error)
    return {"floor_us": float(np.median(floor_us)), "rows": rows, "failed": failed, "robot": ROBOT, "machine": before}


def _rows(name: str, walk: RecordedWalk, effort: Effort, contacts: Sequence[int] | None) -> Iterator[TimingRow]:
    if name == "solvers":
        return solvers.rows(walk, effort, contacts or solvers.CONTACTS)
    if name == "models":
        return models.rows(walk, effort, contacts or models.CONTACTS)
    sections = {"controllers": controllers, "tasks": tasks, "plants": plants, "batch": batch, "tick": tick}
    return sections[name].rows(walk, effort)
