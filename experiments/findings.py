"""Results of a run (named numbers with the paper's numbers, series, drawings) and their record.

In a run's metrics (``metrics.json``, ``idcontrol run NAME --json``) each finding is ``key: value``, with ``paper``,
``checks``, ``verdicts``, ``sources``, ``units`` and ``notes`` as tables by key; ``completed`` is true if every check
holds.
"""

from __future__ import annotations

import time
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib
import msgspec
import numpy as np
from matplotlib.figure import Figure

from idcontrol.config.configuration import jsonable
from idcontrol.errors import InputError
from idcontrol.experiments.verdicts import close, verdict
from idcontrol.record.drawing import STYLE
from idcontrol.record.quantities import words
from idcontrol.record.recording import Recorder
from idcontrol.record.scenery import Scenery
from idcontrol.types import Array


@dataclass(frozen=True, slots=True)
class Finding:
    """A number from a run, compared with the paper's number.

    Fields that are the same in every run come from the experiment's table, ``paper/EXPERIMENT.toml`` (`described`).

    Attributes:
        key: Name in the JSON, with the unit at its end: ``slide_mu_0125_m``.
        value: The number; None if it could not be determined.
        holds: True if it passes its check; None without a check.
        agrees: True if it agrees with the paper's statement in words; None means the same as `holds`.
        beside: True if the paper's number is for these settings.
        paper: The paper's number; None if the paper prints none.
        source: Place in the paper, such as "Drumwright 2019, Table 1".
        derivation: The page that derives how the number differs from the paper's; "" without such a page.
        unit: Unit as text; "" for the unit at the end of the key.
        note: Meaning of the number, or why the paper's number is wrong.
    """

    key: str
    value: float | int | str | bool | np.generic | None
    holds: bool | np.bool | None = None
    agrees: bool | np.bool | None = None
    beside: bool = True
    paper: float | int | str | None = None
    source: str = ""
    derivation: str = ""
    unit: str = ""
    note: str = ""

    def __post_init__(self) -> None:
        """Convert NumPy's numbers to Python's."""
        for name in ("value", "holds", "agrees"):
            if isinstance(number := getattr(self, name), np.generic):
                object.__setattr__(self, name, number.item())

    def described(self, rows: Mapping[str, Mapping[str, Any]]) -> Finding:
        """Return a copy with empty fields filled from the row for its key, or for the longest pattern that matches."""
        fitting = [pattern for pattern in rows if fnmatchcase(self.key, pattern)]
        row = rows.get(self.key) or rows.get(max(fitting, key=len, default=""), {})
        filled = replace(self, **{name: value for name, value in row.items() if not getattr(self, name)})
        paper = filled.paper.get(self.key) if isinstance(filled.paper, dict) else filled.paper
        return replace(filled, unit=filled.unit or words(self.key)[1], paper=paper if self.beside else None)

    @property
    def verdict(self) -> str | None:
        """Return the verdict on the number (`idcontrol.experiments.verdicts`); None if there is nothing to compare."""
        if self.paper is None:
            return None
        if isinstance(self.paper, str):
            outcome = self.holds if self.agrees is None else self.agrees
            return None if outcome is None else verdict(bool(outcome), self.derivation)
        agrees = isinstance(self.value, int | float) and close(self.value, self.paper)
        return verdict(agrees, self.derivation)


@lru_cache
def table(experiment: str) -> Mapping[str, Mapping[str, Any]]:
    """Return rows of ``paper/EXPERIMENT.toml``: findings by key or pattern, and sentences of ``figures`` by title.

    The row of a pattern may contain the paper's numbers as a table by key.

    An experiment without such a file has no rows.
    """
    file = Path(__file__).parent / "paper" / f"{experiment}.toml"
    return tomllib.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}


class Series(NamedTuple):
    """Numbers of a run, one for each row of its record.

    Attributes:
        values: The numbers, shape (rows,) or (rows, k).
        unit: Unit as text; "" if they have none.
        wall_time: True if they are wall times, which differ from run to run.
    """

    values: Array
    unit: str = ""
    wall_time: bool = False


def histories(arrays: Mapping[str, Array], units: Mapping[str, str]) -> dict[str, Series]:
    """Make series of arrays by name; a time of a step, ``..._us``, is wall time."""
    return {name: Series(x, units.get(name, ""), wall_time=name.endswith("_us")) for name, x in arrays.items()}


