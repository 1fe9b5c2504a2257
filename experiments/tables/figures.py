"""Drawings of the torques of Zapolsky & Drumwright 2017, Figs. 6 and 15."""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib
from matplotlib.artist import setp

from idcontrol.experiments.tables.results import PRESETS, SMOOTHNESS_ON, Results
from idcontrol.record.drawing import STYLE, Picture, panels, picture
from idcontrol.record.recording import Run, load
from idcontrol.sweeps.record import RunOutcome
from idcontrol.types import Array

CLOSE_UP_S = (1.0, 1.6)
"""Part of a run that Figs. 6 and 15 show: two gait periods."""

MITIGATION_SHOWN = (
    "Torques of the first (blue), second (orange) and third joint (green) of a leg on rigid ground, µ ∞, with and "
    "without the second stage."
)


def close_up_torques(run: Run) -> tuple[Array, Array]:
    """Return times and torques of the first leg within `CLOSE_UP_S`, or at the end of a run that ends earlier."""
    t = run.arrays["t"]
    begin, end = CLOSE_UP_S
    rows = (t >= begin) & (t < end) if t[-1] > end else t >= t[-1] - (end - begin)
    return t[rows], run.arrays["tau"][rows, :3]


def pictures(outcomes: Sequence[RunOutcome]) -> tuple[Picture, ...]:
    """Draw the torques of Figs. 6 and 15, which the general figures of a comparison leave out."""
    results = Results(outcomes)
    order = ("id-coulomb-lcp", "id-coulomb-qp-raw", "id-coulomb-smooth", "id-coulomb-qp")
    shown = [
        (f"{controller}, preset {preset}", run)
        for controller in order
        for preset in PRESETS
        for run in results.at(preset, controller, SMOOTHNESS_ON)[:1]
        if run.metrics is not None
    ]
    if not shown:
        return ()
    with matplotlib.rc_context(STYLE):
        figure, axes = panels([1.2] * -(-len(shown) // 2), 2, gap=0.55)
        for panel, (title, run) in zip(axes.flat, shown, strict=False):
            t, tau = close_up_torques(load(run.folder))
            panel.step(t, tau, where="post", linewidth=0.9)
            panel.set_title(title)
            panel.margins(x=0)
        setp(axes.flat[len(shown) :], visible=False)
        setp(axes[:, 0], ylabel="τ [N m]")
        setp(axes[-1], xlabel="time [s]")
        return (picture("Torques of a leg (Figs. 6, 15)", MITIGATION_SHOWN, figure),)
