"""Controllers with whole-body tasks, on point feet and on soles, in closed loop and at single states."""

import copy
import itertools

import numpy as np
import pinocchio as pin
import pytest
from msgspec import structs

from idcontrol import controllers, plants, robots, tasks
from idcontrol.controllers import InverseSettings
from idcontrol.controllers.stance import as_rigid
from idcontrol.errors import InputError, UnknownName
from idcontrol.kernels.arena import HEAP
from idcontrol.scenes.body import BALANCE, Body
from idcontrol.types import Status
from tests.tasks.machine import moving

H = 1e-3


def loop(robot, controller, plant, seconds, move):
    """Run a controller on a plant; yield state, command, and the plant's forces over the period."""
    contacts = robot.contacts(0.6)
    body = plants.build(plant, plants.Setup(system=contacts.system, contacts=contacts, dt=H))
    state, reference = body.reset(robot.standing_state(contacts.system)), robot.standing_reference()
    for k in range(round(seconds / H)):
        move(k * H)
        command = controller(state, reference)
        before, state = state, body.step(command.tau, H)
        yield before, command, body.contact_forces()


def swing(t, amplitude, omega):
    """A sine that begins smoothly and its derivatives; a step ends with the mean velocity of its period."""
    x = min(t / 0.2, 1.0)
    ramp, rate, bend = (
        10 * x**3 - 15 * x**4 + 6 * x**5,
        (30 * x**2 - 60 * x**3 + 30 * x**4) / 0.2,
        (60 * x - 180 * x**2 + 120 * x**3) / 0.04,
    )
    sine, cosine = np.sin(omega * t), np.cos(omega * t)
    velocity = rate * sine + ramp * omega * cosine
    acceleration = bend * sine + 2.0 * rate * omega * cosine - ramp * omega**2 * sine
    return amplitude * ramp * sine, amplitude * (velocity - 0.5 * H * acceleration), amplitude * acceleration


def wrench(points, patch, forces):
    """Force and moment about the middle of each sole [N, N m], shape (soles, 6)."""
    force = np.zeros_like(points)
    force[forces.identity] = forces.force
    result = []
    for foot in range(patch.max() + 1):
        corners = patch == foot
        arm = points[corners] - points[corners].mean(axis=0)
        result.append(np.r_[force[corners].sum(axis=0), np.cross(arm, force[corners]).sum(axis=0)])
    return np.array(result)


@pytest.mark.parametrize("name", ["id-coulomb-qp", "id-noslip-lcp"])
def test_a_base_task_takes_priority_over_joints_at_rest(name):
    robot = robots.load("go1")
    base = tasks.Frame("trunk", strict=True)
    controller = controllers.make(name, robot, mu=0.6, tasks=[base, tasks.Posture(kp=30.0)])
    home = pin.XYZQUATToSE3(robot.standing_state().q[:7])

    def move(t):
        position, velocity, acceleration = swing(t, np.array([0.02, 0.01, 0.015]), 2 * np.pi)
        place = pin.SE3(home.rotation, home.translation + position)
        base.set(place, np.r_[velocity, 0, 0, 0], np.r_[acceleration, 0, 0, 0])

    missed, moved = [], []
    for state, command, _ in loop(robot, controller, "coulomb-lcp", 0.5, move):
        assert command.status is Status.SOLVED
        assert command.demand == "free"
        missed.append(np.abs(base.error).max())
        moved.append(np.linalg.norm(state.q[:3] - home.translation))
    assert max(moved) > 5e-3
    assert max(missed[200:]) < 2e-5  # the reference is followed to its second order in the period


def test_a_humanoid_sways_on_both_soles_and_predicts_their_wrenches():
    robot = robots.load("talos")
    com, torso = tasks.CoM(strict=True), tasks.Frame("torso_2_link", "orientation", strict=True)
    controller = controllers.make("id-coulomb-qp", robot, mu=0.6, tasks=[com, torso, tasks.Posture(kp=30.0)])
    eye = robot.contacts(0.6)
    centre = eye.system.com(robot.standing_state(eye.system).q)

    def move(t):
        position, velocity, acceleration = swing(t, np.array([0.0, 0.02, 0.0]), np.pi)
        com.set(centre + position, velocity, acceleration)

    for k, (state, command, measured) in enumerate(loop(robot, controller, "coulomb-lcp", 0.4, move)):
        assert (command.status, command.demand, command.solved_by) == (Status.SOLVED, "free", "sticking")
        if k % 50 == 49:
            eye.system.update(state.q, state.v)
            eye.detect(np.inf)
            real, predicted = (wrench(eye.point, eye.patch, forces) for forces in (measured, command.predicted))
            np.testing.assert_allclose(predicted, real, atol=1e-4 * np.abs(real).max())
            assert np.linalg.norm(com.error) < 1e-5


