"""The torque filter returns the nearest admissible torques, and changes none without need."""

import copy
import pickle

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import idcontrol as idc
from idcontrol.adapters.gymnasium import JointTargets
from idcontrol.controllers import Gains
from idcontrol.filter.nearest import WRENCH_WEIGHT

pytestmark = pytest.mark.interpreted

MU, H = 0.3, 1e-3


@pytest.fixture(scope="module")
def robot():
    return idc.robots.load("go1")


@pytest.fixture(scope="module")
def standing(robot):
    """The torques and the state of a standing robot."""
    state = robot.standing_state()
    return idc.controllers.make("id-coulomb-qp", robot, mu=MU)(state, robot.standing_reference()).tau, state


def filtered(robot, **options):
    return idc.filter.Torques(robot, mu=MU, **options)


@settings(max_examples=10, deadline=None)
@given(push=st.lists(st.floats(-1.0, 1.0), min_size=12, max_size=12))
def test_torques_within_all_limits_stay_bitwise_unchanged(robot, standing, push):
    tau, state = standing
    wanted = tau + 0.3 * np.array(push)
    torques = filtered(robot)
    command = torques(state, tau=wanted)
    assert torques.cut == ()
    assert command.status is idc.Status.SOLVED
    np.testing.assert_array_equal(command.tau, wanted)
    np.testing.assert_allclose(command.predicted.force, forward(robot, state, wanted)[1] / H, atol=1e-4)


def terms(robot, state):
    """Return M, h bias - M v, contact rows (3, n, m), map of torques (m, a) and gap/h (n,), in the system's order."""
    contacts = robot.contacts(mu=MU)
    system = contacts.system
    system.update(state.q, state.v)
    candidates = contacts.detect(0.01)
    v = state.v[system.order]
    select = np.zeros((system.n_velocities, system.n_actuated))
    select[system.n_unactuated :] = np.eye(system.n_actuated)
    rows = candidates.jacobian.reshape(3, -1, system.n_velocities)
    return system.M.copy(), H * system.bias - system.M @ v, rows.copy(), select, candidates.gap / H


def pyramid(f):
    return [f[0] >= 0.0, *(s * f[1] + t * f[2] <= MU * f[0] for s in (1, -1) for t in (1, -1))]


def forward(robot, state, tau):
    """Return v⁺ and the impulses (n, 3) in [x, y, z] of maximal dissipation for known torques, by Clarabel."""
    M, kappa, rows, select, gap = terms(robot, state)
    f = cp.Variable((3, rows.shape[1]))
    L = np.linalg.cholesky(M)
    free = np.linalg.solve(M, H * select @ tau - kappa)
    change = sum(np.linalg.solve(L, rows[axis].T) @ f[axis] for axis in range(3))
    kinetic = cp.sum_squares(L.T @ free + change) / 2 + gap @ f[0]
    cp.Problem(cp.Minimize(kinetic), pyramid(f)).solve(
        cp.CLARABEL, tol_gap_abs=1e-12, tol_gap_rel=1e-12, tol_feas=1e-12
    )
    v = free + np.linalg.solve(L.T, change.value)
    normal, x, y = f.value
    return v, np.column_stack([x, y, normal])


