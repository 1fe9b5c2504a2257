"""Plant, planner and controller together, at the smallest: a machine that stands, and sways, on its feet."""

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


def plant(mu=0.8):
    system = scenes.links()
    return Stepping(system, SphereContacts(system, scenes.FEET, scenes.RADIUS, plane(), mu), coulomb.solve, scenes.H)


def test_predicted_forces_are_those_that_the_plant_delivers(quadruped):
    start = walker.at_home(quadruped)
    reference = walker.stand()
    for tick in ticks(plant(), lambda seen: reference, walker.controller(), start, h=scenes.H, steps=200):
        assert tick.command.status is Status.SOLVED
        assert tick.forces.force[:, 2].sum() == pytest.approx(walker.WEIGHT, rel=1e-6)
        # how four feet share is free in the plant; what they do together is not
        predicted, delivered = tick.command.predicted.force.sum(axis=0), tick.forces.force.sum(axis=0)
        np.testing.assert_allclose(predicted, delivered, rtol=0, atol=1e-6 * walker.WEIGHT)
    assert np.abs(tick.after.q - start.q).max() < 1e-6


@pytest.mark.parametrize("name", ["sap", "mujoco", "penalty"])
def test_standing_on_ground_that_gives_way_is_quiet(name, quadruped):
    """The feet sink as they settle, which dies away as the joints' feedback has it, with 20/s, and so do the torques.

    After 25 of these time constants nothing of it is left; 0.01 N m/s is a thousandth of what a walk asks for. A
    controller that stops feet within one period swings up with such ground (math.md, section 12.6).
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


def test_a_swaying_base_is_tracked_while_the_feet_stay(quadruped):
    path = [
        (quadruped.joint_positions(state.q).copy(), quadruped.joint_velocities(state.v).copy(), a)
        for state, a in walker.swaying(quadruped, 150)
    ]
    start = walker.at_home(quadruped)

    def plan(seen):
        q, v, a = path[round(seen.t / scenes.H)]
        return walker.stand(q=q, v=v, a=a)

    errors = []
    for tick in ticks(plant(), plan, walker.controller(), start, h=scenes.H, steps=150):
        assert tick.command.status is Status.SOLVED
        errors.append(np.abs(tick.reference.q - quadruped.joint_positions(tick.state.q)).max())
    # joints move by 60 mrad; rows measured against the velocity that a foot still has feed a little drift back, which
    # costs 2 mrad, and the explicit path is a step of 0.7 mrad ahead
    assert max(errors) < 3e-3
    quadruped.update(tick.after.q, tick.after.v)
    feet = quadruped.frame_position[[quadruped.frame(foot) for foot in scenes.FEET]]
    quadruped.update(start.q, start.v)
    slip = np.abs(feet - quadruped.frame_position[[quadruped.frame(foot) for foot in scenes.FEET]])
    # spheres of 1 cm roll by 0.06 rad
    assert slip.max() < 1e-3
