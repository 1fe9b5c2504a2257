"""Every plant holds joints at their ends; in ours these are rows of the contact problem (math.md 12.5)."""

import functools

import numpy as np
import pinocchio as pin
import pytest

from idcontrol import plants, robots
from idcontrol.contact.contacts import Contacts
from idcontrol.contact.spheres import SphereContacts
from idcontrol.contact.stops import FIRST, Stops
from idcontrol.contact.terrain import plane
from idcontrol.dynamics.system import ActuatorLimits, System
from idcontrol.errors import Diverged
from idcontrol.types import State
from tests.parameters import one_fast

EVERY = tuple(plants.available())
OUTSIDE = ("mujoco", "pybullet")
H = 1e-3


def require(name):
    """Skip the test if the engine of the plant is not installed."""
    if name in OUTSIDE:
        pytest.importorskip(name)


@functools.cache
def go1():
    return robots.load("go1")


def thrown(name, torque, steps):
    """Return states of go1 in the air under constant torques, with forces and outcome of each step."""
    require(name)
    robot = go1()
    plant = plants.make(name, robot, mu=0.7)
    q = robot.standing_state().q.copy()
    q[2] += 10.0
    states, notes = [plant.reset(State(t=0.0, q=q, v=np.zeros(18)))], []
    for _ in range(steps):
        states.append(plant.step(torque, H))
        notes.append((plant.contact_forces(), plant.last))
    return states, notes


@functools.cache
def bent(name):
    """Return torques that drive all calves against the ends of their joints."""
    return thrown(name, np.tile([0.0, 0.0, -6.0], 4), 250)


@functools.cache
def pendulum() -> tuple[System, SphereContacts]:
    """Return a pendulum of 1 kg and 0.5 m, with a hinge that ends at 0.5 rad."""
    model = pin.Model()
    hinge = model.addJoint(0, pin.JointModelRY(), pin.SE3(np.eye(3), np.array([0.0, 0.0, 3.0])), "swing")
    inertia = pin.Inertia(1.0, np.array([0.0, 0.0, -0.5]), 0.01 * np.eye(3))
    model.appendBodyToJoint(hinge, inertia, pin.SE3.Identity())
    model.addJointFrame(hinge)
    system = System(model, limits=ActuatorLimits.none(1)._replace(upper=np.array([0.5])))
    return system, SphereContacts(system, ("swing",), 0.05, plane(), 0.5)


def beyond(system, states) -> float:
    """Return how far joints pass their ends at most [rad]."""
    angle = np.array([system.joint_positions(state.q) for state in states])
    return float(np.maximum(angle - system.limits.upper, system.limits.lower - angle).max())


def fastest(system, states) -> float:
    """Return the largest speed of a joint [rad/s]."""
    return float(np.abs([system.joint_velocities(state.v) for state in states]).max())


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("torque", one_fast((20.0, 1e3), 1e3))
def test_a_driven_pendulum_stays_at_the_end_of_its_hinge(name, torque):
    require(name)
    system, contacts = pendulum()
    plant = plants.build(name, plants.Setup(system=system, contacts=contacts, dt=H))
    states = [plant.reset(State(t=0.0, q=np.zeros(1), v=np.zeros(1)))]
    for _ in range(400):
        states.append(plant.step(np.array([torque]), H))
    # external engines detect an end only after it is passed, by the motion of one step at most
    give = H * fastest(system, states) if name in OUTSIDE else 1e-7 * torque
    assert beyond(system, states) < give
    assert states[-1].q[0] == pytest.approx(0.5, abs=5e-6 * torque)
    assert abs(states[-1].v[0]) < 1e-6


