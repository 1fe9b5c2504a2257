"""``idcontrol compare`` from end to end, on an experiment that takes no time."""

import contextlib
import csv
import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import idcontrol as idc
from idcontrol import cli
from idcontrol.cli.compare import _report_end, _study_runs
from idcontrol.errors import InputError, UnknownName
from idcontrol.record.recording import Recorder, load
from idcontrol.sweeps import comparison, record
from idcontrol.sweeps.execute import damage
from idcontrol.sweeps.plan import PlannedRun
from tests import GUARD_S


@pytest.fixture
def compare(drift, capsys):
    """Runs the command; returns exit status, stdout, stderr."""

    def run(*arguments: str) -> tuple[int, str, str]:
        status = cli.main(["compare", "drift", "--controllers", "pid", *arguments])
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    return run


def rows_of(out: str) -> list[dict]:
    return json.loads(out, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))["rows"]


def wait_for(condition):
    """Until `condition()` is true; how long that takes is up to the machine."""
    deadline = time.monotonic() + GUARD_S
    while not condition():
        assert time.monotonic() < deadline, "it never happened"
        time.sleep(0.02)


def background(*arguments: str) -> subprocess.Popen:
    words = [sys.executable, "-m", "idcontrol", "compare", "drift", "--controllers", "pid", *arguments]
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)


def make_here(rows, runs):
    """Make the runs in this process; `tests/config/test_processes.py` makes one in a process of its own."""
    for row in rows:
        with contextlib.redirect_stdout(io.StringIO()):
            assert cli.main(row.command(runs / row.name)) == 0
        yield row


def test_every_combination_is_a_row_in_the_json_in_the_table_and_on_disk(compare, monkeypatch):
    monkeypatch.setattr(comparison, "on_this_machine", lambda jobs: make_here)
    status, out, err = compare("--mu", "0.1,inf", "--seeds", "2", "--out", "c", "--json")
    assert status == 0
    rows = rows_of(out)
    ended = [line for line in err.splitlines() if "%  " in line]  # others say that kernels are being compiled
    shares = sorted(line.partition("%  ")[2] for line in ended)
    assert shares == ["mu 0.1, seed 0: done", "mu 0.1, seed 1: done", "mu inf, seed 0: done", "mu inf, seed 1: done"]
    assert ended[-1].startswith("100 %")
    assert [(row["mu"], row["seed"]) for row in rows] == [(0.1, 0), (0.1, 1), ("inf", 0), ("inf", 1)]
    assert all(row["experiment"] == "drift" and row["reason"] is None and row["completed"] for row in rows)
    assert [row["x"] for row in rows] == [0.0, 1.0, 0.0, 1.0]
    for row in rows:
        assert load(row["out"]).complete
    with open("c/table.csv", newline="") as file:
        table = list(csv.DictReader(file))
    assert [(line["mu"], line["seed"], line["x"], line["step_us.p50"]) for line in table] == [
        ("0.1", "0", "0.0", "3"), ("0.1", "1", "1.0", "3"), ("inf", "0", "0.0", "3"), ("inf", "1", "1.0", "3"),
    ]  # fmt: skip
    assert json.loads(Path("c/rows.json").read_text())["rows"] == rows


@pytest.mark.slow
def test_a_failed_run_is_a_row_that_says_why(compare):
    status, out, _ = compare("--vary", "trouble=,fall,raise,abort,refuse", "--seeds", "1", "--out", "c", "--json")
    assert status == 1
    reasons = {row["trouble"]: row["reason"] for row in rows_of(out)}
    assert reasons[""] is None
    assert reasons["fall"] == "fell at 0.25 s"
    assert reasons["raise"].startswith("a fault inside: ZeroDivisionError: gain is zero; the traceback is in c/runs/")
    assert Path(reasons["raise"].rpartition(" is in ")[2]).read_text().startswith("Traceback")
    assert reasons["abort"] == "the process was ended by SIGABRT"
    assert reasons["refuse"] == "refused: this gain does not fit"
    assert [row["completed"] for row in rows_of(out)] == [True, False, False, False, False]


