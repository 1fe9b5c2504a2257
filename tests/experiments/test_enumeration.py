"""The enumeration with proof, compared with brute force: steps, answers, counts."""

import numpy as np
import pytest

from idcontrol import robots
from idcontrol.bench import judge
from idcontrol.experiments.enumeration import TROT_MU, Config, experiment, measure, nearest_problem
from idcontrol.models.whitened import recover, whiten


@pytest.fixture(scope="module")
def machine():
    robot = robots.load("links")
    feet = robot.contacts(0.7)
    return feet, robot.standing_state(feet.system).q


@pytest.mark.parametrize("contacts", [1, 2, 3, 4])
@pytest.mark.parametrize("still", [True, False])
def test_the_start_solves_the_contact_problem_and_torques_are_consistent(machine, contacts, still):
    rng = np.random.default_rng(contacts)
    for _ in range(3):
        nearest, y, problem = nearest_problem(rng, *machine, contacts, still=still)
        assert len(problem.contacts) == contacts
        assert judge.missed("coulomb-lcp", problem, y.reshape(3, -1).T) < 1e-8
        _, torque = recover(whiten(problem), y)
        np.testing.assert_allclose(nearest.T @ y + nearest.t0, torque, atol=1e-12)
        # with the demand to keep the feet in place, the joints allow a base velocity at which all feet rest
        J = problem.contacts.jacobian
        demand = J[:, 6:] @ problem.prescribed.velocity
        base = np.linalg.lstsq(J[:, :6], -demand, rcond=1e-10)[0]
        rests = np.abs(J[:, :6] @ base + demand).max() < 1e-9
        assert rests == (still or contacts == 1)


def test_no_basis_is_closer_than_the_proved_solution(machine):
    rng = np.random.default_rng(0)
    for number in range(10):
        nearest, start, problem = nearest_problem(rng, *machine, 2, still=number % 2 == 0)
        case = measure(nearest, start, problem)
        assert case.proved
        assert case.nodes < 30  # of 10^2 mode combinations and their parents
        assert case.excess > -1e-6
        assert case.improved > -1e-9


@pytest.mark.slow
def test_the_run_counts_every_case_and_finds_nothing_nearer(tmp_path):
    metrics = experiment.run(Config(cases=2, trot_s=0.1), tmp_path, lambda share: None)
    assert [row["contacts"] for row in metrics["rows"]] == [1, 2, 3, 4]
    for row in metrics["rows"]:
        assert row["proved"] == row["cases"] == 2
        assert row["brute_force"]["nearer"] == 0
    assert metrics["rows"][3]["brute_force"]["us"] is None
    assert metrics["paper"]["nodes_4"] == "2^24 bases"
    for row, mu in zip(metrics["trots"], TROT_MU, strict=True):
        assert row["mu"] == mu
        assert row["proved"] == row["steps"] > 50  # a trot begins on four feet
        assert 0.0 < row["us"]["p50"] <= row["us"]["p99"] <= row["us"]["max"]
