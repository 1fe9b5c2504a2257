"""Random step problems, and certificates that they have no solution."""

import numpy as np
import pytest

from idcontrol.bench.problems.lcps import excluded
from idcontrol.bench.problems.steps import WORST_CONDITION, random_step

KINDS = [(feet, inverse) for feet in (False, True) for inverse in (False, True)]


@pytest.mark.parametrize(("feet", "inverse"), KINDS)
def test_random_steps_have_the_documented_properties(feet, inverse):
    rng = np.random.default_rng(0)
    conditions = []
    for contacts in (1, 2, 5, 16, 64):
        problem = random_step(rng, feet=feet, inverse=inverse, contacts=contacts)
        n = len(problem.contacts)
        assert 1 <= n <= contacts
        assert n == contacts or (inverse and not feet)
        assert (problem.prescribed is not None) == inverse
        assert problem.contacts.gap.min() >= 0.0
        assert 0.0 <= problem.contacts.mu.min() <= problem.contacts.mu.max() <= 1.5
        np.testing.assert_allclose(problem.M, problem.M.T, atol=1e-12)
        conditions.append(np.linalg.cond(problem.M))
        if inverse:  # every contact can move a free body
            free = np.setdiff1d(np.arange(problem.M.shape[0]), problem.prescribed.index)
            assert np.abs(problem.contacts.jacobian[:, free]).max(axis=1).min() > 0.0
    assert max(conditions) <= WORST_CONDITION


def test_certificates_exist_exactly_where_no_velocity_is_allowed():
    squeeze = np.array([[1.0, 0.0], [-1.0, 0.0]])
    assert excluded(squeeze, np.array([-1.0, 0.5])) is True
    assert excluded(squeeze, np.array([-1.0, 1.5])) is False
    assert excluded(np.eye(2), np.array([-1.0, -1.0])) is False
    assert excluded(np.zeros((1, 2)), np.array([-1.0])) is True
