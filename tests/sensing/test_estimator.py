"""Estimate of the base from legs and IMU: the filter's algebra, robots at rest and in free flight, and whole walks."""

import numpy as np
import pinocchio as pin
import pytest
from msgspec import structs

from idcontrol.contact.spheres import SphereContacts
from idcontrol.contact.terrain import plane
from idcontrol.loop import launch
from idcontrol.loop.launch import LoopSettings
from idcontrol.loop.life import Phase
from idcontrol.loop.machine import GRAVITY, specific_force
from idcontrol.record.recording import load
from idcontrol.scenes.locomotion import record_walk
from idcontrol.scenes.walk import ActuatorSettings, WalkConfig, WalkPath, WalkScene
from idcontrol.sensing import Sensing, chain, estimator
from idcontrol.sensing.disturbance import BiasLevel, NoiseLevel
from idcontrol.sensing.estimator import BaseEstimator, Estimate, Readings, correct, predict
from idcontrol.types import ContactForces, Sensed, State
from tests import scenes
from tests.parameters import one_fast
from tests.scenes import loops


def feet():
    return SphereContacts(scenes.links(), scenes.FEET, scenes.RADIUS, plane(), 0.8)


def skew(a):
    return np.array([[0, -a[2], a[1]], [a[2], 0, -a[0]], [-a[1], a[0], 0]])


def plainly(x, z, h):
    """Return the filter's next estimate, computed with dense matrices, and with all measurements in one update."""
    r, v, C, b_f, b_w, p, P, stood = (np.array(part) for part in x)
    k, felt, w = len(P), C @ (z.f - b_f), z.w - b_w
    F, Q = np.eye(k), np.zeros((k, k))
    F[:3, 3:6], F[3:6, 6:9], F[3:6, 9:12], F[6:9, 12:15] = h * np.eye(3), -h * skew(felt), -h * C, -h * C
    for at, std in ((3, estimator.ACCELERATION_STD * h), (6, estimator.RATE_STD * h)):
        Q[at : at + 3, at : at + 3] = std**2 * np.eye(3)
    Q[9:12, 9:12], Q[12:15, 12:15] = estimator.DRIFT_F**2 * h * np.eye(3), estimator.DRIFT_W**2 * h * np.eye(3)
    Q[15:, 15:] = (estimator.CREEP_STD * h) ** 2 * np.eye(k - 15)
    P = F @ P @ F.T + Q
    for i in np.flatnonzero(stood):
        p[i] += h * z.radius[i] * np.cross(C @ (z.turning[i] - b_w), [0, 0, 1])
    a = felt + GRAVITY
    r, v, C = r + h * v + 0.5 * h * h * a, v + h * a, C @ pin.exp3(h * w)
    H, y, R = [], [], []
    for i in np.flatnonzero(z.standing):
        feet, s = slice(15 + 3 * i, 18 + 3 * i), C @ z.s[i]
        if stood[i]:
            row = np.zeros((3, k))
            row[:, :3], row[:, 6:9], row[:, feet] = -np.eye(3), skew(s), np.eye(3)
            y.append(s - (p[i] - r))
            R += [estimator.KINEMATICS_STD**2] * 3
        else:
            A = np.eye(k)
            A[feet], A[feet, :3], A[feet, 6:9] = 0.0, np.eye(3), -skew(s)
            P, p[i] = A @ P @ A.T, r + s
            P[feet, feet] += estimator.KINEMATICS_STD**2 * np.eye(3)
            row = np.zeros((1, k))
            row[0, feet] = z.terrain[:3]
            y.append([z.radius[i] - p[i] @ z.terrain[:3]])
            R.append(estimator.GROUND_STD**2)
        H.append(row)
    H, y = np.concatenate(H), np.concatenate(y)
    K = P @ H.T @ np.linalg.inv(H @ P @ H.T + np.diag(R))
    e = K @ y
    moved = r + e[:3], v + e[3:6], pin.exp3(e[6:9]) @ C, b_f + e[9:12], b_w + e[12:15], p + e[15:].reshape(-1, 3)
    return Estimate(*moved, (np.eye(k) - K @ H) @ P, np.array(z.standing))


