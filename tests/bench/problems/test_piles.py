"""Random piles of bodies: contacts, inertias, contact rows and drift belong to rigid bodies that touch."""

import numpy as np
import pinocchio as pin
import pytest

from idcontrol.bench.problems import piles
from idcontrol.bench.problems.piles import WORLD, random_pile


@pytest.fixture
def pile():
    return random_pile(np.random.default_rng(0), 4, 12, 3)


def test_no_contact_of_a_pile_opens_and_only_chosen_contacts_slide(pile):
    passing = (pile.contacts.jacobian @ pile.v - pile.contacts.surface_velocity).reshape(3, -1)
    # velocities are about 1 m/s
    np.testing.assert_allclose(passing[0], 0.0, atol=1e-12)
    assert (np.hypot(*passing[1:]) > 0.05).sum() == 3
    assert (np.hypot(*passing[1:]) < 1e-12).sum() == 9
    slide = np.hypot(*passing[1:]) > 0.05
    assert (pile.pairs[slide, 1] == WORLD).all()


def test_every_body_of_a_pile_is_touched_and_its_inertia_is_one(pile):
    assert set(range(4)) <= set(pile.pairs[:, 0])
    for body in range(4):
        block = pile.M[6 * body : 6 * body + 6, 6 * body : 6 * body + 6]
        x, y, z = np.linalg.eigvalsh(block[3:, 3:])
        assert 0.0 < z < x + y
    np.testing.assert_array_equal(pile.M, pile.M.T)


def moved(pile, v, t):
    """Return point and axes of each contact after the bodies have moved for the time t with constant velocities."""
    n = len(pile.contacts)
    turn = [pin.exp3(t * v[6 * b + 3 : 6 * b + 6]) for b in range(pile.position.shape[0])]
    position = pile.position + t * v.reshape(-1, 6)[:, :3]
    point, axes = np.empty((n, 3)), np.empty((n, 3, 3))
    for i, (a, b) in enumerate(pile.pairs):
        axes[i] = pile.contacts.axes[i] if b == WORLD else pile.contacts.axes[i] @ turn[b].T
        arm = pile.contacts.point[i] + pile.radius[i] * pile.contacts.axes[i, 0] - pile.position[a]
        point[i] = position[a] + turn[a] @ arm - pile.radius[i] * axes[i, 0]
    return point, axes, position


def test_drift_is_how_the_rows_change_along_the_motion(pile):
    """Central differences, also at a velocity that contacts would not allow, so that every term counts."""
    rng = np.random.default_rng(1)
    for v in (pile.v, rng.normal(size=24)):
        ahead, behind = (piles.rows(pile.pairs, *moved(pile, v, t)) @ v for t in (1e-5, -1e-5))
        drift = piles.drift(pile.pairs, pile.contacts.point, pile.contacts.axes, pile.radius, pile.position, v)
        # second-order differences over 2e-5 s of accelerations of about 10 m/s²
        np.testing.assert_allclose(drift, (ahead - behind) / 2e-5, atol=1e-7)


def test_the_rows_of_a_pile_are_velocities_of_material_points(pile):
    v = np.random.default_rng(2).normal(size=24)
    for i, (a, b) in enumerate(pile.pairs):
        point = pile.contacts.point[i]
        passing = np.zeros(3)
        for body, sign in ((a, 1.0), (b, -1.0)):
            if body != WORLD:
                linear, angular = v[6 * body : 6 * body + 3], v[6 * body + 3 : 6 * body + 6]
                passing += sign * (linear + np.cross(angular, point - pile.position[body]))
        np.testing.assert_allclose(pile.contacts.jacobian[i::12] @ v, pile.contacts.axes[i] @ passing, atol=1e-12)
