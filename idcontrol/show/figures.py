"""Figures of a locomotion run, each with a sentence that explains it.

Curves over a whole run show mean and extremes of each gait period, so that no peak is lost and the size of a figure is
bounded. Details within a step are drawn for a few gait periods only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import matplotlib
import numpy as np
from matplotlib.figure import Figure

from idcontrol.record.metrics import TOUCHING_N, Layout, distance_to_segment
from idcontrol.show.drawing import COLORS, STYLE, Picture, panels, picture
from idcontrol.types import Array, Booleans, Integers, Status

BINS = 1200
"""Largest number of points of a curve over a whole run: about one per pixel."""
PERIODS = 4
"""Number of gait periods in the figures that show details within a step."""

DRAWABLE = 1e12
"""Larger numbers are drawn as unknown: an axis over hundreds of decades takes minutes."""

_PLANNED, _QUIET, _SHADE = "#444444", "#9aa0a6", "#eef1f4"
_STATUS_COLORS = {
    Status.SOLVED: "#c8e6d4",
    Status.REPAIRED: "#e69f00",
    Status.FALLBACK: "#d55e00",
    Status.FAILED: "#000000",
}


@dataclass(frozen=True, slots=True)
class _GaitRecord:
    """Data of the figures: the arrays of a run, and the rows of a few gait periods."""

    arrays: Mapping[str, Array]
    layout: Layout
    rows: slice

    def close_up(self, name: str) -> Array:
        return self.arrays[name][self.rows]

    @property
    def q(self) -> Array:
        return self.arrays["q"][:, list(self.layout.joint_q)]

    @property
    def v(self) -> Array:
        return self.arrays["v"][:, list(self.layout.joint_v)]


def locomotion(arrays: Mapping[str, Array], layout: Layout) -> list[Picture]:
    """All figures of a locomotion run, in the order of the page; none if there are too few rows to draw.

    Args:
        arrays: Channels as listed in `idcontrol.record.metrics`, shape (rows, ...).
        layout: Facts about the run that are not in the arrays.
    """
    if len(arrays["t"]) < 3:
        return []
    arrays = {name: np.where(np.abs(values) < DRAWABLE, values, np.nan) for name, values in arrays.items()}
    scene = _GaitRecord(arrays, layout, _close_up_rows(arrays, layout))
    from_s, to_s = (arrays["t"][i] for i in (scene.rows.start, scene.rows.stop - 1))
    when = f"from {from_s:.2f} s to {to_s:.2f} s"
    pictures: tuple[tuple[str, str, Callable[[_GaitRecord], Figure]], ...] = (
        (
            "The run at a glance",
            "Joint errors, torque rate, error of the predicted contact force, height and tilt of the base, and how "
            "the steps of controller and plant ended. Lines are means over a gait period, bands reach up to the "
            "largest value. Shaded: turning in place.",
            _glance,
        ),
        (
            "Path",
            "Left: base and centre of mass from above; waypoints are numbered in order. Right: distance of the centre "
            "of mass to the line between two waypoints, mean and largest; turning in place (shaded) does not count.",
            _path,
        ),
        ("Joints", f"Joint positions {when}: measured (broad, blue) and reference (thin, dark).", _joints),
        (
            "Torques",
            f"Joint torques (left) and their rate of change (right), leg by leg, {when}. Dotted: torque limits, if "
            "they are near.",
            _torques,
        ),
        (
            "Contact forces",
            f"Vertical contact force of each foot, and their sum, {when}: in the plant (filled) and as predicted by "
            "the controller (line). Shaded: planned stance.",
            _forces,
        ),
        (
            "Feet and gait",
            f"Gait diagram {when}, planned stance above real contact; below, heights of the foot centres, measured and "
            "planned. Shaded: planned stance.",
            _feet,
        ),
    )
    with matplotlib.rc_context(STYLE):
        return [picture(title, sentence, draw(scene)) for title, sentence, draw in pictures]


def _close_up_rows(arrays: Mapping[str, Array], layout: Layout) -> slice:
    """Rows of a few gait periods: the first after 1 s without turning, else the last ones of the run."""
    length = min(max(round(PERIODS * layout.gait_period_s / layout.period_s), 3), len(arrays["t"]))
    turns = np.concatenate([[0], np.cumsum(arrays["turning"] > 0.5)])
    starts: Integers = np.arange(len(arrays["t"]) - length + 1)
    straight = starts[(arrays["t"][starts] >= arrays["t"][0] + 1.0) & (turns[starts + length] == turns[starts])]
    first = int(straight[0]) if straight.size else int(starts[-1])
    return slice(first, first + length)


class _Bins:
    """Consecutive rows joined into bins: a gait period each, or longer where there would be more than `BINS` bins."""

    def __init__(self, t: Array, rows: int) -> None:
        """Join at least `rows` rows per bin; `t` are the times of all rows."""
        rows = max(rows, -(-len(t) // BINS), 1)
        self.first: Integers = np.arange(0, len(t), rows)
        self.count = np.diff(np.append(self.first, len(t)))
        self.edges = np.append(t[self.first], t[-1] + (t[1] - t[0]))
        self.middle = (self.edges[1:] + self.edges[:-1]) / 2

    def mean(self, values: Array) -> Array:
        return np.add.reduceat(values, self.first) / self.count

    def largest(self, values: Array) -> Array:
        return np.fmax.reduceat(values, self.first)

    def smallest(self, values: Array) -> Array:
        return np.fmin.reduceat(values, self.first)


def _strip(axes: Any, bins: _Bins, values: Array, label: str, color: str, *, log: bool = False) -> None:
    """Draw the mean over columns and bins, and a band up to the largest value; `values` (rows, columns)."""
    largest, mean = bins.largest(values.max(axis=1)), bins.mean(values.mean(axis=1))
    log = log and bool((mean > 0).any())
    floor = mean[mean > 0].min() / 2 if log else 0.0
    axes.set_yscale("log" if log else "linear")
    axes.stairs(np.fmax(largest, floor), bins.edges, baseline=floor, fill=True, color=color, alpha=0.2, linewidth=0)
    axes.plot(bins.middle, mean, color=color)
    axes.set_ylabel(label)
    axes.set_ylim(bottom=floor)


def _band(axes: Any, bins: _Bins, values: Array, label: str, color: str) -> None:
    """Draw the mean over bins, and a band between smallest and largest value; `values` (rows,)."""
    low, high = bins.smallest(values), bins.largest(values)
    axes.stairs(high, bins.edges, baseline=low, fill=True, color=color, alpha=0.2, linewidth=0)
    axes.plot(bins.middle, bins.mean(values), color=color)
    axes.set_ylabel(label)


def _intervals(t: Array, flag: Booleans) -> list[tuple[float, float]]:
    """Beginning and duration of the intervals in which `flag` (rows,) holds."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], flag, [False]]).astype(np.int8))).reshape(-1, 2)
    h = t[1] - t[0]
    return [(t[first], t[last - 1] + h - t[first]) for first, last in edges]


