"""The examples work as described."""

import dataclasses
import json
import runpy
import shutil
import socket
import subprocess
import time
from pathlib import Path

import msgspec
import numpy as np
import pytest

import idcontrol.experiments.examples
import idcontrol.loop
from idcontrol import cli
from idcontrol.errors import InputError
from idcontrol.experiments import live
from idcontrol.experiments.examples import fitted_log, linear_feedback, tuned_gains, tuned_sway
from idcontrol.loop import launch
from idcontrol.loop.clock import WallClock
from idcontrol.loop.launch import LoopSettings
from idcontrol.loop.life import Phase
from idcontrol.loop.safety import Mode, Policy
from idcontrol.loop.session import wire_format
from idcontrol.loop.transport.udp import UdpLink
from idcontrol.loop.wire import HEAD, HEAD_BYTES, Kind, Outbox, names_number
from idcontrol.record.recording import load
from idcontrol.scenes.walk import WalkConfig
from idcontrol.types import State
from tests import GUARD_S
from tests.loop import rig
from tests.loop.test_wire import of_version
from tests.parameters import one_fast

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "experiments" / "examples"
FAST = LoopSettings(transport="inprocess", pacing="fast", start="standing", policy=Policy(damp_s=0.05))
HEADER = Path(idcontrol.loop.__file__).parent / "idcontrol_wire.h"
C_SOURCE = Path(idcontrol.experiments.examples.__file__).parent / "machine.c"


@pytest.fixture(autouse=True)
def at_root(monkeypatch):
    monkeypatch.chdir(ROOT)


def walk(controller, out):
    config = WalkConfig(controller=f"idcontrol.experiments.examples.{controller}", duration_s=0.8)
    return launch.run("idcontrol.experiments.live:loop", config, FAST, out)


@pytest.mark.slow
def test_the_example_of_a_pd_law_trots(tmp_path):
    metrics = walk("pd:JointPd", tmp_path / "run")
    assert metrics["completed"]
    assert metrics["q_err_rad"] < 0.015
    assert metrics["force_err_n"] is None  # it predicts nothing


@pytest.mark.slow
def test_the_example_of_a_whole_body_controller_trots_and_predicts_forces(tmp_path):
    metrics = walk("whole_body:WholeBody", tmp_path / "run")
    assert metrics["completed"]
    assert metrics["q_err_rad"] < 0.006
    assert metrics["force_err_rel"] < 0.03


@pytest.mark.parametrize("name", [file.stem for file in EXAMPLES.glob("*.py") if "__main__" in file.read_text("utf-8")])
def test_an_example_explains_its_arguments_without_running(name, monkeypatch, capsys):
    if name == "unitree_robot":
        pytest.importorskip("cyclonedds")
    if name == "mujoco_go1":
        pytest.importorskip("mujoco")
    monkeypatch.setattr("sys.argv", [name, "--help"])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    assert ended.value.code == 0
    assert capsys.readouterr().out.startswith(f"usage: {name}")


@pytest.mark.slow
def test_linear_feedback_smooths_gains_that_a_slow_loop_cannot_hold():
    joint, linear = (
        linear_feedback.trot(law, 250.0, kp_1_s2=40000.0, kd_1_s=400.0)
        for law in (linear_feedback.impedance, linear_feedback.linear_feedback)
    )
    assert linear.dtau_nm_s < 0.6 * joint.dtau_nm_s  # the page on late loops states 1111 and 2107 N m/s


@pytest.mark.slow
def test_the_gradient_of_a_trot_by_its_gains_agrees_with_differences():
    """Planned references depend on the state a little, and the gradient leaves this out."""
    run = tuned_gains.trot(tuned_gains.START, derive=True, duration_s=0.3)
    ahead, back = (
        tuned_gains.trot(tuned_gains.START + size * run.gradient, derive=False, duration_s=0.3).cost
        for size in (1e-3, -1e-3)
    )
    assert (ahead - back) / 2e-3 == pytest.approx(run.gradient @ run.gradient, rel=0.05)