@pytest.mark.parametrize("hip", [4.0, -8.0])
def test_feet_that_would_slip_get_the_nearest_torques_that_clarabel_finds(robot, standing, hip):
    tau, state = standing
    wanted = tau + hip * np.tile([1.0, 0.0, 0.0], 4) * [1, 1, 1, -1, -1, -1, 1, 1, 1, -1, -1, -1]
    torques = filtered(robot)
    command = torques(state, tau=wanted)
    assert torques.cut == ("friction",)

    M, kappa, rows, select, gap = terms(robot, state)
    v_wanted, predicted = forward(robot, state, wanted)
    slip = np.linalg.norm(np.einsum("anm,m->an", rows[1:], v_wanted), axis=0)
    assert slip.max() > 1e-3
    limit = robot.system().effort_limit
    motors, v, f = cp.Variable(12), cp.Variable(18), cp.Variable((3, 4))
    pressed = sum(rows[axis].T @ f[axis] for axis in range(3))
    cost = cp.sum_squares(cp.multiply(motors - wanted, 1.0 / limit))
    J = rows.reshape(12, 18)
    still = np.r_[-gap, np.zeros(8)] - J @ np.linalg.solve(M, H * select @ wanted - kappa)
    stuck = np.linalg.solve(J @ np.linalg.solve(M, J.T), still)  # impulses that hold the feet under the wanted torques
    white = np.linalg.solve(np.linalg.cholesky(M[:6, :6]), J[:, :6].T)
    unit = WRENCH_WEIGHT / (limit.min() * H) ** 2 / np.sum(white**2, axis=0).max()
    assert np.abs(stuck[4:].reshape(2, 4).sum(axis=1)).sum() < MU * predicted[:, 2].sum()
    cost += unit * cp.sum_squares(white @ (cp.vec(f, order="C") - np.r_[predicted[:, 2], stuck[4:]]))
    held = [M @ v + kappa == pressed + H * select @ motors, rows[0] @ v + gap == 0.0]
    held += [rows[axis] @ v == 0.0 for axis in (1, 2)]
    cp.Problem(cp.Minimize(cost), [*held, *pyramid(f), motors <= limit, motors >= -limit]).solve(cp.CLARABEL)
    np.testing.assert_allclose(command.tau, motors.value, atol=1e-3)
    np.testing.assert_allclose(command.predicted.force[:, 2], f.value[0] / H, atol=1e-2)


def careless(robot, mu, through):
    """Run joint targets that jump at random for 0.3 s; return the path that loaded feet slide [m], and all torques."""
    system, state, rng = robot.system(), robot.standing_state(), np.random.default_rng(3)
    home = system.joint_positions(state.q)
    kp, kd = robot.torque_gains(system.actuated_names)
    plant, contacts = idc.plants.make("coulomb-lcp", robot, mu=mu, rate_hz=1.0 / H), robot.contacts(mu=1.0)
    torques, slid, all_torques = idc.filter.Torques(robot, mu=mu), 0.0, []
    state = plant.reset(state)
    for k in range(300):
        if k % 20 == 0:
            target = home + 0.05 * rng.standard_normal(12)
        tau = kp * (target - system.joint_positions(state.q)) - kd * system.joint_velocities(state.v)
        tau = torques(state, q=target).tau if through else np.clip(tau, -system.effort_limit, system.effort_limit)
        state = plant.step(tau, H)
        contacts.system.update(state.q, state.v)
        loaded = plant.contact_forces()
        speed = contacts.detect(np.inf).jacobian.reshape(3, 4, -1)[1:] @ state.v[contacts.system.order]
        slid += H * sum(np.linalg.norm(speed[:, i]) for i in loaded.identity[loaded.force[:, 2] > 1.0])
        all_torques.append(tau)
    return slid, np.array(all_torques)


@pytest.mark.slow
def test_careless_targets_slide_feet_less_than_half_as_far_through_the_filter(robot):
    alone, _ = careless(robot, MU, through=False)
    through, tau = careless(robot, MU, through=True)
    assert through < 0.5 * alone
    assert (np.abs(tau) <= robot.system().effort_limit).all()


def test_contact_forces_and_power_stay_below_their_caps(robot, standing):
    tau, state = standing
    capped = filtered(robot, force_n=34.0)
    command = capped(state, tau=1.5 * tau)
    assert "force" in capped.cut
    assert command.predicted.force[:, 2].max() <= 34.0 + 1e-6
    v = state.v.copy()
    v[6:] = 2.0
    moving = idc.State(t=0.0, q=state.q + np.r_[0.0, 0.0, 0.1, np.zeros(16)], v=v)
    weak = filtered(robot, power_w=20.0)
    command = weak(moving, tau=np.full(12, 5.0))
    assert weak.cut == ("power",)
    square = robot.system().effort_limit ** 2  # minimize Σ ((τ - 5) / limit)² subject to 2 Σ τ = 20
    np.testing.assert_allclose(command.tau, 5.0 - 50.0 * square / square.sum())


