"""The grip: boxes are held, with as many contacts and variables as the paper had."""

import pytest

from idcontrol.experiments import box_grip
from idcontrol.experiments.box_grip import Config


@pytest.mark.slow
def test_no_slip_holds_the_boxes_and_needs_a_sixth_of_the_variables(tmp_path):
    metrics = box_grip.experiment.run(Config(steps=12, trials=1), tmp_path, lambda share: None)
    assert metrics["completed"]
    assert metrics["variables_noslip"] == 36
    assert metrics["variables_coulomb_lcp"] == 216
    # no slip holds tangential velocities to rounding: 12 steps of it
    assert abs(metrics["drop_noslip_m"]) < 1e-14
    assert abs(metrics["drop_coulomb_lcp_m"]) < 1e-9
    # solved afresh each step, Lemke's method needs many more pivots than principal pivoting
    assert metrics["pivots_mean_coulomb_lcp"] > 5.0 * metrics["pivots_mean_noslip"]


@pytest.mark.slow
def test_too_little_friction_lets_the_boxes_fall_and_the_run_says_so(tmp_path):
    """Two faces carry at most 2 μ F = 10 N, two boxes weigh 19.6 N."""
    config = Config(plant="coulomb-lcp", mu=0.1, steps=20, trials=1)
    metrics = box_grip.experiment.run(config, tmp_path, lambda share: None)
    assert not metrics["completed"]
    assert metrics["steps_held_coulomb_lcp"] < 20
