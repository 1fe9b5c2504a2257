"""LCP(r, ρρᵀ): principal pivoting, the dual active set and both together, against each other and oracles."""

import cvxpy
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from idcontrol.errors import InputError
from idcontrol.solvers.active_set import project
from idcontrol.solvers.lcp import gram_residual, lost
from idcontrol.solvers.mindiff import nearest_basis
from idcontrol.solvers.ppm import solve_ppm
from idcontrol.solvers.psd import solve_psd_lcp
from idcontrol.solvers.status import SolverStatus
from tests.parameters import solved
from tests.solvers.oracles import all_lcp_bases, body_velocity, edge_rows, standing_feet

SOLVERS = {"ppm": solve_ppm, "active set": project, "all": solve_psd_lcp}
FINITE = ["active set", "all"]  # principal pivoting alone may cycle on semidefinite problems


def assert_solution(rho, r, result):
    """Check complementarity, to rounding and four digits for conditioning (guaranteed: 1e-8), and y = ρᵀz."""
    w = rho @ (rho.T @ result.z) + r
    z_max, r_max = np.abs(result.z).max(initial=1e-300), np.abs(r).max(initial=1e-300)
    rounding = 1e-15 * (np.abs(rho) @ (np.abs(rho).T @ result.z)) / r_max
    assert np.all(np.abs(np.minimum(result.z / z_max, w / r_max)) <= 1e-11 + rounding)
    assert np.flatnonzero(result.z).size <= rho.shape[1]
    assert set(np.flatnonzero(result.z)) <= set(result.active)
    # rounding of sums of n products, whose terms may be much larger than the sums
    y_terms = np.abs(rho).T @ result.z
    assert np.all(np.abs(result.y - rho.T @ result.z) <= 1e-15 * len(r) * y_terms)
    assert np.all(np.abs(result.w - w) <= 1e-15 * (len(r) + rho.shape[1]) * (np.abs(rho) @ y_terms + np.abs(r)))


def assert_proof(rho, r, certificate):
    """Check that c ≥ 0, ρᵀc = 0 and r·c < 0 (no y can then have ρy + r ≥ 0)."""
    assert certificate is not None
    assert certificate.min() >= 0.0
    size = np.abs(rho).max(initial=0.0) * certificate.sum()
    assert np.abs(rho.T @ certificate).max(initial=0.0) <= 1e-9 * max(size, 1e-300)
    assert r @ certificate < -1e-9 * np.abs(r).max() * certificate.max()


def dual_by_clarabel(rho, r):
    """Return the unique y of min ½|y|² s.t. ρy + r ≥ 0, or None if there is no such y."""
    y = cvxpy.Variable(rho.shape[1])
    problem = cvxpy.Problem(cvxpy.Minimize(0.5 * cvxpy.sum_squares(y)), [rho @ y + r >= 0])
    problem.solve(solver=cvxpy.CLARABEL, tol_gap_abs=1e-12, tol_gap_rel=1e-12, tol_feas=1e-12)
    return None if y.value is None else np.asarray(y.value)


@pytest.mark.parametrize("solver", FINITE)
@given(seed=st.integers(0, 2**32 - 1), n=st.integers(1, 9), k=st.integers(1, 4))
@settings(max_examples=30, deadline=None)
def test_integer_rows_full_of_ties_are_solved_or_proved_infeasible(solver, seed, n, k):
    rng = np.random.default_rng(seed)
    rho, r = rng.integers(-2, 3, size=(n, k)).astype(float), rng.integers(-3, 3, size=n).astype(float)
    result = SOLVERS[solver](rho, r)
    bases = all_lcp_bases(rho @ rho.T, r)
    if result.status is SolverStatus.SOLVED:
        assert_solution(rho, r, result)
        # y is unique though z is not; every basis of the oracle may be nearly singular, hence `any`
        assert any(np.abs(rho.T @ z - result.y).max() <= 1e-9 * (1.0 + np.abs(z).max()) for z in bases)
    else:
        assert result.status is SolverStatus.INFEASIBLE
        assert_proof(rho, r, result.certificate)
        assert bases == []


