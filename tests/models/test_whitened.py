"""The elimination of math.md 3, against the general form that inverts the whole matrix."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from idcontrol.bench.problems.machines import forward_step, inverse_step
from idcontrol.contact.contacts import Contacts
from idcontrol.models import coulomb, dissipation
from idcontrol.models.step import Bilateral, StepProblem
from idcontrol.models.whitened import recover, whiten
from idcontrol.types import Status
from tests import scenes
from tests.scenes import by_hand


def random_problem(system, seed, *, inverse, gaps=(0.0, 2e-3)):
    """Return feet of a moving quadruped on uneven ground, with a random velocity."""
    rng = np.random.default_rng(seed)
    v = scenes.moving(system, rng)
    feet = tuple(rng.permutation(4)[: rng.integers(1, 5)])
    n = len(feet)
    contacts = scenes.foot_contacts(
        system,
        rng.uniform(0.1, 1.0, n),
        normals=scenes.tilted(rng, n, 0.3),
        gap=rng.uniform(*gaps, n),
        feet=feet,
        angle=rng.uniform(0, np.pi),
    )
    contacts = replace(contacts, surface_velocity=0.1 * rng.normal(size=3 * n))
    if inverse:
        b = v[6:] + scenes.H * rng.normal(scale=30.0, size=12)
        return inverse_step(system, v, b, contacts), rng
    return forward_step(system, v, scenes.H * rng.normal(size=12), contacts), rng


def prescribed_rows(problem):
    """P and b as dense arrays; no rows in forward mode."""
    m = problem.M.shape[0]
    if problem.prescribed is None:
        return np.zeros((0, m)), np.zeros(0)
    return np.eye(m)[problem.prescribed.index], problem.prescribed.velocity


def general_form(problem, J, f):
    """v⁺ and hτ from the inverse of X = [[M, -Pᵀ], [P, 0]] on (v⁺, hτ) (math.md 3)."""
    P, b = prescribed_rows(problem)
    m, p = problem.M.shape[0], b.size
    X = np.block([[problem.M, -P.T], [P, np.zeros((p, p))]])
    x = np.linalg.inv(X) @ np.concatenate((J.T @ f - problem.kappa, b))
    return x[:m], x[m:]


@pytest.mark.parametrize("inverse", [True, False])
@pytest.mark.parametrize("seed", range(8))
def test_velocity_and_torque_equal_the_general_form(quadruped, seed, inverse):
    problem, rng = random_problem(quadruped, seed, inverse=inverse)
    f = 0.01 * rng.normal(size=problem.contacts.jacobian.shape[0])
    v_plus, impulse = recover(whiten(problem), f)
    v_general, impulse_general = general_form(problem, problem.contacts.jacobian, f)
    # X has a condition number of about 1e6: ten digits of its inverse are correct
    np.testing.assert_allclose(v_plus, v_general, rtol=0, atol=1e-10 * max(1.0, np.abs(v_general).max()))
    np.testing.assert_allclose(impulse, impulse_general, rtol=0, atol=1e-10)


def test_any_velocities_may_be_prescribed_in_any_order(quadruped):
    problem, rng = random_problem(quadruped, 3, inverse=True)
    index = rng.permutation(18)[:7]
    problem = replace(problem, prescribed=replace(problem.prescribed, index=index, velocity=rng.normal(size=7)))
    f = 0.01 * rng.normal(size=problem.contacts.jacobian.shape[0])
    v_plus, impulse = recover(whiten(problem), f)
    v_general, impulse_general = general_form(problem, problem.contacts.jacobian, f)
    np.testing.assert_allclose(v_plus, v_general, rtol=0, atol=1e-10 * np.abs(v_general).max())
    np.testing.assert_allclose(impulse, impulse_general, rtol=0, atol=1e-10)


def bilateral_rows(rng, compliance):
    k = len(compliance)
    return Bilateral(rows=rng.normal(size=(k, 18)), target=0.1 * rng.normal(size=k), compliance=np.asarray(compliance))


@pytest.mark.parametrize("inverse", [True, False])
@pytest.mark.parametrize("model", [coulomb, dissipation])
@pytest.mark.parametrize("compliance", [(0.3, 10.0), (0.0, 0.0), (0.0, 0.5, 0.0)])
def test_bilateral_rows_hold_with_their_compliance(quadruped, model, inverse, compliance):
    """Without contacts the whole step is linear: momentum, ``Λ v⁺ = target - C g`` and ``P v⁺ = b`` in one matrix."""
    problem, rng = random_problem(quadruped, 5, inverse=inverse)
    ties = bilateral_rows(rng, compliance)
    problem = replace(problem, contacts=Contacts.none(18), bilateral=ties)
    P, b = prescribed_rows(problem)
    p, k = b.size, len(compliance)
    X = np.block(
        [
            [problem.M, -P.T, -ties.rows.T],
            [P, np.zeros((p, p + k))],
            [ties.rows, np.zeros((k, p)), np.diag(ties.compliance)],
        ]
    )
    expected = np.linalg.solve(X, np.concatenate((-problem.kappa, b, ties.target)))
    solution = model.solve(problem)
    assert solution.status is Status.SOLVED
    # random rows need large impulses of light links: X has the condition number 1e7
    np.testing.assert_allclose(solution.v_plus, expected[:18], rtol=0, atol=1e-9 * np.abs(expected[:18]).max())
    if not np.any(ties.compliance == 0.0):
        np.testing.assert_allclose(solution.multipliers, expected[18 : 18 + p], rtol=1e-8, atol=1e-10)


def exact_velocities(M, momentum, J):
    """J M⁻¹ times a momentum, by elimination in fractions."""
    rows = [[Fraction(x) for x in (*row, p)] for row, p in zip(M.tolist(), momentum.tolist(), strict=True)]
    m = len(rows)
    for i in range(m):
        for j in range(m):
            if j != i:
                factor = rows[j][i] / rows[i][i]
                rows[j] = [a - factor * b for a, b in zip(rows[j], rows[i], strict=True)]
    v = [rows[i][m] / rows[i][i] for i in range(m)]
    return np.array([float(sum(Fraction(a) * b for a, b in zip(row, v, strict=True))) for row in J.tolist()])


@pytest.mark.parametrize("condition", [1e1, 1e3, 1e6])
def test_the_effect_of_rounded_momenta_on_velocities_is_bounded(condition):
    """Momenta cancel in the rows, so that contact velocities are only the rounding error of the momenta."""
    rng = np.random.default_rng(0)
    for _ in range(20):
        m = 4
        turn, _ = np.linalg.qr(rng.normal(size=(m, m)))
        M = turn @ np.diag(condition ** -np.linspace(0.0, 1.0, m)) @ turn.T
        M = 0.5 * (M + M.T)
        J = rng.normal(size=(3, m))
        J -= J.mean(axis=1)[:, None]
        kappa = -M @ np.ones(m)
        contact = by_hand(J, 0.0)
        step = whiten(StepProblem(h=1e-3, M=M, kappa=kappa, contacts=contact))
        error = np.abs(step.c - exact_velocities(M, -kappa, J))
        assert (error <= step.roundoff).all()
        assert step.roundoff.max() < 1e-12 * condition
