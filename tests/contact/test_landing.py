"""The velocity asked of landing feet decays to rest on the ground, from any side, without a jump."""

import numpy as np
import pytest

from idcontrol.contact.landing import Landing, landing_contacts
from idcontrol.errors import InputError
from tests import scenes

H = 1e-3


def one_foot(quadruped, velocity, gap):
    """A closed foot, and a machine velocity (base only) that gives its sphere the wanted velocity."""
    quadruped.update(scenes.home(quadruped), np.zeros(18))
    contacts = scenes.foot_contacts(quadruped, 0.5, feet=(0,), gap=np.array([gap]))
    v = np.zeros(18)
    v[:3] = velocity[1], velocity[2], velocity[0]  # level base; the axes of level ground are z, x, y
    np.testing.assert_allclose(contacts.jacobian @ v, velocity, atol=1e-14)
    return contacts, v


def test_a_moving_foot_is_asked_to_lose_a_fixed_share_of_its_velocity(quadruped):
    landing = Landing(dead_band_m_s=0.0)
    contacts, v = one_foot(quadruped, np.array([-0.1, 0.3, -0.2]), 0.0)
    asked = landing_contacts(contacts, v, H, landing)
    np.testing.assert_allclose(asked.surface_velocity, (1 - H / 5e-3) * np.array([-0.1, 0.3, -0.2]), atol=1e-14)
    assert not asked.gap.any()


def test_a_foot_at_rest_is_asked_to_stay(quadruped):
    contacts, v = one_foot(quadruped, np.zeros(3), 0.0)
    assert not landing_contacts(contacts, v, H, Landing()).surface_velocity.any()


def test_a_hovering_foot_is_pressed_down_and_a_sunken_one_lifted_within_bounds(quadruped):
    for gap, wanted in ((1e-4, -0.01), (1e-2, -0.05), (-1e-4, 0.01), (-1e-2, 0.02)):
        contacts, v = one_foot(quadruped, np.zeros(3), gap)
        asked = landing_contacts(contacts, v, H, Landing())
        # (1 - γ) = 1/5 of the closing speed in each step
        np.testing.assert_allclose(asked.surface_velocity, [0.2 * wanted, 0.0, 0.0], atol=1e-14)


def test_speeds_within_the_dead_band_count_as_rest_and_nothing_jumps_at_its_edge(quadruped):
    speeds = np.linspace(-0.01, 0.01, 201)
    asked = []
    for speed in speeds:
        contacts, v = one_foot(quadruped, np.array([0.0, speed, 0.0]), 0.0)
        asked.append(landing_contacts(contacts, v, H, Landing(dead_band_m_s=2e-3)).surface_velocity[1])
    asked = np.array(asked)
    assert not asked[np.abs(speeds) < 1.99e-3].any()
    # continuous with slope at most γ
    assert np.abs(np.diff(asked)).max() <= 0.8 * np.diff(speeds).max() + 1e-12


def test_nothing_but_sense_is_accepted():
    with pytest.raises(InputError, match="decay_s"):
        Landing(decay_s=0.0)
    with pytest.raises(InputError, match="sink_m_s"):
        Landing(sink_m_s=-1.0)
