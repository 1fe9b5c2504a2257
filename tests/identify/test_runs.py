"""Encoder offsets and torque constants are identified, and the command writes a robot file that is fit to run."""

import json
from pathlib import Path

import numpy as np
import pytest

import idcontrol as idc
from idcontrol import cli, robots
from idcontrol.identify.equations import velocity_lag
from idcontrol.identify.identification import Question, identify
from idcontrol.identify.logs import log_from, log_of
from idcontrol.identify.offsets import offsets
from idcontrol.record.recording import Run
from tests.identify import synthetic


@pytest.fixture(scope="module")
def trot(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return idc.run("trot", duration=1.0, out=tmp_path_factory.mktemp("trot"))


@pytest.mark.parametrize(
    "slip_rad", [pytest.param(0.0, marks=pytest.mark.slow), 0.02], ids=["without slip", "with slip"]
)
def test_standing_feet_determine_encoder_offsets(slip_rad: float) -> None:
    robot = robots.load("go1")
    log, system = log_from("sway", synthetic.standing_log(robot, 4.0), robot), robot.system()
    wrong = np.random.default_rng(0).choice([-0.03, 0.03], system.n_actuated)
    q = log.q.copy()
    q[:, system.joint_q] -= wrong
    q[-200:, system.joint_q[0]] += slip_rad  # moves the first foot by some millimetres
    result = offsets([log._replace(q=q)], robot, system)
    assert result is not None
    np.testing.assert_allclose(result.angle, wrong, rtol=0.03)
    if slip_rad == 0.0:
        assert (np.abs(result.angle - wrong) < 3.0 * result.spread).all()
        assert result.after_m < 0.01 * result.before_m


def test_velocities_that_lag_positions_are_noticed(trot: Run) -> None:
    robot, late = robots.load("links"), 2e-3
    log, system = log_of(trot, robot), robot.system()
    dof, windows = system.order[system.n_unactuated :], [(k, k + 40) for k in range(0, 900, 40)]
    v = log.v.copy()
    v[:, dof] = np.array([np.interp(log.t - late, log.t, column) for column in v[:, dof].T]).T
    v[:, dof] += np.random.default_rng(0).normal(0.0, 0.02, (len(v), len(dof)))
    lag = velocity_lag(log, system, windows)
    assert velocity_lag(log._replace(v=v), system, windows) - lag == pytest.approx(late, rel=0.05)


def test_torque_constants_of_a_run_come_from_its_measured_forces(trot: Run) -> None:
    robot = robots.load("links")
    log = log_of(trot, robot)
    scale = np.random.default_rng(0).uniform(0.7, 1.3, log.tau.shape[1])
    question = Question(frozenset({"scale"}), None, True)
    result = identify([log._replace(tau=log.tau / scale)], robot, question)
    np.testing.assert_allclose(result.fit.theta[-len(scale) :], scale, rtol=0.03)
    sd = np.sqrt(np.diag(result.fit.covariance)[-len(scale) :])
    assert (sd < 0.03).all()


def test_the_command_writes_a_robot_file_that_is_fit_to_run(
    trot: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "mine.toml"
    asked = ["identify", str(trot.folder), "--fit", "offsets,scale,friction", "--out", str(file)]
    assert cli.main([*asked, "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert [row["joint"] for row in said["drives"]] == list(robots.load("links").system().actuated_names)
    assert all(abs(row["scale"]["value"] - 1.0) < 0.03 for row in said["drives"])  # the plant has ideal drives
    # the nominal robot is the plant's, so 1e-3 of its torques of some N m is sampling
    assert max(said["torque_after_nm"], said["torque_before_nm"]) < 1e-3
    written = robots.load(file)
    assert written.description.orders["identified"].torque_scale.keys() == set(written.system().actuated_names)
    assert cli.main(["check", str(file)]) == 0
    assert cli.main(["report", said["out"]]) == 0
    capsys.readouterr()
    assert cli.main(asked) == 2
    assert "exists already" in capsys.readouterr().err
    file.with_suffix(".urdf").unlink()
    records = list((tmp_path / "runs").iterdir())
    assert cli.main(asked) == 2
    assert not file.with_suffix(".urdf").exists()
    assert list((tmp_path / "runs").iterdir()) == records


@pytest.mark.slow
def test_the_command_says_which_joints_the_run_does_not_tell_apart(
    trot: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    asked = ["identify", str(trot.folder), "--fit", "wiring"]
    assert cli.main([*asked, "--json"]) == 0
    said = json.loads(capsys.readouterr().out)["wiring"]
    assert said["errors"] == []
    assert cli.main(asked) == 0
    shown = capsys.readouterr().out
    assert "no error shows" in shown
    assert all(f"the runs do not tell {doubt}" in " ".join(shown.split()) for doubt in said["unsure"])


@pytest.mark.parametrize(
    ("asked", "line"),
    [
        (["--fit", "masses"], "the parts are wiring, offsets, links"),
        (["--out", "mine.urdf"], "ends with .toml"),
        (["--out", "nowhere/mine.toml"], "nowhere is not a folder"),
        (["--mass", "-3"], "a mass is positive"),
        (["--mass", "1", "--fit", "links"], "the runs contradict a mass of 1 kg"),
        (["--robot", "arm"], "the run has joints LF_X_1, …, and arm has X_1, …"),
        (["--robot", "go1"], "the run has joints LF_X_1, …, and go1 has FL_hip_joint, …"),
    ],
)
def test_unusable_options_are_refused(
    asked: list[str], line: str, trot: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["identify", str(trot.folder), *asked]) == 2
    assert line in capsys.readouterr().err
