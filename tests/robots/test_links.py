"""The paper's quadruped has the masses, geometry and oddities of the model in the paper's simulation.

Expected numbers: PositronicsLab/Pacer @ a1393ab, example/models/links/model.sdf, evaluated by hand and independently.
"""

import functools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from idcontrol import robots

LINKS = robots.load("links")
SIDES = {"LF": (1, 1), "RF": (1, -1), "LH": (-1, 1), "RH": (-1, -1)}


@functools.cache
def system():
    return LINKS.system()  # compiles kernels, which no worker of the tests should do as it collects


@pytest.fixture(scope="module")
def home():
    return LINKS.standing_state(system())


def test_feet_and_centre_of_mass_at_home_match_the_paper(home):
    centres = robots.foot_centres(LINKS, system(), home.q) - home.q[:3]
    expected = [[0.178055987 * x, 0.0762394378 * y, -0.161852703] for x, y in SIDES.values()]
    # the reference is printed with nine digits
    np.testing.assert_allclose(centres, expected, atol=1e-9)
    np.testing.assert_allclose(system().com(home.q) - home.q[:3], [0, 0, -0.0126919651], atol=1e-10)
    assert home.q[2] == pytest.approx(0.171852703, abs=1e-9)


def test_at_home_its_joint_inertia_has_the_trace_of_the_original(home):
    system().update(home.q, home.v)
    # the reference is printed with nine decimals
    assert np.trace(system().M[6:, 6:]) == pytest.approx(0.018037143, abs=1e-9)


@given(st.lists(st.floats(-3, 3), min_size=3, max_size=3))
@settings(max_examples=50, deadline=None)
def test_each_foot_follows_the_closed_form_of_a_mirrored_leg(angles):
    """A stretched leg: hip axis along x, then two parallel axes across, links of 0.1 m; mirrored by the axes' signs."""
    x1, y2, y3 = angles
    for name, centre in zip(SIDES, foot_centres(SIDES, (x1, y2, y3)), strict=True):
        sx, sy = SIDES[name]
        # About x by sx * x1, then about y by sy * y2 and sy * y3, on links along sx: all signs in two products.
        drop = sx * sy * (0.1 * np.sin(y2) + 0.1 * np.sin(y2 + y3))
        reach = sx * (0.15 + 0.1 * np.cos(y2) + 0.1 * np.cos(y2 + y3))
        expected = [reach, 0.06 * sy + drop * np.sin(sx * x1), -drop * np.cos(sx * x1)]
        # three rotations of links below 0.3 m in doubles
        np.testing.assert_allclose(centre, expected, atol=1e-14)


def foot_centres(sides, angles):
    values = dict(zip(("X_1", "Y_2", "Y_3"), angles, strict=True))
    joints = np.array([values[name[3:]] for name in system().actuated_names])
    return robots.foot_centres(LINKS, system(), system().configuration(joints))


def test_an_impossible_inertia_is_only_a_warning():
    report = robots.check("links")
    assert report.fit
    (message,) = report.warnings
    assert message.split(": ")[2] == "links " + ", ".join(f"{side}_LEG_2" for side in SIDES)
    assert "no mass distribution has the principal moments" in message
    assert "kept as it is: the paper's figures were made with it" in message
