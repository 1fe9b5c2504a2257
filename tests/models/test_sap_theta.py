"""The θ-method of Castro et al. 2022, IV: exact recursions, orders of accuracy, energy, and the effect of contact."""

import numpy as np
import pytest
import scipy.linalg

from idcontrol.contact.contacts import Contacts
from idcontrol.models import sap
from idcontrol.models.sap.theta import (
    EXPLICIT_EULER,
    IMPLICIT_EULER,
    MIDPOINT,
    SYMPLECTIC_EULER,
    Springs,
    Theta,
    step_problem,
)
from tests.scenes import by_hand

M = np.array([[2.0, 0.3], [0.3, 1.0]])
K = np.array([[50.0, -10.0], [-10.0, 30.0]])
D = np.array([[0.4, 0.1], [0.1, 0.2]])
PUSH = np.array([1.0, -0.5])


def advance(theta, q, v, h, damping=D, push=PUSH):
    springs = Springs(stiffness=K, damping=damping, deflection=q)
    v_plus = sap.solve(step_problem(theta, h, M, v, push, springs, Contacts.none(2))).v_plus
    return q + h * theta.mean_velocity(v, v_plus), v_plus


@pytest.mark.parametrize(
    "theta", [Theta(q=a, v=b, vq=c) for a in (0, 0.5, 1) for b in (0, 0.3, 1) for c in (0, 0.7, 1)]
)
def test_the_step_balances_momentum_at_its_own_instants(theta):
    """M (v⁺ - v) = h (-K q^θq - D v^θv + f) holds for any θ."""
    rng = np.random.default_rng(0)
    q, v, h = rng.normal(size=2), rng.normal(size=2), 0.05
    q_plus, v_plus = advance(theta, q, v, h)
    seen_q = theta.q * q_plus + (1.0 - theta.q) * q
    seen_v = theta.v * v_plus + (1.0 - theta.v) * v
    np.testing.assert_allclose(M @ (v_plus - v), h * (PUSH - K @ seen_q - D @ seen_v), atol=1e-13)


def exact(q, v, t):
    inverse = np.linalg.inv(M)
    A = np.block([[np.zeros((2, 2)), np.eye(2)], [-inverse @ K, -inverse @ D]])
    rest = np.concatenate((np.linalg.solve(K, PUSH), np.zeros(2)))
    return (rest + scipy.linalg.expm(A * t) @ (np.concatenate((q, v)) - rest))[:2]


@pytest.mark.parametrize(
    ("theta", "order"), [(EXPLICIT_EULER, 1), (SYMPLECTIC_EULER, 1), (IMPLICIT_EULER, 1), (MIDPOINT, 2)]
)
def test_each_scheme_has_its_order(theta, order):
    start, v0, errors = np.array([0.1, -0.05]), np.array([0.2, 0.0]), []
    for h in (1e-3, 5e-4):
        q, v = start, v0
        for _ in range(round(1.0 / h)):
            q, v = advance(theta, q, v, h)
        errors.append(np.abs(q - exact(start, v0, 1.0)).max())
    assert np.log2(errors[0] / errors[1]) == pytest.approx(order, abs=0.05)


def energy(q, v):
    return 0.5 * v @ M @ v + 0.5 * q @ K @ q


def test_the_midpoint_rule_keeps_the_energy_of_springs_and_implicit_euler_takes_it():
    start = energy(np.array([0.1, -0.05]), np.zeros(2))
    ratio = {}
    for theta in (MIDPOINT, IMPLICIT_EULER, EXPLICIT_EULER):
        q, v = np.array([0.1, -0.05]), np.zeros(2)
        for _ in range(300):
            q, v = advance(theta, q, v, 0.02, damping=np.zeros((2, 2)), push=np.zeros(2))
        ratio[theta] = energy(q, v) / start
    assert ratio[MIDPOINT] == pytest.approx(1.0, abs=1e-11)  # 300 steps of rounding
    assert ratio[IMPLICIT_EULER] < 0.2
    assert ratio[EXPLICIT_EULER] > 5.0


def test_contact_acts_on_the_inertia_that_springs_add_to():
    """A particle on a spring, pressed on the ground: A (v - v*) = γ, and v* is the step without ground."""
    h, m, k = 0.02, 0.5, 400.0
    springs = Springs(
        stiffness=np.diag([k, 0.0, 0.0]), damping=np.zeros((3, 3)), deflection=np.array([-0.01, 0.0, 0.0])
    )
    contacts = by_hand(np.eye(3), 1.0)
    problem = step_problem(IMPLICIT_EULER, h, m * np.eye(3), np.array([-0.5, 0.2, 0.0]), np.zeros(3), springs, contacts)
    np.testing.assert_allclose(problem.M, np.diag([m + h * h * k, m, m]))
    v_star = -np.linalg.solve(problem.M, problem.kappa)
    solution = sap.solve(problem)
    assert solution.impulses[0, 0] > 0.0
    np.testing.assert_allclose(problem.M @ (solution.v_plus - v_star), solution.impulses[0], atol=1e-12)
