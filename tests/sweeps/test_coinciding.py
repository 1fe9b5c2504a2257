"""The sentence about coinciding controllers of a comparison."""

from pathlib import Path

import pytest

from idcontrol.sweeps.plan import PlannedRun
from idcontrol.sweeps.record import COINCIDE, RunOutcome, coinciding


def outcome(controller, mu, torque, *, stuck=90):
    metrics = dict.fromkeys(COINCIDE, torque) | {"steps": 100, "solver": {"by": {"sticking": stuck}}}
    config = {"controller": controller, "mu": mu}
    row = PlannedRun(experiment="trot", preset="default", changes=config, config=config, name=f"{controller}-{mu}")
    return RunOutcome(row=row, metrics=metrics, reason=None, folder=Path())


def test_controllers_with_the_same_torques_are_named_with_the_reason():
    runs = [outcome("a", 0.8, 1.0), outcome("b", 0.8, 1.0 + 1e-9), outcome("c", 0.8, 1.1), outcome("a", 0.1, 2.0)]
    sentence = coinciding(runs)
    assert sentence.startswith("a and b coincide at mu 0.8: in 90.0 % of their steps all contacts stick")
    assert "c" not in sentence.split(" coincide")[0]
    assert sentence.count("coincide") == 1


def test_different_controllers_get_no_sentence():
    assert coinciding([outcome("a", 0.8, 1.0), outcome("b", 0.8, 1.001)]) == ""


def test_coinciding_controllers_report_the_smallest_share_of_sticking():
    runs = [outcome("a", 0.8, 1.0), outcome("b", 0.8, 1.0, stuck=80.4), outcome("c", 0.8, 1.0)]
    del runs[2].metrics["steps"], runs[2].metrics["solver"]  # a record of another make
    reason = (
        "in 80.4 % of their steps all contacts stick, and the same stage II computes the torques "
        "(with --set inverse.shortcut=false, each solves its own problem)."
    )
    assert coinciding(runs) == f"a, b and c coincide: {reason}"
    for run in runs:
        run.metrics["steps"] = 0
    assert coinciding(runs) == "a, b and c coincide."


@pytest.mark.parametrize("key", COINCIDE)
@pytest.mark.parametrize(("apart", "coincide"), [(4e-6, True), (1e-4, False)])
def test_every_metric_decides_to_six_digits(key, apart, coincide):
    a, b = outcome("a", 0.8, 1.0), outcome("b", 0.8, 1.0)
    b.metrics[key] += apart
    assert bool(coinciding([a, b])) is coincide
