"""The controller on every plant: prediction and tracking under contact models that are not its own."""

import importlib.util

import pytest

from idcontrol import plants
from idcontrol.scenes.locomotion import record_walk
from idcontrol.scenes.walk import WalkConfig, WalkScene


@pytest.mark.slow
@pytest.mark.parametrize("robot", ["links", "go1"])
@pytest.mark.parametrize("plant", plants.available())
def test_the_trot_completes_on_every_plant(plant, robot, tmp_path):
    if plant in ("mujoco", "pybullet") and importlib.util.find_spec(plant) is None:
        pytest.skip(f"{plant} is not installed")
    config = WalkConfig(controller="id-coulomb-qp", plant=plant, robot=robot, duration_s=5.0)
    metrics = record_walk(WalkScene.of(config), tmp_path)
    assert metrics["completed"]
    assert metrics["solver"]["fallback"] == metrics["solver"]["failed"] == 0
    # On rigid and nearly rigid ground the goals of the trot hold. On soft ground the feet sink by a
    # millimetre, which is 0.01 rad in legs of 0.16 m, and forces build up later than predicted.
    soft = plant == "penalty"
    assert metrics["q_err_rad"] < (0.02 if soft else 0.004)
    assert metrics["force_err_rel"] < (0.03 if soft else 0.01)
