"""Models on problems of very different scales; each contact is judged in its own scale."""

from dataclasses import replace

import numpy as np
import pytest
from msgspec import structs

from idcontrol.bench import judge
from idcontrol.bench.judge.models import MODELS
from idcontrol.bench.problems.steps import hostile_step
from idcontrol.experiments.contact_problems import judge_hostile
from idcontrol.models.step import Prescribed
from idcontrol.types import Status
from tests.bench.judge.points import point_masses
from tests.parameters import one_fast, solved

EVERY = pytest.mark.parametrize("name", MODELS)


@pytest.mark.parametrize("name", one_fast(MODELS, *(name for name in MODELS if name != "coulomb-cone")))
def test_hostile_problems_have_no_wrong_answers(name):
    solve, law = MODELS[name], name
    outcomes = [judge_hostile(solve, law, hostile_step(number)) for number in range(150)]
    assert set(outcomes) <= {"solved", "repaired", "refused"}
    assert outcomes.count("solved") > 50


@EVERY
def test_a_far_contact_does_not_hide_a_wrong_one(name):
    """A contact 1000 km away must not scale the velocities of the other contacts."""
    solve, law = MODELS[name], name
    for far in (1e3, 1e6):
        problem = point_masses(
            [1.0, 1.0, 2.0], [0.5, 0.0, -1e-3, 0.0, 0.0, -1.0, 0.3, 0.1, -1e-4], [0.0, far, 0.0], [0.6, 0.6, 0.3]
        )
        solution = solved(solve(problem, None))
        assert judge.violation(law, problem, solution) <= 1e-8
        alone = solve(replace(problem, contacts=problem.contacts.take([0, 2])), None)
        np.testing.assert_allclose(solution.impulses[[0, 2]], alone.impulses, rtol=1e-7, atol=1e-14)


@pytest.mark.parametrize("name", [name for name in MODELS if name not in ("constraint", "sap")])
def test_an_approach_that_nothing_can_stop_is_reported_beside_any_far_contact(name):
    """Slow conflicting velocities must not pass as solved if a distant contact is fast."""
    problem = point_masses([1.0, 1.0], [0.0, 0.0, -0.3, 0.0, 0.0, 0.0], [0.0, 1e6], [0.6, 0.6])
    still = replace(problem, prescribed=Prescribed(index=np.arange(3), velocity=np.array([0.0, 0.0, -0.3])))
    assert MODELS[name](still, None).status is Status.FALLBACK


@pytest.mark.parametrize("mu", [1e2, 1e6])
def test_contacts_with_steep_friction_do_not_penetrate(mu):
    """Rows ``N ± μ T`` scaled to length one determine the normal velocity only to μ times the tolerance."""
    law = "dissipation"
    solve = MODELS[law]
    rng = np.random.default_rng(0)
    for _ in range(30):
        problem = point_masses([1.0, 3.0], rng.normal(size=6), [0.0, 0.0], [mu, mu])
        solution = solved(solve(problem, None))
        assert (problem.contacts.N @ solution.v_plus).min() >= -1e-9
        assert judge.violation(law, problem, solution) <= judge.TOLERANCE


def test_no_friction_acts_at_a_gap():
    """A contact that opens has no force, even if it opens at a billionth of the speed of the fastest contact."""
    solve = MODELS["constraint"]
    velocity = [1.0, 0.0, 0.0, 0.0, 0.0, -1.0]
    problem = point_masses([1.0, 1.0], velocity, [1e-4, -1e6], [np.inf, 0.3])
    assert not solve(problem, None).impulses[0].any()


@pytest.mark.parametrize("light", [1e-12, 1e-6])
def test_momentum_of_a_light_body_beside_a_heavy_one_balances_in_sap(light):
    """The search must not end when only the momentum of the heaviest body is right."""
    law = "sap"
    solve = MODELS[law]
    rng = np.random.default_rng(0)
    for _ in range(20):
        problem = point_masses([1e12, light, 1.0], rng.normal(size=9), [0.0, 0.0, 0.0], [0.6, 0.3, 1.0])
        solution = solved(solve(problem, None))
        assert judge.violation(law, problem, solution) <= 1e-8


@EVERY
def test_numbers_that_are_not_finite_are_never_solved(name):
    """A NaN in κ of a prescribed joint reaches only the motor impulses, but the step must not be called solved."""
    solve = MODELS[name]
    good = point_masses([1.0, 1.0], [0.1, 0.0, -1.0, 0.0, 0.0, -1.0], [0.0, 0.0], [0.5, 0.5])
    good = replace(good, prescribed=Prescribed(index=np.array([3, 4]), velocity=np.zeros(2)))
    assert solve(good, None).status is Status.SOLVED
    for at in (0, 3):
        kappa, M = good.kappa.copy(), good.M.copy()
        kappa[at], M[at, at] = np.nan, np.inf
        for bad in (replace(good, kappa=kappa), replace(good, M=M)):
            solution = solve(bad, None)
            assert solution.status is Status.FALLBACK
            assert not solution.impulses.any()