class Drawing(NamedTuple):
    """A figure for the page of a run.

    Attributes:
        title: Heading; the experiment's table may have a sentence that explains the figure.
        figure: The figure, drawn on `axes` for the common style of pages.
    """

    title: str
    figure: Figure


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """The results of one run.

    Attributes:
        findings: The numbers in the order in which they are shown; keys must differ.
        series: The series by name, all of the same length.
        drawings: Figures for the page that ``idcontrol report`` makes.
        extra: More metrics, for example ``{"rows": [...]}``.
        scene: The scene that ``idcontrol view`` shows; its poses are among the series.
    """

    findings: Sequence[Finding]
    series: Mapping[str, Series] = field(default_factory=dict)
    drawings: Sequence[Drawing] = ()
    extra: Mapping[str, Any] = field(default_factory=dict)
    scene: Scenery | None = None


def save(
    out: Path, experiment: str, config: msgspec.Struct, results: Results, *, began: float | None = None
) -> dict[str, Any]:
    """Write the folder of a finished run, and return its metrics.

    Args:
        out: An empty folder.
        experiment: Name of the experiment.
        config: The resolved configuration.
        results: The results of the run.
        began: ``time.perf_counter()`` at the run's beginning, for the metric ``wall_s``; None leaves this metric out.

    Raises:
        InputError: Two findings have the same key, or series differ in length.
    """
    rows = dict(table(experiment))
    sentences, series = rows.pop("figures", {}), results.series
    findings = [finding.described(rows) for finding in results.findings]
    keys = [finding.key for finding in findings]
    if len(set(keys)) != len(keys):
        raise InputError(
            f"{experiment}: two findings have one key: {sorted(key for key in keys if keys.count(key) > 1)}"
        )
    lengths = {len(one.values) for one in series.values()}
    if len(lengths) > 1:
        raise InputError(f"{experiment}: series of different lengths {sorted(lengths)} do not fit one record")

    metrics: dict[str, Any] = {
        "completed": all(finding.holds is not False for finding in findings),
        **{finding.key: finding.value for finding in findings},
        **results.extra,
        "paper": {f.key: f.paper for f in findings if f.paper is not None},
        "checks": {f.key: f.holds for f in findings if f.holds is not None},
        "verdicts": {f.key: f.verdict for f in findings if f.verdict is not None},
        "sources": {f.key: f.source for f in findings if f.verdict is not None},
        "units": {f.key: f.unit for f in findings if f.unit},
        "notes": {f.key: f.note for f in findings if f.note} | results.extra.get("notes", {}),
    }
    if began is not None:
        metrics["wall_s"] = time.perf_counter() - began
    pictures = [
        {"file": f"figure-{number}.svg", "title": drawing.title, "sentence": sentences.get(drawing.title, "")}
        for number, drawing in enumerate(results.drawings, start=1)
    ]
    with Recorder(
        out,
        {name: np.shape(one.values)[1:] for name, one in series.items()},
        {name: one.unit for name, one in series.items() if one.unit},
        {"experiment": experiment, "findings": keys, "figures": pictures}
        | ({} if results.scene is None else {"scene": msgspec.to_builtins(results.scene)}),
        config=jsonable(msgspec.to_builtins(config)),
        wall_time=tuple(name for name, one in series.items() if one.wall_time),
    ) as recorder:
        with matplotlib.rc_context(STYLE):
            for picture, drawing in zip(pictures, results.drawings, strict=True):
                drawing.figure.savefig(out / picture["file"], metadata={"Date": None}, bbox_inches="tight")
        for row in range(max(lengths, default=0)):
            recorder.append(**{name: one.values[row] for name, one in series.items()})
        recorder.close(metrics)
    return metrics


@contextmanager
def axes(rows: int = 1, columns: int = 1, *, size: tuple[float, float] = (7.0, 4.0), **shared: Any) -> Iterator[Any]:
    """Yield the axes of a new figure in the style of all pages; draw on them within the ``with``.

    Args:
        rows: Number of rows of axes.
        columns: Number of columns of axes.
        size: Width and height of the figure [inches].
        shared: Further arguments of `Figure.subplots`.

    Yields:
        Single axes, or an array of axes if there are several.
    """
    with matplotlib.rc_context(STYLE):
        yield Figure(figsize=size).subplots(rows, columns, **shared)