def _shade(axes: Any, t: Array, flag: Booleans) -> None:
    """Shade the intervals in which `flag` (rows,) holds."""
    for begin, duration in _intervals(t, flag):
        axes.axvspan(begin, begin + duration, color=_SHADE, linewidth=0, zorder=0)


def _glance(scene: _GaitRecord) -> Figure:
    arrays, t, h = scene.arrays, scene.arrays["t"], scene.layout.period_s
    rows = round(scene.layout.gait_period_s / h)
    bins = _Bins(t, rows)
    figure, grid = panels([*[1.0] * 6, 0.45], sharex=True)
    axes = grid[:, 0]
    _strip(axes[0], bins, 1e3 * np.abs(scene.q - arrays["q_des"]), "|q − q_des|\nmrad", COLORS[0])
    _strip(axes[1], bins, np.abs(scene.v - arrays["v_des"]), "|q̇ − q̇_des|\nrad/s", COLORS[0], log=True)
    _strip(
        axes[2], _Bins(t[1:], rows), np.abs(np.diff(arrays["tau"], axis=0)) / h, "|Δτ/Δt|\nN m/s", COLORS[1], log=True
    )
    predicted = arrays["force_pred"][:, :, 2]
    error = np.abs(np.nansum(predicted, axis=1) - arrays["force"][:, :, 2].sum(axis=1))
    error[np.isnan(predicted).all(axis=1)] = np.nan
    if np.isfinite(error).any():
        _strip(axes[3], bins, error[:, None], "force error\nN", COLORS[2], log=True)
    else:
        axes[3].set_ylabel("force error\nN")
        axes[3].text(0.5, 0.5, "nothing was predicted", transform=axes[3].transAxes, ha="center", color=_QUIET)
        axes[3].set_yticks([])
    _band(axes[4], bins, 1e3 * (arrays["q"][:, 2] - arrays["base_ref"][:, 2]), "height error\nmm", COLORS[3])
    _strip(axes[5], bins, 1e3 * arrays["base_tilt"][:, None], "tilt\nmrad", COLORS[3])
    _statuses(axes[6], t, {"plant": arrays["plant_status"], "controller": arrays["status"]})
    for row in axes[:6]:
        _shade(row, t, arrays["turning"] > 0.5)
    axes[6].set_xlim(t[0], t[-1] + h)
    axes[6].set_xlabel("time [s]")
    return figure


