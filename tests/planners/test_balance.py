import numpy as np
import pinocchio as pin
import pytest

from idcontrol.planners.balance import Balance, righting_acceleration
from idcontrol.planners.commands import Schedule
from idcontrol.types import State
from tests.planners.walker import machine


def righting(rotation, omega, gains=(100.0, 20.0)):
    return np.array(righting_acceleration(*gains, np.ascontiguousarray(rotation), np.array(omega)))


def test_roll_and_pitch_are_answered_by_opposite_accelerations_in_the_bases_axes():
    roll, pitch = 1e-4, -2e-4
    tilted = pin.rpy.rpyToMatrix(roll, pitch, 2.0)
    # First order in the tilt.
    assert righting(tilted, [0, 0, 0]) == pytest.approx([-100 * roll, -100 * pitch, 0.0], abs=100 * 1e-8)
    assert righting(np.eye(3), [0.1, -0.2, 0.3]) == pytest.approx([-2.0, 4.0, 0.0])


def tilted_state(m, planner, angle):
    state = m.standing(planner.height)
    q = state.q.copy()
    q[3:7] = pin.Quaternion(pin.rpy.rpyToMatrix(angle, 0.0, 0.0)).coeffs()
    return State(t=0.0, q=q, v=state.v)


def test_the_added_joint_accelerations_turn_the_base_over_its_standing_feet():
    m = machine("links", points=True)
    commands = Schedule([], stand_from_s=0.0)
    plain, balanced = m.planner(commands), m.planner(commands, balance=Balance(stiffness_1_s2=100.0, damping_1_s=20.0))
    plans = []
    for planner in (plain, balanced):
        planner.reset(m.standing(planner.height))
        plans.append(planner(tilted_state(m, planner, 0.01)))
    added = plans[1].a - plans[0].a
    assert np.abs(added).max() > 0.1
    # With the base accelerating by α about its origin and the joints by `added`, no foot accelerates.
    system = m.system
    system.update(system.configuration(plans[1].q, np.array([0, 0, 0, 0, 0, 0, 1.0])), np.zeros(18))
    alpha = righting(pin.rpy.rpyToMatrix(0.01, 0.0, 0.0), np.zeros(3))
    data = system.model.createData()
    q = system.configuration(plans[1].q, np.array([0, 0, 0, 0, 0, 0, 1.0]))
    pin.computeJointJacobians(system.model, data, q)
    pin.updateFramePlacements(system.model, data)
    acceleration = system.to_pinocchio(np.concatenate((np.zeros(3), alpha, added)))
    for frame in m.feet.frames:
        J = pin.getFrameJacobian(system.model, data, frame, pin.LOCAL_WORLD_ALIGNED)[:3]
        # The regularized inverse leaves 1e-10 m² over squared singular values of (3 cm)².
        assert np.abs(J @ acceleration).max() < 1e-6 * np.abs(added).max()
