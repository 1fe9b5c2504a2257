"""The suite of random contact problems: its problems, its laws, and that it would notice a wrong answer."""

from __future__ import annotations

import json

import numpy as np
import pytest
from msgspec import structs

from idcontrol.experiments import contact_problems, laws
from idcontrol.experiments.contact_problems import (
    Config,
    ContactProblems,
    Model,
    Tally,
    excluded,
    judge_model,
    judge_solver,
    problem_of,
)
from idcontrol.experiments.random_steps import WORST_CONDITION, random_step
from idcontrol.models import coulomb, dissipation, no_slip, viscous
from idcontrol.solvers.status import SolverStatus
from idcontrol.types import Status
from tests.models import oracles

KINDS = [(feet, inverse) for feet in (False, True) for inverse in (False, True)]
LAWS = {
    "coulomb": (coulomb.solve, laws.coulomb),
    "dissipation": (dissipation.solve, laws.dissipation),
    "viscous": (viscous.solve, laws.viscous),
    "no slip": (no_slip.solve, contact_problems.no_slip_violation),
}


@pytest.mark.parametrize(("feet", "inverse"), KINDS)
def test_random_steps_are_what_they_are_said_to_be(feet, inverse):
    rng = np.random.default_rng(0)
    conditions = []
    for contacts in (1, 2, 5, 16, 64):
        problem = random_step(rng, feet=feet, inverse=inverse, contacts=contacts)
        n = len(problem.contacts)
        assert 1 <= n <= contacts
        assert n == contacts or (inverse and not feet)
        assert (problem.prescribed is not None) == inverse
        assert problem.contacts.gap.min() >= 0.0
        assert 0.0 <= problem.contacts.mu.min() <= problem.contacts.mu.max() <= 1.5
        np.testing.assert_allclose(problem.M, problem.M.T, atol=1e-12)
        conditions.append(np.linalg.cond(problem.M))
        if inverse:  # every contact can move what is free
            free = np.setdiff1d(np.arange(problem.M.shape[0]), problem.prescribed.index)
            assert np.abs(problem.contacts.jacobian[:, free]).max(axis=1).min() > 0.0
    assert max(conditions) <= WORST_CONDITION


def test_condition_numbers_reach_1e8():
    rng = np.random.default_rng(1)
    conditions = [np.linalg.cond(random_step(rng, feet=True, inverse=False, contacts=4).M) for _ in range(100)]
    assert max(conditions) > 1e7
    assert min(conditions) < 1e3


@pytest.mark.parametrize("name", LAWS)
@pytest.mark.parametrize(("feet", "inverse"), KINDS)
def test_what_a_model_solves_obeys_its_law_and_nothing_else_does(name, feet, inverse):
    """A law that accepts disturbed impulses would notice nothing."""
    rng = np.random.default_rng(2)
    solve, law = LAWS[name]
    checked = 0
    for contacts in (1, 2, 3, 4, 6, 9) * 2:
        problem = random_step(rng, feet=feet, inverse=inverse, contacts=contacts)
        solution = solve(problem)
        if solution.status is not Status.SOLVED or not solution.impulses.any():
            continue
        checked += 1
        assert law(problem, solution.impulses) <= 1e-8
        if name != "no slip":  # which may hold a contact that would part by itself, if it then presses
            assert law(problem, np.zeros_like(solution.impulses)) > 1e-6
        assert law(problem, 1.01 * solution.impulses) > 1e-6
        assert law(problem, solution.impulses + 1e-3 * np.abs(solution.impulses).max()) > 1e-6
    assert checked >= 5


def test_the_motion_of_the_laws_is_the_general_form_of_the_balance():
    rng = np.random.default_rng(3)
    for feet, inverse in KINDS:
        problem = random_step(rng, feet=feet, inverse=inverse, contacts=5)
        solution = dissipation.solve(problem)
        m = laws.motion(problem, solution.impulses)
        expected = problem.contacts.jacobian @ solution.v_plus + oracles.constants(problem)
        np.testing.assert_allclose(m.unit * m.velocities.ravel(), expected, atol=1e-9 * m.unit)


def test_a_wrong_answer_called_solved_is_counted_as_wrong():
    def liar(problem, warm):
        return structs.replace(coulomb.solve(problem, warm), impulses=np.zeros((len(problem.contacts), 3)))

    rng = np.random.default_rng(4)
    tally = Tally()
    model = Model(solve=liar, violation=laws.coulomb, velocities=None)
    for _ in range(5):
        judge_model(model, random_step(rng, feet=False, inverse=False, contacts=4), tally)
    assert tally.wrong >= 3
    rows = Tally()
    judge_solver(lambda rho, r: (SolverStatus.SOLVED, np.zeros(r.size)), np.eye(2), -np.ones(2), True, rows)
    assert rows.wrong == 1


@pytest.mark.parametrize(
    ("solve", "number"),
    [
        (no_slip.solve, 80720),
        (dissipation.no_slip_qp, 46745),
        (dissipation.no_slip_qp, 92569),
        (dissipation.solve, 95253),
    ],
)
def test_impulses_that_lose_too_many_digits_are_not_called_solved(solve, number):
    """The solver's own unknowns obeyed the law; what they were turned into missed it by up to 2e-7."""
    solution = solve(contact_problems.problem_of(Config(), number), None)
    assert (solution.status, solution.note) == (Status.FALLBACK, "inaccurate")
    assert solution.residual > contact_problems.TOLERANCE


