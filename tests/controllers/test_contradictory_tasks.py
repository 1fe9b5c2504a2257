"""Strict tasks that contradict standing feet or each other: what is relaxed, what holds, and what the command says."""

import msgspec
import numpy as np
import pinocchio as pin
import pytest

from idcontrol import controllers, robots, tasks
from idcontrol.batch import Controllers, References
from idcontrol.types import Status
from tests.controllers.test_tasks import H, loop
from tests.parameters import one_fast

FEET = {"go1": "FL_foot", "talos": "left_sole_link"}
FOOT = 0  # number of FEET["go1"] among the feet
HANDS = {"go1": "trunk", "talos": "gripper_left_base_link"}


def accelerating(frame, acceleration):
    """Return a strict task on the position of a frame that demands an acceleration alone."""
    task = tasks.Frame(frame, "position", kp=0.0, kd=0.0, strict=True)
    task.set(np.zeros(3), acceleration=acceleration)
    return task


def controller_of(name, listed, scheme="id-coulomb-qp", mu=0.6):
    return controllers.make(scheme, robots.load(name), mu=mu, tasks=[*listed, tasks.Posture(kp=30.0)])


def stepped(name, listed, scheme="id-coulomb-qp", mu=0.6):
    """Return the controller and its command in the standing state."""
    controller, robot = controller_of(name, listed, scheme, mu), robots.load(name)
    return controller, controller(robot.standing_state(), robot.standing_reference())


def acceleration_of(controller, name, frame):
    """Return the acceleration of a frame's origin in the assembled problem, from rest, if all contacts stick [m/s²]."""
    robot = robots.load(name)
    step, system = controller.problem(robot.standing_state(), robot.standing_reference()), robot.system()
    J, b = step.contacts.jacobian, step.b
    u = J.shape[1] - b.size
    base = np.linalg.lstsq(J[:, :u], step.target - J[:, u:] @ b, rcond=1e-10)[0]
    a, data = system.to_pinocchio(np.r_[base, b] / H), system.model.createData()
    pin.forwardKinematics(system.model, data, robot.standing_state().q, np.zeros(a.size), a)
    axes = pin.ReferenceFrame.LOCAL_WORLD_ALIGNED
    return pin.getFrameClassicalAcceleration(system.model, data, system.frame(frame), axes).linear


@pytest.mark.covering
@pytest.mark.parametrize("mu", [0.6, 0.1])
@pytest.mark.parametrize("name", ["go1", "talos"])
def test_a_foot_that_stands_stays_and_the_task_that_lifts_it_is_named(name, mu):
    foot = accelerating(FEET[name], [0.0, 0.0, 1.0])
    controller, command = stepped(name, [foot, tasks.CoM()], mu=mu)
    line = f"task '{FEET[name]}' misses 1 m/s²: it contradicts contacts, momentum or other strict tasks"
    assert (command.status, command.demand, command.relaxed) == (Status.REPAIRED, "infeasible", (line,))
    assert command.dropped == ("tasks",)
    np.testing.assert_allclose(acceleration_of(controller, name, FEET[name]), 0.0, atol=1e-7)
    _, without = stepped(name, [tasks.CoM()], mu=mu)
    np.testing.assert_allclose(command.tau, without.tau, atol=1e-6 * np.abs(without.tau).max())


@pytest.mark.parametrize("name", ["go1", "talos"])
def test_opposed_strict_tasks_meet_in_the_middle(name):
    one, other = accelerating(HANDS[name], [0.3, 0.0, 0.5]), accelerating(HANDS[name], [0.1, 0.2, -0.5])
    controller, command = stepped(name, [one, other])
    assert (command.status, command.demand, command.dropped) == (Status.REPAIRED, "infeasible", ("tasks",))
    miss = np.linalg.norm([0.1, -0.1, 0.5])  # half the difference
    line = f"task '{HANDS[name]}' misses {miss:.3g} m/s²: it contradicts contacts, momentum or other strict tasks"
    assert command.relaxed == (line, line)
    np.testing.assert_allclose(acceleration_of(controller, name, HANDS[name]), [0.2, 0.1, 0.0], atol=1e-6)


@pytest.mark.parametrize("name", ["go1", "g1", "talos"])
def test_a_strict_task_alone_in_flight_does_not_move_the_centre_of_mass(name):
    com, robot = tasks.CoM(kp=0.0, kd=0.0, strict=True), robots.load(name)
    com.set(np.zeros(3), acceleration=[1.0, 0.0, 0.0])
    state, reference = robot.standing_state(), robot.standing_reference()
    state.q[2] += 1.0
    flying = msgspec.structs.replace(reference, stance=np.zeros_like(reference.stance))
    command = controller_of(name, [com])(state, flying)
    assert (command.status, command.demand, command.dropped) == (Status.REPAIRED, "infeasible", ("tasks",))
    assert command.relaxed[0].startswith(f"the centre of mass misses {np.hypot(1.0, 9.81):.3g} m/s²")
    still = controller_of(name, [])(state, flying)
    np.testing.assert_allclose(command.tau, still.tau, atol=1e-6 * max(1.0, np.abs(still.tau).max()))


