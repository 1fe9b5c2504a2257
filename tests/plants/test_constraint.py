"""The plant `constraint` and the controller `id-constraint`, through their public interfaces."""

import numpy as np
import pytest

from idcontrol import controllers, plants
from idcontrol.contact.spheres import SphereContacts
from idcontrol.contact.terrain import plane
from idcontrol.errors import InputError
from idcontrol.scenes.locomotion import record_walk
from idcontrol.scenes.walk import WalkConfig, WalkScene
from idcontrol.types import Reference, State
from tests import scenes


def feet(system, mu=0.8):
    return SphereContacts(system, scenes.FEET, scenes.RADIUS, plane(), mu)


def make(**settings):
    system = scenes.links()
    return plants.build(
        "constraint",
        plants.Setup(system=system, contacts=feet(system), dt=1e-3, settings=plants.GroundSettings(**settings)),
    )


def held(seconds, plant):
    """Return the last command and state of a robot that stands on the plant under stiff position control."""
    system = scenes.links()
    controller = controllers.build("id-constraint", controllers.Setup(system=system, contacts=feet(system), h=1e-3))
    state = plant.reset(State(t=0.0, q=scenes.home(system), v=np.zeros(18)))
    reference = Reference.standing(system.joint_positions(state.q), 4)
    for _ in range(round(seconds / 1e-3)):
        command = controller(state, reference)
        state = plant.step(command.tau, 1e-3)
    return command, state


def test_settings_that_mean_nothing_are_refused():
    with pytest.raises(InputError, match="stiffness"):
        make(stiffness_n_m=-1.0)


@pytest.mark.interpreted
def test_the_printed_program_can_be_chosen():
    pytest.importorskip("clarabel")
    plant = make(constraint_form="as-printed")
    _, state = held(0.005, plant)
    assert np.isfinite(state.q).all()


@pytest.mark.slow
@pytest.mark.parametrize(("controller", "plant"), [("id-constraint", "coulomb-lcp"), ("id-coulomb-qp", "constraint")])
def test_a_robot_trots_a_step(tmp_path, controller, plant):
    config = WalkConfig(controller=controller, plant=plant, duration_s=0.6)
    metrics = record_walk(WalkScene.of(config), tmp_path)
    assert metrics["completed"]
    assert metrics["solver"]["solved"] == 600
    # as with the other models of Coulomb friction
    assert metrics["q_err_rad"] < 0.004
    assert metrics["force_err_rel"] < 0.02