def test_a_demand_beyond_friction_is_cut_to_what_the_cones_hold():
    robot, mu = robots.load("go1"), 0.2
    com = tasks.CoM(kp=0.0)
    controller = controllers.make("id-coulomb-qp", robot, mu=mu, tasks=[com, tasks.Frame("trunk", "orientation")])
    state, reference = robot.standing_state(), robot.standing_reference()
    weight = robot.system().mass * 9.81
    com.set(np.zeros(3), acceleration=[5.0, 0.0, 0.0])  # friction holds 2 m/s² at most
    command = controller(state, reference)
    assert (command.status, command.demand) == (Status.SOLVED, "qp")
    force = command.predicted.force
    assert (np.abs(force[:, :2]).sum(axis=1) <= mu * force[:, 2] + 1e-9 * weight).all()
    assert force[:, 0].sum() > 0.8 * mu * weight  # most of what friction allows
    np.testing.assert_allclose(force[:, 1].sum(), 0.0, atol=1e-2 * weight)
    com.set(np.zeros(3), acceleration=[1.0, 0.0, 0.0])
    command = controller(state, reference)
    assert command.demand == "free"


def test_an_infeasible_demand_is_reported_and_has_torques():
    robot = robots.load("go1")
    base = tasks.Frame("trunk", "position", kp=0.0, strict=True)
    controller = controllers.make("id-coulomb-qp", robot, mu=0.3, tasks=[base])
    base.set(np.zeros(3), acceleration=[20.0, 0.0, 0.0])
    command = controller(robot.standing_state(), robot.standing_reference())
    assert command.demand == "infeasible"
    assert command.status in (Status.SOLVED, Status.REPAIRED)
    assert np.isfinite(command.tau).all()
    force = command.predicted.force
    assert (np.hypot(force[:, 0], force[:, 1]) <= np.sqrt(2) * 0.3 * force[:, 2] + 1e-6).all()


def test_in_flight_the_joints_follow_and_momentum_is_conserved():
    robot = robots.load("go1")
    foot = tasks.Frame("FL_foot", "position", kp=0.0, kd=0.0, strict=True)
    controller = controllers.make("id-coulomb-qp", robot, mu=0.6, tasks=[foot])
    state = robot.standing_state()
    q = state.q.copy()
    q[2] += 0.5
    foot.set(np.zeros(3), acceleration=[1.0, 2.0, 3.0])
    reference = structs.replace(robot.standing_reference(), stance=np.zeros(4, dtype=np.bool_))
    command = controller(structs.replace(state, q=q), reference)
    system = robot.system()
    system.update(q, state.v)
    a = np.linalg.solve(system.M, np.r_[np.zeros(6), command.tau] - system.bias)
    frame, data = system.model.getFrameId("FL_foot"), system.model.createData()
    pin.forwardKinematics(system.model, data, q, state.v, a)
    result = pin.getFrameClassicalAcceleration(system.model, data, frame, pin.LOCAL_WORLD_ALIGNED).linear
    np.testing.assert_allclose(result, [1.0, 2.0, 3.0], atol=1e-9)


def test_tasks_may_serve_two_controllers_and_copies_have_their_own():
    robot = robots.load("go1")
    com = tasks.CoM()
    one, other = (controllers.make("id-coulomb-qp", robot, mu=0.6, tasks=[com]) for _ in range(2))
    state, reference = robot.standing_state(), robot.standing_reference()
    com.set([0.1, 0.0, 0.3])
    twin = copy.deepcopy(one)
    torque = one(state, reference).tau
    np.testing.assert_array_equal(other(state, reference).tau, torque)
    np.testing.assert_array_equal(twin(state, reference).tau, torque)
    com.set([-0.1, 0.0, 0.3])
    for controller in (one, other, twin):
        controller.reset()
    changed = one(state, reference).tau
    assert not np.allclose(changed, torque)
    np.testing.assert_array_equal(other(state, reference).tau, changed)
    np.testing.assert_array_equal(twin(state, reference).tau, torque)