def _cut(path):
    path.write_bytes(path.read_bytes()[:-1])


@pytest.mark.parametrize(
    ("name", "spoil", "line"),
    [
        ("metrics.json", lambda path: path.write_text("{"), "metrics.json is damaged: "),
        ("metrics.json", lambda path: path.write_text("[]"), "it should hold a JSON object"),
        ("metrics.json", Path.unlink, "it has no metrics"),
        ("arrays.h5", _cut, "arrays.h5 is damaged or not a record: "),
        ("arrays.h5", Path.unlink, "neither arrays.h5 nor record.log is there"),
        ("record.log", Path.touch, "record.log has no readable header"),
    ],
)
def test_a_record_with_a_damaged_file_is_not_whole(tmp_path, name, spoil, line):
    row = PlannedRun(experiment="drift", preset="default", changes={}, config={}, name="row")
    with Recorder(tmp_path / "row", {"x": ()}, {}, {}) as recorder:
        recorder.append(x=1.0)
        recorder.close({"completed": True})
    assert damage(row, tmp_path) is None
    spoil(tmp_path / "row" / name)
    assert line in damage(row, tmp_path)


@pytest.mark.slow
def test_runs_whose_records_are_damaged_are_run_again_and_said_so(compare):
    arguments = ("--seeds", "2", "--out", "c", "--json", "--jobs", "2")
    _, before, _ = compare(*arguments)
    first, second = (Path(row["out"]) for row in rows_of(before))
    (first / "metrics.json").write_text("{")
    _cut(second / "arrays.h5")
    assert record.load("c").outcomes[0].reason.startswith(f"{first}/metrics.json is damaged: ")
    status, after, err = compare(*arguments)
    assert status == 0
    lines = [line for line in err.splitlines() if line.startswith("idcontrol: ")]
    assert len(lines) == 2
    assert lines[0].startswith(f"idcontrol: {first.name} is run again: {first}/metrics.json is damaged: ")
    assert lines[1].startswith(f"idcontrol: {second.name} is run again: {second}/arrays.h5 is damaged")
    assert rows_of(after) == rows_of(before)
    assert load(first).complete
    assert load(second).complete
    assert not list(Path("c/runs").glob("*.failed"))


@pytest.mark.slow
def test_a_sweep_that_is_killed_leaves_no_process_and_continues(compare, drift):
    counts = drift / "counts"
    counts.mkdir()
    fixed = ("--set", f"count_in={counts}", "--seeds", "3", "--out", "c", "--jobs", "2", "--vary", "trouble=,wait")
    sweep = background(*fixed)
    # the three without trouble are done, the waiting ones hang: two of them, as there are two jobs
    wait_for(lambda: len(list(Path("c/runs").glob("drift-*"))) == 3 and len(list(counts.iterdir())) == 5)
    done = {path: path.stat().st_mtime_ns for path in Path("c/runs").glob("default-*/metrics.json")}
    sweep.kill()
    sweep.communicate()
    wait_for(lambda: _processes_naming(str(counts)) == 0)
    (counts / "go").touch()
    status, out, _ = compare(*fixed, "--json")
    assert status == 0
    assert len(rows_of(out)) == 6
    assert {path: path.stat().st_mtime_ns for path in done} == done
    assert not list(Path("c/runs").glob(".*"))
    assert len(list(counts.iterdir())) == 5 + 3 + 1  # starts: five, then the three unfinished; and `go`