def _statuses(axes: Any, t: Array, statuses: Mapping[str, Array]) -> None:
    """Draw one bar per solver; each bin shows the worst status within it."""
    bins = _Bins(t, 1)
    for row, status in enumerate(statuses.values()):
        worst = bins.largest(np.nan_to_num(status, nan=-1.0))
        for kind, color in _STATUS_COLORS.items():
            outline = 0.0 if kind is Status.SOLVED else 1.5  # keeps a single bad step visible
            when = _intervals(bins.edges[:-1], worst == kind)
            axes.broken_barh(when, (row - 0.4, 0.8), color=color, linewidth=outline, zorder=2 + kind)
    for kind, color in _STATUS_COLORS.items():
        axes.bar([t[0]], [0], color=color, label=kind.name.lower())
    axes.set_yticks(range(len(statuses)), list(statuses))
    axes.set_ylim(-0.6, len(statuses) - 0.4)
    axes.grid(visible=False)
    axes.legend(loc="upper right", bbox_to_anchor=(1.0, -0.35), ncols=4)


def _path(scene: _GaitRecord) -> Figure:
    arrays, t = scene.arrays, scene.arrays["t"]
    figure, grid = panels([3.9], 2, aside=0.75)
    above, off = grid[0]
    goals = np.array(scene.layout.waypoints).reshape(-1, 2)
    above.plot(arrays["q"][:, 0], arrays["q"][:, 1], color=_QUIET, linewidth=0.8, label="base")
    above.plot(arrays["com"][:, 0], arrays["com"][:, 1], color=COLORS[0], label="centre of mass")
    above.plot(arrays["q"][0, 0], arrays["q"][0, 1], "s", color=_PLANNED, markersize=5, label="start")
    if len(goals):
        above.plot(goals[:, 0], goals[:, 1], "o", color=COLORS[1], markersize=6, label="waypoints")
        for number, goal in enumerate(goals, start=1):
            above.annotate(f"{number}", goal, xytext=(6, 6), textcoords="offset points", color=COLORS[1])
    above.set_aspect("equal", adjustable="datalim")
    above.margins(0.12)
    above.set_xlabel("x [m]")
    above.set_ylabel("y [m]")
    above.legend(loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=4, handlelength=1.2, columnspacing=1.2)

    known = np.isfinite(arrays["target"]).all(axis=1) & np.isfinite(arrays["segment"]).all(axis=1)
    counted = known & ~(arrays["turning"] > 0.5)
    if counted.any():
        distance = np.where(
            counted, 1e3 * distance_to_segment(arrays["com"], arrays["segment"], arrays["target"]), np.nan
        )
        bins = _Bins(t, round(scene.layout.gait_period_s / scene.layout.period_s))
        off.stairs(bins.largest(distance), bins.edges, fill=True, color=COLORS[0], alpha=0.2, linewidth=0)
        off.plot(bins.middle, bins.mean(distance), color=COLORS[0])
        off.set_ylim(bottom=0.0)
    else:
        off.text(0.5, 0.5, "no waypoints", transform=off.transAxes, ha="center", color=_QUIET)
    _shade(off, t, arrays["turning"] > 0.5)
    off.set_xlim(t[0], t[-1])
    off.set_xlabel("time [s]")
    off.set_ylabel("off the path [mm]")
    return figure