@pytest.mark.interpreted
@pytest.mark.parametrize("seed", range(5))
def test_sequential_measurements_equal_one_joint_update(seed):
    rng = np.random.default_rng(seed)
    n, k = 4, 27
    stood, standing = rng.random((2, n)) < 0.6
    standing[0] = True
    if not stood.any() or stood[standing].all():  # one foot must stand before and after
        stood[:2] = True, False
        standing[1] = True
    root = 1e-2 * rng.normal(size=(k, k))
    C, r, s = pin.exp3(rng.normal(size=3)), np.array([1.0, -2.0, 0.3]), rng.normal(size=(n, 3))
    s[:, 2] = -0.28
    s = s @ C  # so that feet are near the ground
    p = r + s @ C.T + 1e-3 * rng.normal(size=(n, 3))
    x = Estimate(r, rng.normal(size=3), C, rng.normal(size=3), 0.1 * rng.normal(size=3), p, root @ root.T, stood)
    f, w, turning = rng.normal(size=3) + 9.0, rng.normal(size=3), rng.normal(size=(n, 3))
    ground = plane()
    z = Readings(f, w, s, turning, standing, np.full(n, 0.02), ground.parameters, ground.coefficients, GRAVITY)
    # the estimate changes only after all feet are measured, so the order of the feet does not matter
    expected = plainly(x, z, 1e-3)
    predict(x, z, 1e-3)
    correct(x, z)
    for name, result, wanted in zip(Estimate._fields, x, expected, strict=True):
        # the plain form inverts a matrix of condition 1e4
        np.testing.assert_allclose(result, wanted, rtol=0, atol=1e-9, err_msg=name)


def standing_state(system, t):
    forces = ContactForces(
        identity=np.arange(4), force=np.tile([0, 0, 12.0], (4, 1)), normal=np.tile([0, 0, 1.0], (4, 1))
    )
    return State(t=t, q=scenes.home(system), v=np.zeros(18), forces=forces)


def resting(system, seconds, gyro=(0.0, 0.0, 0.0), accelerometer=(0.0, 0.0, 0.0), move=None):
    """Return the filter and its estimate after a machine has stood still; the plant reports a wrong base."""
    start = standing_state(system, 0.0)
    if move is not None:
        start = structs.replace(start, q=move(start.q))
    believes = BaseEstimator(feet(), start)
    for k in range(1, round(1e3 * seconds) + 1):
        lie = start.q.copy()
        lie[:7] = 5.0, 5.0, 5.0, 0.6, 0.0, 0.0, 0.8
        state = State(t=1e-3 * k, q=lie, v=np.r_[7.0, 7.0, 7.0, gyro, np.zeros(12)], forces=start.forces)
        result = believes(Sensed(state=state, tau=np.zeros(12), accelerometer=-GRAVITY + accelerometer)).state
    return believes, start, result


def test_a_resting_robot_is_estimated_at_rest_without_the_plants_base_state(quadruped):
    _, start, result = resting(quadruped, 0.5)
    np.testing.assert_allclose(result.q, start.q, atol=1e-9)
    np.testing.assert_allclose(result.v, 0.0, atol=1e-9)


def test_at_rest_the_bias_of_the_gyroscope_is_learnt(quadruped):
    bias = np.array([0.006, -0.008, 0.01])
    believes, start, result = resting(quadruped, 4.0, gyro=bias)
    # 1 mm per reading of feet 0.2 m from the middle, over 4 s: far below 1e-3 rad/s
    np.testing.assert_allclose(believes.estimate.b_w, bias, atol=5e-4)
    np.testing.assert_allclose(result.v[3:6], 0.0, atol=5e-4)
    # the estimate turned by the bias until the bias was estimated
    assert 2 * np.linalg.norm(result.q[3:6] - start.q[3:6]) < 2e-3


def swinging(system, legs):
    """Return the start and the estimates of a robot whose first `legs` swing in the air while all sensors feel load."""
    start = standing_state(system, 0.0)
    believes, states = BaseEstimator(feet(), start), []
    for t in 1e-3 * np.arange(1, 301):
        q, v = start.q.copy(), np.zeros(18)
        thighs = 8 + 3 * np.arange(legs)
        q[thighs] += 0.4 * (1.0 - np.cos(6.0 * t))
        v[thighs - 1] = 2.4 * np.sin(6.0 * t)
        state = State(t=t, q=q, v=v, forces=start.forces)
        states.append(believes(Sensed(state=state, tau=np.zeros(12), accelerometer=-GRAVITY)).state)
    return start, states


def test_a_swinging_foot_whose_sensor_is_stuck_on_does_not_move_the_base(quadruped):
    start, states = swinging(quadruped, legs=1)
    assert max(np.abs(state.q[:3] - start.q[:3]).max() for state in states) < estimator.FAR * estimator.KINEMATICS_STD
    assert max(2.0 * np.abs(state.q[3:6] - start.q[3:6]).max() for state in states) < 3e-3
    assert np.abs(states[-1].v[:3]).max() < 2e-3


