"""A run in a notebook: its summary, and the plots of its report as pictures."""

import html
import io
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import matplotlib
import numpy as np
from matplotlib.figure import Figure

from idcontrol.errors import InputError
from idcontrol.record import figures
from idcontrol.record.drawing import STYLE, panels
from idcontrol.record.metrics import Layout
from idcontrol.record.plots import COLORS, DARK, Curve, Panel, Section
from idcontrol.record.quantities import QUANTITIES
from idcontrol.types import Array, Booleans

SHOWN = (
    "completed", "fell_at_s", "distance_m", "q_err_rad", "dtau_mean_nm_s", "dtau_max_nm_s", "force_err_rel", "slip_m_s",
    "step_us.p50", "realtime_factor",
)  # fmt: skip
"""Keys of the metrics in a summary; `Run.metrics` has all metrics."""
PERIODS = 4
"""Number of gait periods that plots of torques and forces show if no window is given."""
LOG_SPAN = 1e-4
"""Lower end of a logarithmic axis, as a share of its upper end."""
Window = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Drawing:
    """A plot that notebooks show.

    Attributes:
        figure: Matplotlib's figure, to change it or to save it: ``drawing.figure.savefig("torques.pdf")``.
    """

    figure: Figure

    def _repr_png_(self) -> bytes:
        buffer = io.BytesIO()
        self.figure.savefig(buffer, format="png", dpi=96)
        return buffer.getvalue()


class Plots:
    """The plots of a recorded walk, each over a `window`: its start and end [s].

    Each method raises an InputError if no row is in the window, or if a given joint or foot has no curve.
    """

    def __init__(self, arrays: Mapping[str, Array], layout: Layout | None, where: str) -> None:
        """Prepare plots of the `arrays` of a walk; `where` names the record in error messages.

        Raises:
            InputError: The run is not a walk (`layout` is None), or has fewer than three rows.
        """
        if layout is None or len(arrays["t"]) < 3:
            raise InputError(f"{where} is not a walk of three rows or more, which these plots need")
        self._walk = figures.Walk(arrays, layout)

    def __dir__(self) -> list[str]:
        return ["forces", "path", "smoothness", "torques"]

    def torques(self, window: Window | None = None, joints: Sequence[str] = ()) -> Drawing:
        """Return a plot of joint torques and torque rates; by default of all joints, over `PERIODS` gait periods."""
        return self._drawn(figures.torques(self._walk), window or self._strides(), joints)

    def forces(self, window: Window | None = None, feet: Sequence[str] = ()) -> Drawing:
        """Return a plot of real and predicted vertical forces; by default of all feet, over `PERIODS` gait periods."""
        return self._drawn(figures.forces(self._walk), window or self._strides(), feet)

    def path(self, window: Window | None = None) -> Drawing:
        """Return a map of the base and the centre of mass; the default window is the whole run.

        For a walk between waypoints, a second panel shows how far the centre of mass is from the line between them.
        """
        section = figures.path(self._walk)
        return self._drawn(replace(section, sentence=section.sentence.replace(figures.IN_WINDOW, "")), window)

    def smoothness(self, window: Window | None = None) -> Drawing:
        """Return a plot of the largest and mean torque rate of the joints; by default for the whole run.

        The percentiles below the plot are taken over all joints and rows of the run.
        """
        rate = np.abs(self._walk.torque_rate[1:])
        middle, high, highest = np.percentile(rate, (50, 99, 99.9))
        sentence = (
            f"Torque rate: mean {rate.mean():.3g}, median {middle:.3g}, 99 % below {high:.3g}, 99.9 % below "
            f"{highest:.3g}, largest {rate.max():.3g} N m/s."
        )
        each = np.abs(self._walk.torque_rate)
        curves = [
            Curve("largest of the joints", each.max(axis=1), COLORS[1], look="area"),
            Curve("mean over the joints", each.mean(axis=1), DARK),
        ]
        return self._drawn(Section("Smoothness", sentence, [Panel("|Δτ/Δt| [N m/s]", curves, log=True)]), window)

    def _strides(self) -> Window:
        t, period = self._walk.arrays["t"], self._walk.layout.gait_period_s
        begin = max(min(float(t[0]) + 1.0, float(t[-1]) - PERIODS * period), float(t[0]))
        return begin, begin + PERIODS * period

    def _drawn(self, section: Section, window: Window | None, only: Sequence[str] = ()) -> Drawing:
        known = {name for panel in section.panels for curve in panel.curves for name in curve.of}
        if strange := [name for name in only if name not in known]:
            raise InputError(f"{strange[0]!r} is none of {', '.join(sorted(known))}")
        t = self._walk.arrays["t"]
        rows = np.ones(len(t), dtype=np.bool_) if window is None else (t >= window[0]) & (t <= window[1])
        if not rows.any():
            raise InputError(f"the window {window} s has no row; the run lasts from {t[0]:.3f} s to {t[-1]:.3f} s")
        with matplotlib.rc_context(STYLE):
            return Drawing(_drawn(section, t, rows, only))


