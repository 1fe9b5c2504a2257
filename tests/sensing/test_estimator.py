"""The base from legs and IMU: the filter's algebra, machines at rest and in free flight, and a whole walk."""

from __future__ import annotations

import numpy as np
import pinocchio as pin
import pytest

from idcontrol.contact.spheres import SphereContacts
from idcontrol.contact.terrain import plane
from idcontrol.loop import launch
from idcontrol.loop.launch import LoopSettings
from idcontrol.loop.machine import GRAVITY, specific_force
from idcontrol.record.recording import load
from idcontrol.scenes.walk import WalkConfig, WalkPath
from idcontrol.sensing import Sensing, chain, estimator
from idcontrol.sensing.disturbance import NoiseLevel
from idcontrol.sensing.estimator import BaseEstimator, Legs, correct, predict
from idcontrol.types import ContactForces, Sensed, State
from tests import scenes
from tests.scenes import loops


def feet():
    return SphereContacts(scenes.links(), scenes.FEET, scenes.RADIUS, plane(), 0.8)


def batch(x, P, h, acceleration, legs):
    """The same filter with matrices: F, Q, then all measurements at once."""
    place, velocity, turning, touching, radius = legs
    n = len(touching)
    k = 6 + 3 * n
    F, G = np.eye(k), np.zeros((k, 3))
    F[:3, 3:6] = h * np.eye(3)
    G[:3], G[3:6] = 0.5 * h * h * np.eye(3), h * np.eye(3)
    Q = estimator.ACCELERATION_STD**2 * G @ G.T
    x = F @ x + G @ acceleration
    for i in range(n):
        feet = slice(6 + 3 * i, 9 + 3 * i)
        if touching[i]:
            x[feet] += h * np.cross(turning[i], [0, 0, radius[i]])
        Q[feet, feet] += (h * estimator.CREEP_STD * (1 if touching[i] else estimator.UNKNOWN)) ** 2 * np.eye(3)
    P = F @ P @ F.T + Q
    H, z, r = [], [], []
    for i in range(n):
        for axis in range(3):
            row = np.zeros(k)
            row[6 + 3 * i + axis], row[axis] = 1.0, -1.0
            H.append(row)
            z.append(place[i, axis])
            r.append(estimator.KINEMATICS_STD**2)
        if touching[i]:
            for axis in range(3):
                row = np.zeros(k)
                row[3 + axis] = 1.0
                H.append(row)
                z.append(-velocity[i, axis])
                r.append(estimator.SLIP_STD**2)
            row = np.zeros(k)
            row[8 + 3 * i] = 1.0
            H.append(row)
            z.append(radius[i])
            r.append(estimator.GROUND_STD**2)
    H, z, R = np.array(H), np.array(z), np.diag(r)
    K = P @ H.T @ np.linalg.inv(H @ P @ H.T + R)
    return x + K @ (z - H @ x), (np.eye(k) - K @ H) @ P


@pytest.mark.parametrize("seed", range(5))
def test_one_measurement_after_the_other_is_the_same_as_all_at_once(seed):
    rng = np.random.default_rng(seed)
    n, k = 4, 18
    x, root = rng.normal(size=k), 0.1 * rng.normal(size=(k, k))
    P = root @ root.T
    touching, radius = rng.random(n) < 0.6, np.full(n, 0.02)
    acceleration, turning, place, velocity = (rng.normal(size=s) for s in (3, (n, 3), (n, 3), (n, 3)))
    legs = Legs(place=place, velocity=velocity, turning=turning, touching=touching, radius=radius)
    expected_x, expected_P = batch(x, P, 1e-3, acceleration, legs)
    predict(x, P, 1e-3, acceleration, legs)
    correct(x, P, legs)
    # the batch inverts a matrix of condition 1e7
    np.testing.assert_allclose(x, expected_x, rtol=0, atol=1e-7)
    np.testing.assert_allclose(P, expected_P, rtol=0, atol=1e-8)


def standing_state(system, t):
    forces = ContactForces(
        identity=np.arange(4), force=np.tile([0, 0, 12.0], (4, 1)), normal=np.tile([0, 0, 1.0], (4, 1))
    )
    return State(t=t, q=scenes.home(system), v=np.zeros(18), forces=forces)


