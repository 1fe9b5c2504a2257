"""Targets of a planner at a low rate become tasks and references at the rate of the loop."""

import numpy as np
import pinocchio as pin
import pytest

import idcontrol as idc
from idcontrol.errors import InputError
from idcontrol.mpc import JOIN_S
from idcontrol.types import Array

H, MU = 1e-3, 0.6


@pytest.fixture(scope="module")
def robot() -> idc.robots.Robot:
    return idc.robots.load("go1")


def sway(robot: idc.robots.Robot, t: float) -> tuple[Array, Array, Array]:
    """Return q, v and a of a base that moves up and down by 1 cm at 1 Hz; the targets of the joints do not move."""
    w, z = 2.0 * np.pi, 0.01
    q, v, a = robot.standing_state().q.copy(), np.zeros(18), np.zeros(18)
    q[2] += z * (np.cos(w * t) - 1.0)
    v[2], a[2] = -w * z * np.sin(w * t), -w * w * z * np.cos(w * t)
    return q, v, a


def test_targets_at_100_hz_are_met_with_their_derivatives(robot: idc.robots.Robot) -> None:
    socket, stands = idc.mpc.Socket(robot), np.ones(4)
    state = robot.standing_state()
    socket(state)
    joint = np.zeros(18)
    joint[7] = 1.0
    home = state.q
    for k in range(1, 4):
        t = 0.01 * k
        socket.set_target(pin.integrate(robot.system().model, home, 5.0 * t**2 * joint), 10.0 * t * joint,
                          10.0 * joint, stands, t=t)  # fmt: skip
    socket(idc.State(t=0.01, q=home, v=np.zeros(18)))
    for t in (0.013, 0.02, 0.0275):
        reference = socket(idc.State(t=t, q=home, v=np.zeros(18)))
        moved = reference.q - robot.system().joint_positions(home)
        assert moved.max() == pytest.approx(5.0 * t**2, rel=1e-9)
        assert reference.v.max() == pytest.approx(10.0 * (t - 0.5 * H), rel=1e-9)
        assert reference.a.max() == pytest.approx(10.0, rel=1e-6)


def test_a_replaced_target_does_not_make_the_reference_jump(robot: idc.robots.Robot) -> None:
    socket, state = idc.mpc.Socket(robot), robot.standing_state()
    q, still = state.q.copy(), np.zeros(18)
    socket(state)
    q[7] += 0.1
    socket.set_target(q, still, still, np.ones(4), t=0.02)
    before = socket(idc.State(t=0.005, q=state.q, v=still))
    q[7] -= 0.2
    socket.set_target(q, still, still, np.ones(4), t=0.02)
    after = socket(idc.State(t=0.005 + 1e-12, q=state.q, v=still))
    later = socket(idc.State(t=0.019, q=state.q, v=still))
    for name in ("q", "v", "a"):
        np.testing.assert_allclose(getattr(after, name), getattr(before, name), rtol=1e-6, atol=1e-4)
    assert before.v.max() > 1.0
    assert before.a.max() > 100.0
    home = robot.system().joint_positions(state.q)
    assert (later.q - home).min() == pytest.approx(-0.1, abs=0.01)


def test_reference_has_the_heading_of_a_leaning_base(robot: idc.robots.Robot) -> None:
    socket, state = idc.mpc.Socket(robot), robot.standing_state()
    q = state.q.copy()
    q[3:7] = pin.Quaternion(pin.rpy.rpyToMatrix(0.3, 0.2, 0.5)).coeffs()
    socket.reset(idc.State(t=0.0, q=q, v=np.zeros(18)))
    assert socket(state).base_yaw == pytest.approx(0.5)


def test_contacts_count_down_to_liftoff_and_up_from_touchdown(robot: idc.robots.Robot) -> None:
    socket, state, still = idc.mpc.Socket(robot), robot.standing_state(), np.zeros(18)
    socket(state)
    for t, first in ((0.01, True), (0.02, False), (0.03, True), (0.04, True)):
        socket.set_target(state.q, still, still, [first, True, True, True], t=t)
    at = {t: socket(idc.State(t=t, q=state.q, v=still)) for t in (0.012, 0.025, 0.034)}
    assert at[0.012].to_liftoff[0] == pytest.approx(0.008)
    assert at[0.012].to_liftoff[1] == np.inf
    assert at[0.025].stance.tolist() == [False, True, True, True]
    assert at[0.034].since_touchdown[0] == pytest.approx(0.004)


