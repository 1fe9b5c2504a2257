"""FIND-INDICES: the kept tangential rows, and elimination as the Schur complement of the papers."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from idcontrol.kernels.arena import HEAP
from idcontrol.solvers.basis import all_solutions, column_basis
from idcontrol.solvers.rank import HELD_RANK_TOLERANCE, eliminate_kernel, find_indices_kernel
from tests.solvers.oracles import standing_feet

pytestmark = pytest.mark.interpreted


def find_indices(rho, c, tolerance=HELD_RANK_TOLERANCE):
    """Try all rows in order."""
    return find_indices_kernel(rho, c, np.arange(c.size), tolerance, HEAP)


def tangents(S, T):
    """Rows S_1, T_1, S_2, T_2, ... in the order of Zapolsky & Drumwright 2017, Algorithm 1."""
    return np.ascontiguousarray(np.stack((S, T), axis=1).reshape(-1, 6))


@pytest.mark.parametrize("n", [2, 3, 4, 40])
def test_feet_on_a_plane_have_two_translations_and_one_yaw(n):
    _, S, T = standing_feet(np.random.default_rng(n), n)
    rows = tangents(S, T)
    independent = find_indices(rows, np.zeros(2 * n))
    assert independent.kept.size == 3 == np.linalg.matrix_rank(rows)
    assert set(independent.kept[:2]) == {0, 1}
    assert independent.kept[2] in (2, 3)


@given(seed=st.integers(0, 2**32 - 1), n=st.integers(1, 12), rank=st.integers(1, 6))
@settings(max_examples=80, deadline=None)
def test_kept_rows_are_independent_and_as_many_as_the_rank(seed, n, rank):
    rng = np.random.default_rng(seed)
    rho = rng.integers(-3, 4, size=(n, rank)).astype(float) @ rng.integers(-3, 4, size=(rank, 6)).astype(float)
    independent = find_indices(rho, np.zeros(n), tolerance=1e-16)
    assert independent.kept.size == np.linalg.matrix_rank(rho)
    np.testing.assert_allclose(independent.basis @ independent.basis.T, np.eye(independent.kept.size), atol=1e-13)
    np.testing.assert_allclose(
        independent.upper.T @ independent.basis, rho[independent.kept], atol=1e-12 * np.abs(rho).max(initial=1.0)
    )


def test_a_row_that_differs_by_less_than_the_model_is_true_is_dropped():
    row = np.array([1.0, 0, 0, 0, 0, 0])
    close, far = row + 0.005 * np.eye(6)[1], row + 0.02 * np.eye(6)[1]  # 0.5 % and 2 %: ε_rank is 1 % in velocity
    assert find_indices(np.array([row, close]), np.zeros(2)).kept.tolist() == [0]
    assert find_indices(np.array([row, far]), np.zeros(2)).kept.tolist() == [0, 1]


@given(seed=st.integers(0, 2**32 - 1), held=st.integers(1, 5))
@settings(max_examples=60, deadline=None)
def test_elimination_is_the_projection_of_the_general_form(seed, held):
    """Against Γ_A = I - Aᵀ(AAᵀ)⁻¹A and v° of math.md, chapter 3 in whitened units (M = I)."""
    rng = np.random.default_rng(seed)
    A, a = rng.normal(size=(held, 6)), rng.normal(size=held)
    rho, c, y = rng.normal(size=(7, 6)), rng.normal(size=7), rng.normal(size=6)
    independent = find_indices(A, a, tolerance=1e-12)
    projected, constants = rho.copy(), c.copy()
    eliminate_kernel(projected, constants, independent)
    gram = np.linalg.inv(A @ A.T)
    scale = np.linalg.cond(A)
    gamma = np.eye(6) - A.T @ gram @ A
    start = y - A.T @ gram @ (A @ y + a)
    np.testing.assert_allclose(projected @ projected.T, rho @ gamma @ rho.T, atol=1e-13 * scale**2)
    np.testing.assert_allclose(independent.hold(y), start, atol=1e-13 * scale**2)
    # at the held conditions the constants contain the eliminated part of the rows
    np.testing.assert_allclose(projected @ start + constants, rho @ start + c, atol=1e-12 * scale**2)


def test_multipliers_of_the_kept_rows_give_the_push_that_is_asked_for():
    rng = np.random.default_rng(3)
    _, S, T = standing_feet(rng, 4, 0.1)
    rows = tangents(S, T)
    independent = find_indices(rows, np.zeros(8))
    push = rows[independent.kept].T @ rng.normal(size=independent.kept.size)
    np.testing.assert_allclose(
        rows[independent.kept].T @ independent.multipliers(push), push, atol=1e-11 * np.abs(push).max()
    )


@given(
    seed=st.integers(0, 2**32 - 1),
    # on squares: rows whose distance from the kept rows is this fraction of their length
    off=st.sampled_from([0.0, 1e-9, 5e-3, 9e-3, 1.1e-2, 2e-2, 1e-1, 1.0]),
    tolerance=st.sampled_from([1e-4, 1e-8, 0.0]),
)
@settings(max_examples=80, deadline=None)
def test_a_row_is_kept_if_its_remainder_exceeds_the_tolerance(seed, off, tolerance):
    rng = np.random.default_rng(seed)
    directions = np.linalg.qr(rng.normal(size=(6, 6)))[0]
    within = rng.normal(size=3) @ directions[:3]
    last = within / np.linalg.norm(within) * np.sqrt(max(0.0, 1.0 - off**2)) + off * directions[3]
    rows = np.vstack((directions[:3] * rng.uniform(0.1, 10.0, 3)[:, None], last))
    kept = find_indices(rows, np.zeros(4), tolerance=tolerance).kept.tolist()
    if off == 0.0 and tolerance == 0.0:
        return  # rounding decides
    assert (3 in kept) == (off**2 > tolerance)


@pytest.mark.parametrize(("n", "k", "rank"), [(1, 3, 1), (40, 6, 6), (40, 6, 3), (3, 12, 3), (200, 12, 7)])
def test_an_orthonormal_basis_has_the_solutions_of_all_rows(n, k, rank):
    """Copies of rows, near copies, zeros, and general rows: many short rows and a few long rows."""
    rng = np.random.default_rng(n + k)
    rows = rng.normal(size=(n, rank)) @ rng.normal(size=(rank, k))
    rows = np.vstack((rows, rows[::2], rows[::3] * (1.0 + 1e-9 * rng.normal(size=k)), np.zeros((2, k))))
    x = rng.normal(size=k)
    basis, carried = column_basis(np.ascontiguousarray(rows.T), rows @ x, 1e-7, HEAP)
    assert basis.shape == (rank, k)
    np.testing.assert_allclose(basis @ basis.T, np.eye(rank), atol=1e-14)
    np.testing.assert_allclose(rows - rows @ basis.T @ basis, 0.0, atol=1e-7)
    np.testing.assert_allclose(basis @ x, carried, atol=1e-7)


@pytest.mark.parametrize(("n", "k", "rank"), [(6, 12, 6), (6, 12, 5), (6, 6, 5), (6, 3, 3), (3, 1, 1), (0, 3, 0)])
def test_every_solution_is_the_shortest_plus_ways_that_change_no_row(n, k, rank):
    """Compared with the pseudoinverse, also for rows that depend on other rows except for rounding."""
    rng = np.random.default_rng(n + k + rank)
    rows = rng.normal(size=(n, rank)) @ rng.normal(size=(rank, k))
    extra = rows @ rng.normal(size=k)
    shortest, ways = all_solutions(rows.copy(), extra.copy(), 1e-9, HEAP)
    np.testing.assert_allclose(shortest, np.linalg.pinv(rows, rcond=1e-9) @ extra, atol=1e-12)
    np.testing.assert_allclose(ways @ ways.T, np.eye(k - rank), atol=1e-14)
    np.testing.assert_allclose(rows @ ways.T, 0.0, atol=1e-13)
