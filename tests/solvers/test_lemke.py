"""Lemke's method against enumeration of bases, on contact problems and on problems without a solution."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from idcontrol.bench.problems import lcps as contact_lcps
from idcontrol.bench.problems.steps import random_step
from idcontrol.errors import InputError
from idcontrol.models.whitened import whiten
from idcontrol.solvers.lemke import _Dictionary, _ratio_test, proves_infeasible, solve_lemke, solve_regularized
from idcontrol.solvers.status import SolverStatus
from tests.parameters import solved
from tests.solvers.oracles import all_lcp_bases, body_velocity, coulomb_lcp, standing_feet


def assert_complementary(Q, r, result):
    """Check that no sign is wrong and z ⊥ w, in the units of Q and r.

    The final basis is solved again, so the residual is its rounding: 1e-11 if masses differ by thousands. The solver
    guarantees 1e-8 (math.md, section 13.3).
    """
    w = Q @ result.z + r
    assert result.z.min(initial=0.0) >= 0.0
    assert w.min(initial=0.0) >= -1e-10 * np.abs(r).max(initial=0.0)
    assert np.abs(result.z * w).max(initial=0.0) <= 1e-10 * np.abs(result.z).max(initial=0.0) * np.abs(r).max(
        initial=0.0
    )
    np.testing.assert_allclose(result.w, w, atol=1e-12 * np.abs(Q).max() * np.abs(result.z).max() + 1e-14)


@given(seed=st.integers(0, 2**32 - 1), n=st.integers(1, 7))
@settings(max_examples=60, deadline=None)
def test_a_positive_definite_problem_has_the_solution_that_enumeration_finds(seed, n):
    rng = np.random.default_rng(seed)
    G = rng.normal(size=(n, n))
    Q, r = G @ G.T + 0.1 * np.eye(n), rng.normal(size=n)
    result = solved(solve_lemke(Q, r))
    (only,) = all_lcp_bases(Q, r)[:1]
    # cond(Q) is below 1e4 here: twelve digits of sixteen are correct, and one is for n sums
    np.testing.assert_allclose(result.z, only, atol=1e-11 * (1.0 + np.abs(only).max()))


@given(seed=st.integers(0, 2**32 - 1), n=st.integers(2, 7))
@settings(max_examples=60, deadline=None)
def test_a_semidefinite_problem_is_solved_or_its_ray_is_a_proof(seed, n):
    rng = np.random.default_rng(seed)
    rho = rng.integers(-2, 3, size=(n, max(1, n // 2))).astype(float)  # integer rows: many exact ties and repetitions
    Q, r = rho @ rho.T, rng.integers(-2, 2, size=n).astype(float)
    result = solve_lemke(Q, r)
    if result.status is SolverStatus.SOLVED:
        assert_complementary(Q, r, result)
    else:
        assert result.status is SolverStatus.RAY
        assert result.ray is not None
        assert proves_infeasible(Q, r, result.ray)
        assert all_lcp_bases(Q, r) == []


@pytest.mark.covering
@pytest.mark.parametrize("n", [1, 2, 3, 4])
@pytest.mark.parametrize("mu", [0.1, 0.6, 1.0, 10.0])
@pytest.mark.parametrize("tilt", [0.0, 0.1])
def test_every_coulomb_problem_of_feet_under_a_body_is_solved(n, mu, tilt):
    rng = np.random.default_rng([n, int(10 * mu), int(10 * tilt)])
    for _ in range(20):
        Q, r, scale = coulomb_lcp(*standing_feet(rng, n, tilt), body_velocity(rng), np.full(n, mu))
        result = solved(solve_lemke(Q, r, scale))
        assert_complementary(Q, r, result)
        # math.md, section 5.2 saw at most 1e-12 (3e-11 at μ = 100)
        assert result.residual <= 1e-11


def test_the_solution_depends_neither_on_units_nor_on_the_scale():
    rng = np.random.default_rng(5)
    G = rng.normal(size=(6, 6))
    Q, r = G @ G.T, rng.normal(size=6)
    reference = solve_lemke(Q, r).z
    np.testing.assert_allclose(solve_lemke(Q, r, rng.uniform(0.1, 10.0, 6)).z, reference, atol=1e-9 * reference.max())
    for a, b in [(1e-9, 1e-6), (1e9, 1e-9), (1e-3, 1e6)]:
        np.testing.assert_allclose(solve_lemke(a * Q, b * r).z, b / a * reference, rtol=1e-9)


def test_conflicting_fingers_end_on_a_ray_that_proves_it():
    Q, r = np.array([[1.0, -1.0], [-1.0, 1.0]]), np.array([-0.1, -0.1])
    result = solve_regularized(Q, r)  # regularization must not invent a solution
    assert result.status is SolverStatus.RAY
    assert result.ray is not None
    np.testing.assert_allclose(result.ray, [1.0, 1.0])
    assert proves_infeasible(Q, r, result.ray)
    assert not proves_infeasible(Q, np.array([-0.1, 0.2]), result.ray)


def test_a_problem_with_exponentially_many_pivots_is_solved_or_reported():
    """The triangular family of Murty (1978) with z = (1, 0, ..., 0) takes 2^n pivots."""
    n = 8
    Q, r = np.tril(np.full((n, n), 2.0), -1) + np.eye(n), -np.ones(n)
    result = solved(solve_lemke(Q, r, np.ones(n)))
    assert result.iterations == 2**n
    np.testing.assert_allclose(result.z, np.eye(n)[0], atol=1e-14)
    # too few pivots for that path: another covering vector has a shorter path; then too few for any path
    other = solved(solve_lemke(Q, r, np.ones(n), max_pivots=2**n - 1))
    assert other.iterations > 2**n - 1
    np.testing.assert_allclose(other.z, np.eye(n)[0], atol=1e-14)
    stopped = solve_lemke(Q, r, np.ones(n), max_pivots=1)
    assert (stopped.status, stopped.residual) == (SolverStatus.ITERATIONS, np.inf)


def test_regularization_is_reported_where_it_was_used_and_only_there():
    rng = np.random.default_rng(6)
    G = rng.normal(size=(5, 5))
    assert solve_regularized(G @ G.T, rng.normal(size=5)).regularization == 0.0


@pytest.mark.parametrize("where", ["Q", "r"])
def test_a_nan_is_never_called_solved(where):
    Q, r = np.eye(2), np.array([-1.0, -2.0])
    (Q if where == "Q" else r)[..., 0] = np.nan
    assert solve_regularized(Q, r).status is not SolverStatus.SOLVED


def test_a_non_finite_column_has_no_row_to_pivot_on():
    """Without a comparable ratio there is no row to pivot on."""
    tableau = np.ones((2, 4))
    tableau[:, 0] = -np.inf
    basic, nonbasic, place = np.arange(2), np.array([2, 3, 4]), np.array([-1, -2, 0, 1, 2])
    dictionary = _Dictionary(tableau, basic, nonbasic, place, tied=np.full(2, 7))
    assert _ratio_test(dictionary, 0) == -1


def test_shapes_that_do_not_fit_are_refused():
    with pytest.raises(InputError, match="do not fit"):
        solve_lemke(np.eye(3), np.zeros(2))
    with pytest.raises(InputError, match="not positive"):
        solve_lemke(np.eye(2), np.zeros(2), np.array([1.0, 0.0]))


@pytest.mark.parametrize("number", [2613, 4561, 4629, 5081])
def test_bodies_whose_masses_differ_by_thousands_are_solved_without_regularization(number):
    """With one factor for all variables, rounding loses the path on these piles; masses span up to 10^6."""
    rng = np.random.default_rng([0, number])
    problem = random_step(rng, feet=False, inverse=False, contacts=int(rng.integers(8, 24)))
    reduction = whiten(problem)
    Q, r, scale = contact_lcps.coulomb_lcp(reduction.rho, reduction.c, problem.contacts.mu)
    result = solved(solve_lemke(Q, r, scale))
    assert result.regularization == 0.0
    assert_complementary(scale[:, None] * Q * scale, scale * r, replace(result, z=result.z / scale, w=scale * result.w))


def test_the_default_scale_solves_what_one_factor_for_all_would_call_infeasible():
    """Units of variables differ by millions: with one factor the path ended on a ray as a false "proof"."""
    Q, r = np.array([[6.77e-6, -2.16], [-2.16, 4.05e6]]), np.array([-0.003, -3000.0])
    result = solved(solve_lemke(Q, r))
    np.testing.assert_allclose(result.z, np.linalg.solve(Q, -r), rtol=1e-9)
    for ray in ([1.0, 0.0], [1.0, 5.3e-7], [1.0, 3.2e-6]):
        assert not proves_infeasible(Q, r, np.array(ray))


def test_rounding_is_no_proof_of_infeasibility_in_any_units():
    """All of these problems have a solution."""
    rng = np.random.default_rng(0)
    for _ in range(300):
        n = int(rng.integers(1, 7))
        G, units = rng.normal(size=(n, n)), 10.0 ** rng.uniform(-4.0, 4.0, n)
        Q, r = units[:, None] * (G @ G.T + 1e-3 * np.eye(n)) * units, units * rng.normal(size=n)
        for scale in (None, np.ones(n)):
            result = solve_lemke(Q, r, scale)
            assert result.ray is None or not proves_infeasible(Q, r, result.ray)
        assert solve_lemke(Q, r).status is SolverStatus.SOLVED


def test_the_first_row_at_zero_leaves_despite_rounding_of_large_numbers():
    rng = np.random.default_rng(0)
    basic, nonbasic, place = np.arange(2), np.array([2, 3, 4]), np.array([-1, -2, 0, 1, 2])
    beyond = 0
    for _ in range(500):
        tableau = rng.uniform(1.0, 2.0, (2, 4))
        tableau[:, 0] = -rng.uniform(1e9, 2e9, 2)
        tableau[:, 3] = rng.uniform(1e9, 2e9, 2)
        steps = tableau[:, 3] / -tableau[:, 0]
        first = int(steps.argmin())
        beyond += tableau[first, 3] + tableau[first, 0] * steps[first] > 1e-8
        assert _ratio_test(_Dictionary(tableau, basic, nonbasic, place, tied=np.full(2, 7)), 0) == first
    assert beyond > 10
