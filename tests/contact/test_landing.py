"""The reference contact velocity of controllers."""

import dataclasses

import numpy as np
import pytest

from idcontrol.contact.contacts import Contacts
from idcontrol.contact.landing import Landing, landing_contacts
from idcontrol.errors import InputError
from idcontrol.types import Array
from tests.scenes import by_hand

from .machines import random_axes

H = 1e-3
BELT = Landing(decay_s=0.005, closing_s=0.01)


def feet(n: int = 4, m: int = 9, seed: int = 0, *, surface: bool = False) -> tuple[Contacts, Array]:
    rng = np.random.default_rng(seed)
    contacts = Contacts(
        identity=np.arange(n),
        point=rng.normal(size=(n, 3)),
        axes=random_axes(n, rng),
        gap=rng.normal(scale=2e-4, size=n),
        mu=rng.uniform(size=n),
        jacobian=rng.normal(size=(3 * n, m)),
        surface_velocity=rng.normal(size=3 * n) if surface else np.zeros(3 * n),
    )
    return contacts, rng.normal(scale=0.05, size=m)


def test_the_landing_velocity_equals_the_planners_formula() -> None:
    contacts, v = feet()
    out = landing_contacts(contacts, v, H, BELT)
    gamma = 1.0 - H / 0.005
    expected = gamma * contacts.jacobian @ v
    expected[:4] += (1.0 - gamma) * np.clip(-contacts.gap / 0.01, -0.05, 0.02)
    assert out.surface_velocity == pytest.approx(expected, abs=1e-16)
    assert not out.gap.any()
    for name in ("identity", "point", "axes", "mu", "jacobian", "stiffness", "damping"):
        assert getattr(out, name) is getattr(contacts, name)


def test_a_foot_that_follows_stops_on_the_ground_within_milliseconds() -> None:
    """J = I: the foot has the velocity v̂. It lands at 0.1 m/s, 0.1 mm early, slipping at 0.2 m/s."""
    state, gap = np.array([-0.1, 0.2, 0.0]), 1e-4
    for _ in range(100):
        contact = by_hand(np.eye(3), 1.0, gap)
        state = landing_contacts(contact, state, H, BELT).surface_velocity
        gap += H * state[0]
        assert abs(gap) < 5e-4  # 0.1 m/s decaying with 5 ms goes 0.5 mm at most
    # φ'' + φ'/τ_c + φ/(τ_c τ_g) = 0 has the roots (-100 ± 100i)/s: 0.5 mm becomes 2e-8 m in 100 ms
    assert abs(gap) < 1e-7
    assert np.abs(state).max() < 1e-5


def test_the_closing_speed_is_bounded_on_both_sides() -> None:
    contacts, v = feet()
    for gap, speed in ((1.0, -0.05), (-1.0, 0.02)):
        far = dataclasses.replace(contacts, gap=np.full(4, gap))
        out = landing_contacts(far, 0.0 * v, H, BELT)
        assert out.surface_velocity[:4] == pytest.approx(np.full(4, 0.2 * speed), rel=1e-12)


def test_on_a_conveyor_velocities_are_relative_to_it() -> None:
    contacts, v = feet(surface=True)
    still = dataclasses.replace(
        contacts, surface_velocity=np.zeros(12), jacobian=np.c_[contacts.jacobian, -contacts.surface_velocity]
    )
    moving = landing_contacts(contacts, v, H, Landing()).surface_velocity - contacts.surface_velocity
    assert moving == pytest.approx(landing_contacts(still, np.r_[v, 1.0], H, Landing()).surface_velocity, abs=1e-15)


def test_a_settled_foot_rests_at_once_unless_it_slips() -> None:
    contacts, v = feet()
    contacts = dataclasses.replace(contacts, gap=np.zeros(4))
    w = (contacts.jacobian @ v).reshape(3, 4)
    slip = np.sort(np.linalg.norm(w[1:], axis=0))
    landing = Landing(decay_s=0.005, settle_s=0.025, slip_m_s=0.5 * (slip[1] + slip[2]))
    slips = np.linalg.norm(w[1:], axis=0) > landing.slip_m_s
    since = np.array([0.02, 0.03, np.inf, np.inf])
    out = landing_contacts(contacts, v, H, landing, since_touchdown=since).surface_velocity.reshape(3, 4)
    moving = slips | (since <= 0.025)
    assert 0 < moving.sum() < 4
    assert not out[:, ~moving].any()
    assert out[:, moving] == pytest.approx(0.8 * w[:, moving], abs=1e-16)


def test_without_a_settling_time_no_foot_ever_settles() -> None:
    contacts, v = feet()
    old = landing_contacts(contacts, v, H, BELT, since_touchdown=np.full(4, np.inf))
    assert np.array_equal(old.surface_velocity, landing_contacts(contacts, v, H, BELT).surface_velocity)


@pytest.mark.parametrize(("name", "value"), [("decay_s", 0.0), ("closing_s", np.nan), ("slip_m_s", -1.0)])
def test_impossible_parameters_are_refused(name: str, value: float) -> None:
    with pytest.raises(InputError, match=rf"landing\.{name} is"):
        Landing(**{name: value})
