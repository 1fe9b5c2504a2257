"""Claims on measured data: the data in a folder is judged, and a folder without data is refused."""

import numpy as np
import pytest

from idcontrol.bench.claims import weigh
from idcontrol.bench.league.problems import FrictionProblem
from idcontrol.errors import InputError
from idcontrol.experiments import reality
from tests.experiments.measured import measured

pytestmark = pytest.mark.interpreted

ONE = FrictionProblem("one", np.eye(3), np.array([-1.0, 0.2, 0.0]), np.array([0.5]))
"""A point of 1 kg that falls at 1 m/s and slides at 0.2 m/s: it sticks."""
UNSOLVABLE = FrictionProblem("none", np.zeros((3, 3)), np.array([-1.0, 0.0, 0.0]), np.array([0.5]))
"""A contact approaches, and no impulse can stop it."""


def write(folder, problem):
    """Write a problem to a file of its name in `folder`."""
    folder.mkdir(exist_ok=True)
    np.savez_compressed(folder / f"{problem.name}.npz", W=problem.W, q=problem.q, mu=problem.mu)


def test_solved_public_problems_hold_and_an_unsolvable_one_fails(tmp_path):
    write(tmp_path / reality.PROBLEMS, ONE)
    (claim,) = reality.claims(tmp_path)
    verdict = weigh(claim)
    assert verdict.holds
    assert verdict.figure < 1e-12
    write(tmp_path / reality.PROBLEMS, UNSOLVABLE)
    assert not weigh(claim).holds


def test_a_folder_without_any_of_the_data_is_refused_in_one_line(tmp_path):
    with pytest.raises(
        InputError, match=r"^--data: .* has none of cube_tosses.npz, icub_walk.npz and friction_problems/"
    ):
        reality.claims(tmp_path)


@pytest.mark.slow
def test_all_claims_on_measured_data_hold():
    folder = measured(reality.TOSSES).parent
    verdicts = [weigh(claim) for claim in reality.claims(folder)]
    assert len(verdicts) == 3
    assert all(verdict.holds for verdict in verdicts), [(v.figure, v.fault) for v in verdicts]
