"""The hardware boundary: what carries datagrams (`idcontrol.loop.wire`) between a loop and its machine.

A transport moves bytes and knows nothing of what they say; `Endpoint` judges them alike whatever they came through.
`inprocess` joins two ends within a process, `shared` two processes of a machine, `udp` anything that has a network. To
add one, write an object with the calls of `Link`.
"""

from __future__ import annotations

from typing import Protocol

from idcontrol.loop.wire import Datagram, Inbox, Outbox
from idcontrol.types import Array

SENT = 256
"""Sending times that are remembered, to tell how old an echo is."""
TAKEN = 64
"""Datagrams that are looked at in one tick, so that a flood of them costs no more than that."""


class Link(Protocol):
    """One end of a connection; neither call waits."""

    def send(self, data: memoryview) -> None:
        """Hand over a datagram; it may be lost, and is copied if it is kept."""
        ...

    def receive(self) -> bytes | None:
        """The next datagram that has come; None if there is none."""
        ...

    def settle(self) -> None:
        """Listen from now on to nobody but the sender of the datagram that was received last: it was accepted."""
        ...

    def close(self) -> None:
        """Let go of everything."""
        ...


class Endpoint:
    """One side of the conversation between a loop and its machine.

    Attributes:
        inbox: Judges what comes.
        newest: The newest datagram that was accepted; None before the first.
    """

    def __init__(self, link: Link, inbox: Inbox, outbox: Outbox) -> None:
        """Speak over `link`."""
        self._link, self.inbox, self._outbox = link, inbox, outbox
        self.newest: Datagram | None = None
        self._heard = 0
        self._sent = [0] * SENT

    def post(self, mode: int, values: Array, now: int) -> None:
        """Send `values` as of `now` [ns]."""
        self._outbox.values[:] = values
        echo = 0 if self.newest is None else self.newest.sequence
        data = self._outbox.seal(mode, now, echo)
        self._sent[self._outbox.sequence % SENT] = now
        self._link.send(data)

    def poll(self, now: int) -> bool:
        """Take what has come; returns whether there is something newer than before."""
        fresh = False
        for _ in range(TAKEN):
            data = self._link.receive()
            if data is None:
                break
            datagram = self.inbox.accept(data)
            if datagram is not None:
                if self.newest is None:
                    self._link.settle()
                self.newest, self._heard, fresh = datagram, now, True
        return fresh

    def silence(self, now: int) -> int:
        """Time since the last good datagram came [ns]; 0 before the first."""
        return 0 if self.newest is None else now - self._heard

    def age(self, now: int) -> int:
        """How old the newest news can be at most [ns]: its silence, or since its echo was sent if that is longer.

        The echo tells of delays that no comparison of two clocks could: the other side had our datagram when it spoke.
        """
        if self.newest is None:
            return 0
        silence, echo, last = now - self._heard, self.newest.echo, self._outbox.sequence
        if echo == 0 or echo > last:
            return silence
        return max(
            silence, now - self._sent[echo % SENT] if last - echo < SENT else now - self._sent[(last + 1) % SENT]
        )

    def close(self) -> None:
        """Let go of the link."""
        self._link.close()
