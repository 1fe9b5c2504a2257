"""The solution closest to a target: against brute force over contact modes, and against the contact law."""

import numpy as np
import pytest

from idcontrol.errors import InputError
from idcontrol.solvers.enumerate import NearestProblem, gap, nearest_solution
from idcontrol.solvers.mindiff import nearest_basis
from idcontrol.solvers.modes import find_solution
from tests.solvers.modes import nearest_of_all_modes, random_problem
from tests.solvers.oracles import all_lcp_bases, coulomb_lcp


def assert_coulomb(problem, y):
    """Check to 1e-9: no penetration, the friction pyramid, complementarity, maximal dissipation on the pyramid."""
    n = problem.mu.size
    v = problem.V @ y + problem.v0
    f_n, f_s, f_t = y[:n], y[n : 2 * n], y[2 * n :]
    speed = np.abs(problem.v0).max()
    # a problem without impulses leaves the rounding of a dozen terms, about 1e-15 of the cause of the contacts' speed
    impulse = max(np.abs(y).max(), 1e-5 * speed / np.diag(problem.V).max())
    assert f_n.min() >= -1e-9 * impulse
    assert v[:n].min() >= -1e-9 * speed
    assert np.all(np.abs(f_s) + np.abs(f_t) <= problem.mu * f_n + 1e-9 * impulse)
    assert np.abs(f_n * v[:n]).max() <= 1e-9 * impulse * speed
    # the pyramid's dissipation is μ f_N max(|v_S|, |v_T|)
    power = f_s * v[n : 2 * n] + f_t * v[2 * n :]
    most = problem.mu * f_n * np.maximum(np.abs(v[n : 2 * n]), np.abs(v[2 * n :]))
    np.testing.assert_allclose(power, -most, atol=1e-9 * impulse * speed)


@pytest.mark.covering
@pytest.mark.parametrize("standing", [False, True])
@pytest.mark.parametrize("mu", [0.0, 0.3, 0.8, 3.0])
@pytest.mark.parametrize(("n", "cases"), [(1, 10), (2, 4), pytest.param(3, 6, marks=pytest.mark.slow)])
def test_the_search_finds_what_brute_force_over_all_modes_finds(n, cases, mu, standing):
    for case in range(cases):
        rng = np.random.default_rng([n, case, int(10 * mu), standing])
        problem, start = random_problem(rng, n, np.full(n, mu), 0.2 * (case % 3 == 0), standing=standing)
        result = nearest_solution(problem, start)
        best = nearest_of_all_modes(problem)
        assert result.proved
        assert result.lower_bound == pytest.approx(result.value, rel=1e-8)
        # the oracle's equalities hold to 1e-9 m/s of about 0.1 m/s
        assert result.value == pytest.approx(best, rel=1e-6, abs=1e-10)
        assert_coulomb(problem, result.y)


@pytest.mark.parametrize("standing", [False, True])
@pytest.mark.parametrize("n", [1, 2, 3, 4, 5])
def test_results_obey_coulombs_law_with_every_budget(n, standing):
    rng = np.random.default_rng([n, standing])
    for _ in range(5):
        problem, start = random_problem(
            rng, n, rng.uniform(0.0, 1.2, n) * rng.integers(0, 2, n), 0.1, standing=standing
        )
        results = [nearest_solution(problem, start, max_nodes=nodes) for nodes in (1, 2, 30, 20000)]
        for result in results:
            assert_coulomb(problem, result.y)
            assert result.lower_bound <= result.value
        values, bounds = [r.value for r in results], [r.lower_bound for r in results]
        # more nodes never give a worse solution, and no bound exceeds the value of a longer search
        assert values == sorted(values, reverse=True)
        assert results[-1].proved
        assert max(bounds) <= values[-1] * (1.0 + 1e-8) + 1e-12
        assert [r.nodes <= limit for r, limit in zip(results, (1, 2, 30, 20000), strict=True)] == [True] * 4