def test_feet_that_all_move_alike_move_the_base(quadruped):
    start, states = swinging(quadruped, legs=4)
    assert np.linalg.norm(states[-1].q[:3] - start.q[:3]) > 0.01


def test_at_rest_only_the_vertical_accelerometer_bias_is_observable(quadruped):
    bias = np.array([0.1, 0.0, 0.2])
    believes, _, result = resting(quadruped, 4.0, accelerometer=bias)
    x = believes.estimate
    np.testing.assert_allclose(x.b_f[2], 0.2, atol=5e-3)
    # a reading may come from a tilt or from a bias of the sensor: the estimates of both explain it together
    np.testing.assert_allclose(x.C @ (-GRAVITY + bias - x.b_f), -GRAVITY, atol=5e-3)
    # the start's 5e-3 rad of tilt are 0.05 m/s², the bias may be 0.3: the sensor gets most of it
    assert abs(x.b_f[0] - 0.1) < 0.01
    assert np.linalg.norm(result.v[:3]) < 1e-3


def test_results_do_not_depend_on_position_and_heading(quadruped):
    turn, gyro, force = pin.Quaternion(np.cos(0.5), 0.0, 0.0, np.sin(0.5)), (0.004, 0.01, 0.0), (0.1, -0.1, 0.1)

    def move(q):
        placed = pin.SE3(turn, np.array([3.0, -2.0, 0.0])) * pin.XYZQUATToSE3(q[:7])
        return np.concatenate((pin.SE3ToXYZQUAT(placed), q[7:]))

    (one, _, _), (two, _, _) = (resting(quadruped, 0.5, gyro, force, m) for m in (None, move))
    np.testing.assert_allclose(two.estimate.C, turn.matrix() @ one.estimate.C, atol=1e-9)
    np.testing.assert_allclose(two.estimate.r, turn.matrix() @ one.estimate.r + [3.0, -2.0, 0.0], atol=1e-9)
    np.testing.assert_allclose(two.estimate.b_f, one.estimate.b_f, atol=1e-9)
    np.testing.assert_allclose(two.estimate.b_w, one.estimate.b_w, atol=1e-9)


def turned(system, seed):
    """Return a configuration near home, tilted and turned, and the rotation of its base."""
    q = pin.integrate(system.model, scenes.home(system), 0.3 * np.random.default_rng(seed).normal(size=18))
    return q, pin.Quaternion(q[6], q[3], q[4], q[5]).matrix()


def test_a_tilted_robot_in_flight_gains_velocity_by_its_accelerometer(quadruped):
    q, R = turned(quadruped, 3)
    believes = BaseEstimator(feet(), State(t=2.0, q=q, v=np.zeros(18)))
    specific, h = np.array([0.5, -1.0, 2.0]), 0.1
    for t in (2.0, 2.0 + h, 2.0 + h, 1.0):  # a repeated or an earlier time adds nothing
        state = State(t=t, q=q, v=np.zeros(18), forces=ContactForces.none())
        result = believes(Sensed(state=state, tau=np.zeros(12), accelerometer=specific)).state
    v = h * (R @ specific + GRAVITY)
    np.testing.assert_allclose(R @ result.v[:3], v, atol=1e-9)
    np.testing.assert_allclose(result.q[:3], q[:3] + 0.5 * h * v, atol=1e-9)
    np.testing.assert_allclose(result.q[3:], q[3:], atol=1e-12)


@pytest.mark.parametrize("axis", range(3))
def test_in_flight_the_base_turns_by_the_integral_of_the_gyroscope(quadruped, axis):
    q, R = turned(quadruped, 4)
    believes, w = BaseEstimator(feet(), State(t=0.0, q=q, v=np.zeros(18))), np.eye(3)[axis]
    for k in range(1, 2001):  # more than half a turn: every branch of the quaternion
        v = np.r_[np.zeros(3), 2.0 * w, np.zeros(12)]
        state = State(t=1e-3 * k, q=q, v=v, forces=ContactForces.none())
        result = believes(Sensed(state=state, tau=np.zeros(12), accelerometer=np.zeros(3))).state
        expected = R @ pin.exp3(2e-3 * k * w)
        np.testing.assert_allclose(pin.XYZQUATToSE3(result.q[:7]).rotation, expected, atol=1e-9)


