"""The motion between lying and standing, and the end of the walk, from which lying down begins."""

import re

import numpy as np
import pytest
from msgspec import structs

from idcontrol import robots
from idcontrol.planners.rise import SPARE, carrying
from idcontrol.scenes.walk import WalkConfig, WalkPath
from tests.parameters import one_fast
from tests.scenes import loops

ROBOTS = ["links", "solo12", "go1", "anymal"]


@pytest.fixture(scope="module", params=one_fast(ROBOTS, "links"))
def session(request):
    return loops.walk.session(WalkConfig(robot=request.param))


def spheres(session):
    """Return contacts of the feet, followed by the spheres on which the robot lies, with a system of their own."""
    return robots.load(session.robot).contacts(0.8, supports=True)


def test_a_lying_robot_touches_the_ground_with_feet_and_belly_and_can_stand_up(session):
    whole = spheres(session)
    whole.system.update(session.lying.q, session.lying.v)
    whole.detect(np.inf)
    np.testing.assert_allclose(whole.gap, 0.0, atol=1e-4)  # of the inverse kinematics of the feet
    way = session.between().way
    assert way.problem(way.lying) == ""
    limits = session.limits
    assert ((limits.low <= way.lying) & (way.lying <= limits.high)).all()


def test_on_the_way_feet_roll_in_place_and_joints_move_at_the_set_speed(session):
    whole, way, h = spheres(session), session.between().way, 1e-3
    system, feet = whole.system, len(session.feet)
    way.begin(way.lying, down=False)
    before = None
    for share in np.arange(0.0, 1.0, h):
        at = way(share, 1.0)
        system.update(system.configuration(at.q), system.from_pinocchio(np.zeros(system.n_velocities)))
        rows = whole.detect(np.inf).jacobian[:, system.n_unactuated :]
        gap = whole.gap[:feet] - whole.gap[:feet].min()
        # level: all feet are as far below the base
        np.testing.assert_allclose(gap, 0.0, atol=2e-4)
        if share > 0.05:  # rolling lags by a step, and has begun by then
            # joints move by what their velocities say, up to h² of a curve
            np.testing.assert_allclose((at.q - before.q) / h, (at.v + before.v) / 2.0, rtol=0, atol=2e-2)
            # as seen from the base contact points move straight down, all alike: no foot slides on the ground
            normal, *across = (rows @ at.v).reshape(3, -1)[:, :feet]
            np.testing.assert_allclose(normal, normal.mean(), rtol=0, atol=1e-4)
            np.testing.assert_allclose(across, 0.0, rtol=0, atol=1e-4)
        before = at


def test_carrying_torques_balance_the_weight_with_the_smallest_contact_forces(session):
    contacts = robots.load(session.robot).contacts(0.8)
    system = contacts.system
    system.update(session.start.q, np.zeros(system.n_velocities))
    torque = carrying(contacts)
    u, jacobian = system.n_unactuated, contacts.detect(np.inf).jacobian
    force = np.linalg.lstsq(jacobian[:, :u].T, system.bias[:u], rcond=None)[0]
    # the smallest forces that hold the base are in equilibrium with these torques
    residual = jacobian.T @ force + np.concatenate((np.zeros(u), torque)) - system.bias
    assert np.abs(residual).max() < 1e-9 * np.abs(system.bias).max()
    assert np.abs(torque).max() < SPARE * system.effort_limit.max()


def go1():
    return loops.walk.session(WalkConfig(robot="go1")).between().way


@pytest.mark.parametrize(
    ("joints", "line"),
    [
        ([0.0, 0.8, -2.95] * 4, r"F._calf_joint is at -2.95 rad, beyond its limits of -2.82 to -0.89; move it back"),
        ([0.0, 3.5, -1.0] * 4, r"a foot is 407 mm above the ground on which the body lies; fold the legs"),
        (
            [0.0, -0.4, -0.9] * 4,
            r"carry the machine R._thigh_joint would need 21\.7 N m of 23\.7, more than 90%; fold the legs",
        ),
    ],
)
def test_an_unsuitable_lying_pose_is_reported_in_one_line(joints, line):
    assert re.search(line, go1().problem(np.array(joints)))


def test_a_standing_robot_has_no_path_up_and_the_whole_path_down():
    way = go1()
    home = robots.load("go1").home_joints(loops.walk.session(WalkConfig(robot="go1")).system.actuated_names)
    way.begin(home, down=False)
    assert way.share < 1e-6
    way.begin(home, down=True)
    assert way.share == pytest.approx(1.0)


def test_a_halted_walk_ends_with_feet_farther_out_until_a_reset():
    session = loops.walk.session(WalkConfig(robot="go1", path=WalkPath(kind="command", command=[(0.0, 0.3, 0.0, 0.0)])))
    noted = session.planner()
    planner, nominal, state, h = noted.planner, noted.planner.nominal.copy(), session.start, 2e-3

    def walk(seconds):
        """Follow the plan exactly."""
        nonlocal state
        for _ in range(round(seconds / h)):
            reference = noted(state)
            system = session.system
            half = reference.base_yaw / 2.0
            base = np.concatenate((reference.base_position, [0.0, 0.0, np.sin(half), np.cos(half)]))
            v = np.concatenate((planner.base.twist[:3], np.zeros(3), reference.v))
            state = structs.replace(state, t=state.t + h, q=system.configuration(reference.q, base), v=v)
            if noted.halted:
                return

    noted.reset(state)
    walk(1.0)
    assert not noted.halted
    noted.halt()
    walk(4.0)
    assert noted.halted
    out = np.abs(planner.plan.position[:, 1] - state.q[1])
    np.testing.assert_allclose(out, np.abs(nominal[:, 1]) + 0.05, atol=0.01)
    noted.reset(state)
    np.testing.assert_array_equal(planner.nominal, nominal)
    assert not noted.halted
