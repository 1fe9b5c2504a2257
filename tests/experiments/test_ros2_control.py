"""The ros2_control example works with a controller manager without ROS."""

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import idcontrol.experiments.examples
import idcontrol.loop
from idcontrol.loop import launch
from idcontrol.loop.launch import LoopSettings
from idcontrol.loop.safety import Mode
from idcontrol.record.recording import load
from tests import GUARD_S
from tests.loop import rig

EXAMPLE = Path(idcontrol.experiments.examples.__file__).parent / "ros2_control"
HEADER = Path(idcontrol.loop.__file__).parent / "idcontrol_wire.h"
ROS = Path(__file__).parent / "ros2"
COMPILER = shutil.which("c++")
needs_compiler = pytest.mark.skipif(COMPILER is None, reason="no C++ compiler (c++) is installed")


@pytest.fixture(scope="module")
def manager(tmp_path_factory):
    path = tmp_path_factory.mktemp("ros2") / "manager"
    flags = ["-O2", "-std=c++17", "-Wall", "-Wextra", "-Wpedantic", "-Werror"]
    places = [f"-I{folder}" for folder in (EXAMPLE, ROS, HEADER.parent)]
    subprocess.run([COMPILER, *flags, *places, "-o", path, ROS / "manager.cpp"], check=True)
    return path


def start(manager, *arguments):
    return subprocess.Popen([manager, *map(str, arguments)], stdout=subprocess.PIPE, text=True)


@needs_compiler
@pytest.mark.slow
@pytest.mark.wallclock
def test_joints_of_a_controller_manager_follow_the_loop_and_brake_at_its_end(manager, tmp_path):
    memory = tmp_path / "memory"
    there = start(manager, "arm", "shoulder,elbow", 0, memory, 500, 60000)
    # it ends after a number of ticks, however long a busy computer takes
    config = rig.Config(controller="tests.loop.test_launch:Terminated", duration_s=GUARD_S)
    how = LoopSettings(transport="shared", peer=str(memory), arm=True, policy=rig.PATIENT)
    metrics = launch.run("tests.loop.rig:offer", config, how, tmp_path / "run")
    said, _ = there.communicate(timeout=GUARD_S)
    assert there.returncode == 0
    assert metrics["ended"] == "signal"
    run = load(tmp_path / "run").arrays
    runs = run["machine_mode"] == Mode.RUNNING
    sent = {tuple(np.round(tau, 9)) for tau in run["tau"]}
    assert np.mean([tuple(np.round(tau, 9)) in sent for tau in run["tau_applied"][runs]]) > 0.9
    assert np.abs(run["q"]).max() > 0.1  # it swings after the reference
    words = said.split()
    assert float(words[words.index("speed") + 1]) < 0.05  # at rest after braking
