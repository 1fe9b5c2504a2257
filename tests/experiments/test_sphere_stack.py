"""The column of spheres: it stands, as deep as the models' laws say."""

import numpy as np
import pytest

from idcontrol.experiments import sphere_stack
from idcontrol.experiments.sphere_stack import Config


def test_columns_stand_under_both_models_and_sink_as_their_laws_say(tmp_path):
    config = Config(sizes=(2, 5), sparse_sizes=(5, 20), steps=200)
    metrics = sphere_stack.experiment.run(config, tmp_path, lambda share: None)
    assert metrics["completed"], {key for key, holds in metrics["checks"].items() if not holds}
    assert metrics["growth_sap"] < 1.5


def test_the_depth_of_a_single_sphere_is_its_weight_over_the_stiffness():
    config = Config(modulus_pa=1e6, radius_m=0.1, damping_n_s_m=0.0)
    weight = 7850.0 * 4.0 / 3.0 * np.pi * 1e-3 * 9.81
    assert sphere_stack.depth(config, "constraint", 1) == pytest.approx(weight / 5e4)
    # a spring that a step resolves is no softer under SAP
    assert sphere_stack.depth(config, "sap", 1) == pytest.approx(weight / 5e4)


def test_a_column_that_is_still_falling_does_not_pass(tmp_path):
    config = Config(plant="sap", sparse_sizes=(3,), steps=3)
    metrics = sphere_stack.experiment.run(config, tmp_path, lambda share: None)
    assert not metrics["completed"]
    assert metrics["ground_force_sap_3"] < 0.5
