"""A control step in one compiled call equals the step in parts, which controllers with a user's detector take."""

import numpy as np
import pytest

from idcontrol import plants
from idcontrol.contact.spheres import SphereContacts
from idcontrol.contact.terrain import plane
from idcontrol.controllers import Gains, InverseSettings, Setup, build
from idcontrol.dynamics.multibody import CompiledSystem
from idcontrol.dynamics.system import Actuators, System
from idcontrol.types import State
from tests import scenes
from tests.controllers import walker

LIMIT = np.full(12, 6.0)


class AllFeet(SphereContacts):
    """A user's detector."""


def machine(detector, mu, actuators):
    system = CompiledSystem(
        System.from_urdf(scenes.LINKS, free_flyer=True).model, effort_limit=LIMIT, actuators=actuators
    )
    return system, detector(system, scenes.FEET, scenes.RADIUS, plane(), mu)


def controller(name, detector, actuators):
    system, contacts = machine(detector, 0.7, actuators)
    setup = Setup(
        system=system,
        contacts=contacts,
        h=scenes.H,
        acceleration_gains=Gains(kp=400.0, kd=40.0),
        torque_gains=walker.TORQUE_GAINS,
        settings=InverseSettings(learn_load=True, learn_friction=True, impacts=True),
    )
    return build(name, setup)


def rotors(friction):
    none = np.zeros(12)
    return Actuators(np.full(12, 0.005), none + 0.05, none + friction, np.full(12, np.inf), none)


@pytest.mark.covering
@pytest.mark.parametrize("actuators", [None, rotors(0.2)])
@pytest.mark.parametrize("name", ["id-coulomb-qp", "id-noslip-lcp", "id-coulomb-cone"])
def test_torques_and_memory_equal_the_parts(quadruped, name, actuators):
    """A pushed robot on slippery ground learns load and friction, lands, and relaxes tracking."""
    ours, parts = (controller(name, detector, actuators) for detector in (SphereContacts, AllFeet))
    system, contacts = machine(SphereContacts, 0.25, actuators)
    plant = plants.build("coulomb-lcp", plants.Setup(system=system, contacts=contacts, dt=scenes.H))
    q = walker.at_home(quadruped).q
    q[2] += 0.003
    state = plant.reset(State(t=0.0, q=q, v=np.zeros(18)))
    rng, statuses = np.random.default_rng(3), set()
    # the hyperbolic tangents of compiled code and NumPy differ in the last digit
    same = {"rtol": 0, "atol": 0 if actuators is None else 1e-9}
    for i in range(250):
        feet = np.ones(4, dtype=bool)
        feet[i // 40 % 4] = i % 40 < 20
        swing = 0.2 * np.sin(0.1 * i) * np.ones(12)
        reference = walker.stand(q=scenes.HOME + swing, v=20.0 * swing, a=rng.normal(size=12), stance=feet)
        if i == 200:
            reference = walker.stand(a=np.full(12, 1e5))
        if i % 60 == 30:
            plant.push(np.array([0.4, 0.3, 0.0]))
        command, expected = ours(state, reference), parts(state, reference)
        np.testing.assert_allclose(command.tau, expected.tau, **same)
        assert (command.status, command.dropped, command.solved_by, command.clipped) == (
            expected.status,
            expected.dropped,
            expected.solved_by,
            expected.clipped,
        )
        np.testing.assert_array_equal(command.predicted.identity, expected.predicted.identity)
        np.testing.assert_allclose(command.predicted.force, expected.predicted.force, **same)
        np.testing.assert_allclose(ours.load, parts.load, **same)
        np.testing.assert_allclose(ours.friction, parts.friction, **same)
        statuses.add(command.status)
        state = plant.step(expected.tau, scenes.H)
    assert len(statuses) > 1
    assert np.abs(ours.load).max() > 0.0
    assert ours.friction < 0.7
