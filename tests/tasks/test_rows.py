"""Rows of tasks against Pinocchio's Jacobians and drifts, and against finite differences of motion."""

import numpy as np
import pinocchio as pin
import pytest

from idcontrol import tasks
from idcontrol.kernels.arena import HEAP
from idcontrol.tasks import gather
from idcontrol.tasks.rows import rotation_vector, task_rows
from tests.tasks.machine import Moving, moving

pytestmark = pytest.mark.interpreted

FRAMES = {"go1": ("trunk", "FL_foot"), "talos": ("torso_2_link", "left_sole_link")}
REFERENCES = {"WORLD": pin.WORLD, "LOCAL_WORLD_ALIGNED": pin.LOCAL_WORLD_ALIGNED, "LOCAL": pin.LOCAL}
SAME = 1e-11
"""Rounding of products of three to five numbers up to a hundred."""


def rows(of: Moving, *listed: tasks.Task):
    targets, _ = gather(listed, of.system, of.q)
    return task_rows(of.system.M, of.system.bias, of.v, of.at, targets, HEAP)


def standing_axes(of: Moving):
    """Return the acceleration of a base's linear velocity in fixed axes, for v̇ = 0 in the axes of the body."""
    turn = np.zeros(of.v.size)
    turn[:3] = np.cross(of.v[3:6], of.v[:3])
    return turn


def fresh(of: Moving):
    """Return Pinocchio's data at the state, with accelerations at v̇ = 0."""
    data = of.system.model.createData()
    pin.forwardKinematics(of.system.model, data, of.q, of.v, np.zeros(of.v.size))
    pin.updateFramePlacements(of.system.model, data)
    pin.computeJointJacobians(of.system.model, data, of.q)
    return data


@pytest.mark.parametrize("axes", REFERENCES)
@pytest.mark.parametrize("robot", FRAMES)
def test_rows_of_a_frame_are_pinocchios(robot, axes):
    rng = np.random.default_rng(1)
    of = moving(rng, robot)
    data, model = fresh(of), of.system.model
    for name in FRAMES[robot]:
        frame, goal = model.getFrameId(name), pin.SE3.Random()
        velocity, acceleration = rng.standard_normal((2, 6))
        task = tasks.Frame(name, kp=20.0, kd=3.0, axes=axes)
        task.set(goal, velocity, acceleration)
        A, y, weight = rows(of, task)
        local = pin.LOCAL_WORLD_ALIGNED if axes == "WORLD" else REFERENCES[axes]
        J = pin.getFrameJacobian(model, data, frame, local)
        actual = pin.getFrameVelocity(model, data, frame, local).vector
        drift = pin.getFrameClassicalAcceleration(model, data, frame, local).vector - J @ standing_axes(of)
        place = data.oMf[frame]
        error = np.r_[goal.translation - place.translation, pin.log3(goal.rotation @ place.rotation.T)]
        if axes == "LOCAL":
            error = np.r_[place.rotation.T @ error[:3], place.rotation.T @ error[3:]]
        if axes == "WORLD":  # at the origin of the world; the point of the frame moves by Chasles' theorem
            p, spin = place.translation, velocity[3:]
            velocity = np.r_[velocity[:3] + np.cross(spin, p), spin]
            rise = acceleration[:3] + np.cross(acceleration[3:], p) + np.cross(spin, velocity[:3])
            acceleration = np.r_[rise, acceleration[3:]]
        wanted = acceleration + 20.0 * error + 3.0 * (velocity - actual) - drift
        np.testing.assert_allclose(A, J, atol=SAME)
        np.testing.assert_allclose(y, wanted, atol=SAME * np.abs(wanted).max())
        np.testing.assert_allclose(task.error, error, atol=SAME)
        assert (weight == 1.0).all()


