"""A trot on the robot file's actuators, which the controller models rightly or wrongly."""

import numpy as np
import pytest

from idcontrol.config import configuration
from idcontrol.errors import InputError
from idcontrol.scenes.locomotion import record_walk
from idcontrol.scenes.walk import WalkConfig, WalkScene

REAL = {"robot": "go1", "actuators.kind": "robot"}


def scene(settings):
    return WalkScene.of(configuration.build(WalkConfig(), settings))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["torque", "impedance"])
@pytest.mark.parametrize("error", [0.0, 0.3, -0.3])
def test_a_trot_goes_on_with_actuators_modelled_right_or_30_percent_wrong(tmp_path, error, kind):
    settings = REAL | {"actuators.error": error, "command.kind": kind, "duration_s": 1.0}
    metrics = record_walk(scene(settings), tmp_path)
    assert metrics["completed"]
    # 1 mrad with the right model and 4 with a wrong one; a joint stuck in friction would be off by far more
    assert metrics["q_err_rad"] < (2e-3 if error == 0.0 else 8e-3)


def test_the_controller_uses_the_robot_file_and_the_plant_differs_by_the_error():
    walk = scene(REAL | {"actuators.error": 0.3, "actuators.delay_s": 0.001})
    assumed = walk.controller_setup().system.actuators
    assert assumed is not None
    np.testing.assert_array_equal(assumed.armature, 0.01)
    np.testing.assert_array_equal(assumed.delay, 0.001)
    np.testing.assert_allclose(walk.plant(1e-3)._system.actuators.friction, 1.3 * assumed.friction)
    assert scene({"robot": "go1"}).controller_setup().system.actuators is None


def test_settings_of_ideal_or_unknown_actuators_are_refused():
    with pytest.raises(InputError, match=r"actuators\.error, bandwidth_hz and delay_s are for actuators\.kind=robot"):
        scene({"robot": "go1", "actuators.error": 0.3})
    with pytest.raises(InputError, match=r"robot\.toml: it has no actuators; add the table \[actuators\]"):
        scene({"robot": "links", "actuators.kind": "robot"}).simulated()
