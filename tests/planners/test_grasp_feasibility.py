"""Grasp feasibility: kinematics by differences, statics by hand, an independent cone program, monotony."""

import cvxpy
import numpy as np
import pinocchio as pin
import pytest

from idcontrol.planners.arm_swing import ArmSwing
from idcontrol.planners.grasp_feasibility import MU_PRECISION, grasp_loads, grip_needed, least_friction, least_grip
from tests.planners import hands

pytestmark = pytest.mark.interpreted

UP = np.array([0.0, 0.0, 9.81])
"""Acceleration against gravity [m/s²]."""


def swing(amplitude):
    home = np.array([np.pi / 2] * 7 + [np.pi / 4] * 4)
    return ArmSwing(home=home, arm=~hands.FINGERS, amplitude=amplitude, rate=10.0, closing=0.0, tips=4)


def asked(amplitude, times):
    system, tips, _ = hands.machine()
    return grasp_loads(system, tips, [swing(amplitude).at(t) for t in times], "box", "X_7")


@pytest.fixture(scope="module")
def plan():
    """Four instants of the paper's swing."""
    return asked(0.1, 2.0 * np.pi / 10.0 * np.arange(4) / 4)


def test_the_box_is_asked_to_move_with_the_hand():
    """Force and torque on it are m (a - g) and I ω̇, with a and ω̇ by differences of poses; its I is isotropic."""
    t, h = 0.2, 1e-4
    (load,) = asked(0.1, [t])
    system, _, q = hands.machine()
    model, data = system.model, system.data
    hand, box = model.getJointId("X_7"), model.getJointId("box")
    pin.forwardKinematics(model, data, q)
    inside = data.oMi[hand].actInv(data.oMi[box])
    poses = []
    for step in (-h, 0.0, h):
        pin.forwardKinematics(model, data, system.configuration(swing(0.1).at(t + step).q))
        poses.append(data.oMi[hand] * inside)
    before, now, after = poses
    a = (after.translation - 2.0 * now.translation + before.translation) / h**2
    turn = (pin.log3(now.rotation.T @ after.rotation) - pin.log3(before.rotation.T @ now.rotation)) / h**2
    # differences: rounding of 1e-16 m over h², and h² times fourth derivatives of about 1e4
    np.testing.assert_allclose(load.effort[:3], hands.MASS * now.rotation.T @ (a + UP), atol=1e-4)
    np.testing.assert_allclose(load.effort[3:6], hands.MASS * hands.SIDE**2 / 6.0 * turn, atol=1e-6)


@pytest.mark.parametrize("mu", [0.4, 1.0, np.inf])
def test_the_grip_is_that_of_an_independent_solver(plan, mu):
    for load in plan:
        u, n = 6, 4
        f_n, f_s, f_t = cvxpy.Variable(n), cvxpy.Variable(n), cvxpy.Variable(n)
        wrench = load.N.T @ f_n + load.S.T @ f_s + load.T.T @ f_t
        tau = load.effort[u:] - wrench[u:]
        rules = [wrench[:u] == load.effort[:u], f_n >= 0.0]
        if np.isfinite(mu):
            rules.append(cvxpy.abs(f_s) + cvxpy.abs(f_t) <= mu * f_n)
        problem = cvxpy.Problem(cvxpy.Minimize(cvxpy.max(cvxpy.abs(tau[hands.FINGERS.nonzero()[0]]))), rules)
        problem.solve(solver=cvxpy.CLARABEL)
        # Clarabel's tolerances are 1e-8
        assert least_grip(load, mu, hands.FINGERS, hands.UNLIMITED) == pytest.approx(problem.value, abs=1e-6)


def test_torque_limits_that_are_too_small_forbid_holding(plan):
    needed = grip_needed(plan, 1.0, hands.FINGERS, hands.UNLIMITED)
    # a limit above what is needed changes nothing, one below leaves no solution
    for share, holds in ((1.001, True), (0.999, False)):
        limit = np.where(hands.FINGERS, share * needed, np.inf)
        assert np.isfinite(grip_needed(plan, 1.0, hands.FINGERS, limit)) == holds
    weak = np.where(hands.FINGERS, np.inf, 0.01)
    assert np.isinf(grip_needed(plan, 1.0, hands.FINGERS, weak))


def test_the_least_friction_is_where_the_grip_just_does(plan):
    grip = 0.2
    mu = least_friction(plan, grip, hands.FINGERS, hands.UNLIMITED)
    assert grip_needed(plan, mu, hands.FINGERS, hands.UNLIMITED) <= grip
    assert grip_needed(plan, (1.0 - 2.0 * MU_PRECISION) * mu, hands.FINGERS, hands.UNLIMITED) > grip


def test_the_papers_grip_alone_does_not_hold_the_swinging_box_at_any_friction(plan):
    """The paper's grip is 0.01 rad times 10 N m/rad = 0.1 N m; accelerating the box alone takes more."""
    assert np.isinf(least_friction(plan, 0.1, hands.FINGERS, hands.UNLIMITED))
