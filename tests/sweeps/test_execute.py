"""Scheduling of rows and the fate of their folders, with simulated processes."""

import sys
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import ClassVar

import pytest

from idcontrol.errors import InputError
from idcontrol.sweeps import comparison, execute
from idcontrol.sweeps.plan import PlannedRun


def planned(name):
    return PlannedRun(experiment="drift", preset="default", changes={}, config={}, name=name)


ROWS = [planned(f"row{k}") for k in range(5)]


@dataclass
class Process:
    """A process that ends when it is polled for the `looks`-th time."""

    looks: int

    def poll(self):
        self.looks -= 1
        return None if self.looks > 0 else 0


@dataclass
class Attempt:
    """An attempt at a row; those that run are `live`."""

    row: PlannedRun
    process: Process
    live: ClassVar[list[str]] = []

    def stop(self):
        self.live.remove(self.row.name)

    def compiling(self):
        return f"idcontrol: compiling kernels for {self.row.experiment}, once"


@dataclass
class Machine:
    """Rows that were begun, and how many ran at the same time at most."""

    begun: list[str] = field(default_factory=list)
    most: int = 0

    def start(self, row, runs):
        self.begun.append(row.name)
        Attempt.live.append(row.name)
        self.most = max(self.most, len(Attempt.live))
        return Attempt(row, Process(looks=1 + 2 * (row.name == "row0")))


@pytest.fixture
def machine(monkeypatch):
    played = Machine()
    monkeypatch.setattr(Attempt, "live", [])
    monkeypatch.setattr(execute, "_start", played.start)
    monkeypatch.setattr(execute, "_finish", Attempt.stop)
    monkeypatch.setattr(execute, "POLL_S", 1e-3)
    return played


@pytest.mark.parametrize("jobs", [1, 2, 9])
def test_every_row_runs_once_and_jobs_bound_the_simultaneous_rows(machine, jobs):
    done = [row.name for row in execute.on_this_machine(ROWS, Path(), jobs)]
    assert machine.begun == [row.name for row in ROWS]
    assert sorted(done) == machine.begun
    assert machine.most == min(jobs, len(ROWS))
    assert Attempt.live == []
    if jobs == 2:
        assert done.index("row0") > done.index("row1")  # each row is reported at its end, not at its start


def test_each_announcement_of_a_compilation_is_passed_on_once(machine):
    said: list[str] = []
    list(execute.on_this_machine(ROWS, Path(), 2, said.append))
    assert said == [f"idcontrol: compiling kernels for {ROWS[0].experiment}, once"]


def test_closing_the_iterator_stops_running_rows_and_starts_no_other(machine):
    runs = execute.on_this_machine(ROWS, Path(), 2)
    assert next(runs).name == "row1"
    assert Attempt.live == ["row0"]
    runs.close()
    assert Attempt.live == []
    assert machine.begun == ["row0", "row1"]


def test_a_row_that_is_set_aside_is_not_done_and_says_why(tmp_path):
    row = planned("row")
    (tmp_path / "row").mkdir()
    (tmp_path / "row" / "metrics.json").write_text("{")
    (tmp_path / "row.failed").mkdir()
    (tmp_path / "row.failed" / "of an older attempt").touch()
    assert execute.done(row, tmp_path)
    execute.set_aside(row, tmp_path, "it is cut")
    assert not execute.done(row, tmp_path)
    kept = {path.name: path.read_text() for path in (tmp_path / "row.failed").iterdir()}
    assert kept == {"metrics.json": "{", "reason.txt": "it is cut\n"}


@pytest.fixture
def ended(tmp_path):
    """Ends an attempt at the row of a process that has written `files` and `said` something; returns the runs."""

    def end(returncode, files, said=""):
        attempt = execute._Attempt(
            row=planned("row"),
            runs=tmp_path,
            folder=tmp_path / ".row.0123",
            process=SimpleNamespace(returncode=returncode, stdin=None),
            log=(tmp_path / ".row.0123.log").open("w+b"),
        )
        attempt.log.write(said.encode())
        if files:
            attempt.folder.mkdir()
        for name in files:
            (attempt.folder / name).write_text("new")
        execute._finish(attempt)
        return {str(path.relative_to(tmp_path)): path.read_text() for path in tmp_path.rglob("*") if path.is_file()}

    return end


def test_a_finished_row_gets_its_name_and_drops_an_older_failure(ended, tmp_path):
    execute._note_failure(planned("row"), tmp_path, "fell")
    assert ended(0, ["metrics.json"], "what it said") == {"row/metrics.json": "new"}


def test_the_first_of_two_attempts_at_a_row_to_end_is_kept(ended, tmp_path):
    (tmp_path / "row").mkdir()
    (tmp_path / "row" / "metrics.json").write_text("first")
    execute._note_failure(planned("row"), tmp_path, "the worker was slow")
    assert ended(0, ["metrics.json"]) == {"row/metrics.json": "first"}
    assert [path.name for path in tmp_path.iterdir()] == ["row"]


@pytest.mark.parametrize(
    ("returncode", "files", "said", "reason"),
    [
        (0, ["metrics.json", "record.log"], "", "the process ended with status 0 and no record"),
        (0, ["record.log"], "", "the process ended with status 0 and no record"),
        (1, [], "idcontrol: compiling kernels for drift\n", "the process ended with status 1 and no record"),
        (1, ["record.log"], "a warning\nidcontrol: no luck\n", "no luck"),
        (2, [], "idcontrol: no such gain\n", "refused: no such gain"),
        (-9, ["record.log"], "a warning\n", "the process was ended by SIGKILL"),
        (-200, [], "", "the process ended with status -200 and no record"),  # a signal that has no name
    ],
)
def test_an_unfinished_row_keeps_its_remains_and_the_reason(ended, tmp_path, returncode, files, said, reason):
    execute._note_failure(planned("row"), tmp_path, "of an older attempt")
    remains = ended(returncode, files, said)
    assert remains == {f"row.failed/{name}": "new" for name in files} | {"row.failed/reason.txt": f"{reason}\n"}


