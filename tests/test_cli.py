"""The command line from end to end, on a small experiment of its own."""

import json
import multiprocessing
import os
import re
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

import msgspec
import numpy as np
import pytest

from idcontrol import cli, controllers, plants
from idcontrol.cli.faults import report_fault
from idcontrol.config.configuration import Duration, Rate, Seed
from idcontrol.config.entries import EXPERIMENTS, ROBOTS, STUDIES
from idcontrol.errors import UnknownName
from idcontrol.record.recording import Recorder, load
from tests import GUARD_S


class Detail(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    gain: float = 1.0


class Config(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    controller: str = "pid"
    plant: str = "coulomb-lcp"
    robot: str = "links"
    mu: Annotated[float, msgspec.Meta(ge=0)] = 0.8
    duration_s: Duration = 0.1
    rate_hz: Rate = 100.0
    seed: Seed = 0
    detail: Detail = Detail()


class Fall:
    """An experiment that records random numbers; the controller's name selects a fault."""

    name = "fall"
    summary = "a number falls"
    presets: ClassVar = {"default": Config()}

    def run(self, config: Config, out: Path, progress: Any) -> dict[str, Any]:
        if config.controller == "none":
            raise UnknownName("controller", config.controller, ["pid"])
        print("this belongs to nobody's JSON")
        goals = {"q_err_rad": 0.004, "dtau_mean_nm_s": 22.0}
        meta, settings = {"experiment": self.name, "goals": goals}, msgspec.to_builtins(config)
        with Recorder(out, {"t": (), "x": ()}, {"t": "s"}, meta, config=settings) as recorder:
            rng = np.random.default_rng(config.seed)
            steps = round(config.duration_s * config.rate_hz)
            for i in range(steps):
                if config.controller == "broken" and i == 5:
                    raise ZeroDivisionError("gain\nis zero")
                if config.controller == "interrupted" and i == 5:
                    raise KeyboardInterrupt
                if config.controller == "terminated" and i == 5:
                    os.kill(os.getpid(), signal.SIGTERM)
                recorder.append(t=i / config.rate_hz, x=config.detail.gain * rng.normal())
                progress((i + 1) / steps)
            metrics = {
                "completed": config.controller != "clumsy", "q_err_rad": 0.0039, "fell_at_s": None, "extra_n": 1.5,
                "dtau_mean_nm_s": 30.0,
            }  # fmt: skip
            recorder.close(metrics)
        return metrics


@dataclass
class Entry:
    """Stands in for an installed entry point."""

    thing: Any
    name: str = ""
    module: str = "another_package"

    def load(self) -> Any:
        if isinstance(self.thing, Exception):
            raise self.thing
        return self.thing


@dataclass
class Report:
    robot: str
    problems: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    summary: Any = None


class Library:
    def names(self) -> tuple[str, ...]:
        return ("fit", "unfit")

    def summaries(self) -> dict[str, str]:
        return {"fit": "4.8 kg, 2 joints", "unfit": "nobody knows"}

    def check(self, robot: str) -> Report:
        if robot == "fit":
            joints = [{"joint": "hip", "torque_nm": 2.5}, {"joint": "[knee]", "torque_nm": float("inf")}]
            return Report(robot, (), ("the hip is heavy",), {"mass_kg": 4.8, "height_m": 0.17, "joints": joints})
        if robot == "unfit":
            return Report(robot, ("joint 'kne' does not exist; did you mean 'knee'?", "no mass"), (), {})
        return Report(robot, (f"no robot {robot!r}",), (), {})


@pytest.fixture(autouse=True)
def installed(monkeypatch, tmp_path):
    groups = {
        EXPERIMENTS: {
            "fall": Entry(Fall()),
            "torn": Entry(ModuleNotFoundError("No module named 'mujoco'", name="mujoco")),
        },
        ROBOTS: {"robots": Entry(Library())},
        STUDIES: {},
    }
    for group in groups.values():
        for name, entry in group.items():
            entry.name = name
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: list(groups.get(group, {}).values()))
    monkeypatch.chdir(tmp_path)
    return groups


@pytest.fixture
def command(capsys):
    """Return a function that runs the command and returns exit status, stdout and stderr."""

    def run(*arguments: str) -> tuple[int, str, str]:
        status = cli.main(arguments)
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    return run


def test_a_run_is_recorded_and_shown(command):
    status, out, err = command("run", "fall")
    assert status == 0
    assert load("runs/fall").complete
    assert "joint position error, mean" in out
    assert "3.9" in out
    assert "mrad" in out
    assert re.search(r"extra +1.5 +N", out)
    assert "runs/fall" in out
    assert "this belongs" not in out
    assert "%" not in err  # no progress bar: this is no terminal


@pytest.mark.parametrize("spelling", ["inf", "INF", "Infinity"])
def test_json_prints_one_object_and_nothing_else(command, spelling):
    status, out, _ = command("run", "fall", "--json", "--mu", spelling, "--seed", "3")
    assert status == 0
    got = json.loads(out, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
    assert got["mu"] == "inf"
    assert got["seed"] == 3
    assert (got["experiment"], got["controller"], got["plant"]) == ("fall", "pid", "coulomb-lcp")
    assert got["duration_s"] == 0.1
    assert got["fell_at_s"] is None
    assert got["out"] == "runs/fall-muinf-seed3"
    assert got["verdict"] == "completed"


def test_options_and_settings_reach_the_configuration(command):
    status, _, _ = command(
        "run", "fall", "--duration", "0.2", "--rate", "50", "--set", "detail.gain=3", "--set", "mu=inf", "--out", "here"
    )
    assert status == 0
    config = load("here").config
    assert config["duration_s"] == 0.2
    assert config["rate_hz"] == 50
    assert config["detail"] == {"gain": 3.0}
    assert config["mu"] == "inf"
    assert len(load("here").arrays["t"]) == 10


def test_the_same_seed_gives_the_same_bytes(command):
    for out in ("a", "b"):
        assert command("run", "fall", "--seed", "5", "--out", out)[0] == 0
    assert command("run", "fall", "--seed", "6", "--out", "c")[0] == 0
    a, b, c = (Path(name, "arrays.h5").read_bytes() for name in "abc")
    assert a == b != c


def test_a_failed_task_is_recorded_with_status_1_and_one_line(command):
    status, out, err = command("run", "fall", "--controller", "clumsy", "--json")
    assert status == 1
    assert err.endswith("\nidcontrol: the task was not done: did not complete its task\n")
    assert json.loads(out)["completed"] is False
    assert load("runs/fall-clumsy").complete


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["run", "fell"], "no experiment 'fell'; did you mean 'fall'?"),
        (["run", "torn"], "needs the package mujoco, which is not installed"),
        (["run", "fall", "--mu", "-1"], "--mu: expected a number >= 0.0; it is -1.0"),
        (["run", "fall", "--mu", "nan"], "--mu: NaN is no value"),
        (["run", "fall", "--mu", "much"], "'--mu': 'much' is no number"),
        (["run", "fall", "--mu", "1e999"], "'--mu': 1e999 is too large for double precision"),
        (["run", "fall", "--rate", "1e999"], "'--rate': 1e999 is too large for double precision"),
        (["loop", "--duration", "1e999"], "'--duration': 1e999 is too large for double precision"),
        (["compare", "fall", "--controllers", "pid", "--duration", "1e999"], "'--duration': 1e999 is too large"),
        (["compare", "fall", "--controllers", "pid", "--mu", "0.1,1e999"], "--mu 0.1,1e999: 1e999 is too large"),
        (["run", "fall", "--duration", "inf"], "--duration: expected a number <= 1000000.0; it is Infinity"),
        (["run", "fall", "--duration", "1e300"], "--duration: expected a number <= 1000000.0; it is 1e+300"),
        (["run", "fall", "--set", "rate_hz=1e12"], "--rate: expected a number <= 1000000.0"),
        (["run", "fall", "--seed", "-1"], "--seed: expected a whole number >= 0; it is -1"),
        (["compare", "fall", "--controllers", "pid", "--duration", "1e300"], "--duration: expected a number <="),
        (["compare", "fall", "--controllers", "pid", "--set", "seed=-1"], "seed: expected a whole number >= 0"),
        (["compare", "fall", "--controllers", "pid", "--vary", "rate_hz=1e12,5"], "rate_hz: expected a number <="),
        (["run", "fall", "--duration", "0"], "--duration: expected a number > 0.0; it is 0.0"),
        (["run", "fall", "--terrain", "plane"], "--terrain: the experiment fall has no such setting"),
        (["run", "fall", "--set", "detail.gian=3"], "no setting 'detail.gian'; did you mean 'detail.gain'?"),
        (["run", "fall", "--set", "detail.gain"], "write it as KEY=VALUE"),
        (["run", "fall", "--controller", "none"], "no controller 'none'; known: pid"),
        (["run", "fall", "--out", "full"], "full is not empty; choose a fresh folder"),
        (["run"], "Missing argument 'EXPERIMENT'"),
        (["run", "fall", "--sed", "1"], "--sed"),
        (["walk"], "No such command 'walk'"),
        (["list", "robot"], "no list 'robot'; did you mean 'robots'?"),
        (["check", "other"], "other is not fit to run: no robot 'other'"),
        (["report", "nowhere"], "nowhere does not exist; give the folder of a run"),
        (["report", "full"], "full is not a run"),
    ],
)
def test_unusable_input_is_status_2_with_exactly_one_line(command, arguments, line):
    Path("full").mkdir()
    Path("full/notes.txt").write_text("mine")
    status, out, err = command(*arguments)
    assert status == 2
    assert out == ""
    assert err.count("\n") == 1
    assert err.endswith("\n")
    assert line in err
    assert "Traceback" not in err
    assert not Path("runs").exists() or not list(Path("runs").iterdir())  # nothing is left behind


