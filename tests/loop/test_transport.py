"""Links: the data sent at one end arrive at the other end, and the endpoint reports their age."""

from __future__ import annotations

import contextlib
import mmap
import socket
import time

import numpy as np
import pytest

from idcontrol.errors import InputError
from idcontrol.loop.clock import NS
from idcontrol.loop.transport import SENT, Endpoint, inprocess
from idcontrol.loop.transport.shared import BYTES, SharedLink
from idcontrol.loop.transport.udp import LOOPBACK, UdpLink, address
from idcontrol.loop.wire import Drop, Inbox, Kind, Outbox
from tests import GUARD_S

MS = NS // 1000


@contextlib.contextmanager
def ends(kind):
    memory = mmap.mmap(-1, BYTES)
    if kind == "inprocess":
        a, b = inprocess.pair()
    elif kind == "shared":
        a, b = SharedLink(memory, 0), SharedLink(memory, 1)
    else:
        a = UdpLink()
        b = UdpLink(peer=a.local)
        b.send(memoryview(b"hello"))
        assert take(a) == b"hello"
        a.settle()
    try:
        yield a, b
    finally:
        a.close()
        b.close()
        memory.close()


def take(link):
    """Wait for the next datagram: loopback may take a moment on a busy machine."""
    for _ in range(2000):
        data = link.receive()
        if data is not None:
            return data
        time.sleep(0.001)
    return None


@pytest.fixture(params=["inprocess", "shared", "udp"])
def link(request):
    with ends(request.param) as pair:
        yield pair


def test_bytes_go_both_ways(link):
    a, b = link
    for size in (1, 48, 400, 1400):
        a.send(memoryview(bytes(range(256)) * 6)[:size])
        assert take(b) == (bytes(range(256)) * 6)[:size]
        b.send(memoryview(b"back"))
        assert take(a) == b"back"


def test_each_datagram_is_received_once(link):
    a, b = link
    assert b.receive() is None
    a.send(memoryview(b"once"))
    assert take(b) == b"once"
    assert b.receive() is None


def test_shared_memory_holds_the_newest():
    with ends("shared") as (a, b):
        a.send(memoryview(b"first"))
        a.send(memoryview(b"second"))
        assert b.receive() == b"second"
        assert b.receive() is None


def test_a_datagram_half_written_by_a_killed_writer_is_skipped():
    with ends("shared") as (a, b):
        a.send(memoryview(b"whole"))
        a._out._head[0] += 1  # as if the writer had begun the next write
        assert b.receive() is None
        a.send(memoryview(b"again"))
        assert b.receive() == b"again"


def test_udp_listens_to_its_peer_alone():
    with ends("udp") as (a, b):
        stranger = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        stranger.sendto(b"let me in", a.local)
        stranger.close()
        b.send(memoryview(b"it is me"))
        assert take(a) == b"it is me"
        assert a.receive() is None


def test_a_foreign_datagram_that_comes_first_does_not_lock_out_the_machine():
    low, high = np.full(1, -1.0), np.full(1, 1.0)
    loop = UdpLink()
    plant = UdpLink(peer=loop.local)
    here = Endpoint(loop, Inbox(Kind.STATE, "r", low, high, session=2), Outbox(Kind.COMMAND, "r", 1, 1))
    there = Endpoint(plant, Inbox(Kind.COMMAND, "r", low, high, session=1), Outbox(Kind.STATE, "r", 1, 2))
    stranger = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    forged = Outbox(Kind.STATE, "r", 1, 3)  # everything is right except the number of the session
    for count, data in enumerate((b"x", bytes(forged.seal(2, 0, 0))), 1):
        stranger.sendto(data, loop.local)
        deadline = time.monotonic() + GUARD_S
        while here.inbox.dropped.sum() < count and time.monotonic() < deadline:
            here.poll(0)
        assert here.inbox.dropped.sum() == count
        assert here.newest is None
    there.post(1, VALUE, 0)
    deadline = time.monotonic() + GUARD_S
    while not here.poll(0) and time.monotonic() < deadline:
        time.sleep(0.001)
    assert here.newest is not None
    here.post(1, VALUE, 0)
    while not there.poll(0) and time.monotonic() < deadline:
        time.sleep(0.001)
    assert there.newest is not None
    for link in (loop, plant, stranger):
        link.close()


