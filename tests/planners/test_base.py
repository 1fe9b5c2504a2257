import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from idcontrol.planners.base import (
    LEASH,
    BaseReference,
    Push,
    advance_base,
    command_base,
    follow_feet,
    follow_machine,
    sway_base,
    wrap,
)
from idcontrol.planners.commands import LimitedCommand

pytestmark = pytest.mark.interpreted


def step(base, dt, command, rate, position, yaw, *, height=0.2, ground=0.0):
    advance_base(dt, base)
    follow_machine(position, yaw, np.full(2, np.inf), base)
    command_base(LimitedCommand(command, rate), height, np.full(4, ground), 7.0, base)


@settings(deadline=None)  # the first call compiles
@given(st.floats(-50.0, 50.0))
def test_wrapping_keeps_the_direction(angle):
    assert -math.pi <= wrap(angle) < math.pi + 1e-12
    # Rounding of 50 rad.
    assert math.cos(wrap(angle) - angle) == pytest.approx(1.0, abs=1e-12)


def test_a_reference_at_the_machine_moves_on_the_circle_of_its_command():
    base, h = BaseReference.at_rest(), 1e-3
    base.pose[2] = 0.2
    command = np.array([0.3, 0.0, 0.6])
    # With the machine on the reference the leash is slack.
    step(base, 0.0, command, np.zeros(3), base.pose, base.pose[3])
    for _ in range(2000):
        step(base, h, command, np.zeros(3), base.pose.copy() + h * base.twist, base.pose[3] + h * base.twist[3])
    radius, turned = 0.3 / 0.6, 2.0 * 0.6
    circle = [radius * math.sin(turned), radius * (1.0 - math.cos(turned))]
    # This machine moves without the h²/2 of its acceleration, which the leash makes up: less than 1e-6 m.
    assert base.pose[:2] == pytest.approx(circle, abs=1e-5)
    assert base.pose[3] == pytest.approx(turned, abs=1e-9)


def test_the_leash_pulls_the_reference_to_a_machine_that_stays_behind():
    base, h = BaseReference.at_rest(), 1e-3
    there, yaw = np.array([0.1, -0.05, 0.0]), 3.0
    for _ in range(1000):
        step(base, h, np.zeros(3), np.zeros(3), there, yaw)
    gone = 1.0 - math.exp(-LEASH)
    # First order in time: 1 s of explicit steps of 1 ms.
    assert base.pose[:2] == pytest.approx(gone * there[:2], rel=2e-3)
    assert base.pose[3] == pytest.approx(gone * yaw, rel=2e-3)


def test_the_height_follows_a_step_of_the_ground_without_overshoot():
    base = BaseReference.at_rest()
    base.pose[2] = 0.2
    heights = []
    for _ in range(3000):
        step(base, 1e-3, np.zeros(3), np.zeros(3), np.zeros(3), 0.0, ground=0.02)
        heights.append(base.pose[2])
    assert np.all(np.diff(heights) >= -1e-12)
    assert heights[-1] == pytest.approx(0.22, abs=1e-6)
    assert max(heights) <= 0.22 + 1e-9


def test_the_reference_of_a_machine_that_is_held_stays_within_its_lead():
    base, here = BaseReference.at_rest(), np.array([1.0, 2.0, 0.2])
    lead = np.array([0.05, 0.3])
    base.pose[:] = 1.03, 2.04, 0.2, 3.3
    follow_machine(here, -3.1, lead, base)  # 0.05 m and 0.117 rad away
    assert base.pose.tolist() == [1.03, 2.04, 0.2, 3.3]
    base.pose[:] = 1.3, 2.4, 0.2, -2.5
    follow_machine(here, -3.1, lead, base)
    assert base.pose == pytest.approx([1.03, 2.04, 0.2, -2.8])


@settings(deadline=None)
@given(st.floats(-10.0, 10.0), st.floats(-10.0, 10.0), st.floats(-3.0, 3.0), st.floats(-1.5, 1.5))
def test_the_goal_of_a_standing_machine_is_the_pose_over_its_feet(x, y, yaw, off):
    nominal = np.array([[0.2, 0.1, -0.3], [0.2, -0.12, -0.3], [-0.25, 0.1, -0.3], [-0.2, -0.1, -0.3]])
    c, s = math.cos(yaw), math.sin(yaw)
    feet = nominal @ np.array([[c, s, 0.0], [-s, c, 0.0], [0.0, 0.0, 1.0]]) + [x, y, 0.0]
    goal = np.array([x + off, y - off, yaw + off])
    follow_feet(0.25 / LEASH, nominal, feet, goal)
    # A quarter of the way, in a straight line; rounding of 10 m.
    assert goal == pytest.approx([x + 0.75 * off, y - 0.75 * off, yaw + 0.75 * off], abs=1e-13)


def swaying(phase, base, touchdown=(0.2, 0.7, 0.7, 0.2), duty=0.4, period=0.3):
    """Return the sway of a base under the command (1, 0.5) m/s, with two feet on each side at half a metre."""
    arms = np.array([0.5, -0.5, 0.5, -0.5])
    push = Push(
        acceleration=9.81 / 4 * np.stack((np.zeros(4), -arms, np.ones(4), arms, arms)),
        reaction=np.tile([[0.0, 0.1, 0.0], [0.1, 0.0, 0.0]], (4, 1, 1)),
    )
    command = LimitedCommand(np.array([1.0, 0.5, 0.0]), np.zeros(3))
    sway_base(phase, 0.0, period, duty, np.array(touchdown), push, command, True, base)
    return base.sway.copy()


@pytest.mark.parametrize(("touchdown", "duty"), [((0.2, 0.7, 0.7, 0.2), 0.4), ((0.0, 0.5, 0.0, 0.5), 0.6)])
def test_a_sway_has_mean_zero_and_its_rates_are_its_derivatives(touchdown, duty):
    base = BaseReference.at_rest()
    base.extent[0] = 1.0
    phases = np.linspace(0.0, 1.0, 6001)[:-1]
    sway = np.array([swaying(phase, base, touchdown, duty) for phase in phases])
    assert np.abs(sway.mean(axis=0)).max() < 1e-5 * np.abs(sway).max()
    dt = 0.3 * (phases[1] - phases[0])
    for order in (0, 1):
        slope = (np.roll(sway[:, order], -1, axis=0) - np.roll(sway[:, order], 1, axis=0)) / (2.0 * dt)
        off = np.abs(slope - sway[:, order + 1])
        # accelerations jump where feet lift and land: at most 1 % of the rows
        assert np.quantile(off, 0.99) < 1e-3 * np.abs(sway[:, order + 1]).max()


def test_a_base_that_no_foot_bears_falls_freely():
    base = BaseReference.at_rest()
    base.extent[0] = 1.0
    falls = swaying(0.15, base)[2]  # each pair stands for 0.4 of the cycle, from 0.2 and from 0.7 on
    assert falls[2] == pytest.approx(-9.81)
    assert falls[[0, 1, 3]] == pytest.approx(0.0, abs=1e-9)
