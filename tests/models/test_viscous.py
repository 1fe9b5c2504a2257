"""Viscous friction in implicit and explicit form; each inverse is a right inverse of its forward form."""

from dataclasses import replace

import numpy as np
import pytest

from idcontrol.bench.judge import unbalanced
from idcontrol.bench.problems.machines import forward_step
from idcontrol.errors import InputError
from idcontrol.models import viscous
from idcontrol.models.step import StepProblem
from tests import scenes
from tests.models import oracles
from tests.models.test_no_slip import moving_problem
from tests.parameters import solved
from tests.scenes import by_hand

FORMS = ["implicit", "explicit"]


def velocity(system, problem):
    """Return the velocity v at the start of a problem that `moving_problem` made in inverse mode."""
    return np.linalg.solve(problem.M, scenes.H * system.bias - problem.kappa)


def solve(form, problem, v):
    return viscous.solve(problem) if form == "implicit" else viscous.solve_explicit(problem, v)


def dragged(problem, damping, rng=None):
    """Return the problem with drag at its contacts, and with moving ground if a generator is passed."""
    n = len(problem.contacts)
    surface = np.zeros(3 * n) if rng is None else 0.1 * rng.normal(size=3 * n)
    contacts = replace(
        problem.contacts, damping=np.broadcast_to(damping, n).astype(float).copy(), surface_velocity=surface
    )
    return replace(problem, contacts=contacts)


def test_the_explicit_inverse_fed_to_the_forward_model_moves_as_it_predicted(quadruped):
    """math.md 8: 1e-13 with μ_v = 50 N s/m; tilted moving ground, feet in the air, large demands."""
    rng = np.random.default_rng(30)
    for _ in range(60):
        problem = dragged(moving_problem(quadruped, rng), rng.uniform(0.0, 50.0, 4), rng)
        v = velocity(quadruped, problem)
        inverse = solved(viscous.solve_explicit(problem, v))
        forward = solved(viscous.solve_explicit(forward_step(quadruped, v, inverse.multipliers, problem.contacts), v))
        # v⁺ is unique: six digits above rounding, as for the other models
        np.testing.assert_allclose(forward.v_plus, inverse.v_plus, rtol=0, atol=1e-10)
        np.testing.assert_allclose(forward.impulses[:, 1:], inverse.impulses[:, 1:], rtol=0, atol=1e-10)


@pytest.mark.parametrize("inverse", [True, False])
@pytest.mark.parametrize("form", FORMS)
def test_momentum_balances_with_the_drag_that_is_reported(quadruped, form, inverse):
    """The drag is -h μ_v times slip, at the end or at the start of the step; zero if the contact is open."""
    rng = np.random.default_rng(31)
    for _ in range(50):
        problem = dragged(moving_problem(quadruped, rng, inverse=inverse), rng.uniform(0.0, 50.0, 4), rng)
        v = np.linalg.solve(problem.M, scenes.H * quadruped.bias - problem.kappa)
        solution = solve(form, problem, v)
        contacts = problem.contacts
        assert np.abs(unbalanced(problem, solution)).max() < 1e-11
        at = solution.v_plus if form == "implicit" else v
        slip = (contacts.jacobian @ at - contacts.surface_velocity).reshape(3, 4)[1:]
        expected = -scenes.H * np.where(contacts.gap <= 1e-5, contacts.damping, 0.0) * slip
        np.testing.assert_allclose(solution.impulses[:, 1:].T, expected, rtol=0, atol=1e-12)
        normal = contacts.N @ solution.v_plus + oracles.constants(problem)[:4]
        f_n = solution.impulses[:, 0]
        assert min(f_n.min(), normal.min()) > -1e-9
        assert np.abs(f_n * normal).max() < 1e-10


def sliding_block(h, damping, v):
    """A block of 2 kg that slides at v on level ground, one contact, order x, y, z."""
    contacts = by_hand(np.array([[0.0, 0, 1], [1, 0, 0], [0, 1, 0]]), 0.9, damping=damping)
    return StepProblem(h=h, M=2.0 * np.eye(3), kappa=-2.0 * v + h * 2.0 * np.array([0.0, 0.0, 9.81]), contacts=contacts)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("damping", [np.inf, np.nan])
def test_drag_that_is_not_finite_is_refused(form, damping):
    v = np.array([1.0, 0.0, 0.0])
    with pytest.raises(InputError, match="drag must be finite"):
        solve(form, sliding_block(0.01, damping, v), v)


def test_only_the_implicit_form_is_stable_for_every_step():
    """The explicit drag of Drumwright 2015 is stable only for h μ_v S M⁻¹Sᵀ < 2 (math.md 8)."""
    v = np.array([1.0, 0.0, 0.0])
    for ratio, explicit_grows in ((1.9, False), (2.1, True)):
        problem = sliding_block(0.01, ratio * 2.0 / 0.01, v)
        assert (abs(viscous.solve_explicit(problem, v).v_plus[0]) > 1.0) == explicit_grows
        assert 0.0 < viscous.solve(problem).v_plus[0] < 1.0