def test_no_task_drives_a_joint_beyond_its_end():
    robot = robots.load("talos")
    system, state, reference = robot.system(), robot.standing_state(), robot.standing_reference()
    j = system.actuated_names.index("arm_left_4_joint")
    q = state.q.copy()
    q[7 + j] = system.limits.upper[j]
    beyond, data = q.copy(), system.model.createData()
    beyond[7 + j] += 1.0
    pin.framesForwardKinematics(system.model, data, beyond)
    elbow, torso = (tasks.Frame(name, "orientation", kp=20.0) for name in ("arm_left_4_link", "torso_2_link"))
    elbow.set(data.oMf[system.frame("arm_left_4_link")].rotation)
    listed = [elbow, torso, tasks.CoM(kp=60.0), tasks.Posture(kp=30.0, weight=1e-4)]
    controller = controllers.make("id-coulomb-qp", robot, mu=0.6, tasks=listed)
    state, reference = structs.replace(state, q=q), structs.replace(reference, q=q[7:])
    assert controller(state, reference).demand == "qp"  # motors could turn it further
    assert controller.problem(state, reference).b[j] < 1e-9


def test_a_reference_with_wrong_numbers_changes_nothing():
    com = tasks.CoM()
    com.set([1.0, 2.0, 3.0], [4.0, 5.0, 6.0])
    with pytest.raises(InputError, match="acceleration"):
        com.set(np.zeros(3), np.zeros(3), [np.nan, 0.0, 0.0])
    controllers.make("id-coulomb-qp", robots.load("go1"), mu=0.6, tasks=[com])
    targets, at = com._rooms[0]
    np.testing.assert_array_equal(targets.position[at], [1.0, 2.0, 3.0])
    np.testing.assert_array_equal(targets.velocity[at, :3], [4.0, 5.0, 6.0])


@pytest.mark.parametrize("task", [tasks.CoM(), tasks.Frame("trunk"), tasks.Momentum(), tasks.Posture()])
def test_an_attribute_that_a_task_does_not_have_is_refused(task):
    with pytest.raises(AttributeError):
        task.wieght = 0.0
    with pytest.raises(AttributeError):
        task.kp = 5.0


