"""Interactive plots of a page: curves over one time axis, and their encoding inside the page.

A page contains every row of a record, so a reader can zoom in to single control periods. Records that are too long for
a page are thinned without loss of extremes. ``plots.js`` draws the curves with uPlot.
"""

import base64
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any, Literal

import numpy as np

from idcontrol.types import Array, Booleans, Integers

COLORS = (
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#b8860b", "#56b4e9",
    "#7a5195", "#8c6d31", "#444444", "#1f9e89", "#ef5675", "#9aa0a6",
)  # fmt: skip
"""Colours of curves; colour-blind readers can tell the first six apart."""
DARK, QUIET = "#444444", "#9aa0a6"

DRAWABLE = 1e12
"""Absolute value from which on numbers are not drawn."""
LARGEST_PAGE = 4_600_000
"""Largest length of a page's numbers and pictures as text [characters]; other text is not counted."""
LARGEST_NUMBERS = 3_700_000
"""Largest length of the numbers alone [characters]: a browser must unpack all numbers before it draws."""
FEWEST_BINS = 1_000
"""Number of bins below which a record is not thinned to save room: about the width of a plot in pixels."""
MOST_NUMBERS = 5_000_000
"""Number of values above which a record is thinned without an attempt to keep all rows."""
KEPT_BITS = 13
"""Bits of the mantissa that are kept: errors are below 1e-4 of a curve's size and of its range, less than a pixel."""


@dataclass(frozen=True, slots=True)
class Curve:
    """A curve over the rows.

    Attributes:
        name: Name for the legend.
        values: Values of the curve, shape (rows,); NaN for a gap.
        color: Colour in CSS notation.
        of: Joints, feet or runs to which the curve belongs; it is shown while all of them are shown.
        look: A line, a dashed line, a line above a filled area, or a broad bar.
    """

    name: str
    values: Array
    color: str
    of: tuple[str, ...] = ()
    look: Literal["line", "dashed", "area", "bar"] = "line"


@dataclass(frozen=True, slots=True)
class Panel:
    """Curves over a common axis.

    Attributes:
        label: Quantity and unit.
        curves: The curves.
        log: True if the axis is logarithmic.
        ticks: Words for the values 0, 1, 2 and so on; empty for an axis of numbers.
    """

    label: str
    curves: Sequence[Curve]
    log: bool = False
    ticks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Section:
    """A titled part of a page.

    Attributes:
        title: Heading.
        sentence: Explanation below the heading.
        panels: Panels of the section, one below the other.
        track: Positions over the rows by name, x and y, shape (rows, 2) each [m]; drawn as a map.
        marks: Points on that map, x and y [m].
    """

    title: str
    sentence: str
    panels: Sequence[Panel] = ()
    track: Mapping[str, Array] = field(default_factory=dict)
    marks: Sequence[tuple[float, float]] = ()


@dataclass(frozen=True, slots=True)
class Moment:
    """An instant to which a reader of the page can jump.

    Attributes:
        t: Time of the instant [s].
        what: Description.
    """

    t: float
    what: str


@dataclass(frozen=True, slots=True)
class Plots:
    """All plots of a page, over one time axis.

    Attributes:
        t: Times of the rows, in order, shape (rows,) [s].
        overview: The curve in which a reader chooses the window.
        sections: The plots.
        choices: Names whose curves can be shown and hidden, by kind: joints, feet or runs.
        shown: Names whose curves are shown at first.
        moments: Instants to which a reader can jump.
        window: Start and end of the initial window [s]; None means the whole run.
    """

    t: Array
    overview: Curve
    sections: Sequence[Section]
    choices: Mapping[str, Sequence[str]] = field(default_factory=dict)
    shown: Sequence[str] = ()
    moments: Sequence[Moment] = ()
    window: tuple[float, float] | None = None


