"""The first day: what hangs moves as its joints do on a fixed base, and wrong joints are found in the record."""

import json
import os
import select
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pinocchio as pin
import pytest

from idcontrol import cli, robots
from idcontrol.cli import commission as command
from idcontrol.experiments import commission
from idcontrol.experiments.commission import STEPS, judge_estop, judge_signs
from idcontrol.loop.life import Phase
from idcontrol.loop.safety import NAMES, Fault, Mode
from idcontrol.scenes.hoist import Hoisted
from idcontrol.types import State


def test_a_hanging_robot_accelerates_as_on_a_fixed_base():
    robot = robots.load("go1")
    system, rng = robot.system(), np.random.default_rng(0)
    q, v = robot.standing_state(system).q, np.zeros(18)
    v[6:] = rng.normal(size=12)
    tau, h = rng.normal(size=12), 1e-7
    plant = Hoisted(system)
    plant.reset(State(t=0.0, q=q, v=np.r_[np.ones(6), v[6:]]))
    after = plant.step(tau, h)
    fixed = pin.buildModelFromUrdf(str(robot.urdf))
    acceleration = pin.aba(fixed, fixed.createData(), q[7:], v[6:], tau)
    np.testing.assert_allclose((after.v[6:] - v[6:]) / h, acceleration, rtol=1e-5, atol=1e-5)  # first order in h
    np.testing.assert_array_equal(after.q[:7], q[:7])
    assert not after.v[:6].any()


@pytest.fixture(scope="module")
def signs():
    """Returns the record of a step `signs` at 100 Hz, in which joints move by `gains` (a, a) times their references."""
    system = robots.load("go1").system()

    def make(gains=None, seconds=None, fault="astray", missing=(0.0, 0.0), strength=1.0):
        t = 0.01 * np.arange(100 * round(commission.settings_of(STEPS[0], system)["duration_s"]))
        offsets = np.array([commission.one_by_one(each, 12)[0] for each in t])
        q = np.tile(robots.load("go1").standing_state(system).q, (len(t), 1))
        q[:, 7:] += offsets @ (np.eye(12) if gains is None else gains).T
        q_des = q[0, 7:] + offsets
        weight = np.array([pin.computeGeneralizedGravity(system.model, system.data, each)[6:] for each in q])
        arrays = {
            "q": q,
            "q_des": q_des,
            "tau": weight / strength,
            "t_machine": 3.0 + t,
            "mode": np.full(len(t), Mode.RUNNING),
            "phase": np.full(len(t), Phase.WORKING),
        }
        ended = {"fault": None, "ended": "duration"} if seconds is None else {"fault": fault, "ended": "fault"}
        ended["error"] = f"{fault}: why"
        rows = np.flatnonzero(~((t > missing[0]) & (t < missing[1])) & (t < (seconds or np.inf)))
        return SimpleNamespace(
            arrays={name: values[rows] for name, values in arrays.items()},
            config={"rate_hz": 100.0, "robot": "go1"},
            metrics=ended,
        )

    return lambda **options: [check for check in judge_signs(make(**options), system) if not check.passed]


def test_joints_that_move_as_commanded_are_accepted(signs):
    assert signs() == []


def test_ticks_that_a_late_loop_missed_shift_no_motion(signs):
    assert signs(missing=(1.72, 2.15)) == []


def test_two_exchanged_joints_are_named(signs):
    order = np.arange(12)
    order[[3, 7]] = 7, 3
    missed = signs(gains=np.eye(12)[order])
    assert missed[0].note.startswith("FR_hip_joint: RL_thigh_joint moved instead")


def test_a_weak_joint_is_named(signs):
    missed = signs(gains=np.diag(np.where(np.arange(12) == 5, 0.3, 1.0)))
    assert [check.what for check in missed] == ["commanded joint, farthest from 2°"]
    assert missed[0].value == pytest.approx(0.6)
    assert missed[0].note.startswith("FR_calf_joint: wrong torque constant")


@pytest.mark.parametrize("joint", [0, 4])
@pytest.mark.parametrize("share", [0.3, 0.5, 0.8])
def test_a_drive_that_needs_more_torque_than_the_weight_of_its_leg_is_named(signs, joint, share):
    missed = signs(strength=np.where(np.arange(12) == joint, share, 1.0))
    assert [check.what for check in missed] == (["torque beside the model's / tolerance"] if share < 0.75 else [])
    assert all(check.note.startswith(robots.load("go1").system().actuated_names[joint]) for check in missed)


def test_the_weight_of_a_leg_that_is_less_than_its_friction_says_nothing_of_the_drive(signs):
    assert signs(strength=np.where(np.arange(12) == 5, 0.8, 1.0)) == []
    assert signs(strength=np.where(np.arange(12) == 5, 0.3, 1.0))