@given(seed=st.integers(0, 2**32 - 1), n=st.integers(1, 9), k=st.integers(1, 4))
@settings(max_examples=60, deadline=None)
def test_principal_pivoting_is_right_whenever_it_claims_to_be(seed, n, k):
    rng = np.random.default_rng(seed)
    rho, r = rng.integers(-2, 3, size=(n, k)).astype(float), rng.integers(-3, 3, size=n).astype(float)
    result = solve_ppm(rho, r)
    assert result.active.size <= k
    assert result.iterations <= 20 * n + 50
    if result.status is SolverStatus.SOLVED:
        assert_solution(rho, r, result)
    elif result.status is SolverStatus.INFEASIBLE:
        assert_proof(rho, r, result.certificate)
        assert all_lcp_bases(rho @ rho.T, r) == []
    else:
        assert result.status in (SolverStatus.ITERATIONS, SolverStatus.INACCURATE)


@pytest.mark.covering
@pytest.mark.parametrize("mu", [0.0, 0.1, 0.6, 1.0, 10.0, 1e4])
@pytest.mark.parametrize("tilt", [0.0, 0.1])
@pytest.mark.parametrize("n", [1, 4, 16])
def test_edge_rows_of_every_friction_are_solved(mu, tilt, n):
    """Section 7.3's rows, on which principal pivoting alone failed in 113 of 400 states (math.md, section 4.4)."""
    rng = np.random.default_rng([int(10 * mu), int(10 * tilt), n])
    for _ in range(20):
        rho = edge_rows(*standing_feet(rng, n, tilt), np.full(n, mu))
        r = rho @ body_velocity(rng, 10.0 ** rng.integers(-4, 1))
        together, dual = solve_psd_lcp(rho, r), project(rho, r)
        assert together.method in ("ppm", "active set")
        for result in (together, dual):
            assert result.status is SolverStatus.SOLVED
            assert_solution(rho, r, result)
        # rows N ± μS at μ = 1e4 are parallel to 1e-4: four digits of 1e-13 are lost
        np.testing.assert_allclose(together.y, dual.y, atol=1e-9 * np.abs(dual.y).max(initial=1e-12))


@pytest.mark.parametrize("seed", range(10))
def test_the_projection_is_clarabels(seed):
    rng = np.random.default_rng(seed)
    rho = edge_rows(*standing_feet(rng, 5, 0.2), rng.uniform(0.1, 1.2, 5))
    r = rho @ body_velocity(rng) + 0.05 * rng.normal(size=20)
    reference = dual_by_clarabel(rho, r)
    result = solve_psd_lcp(rho, r)
    if reference is None:
        assert result.status is SolverStatus.INFEASIBLE
        assert_proof(rho, r, result.certificate)
    else:
        # an interior point method ends about 1e-8 from the boundary
        np.testing.assert_allclose(result.y, reference, atol=1e-6 * np.abs(reference).max())


