"""A sweep on a Dask cluster of separate processes, one of which is killed in the middle."""

from __future__ import annotations

import json
import os
import signal
import time

import pytest

from idcontrol import cli

distributed = pytest.importorskip("distributed")


@pytest.fixture
def cluster(drift):
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, host="127.0.0.1"
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        client.wait_for_workers(2)
        yield client


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::ResourceWarning")  # of the worker that was killed
def test_a_worker_that_is_killed_costs_no_row_and_runs_none_twice(cluster, drift, capsys):
    counts = drift / "counts"
    counts.mkdir()
    (killed,) = cluster.run(
        _kill_soon_after, str(counts), workers=[next(iter(cluster.scheduler_info()["workers"]))]
    ).values()
    arguments = ["--set", f"count_in={counts}", "--vary", "seed=0,1,2,3,4,5", "--set", "trouble=wait"]
    where = ["--scheduler", cluster.scheduler.address, "--out", str(drift / "c"), "--json"]
    status = cli.main(["compare", "drift", "--controllers", "pid", *arguments, *where])
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert status == 0
    assert [(row["seed"], row["reason"]) for row in rows] == [(seed, None) for seed in range(6)]
    assert killed not in cluster.run(os.getpid).values()
    # the row of the killed worker began twice, every other once; the last file is the word to go
    assert len(list(counts.iterdir())) == 6 + 1 + 1


def _kill_soon_after(counts: str) -> int:
    """Have this worker killed once both workers run a row, and let the rows end a little later."""
    import threading
    from pathlib import Path

    def wait_and_kill() -> None:
        while len(list(Path(counts).iterdir())) < 2:
            time.sleep(0.02)
        (Path(counts) / "go").touch()
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=wait_and_kill, daemon=True).start()
    return os.getpid()


@pytest.mark.slow
def test_an_address_where_nobody_answers_is_status_2(drift, capsys):
    arguments = ["--controllers", "pid", "--scheduler", "tcp://127.0.0.1:9", "--out", "c"]
    assert cli.main(["compare", "drift", *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.err == (
        "idcontrol: no Dask scheduler answers at tcp://127.0.0.1:9; start one with `dask scheduler`\n"
    )