def _joints(scene: _GaitRecord) -> Figure:
    t, names = scene.close_up("t"), scene.layout.joints
    columns = _columns(len(names))
    rows = -(-len(names) // columns)
    figure, grid = panels([1.15] * rows, columns, gap=0.32, sharex=True)
    for axes in grid.flat[len(names) :]:
        axes.set_visible(False)
    for i, name in enumerate(names):
        axes = grid.flat[i]
        axes.plot(t, scene.q[scene.rows, i], color=COLORS[0], linewidth=2.4, alpha=0.45)
        axes.plot(t, scene.close_up("q_des")[:, i], color=_PLANNED, linewidth=0.9)
        axes.set_title(name)
        axes.margins(x=0)
        if i % columns == 0:
            axes.set_ylabel("rad")
        if i >= len(names) - columns:
            axes.set_xlabel("time [s]")
    return figure


def _torques(scene: _GaitRecord) -> Figure:
    t, tau, names = scene.close_up("t"), scene.close_up("tau"), scene.layout.joints
    rate = np.diff(tau, axis=0) / scene.layout.period_s
    columns = _columns(len(names))
    groups = [range(i, min(i + columns, len(names))) for i in range(0, len(names), columns)]
    figure, grid = panels([1.35] * len(groups), 2, gap=0.34, aside=0.85, sharex=True)
    for (left, right), group in zip(grid, groups, strict=True):
        near = 1.3 * np.abs(tau[:, list(group)]).max(initial=0.0)
        for i, color in zip(group, COLORS, strict=False):
            left.step(t, tau[:, i], where="post", color=color, label=names[i])
            right.step(t[1:], rate[:, i], where="post", color=color, linewidth=0.9)
            limit = scene.layout.torque_limit[i]
            if limit is not None and limit < near:
                left.axhline(limit, color=color, linestyle=":", linewidth=1)
                left.axhline(-limit, color=color, linestyle=":", linewidth=1)
        left.set_ylabel("τ [N m]")
        right.set_ylabel("Δτ/Δt [N m/s]")
        left.margins(x=0, y=0.12)
        right.margins(x=0)
        left.legend(loc="lower left", bbox_to_anchor=(0.0, 0.98), ncols=columns, handlelength=1.2, columnspacing=1.2)
    for axes in grid[-1]:
        axes.set_xlabel("time [s]")
    return figure


def _columns(joints: int) -> int:
    """Number of joints side by side: three if the joints come in legs of three, else up to four."""
    return 3 if joints % 3 == 0 else min(joints, 4)


def _forces(scene: _GaitRecord) -> Figure:
    t, feet = scene.close_up("t"), scene.layout.feet
    force, predicted = scene.close_up("force")[:, :, 2], scene.close_up("force_pred")[:, :, 2]
    stance = scene.close_up("stance") > 0.5
    figure, axes_grid = panels([1.15] * (len(feet) + 1), sharex=True)
    grid = axes_grid[:, 0]
    together = np.where(np.isnan(predicted).all(axis=1), np.nan, np.nansum(predicted, axis=1))
    for axes, name, real, expected in zip(
        grid, [*feet, "sum"], [*force.T, force.sum(axis=1)], [*predicted.T, together], strict=True
    ):
        axes.fill_between(t, 0.0, real, step="post", color=COLORS[5], alpha=0.55, linewidth=0, label="plant")
        axes.step(t, expected, where="post", color=_PLANNED, linewidth=0.9, label="predicted")
        axes.set_ylabel(f"{name}\nN")
        axes.set_ylim(bottom=0.0)
        axes.margins(x=0)
    for axes, planned in zip(grid, stance.T, strict=False):
        _shade(axes, t, planned)
    grid[-1].set_xlabel("time [s]")
    figure.legend(*grid[0].get_legend_handles_labels(), loc="upper right", ncols=2)
    return figure


def _feet(scene: _GaitRecord) -> Figure:
    t, feet, h = scene.close_up("t"), scene.layout.feet, scene.layout.period_s
    touching = np.linalg.norm(scene.close_up("force"), axis=2) > TOUCHING_N
    figure, axes_grid = panels([0.3 * len(feet) + 0.3, *[1.0] * len(feet)], gap=0.26, sharex=True)
    grid = axes_grid[:, 0]
    diagram = grid[0]
    for i in range(len(feet)):
        for flag, below, height, color in (
            (scene.close_up("stance")[:, i] > 0.5, 0.04, 0.34, "#b8c0c8"),
            (touching[:, i], -0.34, 0.34, COLORS[0]),
        ):
            diagram.broken_barh(_intervals(t, flag), (len(feet) - 1 - i + below, height), color=color, linewidth=0)
    diagram.set_yticks(range(len(feet)), feet[::-1])
    diagram.set_ylim(-0.6, len(feet) - 0.4)
    diagram.grid(visible=False)
    diagram.bar([t[0]], [0], color="#b8c0c8", label="planned stance")
    diagram.bar([t[0]], [0], color=COLORS[0], label="contact")
    diagram.legend(loc="lower right", bbox_to_anchor=(1.0, 0.98), ncols=2)
    for i, axes in enumerate(grid[1:]):
        _shade(axes, t, scene.close_up("stance")[:, i] > 0.5)
        axes.plot(
            t, 1e3 * scene.close_up("feet")[:, i, 2], color=COLORS[0], linewidth=2.4, alpha=0.45, label="measured"
        )
        axes.plot(t, 1e3 * scene.close_up("feet_des")[:, i, 2], color=_PLANNED, linewidth=0.9, label="planned")
        axes.set_ylabel(f"{feet[i]}\nmm")
    grid[0].set_xlim(t[0], t[-1] + h)
    grid[1].legend(loc="lower right", bbox_to_anchor=(1.0, 0.9), ncols=2)
    grid[-1].set_xlabel("time [s]")
    return figure
