"""Telemetry: rows of numbers that leave the tick for another process, at the price of a copy.

A ring of shared memory with one writer and one reader. The writer never waits: a reader that falls behind by more than
the ring's length loses the oldest rows, and knows how many. A row counts once its number is written, so that a writer
killed half-way leaves no torn row.
"""

from __future__ import annotations

import math
import mmap
from collections.abc import Mapping, Sequence

import numpy as np

from idcontrol.types import Array

_HEAD_BYTES = 64


class Row:
    """One row, channel by channel.

    Attributes:
        values: All of it, shape (width,).
        of: A view of each channel in `values`.
    """

    def __init__(self, channels: Mapping[str, tuple[int, ...]]) -> None:
        """Lay out `channels`: name and shape, in order."""
        self.values: Array = np.full(width(channels), np.nan)
        self.of: dict[str, Array] = views(self.values, channels)

    def clear(self) -> None:
        """Nothing is known."""
        self.values[:] = np.nan


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


def ring_bytes(row_width: int, rows: int) -> int:
    """Memory that a ring needs."""
    return _HEAD_BYTES + 8 * row_width * rows


class Ring:
    """A ring over shared memory; make one for each side.

    Attributes:
        lost: Rows that the reader was too late for.
    """

    def __init__(self, memory: mmap.mmap, row_width: int) -> None:
        """Use all of `memory`, which was zero when the first side came."""
        self._head = np.frombuffer(memory, dtype=np.uint64, count=1)
        rows = (len(memory) - _HEAD_BYTES) // (8 * row_width)
        self._rows: Array = np.frombuffer(memory, np.float64, rows * row_width, _HEAD_BYTES).reshape(rows, row_width)
        self._written = self._read = 0
        self.lost = 0

    def push(self, values: Array) -> None:
        """Write one row, shape (width,)."""
        self._rows[self._written % len(self._rows)] = values
        self._written += 1
        self._head[0] = self._written

    def take(self) -> Array:
        """All rows since the last call, oldest first, shape (n, width): a copy."""
        size = len(self._rows)
        head = int(self._head[0])
        first = max(self._read, head - size + 1)
        rows = self._rows[np.arange(first, head) % size]
        # what the writer has begun to overwrite while it was copied is lost too
        torn = min(max(int(self._head[0]) + 1 - size - first, 0), len(rows)) if len(rows) else 0
        self.lost += first - self._read + torn
        self._read = head
        return rows[torn:]