@pytest.mark.parametrize("name", OUTSIDE)
def test_a_joint_that_starts_beyond_its_end_is_not_thrown_back(name):
    require(name)
    system, contacts = pendulum()
    plant = plants.build(name, plants.Setup(system=system, contacts=contacts, dt=H))
    states = [plant.reset(State(t=0.0, q=np.array([0.6]), v=np.zeros(1)))]
    for _ in range(200):
        states.append(plant.step(np.array([20.0]), H))
    assert fastest(system, states) < 6.0
    assert min(state.q[0] for state in states) > 0.4
    assert beyond(system, states) < 0.1 + 1e-3


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize(("robot", "share"), [pytest.param("go1", 1.0, marks=pytest.mark.slow), ("links", 0.05)])
def test_hostile_torques_do_not_take_joints_beyond_their_ends(name, robot, share):
    """All motors run at a share of their limits, in directions that change ten times a second."""
    require(name)
    robot, rng = robots.load(robot), np.random.default_rng(0)
    system, plant = robot.system(), plants.make(name, robot, mu=0.7)
    q = robot.standing_state().q.copy()
    q[2] += 10.0
    states = [plant.reset(State(t=0.0, q=q, v=np.zeros(18)))]
    for step in range(300):
        if step % 100 == 0:
            torque = share * system.effort_limit * rng.choice([-1.0, 1.0], 12)
        states.append(plant.step(torque, H))
    give = H * fastest(system, states) if name in OUTSIDE else 3e-2
    assert fastest(system, states) > 100.0
    assert -1e-3 < beyond(system, states) < give


def test_mujoco_reports_a_motion_that_diverged(tmp_path, monkeypatch):
    pytest.importorskip("mujoco")
    monkeypatch.chdir(tmp_path)  # MuJoCo writes its warnings into a file
    robot = robots.load("links")
    plant = plants.make("mujoco", robot, mu=0.7)
    plant.reset(robot.standing_state())
    with pytest.raises(Diverged, match="the robot in MuJoCo diverged at 0"):
        plant.step(np.tile([1e6, -1e6, 1e6], 4), 100 * H)


@pytest.mark.parametrize("name", EVERY)
def test_a_joint_comes_to_rest_at_its_end(name):
    system = go1().system()
    states, _ = bent(name)
    angle = np.array([system.joint_positions(state.q) for state in states])
    speed = np.array([system.joint_velocities(state.v) for state in states])
    calf = slice(2, 12, 3)
    # compliant stops yield while they stop a leg; rigid stops hold to the accuracy of the solver
    give = 2e-2 if name in ("sap", "constraint") else H * np.abs(speed).max() if name in OUTSIDE else 1e-8
    assert (angle[:, calf] - system.limits.lower[calf]).min() > -give
    at_rest = 1e-3 if name in OUTSIDE else 1e-3 + give
    np.testing.assert_allclose(angle[-1, calf], system.limits.lower[calf], rtol=0, atol=at_rest)
    assert np.abs(speed[-1, calf]).max() < 0.1


@pytest.mark.parametrize("name", EVERY)
def test_stops_push_the_two_links_of_their_joint_and_nothing_else(name):
    """Ends of joints change no momentum and are no contact forces."""
    system = go1().system()
    states, notes = bent(name)
    data = system.model.createData()
    end = states[-1]
    momentum = pin.computeCentroidalMomentum(system.model, data, end.q, end.v).angular
    largest = np.abs(pin.crba(system.model, data, end.q)[3:6, 6:]).max() * system.limits.speed.max()
    # compliant ground and engines outside integrate the flight of the base at first order
    assert np.abs(momentum).max() < (0.05 if name in ("penalty", *OUTSIDE) else 1e-9) * largest
    assert all(forces.identity.size == 0 for forces, _ in notes)


def test_only_reachable_stops_are_listed_with_their_gaps():
    system = go1().system()
    stops, nothing = Stops(system), Contacts.none(18)
    q, v = go1().standing_state().q.copy(), np.zeros(18)
    assert stops.beside(nothing, q, v, H) is nothing
    at, limits = system.joint_q[2], system.limits
    q[at] = limits.lower[2] - 0.01
    fast = system.joint_q[4]
    q[fast] = limits.upper[4] - 0.02
    v[system.order[system.n_unactuated + 4]] = 0.011 / H  # it could be there within two steps
    listed = stops.beside(nothing, q, v, H)
    assert listed.identity.tolist() == [FIRST + 2 * 2, FIRST + 2 * 4 + 1]
    np.testing.assert_allclose(listed.gap, [-0.01, 0.02], rtol=0, atol=1e-15)
    np.testing.assert_allclose(listed.N @ system.from_pinocchio(v), [0.0, -0.011 / H], rtol=1e-12)
    assert not listed.S.any()
    assert not listed.T.any()
