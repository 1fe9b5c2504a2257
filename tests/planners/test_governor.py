"""The governor: the granted part of a command, its stride, and the limits of the joints."""

from functools import cache

import numpy as np
import pinocchio as pin
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from idcontrol import robots
from idcontrol.planners.commands import CommandLimits, Schedule
from idcontrol.planners.gait import Gait
from idcontrol.planners.governor import (
    MOST_TURN,
    REGAINED_S,
    SMOOTHED_S,
    STEADY,
    UNSTEADY,
    Stride,
    adopt_stride,
    govern,
    limit_joints,
    steady_pace,
)
from tests.parameters import one_fast
from tests.planners.walker import TICK, follow_exactly, machine, within_limits

ROBOTS = ("links", "solo12", "go1", "anymal")

COMMANDS = st.tuples(st.floats(-3.0, 3.0), st.floats(-3.0, 3.0), st.floats(-10.0, 10.0))


@cache
def standing(name):
    """A planner of the robot, and its gait as kernels take it: the record of a dataclass."""
    planner = machine(name).planner(Schedule.constant(0.0))
    return planner, planner._record["gait"][0]


def granted(name, command, acceleration=0.5):
    planner, gait = standing(name)
    parts = planner._parts
    return govern(tuple(map(float, command)), acceleration, gait, parts.nominal.feet, parts.ability)


def leaning(angle, heading=0.7):
    return pin.exp3(np.array([0.0, 0.0, heading])) @ pin.exp3(angle * np.array([0.6, -0.8, 0.0]))


def test_a_base_that_leans_slows_down_and_regains_its_pace_in_time():
    stride = Stride.of(Gait())

    def pace(angle, duration_s=10.0 * SMOOTHED_S):
        return [steady_pace(leaning(angle), TICK, stride) for _ in range(round(duration_s / TICK))][-1]

    assert pace(0.0) == pace(STEADY - 1e-3) == 1.0
    assert pace(0.5 * (STEADY + UNSTEADY)) == pytest.approx(0.5, abs=0.01)  # of the sine of the angle
    assert pace(UNSTEADY + 1e-3) == pytest.approx(0.0, abs=0.01)
    assert pace(0.0, 0.5 * REGAINED_S) == pytest.approx(0.5, abs=0.02)
    assert pace(0.0, 0.55 * REGAINED_S) == 1.0


@pytest.mark.parametrize("name", one_fast(ROBOTS, "links"))
def test_the_walks_of_a_robot_file_are_granted_whole_with_its_own_stride(name):
    text = robots.load(name).description.gait
    for command in ((0.0, 0.0, 0.0), (text.speed_m_s, 0.0, 0.0), (0.0, 0.0, text.turn_rad_s)):
        assert granted(name, command) == (1.0, (text.period_s, text.duty, text.step_height_m))


@settings(max_examples=50, deadline=None)
@given(st.sampled_from(ROBOTS), COMMANDS, st.floats(0.1, 1.0))
def test_less_is_granted_at_least_as_far_and_curves_keep_to_the_acceleration(name, command, part):
    share, (period, duty, _) = granted(name, command)
    v, omega = share * np.hypot(*command[:2]), share * abs(command[2])
    assert 0.0 < share <= 1.0
    assert v * omega <= 0.5 * (1 + 1e-9)
    # a robot file's own stride may exceed every bound by 15 %
    assert omega * period <= MOST_TURN * 1.15
    assert 0.5 < duty <= 0.75 + 1e-9
    less, _ = granted(name, tuple(part * value for value in command))
    assert less * part >= min(share, part) * (1 - 1e-3)


@settings(max_examples=5, deadline=None)
@given(st.sampled_from(ROBOTS), COMMANDS, COMMANDS)
def test_joint_references_stay_within_limits_for_any_command(name, first, second):
    m = machine(name)
    commands = Schedule([(0.0, *first), (0.5, *second)])
    planner = m.planner(commands, limits=CommandLimits(linear_m_s2=2.0), constant_momentum=True)
    last = None
    for _, plan in follow_exactly(m, planner, 800):
        within_limits(planner, plan, last)
        # feet that were placed for the first command are drawn in by no more than this when the second one comes
        assert plan.residual < 0.01
        last = plan


def test_a_stride_changes_when_a_foot_lands_and_no_swing_changes_its_time():
    gait = Gait(period_s=0.3, duty=0.75, touchdown=(0.25, 0.75, 0.75, 0.25))
    _, record = standing("links")  # whose touchdowns are these
    timing, stride, landed = gait.timing(0.0), Stride.of(gait), []
    stride.begin[0] = 0.0
    swings = [[], []]
    for k in range(1200):
        t = k * TICK
        before = timing.stance.copy()
        now = gait_timing(t, stride, gait, timing)
        new = (0.16, 0.53, 0.01) if t > 0.4 else (0.3, 0.75, 0.015)
        adopt_stride(t, TICK, new, record, stride, now)
        for i in (0, 1):
            if now.stance[i] and not before[i]:
                landed.append(t)
            if not now.stance[i]:
                swings[i].append(now.since_liftoff[i])
        timing = now
    assert stride.period[0] == 0.16
    # times since lift-off rise tick by tick within each swing, from less than a tick
    for times in swings:
        steps = np.diff(times)
        assert np.all((np.abs(steps - TICK) < 1e-9) | (steps < -0.06))
        assert min(times) < TICK
    gaps = np.diff(landed)
    assert gaps[0] == pytest.approx(0.15, abs=2e-3)
    assert gaps[-1] == pytest.approx(0.08, abs=2e-3)


def gait_timing(t, stride, gait, timing):
    """The timing at `t` with the present stride, in new arrays."""
    now = Gait(period_s=float(stride.period[0]), duty=float(stride.duty[0]), touchdown=gait.touchdown)
    return now.timing(t - float(stride.begin[0]))


def test_a_jump_of_the_plan_is_caught_up_at_a_milliradian_per_tick():
    m = machine("links")
    limits = m.planner(Schedule.constant(0.0))._parts.joint_limits
    reference, motion = np.full((3, 4, 3), np.nan), np.zeros((3, 4, 3))
    limit_joints(TICK, limits, motion, reference)
    assert not reference.any()
    motion[0] = 0.0205
    seen = []
    for _ in range(30):
        limit_joints(TICK, limits, motion, reference)
        seen.append(reference[0, 0, 0])
        assert not reference[1:].any()  # the reference velocity does not include the catching up
    assert np.diff(seen).max() <= 1e-3 + 1e-12
    assert seen[20] == 0.0205
