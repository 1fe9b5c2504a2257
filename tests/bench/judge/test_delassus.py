"""The judge of Delassus problems: closed forms, and each kind of wrong answer."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from idcontrol.bench.judge.delassus import miss, onto_cones

MU = 0.5
LAWFUL = {
    "sticks": ((-2.0, 0.6, 0.0), (2.0, -0.6, 0.0)),
    "slides": ((-2.0, 3.0, 4.0), (2.0, -0.6, -0.8)),
    "parts": ((1.0, 3.0, 4.0), (0.0, 0.0, 0.0)),
    "grazes": ((0.0, 3.0, 4.0), (0.0, 0.0, 0.0)),
}
"""Velocities without impulses of a contact with inverse mass 1, and its impulses by Coulomb's law."""
WRONG = {
    "pulls": ((1.0, 0.0, 0.0), (-1.0, 0.0, 0.0)),
    "penetrates": ((-2.0, 0.0, 0.0), (1.0, 0.0, 0.0)),
    "presses and parts": ((-2.0, 0.0, 0.0), (3.0, 0.0, 0.0)),
    "friction beyond the cone": ((-2.0, 3.0, 4.0), (2.0, -0.66, -0.88)),
    "too little friction": ((-2.0, 3.0, 4.0), (2.0, -0.54, -0.72)),
    "friction aside": ((-2.0, 3.0, 4.0), (2.0, -0.8, -0.6)),
    "friction along the slip": ((-2.0, 3.0, 4.0), (2.0, 0.6, 0.8)),
    "the diamond's friction": ((-2.0, 3.0, 4.0), (2.0, 0.0, -1.0)),
    "glides at a gap, as convex models do": ((-2.0, 3.0, 4.0), (3.6, -1.08, -1.44)),
    "not finite": ((-2.0, 0.0, 0.0), (np.nan, 0.0, 0.0)),
}


def contact(q):
    return np.eye(3), np.array(q), np.array([MU])


@pytest.mark.parametrize(("q", "r"), LAWFUL.values(), ids=LAWFUL)
def test_the_laws_own_answers_miss_nothing(q, r):
    assert miss(*contact(q), np.array(r)) < 1e-15


@pytest.mark.parametrize(("q", "r"), WRONG.values(), ids=WRONG)
def test_every_kind_of_wrong_answer_is_seen(q, r):
    assert miss(*contact(q), np.array(r)) > 0.01


def test_no_contact_misses_nothing():
    none = np.zeros(0)
    assert miss(np.zeros((0, 0)), none, none, none) == 0.0


@given(st.floats(1e-6, 1e6), st.floats(1e-6, 1e6))
def test_the_miss_has_no_unit(mass, speed):
    """Impulses scale with mass and speed, and so does their error."""
    q, r = np.array([-2.0, 3.0, 4.0]), np.array([2.0, -0.6, -0.7])
    scaled = miss(np.eye(3) / mass, speed * q, np.array([MU]), mass * speed * r)
    assert scaled == pytest.approx(miss(*contact(q), r), rel=1e-9)


@given(arrays(np.float64, (4, 3), elements=st.floats(-10.0, 10.0)), st.floats(0.0, 3.0))
def test_a_projection_onto_the_cone_leaves_what_its_polar_cone_holds(r, mu):
    """Moreau's decomposition holds for the nearest point only."""
    friction = np.full(4, mu)
    projected = onto_cones(r, friction)
    rest = projected - r  # in the dual cone K*, and orthogonal to the point
    assert (np.linalg.norm(projected[:, 1:], axis=1) <= mu * projected[:, 0] + 1e-12).all()
    assert (mu * np.linalg.norm(rest[:, 1:], axis=1) <= rest[:, 0] + 1e-9).all()
    assert np.abs((projected * rest).sum(axis=1)).max() < 1e-9