def test_a_lone_sole_stays_when_its_only_task_lifts_it():
    robot, foot = robots.load("talos"), accelerating(FEET["talos"], [0.0, 0.0, 1.0])
    reference = msgspec.structs.replace(robot.standing_reference(), stance=np.array([True, False]))
    command = controller_of("talos", [foot])(robot.standing_state(), reference)
    assert (command.demand, command.dropped) == ("infeasible", ("tasks",))
    assert command.relaxed[0].startswith("task 'left_sole_link' misses 1 m/s²")


@pytest.mark.parametrize("name", one_fast(("go1", "talos"), "go1"))
def test_consistent_duplicates_are_not_relaxed(name):
    wanted = [0.3, 0.0, 0.5]
    once, command = stepped(name, [accelerating(HANDS[name], wanted)])
    twice, again = stepped(name, [accelerating(HANDS[name], wanted), accelerating(HANDS[name], wanted)])
    feet = tasks.Frame(FEET[name], "position", strict=True)  # which stands still, as its contacts demand
    _, held = stepped(name, [accelerating(HANDS[name], wanted), feet])
    for each in (command, again, held):
        assert (each.status, each.demand, each.relaxed) == (Status.SOLVED, "free", ())
    for each in (again, held) if name == "talos" else (again,):  # the foot of go1 is a sphere, whose centre may roll
        np.testing.assert_allclose(each.tau, command.tau, atol=1e-6 * np.abs(command.tau).max())
    for controller in (once, twice):
        np.testing.assert_allclose(acceleration_of(controller, name, HANDS[name]), wanted, atol=1e-6)


@pytest.mark.parametrize("scheme", ["id-coulomb-qp", "id-coulomb-lcp", "id-noslip-lcp"])
def test_all_schemes_and_the_interpreted_step_relax_alike(scheme):
    robot, listed = robots.load("go1"), [accelerating("FL_foot", [0.0, 0.0, 50.0]), tasks.CoM()]
    controller, command = stepped("go1", listed, scheme)
    assert (command.status, command.demand) == (Status.REPAIRED, "infeasible")
    assert "tasks" in command.dropped
    slow = controller.fall_back(robot.standing_state(), robot.standing_reference())
    assert (slow.status, slow.demand, slow.relaxed) == (command.status, command.demand, command.relaxed)
    listed[0].set(np.zeros(3))  # no contradiction any more
    again = controller(robot.standing_state(), robot.standing_reference())
    assert (again.demand, again.relaxed) == ("free", ())


@pytest.mark.interpreted
def test_a_step_with_contradictory_strict_tasks_has_no_derivative():
    robot = robots.load("go1")
    controller, _ = stepped("go1", [accelerating("FL_foot", [0.0, 0.0, 50.0]), tasks.CoM()], "id-coulomb-qp")
    _, derivative = controller.linearize(robot.standing_state(), robot.standing_reference())
    assert "strict task" in derivative.reason


def test_rows_of_a_batch_are_repaired():
    robot, n = robots.load("go1"), 2
    state, reference = robot.standing_state(), robot.standing_reference()
    batch = Controllers("id-coulomb-qp", robot, n, mu=0.6, tasks=[accelerating("FL_foot", [0.0, 0.0, 1.0])])
    references = References.standing(np.tile(reference.q, (n, 1)), 4)
    references.stance[1, FOOT] = False
    ours = batch(0.0, np.tile(state.q, (n, 1)), np.tile(state.v, (n, 1)), references)
    assert ours.status.tolist() == [Status.REPAIRED, Status.SOLVED]  # a foot in the air may rise
    for i in range(n):
        assert (ours.tau[i] == batch.single(0.6)(state, references.row(i)).tau).all()


@pytest.mark.covering
@pytest.mark.parametrize("what", ["lift", "oppose"])
@pytest.mark.parametrize("name", ["go1", "talos"])
def test_a_machine_with_contradictory_tasks_stays_upright(name, what):
    robot, listed = robots.load(name), [accelerating(FEET[name], [0.0, 0.0, 2.0])]
    if what == "oppose":
        system, data = robot.system(), robot.system().model.createData()
        pin.framesForwardKinematics(system.model, data, robot.standing_state().q)
        place = data.oMf[system.frame(HANDS[name])].translation
        listed = [tasks.Frame(HANDS[name], "position", strict=True) for _ in range(2)]
        for task, side in zip(listed, (0.05, -0.05), strict=True):
            task.set(place + np.array([0.0, side, 0.0]))
    listed += [tasks.CoM(), tasks.Frame("trunk" if name == "go1" else "torso_2_link", "orientation")]
    run = list(loop(robot, controller_of(name, listed), "coulomb-lcp", 0.2, lambda t: None))
    for _, command, _ in run:
        assert (command.status, command.dropped) == (Status.REPAIRED, ("tasks",))
        assert len(command.relaxed) == (1 if what == "lift" else 2)
    state = run[-1][0]
    assert np.abs(state.v).max() < 1e-4  # the contradiction moves nothing
    assert np.abs(state.q - robot.standing_state().q).max() < 1e-4
