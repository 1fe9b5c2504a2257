"""The swing is the original's, and its velocity and acceleration are the derivatives of its position."""

import numpy as np

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
