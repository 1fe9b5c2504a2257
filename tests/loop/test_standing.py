"""Plant, planner and controller together in the smallest case: a machine that stands and sways on its feet."""

import numpy as np
import pytest

from idcontrol import plants
from idcontrol.contact.spheres import SphereContacts
from idcontrol.contact.terrain import plane
from idcontrol.loop.simulated import ticks
from idcontrol.models import coulomb
from idcontrol.plants import Stepping
from idcontrol.types import Status
from tests import scenes
from tests.controllers import walker
from tests.parameters import one_fast


def plant(mu=0.8):
    system = scenes.links()
    return Stepping(system, SphereContacts(system, scenes.FEET, scenes.RADIUS, plane(), mu), coulomb.solve, scenes.H)


def test_predicted_forces_sum_to_the_forces_of_the_plant(quadruped):
    start = walker.at_home(quadruped)
    reference = walker.stand()
    for tick in ticks(plant(), lambda seen: reference, walker.controller(), start, h=scenes.H, steps=200):
        assert tick.command.status is Status.SOLVED
        assert tick.forces.force[:, 2].sum() == pytest.approx(walker.WEIGHT, rel=1e-6)
        # the distribution over four feet is free in the plant; their sum is not
        predicted, delivered = tick.command.predicted.force.sum(axis=0), tick.forces.force.sum(axis=0)
        np.testing.assert_allclose(predicted, delivered, rtol=0, atol=1e-6 * walker.WEIGHT)
    assert np.abs(tick.after.q - start.q).max() < 1e-6


@pytest.mark.parametrize("name", one_fast(("sap", "mujoco", "penalty"), "penalty"))
def test_standing_on_compliant_ground_is_quiet(name, quadruped):
    """The feet sink and converge with the joints' feedback at 20/s, and so do the torques.

    After 25 of these time constants nothing remains; 0.01 N m/s is a thousandth of the torque rate of a walk. A
    controller that stops feet within one period becomes unstable on such ground (math.md, section 12.6).
    """
    if name == "mujoco":
        pytest.importorskip(name)
    system = scenes.links()
    contacts = SphereContacts(system, scenes.FEET, scenes.RADIUS, plane(), 0.8)
    ground = plants.build(name, plants.Setup(system=system, contacts=contacts, dt=scenes.H))
    reference, start = walker.stand(), walker.at_home(quadruped)
    torques = np.array(
        [
            tick.command.tau
            for tick in ticks(ground, lambda seen: reference, walker.controller(), start, h=scenes.H, steps=1300)
        ]
    )
    rate = np.abs(np.diff(torques[-50:], axis=0)) / scenes.H
    assert rate.max() < 1e-2
