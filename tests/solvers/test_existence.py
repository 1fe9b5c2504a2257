"""Proofs that a complementarity problem has no solution, against the enumeration of all bases."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from idcontrol.solvers.existence import Existence, decide
from idcontrol.solvers.lcp import lcp_residual
from tests.solvers.oracles import all_lcp_bases


@given(seed=st.integers(0, 2**32 - 1), n=st.integers(1, 6), kind=st.sampled_from(["any", "semidefinite", "P"]))
@settings(max_examples=60, deadline=None)
def test_a_solution_exists_where_some_basis_is_one(seed, n, kind):
    rng = np.random.default_rng(seed)
    rho = rng.normal(size=(n, max(1, n // 2)))
    Q = {"any": rng.normal(size=(n, n)), "semidefinite": rho @ rho.T, "P": rho @ rho.T + 0.1 * np.eye(n)}[kind]
    r = rng.normal(size=n)
    decision = decide(Q, r, np.ones(n))
    # A nondegenerate problem with a solution has one with a nonsingular basis.
    assert decision.existence is (Existence.SOLUTION if all_lcp_bases(Q, r) else Existence.NONE)
    if kind == "P":
        assert decision.existence is Existence.SOLUTION
    if decision.z is not None:
        assert lcp_residual(decision.z, Q @ decision.z + r, r) <= 1e-8


def test_a_feasible_problem_without_solution_takes_several_linear_programs():
    """w₁ ≥ 0 needs z₂ > 0, but then w₂ = w₁ + 2 is not zero."""
    Q, r = np.array([[-1.0, 1.0], [-1.0, 1.0]]), np.array([-1.0, 1.0])
    assert all_lcp_bases(Q, r) == []
    decision = decide(Q, r, np.ones(2))
    assert decision.existence is Existence.NONE
    assert decision.nodes > 1
    assert decision.excluded > 1e6


@pytest.mark.parametrize("factor", [1e-6, 1e6])
def test_units_do_not_change_the_answer(factor):
    rng = np.random.default_rng(1)
    for _ in range(20):
        Q, r = rng.normal(size=(5, 5)), rng.normal(size=5)
        plain = decide(Q, r, np.ones(5))
        other = decide(factor * Q, 3.0 * r, np.full(5, factor**-0.5))
        assert plain.existence is other.existence
        if plain.z is not None and other.z is not None:
            np.testing.assert_allclose(other.z, 3.0 / factor * plain.z, rtol=1e-6, atol=1e-9 / factor)


def test_a_search_at_its_limit_reports_it():
    Q, r = np.array([[-1.0, 1.0], [-1.0, 1.0]]), np.array([-1.0, 1.0])
    full = decide(Q, r, np.ones(2))
    assert decide(Q, r, np.ones(2), max_nodes=0).existence is Existence.UNDECIDED
    assert decide(Q, r, np.ones(2), max_nodes=full.nodes).existence is Existence.NONE


@pytest.mark.parametrize(("entry", "constant"), [(np.nan, -1.0), (1.0, np.nan), (1.0, np.inf)])
def test_a_non_finite_problem_is_undecided(entry, constant):
    assert decide(np.array([[entry]]), np.array([constant]), np.ones(1)).existence is Existence.UNDECIDED


def test_badly_scaled_problems_with_a_solution_are_not_said_to_have_none():
    Q, r = np.array([[6.77e-6, -2.16], [-2.16, 4.05e6]]), np.array([-0.003, -3000.0])
    decision = decide(Q, r)
    assert decision.existence is Existence.SOLUTION
    np.testing.assert_allclose(decision.z, np.linalg.solve(Q, -r), rtol=1e-6)
    rng = np.random.default_rng(0)
    for _ in range(100):
        n = int(rng.integers(1, 5))
        G, units = rng.normal(size=(n, n)), 10.0 ** rng.uniform(-4.0, 4.0, n)
        Q, r = units[:, None] * (G @ G.T + 1e-2 * np.eye(n)) * units, units * rng.normal(size=n)
        assert decide(Q, r).existence is Existence.SOLUTION
        assert decide(Q, r, np.ones(n)).existence is not Existence.NONE
