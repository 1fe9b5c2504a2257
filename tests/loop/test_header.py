"""The header for C and C++ seals and accepts the same bytes as `idcontrol.loop.wire`."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import idcontrol.loop
from idcontrol import cli
from idcontrol.errors import InputError
from idcontrol.loop import wire
from idcontrol.loop.safety import Mode
from idcontrol.loop.transport.shared import SharedLink, named
from idcontrol.loop.wire import Drop, Format, Inbox, Kind, Outbox, names_number, robot_number
from tests.loop.test_wire import of_version
from tests.parameters import one_fast

HEADER = Path(idcontrol.loop.__file__).parent / "idcontrol_wire.h"
WARNINGS = ["-O2", "-Wall", "-Wextra", "-Wpedantic", "-Werror"]
DIALECTS = {"c11": ("gcc", "c"), "c++17": ("g++", "cpp")}
LOW, HIGH = np.array([-10.0, 0.0, np.nan]), np.array([10.0, 1e300, 5.0])

CALLS = """
#define _POSIX_C_SOURCE 200809L
#define IDC_SHARED
#include "idcontrol_wire.h"
#ifdef __cplusplus
extern "C" {
#endif
static struct idc_outbox out;
static struct idc_inbox in;
static double least[3], most[3];
static struct idc_head head;
void begin(uint16_t kind, uint32_t robot, uint32_t own, uint32_t other, int known, const double *low,
           const double *high) {
    memset(&out, 0, sizeof out);
    memset(&in, 0, sizeof in);
    memcpy(least, low, sizeof least);
    memcpy(most, high, sizeof most);
    out.kind = in.kind = kind, out.robot = in.robot = robot, out.session = own, in.session = other, in.known = known;
    in.count = 3, in.low = least, in.high = most;
}
size_t seal(uint64_t sequence, uint16_t mode, int64_t stamp, uint64_t echo, const double *values, uint32_t count,
            unsigned char *data) {
    out.sequence = sequence;
    return idc_seal(&out, mode, stamp, echo, values, count, data);
}
int take(const unsigned char *data, size_t size, double *values) {
    return (int)idc_accept(&in, data, size, &head, values);
}
uint64_t counted(int why) { return why == IDC_TAKEN ? in.accepted : in.dropped[why]; }
void heads(uint64_t *told) {
    told[0] = head.mode, told[1] = head.sequence, told[2] = (uint64_t)head.stamp_ns, told[3] = head.echo;
}
uint32_t number(const char *text) { return idc_number(text); }
void ranges(const uint32_t *size, const double *torque, uint32_t *places, double *state, double *command) {
    const struct idc_machine m = {size[0], size[1], size[2], size[3], (int)size[4]};
    const struct idc_state_layout at = idc_state_layout_of(&m);
    memcpy(places, &at, sizeof at);
    idc_state_range(&m, state, state + at.count);
    idc_command_range(m.joints, torque, command, command + IDC_ROWS * m.joints);
}
static struct idc_shared memory;
int share(const char *path) { return idc_shared_open(&memory, path); }
void put(const void *data, size_t size) { idc_shared_send(&memory, data, size); }
size_t get(void *data) { return idc_shared_receive(&memory, data); }
#ifdef __cplusplus
}
#endif
"""


@pytest.fixture(scope="module", params=one_fast(DIALECTS, "c11"))
def header(request, tmp_path_factory):
    compiler, suffix = DIALECTS[request.param]
    if shutil.which(compiler) is None:
        pytest.skip(f"no compiler ({compiler}) is installed")
    folder = tmp_path_factory.mktemp("header")
    source, library = folder / f"calls.{suffix}", folder / "calls.so"
    source.write_text(CALLS)
    flags = [f"-std={request.param}", *WARNINGS, "-shared", "-fPIC", f"-I{HEADER.parent}"]
    subprocess.run([compiler, *flags, "-o", library, source], check=True)
    return ctypes.CDLL(str(library))


def pointer(array):
    return array.ctypes.data_as(ctypes.c_void_p)


def begin(header, session=None):
    header.begin(
        ctypes.c_uint16(Kind.COMMAND), ctypes.c_uint32(robot_number("go1")), ctypes.c_uint32(5),
        ctypes.c_uint32(session or 0), ctypes.c_int(session is not None), pointer(LOW), pointer(HIGH),
    )  # fmt: skip


def seal(header, sequence, mode, stamp, echo, values):
    data = (ctypes.c_ubyte * (48 + 8 * len(values)))()
    size = header.seal(
        ctypes.c_uint64(sequence), ctypes.c_uint16(mode), ctypes.c_int64(stamp), ctypes.c_uint64(echo),
        pointer(values), ctypes.c_uint32(len(values)), data,
    )  # fmt: skip
    assert size == len(data)
    return bytes(data)


def take(header, data):
    values = np.full(3, -7.0)
    return header.take(data, ctypes.c_size_t(len(data)), pointer(values)), values


words = st.integers(0, 2**64 - 2)
numbers = st.lists(st.floats(allow_nan=True, allow_infinity=True), min_size=0, max_size=8)


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(words, st.integers(0, 2**16 - 1), st.integers(-(2**63), 2**63 - 1), words, numbers)
def test_the_header_seals_the_same_bytes(header, sequence, mode, stamp, echo, values):
    begin(header)
    ours = Outbox(Kind.COMMAND, "go1", len(values), 5)
    ours.sequence = sequence
    ours.values[:] = values
    assert seal(header, sequence, mode, stamp, echo, np.array(values, dtype=float)) == bytes(
        ours.seal(mode, stamp, echo)
    )


CHANGES = st.one_of(
    st.just("none"),
    st.just("again"),
    st.tuples(st.just("flip"), st.integers(0, 71), st.integers(1, 255)),
    st.tuples(st.just("cut"), st.integers(0, 71)),
    st.tuples(st.just("magic"), st.sampled_from([b"IDC1", b"IDC3", b"XDC2"])),
)
SENT = st.tuples(
    st.one_of(st.integers(1, 8), st.integers(990, 2010), st.integers(2**64 - 3, 2**64 - 2)),
    st.sampled_from([Kind.COMMAND, Kind.COMMAND, Kind.COMMAND, Kind.STATE]),
    st.sampled_from(["go1", "go1", "go1", "solo12"]),
    st.sampled_from([5, 5, 5, 6]),
    st.sampled_from([0, 2, 2, 2, wire.LAST_MODE, wire.LAST_MODE + 1]),
    st.tuples(
        st.sampled_from([1.0, 10.0, 11.0, np.nan]),
        st.sampled_from([0.0, 1.0, -1.0]),
        st.sampled_from([np.nan, 5.0, -6.0]),
    ),
    CHANGES,
)


@settings(max_examples=150, deadline=None)
@given(st.lists(SENT, max_size=12), st.sampled_from([None, 5]))
def test_the_header_accepts_drops_and_counts_the_same_datagrams(header, sent, session):
    begin(header, session)
    ours = Inbox(Kind.COMMAND, "go1", LOW, HIGH, session)
    data = b""
    for sequence, kind, robot, own, mode, values, change in sent:
        if change != "again":
            sender = Outbox(kind, robot, 3, own)
            sender.sequence = sequence - 1
            sender.values[:] = values
            data = bytes(sender.seal(mode, -3, 9))
        if change[0] == "flip":
            data = bytes(byte ^ change[2] if i == change[1] else byte for i, byte in enumerate(data))
        elif change[0] == "cut":
            data = data[: change[1]]
        elif change[0] == "magic":
            data = of_version(change[1], data)
        expected = ours.accept(data)
        why, got = take(header, data)
        assert (why == len(Drop)) == (expected is not None)
        header.counted.restype = ctypes.c_uint64
        assert [header.counted(ctypes.c_int(drop)) for drop in Drop] == list(ours.dropped)
        if expected is not None:
            np.testing.assert_array_equal(got, expected.values)
            sizes = np.zeros(4, np.uint64)
            header.heads(pointer(sizes))
            said = [expected.mode, expected.sequence, expected.stamp % 2**64, expected.echo]
            assert list(map(int, sizes)) == said


@pytest.mark.parametrize("sizes", [(19, 18, 12, 4, 1), (2, 2, 2, 0, 0), (7, 7, 7, 1, 0)])
def test_the_header_has_the_same_places_and_ranges_of_all_values(header, sizes):
    nq, nv, joints, feet, floating = sizes
    limit = np.linspace(5.0, 30.0, joints)
    form = Format(robot="go1", nq=nq, nv=nv, floating=bool(floating), torque_limit=limit, n_feet=feet)
    places, state, command = np.zeros(16, np.uint32), np.zeros((2, form.state_values)), np.zeros((2, 5 * joints))
    header.ranges(
        pointer(np.array(sizes, np.uint32)), pointer(limit), pointer(places), pointer(state), pointer(command)
    )
    np.testing.assert_array_equal(state, form.state_range())
    np.testing.assert_array_equal(command, form.command_range())
    # each part begins at the end of the previous part, in the order of the description
    parts = [1, nq, nv, joints, 3, 3 * feet, 3 * feet, joints, joints, 1, 1, 4, 1, 1, 1]
    np.testing.assert_array_equal(places, np.cumsum([0, *parts]))
    assert places[-1] == form.state_values


def test_names_have_the_same_checksums(header):
    header.number.restype = ctypes.c_uint32
    for names in (["go1"], ["FL_hip_joint", "FR_hip_joint"]):
        assert header.number(",".join(names).encode()) == names_number(names)


def test_constants_of_the_header_equal_the_wire():
    text = HEADER.read_text()
    for name, value in (
        ("HEAD", wire.HEAD_BYTES),
        ("LARGEST", wire.LARGEST),
        ("AHEAD", wire.AHEAD),
        ("AXES", wire.AXES),
    ):
        assert f"IDC_{name} = {value}" in text
    assert f'#define IDC_MAGIC "{wire.MAGIC.decode()}"' in text
    for mode in set(Mode) - {Mode.ARMED}:  # to its machine an armed loop is ready
        assert f"IDC_{mode.name} = {mode.value}" in text
    for drop in Drop:
        assert f"IDC_{drop.name} = {drop.value}" in text
    assert Mode.STOPPED == wire.LAST_MODE


def test_the_command_line_prints_the_header(capsys):
    assert cli.main(["loop", "--header"]) == 0
    assert capsys.readouterr().out == HEADER.read_text()


def test_the_header_shares_memory_with_a_loop(header, tmp_path):
    path, data = str(tmp_path / "memory"), ctypes.create_string_buffer(wire.LARGEST)
    lock, memory = named(path)
    loop = SharedLink(memory, 0, lock)
    loop.send(memoryview(b"before"))
    assert header.share(path.encode()) == 0
    assert header.get(data) == 0  # a datagram from before is old
    for text in (b"first", b"second", b"x" * wire.LARGEST):
        loop.send(memoryview(text))
    assert header.get(data) == wire.LARGEST  # only the newest
    assert header.get(data) == 0
    header.put(b"state", ctypes.c_size_t(5))
    assert loop.receive() == b"state"
    assert loop.receive() is None
    header.put(b"old", ctypes.c_size_t(3))
    with pytest.raises(InputError, match="another loop uses this shared memory"):
        named(path)
    loop.close()
    lock, memory = named(path)
    later = SharedLink(memory, 0, lock)
    assert later.receive() is None
    later.close()


def test_shared_memory_never_overwrites_another_file(tmp_path):
    precious = tmp_path / "notes.txt"
    precious.write_text("precious")
    with pytest.raises(InputError, match="file with other content"):
        named(str(precious))
    assert precious.read_text() == "precious"