def test_the_two_ends_of_a_bar_share_the_internal_force_of_the_target():
    """Closed form: two sticking contacts on one line, f_T free up to an internal force."""
    rho = np.array(
        [[0.0, 1.0], [0.0, 1.0], [1.0, 0.0], [1.0, 0.0]]
    )  # N, N, S, S on a body that translates in the plane
    J = np.vstack((rho, np.zeros((2, 2))))
    v0 = J @ np.array([0.0, -2.0])  # falls at 2 m/s: f_N1 + f_N2 = 2, f_S1 + f_S2 = 0
    problem = NearestProblem(
        V=J @ J.T,
        v0=v0,
        mu=np.full(2, 0.5),
        T=np.eye(6),
        t0=np.zeros(6),
        target=np.array([1.5, 0.5, 0.2, -0.2, 0.0, 0.0]),
        weights=np.ones(6),
    )
    result = nearest_solution(problem, np.array([2.0, 0.0, 0.0, 0.0, 0.0, 0.0]))
    assert result.proved
    # the ridge of 1e-8 shifts the solution by as much
    np.testing.assert_allclose(result.y, [1.5, 0.5, 0.2, -0.2, 0.0, 0.0], atol=1e-7)
    # an internal force beyond the second foot's friction ends on its pyramid: nearest point of f_S2 = -0.5 f_N2, f_S1 =
    # -f_S2
    far = problem._replace(target=np.array([1.5, 0.5, 1.0, -1.0, 0.0, 0.0]))
    f = nearest_solution(far, result.y).y
    assert f[3] == pytest.approx(-0.5 * f[1], abs=1e-7)
    # minimize (1.5 - d)² over f_N1 = 2 - a, f_N2 = a, f_S1 = a/2: derivative 2·(a - 0.5)·2 + (a/2 - 1)·2 = 0
    assert f[1] == pytest.approx(0.8, abs=1e-6)


def test_no_vertex_of_the_papers_enumeration_is_closer():
    farther = 0
    for case in range(10):
        rng = np.random.default_rng([13, case])
        problem, start = random_problem(rng, 2, np.full(2, 0.6), standing=True)
        result = nearest_solution(problem, start)
        n, V, v0 = 2, problem.V, problem.v0
        G = np.vstack((np.eye(6)[:2], np.eye(6)[2:4], -np.eye(6)[2:4], np.eye(6)[4:], -np.eye(6)[4:]))
        E = np.tile(np.eye(n), (4, 1))
        Q = np.zeros((12, 12))
        Q[:10, :10] = G @ V @ G.T
        Q[2:10, 10:], Q[10:, :2], Q[10:, 2:10] = E, 0.6 * np.eye(2), -E.T
        X = np.hstack((problem.weights[:, None] * (problem.T @ G.T), np.zeros((12, 2))))
        z, value = nearest_basis(
            Q, np.r_[G @ v0, 0.0, 0.0], X, problem.weights * problem.t0, problem.weights * problem.target
        )
        assert z is not None
        assert result.value <= value * (1.0 + 1e-6)
        farther += value > result.value * (1.0 + 1e-3)
    # two sticking feet: the closest point is inside a face (math.md, section 6.2 has 7 of 12)
    assert farther >= 3


def test_the_enumeration_of_bases_without_solution_returns_none():
    Q, r = np.array([[1.0, -1.0], [-1.0, 1.0]]), np.array([-0.1, -0.1])
    assert nearest_basis(Q, r, np.eye(2), np.zeros(2), np.zeros(2)) == (None, np.inf)


@pytest.mark.parametrize("seed", [24, 29])
def test_the_search_leaves_a_start_that_is_not_the_nearest_motion(seed):
    """Two feet can stand or slide: the target is far from the torque of any start."""
    rng = np.random.default_rng([21, seed])
    problem, start = random_problem(rng, 2, np.full(2, 2.0), 0.3, standing=True)
    problem = problem._replace(target=problem.target + 10.0 * np.abs(start).max() * rng.normal(size=12))
    first, last = nearest_solution(problem, start, max_nodes=1), nearest_solution(problem, start)
    assert last.proved
    assert last.value < first.value * (1.0 - 1e-6)
    assert_coulomb(problem, last.y)
    assert last.value == pytest.approx(nearest_of_all_modes(problem), rel=1e-6)
    # for the motion of the start, the first program has the closest torque
    assert np.abs(problem.V @ (last.y - first.y)).max() > 1e-3 * np.abs(problem.v0).max()


