"""Drives that close a loop within a control period move like a spring and a damper, within torque limits."""

import numpy as np
import pinocchio as pin
import pytest

from idcontrol.contact.spheres import SphereContacts
from idcontrol.contact.terrain import plane
from idcontrol.dynamics.system import System
from idcontrol.models import coulomb
from idcontrol.plants.drive import PERIOD_S, Driven, drive_torque
from idcontrol.plants.stepping import Stepping
from idcontrol.types import Command, State
from tests import scenes
from tests.parameters import one_fast

G, MASS, LENGTH = 9.81, 0.5, 0.2
INERTIA = MASS * LENGTH**2


def pendulum(limit=10.0, joint=pin.JointModelRY):
    """Return a point mass on a rod that hangs high above the ground, with a drive in its hinge."""
    model = pin.Model()
    at = pin.SE3(np.eye(3), np.array([0.0, 0.0, 2.0]))
    hinge = model.addJoint(0, joint(), at, "hinge")
    model.appendBodyToJoint(
        hinge, pin.Inertia(MASS, np.array([0.0, 0.0, -LENGTH]), np.zeros((3, 3))), pin.SE3.Identity()
    )
    model.addJointFrame(hinge)
    system = System(model, actuated=["hinge"], effort_limit=np.array([limit]))
    ground = SphereContacts(system, ("hinge",), 0.01, plane(), 0.5)
    return Driven(Stepping(system, ground, coulomb.solve, PERIOD_S), system)


def rows(tau=0.0, q=0.0, v=0.0, kp=0.0, kd=0.0):
    return np.array([[tau], [q], [v], [kp], [kd]])


def state(q, v=0.0):
    return State(t=0.0, q=np.array([q]), v=np.array([v]))


@pytest.mark.parametrize("period", one_fast((1e-3, 4e-3, 0.1), 1e-3, 0.1))
def test_a_driven_pendulum_swings_like_a_spring_and_damper_at_any_command_period(period):
    """At small angles I q̈ = -(kp + m g l) q - kd q̇, with one command for each `period`."""
    kp, kd, start = 3.0, 0.05, 1e-3  # sin q = q to 2e-10
    decay, stiffness = kd / (2 * INERTIA), (kp + MASS * G * LENGTH) / INERTIA
    frequency = np.sqrt(stiffness - decay**2)
    plant, command = pendulum(), rows(kp=kp, kd=kd)
    plant.reset(state(start))
    for k in range(1, round(0.3 / period) + 1):
        after, t = plant.step(command, period), k * period
        exact = start * np.exp(-decay * t) * (np.cos(frequency * t) + decay / frequency * np.sin(frequency * t))
        # steps are of first order: phase and decay err by about half a period of the drive
        assert after.q[0] == pytest.approx(exact, abs=start * stiffness**0.5 * PERIOD_S)


def test_a_continuous_joint_goes_the_shorter_way_round():
    """A joint without ends jumps from π to -π; -3.1 rad is as far as 2π - 3.1 rad is for a joint with ends."""
    circle, line, start, wanted = pendulum(joint=pin.JointModelRUBY), pendulum(), 3.1, -3.1
    circle.reset(State(t=0.0, q=np.array([np.cos(start), np.sin(start)]), v=np.zeros(1)))
    line.reset(state(start))
    for _ in range(20):
        turned, moved = (
            plant.step(rows(q=q, kp=4.0, kd=0.2), 0.01) for plant, q in ((circle, wanted), (line, wanted + 2 * np.pi))
        )
    np.testing.assert_allclose(turned.q, [np.cos(moved.q[0]), np.sin(moved.q[0])], rtol=0, atol=1e-9)


def test_the_limits_hold_for_the_sum_of_feed_forward_and_impedance():
    rng = np.random.default_rng(0)
    limit = np.array([1.0, 2.0, np.inf])
    for _ in range(200):
        command, (q, v) = 3.0 * rng.normal(size=(5, 3)), rng.normal(size=(2, 3))
        tau, q_des, v_des, kp, kd = command
        wanted = tau + kp * (q_des - q) + kd * (v_des - v)
        torque = drive_torque(command, q_des - q, v, limit)
        assert (np.abs(torque) <= limit).all()
        inside = np.abs(wanted) <= limit
        np.testing.assert_array_equal(torque[inside], wanted[inside])
        np.testing.assert_array_equal(np.sign(torque), np.sign(wanted))


def test_a_drive_that_asks_for_too_much_moves_its_joint_as_its_limit_does():
    limited, free = pendulum(limit=0.1), pendulum()
    for plant, command in ((limited, rows(q=1.0, kp=100.0)), (free, rows(tau=0.1))):
        plant.reset(state(0.0))
        last = plant.step(command, 0.05)
        assert last.q[0] == pytest.approx(0.5 * 0.1 / INERTIA * 0.05**2, rel=0.1)  # gravity takes a few per cent
    np.testing.assert_array_equal(limited.step(rows(q=1.0, kp=100.0), 0.05).q, free.step(rows(tau=0.1), 0.05).q)


def test_torques_pass_a_drive_as_they_are():
    plant = pendulum()
    plant.reset(state(0.0))
    after = plant.step(np.array([0.2]), PERIOD_S)
    assert after.v[0] == pytest.approx(PERIOD_S * 0.2 / INERTIA)
    assert plant.torque == np.array([0.2])


def test_without_gains_a_drive_is_the_plant_with_that_torque_bit_for_bit():
    def quadruped():
        system = scenes.links()
        ground = SphereContacts(system, scenes.FEET, scenes.RADIUS, plane(), 0.8)
        return Stepping(system, ground, coulomb.solve, PERIOD_S), system

    rng = np.random.default_rng(1)
    plain, system = quadruped()
    driven = Driven(quadruped()[0], system)
    start = State(t=0.0, q=scenes.home(system), v=np.zeros(18))
    plain.reset(start)
    driven.reset(start)
    for _ in range(5):
        tau = 0.3 * rng.normal(size=12)
        command = np.stack((tau, rng.normal(size=12), rng.normal(size=12), np.zeros(12), np.zeros(12)))
        one, other = plain.step(tau, 1e-3), driven.step(command, 1e-3)
        np.testing.assert_array_equal(one.q, other.q)
        np.testing.assert_array_equal(one.v, other.v)
        np.testing.assert_array_equal(plain.contact_forces().force, driven.contact_forces().force)


def test_a_command_has_torques_only_or_five_rows():
    tau, q, v, kp, kd = np.arange(10.0).reshape(5, 2)
    assert Command(tau=tau).driven is tau
    np.testing.assert_array_equal(Command(tau=tau, q=q, v=v, kp=kp, kd=kd).driven, np.arange(10.0).reshape(5, 2))
