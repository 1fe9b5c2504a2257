"""Pictures of a page fit wide and narrow screens."""

import base64
import re
from itertools import pairwise

import numpy as np

from idcontrol.record.drawing import legend_above, panels, picture

PT_PER_INCH = 72.0


def width_in(source: str) -> float:
    """Return the width of an SVG in a data URI [inches]."""
    svg = base64.b64decode(source.partition(",")[2]).decode()
    (width,) = re.findall(r'<svg[^>]* width="([\d.]+)pt"', svg)
    return float(width) / PT_PER_INCH


def test_narrow_picture_stacks_its_panels_at_the_width_of_a_phone():
    figure, axes = panels([2.0, 1.0], 2)
    for each in axes.flat:
        each.plot([0.0, 1.0], [0.0, 1.0], label="id-coulomb-qp")
    axes[0, 0].set_ylabel("error [mm]")
    axes[1, 1].set_visible(False)
    legend_above(figure, axes[0, 0])
    drawn = picture("Error", "Of each run.", figure)
    assert (width_in(drawn.source), width_in(drawn.narrow)) == (10.0, 4.0)
    boxes = [each.get_position() for each in axes.flat[:3]]  # the figure keeps its narrow form
    assert np.ptp([box.x0 for box in boxes]) < 0.01  # one column
    assert all(low.y1 < high.y0 for high, low in pairwise(boxes))  # without overlap
    assert {each.get_ylabel() for each in axes.flat[:3]} == {"error [mm]"}
    assert len(figure.legends) == 1


def test_narrow_picture_moves_the_legend_of_its_axes_above_them():
    figure, axes = panels([1.0])
    axes[0, 0].plot([0.0, 1.0], [0.0, 1.0], label="id-coulomb-qp")
    axes[0, 0].legend()
    picture("Error", "Of each run.", figure)
    assert axes[0, 0].get_legend() is None
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["id-coulomb-qp"]
