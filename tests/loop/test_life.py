"""From the first torque to the last: a machine stands up, works and lies down, and recovers after braking."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from msgspec import structs

from idcontrol import robots
from idcontrol.loop import launch
from idcontrol.loop.clock import NS
from idcontrol.loop.launch import LoopSettings
from idcontrol.loop.life import Phase, mix, smooth
from idcontrol.loop.safety import Fault, Mode
from idcontrol.plants.drive import drive_torque
from idcontrol.record.recording import load
from idcontrol.scenes.walk import WalkConfig
from tests.loop.rig import QUICK, ArmSession, H, Rig
from tests.parameters import one_fast

TARGET = "idcontrol.experiments.live:loop"
FAST = LoopSettings(transport="inprocess", pacing="fast")
PHASES = [f"the loop is {name}" for name in ("standing up", "working", "halting", "lying down")]


@pytest.fixture(scope="module")
def life(tmp_path_factory):
    """Return a function that runs a robot once, from lying to lying; it returns metrics and record folder."""

    @functools.cache
    def live(robot):
        folder = tmp_path_factory.mktemp(robot) / "run"
        return launch.run(TARGET, WalkConfig(robot=robot, duration_s=0.4), FAST, folder), folder

    return live


@pytest.mark.parametrize("robot", one_fast(("go1", "links", "solo12", "anymal"), "go1"))
def test_a_robot_stands_up_walks_and_lies_down_before_torques_end(robot, life):
    metrics, folder = life(robot)
    assert metrics["completed"]
    assert metrics["steps"] == pytest.approx(400, abs=1)  # ticks of work
    assert metrics["end_speed_m_s"] < 0.01
    assert 2.0 <= metrics["phases_s"]["standing_up"] <= 3.0
    run, body = load(folder), load(folder / "machine").arrays
    assert [event["what"] for event in run.events if event["what"] in PHASES] == PHASES
    of, height = run.arrays, body["q"][:, 2]
    stood = of["q"][of["phase"] == Phase.STANDING_UP][-1, 2]
    home = robots.load(robot).standing_state().q[2]
    assert stood == pytest.approx(home, abs=0.001)
    # a quarter of a metre in two seconds
    for phase in (Phase.STANDING_UP, Phase.LYING_DOWN):
        assert np.linalg.norm(of["v"][of["phase"] == phase, :3], axis=1).max() < 0.4
        assert np.abs(of["q"][of["phase"] == phase, 3:5]).max() < 0.01  # level
    ended = int(np.argmax(body["mode"] >= Mode.DAMPED))
    assert height[ended:].max() - height[ended:].min() < 1e-3  # its body carries it before torques end
    assert height[-1] == pytest.approx(height[0], abs=1e-3)


def test_no_torque_jumps_at_handovers_between_path_and_controller(life):
    of = load(life("go1")[1]).arrays
    steps = np.abs(np.diff(of["tau_applied"], axis=0)).max(axis=1)
    for phase in (Phase.WORKING, Phase.LYING_DOWN):
        begins = int(np.argmax(of["phase"] == phase))
        # the commands differ by several N m, and are mixed over a hundred periods
        assert steps[begins : begins + 100].max() < 0.3


@pytest.mark.slow
def test_a_robot_that_stands_is_taken_over_at_once(tmp_path):
    how = structs.replace(FAST, start="standing")
    metrics = launch.run(TARGET, WalkConfig(robot="go1", duration_s=0.4), how, tmp_path / "run")
    assert metrics["completed"]
    assert metrics["phases_s"]["standing_up"] < 0.4


@pytest.mark.slow
def test_a_signal_while_it_stands_up_makes_it_lie_down_again(tmp_path, monkeypatch):
    monkeypatch.setattr(launch._Work, "_asked", lambda work: work.parts.system is not None)  # from the first tick on
    metrics = launch.run(TARGET, WalkConfig(robot="go1", duration_s=0.4), FAST, tmp_path / "run")
    assert metrics["ended"] == "fault"  # no signal, and not the end of the duration
    assert load(tmp_path / "run").arrays["mode"][-1] == Mode.STOPPED
    assert metrics["phases_s"]["working"] == 0.0
    assert metrics["steps"] == 0


# --- mixing ---

rows = hnp.arrays(np.float64, (5, 2), elements=st.floats(0.0, 50.0))
states = hnp.arrays(np.float64, 2, elements=st.floats(-2.0, 2.0))


@given(rows, rows, states, states, st.floats(0.0, 1.0))
def test_drives_give_the_mean_of_the_torques_of_two_commands_that_are_mixed(before, after, q, v, share):
    free = np.full(2, np.inf)
    mix(before, both := after.copy(), share)
    commands = before, after, both
    torques = [drive_torque(command, command[1] - q, v, free) for command in commands]
    expected = (1.0 - share) * torques[0] + share * torques[1]
    # rounding of products of gains and positions of up to 50 each
    np.testing.assert_allclose(torques[2], expected, rtol=0, atol=1e-9)


def test_a_path_begins_and_ends_at_rest():
    assert (smooth(0.0), smooth(1.0)) == ((0.0, 0.0), (1.0, 0.0))
    at, h = np.linspace(0.0, 1.0, 1001), 1e-6
    for u in at[1:-1]:
        assert smooth(u)[1] == pytest.approx((smooth(u + h)[0] - smooth(u - h)[0]) / (2 * h), rel=1e-6, abs=1e-9)


# --- armed, braked, recovered ---

ESTOP = 5
"""Index of the emergency stop in `Machine.health` of an arm of two joints."""


def test_an_attended_loop_sends_no_torque_before_it_is_armed():
    rig = Rig(attended=True, duration_s=0.1)
    rig.run(acts=[7.0])  # longer than the machine may take to become ready
    ready = [row for row in rig.rows if int(row["mode"]) == Mode.READY]
    assert len(ready) == pytest.approx(7000, abs=100)
    assert not np.any([row["tau"] for row in ready])
    assert rig.loop.counts.complete


def test_one_act_of_the_operator_recovers_a_braked_machine_and_the_next_arms_it():
    rig = Rig(attended=True, duration_s=0.3, policy=structs.replace(QUICK, damp_s=0.2))
    rig.clock.at(round(0.15 * NS), lambda: rig.machine.health.__setitem__(ESTOP, 1.0))
    rig.clock.at(round(1.0 * NS), lambda: rig.machine.health.__setitem__(ESTOP, 0.0))
    rig.run(acts=[0.01, 0.8, 1.5, 2.0])  # arm; too early; recover; arm
    expected = [Mode.READY, Mode.ARMED, Mode.RUNNING, Mode.DAMPED]
    assert rig.modes() == [*expected, *expected, Mode.STOPPED]
    damped = [k for k, row in enumerate(rig.rows) if int(row["mode"]) == Mode.DAMPED]
    assert rig.rows[damped[0]]["tick"] * H == pytest.approx(0.15, abs=0.02)
    recovered = next(k for k in range(damped[0], len(rig.rows)) if int(rig.rows[k]["mode"]) == Mode.READY)
    assert rig.rows[recovered]["tick"] * H == pytest.approx(1.5, abs=0.02)
    assert rig.loop.counts.complete
    assert rig.loop.safety.ended_by == Fault.NONE  # its second life ended normally
    # meanwhile the machine continued to brake, and commands did not move it
    modes = rig.modes(rig.machine_rows)
    assert modes[-6:] == [Mode.RUNNING, Mode.DAMPED, Mode.READY, Mode.RUNNING, Mode.DAMPED, Mode.STOPPED]


def test_each_arming_has_a_new_estimator():
    """Making an estimator takes so long that the machine would count as silent."""
    estimators = []

    def make():
        number = len(estimators)
        estimators.append((rig.loop.safety.mode, used := []))

        def sense(sensed):
            used.append(number)
            return sensed.state

        return sense

    policy = structs.replace(QUICK, damp_s=0.2)
    rig = Rig(attended=True, duration_s=0.3, policy=policy, parts={"sense": make})
    rig.clock.at(round(0.15 * NS), lambda: rig.machine.health.__setitem__(ESTOP, 1.0))
    rig.clock.at(round(1.0 * NS), lambda: rig.machine.health.__setitem__(ESTOP, 0.0))
    rig.run(acts=[0.01, 1.5, 2.0])  # arm, recover, arm
    assert rig.loop.counts.complete
    modes, used = zip(*estimators, strict=True)
    assert modes == (Mode.IDLE, Mode.IDLE, Mode.READY)  # the first estimator only warms
    assert len(used[0]) == 1
    assert len(used[1]) > 100
    assert len(used[2]) > 200


def test_a_braked_machine_ends_on_request():
    rig = Rig(attended=True, duration_s=5.0, policy=structs.replace(QUICK, damp_s=0.2))
    rig.clock.at(round(0.15 * NS), lambda: rig.machine.health.__setitem__(ESTOP, 1.0))
    rig.run(acts=[0.01], damp_at=1.0)
    assert rig.modes()[-2:] == [Mode.DAMPED, Mode.STOPPED]
    assert rig.rows[-1]["tick"] * H == pytest.approx(1.0, abs=0.05)
    assert rig.loop.safety.ended_by == Fault.ESTOP


class Folded(ArmSession):
    """An arm that starts 1.2 rad from its planned position."""

    def __init__(self, config=None):
        super().__init__(config)
        self.start = structs.replace(self.start, q=np.array([1.2, 0.0]))


def test_torques_never_begin_at_a_pose_far_from_the_plan():
    rig = Rig(session=Folded(), policy=structs.replace(QUICK, start_s=0.05))
    rig.run()
    assert Mode.RUNNING not in rig.modes()
    assert rig.loop.safety.ended_by == Fault.ASTRAY
    assert not np.any([row["tau"] for row in rig.rows])