def test_a_fault_is_status_3_with_one_line_and_the_traceback_beside_the_record(command):
    status, out, err = command("run", "fall", "--controller", "broken", "--quiet", "--json")
    assert status == 3
    assert out == ""
    lines = [line for line in err.splitlines() if "belongs" not in line]
    assert lines == [
        "idcontrol: a fault inside: ZeroDivisionError: gain is zero; the traceback is in runs/fall-broken/traceback.txt"
    ]
    assert "ZeroDivisionError" in Path("runs/fall-broken/traceback.txt").read_text()
    run = load("runs/fall-broken")
    assert len(run.arrays["t"]) == 5
    assert not run.complete


def test_a_fault_without_a_run_leaves_its_traceback_in_the_temporary_folder(command, installed, monkeypatch, tmp_path):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    installed[EXPERIMENTS]["fall"] = Entry(RuntimeError("torn in two"), "fall")
    status, _, err = command("run", "fall")
    assert status == 3
    assert err.count("\n") == 1
    assert "torn in two" in Path(err.strip().rpartition(" is in ")[2]).read_text()


def full_disk(*positional, **options):
    raise OSError(28, "No space left on device")


@pytest.mark.parametrize("folder", ["fresh", "full"])
def test_a_fault_with_a_path_of_another_encoding_is_one_line_too(tmp_path, capsys, monkeypatch, folder):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))  # folder of the traceback if the run's folder is full
    (tmp_path / "full" / "traceback.txt").mkdir(parents=True)
    (tmp_path / "fresh").mkdir()
    path = os.fsdecode("plätze".encode("latin1"))
    sys.stderr.reconfigure(errors="backslashreplace")  # as outside of tests
    assert report_fault(ValueError(path), tmp_path / folder) == 3
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert "ValueError: pl\\udce4tze" in Path(err.strip().rpartition(" is in ")[2]).read_text(encoding="utf-8")


