"""A connection between two processes on one computer, through shared memory.

For each direction, a mailbox contains the newest datagram. The plant's process inherits the file descriptor of memory
without a name (`idcontrol.loop.memory.anonymous`), so nothing remains after both processes end. A separate program
shares a file with the loop (`named`); ``idcontrol_wire.h`` implements the program's end.

Each mailbox has a counter. If a writer is active during a read, the counter is odd or changes, and the reader reads
again. On processors that reorder stores, this check can miss damage; the datagram's checksum detects it.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import time

from idcontrol.errors import InputError
from idcontrol.loop.wire import LARGEST

BYTES = 2 * (16 + LARGEST + 5)
"""Size of the shared memory of a connection [bytes]: two mailboxes, each aligned to 8 bytes."""
_TRIES = 4


def named(path: str) -> tuple[int, mmap.mmap]:
    """Lock the file `path`, and return its descriptor and memory; create the file if it does not exist.

    Raises:
        InputError: The file cannot be used, or another loop uses it.
    """
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        if os.fstat(descriptor).st_size not in (0, BYTES):
            raise InputError(f"{path} is a file with other content; give another file, best a new one in /dev/shm")
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.ftruncate(descriptor, BYTES)
        return descriptor, mmap.mmap(descriptor, BYTES)
    except BlockingIOError:
        raise InputError(f"{path}: another loop uses this shared memory; give another file") from None
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise InputError(f"{path} cannot be shared memory: {why}; give a file in /dev/shm") from error


class _Mailbox:
    """A mailbox: a counter (uint64; odd during a write), the length of the datagram (uint64), and its bytes."""

    def __init__(self, memory: mmap.mmap, offset: int) -> None:
        self._head = memoryview(memory)[offset : offset + 16].cast("Q")
        self._data = memoryview(memory)[offset + 16 : offset + 16 + LARGEST]

    @property
    def counter(self) -> int:
        return self._head[0]

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

    def __init__(self, memory: mmap.mmap, side: int, lock: int | None = None) -> None:
        """Use shared memory.

        Args:
            memory: The memory, of size `BYTES`.
            side: 0 for the loop, 1 for its machine.
            lock: File descriptor from `named`, closed with the link; a datagram that is already in the file is ignored.
                None for memory without a name.
        """
        boxes = (_Mailbox(memory, 0), _Mailbox(memory, BYTES // 2))
        self._out, self._into, self._memory, self._lock = boxes[side], boxes[1 - side], memory, lock
        self._seen = 0 if lock is None else self._into.counter

    def send(self, data: memoryview) -> None:
        """Replace the datagram in the mailbox by `data`."""
        self._out.put(data)

    def receive(self) -> bytes | None:
        """Return the newest datagram; None if it has been returned already, or while it is being written."""
        self._seen, data = self._into.take(self._seen)
        return data

    def settle(self) -> None:
        """Do nothing: there is only one sender."""

    def wait(self, timeout_s: float) -> None:
        """Sleep for `timeout_s` [s]; a datagram in memory does not wake the caller."""
        time.sleep(timeout_s)

    def close(self) -> None:
        """Release the memory."""
        self._out.close()
        self._into.close()
        if self._lock is not None:
            self._memory.close()  # the mapping holds the lock, too
            os.close(self._lock)
