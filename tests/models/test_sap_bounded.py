"""Rows with limited impulse in SAP, with contact: motors with effort limits, joint stops (Castro et al. 2022, XI)."""

from dataclasses import replace

import numpy as np
import pytest

from idcontrol.contact.contacts import Contacts
from idcontrol.errors import InputError
from idcontrol.models import sap
from idcontrol.models.sap import Bounded, joint_limits, motors
from idcontrol.models.step import Bilateral, StepProblem
from idcontrol.types import Status
from tests.models.test_sap import random_problem
from tests.scenes import by_hand

H = 1e-3


def joints(M, v, force):
    return StepProblem(h=H, M=M, kappa=-M @ v - H * force, contacts=Contacts.none(len(M)))


def test_motors_are_implicit_springs_until_their_effort_ends():
    """Oracle: for one joint, clip and solve by hand."""
    M, v, q = np.array([[0.2]]), np.array([0.5]), 0.1
    kp, kd = np.array([400.0]), np.array([3.0])
    for effort in (1.0, 30.0, 1e3):
        error, target = np.array([0.3 - q]), np.array([-0.2])
        row = motors(H, 1, np.array([0]), error, target, kp, kd, np.array([effort]))
        solution, impulse = sap.solve_bounded(joints(M, v, np.array([0.7])), row)
        v_plus = solution.v_plus[0]
        tau = np.clip(kp[0] * (error[0] - H * v_plus) + kd[0] * (target[0] - v_plus), -effort, effort)
        assert impulse[0] == pytest.approx(H * tau, rel=1e-9)
        assert 0.2 * (v_plus - v[0]) == pytest.approx(H * (0.7 + tau), rel=1e-9)


def test_only_finite_stops_have_rows_and_both_push_inwards():
    M = np.eye(3)
    stops = joint_limits(
        H, M, np.array([0, 2]), np.array([0.1, -0.2]), np.array([-np.inf, -0.2]), np.array([0.1, np.inf])
    )
    np.testing.assert_array_equal(stops.rows, [[0.0, 0.0, 1.0], [-1.0, 0.0, 0.0]])
    np.testing.assert_array_equal(stops.lower, 0.0)
    v = np.array([1.0, 1.0, -1.0])
    solution, impulse = sap.solve_bounded(joints(M, v, np.zeros(3)), stops)
    assert (impulse > 0.0).all()
    # near-rigid: a twenty-fifth of the impact remains for the next step
    np.testing.assert_allclose(solution.v_plus, [1.0 / (1.0 + 4.0 * np.pi**2), 1.0, -1.0 / (1.0 + 4.0 * np.pi**2)])


def test_contact_motors_and_stops_are_one_optimum(quadruped):
    """The gradient of the whole cost vanishes: momentum including every impulse balances."""
    rng = np.random.default_rng(0)
    for _ in range(20):
        problem = random_problem(quadruped, rng, inverse=False)
        q = rng.uniform(-0.5, 0.5, 12)
        drives = motors(
            H, 18, np.arange(6, 18), -q, np.zeros(12), np.full(12, 100.0), np.full(12, 2.0), rng.uniform(0.5, 5.0, 12)
        )
        stops = joint_limits(H, problem.M, np.arange(6, 18), q, np.full(12, -0.4), np.full(12, 0.4))
        rows = drives + stops
        solution, impulse = sap.solve_bounded(problem, rows)
        assert solution.status is Status.SOLVED
        J, f = problem.contacts.jacobian, solution.impulses.T.ravel()
        rest = problem.M @ solution.v_plus + problem.kappa - J.T @ f - rows.rows.T @ impulse
        assert np.abs(rest).max() < 1e-12 * np.abs(problem.kappa).max()
        law = np.clip((rows.target - rows.rows @ solution.v_plus) / rows.compliance, rows.lower, rows.upper)
        # speeds are known to 1e-12, over the compliance of a stop (a fortieth of the inverse inertia of a small link)
        np.testing.assert_allclose(impulse, law, rtol=0, atol=1e-8)


def test_rigid_rows_hold_exactly_beside_contact_and_rows_with_a_limit(quadruped):
    """Momentum balances for joints that are not held, from any start, and the row with a limit obeys its law."""
    rng, pressed = np.random.default_rng(2), 0
    for _ in range(10):
        problem = random_problem(quadruped, rng, inverse=False)
        held = Bilateral(rows=np.eye(18)[[6, 9]], target=np.array([0.1, -0.2]), compliance=np.zeros(2))
        drive = motors(H, 18, np.array([8]), np.ones(1), np.zeros(1), np.full(1, 100.0), np.full(1, 2.0), np.ones(1))
        tied = replace(problem, bilateral=held)
        solution, impulse = sap.solve_bounded(tied, drive)
        assert solution.status is Status.SOLVED
        pressed += solution.impulses.any()
        J, f = problem.contacts.jacobian, solution.impulses.T.ravel()
        rest = problem.M @ solution.v_plus + problem.kappa - J.T @ f - drive.rows.T @ impulse
        assert np.abs(np.delete(rest, [6, 9])).max() < 1e-12 * np.abs(problem.kappa).max()
        np.testing.assert_allclose(solution.v_plus[[6, 9]], held.target, rtol=1e-12)
        law = np.clip((drive.target - drive.rows @ solution.v_plus) / drive.compliance, drive.lower, drive.upper)
        np.testing.assert_allclose(impulse, law, rtol=1e-9)
        again, _ = sap.solve_bounded(tied, drive, start=rng.normal(size=18))
        np.testing.assert_allclose(again.v_plus, solution.v_plus, rtol=0, atol=1e-9 * np.abs(solution.v_plus).max())
    assert pressed > 4


@pytest.mark.parametrize("presses", [True, False])
@pytest.mark.parametrize(("apart", "known"), [(1e-6, True), (1e-10, False)])
def test_a_contact_that_presses_on_a_nearly_singular_inertia_is_not_called_solved(apart, known, presses):
    """Its inverse mass has the relative error ε over `apart`; contacts without impulse and motors lose no digits.

    Oracle: the reason of `sap.ACCEPTED`, 1e-7 of the momentum.
    """
    M = np.eye(3)
    M[1, 2] = M[2, 1] = 1.0 - apart
    contact = by_hand(np.eye(3), 0.0, 0.0 if presses else 1.0)
    problem = StepProblem(h=H, M=M, kappa=np.array([1.0, 0.0, 0.0]), contacts=contact)
    motor = Bounded(rows=np.eye(3)[2:], target=np.ones(1), compliance=np.ones(1), lower=np.zeros(1), upper=np.ones(1))
    solution, impulse = sap.solve_bounded(problem, motor)
    assert solution.impulses.any() == presses
    assert impulse.any()
    solved = known or not presses
    assert solution.status is (Status.SOLVED if solved else Status.REPAIRED)
    assert ("singular" in solution.note) != solved


def test_rows_that_cannot_be_are_named():
    one, zero = np.ones(1), np.zeros(1)
    with pytest.raises(InputError, match="compliance"):
        Bounded(rows=np.eye(1), target=zero, compliance=zero, lower=zero, upper=one)
    with pytest.raises(InputError, match="limit"):
        Bounded(rows=np.eye(1), target=zero, compliance=one, lower=one, upper=zero)
    with pytest.raises(InputError, match="kp or kd"):
        motors(H, 1, np.array([0]), zero, zero, zero, zero, one)
