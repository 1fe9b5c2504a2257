"""Velocities must not depend on the unit of mass, on order and axes of contacts, or on their memory."""

from dataclasses import replace

import numpy as np
import pytest

from idcontrol.models import acceleration, constraint, dissipation
from tests import scenes
from tests.models.test_acceleration import random_instant
from tests.models.test_degenerate import MODELS, WITHOUT_FRICTION_BOUND, both_directions, instant, step

every_model = pytest.mark.parametrize(
    ("name", "solve"),
    (MODELS | {"constraint": constraint.solve, "dissipation, printed": dissipation.solve_printed}).items(),
)

MILLIGRAM, TONNE = 4.0**-10, 4.0**5
"""Units of mass in which a machine's masses are powers of four times those in kg, so that square roots are exact."""
other_units = pytest.mark.parametrize("unit", [MILLIGRAM, TONNE], ids=["milligram", "tonne"])


def walking(system, name, inverse, seed):
    """Return feet that stick, slide, open, sink and hover on uneven ground; compliant models have springs."""
    rng = np.random.default_rng(seed)
    v = scenes.moving(system, rng, 0.3)
    v[2] -= 0.3
    mu = np.array([0.3, 0.7, 0.0, np.inf]) if seed % 2 and name not in WITHOUT_FRICTION_BOUND else 0.5
    gap = np.array([0.0, 1e-4, -1e-3, 0.0])
    contacts = scenes.foot_contacts(system, mu, normals=scenes.tilted(rng, 4, 0.2), gap=gap)
    return step(system, v, replace(contacts, damping=np.full(4, 40.0), stiffness=np.full(4, 1e5)), inverse)


def of_mass(problem, unit):
    """Return the same machine with masses, and all quantities proportional to mass, multiplied by `unit`."""
    contacts = problem.contacts
    contacts = replace(contacts, stiffness=unit * contacts.stiffness, damping=unit * contacts.damping)
    return replace(problem, M=unit * problem.M, kappa=unit * problem.kappa, contacts=contacts)


@pytest.mark.covering
@every_model
@both_directions
@other_units
def test_velocities_do_not_depend_on_the_unit_of_mass(quadruped, name, solve, inverse, unit):
    for seed in range(4):
        problem = walking(quadruped, name, inverse, seed)
        one, other = solve(problem, None), solve(of_mass(problem, unit), None)
        assert other.status is one.status
        np.testing.assert_array_equal(other.v_plus, one.v_plus)
        np.testing.assert_array_equal(other.impulses, unit * one.impulses)
        np.testing.assert_array_equal(other.multipliers, unit * one.multipliers)
        assert (other.iterations, other.warm) == (one.iterations, one.warm)


@both_directions
@other_units
def test_accelerations_do_not_depend_on_the_unit_of_mass(quadruped, inverse, unit):
    for seed in range(4):
        _, v, contacts, drift = random_instant(quadruped, np.random.default_rng(seed), 0.5)
        problem = instant(quadruped, contacts, inverse)
        problem = replace(problem, v=quadruped.from_pinocchio(v), drift=drift)
        one = acceleration.solve(problem)
        other = acceleration.solve(replace(problem, M=unit * problem.M, force=unit * problem.force))
        assert other.status is one.status
        np.testing.assert_array_equal(other.acceleration, one.acceleration)
        np.testing.assert_array_equal(other.forces, unit * one.forces)


@every_model
@both_directions
def test_the_order_in_which_contacts_are_listed_does_not_matter(quadruped, name, solve, inverse):
    order = np.array([2, 0, 3, 1])
    for seed in range(4):
        problem = walking(quadruped, name, inverse, seed)
        one, other = solve(problem, None), solve(replace(problem, contacts=problem.contacts.take(order)), None)
        assert other.status is one.status
        np.testing.assert_allclose(other.v_plus, one.v_plus, rtol=0, atol=1e-12)
        assert other.warm == one.warm


@every_model
@both_directions
def test_tangents_turned_by_a_quarter_span_the_same_friction(quadruped, name, solve, inverse):
    for seed in range(4):
        problem = walking(quadruped, name, inverse, seed)
        N, S, T = problem.contacts.jacobian.reshape(3, 4, 18)
        turned = replace(problem.contacts, jacobian=np.vstack((N, T, -S)))
        one, other = solve(problem, None), solve(replace(problem, contacts=turned), None)
        assert other.status is one.status
        np.testing.assert_allclose(other.v_plus, one.v_plus, rtol=0, atol=1e-9)


@every_model
@both_directions
def test_a_warm_start_does_not_change_the_answer(quadruped, name, solve, inverse):
    rng = np.random.default_rng(20)
    for seed in range(8):
        problem = walking(quadruped, name, inverse, seed)
        cold = solve(problem, None)
        wrong = {key: int(rng.integers(16)) for key in (*problem.contacts.identity.tolist(), 99)}
        for warm in (solve(problem, cold.warm), solve(problem, wrong)):
            assert warm.status is cold.status
            np.testing.assert_allclose(warm.v_plus, cold.v_plus, rtol=0, atol=1e-9 * np.abs(cold.v_plus).max())
