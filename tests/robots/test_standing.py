"""Standing on points: margin to the edge of the feet, and load of the motors."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from idcontrol import robots
from idcontrol.planners.gait import Gait
from idcontrol.robots import standing
from tests.robots import descriptions


def test_the_margin_is_the_distance_from_the_edge_of_the_feet():
    square = np.array([[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]])
    assert standing.support_margin(square) == pytest.approx(1.0)
    assert standing.support_margin(square + np.array([3.0, 0.0])) == pytest.approx(-2.0)
    assert standing.support_margin(square[[0, 3]]) == pytest.approx(0.0, abs=1e-12)
    assert standing.support_margin(square[[0, 1]]) == pytest.approx(-1.0)
    assert standing.support_margin(square[:1]) == pytest.approx(-math.sqrt(2.0), rel=1e-6)


@settings(deadline=None)
@given(st.lists(st.tuples(st.floats(-1, 1), st.floats(-1, 1)), min_size=1, max_size=6), st.floats(0.1, 10.0))
def test_the_margin_scales_with_the_robot_and_grows_with_its_feet(feet, scale):
    points = np.array(feet)
    margin = standing.support_margin(points)
    assert standing.support_margin(scale * points) == pytest.approx(scale * margin, abs=1e-12)
    assert standing.support_margin(points[:-1]) <= margin + 1e-12 if len(points) > 1 else margin <= 1e-12


def test_a_gait_is_the_stances_of_its_feet_one_after_the_other():
    cycle = standing.stances(Gait(period_s=0.4, duty=0.75, touchdown=(0.25, 0.75, 0.75, 0.25)))
    assert [(stands.tolist(), round(lasts, 9)) for stands, lasts in cycle] == [
        ([False, True, True, False], 0.1),
        ([True, True, True, True], 0.1),
        ([True, False, False, True], 0.1),
        ([True, True, True, True], 0.1),
    ]


def test_standing_takes_the_torque_of_the_weight_about_the_knees(tmp_path):
    """All legs bend alike, so horizontal forces would move the robot: each foot carries 13 N, 48 mm behind its knee."""
    path = descriptions.write(tmp_path, old='"*" = 9, "FL_knee" = 8', new='"*" = 9')
    robot = robots.load(path)
    system = robot.system()
    system.update(robot.standing_state(system).q, np.zeros(18))
    knee = 9.81 * 5.2 / 4.0 * 0.1 * math.sin(0.5)
    assert standing.torque_share(robot, system) == pytest.approx(knee / 9.0, rel=0.04)  # the hind feet carry more