def test_a_hint_quotes_its_folder_for_the_shell(command):
    _, out, _ = command("run", "fall", "--out", "two words")
    assert "idcontrol report 'two words'" in out


def test_a_fault_whose_traceback_cannot_be_written_is_one_line_too(command, monkeypatch):
    monkeypatch.setattr(Path, "write_bytes", full_disk)
    monkeypatch.setattr("tempfile.NamedTemporaryFile", full_disk)
    status, _, err = command("run", "fall", "--controller", "broken")
    assert status == 3
    assert [line for line in err.splitlines() if "belongs" not in line] == [
        "idcontrol: a fault inside: ZeroDivisionError: gain is zero; the traceback could not be written"
    ]


def test_a_full_disk_is_not_an_internal_fault(command, monkeypatch):
    monkeypatch.setattr(Recorder, "append", full_disk)
    status, _, err = command("run", "fall")
    assert status == 2
    assert [line for line in err.splitlines() if "belongs" not in line] == [
        "idcontrol: No space left on device: free some space and run the command again; "
        "what was recorded until then is in runs/fall"
    ]
    assert not Path("runs/fall/traceback.txt").exists()


@pytest.mark.parametrize(("controller", "code"), [("interrupted", 130), ("terminated", 143)])
def test_a_stopped_run_keeps_its_record(command, controller, code):
    status, out, err = command("run", "fall", "--controller", controller)
    assert status == code
    assert out == ""
    assert err.splitlines()[-1] == (f"idcontrol: stopped; what was recorded until then is in runs/fall-{controller}")
    run = load(f"runs/fall-{controller}")
    assert len(run.arrays["t"]) == 5
    assert run.metrics is None


