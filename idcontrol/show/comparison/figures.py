"""Figures of a comparison."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.artist import setp
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter, StrMethodFormatter

from idcontrol.record.drawing import STYLE, Picture, legend_above, panels, picture
from idcontrol.record.recording import load
from idcontrol.sweeps.record import RunOutcome, varied_keys
from idcontrol.types import Array

PANELS = 8
"""Maximum number of panels in a figure. A panel shows one *condition*: a combination of the varied settings, except the
seed and the setting that distinguishes lines."""

DISTINCT = 20
"""Maximum number of conditions with a separate colour, marker and legend entry."""

JOINED = 12
"""Maximum number of values of a setting that are joined by a line; more values are treated as random draws."""

COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7a5195", "#8c6d31", "#444444", "#9aa0a6")
"""Colours of the lines; colour-blind readers can tell the first six apart."""
_MARKERS = "os^Dv<>ph*"

CURVES = (
    ("q_err_rad", "joint error [rad]", False),
    ("dtau_mean_nm_s", "mean |Δτ/Δt| [N m/s]", True),
    ("force_err_rel", "force error, relative", True),
)
"""Quantities drawn against a setting: key, label, True for a logarithmic axis."""

MEANS = "Means over seeds; crosses: runs that failed their task."
RATES = "From the mean over the run (marker) to the largest (end of the line); hollow: runs that failed their task."
TRACKING = "Mean joint position error, gait period by gait period. A line that ends early is a run that fell."
FORCES = "Mean error of the normal force that the controller predicted at each foot, of runs that completed their task."
"""Captions of the figures."""


@dataclass(frozen=True, slots=True)
class Digest:
    """The arrays of a walk, reduced to the contents of the figures.

    Attributes:
        t: Middle of each gait period [s].
        q_err: Mean joint position error in each gait period [rad].
        com: Centre of mass from above, once a gait period, shape (k, 2) [m].
        waypoints: Waypoints, shape (w, 2) [m].
        feet: Names of the feet.
        foot_err: Mean error of each foot's predicted normal force in ticks in which the real or the predicted force is
            positive, shape (n_feet,) [N]; NaN without prediction.
    """

    t: Array
    q_err: Array
    com: Array
    waypoints: Array
    feet: tuple[str, ...]
    foot_err: Array


def digest(outcome: RunOutcome) -> Digest | None:
    """Return the digest of a finished run; None if it is unfinished, or not a walk of two rows or more."""
    return _digest(outcome.folder) if outcome.metrics is not None else None


@lru_cache(maxsize=1024)
def _digest(folder: Path) -> Digest | None:
    run = load(folder)
    arrays, layout = run.arrays, run.layout
    if layout is None or len(arrays["t"]) < 2:
        return None
    rows = len(arrays["t"])
    first = np.arange(0, rows, max(1, round(layout.gait_period_s / layout.period_s)))
    error = np.abs(arrays["q"][:, list(layout.joint_q)] - arrays["q_des"]).mean(axis=1)
    counts = np.diff(np.append(first, rows))
    force, predicted = arrays["force"][:, :, 2], arrays["force_pred"][:, :, 2]
    counted = ~np.isnan(predicted) & ((force > 0.0) | (predicted > 0.0))
    off = np.where(counted, np.abs(np.nan_to_num(predicted) - force), 0.0).sum(axis=0)
    with np.errstate(invalid="ignore"):
        foot_err = off / counted.sum(axis=0)
    return Digest(
        t=arrays["t"][first] + 0.5 * layout.gait_period_s,
        q_err=np.add.reduceat(error, first) / counts,
        com=arrays["com"][first, :2],
        waypoints=np.array(layout.waypoints).reshape(-1, 2),
        feet=layout.feet,
        foot_err=foot_err,
    )


def pictures(
    outcomes: Sequence[RunOutcome], grouping: Callable[[RunOutcome], tuple[str, str]] | None = None
) -> list[Picture]:
    """Return all figures for which these runs have metrics and arrays.

    Args:
        outcomes: The runs.
        grouping: Returns the names of a run's line and panel (`Study.grouping`).
    """
    scene = _Scene.of(outcomes, grouping)
    with matplotlib.rc_context(STYLE):
        drawn = [
            *((f"Effect of {key}", MEANS, _curves(scene, key)) for key in scene.numeric),
            ("Torque rate", RATES, _torque_rate(scene)),
            ("Tracking error", TRACKING, _tracking(scene)),
            ("Path of the centre of mass", "The centre of mass from above; crosses are waypoints.", _paths(scene)),
            ("Predicted contact force, foot by foot", FORCES, _feet(scene)),
        ]
        return [picture(title, sentence, figure) for title, sentence, figure in drawn if figure is not None]


@dataclass(frozen=True, slots=True)
class _Scene:
    """Runs by line (one colour each, usually a controller) and by panel (all other varied settings except the seed)."""

    outcomes: Sequence[RunOutcome]
    groups: Mapping[str, tuple[str, str]]
    lines: tuple[str, ...]
    panels: Mapping[str, Sequence[RunOutcome]]
    numeric: tuple[str, ...]

    @staticmethod
    def of(outcomes: Sequence[RunOutcome], grouping: Callable[[RunOutcome], tuple[str, str]] | None) -> _Scene:
        varied = [key for key in varied_keys([o.row for o in outcomes]) if key != "seed"]
        line_key = "controller" if "controller" in varied or not varied else varied[0]
        others = [key for key in varied if key != line_key]

        def by_settings(outcome: RunOutcome) -> tuple[str, str]:
            return str(outcome.setting(line_key)), ", ".join(f"{key} {outcome.setting(key)}" for key in others)

        groups = {o.row.name: (grouping or by_settings)(o) for o in outcomes}
        panels: dict[str, list[RunOutcome]] = {}
        for o in outcomes:
            panels.setdefault(groups[o.row.name][1], []).append(o)
        return _Scene(
            outcomes=outcomes,
            groups=groups,
            lines=tuple(dict.fromkeys(line for line, _ in groups.values())),
            panels=panels,
            numeric=tuple(
                key
                for key in varied
                if _is_numeric(outcomes, key) and (grouping is None or _moves_a_line(outcomes, key, groups))
            ),
        )

    def color(self, line: str) -> str:
        return COLORS[self.lines.index(line) % len(COLORS)]

    def line(self, outcome: RunOutcome) -> str:
        return self.groups[outcome.row.name][0]


def _is_numeric(outcomes: Sequence[RunOutcome], key: str) -> bool:
    """True if a setting can be an axis: it has more than two different values, all of them finite numbers."""
    values = [outcome.setting(key) for outcome in outcomes]
    numbers = {value for value in values if isinstance(value, int | float) and not isinstance(value, bool)}
    return len(numbers) > 2 and all(map(math.isfinite, numbers)) and len(numbers) == len(set(map(str, values)))


def _moves_a_line(outcomes: Sequence[RunOutcome], key: str, groups: Mapping[str, tuple[str, str]]) -> bool:
    """True if the setting varies between runs of the same line and panel."""
    values: dict[tuple[str, str], set[Any]] = {}
    for o in outcomes:
        values.setdefault(groups[o.row.name], set()).add(o.setting(key))
    return any(len(digested) > 1 for digested in values.values())


def _torque_rate(scene: _Scene) -> Figure | None:
    key = "dtau_mean_nm_s"
    if not any(o.metric(key) is not None for o in scene.outcomes):
        return None
    figure, axes = panels([0.34 * len(scene.lines) + 0.4])
    few = len(scene.panels) <= DISTINCT
    for number, (condition, members) in enumerate(scene.panels.items()):
        color = COLORS[number % len(COLORS) if few else 0]
        # markers shift by one in each round of colours, so that no two conditions look alike
        marker = _MARKERS[(number + number // len(COLORS)) % len(_MARKERS)] if few else "o"
        for o in members:
            if o.metric(key) is None:
                continue
            place = scene.lines.index(scene.line(o)) + 0.5 * (number - (len(scene.panels) - 1) / 2) / len(scene.panels)
            look = {"color": color, "fillstyle": "full" if o.done else "none"}
            axes[0, 0].plot(o.metric(key), place, marker, markersize=5, **look)
            axes[0, 0].plot([o.metric(key), o.metric("dtau_max_nm_s")], [place, place], linewidth=0.8, **look)
        if few:
            axes[0, 0].plot([], [], marker, color=color, label=condition)
    axes[0, 0].set_yticks(range(len(scene.lines)), scene.lines)
    axes[0, 0].set_ylim(len(scene.lines) - 0.5, -0.5)  # the first line is on top, and no line is at the edge
    axes[0, 0].set_xscale("log")
    axes[0, 0].set_xlabel("|Δτ/Δt| [N m/s]")
    legend_above(figure, axes[0, 0])
    return figure


def _tracking(scene: _Scene) -> Figure | None:
    def draw(axes: Any, o: RunOutcome, digested: Digest, color: str) -> None:
        # a run that fell in its first gait period has a single point
        axes.plot(digested.t, 1e3 * digested.q_err, "x" if len(digested.t) == 1 else "-", color=color, linewidth=1.0)
        _log(axes.yaxis)

    return _panels(scene, draw, x="time [s]", y="|q − q_des| [mrad]")


def _paths(scene: _Scene) -> Figure | None:
    def draw(axes: Any, o: RunOutcome, digested: Digest, color: str) -> None:
        axes.plot(digested.com[:, 0], digested.com[:, 1], color=color, linewidth=1.0)
        if len(digested.waypoints):
            axes.plot(*digested.waypoints.T, "+", color="#444444", markersize=7)
        axes.set_aspect("equal", adjustable="datalim")

    return _panels(scene, draw, x="x [m]", y="y [m]")


def _feet(scene: _Scene) -> Figure | None:
    def predicted(o: RunOutcome, digested: Digest) -> bool:
        # a falling robot may predict a million newtons, which would hide all other values
        return o.done and bool(np.isfinite(digested.foot_err).any())

    def draw(axes: Any, o: RunOutcome, digested: Digest, color: str) -> None:
        # points of different lines are side by side, so that none hides another
        beside = 0.5 * ((scene.lines.index(scene.line(o)) + 0.5) / len(scene.lines) - 0.5)
        axes.plot(np.arange(len(digested.feet)) + beside, digested.foot_err, "o", color=color, markersize=4)
        axes.set_xticks(range(len(digested.feet)), digested.feet)
        axes.set_xlim(-0.5, len(digested.feet) - 0.5)
        _log(axes.yaxis)

    return _panels(scene, draw, predicted, x="", y="mean error [N]")


def _panels(
    scene: _Scene,
    draw: Callable[[Any, RunOutcome, Digest, str], None],
    wanted: Callable[[RunOutcome, Digest], bool] = lambda o, digested: True,
    *,
    x: str,
    y: str,
) -> Figure | None:
    """Return a figure with a colour per line and a panel per condition, at most `PANELS`; None if no run is drawn."""
    drawable: dict[str, list[tuple[RunOutcome, Digest]]] = {}
    for condition, members in scene.panels.items():
        for o in members:
            digested = digest(o)
            if digested is not None and wanted(o, digested):
                drawable.setdefault(condition, []).append((o, digested))
    if not drawable:
        return None
    shown = dict(list(drawable.items())[:PANELS])
    columns = 2 if len(shown) > 1 else 1
    rows = -(-len(shown) // columns)
    figure, axes = panels([2.3] * rows, columns, gap=0.5)
    for panel, (condition, drawn) in zip(axes.flat, shown.items(), strict=False):
        for o, digested in drawn:
            draw(panel, o, digested, scene.color(scene.line(o)))
        panel.set_title(condition)
    setp(axes.flat[len(shown) :], visible=False)
    setp(axes[:, 0], ylabel=y)
    setp(axes[-1], xlabel=x)
    present = {scene.line(o) for drawn in shown.values() for o, _ in drawn}
    for line in scene.lines:
        if line in present:
            axes[0, 0].plot([], [], color=scene.color(line), label=line)
    legend_above(figure, axes[0, 0])
    if len(drawable) > len(shown):
        note = f"{len(drawable) - len(shown)} more conditions are not drawn"
        figure.supxlabel(note, x=0.01, ha="left", fontsize=9, color="#5f6368")
    return figure


def _curves(scene: _Scene, key: str) -> Figure | None:
    """Return a figure of the metrics `CURVES` against a numeric setting; None if no run has one of them."""
    shown = [curve for curve in CURVES if any(o.metric(curve[0]) is not None for o in scene.outcomes)]
    if not shown:
        return None
    figure, axes = panels([2.6], len(shown))
    for panel, (metric, label, log) in zip(axes[0], shown, strict=True):
        for line in scene.lines:
            members = [o for o in scene.outcomes if scene.line(o) == line and o.metric(metric) is not None]
            values, means = _means(sorted((o for o in members if o.done), key=lambda o: o.setting(key)), key, metric)
            panel.plot(values, means, "o-" if len(values) <= JOINED else "o", color=scene.color(line), markersize=4)
            failed = [o for o in members if not o.done]
            panel.plot(*_means(failed, key, metric), "x", color=scene.color(line), markersize=5)
        panel.set_xlabel(key)
        panel.set_ylabel(label)
        if log:
            _log(panel.yaxis)
    for line in scene.lines:
        axes[0, 0].plot([], [], "o-", color=scene.color(line), label=line)
    legend_above(figure, axes[0, 0])
    return figure


def _log(axis: Any) -> None:
    """Make an axis logarithmic, with plain numbers at its ticks; an axis without positive values stays linear.

    Over less than two decades, ticks are at 1, 2 and 5 of each decade; over less than a factor of 5, at round numbers.
    """
    if not np.isfinite(axis.get_minpos()):  # all values are zero, like the error of a robot in its first steps
        return
    axis.axes.set(**{f"{axis.axis_name}scale": "log"})
    low, high = axis.get_view_interval()
    if high < 5.0 * low:  # with ticks only at 1, 2 and 5 there would be only one or two
        axis.set_major_locator(MaxNLocator(5))
    else:
        axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if high < 100.0 * low else (1.0,)))
    axis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axis.set_minor_formatter(NullFormatter())


def _means(outcomes: Sequence[RunOutcome], key: str, metric: str) -> tuple[list[float], list[float]]:
    """Return the values of a setting, and the mean of a metric over the runs with each value."""
    by_value: dict[float, list[float]] = {}
    for o in outcomes:
        by_value.setdefault(o.setting(key), []).append(o.metric(metric))
    return list(by_value), [float(np.mean(values)) for values in by_value.values()]
