"""The bench as a whole: sections, in order, and exponents."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from idcontrol.bench import controllers, history, models, plants, solvers
from idcontrol.bench.rows import Effort, Row
from idcontrol.bench.scenes import Scenes, Walk, floor
from idcontrol.bench.timing import in_turns
from idcontrol.errors import UnknownName

SECTIONS = ("solvers", "models", "controllers", "plants")
ROBOT, PLANT = "solo12", "coulomb-lcp"
PERIODS = 640
"""Length of the recorded walk: two gait periods [ms]."""

MANY = 10
"""Exponents are fitted to the rows with at least so many contacts: with fewer, what a call costs hides them."""


def run(
    scenes: Scenes,
    section: str,
    effort: Effort,
    *,
    contacts: Sequence[int] | None = None,
    told: Callable[[Row], None] = lambda row: None,
) -> dict[str, Any]:
    """Measure.

    Args:
        scenes: What to run on.
        section: One of `SECTIONS`, or ``all``.
        effort: How long to measure each row.
        contacts: Numbers of contacts for solvers and models; None are those of the section.
        told: Is told each row once it is there.

    Returns:
        Floor, rows, exponents and the machine, as ``idcontrol bench --json`` prints them.

    Raises:
        UnknownName: There is no such section.
    """
    if section not in (*SECTIONS, "all"):
        raise UnknownName("section of the bench", section, (*SECTIONS, "all"))
    before = history.machine()
    walk = scenes.walk(ROBOT, PLANT, PERIODS)
    floor_us, _ = in_turns([floor(walk)], len(walk.moments), effort.samples, effort.budget_s)
    rows = []
    for name in SECTIONS if section == "all" else (section,):
        for row in _rows(name, scenes, walk, effort, contacts):
            rows.append(row.as_json())
            told(row)
    return {
        "floor_us": float(np.median(floor_us)),
        "rows": rows,
        "exponents": exponents(rows),
        "robot": ROBOT,
        "machine": before,
    }


def _rows(name: str, scenes: Scenes, walk: Walk, effort: Effort, contacts: Sequence[int] | None) -> Iterator[Row]:
    if name == "solvers":
        return solvers.rows(walk, effort, contacts or solvers.CONTACTS)
    if name == "models":
        return models.rows(walk, effort, contacts or models.CONTACTS)
    if name == "controllers":
        return controllers.rows(walk, effort)
    return plants.rows(scenes, walk, effort)


def exponents(rows: Sequence[dict[str, Any]]) -> dict[str, float]:
    """Exponent of the median in the number of contacts, for jobs with two rows or more from `MANY` contacts on."""
    series: dict[str, dict[int, float]] = {}
    for row in rows:
        if row["section"] in ("models", "solvers") and row["peer"] is None and (row["contacts"] or 0) >= MANY:
            # in floors: the load of the machine, which changes within a run, cancels
            series.setdefault(row["what"], {})[row["contacts"]] = row["floor_ratio"]
    return {
        what: float(np.polyfit(np.log(list(points)), np.log(list(points.values())), 1)[0])
        for what, points in series.items()
        if len(points) > 1
    }