def test_the_gap_says_how_much_nearer_another_solution_may_be():
    for seed in range(10):
        problem, start = random_problem(np.random.default_rng([21, seed]), 4, np.full(4, 0.1), 0.3)
        distance = []
        for nodes in (1, 3, 10, 10000):
            closest = nearest_solution(problem, start, max_nodes=nodes)
            distance.append((float(np.sqrt(2.0 * closest.value)), gap(closest)))
            assert gap(closest) >= 0.0
        nearest = distance[-1][0]
        assert distance[-1][1] == 0.0
        for far, margin in distance:
            assert far - margin <= nearest * (1.0 + 1e-8)


def test_a_problem_that_is_not_finite_proves_nothing():
    problem, start = random_problem(np.random.default_rng(3), 1, np.array([0.5]))
    for broken in ({"V": np.full((3, 3), np.nan)}, {"v0": np.full(3, np.inf)}, {"T": np.full((12, 3), np.nan)}):
        result = nearest_solution(problem._replace(**broken), start)
        assert not result.proved
        assert gap(result) != 0.0


def test_wrong_shapes_and_infinite_friction_are_refused():
    problem, start = random_problem(np.random.default_rng(3), 1, np.array([0.5]))
    with pytest.raises(InputError, match="have shapes"):
        nearest_solution(problem, start[:2])
    with pytest.raises(InputError, match="no-slip"):
        nearest_solution(problem._replace(mu=np.array([np.inf])), start)


def squeezed(rng, n, mu):
    """Return contacts on a body that can move in one or two directions only, as between fingers.

    Such a problem often has no solution.
    """
    N, S, T = rng.normal(size=(3, n, int(rng.integers(1, 3))))
    v0 = rng.normal(size=3 * n)
    J = np.r_[N, S, T]
    Q, _, scale = coulomb_lcp(N, S, T, np.zeros(N.shape[1]), mu)
    v_s, v_t = v0[n : 2 * n], v0[2 * n :]
    return J @ J.T, v0, Q, np.r_[v0[:n], v_s, -v_s, v_t, -v_t, np.zeros(n)], scale


def test_enumeration_finds_a_solution_exactly_if_a_basis_is_one():
    rng = np.random.default_rng(8)
    outcomes = []
    for case in range(24):
        mu = np.full(1 + (case % 6 == 0), rng.uniform(0.2, 1.5))  # two contacts have 2^12 bases
        V, v0, Q, r, scale = squeezed(rng, mu.size, mu)
        y, settled, _ = find_solution(V, v0, mu)
        bases = all_lcp_bases(scale[:, None] * Q * scale, scale * r)
        assert settled
        assert (y is not None) == bool(bases)
        outcomes.append(bool(bases))
        if y is not None:
            assert_coulomb(NearestProblem(V=V, v0=v0, mu=mu, T=V, t0=v0, target=v0, weights=v0), y)
    assert 3 <= len(outcomes) - sum(outcomes) <= 21


def test_contacts_that_do_not_act_on_each_other_are_searched_apart():
    """The work of two islands is the sum of their work, not the product.

    One island without a solution decides the whole.
    """
    rng = np.random.default_rng(9)
    outcomes = set()
    for _ in range(12):
        mu = np.full(2, 0.5)
        one, other = (squeezed(rng, 2, mu)[:2] for _ in range(2))
        V, v0 = np.zeros((12, 12)), np.zeros(12)
        alone = []
        for island, (part, constant) in enumerate((one, other)):
            members = 2 * island + np.array([0, 1])
            rows = np.concatenate((members, 4 + members, 8 + members))
            V[np.ix_(rows, rows)], v0[rows] = part, constant
            alone.append(find_solution(part, constant, mu))
        y, settled, nodes = find_solution(V, v0, np.full(4, 0.5))
        assert settled
        assert (y is not None) == all(part is not None for part, _, _ in alone)
        assert nodes <= sum(count for _, _, count in alone)
        outcomes.add(y is not None)
        if y is not None:
            assert_coulomb(NearestProblem(V=V, v0=v0, mu=np.full(4, 0.5), T=V, t0=v0, target=v0, weights=v0), y)
    assert outcomes == {True, False}


def test_a_search_at_its_limit_is_undecided():
    V, v0, *_ = squeezed(np.random.default_rng(8), 3, np.full(3, 0.5))
    v0[0] = -1.0
    y, settled, nodes = find_solution(V, v0, np.full(3, 0.5), max_nodes=2)
    assert y is None
    assert not settled
    assert nodes == 2
