"""``idcontrol loop`` from end to end, with an arm instead of a robot, in simulated time."""

from __future__ import annotations

import json
import re
import signal
from dataclasses import dataclass
from pathlib import Path

import pytest

from idcontrol import cli
from idcontrol.errors import InputError
from idcontrol.record.recording import load
from idcontrol.types import Command
from tests.loop.rig import Arm, Pd, offer

ROOT = Path(__file__).parents[2]


@dataclass
class Entry:
    value: str

    def load(self):
        return offer


@pytest.fixture
def command(monkeypatch, capsys, tmp_path):
    """Runs the command; returns exit status, stdout, stderr."""
    monkeypatch.setattr("idcontrol.cli.loop.entry_points", lambda group: {"arm": Entry("tests.loop.rig:offer")})
    monkeypatch.chdir(ROOT)
    for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        monkeypatch.setenv(name, "1")  # so that the settings of the command are reset

    def run(*arguments):
        fast = ("--experiment", "arm", "--transport", "inprocess", "--pacing", "fast", "--out", str(tmp_path / "run"))
        status = cli.main(["loop", *fast, *arguments])
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    return run


def test_json_has_the_keys_of_the_contract(command, tmp_path):
    status, out, _ = command("--duration", "0.2", "--json")
    assert status == 0
    metrics = json.loads(out, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
    assert set(metrics["period_us"]) == {"p50", "p99", "p999", "p9999", "max"}
    assert set(metrics["parts_us"]) == {"read", "estimate", "plan", "control", "gate", "record"}
    assert metrics["period_mean_us"] == pytest.approx(1000.0)
    assert metrics["memory_mb"] is None  # only for a separate process
    for key in ("overruns", "missed", "fault_events"):
        assert metrics[key] == 0
    assert metrics["realtime"] == {  # in simulated time no privileges are requested
        "scheduler": "SCHED_OTHER", "priority": 0, "cpu": None, "memory_locked": False, "cpu_awake": False,
        "gc_frozen": False, "threads": 1, "refused": {},
    }  # fmt: skip
    assert metrics["completed"] is True
    assert (metrics["controller"], metrics["rate_hz"], metrics["duration_s"]) == ("tests.loop.rig:Pd", 1000.0, 0.2)
    assert metrics["out"] == str(tmp_path / "run")
    assert load(tmp_path / "run").complete


def test_rows_recorded_before_an_error_are_kept(command, monkeypatch, tmp_path):
    step = Arm.step

    def tired(self, tau, dt):
        if self.state.t > 0.7:  # after the end of a rehearsal
            raise InputError("the plant is tired")
        return step(self, tau, dt)

    monkeypatch.setattr(Arm, "step", tired)
    status, _, err = command("--duration", "1.0", "--json")
    assert status == 3
    assert "the plant is tired" in err
    run = load(tmp_path / "run")
    assert not run.complete
    assert run.arrays["t"].size > 10


@pytest.mark.slow
def test_percentiles_of_period_and_computing_are_printed(command):
    status, out, _ = command("--duration", "0.1")
    assert status == 0
    lines = {line.split("  ")[0].strip(): line for line in out.splitlines()}
    assert "1000" in lines["period"]
    assert "computing" in lines
    assert "SCHED_OTHER" in out


@pytest.mark.parametrize("as_json", [["--json"], []])
def test_an_error_of_a_users_controller_gives_status_2_and_a_traceback_file(as_json, command, tmp_path):
    status, out, err = command("--controller", "tests.loop.test_launch:Broken", *as_json)
    assert status == 2
    kept = tmp_path / "run" / "traceback.txt"
    assert re.fullmatch(
        rf"idcontrol: test_launch\.py, line \d+: ZeroDivisionError: gain is zero; the traceback is in {kept}\n", err
    )
    assert kept.read_text().count("in fail") == 1
    assert "Traceback" not in out
    if as_json:
        assert json.loads(out)["ended"] == "fault"


def test_a_result_that_is_not_a_command_is_refused_in_one_line(command):
    """The first calls rehearse: a wrong answer is refused before anything moves."""
    status, _, err = command("--controller", "tests.loop.test_command:Short", "--json")
    assert status == 2
    assert re.match(
        r"idcontrol: test_command\.py, line \d+: at 0\.\d+ s the controller returned tau of shape \(1,\), not", err
    )
    assert err.count("\n") == 1


def test_a_folder_opened_before_a_signal_ends_the_preparation_is_removed(command, monkeypatch, tmp_path):
    class Slow(Pd):
        def __init__(self):
            signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr("tests.loop.rig.Pd", Slow)
    status, out, err = command()
    assert status == 128 + signal.SIGTERM
    assert out == ""
    assert err == "idcontrol: stopped by a signal before anything moved\n"
    assert not (tmp_path / "run").exists()


def test_sigterm_before_the_work_begins_is_no_fault_inside(command, monkeypatch):
    monkeypatch.setattr("idcontrol.loop.launch.run", lambda *_: signal.raise_signal(signal.SIGTERM))
    assert command() == (143, "", "idcontrol: stopped by SIGTERM\n")


class Short(Pd):
    """Forgets a joint from its 100th call on."""

    def __init__(self):
        super().__init__(wrong=lambda call, command: Command(tau=command.tau[call >= 100 :]))


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["--experiment", "leg"], "no loop 'leg'; known: arm"),
        (["--plant", "mujoco"], "--plant: the loop arm has no such setting"),
        (["--pacing", "slow"], "--pacing: expected one of"),
        (["--transport", "shared"], "pacing"),
        (["--set", "loop.policy.brake=1"], "no setting 'policy.brake'"),
        (["--set", 'loop.policy.overrun={"tolerat": 3}'], "tolerat"),
        (["--controller", "nothing:here"], "No module named"),
        (["--rate", "0"], "--rate"),
        (["--duration", "inf"], "--duration"),
        (["--duration", "1e300"], "--duration: expected a number <= 1000000.0; it is 1e+300"),
        (["--rate", "1e12"], "--rate: expected a number <= 1000000.0; it is 1000000000000.0"),
        (["--rate", "1e-300"], "--rate: expected a number >= 0.001"),
        (["--set", "seed=-1"], "seed: expected a whole number >= 0; it is -1"),
        (["--set", "loop.sensing.seed=-1"], "sensing.seed: expected a whole number >= 0"),
        (["--set", "loop.plant_rate_hz=1e12"], "plant_rate_hz: expected a number <= 1000000.0"),
    ],
)
def test_unusable_arguments_are_status_2_and_one_line(command, tmp_path, arguments, line):
    status, out, err = command(*arguments)
    assert status == 2
    assert out == ""
    assert err.count("\n") == 1
    assert line in err
    assert not (tmp_path / "run").exists()
