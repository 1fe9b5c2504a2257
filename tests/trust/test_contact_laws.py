"""The contact laws and the random problems that they are checked on: a law notices what is disturbed."""

from __future__ import annotations

import numpy as np
import pytest

from idcontrol.models import coulomb, coulomb_cone, dissipation, no_slip, viscous
from idcontrol.trust import contact_laws
from idcontrol.trust.contact_lcps import excluded
from idcontrol.trust.random_steps import WORST_CONDITION, numbered_step, random_step
from idcontrol.types import Status
from tests.models import oracles

KINDS = [(feet, inverse) for feet in (False, True) for inverse in (False, True)]
LAWS = {
    "coulomb": (coulomb.solve, contact_laws.coulomb),
    "coulomb, cone": (coulomb_cone.solve, contact_laws.coulomb_cone),
    "dissipation": (dissipation.solve, contact_laws.dissipation),
    "viscous": (viscous.solve, contact_laws.viscous),
    "no slip": (no_slip.solve, contact_laws.no_slip),
}


@pytest.mark.parametrize(("feet", "inverse"), KINDS)
def test_random_steps_are_what_they_are_said_to_be(feet, inverse):
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
        if inverse:  # every contact can move what is free
            free = np.setdiff1d(np.arange(problem.M.shape[0]), problem.prescribed.index)
            assert np.abs(problem.contacts.jacobian[:, free]).max(axis=1).min() > 0.0
    assert max(conditions) <= WORST_CONDITION


def test_condition_numbers_reach_1e8():
    rng = np.random.default_rng(1)
    conditions = [np.linalg.cond(random_step(rng, feet=True, inverse=False, contacts=4).M) for _ in range(100)]
    assert max(conditions) > 1e7
    assert min(conditions) < 1e3


@pytest.mark.parametrize("name", LAWS)
@pytest.mark.parametrize(("feet", "inverse"), KINDS)
def test_what_a_model_solves_obeys_its_law_and_nothing_else_does(name, feet, inverse):
    """A law that accepts disturbed impulses would notice nothing."""
    rng = np.random.default_rng(2)
    solve, law = LAWS[name]
    checked = 0
    for contacts in (1, 2, 3, 4, 6, 9) * 2:
        problem = random_step(rng, feet=feet, inverse=inverse, contacts=contacts)
        solution = solve(problem)
        if solution.status is not Status.SOLVED or not solution.impulses.any():
            continue
        checked += 1
        assert law(problem, solution.impulses) <= 1e-8
        if name != "no slip":  # which may hold a contact that would part by itself, if it then presses
            assert law(problem, np.zeros_like(solution.impulses)) > 1e-6
        assert law(problem, 1.01 * solution.impulses) > 1e-6
        assert law(problem, solution.impulses + 1e-3 * np.abs(solution.impulses).max()) > 1e-6
    assert checked >= 5


def test_the_motion_of_the_laws_is_the_general_form_of_the_balance():
    rng = np.random.default_rng(3)
    for feet, inverse in KINDS:
        problem = random_step(rng, feet=feet, inverse=inverse, contacts=5)
        solution = dissipation.solve(problem)
        m = contact_laws.motion(problem, solution.impulses)
        expected = problem.contacts.jacobian @ solution.v_plus + oracles.constants(problem)
        np.testing.assert_allclose(m.unit * m.velocities.ravel(), expected, atol=1e-9 * m.unit)


@pytest.mark.parametrize("solve", [no_slip.solve, dissipation.no_slip_qp])
def test_a_contact_that_opens_by_a_quarter_of_a_millimetre_per_second_may_slip(solve):
    """However fast it would be without impulses; here 291 m/s."""
    problem = numbered_step(29180)
    solution = solve(problem, None)
    assert solution.status is Status.SOLVED
    assert contact_laws.slip(problem, solution.impulses) <= contact_laws.SLIP_SPEED
    # and one that presses may not: without its friction it slips
    impulses = solution.impulses * [1.0, 0.0, 0.0]
    assert contact_laws.slip(problem, impulses) > 1e-3


def test_certificates_are_found_exactly_where_no_velocity_is_allowed():
    squeeze = np.array([[1.0, 0.0], [-1.0, 0.0]])
    assert excluded(squeeze, np.array([-1.0, 0.5])) is True
    assert excluded(squeeze, np.array([-1.0, 1.5])) is False
    assert excluded(np.eye(2), np.array([-1.0, -1.0])) is False
    assert excluded(np.zeros((1, 2)), np.array([-1.0])) is True
