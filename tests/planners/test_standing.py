"""A standing machine whose encoders err holds its base."""

import numpy as np
import pytest

from idcontrol.scenes.walk import WalkConfig, WalkPath, WalkScene
from idcontrol.sensing import Sensing
from idcontrol.sensing.disturbance import BiasLevel


@pytest.mark.slow
@pytest.mark.parametrize(
    ("robot", "controller", "base"),
    [("go1", "id-coulomb-qp", "estimated"), ("go1", "pid", "plant"), ("solo12", "id-coulomb-qp", "plant")],
)
def test_ten_minutes_of_standing_with_encoders_that_err_move_no_base(robot, controller, base):
    path = WalkPath(kind="command", stand_from_s=0.0)
    sensing = Sensing(base=base, bias=BiasLevel(encoder_rad=0.03))
    config = WalkConfig(robot=robot, controller=controller, path=path, sensing=sensing)
    ticks = WalkScene.of(config).simulated().ticks(600_000)
    poses = np.array([tick.state.q[:7] for k, tick in enumerate(ticks) if k % 1000 == 0])
    # It moves over its feet within 5 s; then it rests, up to the tolerance of the plant.
    assert np.abs(poses[5:] - poses[5]).max() < 1e-4
