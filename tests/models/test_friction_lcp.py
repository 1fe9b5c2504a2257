"""The parts of the friction LCP: its matrix, its factors, its points, and its judge on one point mass."""

import numpy as np
import pytest

from idcontrol.kernels.arena import HEAP
from idcontrol.models import friction_lcp
from idcontrol.models.friction_lcp import Unbalanced
from idcontrol.solvers.status import TOLERANCE

MASS = 2.0


def point(c, *, mu=0.5, compliance=0.0, roundoff=0.0):
    """Return a point mass on one contact, whose rows have the velocities c without impulses."""
    frictional = np.array([0] if 0.0 < mu < np.inf else [], dtype=np.int64)
    soft = np.array([compliance, compliance, compliance])
    return Unbalanced(np.eye(3) / np.sqrt(MASS), np.array(c), np.full(3, roundoff), soft, np.array([mu]), frictional)


RIGHT = [
    ((1.0, 0.3, 0.0), (0.0, 0.0, 0.0), "it parts"),
    ((-1.0, 0.0, 0.0), (2.0, 0.0, 0.0), "it is stopped"),
    ((-1.0, 0.3, -0.1), (2.0, -0.6, 0.2), "it sticks"),
    ((-1.0, 0.3, -0.2), (2.0, -0.6, 0.4), "it sticks at its bound"),
    ((-1.0, 5.0, 0.0), (2.0, -1.0, 0.0), "it slides along an axis"),
    ((-1.0, 4.35, -4.15), (2.0, -0.7, 0.3), "it slides on a diagonal, with any share of the axes"),
    ((-1.0, 0.0, -9.0), (2.0, 0.0, 1.0), "it slides along the other axis"),
]


@pytest.mark.parametrize(("c", "f"), [case[:2] for case in RIGHT], ids=[case[2] for case in RIGHT])
def test_impulses_that_obey_the_law_have_no_residual(c, f):
    assert friction_lcp.judged(point(c), np.array(f), HEAP) <= 1e-15


# velocities are relative to |c| + |f| / m, impulses to the largest of the contact, or to m times that velocity
WRONG = [
    ((-1.0, 0.0, 0.0), (1.9, 0.0, 0.0), 0.05 / 1.95, "it approaches"),
    ((-1.0, 0.0, 0.0), (2.2, 0.0, 0.0), 0.1 / 2.1, "it is thrown off"),
    ((1.0, 0.3, 0.0), (-0.2, 0.0, 0.0), 0.1 / (MASS * 0.3), "it is pulled"),
    ((-1.0, 1.2, 0.0), (2.0, -1.1, 0.0), 0.1 / (MASS * 1.75), "it slides with more than its bound"),
    ((-1.0, 1.2, 0.0), (2.0, -0.5, 0.0), 0.5 / (MASS * 1.45), "it slides with less than its bound"),
    ((-1.0, 0.05, 0.0), (2.0, -0.2, 0.0), 0.1 / 0.15, "it is turned back"),
    ((-1.0, 1.2, 0.0), (2.0, 1.0, 0.0), 1.0 / (MASS * 1.7), "it is pushed on"),
    ((-1.0, 3.0, -1.0), (2.0, 0.0, 1.0), 1.0 / (MASS * 3.0), "it is braked along the slower axis"),
    ((-1.0, 0.3, 0.0), (2.0, -0.6, np.nan), np.inf, "it is not finite"),
    ((-1.0, np.nan, 0.0), (2.0, 0.0, 0.0), np.inf, "its velocity along one tangent is not finite"),
    ((-1.0, 0.0, np.nan), (2.0, 0.0, 0.0), np.inf, "its velocity along the other is not finite"),
]


@pytest.mark.parametrize(("c", "f", "expected"), [case[:3] for case in WRONG], ids=[case[3] for case in WRONG])
def test_each_violation_has_the_residual_of_its_own_units(c, f, expected):
    assert friction_lcp.judged(point(c), np.array(f), HEAP) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize(("f", "share"), [((2.0, -0.3, 0.0), 0.15), ((2.0, 0.0, 0.3), 0.15), ((0.0, 0.4, 0.4), 1.0)])
def test_friction_of_a_smooth_contact_is_a_violation(f, share):
    problem = point((-1.0 if f[0] else 1.0, 0.3, 0.0), mu=0.0)
    assert friction_lcp.judged(problem, np.array(f), HEAP) == pytest.approx(share)


def test_a_soft_contact_yields_by_its_compliance():
    problem = point((-1.0, 0.3, 0.0), compliance=0.5)
    right = np.array([1.0, -0.3, 0.0])  # c + f / m + f / 2
    assert friction_lcp.judged(problem, right, HEAP) <= 1e-15
    # 0.9 leaves 0.1 m/s of 1 (at rest) + 0.45 (moved) + 0.45 (yielded)
    assert friction_lcp.judged(problem, np.array([0.9, -0.3, 0.0]), HEAP) == pytest.approx(0.1 / 1.9)


def test_impulses_that_cancel_leave_no_digit_to_be_called_solved():
    """Two fingers press on one point with 1e9 N s; the rounding of these impulses exceeds the motion."""
    rho = np.array([[1.0], [-1.0], [0.0], [0.0], [0.0], [0.0]])
    c, zero = np.array([-1e-9, 1e-9, 0.0, 0.0, 0.0, 0.0]), np.zeros(6)
    problem = Unbalanced(rho, c, zero, zero, np.zeros(2), np.zeros(0, dtype=np.int64))
    f = np.array([1e9 + 1e-7, 1e9, 0.0, 0.0, 0.0, 0.0])
    assert friction_lcp.judged(problem, f, HEAP) > 1.0
    assert friction_lcp.judged(problem, np.array([1e-9, 0.0, 0.0, 0.0, 0.0, 0.0]), HEAP) <= TOLERANCE


@pytest.mark.interpreted
def test_refinement_brings_only_sticking_contacts_to_rest_by_the_smallest_change():
    sticking, sliding = point((-1.0, 0.3, -0.1)), point((-1.0, 5.0, 0.0))
    f = np.array([2.001, -0.59, 0.21])
    first = friction_lcp.judged(sticking, f, HEAP)
    last = friction_lcp._refined(sticking, first, f, HEAP)
    assert last == friction_lcp.judged(sticking, f, HEAP) <= TOLERANCE
    np.testing.assert_allclose(f, [2.0, -0.6, 0.2], rtol=1e-8)
    f = np.array([2.001, -1.0005, 0.0])
    friction_lcp._refined(sliding, friction_lcp.judged(sliding, f, HEAP), f, HEAP)
    np.testing.assert_allclose(f, [2.0, -1.0005, 0.0], rtol=1e-9)  # friction at its bound is kept
