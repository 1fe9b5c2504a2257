"""The hardware boundary: transports of datagrams (`idcontrol.loop.wire`) between a loop and its machine.

A transport moves bytes without reading them; `Endpoint` checks the datagrams of every transport in the same way.
`inprocess` connects two ends within a process, `shared` two processes on one computer, `udp` any two computers on a
network. To add a transport, write an object with the methods of `Link`.
"""

from __future__ import annotations

from typing import Protocol

from idcontrol.loop.wire import LAST_MODE, Datagram, Format, Inbox, Kind, Outbox, SessionNumbers
from idcontrol.types import Array

SENT = 256
"""Number of remembered sending times; the age of an echo follows from them."""
TAKEN = 64
"""Largest number of datagrams that `Endpoint.poll` reads; it limits the time that a flood of datagrams can take."""
FAREWELL = 20
"""Number of ticks in which a stopped side announces its stop: single datagrams may be lost."""


class Link(Protocol):
    """One end of a connection; no method waits."""

    def send(self, data: memoryview) -> None:
        """Send a datagram, which may be lost. A link that stores the datagram makes a copy."""

    def receive(self) -> bytes | None:
        """Return the next received datagram; None if no datagram waits."""

    def settle(self) -> None:
        """From now on, receive only from the sender of the last datagram.

        The caller must have accepted this datagram.
        """

    def close(self) -> None:
        """Release everything."""


class Endpoint:
    """One side of the conversation between a loop and its machine.

    Attributes:
        inbox: Checks incoming datagrams.
        newest: The newest accepted datagram; None before the first datagram.
    """

    def __init__(self, link: Link, inbox: Inbox, outbox: Outbox) -> None:
        """Send and receive over `link`."""
        self._link, self.inbox, self.outbox = link, inbox, outbox
        self.newest: Datagram | None = None
        self._heard = self._farewells = 0
        self._sent = [0] * SENT

    @classmethod
    def of_loop(cls, link: Link, wire: Format, numbers: SessionNumbers) -> Endpoint:
        """Return a loop's side: it receives states and sends commands."""
        inbox = Inbox(Kind.STATE, wire.robot, *wire.state_range(), numbers.other)
        return cls(link, inbox, Outbox(Kind.COMMAND, wire.robot, wire.command_values, numbers.own))

    @classmethod
    def of_machine(cls, link: Link, wire: Format, numbers: SessionNumbers) -> Endpoint:
        """Return a machine's side: it receives commands and sends states."""
        inbox = Inbox(Kind.COMMAND, wire.robot, *wire.command_range(), numbers.other)
        return cls(link, inbox, Outbox(Kind.STATE, wire.robot, wire.state_values, numbers.own))

    @property
    def finished(self) -> bool:
        """True if this side has announced its stop often enough."""
        return self._farewells >= FAREWELL

    def post(self, mode: int, values: Array, now: int) -> None:
        """Send `values` with the time stamp `now` [ns]."""
        self.outbox.values[:] = values
        echo = 0 if self.newest is None else self.newest.sequence
        data = self.outbox.seal(mode, now, echo)
        self._sent[self.outbox.sequence % SENT] = now
        self._link.send(data)
        self._farewells += mode == LAST_MODE

    def poll(self, now: int) -> bool:
        """Receive datagrams; return True if a newer datagram has come."""
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
        """Return the time since the last good datagram [ns]; 0 before the first datagram."""
        return 0 if self.newest is None else now - self._heard

    def age(self, now: int) -> int:
        """Return an upper bound of the age of the newest datagram [ns], from its silence and the age of its echo.

        Before the first echo it is the silence alone.

        The echo bounds the age without comparing two clocks: the other side can send the echo of a datagram only after
        receiving it.
        """
        if self.newest is None:
            return 0
        silence, echo, last = now - self._heard, self.newest.echo, self.outbox.sequence
        if echo == 0 or echo > last:
            return silence
        return max(
            silence, now - self._sent[echo % SENT] if last - echo < SENT else now - self._sent[(last + 1) % SENT]
        )

    def close(self) -> None:
        """Close the link."""
        self._link.close()