def test_a_joint_on_its_way_to_a_stop_is_slowed_down(robot):
    system, state = robot.system(), robot.standing_state()
    joints = system.joint_positions(state.q)
    joints[2] = system.limits.lower[2] + 0.01
    v = np.zeros(18)
    v[6 + 2] = -4.0
    torques = filtered(robot)
    flying = idc.State(t=0.0, q=system.configuration(joints, [0, 0, 1, 0, 0, 0, 1]), v=v)
    command = torques(flying, tau=np.zeros(12))
    system.update(flying.q, flying.v)
    after = v + H * np.linalg.solve(system.M, np.r_[np.zeros(6), command.tau] - system.bias)
    assert "joint" in torques.cut
    assert after[6 + 2] >= -2.0 - 1e-6  # a fifth of the way in a period


def test_targets_follow_the_law_of_the_drives_or_its_damping_alone(robot, standing):
    _, state = standing
    kp, kd = robot.torque_gains(robot.system().actuated_names)
    torques, feed = filtered(robot), np.full(12, 0.1)
    torques(state, q=robot.system().joint_positions(state.q) + 0.001, tau=feed)
    np.testing.assert_allclose(torques.wanted, 0.1 + 0.001 * kp, rtol=1e-9)
    torques(state, v=np.full(12, 0.5), tau=feed)
    np.testing.assert_allclose(torques.wanted, 0.1 + 0.5 * kd, rtol=1e-9)


def test_the_rate_of_torques_is_limited_if_asked_for(robot, standing):
    tau, state = standing
    torques = filtered(robot, rate_limit_nm_s="robot")
    torques(state, tau=tau)
    command = torques(state, tau=tau + 50.0)
    room = robot.system().limits.torque_rate * H
    assert (np.abs(command.tau - tau) <= room * (1.0 + 1e-9)).all()
    assert "torque" in torques.cut


@pytest.mark.parametrize("name", ["q", "v", "tau"])
def test_a_target_of_another_shape_is_refused_by_name(robot, standing, name):
    targets = {"q": standing[1].q[7:], name: np.zeros(11)}
    assert filtered(robot)(standing[1], **targets).dropped == (f"{name} has shape (11,); it needs (12,)",)


@pytest.mark.parametrize("target", [[0.0] * 11, [np.nan] * 12, "stand"])
def test_unusable_targets_give_no_torque_and_one_line(robot, standing, target):
    command = filtered(robot)(standing[1], q=target)
    assert command.status is idc.Status.FAILED
    assert "\n" not in command.dropped[0]


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({"mu": np.inf}, "mu is inf; a filter needs a finite friction coefficient, 0 or more"),
        ({"mu": -0.1}, "mu is -0.1; a filter needs a finite friction coefficient, 0 or more"),
        ({"mu": 0.5, "force_n": 0.0}, "force_n is 0; it must be positive"),
        ({"mu": 0.5, "power_w": np.nan}, "power_w is nan; it must be positive"),
        (
            {"mu": 0.5, "gains": Gains(kp=40.0, kd=np.ones(11))},
            "gains: kd must be one number, or 12 numbers, one for each joint",
        ),
    ],
)
def test_unusable_limits_are_refused(robot, options, line):
    with pytest.raises(idc.IdControlError) as error:
        idc.filter.Torques(robot, **options)
    assert str(error.value) == line


@pytest.mark.slow
def test_an_environment_takes_the_filter_as_its_layer_below_a_policy(robot):
    environment = JointTargets("go1", "idcontrol.filter:Torques", mu=MU, spread_rad=0.0)
    environment.reset(seed=0)
    for _ in range(10):
        _, _, fallen, _, info = environment.step(np.zeros(12))
    assert not fallen
    assert (np.abs(info["tau"]) <= robot.system().effort_limit).all()


