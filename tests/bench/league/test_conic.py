"""General solvers on steps of SAP: the same motion and impulses, errors and condition against their definitions."""

import numpy as np
import pytest

from idcontrol.bench.league import conic
from idcontrol.experiments.general_solvers import SAP, beside, speedup
from idcontrol.models import sap
from idcontrol.models.sparse import dense_inertia, dense_rows
from idcontrol.scenes.clutter import drop
from tests.parameters import one_fast

pytestmark = pytest.mark.interpreted

SIGMA, BETA = 1e-3, 1.0


@pytest.fixture(scope="module")
def problem():
    """Eight falling bodies; some slide."""
    plant, start = drop(8, walls=True)
    plant.reset(start)
    for _ in range(40):
        plant.step(0.01)
    return plant.problem


@pytest.mark.parametrize("name", one_fast(conic.SOLVERS, "clarabel"))
def test_a_general_solver_finds_the_motion_and_the_impulses_of_sap(name, problem):
    pytest.importorskip(name)
    asked = conic.program(problem, SIGMA, BETA)
    outcome = conic.SOLVERS[name](asked, 1e-10)
    expected = sap.solve_sparse(problem, sigma=SIGMA, beta=BETA, tolerance=1e-12)
    assert outcome.solved
    # costs agree to 1e-10, and differences of velocities are of the order of its square root
    momentum = np.abs(problem.M @ expected.v_plus[..., None]).max()
    np.testing.assert_allclose(outcome.v, expected.v_plus.ravel(), rtol=0, atol=1e-3)
    np.testing.assert_allclose(outcome.gamma, expected.impulses.ravel(), rtol=0, atol=2e-3 * momentum)
    assert conic.momentum_error(problem, outcome) < 1e-4
    assert conic.slackness(asked, outcome) < 1e-6


def test_the_condition_number_equals_finite_differences_of_the_gradient(problem):
    """The gradient of the cost is M (v - v*) - Jᵀγ(v), with γ the projection that SAP itself uses."""
    asked = conic.program(problem, SIGMA, BETA)
    v = sap.solve_sparse(problem, sigma=SIGMA, beta=BETA, tolerance=1e-12).v_plus.ravel() + 1e-4
    M, J = dense_inertia(problem), dense_rows(problem)
    n = len(problem.gap)

    def gradient(at):
        u = (asked.c + asked.J @ (at - asked.v_star)).reshape(-1, 3)
        gamma = np.empty((n, 3))
        for i in range(n):
            conic.project(*u[i], asked.mu[i], asked.R[3 * i], asked.R[3 * i + 1], gamma[i])
        return M @ (at - asked.v_star) - J.T @ gamma.T.ravel()

    step = 1e-7
    H = np.column_stack([(gradient(v + step * e) - gradient(v - step * e)) / (2.0 * step) for e in np.eye(len(v))])
    # cone regions may change within the difference, for a few contacts, outside the largest and smallest directions
    assert conic.condition(asked, v) == pytest.approx(np.linalg.cond(0.5 * (H + H.T)), rel=1e-3)


def test_saps_momentum_error_is_that_of_dense_matrices_and_it_has_no_slackness(problem):
    asked = conic.program(problem, SIGMA, BETA)
    answer = conic.by_sap(problem, sap.solve_sparse(problem, sigma=SIGMA, beta=BETA, tolerance=1e-3), 0.0)
    D = np.diag(asked.M) ** -0.5
    carried, pushed = asked.M @ answer.v, answer.gamma @ asked.J
    rest = np.linalg.norm(D * (carried - asked.M @ asked.v_star - pushed))
    size = max(np.linalg.norm(D * carried), np.linalg.norm(D * pushed))
    assert conic.momentum_error(problem, answer) == pytest.approx(rest / size, rel=1e-9)
    assert conic.slackness(asked, answer) < 1e-14
    # impulses that do not match the velocities are detected
    wrong = answer._replace(gamma=answer.gamma + 1e-3)
    assert conic.momentum_error(problem, wrong) > 1e-5
    assert conic.slackness(asked, wrong) > 1e-6


def test_solvers_are_compared_with_sap_on_the_same_steps(problem):
    outcome = beside([problem, problem], sap.Parameters(tolerance=1e-5), 1e-8)
    assert all(len(one.us) == 2 for one in outcome.values())
    assert outcome[SAP].momentum_error.max() < 1e-5
    assert speedup(outcome, SAP, SAP) == 1.0
    for name, one in outcome.items():
        assert one.distance.max() < 1e-2, name