@pytest.mark.slow
def test_the_gradient_of_a_sway_by_its_gains_agrees_with_differences():
    """Noise of the sensors is the same in each run."""
    short = {"duration_s": 0.1}
    run = tuned_sway.sway(tuned_sway.START, derive=True, **short)
    ahead, back = (
        tuned_sway.sway(tuned_sway.START + size * run.gradient, derive=False, **short).cost for size in (1e-3, -1e-3)
    )
    assert (ahead - back) / 2e-3 == pytest.approx(run.gradient @ run.gradient, rel=1e-3)


@pytest.mark.slow
def test_a_quarter_of_a_second_shows_friction_and_payload():
    """Friction of a foot that never slides stays open; noise shifts the friction of other feet by up to a fifth."""
    log = fitted_log.trot(0.25)
    values, sd = fitted_log.fit(log, 0.25)
    away, slid = np.abs(values - fitted_log.TRUE), sd[:4] < values[:4]
    assert (away[4:] < 3.0 * sd[4:]).all()
    assert 0 < slid.sum() < 4
    assert away[:4][slid].max() < 0.05
    assert away[4] < 0.5 * abs(log.online[-1, 1] - fitted_log.TRUE[4])


# --- the machine in C ---

PATIENT = ("-p", "6000")
"""A machine of 100 Hz tolerates a silence of a minute, as its loop does."""
COMPILER = shutil.which("cc")
needs_compiler = pytest.mark.skipif(COMPILER is None, reason="no C compiler (cc) is installed")


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    path = tmp_path_factory.mktemp("c") / "machine"
    flags = ["-O2", "-std=c11", "-Wall", "-Wextra", "-Werror", f"-I{HEADER.parent}"]
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


def start(program, *arguments):
    return subprocess.Popen([program, *map(str, arguments)], stdout=subprocess.PIPE, text=True)


def settings(own, machine):
    return LoopSettings(
        transport="udp", bind=f"127.0.0.1:{own}", peer=f"127.0.0.1:{machine}", arm=True, policy=rig.PATIENT
    )


@needs_compiler
@pytest.mark.wallclock
@pytest.mark.parametrize("transport", one_fast(("udp", "shared"), "udp"))
def test_a_machine_in_c_is_driven(program, transport, tmp_path):
    own, there = free_ports(2)
    memory = tmp_path / "memory"
    where, how = {
        "udp": ((there, own), settings(own, there)),
        "shared": ((), msgspec.structs.replace(settings(own, there), transport="shared", peer=str(memory))),
    }[transport]
    shared = ("-s", memory) if transport == "shared" else ()
    machine = start(program, "-r", "100", *PATIENT, *shared, "arm", "2", *where)
    # the run ends after a number of ticks, however long a busy computer takes
    config = rig.Config(controller="tests.loop.test_launch:Terminated", duration_s=GUARD_S)
    metrics = launch.run("tests.loop.rig:offer", config, how, tmp_path / "run")
    said, _ = machine.communicate(timeout=GUARD_S)
    assert metrics["ended"] == "signal"
    assert machine.returncode == 0
    words = said.split()
    assert int(words[1]) > 2  # accepted
    assert said.strip().endswith("told to stop")
    run = load(tmp_path / "run").arrays
    # the torques were applied: the reported torques are the ones commanded just before
    sent = {tuple(np.round(tau, 9)) for tau in run["tau"]}
    applied = [tuple(np.round(tau, 9)) for tau in run["tau_applied"][run["machine_mode"] == 2]]
    assert np.mean([tau in sent for tau in applied]) > 0.9
    # and they moved the machine: it swings after the reference
    assert np.abs(run["q"]).max() > 0.1


