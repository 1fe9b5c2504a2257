"""Targets of contact forces: which forces are chosen, with the motion unchanged."""

import numpy as np
import pytest
from msgspec import structs

from idcontrol import controllers, plants, robots, tasks
from idcontrol.contact.spheres import SphereContacts
from idcontrol.contact.terrain import plane
from idcontrol.controllers import Gains, InverseSettings
from idcontrol.tasks.forces import SHARE
from idcontrol.types import Reference, State, Status

H, FOOT = 1e-3, "left_sole_link"


def talos(load, name="id-coulomb-qp", **settings):
    """Return a standing talos with a force task, and its weight."""
    robot = robots.load("talos")
    trunk = [tasks.CoM(), tasks.Frame("torso_2_link", "orientation"), tasks.Posture(kp=30.0, weight=1e-4)]
    built = controllers.make(name, robot, mu=0.6, tasks=[*trunk, load], settings=InverseSettings(**settings))
    return robot, built, robot.system().mass * 9.81


def motion(robot, mu, state, command):
    """Return velocities after a period, by the equations of motion with predicted forces, shape (m,)."""
    contacts = robot.contacts(mu)
    system = contacts.system
    system.update(state.q, state.v)
    J = contacts.detect(np.inf).jacobian.reshape(3, -1, system.n_velocities)
    push = np.r_[np.zeros(6), command.tau] - system.bias
    for identity, force in zip(command.predicted.identity, command.predicted.force, strict=True):
        push += J[:, identity].T @ (contacts.axes[identity] @ force)
    return system.from_pinocchio(state.v) + H * np.linalg.solve(system.M, push)


SCHEMES = ("id-coulomb-qp", "id-coulomb-lcp", "id-coulomb-cone", "id-coulomb-smooth", "id-noslip-lcp")


@pytest.mark.parametrize("name", SCHEMES)
def test_a_feasible_force_target_is_reached_and_the_motion_stays(name):
    load = tasks.Force(FOOT, weight=[0.0, 0.0, 1.0])
    robot, controller, weight = talos(load, name)
    state, reference = robot.standing_state(), robot.standing_reference()
    free = controller(state, reference)
    for share in (0.3, 0.5, 0.7):
        load.set([0.0, 0.0, share * weight])
        controller.reset()
        command = controller(state, reference)
        assert (command.status, command.demand) == (Status.SOLVED, "free")
        vertical = command.predicted.force[:, 2].reshape(2, 4).sum(axis=1)
        np.testing.assert_allclose(vertical, [share * weight, (1.0 - share) * weight], atol=1e-3)
        assert abs(load.error[2]) < 1e-3
        np.testing.assert_allclose(
            motion(robot, 0.6, state, command), motion(robot, 0.6, state, free), rtol=0.0, atol=1e-12
        )


def test_a_wrench_about_a_sole_is_reached():
    load = tasks.Force(FOOT, "wrench", weight=[0.0, 0.0, 1.0, 1.0, 1.0, 1.0])
    robot, controller, weight = talos(load)
    target = np.array([0.0, 0.0, 0.5 * weight, 4.0, -6.0, 2.0])
    load.set(target)
    state = robot.standing_state()
    command = controller(state, robot.standing_reference())
    contacts = robot.contacts(0.6)
    contacts.system.update(state.q, state.v)
    contacts.detect(np.inf)
    arm = contacts.point[:4] - contacts.point[:4].mean(axis=0)  # its frame is in the middle of its corners
    force = command.predicted.force[:4]
    actual = np.r_[force.sum(axis=0), np.cross(arm, force).sum(axis=0)]
    np.testing.assert_allclose(actual[2:], target[2:], atol=1e-3)
    np.testing.assert_allclose(load.error[2:], target[2:] - actual[2:], atol=1e-9)


def nearest(robot, mu, state, load, target, limit, a):
    """Return the foot force nearest to a target among all that give accelerations a, by Clarabel [N]."""
    cp = pytest.importorskip("cvxpy")
    contacts = robot.contacts(mu)
    system = contacts.system
    system.update(state.q, state.v)
    candidates = contacts.detect(np.inf)
    n, unit = len(candidates), system.mass * 9.81
    F = cp.Variable(3 * n)  # [N; S; T], relative to the weight
    tau = system.M @ a + system.bias - unit * (candidates.jacobian.T @ F)
    rows = [tau[:6] / unit == 0, tau[6:] <= limit, tau[6:] >= -limit]
    rows += [mu * F[:n] + s * F[n : 2 * n] + t * F[2 * n :] >= 0 for s in (1, -1) for t in (1, -1)]
    onto = np.zeros((3, 3 * n))
    for i in np.flatnonzero([frame == load.frame for frame in contacts.frames]):
        onto[:, i::n] = candidates.axes[i].T
    missed = cp.multiply(np.sqrt(load.weight), onto @ F - target / unit)
    program = cp.Problem(cp.Minimize(cp.sum_squares(missed) + SHARE * cp.sum_squares(tau[6:] / unit)), rows)
    program.solve(solver="CLARABEL", tol_gap_abs=1e-14, tol_gap_rel=1e-14, tol_feas=1e-12)
    return unit * (onto @ F.value)


