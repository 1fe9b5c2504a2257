"""The compiled plant step: which contact detectors and models it serves, and when Python steps instead."""

import numpy as np
import pytest

from idcontrol.contact.spheres import SphereContacts
from idcontrol.contact.terrain import plane
from idcontrol.dynamics.multibody import CompiledSystem
from idcontrol.dynamics.system import ActuatorLimits, Actuators, System
from idcontrol.models import coulomb, coulomb_cone, dissipation
from idcontrol.plants import Stepping
from idcontrol.plants.step import cone_step, coulomb_step, dissipation_step
from idcontrol.types import State
from tests import scenes

MODELS = {
    "coulomb": (coulomb.solve, coulomb_step),
    "coulomb-cone": (coulomb_cone.solve, cone_step),
    "dissipation": (dissipation.solve, dissipation_step),
}


def plant(model, step, mu=0.7, detector=SphereContacts, compiled=False, **keywords):
    system = System.from_urdf(scenes.LINKS, free_flyer=True)
    if compiled or keywords:
        system = CompiledSystem(system.model, **keywords)
    return Stepping(system, detector(system, scenes.FEET, scenes.RADIUS, plane(), mu), model, scenes.H, step)


@pytest.mark.parametrize("name", MODELS)
def test_a_detector_that_overrides_detect_is_obeyed(quadruped, name):
    falling = plant(*MODELS[name], detector=scenes.ThreeFeet)
    falling.reset(State(t=0.0, q=scenes.home(quadruped), v=np.zeros(18)))
    for _ in range(5):
        falling.step(np.zeros(12), scenes.H)
        assert falling.contact_forces().identity.tolist() == [0, 1, 2]


@pytest.mark.covering
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("mu", [0.0, 0.5, np.inf])
@pytest.mark.parametrize("compiled", [False, True])
def test_a_machine_that_falls_and_slides_moves_as_the_model_says(quadruped, name, mu, compiled):
    model, step = MODELS[name]
    plants = [plant(model, step, mu, compiled=compiled), plant(model, None, mu)]
    q = scenes.home(quadruped)
    q[2] += 0.002
    rng = np.random.default_rng(5)
    v = 0.1 * rng.normal(size=18)
    for each in plants:
        each.reset(State(t=0.0, q=q, v=v))
    touched = False
    for _ in range(60):
        tau = 0.5 * rng.normal(size=12)
        fast, slow = (each.step(tau, scenes.H) for each in plants)
        # the same arithmetic in another order: rounding, which impacts amplify from step to step
        np.testing.assert_allclose(fast.q, slow.q, rtol=0, atol=1e-9)
        np.testing.assert_allclose(fast.v, slow.v, rtol=0, atol=1e-7)
        forces = [each.contact_forces() for each in plants]
        np.testing.assert_array_equal(forces[0].identity, forces[1].identity)
        np.testing.assert_allclose(forces[0].force, forces[1].force, rtol=0, atol=1e-4)
        touched = touched or forces[0].identity.size > 0
    assert touched
    assert [each.solved for each in plants] == [plants[1].solved] * 2


class AllFeet(SphereContacts):
    """A user's own detector, which the compiled step does not serve."""


def test_one_call_moves_a_machine_with_stops_and_friction_as_its_parts_do(quadruped):
    """A robot falls, lands, jumps and bends its knees to their ends; both steps start from the same state."""
    home = scenes.home(quadruped)
    q, a = home.copy(), 12
    q[2] += 0.01
    limits = ActuatorLimits.none(a)._replace(lower=home[7:] - 0.2, upper=home[7:] + 0.2)
    rotors = Actuators(np.full(a, 0.005), np.full(a, 0.1), np.full(a, 0.3), np.full(a, np.inf), np.zeros(a))
    options = {"limits": limits, "actuators": rotors}
    plants = [plant(*MODELS["coulomb"], detector=each, **options) for each in (SphereContacts, AllFeet)]
    rng, seen, stopped, state = np.random.default_rng(5), set(), False, State(t=0.0, q=q, v=np.zeros(18))
    for i in range(300):
        tau = rng.normal(size=a) + (6.0 * np.sin(0.05 * i) if i > 100 else 0.0)
        for each in plants:
            each.reset(state)
            each.push(np.full(3, 0.5 if i == 50 else 0.0))
        ours, state = (each.step(tau, (1 + i % 3) * scenes.H) for each in plants)
        # the same arithmetic but for the last digits of where joints move, which impacts amplify
        assert ours.t == state.t
        np.testing.assert_allclose(ours.q, state.q, rtol=0, atol=1e-12)
        np.testing.assert_allclose(ours.v, state.v, rtol=0, atol=1e-9)
        force, same = (each.contact_forces() for each in plants)
        np.testing.assert_array_equal(force.identity, same.identity)
        np.testing.assert_allclose(force.force, same.force, rtol=0, atol=1e-6)
        np.testing.assert_allclose(force.normal, same.normal, rtol=0, atol=1e-12)
        np.testing.assert_allclose(plants[0].last.impulses, plants[1].last.impulses, rtol=0, atol=1e-9)
        assert plants[0].solved == plants[1].solved
        seen.add(force.identity.size)
        stopped = stopped or (np.abs(state.q[7:] - home[7:]) > 0.195).any()
    assert {0, 4} <= seen
    assert stopped


def test_a_returned_state_is_not_changed_by_the_next_step(quadruped):
    standing = plant(*MODELS["coulomb"], compiled=True)
    standing.reset(State(t=0.0, q=scenes.home(quadruped), v=np.zeros(18)))
    state = standing.step(np.zeros(12), scenes.H)
    first = state.q, state.v, standing.contact_forces().force, standing.last.impulses, standing.last.v_plus
    before = [each.copy() for each in first]
    standing.step(np.ones(12), scenes.H)
    assert all((one == same).all() for one, same in zip(first, before, strict=True))
