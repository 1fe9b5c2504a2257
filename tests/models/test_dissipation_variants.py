"""Maximal dissipation in one stage, without slip, and as printed: against Clarabel, and known properties."""

from dataclasses import replace

import cvxpy
import numpy as np
import pytest

from idcontrol.bench.judge import unbalanced
from idcontrol.bench.problems.machines import forward_step
from idcontrol.models import dissipation
from idcontrol.models.step import StepProblem
from idcontrol.types import Status
from tests import scenes
from tests.models import oracles
from tests.models.test_no_slip import gripper, moving_problem
from tests.scenes import by_hand


def with_friction(problem, mu):
    return replace(problem, contacts=replace(problem.contacts, mu=np.broadcast_to(mu, len(problem.contacts)).copy()))


def dense(problem):
    """Return J Γ Jᵀ and J v° + φ/h of the general form; Γ includes all tied velocities."""
    gamma, v_free = oracles.response(problem, *oracles.tied(problem))
    J = problem.contacts.jacobian
    return J @ gamma @ J.T, J @ v_free + oracles.constants(problem)


def in_pyramids(y, mu):
    """Constraints on y = (f_N, f_S, f_T)."""
    n = mu.size
    bounded = [cvxpy.abs(y[n + i]) + cvxpy.abs(y[2 * n + i]) <= mu[i] * y[i] for i in range(n)]
    return [y[:n] >= 0.0, *bounded]


# --- one stage ---


@pytest.mark.parametrize("inverse", [True, False])
@pytest.mark.parametrize("mu", [0.0, 0.6, np.inf])
def test_one_stage_is_the_minimum_of_the_ridge_problem(quadruped, mu, inverse):
    """Of ½ yᵀHy + gᵀy over the pyramids K: y in K, its gradient in the dual cone, and y orthogonal to it."""
    rng = np.random.default_rng(20)
    epsilon, solved = 1e-4, 0
    for _ in range(25):
        problem = with_friction(moving_problem(quadruped, rng, inverse=inverse, airborne=0.0), mu)
        solution = dissipation.one_stage(problem, epsilon=epsilon)
        if np.isinf(mu) and solution.status is Status.REPAIRED:
            continue  # no choice of sticking contacts is consistent
        solved += 1
        assert solution.status is Status.SOLVED
        assert solution.regularization == epsilon
        H, g = dense(problem)
        y = solution.impulses.T.ravel()
        gradient = (H + epsilon * np.trace(H) / 12 * np.eye(12)) @ y + g
        normal, s, t = gradient.reshape(3, 4)
        f_n, f_s, f_t = solution.impulses.T
        # velocities of 1 m/s; the general form is good to 1e-9
        size = max(1.0, f_n.max())
        if np.isinf(mu):
            presses = f_n > 0.0
            assert np.abs(np.concatenate((s[presses], t[presses]))).max(initial=0.0) < 1e-8
            assert not solution.impulses[~presses].any()
            assert normal.min() > -1e-8
            assert np.abs(f_n * normal).max() < 1e-8 * size
        else:
            assert (normal - mu * np.maximum(np.abs(s), np.abs(t))).min() > -1e-8
            assert (mu * f_n - np.abs(f_s) - np.abs(f_t)).min() > -1e-12 * size
            assert np.abs(f_n * normal + f_s * s + f_t * t).max() < 1e-8 * size
        assert np.abs(unbalanced(problem, solution)).max() < 1e-11 * size
    assert solved > 20


def test_one_stage_fed_to_the_forward_model_moves_as_predicted(quadruped):
    rng = np.random.default_rng(22)
    for _ in range(50):
        problem = with_friction(moving_problem(quadruped, rng), rng.uniform(0.1, 1.0, 4))
        v = np.linalg.solve(problem.M, scenes.H * quadruped.bias - problem.kappa)
        inverse = dissipation.one_stage(problem, epsilon=1e-9)
        forward = dissipation.solve(forward_step(quadruped, v, inverse.multipliers, problem.contacts))
        # the forward model has no ridge: its answer differs by the speed δ y at which contacts yield, through a
        # Jacobian that may be near singular
        np.testing.assert_allclose(forward.v_plus, inverse.v_plus, rtol=0, atol=1e-5)


