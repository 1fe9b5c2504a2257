"""What a test case found: named numbers beside the paper's, and whether each passes its own check.

In a run's metrics (``metrics.json``, ``idcontrol run NAME --json``) they are ``key: value``, with ``paper``,
``checks``, ``units`` and ``notes`` as tables by key; ``completed`` says whether every check holds.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib
import msgspec
import numpy as np
from matplotlib.figure import Figure

from idcontrol.errors import InputError
from idcontrol.record.recording import Recorder, jsonable
from idcontrol.record.scenery import Scenery
from idcontrol.show.drawing import STYLE
from idcontrol.types import Array

__all__ = ["STYLE", "Drawing", "Finding", "save"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One number.

    Attributes:
        key: Its name in the JSON, the unit at its end: ``slide_mu_0125_m``.
        value: What was found; None where it could not be.
        unit: As text; "" if it has none.
        paper: What the paper shows; None where it shows nothing.
        holds: Whether it passes its check; None where there is none.
        note: What a reader must know to compare the two: a definition, or why the paper's is wrong.
    """

    key: str
    value: float | int | str | bool | None
    unit: str = ""
    paper: float | int | str | None = None
    holds: bool | None = None
    note: str = ""


@dataclass(frozen=True, slots=True)
class Drawing:
    """A figure for the page of a run.

    Attributes:
        title: Its heading.
        sentence: What it shows.
        figure: Drawn under ``matplotlib.rc_context(STYLE)``, so that pages look alike.
    """

    title: str
    sentence: str
    figure: Figure


def save(
    out: Path,
    *,
    experiment: str,
    config: msgspec.Struct,
    findings: Sequence[Finding],
    arrays: Mapping[str, Array] | None = None,
    units: Mapping[str, str] | None = None,
    wall_time: Sequence[str] = (),
    drawings: Sequence[Drawing] = (),
    extra: Mapping[str, Any] | None = None,
    began: float | None = None,
    scene: Scenery | None = None,
) -> dict[str, Any]:
    """Write the folder of a run that is over, and return its metrics.

    Args:
        out: An empty folder.
        experiment: Its name.
        config: The resolved configuration.
        findings: What was found; keys must differ.
        arrays: Series by name, the same number of rows in each.
        units: Of the series that have one.
        wall_time: Series that are wall time, hence differ from run to run.
        drawings: For the page that ``idcontrol report`` makes.
        extra: More metrics, for example ``{"rows": [...]}``.
        began: ``time.perf_counter()`` at the run's beginning, for ``wall_s``.
        scene: What ``idcontrol view`` shows of it; its poses are among the arrays.

    Raises:
        InputError: Two findings have one key, or series differ in length.
    """
    keys = [finding.key for finding in findings]
    if len(set(keys)) != len(keys):
        raise InputError(
            f"{experiment}: two findings have one key: {sorted(key for key in keys if keys.count(key) > 1)}"
        )
    arrays = arrays or {}
    lengths = {len(series) for series in arrays.values()}
    if len(lengths) > 1:
        raise InputError(f"{experiment}: series of different lengths {sorted(lengths)} cannot be one record")

    metrics: dict[str, Any] = {
        "completed": all(finding.holds is not False for finding in findings),
        **{finding.key: finding.value for finding in findings},
        **(extra or {}),
        "paper": {f.key: f.paper for f in findings if f.paper is not None},
        "checks": {f.key: f.holds for f in findings if f.holds is not None},
        "units": {f.key: f.unit for f in findings if f.unit},
        "notes": {f.key: f.note for f in findings if f.note},
    }
    if began is not None:
        metrics["wall_s"] = time.perf_counter() - began
    pictures = [
        {"file": f"figure-{number}.svg", "title": drawing.title, "sentence": drawing.sentence}
        for number, drawing in enumerate(drawings, start=1)
    ]
    channels = {name: np.shape(series)[1:] for name, series in arrays.items()}
    with Recorder(
        out,
        channels,
        units or {},
        {"experiment": experiment, "findings": keys, "figures": pictures}
        | ({} if scene is None else {"scene": msgspec.to_builtins(scene)}),
        config=jsonable(msgspec.to_builtins(config)),
        wall_time=tuple(wall_time),
    ) as recorder:
        with matplotlib.rc_context(STYLE):
            for picture, drawing in zip(pictures, drawings, strict=True):
                drawing.figure.savefig(out / picture["file"], metadata={"Date": None}, bbox_inches="tight")
        for row in range(max(lengths, default=0)):
            recorder.append(**{name: series[row] for name, series in arrays.items()})
        recorder.close(metrics)
    return metrics
