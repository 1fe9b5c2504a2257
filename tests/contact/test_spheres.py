"""Foot spheres on ground: gap, rows, identity, slip."""

import numpy as np
import pinocchio as pin
import pytest

from idcontrol.contact.spheres import SphereContacts
from idcontrol.contact.terrain import Terrain, height_map, plane
from idcontrol.dynamics.system import System
from idcontrol.errors import InputError, UnknownName
from idcontrol.types import Array

from .machines import LEGS, quadruped, random_state
from .test_terrain import SPACING, hills

FEET = tuple(f"{leg}_FOOT" for leg in LEGS)
OFFSETS = np.array([[0.01, 0.0, -0.02], [0.0, 0.01, 0.0], [0.0, 0.0, 0.0], [-0.01, 0.02, 0.01]])
RADII = np.array([0.01, 0.02, 0.015, 0.0])


@pytest.fixture(scope="module")
def system() -> System:
    return quadruped()


@pytest.fixture(params=["level", "inclined", "hills"])
def ground(request: pytest.FixtureRequest) -> Terrain:
    return {
        "level": plane(),
        "inclined": plane((0.2, -0.3, 1.0), offset=-0.1),
        "hills": height_map(hills(4, (60, 60)), SPACING),
    }[request.param]


def close_to_ground(system: System, rng: np.random.Generator) -> tuple[Array, Array]:
    """A state that has the feet within centimetres of the origin's height."""
    q = np.array(pin.neutral(system.model))
    q[2] = 0.45
    return np.array(pin.integrate(system.model, q, rng.uniform(-0.15, 0.15, system.n_velocities))), rng.uniform(
        -1.0, 1.0, system.n_velocities
    )


def test_gap_and_point_of_a_sphere_on_level_ground(system: System) -> None:
    rng = np.random.default_rng(0)
    detector = SphereContacts(system, FEET, RADII, plane(offset=0.05), 0.5, offsets=OFFSETS)
    system.update(*random_state(system, rng))
    detector.detect(0.0)
    for i, name in enumerate(FEET):
        centre = system.data.oMf[system.frame(name)].act(OFFSETS[i])
        assert detector.centre[i] == pytest.approx(centre, abs=1e-15)
        assert detector.gap[i] == pytest.approx(centre[2] - 0.05 - RADII[i], abs=1e-15)
        assert detector.point[i] == pytest.approx(centre - [0.0, 0.0, RADII[i]], abs=1e-15)
        assert np.array_equal(detector.axes[i], [[0, 0, 1], [1, 0, 0], [0, 1, 0]])


def test_normal_rows_give_the_rate_of_the_gap(system: System, ground: Terrain) -> None:
    """Central differences along `integrate`, on the height map through its nearest point too."""
    rng = np.random.default_rng(1)
    detector = SphereContacts(system, FEET, RADII, ground, 0.5, offsets=OFFSETS)
    step = 1e-5
    for _ in range(5):
        q, v = close_to_ground(system, rng)
        system.update(q, v)
        rate = detector.detect(np.inf).N @ system.from_pinocchio(v)
        gaps = []
        for sign in (1.0, -1.0):
            system.update(np.array(pin.integrate(system.model, q, sign * step * v)), v)
            detector.detect(-np.inf)
            gaps.append(detector.gap.copy())
        # rounding 1e-16 over 2e-5 s; next order 1e-10 s² times a jerk of a few m/s³
        assert np.abs(rate - (gaps[0] - gaps[1]) / (2 * step)).max() < 3e-9


@pytest.mark.parametrize("ground", [plane(), plane((0.2, -0.3, 1.0), offset=-0.1)])
def test_drift_is_the_rate_of_the_velocity_along_the_rows(system: System, ground: Terrain) -> None:
    """J̇v by central differences along `System.advance`, where the rows' axes stay as they are: on flat ground."""
    rng = np.random.default_rng(4)
    detector = SphereContacts(system, FEET, RADII, ground, 0.5, offsets=OFFSETS)
    step = 1e-5

    def along(q: Array, v: Array) -> Array:
        system.update(q, v)
        along_rows: Array = detector.detect(np.inf).jacobian @ system.from_pinocchio(v)
        return along_rows

    for _ in range(5):
        q, v = close_to_ground(system, rng)
        ours = system.from_pinocchio(v)
        rate = (along(*system.advance(q, ours, step)) - along(*system.advance(q, ours, -step))) / (2 * step)
        system.update(q, v)
        drift = detector.detect(np.inf).drift
        assert np.abs(drift).max() > 0.1
        # rounding 1e-16 over 2e-5 s; next order 1e-10 s² times the third derivative, some 10 m/s⁴
        assert np.abs(drift - rate).max() < 1e-8