def test_a_run_that_a_signal_ends_while_it_prepares_says_that_nothing_was_recorded(command, monkeypatch):
    monkeypatch.setattr("idcontrol.sweeps.running.conduct", lambda *run: signal.raise_signal(signal.SIGTERM))
    assert command("run", "fall") == (143, "", "idcontrol: stopped before anything was recorded\n")


def test_sigterm_before_a_run_opens_its_folder_is_one_line(command, monkeypatch):
    monkeypatch.setattr("idcontrol.cli.run.load_experiment", lambda name: signal.raise_signal(signal.SIGTERM))
    assert command("run", "fall") == (143, "", "idcontrol: stopped by SIGTERM\n")


def test_listed_controllers_and_plants_can_be_built(command):
    got = json.loads(command("list", "--json")[1])
    for registry in (controllers, plants):
        assert got[registry.KIND.name + "s"] == dict(registry.available())


def test_list_settings_has_unit_default_and_range_of_each_key(command):
    status, out, _ = command("list", "settings", "fall", "--json")
    got = json.loads(out)["settings"]
    assert status == 0
    length = {"key": "duration_s", "default": "0.1", "unit": "s", "allowed": ">\xa00, ≤\xa01e+06", "meaning": ""}
    assert got["duration_s"] == length
    assert got["detail.gain"]["default"] == "1.0"
    assert all(setting["allowed"] for setting in got.values())
    assert re.search(r"duration_s +0.1 s +>\s0, ≤\s1e\+06", command("list", "settings", "fall")[1])


def test_a_run_ends_with_its_verdict_and_the_next_command(command):
    for controller, verdict in (("pid", "completed"), ("clumsy", "not completed")):
        _, out, _ = command("run", "fall", "--controller", controller, "--out", controller)
        assert out.splitlines()[-2:] == [
            f"{verdict}; 1 of 2 limits hold; joint position error, mean 3.9 mrad; torque rate, mean 30 N m/s",
            f"recorded in {controller}; plots: idcontrol report {controller}",
        ]
        assert re.search(r"joint position error, mean +3.9 +mrad +≤ 4 ✓\n", out)
        assert re.search(r"torque rate, mean +30 +N m/s +≤ 22 ✗\n", out)


def test_one_broken_package_does_not_hide_the_others(command):
    _, out, _ = command("list", "experiments", "--json")
    assert json.loads(out) == {
        "experiments": {"fall": "a number falls", "torn": "cannot be loaded: No module named 'mujoco'"}
    }


def test_list_json_of_all_is_one_object_of_names_and_lines(command):
    status, out, _ = command("list", "--json")
    got = json.loads(out)
    assert status == 0
    assert set(got) == {"controllers", "plants", "robots", "terrains", "experiments", "studies"}
    assert all(isinstance(line, str) and line for entries in got.values() for line in entries.values())
    assert "pid" in got["controllers"]


def test_check_of_a_fit_robot_shows_its_table_and_warnings(command):
    status, out, err = command("check", "fit")
    assert status == 0
    assert err == ""
    assert out.endswith("\nfit is fit to run\n")
    for words in ("mass 4.8 kg", "torque joint [N m] hip 2.5 [knee] inf warning: the hip is heavy"):
        assert words in " ".join(out.split())  # columns are wider in some versions of rich


