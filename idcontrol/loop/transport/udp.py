"""A connection over UDP, bound to loopback by default.

Once the peer is known, only its datagrams are read. A side without the peer's address adopts the sender of the first
accepted datagram as its peer, and sends nothing before. Any computer on the network can forge datagrams, so connect two
computers only by a dedicated cable.
"""

from __future__ import annotations

import contextlib
import errno
import select
import socket

from idcontrol.errors import InputError
from idcontrol.loop.wire import LARGEST

LOOPBACK = "127.0.0.1"

Address = tuple[str, int]


def address(text: str) -> Address:
    """Return host and port of ``HOST:PORT``.

    Raises:
        InputError: The text has a different format.
    """
    host, colon, port = text.rpartition(":")
    if not colon or not host or not port.isdigit() or int(port) > 65535:
        raise InputError(f"{text!r} is not an address: write it as HOST:PORT, e.g. {LOOPBACK}:7500")
    return host, int(port)


class UdpLink:
    """One end of a connection over UDP.

    Attributes:
        local: Host and port at which this end listens.
    """

    def __init__(self, bind: Address = (LOOPBACK, 0), peer: Address | None = None) -> None:
        """Open a socket.

        Args:
            bind: Address to listen on; port 0 means any free port.
            peer: Address of the other side; None means the sender of the first accepted datagram.

        Raises:
            InputError: The address cannot be used.
        """
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        used, what = bind, "cannot listen at"
        try:
            self._socket.bind(bind)
            if peer is not None:
                used, what = peer, "cannot reach the machine at"
                if peer[1] == 0:
                    raise OSError(errno.EADDRNOTAVAIL, "port 0 receives no datagrams")
                self._socket.connect(peer)
        except OSError as error:
            self._socket.close()
            why = error.strerror or error
            raise InputError(f"{what} {used[0]}:{used[1]} by UDP: {why}; give another address") from error
        self._socket.setblocking(False)
        self._sender = peer
        self._connected = peer is not None
        self.local: Address = self._socket.getsockname()

    def send(self, data: memoryview) -> None:
        """Send the datagram; it is lost if a buffer is full, or the peer absent or unknown. Watchdogs detect this."""
        if self._connected:
            with contextlib.suppress(OSError):
                self._socket.send(data)

    def receive(self) -> bytes | None:
        """Return the next datagram of the peer, or of any sender while the peer is unknown; None if none waits."""
        try:
            data, self._sender = self._socket.recvfrom(LARGEST)
        except OSError:  # no datagram, or the peer's computer reports that no process listens
            return None
        return data

    def settle(self) -> None:
        """Adopt the sender of the last datagram as the peer, unless the peer is known."""
        if not self._connected and self._sender is not None:
            self._socket.connect(self._sender)
            self._connected = True

    def wait(self, timeout_s: float) -> None:
        """Wait for a datagram for at most `timeout_s` [s]."""
        if timeout_s > 0.0:
            select.select([self._socket], [], [], timeout_s)

    def fileno(self) -> int:
        """Return the file descriptor that becomes readable when a datagram comes, for `select`."""
        return self._socket.fileno()

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()
