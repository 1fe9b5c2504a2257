"""The robots with hands: the paper's arm equals the model of its simulation, the panda that of its maker.

Expected numbers of the arm: PositronicsLab/Pacer @ 4fd43d2, Example/Model/Arm/model.sdf, evaluated independently.
"""

import functools

import numpy as np
import pytest

from idcontrol import robots

ARM = robots.load("arm")


@functools.cache
def system():
    return ARM.system()  # compiles kernels, which no worker of the tests should do as it collects


@pytest.fixture(scope="module")
def home():
    return ARM.standing_state(system())


@pytest.mark.parametrize(("name", "mass"), [("arm", 1.1), ("panda", 16.82)])
def test_an_arm_is_fit_to_run_and_has_its_published_mass(name, mass):
    report = robots.check(name)
    assert report.fit
    assert report.summary["base"] == "fixed"
    # to 10 g
    assert report.summary["mass_kg"] == pytest.approx(mass, abs=5e-3)


def test_at_home_the_arms_fingertips_are_as_far_apart_as_the_papers_box_is_wide(home):
    tips = robots.foot_centres(ARM, system(), home.q)
    # the reference is printed with six digits
    np.testing.assert_allclose(tips[:, 0], 0.285355, atol=1e-6)
    np.testing.assert_allclose(tips[:, 1], [0.035355, 0.035355, -0.035355, -0.035355], atol=1e-6)
    np.testing.assert_allclose(tips[:, 2], [0.18, 0.22, 0.18, 0.22], atol=1e-12)


def test_the_arms_inverse_dynamics_without_contact_is_the_originals(home):
    """The first tick: all joints are to accelerate with -10 rad/s² from rest."""
    system().update(home.q, home.v)
    tau = system().M @ np.full(11, -10.0) + system().bias
    recorded = [0.003014, -0.088712, -1.018538, -0.110723, -0.797285, -0.039064, -0.033116]
    recorded += [-0.007100, -0.001443, 0.008499, 0.002843]
    # printed with six decimals, from an initial pose of 1.5708 rad: 4e-6 rad off ours, times 10 N m/rad at most
    np.testing.assert_allclose(tau, recorded, atol=1e-5)


def test_the_pandas_pads_touch_where_its_fingers_are_closed():
    panda = robots.load("panda")
    system = panda.system()
    angles = panda.home_joints(system.actuated_names)
    angles[7:] = 0.0
    left, right = np.split(robots.foot_centres(panda, system, system.configuration(angles)), 2)
    # the distance of the spheres' centres is the sum of their radii
    np.testing.assert_allclose(np.linalg.norm(left - right, axis=1), 0.004, atol=1e-9)
