"""A connection within one process: each end receives the other end's datagrams immediately and in order."""

from __future__ import annotations

from collections import deque


class Queue:
    """One end of a connection within a process; `pair` makes both."""

    def __init__(self, out: deque[bytes], into: deque[bytes]) -> None:
        """Send to `out`, receive from `into`."""
        self._out, self._into = out, into

    def send(self, data: memoryview) -> None:
        """Send a copy."""
        self._out.append(bytes(data))

    def receive(self) -> bytes | None:
        """Return the oldest waiting datagram; None if no datagram waits."""
        return self._into.popleft() if self._into else None

    def settle(self) -> None:
        """Do nothing: there is only one sender."""

    def close(self) -> None:
        """Do nothing: there is nothing to release."""


def pair() -> tuple[Queue, Queue]:
    """Return two connected ends; if more than 1000 datagrams wait at an end, the oldest are dropped."""
    there: deque[bytes] = deque(maxlen=1000)
    back: deque[bytes] = deque(maxlen=1000)
    return Queue(there, back), Queue(back, there)