def _drawn(section: Section, t: Array, rows: Booleans, only: Sequence[str]) -> Figure:
    """Return a section of the report as a figure: its map, then its panels.

    Args:
        section: The section.
        t: Times of all rows, shape (rows,) [s].
        rows: True for rows in the window, shape (rows,).
        only: Joints or feet whose curves are drawn; empty for all.
    """
    heights = [3.9] * bool(section.track) + [1.9] * len(section.panels)
    figure, grid = panels(heights, gap=0.45)
    axes = list(grid[:, 0])
    if section.track:
        _map(axes.pop(0), section, rows)
    for here, panel in zip(axes, section.panels, strict=True):
        here.set_yscale("log" if panel.log else "linear")
        here.set_ylabel(panel.label)
        here.margins(x=0)
        for curve in panel.curves:
            if not only or not curve.of or set(curve.of) & set(only):
                _curve(here, t[rows], curve, curve.values[rows])
        if panel.log:
            here.set_ylim(bottom=LOG_SPAN * here.get_ylim()[1])
        if here is axes[0] or not any(curve.of for curve in panel.curves):  # all panels have the same names
            here.legend(loc="lower left", bbox_to_anchor=(-0.005, 0.98), ncols=12, fontsize=7, handlelength=1.0)
    for here in axes[:-1]:
        here.sharex(axes[-1])
        here.tick_params(labelbottom=False)
    for here in axes[-1:]:
        here.set_xlim(t[rows][0], t[rows][-1])
        here.set_xlabel("time [s]", loc="right")
    figure.supxlabel(textwrap.fill(section.sentence, 150), x=0.01, ha="left", fontsize=7, color=DARK)
    return figure


def _curve(axes: Any, t: Array, curve: Curve, values: Array) -> None:
    if curve.look == "area":
        axes.fill_between(t, 0.0, values, color=curve.color, alpha=0.3, linewidth=0, step="post")
    named = {} if curve.look == "dashed" else {"label": curve.name}  # the sentence explains the dashed curves
    style = "--" if curve.look == "dashed" else "-"
    axes.step(t, values, style, where="post", color=curve.color, linewidth=0.9, **named)


def _map(axes: Any, section: Section, rows: Booleans) -> None:
    for (name, places), color in zip(section.track.items(), (COLORS[-1], COLORS[0]), strict=False):
        axes.plot(*places[rows].T, color=color, label=name)
    for number, mark in enumerate(section.marks, start=1):
        axes.plot(*mark, "o", color=COLORS[1], markersize=6)
        axes.annotate(f"{number}", mark, xytext=(6, 6), textcoords="offset points", color=COLORS[1])
    axes.set_aspect("equal", adjustable="datalim")
    axes.set_xlabel("x [m]")
    axes.set_ylabel("y [m]")
    axes.legend(loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=4)


def summary(headline: str, metrics: Mapping[str, Any], note: str, folder: str) -> str:
    """Return `headline`, the metrics in `SHOWN` with their units, `note` and `folder` of a run in HTML."""
    rows = [(q.label, f"{q.text(q.of(metrics))} {q.unit}") for q in _quantities([metrics])]
    said = f"<p>{html.escape(note)}</p>" if note else ""
    return f"<b>{html.escape(headline)}</b>{table((), rows)}{said}<code>{html.escape(folder)}</code>"


def comparison(settings: Sequence[str], rows: Iterable[tuple[Sequence[str], Mapping[str, Any], str]]) -> str:
    """Return a comparison in HTML.

    Args:
        settings: The varied settings.
        rows: For each run, the values of these settings, its metrics, and why its task failed ("" if it did not).
    """
    rows = list(rows)
    shown = _quantities([metrics for _, metrics, _ in rows])
    header = (*settings, *(f"{q.label} [{q.unit}]" if q.unit else q.label for q in shown), "")
    return table(header, [(*values, *(q.text(q.of(metrics)) for q in shown), why) for values, metrics, why in rows])


def _quantities(all_metrics: Sequence[Mapping[str, Any]]) -> list[Any]:
    return [q for q in QUANTITIES if q.key in SHOWN and any(q.of(metrics) is not None for metrics in all_metrics)]


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table in HTML."""
    head = f"<thead>{_row('th', header)}</thead>" if header else ""
    return f"<table>{head}<tbody>{''.join(_row('td', row) for row in rows)}</tbody></table>"


def _row(tag: str, texts: Sequence[str]) -> str:
    cells = (f'<{tag} style="text-align: left">{html.escape(text)}</{tag}>' for text in texts)
    return f"<tr>{''.join(cells)}</tr>"