@pytest.mark.filterwarnings("ignore:Solution may be inaccurate")
@pytest.mark.parametrize(
    ("name", "foot", "mu", "share"),
    [
        ("talos", FOOT, 0.6, [0.0, 0.0, 1.1]),  # the other sole can only press
        ("go1", "FL_foot", 0.3, [0.3, 0.0, 0.25]),  # beyond the cone
        ("go1", "FL_foot", 3.0, [0.0, -0.9, 0.3]),  # beyond what motors can
    ],
)
def test_an_infeasible_force_target_is_approached_within_cones_and_limits(name, foot, mu, share):
    robot = robots.load(name)
    load = tasks.Force(foot)
    controller = controllers.make("id-coulomb-qp", robot, mu=mu, tasks=[load])
    state, reference = robot.standing_state(), robot.standing_reference()
    system = robot.system()
    free = controller(state, reference)
    target = system.mass * 9.81 * np.array(share)
    load.set(target)
    controller.reset()
    command = controller(state, reference)
    moved = motion(robot, mu, state, command)
    np.testing.assert_allclose(moved, motion(robot, mu, state, free), rtol=0.0, atol=1e-12)
    wrench = target - load.error
    assert np.linalg.norm(load.error) > 1.0
    best = nearest(robot, mu, state, load, target, system.effort_limit, moved / H)
    np.testing.assert_allclose(wrench, best, atol=1e-3)


def test_targets_leave_the_motion_where_friction_hardly_holds_it():
    robot, mu = robots.load("go1"), 0.02
    com, load = tasks.CoM(kp=0.0), tasks.Force("FL_foot")
    trunk = [com, tasks.Posture(kp=30.0)]
    aims, free = (controllers.make("id-coulomb-qp", robot, mu=mu, tasks=listed) for listed in ([load, *trunk], trunk))
    state, standing, weight = robot.standing_state(), robot.standing_reference(), robot.system().mass * 9.81
    for seed in range(0, 16, 2):
        rng = np.random.default_rng(seed)
        reference = structs.replace(standing, a=150.0 * rng.standard_normal(12))
        com.set(np.zeros(3), acceleration=rng.standard_normal(3) * [0.5, 0.5, 0.3])
        load.set(weight * (rng.standard_normal(3) * [0.1, 0.1, 0.3] + [0.0, 0.0, 0.4]))
        aims.reset()
        free.reset()
        command, wanted = aims(state, reference), free(state, reference)
        assert (command.solved_by, command.status) == (wanted.solved_by, wanted.status)
        np.testing.assert_allclose(
            motion(robot, mu, state, command), motion(robot, mu, state, wanted), rtol=0.0, atol=1e-12
        )


def test_a_load_that_jumps_is_approached_no_faster_than_torques_may_change():
    load = tasks.Force(FOOT, weight=[0.0, 0.0, 1.0])
    robot, controller, weight = talos(load, rate_limit_nm_s=500.0)
    state, reference = robot.standing_state(), robot.standing_reference()
    last = controller(state, reference)
    load.set([0.0, 0.0, 0.7 * weight])
    changes = []
    for _ in range(80):
        command = controller(state, reference)
        assert (command.status, command.dropped) == (Status.SOLVED, ())
        changes.append(np.abs(command.tau - last.tau).max() / H)
        last = command
    assert 400.0 < max(changes) <= 500.0 * (1 + 1e-9)
    assert abs(load.error[2]) < 1e-3


@pytest.mark.parametrize("listed", [(), (tasks.Posture(kp=30.0), tasks.Frame("panda_hand", "orientation"))])
def test_an_arm_presses_a_steep_wall_as_its_target_asks(listed):
    normal = np.array([-1.0, 0.0, 0.1]) / np.sqrt(1.01)
    robot = robots.load("panda")

    def pressing(system, offset):
        return SphereContacts(system, ["panda_hand"], 0.01, plane(normal, offset), 0.6, offsets=[[0.0, 0.0, 0.1]])

    system = robot.system()
    q, v = robot.standing_state(system).q, np.zeros(system.n_velocities)
    contacts = pressing(system, -2.0)
    system.update(q, v)
    contacts.detect(np.inf)
    wall = normal @ contacts.centre[0] - 0.01
    press = tasks.Force("panda_hand")
    system = robot.system()
    setup = controllers.Setup(
        system=system, contacts=pressing(system, wall), h=H, acceleration_gains=Gains(kp=100.0, kd=20.0),
        tasks=[press, *listed], robot=robot,
    )  # fmt: skip
    controller = controllers.build("id-coulomb-qp", setup)
    real = robot.system()
    plant = plants.build("coulomb-lcp", plants.Setup(system=real, contacts=pressing(real, wall), dt=H))
    state = plant.reset(State(t=0.0, q=q, v=v))
    reference = Reference.standing(system.joint_positions(q), feet=1)
    for newtons in (5.0, 20.0, 40.0):
        target = newtons * (normal + 0.3 * np.array([0.0, 1.0, 0.0]))
        press.set(target)
        for _ in range(60):
            command = controller(state, reference)
            assert (command.status, command.solved_by) == (Status.SOLVED, "sticking")
            state = plant.step(command.tau, H)
        np.testing.assert_allclose(plant.contact_forces().force[0], target, atol=1e-3)
    np.testing.assert_allclose(state.q, q, atol=1e-9)
