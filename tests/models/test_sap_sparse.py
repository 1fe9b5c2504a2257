"""SAP of many bodies: the dense model as oracle, islands, padding, robots beside bodies, bad input."""

from dataclasses import replace

import numpy as np
import pytest

from idcontrol.errors import InputError
from idcontrol.models import sap
from idcontrol.models.sparse import WORLD, SparseProblem, dense_inertia, dense_rows
from idcontrol.models.step import StepProblem
from idcontrol.types import Status
from tests.parameters import one_fast
from tests.scenes import by_hand

pytestmark = pytest.mark.interpreted

H = 1e-2


def random_problem(rng, sizes, n, *, world=0.3, same=0.1, speed=1.0):
    """Trees of `sizes` with random inertia, n random contacts between them and with the world."""
    t, d = len(sizes), max(sizes)
    M, v, v_star = np.full((t, d, d), np.nan), np.full((t, d), np.nan), np.full((t, d), np.nan)
    for i, size in enumerate(sizes):
        A = rng.normal(size=(size, size))
        M[i, :size, :size] = A @ A.T + size * np.eye(size)
        v[i, :size] = speed * rng.normal(size=size)
        v_star[i, :size] = v[i, :size] + 0.1 * rng.normal(size=size)
    tree = rng.integers(0, t, (n, 2))
    tree[rng.uniform(size=n) < world, 1] = WORLD
    distinct = rng.uniform(size=n) >= same
    tree[distinct & (tree[:, 0] == tree[:, 1]), 1] = WORLD
    swap = rng.uniform(size=n) < 0.5
    tree[swap] = tree[swap, ::-1]
    rows = np.full((n, 2, 3, d), np.nan)
    for i in range(n):
        for side in range(2):
            if tree[i, side] != WORLD:
                size = sizes[tree[i, side]]
                rows[i, side, :, :size] = rng.normal(size=(3, size))
    rigid = rng.uniform(size=n) < 0.5
    return SparseProblem(
        h=H,
        size=np.array(sizes),
        M=M,
        v=v,
        v_star=v_star,
        tree=tree,
        rows=rows,
        gap=rng.choice([0.0, 1e-3, -1e-4], n),
        mu=rng.choice([0.0, 0.3, 1.0], n),
        stiffness=np.where(rigid, np.inf, 1e5),
        damping=np.where(rigid, 0.0, 1e3),
        surface_velocity=0.1 * rng.normal(size=(n, 3)),
    )


def flat(problem, values):
    return np.concatenate([values[i, :size] for i, size in enumerate(problem.size)])


def dense(problem, mu=None):
    """Return the same step for the model of one machine."""
    M, moving = dense_inertia(problem), problem.surface_velocity.T.ravel()
    springs = {"stiffness": problem.stiffness, "damping": problem.damping}
    mu = problem.mu if mu is None else mu
    contacts = by_hand(dense_rows(problem), mu, problem.gap, surface_velocity=moving, **springs)
    return StepProblem(h=problem.h, M=M, kappa=-M @ flat(problem, problem.v_star), contacts=contacts)


SIZES = ([6] * 5, [6], [3, 6, 1], [7, 6, 13, 6], [2] * 9)


@pytest.mark.parametrize("sizes", one_fast(SIZES, *SIZES[2:4]))
def test_sparse_and_dense_find_the_same_motion_and_impulses(sizes):
    rng = np.random.default_rng(len(sizes))
    for _ in range(10):
        problem = random_problem(rng, sizes, 2 * len(sizes))
        solution = sap.solve_sparse(problem, tolerance=1e-12)
        expected = sap.solve(dense(problem))
        assert solution.status is expected.status is Status.SOLVED
        # both are solved to 1e-12 of the momentum, whose square is the cost; stiffness is at most 1e4 times the inertia
        size = np.abs(expected.v_plus).max()
        np.testing.assert_allclose(flat(problem, solution.v_plus), expected.v_plus, rtol=0, atol=1e-9 * size)
        np.testing.assert_allclose(solution.impulses, expected.impulses, rtol=0, atol=1e-7 * size)
        u = dense_rows(problem) @ expected.v_plus - problem.surface_velocity.T.ravel()
        np.testing.assert_allclose(solution.contact_velocity.T.ravel(), u, rtol=0, atol=1e-8 * size)


def test_no_contact_and_no_tree_are_answered():
    rng = np.random.default_rng(24)
    problem = random_problem(rng, [6, 3], 0)
    solution = sap.solve_sparse(problem)
    np.testing.assert_array_equal(flat(problem, solution.v_plus), flat(problem, problem.v_star))
    assert (solution.islands, solution.iterations, solution.status) == (0, 0, Status.SOLVED)
    nothing = random_problem(rng, [6], 0)
    nothing = replace(nothing, size=nothing.size[:0], M=nothing.M[:0], v=nothing.v[:0], v_star=nothing.v_star[:0])
    assert sap.solve_sparse(nothing).v_plus.shape == (0, 6)


@pytest.mark.parametrize("name", ["v_star", "gap", "M"])
def test_non_finite_input_gives_fallback(name):
    problem = random_problem(np.random.default_rng(25), [6, 6], 3)
    spoilt = getattr(problem, name).copy()
    spoilt[(0,) * spoilt.ndim] = np.nan
    solution = sap.solve_sparse(replace(problem, **{name: spoilt}))
    assert solution.status is Status.FALLBACK
    np.testing.assert_array_equal(solution.impulses, 0.0)


def test_zero_mass_is_refused():
    problem = random_problem(np.random.default_rng(26), [6, 6], 3)
    M = problem.M.copy()
    M[1] = 0.0
    assert sap.solve_sparse(replace(problem, M=M)).status is Status.FALLBACK


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"h": 0.0}, "step"),
        ({"stiffness": np.array([-1.0])}, "stiffness"),
        ({"damping": np.array([-1.0])}, "damping"),
        ({"mu": np.array([-1.0])}, "friction"),
        ({"tree": np.array([[0, 2]])}, "trees"),
        ({"size": np.array([7, 6])}, "sizes"),
        ({"gap": np.zeros(2)}, "shape"),
        ({"impulses": np.zeros((2, 3))}, "impulses"),
    ],
)
def test_input_that_cannot_be_is_named(change, said):
    problem = random_problem(np.random.default_rng(27), [6, 6], 1)
    with pytest.raises(InputError, match=said):
        sap.solve_sparse(replace(problem, **change))
