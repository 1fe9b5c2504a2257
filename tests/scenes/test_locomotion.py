"""The recorded channels of a walking robot."""

from dataclasses import replace

import numpy as np
import pinocchio as pin
import pytest
from scipy.spatial.transform import Rotation

from idcontrol.record.recording import load
from idcontrol.scenes.locomotion import POSTURE, Posture, channels, record_walk
from idcontrol.scenes.walk import WalkConfig, WalkGait, WalkScene
from idcontrol.sweeps.record import why_not
from idcontrol.types import Command, Status
from tests.robots import descriptions


@pytest.mark.parametrize(
    "ground",
    [
        {"robot": "links"},
        {"robot": "go1"},
        {"terrain": "heightmap", "height_map": "bumps"},
        {"robot": "g1", "gait": WalkGait(kind="stand")},
    ],
)
def test_posture_agrees_with_the_whole_machine(ground):
    """Feet, gaps, slip, tilt and centre of mass against `System` and `SphereContacts`, which compute all terms."""
    scene = WalkScene.of(WalkConfig(start_spread_rad=0.0, **ground))
    observer = scene.observer()
    system, model = observer.system, observer.system.model
    rng = np.random.default_rng(0)
    home = scene.start(rng)
    shapes, _ = channels(system, observer.n_feet, soles=observer.sole_patch is not None)
    out = {name: np.full(shapes[name], np.nan) for name in POSTURE}
    posture = Posture(observer, out)
    for _ in range(20):
        q, v = pin.integrate(model, home.q, 0.2 * rng.standard_normal(model.nv)), rng.standard_normal(model.nv)
        posture(q, v)
        system.update(q, v)
        observer.detect(0.0)
        corners = [observer.patch == foot for foot in range(observer.n_feet)]
        slip = observer.slip(system.from_pinocchio(v))
        sole = [system.data.oMf[system.frame(sole.frame)].translation for sole in scene.robot.description.soles]
        # rounding: offsets are summed in another order
        for name, wanted in (
            ("feet", sole or observer.centre),
            ("gap", [observer.gap[of].min() for of in corners]),
            ("slip", [slip[of].max() for of in corners]),
            ("com", system.com(q)),
            ("base_tilt", np.arccos(Rotation.from_quat(q[3:7]).as_matrix()[2, 2])),
        ):
            np.testing.assert_allclose(out[name], wanted, rtol=0.0, atol=1e-12)


class Failing:
    """A controller that fails in its first steps."""

    def __init__(self, controller):
        self.controller, self.steps = controller, 0

    def __call__(self, state, reference):
        self.steps += 1
        if self.steps > 3:
            return self.controller(state, reference)
        return Command(tau=np.zeros(12), status=Status.FAILED, dropped=("the camera is off",))


def test_a_run_records_why_the_controller_failed_once(tmp_path, monkeypatch):
    simulated = WalkScene.simulated

    def failing(scene):
        walk = simulated(scene)
        return replace(walk, controller=Failing(walk.controller))

    monkeypatch.setattr(WalkScene, "simulated", failing)
    metrics = record_walk(WalkScene.of(WalkConfig(duration_s=0.01)), tmp_path / "run")
    assert metrics["failed_because"] == "the camera is off"
    assert [event["what"] for event in load(tmp_path / "run").events] == ["the controller failed: the camera is off"]
    reason = why_not(metrics | {"completed": False, "fell_at_s": 0.13})
    assert reason == "fell at 0.13 s; the controller failed: the camera is off"


@pytest.mark.slow
def test_a_robot_whose_root_frame_is_on_the_ground_walks_to_the_end(tmp_path):
    """The feet sink into soft ground, and the root frame below it: no fall."""
    robot = str(descriptions.footprint(tmp_path / "robot"))
    metrics = record_walk(WalkScene.of(WalkConfig(robot=robot, plant="mujoco", duration_s=1.0)), tmp_path / "run")
    assert metrics["completed"]
    assert metrics["fell_at_s"] is None


def test_power_limits_all_torques_to_a_share(tmp_path):
    """A share of 0.1 does not carry go1, so joints reach their limits."""
    record_walk(WalkScene.of(WalkConfig(robot="go1", power=0.1, duration_s=0.15)), tmp_path / "run")
    limit = WalkScene.of(WalkConfig(robot="go1")).robot.system().effort_limit
    share = np.abs(load(tmp_path / "run").arrays["tau"]) / limit
    assert share.max() == pytest.approx(0.1, rel=1e-12)
