"""The interior point method of Trinkle et al. 1997 on its own class of problems, against Lemke's method."""

import numpy as np
import pytest

from idcontrol.errors import InputError
from idcontrol.solvers.interior_point import pyramid_start, solve_interior_point
from idcontrol.solvers.lemke import solve_lemke
from idcontrol.solvers.status import SolverStatus
from tests.parameters import solved


def pyramid_lcp(rng, n, sliding, mu, m=12):
    """The acceleration-level LCP of math.md, chapter 9 on random bodies: Q, r, the rolling contacts."""
    root = rng.normal(size=(m, m))
    J = rng.normal(size=(3 * n, m))
    A = J @ np.linalg.solve(root @ root.T + np.eye(m), J.T)
    b = J @ rng.normal(size=m)
    rolling = np.arange(n - sliding)
    p = rolling.size
    angle = rng.uniform(0.0, 2 * np.pi, n)
    roll = np.arange(n) < p
    along_t, along_o = np.where(roll, mu, mu * np.cos(angle)), np.where(roll, mu, mu * np.sin(angle))
    rows = np.r_[np.arange(n), n + rolling, 2 * n + rolling]
    Q = np.zeros((n + 4 * p, n + 4 * p))
    Q[: n + 2 * p, :n] = (A[:, :n] - A[:, n : 2 * n] * along_t - A[:, 2 * n :] * along_o)[rows]
    Q[: n + 2 * p, n : n + 2 * p] = A[np.ix_(rows, rows[n:])]
    Q[n : n + 2 * p, n + 2 * p :] = np.eye(2 * p)
    Q[n + 2 * p :, n : n + 2 * p] = -np.eye(2 * p)
    Q[n + 2 * p + np.arange(p), rolling] = Q[n + 3 * p + np.arange(p), rolling] = 2 * mu
    return Q, np.r_[b[rows], np.zeros(2 * p)], rolling


@pytest.mark.parametrize("sliding", [0, 1])
def test_rolling_and_sliding_contacts_are_solved_as_lemke_does(sliding):
    for seed in range(60):
        rng = np.random.default_rng(seed)
        n = int(rng.integers(1 + sliding, 5))
        Q, r, rolling = pyramid_lcp(rng, n, sliding, 0.15)
        start = pyramid_start(Q, r, np.full(n, 0.15), rolling)
        assert start is not None
        assert start.min() > 0.0
        assert (Q @ start + r).min() > 0.0
        result = solved(solve_interior_point(Q, r, start))
        # Trinkle et al. 1997 needed a median of 14 and at most 18 Newton steps (math.md, chapter 9)
        assert result.iterations <= 25
        w = Q @ result.z + r
        assert np.abs(np.minimum(result.z / result.z.max(), w / np.abs(r).max())).max() <= 1e-8
        lemke = solved(solve_lemke(Q, r))
        # the path ends 1e-11 from the boundary; the worst of these matrices amplify this distance by 1e4
        assert np.abs(result.z[:n] - lemke.z[:n]).max() <= 1e-6 * max(lemke.z[:n].max(), 1e-3)


@pytest.mark.parametrize("far", [1.0, 1e2, 1e4])
def test_a_diagonally_dominant_problem_is_solved_from_close_and_far(far):
    rng = np.random.default_rng(5)
    Q, r = 10.0 * np.eye(8) + rng.uniform(-1.0, 1.0, (8, 8)), rng.normal(size=8)
    result = solved(solve_interior_point(Q, r, np.full(8, far)))
    reference = solve_lemke(Q, r).z
    # the path ends 1e-11 from the boundary; Q is well conditioned
    np.testing.assert_allclose(result.z, reference, atol=1e-9 * reference.max())


def test_a_start_on_the_boundary_or_outside_is_not_used():
    Q, r = np.eye(2), np.array([-1.0, 1.0])
    for start in ([0.0, 1.0], [0.5, 1.0], [np.nan, 1.0]):
        result = solve_interior_point(Q, r, np.array(start))
        assert result.status is SolverStatus.INACCURATE
        assert result.iterations == 0


def test_the_iteration_limit_is_an_outcome():
    Q, r = np.eye(3), -np.ones(3)
    assert solve_interior_point(Q, r, np.full(3, 5.0), max_iterations=2).status is SolverStatus.ITERATIONS


def test_a_normal_problem_without_solution_has_no_start():
    Q = np.zeros((5 * 2, 5 * 2))
    Q[:2, :2] = [[1.0, -1.0], [-1.0, 1.0]]
    assert pyramid_start(Q, np.full(10, -0.1), np.full(2, 0.5), np.arange(2)) is None


def test_shapes_that_do_not_fit_are_refused():
    with pytest.raises(InputError, match="interior point"):
        solve_interior_point(np.eye(3), np.zeros(3), np.ones(2))