@pytest.mark.parametrize("number", [87575, 95253])
def test_convex_steps_that_are_not_solved_are_those_that_double_precision_cannot_express(number):
    tally = Tally()
    judge_model(contact_problems.MODELS["dissipation"], contact_problems.problem_of(Config(), number), tally)
    assert (tally.beyond, tally.missed, tally.wrong) == (1, 0, 0)
    # nor can the matrix that Lemke's method is given; the active set, which is given rows, solves them
    rows, r = contact_problems.edge_rows(contact_problems.problem_of(Config(), number))
    z = contact_problems.SOLVERS["active set"](rows, r)[1]
    assert contact_problems.rows_violation(rows, r, z) <= contact_problems.TOLERANCE
    assert np.abs(np.minimum(z / z.max(), (rows @ rows.T @ z + r) / np.abs(r).max())).max() > contact_problems.TOLERANCE
    tally = Tally()
    judge_solver(contact_problems.SOLVERS["lemke"], rows, r, True, tally)
    assert (tally.beyond, tally.missed, tally.wrong) == (1, 0, 0)
    # nearly all others it can
    rows, r = contact_problems.edge_rows(contact_problems.problem_of(Config(), 3))
    assert not contact_problems.beyond_double(rows, r)


@pytest.mark.parametrize("solve", [no_slip.solve, dissipation.no_slip_qp])
def test_a_contact_that_opens_by_a_quarter_of_a_millimetre_per_second_may_slip(solve):
    """However fast it would be without impulses; here 291 m/s."""
    problem = contact_problems.problem_of(Config(), 29180)
    solution = solve(problem, None)
    assert solution.status is Status.SOLVED
    assert laws.slip(problem, solution.impulses) <= contact_problems.SLIP_SPEED
    # and one that presses may not: without its friction it slips
    impulses = solution.impulses * [1.0, 0.0, 0.0]
    assert laws.slip(problem, impulses) > 1e-3


def test_a_step_reported_unsolved_though_it_has_a_solution_is_counted_as_missed():
    def shy(problem, warm):
        return structs.replace(dissipation.solve(problem, warm), status=Status.FALLBACK)

    rng = np.random.default_rng(5)
    tally = Tally()
    model = Model(solve=shy, violation=laws.dissipation, velocities=contact_problems.edge_rows)
    for inverse in (False, True):
        judge_model(model, random_step(rng, feet=True, inverse=inverse, contacts=3), tally)
    assert tally.missed == 2


def test_certificates_are_found_exactly_where_no_velocity_is_allowed():
    squeeze = np.array([[1.0, 0.0], [-1.0, 0.0]])
    assert excluded(squeeze, np.array([-1.0, 0.5])) is True
    assert excluded(squeeze, np.array([-1.0, 1.5])) is False
    assert excluded(np.eye(2), np.array([-1.0, -1.0])) is False
    assert excluded(np.zeros((1, 2)), np.array([-1.0])) is True


def test_an_interrupted_run_leaves_what_was_counted(tmp_path, monkeypatch):
    monkeypatch.setattr(contact_problems, "SO_FAR_EVERY", 4)

    def interrupt(share):
        if share > 0.0:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ContactProblems().run(Config(problems=60, most_contacts=3), tmp_path, interrupt)
    left = json.loads((tmp_path / "so-far.json").read_text())
    assert left["problems"] == 48
    assert sum(row["problems"] for row in left["rows"] if row["what"] == "viscous") == 48


def test_what_is_wrong_is_named_by_its_number(tmp_path, monkeypatch):
    def liar(problem, warm):
        solution = coulomb.solve(problem, warm)
        return structs.replace(solution, impulses=solution.impulses + (len(problem.contacts) == 2))

    model = Model(solve=liar, violation=laws.coulomb, velocities=None)
    monkeypatch.setattr(contact_problems, "MODELS", {"liar": model})
    config = Config(problems=40, most_contacts=4)
    rows = ContactProblems().run(config, tmp_path, lambda share: None)["rows"]
    failures = [number for row in rows if row["what"] == "liar" for number in row["failures"]]
    assert sorted(failures) == [k for k in range(40) if len(problem_of(config, k).contacts) == 2]
    assert failures


def test_the_suite_finds_nothing_wrong_and_says_what_it_did(tmp_path):
    metrics = ContactProblems().run(Config(problems=120, most_contacts=12), tmp_path, lambda share: None)
    assert metrics["completed"]
    assert metrics["coulomb_forward_solved"] == 1.0
    assert metrics["dissipation_forward_solved"] == 1.0
    for row in metrics["rows"]:
        assert row["wrong"] == 0
        assert row["solved"] + row["wrong"] + row["unsolved"] == row["problems"]
        assert len(row["failures"]) == row["wrong"] + row["missed"]
    assert sum(row["problems"] for row in metrics["rows"] if row["what"] == "coulomb") == 120
