"""Rows of numbers in which each channel of a record, of any shape, has its columns."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np

from idcontrol.types import Array


class ChannelRow:
    """One row, channel by channel.

    Attributes:
        values: All of it, shape (width,).
        of: A view of each channel in `values`.
    """

    def __init__(self, channels: Mapping[str, tuple[int, ...]]) -> None:
        """Lay out `channels`: name and shape, in order."""
        self.values: Array = np.full(width(channels), np.nan)
        self.of: dict[str, Array] = views(self.values, channels)
        self._channels = channels

    def writer(self, names: Sequence[str]) -> Callable[..., None]:
        """A function of the numbers of `names`, channels of one number each that stand side by side in this order.

        It writes them all for the price of one written through `of`.
        """
        where = span(self._channels, names)
        assert where.stop - where.start == len(names)
        pack = struct.Struct(f"={len(names)}d").pack_into
        return partial(pack, self.values.data, where.start * self.values.itemsize)


def width(channels: Mapping[str, tuple[int, ...]]) -> int:
    """How many numbers a row has."""
    return sum(math.prod(shape) for shape in channels.values())


def views(values: Array, channels: Mapping[str, tuple[int, ...]]) -> dict[str, Array]:
    """The channels within `values`, shape (..., width): views of shape (..., *shape)."""
    found: dict[str, Array] = {}
    at = 0
    for name, shape in channels.items():
        size = math.prod(shape)
        found[name] = values[..., at : at + size].reshape((*values.shape[:-1], *shape))
        at += size
    return found


def span(channels: Mapping[str, tuple[int, ...]], names: Sequence[str]) -> slice:
    """Where `names`, which stand side by side in `channels` and in this order, are within a row."""
    at = list(channels).index(names[0])
    before = dict(list(channels.items())[:at])
    chosen = dict(list(channels.items())[at : at + len(names)])
    assert tuple(chosen) == tuple(names)
    return slice(width(before), width(before) + width(chosen))
