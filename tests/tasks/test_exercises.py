"""Exercises of other libraries for whole-body control, on a plant with contacts.

The motions are from TSID's exercises: a centre of mass that swings over two feet, and contact forces that are
regularized. The checks of a quadruped are from simple-mpc's inverse dynamics: errors fall from tick to tick, feet do
not drift, limits hold. Both libraries integrate their own accelerations; here a plant with friction
answers the torques.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pinocchio as pin
import pytest
from msgspec import structs

from idcontrol import controllers, plants, robots, tasks
from idcontrol.types import Array, Command, Reference, State

H = 1e-3
AMPLITUDE, SHIFT = np.array([0.0, 0.02, 0.0]), np.array([-0.03, 0.02, -0.02])
FEET = ("FL_foot", "FR_foot", "RL_foot", "RR_foot")


class Run(NamedTuple):
    """Ticks of a run: states before each command and after the last, the commands, and what `measure` returned."""

    states: list[State]
    commands: list[Command]
    measured: Array

    @property
    def tau(self):
        return np.array([command.tau for command in self.commands])


def closed_loop(robot, listed, references, measure: Callable[[], Array], start: State | None = None) -> Run:
    """Run one tick for each reference."""
    controller = controllers.make("id-coulomb-qp", robot, mu=0.6, tasks=listed)
    plant = plants.make("coulomb-lcp", robot, mu=0.6)
    states, commands, measured = [plant.reset(start or robot.standing_state())], list[Command](), list[Array]()
    for reference in references:
        commands.append(controller(states[-1], reference))
        measured.append(measure())
        states.append(plant.step(commands[-1].tau, H))
    return Run(states, commands, np.array(measured))


def places(robot, frames, state: State) -> list[pin.SE3]:
    model = robot.system().model
    data = model.createData()
    pin.framesForwardKinematics(model, data, state.q)
    return [data.oMf[model.getFrameId(frame)].copy() for frame in frames]


def swing(com, start, amplitude, t):
    """Swing the centre of mass from `start` to `start` + `amplitude` and back in 1 s, smoothly from rest."""
    com.set(start + swung(t)[0] * amplitude, (swung(t)[1] - 0.5 * H * swung(t)[2]) * amplitude, swung(t)[2] * amplitude)


def swung(t):
    """Return sin⁴ πt and its rates."""
    s, c = np.sin(np.pi * t), np.cos(np.pi * t)
    return s**4, 4.0 * np.pi * s**3 * c, 4.0 * np.pi**2 * s**2 * (3.0 * c**2 - s**2)


def upright():
    return [tasks.Frame("torso_2_link", "orientation"), tasks.Frame("base_link", "orientation")]


def test_centre_of_mass_swings_over_two_feet():
    robot, com = robots.load("talos"), tasks.CoM()
    start, standing = robot.system().com(robot.standing_state().q), robot.standing_reference()

    def references():
        for k in range(500):
            swing(com, start, AMPLITUDE, k * H)
            yield standing

    run = closed_loop(robot, [com, *upright(), tasks.Posture(kp=30.0, weight=1e-6)], references(), lambda: com.error)
    assert {command.demand for command in run.commands} == {"free"}
    assert np.abs(run.measured).max() < 2e-6
    np.testing.assert_allclose(robot.system().com(run.states[-1].q) - start, AMPLITUDE, atol=5e-6)


def test_regularized_contact_forces_share_the_sideways_force_equally():
    """With weights on the horizontal forces of both soles, neither pushes against the other."""
    robot = robots.load("talos")
    start, mass = robot.system().com(robot.standing_state().q), robot.system().mass

    def sideways(*forces):
        com = tasks.CoM()

        def references():
            standing = robot.standing_reference()
            for k in range(250):
                swing(com, start, AMPLITUDE, k * H)
                yield standing

        listed = [com, *upright(), *forces, tasks.Posture(kp=30.0, weight=1e-6)]
        run = closed_loop(robot, listed, references(), lambda: com.error)
        forces = np.array([command.predicted.force[:, 1].reshape(2, 4).sum(axis=1) for command in run.commands])
        return forces, run

    soles = [tasks.Force(frame, weight=[0.0, 1.0, 0.0]) for frame in ("left_sole_link", "right_sole_link")]
    for sole in soles:
        sole.set(np.zeros(3))
    (squeezed, plain), (shared, regular) = sideways(), sideways(*soles)
    wanted = mass * AMPLITUDE[1] * swung(H * np.arange(250))[2]
    np.testing.assert_allclose(shared.sum(axis=1), wanted, atol=1.0)
    assert np.abs(shared[:, 0] - shared[:, 1]).max() < 1e-2
    assert np.abs(squeezed[:, 0] - squeezed[:, 1]).max() > 1.0
    np.testing.assert_allclose(regular.states[-1].q, plain.states[-1].q, atol=1e-6)


def falls(errors, floor):
    """True if errors fall from tick to tick until they are below `floor`."""
    above = errors[: np.argmax(errors < floor) + 1] if (errors < floor).any() else errors
    return bool((np.diff(above) < 0.0).all())


def converge(listed, reference: Reference, measure, ticks=600) -> Run:
    """Run go1 from its home pose at a constant reference; feet and limits are checked for every run."""
    robot = robots.load("go1")
    system = robot.system()
    run = closed_loop(robot, listed, [reference] * ticks, measure)
    home = places(robot, FEET, run.states[0])
    for state in (run.states[ticks // 2], run.states[-1]):
        for at, was in zip(places(robot, FEET, state), home, strict=True):
            assert np.linalg.norm(at.translation - was.translation) < 1e-2  # the round foot rolls
            assert at.translation[2] == pytest.approx(was.translation[2], abs=1e-6)
    angles = np.array([system.joint_positions(state.q) for state in run.states])
    assert (np.abs(run.tau) <= system.effort_limit).all()
    assert (angles >= system.limits.lower).all()
    assert (angles <= system.limits.upper).all()
    assert (np.abs([state.v[6:] for state in run.states]) <= system.limits.speed).all()
    return run


def base_target(state: State, turn=0.0):
    return pin.SE3(pin.exp3(np.array([0.0, 0.0, turn])), state.q[:3] + SHIFT)


@pytest.fixture(scope="module")
def shifted():
    """The run of a base task from the home pose to a shifted, turned pose."""
    robot = robots.load("go1")
    base = tasks.Frame("trunk")
    base.set(base_target(robot.standing_state(), 0.1))
    listed = [base, tasks.Posture(kp=30.0, weight=1e-6)]
    return converge(listed, robot.standing_reference(), lambda: base.error)


def test_error_of_the_base_falls_from_tick_to_tick(shifted):
    for part in (slice(0, 3), slice(3, 6)):
        errors = np.linalg.norm(shifted.measured[:, part], axis=1)
        assert errors[0] > 0.03
        assert falls(errors, 1e-3)
        assert errors[-1] < 2e-3


def test_errors_of_all_tasks_together_fall_from_tick_to_tick(shifted):
    robot = robots.load("go1")
    system = robot.system()
    end = shifted.states[-1]
    base, com = tasks.Frame("trunk"), tasks.CoM()
    base.set(pin.SE3(pin.Quaternion(end.q[3:7]).matrix(), end.q[:3]))
    com.set(system.com(end.q))
    goal = system.joint_positions(end.q)
    reference = structs.replace(robot.standing_reference(), q=goal)

    def measure():
        return np.r_[base.error, com.error]

    run = converge([base, com, tasks.Posture(kp=100.0, weight=0.1)], reference, measure)
    joints = np.array([goal - system.joint_positions(state.q) for state in run.states[:-1]])
    for errors in (*(run.measured[:, part] for part in (slice(0, 3), slice(3, 6), slice(6, 9))), joints):
        size = np.linalg.norm(errors, axis=1)
        assert falls(size, 0.02 * size[0])
        assert size[-1] < 0.05 * size[0]


def test_base_that_is_asked_for_too_much_stays_within_limits_and_arrives():
    robot = robots.load("go1")
    base = tasks.Frame("trunk", kp=900.0)
    base.set(base_target(robot.standing_state()))
    listed = [base, tasks.Posture(kp=30.0, weight=1e-6)]
    run = converge(listed, robot.standing_reference(), lambda: base.error, ticks=400)
    assert run.commands[0].demand == "qp"  # 27 m/s² sideways is more than friction gives
    assert run.commands[-1].demand == "free"
    errors = np.linalg.norm(run.measured[:, :3], axis=1)
    assert falls(errors, 2e-3)
    assert errors[-1] < 1e-3


def test_joints_of_a_thrown_foot_keep_their_largest_speed():
    robot = robots.load("go1")
    foot = tasks.Frame("FR_foot", "position", kp=3000.0)
    start = places(robot, [foot.frame], robot.standing_state())[0].translation
    foot.set(start + np.array([0.15, 0.0, 0.25]))  # asks for 23.6 rad/s of the knee, which allows 20.06
    lifted = structs.replace(robot.standing_reference(), stance=np.array([True, False, True, True]))
    run = closed_loop(robot, [foot, tasks.Posture(kp=0.0, weight=1e-6)], [lifted] * 40, lambda: foot.error)
    speed = np.abs([state.v[6:] for state in run.states])
    assert speed.max() > 15.0
    assert (speed <= robot.system().limits.speed).all()
