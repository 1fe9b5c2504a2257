"""The suite of random contact problems: its problems and laws; it notices wrong answers."""

import json

import numpy as np
import pytest
from msgspec import structs

from idcontrol.bench import judge
from idcontrol.bench.problems.lcps import edge_rows
from idcontrol.bench.problems.steps import numbered_step, random_step
from idcontrol.experiments import contact_problems
from idcontrol.experiments.contact_problems import Config, JudgedModel, Tally, experiment, judge_model, judge_solver
from idcontrol.models import coulomb, dissipation
from idcontrol.models.sticking import MOVING
from idcontrol.models.whitened import INEXACT
from idcontrol.solvers.status import SolverStatus
from idcontrol.types import Status


def test_a_wrong_answer_called_solved_is_counted_as_wrong():
    def liar(problem, warm):
        return structs.replace(coulomb.solve(problem, warm), impulses=np.zeros((len(problem.contacts), 3)))

    rng = np.random.default_rng(4)
    tally = Tally()
    model = JudgedModel(solve=liar, law="coulomb-lcp", velocities=None)
    for _ in range(5):
        judge_model(model, random_step(rng, feet=False, inverse=False, contacts=4), tally)
    assert tally.wrong >= 3
    rows = Tally()
    judge_solver(lambda rho, r: (SolverStatus.SOLVED, np.zeros(r.size)), np.eye(2), -np.ones(2), True, rows)
    assert rows.wrong == 1


@pytest.mark.parametrize(
    ("solve", "law", "number"), [(dissipation.no_slip_qp, "noslip", 46745), (dissipation.solve, "dissipation", 95253)]
)
def test_impulses_that_lose_too_many_digits_are_kept_and_not_called_solved(solve, law, number):
    """The solver's unknowns obey the law; the impulses computed from them may miss it, even in extended precision.

    The number of lost digits depends on the order in which a computer's BLAS adds.
    """
    problem = numbered_step(number)
    solution = solve(problem, None)
    missed = judge.missed(law, problem, solution.impulses)
    assert missed < 1e-6
    if missed > contact_problems.TOLERANCE:
        assert solution.status is Status.REPAIRED
    if solution.status is not Status.SOLVED:  # because of the residual of the impulses, or of the held rows
        inexact = solution.note == INEXACT and solution.residual > contact_problems.TOLERANCE
        assert inexact or solution.note == MOVING


@pytest.mark.parametrize("number", [87575, 95253])
def test_unsolved_convex_steps_are_beyond_double_precision(number):
    tally = Tally()
    judge_model(contact_problems.MODELS["dissipation"], numbered_step(number), tally)
    assert (tally.beyond_double, tally.missed, tally.wrong) == (1, 0, 0)
    # the active set works on the rows and solves them; Lemke's method works on their matrix and cannot
    rows, r = edge_rows(numbered_step(number))
    z = contact_problems.SOLVERS["active set"](rows, r)[1]
    assert contact_problems.rows_violation(rows, r, z) <= contact_problems.TOLERANCE
    assert np.abs(np.minimum(z / z.max(), (rows @ rows.T @ z + r) / np.abs(r).max())).max() > contact_problems.TOLERANCE
    tally = Tally()
    judge_solver(contact_problems.SOLVERS["lemke"], rows, r, True, tally)
    assert (tally.beyond_double, tally.missed, tally.wrong) == (1, 0, 0)
    # nearly all other steps are within double precision
    rows, r = edge_rows(numbered_step(3))
    assert not contact_problems.beyond_double(rows, r)


def test_a_step_reported_unsolved_though_it_has_a_solution_is_counted_as_missed():
    def shy(problem, warm):
        return structs.replace(dissipation.solve(problem, warm), status=Status.FALLBACK)

    rng = np.random.default_rng(5)
    tally = Tally()
    model = JudgedModel(solve=shy, law="dissipation", velocities=edge_rows)
    for inverse in (False, True):
        judge_model(model, random_step(rng, feet=True, inverse=inverse, contacts=3), tally)
    assert tally.missed == 2


def test_an_interrupted_run_keeps_its_counts(tmp_path, monkeypatch):
    monkeypatch.setattr(contact_problems, "SO_FAR_EVERY", 4)

    def interrupt(share):
        if share > 0.0:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        experiment.run(Config(problems=60, most_contacts=3), tmp_path, interrupt)
    counts = json.loads((tmp_path / "so-far.json").read_text())
    assert counts["problems"] == 48
    assert sum(row["problems"] for row in counts["rows"] if row["what"] == "viscous") == 48


def test_problems_with_wrong_answers_are_reported_by_number(tmp_path, monkeypatch):
    def liar(problem, warm):
        solution = coulomb.solve(problem, warm)
        return structs.replace(solution, impulses=solution.impulses + (len(problem.contacts) == 2))

    model = JudgedModel(solve=liar, law="coulomb-lcp", velocities=None)
    monkeypatch.setattr(contact_problems, "MODELS", {"liar": model})
    config = Config(problems=40, most_contacts=4)
    rows = experiment.run(config, tmp_path, lambda share: None)["rows"]
    failures = [number for row in rows if row["what"] == "liar" for number in row["failures"]]
    assert sorted(failures) == [k for k in range(40) if len(numbered_step(k, most_contacts=4).contacts) == 2]
    assert failures


@pytest.mark.slow
def test_the_suite_finds_no_wrong_answer_and_reports_its_counts(tmp_path):
    metrics = experiment.run(Config(problems=50, most_contacts=12), tmp_path, lambda share: None)
    assert metrics["completed"]
    assert metrics["coulomb_forward_solved"] == 1.0
    assert metrics["dissipation_forward_solved"] == 1.0
    for row in metrics["rows"]:
        assert row["wrong"] == 0
        assert row["solved"] + row["wrong"] + row["unsolved"] == row["problems"]
        assert len(row["failures"]) == row["wrong"] + row["missed"]
    assert sum(row["problems"] for row in metrics["rows"] if row["what"] == "coulomb") == 50