def test_an_attempt_reports_compilation_and_can_be_closed_twice(tmp_path):
    attempt = execute._Attempt(
        row=planned("row"),
        runs=tmp_path,
        folder=tmp_path / "folder",
        process=SimpleNamespace(stdin=None),
        log=(tmp_path / "log").open("w+b", buffering=0),
    )
    assert attempt.compiling() is None
    attempt.log.write(b"idcontrol: compiling kernels for drift, once\nidcontrol: fell over\n")
    assert attempt.compiling() == "idcontrol: compiling kernels for drift, once"
    attempt.close()
    attempt.close()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("there", [True, False])
def test_a_worker_makes_the_runs_that_are_not_done(machine, monkeypatch, tmp_path, there):
    waited = []
    process = SimpleNamespace(wait=lambda: waited.append("row"))
    monkeypatch.setattr(
        execute, "_start", lambda row, runs: machine.begun.append(row.name) or SimpleNamespace(process=process)
    )
    monkeypatch.setattr(execute, "_finish", lambda attempt: waited.append("finished"))
    if there:
        (tmp_path / "row").mkdir()
    execute._in_a_worker(planned("row"), tmp_path)
    assert (machine.begun, waited) == (([], []) if there else (["row"], ["row", "finished"]))


def test_a_reason_names_files_where_they_are_kept(ended, tmp_path):
    said = f"idcontrol: see {tmp_path}/.row.0123/traceback.txt"
    remains = ended(1, ["traceback.txt"], said)
    assert remains["row.failed/reason.txt"] == f"see {tmp_path}/row.failed/traceback.txt\n"


@dataclass
class Future:
    """A row on a cluster: it has finished, was given up, or has not ended yet."""

    status: str

    def __hash__(self):
        return id(self)

    def exception(self):
        return "its worker died four times"

    def done(self):
        return self.status != "pending"


@pytest.fixture
def cluster(monkeypatch):
    """A Dask scheduler at the address ``here``; the rows end as `endings` says."""
    played = SimpleNamespace(endings=["finished", "error", "pending"], submitted=[], cancelled=None, loop="its loop")

    class Client:
        loop = played.loop

        def __init__(self, address, *, timeout, set_as_default):
            assert not set_as_default  # others in this process may have a client of their own
            if address != "here":
                raise OSError("timed out")

        def __enter__(self):
            return self

        def __exit__(self, *error):
            pass

        def submit(self, call, row, runs, *, pure, key):
            assert not pure  # two equal rows are two runs
            assert runs.is_absolute()
            played.submitted.append((row.name, key))
            return Future(played.endings[len(played.submitted) - 1])

        def cancel(self, futures):
            played.cancelled = [future.status for future in futures]

    def as_completed(futures, loop):
        assert loop is played.loop
        return iter([future for future in futures if future.done()])

    monkeypatch.setitem(sys.modules, "distributed", SimpleNamespace(Client=Client, as_completed=as_completed))
    return played


def test_a_row_abandoned_by_the_cluster_has_a_reason_and_unwanted_rows_are_cancelled(cluster, tmp_path):
    done = [row.name for row in execute.on_a_cluster(ROWS[:3], tmp_path, "here")]
    assert done == ["row0", "row1"]
    assert [path.name for path in tmp_path.iterdir()] == ["row1.failed"]
    reason = (tmp_path / "row1.failed" / "reason.txt").read_text()
    assert reason == "the cluster gave up the run: its worker died four times\n"
    assert cluster.cancelled == ["pending"]
    names, keys = zip(*cluster.submitted, strict=True)
    assert names == ("row0", "row1", "row2")
    assert len(set(keys)) == 3
    assert all(key.startswith(f"{name}-") for name, key in cluster.submitted)


def conduct(out, ends):
    """Make a comparison of rows that end as `ends` says; return the reported shares and the outcomes."""
    shares = []

    def make_runs(wanted, runs):
        for row in wanted:
            execute._note_failure(row, runs, ends(row))
            yield row

    outcomes = comparison.conduct(
        ROWS, out, make_runs, experiment="drift", study=None, command=["idcontrol"], notice=pytest.fail,
        ended=lambda outcome, share: shares.append(share),
    )  # fmt: skip
    return shares, outcomes


def test_a_comparison_raises_only_if_all_rows_are_refused(tmp_path):
    _, outcomes = conduct(
        tmp_path / "c", lambda row: execute.REFUSED + "no such gain" if row.name != "row3" else "fell"
    )
    assert [o.reason for o in outcomes].count("refused: no such gain") == 4
    with pytest.raises(InputError, match=r"^no such gain"):
        conduct(tmp_path / "d", lambda row: execute.REFUSED + "no such gain")


def test_all_controllers_are_compared_by_default():
    with_one, without = SimpleNamespace(controller="pid"), SimpleNamespace(mu=0.8)
    assert "id-coulomb-qp" in comparison.all_controllers(with_one, {"mu"})["controller"]
    assert comparison.all_controllers(with_one, {"controller"}) == {}
    assert comparison.all_controllers(without, {"mu"}) == {}
