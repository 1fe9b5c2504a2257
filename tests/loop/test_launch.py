"""A loop, its machine and its recorder as separate processes: normal ends and forced ends."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from msgspec import structs

from idcontrol.errors import Diverged, InputError
from idcontrol.loop import launch
from idcontrol.loop.clock import NS
from idcontrol.loop.launch import LoopSettings
from idcontrol.loop.safety import Fault, Mode, Policy, Rule
from idcontrol.record.recording import load
from idcontrol.types import Command
from tests import GUARD_S
from tests.loop.rig import HELD, PATIENCE_S, PATIENT, PERIOD, TORQUE, Arm, ArmSession, Config, Offer, Pd
from tests.parameters import one_fast

ROOT = Path(__file__).parents[2]
TARGET = "tests.loop.rig:offer"
SETTINGS = LoopSettings(plant_silence_s=PATIENCE_S, policy=PATIENT)
UNMOVED = LoopSettings(
    plant_silence_s=0.5, policy=structs.replace(PATIENT, peer=Rule(then="hold"), silent=Rule(then="hold"))
)
"""Settings of a loop that continues whatever its machine does; the machine brakes as soon as the loop is silent."""
FOREVER = Config(duration_s=GUARD_S)
"""A duration longer than the time limit of a test."""
BEYOND_REHEARSAL = 800
"""A call of a controller that comes while the loop is running: the rehearsal makes 600 calls, and the start 20."""


class Spinning(Pd):
    """Never returns from a call."""

    def __init__(self):
        super().__init__(wrong=self.spin)

    def spin(self, call, command):
        while call == BEYOND_REHEARSAL:
            pass
        return command


class Terminated(Pd):
    """Sends a signal to its own process and the processes that it started, in the middle of the run."""

    number = signal.SIGTERM

    def __init__(self):
        super().__init__(wrong=self.end)

    def end(self, call, command):
        if call == BEYOND_REHEARSAL:
            for pid in (*children(os.getpid(), "idcontrol.loop."), os.getpid()):
                os.kill(pid, self.number)
        return command


class Interrupted(Terminated):
    number = signal.SIGINT


class HungUp(Terminated):
    number = signal.SIGHUP


class Broken(Pd):
    """Raises."""

    def __init__(self):
        super().__init__(wrong=self.fail)

    def fail(self, call, command):
        if call == 100:
            raise ZeroDivisionError("gain is zero")
        return Command(tau=command.tau)


@pytest.fixture(autouse=True)
def at_root(monkeypatch):
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))  # so that the processes find this module


def what(run):
    """Return the events of a run without faults that a busy computer causes."""
    return [event["what"] for event in run.events if event["what"] not in {f"fault: {name}" for name in HELD}]


@pytest.mark.wallclock
@pytest.mark.parametrize("transport", one_fast(("shared", "udp"), "shared"))
def test_a_loop_on_the_wall_clock_runs_records_and_ends(tmp_path, transport):
    settings = structs.replace(SETTINGS, transport=transport)
    metrics = launch.run(TARGET, Config(duration_s=0.4), settings, tmp_path / "run")
    assert metrics["ended"] == "duration"
    assert metrics["completed"]
    assert metrics["error"] is None
    assert metrics["period_us"]["p50"] > 0
    assert metrics["memory_mb"]["end"] - metrics["memory_mb"]["start"] < 1.0
    assert metrics["realtime"]["scheduler"] in ("SCHED_FIFO", "SCHED_OTHER")
    assert metrics["rows_lost"] == 0
    run, body = load(tmp_path / "run"), load(tmp_path / "run" / "machine")
    assert run.complete
    assert body.complete
    assert what(run)[-3:] == ["the loop is running", "the loop is damped", "the loop is stopped"]
    assert what(body)[-3:] == ["the machine is running", "the machine is damped", "the machine is stopped"]
    assert (np.abs(run.arrays["tau"]) <= TORQUE).all()
    # every running tick is recorded, and no other tick
    ticks, late = run.arrays["tick"], run.arrays["late_us"]
    np.testing.assert_array_equal(np.diff(ticks), 1 + run.arrays["missed"][1:])
    # deadlines are absolute: lateness makes one period longer and the next one shorter, unless the process was held up
    # for a second, after which the deadlines restart
    steady = run.arrays["faults"][1:].astype(int) & Fault.CLOCK == 0
    period = (1000.0 * np.diff(ticks) + np.diff(late))[steady]
    np.testing.assert_allclose(run.arrays["period_us"][1:][steady], period, atol=1e-3)
    running, damped = (ticks[run.arrays["mode"] == mode] for mode in (Mode.RUNNING, Mode.DAMPED))
    assert running[-1] < running[0] + 400 <= damped[0]


class Soft(Pd):
    """A controller whose arm stays stable if its torques last for 25 ms."""

    def __call__(self, state, reference):
        return Command(tau=0.2 * super().__call__(state, reference).tau)


@pytest.mark.parametrize(
    ("rate_hz", "plant_rate_hz"), [(40.0, 1000.0), pytest.param(1000.0, 40.0, marks=pytest.mark.slow)]
)
def test_each_side_waits_for_a_slower_one(tmp_path, rate_hz, plant_rate_hz):
    """Neither side takes a period of the other side for silence, nor a datagram of that age for a late one."""
    settings = LoopSettings(transport="inprocess", pacing="fast", plant_rate_hz=plant_rate_hz)
    config = Config(controller="tests.loop.test_launch:Soft", rate_hz=rate_hz)
    metrics = launch.run(TARGET, config, settings, tmp_path / "run")
    assert metrics["completed"]
    assert metrics["faults"]["silent"] == 0


def in_the_plant() -> bool:
    """True in the process of a plant, False in the process of its loop or recorder."""
    return "plant_process" in sys.argv[0]


class MuteOffer(Offer):
    """A loop whose plant never becomes ready."""

    def session(self, config):
        if in_the_plant():
            time.sleep(GUARD_S)
        return ArmSession(config)


mute = MuteOffer()


def test_a_running_plant_that_sends_nothing_is_reported_as_silent(tmp_path, monkeypatch):
    monkeypatch.setattr(launch, "CONNECT_S", 0.0)
    with pytest.raises(InputError, match="the plant's process sent nothing within 0 s"):
        launch.run("tests.loop.test_launch:mute", Config(), SETTINGS, tmp_path / "run")


@pytest.mark.slow
@pytest.mark.wallclock
def test_a_controller_that_never_returns_is_interrupted_and_the_machine_braked(tmp_path):
    # short, because a parallel test is held up as long: under SCHED_FIFO this process spins before all others on its
    # CPU
    settings = structs.replace(SETTINGS, policy=structs.replace(PATIENT, hang_s=0.2))
    config = structs.replace(FOREVER, controller="tests.loop.test_launch:Spinning")
    metrics = launch.run(TARGET, config, settings, tmp_path / "run")
    assert metrics["ended"] == "fault"
    assert not metrics["completed"]
    run = load(tmp_path / "run")
    assert run.complete
    assert what(run)[-3:] == ["fault: hung", "the loop is damped", "the loop is stopped"]


class Unstable(Pd):
    """Pushes each joint in the direction of its motion."""

    def __init__(self):
        super().__init__(wrong=lambda call, command: Command(tau=-1e6 * command.tau))


def test_a_controller_that_diverges_in_rehearsal_is_refused(tmp_path):
    with pytest.raises(Diverged, match="at 1000 Hz the machine of the rehearsal diverged within"):
        launch.run(TARGET, Config(controller="tests.loop.test_launch:Unstable"), SETTINGS, tmp_path / "run")


def test_an_error_of_the_controller_is_in_the_metrics(tmp_path):
    settings = LoopSettings(transport="inprocess", pacing="fast", policy=Policy(damp_s=0.1))
    metrics = launch.run(TARGET, Config(controller="tests.loop.test_launch:Broken"), settings, tmp_path / "run")
    assert metrics["ended"] == "fault"
    assert "gain is zero" in metrics["error"]
    assert "fault: raised" in what(load(tmp_path / "run"))


def children(pid: int, module: str) -> list[int]:
    """Process numbers of the children of `pid` that run `module`."""
    pids = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        # a thread or child that ends during the search
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            for child in (task / "children").read_text().split():
                if module in Path(f"/proc/{child}/cmdline").read_text():
                    pids.append(int(child))
    return pids


def wait_for_event(folder: Path, text: str) -> None:
    deadline = time.monotonic() + GUARD_S
    while time.monotonic() < deadline:
        path = folder / "events.jsonl"
        if path.exists() and text in path.read_text():
            return
        time.sleep(0.02)
    raise AssertionError(f"{text!r} did not happen within {GUARD_S} s")


@contextlib.contextmanager
def signalled(module: str, number: signal.Signals, folder: Path) -> Iterator[None]:
    """Send a signal to the child that runs `module` as soon as the loop recorded in `folder` is running."""

    def send():
        wait_for_event(folder, "the loop is running")
        for pid in children(os.getpid(), module):
            os.kill(pid, number)

    sender = threading.Thread(target=send)
    sender.start()
    try:
        yield
    finally:
        sender.join()


class Mortal(Arm):
    """A plant whose process is killed after it has moved for 0.1 s, which is longer than its warm-up."""

    def step(self, tau, dt):
        if in_the_plant() and self.state.t > 0.1:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().step(tau, dt)


class MortalSession(ArmSession):
    def plant(self, dt):
        return Mortal(dt)


class MortalOffer(Offer):
    def session(self, config):
        return MortalSession(config)


mortal = MortalOffer()


@pytest.mark.slow
@pytest.mark.wallclock
def test_a_killed_plant_is_noticed_and_the_record_is_complete(tmp_path):
    out = tmp_path / "run"
    settings = structs.replace(SETTINGS, policy=structs.replace(PATIENT, late_s=0.5))
    metrics = launch.run("tests.loop.test_launch:mortal", FOREVER, settings, out)
    assert metrics["ended"] == "fault"
    assert metrics["faults"]["silent"] > 0
    assert metrics["fault"] == "silent"
    assert metrics["error"] == "no usable datagram came from the other side for too long"
    run = load(out)
    assert run.complete
    assert what(run)[-3:] == ["fault: silent", "the loop is damped", "the loop is stopped"]
    body = load(out / "machine")
    assert len(body.arrays["t"]) > 0
    assert not body.complete


@pytest.mark.slow
@pytest.mark.wallclock
@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="finds processes by /proc")
def test_a_loop_whose_recorder_is_killed_brakes_and_says_so(tmp_path):
    out = tmp_path / "run"
    with (
        signalled("idcontrol.loop.record", signal.SIGKILL, out),
        pytest.raises(RuntimeError, match=r"the recorder ended early .* and the machine was braked"),
    ):
        launch.run(TARGET, FOREVER, SETTINGS, out)
    assert not load(out).complete


@pytest.mark.slow
@pytest.mark.wallclock
@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="finds processes by /proc")
def test_a_recorder_that_is_held_up_ends_the_loop_and_is_not_waited_for(tmp_path, monkeypatch):
    monkeypatch.setattr(launch, "RING_S", 1.0)
    monkeypatch.setattr(launch, "WRITING_S", 1.0)
    out = tmp_path / "run"
    with (
        signalled("idcontrol.loop.record", signal.SIGSTOP, out),
        pytest.raises(RuntimeError, match=r"the recorder did not end within \d+ s and was killed, and .* braked"),
    ):
        launch.run(TARGET, FOREVER, SETTINGS, out)
    assert not children(os.getpid(), "idcontrol.loop.record")
    assert not load(out).complete


class FullDisk(ArmSession):
    """A session whose record has room for 100 rows."""

    def __init__(self, config):
        super().__init__(config)
        self.rows = 0

    def derive(self, row):
        self.rows += 1
        if self.rows > 100:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return {}


class FullDiskOffer(Offer):
    def session(self, config):
        return FullDisk(config)


full_disk = FullDiskOffer()


@pytest.mark.slow
@pytest.mark.wallclock
def test_a_loop_whose_disk_is_full_brakes_and_says_so(tmp_path, capfd):
    out = tmp_path / "run"
    with pytest.raises(OSError, match=r"No space left on device, and the machine was braked") as error:
        launch.run("tests.loop.test_launch:full_disk", FOREVER, SETTINGS, out)
    assert error.value.errno == errno.ENOSPC  # the command reports it as status 2, not as an internal fault
    assert capfd.readouterr().err == f"idcontrol: the recorder cannot write {out}: No space left on device\n"
    assert not load(out).complete


def separate(out: Path) -> subprocess.Popen:
    """Return a loop in a separate process that runs until it is killed, whatever its machine does."""
    code = (
        "from pathlib import Path; from idcontrol.loop import launch; "
        "from tests.loop.test_launch import FOREVER, UNMOVED; "
        f"launch.run({TARGET!r}, FOREVER, UNMOVED, Path({str(out)!r}))"
    )
    return subprocess.Popen([sys.executable, "-c", code], cwd=ROOT)


def gone(pid: int) -> bool:
    """True if a process has ended; a zombie has no command line."""
    try:
        return not Path(f"/proc/{pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return True


@pytest.mark.slow
@pytest.mark.wallclock
@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="finds processes by /proc")
@pytest.mark.parametrize("number", one_fast((signal.SIGKILL, signal.SIGTERM), signal.SIGKILL))
def test_a_loop_that_ends_before_anything_moved_leaves_no_process_behind(tmp_path, number):
    """The plant has only begun its imports by then."""
    process = separate(tmp_path / "run")
    deadline = time.monotonic() + GUARD_S
    while not children(process.pid, "plant_process") and time.monotonic() < deadline:
        time.sleep(0.005)
    started = children(process.pid, "idcontrol.loop.")
    assert len(started) == 2
    process.send_signal(number)
    assert process.wait(GUARD_S) != 0
    deadline = time.monotonic() + GUARD_S
    while not all(gone(pid) for pid in started) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert all(gone(pid) for pid in started)


def test_a_loop_may_run_in_a_thread(tmp_path):
    """Signals are not handled there."""
    results = []

    def work():
        settings = LoopSettings(transport="inprocess", pacing="fast", policy=Policy(damp_s=0.1))
        results.append(launch.run(TARGET, Config(duration_s=0.1), settings, tmp_path / "run"))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert results[0]["completed"]


@pytest.mark.slow  # `test_a_machine_in_c_is_driven` ends a loop by SIGTERM
@pytest.mark.wallclock
@pytest.mark.parametrize("ends", [Terminated, Interrupted, HungUp])
def test_a_signal_ends_damped_with_the_record_complete(tmp_path, ends):
    out = tmp_path / "run"
    config = structs.replace(FOREVER, controller=f"tests.loop.test_launch:{ends.__name__}")
    metrics = launch.run(TARGET, config, SETTINGS, out)
    assert metrics["ended"] == "signal"
    assert metrics["signal"] == ends.number
    run, body = load(out), load(out / "machine")
    assert run.complete
    assert what(run)[-2:] == ["the loop is damped", "the loop is stopped"]
    assert what(body)[-2:] == ["the machine is damped", "the machine is stopped"]


@pytest.mark.slow
@pytest.mark.wallclock
@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="finds processes by /proc")
def test_a_loop_that_is_killed_leaves_a_braked_machine_and_a_readable_record(tmp_path):
    out = tmp_path / "run"
    process = separate(out)
    wait_for_event(out, "the loop is running")
    (plant,) = children(process.pid, "plant_process")
    process.kill()
    process.wait()
    os.kill(plant, signal.SIGSTOP)  # held up before it notices
    time.sleep(1.0)
    os.kill(plant, signal.SIGCONT)
    wait_for_event(out / "machine", "the machine is stopped")
    deadline = time.monotonic() + GUARD_S
    while (out / "record.log").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    run, body = load(out), load(out / "machine")
    assert not run.complete
    assert len(run.arrays["t"]) > 0
    assert what(body)[-3:] == ["fault: silent", "the machine is damped", "the machine is stopped"]
    assert (np.abs(body.arrays["tau"]) <= TORQUE).all()


@pytest.mark.parametrize(
    ("settings", "line"),
    [
        (LoopSettings(transport="inprocess"), "pacing"),
        (LoopSettings(pacing="fast"), "pacing"),
        (LoopSettings(transport="udp", peer="nowhere", arm=True), "HOST:PORT"),
        (LoopSettings(transport="inprocess", pacing="fast", peer="127.0.0.1:7500"), "udp or shared"),
        (LoopSettings(transport="shared", peer="/nowhere/memory", arm=True), "cannot be shared memory"),
        (LoopSettings(transport="udp", peer="127.0.0.1:7500"), "moves only after it is armed"),
        (LoopSettings(transport="udp", peer="7500"), "'7500' is not an address"),
        (LoopSettings(transport="udp", peer="127.0.0.1:0"), "cannot reach the machine at 127.0.0.1:0"),
    ],
)
def test_contradictory_settings_are_refused_in_one_line(tmp_path, settings, line):
    with pytest.raises(InputError, match=line):
        launch.run(TARGET, Config(), settings, tmp_path / "run")


def test_periods_are_whole_nanoseconds():
    assert PERIOD * 1000 == NS
