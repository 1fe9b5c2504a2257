"""Two processes on one computer: for each direction, a mailbox in shared memory contains the newest datagram.

The memory has no name: the other process inherits its file descriptor (`memory.anonymous`), so nothing remains after
both processes end. If a writer is active during a read, the counter is odd or has changed, and the reader reads again.
Damage that this check misses (on machines that reorder stores) is detected by the checksum.
"""

from __future__ import annotations

import mmap

from idcontrol.loop.wire import LARGEST

BYTES = 2 * (16 + LARGEST + 5)
"""Memory of a link: both directions, each 8-byte aligned."""
_TRIES = 4


class _Mailbox:
    """Counter (uint64; odd during a write), length (uint64), bytes."""

    def __init__(self, memory: mmap.mmap, offset: int) -> None:
        self._head = memoryview(memory)[offset : offset + 16].cast("Q")
        self._data = memoryview(memory)[offset + 16 : offset + 16 + LARGEST]

    def put(self, data: memoryview) -> None:
        counter = self._head[0] & ~1  # even; a writer killed during a write leaves an odd counter
        self._head[0] = counter + 1
        self._head[1] = len(data)
        self._data[: len(data)] = data
        self._head[0] = counter + 2

    def take(self, seen: int) -> tuple[int, bytes | None]:
        for _ in range(_TRIES):
            counter = self._head[0]
            if counter == seen:
                return seen, None
            if counter % 2 == 0:
                data = bytes(self._data[: min(self._head[1], LARGEST)])
                if self._head[0] == counter:
                    return counter, data
        return seen, None  # the writer is active: read at the next call

    def close(self) -> None:
        self._head.release()
        self._data.release()


class SharedLink:
    """One end of a connection through shared memory; the two ends differ in `side`."""

    def __init__(self, memory: mmap.mmap, side: int) -> None:
        """Use `memory` of `BYTES`; `side` is 0 for the loop, 1 for its machine."""
        boxes = (_Mailbox(memory, 0), _Mailbox(memory, BYTES // 2))
        self._out, self._into = boxes[side], boxes[1 - side]
        self._seen = 0

    def send(self, data: memoryview) -> None:
        """Replace the datagram in the mailbox by `data`."""
        self._out.put(data)

    def receive(self) -> bytes | None:
        """Return the newest datagram, only once."""
        self._seen, data = self._into.take(self._seen)
        return data

    def settle(self) -> None:
        """Do nothing: there is only one sender."""

    def close(self) -> None:
        """Release the memory."""
        self._out.close()
        self._into.close()