def test_the_tangential_rows_belong_to_the_touching_point_not_to_the_centre(system: System) -> None:
    """A body that rolls about its contact point does not slip, though the centre moves."""
    q, rng = np.array(pin.neutral(system.model)), np.random.default_rng(2)
    detector = SphereContacts(system, ["box"], 0.1, plane(), 0.5)
    system.update(q, np.zeros(system.n_velocities))
    omega = rng.normal(size=3)
    omega[2] = 0.0
    v = np.zeros(system.n_velocities)
    v[-6:-3], v[-3:] = np.cross(omega, [0.0, 0.0, 0.1]), omega
    contacts = detector.detect(1.0)
    assert np.linalg.norm(v[-6:-3]) > 0.01
    assert np.abs(contacts.jacobian @ system.from_pinocchio(v)).max() < 1e-16
    assert detector.slip(system.from_pinocchio(v))[0] < 1e-16


def test_only_candidate_spheres_are_listed_with_number_and_friction(system: System, ground: Terrain) -> None:
    rng = np.random.default_rng(5)
    mu = np.array([0.1, 0.2, np.inf, 0.0])
    detector = SphereContacts(system, FEET, RADII, ground, mu, offsets=OFFSETS)
    counts = set()
    for _ in range(30):
        system.update(*close_to_ground(system, rng))
        everything = detector.detect(np.inf).take(np.arange(4))
        margin = rng.choice([*everything.gap, np.inf])  # at one of the gaps: this gap is not below the margin
        close = detector.detect(margin)
        expected = np.flatnonzero(everything.gap < margin)
        counts.add(len(close))
        assert np.array_equal(close.identity, expected)
        assert np.array_equal(close.mu, mu[expected])
        kept = everything.take(expected)
        for name in ("point", "axes", "gap", "jacobian"):
            assert np.array_equal(getattr(close, name), getattr(kept, name))
    assert counts == {0, 1, 2, 3, 4}


def test_friction_may_change_between_calls(system: System) -> None:
    detector = SphereContacts(system, FEET, 0.01, plane(), 0.5)
    detector.mu[2] = 0.9
    assert np.array_equal(detector.detect(np.inf).mu, [0.5, 0.5, 0.9, 0.5])
    detector.mu = [0.1, 0.2, 0.3, np.inf]
    assert np.array_equal(detector.detect(np.inf).mu, [0.1, 0.2, 0.3, np.inf])
    detector.mu = 0.4
    assert np.array_equal(detector.detect(np.inf).mu, np.full(4, 0.4))
    for wrong in (-1.0, np.nan, [0.1, 0.2], True, "ice"):
        with pytest.raises(InputError, match="friction coefficient"):
            detector.mu = wrong
    assert np.array_equal(detector.detect(np.inf).mu, np.full(4, 0.4))


def test_a_nan_in_the_state_stays_visible(system: System, ground: Terrain) -> None:
    q, v = random_state(system, np.random.default_rng(6))
    q[2] = np.nan
    system.update(q, v)
    assert np.isnan(SphereContacts(system, FEET, 0.01, ground, 0.5).detect(0.0).gap).all()


def test_impossible_spheres_are_refused(system: System) -> None:
    with pytest.raises(UnknownName, match="no frame 'LF_FOT'; did you mean 'LF_FOOT'"):
        SphereContacts(system, ["LF_FOT"], 0.01, plane(), 0.5)
    with pytest.raises(InputError, match=r"friction coefficient of the sphere on 'LF_FOOT' is -1\.0"):
        SphereContacts(system, FEET, 0.01, plane(), -1.0)
    with pytest.raises(InputError, match="friction coefficient of the sphere on 'RF_FOOT' is nan"):
        SphereContacts(system, FEET, 0.01, plane(), [0.1, np.nan, 0.1, 0.1])
    with pytest.raises(InputError, match="radius of the sphere on 'LF_FOOT'"):
        SphereContacts(system, FEET, -0.01, plane(), 0.5)
    with pytest.raises(InputError, match="finite"):
        SphereContacts(system, FEET, np.inf, plane(), 0.5)
    with pytest.raises(InputError, match="one for each of 4 spheres"):
        SphereContacts(system, FEET, [0.01, 0.01], plane(), 0.5)
    with pytest.raises(InputError, match="offsets of 4 spheres"):
        SphereContacts(system, FEET, 0.01, plane(), 0.5, offsets=np.zeros((2, 3)))
    with pytest.raises(InputError, match="fixed to the world"):
        SphereContacts(system, ["universe"], 0.01, plane(), 0.5)
