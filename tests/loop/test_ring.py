"""Telemetry: rows come out unchanged and in order; rows read too late are counted."""

from __future__ import annotations

import mmap
import os
import signal
import subprocess
import sys

import numpy as np

from idcontrol.loop.memory import anonymous, attach
from idcontrol.loop.ring import Ring, ring_bytes


def ring_pair(rows):
    memory = mmap.mmap(-1, ring_bytes(3, rows))
    return Ring(memory, 3), Ring(memory, 3)


def test_rows_are_read_unchanged_and_in_order():
    writer, reader = ring_pair(16)
    sent, got = 0, []
    rng = np.random.default_rng(0)
    for _ in range(200):
        for _ in range(rng.integers(0, 15)):
            writer.push(np.full(3, float(sent)))
            sent += 1
        got.extend(reader.take()[:, 0])
    assert got == list(range(sent))
    assert reader.lost == 0


def test_a_late_reader_loses_and_counts_the_oldest_rows():
    writer, reader = ring_pair(16)
    for k in range(100):
        writer.push(np.full(3, float(k)))
    rows = reader.take()
    assert rows[-1, 0] == 99
    np.testing.assert_array_equal(np.diff(rows[:, 0]), 1)
    assert reader.lost + len(rows) == 100
    assert len(rows) == 15  # one slot is reserved for the row that may be in writing


def test_the_writer_sees_the_lag_of_the_recorder_but_not_of_viewers():
    memory = mmap.mmap(-1, ring_bytes(3, 16))
    writer, recorder, onlooker = (Ring(memory, 3) for _ in range(3))
    for _ in range(15):
        writer.push(np.zeros(3))
    assert not writer.overrun
    writer.push(np.zeros(3))
    onlooker.take()
    assert writer.overrun
    recorder.take()
    recorder.acknowledge()
    assert not writer.overrun


def test_rows_of_a_killed_process_remain_readable():
    """A child process writes 50 rows into inherited memory, begins row 51, and is killed by SIGKILL."""
    descriptor, memory = anonymous(ring_bytes(3, 64))
    code = (
        "import numpy as np, os, signal\n"
        "from idcontrol.loop.memory import attach\n"
        "from idcontrol.loop.ring import Ring\n"
        f"ring = Ring(attach({descriptor}), 3)\n"
        "for k in range(50): ring.push(np.full(3, float(k)))\n"
        "ring._rows[50 % 64, 0] = 77.0\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], pass_fds=[descriptor], check=False)
    assert done.returncode == -signal.SIGKILL
    rows = Ring(memory, 3).take()
    np.testing.assert_array_equal(rows[:, 0], np.arange(50))
    os.close(descriptor)


def test_anonymous_memory_is_shared_and_zero():
    descriptor, memory = anonymous(4096)
    other = attach(os.dup(descriptor))
    assert not any(other[:])
    memory[7] = 9
    assert other[7] == 9
    os.close(descriptor)