def net(forces):
    return forces.force.sum(axis=0)


def test_a_sole_that_lands_on_its_edge_is_predicted_with_its_impact():
    robot = idc.robots.load("g1")
    state, limit = robot.standing_state(), robot.system().effort_limit
    tau = np.clip(
        idc.controllers.make("id-coulomb-qp", robot, mu=0.8)(state, robot.standing_reference()).tau, -limit, limit
    )
    v = state.v.copy()
    v[4] = 0.5  # pitch: the toes strike, the heels lift
    torques, plant = idc.filter.Torques(robot, mu=0.8), idc.plants.make("dissipation", robot, mu=0.8, rate_hz=1.0 / H)
    state = plant.reset(idc.State(t=0.0, q=state.q, v=v))
    for _ in range(4):
        command = torques(state, tau=tau)
        state = plant.step(command.tau, H)
        np.testing.assert_allclose(net(command.predicted), net(plant.contact_forces()), atol=0.1)


def test_feet_that_come_down_fast_obey_the_cap_of_forces_before_they_touch(robot):
    state = robot.standing_state()
    q, v = state.q.copy(), state.v.copy()
    q[2], v[2] = q[2] + 1.5e-3, -2.0
    state = idc.State(t=0.0, q=q, v=v)
    torques, plant = filtered(robot, force_n=100.0), idc.plants.make("dissipation", robot, mu=MU, rate_hz=1.0 / H)
    command = torques(state, tau=np.zeros(12))
    plant.reset(state)
    plant.step(command.tau, H)
    assert "force" in torques.cut
    assert torques.broken == ()
    assert plant.contact_forces().force[:, 2].max() <= 100.0 + 1e-3


@pytest.mark.slow
def test_a_heavy_arm_comes_to_rest_at_its_stop():
    robot = idc.robots.load("panda")
    system, state, target = robot.system(), robot.standing_state(), robot.standing_reference().q.copy()
    lower = system.limits.lower[3]
    target[3] = lower - 0.3
    torques, plant = idc.filter.Torques(robot, mu=MU), idc.plants.make("coulomb-lcp", robot, mu=MU, rate_hz=1.0 / H)
    state = plant.reset(state)
    fastest = 0.0
    for _ in range(600):
        system.update(state.q, state.v)
        command = torques(state, q=target, tau=system.bias.copy())
        assert torques.broken == ()
        before, state = state, plant.step(command.tau, H)
        if system.joint_positions(state.q)[3] < lower + 1e-4:
            fastest = max(fastest, abs(before.v[3]))
    assert 0.0 < fastest < 0.01


def test_a_joint_beyond_its_stop_returns_smoothly(robot):
    system, state = robot.system(), robot.standing_state()
    joints = system.joint_positions(state.q)
    joints[2] = system.limits.lower[2] - 0.05
    beyond = idc.State(t=0.0, q=system.configuration(joints, [0, 0, 1, 0, 0, 0, 1]), v=np.zeros(18))
    torques = filtered(robot)
    command = torques(beyond, tau=np.zeros(12))
    system.update(beyond.q, beyond.v)
    after = H * np.linalg.solve(system.M, np.r_[np.zeros(6), command.tau] - system.bias)
    assert torques.broken == ()
    np.testing.assert_allclose(after[6 + 2], H * 50.0**2 * 0.05, rtol=1e-6)  # ω² times the distance


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda torques: pickle.loads(pickle.dumps(torques))])
def test_copies_filter_alike(robot, standing, copied):
    tau, state = standing
    torques = filtered(robot, force_n=34.0, rate_limit_nm_s="robot")
    torques(state, tau=tau)
    twin = copied(torques)
    np.testing.assert_array_equal(twin(state, tau=1.5 * tau).tau, torques(state, tau=1.5 * tau).tau)
    assert twin.cut == torques.cut != ()
    np.testing.assert_array_equal(twin.wanted, 1.5 * tau)


