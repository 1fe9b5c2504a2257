"""The hardware boundary: transports of datagrams (`idcontrol.loop.wire`) between a loop and its machine.

A transport moves bytes without reading them; `Endpoint` checks the datagrams of every transport in the same way.
`inprocess` connects two ends within a process, `shared` two processes on one computer, `udp` any two computers on a
network. To add a transport, write an object with the methods of `Link`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from idcontrol.loop.wire import LAST_MODE, Datagram, Format, Inbox, Kind, Outbox, SessionNumbers
from idcontrol.types import Array

SENT = 256
"""Number of sent datagrams whose sending times are remembered, for `Endpoint.age`."""
TAKEN = 64
"""Largest number of datagrams that `Endpoint.poll` reads; it limits the time that a flood of datagrams can take."""
FAREWELL = 20
"""Number of datagrams in which a side announces that it has stopped: some may be lost."""


class Link(Protocol):
    """One end of a connection; no method waits."""

    def send(self, data: memoryview) -> None:
        """Send a datagram, which may be lost. The caller may overwrite `data` afterwards."""

    def receive(self) -> bytes | None:
        """Return the next received datagram; None if no datagram waits."""

    def settle(self) -> None:
        """From now on, receive only from the sender of the last datagram, which the caller has accepted."""

    def close(self) -> None:
        """Close the connection."""


class Endpoint:
    """One side of the conversation between a loop and its machine.

    Attributes:
        inbox: Checks incoming datagrams.
        outbox: Numbers outgoing datagrams.
        newest: The newest accepted datagram; None before the first.
    """

    def __init__(self, link: Link, inbox: Inbox, outbox: Outbox) -> None:
        """Send and receive over `link`."""
        self._link, self.inbox, self.outbox = link, inbox, outbox
        self.newest: Datagram | None = None
        self._heard = self._farewells = 0
        self._sent = [0] * SENT

    @classmethod
    def of_loop(cls, link: Link, wire: Format, numbers: SessionNumbers, unread: Sequence[str] = ()) -> Endpoint:
        """Return a loop's side: it receives states, whose values named in `unread` may be NaN, and sends commands."""
        inbox = Inbox(Kind.STATE, wire.robot, *wire.state_range(unread), numbers.other)
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
        """Send a datagram with `values`, the sender's `mode` and the time stamp `now` [ns]."""
        self.outbox.values[:] = values
        echo = 0 if self.newest is None else self.newest.sequence
        data = self.outbox.seal(mode, now, echo)
        self._sent[self.outbox.sequence % SENT] = now
        self._link.send(data)
        self._farewells += mode == LAST_MODE

    def poll(self, now: int) -> bool:
        """Read the received datagrams; return True if one was accepted."""
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
        """Return the time since a datagram was last accepted [ns]; 0 before the first."""
        return 0 if self.newest is None else now - self._heard

    def age(self, now: int) -> int:
        """Return an upper bound of the age of the newest datagram [ns]; 0 before the first datagram.

        The newest datagram echoes the number of a datagram that this side sent earlier. The time since that sending is
        the bound; it does not compare two clocks. If the sending time is no longer among the last `SENT`, the oldest
        remembered time replaces it. Without an echo, or if its number is impossible, return `silence`.
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
