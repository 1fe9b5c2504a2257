"""Data of Zapolsky & Drumwright 2017, Figs. 6, 14, 15 and 17, and drawings of the torques of Figs. 6 and 15."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import matplotlib
import numpy as np

from idcontrol.experiments.headings import headed
from idcontrol.experiments.tables.results import (
    CONTROLLERS,
    MITIGATION,
    SENSING,
    TERRAINS,
    Results,
)
from idcontrol.record.drawing import STYLE, Picture, panels, picture
from idcontrol.record.recording import Run, load
from idcontrol.sweeps.figures import digest
from idcontrol.sweeps.record import RunOutcome
from idcontrol.sweeps.study import Table
from idcontrol.types import Array

CLOSE_UP_S = (1.0, 1.6)
"""Part of a run that Figs. 6 and 15 show: two gait periods."""

MITIGATION_SHOWN = (
    "Torques of the first (blue), second (orange) and third joint (green) of a leg on rigid ground, µ ∞, with and "
    "without the second stage."
)

FIG_14_S = 5.0
"""Length of the run that Fig. 14 shows."""


def figures_data(results: Results) -> Iterator[Table]:
    """Return series of Figs. 6, 14, 15 and 17."""
    close_up: list[tuple[Any, ...]] = []
    rates: list[tuple[Any, ...]] = []
    for preset, _, controller, run in results.firsts(("id-coulomb-qp", *MITIGATION, "id-coulomb-lcp")):
        t, tau = close_up_torques(load(run.folder))
        close_up += [(preset, controller, *row) for row in np.column_stack([t, tau]).tolist()]
        fastest = np.abs(np.diff(tau, axis=0)).max(axis=1, initial=0.0) / np.diff(t)
        rates += [(preset, controller, *pair) for pair in zip(t[1:].tolist(), fastest.tolist(), strict=True)]
    yield headed("fig06", close_up)
    yield headed("fig15", rates)

    errors: list[tuple[Any, ...]] = []
    paths: list[tuple[Any, ...]] = []
    for preset, terrain, controller, run in results.firsts(CONTROLLERS, TERRAINS):
        found = digest(run)
        if found is None:
            continue
        where, early = (preset, TERRAINS[terrain][0], controller), found.t <= FIG_14_S
        series = zip(found.t[early].tolist(), found.q_err[early].tolist(), strict=True)
        errors += [(*where, *pair) for pair in series]
        if terrain.startswith("rigid") and controller in ("id-coulomb-qp", "pid", *SENSING):
            paths += [(*where, *point) for point in found.com.tolist()]
    yield headed("fig14", errors)
    yield headed("fig17", paths)


def close_up_torques(run: Run) -> tuple[Array, Array]:
    """Return times and torques of the first leg within `CLOSE_UP_S`, or at the end of a run that ended earlier."""
    t = run.arrays["t"]
    begin, end = CLOSE_UP_S
    rows = (t >= begin) & (t < end) if t[-1] > end else t >= t[-1] - (end - begin)
    return t[rows], run.arrays["tau"][rows, :3]


def pictures(outcomes: Sequence[RunOutcome]) -> tuple[Picture, ...]:
    """Return the torques of Figs. 6 and 15, which the general figures of a comparison leave out."""
    results = Results(outcomes)
    order = ("id-coulomb-lcp", "id-coulomb-qp-raw", "id-coulomb-smooth", "id-coulomb-qp")
    shown = sorted(results.firsts(order), key=lambda first: order.index(first[2]))
    if not shown:
        return ()
    with matplotlib.rc_context(STYLE):
        figure, axes = panels([1.2] * -(-len(shown) // 2), 2, gap=0.55)
        for panel, (preset, _, controller, run) in zip(axes.flat, shown, strict=False):
            t, tau = close_up_torques(load(run.folder))
            panel.step(t, tau, where="post", linewidth=0.9)
            panel.set_title(f"{controller}, preset {preset}")
            panel.margins(x=0)
        for panel in axes.flat[len(shown) :]:
            panel.set_visible(False)
        for panel in axes[:, 0]:
            panel.set_ylabel("τ [N m]")
        for panel in axes[-1]:
            panel.set_xlabel("time [s]")
        return (picture("Torques of a leg (Figs. 6, 15)", MITIGATION_SHOWN, figure),)