def test_drag_that_loses_the_momentum_of_a_light_body_is_not_called_solved():
    """Drag of 2e5 N s/m acts on 1e-10 kg: the coefficient multiplies the rounding error of a small slip."""
    solution = MODELS["viscous"](hostile_step(76), None)
    assert (solution.status, solution.note) == (Status.REPAIRED, "drag loses the momentum of light bodies")


@pytest.mark.parametrize(
    ("name", "number"),
    [("coulomb-lcp", 424), ("coulomb-lcp", 1540), ("dissipation", 4), ("noslip", 430), ("constraint", 1690)],
)
def test_impulses_that_cancel_beyond_double_precision_are_not_called_solved(name, number):
    """Opposed contacts may get impulses of up to 1e35 N s, which leave rounding errors of up to 1e16 m/s."""
    solve, law = MODELS[name], name
    assert judge_hostile(solve, law, hostile_step(number, seed=777)) in ("repaired", "refused")


@pytest.mark.parametrize(
    ("name", "seed", "number"),
    [
        ("coulomb-cone", 7, 203563),  # friction coefficient 1e6 along immovable tangents: wrong by 3 % of the bound
        ("coulomb-cone", 7, 212434),
        pytest.param("coulomb-cone", 7, 227225, marks=pytest.mark.slow),
        pytest.param("coulomb-cone", 6, 47926, marks=pytest.mark.slow),
        ("coulomb-cone", 31, 5396),  # an error of the solver that looks like rounding
        ("dissipation", 7, 77353),  # forces between opposed contacts are 1e8 times their effect
        ("dissipation", 7, 285104),  # a normal velocity, small compared with the slip
        ("viscous", 7, 275956),
        ("viscous", 8, 189214),
        ("viscous", 32, 304441),  # an approach, small compared with terms that cancel
        ("viscous", 71, 1926),  # an approach of 2 mm/s, below the rounding of a velocity that drag stops
        ("noslip", 71, 27351),  # an approach of 2 m/s that looks like rounding
        ("noslip", 73, 168260),  # friction at a contact that parts at 121 m/s, which rounding hides
        ("noslip", 31, 135756),  # an inertia of condition 3e19: velocities have no correct digits
        ("noslip", 32, 333866),
        ("dissipation", 32, 333866),
        ("constraint", 7, 32740),  # friction coefficient 1e-9 beside a held contact: beyond its bound by 1e-4
        ("constraint", 7, 160480),
        ("constraint", 7, 339531),
        ("sap", 6, 56041),
        ("sap", 7, 157187),
    ],
)
def test_problems_beyond_double_precision_are_not_called_solved(name, seed, number):
    """Wrong answers to these steps miss the law of some contact by only 2e-6 to 0.91, relatively."""
    solve, law = MODELS[name], name
    problem = hostile_step(number, seed=seed)
    solution = solve(problem, None)
    if solution.status is Status.SOLVED:
        assert judge.violation(law, problem, solution) <= judge.TOLERANCE
    else:
        assert (solution.status, solution.impulses.any()) == (Status.REPAIRED, True)


def test_an_edge_that_approaches_and_that_nothing_moves_is_a_jam():
    """The contact is 1.4 km away with μ = 1e6: its edge approaches at 1944 m/s, little compared with its slip."""
    solution = MODELS["dissipation"](hostile_step(56265, seed=31), None)
    assert (solution.status, solution.note) == (Status.FALLBACK, "jam")


@pytest.mark.parametrize("number", [151, 609, 1212])
def test_if_held_contacts_creep_too_fast_the_search_finds_other_roles(number):
    law = "constraint"
    solve = MODELS[law]
    problem = hostile_step(number, seed=5)
    solution = solved(solve(problem, None))
    assert judge.violation(law, problem, solution) <= judge.TOLERANCE


@pytest.mark.parametrize("mu", [0.5, 1e6])
@pytest.mark.parametrize("law", ["coulomb-cone"])
def test_friction_that_cannot_move_a_body_reaches_its_bound(law, mu):
    """After a step at rest motors drag the mass along: friction reaches its bound, but cannot change the motion."""
    solve = MODELS[law]
    problem = point_masses([2.0], [0.0, 0.0, -1.0], [0.0], [mu])
    still = replace(problem, prescribed=Prescribed(index=np.arange(2), velocity=np.zeros(2)))
    dragged = replace(problem, prescribed=Prescribed(index=np.arange(2), velocity=np.array([0.3, -0.4])))
    solution = solved(solve(dragged, solve(still, None).warm))
    np.testing.assert_allclose(solution.impulses, [[2.0, -1.2 * mu, 1.6 * mu]], rtol=1e-9)
    assert judge.violation(law, dragged, solution) <= 1e-8