def test_only_a_datagram_ends_a_wait_on_udp():
    with ends("udp") as (a, b):
        began = time.monotonic()
        a.wait(0.02)
        assert time.monotonic() - began >= 0.02
        b.send(memoryview(b"news"))
        a.wait(GUARD_S)
        assert time.monotonic() - began < GUARD_S
        assert a.receive() == b"news"


def test_udp_is_bound_to_loopback_by_default():
    link = UdpLink()
    assert link.local[0] == "127.0.0.1"
    link.close()


def test_an_absent_peer_is_no_error():
    link = UdpLink(peer=("127.0.0.1", 9))
    for _ in range(5):
        link.send(memoryview(b"anybody?"))
        assert link.receive() is None
    link.close()


@pytest.mark.parametrize("text", ["7500", "host:", ":7500", "host:port", "host:70000"])
def test_an_invalid_address_is_refused(text):
    with pytest.raises(InputError, match="HOST:PORT"):
        address(text)


def test_an_address_in_use_is_refused_in_one_line():
    link = UdpLink()
    with pytest.raises(InputError, match="another address"):
        UdpLink(bind=link.local)
    link.close()


@pytest.mark.parametrize(
    ("peer", "line"),
    [
        (("nosuchhost.invalid", 7500), "cannot reach the machine at nosuchhost.invalid:7500"),
        ((LOOPBACK, 0), f"cannot reach the machine at {LOOPBACK}:0 by UDP: port 0 receives no datagrams"),
    ],
)
def test_an_unreachable_peer_is_reported_by_its_own_address(peer, line):
    with pytest.raises(InputError, match=line):
        UdpLink(peer=peer)


# --- endpoints ---


def endpoints():
    here, there = inprocess.pair()
    low, high = np.full(1, -1.0), np.full(1, 1.0)
    a = Endpoint(here, Inbox(Kind.STATE, "r", low, high), Outbox(Kind.COMMAND, "r", 1, 1))
    b = Endpoint(there, Inbox(Kind.COMMAND, "r", low, high), Outbox(Kind.STATE, "r", 1, 2))
    return a, b


VALUE = np.zeros(1)


def test_silence_is_zero_before_the_first_datagram():
    a, _ = endpoints()
    assert a.newest is None
    assert a.age(NS) == a.silence(NS) == 0


def test_silence_counts_from_the_last_good_datagram():
    a, b = endpoints()
    b.post(2, VALUE, 0)
    assert a.poll(5 * MS)
    assert not a.poll(6 * MS)
    b.post(2, 99.0 * np.ones(1), 0)  # out of range
    assert not a.poll(7 * MS)
    assert a.inbox.dropped[Drop.RANGE] == 1
    assert a.silence(9 * MS) == 4 * MS


def test_age_is_measured_by_the_echo():
    a, b = endpoints()
    a.post(2, VALUE, 0)
    assert b.poll(1 * MS)
    b.post(2, VALUE, 1 * MS)
    assert a.poll(30 * MS)  # it was in transit for 29 ms
    assert a.silence(30 * MS) == 0
    assert a.age(30 * MS) == 30 * MS


def test_the_age_of_a_forgotten_echo_is_at_least_that_of_the_oldest_remembered_one():
    a, b = endpoints()
    a.post(2, VALUE, 0)
    b.poll(0)
    b.post(2, VALUE, 0)
    for k in range(1, SENT + 10):
        a.post(2, VALUE, k * MS)
    a.poll((SENT + 9) * MS)
    assert a.age((SENT + 9) * MS) >= (SENT - 1) * MS


def test_an_echo_of_a_number_that_was_never_sent_is_ignored():
    a, b = endpoints()
    b.outbox.values[:] = 0.0
    b._link.send(b.outbox.seal(2, 0, 10**6))
    assert a.poll(MS)
    assert a.age(3 * MS) == 2 * MS


def test_a_tick_reads_only_some_datagrams_of_a_flood():
    a, b = endpoints()
    for k in range(500):
        b.post(2, VALUE, k)
    a.poll(NS)
    assert a.newest.sequence < 100