def thinned(t: Array, values: Array, bins: int) -> tuple[Array, Array]:
    """Return rows that keep every extreme: the smallest and the largest value of each column in each bin of rows.

    Args:
        t: Times of the rows, shape (rows,).
        values: Columns, shape (rows, columns); NaN is ignored if the bin also contains numbers.
        bins: Number of bins.

    Returns:
        Times and columns of ``2 * bins`` rows, two per bin. If a column rises within a bin, its smallest value comes
        first, otherwise its largest. Records with ``2 * bins`` rows or fewer are returned unchanged.
    """
    rows = len(t)
    if rows <= 2 * bins:
        return t, values
    first: Integers = np.arange(bins) * rows // bins
    last = np.append(first[1:], rows) - 1
    low, high = np.fmin.reduceat(values, first, axis=0), np.fmax.reduceat(values, first, axis=0)
    rises = values[last] >= values[first]
    pairs = np.stack([np.where(rises, low, high), np.where(rises, high, low)], axis=1)
    times = np.stack([t[first], t[(first + last + 1) // 2]], axis=1)
    return times.ravel(), pairs.reshape(2 * bins, -1)


def data(plots: Plots, beside: int = 0) -> dict[str, Any]:
    """Return the plots for ``plots.js``: their description as JSON data, and their numbers as text.

    Args:
        plots: The plots.
        beside: Number of characters of the pictures on the same page; they reduce the room for numbers.

    Returns:
        ``spec``, the description, in which each curve has the index of its column; ``time`` and ``numbers``, see
        `packed`.
    """
    columns: list[Array] = []

    def column(values: Array) -> int:
        columns.append(values)
        return len(columns) - 1

    def curve(c: Curve, log: bool = False) -> dict[str, Any]:
        seen = np.where(c.values > 0.0, c.values, np.nan) if log else c.values
        return {"name": c.name, "color": c.color, "of": c.of, "look": c.look, "column": column(seen)}

    spec = {
        "overview": curve(plots.overview),
        "sections": [
            {
                "panels": [
                    {
                        "label": panel.label,
                        "log": panel.log,
                        "ticks": panel.ticks,
                        "curves": [curve(c, panel.log) for c in panel.curves],
                    }
                    for panel in section.panels
                ],
                "track": [
                    {"name": name, "x": column(places[:, 0]), "y": column(places[:, 1])}
                    for name, places in section.track.items()
                ],
                "marks": section.marks,
            }
            for section in plots.sections
        ],
        "shown": plots.shown,
        "window": plots.window,
    }
    values = np.column_stack(columns)
    with np.errstate(invalid="ignore"):
        values[~(np.abs(values) < DRAWABLE)] = np.nan
    bins = min(len(plots.t), MOST_NUMBERS // len(columns)) // 2 + 1
    t, kept = thinned(plots.t, values, bins)
    room = min(LARGEST_NUMBERS, LARGEST_PAGE - beside)
    while len(numbers := packed(_rounded(kept.T))) > room and bins > FEWEST_BINS:
        bins = max(bins // 2, FEWEST_BINS)
        t, kept = thinned(plots.t, values, bins)
    return {"spec": spec, "time": packed(t.astype("<f8")), "numbers": numbers}


def packed(numbers: Array) -> str:
    """Return numbers as text in base 64: first bytes of all numbers, then second bytes and so on, all deflated."""
    planes = np.ascontiguousarray(numbers).reshape(-1).view(np.uint8).reshape(-1, numbers.dtype.itemsize).T
    return base64.b64encode(zlib.compress(planes.tobytes(), 6)).decode()


def _rounded(values: Array) -> Array:
    """Round `values`, shape (curves, rows), to float32 with few bits (`KEPT_BITS`), which halves their deflated size.

    A curve whose range is small compared with its values keeps more bits.
    """
    known = np.ma.masked_invalid(values)
    spread = np.maximum(known.max(axis=1) - known.min(axis=1), 1e-30)
    more = np.ceil(np.ma.log2(np.abs(known).max(axis=1) / spread)).filled(0.0)
    dropped = 23 - KEPT_BITS - np.clip(more, 0, 23 - KEPT_BITS).astype(np.uint32)[:, None]
    bits = values.astype("<f4").view(np.uint32)
    kept = ((bits + ((1 << dropped) >> 1)) >> dropped) << dropped
    return np.where(np.isfinite(values), kept, np.uint32(0x7FC00000)).astype("<u4").view("<f4")


def intervals(flag: Booleans, level: float) -> Array:
    """Return `level` in rows with a True `flag`, and NaN in other rows, shape (rows,): the values of a bar."""
    return np.where(flag, level, np.nan)


def code() -> dict[str, str]:
    """Return the ``script`` and ``style`` that a page with plots needs, including uPlot's."""
    folder = files("idcontrol.show")
    return {
        "script": "\n".join((folder / name).read_text("utf-8") for name in ("uplot/uPlot.iife.min.js", "plots.js")),
        "style": "\n".join((folder / name).read_text("utf-8") for name in ("uplot/uPlot.min.css", "plots.css")),
    }