def _processes_naming(text: str) -> int:
    own = os.getpid()
    lines = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if path.parent.name != str(own)]
    return sum(text.encode() in line and b"cli.child" in line for line in lines)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_says_how_to_continue_and_stops_the_runs(compare, drift, number):
    counts = drift / "counts"
    counts.mkdir()
    sweep = background("--set", f"count_in={counts}", "--set", "trouble=wait", "--out", "c")
    wait_for(lambda: list(counts.iterdir()))
    sweep.send_signal(number)
    out, err = sweep.communicate(timeout=GUARD_S)
    assert sweep.returncode == 128 + number
    assert out == b""
    assert err.decode().startswith("idcontrol: stopped; to continue: idcontrol compare drift --controllers pid ")
    assert _processes_naming(str(counts)) == 0


@pytest.mark.slow
def test_rows_with_equal_settings_are_run_once(compare, drift):
    counts = drift / "counts"
    counts.mkdir()
    status, out, _ = compare("--set", f"count_in={counts}", "--vary", "gain=1,1.0", "--out", "c", "--json")
    assert status == 0
    assert len(rows_of(out)) == 2
    assert len(list(counts.iterdir())) == 1


@pytest.mark.slow
def test_a_study_writes_its_tables(compare):
    status, out, _ = compare("--controllers", "all", "--study", "positions", "--out", "c")
    assert status == 0
    assert "Positions [m]" in out
    assert "x [m]" in out
    assert "They grow." in out
    assert Path("c/positions.csv").read_text().splitlines() == ["seed,x [m]", "1,1.0", "2,4.0"]
    assert json.loads(Path("c/tables.json").read_text())["positions"]["rows"] == [[1, 1.0], [2, 4.0]]
    status, out, _ = compare(
        "--controllers", "all", "--study", "positions", "--preset", "paper", "--set", "gain=7", "--out", "d", "--json"
    )
    assert [row["x"] for row in rows_of(out)] == [14.0]


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["--controllers", "pdi"], "no controller 'pdi'; did you mean 'pid'?"),
        (["--plants", "mud"], "no plant 'mud'"),
        (["--controllers", "pid,pid"], "'pid,pid': write each name once, separated by single commas"),
        (["--controllers", "pid,"], "'pid,': write each name once, separated by single commas"),
        (["--vary", "mu=1e-1,0.1"], "idcontrol: mu: 0.1 appears twice; write each value once"),
        (["--mu", "0.1,inf,.1"], "idcontrol: mu: 0.1 appears twice; write each value once"),
        (["--vary", "mu=0.1,a"], 'idcontrol: mu: expected a number, got text; it is "a"'),
        (["--mu", "0.1;0.2"], "--mu 0.1;0.2: '0.1;0.2' is no number; write numbers with commas between them"),
        (["--seeds", "0"], "--seeds"),
        (["--vary", "gain"], "--vary gain: write it as KEY=VALUE,VALUE"),
        (["--vary", "gian=1,2"], "no setting 'gian'; did you mean 'gain'?"),
        (["--set", "gain=much"], 'gain: expected a number, got text; it is "much"'),
        (["--preset", "papers"], "no preset 'papers'; did you mean 'paper'?"),
        (["--robot", "links"], "no setting 'robot'"),
        (["--study", "velocities"], "no study 'velocities'"),
        (["--study", "positions", "--vary", "gain=1"], "--vary and --study exclude each other"),
        (["--study", "positions", "--preset", "papers"], "no preset 'papers'; did you mean 'paper'?"),
        (["--study", "positions", "--mu", "0.3"], "the study has no such runs"),
        (["--study", "positions", "--controllers", "pid,id-sap"], "no runs with controller id-sap, only with pid"),
        (["--jobs", "2", "--scheduler", "tcp://127.0.0.1:1"], "--jobs is for this computer"),
        (["--seeds", "99999999999999999999"], "is not in the range"),
        (["--out", "full"], "full is not a comparison"),
        (["--set", "trouble=refuse", "--out", "c"], "this gain does not fit"),
    ],
)
def test_unusable_input_is_status_2_with_exactly_one_line(compare, arguments, line):
    Path("full").mkdir()
    Path("full/notes.txt").write_text("mine")
    status, out, err = compare(*arguments)
    assert status == 2
    assert out == ""
    assert err.count("\n") == 1
    assert line in err
    assert [path.name for path in Path("full").iterdir()] == ["notes.txt"]