def hear(link, mode=None, command=None):
    """Return the machine's next message, optionally with `mode` and the number of the last command it has heard."""
    deadline = time.monotonic() + GUARD_S
    while time.monotonic() < deadline:
        data = link.receive()
        if data is not None:
            _, _, said, _, _, _, _, last, _ = HEAD.unpack_from(data)
            if mode in (None, said) and command in (None, last):
                return data
        time.sleep(0.001)
    raise AssertionError(f"the machine was not heard in mode {mode} after command {command}")


def stop(machine, link, outbox):
    """Stop the machine and return its last message."""
    link.send(outbox.seal(Mode.STOPPED, 0, 0))
    said, _ = machine.communicate(timeout=GUARD_S)
    link.close()
    return said


def listening(program, *patience):
    """A machine, and a link to it; datagrams that are sent before the machine listens are lost."""
    own, there = free_ports(2)
    machine = start(program, "-r", "100", *patience, "arm", "2", there, own)
    link = UdpLink(("127.0.0.1", own), ("127.0.0.1", there))
    hear(link)
    return machine, link


@needs_compiler
@pytest.mark.wallclock
def test_a_machine_in_c_drops_bad_datagrams(program):
    machine, link = listening(program, *PATIENT)
    ours, strange = (Outbox(Kind.COMMAND, robot, 10, 1) for robot in ("arm", "leg"))
    good = bytes(ours.seal(Mode.READY, 0, 0))
    damaged = bytearray(ours.seal(Mode.READY, 0, 0))
    damaged[60] ^= 1
    ours.values[:] = np.nan
    no_number = bytes(ours.seal(Mode.READY, 0, 0))
    ours.values[:] = 0.0
    bad = [good[:-1], good + b"0", bytes(damaged), no_number, bytes(strange.seal(Mode.READY, 0, 0))]
    for data in [good, good, *bad]:
        link.send(memoryview(data))
    # the replay and the five bad ones
    assert stop(machine, link, ours).startswith("accepted 2 dropped 6 moved 0.000 s")


@pytest.mark.slow
@needs_compiler
@pytest.mark.wallclock
def test_a_machine_in_c_at_rest_accepts_a_new_loop_but_no_replay(program):
    machine, link = listening(program)
    first, second = (Outbox(Kind.COMMAND, "arm", 10, session) for session in (1, 2))
    old = bytes(first.seal(Mode.IDLE, 0, 0))
    link.send(memoryview(old))
    hear(link, Mode.READY)
    link.send(second.seal(Mode.IDLE, 0, 0))  # one at a time
    hear(link, Mode.IDLE)  # after 20 silent periods
    link.send(memoryview(old))
    for _ in range(3):
        link.send(second.seal(Mode.IDLE, 0, 0))
    hear(link, Mode.READY, command=4)
    assert stop(machine, link, second).startswith("accepted 5 dropped 2 moved")


@pytest.mark.slow
@needs_compiler
@pytest.mark.wallclock
def test_go1_hangs_from_a_hoist_as_the_tutorial_says(program, tmp_path, capsys):
    own, there = free_ports(2)
    home = ",".join(["0,0.8,-1.6"] * 4)
    machine = start(program, "-p", "2000", "-f", "4", "-q", home, "go1", "12", there, own)
    words = [
        "loop", "--robot", "go1", "--duration", "0.5", "--out", str(tmp_path / "run"), "--json", "--arm",
        "--bind", f"127.0.0.1:{own}", "--peer", f"127.0.0.1:{there}", "--set", "path.stand_from_s=0", *rig.PATIENCE,
    ]  # fmt: skip
    status = cli.main(words)
    machine.communicate(timeout=GUARD_S)
    assert status == 0
    assert json.loads(capsys.readouterr().out)["ended"] == "duration"
    run = load(tmp_path / "run").arrays
    works = run["phase"] == Phase.WORKING
    np.testing.assert_array_equal(run["q"][works][:, :7], np.tile([0, 0, 1, 0, 0, 0, 1], (works.sum(), 1)))
    # by its joints the robot stands, so torques of up to 6 N m carry its weight; as its feet are in the air, they turn
    # the joints by up to 6/250 rad, against drives of 250 N m/rad
    np.testing.assert_allclose(run["q"][works][:, 7:], np.tile([0, 0.8, -1.6], (works.sum(), 4)), atol=6 / 250)
    assert not run["force"].any()