@pytest.mark.interpreted
def test_demands_on_the_corners_of_a_sole_are_a_rigid_motion():
    of = moving(np.random.default_rng(0), "talos")
    candidates = of.contacts.detect(np.inf)
    asked = np.random.default_rng(1).standard_normal(24)
    target = asked.copy()
    J, goal = as_rigid(candidates.arrays, of.contacts.patch, 6, target, HEAP)
    assert J.shape == (12, of.v.size)  # a twist for each sole is equivalent
    same = np.linalg.lstsq(candidates.jacobian, target, rcond=1e-10)[0]
    np.testing.assert_allclose(np.linalg.lstsq(J, goal)[0], same, atol=1e-9)
    for foot in (0, 1):
        rows = [axis * 8 + i for axis, i in itertools.product(range(3), np.flatnonzero(of.contacts.patch == foot))]
        twists = candidates.jacobian[rows][:, :6]
        best = twists @ np.linalg.lstsq(twists, asked[rows])[0]
        np.testing.assert_allclose(target[rows], best, atol=1e-12)


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: tasks.Frame("trunk", "place"), UnknownName, "place"),
        (lambda: tasks.Frame("trunk", axes="BODY"), UnknownName, "BODY"),
        (lambda: tasks.CoM(kp=-1.0), InputError, "must not be negative"),
        (lambda: tasks.CoM(weight=[1.0, 2.0]), InputError, "shape"),
        (lambda: tasks.CoM().set([0.0, np.nan, 0.0]), InputError, r"must be finite, not \[0\.0, nan, 0\.0\]$"),
        (lambda: tasks.CoM().set(0.9), InputError, r"shape \(3,\), not of shape \(\): 0\.9$"),
        (lambda: tasks.CoM().set(np.zeros((3, 1))), InputError, r"array\(\[\[0\.\], \[0\.\], \[0\.\]\]\)$"),
        (lambda: tasks.CoM().set(np.zeros(3), 0.1), InputError, "velocity"),
        (lambda: tasks.Frame("trunk").set(np.eye(4)), InputError, r"shape \(4, 4\)"),
        (lambda: tasks.Frame("trunk", "orientation").set(2.0 * np.eye(3)), InputError, "rotation matrix"),
        (lambda: tasks.Frame("trunk", "orientation").set(pin.Quaternion.Identity()), InputError, r"shape \(3, 3\)"),
        (lambda: tasks.Force("FL_foot", "moment"), UnknownName, "moment"),
        (lambda: tasks.Force("FL_foot").set(np.zeros(6)), InputError, r"shape \(3,\)"),
        (lambda: tasks.Force("FL_foot", "wrench", weight=[1.0, 1.0, 1.0]), InputError, r"shape \(6,\)"),
        (lambda: tasks.Posture(weight=0.0), InputError, "positive"),
        (lambda: tasks.Posture(weight=np.zeros(32)), InputError, "positive"),
        (lambda: tasks.Posture(kd=3.0), InputError, "kd without kp"),
        (lambda: tasks.Posture(kp=-1.0), InputError, "not be negative"),
        (lambda: tasks.Posture(kp=[1.0, 2.0]), InputError, "kp of the posture"),  # type: ignore[arg-type]
        (lambda: tasks.Posture(weight="heavy"), InputError, "weights of the posture must be numbers"),
    ],
)
def test_invalid_tasks_are_refused_in_one_line(make, error, words):
    with pytest.raises(error, match=words) as caught:
        make()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("robot", "name", "listed", "error", "words"),
    [
        ("go1", "id-coulomb-qp", lambda: [tasks.Frame("wing")], UnknownName, "wing"),
        ("go1", "id-coulomb-qp", lambda: [tasks.Frame("trunk", relative_to="wing")], UnknownName, "wing"),
        ("go1", "id-coulomb-qp", lambda: [tasks.Frame("FL_foot", relative_to="FL_calf")], InputError, "on one link"),
        ("go1", "id-coulomb-qp", lambda: [tasks.CoM()] * 2, InputError, "twice"),
        ("go1", "id-coulomb-qp", lambda: [tasks.Posture(), tasks.Posture()], InputError, "one Posture"),
        ("go1", "id-coulomb-qp", lambda: ["com"], InputError, "str"),
        ("go1", "id-coulomb-qp", lambda: [tasks.Posture(weight=[1.0, 2.0])], InputError, "2 weights"),
        ("talos", "id-coulomb-qp", lambda: [tasks.Force("left_sole")], UnknownName, "left_sole_link"),
        (
            "go1",
            "id-coulomb-qp",
            lambda: [tasks.Force("FL_foot") for _ in range(2)],
            InputError,
            "two Force tasks",
        ),
        ("panda", "id-coulomb-qp", lambda: [tasks.CoM()], InputError, "floating base"),
        ("panda", "id-coulomb-qp", lambda: [tasks.Frame("universe")], InputError, "fixed to the world"),
        ("go1", "pid", lambda: [tasks.CoM()], InputError, "'pid' takes no tasks"),
        ("go1", "id-sensed-1", lambda: [tasks.CoM()], InputError, "'id-sensed-1' takes no tasks"),
        ("go1", "id-coulomb-qp-raw", lambda: [tasks.Force("FL_foot")], InputError, "does not redistribute forces"),
    ],
)
def test_tasks_that_do_not_fit_a_robot_or_a_controller_are_refused_in_one_line(robot, name, listed, error, words):
    with pytest.raises(error, match=words):
        controllers.make(name, robots.load(robot), mu=0.6, tasks=listed())


def test_the_error_of_a_task_is_that_of_the_controller_that_stepped_last():
    robot = robots.load("go1")
    com, base = tasks.CoM(), tasks.Frame("trunk", "position")
    one = controllers.make("id-coulomb-qp", robot, mu=0.6, tasks=[base, com])
    state, reference = robot.standing_state(), robot.standing_reference()
    com.set(robot.system().com(state.q) + np.array([0.0, 0.0, 0.01]))
    shallow, other = copy.copy(one), controllers.make("id-coulomb-qp", robot, mu=0.6, tasks=[base, com])
    moved = state.q.copy()
    for x, controller in enumerate((one, shallow, other, one)):
        moved[0] = state.q[0] + x
        controller(structs.replace(state, q=moved), reference)
        np.testing.assert_allclose(com.error, [-x, 0.0, 0.01], atol=1e-12)
        np.testing.assert_allclose(base.error, [-x, 0.0, 0.0], atol=1e-12)
    alone = controllers.make("id-coulomb-qp", robot, mu=0.6, tasks=[com])
    alone(state, reference)
    np.testing.assert_allclose(com.error, [0.0, 0.0, 0.01], atol=1e-12)


def test_a_task_outside_a_list_is_refused_in_one_line():
    robot = robots.load("go1")
    state, reference = robot.standing_state(), robot.standing_reference()
    command = controllers.make("id-coulomb-qp", robot, mu=0.6, tasks=None)(state, reference)
    np.testing.assert_array_equal(command.tau, controllers.make("id-coulomb-qp", robot, mu=0.6)(state, reference).tau)
    with pytest.raises(InputError, match="tasks must be a list, not CoM"):
        controllers.make("id-coulomb-qp", robot, mu=0.6, tasks=tasks.CoM())