def test_check_lists_every_problem_and_says_the_first_on_stderr(command):
    status, out, err = command("check", "unfit")
    assert status == 2
    assert out.count("problem:") == 2
    assert err == (
        "idcontrol: unfit is not fit to run: joint 'kne' does not exist; did you mean 'knee'? "
        "(and 1 more, listed on standard output)\n"
    )


def test_check_json_is_strict(command):
    status, out, _ = command("check", "fit", "--json")
    assert status == 0
    got = json.loads(out, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
    assert got["fit"] is True
    assert got["summary"]["joints"][1]["torque_nm"] == "inf"


def test_help_and_list_import_nothing_heavy():
    """Both commands must answer immediately."""
    script = (
        "import sys, idcontrol.cli as cli; [cli.main(words) for words in (['run', '--help'], ['list', '--json'])];"
        "sys.exit(len({'numpy', 'h5py', 'pinocchio', 'numba', 'matplotlib', 'rich'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", script], capture_output=True, timeout=GUARD_S).returncode == 0


def test_the_table_of_a_run_does_not_import_matplotlib():
    script = "import sys, idcontrol.show.report; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], timeout=GUARD_S).returncode == 0


def test_letters_that_a_terminal_lacks_are_question_marks():
    ascii_alone = os.environ | {"PYTHONIOENCODING": "ascii"}
    words = [sys.executable, "-m", "idcontrol", "list", "experiments"]
    done = subprocess.run(words, env=ascii_alone, capture_output=True, text=True, timeout=GUARD_S, check=True)
    assert "?-method" in done.stdout  # theta


@pytest.mark.slow
@pytest.mark.parametrize("into", [(), ("--into", "some kernels")])
def test_warmup_rehearses_in_processes_of_its_own(tmp_path, into):
    done = subprocess.run(
        [sys.executable, "-m", "idcontrol", "warmup", "pendulum", *into],
        capture_output=True,
        text=True,
        timeout=GUARD_S,
        cwd=tmp_path,
    )
    use = f"; to use them: export NUMBA_CACHE_DIR='{tmp_path}/some kernels'" if into else ""
    assert (done.returncode, done.stdout) == (0, f"kernels are compiled and cached{use}\n"), done.stderr
    assert bool([*tmp_path.rglob("*.nbc")]) == bool(into)


def rehearses_forever(name, number):
    time.sleep(10 * GUARD_S)


@pytest.mark.slow
def test_a_signal_ends_warmup_although_rehearsals_have_begun(command, monkeypatch):
    monkeypatch.setattr("idcontrol.cli.warmup._rehearse", rehearses_forever)
    timer = threading.Timer(2.0, os.kill, (os.getpid(), signal.SIGTERM))
    timer.start()
    assert command("warmup", "fall") == (143, "", "idcontrol: stopped by SIGTERM\n")
    assert not multiprocessing.active_children()


def test_workers_of_warmup_end_with_a_killed_command():
    script = (
        "import multiprocessing, os, signal; from concurrent.futures import ProcessPoolExecutor as Pool\n"
        "from idcontrol.cli import warmup\n"
        "pool = Pool(1, multiprocessing.get_context('spawn'), initializer=warmup._begin, initargs=(None,))\n"
        "print(pool.submit(os.getpid).result(), flush=True); os.kill(os.getpid(), signal.SIGKILL)"
    )
    child = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    worker, _ = child.communicate(timeout=GUARD_S)  # returns when the worker has also closed the pipe
    assert child.returncode == -signal.SIGKILL
    assert int(worker) != child.pid


def test_a_folder_is_named_after_its_changed_settings(command):
    command("run", "fall", "--mu", "0.1", "--set", "detail.gain=2", "--duration", "0.2")
    command("run", "fall", "--mu", "0.1", "--set", "detail.gain=2", "--duration", "0.2")
    command("run", "fall", "--mu", "inf", "--controller", "my/laws.py:Law")
    command("run", "fall", "--robot", "my_dog/robot.toml")
    names = {path.name for path in Path("runs").iterdir()}
    assert names == {
        "fall-mu0.1-duration0.2-gain2", "fall-mu0.1-duration0.2-gain2-2", "fall-muinf-Law", "fall-my_dog",
    }  # fmt: skip


