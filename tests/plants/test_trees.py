"""Machines and bodies in one plant: weights are carried, springs act within the step, momentum is kept."""

import coal
import numpy as np
import pinocchio as pin
import pytest

from idcontrol.dynamics.bodies import BodyState
from idcontrol.dynamics.system import System
from idcontrol.errors import InputError
from idcontrol.models import sap
from idcontrol.models.sparse import WORLD
from idcontrol.plants.trees import Drive, Mass, Part, Trees

pytestmark = pytest.mark.interpreted

G, H = 9.81, 5e-3


def lift() -> System:
    """Return a platform of 2 kg that slides along z."""
    model = pin.Model()
    joint = model.addJoint(0, pin.JointModelPZ(), pin.SE3.Identity(), "lift")
    model.addJointFrame(joint)
    model.appendBodyToJoint(joint, pin.Inertia(2.0, np.zeros(3), 0.1 * np.eye(3)), pin.SE3.Identity())
    return System(model)


def scene(stiffness: float, tolerance: float = 1e-8) -> tuple[Trees, Drive]:
    """Return a cube of 1 kg on the platform, and the drive that holds the platform at 0."""
    machine = lift()
    platform = Part(
        name="platform",
        shape=coal.Box(0.4, 0.4, 0.02),
        tree=0,
        frame=machine.frame("lift"),
        position=np.array([0.0, 0.0, -0.01]),
        rotation=np.eye(3),
    )
    cube = Part(name="cube", shape=coal.Box(0.1, 0.1, 0.1), tree=1, position=np.zeros(3), rotation=np.eye(3))
    trees = Trees(
        [machine],
        [Mass("cube", 1.0, np.eye(3) / 600.0)],
        [platform, cube],
        parameters=sap.Parameters(tolerance=tolerance),
    )
    trees.reset([np.zeros(1)], BodyState.at_rest(np.array([[0.02, 0.01, 0.05]])))
    one = np.ones(1)
    return trees, Drive(0.0 * one, 0.0 * one, 0.0 * one, stiffness * one, 2.0 * np.sqrt(3.0 * stiffness) * one)


def test_a_spring_of_a_drive_deflects_by_the_weight_that_it_carries():
    stiffness = 1e3
    trees, drive = scene(stiffness)
    for _ in range(200):
        state = trees.step(H, [drive])
    assert state.q[0][0] == pytest.approx(-3.0 * G / stiffness, rel=1e-6)
    assert trees.force_between(1, 0)[2] == pytest.approx(1.0 * G, rel=1e-6)
    assert trees.force_between(0, 1)[2] == pytest.approx(-1.0 * G, rel=1e-6)
    assert trees.pressing_force(0, 1) >= 1.0 * G


def test_a_cube_that_slides_on_the_platform_is_slowed_by_friction_alone():
    trees, drive = scene(1e6)
    trees.reset([np.zeros(1)], BodyState.at_rest(np.array([[0.0, 0.0, 0.05]])))
    moving = trees.state.bodies.velocity.copy()
    moving[0, 0] = 0.4
    trees.state = trees.state._replace(bodies=trees.state.bodies._replace(velocity=moving))
    speed, slid = 0.4, 0
    for _ in range(10):
        state = trees.step(H, [drive])
        force = trees.force_between(1, 0)
        assert state.bodies.velocity[0, 0] == pytest.approx(speed + H * force[0], abs=1e-9)
        speed = state.bodies.velocity[0, 0]
        slid += force[2] > 1.0
        # friction is 0.5 by default; corners of a cube that pitches a little do not slide all in one direction
        assert force[0] == pytest.approx(-0.5 * force[2], rel=5e-3)
    assert slid > 5


def test_parts_that_nothing_carries_and_machines_that_float_are_refused():
    cube = Part(name="cube", shape=coal.Box(0.1, 0.1, 0.1), tree=3, position=np.zeros(3), rotation=np.eye(3))
    with pytest.raises(InputError, match=f"from {WORLD}"):
        Trees([], [Mass("cube", 1.0, np.eye(3))], [cube], parameters=sap.Parameters())
    model = pin.Model()
    joint = model.addJoint(0, pin.JointModelFreeFlyer(), pin.SE3.Identity(), "base")
    model.appendBodyToJoint(joint, pin.Inertia(1.0, np.zeros(3), np.eye(3)), pin.SE3.Identity())
    with pytest.raises(InputError, match="fixed to the world"):
        Trees([System(model)], [], [cube], parameters=sap.Parameters())


def test_a_continuous_joint_is_refused_for_its_two_positions():
    model = pin.Model()
    joint = model.addJoint(0, pin.JointModelRUBZ(), pin.SE3.Identity(), "wheel")
    model.appendBodyToJoint(joint, pin.Inertia(1.0, np.zeros(3), np.eye(3)), pin.SE3.Identity())
    cube = Part(name="cube", shape=coal.Box(0.1, 0.1, 0.1), tree=0, position=np.zeros(3), rotation=np.eye(3))
    with pytest.raises(InputError, match="one position and one velocity; make continuous joints revolute"):
        Trees([System(model, effort_limit=[1.0])], [], [cube], parameters=sap.Parameters())