def test_an_estimate_begins_with_the_feet_of_the_initial_state(quadruped):
    q, _ = turned(quadruped, 5)
    begun = BaseEstimator(feet(), State(t=0.0, q=q, v=np.zeros(18))).estimate
    spheres = feet()
    joints, centres = spheres.mounting()
    data = quadruped.model.createData()
    pin.forwardKinematics(quadruped.model, data, q)
    placed = [data.oMi[int(joint)].act(centre) for joint, centre in zip(joints, centres, strict=True)]
    np.testing.assert_allclose(begun.r, q[:3])
    np.testing.assert_allclose(begun.p, placed, atol=1e-12)
    np.testing.assert_array_equal(np.diag(begun.P), np.r_[np.repeat(np.square(estimator.START_STD), 3), np.zeros(12)])


def test_the_accelerometer_feels_gravity_at_rest_and_nothing_in_free_fall(quadruped):
    """The axes of measurement turn with the base."""
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


@pytest.mark.slow
def test_links_walks_on_an_estimated_base(tmp_path):
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
    # the loop's metrics give the same for its time of work; it receives each state one tick after the machine's row
    k = np.flatnonzero(believed["phase"][running] == Phase.WORKING)
    off = believed["q"][running][k, :3] - truth["q"][moving][k - 1, :3]
    slow = believed["v"][running][k, :3] - truth["v"][moving][k - 1, :3]
    result = [metrics[f"estimate_{name}"] for name in ("drift_m", "height_m", "velocity_m_s")]
    wanted = [np.linalg.norm(off[-1, :2]), np.abs(off[:, 2]).max(), np.sqrt(np.mean(np.sum(slow**2, axis=1)))]
    np.testing.assert_allclose(result, wanted, rtol=1e-9)


TYPICAL = {
    # Bosch BMI088 (data sheet BST-BMI088-DS001): 0.014 °/s/√Hz and 160 to 190 µg/√Hz, over the 500 Hz of a 1 kHz loop
    "noise": NoiseLevel(rate_rad_s=5.5e-3, acceleration_m_s2=0.042, joint_rad=1e-4, joint_rad_s=5e-3),
    "bias": BiasLevel(gyro_rad_s=0.01, accelerometer_m_s2=0.2),
}


def trot(out, robot, plant, duration, forces="estimated"):
    sensing = Sensing(base="estimated", forces=forces, **TYPICAL)
    path = WalkPath(kind="command", command=((0.0, 0.2, 0.0, 0.0),))
    config = WalkConfig(robot=robot, plant=plant, duration_s=duration, path=path, sensing=sensing)
    return record_walk(WalkScene.of(config), out)


def check(metrics):
    assert metrics["completed"]
    assert metrics["estimate_drift_m"] < 0.01 * metrics["distance_m"]
    assert metrics["estimate_velocity_m_s"] < 0.03


@pytest.mark.parametrize("robot", one_fast(("go1", "solo12"), "go1"))
def test_a_trot_estimates_its_base_without_foot_sensors(tmp_path, robot):
    check(trot(tmp_path / "run", robot, "coulomb-lcp", 2.0))


@pytest.mark.slow
def test_forces_from_torques_account_for_rotor_inertia(tmp_path):
    """If rotor inertia is ignored, the torque that accelerates rotors counts as force on the feet."""
    sensing = Sensing(base="estimated", forces="estimated")
    config = WalkConfig(robot="go1", duration_s=1.0, sensing=sensing, actuators=ActuatorSettings(kind="robot"))
    metrics = record_walk(WalkScene.of(config), tmp_path / "run")
    assert metrics["completed"]
    assert metrics["estimate_velocity_m_s"] < 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("plant", ["coulomb-lcp", "mujoco"])
@pytest.mark.parametrize("robot", ["go1", "solo12", "links"])
def test_a_minute_of_trot_estimates_its_base_without_foot_sensors(tmp_path, robot, plant):
    if plant == "mujoco":
        pytest.importorskip("mujoco")
    check(trot(tmp_path / "run", robot, plant, 60.0))


def test_chain_runs_stages_in_order(quadruped):
    truth = Sensed(state=standing_state(quadruped, 0.0), tau=np.zeros(12), accelerometer=np.zeros(3))
    seen = []

    def note(name):
        return lambda sensed: (seen.append(name), sensed)[1]

    assert chain([note("first"), note("second")])(truth) is truth.state
    assert seen == ["first", "second"]
