"""The jar: 160 velocities, weights that are carried, a lid that stays on, hands that are mirror images."""

import coal
import numpy as np
import pinocchio as pin
import pytest

from idcontrol.dynamics.system import System
from idcontrol.experiments.jar import things
from idcontrol.experiments.jar.machine import ARM_JOINTS, PALM, arm_with_hand
from idcontrol.experiments.jar.task import BOWL, JAR, KEYFRAMES, LID, Keyframe, Scene, lid_offset, marbles_in_bowl, play
from idcontrol.models import sap
from idcontrol.models.sparse import WORLD
from idcontrol.plants.trees import Drive, Part, Trees

G = 9.81
MARBLES_KG = things.MARBLES * things.MARBLE_KG


@pytest.fixture(scope="module")
def settled() -> Scene:
    """The scene after its first keyframe."""
    scene = Scene(h=5e-3, mu=0.8, mu_marble=0.3, parameters=sap.Parameters(tolerance=1e-6))
    assert play(scene, KEYFRAMES[0], lambda: None)
    return scene


def test_marbles_at_rest_in_the_jar_carry_their_weight_and_the_table_carries_all(settled):
    plant = settled.plant
    from_jar = sum(plant.force_between(JAR, 2 + things.FIRST_MARBLE + i)[2] for i in range(things.MARBLES))
    assert from_jar == pytest.approx(-MARBLES_KG * G, rel=1e-2)
    assert plant.force_between(LID, JAR)[2] == pytest.approx(things.LID_KG * G, rel=1e-2)
    everything = things.JAR_KG + things.LID_KG + MARBLES_KG
    assert plant.force_between(JAR, WORLD)[2] == pytest.approx(everything * G, rel=1e-2)
    assert plant.force_between(BOWL, WORLD)[2] == pytest.approx(things.BOWL_KG * G, rel=1e-2)
    assert marbles_in_bowl(settled) == 0
    assert max(lid_offset(settled)) < 1e-4


def test_the_lid_stays_on_a_jar_that_is_lifted_tilted_and_shaken():
    model = pin.Model()
    first = model.addJoint(0, pin.JointModelPZ(), pin.SE3.Identity(), "up")
    model.appendBodyToJoint(first, pin.Inertia(1.0, np.zeros(3), np.eye(3)), pin.SE3.Identity())
    second = model.addJoint(first, pin.JointModelRY(), pin.SE3.Identity(), "tilt")
    model.appendBodyToJoint(second, pin.Inertia(1.0, np.zeros(3), np.eye(3)), pin.SE3.Identity())
    model.addJointFrame(second)
    tray = System(model)
    low, high = np.array([-0.2, -0.2, -0.02]), np.array([0.2, 0.2, 0.0])
    parts = [part for part in things.parts(1, 0.8, 0.3, (low, high)) if part.name != "table"]
    parts.append(
        Part(
            name="tray",
            shape=coal.Box(*(high - low)),
            tree=0,
            frame=tray.frame("tilt"),
            position=0.5 * (low + high),
            rotation=np.eye(3),
            mu=0.8,
        )
    )
    plant = Trees([tray], things.masses(), parts, parameters=sap.Parameters(tolerance=1e-4))
    plant.reset([np.zeros(2)], things.start(np.array([-0.1, 0.0, 0.0]), np.array([0.08, 0.0, 0.0])))
    h, stiff = 5e-3, np.full(2, 1e6)
    for step in range(200):
        t = step * h
        target = np.array([0.2 * t + 0.002 * np.sin(25.0 * t), 0.15 * np.sin(3.0 * t)])
        state = plant.step(h, [Drive(np.zeros(2), target, np.zeros(2), stiff, np.full(2, 1e3))])
    bodies = state.bodies
    turn = pin.Quaternion(bodies.orientation[things.JAR]).matrix()
    away = turn.T @ (bodies.position[things.LID] - bodies.position[things.JAR]) - things.SEAT
    assert bodies.position[things.JAR, 2] > 0.2
    assert np.hypot(away[0], away[1]) < things.PEG_PLAY_M + 1e-4
    assert abs(away[2]) < 1e-3


def test_both_hands_are_mirror_images():
    tips = []
    for mirrored in (False, True):
        system, shapes = arm_with_hand(np.zeros(3), mirrored=mirrored)
        fingers = np.tile([0.1, 0.4, 0.5, 0.6], 3) * ([-1.0, 1.0, 1.0, 1.0] * 3 if mirrored else 1.0)
        q = np.concatenate([np.zeros(ARM_JOINTS), fingers, [0.9, 0.4, 0.5, 0.6]])
        data = system.model.createData()
        pin.framesForwardKinematics(system.model, data, q)
        palm = data.oMf[system.frame(PALM)]
        tips.append([palm.actInv(data.oMf[system.frame(s.frame)].act(np.array(s.centre))) for s in shapes])
    right, mirrored = np.array(tips[0]), np.array(tips[1]) * [1.0, -1.0, 1.0]
    # fingers are numbered from +y on both hands
    ours = {tuple(point.round(9) + 0.0) for point in mirrored}
    assert ours == {tuple(point.round(9) + 0.0) for point in right}


def test_a_keyframe_that_waits_in_vain_fails(settled):
    seen = []
    never = Keyframe("wait", 0.02, until=lambda scene: False)
    assert not play(settled, never, lambda: seen.append(0))
    assert len(seen) == 4
    assert play(settled, never._replace(until=lambda scene: True), lambda: seen.append(0))
    assert len(seen) == 5