def test_one_stage_gives_no_impulse_to_an_opening_foot_of_infinite_friction():
    """A point mass of 1 kg that is pulled up with 20 N and sideways with 1 kN."""
    contacts = by_hand(np.array([[0.0, 0, 1], [1, 0, 0], [0, 1, 0]]), np.inf)
    for up, impulse in ((20.0, 0.0), (-20.0, -1.0)):
        kappa = -scenes.H * np.array([1e3, 0.0, up])
        solution = dissipation.one_stage(StepProblem(h=scenes.H, M=np.eye(3), kappa=kappa, contacts=contacts))
        assert solution.status is Status.SOLVED
        assert solution.impulses[0, 1] == pytest.approx(impulse, rel=1e-5)


# --- as printed ---


@pytest.mark.parametrize("inverse", [True, False])
def test_the_printed_problem_is_solved(quadruped, inverse):
    """Against the QP of math.md 7.1 with g = -R_bᵀ M_bb⁻¹ κ_b."""
    rng = np.random.default_rng(26)
    for _ in range(10):
        problem = with_friction(moving_problem(quadruped, rng, inverse=inverse), rng.choice([0.0, 0.3, 1.0], 4))
        solution = dissipation.solve_printed(problem)
        H, side = dense(problem)
        k = 6 if inverse else 18
        momentum = np.concatenate((-np.linalg.solve(problem.M[:k, :k], problem.kappa[:k]), np.zeros(18 - k)))
        g = problem.contacts.jacobian @ momentum
        assert solution.status is Status.SOLVED
        size = np.abs(g).max() / np.abs(H).max()  # impulses in this unit are about 1
        values, vectors = np.linalg.eigh(H / np.abs(H).max())
        half = (vectors * np.sqrt(np.maximum(values, 0.0))).T
        x = cvxpy.Variable(12)
        program = cvxpy.Problem(
            cvxpy.Minimize(0.5 * cvxpy.sum_squares(half @ x) + (g / np.abs(g).max()) @ x),
            [*in_pyramids(x, problem.contacts.mu), H[:4] @ (size * x) + side[:4] >= 0.0],
        )
        smallest = program.solve(solver=cvxpy.CLARABEL)
        y = solution.impulses.T.ravel()
        # many y have the smallest value, so values are compared; Clarabel stops at 1e-8
        value = (0.5 * y @ H @ y + g @ y) / (size * np.abs(g).max())
        assert value == pytest.approx(smallest, rel=1e-6, abs=1e-7)
        assert (H[:4] @ y + side[:4]).min() > -1e-9
        f_n, f_s, f_t = solution.impulses.T
        assert (np.abs(f_s) + np.abs(f_t) - problem.contacts.mu * f_n).max() < 1e-12


def falling_point():
    """A point of 1 kg, 1 mm above the floor, at -0.5 m/s; forward, h = 1 ms."""
    problem = replace(gripper(0.0), M=np.eye(3), kappa=np.array([0.0, 0.0, 0.5]), prescribed=None)
    contacts = by_hand(np.eye(3)[[2, 0, 1]], 0.5, 1e-3)
    return replace(problem, contacts=contacts)


def test_the_printed_forward_model_stops_in_the_air_what_is_about_to_land():
    """The consistent model does not: φ/h belongs in the objective (math.md 7.2)."""
    problem = falling_point()
    np.testing.assert_allclose(dissipation.solve_printed(problem).v_plus, 0.0, atol=1e-12)
    np.testing.assert_allclose(dissipation.solve(problem).v_plus, [0.0, 0.0, -0.5], atol=1e-12)
