"""Yaw moments of walks: angular momentum of the machine, and forces that contact points can give."""

import msgspec
import numpy as np
import pinocchio as pin
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from idcontrol import robots
from idcontrol.planners import dcm, turning
from idcontrol.planners.dcm import Steps
from idcontrol.planners.turning import YawInertia
from idcontrol.scenes.body import Body
from idcontrol.scenes.motions import Walk

FEET = np.array([[0.0, 0.085, 0.0], [0.0, -0.085, 0.0]])
SOLE = np.array([[0.1, 0.06], [0.1, -0.06], [-0.1, 0.06], [-0.1, -0.06]])
HUMANOID = YawInertia(90.0, 3.2, np.array([[-0.8, 0.3, -0.8, 0.2], [0.8, 0.3, 0.8, 0.2]]), [SOLE, SOLE])
COM, OMEGA = np.array([-0.003, 0.001]), 3.3
TROT = Steps(count=4, together=(("LF", "RH"), ("RF", "LH")), length_m=0.0, single_s=0.25, double_s=0.05)


def motion(steps, mu, norm=1):
    walk = dcm.footsteps(steps, FEET, [(0,), (1,)], 1.0)
    knots, zmp = dcm.zmp_knots(walk, FEET, steps.double_s, 0.0)
    zmp[0] = COM
    twists = turning.twists(walk, FEET, steps.height_m, HUMANOID)
    times = dcm.slowed(knots, zmp, OMEGA, COM, mu, norm, twists)
    return knots, times, dcm.dcm_plan(times, zmp, OMEGA, COM, COM), dcm.retimed(walk, times), twists


def gives(points, mu, acceleration, moment):
    """True if points with equal loads can give the force and moment per mass within pyramids of friction."""
    k, load = len(points), dcm.GRAVITY / len(points)
    arms = points - points.mean(axis=0)
    sums = np.vstack([np.repeat([[1.0, 0.0]], k, axis=0).ravel(), np.repeat([[0.0, 1.0]], k, axis=0).ravel()])
    equal = np.vstack([sums, np.column_stack([-arms[:, 1], arms[:, 0]]).ravel()])
    cones = np.kron(np.eye(k), [[1.0, 1.0, 1.0, 1.0]])
    signed = np.kron(equal, [[1.0, -1.0]])
    target = np.append(acceleration, moment)
    return linprog(np.zeros(4 * k), cones, np.full(k, mu * load), signed, target, bounds=(0.0, None)).success


@settings(deadline=None, max_examples=5)
@given(mu=st.floats(0.05, 0.6), length=st.floats(-0.3, 0.3), turn=st.floats(-0.4, 0.4), single=st.floats(0.4, 1.0))
def test_sole_can_give_the_yaw_moment_of_a_slowed_walk(mu, length, turn, single):
    steps = Steps(count=4, length_m=length, turn_rad=turn, single_s=single, touchdown_m_s=0.0)
    _, times, plan, walk, twists = motion(steps, mu)
    feet = FEET.copy()
    for step, twist in zip(walk, twists, strict=True):
        (foot,), T = step.feet, step.land_s - step.lift_s
        c, s = np.cos(feet[1 - foot, 2]), np.sin(feet[1 - foot, 2])
        points = feet[1 - foot, :2] + SOLE @ np.array([[c, s], [-s, c]])
        for phase in (0.08, 0.21, 0.37, 0.63, 0.79, 0.92):
            t = step.lift_s + phase * T
            up = dcm.swing_height(steps, step, t)[2] / steps.height_m
            moment = twist.swing * dcm.smooth(phase)[2] / T**2 + twist.lift * up
            assert gives(points, mu, dcm.com_at(plan, t).acceleration, moment)
        feet[foot] = step.places[0]
    assert (np.diff(times) >= 0.0).all()


def test_walk_within_friction_keeps_its_times():
    knots, times, *_ = motion(Steps(count=4, turn_rad=0.15), 0.6, 2)
    assert times is knots