def test_a_fast_contact_hides_no_penetration_of_a_kept_vertex():
    """An approach of 5e-8 m/s gets an impulse although another body moves at 1 km/s."""
    law = "coulomb-lcp"
    solve = MODELS[law]
    before = solve(point_masses([1.0, 1.0], [0.0, 0.0, -1e3, 0.0, 0.0, 1e-6], [0.0, 0.0], [0.5, 0.5]), None)
    problem = point_masses([1.0, 1.0], [0.0, 0.0, -1e3, 0.0, 0.0, -5e-8], [0.0, 0.0], [0.5, 0.5])
    solution = solved(solve(problem, before.warm))
    assert judge.violation(law, problem, solution) <= judge.TOLERANCE


@pytest.mark.parametrize(("name", "number"), [("dissipation", 352), ("dissipation", 5325), ("viscous", 3330)])
def test_solvable_steps_are_not_called_a_squeeze(name, number):
    """In these steps certificates consist of rounding, or are below the residual of a solved step."""
    solve, law = MODELS[name], name
    assert judge_hostile(solve, law, hostile_step(number, seed=5)) == "solved"


def test_an_inertia_that_loses_all_digits_is_not_called_solved():
    """Two velocities nearly belong to one body: the inverse mass of a contact between them is a small difference."""
    solve = MODELS["sap"]
    for apart, status in ((1e-3, Status.SOLVED), (1e-6, Status.SOLVED), (1e-12, Status.REPAIRED)):
        problem = point_masses([1.0], [0.1, -0.1, -1.0], [0.0], [0.5])
        M = problem.M.copy()
        M[0, 1] = M[1, 0] = 1.0 - apart
        problem = replace(problem, M=M, kappa=-M @ np.array([0.1, -0.1, -1.0]))
        solution = solve(problem, None)
        assert solution.status is status, apart
        assert solution.impulses.any()


@EVERY
def test_rounding_errors_of_bodies_at_rest_on_each_other_count_as_zero(name):
    """In a column of points at rest, only the lowest contact has a velocity without impulses."""
    solve, law = MODELS[name], name
    count, h = 20, 1e-3
    rows = np.zeros((3, count, 3 * count))
    for i in range(count):
        rows[:, i, 3 * i : 3 * i + 3] = np.eye(3)[[2, 0, 1]]
        if i:
            rows[:, i, 3 * i - 3 : 3 * i] = -np.eye(3)[[2, 0, 1]]
    mass = np.repeat(np.random.default_rng(0).uniform(0.1, 10.0, count), 3)
    problem = point_masses(np.ones(count), np.zeros(3 * count), np.zeros(count), np.full(count, 0.5), h=h)
    contacts = replace(problem.contacts, jacobian=rows.reshape(3 * count, 3 * count))
    fall = np.tile([1e-17, -1e-17, -9.81 * h], count)
    problem = replace(problem, M=np.diag(mass), kappa=-mass * fall, contacts=contacts)
    solution = solved(solve(problem, None))
    assert judge.violation(law, problem, solution) <= judge.TOLERANCE
    if name not in ("constraint", "sap"):
        weight = 9.81 * h * mass[::3]
        np.testing.assert_allclose(solution.impulses[:, 0], weight[::-1].cumsum()[::-1], rtol=1e-9)


def test_rounding_excuses_no_approach_between_fingers_that_squeeze():
    """The judge's allowance for rounding depends on velocities, not on large impulses that cancel."""
    problem = point_masses([1.0], [0.0, 0.0, -1.0], [0.0], [0.0])
    contacts = problem.contacts.take([0, 0])
    contacts.jacobian[1] *= -1.0
    problem = replace(problem, contacts=contacts)
    good = MODELS["coulomb-lcp"](problem, None)
    assert judge.violation("coulomb-lcp", problem, good) <= judge.TOLERANCE
    wrong = structs.replace(good, v_plus=good.v_plus - np.array([0.0, 0.0, 1e-4]), impulses=good.impulses.copy())
    wrong.impulses[:, 0] += 1e12
    wrong.impulses[0, 0] -= 1e-4
    assert judge.violation("coulomb-lcp", problem, wrong) > judge.TOLERANCE


def test_a_slip_that_pivoting_takes_for_zero_is_stopped():
    """A body slips at 5e-15 m/s under its weight; Lemke's method alone cannot distinguish this from zero."""
    problem = point_masses([1.0], [5e-15, -2e-15, -9.81e-3], [0.0], [0.5])
    solution = solved(MODELS["coulomb-lcp"](problem, None))
    np.testing.assert_allclose(solution.impulses, [[9.81e-3, -5e-15, 2e-15]], rtol=1e-6)
