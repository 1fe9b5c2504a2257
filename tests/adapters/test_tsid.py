"""TSID as a controller beside ours: refusals without it, and a short sway where it is installed."""

import os

import msgspec
import pytest

from idcontrol import controllers, robots, tasks
from idcontrol.cli import main
from idcontrol.errors import InputError
from idcontrol.experiments import whole_body
from idcontrol.scenes.body import Body

TSID = os.environ.get("TSID_PYTHON")


def test_a_comparison_without_tsid_is_refused_in_one_line(monkeypatch, capsys):
    monkeypatch.delenv("TSID_PYTHON", raising=False)
    assert main(["compare", "sway", "--peers", "tsid"]) == 2
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert "TSID_PYTHON" in line
    assert "pip install tsid" in line


def test_a_peer_is_not_listed_among_our_controllers():
    assert "tsid" not in controllers.available()
    assert controllers.contact_law("tsid").cone == "pyramid"


@pytest.mark.parametrize(
    ("moves", "line"),
    [
        ([], "needs whole-body tasks"),
        ([tasks.Momentum()], "no counterpart of the task Momentum"),
        ([tasks.CoM(strict=True)], "one finite weight"),
        ([tasks.CoM(weight=[1.0, 1.0, 2.0])], "one finite weight"),
        ([tasks.Frame("torso_2_link", axes="LOCAL")], "axes of the world"),
        ([tasks.Frame("torso_2_link", relative_to="base_link")], "no counterpart of the task Frame"),
    ],
)
def test_tasks_without_a_counterpart_in_tsid_are_refused_before_it_starts(moves, line, monkeypatch):
    monkeypatch.setenv("TSID_PYTHON", "/no/such/python")
    with pytest.raises(InputError, match=line):
        controllers.make("tsid", robots.load("talos"), mu=0.6, tasks=moves)


def test_tasks_of_the_experiments_have_counterparts_in_tsid(monkeypatch):
    monkeypatch.setenv("TSID_PYTHON", "/no/such/python")
    robot = robots.load("talos")
    with pytest.raises(InputError, match="does not run TSID"):
        controllers.make("tsid", robot, mu=0.6, tasks=Body(robot, mu=0.6, rate_hz=1000.0).tasks)


@pytest.mark.skipif(TSID is None, reason="TSID_PYTHON names no interpreter with TSID")
def test_tsid_sways_a_humanoid_and_predicts_the_wrenches_of_its_soles(tmp_path):
    config = msgspec.structs.replace(whole_body.SWAY, controller="tsid", duration_s=0.3)
    metrics = whole_body.sway.run(config, tmp_path / "run", lambda share: None)
    assert metrics["completed"]
    assert metrics["demand_qp_share"] == 1.0
    assert metrics["com_err_max_m"] < 1e-3
    assert metrics["wrench_err_rel"] < 1e-2
