"""The constraint solver of many bodies: the dense one as oracle, and what it leaves to that."""

from dataclasses import replace

import numpy as np
import pytest

from idcontrol.models import constraint
from idcontrol.types import Status
from tests.models.test_constraint import laws_missed
from tests.models.test_sap_sparse import dense, flat, random_problem


def springs(seed, sizes=(6, 6, 3, 12), n=5, mu=1e6):
    """Random trees on springs, whose contacts stick where they press."""
    problem = random_problem(np.random.default_rng(seed), sizes, n)
    return replace(problem, mu=np.full(n, mu), stiffness=np.full(n, 1e7), damping=np.full(n, 10.0))


def test_without_friction_sparse_and_dense_find_the_same_motion_and_impulses():
    """Which is unique."""
    solved = 0
    for seed in range(20):
        problem = springs(seed, mu=0.0)
        ours, whole = constraint.solve_sparse(problem), constraint.solve(dense(problem))
        assert ours is not None
        assert ours.status is Status.SOLVED
        if whole.status is not Status.SOLVED:
            continue
        solved += 1
        # the dense one obeys its law to 1e-8
        assert np.abs(ours.impulses - whole.impulses).max() <= 1e-6 * np.abs(whole.impulses).max()
        assert np.abs(flat(problem, ours.v_plus) - whole.v_plus).max() <= 1e-6 * np.abs(whole.v_plus).max()
    assert solved >= 18


@pytest.mark.slow
@pytest.mark.parametrize("mu", [1.0, 1e6])
def test_with_friction_answers_obey_the_law_of_the_dense_problem(mu):
    """There may be several: with much friction, a contact that opens in one may hold in another.

    Where contacts slide, or do not settle, there is none.
    """
    answered = 0
    for seed in range(60):
        problem = springs(seed, n=3, mu=mu)
        found = constraint.solve_sparse(problem)
        if found is not None:
            answered += 1
            # stiff dampers lose ten digits of what they take away
            assert laws_missed(dense(problem), replace(found, v_plus=flat(problem, found.v_plus))) <= 1e-8, seed
    assert answered >= (30 if mu > 1.0 else 5)


def test_sliding_or_rigid_contacts_go_to_the_dense_solver():
    problem = springs(3)
    pressing = constraint.solve_sparse(problem).impulses[:, 0] > 0.0
    assert pressing.any()
    assert constraint.solve_sparse(replace(problem, mu=np.full(5, 1e-3))) is None
    assert constraint.solve_sparse(replace(problem, mu=np.full(5, np.inf))) is None
    assert constraint.solve_sparse(replace(problem, stiffness=np.full(5, np.inf))) is None