def test_runs_are_listed_with_changed_settings_and_filtered(command, monkeypatch):
    command("run", "fall")
    command("run", "fall", "--mu", "0.1", "--set", "gain=2.0")
    command("run", "fall", "--controller", "clumsy")
    command("run", "fall", "--controller", "broken")
    status, out, _ = command("runs", "--json")
    assert status == 0
    rows = {row["out"]: (row["changes"], row["state"]) for row in json.loads(out)["runs"]}
    assert rows == {
        "runs/fall": ({}, "completed"),
        "runs/fall-mu0.1-gain2": ({"mu": 0.1, "detail.gain": 2.0}, "completed"),
        "runs/fall-clumsy": ({"controller": "clumsy"}, "not completed"),
        "runs/fall-broken": ({"controller": "broken"}, "not ended"),
    }
    monkeypatch.setenv("COLUMNS", "80")
    _, out, _ = command("runs")
    assert max(map(len, out.splitlines())) <= 80
    assert {"runs/", "fall", "fall-mu0.1-gain2", "fall-clumsy", "fall-broken"} <= {
        row.split()[0] for row in filter(None, out.splitlines())
    }
    assert "controller clumsy" in out
    assert "[mrad]" in out
    assert "4 runs" in out
    for filters, names in (
        (["mu=0.1", "gain=2.0"], ["runs/fall-mu0.1-gain2"]),
        (["completed=false"], ["runs/fall-clumsy"]),
        (["experiment=trot"], []),
        (["controller=pid", "mu=0.8"], ["runs/fall"]),
        (["duration=0.1", "mu=inf"], []),
        (["duration=0.1", "gain=2", "completed=true"], ["runs/fall-mu0.1-gain2"]),
    ):
        _, out, _ = command("runs", *filters, "--json")
        assert [row["out"] for row in json.loads(out)["runs"]] == names
    assert command("runs", "--in", "nowhere")[0] == 2
    status, _, err = command("runs", "contoller=pid")
    assert status == 2
    assert err.startswith(
        "idcontrol: no setting 'contoller'; did you mean 'controller'? known: completed, controller, "
    )


def test_the_help_lists_every_command_below_a_heading(command):
    _, out, _ = command("--help")
    assert command()[:2] == command("-h")[:2] == (0, out)
    headings = [line for line in out.splitlines() if line.endswith(":") and not line.startswith(" ")]
    assert headings == ["Options:", "Start:", "Look:", "Check:", "Measure:", "Set up:"]
    for name in cli.cli.commands:
        assert len([line for line in out.splitlines() if line.startswith(f"  {name} ")]) == 1
    assert "..." not in out.partition("Start:")[2]  # every line is whole


def completed(monkeypatch, capsys, *words):
    monkeypatch.setenv("_IDCONTROL_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", " ".join(("idcontrol", *words)))
    monkeypatch.setenv("COMP_CWORD", str(len(words)))
    with pytest.raises(SystemExit):
        cli.main([])
    return [line.partition(",")[2] for line in capsys.readouterr().out.split()]


def test_the_shell_completes_names_also_after_a_comma(monkeypatch, capsys):
    assert completed(monkeypatch, capsys, "run", "f") == ["fall"]
    assert completed(monkeypatch, capsys, "run", "fall", "--robot", "un") == ["unfit"]
    assert completed(monkeypatch, capsys, "run", "fall", "--terrain", "") == ["heightmap", "plane"]
    rows = completed(monkeypatch, capsys, "compare", "fall", "--controllers", "pid,id-coulomb-qp-")
    assert rows == ["pid,id-coulomb-qp-1", "pid,id-coulomb-qp-raw"]
    assert completed(monkeypatch, capsys, "compare", "fall", "--plants", "visc") == ["viscous"]


def test_the_completion_is_printed_for_the_shell_to_read(command, monkeypatch):
    for shell in ("fish", "zsh"):  # the script for bash asks bash for its version
        status, printed, _ = command("completion", shell)
        assert (status, "_IDCONTROL_COMPLETE" in printed) == (0, True)
        assert command("completion", shell, "--print") == (0, printed, "")
    monkeypatch.setenv("SHELL", "/bin/tcsh")
    assert command("completion")[0] == 2
