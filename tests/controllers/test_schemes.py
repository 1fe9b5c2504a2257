"""What the schemes say of the solutions that they pass on."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from msgspec import structs

from idcontrol.controllers import schemes
from idcontrol.controllers.giving_way import request
from idcontrol.controllers.inverse import solve
from idcontrol.models import coulomb
from idcontrol.models.distribution import Cones
from idcontrol.models.whitened import recover, whiten
from idcontrol.trust.machines import inverse_step
from idcontrol.trust.random_steps import random_step
from idcontrol.types import SOLVED_BY, Status
from tests import scenes


def asked(problem, last):
    mu = problem.contacts.mu
    return request(problem, Cones(mu, np.isinf(mu), np.zeros(mu.size), 1e-3), last=last)


def test_records_know_the_model_of_every_scheme():
    assert {scheme.name for scheme in vars(schemes).values() if isinstance(scheme, schemes.Scheme)} <= set(SOLVED_BY)


@pytest.mark.parametrize("scheme", [schemes.COULOMB_LCP, schemes.COULOMB_SMOOTH])
@pytest.mark.parametrize(("regularization", "dropped"), [(0.0, ()), (1e-10, ("exactness",))])
def test_a_step_whose_problem_was_regularized_says_what_was_given_up(scheme, regularization, dropped):
    problem = random_step(np.random.default_rng(0), feet=True, inverse=True, contacts=2)
    found = coulomb.solve(problem)
    assert found.status is Status.SOLVED
    if regularization > 0.0:
        found = structs.replace(found, status=Status.REPAIRED, regularization=regularization, note="regularized")
    in_python = replace(scheme, solve=None, model=lambda *_: found)
    assert solve(in_python, asked(problem, np.zeros(found.multipliers.size))).dropped == dropped


def test_where_friction_has_no_bound_the_nearest_torque_is_that_of_the_same_motion(quadruped, standing):
    contacts = scenes.foot_contacts(quadruped, np.inf)
    problem = inverse_step(quadruped, standing, np.zeros(12), contacts)
    found = coulomb.solve(problem)
    assert found.status is Status.SOLVED
    # feet that push against each other by a newton or so
    last = found.multipliers + scenes.H * np.random.default_rng(2).normal(scale=0.1, size=12)
    outcome = solve(schemes.COULOMB_SMOOTH, asked(problem, last))
    v_plus, motor_impulse = recover(whiten(problem), outcome.solution.impulses.T.ravel())
    # rounding, relative to the 0.01 m/s of gravity in a step and the torques of some N m
    np.testing.assert_allclose(v_plus, found.v_plus, atol=1e-12)
    np.testing.assert_allclose(motor_impulse, outcome.motor_impulse, atol=1e-12)
    assert np.linalg.norm(outcome.motor_impulse - last) < 0.9 * np.linalg.norm(found.multipliers - last)
