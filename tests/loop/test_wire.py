"""Datagrams: written values are read back, and unsound datagrams are dropped and counted."""

from __future__ import annotations

import struct
import zlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from idcontrol.loop.wire import (
    AHEAD,
    Drop,
    Format,
    Inbox,
    Kind,
    Outbox,
    model_number,
    names_number,
    within,
)
from idcontrol.types import ContactForces, State
from tests.loop.rig import arm

LOW, HIGH = np.full(3, -10.0), np.full(3, 10.0)


def outbox(**changes):
    fields = {"kind": Kind.COMMAND, "robot": "go1", "count": 3, "session": 5} | changes
    return Outbox(**fields)


def inbox():
    return Inbox(Kind.COMMAND, "go1", LOW, HIGH)


def sealed(values=(1.0, 2.0, 3.0), sender=None, mode=2, **changes):
    sender = outbox(**changes) if sender is None else sender
    sender.values[:] = values
    return bytes(sender.seal(mode, 123, 4))


def of_version(magic, data):
    """Return a datagram that is whole, and begins with `magic`."""
    data = magic + data[4:]
    return data[:44] + struct.pack("<I", zlib.crc32(data[:44] + data[48:])) + data[48:]


def test_an_inbox_accepts_a_sealed_datagram_unchanged():
    datagram = inbox().accept(sealed())
    np.testing.assert_array_equal(datagram.values, [1.0, 2.0, 3.0])
    assert (datagram.mode, datagram.sequence, datagram.stamp, datagram.echo) == (2, 1, 123, 4)


def test_the_bytes_are_those_of_the_description():
    """Written again, field by field, like a program in another language."""
    data = sealed()
    assert len(data) == 48 + 3 * 8
    assert data[0:4] == b"IDC2"
    assert struct.unpack_from("<H", data, 4) == (1,)
    assert struct.unpack_from("<H", data, 6) == (2,)
    assert struct.unpack_from("<I", data, 8) == (zlib.crc32(b"go1"),)
    assert struct.unpack_from("<I", data, 12) == (5,)
    assert struct.unpack_from("<Q", data, 16) == (1,)
    assert struct.unpack_from("<q", data, 24) == (123,)
    assert struct.unpack_from("<Q", data, 32) == (4,)
    assert struct.unpack_from("<I", data, 40) == (3,)
    assert struct.unpack_from("<I", data, 44) == (zlib.crc32(data[:44] + data[48:]),)
    assert struct.unpack_from("<3d", data, 48) == (1.0, 2.0, 3.0)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", Drop.SIZE),
        (sealed()[:-1], Drop.SIZE),
        (sealed() + b"\0", Drop.SIZE),
        (sealed()[:47], Drop.SIZE),
        (b"IDC1" + sealed()[4:], Drop.DAMAGED),
        (of_version(b"IDC1", sealed()), Drop.VERSION),
        (of_version(b"IDC3", sealed()), Drop.VERSION),
        (of_version(b"IDC1", sealed((1.0,), count=1)), Drop.VERSION),
        (of_version(b"XDC2", sealed()), Drop.DAMAGED),
        (sealed(robot="solo12"), Drop.FOREIGN),
        (sealed(kind=Kind.STATE), Drop.FOREIGN),
        (sealed((0.0, 10.1, 0.0)), Drop.RANGE),
        (sealed((0.0, np.nan, 0.0)), Drop.RANGE),
        (sealed((0.0, -np.inf, 0.0)), Drop.RANGE),
        (sealed(mode=5), Drop.RANGE),
    ],
)
def test_unsound_datagrams_are_dropped_and_counted(data, why):
    receiver = inbox()
    assert receiver.accept(data) is None
    assert receiver.dropped[why] == receiver.dropped.sum() == 1
    assert receiver.accepted == 0


def test_a_dropped_datagram_leaves_no_trace():
    receiver, sender = inbox(), outbox()
    bad = sealed((99.0, 0.0, 0.0), sender)
    good = sealed(sender=sender)
    assert receiver.accept(bad) is None
    assert receiver.accept(good) is not None


