"""The executable specification and the fast models compute the same motion."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from idcontrol.controllers.projection import project
from idcontrol.judge import unbalanced
from idcontrol.models import dissipation
from idcontrol.models.step import Bilateral
from idcontrol.problems.machines import forward_step, inverse_step
from idcontrol.types import Status
from tests import scenes
from tests.models import specification

PAIRS = {
    "dissipation": (specification.dissipation, dissipation.solve),
    "one stage": (specification.one_stage, dissipation.one_stage),
    "no slip": (specification.no_slip, dissipation.no_slip_qp),
}


def random_problem(system, rng, *, inverse, mu):
    """Return feet of a moving quadruped on uneven ground, one of them perhaps in the air."""
    v = scenes.moving(system, rng, speed=rng.choice([0.02, 0.2]))
    v[2] -= 0.5  # feet press; otherwise there may be two motions without slip
    contacts = scenes.foot_contacts(
        system, mu, normals=scenes.tilted(rng, 4, 0.1), gap=rng.choice([0.0, 0.0, 5e-3], 4), angle=rng.uniform(0, np.pi)
    )
    if not inverse:
        return forward_step(system, v, scenes.H * rng.normal(size=12), contacts)
    closed = np.tile(contacts.gap == 0.0, 3)
    b = project(system.M, contacts.jacobian[closed], np.zeros(closed.sum()), v[6:] + 1e-3 * rng.normal(size=12))
    return inverse_step(system, v, b, contacts)


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("inverse", [False, True], ids=["forward", "inverse"])
@pytest.mark.parametrize("mu", [0.0, 0.6, np.inf])
def test_the_fast_model_finds_the_motion_that_the_specification_does(quadruped, name, inverse, mu):
    specified, fast = PAIRS[name]
    rng = np.random.default_rng(7)
    for _ in range(4):
        problem = random_problem(quadruped, rng, inverse=inverse, mu=mu)
        expected, solution = specified(problem), fast(problem)
        assert expected.status is Status.SOLVED
        if (
            solution.status is Status.REPAIRED
        ):  # without slip, the fast model reports dependent rows, the specification does not
            assert name == "no slip"
        # tolerances of 1e-12 on an objective give half as many digits of the velocity
        tolerance = 1e-5 * np.abs(solution.v_plus).max()
        np.testing.assert_allclose(expected.v_plus, solution.v_plus, rtol=0, atol=tolerance)
        rest = unbalanced(problem, expected)
        assert np.abs(rest).max() <= 1e-9 * np.abs(problem.kappa).max()


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("compliance", [0.0, 0.1])
def test_bilateral_rows_are_part_of_the_specification(quadruped, name, compliance):
    specified, fast = PAIRS[name]
    rng = np.random.default_rng(8)
    problem = random_problem(quadruped, rng, inverse=False, mu=0.6)
    ties = Bilateral(rows=rng.normal(size=(2, 18)), target=0.1 * rng.normal(size=2), compliance=np.full(2, compliance))
    problem = replace(problem, bilateral=ties)
    expected, solution = specified(problem), fast(problem)
    assert expected.status is Status.SOLVED
    np.testing.assert_allclose(
        expected.v_plus, solution.v_plus, rtol=0, atol=1e-5 * np.abs(solution.v_plus).max()
    )  # as above
