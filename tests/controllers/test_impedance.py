"""Impedance commands refer to the middle of the period, with gains proportional to each joint's inertia."""

import numpy as np
import pytest
from msgspec import structs

from idcontrol import controllers
from idcontrol.contact.spheres import SphereContacts
from idcontrol.contact.terrain import plane
from idcontrol.controllers import Gains
from idcontrol.controllers.impedance import Impedance, centred, drive_gains
from idcontrol.dynamics.system import System
from idcontrol.types import Command, Reference, State, Status
from tests import scenes
from tests.controllers import walker

H = 4e-3
START, SPEED, ACCELERATION = np.array([0.3, -0.2]), np.array([1.0, -2.0]), np.array([30.0, 50.0])
GAINS = Gains(kp=np.array([5.0, 6.0]), kd=np.array([0.5, 0.6]))
NOW = State(t=0.1, q=np.zeros(0), v=np.zeros(0))


def position(t):
    return START + t * SPEED + 0.5 * t * t * ACCELERATION


def speed(t):
    return SPEED + t * ACCELERATION


def planner(state):
    """Constant acceleration; the velocity is the mean over the last period, like `Reference.v`."""
    reference = Reference.standing(position(state.t), 0)
    return structs.replace(reference, v=(position(state.t) - position(state.t - H)) / H, a=ACCELERATION)


class Fixed:
    def __init__(self, command):
        self.command, self.asked, self.resets = command, [], 0

    def reset(self):
        self.resets += 1

    def __call__(self, state, reference):
        self.asked.append(reference)
        return self.command


def test_a_centred_reference_is_the_motion_at_the_beginning_of_the_period():
    now_reference = centred(planner, H)(NOW)
    np.testing.assert_allclose(now_reference.q, position(NOW.t), rtol=0, atol=1e-14)
    np.testing.assert_allclose(now_reference.v, speed(NOW.t), rtol=0, atol=1e-12)  # differences over 4 ms of 1e-15
    np.testing.assert_array_equal(now_reference.a, ACCELERATION)


def test_the_drive_holds_the_joints_to_the_motion_in_the_middle_of_the_period():
    tau = np.array([0.1, -0.2])
    controller = Fixed(Command(tau=tau, residual=1e-9))
    command = Impedance(controller, GAINS, H)(NOW, centred(planner, H)(NOW))
    np.testing.assert_allclose(command.q, position(NOW.t + H / 2), rtol=0, atol=1e-14)
    np.testing.assert_allclose(command.v, speed(NOW.t + H / 2), rtol=0, atol=1e-12)
    np.testing.assert_array_equal(command.kp, GAINS.kp)
    np.testing.assert_array_equal(command.kd, GAINS.kd)
    assert command.tau is tau
    assert command.residual == 1e-9


def test_the_drive_applies_no_torque_if_the_controller_has_failed():
    failed = Command(tau=np.zeros(2), status=Status.FAILED)
    command = Impedance(Fixed(failed), GAINS, H)(NOW, planner(NOW))
    assert command.status is Status.FAILED
    np.testing.assert_array_equal(command.driven[[0, 3, 4]], np.zeros((3, 2)))


def test_a_reset_reaches_the_controller():
    inner = Fixed(Command(tau=np.zeros(2)))
    Impedance(inner, GAINS, H).reset()
    assert inner.resets == 1


@pytest.mark.parametrize("joint", [0, 4, 11])
def test_a_drive_accelerates_its_joint_according_to_its_gains(quadruped, joint):
    """The robot is in the air, and its other joints are limp."""
    quadruped.update(scenes.home(quadruped), np.zeros(18))
    gains = drive_gains(quadruped, Gains(kp=900.0, kd=60.0))
    force = np.zeros(18)
    force[6 + joint] = gains.kp[joint] * 0.01 + gains.kd[joint] * 0.2
    wanted = 900.0 * 0.01 + 60.0 * 0.2
    assert np.linalg.solve(quadruped.M, force)[6 + joint] == pytest.approx(wanted, rel=1e-10)


def setup(drives):
    system = System.from_urdf(scenes.LINKS, free_flyer=True)
    contacts = SphereContacts(system, scenes.FEET, scenes.RADIUS, plane(), 0.7)
    gains = walker.TORQUE_GAINS
    return controllers.Setup(system=system, contacts=contacts, h=1e-3, torque_gains=gains, drive_gains=drives)


@pytest.mark.parametrize("name", ["pid", "id-coulomb-qp", "id-sensed-1"])
def test_every_controller_sends_impedance_commands_where_there_are_drives(quadruped, name):
    drives = Gains(kp=np.full(12, 2.0), kd=np.full(12, 0.1))
    reference = walker.stand(q=scenes.HOME + 0.01, v=np.full(12, 0.1))
    state = State(t=0.0, q=scenes.home(quadruped), v=np.zeros(18))
    plain = controllers.build(name, setup(None))(state, reference)
    driven = controllers.build(name, setup(drives))(state, reference)
    assert plain.q is None
    assert driven.driven.shape == (5, 12)
    if name == "pid":  # drives do everything that `pid` does
        np.testing.assert_array_equal(driven.tau, np.zeros(12))
        np.testing.assert_array_equal(driven.kp, walker.TORQUE_GAINS.kp)
        np.testing.assert_array_equal(driven.kd, walker.TORQUE_GAINS.kd)
    else:
        np.testing.assert_array_equal(driven.tau, plain.tau)
        np.testing.assert_array_equal(driven.kp, drives.kp)


@pytest.mark.parametrize("value", [None, "far", np.zeros(3), np.full(12, np.nan)])
@pytest.mark.parametrize("part", ["q", "v", "a"])
@pytest.mark.parametrize("name", ["pid", "id-sensed-1"])
def test_an_unusable_reference_gives_zero_drive_commands(quadruped, name, part, value):
    driven = controllers.build(name, setup(walker.TORQUE_GAINS))
    command = driven(walker.at_home(quadruped), structs.replace(walker.stand(), **{part: value}))
    assert command.status is Status.FAILED
    np.testing.assert_array_equal(command.driven, np.zeros((5, 12)))