@given(seed=st.integers(0, 2**32 - 1), n=st.integers(2, 60), rank=st.integers(1, 6), power=st.floats(0.0, 8.0))
@settings(max_examples=100, deadline=None)
def test_rank_deficient_ill_conditioned_and_repeated_rows_are_all_solved(seed, n, rank, power):
    rng = np.random.default_rng(seed)
    rho = (rng.normal(size=(n, rank)) * np.logspace(0.0, -power, rank)) @ rng.normal(size=(rank, 6))
    rho[n // 2 :] = rho[rng.integers(0, n // 2, size=n - n // 2)] * rng.choice([1.0, 2.0], size=(n - n // 2, 1))
    r = rho @ rng.normal(size=6) + rng.uniform(0.0, 0.1, n) * rng.integers(0, 2, n)  # feasible: y = -(that normal)
    result = solve_psd_lcp(rho, r)
    # impulses so large that no float64 z reaches the residual may be reported, but not as solved
    unit_in_last_place = 1e-16 * (np.abs(rho) @ (np.abs(rho).T @ result.z)).max() / np.abs(r).max()
    if unit_in_last_place < 1e-9:
        assert result.status is SolverStatus.SOLVED
    if result.status is SolverStatus.SOLVED:
        assert_solution(rho, r, result)
    else:
        assert result.status is SolverStatus.INACCURATE


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("rho", [[[1.0], [-1.0]], [[1.0], [0.0]]], ids=["fingers that squeeze", "an immovable contact"])
def test_a_problem_without_a_solution_comes_with_its_certificate(solver, rho):
    rho, r = np.array(rho), np.array([-0.1, -0.1])
    result = SOLVERS[solver](rho, r)
    assert result.status is SolverStatus.INFEASIBLE
    assert_proof(rho, r, result.certificate)
    assert not result.z.any()


@pytest.mark.parametrize("solver", FINITE)
def test_contradictions_within_the_tolerance_prove_nothing(solver):
    """-1 ≤ y ≤ -1 - δ: at δ = 1e-9 an answer is within the tolerance.

    At larger δ a proof shows that no answer exists.
    """
    rho = np.array([[1.0], [-1.0], [2.0]])
    for slight, status in ((1e-9, SolverStatus.SOLVED), (1e-7, SolverStatus.INFEASIBLE)):
        r = np.array([1.0, -1.0 - slight, 4.0])
        result = SOLVERS[solver](rho, r)
        assert result.status is status
        if status is SolverStatus.SOLVED:
            assert (rho @ result.y + r).min() >= -1e-8
            assert result.residual <= 1e-8


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("shape", [(0, 6), (3, 0)])
def test_no_rows_or_no_freedom_is_a_solved_problem(solver, shape):
    result = solved(SOLVERS[solver](np.zeros(shape), np.zeros(shape[0])))
    assert result.z.shape == shape[:1]
    assert result.y.shape == shape[1:]


@pytest.mark.parametrize("solver", SOLVERS)
def test_the_answer_does_not_depend_on_units(solver):
    rng = np.random.default_rng(9)
    rho, r = rng.normal(size=(8, 6)), rng.normal(size=8)
    reference = SOLVERS[solver](rho, r)
    for a, b in [(1e-6, 1e-9), (1e6, 1e-3)]:
        np.testing.assert_allclose(SOLVERS[solver](a * rho, b * r).y, b / a * reference.y, rtol=1e-9)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("where", ["rho", "r"])
def test_a_nan_is_never_called_solved(solver, where):
    rho, r = np.eye(3), -np.ones(3)
    (rho if where == "rho" else r)[..., 1] = np.nan
    assert SOLVERS[solver](rho, r).status is not SolverStatus.SOLVED


def test_a_warm_start_from_the_solution_takes_one_pass():
    rng = np.random.default_rng(10)
    rho = standing_feet(rng, 40)[0]
    r = rho @ body_velocity(rng)
    cold = solve_ppm(rho, r)
    assert cold.iterations > 1
    warm = solve_ppm(rho, 1.001 * r, cold.active)
    assert warm.iterations == 1
    np.testing.assert_array_equal(warm.active, cold.active)


@given(seed=st.integers(0, 2**32 - 1), warm=st.lists(st.integers(-5, 30), max_size=12))
@settings(max_examples=60, deadline=None)
def test_a_wrong_warm_start_does_no_harm(seed, warm):
    rng = np.random.default_rng(seed)
    rho = standing_feet(rng, 6, 0.1)[0]
    r = rho @ body_velocity(rng)
    warm_result = solved(solve_psd_lcp(rho, r, np.array(warm, dtype=np.int64)))
    np.testing.assert_allclose(warm_result.y, project(rho, r).y, atol=1e-10 * np.abs(r).max())


def test_a_cycle_is_noticed_long_before_the_passes_run_out():
    rng = np.random.default_rng(12)
    cycles = 0
    for _ in range(200):
        rho = edge_rows(*standing_feet(rng, 4, 0.1), np.full(4, 10.0))
        result = solve_ppm(rho, rho @ body_velocity(rng))
        if result.status is not SolverStatus.SOLVED:
            cycles += 1
            assert result.status is SolverStatus.ITERATIONS
            assert result.iterations < 150 < 20 * 16 + 50
    assert cycles > 0


@pytest.mark.parametrize("solver", SOLVERS)
def test_shapes_that_do_not_fit_are_refused(solver):
    with pytest.raises(InputError, match="do not fit"):
        SOLVERS[solver](np.eye(3), np.zeros(2))


@pytest.mark.parametrize(("r", "roundoff"), [(np.nan, 0.0), (np.inf, 0.0), (-1.0, np.nan), (-1.0, np.inf)])
def test_a_non_finite_answer_is_never_a_solution(r, roundoff):
    """One approaching row next to a solved row has a constant, or a rounding bound, that is not a number."""
    rho, z, y, w = np.eye(2), np.array([1.0, 0.0]), np.zeros(2), np.zeros(2)
    assert gram_residual(rho, np.array([-1.0, r]), np.array([0.0, roundoff]), z, y, w) == np.inf


@pytest.mark.parametrize("y", [np.nan, np.inf, 1e200])
def test_a_motion_of_which_no_digits_are_known_is_lost(y):
    assert lost(np.eye(2), np.array([1.0, 0.0]), np.array([y, 1.0])) == np.inf


def test_a_basis_is_no_solution_where_a_complement_is_no_number():
    solution, distance = nearest_basis(np.eye(2), np.array([-1.0, np.nan]), np.eye(2), np.zeros(2), np.zeros(2))
    assert solution is None
    assert distance == np.inf