@pytest.mark.parametrize("robot", FRAMES)
def test_rows_of_the_centroid_are_pinocchios(robot):
    rng = np.random.default_rng(2)
    of = moving(rng, robot)
    model, data = of.system.model, of.system.model.createData()
    pin.computeCentroidalMomentumTimeVariation(model, data, of.q, of.v, np.zeros(of.v.size))
    rate, mass = data.dhg.vector.copy(), of.system.mass
    A_g = pin.computeCentroidalMap(model, data, of.q).copy()
    drift, momentum = rate - A_g @ standing_axes(of), A_g @ of.v
    position, velocity, acceleration, spin, torque = rng.standard_normal((5, 3))
    com, momenta = tasks.CoM(kp=20.0, kd=3.0), tasks.Momentum(kd=4.0)
    com.set(position, velocity, acceleration)
    momenta.set(spin, torque)
    A, y, _ = rows(of, com, momenta)
    error = position - of.system.com(of.q)
    wanted = np.r_[
        acceleration + 20.0 * error + 3.0 * (velocity - momentum[:3] / mass) - drift[:3] / mass,
        torque + 4.0 * (spin - momentum[3:]) - drift[3:],
    ]
    np.testing.assert_allclose(A, np.vstack([A_g[:3] / mass, A_g[3:]]), atol=SAME)
    np.testing.assert_allclose(y, wanted, atol=SAME * np.abs(wanted).max())
    np.testing.assert_allclose(com.error, error, atol=SAME)
    np.testing.assert_allclose(momenta.error, spin - momentum[3:], atol=SAME)


def test_pendulum_is_accelerated_by_the_zero_moment_point_alone():
    """Whatever forces and torques move the limbs, ü = F_z / (m z) (x - p), with p on the plane z below the centre."""
    rng, height = np.random.default_rng(9), 0.7
    of = moving(rng, "talos")
    data, model, mass = fresh(of), of.system.model, of.system.mass
    centre, force, moment = of.system.com(of.q), np.zeros(3), np.zeros(3)
    pushed = np.r_[np.zeros(6), rng.standard_normal(of.v.size - 6)] - of.system.bias
    for name in FRAMES["talos"]:
        frame, f = model.getFrameId(name), 100.0 * rng.standard_normal(3)
        pushed += pin.getFrameJacobian(model, data, frame, pin.LOCAL_WORLD_ALIGNED)[:3].T @ f
        force, moment = force + f, moment + np.cross(data.oMf[frame].translation - centre, f)
    a, com = np.linalg.solve(of.system.M, pushed), tasks.CoM(kp=0.0, kd=0.0)
    com.pendulum_m = height
    A, y, _ = rows(of, com)
    p = centre[:2] + (np.array([-1.0, 1.0]) * moment[[1, 0]] - height * force[:2]) / force[2]
    wanted = force[2] / (mass * height) * (centre[:2] - p)
    np.testing.assert_allclose((A @ a - y)[:2], wanted, atol=1e-9)


def test_a_motion_that_obeys_the_rows_follows_the_reference():
    rng = np.random.default_rng(3)
    of = moving(rng)
    frame, h = of.system.model.getFrameId("FL_foot"), 1e-5
    acceleration = rng.standard_normal(6)
    task = tasks.Frame("FL_foot", kp=0.0, kd=0.0)
    task.set(fresh(of).oMf[frame], acceleration=acceleration)
    A, y, _ = rows(of, task)
    a = np.linalg.lstsq(A, y)[0]
    before, model = fresh(of), of.system.model
    q, v = of.system.advance(of.q, of.v + h * a, h)
    after = model.createData()
    pin.forwardKinematics(model, after, q, v)
    old, new = (pin.getFrameVelocity(model, data, frame, pin.LOCAL_WORLD_ALIGNED).vector for data in (before, after))
    np.testing.assert_allclose((new - old) / h, acceleration, atol=20 * h * np.abs(a).max())  # one-sided difference


def relative(of: Moving, q, v, frame: str, base: str):
    """Return the pose of `frame` in `base`, and its velocity relative to `base`, axes of `base`, shape (6,)."""
    model, data = of.system.model, of.system.model.createData()
    pin.forwardKinematics(model, data, q, v)
    pin.updateFramePlacements(model, data)
    place, other = (data.oMf[model.getFrameId(name)] for name in (frame, base))
    moves, carries = (
        pin.getFrameVelocity(model, data, model.getFrameId(name), pin.LOCAL_WORLD_ALIGNED) for name in (frame, base)
    )
    along = moves.linear - carries.linear - np.cross(carries.angular, place.translation - other.translation)
    to_other = other.rotation.T
    return other.actInv(place), np.r_[to_other @ along, to_other @ (moves.angular - carries.angular)]


