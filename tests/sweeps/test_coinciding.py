"""Which controllers of a comparison did the same, said in a sentence."""

from __future__ import annotations

from pathlib import Path

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
    assert sentence.startswith("a and b coincide at mu 0.8: contacts stuck in 90.0 % of their steps")
    assert "c" not in sentence.split(" coincide")[0]
    assert sentence.count("coincide") == 1


def test_without_sticking_no_reason_is_given():
    runs = [outcome("a", 0.8, 1.0, stuck=0), outcome("b", 0.8, 1.0, stuck=0)]
    assert coinciding(runs) == "a and b coincide."


def test_nothing_is_said_where_controllers_differ():
    assert coinciding([outcome("a", 0.8, 1.0), outcome("b", 0.8, 1.001)]) == ""
