"""A replay repeats the recorded torques to the bit, and computes torques of other controllers in the same states."""

import dataclasses
import json
from pathlib import Path

import msgspec
import numpy as np
import pytest

import idcontrol as idc
from idcontrol import cli
from idcontrol.config import configuration
from idcontrol.config.configuration import jsonable
from idcontrol.errors import InputError
from idcontrol.record.recording import Run, load
from idcontrol.scenes.replay import replay
from idcontrol.scenes.walk import WalkConfig, WalkScene

NOISY = {"sensing.base": "estimated", "sensing.noise.joint_rad": 1e-3, "noise.angle_rad": 1e-3}
IMPEDANCE = {"actuators.kind": "robot", "command.kind": "impedance"}
SHORT_S = 0.15


@pytest.fixture(scope="module")
def walk(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return idc.run("trot", duration=SHORT_S, mu=0.3, out=tmp_path_factory.mktemp("walk"))


@pytest.mark.parametrize(
    "settings", [NOISY, pytest.param(IMPEDANCE, marks=pytest.mark.slow)], ids=["noisy", "impedance"]
)
def test_the_controller_of_a_walk_repeats_its_torques(settings: dict[str, object], tmp_path: Path) -> None:
    run = idc.run("trot", robot="go1", duration=SHORT_S, out=tmp_path, **settings)
    repeated = replay(run, run.config["controller"])
    assert repeated.plan_diff_rad == 0.0
    np.testing.assert_array_equal(repeated.tau, repeated.recorded)
    assert len(repeated.tau) == len(run.arrays["t"])


@pytest.mark.slow  # standing up and lying down take seconds
def test_the_controller_of_a_loop_repeats_its_torques(tmp_path: Path) -> None:
    asked = [
        "loop",
        "--duration",
        "0.3",
        "--transport",
        "inprocess",
        "--pacing",
        "fast",
        "--out",
        str(tmp_path / "run"),
    ]
    assert cli.main([*asked, "--json"]) in (0, 1)
    repeated = replay(load(tmp_path / "run"), "id-coulomb-qp")
    np.testing.assert_array_equal(repeated.tau, repeated.recorded)
    assert len(repeated.tau) > 100  # without the handover from standing up


def test_the_sensed_states_default_to_the_true_states(walk: Run) -> None:
    repeated = replay(walk, "id-coulomb-qp")
    np.testing.assert_array_equal(repeated.tau, repeated.recorded)


def test_pid_answers_the_recorded_errors(walk: Run) -> None:
    asked, setup = replay(walk, "pid"), WalkScene.of(WalkConfig(mu=0.3, controller="pid")).controller_setup()
    gains, joints = setup.torque_gains, setup.system
    q = np.array([joints.joint_positions(each) for each in walk.arrays["q"]])
    v = np.array([joints.joint_velocities(each) for each in walk.arrays["v"]])
    wanted = gains.kp * (walk.arrays["q_des"] - q) + gains.kd * (walk.arrays["v_des"] - v)
    np.testing.assert_allclose(asked.tau, wanted, atol=1e-12)  # rounding; no limit binds
    np.testing.assert_array_equal(asked.recorded, walk.arrays["tau"])


def test_the_command_prints_and_records_the_difference(
    walk: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["replay", str(walk.folder), "--controller", "pid", "--out", str(tmp_path / "asked")]
    assert cli.main([*asked, "--json"]) == 0
    said, again = json.loads(capsys.readouterr().out), load(tmp_path / "asked")
    diff = np.abs(again.arrays["tau"] - again.arrays["tau_recorded"])
    assert (said["ticks"], said["equal_share"]) == (len(diff), 0.0)
    assert said["tau_diff_max_nm"] == diff.max()
    assert cli.main(["report", str(tmp_path / "asked")]) == 0
    assert cli.main(["replay", str(tmp_path / "asked")]) == 2
    assert "is not a walk; replay takes" in capsys.readouterr().err


@pytest.mark.parametrize("settings", [{"path.kind": "joystick"}, {"sensing.contacts": "geometry"}])
def test_a_walk_whose_references_are_unknown_is_refused(settings: dict[str, object], walk: Run) -> None:
    config = jsonable(msgspec.to_builtins(configuration.build(WalkConfig(), settings)))
    with pytest.raises(InputError, match="which the record does not contain"):
        replay(dataclasses.replace(walk, config=config), "pid")


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"config": {"sensing": {"delay_ticks": 3}}}, "sensing.delay_ticks"),
        ({"config": {"noise": {"angle_rad": 1e-3}}}, "sensed states"),
        ({"config": {"mu": "high"}}, "config.json"),
        ({"config": {"loop": 5}}, "channels are not of a loop"),
        ({"meta": {"planned_from": {"q": [1.0]}}}, "planned_from"),
        ({"arrays": {"t": np.zeros(150)}}, "times do not rise"),
        ({"arrays": {"tau_wanted": np.zeros((150, 3))}}, "channels do not fit"),
    ],
)
def test_damaged_and_incomplete_records_are_refused(
    changes: dict[str, dict[str, object]], line: str, walk: Run
) -> None:
    damaged = {name: getattr(walk, name) | more for name, more in changes.items()}
    with pytest.raises(InputError, match=line):
        replay(dataclasses.replace(walk, **damaged), "pid")