@pytest.mark.parametrize(
    ("robot", "frame", "base"),
    [("talos", "gripper_left_base_link", "gripper_right_base_link"), ("go1", "FL_foot", "RR_foot")],
)
def test_a_frame_follows_its_reference_in_the_axes_of_another_that_moves(robot, frame, base):
    rng, h = np.random.default_rng(7), 1e-6
    of = moving(rng, robot)
    place, moves = relative(of, of.q, of.v, frame, base)
    goal = pin.SE3(place.rotation @ pin.exp3(0.1 * rng.standard_normal(3)), rng.standard_normal(3))
    velocity, acceleration = rng.standard_normal((2, 6))
    task = tasks.Frame(frame, kp=20.0, kd=3.0, relative_to=base)
    task.set(goal, velocity, acceleration)
    A, y, _ = rows(of, task)
    error = np.r_[goal.translation - place.translation, pin.log3(goal.rotation @ place.rotation.T)]
    np.testing.assert_allclose(task.error, error, atol=SAME)
    np.testing.assert_allclose(A @ of.v, moves, atol=SAME)
    a = np.linalg.lstsq(A, y)[0]
    result = []
    for sign in (1.0, -1.0):
        q, v = of.system.advance(of.q, of.v + sign * h * a, sign * h)
        result.append(relative(of, q, v, frame, base)[1])
    wanted = acceleration + 20.0 * error + 3.0 * (velocity - moves)
    np.testing.assert_allclose((result[0] - result[1]) / (2 * h), wanted, atol=1e-3 * np.abs(a).max())


def test_a_frame_relative_to_a_fixed_base_equals_a_world_frame():
    of = moving(np.random.default_rng(8), "panda")
    one, other = tasks.Frame("panda_hand"), tasks.Frame("panda_hand", relative_to="panda_link0")
    for task in (one, other):
        task.set(pin.SE3.Random(), np.ones(6), np.ones(6))
    other.set(pin.SE3(one._own.rotation[0], one._own.position[0]), np.ones(6), np.ones(6))
    for mine, wanted in zip(rows(of, other), rows(of, one), strict=True):
        np.testing.assert_allclose(mine, wanted, atol=1e-9)


@pytest.mark.parametrize("angle", [0.0, 1e-12, 1e-7, 1.0, 3.0, np.pi - 1e-7, np.pi])
def test_rotation_vectors_are_right_at_every_angle(angle):
    rng = np.random.default_rng(4)
    for _ in range(20):
        axis = rng.standard_normal(3)
        axis /= np.linalg.norm(axis)
        actual = pin.exp3(rng.standard_normal(3))
        result = np.empty(3)
        rotation_vector(pin.exp3(angle * axis) @ actual, actual, result, HEAP)
        np.testing.assert_allclose(pin.exp3(result), pin.exp3(angle * axis), atol=1e-14)
        assert np.linalg.norm(result) <= np.pi * (1 + 1e-15)


def test_rows_without_weight_are_ignored():
    of = moving(np.random.default_rng(5))
    com = tasks.CoM(weight=[1.0, 0.0, 2.0])
    every = rows(of, tasks.CoM())
    A, y, weight = rows(of, com)
    np.testing.assert_array_equal(A, every[0][[0, 2]])
    np.testing.assert_array_equal(y, every[1][[0, 2]])
    np.testing.assert_array_equal(weight, [1.0, 2.0])


def test_a_task_that_was_not_set_holds_its_place():
    of = moving(np.random.default_rng(6), speed=0.0)
    frame, com = tasks.Frame("trunk"), tasks.CoM()
    rows(of, frame, com)
    np.testing.assert_allclose(np.r_[frame.error, com.error], 0.0, atol=1e-14)
