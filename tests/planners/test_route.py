"""Footsteps along a route: within the limits of a step, and on the route in time."""

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from idcontrol.planners.dcm import Steps, compose
from idcontrol.planners.route import Route, Way, drawn, footsteps, pose_at

HOME = np.array([[0.0, 0.1, 0.0], [0.0, -0.1, 0.0]])
WALK, GROUPS = Steps(single_s=0.5, double_s=0.2), [(0,), (1,)]
PERIOD = WALK.single_s + WALK.double_s


def walked(way, feet, lift_s, steps):
    """Return the poses of both feet after each step, placed anew before each, shape (steps, 2, 3)."""
    out = []
    for k in range(steps):
        groups = GROUPS[k % 2 :] + GROUPS[: k % 2]
        for step in footsteps(way, WALK, feet, HOME, groups, lift_s + k * PERIOD)[:1]:
            feet = feet.copy()
            feet[list(step.feet)] = step.places
        out.append(feet)
    return np.array(out)


@pytest.mark.parametrize(
    "move", [(1.0, 0.0, 0.6), (0.0, 0.3, 0.0), (0.0, -0.3, 0.0), (0.0, 0.0, -0.8), (-0.5, 0.0, 0.0)]
)
def test_feet_arrive_at_a_waypoint_and_stop(move):
    way = Way(np.array([3.0, 8.0]), np.array([(0.0, 0.0, 0.0), move]), Route())
    feet = walked(way, HOME, 3.0, 12)
    np.testing.assert_allclose(feet[-1], [compose(np.array(move), beside) for beside in HOME], atol=1e-12)
    assert footsteps(way, WALK, feet[-1], HOME, GROUPS, 12.0) == []


def test_each_foot_lands_half_a_step_ahead_of_the_route():
    way = Way(np.array([0.0, 5.0]), np.array([(0.0, 0.0, 0.0), (1.0, 0.0, 0.0)]), Route())
    for k, feet in enumerate(walked(way, HOME, 0.0, 5)):
        lands = k * PERIOD + WALK.single_s
        assert feet[k % 2, 0] == pytest.approx(pose_at(way, lands + 0.5 * PERIOD)[0], abs=1e-12)


@given(st.integers(0, 10**6), st.floats(-0.5, 0.5), st.floats(-0.5, 0.5), st.floats(-0.5, 0.5))
def test_steps_keep_their_limits_and_bring_a_pushed_machine_back(seed, x, y, yaw):
    limits = Route(count=2, far_m=0.5, turn_rad=0.5)
    way = drawn(limits, np.zeros(3), 0.0, np.random.default_rng(seed))
    at = np.array([compose(np.array([x, y, yaw]), beside) for beside in HOME])
    feet = walked(way, at, 0.0, 40)
    for k, (left, right) in enumerate(feet):
        moved, other, side = (left, right, 1.0) if k % 2 == 0 else (right, left, -1.0)
        c, s = np.cos(other[2]), np.sin(other[2])
        ahead, aside = np.array([[c, s], [-s, c]]) @ (moved - other)[:2]
        assert abs(ahead) <= limits.step_m + 1e-9
        assert 0.16 - 1e-9 <= side * aside <= 0.2 + limits.aside_m + 1e-9  # feet never cross
        assert abs(moved[2] - other[2]) <= limits.step_turn_rad + 1e-9
    np.testing.assert_allclose(feet[-1].mean(axis=0), way.poses[-1], atol=0.02)


@pytest.mark.parametrize("moved", [0, 1])
def test_a_route_does_not_end_while_a_foot_is_off_its_place(moved):
    way = Way(np.array([0.0, 5.0]), np.zeros((2, 3)), Route())
    feet = HOME.copy()
    feet[moved, 0] += 0.05
    steps = footsteps(way, WALK, feet, HOME, GROUPS, 6.0)
    assert [step.feet for step in steps] == GROUPS[: moved + 1]
    for step in steps:
        feet[list(step.feet)] = step.places
    np.testing.assert_allclose(feet, HOME, atol=1e-12)


def test_feet_whose_measured_yaws_jump_at_half_a_turn_step_alike():
    way = Way(np.array([0.0, 5.0]), np.array([(0.0, 0.0, 3.0), (0.0, 0.0, 3.6)]), Route())
    feet = np.array([compose(np.array([0.0, 0.0, 3.2]), beside) for beside in HOME])
    jumped = feet - np.array([0.0, 0.0, 2.0 * np.pi])
    steps, again = (footsteps(way, WALK, each, HOME, GROUPS, 1.0) for each in (feet, jumped))
    for step, other in zip(steps, again, strict=True):
        np.testing.assert_allclose(step.places, other.places, atol=1e-12)
