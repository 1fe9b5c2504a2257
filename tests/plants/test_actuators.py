"""Actuators with rotor inertia, joint friction, delay, lag, and less torque at speed."""

import importlib.util

import numpy as np
import pinocchio as pin
import pytest

from idcontrol import plants
from idcontrol.contact.spheres import SphereContacts
from idcontrol.contact.terrain import plane
from idcontrol.dynamics.system import ActuatorLimits, Actuators, System
from idcontrol.errors import InputError
from idcontrol.plants.drive import PERIOD_S, Driven, Motors, at_speed
from idcontrol.plants.parts import STICK_RAD_S
from idcontrol.types import State
from tests.parameters import one_fast

INERTIA, ROTOR = 0.02, 0.03
H = 1e-4
OURS = ("coulomb-lcp", "sap", "penalty")
ALL = (*OURS, "mujoco", "pybullet")


def actuators(armature=0.0, damping=0.0, friction=0.0, bandwidth=np.inf, delay=0.0, joints=1):
    return Actuators(*(np.full(joints, entry) for entry in (armature, damping, friction, bandwidth, delay)))


def wheel(drives, limits=None):
    """Return a wheel on an upright axle, high above the ground; only its motor and its bearing act on it."""
    model = pin.Model()
    hinge = model.addJoint(0, pin.JointModelRZ(), pin.SE3(np.eye(3), np.array([0.0, 0.0, 2.0])), "hinge")
    model.appendBodyToJoint(hinge, pin.Inertia(1.0, np.zeros(3), INERTIA * np.eye(3)), pin.SE3.Identity())
    model.addJointFrame(hinge)
    return System(model, effort_limit=np.array([10.0]), limits=limits, actuators=drives)


def ground(system):
    """Return a contact sphere on the rim, far above the ground; at the axle it could not push the wheel."""
    return SphereContacts(system, ("hinge",), 0.01, plane(), 0.5, offsets=[(0.1, 0.0, 0.0)])


def plant_of(name, drives):
    if name in ("mujoco", "pybullet") and importlib.util.find_spec(name) is None:
        pytest.skip(f"{name} is not installed")
    system = wheel(drives)
    contacts = ground(system)
    plant = plants.build(name, plants.Setup(system=system, contacts=contacts, dt=H))
    return plant


def turning(v):
    return State(t=0.0, q=np.zeros(1), v=np.array([v]))


def speeds(plant, v, tau, steps):
    """Return the velocities after each step of `H` under a constant torque."""
    plant.reset(turning(v))
    return np.array([plant.step(np.array([tau]), H).v[0] for _ in range(steps)])


@pytest.mark.parametrize("name", [name for name in ALL if name != "pybullet"])
def test_a_rotor_adds_its_inertia_to_its_joint(name):
    """Speed is τ t / (I + J): momentum and energy include the rotor and the link."""
    n = 200
    v = speeds(plant_of(name, actuators(armature=ROTOR)), 0.0, 0.5, n)
    np.testing.assert_allclose(v, 0.5 * H * np.arange(1, n + 1) / (INERTIA + ROTOR), rtol=1e-9)
    work, energy = 0.5 * H * v.sum(), 0.5 * (INERTIA + ROTOR) * v[-1] ** 2
    assert work == pytest.approx(energy * (n + 1) / n, rel=1e-9)  # the velocities are those at the ends of the steps


def test_bullet_refuses_a_rotor():
    with pytest.raises(InputError, match=r"joint 'hinge' has armature 0\.03, which Bullet lacks; use another plant"):
        plant_of("pybullet", actuators(armature=ROTOR))


@pytest.mark.parametrize("name", ALL)
def test_viscous_friction_lets_the_speed_decay(name):
    damping = 0.1
    v = speeds(plant_of(name, actuators(damping=damping)), 3.0, 0.0, 1000)
    t = H * np.arange(1, 1001)
    # the error of an implicit or explicit step is (h d / I)²/2, which adds up to h d / I = 5e-4 times t d / I = 0.5
    np.testing.assert_allclose(v, 3.0 * np.exp(-damping * t / INERTIA), rtol=1e-3)


@pytest.mark.parametrize("name", one_fast(ALL, "coulomb-lcp", "mujoco", "pybullet"))
def test_dry_friction_stops_a_joint_in_due_time_and_it_stays_at_rest(name):
    """Speed is v₀ - F t / I until the joint stops; the joint does not turn back."""
    friction, start = 0.2, 2.0
    stop = start * INERTIA / friction
    v = speeds(plant_of(name, actuators(friction=friction)), start, 0.0, round(1.5 * stop / H))
    t = H * np.arange(1, v.size + 1)
    slowing = t < 0.95 * stop
    # MuJoCo's friction is soft, and gives 1 % less; ours lags by a step
    np.testing.assert_allclose(v[slowing], (start - friction * t / INERTIA)[slowing], atol=0.02)
    assert (np.diff(np.abs(v)) <= 0.0).all()
    assert abs(v[-1]) < 1e-6
    assert (v > -1e-9).all()


@pytest.mark.parametrize("name", one_fast(OURS, "coulomb-lcp"))
def test_dry_friction_of_a_joint_with_a_rotor_is_exact_until_it_stops(name):
    """Speed is v₀ - F t / (I + J); an impulse h F changes it by at most h F / J."""
    friction, inertia = 0.2, INERTIA + ROTOR
    stop = 2.0 * inertia / friction
    v = speeds(plant_of(name, actuators(armature=ROTOR, friction=friction)), 2.0, 0.0, round(1.2 * stop / H))
    exact = 2.0 - friction / inertia * H * np.arange(1, v.size + 1)
    slowing = exact > H * friction / ROTOR
    np.testing.assert_allclose(v[slowing], exact[slowing], rtol=1e-9)
    assert (v > -1e-9).all()
    assert abs(v[-1]) < 1e-6