def test_times_that_differ_by_rounding_are_equal(robot: idc.robots.Robot) -> None:
    socket, state, still = idc.mpc.Socket(robot), robot.standing_state(), np.zeros(18)
    socket(state)
    q = state.q.copy()
    q[7] += 0.1
    socket.set_target(q, still, still, np.ones(4), t=0.3)
    socket.set_target(state.q, still, still, [False, True, True, True], t=0.1 + 0.2)  # more than 0.3: replaces it
    between, end = (socket(idc.State(t=t, q=state.q, v=still)) for t in (0.15, 0.3))
    np.testing.assert_allclose(between.q, robot.system().joint_positions(state.q), atol=1e-12)
    assert not end.stance[0]


def test_the_reference_comes_to_rest_when_targets_stop(robot: idc.robots.Robot) -> None:
    socket, state, still = idc.mpc.Socket(robot), robot.standing_state(), np.zeros(18)
    socket(state)
    moving = still.copy()
    moving[7] = 1.0
    socket.set_target(state.q, moving, still, np.ones(4), t=0.01)
    last = [socket(idc.State(t=k * H, q=state.q, v=still)) for k in range(1, 130)][-1]
    assert [event.what for event in socket.events] == ["targets stale"]
    assert np.abs(last.v).max() == np.abs(last.a).max() == 0.0
    assert np.abs(last.q - robot.system().joint_positions(state.q)).max() == pytest.approx(0.05)
    socket.set_target(state.q, still, still, np.ones(4), t=0.2)
    assert socket.events[-1].what == "targets resumed"


def test_a_stale_stream_damps_or_stops_as_asked(robot: idc.robots.Robot) -> None:
    state, still = robot.standing_state(), np.zeros(18)
    for policy in ("damp", "stop"):
        socket = idc.mpc.Socket(robot, stale=policy)  # type: ignore[arg-type]
        socket(state)
        socket.set_target(state.q, still + 0.1, still, np.ones(4), np.full((4, 3), 30.0), t=0.01)
        late = idc.State(t=0.02, q=pin.integrate(robot.system().model, state.q, still + 0.1), v=still)
        if policy == "stop":
            with pytest.raises(InputError, match=r"no target after t=0.01 s"):
                socket(late)
        else:
            reference = socket(late)
            assert np.array_equal(reference.q, robot.system().joint_positions(late.q))
            assert not reference.v.any()
            assert not any(task.weight.any() for task in socket.tasks if not isinstance(task, idc.tasks.Posture))


def test_a_late_or_misshapen_target_is_refused(robot: idc.robots.Robot) -> None:
    socket, state, still = idc.mpc.Socket(robot), robot.standing_state(), np.zeros(18)
    socket(idc.State(t=1.0, q=state.q, v=still))
    with pytest.raises(InputError, match="send it earlier"):
        socket.set_target(state.q, still, still, np.ones(4), t=1.0)
    with pytest.raises(InputError, match="contacts of a target"):
        socket.set_target(state.q, still, still, np.ones(3), t=2.0)


@pytest.mark.slow
def test_100_hz_targets_move_the_base_as_smoothly_as_1_khz_targets(robot: idc.robots.Robot) -> None:
    rates, errors = {}, {}
    for every in (1, 10):
        socket = idc.mpc.Socket(robot)
        controller = idc.controllers.make("id-coulomb-qp", robot, mu=MU, tasks=socket.tasks)
        plant = idc.plants.make("coulomb-lcp", robot, mu=MU, rate_hz=1000.0)
        state, taus = plant.reset(robot.standing_state()), []
        socket(state)
        for k in range(300):
            if k % every == 0:
                t = (k + every) * H
                socket.set_target(*sway(robot, t), np.ones(4), t=t)
            command = controller(state, socket(state))
            taus.append(command.tau)
            state = idc.State(t=(k + 1) * H, q=(after := plant.step(command.tau, H)).q, v=after.v)
        rates[every] = np.abs(np.diff(taus[50:], axis=0)).mean() / H
        errors[every] = abs(state.q[2] - sway(robot, state.t)[0][2])
    assert max(errors.values()) < 1e-3
    assert rates[10] < 1.2 * rates[1]


def test_force_targets_reach_the_predicted_forces(robot: idc.robots.Robot) -> None:
    socket = idc.mpc.Socket(robot)
    controller = idc.controllers.make("id-coulomb-qp", robot, mu=MU, tasks=socket.tasks)
    state, still = robot.standing_state(), np.zeros(18)
    share = robot.system().mass * 9.81 / 4.0
    wanted = np.zeros((4, 3))
    wanted[:, 2] = share + np.array([5.0, -5.0, -5.0, 5.0])  # the same force and moment on the base
    socket.set_target(state.q, still, still, np.ones(4), wanted, t=1.0)
    command = controller(state, socket(state))
    assert command.predicted is not None
    normal = command.predicted.force[np.argsort(command.predicted.identity), 2]
    diagonal = normal[0] + normal[3] - normal[1] - normal[2]
    assert diagonal == pytest.approx(20.0, abs=1.0)


