"""A sweep on a Dask cluster of separate processes, one of which is killed in the middle."""

import contextlib
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from idcontrol import cli
from tests.sweeps.test_compare import wait_for

pytest.importorskip("distributed")


class Cluster(NamedTuple):
    """A scheduler and workers with one thread each, started as separate commands, and the scheduler's address."""

    address: str
    workers: list[subprocess.Popen]


@pytest.fixture
def cluster(drift):
    where = drift / "scheduler.json"
    local = ["--host", "127.0.0.1", "--no-dashboard"]
    with contextlib.ExitStack() as running:
        running.enter_context(started("dask_scheduler", *local, "--port", "0", "--scheduler-file", str(where)))
        wait_for(lambda: where.exists() and where.read_text())  # it writes all of it at once
        address = json.loads(where.read_text())["address"]
        one = [address, *local, "--no-nanny", "--nthreads", "1"]
        yield Cluster(address, [running.enter_context(started("dask_worker", *one)) for _ in range(2)])


@contextlib.contextmanager
def started(name: str, *arguments: str) -> Iterator[subprocess.Popen]:
    words = [sys.executable, "-m", f"distributed.cli.{name}", *arguments]
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@pytest.mark.slow
def test_a_sweep_runs_in_workers_of_other_processes(cluster, drift, capsys):
    where = ["--scheduler", cluster.address, "--out", "c", "--json"]
    status = cli.main(["compare", "drift", "--controllers", "pid", "--vary", "trouble=,raise", "--seeds", "2", *where])
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert status == 1
    assert [(row["trouble"], row["seed"], row["completed"]) for row in rows] == [
        ("", 0, True), ("", 1, True), ("raise", 0, False), ("raise", 1, False),
    ]  # fmt: skip
    assert "gain is zero" in rows[2]["reason"]


@pytest.mark.slow
def test_a_worker_that_is_killed_costs_no_row_and_runs_none_twice(cluster, drift, capsys):
    counts = drift / "counts"
    counts.mkdir()

    def kill_one_once_both_run() -> None:
        wait_for(lambda: len(list(counts.iterdir())) == 2)
        cluster.workers[0].kill()
        (counts / "go").touch()

    killer = threading.Thread(target=kill_one_once_both_run)
    killer.start()
    arguments = ["--set", f"count_in={counts}", "--vary", "seed=0,1,2,3,4,5", "--set", "trouble=wait"]
    where = ["--scheduler", cluster.address, "--out", str(drift / "c"), "--json"]
    status = cli.main(["compare", "drift", "--controllers", "pid", *arguments, *where])
    killer.join()
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert status == 0
    assert [(row["seed"], row["reason"]) for row in rows] == [(seed, None) for seed in range(6)]
    # a file for each start, the killed worker's row starts twice, and `go`
    assert len(list(counts.iterdir())) == 6 + 1 + 1


@pytest.mark.slow
def test_an_address_without_scheduler_is_status_2(drift, capsys):
    arguments = ["--controllers", "pid", "--scheduler", "tcp://127.0.0.1:9", "--out", "c"]
    assert cli.main(["compare", "drift", *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.err == (
        "idcontrol: no Dask scheduler answers at tcp://127.0.0.1:9; start one with `dask scheduler`\n"
    )