@pytest.mark.parametrize("name", one_fast(OURS, "coulomb-lcp"))
def test_a_joint_under_less_than_dry_friction_creeps_in_proportion(name):
    v = speeds(plant_of(name, actuators(friction=0.2)), 0.0, 0.15, 2000)
    assert v[-1] == pytest.approx(0.75 * STICK_RAD_S, rel=1e-9)
    assert (v <= 0.75 * STICK_RAD_S * (1 + 1e-9)).all()


def test_joint_friction_in_flight_keeps_angular_momentum():
    """A base and a wheel on it end up turning together."""
    base_inertia = 0.05
    model = pin.Model()
    flyer = model.addJoint(0, pin.JointModelFreeFlyer(), pin.SE3.Identity(), "base")
    model.appendBodyToJoint(flyer, pin.Inertia(2.0, np.zeros(3), base_inertia * np.eye(3)), pin.SE3.Identity())
    hinge = model.addJoint(flyer, pin.JointModelRZ(), pin.SE3.Identity(), "hinge")
    model.appendBodyToJoint(hinge, pin.Inertia(1.0, np.zeros(3), INERTIA * np.eye(3)), pin.SE3.Identity())
    model.addJointFrame(hinge)
    system = System(model, actuators=actuators(friction=0.2))
    contacts = ground(system)
    plant = plants.build("coulomb-lcp", plants.Setup(system=system, contacts=contacts, dt=1e-3))
    q = pin.neutral(model)
    q[2] = 10.0
    plant.reset(State(t=0.0, q=q, v=np.array([0.0, 0, 0, 0, 0, 0, 4.0])))
    for _ in range(500):
        after = plant.step(np.zeros(1), 1e-3)
    together = INERTIA * 4.0 / (base_inertia + INERTIA)
    assert after.v[5] == pytest.approx(together, rel=1e-9)
    assert abs(after.v[6]) < 1e-9


def test_a_lag_answers_a_step_as_one_of_first_order():
    bandwidth = 40.0
    motors = Motors(wheel(actuators(bandwidth=bandwidth)))
    assert motors(np.zeros(1), np.zeros(1), H) == 0.0
    drives = np.array([motors(np.ones(1), np.zeros(1), H)[0] for _ in range(300)])
    np.testing.assert_allclose(drives, 1.0 - np.exp(-2.0 * np.pi * bandwidth * H * np.arange(1, 301)), rtol=1e-12)


def test_torques_come_so_late_as_each_joint_has_it():
    late = Actuators(*np.zeros((3, 1)), np.full(1, np.inf), np.array([7 * H]))
    motors = Motors(wheel(late))
    drives = [motors(np.array([float(k)]), np.zeros(1), H)[0] for k in range(15)]
    assert drives == [0.0] * 7 + [float(k) for k in range(8)]


def test_a_torque_that_speeds_its_joint_up_falls_from_full_speed_to_none():
    room = ActuatorLimits.none(5)._replace(
        speed=np.array([20.0, 20.0, 20.0, 20.0, np.inf]), no_load=np.array([30.0, 30.0, 30.0, 30.0, np.inf])
    )
    v = np.array([10.0, 25.0, -25.0, 40.0, 1e3])
    forwards, backwards = at_speed(np.full(5, 8.0), room, v)
    np.testing.assert_allclose(forwards, [8.0, 4.0, 8.0, 0.0, 8.0])
    np.testing.assert_allclose(backwards, [8.0, 8.0, 4.0, 8.0, 8.0])
    forwards, _ = at_speed(np.full(5, np.inf), room, v)
    np.testing.assert_array_equal(forwards, [np.inf, np.inf, np.inf, 0.0, np.inf])


def test_a_motor_at_full_torque_reaches_no_more_than_its_no_load_speed():
    limits = ActuatorLimits.none(1)._replace(speed=np.array([20.0]), no_load=np.array([30.0]))
    system = wheel(actuators(), limits)
    contacts = ground(system)
    plant = Driven(plants.build("coulomb-lcp", plants.Setup(system=system, contacts=contacts, dt=PERIOD_S)), system)
    plant.reset(turning(0.0))
    v = np.array([plant.step(np.array([5.0]), 1e-3).v[0] for _ in range(1000)])
    # I v̇ = 5 up to 20 rad/s, for the limit is 10 and half of it is left at 25
    assert v[: round(25.0 * INERTIA / 5.0 / 1e-3) - 1] == pytest.approx(
        5.0 / INERTIA * 1e-3 * np.arange(1, 100), rel=1e-9
    )
    assert 29.9 < v[-1] <= 30.0


@pytest.mark.parametrize(
    ("drives", "said"),
    [
        (actuators(joints=2), "1 numbers each"),
        (actuators(friction=-0.1), "must be finite and not negative"),
        (actuators(armature=np.inf), "must be finite and not negative"),
        (actuators(bandwidth=0.0), "bandwidth positive"),
    ],
)
def test_actuators_that_cannot_be_are_refused(drives, said):
    with pytest.raises(InputError, match=said):
        wheel(drives)


def test_wrong_actuators_have_more_of_everything():
    drives = Actuators(*(np.full(1, x) for x in (1.0, 2.0, 3.0, 40.0, 5.0))).wrong(0.25)
    np.testing.assert_allclose(np.ravel(drives), [1.25, 2.5, 3.75, 32.0, 6.25])
