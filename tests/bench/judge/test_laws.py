"""The judge's two measures of error: right answers pass, and wrong answers fail by the amount of their error."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from idcontrol.bench import judge
from idcontrol.bench.judge.laws import onto_diamonds, onto_discs
from idcontrol.bench.judge.models import MODELS
from idcontrol.bench.problems.steps import numbered_step, random_step
from idcontrol.models import dissipation, no_slip
from idcontrol.types import Status
from tests.bench.judge.points import point_masses

KINDS = [(feet, inverse) for feet in (False, True) for inverse in (False, True)]
SLIDING = {
    "coulomb-lcp": ([1.0, 0.5, 0.0], [1.0, -0.3, 0.0]),
    "coulomb-cone": ([1.0, 0.3, 0.4], [1.0, -0.18, -0.24]),
    "dissipation": ([1.0, 0.5, 0.0], [1.15 / 1.09, -0.3 * 1.15 / 1.09, 0.0]),
    "noslip": ([1.0, 0.3, 0.4], [1.0, -0.3, -0.4]),
}
"""Approach and slip [m/s] of a point of 1 kg at friction 0.3, and the impulse of each law: (normal, tangents) [N s]."""
WRONG = {
    "pulls": [-2.0, 1.0, 1.0],
    "presses too little": [0.999, 1.0, 1.0],
    "presses too much": [1.001, 1.0, 1.0],
    "too little friction": [1.0, 0.99, 0.99],
    "too much friction": [1.0, 1.01, 1.01],
    "friction along the slip": [1.0, -1.0, -1.0],
}
"""Factors on the right impulse."""


def answer(law, impulse):
    """Return the step of a point that meets the floor, and an answer with this impulse, which keeps momentum."""
    (down, x, y), _ = SLIDING[law]
    problem = point_masses([1.0], [x, y, -down], [0.0], [0.3])
    v_plus = np.array([x + impulse[1], y + impulse[2], impulse[0] - down])
    solved = MODELS["coulomb-lcp"](problem, None)
    return problem, structs.replace(solved, v_plus=v_plus, impulses=np.array([impulse]))


@pytest.mark.parametrize("law", SLIDING)
def test_answers_in_closed_form_miss_nothing(law):
    problem, right = answer(law, SLIDING[law][1])
    assert judge.violation(law, problem, right) < 1e-15
    assert judge.missed(law, problem, right.impulses) < 1e-15


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("law", SLIDING)
def test_every_kind_of_wrong_impulse_is_seen(law, wrong):
    problem, other = answer(law, np.array(SLIDING[law][1]) * WRONG[wrong])
    least = 1e-4 if wrong.startswith("presses") else 1e-3
    assert judge.violation(law, problem, other) > least
    assert judge.missed(law, problem, other.impulses) > least


def test_a_violation_is_relative_to_what_the_contact_does():
    """A normal impulse that is 1 % too small leaves 1 % of the approach."""
    problem, short = answer("coulomb-lcp", [0.99, -0.297, 0.0])
    # of speed and its change
    assert judge.violation("coulomb-lcp", problem, short) == pytest.approx(0.01 / (1.0 + 0.99))
    assert judge.missed("coulomb-lcp", problem, short.impulses) == pytest.approx(0.01)  # of the speed


@given(st.floats(1e-6, 1e6), st.floats(1e-3, 1e3))
@settings(deadline=None, max_examples=25)
def test_a_violation_has_no_unit(mass, speed):
    """The violation does not change if all masses, or all velocities, are multiplied by a factor."""
    problem, short = answer("coulomb-cone", [0.99, -0.1, -0.25])
    scaled = replace(problem, M=mass * problem.M, kappa=mass * speed * problem.kappa)
    other = structs.replace(short, v_plus=speed * short.v_plus, impulses=mass * speed * short.impulses)
    expected = judge.violation("coulomb-cone", problem, short)
    assert judge.violation("coulomb-cone", scaled, other) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("law", MODELS)
def test_answers_of_a_model_obey_its_law_and_disturbed_answers_do_not(law):
    """Disturbed answers must fail."""
    rng = np.random.default_rng(2)
    checked = 0
    for (feet, inverse), contacts in ((kind, n) for kind in KINDS for n in (1, 2, 3, 4, 6, 9)):
        problem = random_step(rng, feet=feet, inverse=inverse, contacts=contacts)
        solution = MODELS[law](problem, None)
        if solution.status is not Status.SOLVED or not solution.impulses.any():
            continue
        checked += 1
        assert judge.violation(law, problem, solution) <= 1e-8
        if law in ("constraint", "sap"):  # compliant: impulses alone do not tell the law's velocities
            continue
        assert judge.missed(law, problem, solution.impulses) <= 1e-8
        if law != "noslip":  # it may hold a contact that would part by itself, if the contact then presses
            assert judge.missed(law, problem, np.zeros_like(solution.impulses)) > 1e-6
        assert judge.missed(law, problem, 1.01 * solution.impulses) > 1e-6
        assert judge.missed(law, problem, solution.impulses + 1e-3 * np.abs(solution.impulses).max()) > 1e-6
    assert checked >= 12


@pytest.mark.parametrize("law", MODELS)
def test_lost_momentum_and_non_finite_numbers_are_detected(law):
    problem = point_masses([1.0, 1e-6], [0.5, 0.0, -1.0, 0.2, 0.0, -1e-3], [0.0, 0.0], [0.3, 0.3])
    solution = MODELS[law](problem, None)
    assert judge.violation(law, problem, solution) <= 1e-8
    heavier = replace(problem, kappa=problem.kappa * (1.0 + 1e-5 * (np.arange(6) > 2)))  # of the light one
    assert judge.violation(law, heavier, solution) > judge.TOLERANCE
    assert judge.violation(law, problem, structs.replace(solution, v_plus=solution.v_plus + np.nan)) == np.inf


@pytest.mark.parametrize(("project", "order"), [(onto_discs, 2), (onto_diamonds, 1)])
def test_projections_are_the_nearest_points_within_the_bound(project, order):
    rng = np.random.default_rng(0)
    x, radius = 3.0 * rng.normal(size=(200, 2)), rng.uniform(0.0, 2.0, 200)
    projected = project(x, radius)
    assert (np.linalg.norm(projected, ord=order, axis=1) <= radius + 1e-12).all()
    for _ in range(50):  # no other point of the set makes an acute angle with the rest
        other = rng.normal(size=(200, 2))
        other *= (radius * rng.uniform(size=200) / np.linalg.norm(other, ord=order, axis=1))[:, None]
        assert (((x - projected) * (other - projected)).sum(axis=1) <= 1e-12).all()


@pytest.mark.parametrize("solve", [no_slip.solve, dissipation.no_slip_qp])
def test_a_contact_that_opens_by_a_quarter_of_a_millimetre_per_second_may_slip(solve):
    """This holds for any velocity without impulses; here 291 m/s."""
    problem = numbered_step(29180)
    solution = solve(problem, None)
    assert solution.status is Status.SOLVED
    assert judge.missed("noslip", problem, solution.impulses) <= 1e-8
    # a contact that presses may not slip: without its friction it does
    assert judge.missed("noslip", problem, solution.impulses * [1.0, 0.0, 0.0]) > 1e-6