def test_an_unreadable_state_leaves_no_cut_of_the_last_step(robot, standing):
    tau, state = standing
    torques = filtered(robot)
    torques(state, tau=tau + 50.0)
    assert torques.cut
    assert torques(None, tau=None).status is idc.Status.FAILED
    assert torques.cut == ()


def constant_targets(robot, mu, target, ticks):
    """Hold joint targets through the filter; return all torques, normal forces (ticks, 4), and the last state."""
    plant, torques = idc.plants.make("coulomb-lcp", robot, mu=mu, rate_hz=1.0 / H), idc.filter.Torques(robot, mu=mu)
    state, tau, normal = plant.reset(robot.standing_state()), [], np.zeros((ticks, 4))
    for k in range(ticks):
        tau.append(torques(state, q=target).tau)
        state, forces = plant.step(tau[-1], H), plant.contact_forces()
        normal[k, forces.identity] = forces.force[:, 2]
    return np.array(tau), normal, state


@pytest.mark.slow
def test_targets_that_pull_feet_apart_leave_the_robot_standing(robot):
    home = robot.standing_reference().q
    apart = home + 0.2 * np.kron([1.0, -1.0, 1.0, -1.0], [1.0, 0.0, 0.0])  # 50 N m, twice the limit of the hips
    tau, normal, state = constant_targets(robot, 0.6, apart, 250)
    assert normal.min() > 1.0
    assert np.abs(np.diff(tau, axis=0)).max() < 1.0  # N m in a period: the loads change smoothly
    assert np.abs(state.q[3:5]).max() < 1e-3  # half of the tilt [rad]


def test_a_joint_that_cannot_brake_in_time_leaves_the_limits_of_the_others(robot):
    system = robot.system()
    joints, v = system.joint_positions(robot.standing_state().q), np.zeros(18)
    joints[[2, 5]] = system.limits.lower[[2, 5]] + 0.01
    v[[6 + 2, 6 + 5]] = -20.0, -4.0
    flying = idc.State(t=0.0, q=system.configuration(joints, [0, 0, 1, 0, 0, 0, 1]), v=v)
    torques = filtered(robot)
    command = torques(flying, tau=np.zeros(12))
    system.update(flying.q, flying.v)
    after = v + H * np.linalg.solve(system.M, np.r_[np.zeros(6), command.tau] - system.bias)
    assert torques.broken_joints == (system.actuated_names[2],)
    np.testing.assert_allclose(command.tau[2], system.effort_limit[2], rtol=1e-3)  # it brakes as hard as it can
    assert after[6 + 5] >= -2.0 - 1e-6


def sliding(robot, speed):
    """Return the standing state with a base and feet that slide sideways."""
    state = robot.standing_state()
    v = state.v.copy()
    v[1] = speed
    return idc.State(t=0.0, q=state.q, v=v)


def test_caps_of_forces_hold_while_feet_slide(robot, standing):
    tau, _ = standing
    torques, plant = filtered(robot, force_n=34.0), idc.plants.make("dissipation", robot, mu=MU, rate_hz=1.0 / H)
    state = plant.reset(sliding(robot, 0.1))
    for _ in range(8):
        command = torques(state, tau=1.6 * tau)
        assert "force" in torques.cut
        assert "force" not in torques.broken
        state = plant.step(command.tau, H)
        assert plant.contact_forces().force[:, 2].max() <= 34.0 + 1e-3


@pytest.mark.slow
def test_joints_brake_before_their_stops_while_feet_slide(robot):
    torques, plant = idc.filter.Torques(robot, mu=0.1), idc.plants.make("dissipation", robot, mu=0.1, rate_hz=1.0 / H)
    state, cut, broken = plant.reset(robot.standing_state()), 0, 0
    for _ in range(250):
        command = torques(state, tau=np.zeros(12))
        cut, broken = cut + ("joint" in torques.cut), broken + ("joint" in torques.broken)
        state = plant.step(command.tau, H)
    assert cut > 50
    assert broken == 0