def test_judging_the_last_datagram_again_changes_nothing():
    sender, receiver, plain = outbox(), inbox(), inbox()
    receiver.rehearse()  # there is none
    for _ in range(3):
        data = sealed(sender=sender)
        for _ in range(2):  # the second time the datagram is old
            said, expected = receiver.accept(data), plain.accept(data)
            receiver.rehearse()
            assert (said is None) == (expected is None)
            assert (receiver.accepted, list(receiver.dropped)) == (plain.accepted, list(plain.dropped))
    # a datagram far beyond the last one is still taken only with its successor
    sender.sequence += 5000
    assert receiver.accept(sealed(sender=sender)) is None
    receiver.rehearse()
    assert receiver.accept(sealed(sender=sender)).sequence == sender.sequence


def test_old_and_repeated_datagrams_are_dropped():
    receiver, sender = inbox(), outbox()
    first, second, third = (sealed(sender=sender) for _ in range(3))
    assert receiver.accept(first)
    assert receiver.accept(third)
    for again in (first, second, third):
        assert receiver.accept(again) is None
    assert receiver.dropped[Drop.OLD] == 3


def numbered(sender, sequence):
    sender.sequence = sequence - 1
    return sealed(sender=sender)


@pytest.mark.parametrize("first", [1, 2**40])
def test_a_far_off_number_does_not_lock_out_the_honest_sender(first):
    receiver, sender = inbox(), outbox()
    for k in range(2):
        receiver.accept(numbered(sender, first + k))
    assert receiver.accepted > 0
    assert receiver.accept(numbered(sender, 2**64 - 1)) is None
    assert receiver.dropped[Drop.OLD] == receiver.dropped.sum()
    for k in range(2, 5):
        assert receiver.accept(numbered(sender, first + k)) is not None


def test_after_a_large_loss_the_second_datagram_is_accepted():
    receiver, sender = inbox(), outbox()
    assert receiver.accept(numbered(sender, 1))
    assert receiver.accept(numbered(sender, 1 + AHEAD))
    assert receiver.accept(numbered(sender, 3 + 2 * AHEAD)) is None
    assert receiver.accept(numbered(sender, 4 + 2 * AHEAD))


def test_only_the_known_session_is_accepted():
    receiver = Inbox(Kind.COMMAND, "go1", LOW, HIGH, session=6)
    assert receiver.accept(sealed(session=5)) is None
    assert receiver.dropped[Drop.OLD] == 1
    assert receiver.accept(sealed(session=6))


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 71), st.integers(1, 255))
def test_no_changed_byte_goes_unnoticed(at, change):
    data = bytearray(sealed())
    data[at] ^= change
    assert inbox().accept(bytes(data)) is None


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=200))
def test_noise_is_dropped(data):
    receiver = inbox()
    assert receiver.accept(data) is None
    assert receiver.dropped.sum() == 1


def test_a_state_comes_through_whole():
    form = Format(robot="go1", nq=19, nv=18, floating=True, torque_limit=np.full(12, 20.0), n_feet=4)
    rng = np.random.default_rng(0)
    forces = ContactForces(
        identity=np.array([1, 3]), force=rng.normal(size=(2, 3)), normal=np.array([[0, 0, 1.0], [0.6, 0, 0.8]])
    )
    q = rng.normal(size=19)
    q[3:7] = [0, 0, 0.6, 0.8]
    state, tau, felt = State(t=1.5, q=q, v=rng.normal(size=18), forces=forces), rng.normal(size=12), rng.normal(size=3)
    values = np.empty(form.state_values)
    form.write_state(values, state, tau, felt)
    low, high = form.state_range()
    assert within(low, values, high)
    assert all(np.isnan(part).all() for part in form.health(values))  # no value is measured
    read = form.read_state(values)
    assert read.state.t == 1.5
    np.testing.assert_array_equal(read.state.q, q)
    np.testing.assert_array_equal(read.state.v, state.v)
    np.testing.assert_array_equal(read.tau, tau)
    np.testing.assert_array_equal(read.accelerometer, felt)
    np.testing.assert_array_equal(read.state.forces.identity, [1, 3])
    np.testing.assert_array_equal(read.state.forces.force, forces.force)
    np.testing.assert_array_equal(read.state.forces.normal, forces.normal)