# --- machines that are refused, on a virtual clock, which stands while the loop works ---


@pytest.fixture
def speaking(monkeypatch):
    """A function that repeats a machine's message whenever its loop waits; returns its link and the loop's settings."""
    own, there = free_ports(2)
    link, now = UdpLink(("127.0.0.1", there), ("127.0.0.1", own)), 0

    def says(data):
        def wait(clock, deadline):
            nonlocal now
            if data is not None:
                link.send(memoryview(data))
            now = deadline

        monkeypatch.setattr(WallClock, "sleep_until", wait)
        monkeypatch.setattr(WallClock, "now", lambda clock: now)
        return link, settings(own, there)

    yield says
    link.close()


def state_of(session, wire, q=None):
    """A machine's first message: it is held at `q`, by default where its session starts."""
    outbox, start = Outbox(Kind.STATE, wire.robot, wire.state_values, 1), session.start
    state = State(t=0.0, q=start.q if q is None else q, v=start.v)
    wire.write_state(outbox.values, state, np.zeros(len(wire.torque_limit)), np.zeros(3))
    return bytes(outbox.seal(Mode.IDLE, 0, 0))


@pytest.mark.parametrize(
    ("data", "line"),
    [
        (bytes(Outbox(Kind.STATE, "arm", 9, 1).seal(Mode.IDLE, 0, 0)), r"is no arm whose .* bytes: dropped {'size'"),
        (None, "no datagram comes from"),
        (
            of_version(b"IDC1", bytes(Outbox(Kind.STATE, "arm", 10, 1).seal(Mode.IDLE, 0, 0))),
            "sends another version of the datagrams; it must be IDC2",
        ),
    ],
)
def test_a_speaker_of_another_robot_or_version_differs_from_silence(speaking, tmp_path, data, line):
    _, settings = speaking(data)
    with pytest.raises(InputError, match=line):
        launch.run("tests.loop.rig:offer", rig.Config(), settings, tmp_path / "run")


@pytest.mark.parametrize(
    ("names", "model", "line"),
    [
        (["elbow", "shoulder"], np.nan, "another order.*shoulder,elbow.*order swapped: --set loop.joints=swapped$"),
        (["wrist", "elbow"], np.nan, "has other joints.*expected is arm with shoulder,elbow$"),
        (["shoulder", "elbow"], 1.0, "has another model"),
    ],
)
def test_a_machine_of_other_joints_or_another_model_is_refused_before_anything_moves(
    speaking, tmp_path, names, model, line
):
    session = rig.ArmSession()
    wire = dataclasses.replace(wire_format(session), joints=names_number(names), model=model)
    link, settings = speaking(state_of(session, wire))
    with pytest.raises(InputError, match=line):
        launch.run("tests.loop.rig:offer", rig.Config(), settings, tmp_path / "run")
    heard = list(iter(link.receive, None))
    assert heard
    assert not any(HEAD.unpack_from(data)[2] == Mode.RUNNING for data in heard)


def test_a_loop_that_needs_the_base_refuses_an_unknown_one(speaking, tmp_path, monkeypatch):
    monkeypatch.setattr(launch, "REHEARSAL_S", 1e-3)  # the refusal follows
    config = WalkConfig(robot="go1", controller="pid")
    session = live.loop.session(config)
    unknown = session.start.q.copy()
    unknown[:3] = 0.0
    _, settings = speaking(state_of(session, wire_format(session), unknown))
    with pytest.raises(InputError, match=r"does not report its base position: --set loop\.sensing\.base=estimated"):
        launch.run("idcontrol.experiments.live:loop", config, settings, tmp_path / "run")


