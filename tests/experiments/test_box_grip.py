"""The grip: boxes are held, with as many contacts and variables as the paper had."""

import numpy as np
import pytest

from idcontrol.contact.collision import CollisionContacts
from idcontrol.experiments import box_grip
from idcontrol.experiments.box_grip import Config, Copies


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


@pytest.mark.interpreted
def test_copies_of_a_contact_differ_only_in_their_identity():
    system, geometry = box_grip._machine(Config())
    detector = CollisionContacts(system, geometry, 0.5)
    q = np.zeros(16)
    q[[1, 8]], q[[7, 14]] = (-0.05, 0.05), 1.0
    system.update(q, np.zeros(14))
    once, thrice = detector.detect(1e-3), Copies(detector, 3).detect(1e-3)
    assert (len(once), len(thrice)) == (12, 36)
    assert len(set(thrice.identity.tolist())) == 36
    assert np.array_equal(thrice.N, np.tile(once.N, (3, 1)))