@pytest.mark.parametrize("name", ["g1", "talos"])
def test_a_humanoid_stands_still_in_mujoco_with_joint_references_alone(name):
    robot = robots.load(name)
    controller = controllers.make("id-coulomb-qp", robot, mu=0.6)
    steps = list(loop(robot, controller, "mujoco", 0.1, lambda t: None))
    assert all(command.solved_by == "sticking" for _, command, _ in steps)
    assert np.abs(steps[-1][0].v).max() < 1e-3  # it sinks by some micrometres in the first milliseconds


def tipped(robot, contacts, angle, rate):
    """A standing robot, turned about the front edges of its soles by an angle [rad], that turns at a rate [rad/s]."""
    state = robot.standing_state(contacts.system)
    contacts.system.update(state.q, state.v)
    contacts.detect(1.0)
    edge = pin.SE3(np.eye(3), np.array([contacts.point[:, 0].max(), 0.0, 0.0]))
    turn = pin.SE3(pin.exp3(np.array([0.0, angle, 0.0])), np.zeros(3))
    base = edge * turn * edge.inverse() * pin.XYZQUATToSE3(state.q[:7])
    spin = base.rotation.T @ np.array([0.0, rate, 0.0])
    v = np.r_[np.cross(spin, base.actInv(edge.translation) * -1.0), spin, np.zeros(contacts.system.n_actuated)]
    return structs.replace(state, q=np.r_[pin.SE3ToXYZQUAT(base), state.q[7:]], v=v)


HEELS = np.array([0, 1, 4, 5])  # by identity: the first two corners of each sole


def on_heels(command):
    return command.predicted.force[np.isin(command.predicted.identity, HEELS), 2].sum()


def test_a_lifted_heel_carries_no_force_until_it_lands():
    robot = robots.load("g1")
    contacts, reference = robot.contacts(0.6), robot.standing_reference()
    settings = InverseSettings(rate_limit_nm_s=None)  # torques may change at once from flight to standing
    controller, fresh = (controllers.make("id-coulomb-qp", robot, mu=0.6, settings=settings) for _ in range(2))
    rests = tipped(robot, contacts, 2e-3, 0.0)
    assert on_heels(fresh(rests, reference)) > 10.0  # an orientation error of 0.1 degrees would look the same
    leaves = tipped(robot, contacts, 1e-3, 0.5)
    assert on_heels(controller(leaves, reference)) == 0.0
    again, swings = copy.deepcopy(controller), copy.deepcopy(controller)
    for _ in range(60):
        controller.problem(rests, reference)  # a call without a step does not count as time at rest
    assert on_heels(controller(rests, reference)) == 0.0
    assert on_heels(again(rests, reference)) == 0.0
    swings(leaves, structs.replace(reference, stance=np.zeros(2, dtype=bool)))
    assert on_heels(swings(rests, reference)) > 10.0  # marks from before the swing are cleared
    falls = tipped(robot, contacts, 1e-6, -0.1)
    assert on_heels(controller(falls, reference)) > 10.0


def test_torques_are_continuous_while_the_demand_is_beyond_the_soles():
    """The centre of pressure is at the front edge of both soles, whose corners carry the whole weight there."""
    robot = robots.load("talos")
    body = Body(robot, mu=0.8, rate_hz=1000.0)
    body.com = tasks.CoM(kp=100.0, kd=20.0, weight=BALANCE)
    controller = controllers.make("id-coulomb-qp", robot, mu=0.8, rate_hz=1000.0, tasks=body.tasks)
    home, u = robot.standing_state(), body.system.n_unactuated
    body.follow(body.com, body.system.com(home.q) + np.array([0.1, -0.01, 0.0]), np.zeros(3), np.zeros(3))

    def command(way):
        controller.reset()
        return controller(structs.replace(home, q=pin.integrate(body.system.model, home.q, way)), body.reference())

    still, rng = command(np.zeros(home.v.size)), np.random.default_rng(1)
    assert still.demand == "qp"
    for _ in range(4):
        way = 1e-7 * np.r_[np.zeros(u), rng.normal(size=home.v.size - u)]
        moved = command(way)
        # a joint that is off by 1e-7 rad returns within the period: 0.1 rad/s², about 1e-4 N m/(rad/s²) per joint
        assert np.abs(moved.tau - still.tau).max() < 0.01
