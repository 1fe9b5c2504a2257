"""The compiled plant step: whose contacts it takes, and what it leaves to the model in Python."""

from __future__ import annotations

import numpy as np
import pytest

from idcontrol.contact.spheres import SphereContacts
from idcontrol.contact.terrain import plane
from idcontrol.models import coulomb, coulomb_cone, dissipation
from idcontrol.plants import Stepping
from idcontrol.plants.step import cone_step, coulomb_step, dissipation_step
from idcontrol.system import System
from idcontrol.types import State
from tests import scenes

MODELS = {
    "coulomb": (coulomb.solve, coulomb_step),
    "coulomb-cone": (coulomb_cone.solve, cone_step),
    "dissipation": (dissipation.solve, dissipation_step),
}


class ThreeFeet(SphereContacts):
    """Foot spheres of which the last is never found."""

    def detect(self, margin):
        near = super().detect(margin)
        return near.take(near.identity != 3)


def plant(model, step, mu=0.7, detector=SphereContacts):
    system = System.from_urdf(scenes.LINKS, free_flyer=True)
    return Stepping(system, detector(system, scenes.FEET, scenes.RADIUS, plane(), mu), model, scenes.H, step)


@pytest.mark.parametrize("name", MODELS)
def test_a_detector_that_overrides_detect_is_obeyed(quadruped, name):
    falling = plant(*MODELS[name], detector=ThreeFeet)
    falling.reset(State(t=0.0, q=scenes.home(quadruped), v=np.zeros(18)))
    for _ in range(5):
        falling.step(np.zeros(12), scenes.H)
        assert falling.contact_forces().identity.tolist() == [0, 1, 2]


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("mu", [0.0, 0.5, np.inf])
def test_a_machine_that_falls_and_slides_moves_as_the_model_says(quadruped, name, mu):
    model, step = MODELS[name]
    plants = [plant(model, step, mu), plant(model, None, mu)]
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