def test_a_command_may_be_as_large_as_its_limit_and_no_larger():
    limit = np.array([20.0, 5.0, np.inf])
    form = Format(robot="go1", nq=3, nv=3, floating=False, torque_limit=limit, n_feet=0)
    low, high = form.command_range()
    assert form.command_values == len(low) == 15
    receiver, sender = Inbox(Kind.COMMAND, "go1", low, high), outbox(count=15)
    # tau, q, v, kp, kd: positions and velocities of any sign, nonnegative gains
    widest = np.r_[20.0, -5.0, 1e9, [-1e4] * 3, [-1e3] * 3, [2000.0, 500.0, 1e6], [40.0, 10.0, 1e6]]
    assert receiver.accept(sealed(widest, sender))
    torques = {0: np.nextafter(20.0, 21.0), 1: np.nextafter(-5.0, -6.0)}
    beyond = torques | {4: 1.1e4, 8: 1.1e3, 9: -1e-9, 10: 501.0, 12: 41.0, 14: 2e6}
    for place, value in beyond.items():
        values = widest.copy()
        values[place] = value
        assert receiver.accept(sealed(values, sender)) is None
    assert receiver.dropped[Drop.RANGE] == len(beyond)


def test_the_range_of_a_state_exceeds_that_of_any_real_machine():
    form = Format(robot="go1", nq=8, nv=7, floating=True, torque_limit=np.array([20.0]), n_feet=1)
    low, high = form.state_range()
    # t, position of the base, its quaternion, a joint; velocities; torque, accelerometer, force and normal of a foot
    bounds = np.r_[np.finfo(float).max, [1e4] * 3, [2.0] * 4, 1e4, [1e3] * 7, [1e6] * 10]
    # drive error, temperature, voltage, emergency stop, joystick, joints, model
    words = 2.0**32 - 1.0
    may_be_unknown = np.r_[words, [1e6] * 7, [words] * 3]
    assert form.state_values == len(bounds) + len(may_be_unknown)
    np.testing.assert_array_equal(high, np.r_[bounds, may_be_unknown])
    np.testing.assert_array_equal(low[: len(bounds)], np.r_[0.0, -high[1 : len(bounds)]])
    assert np.isnan(low[len(bounds) :]).all()


@pytest.mark.parametrize(("value", "fits"), [(np.nan, True), (-1.0, True), (1.0, True), (1.1, False), (-np.inf, False)])
def test_optional_values_are_nan_or_within_their_range(value, fits):
    assert within(np.array([np.nan]), np.array([value]), np.array([1.0])) == fits


def test_the_health_of_a_machine_has_its_place_in_a_state():
    """Written again, field by field, like a program in another language."""
    form = Format(
        robot="arm", nq=2, nv=2, floating=False, torque_limit=np.full(2, 20.0), n_feet=0, joints=7.0, model=9.0
    )
    values = np.empty(form.state_values)
    said = np.arange(11.0)  # errors, temperatures, voltage, emergency stop, four axes, buttons
    state = State(t=0.0, q=np.zeros(2), v=np.zeros(2))
    form.write_state(values, state, np.zeros(2), np.zeros(3), said)
    np.testing.assert_array_equal(values[10:], np.r_[said, 7.0, 9.0])
    health = form.health(values)
    np.testing.assert_array_equal(health.drive_error, [0.0, 1.0])
    np.testing.assert_array_equal(health.temperature, [2.0, 3.0])
    np.testing.assert_array_equal(health.supply, [4.0, 5.0])
    np.testing.assert_array_equal(health.axes, [6.0, 7.0, 8.0, 9.0])
    assert health.operator[-1] == 10.0


@pytest.mark.parametrize(
    ("joints", "model", "said"),
    [(7.0, 9.0, ""), (np.nan, np.nan, ""), (8.0, 9.0, "in another order"), (7.0, 8.0, "another model")],
)
def test_a_machine_with_other_joints_or_model_is_recognized(joints, model, said):
    form = Format(
        robot="arm", nq=2, nv=2, floating=False, torque_limit=np.full(2, 20.0), n_feet=0, joints=7.0, model=9.0
    )
    why = form.stranger(np.r_[np.zeros(21), joints, model])
    assert said in why
    assert bool(why) == bool(said)


def test_legs_in_another_order_have_another_number():
    assert names_number(["FL", "FR"]) == zlib.crc32(b"FL,FR") != names_number(["FR", "FL"])


def test_the_number_of_a_model_depends_on_masses_but_not_on_rounding():
    number = model_number(arm().model)
    rounded, heavier, moved = arm().model, arm().model, arm().model
    rounded.inertias[1].mass += 1e-9
    heavier.inertias[1].mass += 1e-3
    moved.jointPlacements[2].translation[2] += 1e-3
    assert model_number(rounded) == number
    assert len({number, model_number(heavier), model_number(moved)}) == 3
