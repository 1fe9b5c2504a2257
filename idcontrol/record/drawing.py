"""Figures for a page: their style and axes, and their conversion to pictures in the page's text."""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
from cycler import cycler

from idcontrol.record.files import checked, within

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_WIDTH = 10.0  # inches; the page shows them at 96 px
_NARROW = 4.0  # inches; a phone shows them at about 96 px, too
_LABELS = 0.7  # inches of height for the title and labels of an axes
LEGEND_LETTERS = 130
"""Number of letters that fit into one line of a legend of width `_WIDTH`."""
COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")  # distinguishable by colour-blind readers

STYLE = {
    "font.size": 9,
    "axes.titlesize": 9,
    "axes.titlelocation": "left",
    "axes.labelsize": 9,
    "axes.edgecolor": "#70757a",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.prop_cycle": cycler(color=COLORS),
    "grid.color": "#e3e6e9",
    "grid.linewidth": 0.6,
    "lines.linewidth": 1.2,
    "legend.frameon": False,
    "legend.fontsize": 8.5,
    "xtick.color": "#50555a",
    "ytick.color": "#50555a",
    "svg.hashsalt": "idcontrol",  # equal runs give equal pages
}
"""Matplotlib settings of all figures on a page."""


@dataclass(frozen=True, slots=True)
class Picture:
    """A figure on a page.

    Attributes:
        title: Heading.
        sentence: Explanation below the heading.
        source: The image as a data URI.
        narrow: The same, for a narrow screen; empty if there is none.
    """

    title: str
    sentence: str
    source: str
    narrow: str = ""


class _Recorded(msgspec.Struct, frozen=True):
    """A figure that a run has drawn."""

    file: str
    title: str
    sentence: str


def recorded(folder: Path, meta: Mapping[str, Any]) -> list[Picture]:
    """Return the figures that a run has drawn: SVG files in its folder, listed in ``meta["figures"]``.

    Listed files that are missing are left out.

    Raises:
        InputError: The list is damaged, or a file leads out of the folder.
    """
    pictures = []
    for entry in checked(meta.get("figures") or (), tuple[_Recorded, ...], f"{folder}: meta.figures"):
        path = within(folder, Path(entry.file).name)
        if path is not None and path.is_file():
            pictures.append(Picture(entry.title, entry.sentence, _uri(path.read_bytes())))
    return pictures


def picture(title: str, sentence: str, figure: Figure) -> Picture:
    """Return a picture for a page, from a figure drawn under `STYLE`."""
    return Picture(title, sentence, _svg(figure), _svg(_narrowed(figure)))


def _narrowed(figure: Figure) -> Figure:
    """Move the axes of a figure into one column of width `_NARROW`, below one legend, and return the figure."""
    axes = [each for each in figure.axes if each.get_visible()]
    grid: Any = axes[0].get_gridspec()
    heights = np.repeat(grid.get_height_ratios(), grid.ncols)[: len(axes)].tolist()
    figure.set_size_inches(_NARROW, sum(heights) + _LABELS * len(axes))
    cells = figure.add_gridspec(len(axes), 1, height_ratios=heights)
    for number, each in enumerate(axes):
        each.set_subplotspec(cells[number, 0])
        each.set_ylabel(each.get_ylabel() or axes[0].get_ylabel())
    legends = [*figure.legends, *filter(None, (each.get_legend() for each in axes))]
    for legend in legends:
        legend.remove()
    if legends:
        legend_above(figure, axes[0])
    return figure


def _svg(figure: Figure) -> str:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None})
    return _uri(buffer.getvalue())


def _uri(svg: bytes) -> str:
    return "data:image/svg+xml;base64," + base64.b64encode(svg).decode()


def panels(heights: Sequence[float], columns: int = 1, *, gap: float = 0.14, **more: Any) -> tuple[Figure, Any]:
    """Return a new figure with axes in rows and columns.

    Args:
        heights: Height of the axes in each row [inches].
        columns: Number of columns.
        gap: Space between rows, for their labels [inches].
        more: Further arguments of `Figure.subplots`.

    Returns:
        The figure and its axes, shape (rows, columns).
    """
    from matplotlib.figure import Figure  # takes a third of a second, and most runs draw nothing

    height = sum(heights) + gap * (len(heights) - 1) + 0.82  # title above, labels below
    figure = Figure(figsize=(_WIDTH, height), layout="constrained")
    axes = figure.subplots(len(heights), columns, squeeze=False, height_ratios=heights, **more)
    figure.align_ylabels()
    return figure, axes


def legend_above(figure: Figure, axes: Any) -> None:
    """Put the legend of `axes`, if it has entries, above all axes of the figure, which grows by the legend's height."""
    handles, labels = axes.get_legend_handles_labels()
    if any(labels):
        letters = LEGEND_LETTERS * figure.get_figwidth() / _WIDTH
        columns = max(1, min(len(labels), int(letters) // (6 + max(map(len, labels)))))
        figure.set_figheight(figure.get_figheight() + 0.18 * -(-len(labels) // columns))
        figure.legend(handles, labels, loc="outside upper left", ncols=columns)