def test_a_machine_at_rest_is_known_to_rest_whatever_the_plant_says_of_its_base(quadruped):
    start = standing_state(quadruped, 0.0)
    believes = BaseEstimator(feet(), start)
    for k in range(1, 500):
        truth = standing_state(quadruped, 1e-3 * k)
        lie = State(t=truth.t, q=truth.q + np.r_[5.0, 5.0, 5.0, np.zeros(16)], v=truth.v, forces=truth.forces)
        found = believes(Sensed(state=lie, tau=np.zeros(12), accelerometer=-GRAVITY)).state
    np.testing.assert_allclose(found.q, start.q, atol=1e-6)
    np.testing.assert_allclose(found.v, 0.0, atol=1e-6)


def test_in_free_flight_the_accelerometer_alone_says_how_it_falls(quadruped):
    start = standing_state(quadruped, 0.0)
    believes = BaseEstimator(feet(), start)
    air = State(t=0.0, q=start.q, v=np.zeros(18), forces=ContactForces.none())
    for k in range(1, 201):
        now = State(t=1e-3 * k, q=air.q, v=air.v, forces=air.forces)
        found = believes(Sensed(state=now, tau=np.zeros(12), accelerometer=np.zeros(3))).state
    # what feet in the air say still counts for a ten-thousandth: `UNKNOWN`
    np.testing.assert_allclose(found.v[:3], [0, 0, -9.81 * 0.2], atol=1e-3)
    np.testing.assert_allclose(found.q[2] - start.q[2], -0.5 * 9.81 * 0.2**2, atol=1e-3)


def turned(system, seed):
    """A configuration near home, tilted and turned, and the rotation of its base."""
    q = pin.integrate(system.model, scenes.home(system), 0.3 * np.random.default_rng(seed).normal(size=18))
    return q, pin.Quaternion(q[6], q[3], q[4], q[5]).matrix()


def test_a_tilted_machine_in_the_air_gains_the_velocity_that_its_accelerometer_feels(quadruped):
    q, R = turned(quadruped, 3)
    believes = BaseEstimator(feet(), State(t=2.0, q=q, v=np.zeros(18)))
    specific, h = np.array([0.5, -1.0, 2.0]), 0.1
    for t in (2.0, 2.0 + h, 2.0 + h, 1.0):  # time that stands or goes back adds nothing
        state = State(t=t, q=q, v=np.zeros(18), forces=ContactForces.none())
        found = believes(Sensed(state=state, tau=np.zeros(12), accelerometer=specific)).state
    v = h * (R @ specific + GRAVITY)
    # nearly nothing is believed of feet in the air, so what the filter predicts stays
    np.testing.assert_allclose(R @ found.v[:3], v, atol=2e-3)
    np.testing.assert_allclose(found.q[:3], q[:3] + 0.5 * h * v, atol=2e-3)
    np.testing.assert_array_equal(found.q[3:], q[3:])


@pytest.mark.parametrize("foot", range(4))
def test_one_foot_that_rolls_tells_how_fast_a_moving_base_moves(quadruped, foot):
    rng = np.random.default_rng(foot)
    q, R = turned(quadruped, foot)
    v, eps = np.r_[np.zeros(3), rng.normal(size=15)], 1e-6

    def centre(q):
        spheres = feet()
        joints, centres = spheres.mounting()
        data = spheres.system.model.createData()
        pin.forwardKinematics(spheres.system.model, data, q)
        return data.oMi[int(joints[foot])].act(centres[foot]), data.oMi[int(joints[foot])].rotation

    (ahead, R_ahead), (behind, R_behind) = (centre(pin.integrate(quadruped.model, q, s * eps * v)) for s in (1, -1))
    spin = pin.log3(R_ahead @ R_behind.T) / (2 * eps)
    lowest = (ahead - behind) / (2 * eps) + np.cross(spin, [0.0, 0.0, -scenes.RADIUS])
    forces = ContactForces(identity=np.array([foot]), force=np.array([[0, 0, 50.0]]), normal=np.array([[0, 0, 1.0]]))
    believes = BaseEstimator(feet(), State(t=0.0, q=q, v=v, forces=forces))
    believes.P[3:6, 3:6] = 1e6 * np.eye(3)  # the first guess has no weight
    sensed = Sensed(state=State(t=0.0, q=q, v=v, forces=forces), tau=np.zeros(12), accelerometer=np.zeros(3))
    found = believes(sensed).state
    np.testing.assert_allclose(R @ found.v[:3], -lowest, atol=1e-6)


