"""The league: problems as files and from steps, solvers that answer them, and the command."""

import json
from pathlib import Path

import numpy as np
import pytest

from idcontrol.bench.judge import miss
from idcontrol.bench.league import solvers
from idcontrol.bench.league.problems import RECORDED, FrictionProblem, of_step, read
from idcontrol.bench.league.solvers import OURS, Solver, entered, plain
from idcontrol.bench.problems.steps import numbered_step
from idcontrol.cli import main
from idcontrol.errors import InputError
from idcontrol.experiments import league
from idcontrol.experiments.league import Config, problems, run
from idcontrol.models import coulomb_cone
from idcontrol.solvers.status import SOLVED
from idcontrol.types import Status
from tests import GUARD_S
from tests.experiments.measured import measured

pytestmark = pytest.mark.interpreted

ONE = FrictionProblem("one", np.eye(3), np.array([-2.0, 3.0, 4.0]), np.array([0.5]))


@pytest.mark.parametrize("number", range(8))
def test_a_delassus_operator_maps_impulses_to_contact_velocities(number):
    step = numbered_step(number, seed=5, most_contacts=6)
    problem, solution = of_step("step", step), coulomb_cone.solve(step)
    if solution.status is not Status.SOLVED:
        pytest.skip("a squeeze")
    contacts = step.contacts
    u = contacts.jacobian @ solution.v_plus - contacts.surface_velocity
    u[: len(contacts)] += contacts.gap / step.h
    velocities = problem.W @ solution.impulses.ravel() + problem.q
    np.testing.assert_allclose(velocities, u.reshape(3, -1).T.ravel(), rtol=0, atol=1e-9 * np.abs(problem.q).max())
    assert miss(problem.W, problem.q, problem.mu, solution.impulses.ravel()) < 1e-8


def test_our_solver_solves_all_recorded_problems_of_trots_and_grasps():
    recorded = read([RECORDED])
    assert len(recorded) == 48
    for problem in recorded:
        outcome, r = coulomb_cone.solve_delassus(problem.W, problem.q, problem.mu)
        assert outcome.status == SOLVED, problem.name
        assert miss(problem.W, problem.q, problem.mu, r) < 1e-9, problem.name


def test_our_solver_solves_the_public_problems_of_up_to_a_hundred_contacts():
    folder = measured("contactbench/2cubes_t0.npz").parents[1]
    known = read([folder / "friction_problems", folder / "contactbench"])
    assert len(known) == 25
    for problem in known:
        if problem.mu.size > 100:
            continue
        outcome, r = coulomb_cone.solve_delassus(problem.W, problem.q, problem.mu)
        assert outcome.status == SOLVED, problem.name
        assert miss(problem.W, problem.q, problem.mu, r) < 1e-8, problem.name


def write(folder, problem):
    folder.mkdir()
    np.savez(folder / f"{problem.name}.npz", **{key: getattr(problem, key) for key in ("W", "q", "mu")})


def test_a_problem_is_read_as_it_was_written(tmp_path):
    write(tmp_path / "mine", ONE)
    (loaded,) = read([tmp_path])
    assert loaded.name == "mine/one"
    for velocities, kept in zip(loaded[1:], ONE[1:], strict=True):
        np.testing.assert_array_equal(velocities, kept)


@pytest.mark.parametrize(
    ("arrays", "velocities"),
    [
        ({"W": np.eye(3), "q": np.zeros(3)}, "mu"),
        ({"W": np.eye(3), "q": np.zeros(3), "mu": np.ones(2)}, "2 frictions need"),
        ({"W": np.eye(3), "q": np.zeros(3), "mu": -np.ones(1)}, "not negative"),
        ({"W": np.full((3, 3), np.nan), "q": np.zeros(3), "mu": np.ones(1)}, "finite"),
    ],
)
def test_a_file_that_is_no_problem_is_refused_in_one_line(tmp_path, arrays, velocities):
    np.savez(tmp_path / "bad.npz", **arrays)
    with pytest.raises(InputError, match=velocities) as refused:
        read([tmp_path])
    assert "bad.npz" in str(refused.value)


