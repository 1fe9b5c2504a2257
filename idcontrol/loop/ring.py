"""A ring buffer in shared memory, through which ticks pass rows of numbers to other processes.

A ring has one writer, which never waits: a reader that lags by the ring's length loses the oldest rows, and counts
them. A row is valid once the count of written rows includes it, so a writer killed during a write leaves no
half-written row. One reader, the recorder, also writes how far it has read, so the writer knows the recorder's lag.
"""

from __future__ import annotations

import mmap

import numpy as np

from idcontrol.types import Array

_HEAD_BYTES = 64


def ring_bytes(row_width: int, rows: int) -> int:
    """Return the memory size of a ring of `rows` rows with `row_width` numbers each [bytes]."""
    return _HEAD_BYTES + 8 * row_width * rows


class Ring:
    """One side of a ring in shared memory; writer and readers each have an object.

    Attributes:
        lost: Number of rows overwritten before the reader read them.
    """

    def __init__(self, memory: mmap.mmap, row_width: int) -> None:
        """Use all of `memory` for rows of `row_width` numbers; all its bytes must be zero before the first use."""
        # number of rows written, number of rows read by the recorder
        self._head = np.frombuffer(memory, dtype=np.uint64, count=2)
        rows = (len(memory) - _HEAD_BYTES) // (8 * row_width)
        self._rows: Array = np.frombuffer(memory, np.float64, rows * row_width, _HEAD_BYTES).reshape(rows, row_width)
        self._written = self._read = 0
        self.lost = 0

    def push(self, values: Array) -> None:
        """Write one row, shape (width,)."""
        self._rows[self._written % len(self._rows)] = values
        self._written += 1
        self._head[0] = self._written

    @property
    def overrun(self) -> bool:
        """True if the recorder lags by the whole ring; called by the writer."""
        return self._written - int(self._head[1]) >= len(self._rows)

    def acknowledge(self) -> None:
        """Acknowledge all rows taken so far to the writer."""
        self._head[1] = self._read

    def take(self) -> Array:
        """Return a copy of the rows since the last call that were not lost, oldest first, shape (n, width)."""
        size = len(self._rows)
        head = int(self._head[0])
        first = max(self._read, head - size + 1)
        rows = self._rows[np.arange(first, head) % size]
        # rows that the writer began to overwrite during the copy are also lost
        torn = min(max(int(self._head[0]) + 1 - size - first, 0), len(rows)) if len(rows) else 0
        self.lost += first - self._read + torn
        self._read = head
        return rows[torn:]
