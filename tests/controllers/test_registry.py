"""Controllers by name."""

import numpy as np
import pytest
from msgspec import structs

from idcontrol import controllers, robots
from idcontrol.contact.spheres import SphereContacts
from idcontrol.contact.terrain import plane
from idcontrol.errors import DuplicateName, InputError
from tests import scenes
from tests.controllers import walker


@pytest.mark.parametrize("name", list(controllers.available()))
def test_no_joint_is_driven_faster_than_it_can_stop(quadruped, name):
    """A knee is a milliradian before its stop: demands to stay and to move on give different torques."""
    end = float(scenes.HOME.max()) + 1e-3
    controller = walker.controller(name, limit=1e4, limits={"lower": -3.0, "upper": end})
    knee, state = int(scenes.HOME.argmax()), walker.at_home(quadruped)
    asked = []
    for beyond in (-2e-3, 5.0, 6.0):
        q, v = scenes.HOME.copy(), np.zeros(12)
        q[knee], v[knee] = end + beyond, 10.0 * beyond
        controller.reset()
        asked.append(controller(state, walker.stand(q=q, v=v, stance=np.zeros(4, dtype=bool))).tau[knee])
    assert asked[1] == pytest.approx(asked[2], rel=1e-12)
    assert abs(asked[1] - asked[0]) > 1e-3


@pytest.mark.parametrize("name", sorted({*controllers.available()} - {"pid"}))
def test_a_joint_that_is_asked_to_go_beyond_its_end_comes_to_rest_there(quadruped, name):
    """In the air, without stops in the plant; `pid` has no inertia model and may swing through."""
    knee, end = int(scenes.HOME.argmax()), float(scenes.HOME.max()) + 0.02
    control = walker.controller(name, limits={"lower": -3.0, "upper": end})
    beyond = walker.stand(q=scenes.HOME + 0.5 * (np.arange(12) == knee), stance=np.zeros(4, dtype=bool))
    state = walker.at_home(quadruped)
    q, v, farthest = state.q + 10.0 * (np.arange(19) == 2), np.zeros(18), -np.inf
    for k in range(200):
        tau = control(structs.replace(state, t=scenes.H * k, q=q, v=quadruped.to_pinocchio(v)), beyond).tau
        quadruped.update(q, quadruped.to_pinocchio(v))
        v = v + scenes.H * np.linalg.solve(quadruped.M, np.concatenate((np.zeros(6), tau)) - quadruped.bias)
        q, moved = quadruped.advance(q, v, scenes.H)
        v = quadruped.from_pinocchio(moved)
        farthest = max(farthest, quadruped.joint_positions(q)[knee])
    assert end - 1e-4 < farthest < end + 1e-9


def test_a_name_is_registered_once():
    with pytest.raises(DuplicateName):
        controllers.register("pid", "another", lambda setup: walker.controller())


def test_pid_says_that_it_needs_gains_of_the_robot(quadruped):
    contacts = SphereContacts(quadruped, scenes.FEET, scenes.RADIUS, plane(), 0.7)
    with pytest.raises(InputError, match="torque_gains"):
        controllers.build("pid", controllers.Setup(system=quadruped, contacts=contacts, h=scenes.H))


def test_a_controller_has_the_gains_of_the_robot_file_and_the_period_of_its_rate():
    """In the air joints follow the law exactly: kd brakes a velocity error, kp corrects a position error."""
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
    wish = structs.replace(reference, a=stiffness * off + damping * 2.0 * off)
    np.testing.assert_allclose(asked, controllers.make("id-coulomb-qp", robot, mu=0.7)(flying, wish).tau, atol=1e-9)

    # in ten times the rate, a tenth of the change of velocity
    fast, slow = (
        controllers.make("id-coulomb-qp", robot, mu=0.7, rate_hz=rate).problem(flying, wish).b
        for rate in (10_000.0, 1000.0)
    )
    np.testing.assert_allclose(10.0 * fast, slow, rtol=1e-12)
    assert np.abs(slow).min() > 0.0


def test_settings_reach_the_controller_of_a_robot():
    """Feet at rest 3 mm above the ground carry the robot unless the contact margin is smaller."""
    robot = robots.load("links")
    standing, reference = robot.standing_state(), robot.standing_reference()
    standing.q[2] += 0.003
    counts = [
        controllers.make("id-coulomb-qp", robot, mu=0.7, settings=wish).problem(standing, reference).which.size
        for wish in (None, controllers.InverseSettings(contact_margin_m=0.002))
    ]
    assert counts == [4, 0]
