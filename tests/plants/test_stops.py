"""Ends of joints are rows of the contact problem in every plant of ours (math.md 12.5)."""

import functools

import numpy as np
import pinocchio as pin
import pytest

from idcontrol import plants, robots
from idcontrol.contact.contacts import Contacts
from idcontrol.contact.stops import FIRST, Stops
from idcontrol.types import State

OURS = ("coulomb-lcp", "coulomb-cone", "dissipation", "noslip", "viscous", "sap", "constraint", "penalty")
H = 1e-3


@functools.cache
def go1():
    return robots.load("go1")


def thrown(name, torque, steps):
    """go1 in the air with constant torques: the plant's states, and what it said of each step."""
    robot = go1()
    plant = plants.make(name, robot, mu=0.7)
    q = robot.standing_state().q.copy()
    q[2] += 10.0
    states, notes = [plant.reset(State(t=0.0, q=q, v=np.zeros(18)))], []
    for _ in range(steps):
        states.append(plant.step(torque, H))
        notes.append((plant.contact_forces(), plant.last))
    return states, notes


def bent(name):
    """All calves driven against the ends of their joints."""
    return thrown(name, np.tile([0.0, 0.0, -6.0], 4), 250)


@pytest.mark.parametrize("name", OURS)
def test_a_joint_comes_to_rest_at_its_end(name):
    system = go1().system()
    states, _ = bent(name)
    angle = np.array([system.joint_positions(state.q) for state in states])
    speed = np.array([system.joint_velocities(state.v) for state in states])
    calf = slice(2, 12, 3)
    # soft contact gives way by what it takes to stop a leg; rigid stops are met to the accuracy of a solve
    give = 2e-2 if name in ("sap", "constraint") else 1e-8
    assert (angle[:, calf] - system.limits.lower[calf]).min() > -give
    np.testing.assert_allclose(angle[-1, calf], system.limits.lower[calf], rtol=0, atol=1e-3 + give)
    assert np.abs(speed[-1, calf]).max() < 0.1


@pytest.mark.parametrize("name", OURS)
def test_stops_push_the_two_links_of_their_joint_and_nothing_else(name):
    """So they change no momentum, and are no contact forces."""
    system = go1().system()
    states, notes = bent(name)
    data = system.model.createData()
    end = states[-1]
    momentum = pin.computeCentroidalMomentum(system.model, data, end.q, end.v).angular
    largest = np.abs(pin.crba(system.model, data, end.q)[3:6, 6:]).max() * system.limits.speed.max()
    # compliant ground integrates the flight of the base at first order
    assert np.abs(momentum).max() < (0.05 if name == "penalty" else 1e-9) * largest
    assert all(forces.identity.size == 0 for forces, _ in notes)


def test_stops_are_listed_only_where_they_could_be_met_and_with_their_own_gaps():
    system = go1().system()
    stops, nothing = Stops(system), Contacts.none(18)
    q, v = go1().standing_state().q.copy(), np.zeros(18)
    assert stops.beside(nothing, q, v, H) is nothing
    at, limits = system.joint_q[2], system.limits
    q[at] = limits.lower[2] - 0.01
    fast = system.joint_q[4]
    q[fast] = limits.upper[4] - 0.02
    v[system.order[system.n_unactuated + 4]] = 0.011 / H  # it could be there within two steps
    found = stops.beside(nothing, q, v, H)
    assert found.identity.tolist() == [FIRST + 2 * 2, FIRST + 2 * 4 + 1]
    np.testing.assert_allclose(found.gap, [-0.01, 0.02], rtol=0, atol=1e-15)
    np.testing.assert_allclose(found.N @ system.from_pinocchio(v), [0.0, -0.011 / H], rtol=1e-12)
    assert not found.S.any()
    assert not found.T.any()