def feedback_command(robot: idc.robots.Robot, scale: float) -> tuple[idc.Command, Array, float]:
    """Return the command under a random K, the torques ``τ_ff + K (x ⊖ x0)``, and the feedback's largest torque."""
    socket, state, still = idc.mpc.Socket(robot), robot.standing_state(), np.zeros(18)
    controller = idc.controllers.make("id-coulomb-qp", robot, mu=MU, tasks=socket.tasks)
    rng, system, contacts = np.random.default_rng(3), robot.system(), robot.contacts(MU)
    turn, K = 0.02 * rng.standard_normal(36), scale * rng.standard_normal((12, 36))
    x0 = np.concatenate((pin.integrate(system.model, state.q, turn[:18]), turn[18:]))
    # feedback of the error from this reference would add torques of a newton metre
    q = pin.integrate(system.model, state.q, np.concatenate((np.zeros(6), 0.01 * rng.standard_normal(12))))
    contacts.system.update(q, still)
    J = contacts.detect(np.inf).jacobian
    f = np.linalg.lstsq(J[:, :6].T, contacts.system.bias[:6])[0]
    socket.set_target(q, still, still, np.ones(4), f.reshape(3, 4).T[:, [1, 2, 0]], K, x0)
    gravity = pin.rnea(system.model, system.model.createData(), q, still, still)[6:]
    feedback = K @ np.concatenate((pin.difference(system.model, x0[:19], state.q), -x0[19:]))
    wanted = gravity - f @ J[:, 6:] + feedback
    return controller(state, socket(state)), wanted, float(np.abs(feedback).max())


def test_feedback_matrix_adds_its_torques_once(robot: idc.robots.Robot) -> None:
    command, wanted, feedback = feedback_command(robot, 2.0)
    assert feedback > 0.3
    np.testing.assert_allclose(command.tau, wanted, atol=1e-3)


def test_feedback_matrix_stays_within_limits_and_cones(robot: idc.robots.Robot) -> None:
    command, wanted, _ = feedback_command(robot, 3e3)
    limit = robot.system().effort_limit
    assert (np.abs(wanted) > 2.0 * limit).any()
    assert (np.abs(command.tau) <= limit + 1e-9).all()
    assert command.predicted is not None
    force = command.predicted.force
    assert (np.hypot(force[:, 0], force[:, 1]) <= MU * force[:, 2] + 1e-6).all()


def test_a_target_without_a_time_holds_until_the_next(robot: idc.robots.Robot) -> None:
    socket, state, still = idc.mpc.Socket(robot), robot.standing_state(), np.zeros(18)
    q = state.q.copy()
    q[7] += 0.1
    socket.set_target(q, still, still, np.ones(4), t=0.5)
    socket.set_target(q, still, still, np.ones(4))
    held = [socket(idc.State(t=t, q=state.q, v=still)).q for t in (0.001, 5.0)]
    assert not socket.events
    assert all(np.array_equal(joints, robot.system().joint_positions(q)) for joints in held)
    socket.set_target(state.q, still, still, np.ones(4), t=5.02)
    half = socket(idc.State(t=5.01, q=state.q, v=still)).q - robot.system().joint_positions(state.q)
    assert half[0] == pytest.approx(0.05)


@pytest.mark.parametrize("lands_s", [0.05, np.inf])
def test_a_foot_lifts_off_from_where_it_stands_and_joins_its_path(robot: idc.robots.Robot, lands_s: float) -> None:
    socket, state, still = idc.mpc.Socket(robot), robot.standing_state(), np.zeros(18)
    controller = idc.controllers.make("id-coulomb-qp", robot, mu=MU, tasks=socket.tasks)
    q = state.q.copy()
    q[8] += 0.2  # the thigh of LF
    socket.set_target(q, still, still, [False, True, True, True], t=1e-4)
    socket.set_target(q, still, still, [np.isfinite(lands_s), True, True, True], t=min(lands_s, 1.0))
    moved = [robot.system() for _ in range(2)]
    for system, at in zip(moved, (q, state.q), strict=True):
        system.update(at, still)
    feet = [task for task in socket.tasks if isinstance(task, idc.tasks.Frame)][1:]
    frame = moved[0].frame(feet[0].frame)
    way = moved[0].data.oMf[frame].translation - moved[1].data.oMf[frame].translation
    joined = min(lands_s - H, JOIN_S)
    for t, share in ((0.0, 0.0), (0.5 * joined, 0.5), (joined - 1e-3, 1.0)):
        at = idc.State(t=H + t, q=state.q, v=still)
        controller(at, socket(at))
        np.testing.assert_allclose(feet[0].error, share * way, atol=0.03 * np.linalg.norm(way))
    assert [task.weight.max() for task in feet] == [1.0, 0.0, 0.0, 0.0]
