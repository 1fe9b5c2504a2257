"""Planners and estimators from users' files, in a loop on the virtual clock."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import idcontrol as idc
from idcontrol import controllers
from idcontrol.cli import main
from idcontrol.errors import IdControlError
from idcontrol.loop import launch, own
from idcontrol.loop.launch import LoopSettings
from idcontrol.mpc import Target
from idcontrol.record.recording import load
from idcontrol.types import Sensed, State
from tests.loop.rig import Config

MINE = """
import numpy as np
from msgspec import structs
from idcontrol.types import Reference

class Still:
    def reset(self, state):
        self.calls = 0
    def __call__(self, state):
        self.calls += 1
        return Reference.standing(np.array([0.2, -0.2]), 0)

class Offset:
    rate_hz = 100.0
    def reset(self, state):
        pass
    def __call__(self, sensed):
        return structs.replace(sensed.state, q=sensed.state.q + 0.05)

class Deaf:
    def reset(self, state):
        pass

class Wrong(Still):
    def __call__(self, state):
        return state

class Fast(Still):
    rate_hz = 2000.0

class Flat(Offset):
    def __call__(self, sensed):
        return structs.replace(sensed.state, q=np.zeros(3))
"""


@pytest.fixture
def mine(tmp_path: Path) -> str:
    (tmp_path / "mine.py").write_text(MINE)
    return str(tmp_path / "mine.py")


def settings(**places: str) -> LoopSettings:
    return LoopSettings(transport="inprocess", pacing="fast", **places)


@pytest.mark.slow
def test_a_planner_from_a_file_replaces_the_planner_of_the_experiment(mine: str, tmp_path: Path) -> None:
    metrics = launch.run(
        "tests.loop.rig:offer", Config(duration_s=0.3), settings(planner=f"{mine}:Still"), tmp_path / "run"
    )
    assert metrics["ended"] == "duration"
    recorded = load(tmp_path / "run").arrays
    assert np.array_equal(recorded["q_des"][100], [0.2, -0.2])
    assert np.abs(recorded["q"][290] - [0.2, -0.2]).max() < 0.1


def test_controller_and_record_get_the_state_of_a_users_estimator(mine: str, tmp_path: Path) -> None:
    class_ = f"{mine}:Offset"
    launch.run("tests.loop.rig:offer", Config(duration_s=0.2), settings(estimator=class_), tmp_path / "run")
    seen, truth = load(tmp_path / "run").arrays, load(tmp_path / "run" / "machine").arrays
    row = np.searchsorted(truth["t"], seen["t_machine"])
    offset = seen["q"] - truth["q"][np.minimum(row, len(truth["t"]) - 1)]
    assert np.isclose(offset.max(axis=1), 0.05, atol=1e-9).sum() == pytest.approx(20, abs=1)


@pytest.mark.parametrize(
    ("places", "line"),
    [
        ({"planner": "Deaf"}, r"Deaf is no planner: it has no __call__; see idcontrol.loop.own.Planner"),
        ({"planner": "Wrong"}, r"it returned State; it must return an idcontrol.types.Reference"),
        ({"planner": "Fast"}, r"rate_hz=2000.0 must be a number above 0, up to 1000 of the loop"),
        ({"planner": "Nobody"}, r"no planner in .* 'Nobody'; known: Fast, Flat, Offset"),
        ({"estimator": "Deaf"}, r"Deaf is no estimator"),
        ({"estimator": "Flat"}, r"state.q has shape \(3,\)"),
    ],
)
def test_a_class_that_does_not_fit_is_refused_in_one_line(
    mine: str, tmp_path: Path, places: dict[str, str], line: str
) -> None:
    named = {kind: f"{mine}:{name}" for kind, name in places.items()}
    with pytest.raises(IdControlError, match=line) as raised:
        launch.run("tests.loop.rig:offer", Config(duration_s=0.2), settings(**named), tmp_path / "run")
    assert "\n" not in str(raised.value)


def test_the_command_refuses_a_bad_planner_with_status_2(
    mine: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["loop", "--transport", "inprocess", "--pacing", "fast", "--planner", f"{mine}:Deaf"]
    assert main([*asked, "--out", str(tmp_path / "run")]) == 2
    assert len(capsys.readouterr().err.strip().splitlines()) == 1


class Steady:
    """Sends one standing target at 50 Hz."""

    rate_hz = 50.0

    def __init__(self, robot: idc.robots.Robot, mu: float, rate: float) -> None:
        self.q, self.calls = robot.standing_state().q, list[float]()

    def reset(self, state: State) -> None:
        self.calls.clear()

    def __call__(self, state: State) -> Target:
        self.calls.append(state.t)
        still = np.zeros(18)
        return Target(t=state.t + 0.04, q=self.q, v=still, a=still, contacts=np.ones(4))


def test_a_planner_with_a_rate_sends_its_targets_into_a_socket() -> None:
    robot = idc.robots.load("go1")
    contacts, steady, state = robot.contacts(0.6), Steady(robot, 0.6, 1000.0), robot.standing_state()
    setup = controllers.Setup(system=contacts.system, contacts=contacts, h=1e-3, robot=robot)
    planner = own.SocketPlanner("steady", steady, setup, notes=12)
    planner.reset(state)
    for k in range(100):
        reference = planner(State(t=1e-3 * k, q=state.q, v=state.v))
    np.testing.assert_allclose(steady.calls, [0.0, 0.02, 0.04, 0.06, 0.08])
    np.testing.assert_allclose(reference.q, contacts.system.joint_positions(state.q))
    assert planner.tasks
    assert planner.halted
    assert np.isnan(planner.notes()).all()


def test_the_base_is_extrapolated_between_two_calls_of_an_estimator() -> None:
    robot = idc.robots.load("go1")
    contacts, state = robot.contacts(0.6), robot.standing_state()
    setup = controllers.Setup(system=contacts.system, contacts=contacts, h=1e-3, robot=robot)

    class Walking:
        rate_hz = 100.0

        def reset(self, state: State) -> None:
            pass

        def __call__(self, sensed: Sensed) -> State:
            v = np.zeros(18)
            v[0] = 0.5
            return State(t=sensed.state.t, q=state.q, v=v)

    estimator = own.PacedEstimator("walking", Walking(), setup, state)
    q = state.q.copy()
    q[7] += 0.1
    for t in (0.0, 0.004):
        read = Sensed(state=State(t=t, q=q, v=np.ones(18)), tau=np.zeros(12), accelerometer=np.zeros(3))
        seen = estimator(read).state
    assert seen.q[0] == pytest.approx(state.q[0] + 0.002)
    assert seen.q[7] == q[7]
    assert seen.v[:7].tolist() == [0.5, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0]


@pytest.mark.slow
def test_a_robot_that_follows_targets_of_a_users_planner_completes_its_loop(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["loop", "--robot", "go1", "--duration", "0.3", "--transport", "inprocess", "--pacing", "fast", "--json"]
    status = main([*asked, "--planner", "tests.loop.test_own:Steady", "--out", str(tmp_path / "run")])
    metrics = json.loads(capsys.readouterr().out)
    assert status == 0
    assert metrics["completed"]
    assert metrics["base_pos_err_m"] < 1e-3
