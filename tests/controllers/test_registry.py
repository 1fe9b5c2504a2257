"""Controllers by name."""

import numpy as np
import pytest
from msgspec import structs

from idcontrol import controllers, robots
from idcontrol.contact.spheres import SphereContacts
from idcontrol.contact.terrain import plane
from idcontrol.errors import DuplicateName, InputError, UnknownName
from tests import scenes
from tests.controllers import walker


@pytest.mark.parametrize("name", list(controllers.available()))
def test_every_controller_on_the_list_stands_within_its_limits(quadruped, name):
    command = walker.controller(name, limit=30.0)(walker.at_home(quadruped), walker.stand())
    assert command.tau.shape == (12,)
    assert abs(command.tau).max() <= 30.0


def test_an_unknown_name_is_answered_with_those_that_exist():
    with pytest.raises(UnknownName, match="did you mean 'id-coulomb-qp'"):
        walker.controller("id-coulomb-qpp")


def test_a_name_is_given_once():
    with pytest.raises(DuplicateName):
        controllers.register("pid", "another", lambda setup: walker.controller())


def test_pid_says_that_it_needs_gains_of_the_robot(quadruped):
    contacts = SphereContacts(quadruped, scenes.FEET, scenes.RADIUS, plane(), 0.7)
    with pytest.raises(InputError, match="torque_gains"):
        controllers.build("pid", controllers.Setup(system=quadruped, contacts=contacts, h=scenes.H))


def test_a_controller_of_a_robot_has_the_gains_of_its_file_and_the_period_of_its_rate():
    """In the air, where joints do what they are told: a kick of v is braked by kd, a way off is made good by kp."""
    robot = robots.load("links")
    standing, reference = robot.standing_state(), robot.standing_reference()
    kp, kd = robot.torque_gains(robot.system().actuated_names)
    off = 0.005 * np.arange(1.0, 13.0)  # within the torque limits
    aside = structs.replace(reference, q=reference.q + off, v=2.0 * off)
    np.testing.assert_allclose(controllers.make("pid", robot, mu=0.7)(standing, aside).tau, kp * off + kd * 2.0 * off)

    lifted = standing.q.copy()
    lifted[2] += 1.0
    flying = structs.replace(standing, q=lifted)
    stiffness, damping = robot.acceleration_gains()
    asked = controllers.make("id-coulomb-qp", robot, mu=0.7)(flying, aside).tau
    told = structs.replace(reference, a=stiffness * off + damping * 2.0 * off)
    np.testing.assert_allclose(asked, controllers.make("id-coulomb-qp", robot, mu=0.7)(flying, told).tau, atol=1e-9)

    # in ten times the rate, a tenth of the change of velocity
    fast, slow = (
        controllers.make("id-coulomb-qp", robot, mu=0.7, rate_hz=rate).problem(flying, told).posed.b
        for rate in (10_000.0, 1000.0)
    )
    np.testing.assert_allclose(10.0 * fast, slow, rtol=1e-12)
    assert np.abs(slow).min() > 0.0