def test_level_ground_tells_the_height_of_a_standing_machine(quadruped):
    truth = standing_state(quadruped, 0.0)
    high = State(t=0.0, q=truth.q + np.r_[0.0, 0.0, 0.005, np.zeros(16)], v=truth.v)
    believes = BaseEstimator(feet(), high)
    for k in range(20):
        state = standing_state(quadruped, 1e-3 * k)
        found = believes(Sensed(state=state, tau=np.zeros(12), accelerometer=-GRAVITY)).state
    # the start is trusted to a millimetre, each foot's ground in each of the 20 instants, too: a tenth is left of 5 mm
    np.testing.assert_allclose(found.q[2], truth.q[2], atol=5e-4)


def test_an_estimate_begins_with_feet_where_the_machine_has_them_and_as_sure_as_it_was_put(quadruped):
    q, _ = turned(quadruped, 5)
    begun = BaseEstimator(feet(), State(t=0.0, q=q, v=np.zeros(18)))
    spheres = feet()
    spheres.system.update(q, np.zeros(18))
    joints, centres = spheres.mounting()
    data = quadruped.model.createData()
    pin.forwardKinematics(quadruped.model, data, q)
    placed = [data.oMi[int(joint)].act(centre) for joint, centre in zip(joints, centres, strict=True)]
    np.testing.assert_allclose(begun.x, np.r_[q[:3], np.zeros(3), np.ravel(placed)], atol=1e-12)
    np.testing.assert_array_equal(np.diag(begun.P), np.r_[[1e-6] * 3, [1e-4] * 3, [1e-6] * 12])


def test_the_accelerometer_feels_gravity_at_rest_and_nothing_in_free_fall(quadruped):
    """In axes that turn with the base."""
    rng = np.random.default_rng(0)
    q = pin.integrate(quadruped.model, scenes.home(quadruped), rng.normal(size=18))
    R = pin.Quaternion(q[6], q[3], q[4], q[5]).matrix()
    rest = State(t=0.0, q=q, v=np.zeros(18))
    np.testing.assert_allclose(specific_force(rest, rest, 1e-3, True), R.T @ -GRAVITY, atol=1e-12)
    h, omega, v_W = 1e-5, np.array([0.3, -2.0, 1.0]), np.array([0.5, 0.2, -0.4])
    before = State(t=0.0, q=q, v=np.r_[R.T @ v_W, omega, np.zeros(12)])
    moved = pin.integrate(quadruped.model, q, h * before.v)
    R2 = pin.Quaternion(moved[6], moved[3], moved[4], moved[5]).matrix()
    after = State(t=h, q=moved, v=np.r_[R2.T @ (v_W + h * GRAVITY), omega, np.zeros(12)])
    # a difference quotient is of first order: |omega| g h = 2.2e-4
    np.testing.assert_allclose(specific_force(before, after, h, True), 0.0, atol=2.5e-4)


def test_links_walks_on_what_it_knows_of_itself(tmp_path):
    """Base estimated, contacts fused, noise on every sensor: the feedback runs on the estimate, not on the truth."""
    noise = NoiseLevel(tilt_rad=1e-3, joint_rad=1e-4, rate_rad_s=5e-3, joint_rad_s=5e-3, acceleration_m_s2=0.2)
    settings = LoopSettings(
        transport="inprocess", pacing="fast", sensing=Sensing(contacts="fused", base="estimated", noise=noise)
    )
    config = WalkConfig(duration_s=1.0, path=WalkPath(kind="command", command=((0.0, 0.2, 0.0, 0.0),)))
    metrics = launch.run(loops.TARGET, config, settings, tmp_path / "run")
    assert metrics["completed"]
    believed, truth = load(tmp_path / "run").arrays, load(tmp_path / "run" / "machine").arrays
    running, moving = believed["mode"] == 2, truth["mode"] == 2
    n = min(running.sum(), moving.sum()) - 5
    p, p_true = believed["q"][running][:n, :3], truth["q"][moving][:n, :3]
    v, v_true = believed["v"][running][:n, :3], truth["v"][moving][:n, :3]
    assert p_true[-1, 0] - p_true[0, 0] > 0.08  # it walked
    assert np.abs(p - p_true).max() < 0.01
    assert np.sqrt(np.mean((v - v_true) ** 2)) < 0.03


def test_stages_are_passed_one_after_the_other(quadruped):
    truth = Sensed(state=standing_state(quadruped, 0.0), tau=np.zeros(12), accelerometer=np.zeros(3))
    seen = []

    def note(name):
        return lambda sensed: (seen.append(name), sensed)[1]

    assert chain([note("first"), note("second")])(truth) is truth.state
    assert seen == ["first", "second"]