def test_turn_on_low_friction_takes_longer_swings():
    knots, times, *_ = motion(Steps(count=4, turn_rad=0.3), 0.1)
    _, straight, *_ = motion(Steps(count=4), 0.1)
    assert (np.diff(times)[2::2] > 1.2 * np.diff(straight)[2::2]).all()
    assert (np.diff(times)[2::2] > np.diff(knots)[2::2]).all()


@pytest.mark.parametrize("points", [FEET[:, :2], SOLE, np.vstack([SOLE, SOLE[:3] + 0.2])])
def test_spread_forces_have_a_moment_and_no_sum(points):
    arms = points - points.mean(axis=0)
    spreads = turning.spreads(points)
    assert len(spreads) > 1
    np.testing.assert_allclose(spreads.sum(axis=1), 0.0, atol=1e-12)
    moments = arms[:, 0] * spreads[..., 1] - arms[:, 1] * spreads[..., 0]
    np.testing.assert_allclose(moments.mean(axis=1), 1.0, atol=1e-12)


def test_single_contact_point_has_no_spread():
    assert turning.spreads(np.zeros((1, 2))).shape == (0, 1, 2)


@pytest.mark.parametrize("robot", ["go1", "talos"])
def test_angular_momentum_follows_base_and_feet(robot):
    """Joint speeds that move the feet as chosen give the momentum that the inertia predicts."""
    body, rng = Body(robots.load(robot), mu=0.6, rate_hz=1000.0), np.random.default_rng(3)
    model, q, v = body.system.model, body.home.q, np.zeros(body.system.model.nv)
    data, inertia, rate = model.createData(), body.yaw_inertia(), 0.7
    pin.computeJointJacobians(model, data, q)
    pin.updateFramePlacements(model, data)
    com, momentum = pin.centerOfMass(model, data, q)[:2].copy(), inertia.base * rate
    v[:6] = 0.0, 0.0, 0.0, 0.0, 0.0, rate
    v[:2] = -rate * np.array([-(com - q[:2])[1], (com - q[:2])[0]])  # the base turns about the centre of mass
    motions, rows = [], []
    for i, task in enumerate(body.feet):
        frame = model.getFrameId(task.frame)
        jacobian = pin.getFrameJacobian(model, data, frame, pin.LOCAL_WORLD_ALIGNED).copy()
        jacobian[:3] -= pin.skew(data.oMf[frame].rotation @ body.centre[i]) @ jacobian[3:]
        foot = np.array([*rng.normal(size=3), 0.0, 0.0, rng.normal() if task.kind == "pose" else 0.0])
        k = 6 if task.kind == "pose" else 3
        motions.append((foot - jacobian @ v)[:k])
        rows.append(jacobian[:k, 6:])
        momentum += inertia.feet[i] @ foot[[0, 1, 2, 5]]
    v[6:] = np.linalg.lstsq(np.vstack(rows), np.concatenate(motions), rcond=None)[0]
    assert pin.computeCentroidalMomentum(model, data, q, v).angular[2] == pytest.approx(momentum, rel=1e-9)


@pytest.mark.parametrize(("mu", "turn"), [(0.6, 0.15), (0.1, 0.15), (0.1, -0.15)])
def test_machine_on_a_diagonal_turns_less_on_low_friction(mu, turn):
    steps = msgspec.structs.replace(TROT, turn_rad=turn)
    walk = Walk(Body(robots.load("go1"), mu=mu, rate_hz=1000.0), steps, mu=mu)
    assert walk.walk.single_s == steps.single_s
    assert (walk.walk.turn_rad == turn) == (mu == 0.6)
    assert 0.03 < walk.walk.turn_rad * np.sign(turn) <= 0.15
    assert walk.steps[-1].places[0, 2] == pytest.approx(3 * walk.walk.turn_rad)
