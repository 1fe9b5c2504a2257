import math

import numpy as np
import pinocchio as pin
import pytest
from scipy.interpolate import CubicSpline

from idcontrol.errors import InputError
from idcontrol.planners.commands import Schedule, VelocityCommand
from idcontrol.planners.gait import Gait
from idcontrol.planners.paper import IK_TOLERANCE, LINKS_NOMINAL, OriginalWaypoints, PaperPlanner, clamped_spline
from tests.planners.walker import TICK, machine

pytestmark = pytest.mark.interpreted

POINTS = (0.02, 0.035, 0.075, 0.06)
KNOT = 0.025


def test_the_swing_spline_is_the_clamped_cubic_through_four_points():
    exact = CubicSpline(KNOT * np.arange(4), POINTS, bc_type="clamped")
    for t in np.linspace(0.0, 3 * KNOT, 40):
        assert clamped_spline(*POINTS, KNOT, t) == pytest.approx([float(exact(t, k)) for k in range(3)], abs=1e-9)


def paper_planner(commands, **options):
    m = machine("links")
    options = {"gait": Gait(start_s=0.0), "nominal": LINKS_NOMINAL, **options}
    return m, PaperPlanner(m.system, m.feet, m.home, commands=commands, **options)


def walk(m, planner, steps, speed=0.2):
    """A machine that moves as commanded and whose joints are where they should be."""
    height = 0.171853
    state = m.standing(height)
    planner.reset(state)
    for k in range(steps):
        plan = planner(state)
        yield plan
        pose = np.array([speed * (k + 1) * TICK, 0.0, height, 0.0])
        state = m.state((k + 1) * TICK, pose, np.array([speed, 0.0, 0.0, 0.0]), plan.q, plan.v)


def test_feet_land_half_a_period_of_travel_ahead_of_the_nominal_feet():
    m, planner = paper_planner(Schedule.constant(0.2))
    plans = list(walk(m, planner, 700))
    for i in range(4):
        stance = np.array([plan.stance[i] for plan in plans])
        last = np.flatnonzero(~stance[:-1] & stance[1:])[-1]
        in_base = plans[last].feet[i] - [0.2 * last * TICK, 0.0, 0.171853]
        # s = v T/2 = 3 cm; one tick before the end of a swing that ends at rest.
        assert in_base == pytest.approx(LINKS_NOMINAL[i] + [0.03, 0.0, 0.0], abs=1e-4)


def test_standing_feet_integrate_the_command_open_loop():
    m, planner = paper_planner(Schedule.constant(0.2, 0.0, 0.3), gait=Gait(start_s=0.0))
    plans = list(walk(m, planner, 160))
    # RF and LH swing from 0.15 s; LF and RH stand from 0.075 s on, after the filter of 10 ticks has filled.
    before, after = plans[100].feet - [0.02, 0, 0], plans[101].feet - [0.0202, 0, 0]
    for i in (0, 3):
        r = after[i] - [0.0, 0.0, 0.171853]
        expected = -np.array([0.2 - 0.3 * r[1], 0.3 * r[0], 0.0])
        # The lever arm belongs to the measured foot, which is within the solver's 1.5 mm of the goal of the previous
        # tick.
        assert (after[i] - before[i]) / TICK == pytest.approx(expected, abs=0.3 * (IK_TOLERANCE + 1e-3))


def test_the_velocity_goal_is_zero_and_the_inverse_kinematics_coarse():
    m, planner = paper_planner(Schedule.constant(0.2))
    plans = list(walk(m, planner, 300))
    assert not any(plan.v.any() for plan in plans)
    residuals = np.array([plan.residual for plan in plans])
    assert residuals.max() <= IK_TOLERANCE
    assert residuals.max() > 1e-5


def test_joint_accelerations_are_the_compromise_with_a_shank_that_does_not_turn():
    m, planner = paper_planner(Schedule.constant(0.2))
    plans = list(walk(m, planner, 40))
    data = m.system.model.createData()
    q = m.system.configuration(plans[-1].q, np.array([0, 0, 0, 0, 0, 0, 1.0]))
    pin.computeJointJacobians(m.system.model, data, q)
    pin.updateFramePlacements(m.system.model, data)
    goal = planner.goals.motion[2]
    for i, frame in enumerate(m.feet.frames):
        J = pin.getFrameJacobian(m.system.model, data, frame, pin.LOCAL_WORLD_ALIGNED)[:, 6 + 3 * i : 9 + 3 * i]
        expected = np.linalg.pinv(J) @ np.concatenate((goal[i], np.zeros(3)))
        assert plans[-1].a[3 * i : 3 * i + 3] == pytest.approx(expected, rel=1e-9, abs=1e-9)


def test_the_original_waypoint_rule_turns_at_full_rate_and_never_slows_down():
    waypoints = OriginalWaypoints([(1.0, 0.0), (0.0, 1.0)], speed=0.2, turn=1.0)
    waypoints.reset(np.zeros(3))
    assert waypoints(0.0, np.zeros(3), -0.5) == VelocityCommand(omega=1.0)
    assert waypoints.turning
    assert waypoints(0.0, np.zeros(3), 0.2) == VelocityCommand(v_x=0.2 * math.cos(0.2), omega=pytest.approx(-0.2))
    assert waypoints(0.0, np.array([0.89, 0.0, 0.0]), 0.0).v_x == pytest.approx(0.2)
    waypoints(0.0, np.array([0.91, 0.0, 0.0]), 0.0)
    assert waypoints.reached == 1
    assert waypoints.target.tolist() == [0.0, 1.0]


def test_gaits_and_waypoints_that_do_not_fit_are_refused():
    with pytest.raises(InputError, match="touchdowns"):
        paper_planner(Schedule.constant(0.0), gait=Gait(touchdown=(0.5,)))
    for points in ([], [(0.0, 1.0), (0.0,)]):
        with pytest.raises(InputError, match="list of"):
            OriginalWaypoints(points, speed=0.2, turn=1.0)