@pytest.mark.slow
@needs_compiler
@pytest.mark.wallclock
def test_the_drives_of_a_machine_in_c_are_faster_than_its_ticks(program):
    """Gains that would be unstable if torques changed in its ticks alone, every 10 ms: kd h / I = 4."""
    machine, link = listening(program, *PATIENT)
    ours = Outbox(Kind.COMMAND, "arm", 10, 1)
    link.send(ours.seal(Mode.READY, 0, 0))
    hear(link, Mode.READY)
    ours.values[:] = [0, 0, 0.3, -0.2, 0, 0, 4000, 4000, 40, 40]
    link.send(ours.seal(Mode.RUNNING, 0, 0))
    said = np.zeros(1)
    while said[0] < 0.5:  # s, on the machine's own clock
        said = np.frombuffer(hear(link, Mode.RUNNING), offset=HEAD_BYTES)
    np.testing.assert_allclose(said[1:3], [0.3, -0.2], rtol=0, atol=1e-6)
    link.send(ours.seal(Mode.STOPPED, 0, 0))
    machine.communicate(timeout=GUARD_S)
    link.close()


@needs_compiler
@pytest.mark.wallclock
def test_a_machine_in_c_drops_large_gains_and_changes_its_torque_no_faster_than_its_slew(program):
    machine, link = listening(program, "-r", "1000", "-p", "60000")
    ours, slew, period = Outbox(Kind.COMMAND, "arm", 10, 1), 8e3, 1e-3
    link.send(ours.seal(Mode.RUNNING, 0, 0))
    hear(link, Mode.RUNNING)
    ours.values[6:8] = 9e5
    link.send(ours.seal(Mode.RUNNING, 0, 0))
    # the targets are 0.45 rad away: 36 N m, of which the first period has its part
    ours.values[:] = [0, 0, 0.45, -0.45, 0, 0, 80, 80, 0, 0]
    link.send(ours.seal(Mode.RUNNING, 0, 0))
    state = np.frombuffer(hear(link, Mode.RUNNING, command=3), offset=HEAD_BYTES)
    np.testing.assert_allclose(state[5:7], [slew * period, -slew * period], rtol=0.02)
    assert stop(machine, link, ours).startswith("accepted 3 dropped 1 ")


