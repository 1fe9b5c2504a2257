"""Rows of a record: channels side by side, in order."""

import struct

import numpy as np
import pytest

from idcontrol.record.channels import ChannelRow, span, views, width

CHANNELS = {"t": (), "q": (2,), "feet": (2, 3)}


def test_a_row_is_its_channels_side_by_side():
    row = ChannelRow(CHANNELS)
    assert width(CHANNELS) == row.values.size == 9
    row.of["t"][...], row.of["q"][:], row.of["feet"][1] = 1.0, [2.0, 3.0], [4.0, 5.0, 6.0]
    np.testing.assert_array_equal(row.values, [1, 2, 3, *[np.nan] * 3, 4, 5, 6])
    np.testing.assert_array_equal(views(row.values[None], CHANNELS)["feet"][0, 1], [4, 5, 6])


def test_channels_that_stand_side_by_side_are_one_span_of_the_row():
    assert span(CHANNELS, ["t", "q"]) == slice(0, 3)
    assert span(CHANNELS, ["q", "feet"]) == slice(1, 9)
    assert span(CHANNELS, ["feet"]) == slice(3, 9)


def test_a_writer_writes_exactly_its_adjacent_channels():
    row = ChannelRow({"q": (2,), "t": (), "status": (), "good": (), "feet": (2, 3)})
    write = row.writer(["t", "status", "good"])
    write(0.5, 3, True)
    np.testing.assert_array_equal(row.values, [*[np.nan] * 2, 0.5, 3.0, 1.0, *[np.nan] * 6])
    with pytest.raises(struct.error):
        write(0.5, 3)
