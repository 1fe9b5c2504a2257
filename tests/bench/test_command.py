"""The command ``idcontrol bench``."""

import json
import subprocess
from types import SimpleNamespace

import numpy as np
import pytest

from idcontrol import controllers
from idcontrol.bench import compiling, memory, tick
from idcontrol.cli import main
from tests.loop.rig import PATIENCE


@pytest.fixture
def quick(monkeypatch):
    from idcontrol.bench import execute
    from idcontrol.bench.problems import walks

    monkeypatch.setattr(walks, "SETTLING", 40)
    monkeypatch.setattr(execute, "PERIODS", 20)


FEW = ["--samples", "10", "--budget", "0.05"]


CONTROLLERS = {"id-noslip-lcp", "id-coulomb-qp", "id-coulomb-lcp", "id-coulomb-smooth"}


@pytest.mark.parametrize(
    ("words", "names"),
    [
        pytest.param(
            ("solvers", "--contacts", "2"), {"stage I, warm", "friction LCP, Lemke"}, marks=pytest.mark.interpreted
        ),
        pytest.param(("controllers",), CONTROLLERS, marks=pytest.mark.slow),
    ],
)
def test_json_has_the_documented_keys(quick, capsys, words, names):
    assert main(["bench", *words, *FEW, "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert rows["floor_us"] > 0.0
    assert names <= {row["what"] for row in rows["rows"]}
    for row in rows["rows"]:
        assert set(row["us"]) == {"p50", "p99", "p999"}
        assert {"what", "contacts", "floor_ratio", "peer", "peer_us", "peer_ratio", "bar", "goal", "met"} <= set(row)
        assert row["unsolved"] == 0
        assert row["robots"] is None
        assert row["steps_per_s"] is None


@pytest.mark.slow
def test_a_section_that_cannot_be_measured_does_not_stop_other_sections(quick, monkeypatch, capsys):
    from idcontrol.bench import execute
    from idcontrol.errors import InputError

    def ends(*_: object) -> object:
        raise InputError("bench tick: the loop ended")

    monkeypatch.setattr(tick, "_loop", ends)
    monkeypatch.setattr(execute, "SECTIONS", ("tick", "solvers"))
    assert main(["bench", "--contacts", "4", *FEW, "--json"]) == 1
    said = capsys.readouterr()
    assert "idcontrol: bench tick: the loop ended" in said.err.splitlines()
    rows = json.loads(said.out)
    assert {row["section"] for row in rows["rows"]} == {"solvers"}
    assert rows["failed"] == {"tick": "bench tick: the loop ended"}
    assert rows["machine"]["cores"] >= 1
    assert rows["machine"]["processor"]


@pytest.mark.slow
def test_a_thousand_robots_have_rows_with_a_bar(quick, capsys):
    assert main(["bench", "batch", *FEW, "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [row["what"] for row in rows] == ["id-coulomb-qp, 1000 robots", "id-noslip-lcp, 1000 robots"]
    assert all(row["of"] == "us" and row["bar"] > 0.0 and row["unsolved"] == 0 for row in rows)
    for row in rows:
        assert row["robots"] == 1000
        assert row["steps_per_s"] == pytest.approx(row["robots"] / (1e-6 * row["us"]["p50"]))


@pytest.mark.slow  # its loops at 4 kHz do not tolerate a parallel test
@pytest.mark.wallclock
def test_a_tick_has_rows_of_its_parts(quick, capsys, monkeypatch):
    def run(words, **options):  # its loops tolerate a busy computer
        return subprocess.run([*words, *PATIENCE], **options)

    monkeypatch.setattr(tick, "subprocess", SimpleNamespace(run=run, PIPE=subprocess.PIPE))
    assert main(["bench", "tick", *FEW, "--json"]) == 0
    rows = {row["what"]: row for row in json.loads(capsys.readouterr().out)["rows"]}
    parts = ["read", "plan", "control", "gate", "record"]
    assert list(rows) == ["tick", *parts, "tick, p99.9", "tick at 4000 Hz"]
    assert rows["tick"]["of"] == "us"
    tail, goal = rows["tick, p99.9"]["us"]["p999"], rows["tick, p99.9"]["goal"]
    assert rows["tick, p99.9"]["goal_met"] == (tail <= goal)  # judged by its tail, not by its median
    assert all(rows[part]["us"]["p50"] > 0.0 for part in ("tick", *parts))


@pytest.mark.slow
def test_the_table_names_bars_and_peers(quick, capsys):
    pytest.importorskip("daqp")
    assert main(["bench", "solvers", "--contacts", "4", *FEW]) == 0
    said = capsys.readouterr().out
    assert "DAQP, warm" in said
    assert "goal" in said


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["bench", "everything"], "everything"),
        (["bench", "solvers", "--contacts", "4,zero"], "--contacts"),
        (["bench", "solvers", "--contacts", "0"], "--contacts"),
        (["bench", "models", "--contacts", "4,99999999999999999999"], "up to 100000"),
        (["bench", "--samples", "1"], "samples"),
        (["bench", "--samples", "99999999999999999999"], "samples"),
        (["bench", "--budget", "1e400"], "budget"),
        (["bench", "--budget", "nan"], "budget"),
        (["bench", "memory", "--steps", "99999999999999999999"], "steps"),
    ],
)
def test_unusable_arguments_of_bench_are_refused_in_one_line(arguments, line, capsys):
    assert main(arguments) == 2
    said = capsys.readouterr().err
    assert line in said
    assert len(said.splitlines()) == 1


def test_a_leak_is_reported_only_if_there_is_one():
    steady = 100.0 + 0.01 * (-1.0) ** np.arange(memory.SAMPLES + 1)
    assert abs(memory.growth(steady, 10**6)) < 0.1
    # a hundred bytes a step
    leaking = steady + np.linspace(0.0, 100.0, memory.SAMPLES + 1)
    assert memory.growth(leaking, 10**6) == pytest.approx(100.0, rel=0.01)


def test_compiling_is_timed_in_a_process_that_finds_an_empty_cache():
    code = "import numba, os; assert not os.path.exists(numba.config.CACHE_DIR)"
    assert compiling.spent_s(code) > 0.01  # importing Numba takes ten times as long


@pytest.mark.slow
def test_programs_with_timed_compilation_run(tmp_path, monkeypatch):
    """The kernels are already compiled here, and the controller needs few."""
    monkeypatch.setattr(controllers, "available", lambda: {"pid": ""})
    for code in (compiling._TROT, compiling._CONTROLLERS):
        exec(code, {"folder": str(tmp_path)})
    assert json.loads((tmp_path / "run" / "metrics.json").read_text(encoding="utf-8"))["steps"] == 1000


def test_a_trot_that_cannot_run_has_no_time(tmp_path):
    (tmp_path / "run").write_text("a file, no folder")
    with pytest.raises(AssertionError, match="2"):
        exec(compiling._TROT, {"folder": str(tmp_path)})


@pytest.mark.slow
def test_memory_does_not_grow_over_a_hundred_thousand_steps():
    steps = 100_000
    rows = memory.sampled(steps)
    # 10 MB per million steps is 10 bytes per step, less than any Python object
    assert memory.growth(rows, steps) < 10.0