def test_runs_of_a_study_without_preset_use_the_default():
    options = dict.fromkeys(("vary", "controllers", "plants", "mu", "robot", "duration_s", "seeds")) | {"settings": ()}
    runs = [{"seed": 1}, {"seed": 2, "preset": "paper"}]
    assert [run["seed"] for run in _study_runs(runs, options | {"preset": "default"}, {})] == [1]
    assert [run["seed"] for run in _study_runs(runs, options | {"preset": "paper"}, {})] == [2]


@pytest.mark.slow
def test_python_compares_as_the_command_does_and_tells_the_command_that_continues(drift, compare):
    comparison = idc.compare("drift", ["pid"], vary={"mu": [0.1, float("inf")], "seed": range(2)}, gain=2.0, out="c")
    assert [(o.setting("mu"), o.setting("seed"), o.done) for o in comparison.outcomes] == [
        (0.1, 0, True), (0.1, 1, True), (float("inf"), 0, True), (float("inf"), 1, True),
    ]  # fmt: skip
    assert [o.metric("x") for o in comparison.outcomes] == [0.0, 2.0, 0.0, 2.0]
    assert comparison._repr_html_().count(">yes</td>") == 4
    assert cli.main([*comparison.command[1:], "--json"]) == 0
    assert [run.name for run in sorted(Path("c/runs").iterdir())] == sorted(o.row.name for o in comparison.outcomes)
    assert idc.compare("drift", ["pid"], vary={"mu": [0.1]}, out="d").outcomes[0].done
    (comparison.outcomes[0].folder / "metrics.json").unlink()
    with pytest.warns(UserWarning, match="is run again: it has no metrics"):
        again = idc.compare("drift", ["pid"], vary={"mu": [0.1], "seed": [0]}, gain=2.0, out="c")
    assert idc.load(again.outcomes[0].folder).complete


@pytest.mark.parametrize(
    ("varied", "line"),
    [
        (["controller", "mu", "seed"], " 50 %  controller pid, mu 0.8, seed 3: done in 2.0 s"),
        (["controller", "mu", "seed", "gain", "plant"], " 50 %  controller pid, seed 3: done in 2.0 s"),
    ],
)
def test_the_line_of_a_run_names_varied_settings_or_differences_from_its_preset(varied, line, capsys):
    config = {"controller": "pid", "mu": 0.8, "seed": 3, "gain": 1.0, "plant": "coulomb-lcp"}
    row = PlannedRun(experiment="drift", preset="default", changes={"seed": 3}, config=config, name="row")
    outcome = record.RunOutcome(row=row, metrics={"wall_s": 2.0}, reason=None, folder=Path("row"))
    _report_end(varied, lambda share: None, False, outcome, 0.5)
    assert capsys.readouterr().err == line + "\n"


@pytest.mark.parametrize(
    ("controllers", "settings", "line"),
    [
        (["pid", "pdi"], {}, "no controller 'pdi'; did you mean 'pid'?"),
        (["pid"], {"plant": "mud"}, "no plant 'mud'"),
        (["pid"], {"vary": {"plant": ["coulomb-lcp", None]}}, "no plant None"),
        (None, {"controller": "pdi"}, "no controller 'pdi'"),
    ],
)
def test_unknown_names_are_refused_before_anything_runs(drift, controllers, settings, line):
    with pytest.raises(UnknownName, match=re.escape(line)):
        idc.compare("drift", controllers, out="c", **settings)
    assert not Path("c").exists()


def test_python_compares_no_controllers_with_one_line_and_no_folder(drift):
    with pytest.raises(InputError, match="controller: there are no values to vary"):
        idc.compare("drift", [], out="c")
    assert not Path("c").exists()
