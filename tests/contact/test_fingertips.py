"""Fingertips on a held body: numbered by finger, rows of both bodies, forces that act and react."""

import coal
import numpy as np
import pytest

from idcontrol import robots
from idcontrol.contact.fingertips import Fingertips
from idcontrol.dynamics.system import FreeBody, System
from idcontrol.errors import InputError, UnknownName

pytestmark = pytest.mark.interpreted

SIDE = 0.05071
ARM = robots.load("arm")


@pytest.fixture(scope="module")
def system():
    return System.from_urdf(
        ARM.urdf, free_flyer=False, free_bodies=[FreeBody(name="box", mass=0.8, inertia=3e-4 * np.eye(3))]
    )


def tips(system, **changes):
    return Fingertips(
        system,
        ["TIP0", "TIP1", "TIP2", "TIP3"],
        changes.pop("radii", 0.01),
        "box",
        coal.Box(SIDE, SIDE, SIDE),
        0.7,
        **changes,
    )


def put(system, box=(0.3, 0.0, 0.2), fingers=np.pi / 4):
    q = system.configuration(np.array([np.pi / 2] * 7 + [fingers] * 4))
    at = system.model.joints[system.model.getJointId("box")].idx_q
    q[at : at + 3] = box
    system.update(q, np.zeros(system.n_velocities))
    return q


def test_each_finger_has_a_contact_with_its_number(system):
    put(system)
    contacts = tips(system).detect(1e-3)
    assert contacts.identity.tolist() == [0, 1, 2, 3]
    # the tips are 0.1 sin(π/4) - 0.02 m apart
    np.testing.assert_allclose(contacts.gap, 0.5 * (0.1 * np.sin(np.pi / 4) - 0.02 - SIDE), atol=1e-12)
    np.testing.assert_allclose(contacts.axes[:, 0], [[0, 1, 0], [0, 1, 0], [0, -1, 0], [0, -1, 0]], atol=1e-12)
    assert (contacts.mu == 0.7).all()


def test_normal_rows_give_the_derivative_of_the_gaps(system):
    """Along a motion of all joints and the box the normal rows give the derivative of the gaps."""
    q = put(system)
    rng = np.random.default_rng(4)
    v = 0.1 * rng.standard_normal(system.n_velocities)
    detector = tips(system)
    contacts = detector.detect(np.inf)
    speed, h = contacts.N @ v, 1e-6
    gaps = []
    for step in (h, -h):
        system.update(system.integrate(q, v, step), np.zeros(system.n_velocities))
        gaps.append(detector.detect(np.inf).gap.copy())
    # central differences: rounding of 1e-17 m over 2e-6 s, and curvature times h²
    np.testing.assert_allclose((gaps[0] - gaps[1]) / (2 * h), speed, atol=1e-9)


def test_when_hand_and_box_move_as_one_body_no_contact_moves(system):
    put(system)
    contacts = tips(system).detect(1e-3)
    joint = system.model.getJointId("X_7")
    hand = np.where(system.support[joint], system.jacobian, 0.0)
    rate = np.array([0.3, -0.2, 0.5, 0.1, 0.4, -0.6, 0.2])
    v = np.zeros(system.n_velocities)
    v[6:13] = rate
    twist = hand @ v
    # the box is at (0.3, 0, 0.2) with the world's axes: its velocity is that of the hand's field there
    v[:3] = twist[:3] + np.cross(twist[3:], [0.3, 0.0, 0.2])
    v[3:6] = twist[3:]
    # rounding
    np.testing.assert_allclose(contacts.jacobian @ v, 0.0, atol=1e-14)


def test_unusable_fingertips_are_refused(system):
    with pytest.raises(InputError, match="4 fingertips need 4 radii"):
        tips(system, radii=[0.01, 0.01])
    with pytest.raises(UnknownName, match="TIP"):
        Fingertips(system, ["TIP"], 0.01, "box", coal.Box(SIDE, SIDE, SIDE), 0.7)
