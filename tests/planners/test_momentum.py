import numpy as np
import pinocchio as pin
import pytest

from idcontrol.planners.commands import Schedule
from tests.parameters import one_fast
from tests.planners.walker import TICK, Smooth, follow_exactly, machine

# Feet are points: the acceleration of the plan ignores the velocity of rolling.
ROBOTS = ("links", "solo12", "anymal")
TURNING = [(0.0, 0.2, 0.0, 0.0), (0.6, 0.1, 0.05, 0.5)]


def planned_momentum(m, planner, plan, data):
    """Momentum of the planned motion about its centre of mass, world axes: linear, angular."""
    # Joint velocities of a plan are means over the last tick; the momentum is that of the instant.
    state = m.state(0.0, planner.base.pose, planner.base.twist, plan.q, plan.v + 0.5 * TICK * plan.a)
    pin.computeCentroidalMomentum(m.system.model, data, state.q, state.v)
    return data.hg.vector.copy()


def commanded_momentum(m, planner, twist, yaw, data):
    """Momentum of the machine that moves rigidly in its nominal stance with `twist` of the base (x, y, z, yaw)."""
    pose = np.array([0.0, 0.0, planner.height, yaw])
    state = m.state(0.0, pose, twist, m.home, np.zeros_like(m.home))
    pin.computeCentroidalMomentum(m.system.model, data, state.q, state.v)
    return data.hg.vector.copy()


@pytest.mark.parametrize("name", one_fast(ROBOTS, "links"))
def test_the_planned_motion_has_the_commanded_momentum(name):
    m = machine(name, points=True)
    planner = m.planner(Schedule(TURNING), constant_momentum=True)
    data = m.system.model.createData()
    worst, most_yield = 0.0, 0.0
    for _, plan in follow_exactly(m, planner, 1500):
        yaw = planner.base.pose[3]
        c, s = np.cos(yaw), np.sin(yaw)
        v_x, v_y, omega = planner.command
        twist = np.array([c * v_x - s * v_y, s * v_x + c * v_y, 0.0, omega])
        most_yield = max(most_yield, float(np.abs(planner.base.twist - twist).max()))
        error = planned_momentum(m, planner, plan, data) - commanded_momentum(m, planner, twist, yaw, data)
        worst = max(worst, float(np.abs(error[[0, 1, 5]]).max()))
    # The base yields by centimetres and tenths of a radian per second. What is left is the leash, which pulls at the
    # one-tick error of the machine that follows, and swinging legs, whose angles are seen from that machine.
    assert most_yield > 0.02
    assert worst < 1e-3 * m.system.mass * most_yield


def test_the_acceleration_of_the_yielding_base_is_the_derivative_of_its_velocity():
    m, h = machine("links", points=True), 1e-4
    planner = m.planner(Smooth(), constant_momentum=True)
    rows = [
        (planner.base.twist.copy(), planner.base.rate.copy(), plan.stance.copy())
        for _, plan in follow_exactly(m, planner, 8000, h)
    ]
    twist, rate, stance = (np.array(x) for x in zip(*rows, strict=True))
    difference = (twist[2:] - twist[:-2]) / (2 * h)
    # Velocities jump where feet lift or land: leave out ticks whose differences include a jump.
    same = np.all(stance[2:] == stance[:-2], axis=1)
    error = np.abs(difference - rate[1:-1])
    # The command needs 0.24 m/s²; yielding needs more, and its accelerations vary at 300 1/s. Differences miss h²/6 of
    # the second derivative of accelerations.
    assert np.abs(rate[:, 0]).max() > 0.5
    assert error[same][:, [0, 1]].max() < 1e-3
    assert error[same][:, 3].max() < 1e-2


@pytest.mark.slow
def test_a_yielding_base_follows_its_command_on_average():
    m = machine("links")
    planner = m.planner(Schedule.constant(0.2), constant_momentum=True)
    plain = m.planner(Schedule.constant(0.2))
    ends = [[planner_.base.pose.copy() for _ in follow_exactly(m, planner_, 2000)][-1] for planner_ in (planner, plain)]
    # One swing displaces the base by millimetres; over six gait cycles that does not add up.
    assert np.abs(ends[0] - ends[1]).max() < 3e-3