@pytest.mark.parametrize("solver", [s for s in entered() if s.name != OURS], ids=lambda solver: solver.name)
def test_peers_solve_an_easy_problem(solver, monkeypatch):
    monkeypatch.setattr(solvers, "LIMIT_S", GUARD_S)  # some take long to import on a busy computer
    answer = solver.answer(ONE)
    assert answer.r is not None
    np.testing.assert_allclose(answer.r, [2.0, -0.6, -0.8], rtol=1e-6)
    assert answer.seconds > 0.0


@pytest.mark.parametrize(
    ("script", "seconds"), [("import os; os.abort()", np.nan), ("import time; time.sleep(60)", np.inf)]
)
def test_a_crashed_or_hanging_peer_is_restarted_for_the_next_problem(tmp_path, monkeypatch, script, seconds):
    (tmp_path / "peers.py").write_text(script)
    monkeypatch.setattr(solvers, "SCRIPT", tmp_path / "peers.py")
    monkeypatch.setattr(solvers, "LIMIT_S", 1.0)
    peer = entered()[1]
    for _ in range(2):  # the second problem finds a new process
        answer = peer.answer(ONE)
        assert answer.r is None
        np.testing.assert_equal(answer.seconds, seconds)


def test_false_successes_are_counted_per_solver(monkeypatch):
    field = [
        Solver(OURS, plain(lambda W, q, mu: coulomb_cone.solve_delassus(W, q, mu)[1])),
        Solver("liar", plain(lambda W, q, mu: np.zeros(q.size))),
        Solver("honest", plain(lambda W, q, mu: None)),
        Solver("small", plain(lambda W, q, mu: None), most=0),
    ]
    monkeypatch.setattr(league, "entered", lambda: field)
    monkeypatch.setattr(solvers, "PATIENCE_S", 1e-9)  # times do not matter here
    metrics = run(Config(random=0, hostile=0), lambda share: None)
    ours, liar, honest, small = metrics.extra["solvers"]
    assert ours["solved"] == ours["tried"] == metrics.extra["problems"] == 48
    assert ours["fastest"] == 48
    assert liar["false_success"] == 48
    assert liar["solved"] == 0
    assert honest["false_success"] == small["false_success"] == 0
    assert honest["unsolved_though_solvable"] == 48
    assert small["tried"] == small["unsolved_though_solvable"] == 0


def test_hostile_and_random_problems_are_reproducible_and_of_the_requested_number():
    first, again = (problems(Config(random=4, hostile=5)) for _ in range(2))
    names = [problem.name for problem in first if not problem.name.startswith("recorded/")]
    assert len(names) == 9
    for one, other in zip(first, again, strict=True):
        np.testing.assert_array_equal(one.W, other.W)


def test_the_command_takes_sets_and_solvers_of_the_users(tmp_path, monkeypatch, capsys):
    write(tmp_path / "recorded", ONE)
    write(tmp_path / "more", ONE._replace(name="two"))
    monkeypatch.setattr(league, "RECORDED", tmp_path / "recorded")
    monkeypatch.setattr(league, "entered", lambda: entered()[:1])
    monkeypatch.setattr(solvers, "PATIENCE_S", 1e-9)
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text("import numpy as np\ndef solve(W, q, mu):\n    return [2.0, -0.6, -0.8]\n")
    asked = ["--set", 'data=["more"]', "--set", 'solvers=["mine.py:solve"]', "--set", "random=0", "--set", "hostile=0"]
    assert main(["league", "--json", *asked]) == 0
    velocities = json.loads(capsys.readouterr().out)
    assert velocities["problems"] == 2
    assert [row["name"] for row in velocities["solvers"]] == [OURS, "mine.py:solve"]
    assert all(row["solved"] == 2 and row["false_success"] == 0 for row in velocities["solvers"])
    assert main(["league", *asked]) == 0
    assert "mine.py:solve" in capsys.readouterr().out
    assert main(["league", "--set", 'data=["nowhere"]']) == 2
    assert "nowhere" in capsys.readouterr().err