def test_a_joint_that_ran_away_is_named(signs):
    missed = signs(
        gains=np.diag([1.0, 1.0, -1.0] + 9 * [1.0]), seconds=commission.REST_S + 4.0 * commission.RISE_S * 2.4
    )
    assert missed[0].value == 2  # two joints are tested
    assert missed[0].note.startswith("FL_calf_joint ran away")


def test_a_step_cut_off_by_another_fault_blames_no_joint(signs):
    assert signs(seconds=2.0, fault="hot")[0].note == "the run ended early: hot: why"


@pytest.mark.parametrize(("ticks", "passed"), [(19, True), (21, False)])
def test_a_machine_that_runs_on_after_the_emergency_stop_is_not_accepted(ticks, passed):
    mode = np.full(200, Mode.RUNNING)
    faults = np.where(np.arange(200) >= 100, int(Fault.ESTOP), 0)
    mode[100 + ticks :] = Mode.DAMPED
    run = SimpleNamespace(
        arrays={"faults": faults, "machine_mode": mode, "t": 1e-3 * np.arange(200)},
        config={"rate_hz": 1000.0},
        metrics={"fault": "estop"},
    )
    checks = judge_estop(run, None)
    assert [check.passed for check in checks] == [True, passed]
    run.metrics["fault"] = None
    assert not any(check.passed for check in judge_estop(run, None))


@pytest.mark.parametrize("fault", [Fault.SILENT, Fault.PEER, Fault.STALE, Fault.TORQUE])
def test_a_lost_connection_is_no_pressed_emergency_stop(fault):
    faults = np.where(np.arange(200) >= 100, int(fault), 0)
    run = SimpleNamespace(
        arrays={"faults": faults, "machine_mode": np.where(faults, Mode.DAMPED, Mode.RUNNING), "t": np.arange(200.0)},
        config={"rate_hz": 1000.0},
        metrics={"fault": NAMES[fault]},
    )
    assert not any(check.passed for check in judge_estop(run, None))


@pytest.mark.parametrize("key", ["power", "duration", "loop.tracking", "hoist", "loop.policy.astray.tolerate"])
def test_a_setting_that_a_step_fixes_is_refused(key, tmp_path, capsys):
    assert cli.main(["commission", "go1", "--set", f"{key}=1", "--out", str(tmp_path / "day")]) == 2
    assert f"--set {key}: the step signs always has" in capsys.readouterr().err
    assert not (tmp_path / "day").exists()


def test_steps_on_the_hoist_say_that_they_do_not_use_the_plant(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(command, "_take", lambda *_: [])
    day = ["commission", "go1", "--step", "hoist", "--step", "stand", "--out", str(tmp_path / "day"), "--json"]
    assert cli.main([*day, "--set", "plant=mujoco"]) == 0
    assert capsys.readouterr().err == "the steps hoist do not use the plant: the base of the robot is fixed\n"


def test_an_answer_before_the_operator_is_asked_is_no_answer(monkeypatch):
    keyboard, terminal = os.openpty()

    def drive(*_):
        os.write(keyboard, b"y\n")
        time.sleep(0.05)  # until the terminal has it
        assert select.select([terminal], [], [], 0.0)[0]

    with os.fdopen(terminal) as stdin:
        monkeypatch.setattr("sys.stdin", stdin)
        monkeypatch.setattr(command, "_ask", lambda *_: None)
        monkeypatch.setattr(command, "drive", drive)
        monkeypatch.setattr("idcontrol.record.recording.load", lambda _: None)
        monkeypatch.setattr("click.confirm", lambda *_, **__: bool(select.select([stdin], [], [], 0.0)[0]))
        step = STEPS[0]._replace(judge=lambda *_: [])
        (check,) = command._take(step, "go1", robots.load("go1"), "127.0.0.1:1", (), Path())
    os.close(keyboard)
    assert (step.name, check.passed) == ("signs", False)


@pytest.mark.slow
def test_a_sound_robot_passes_its_first_day(tmp_path, capsys):
    assert cli.main(["commission", "go1", "--out", str(tmp_path / "day"), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert [step["step"] for step in said["steps"]] == [step.name for step in STEPS]
    assert all(step["passed"] for step in said["steps"])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("wrong", "line"),
    [
        (lambda tau: tau * np.where(np.arange(12) == 4, -1.0, 1.0), "FR_thigh_joint ran away"),
        (lambda tau: tau[[0, 1, 2, 6, 4, 5, 3, *range(7, 12)]], "hip_joint ran away"),
    ],
    ids=["sign", "order"],
)
def test_a_wrong_drive_ends_the_day_in_the_air(wrong, line, tmp_path, monkeypatch, capsys):
    step = Hoisted.step
    monkeypatch.setattr(Hoisted, "step", lambda self, tau, dt: step(self, wrong(tau), dt))
    assert cli.main(["commission", "go1", "--out", str(tmp_path / "day")]) == 1
    assert line in capsys.readouterr().err
