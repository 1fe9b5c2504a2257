"""The examples do what they say."""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import experiments.examples
from experiments import trot
from idcontrol.loop import launch
from idcontrol.loop.clock import VirtualClock
from idcontrol.loop.launch import Settings
from idcontrol.loop.safety import Mode, Policy
from idcontrol.loop.transport.udp import UdpLink
from idcontrol.loop.wire import Kind, Outbox
from idcontrol.recording import load
from tests.loop import rig
from tests.loop.test_launch import wait_for_event

ROOT = Path(__file__).parents[2]
FAST = Settings(transport="inprocess", pacing="fast", policy=Policy(damp_s=0.05))
C_SOURCE = Path(experiments.examples.__file__).parent / "machine.c"


@pytest.fixture(autouse=True)
def at_root(monkeypatch):
    monkeypatch.chdir(ROOT)


def walk(controller, out):
    config = trot.Config(controller=f"experiments.examples.{controller}", duration_s=0.8)
    return launch.run("experiments.live:loop", config, FAST, out)


def test_a_pd_law_of_ones_own_trots(tmp_path):
    metrics = walk("pd:JointPd", tmp_path / "run")
    assert metrics["completed"]
    assert metrics["q_err_rad"] < 0.015
    assert metrics["force_err_n"] is None  # it predicts nothing


def test_a_whole_body_controller_of_ones_own_trots_and_knows_its_forces(tmp_path):
    metrics = walk("whole_body:WholeBody", tmp_path / "run")
    assert metrics["completed"]
    assert metrics["q_err_rad"] < 0.006
    assert metrics["force_err_rel"] < 0.03


def test_go1_trots_in_mujoco():
    pytest.importorskip("mujoco")
    from experiments.examples import mujoco_go1

    found = mujoco_go1.main(VirtualClock(), 1.0)
    assert found["q_err_rad"] < 0.006
    assert found["distance_m"] > 0.02  # it begins with a turn towards the first waypoint


# --- the machine in C ---

COMPILER = shutil.which("cc")
needs_compiler = pytest.mark.skipif(COMPILER is None, reason="no C compiler (cc) is installed")


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    path = tmp_path_factory.mktemp("c") / "machine"
    flags = ["-O2", "-std=c99", "-Wall", "-Wextra", "-Werror"]
    subprocess.run([COMPILER, *flags, "-o", path, C_SOURCE, "-lm"], check=True)
    return path


def free_ports(n):
    sockets = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(n)]
    for s in sockets:
        s.bind(("127.0.0.1", 0))
    ports = [s.getsockname()[1] for s in sockets]
    for s in sockets:
        s.close()
    return ports


def settings(own, machine):
    return Settings(transport="udp", bind=f"127.0.0.1:{own}", peer=f"127.0.0.1:{machine}", policy=rig.PATIENT)


@needs_compiler
@pytest.mark.wallclock
def test_a_machine_in_c_is_driven_over_udp(program, tmp_path):
    own, there = free_ports(2)
    arguments = ["arm", "2", str(there), str(own), "100", "100"]  # silence of 1 s is survived
    machine = subprocess.Popen([program, *arguments], stdout=subprocess.PIPE, text=True)
    metrics = launch.run("tests.loop.rig:offer", rig.Config(duration_s=0.6), settings(own, there), tmp_path / "run")
    said, _ = machine.communicate(timeout=10)
    assert metrics["ended"] == "duration"
    assert machine.returncode == 0
    words = said.split()
    assert int(words[1]) > 50  # accepted
    assert said.strip().endswith("told to stop")
    run = load(tmp_path / "run").arrays
    # the torques were applied: what it says that it did is what it was told a moment before
    sent = {tuple(np.round(tau, 9)) for tau in run["tau"]}
    applied = [tuple(np.round(tau, 9)) for tau in run["tau_applied"][run["machine_mode"] == 2]]
    assert np.mean([tau in sent for tau in applied]) > 0.9
    # and they moved it: it swings after the reference, which it was not at rest on
    assert np.abs(run["q"]).max() > 0.1


@needs_compiler
@pytest.mark.wallclock
def test_a_machine_in_c_drops_what_is_not_sound(program):
    own, there = free_ports(2)
    machine = subprocess.Popen([program, "arm", "2", str(there), str(own), "100"], stdout=subprocess.PIPE, text=True)
    link = UdpLink(("127.0.0.1", own), ("127.0.0.1", there))
    while link.receive() is None:
        time.sleep(0.01)
    ours, strange = (Outbox(Kind.COMMAND, robot, 2, 1) for robot in ("arm", "leg"))
    good = bytes(ours.seal(Mode.READY, 0, 0))
    damaged = bytearray(ours.seal(Mode.READY, 0, 0))
    damaged[60] ^= 1
    ours.values[:] = np.nan
    no_number = bytes(ours.seal(Mode.READY, 0, 0))
    ours.values[:] = 0.0
    bad = [good[:-1], good + b"0", bytes(damaged), no_number, bytes(strange.seal(Mode.READY, 0, 0))]
    for data in [good, good, *bad, ours.seal(Mode.STOPPED, 0, 0)]:
        link.send(memoryview(data))
    said, _ = machine.communicate(timeout=10)
    link.close()
    # the replay and the five bad ones
    assert said.startswith("accepted 2 dropped 6 moved 0.200 s")


@needs_compiler
@pytest.mark.wallclock
def test_a_machine_in_c_brakes_when_its_loop_is_killed(program, tmp_path):
    own, there = free_ports(2)
    machine = subprocess.Popen([program, "arm", "2", str(there), str(own), "100"], stdout=subprocess.PIPE, text=True)
    code = (
        "from pathlib import Path; from idcontrol.loop import launch; from tests.loop.rig import Config; "
        "from tests.experiments.test_examples import settings; "
        f"launch.run('tests.loop.rig:offer', Config(duration_s=60.0), settings({own}, {there}), "
        f"Path({str(tmp_path / 'run')!r}))"
    )
    loop = subprocess.Popen([sys.executable, "-c", code], cwd=ROOT)
    wait_for_event(tmp_path / "run", "the loop is running")
    time.sleep(0.1)
    loop.send_signal(signal.SIGKILL)
    loop.wait()
    said, _ = machine.communicate(timeout=10)
    assert machine.returncode == 0
    assert said.strip().endswith("silent")
