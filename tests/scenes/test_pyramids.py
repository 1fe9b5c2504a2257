"""The friction pyramids of plants and controllers: the friction of a robot that slides along axes and diagonals.

Zapolsky & Drumwright's recorded grasp of friction 1 has √2 along the axes of the box and 1 along their diagonals.
"""

from typing import Any

import numpy as np
import pinocchio as pin
import pytest
from msgspec import structs

from idcontrol import controllers
from idcontrol.bench.problems import machines
from idcontrol.contact.terrain import plane
from idcontrol.controllers.inverse import InverseDynamics
from idcontrol.experiments.grasp import PRESETS
from idcontrol.plants import build, contact_law
from idcontrol.scenes.grasp import GraspConfig, GraspScene
from idcontrol.scenes.settings import AssumedFriction
from idcontrol.scenes.walk import Patch, WalkConfig, WalkScene
from idcontrol.scenes.whole_body import WholeBodyConfig, WholeBodyScene
from tests.parameters import one_fast

pytestmark = pytest.mark.interpreted

MU = 0.2
WIDE, NARROW = np.sqrt(2.0), np.sqrt(0.5)
AXES, DIAGONALS = (0.0, 0.5 * np.pi, np.pi), (0.25 * np.pi, -0.75 * np.pi)


def friction(pyramid: Any) -> AssumedFriction:
    return AssumedFriction(share=1.0, cap=10.0, pyramid=pyramid)


def along(angle: float) -> np.ndarray:
    return np.array([np.cos(angle), np.sin(angle), 0.0])


def used(force: np.ndarray, angle: float) -> float:
    """Friction against a slip at `angle`, of all contacts together, over their normal force and `MU`."""
    return float(-force.sum(axis=0) @ along(angle) / (MU * force[:, 2].sum()))


def slid(scene: WalkScene, angle: float) -> np.ndarray:
    """Forces on the feet of a limp robot that slides at 1 m/s."""
    plant = scene.plant(scene.period_s)
    start = scene.robot.standing_state()
    v = np.concatenate((along(angle), np.zeros(start.v.size - 3)))
    plant.reset(structs.replace(start, v=v))
    plant.step(np.zeros(start.v.size - 6), scene.period_s)
    return plant.contact_forces().force


def predicted(scene: WalkScene, angle: float) -> np.ndarray:
    """Forces on the feet predicted by a controller that holds the pose of a robot sliding at 1 m/s."""
    setup = scene.controller_setup()
    start = scene.robot.standing_state(setup.system)
    v = np.concatenate((along(angle), np.zeros(start.v.size - 3)))
    command = controllers.build(scene.config.controller, setup)(
        structs.replace(start, v=v), scene.robot.standing_reference()
    )
    assert not command.dropped
    assert command.predicted is not None
    return command.predicted.force


@pytest.mark.covering
@pytest.mark.parametrize(("pyramid", "wide"), [("inscribed", 1.0), ("circumscribed", WIDE), ("original", WIDE)])
@pytest.mark.parametrize("plant", ["coulomb-lcp", "dissipation", "constraint"])
def test_a_sled_has_the_friction_of_its_plants_pyramid(plant, pyramid, wide):
    for angles, expected in ((AXES, wide), (DIAGONALS, NARROW * wide)):
        for angle in angles:
            sled = build(plant, machines.sled(plane(), friction(pyramid).of_plant(MU, contact_law(plant))))
            sled.reset(machines.sled_state(v=np.concatenate((along(angle), np.zeros(3)))))
            sled.step(np.zeros(0), machines.H)
            # compliance and Newton's tolerance leave a millionth
            assert used(sled.contact_forces().force, angle) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("pyramid", ["circumscribed", "original"])
@pytest.mark.parametrize("plant", ["coulomb-cone", "sap", "penalty", "noslip", "viscous", "mujoco", "pybullet"])
def test_plants_without_a_pyramid_keep_their_friction(plant, pyramid):
    assert friction(pyramid).of_plant(MU, contact_law(plant)) == MU


