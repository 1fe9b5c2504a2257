"""Privileges that the operating system grants or refuses are reported.

Child processes run the tests, which change them.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from idcontrol.loop import realtime

CODE = """
import json, os, gc
{before}
import msgspec
from idcontrol.loop import realtime
before = sorted(os.sched_getaffinity(0))
def held():
    links = (f"/proc/self/fd/{{each}}" for each in os.listdir("/proc/self/fd"))
    return [os.readlink(link) for link in links if os.path.exists(link)]
with realtime.undisturbed() as granted:
    state = dict(
        granted=msgspec.to_builtins(granted), scheduler=os.sched_getscheduler(0), cpus=len(os.sched_getaffinity(0)),
        frozen=gc.get_freeze_count(), slack_ns=int(open("/proc/self/timerslack_ns").read()),
        held=held(),
        locked=[line for line in open("/proc/self/status") if line.startswith("VmLck")][0].split()[1],
    )
state["after"] = (os.sched_getscheduler(0), gc.get_freeze_count(), sorted(os.sched_getaffinity(0)) == before)
state["let_go"] = held()
print(json.dumps(state))
"""

REFUSING = """
import ctypes, resource
def refuse(*_): raise PermissionError(1, "Operation not permitted")
os.sched_setscheduler = os.open = refuse
"""


def prepared(before=""):
    done = subprocess.run(
        [sys.executable, "-c", CODE.format(before=before)], capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout)


def test_reported_privileges_match_the_kernel():
    report = prepared()
    granted = report["granted"]
    assert (granted["scheduler"] == "SCHED_FIFO") == (report["scheduler"] == 1)
    assert (granted["cpu"] is not None) == (report["cpus"] == 1) or report["cpus"] == 1
    assert granted["memory_locked"] == (int(report["locked"]) > 0)
    assert granted["cpu_awake"] == (str(realtime.LATENCY) in report["held"])
    assert str(realtime.LATENCY) not in report["let_go"]
    assert report["frozen"] > 0
    assert report["after"] == [0, 0, True]
    assert report["slack_ns"] <= 1000  # 50 000 for an ordinary process, 0 with SCHED_FIFO
    assert granted["priority"] == (realtime.PRIORITY if report["scheduler"] == 1 else 0)
    assert granted["gc_frozen"]


def test_refused_privileges_are_reported_with_their_remedy():
    granted = prepared(REFUSING)["granted"]
    assert granted["scheduler"] == "SCHED_OTHER"
    assert granted["priority"] == 0
    assert granted["cpu"] is None  # not bound to a CPU that other processes may hold
    assert "limits.conf" in granted["refused"]["scheduler"]
    assert "priority" in granted["refused"]["cpu"]
    assert not granted["cpu_awake"]
    assert "udev" in granted["refused"]["cpu_awake"]


def test_no_two_loops_hold_one_cpu():
    """Under SCHED_FIFO, two loops bound to one CPU would wait for each other while other CPUs are idle."""
    cpus = [10_000 * os.getpid(), 10_000 * os.getpid() + 1]  # no loop of a parallel test holds these CPUs
    (first, holder), (second, other) = realtime._claim(cpus), realtime._claim(cpus)
    assert [first, second] == cpus
    assert realtime._claim(cpus) is None
    holder.close()
    first, holder = realtime._claim(reversed(cpus))
    assert first == cpus[0]
    holder.close()
    other.close()


def test_no_advice_about_a_cpu_latency_file_that_does_not_exist(monkeypatch, tmp_path):
    monkeypatch.setattr(realtime, "LATENCY", tmp_path / "none")
    refused: dict[str, str] = {}
    assert realtime._stay_awake(refused) is None
    assert refused == {"cpu_awake": f"this system has no {tmp_path / 'none'}"}


def test_a_file_that_opens_but_takes_no_latency_is_closed_again(monkeypatch):
    monkeypatch.setattr(realtime, "LATENCY", Path("/dev/full"))
    refused: dict[str, str] = {}
    before = os.listdir("/proc/self/fd")
    assert realtime._stay_awake(refused) is None
    assert len(os.listdir("/proc/self/fd")) == len(before)
    assert refused == {"cpu_awake": "/dev/full: No space left on device"}


def test_resident_memory_is_what_the_kernel_counts():
    words = Path("/proc/self/status").read_text().split()
    kernel_mb = 1.024e-3 * float(words[words.index("VmRSS:") + 1])
    # pages change between the two reads, and the kernel updates its counters only at intervals
    assert realtime.resident_mb() == pytest.approx(kernel_mb, rel=0.1)
