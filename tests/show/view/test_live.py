"""The page of a running loop."""

import json
import re
import subprocess
import sys
import urllib.request

import numpy as np
import pytest

from idcontrol import cli, robots
from idcontrol.cli.live import show
from idcontrol.cli.view import find_robot
from idcontrol.loop.life import Phase
from idcontrol.loop.safety import Mode
from idcontrol.record.scenery import Scenery
from idcontrol.show.view.page import Page, serve, stop
from idcontrol.show.view.stage import Stage
from tests import GUARD_S

H = 1e-3


@pytest.fixture
def page():
    server = serve(None, "test")
    q = robots.load("links").standing_state().q
    page = Page(server, Stage(Scenery(robot="links"), find_robot, q), "test", follow=True)
    yield page, q
    stop(server)


def rows(q, n):
    return {
        "q": np.tile(q, (n, 1)),
        "force_sensed": np.zeros((n, 4, 3)),
        "force_pred": np.full((n, 4, 3), np.nan),
        "tau": 0.1 * np.arange(n)[:, None] * np.ones(12),
        "tick": np.arange(n, dtype=float),
        "mode": np.full(n, float(Mode.RUNNING)),
        "phase": np.full(n, float(Phase.WORKING)),
        "compute_us": np.full(n, 400.0),
    }


def test_the_live_page_shows_the_last_row_of_the_ring(page):
    page, q = page
    show(page, page._stage, rows(q, 1), H)
    rows_sent = rows(q, 5)
    rows_sent["q"][-1, 0] = 0.7
    show(page, page._stage, rows_sent, H)
    assert page.server.scene.get_handle_by_name("/stage/bodies/0 root_joint").position[0] == pytest.approx(0.7)
    # the camera follows: it stays, and the stage moves back as far as the robot went
    assert page.server.scene.get_handle_by_name("/stage").position[0] == pytest.approx(-0.7)
    words = page._caption.content
    # 0.1 N m in each millisecond
    assert "100.0 N m/s" in words
    assert "running" in words
    assert "400 µs" in words


def test_rows_before_the_machine_has_spoken_change_nothing(page):
    page, q = page
    show(page, page._stage, rows(q, 1), H)
    before = page.server.scene.get_handle_by_name("/stage/bodies/0 root_joint").position
    show(page, page._stage, rows(np.full(19, np.nan), 3), H)
    np.testing.assert_array_equal(page.server.scene.get_handle_by_name("/stage/bodies/0 root_joint").position, before)


def test_a_loop_in_process_cannot_be_shown(tmp_path, capsys):
    options = ["--transport", "inprocess", "--pacing", "fast", "--out", str(tmp_path / "run")]
    assert cli.main(["loop", "--view", *options]) == 2
    assert "idcontrol view DIR" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.wallclock
def test_a_running_loop_is_shown_on_loopback_and_ends_as_without_a_page(tmp_path):
    arguments = ["loop", "--view", "--duration", "3", "--json", "--out", str(tmp_path / "run")]
    process = subprocess.Popen(
        [sys.executable, "-m", "idcontrol", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    address = re.search(r"http://127\.0\.0\.1:\d+", process.stderr.readline()).group()
    with urllib.request.urlopen(address, timeout=GUARD_S) as answer:
        assert answer.status == 200
    out, _ = process.communicate(timeout=GUARD_S)
    metrics = json.loads(out)
    assert metrics["ended"] == "duration"
    assert metrics["rows_lost"] == 0  # the page takes no row from the recorder
