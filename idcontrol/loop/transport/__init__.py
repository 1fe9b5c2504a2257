"""The hardware boundary: transports of datagrams (`idcontrol.loop.wire`) between a loop and its machine.

A transport moves bytes and does not read them; `Endpoint` checks datagrams in the same way for every transport.
`inprocess` joins two ends within a process, `shared` two processes of a computer, `udp` anything that has a network. To
add one, write an object with the calls of `Link`.
"""

from __future__ import annotations

from typing import Protocol

from idcontrol.loop.wire import LAST_MODE, Datagram, Format, Inbox, Kind, Outbox, SessionNumbers
from idcontrol.types import Array

SENT = 256
"""Sending times that are remembered, from which the age of an echo follows."""
TAKEN = 64
"""Datagrams that are read in one tick at most, which bounds the cost of a flood."""
FAREWELL = 20
"""Number of ticks in which a stopped side goes on sending that it has stopped: some datagrams may be lost."""


class Link(Protocol):
    """One end of a connection; neither call waits."""

    def send(self, data: memoryview) -> None:
        """Hand over a datagram; it may be lost, and is copied if it is kept."""

    def receive(self) -> bytes | None:
        """Return the next datagram that has come; None if there is none."""

    def settle(self) -> None:
        """Receive from now on only from the sender of the last datagram, which was accepted."""

    def close(self) -> None:
        """Release everything."""


class Endpoint:
    """One side of the conversation between a loop and its machine.

    Attributes:
        inbox: Checks incoming datagrams.
        newest: The newest datagram that was accepted; None before the first.
    """

    def __init__(self, link: Link, inbox: Inbox, outbox: Outbox) -> None:
        """Send and receive over `link`."""
        self._link, self.inbox, self._outbox = link, inbox, outbox
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
        """True if this side has sent often enough that it has stopped."""
        return self._farewells >= FAREWELL

    def post(self, mode: int, values: Array, now: int) -> None:
        """Send `values` as of `now` [ns]."""
        self._outbox.values[:] = values
        echo = 0 if self.newest is None else self.newest.sequence
        data = self._outbox.seal(mode, now, echo)
        self._sent[self._outbox.sequence % SENT] = now
        self._link.send(data)
        self._farewells += mode == LAST_MODE

    def poll(self, now: int) -> bool:
        """Take what has come; return True if there is something newer than before."""
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
        """Return the time since the last good datagram came [ns]; 0 before the first."""
        return 0 if self.newest is None else now - self._heard

    def age(self, now: int) -> int:
        """Return the largest possible age of the newest datagram [ns]: its silence, or the age of its echo.

        The echo bounds delays without comparing two clocks: the other side had our datagram when it sent its own.
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
        """Close the link."""
        self._link.close()
