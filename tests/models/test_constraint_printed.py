"""Drumwright 2019's programs as printed: correct results, and the errors that math.md 11 derives."""

from dataclasses import replace

import numpy as np
import pytest

from idcontrol.bench.problems.machines import forward_step
from idcontrol.errors import InputError
from idcontrol.models import constraint
from idcontrol.models.constraint import printed
from idcontrol.types import Status
from tests import scenes
from tests.models.test_constraint import TILT, G, particle, random_machine, slide


def test_the_printed_bilateral_force_loses_digits_as_springs_stiffen():
    """The relative error of (53) is about 1e-16 K h²/m (math.md 11.1: 4e-6 at 1e15), of the compliance form 1e-16."""
    h, x, v, f = 1e-2, 1e-3, -0.3, 4.0
    lost = []
    for K in (1e4, 1e12, 1e15):
        one = np.ones((1, 1))
        force = printed.bilateral_force(one, np.array([x]), np.array([v]), np.array([f]), np.zeros(1), h, K, 1.0)[0]
        exact = (v + h * f + K * x / (h * K + 1.0)) / -(1.0 / (h * (h * K + 1.0)) + 1.0) / h
        lost.append(abs(force / exact - 1.0))
    assert lost[0] < 1e-12
    assert 1e-10 < lost[1] < lost[2] < 1e-2


def test_the_unilateral_program_is_the_law_for_one_constraint_and_not_for_four():
    """Of 300 coupled cases most differ, by about a third (math.md 11.2: 83 %, median 31 %)."""
    rng = np.random.default_rng(20)
    differ = []
    for _ in range(300):
        m, h = 6, 1e-2
        M, v, f = random_machine(rng, m)
        for k in (1, 4):
            rows, phi = rng.normal(size=(k, m)), -1e-3 * rng.uniform(0, 1, k)
            K, B = 10.0 ** rng.uniform(2, 6, k), 10.0 ** rng.uniform(-1, 1, k)
            A = rows @ np.linalg.solve(M, rows.T)
            free = rows @ (v + h * np.linalg.solve(M, f))
            force = printed.unilateral_forces(A, phi, free, h, K, B)
            rate = free + h * A @ force
            law = np.maximum(0.0, -K * (phi + h * rate) - B * rate)
            miss = np.abs(force - law).max() / max(np.abs(force).max(), 1.0)
            if k == 1:
                assert miss < 1e-6
            else:
                differ.append(miss > 1e-3)
    assert 0.5 < np.mean(differ) < 1.0


@pytest.fixture
def cone_solver():
    for package in ("cvxpy", "clarabel", "ecos"):
        pytest.importorskip(package)


def block(mu, h):
    """The printed program's first step of the block on the ramp: normal, tangential force [N], velocity."""
    steps = []

    def model(problem, warm=None):
        steps.append(printed.solve(problem))
        return steps[-1]

    slide(mu, h, constraint.NEARLY_RIGID, h, model)
    return steps[0]


def test_the_printed_friction_program_holds_a_block_that_should_stick(cone_solver):
    """Sticking needs no larger normal force; it equals the force of the default model."""
    first = block(0.375, 1e-2)
    assert first.status is Status.SOLVED
    assert first.impulses[:, 0].sum() / 1e-2 == pytest.approx(G * np.cos(TILT), rel=1e-3)


def test_the_printed_friction_program_throws_a_sliding_point_off(cone_solver):
    """At μ = 0.125 the normal force is m g sin α / μ, twice the weight.

    Friction then holds, and the point takes off.
    """
    mu, h, m = 0.125, 1e-2, 2.0
    at_rest = particle(0.0, 0.0, h, K=1e10, B=1.0, mass=m, mu=mu)
    ramp = replace(at_rest, kappa=-h * m * G * np.array([np.sin(TILT), 0.0, -np.cos(TILT)]))
    thrown, slides = printed.solve(ramp), constraint.solve(ramp)
    assert thrown.status is Status.SOLVED
    assert thrown.impulses[0, 0] / h == pytest.approx(m * G * np.sin(TILT) / mu, rel=1e-3)
    assert thrown.v_plus[2] == pytest.approx(h * G * (np.sin(TILT) / mu - np.cos(TILT)), rel=1e-3)
    assert abs(thrown.v_plus[0]) < 1e-3 * slides.v_plus[0]
    # the ground yields in the first step by m/(h²K) = 2e-6 of the force that it will carry
    assert slides.v_plus[0] == pytest.approx(h * G * (np.sin(TILT) - mu * np.cos(TILT)), rel=1e-5)
    assert abs(slides.v_plus[2]) < 1e-6


def test_without_friction_both_solvers_of_cones_agree_with_the_law(cone_solver):
    problem = particle(-1e-6, -0.2, 1e-2, K=1e6, B=1.0)
    for backend in ("CLARABEL", "ECOS"):
        solution = printed.solve(problem, backend=backend)
        assert solution.impulses[0, 0] == pytest.approx(constraint.solve(problem).impulses[0, 0], rel=1e-5)


def test_unsupported_problems_are_refused(quadruped, standing):
    pytest.importorskip("clarabel")
    rigid = forward_step(quadruped, standing, np.zeros(12), scenes.foot_contacts(quadruped, 0.5))
    with pytest.raises(InputError, match="finite"):
        printed.solve(rigid)
    ties = constraint.spring_rows(np.eye(3)[:1], np.zeros(1), 1e-2, 1e3)
    with pytest.raises(InputError, match="bilateral"):
        printed.solve(replace(particle(0.0, 0.0, 1e-2, K=1e6, B=1.0), bilateral=ties))
