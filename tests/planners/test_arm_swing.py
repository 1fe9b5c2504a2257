"""The swing is the original's, and its velocity and acceleration are the derivatives of its position."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.planners.hands import SWING


def test_the_swing_begins_at_rest_at_home_and_has_the_originals_form():
    begin = SWING.at(0.0)
    np.testing.assert_allclose(begin.q[:7], np.pi / 2, atol=1e-15)
    np.testing.assert_allclose(begin.q[7:], np.pi / 4 - 0.01, atol=1e-15)
    assert not begin.v.any()
    np.testing.assert_allclose(begin.a, [-10.0] * 7 + [0.0] * 4, atol=1e-14)
    # Zapolsky & Drumwright 2017: q = π/2 + 0.1 cos 10t - 0.1
    np.testing.assert_allclose(SWING.at(0.7).q[:7], np.pi / 2 + 0.1 * np.cos(7.0) - 0.1, atol=1e-15)
    assert begin.stance.tolist() == [True] * 4


@settings(deadline=None, max_examples=25)
@given(st.floats(0.0, 3.0))
def test_velocity_and_acceleration_are_the_derivatives_of_position(t):
    h = 1e-4
    before, now, after = SWING.at(t - h), SWING.at(t), SWING.at(t + h)
    # central differences are off by h²/6 times the third and fourth derivative, 100 rad/s³ and 1000 rad/s⁴
    np.testing.assert_allclose((after.q - before.q) / (2 * h), now.v, atol=1e-6)
    np.testing.assert_allclose((after.v - before.v) / (2 * h), now.a, atol=1e-5)
