"""Controllers by name."""

import pytest

from idcontrol import controllers
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
