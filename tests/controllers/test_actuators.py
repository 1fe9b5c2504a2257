"""Controllers compensate the actuators of their system: inertia of rotors, friction in joints."""

import numpy as np
import pytest

from idcontrol import plants
from idcontrol.contact.spheres import SphereContacts
from idcontrol.contact.terrain import plane
from idcontrol.controllers import Setup, build
from idcontrol.controllers.feedback import TURNS_RAD_S, Gains, overcoming
from idcontrol.dynamics.system import Actuators, System
from idcontrol.types import State
from tests import scenes
from tests.controllers import walker

H = 1e-3
ROTOR, DAMPING, FRICTION = 0.01, 0.05, 0.2


def actuators(armature=ROTOR, damping=DAMPING, friction=FRICTION):
    return Actuators(*(np.full(12, entry) for entry in (armature, damping, friction, np.inf, 0.0)))


def quadruped(drives):
    return System(System.from_urdf(scenes.LINKS, free_flyer=True).model, actuators=drives)


def setup(drives):
    system = quadruped(drives)
    contacts = SphereContacts(system, scenes.FEET, scenes.RADIUS, plane(), 0.7)
    gains = Gains(kp=400.0, kd=40.0)
    return Setup(system=system, contacts=contacts, h=H, acceleration_gains=gains, torque_gains=walker.TORQUE_GAINS)


def plant(drives):
    system = quadruped(drives)
    contacts = SphereContacts(system, scenes.FEET, scenes.RADIUS, plane(), 0.7)
    return plants.build("coulomb-lcp", plants.Setup(system=system, contacts=contacts, dt=H))


def flying(rng):
    """A state in the air with joints at 2 to 4 rad/s, and a reference that accelerates them."""
    system = quadruped(None)
    q = system.configuration(scenes.HOME, scenes.home(system)[:7] + np.array([0, 0, 1.0, 0, 0, 0, 0]))
    v = np.concatenate((np.zeros(6), rng.choice((-1.0, 1.0), 12) * rng.uniform(2.0, 4.0, 12)))
    reference = walker.stand(q=scenes.HOME, v=v[6:], a=10.0 * rng.normal(size=12), stance=np.zeros(4, dtype=bool))
    return State(t=0.0, q=q, v=v), reference


@pytest.mark.parametrize("name", ["id-coulomb-qp", "id-coulomb-lcp", "id-sensed-1", "id-sap"])
def test_joints_with_rotors_and_friction_follow_the_demand(name):
    state, reference = flying(np.random.default_rng(0))
    goal = reference.v + H * reference.a
    for drives, error in (
        (actuators(damping=0.0, friction=0.0), 1e-9),
        # the plant's friction depends on the velocity at the step's end, which differs by 1 %
        (actuators(), 5e-4),
    ):
        body = plant(drives)
        body.reset(state)
        after = body.step(build(name, setup(drives))(state, reference).tau, H)
        np.testing.assert_allclose(after.v[6:], goal, rtol=0, atol=error)
        body.reset(state)
        unaware = body.step(build(name, setup(None))(state, reference).tau, H)
        assert np.abs(unaware.v[6:] - goal).max() > 5.0 * error


def test_the_pid_law_adds_the_torque_that_overcomes_friction():
    state, reference = flying(np.random.default_rng(1))
    plain, helped = (build("pid", setup(drives))(state, reference).tau for drives in (None, actuators()))
    np.testing.assert_allclose(helped - plain, DAMPING * reference.v + FRICTION * np.sign(reference.v), atol=1e-12)


def test_a_feed_forward_of_dry_friction_passes_smoothly_through_zero():
    v = np.linspace(-1.0, 1.0, 201)
    drives = Actuators(*np.zeros((2, 201)), np.full(201, FRICTION), np.full(201, np.inf), np.zeros(201))
    torque = overcoming(drives, v)
    np.testing.assert_allclose(torque, -torque[::-1], rtol=0, atol=1e-15)
    np.testing.assert_allclose(torque[np.abs(v) > 0.5], FRICTION * np.sign(v[np.abs(v) > 0.5]), rtol=1e-4)
    assert np.abs(np.diff(torque)).max() <= FRICTION * 0.01 / TURNS_RAD_S  # the slope of the hyperbolic tangent
