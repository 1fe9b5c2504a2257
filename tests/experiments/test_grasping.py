"""The study of the grasp: what passes, what fails and why."""

from types import SimpleNamespace

import pytest

from experiments.grasping import CONTROLLERS, FRICTIONS, TASKS, _score, study
from experiments.tables.results import PAPER


@pytest.mark.parametrize(
    ("metrics", "found"),
    [
        ({"dropped_at_s": None, "dtau_mean_nm_s": 4.0}, "pass"),
        ({"dropped_at_s": None, "dtau_mean_nm_s": 60.0}, "fail: torque chatter, 10 times pid's"),
        ({"dropped_at_s": 0.5, "dtau_mean_nm_s": 4.0}, "fail: drops the box at 0.50 s"),
        (None, "fail: a fault"),
    ],
)
def test_a_grasp_passes_if_it_holds_without_chatter(metrics, found):
    outcome = SimpleNamespace(metrics=metrics, reason="a fault", metric=(metrics or {}).get)
    assert _score(outcome, 6.0) == found


def test_it_runs_the_papers_controllers_at_both_frictions():
    assert len(study.runs) == len(CONTROLLERS) * len(FRICTIONS)
    assert set(PAPER["scores"]["columns"]) <= set(CONTROLLERS)
    assert all("grasping" in PAPER["scores"]["rows"][number]["task"] for number in TASKS)
