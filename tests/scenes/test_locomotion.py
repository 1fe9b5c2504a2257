"""The recorded channels of a walking robot."""

from __future__ import annotations

import numpy as np
import pinocchio as pin
import pytest
from scipy.spatial.transform import Rotation

from idcontrol.scenes.locomotion import POSTURE, Posture, channels
from idcontrol.scenes.walk import WalkConfig, WalkScene


@pytest.mark.parametrize(
    "ground", [{"robot": "links"}, {"robot": "go1"}, {"terrain": "heightmap", "height_map": "bumps"}]
)
def test_posture_agrees_with_the_whole_machine(ground):
    """Feet, gaps, slip, tilt and centre of mass against `System` and `SphereContacts`, which compute all terms."""
    scene = WalkScene.of(WalkConfig(start_spread_rad=0.0, **ground))
    observer = scene.observer()
    system, model = observer.system, observer.system.model
    rng = np.random.default_rng(0)
    home = scene.start(rng)
    shapes, _ = channels(system, len(scene.feet))
    out = {name: np.full(shapes[name], np.nan) for name in POSTURE}
    posture = Posture(observer, out)
    for _ in range(20):
        q, v = pin.integrate(model, home.q, 0.2 * rng.standard_normal(model.nv)), rng.standard_normal(model.nv)
        posture(q, v)
        system.update(q, v)
        observer.detect(0.0)
        # rounding: offsets are summed in another order
        for name, wanted in (
            ("feet", observer.centre),
            ("gap", observer.gap),
            ("slip", observer.slip(system.from_pinocchio(v))),
            ("com", system.com(q)),
            ("base_tilt", np.arccos(Rotation.from_quat(q[3:7]).as_matrix()[2, 2])),
        ):
            np.testing.assert_allclose(out[name], wanted, rtol=0.0, atol=1e-12)