def test_a_user_s_controller_or_plant_says_that_its_cone_is_a_pyramid(tmp_path):
    file, calls = tmp_path / "mine.py", "    def __call__(self, state, reference): ...\n    def reset(self): ...\n"
    law = "    contact_law = ContactLaw(cone='pyramid')\n"
    file.write_text(f"from idcontrol.types import ContactLaw\nclass Known:\n{law}{calls}\nclass Unknown:\n{calls}")
    settings: Any = {"mu": MU, "friction": friction("circumscribed"), "controller": f"{file}:Known"}
    wide = pytest.approx(WIDE * MU)
    for known in (WalkConfig(**settings), GraspConfig(**settings)):
        assert reported(known) == {"mu_plant": wide, "mu_controller": wide}
        result = reported(structs.replace(known, controller=f"{file}:Unknown", plant=f"{file}:Unknown"))
        assert (result["mu_plant"], result["mu_controller"]) == (MU, MU)
        assert [note.partition(":")[0] for note in result["notes"].values()] == [
            "friction.pyramid does not reach this plant",
            "friction.pyramid does not reach this controller",
        ]


def reported(config: WalkConfig | GraspConfig) -> dict[str, Any]:
    scene = WalkScene.of(config) if isinstance(config, WalkConfig) else GraspScene.of(config)
    return scene.friction


@pytest.mark.parametrize(("pyramid", "wide"), [("inscribed", 1.0), ("circumscribed", WIDE), ("original", WIDE)])
def test_a_robot_that_slides_has_the_friction_of_its_plants_pyramid(pyramid, wide):
    for config in (
        WalkConfig(mu=MU, friction=friction(pyramid)),
        WalkConfig(mu=1.0, mu_range=(MU, MU), friction=friction(pyramid)),
        WalkConfig(mu=1.0, patch=Patch(mu=MU, x_m=(-1.0, 1.0)), friction=friction(pyramid)),
    ):
        scene = WalkScene.of(config)
        assert used(slid(scene, 0.0), 0.0) == pytest.approx(wide, rel=1e-6)
        assert used(slid(scene, 0.25 * np.pi), 0.25 * np.pi) == pytest.approx(NARROW * wide, rel=1e-6)


@pytest.mark.parametrize(
    ("pyramid", "on_axes", "on_diagonals"),
    [("inscribed", 1.0, NARROW), ("circumscribed", WIDE, 1.0), ("original", NARROW, 1.0)],
)
@pytest.mark.parametrize(
    "controller", one_fast(("id-coulomb-lcp", "id-coulomb-qp", "id-coulomb-qp-1", "id-constraint"), "id-coulomb-qp")
)
def test_a_controller_predicts_the_friction_of_its_pyramid(controller, pyramid, on_axes, on_diagonals):
    scene = WalkScene.of(WalkConfig(mu=MU, friction=friction(pyramid), controller=controller))
    for angles, expected in ((AXES, on_axes), (DIAGONALS, on_diagonals)):
        for angle in angles:
            assert used(predicted(scene, angle), angle) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("pyramid", ["inscribed", "circumscribed", "original"])
@pytest.mark.parametrize("controller", ["id-coulomb-cone", "id-sap"])
def test_a_circular_cone_is_no_pyramid(controller, pyramid):
    scene = WalkScene.of(WalkConfig(mu=MU, friction=friction(pyramid), controller=controller))
    for angle in (0.0, 0.3, 0.25 * np.pi):
        assert used(predicted(scene, angle), angle) == pytest.approx(1.0, rel=1e-5)


def test_soles_turn_their_tangents_to_the_original_pyramid():
    tangents = []
    for pyramid in ("inscribed", "original"):
        controller = WholeBodyScene(WholeBodyConfig(robot="g1", friction=friction(pyramid)))._controller
        assert isinstance(controller, InverseDynamics)
        controller._system.update(pin.neutral(controller._system.model), np.zeros(controller._system.n_velocities))
        tangents.append(controller._contacts.detect(np.inf).axes[:, 1])
    np.testing.assert_allclose(np.einsum("nd,nd->n", *tangents), NARROW, rtol=1e-12)


def test_original_fingertips_have_the_circumscribed_pyramid_in_box_axes():
    scene = GraspScene.of(structs.replace(PRESETS["paper"], mu=MU))
    tips = scene.tips(scene.system(), scene.mu_plant)
    tips.system.update(scene.start().q, scene.start().v)
    result = tips.detect(np.inf)
    np.testing.assert_allclose(np.sort(np.abs(result.axes[:, 1]), axis=1), [[0.0, 0.0, 1.0]] * 4, rtol=0, atol=1e-12)
    np.testing.assert_allclose(result.mu, WIDE * MU, rtol=1e-12)
