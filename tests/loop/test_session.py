"""Sessions of walks, and the format of their datagrams."""

from __future__ import annotations

import numpy as np
import pytest
from msgspec import structs

from idcontrol import robots
from idcontrol.errors import InputError
from idcontrol.loop.session import wire_format
from idcontrol.loop.wire import within
from idcontrol.scenes.disturbances import Disturbance
from idcontrol.scenes.walk import WalkConfig, WalkPath
from idcontrol.sensing import Sensing
from tests.scenes import loops


@pytest.mark.parametrize("robot", ["links", "go1", "solo12", "anymal"])
def test_every_walking_robot_fits_the_wire_and_has_finite_limits(robot):
    session = loops.walk.session(WalkConfig(robot=robot))
    wire, limits = wire_format(session), session.limits
    values = np.empty(wire.state_values)
    wire.write_state(values, session.start, np.zeros(12), np.zeros(3))
    low, high = wire.state_range()
    assert within(low, values, high)
    for field in (limits.torque, limits.torque_rate, limits.speed, limits.damping):
        assert np.isfinite(field).all()
        assert (field > 0).all()
    joints = session.system.joint_positions(session.start.q)
    assert ((limits.low < joints) & (joints < limits.high)).all()


def test_the_gate_of_a_robot_has_the_limits_that_its_makers_give():
    session = loops.walk.session(WalkConfig(robot="go1"))
    limits, torque = session.limits, np.tile([23.7, 23.7, 35.55], 4)
    np.testing.assert_array_equal(limits.torque, torque)
    np.testing.assert_array_equal(wire_format(session).torque_limit, torque)
    np.testing.assert_array_equal(limits.torque_rate, np.full(12, 2000.0))  # of the robot file
    np.testing.assert_array_equal(limits.speed, np.tile([30.1, 30.1, 20.06], 4))
    np.testing.assert_array_equal(limits.low, np.tile([-0.863, -0.686, -2.818], 4))
    np.testing.assert_array_equal(limits.high, np.tile([0.863, 4.501, -0.888], 4))


def test_limits_of_the_robot_file_reach_brake_drives_and_supply(tmp_path):
    file = tmp_path / "robot.toml"
    text = robots.load("go1").path.read_text()
    text = text.replace("[limits]", "[limits]\ntemperature_c = 70\nvoltage_v = [21.5, 29.4]")
    file.write_text(text + '\n[gains]\nbrake_nm_s_rad = { "*_calf_joint" = 5 }\n')
    limits = loops.walk.session(WalkConfig(robot=str(file), power=0.4)).limits
    np.testing.assert_array_equal(limits.damping, np.tile([2.0, 2.5, 5.0], 4))  # other joints: of gains.torque
    np.testing.assert_allclose(limits.torque, 0.4 * np.tile([23.7, 23.7, 35.55], 4), rtol=1e-15)
    assert (limits.hot_c, limits.voltage_v) == (70.0, (21.5, 29.4))
    assert limits.least_share == pytest.approx(0.25)  # a tenth of full power
    whole = loops.walk.session(WalkConfig(robot="go1")).limits
    assert (whole.least_share, whole.hot_c, whole.voltage_v) == (1.0, 80.0, (0.0, 1e6))


def test_a_loop_senses_by_its_own_settings_and_says_so():
    with pytest.raises(InputError, match=r"loop\.sensing"):
        loops.walk.session(WalkConfig(sensing=Sensing(base="estimated")))


def test_the_schedule_error_of_a_walk_reaches_the_controller_of_its_loop():
    def plan(late_s):
        session = loops.walk.session(WalkConfig(robot="go1", disturbance=Disturbance(touchdown_late_s=late_s)))
        planner = session.planner()
        planner.reset(session.start)
        return [planner(structs.replace(session.start, t=t)) for t in np.arange(0.0, 0.8, 2e-3)]

    late = []
    for right, wrong in zip(plan(0.0), plan(0.02), strict=True):
        landed = right.stance & np.isfinite(right.since_touchdown)
        late += list(wrong.since_touchdown[landed] - right.since_touchdown[landed])
    assert len(late) > 100
    np.testing.assert_allclose(late, 0.02, rtol=1e-9)


def test_a_walk_follows_the_joystick_of_its_machine_and_stands_without_one():
    session = loops.walk.session(WalkConfig(robot="go1", path=WalkPath(kind="joystick")))
    planner = session.planner()
    planner.reset(session.start)
    planner(session.start)
    np.testing.assert_array_equal(planner.notes()[:3], 0.0)
    planner.steer(np.array([0.004, -0.03, 0.049, 0.0]))  # a released stick
    planner(structs.replace(session.start, t=session.start.t + 0.0005))
    np.testing.assert_array_equal(planner.notes()[:3], 0.0)
    planner.steer(np.array([0.525, -1.0, 1.0, 0.0]))  # halfway between the dead band of 0.05 and the end
    for t in (0.001, 1.0):  # it does not start to walk immediately
        planner(structs.replace(session.start, t=session.start.t + t))
    # half of the speed ahead, the full speed to the right, the full turn: the robot file has 0.4 m/s and 0.6 rad/s
    np.testing.assert_allclose(planner.notes()[:3], [0.2, -0.4, 0.6])
    planner.steer(np.array([0.525, -1.02, 5.0, 0.0]))  # a stick that is not calibrated commands no more
    planner(structs.replace(session.start, t=session.start.t + 1.0005))
    np.testing.assert_allclose(planner.notes()[:3], [0.2, -0.4, 0.6])
    planner.steer(np.full(4, np.nan))
    planner(structs.replace(session.start, t=session.start.t + 1.001))
    np.testing.assert_array_equal(planner.notes()[:3], 0.0)
