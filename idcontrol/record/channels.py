"""The layout of a row of a record: channels of any shape, side by side in one array of numbers."""

import math
import struct
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np

from idcontrol.types import Array


class ChannelRow:
    """One row, written channel by channel.

    Attributes:
        values: The whole row, shape (width,).
        of: Views of the channels in `values`, by name.
    """

    def __init__(self, channels: Mapping[str, tuple[int, ...]]) -> None:
        """Set up a row of NaN; `channels` has the shape of each channel by name, in the order of the row."""
        self.values: Array = np.full(width(channels), np.nan)
        self.of: dict[str, Array] = views(self.values, channels)
        self._channels = channels

    def writer(self, names: Sequence[str]) -> Callable[..., None]:
        """Return a function that takes the values of the channels `names` and writes them into the row.

        Args:
            names: Channels of one number each, adjacent in the row in this order.
        """
        where = span(self._channels, names)
        assert where.stop - where.start == len(names)
        pack = struct.Struct(f"={len(names)}d").pack_into
        return partial(pack, self.values.data, where.start * self.values.itemsize)


def width(channels: Mapping[str, tuple[int, ...]]) -> int:
    """Return the number of values in a row."""
    return sum(math.prod(shape) for shape in channels.values())


def views(values: Array, channels: Mapping[str, tuple[int, ...]]) -> dict[str, Array]:
    """Return views of the channels in `values`, shape (..., width); each view has shape ``(..., *shape)``."""
    parts: dict[str, Array] = {}
    at = 0
    for name, shape in channels.items():
        size = math.prod(shape)
        parts[name] = values[..., at : at + size].reshape((*values.shape[:-1], *shape))
        at += size
    return parts


def span(channels: Mapping[str, tuple[int, ...]], names: Sequence[str]) -> slice:
    """Return the slice of a row that contains `names`, which must be adjacent in `channels` in this order."""
    at = list(channels).index(names[0])
    before = dict(list(channels.items())[:at])
    chosen = dict(list(channels.items())[at : at + len(names)])
    assert tuple(chosen) == tuple(names)
    return slice(width(before), width(before) + width(chosen))