@needs_compiler
@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ([], "usage"),
        (["arm", "two", "9002", "9001"], "JOINTS must be a whole number from 1 to 64, not two"),
        (["arm", "2", "9002", "90010"], "LOOP_PORT"),
        (["-q", "1,2", "arm", "3", "9002", "9001"], "-q must be 3 numbers"),
        (["-r", "0", "arm", "2", "9002", "9001"], "HZ"),
    ],
)
def test_a_machine_in_c_refuses_unusable_arguments(program, arguments, line):
    done = subprocess.run([program, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert line in done.stderr


BRAKES = """
#define main machine_main
#include "machine.c"
#undef main
int main(void) {
    struct machine m = {.joints = 1, .mode = IDC_DAMPED};
    const double command[5] = {0.0};
    LIMIT = 5.0;
    for (double v = -20.0; v <= 20.0; v += 10.0) {
        m.joint[0].v = v;
        move(&m, IDC_DAMPED, command, 1e-3);
        printf("%g\\n", m.joint[0].tau);
    }
    LIMIT = 40.0;
    m = (struct machine){.joints = 1, .mode = IDC_RUNNING, .joint = {{.v = 30.0, .tau = 30.0}}};
    for (int k = 0; k < 3; k++) {
        m.joint[0].v = 30.0;
        move(&m, IDC_DAMPED, command, DRIVE);
        printf("%g\\n", m.joint[0].tau);
    }
}
"""


@needs_compiler
def test_the_brake_of_a_machine_in_c_keeps_limit_and_rate_of_torques(tmp_path):
    source = tmp_path / "brakes.c"
    source.write_text(BRAKES, encoding="utf-8")
    flags = [f"-I{HEADER.parent}", f"-I{C_SOURCE.parent}"]
    subprocess.run([COMPILER, *flags, "-o", tmp_path / "brakes", source, "-lm"], check=True)
    said = subprocess.run([tmp_path / "brakes"], capture_output=True, text=True, check=True).stdout
    torques = list(map(float, said.split()))
    assert torques[:5] == [5.0, 5.0, 0.0, -5.0, -5.0]
    assert torques[5:] == pytest.approx([29.2, 28.4, 27.6], abs=1e-3)  # 8000 N m/s every 0.1 ms


@needs_compiler
@pytest.mark.wallclock
def test_a_machine_in_c_brakes_when_its_loop_falls_silent(program):
    machine, link = listening(program)
    ours = Outbox(Kind.COMMAND, "arm", 10, 1)
    ours.values[:2] = 1.0  # N m
    for mode in (Mode.READY, Mode.RUNNING):
        link.send(ours.seal(mode, 0, 0))
    moving, braking, stopped = (
        np.frombuffer(hear(link, mode), offset=HEAD_BYTES) for mode in (Mode.RUNNING, Mode.DAMPED, Mode.STOPPED)
    )
    said, _ = machine.communicate(timeout=GUARD_S)
    link.close()
    assert machine.returncode == 0
    assert said.strip().endswith("silent")
    assert (moving[3:5] > 0.0).all()
    assert (braking[5:7] < 0.0).all()  # against the motion
    assert (np.abs(stopped[3:5]) < 0.05).all()


# --- the controller in C++ ---

CPP_COMPILER = shutil.which("c++")
needs_both = pytest.mark.skipif(CPP_COMPILER is None or COMPILER is None, reason="no C++ compiler (c++) is installed")


@pytest.fixture
def controller(tmp_path, patience):
    """The controller, which brakes after a silence of so many periods."""
    path = tmp_path / "controller"
    source = (C_SOURCE.parent / "controller.cpp").read_text(encoding="utf-8")
    assert "PATIENCE = 20;" in source
    path.with_suffix(".cpp").write_text(source.replace("PATIENCE = 20;", f"PATIENCE = {patience};"), encoding="utf-8")
    flags = ["-O2", "-std=c++17", "-Wall", "-Wextra", "-Werror", f"-I{HEADER.parent}"]
    subprocess.run([CPP_COMPILER, *flags, "-o", path, path.with_suffix(".cpp")], check=True)
    return path


@pytest.mark.slow
@needs_both
@pytest.mark.wallclock
@pytest.mark.parametrize("patience", [60_000])
def test_a_controller_in_cpp_moves_a_machine_in_c_to_its_reference(program, controller):
    """A process each; after a second of moving, joints of 0.1 kg m² settle as exp(-10 t).

    One more second would be enough. The rest is for ticks that are made up for after a delayed process.
    """
    own, there = free_ports(2)
    machine = start(program, "-f", "4", "-p", "60000", "go1", "12", there, own)
    goal = ",".join(["0,0.8,-1.6"] * 4)
    done = start(controller, "go1", "12", "4", goal, "7", own, there)
    said, _ = done.communicate(timeout=GUARD_S)
    machine_said, _ = machine.communicate(timeout=GUARD_S)
    assert done.returncode == machine.returncode == 0, said
    assert said.startswith("complete after 7001 ticks")
    assert float(said.split()[-5]) < 1e-3  # exp(-20) of 1.6 rad
    assert "dropped 0" in machine_said
    assert machine_said.endswith("told to stop\n")


@pytest.mark.slow
@needs_both
@pytest.mark.wallclock
@pytest.mark.parametrize("patience", [1000])
def test_a_controller_in_cpp_brakes_when_its_machine_is_killed(program, controller):
    own, there = free_ports(2)
    machine = start(program, "arm", "2", there, own)
    done = start(controller, "arm", "2", "0", "0.1,0.1", "60", own, there)
    time.sleep(0.5)
    machine.kill()
    machine.communicate()
    said, _ = done.communicate(timeout=GUARD_S)
    assert done.returncode == 1
    assert said.startswith("braked after")
