"""The constraint solver of many bodies, with the dense solver as oracle, and steps that need the dense solver."""

from dataclasses import replace

import numpy as np
import pytest

from idcontrol.models import constraint
from idcontrol.models.constraint.sparse import solve_sparse
from idcontrol.types import Status
from tests.models.test_constraint import laws_missed
from tests.models.test_sap_sparse import dense, flat, random_problem


def springs(seed, sizes=(6, 6, 3, 12), n=5, mu=1e6):
    """Return random trees on springs, whose contacts stick while they press."""
    problem = random_problem(np.random.default_rng(seed), sizes, n)
    return replace(problem, mu=np.full(n, mu), stiffness=np.full(n, 1e7), damping=np.full(n, 10.0))


def test_without_friction_sparse_and_dense_find_the_same_motion_and_impulses():
    """The motion is unique."""
    solved = 0
    for seed in range(20):
        problem = springs(seed, mu=0.0)
        ours, whole = solve_sparse(problem), constraint.solve(dense(problem))
        assert ours is not None
        assert ours.status is Status.SOLVED
        if whole.status is not Status.SOLVED:
            continue
        solved += 1
        # the dense solver obeys its law to 1e-8
        assert np.abs(ours.impulses - whole.impulses).max() <= 1e-6 * np.abs(whole.impulses).max()
        assert np.abs(flat(problem, ours.v_plus) - whole.v_plus).max() <= 1e-6 * np.abs(whole.v_plus).max()
    assert solved >= 18


@pytest.mark.slow
@pytest.mark.parametrize("mu", [1.0, 1e6])
def test_with_friction_answers_obey_the_law_of_the_dense_problem(mu):
    """There may be several solutions: with much friction, a contact that opens in one may hold in another.

    If contacts slide, or the iteration does not converge, there is no sparse solution.
    """
    answered = 0
    for seed in range(60):
        problem = springs(seed, n=3, mu=mu)
        sparse = solve_sparse(problem)
        if sparse is not None:
            answered += 1
            # stiff dampers lose ten digits of the motion that they stop
            assert laws_missed(dense(problem), replace(sparse, v_plus=flat(problem, sparse.v_plus))) <= 1e-8, seed
    assert answered >= (30 if mu > 1.0 else 5)


def test_sliding_or_rigid_contacts_go_to_the_dense_solver():
    problem = springs(3)
    pressing = solve_sparse(problem).impulses[:, 0] > 0.0
    assert pressing.any()
    assert solve_sparse(replace(problem, mu=np.full(5, 1e-3))) is None
    assert solve_sparse(replace(problem, mu=np.full(5, np.inf))) is None
    assert solve_sparse(replace(problem, stiffness=np.full(5, np.inf))) is None
