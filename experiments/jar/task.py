"""The jar, the arms, and the keyframes of the task: pour the marbles into the bowl.

Keyframes are prescribed palm poses and open or closed hands. Contact forces show that a hand holds an object, or that
an object stands (Castro, Permenter & Han 2022, section X-E). A keyframe that brings two objects together prescribes the
pose of the held object. It first measures the object's pose in the hand: hands close with an accuracy of a centimetre,
but a lid fits only within a millimetre.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import pinocchio as pin

from idcontrol.experiments.jar import things
from idcontrol.experiments.jar.hands import Arm
from idcontrol.experiments.jar.machine import PALM, arm_with_hand, parts
from idcontrol.models import sap
from idcontrol.models.sparse import WORLD
from idcontrol.plants.trees import Trees
from idcontrol.types import Array

RIGHT, LEFT = 0, 1
"""Numbers of the arms."""

JAR, LID, BOWL = 2 + things.JAR, 2 + things.LID, 2 + things.BOWL
"""Numbers of the trees of the jar, the lid and the bowl in the plant."""

JAR_AT, BOWL_AT = np.array([0.62, 0.0, 0.0]), np.array([0.62, -0.36, 0.0])
TABLE = np.array([0.5, -0.6, -0.05]), np.array([1.1, 0.6, 0.0])
FEET = np.array([-0.1, -0.35, -0.2]), np.array([-0.1, 0.35, -0.2])
POSTURES = np.array([-0.17, 1.3, 1.1, -1.5, 0.05, -1.58, 0.39]), np.array([0.22, 1.1, -1.2, -1.5, -0.24, -1.53, -0.23])
"""Postures with the elbows outside and above [rad]."""

HELD_N, STANDS_N, SEATED_N = 30.0, 3.0, 3.0
"""Contact force above which a hand holds an object, the jar stands, or the lid sits [N]."""

_PALM_FACE_M = 0.0111
"""Distance from the palm's frame to the palm's face, along x [m]."""

_JAR_X, _JAR_Z, _JAR_UP = _PALM_FACE_M + things.OUTER_M + 0.001, -0.010, 0.078
_LID_X, _LID_Z, _LID_UP = _PALM_FACE_M + 0.5 * things.HANDLE_M[0] + 0.001, -0.0085, things.HEIGHT_M + 0.075
"""Grasps of the jar and the lid's handle: position of the object's axis in the palm's frame, and height of the palm
over the table [m]."""

TIPPED = np.radians(135.0)
_R = np.array([[0.0, 0.0, 1.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
_L = np.array([[0.0, 0.0, 1.0], [-1.0, 0.0, 0.0], [0.0, -1.0, 0.0]])
"""Axes of the right and of the left palm: fingers ahead, palms towards each other."""

Goal = Callable[["Scene"], pin.SE3] | None


class Keyframe(NamedTuple):
    """One step of the task.

    Attributes:
        name: Name.
        duration_s: Duration; with `until` the largest duration.
        right: Returns the target pose of the right palm; None means no motion.
        left: Returns the target pose of the left palm; None means no motion.
        close: True for a hand to be closed: right, left.
        until: Condition that ends the keyframe early; the keyframe fails if it is never met. None uses the whole time.
    """

    name: str
    duration_s: float
    right: Goal = None
    left: Goal = None
    close: tuple[bool, bool] = (False, False)
    until: Callable[[Scene], bool] | None = None


class Scene:
    """The scene and its objects, at rest before the task.

    Attributes:
        plant: Arms, table, jar, lid, bowl, marbles.
        arms: The right and the left arm.
        h: Length of a step [s].
        parameters: SAP's parameters.
    """

    def __init__(self, *, h: float, mu: float, mu_marble: float, parameters: sap.Parameters) -> None:
        """Place all objects and both arms at rest.

        Args:
            h: Length of a step [s].
            mu: Friction of hands, jar, lid, bowl and table.
            mu_marble: Friction of marbles.
            parameters: SAP's parameters.
        """
        self.h, self.parameters = h, parameters
        machines = [arm_with_hand(foot, mirrored=arm == LEFT) for arm, foot in enumerate(FEET)]
        touching = [part for arm, (system, shapes) in enumerate(machines) for part in parts(system, shapes, arm, mu)]
        self.plant = Trees(
            [system for system, _ in machines],
            things.masses(),
            [*touching, *things.parts(2, mu, mu_marble, TABLE)],
            parameters=parameters,
        )
        self.arms = tuple(Arm(system, POSTURES[arm]) for arm, (system, _) in enumerate(machines))
        for arm, pose in zip(self.arms, (_right(-0.3, 0.3), _left(0.3, 0.35)), strict=True):
            arm.put(pose)
        self.plant.reset([arm.ik.q.copy() for arm in self.arms], things.start(JAR_AT, BOWL_AT))

    def pose(self, tree: int) -> pin.SE3:
        """Return the pose of a body, by its tree."""
        bodies = self.plant.state.bodies
        x, y, z, w = bodies.orientation[tree - 2]
        return pin.SE3(pin.Quaternion(w, x, y, z).matrix(), bodies.position[tree - 2].copy())

    def palm(self, arm: int) -> pin.SE3:
        """Return the pose of a palm."""
        system = self.arms[arm].system
        frame = system.frame(PALM)
        return pin.SE3(system.frame_rotation[frame].copy(), system.frame_position[frame].copy())

    def step(self, share: float, close: Sequence[bool]) -> None:
        """Take one step that ends at the fraction `share` of the motion's duration.

        `close` has an entry for each arm, True to close its hand.
        """
        plant = self.plant
        plant.step(
            self.h,
            [
                arm.drive(share, closed, q, self.h)
                for arm, closed, q in zip(self.arms, close, plant.state.q, strict=True)
            ],
        )


def play(scene: Scene, keyframe: Keyframe, observe: Callable[[], None]) -> bool:
    """Play one keyframe; call `observe` after each step; return True on success."""
    for arm, goal in zip(scene.arms, (keyframe.right, keyframe.left), strict=True):
        arm.begin(None if goal is None else goal(scene))
    steps = max(1, round(keyframe.duration_s / scene.h))
    for step in range(1, steps + 1):
        scene.step(step / steps, keyframe.close)
        observe()
        if keyframe.until is not None and keyframe.until(scene):
            for arm in scene.arms:
                arm.stop()
            return True
    return keyframe.until is None


def marbles_in_bowl(scene: Scene) -> int:
    """Return the number of marbles with centres within the bowl's walls and below its rim."""
    bowl, marbles = scene.pose(BOWL), scene.plant.state.bodies.position[things.FIRST_MARBLE :]
    return int(things.in_bowl((marbles - bowl.translation) @ bowl.rotation).sum())


def lid_offset(scene: Scene) -> tuple[float, float]:
    """Return the distance of the lid from its seat on the jar: along and across the jar's axis, both positive [m]."""
    away = scene.pose(JAR).actInv(scene.pose(LID).translation) - things.SEAT
    return abs(float(away[2])), float(np.hypot(away[0], away[1]))


def _right(y: float, z: float, roll: float = 0.0) -> pin.SE3:
    """Return a pose of the right palm in front of the jar's place, rolled about the fingers."""
    c, s = np.cos(roll), np.sin(roll)
    turn = np.array([[1.0, 0.0, 0.0], [0.0, c, -s], [0.0, s, c]])
    return pin.SE3(turn @ _R, np.array([JAR_AT[0] - _JAR_Z, y, z]))


def _left(y: float, z: float) -> pin.SE3:
    """Return a pose of the left palm in front of the jar's place."""
    return pin.SE3(_L, np.array([JAR_AT[0] - _LID_Z, y, z]))


def _carrying(arm: int, tree: int, goal: pin.SE3, scene: Scene) -> pin.SE3:
    """Return the pose of the palm that brings the body in the hand to `goal`."""
    return goal * scene.pose(tree).inverse() * scene.palm(arm)


def _jar_to(up: float) -> Goal:
    """Return the goal of the right palm at which the jar is over its place, its foot at the height `up` [m]."""
    goal = pin.SE3(np.eye(3), JAR_AT + np.array([0.0, 0.0, things.JAR_CENTRE_M + up]))
    return lambda scene: _carrying(RIGHT, JAR, goal, scene)


def _lid_to(up: float) -> Goal:
    """Return the goal of the left palm at which the lid is over the jar, `up` [m] above its seat."""
    seat = pin.SE3(np.eye(3), things.SEAT + np.array([0.0, 0.0, up]))
    return lambda scene: _carrying(LEFT, LID, scene.pose(JAR) * seat, scene)


def _at(pose: pin.SE3) -> Goal:
    return lambda scene: pose


def _raised(arm: int, up: Array) -> Goal:
    """Return the goal of a palm that is `up`, shape (3,) [m], away from its commanded pose."""
    return lambda scene: pin.SE3(scene.arms[arm].pose.rotation, scene.arms[arm].pose.translation + up)


def _holds(arm: int, tree: int) -> Callable[[Scene], bool]:
    return lambda scene: scene.arms[arm].closing == 1.0 and scene.plant.pressing_force(arm, tree) > HELD_N


def _carried(tree: int, by: int, force: float) -> Callable[[Scene], bool]:
    return lambda scene: bool(scene.plant.force_between(tree, by)[2] > force)


_Y, _YL = JAR_AT[1] - _JAR_X, JAR_AT[1] + _LID_X
_BOTH, _FIRST = (True, True), (True, False)
_ASIDE, _OVER_BOWL_Y, _OVER_BOWL_Z = np.array([-0.05, 0.3, 0.0]), -0.25, 0.25

KEYFRAMES = (
    Keyframe("settle", 0.3),
    Keyframe("come near", 1.2, _at(_right(_Y - 0.08, 0.25)), _at(_left(_YL + 0.1, _LID_UP + 0.06))),
    Keyframe("beside the jar", 1.0, _at(_right(_Y - 0.06, _JAR_UP)), _at(_left(_YL + 0.08, _LID_UP))),
    Keyframe("touch", 0.8, _at(_right(_Y, _JAR_UP)), _at(_left(_YL, _LID_UP))),
    Keyframe("grasp the jar", 2.0, close=_FIRST, until=_holds(RIGHT, JAR)),
    Keyframe("grasp the lid", 2.0, close=_BOTH, until=_holds(LEFT, LID)),
    Keyframe("open the jar", 1.5, left=_raised(LEFT, np.array([0.0, 0.0, 0.12])), close=_BOTH),
    Keyframe("lid aside", 1.2, left=_raised(LEFT, _ASIDE), close=_BOTH),
    Keyframe("lift the jar", 1.2, _raised(RIGHT, np.array([0.0, 0.0, 0.2])), close=_BOTH),
    Keyframe("over the bowl", 1.2, _at(_right(_OVER_BOWL_Y, _JAR_UP + 0.2)), close=_BOTH),
    Keyframe("tip", 2.5, _at(_right(_OVER_BOWL_Y, _OVER_BOWL_Z, TIPPED)), close=_BOTH),
    Keyframe("pour", 3.0, close=_BOTH, until=lambda scene: marbles_in_bowl(scene) == things.MARBLES),
    Keyframe("upright", 2.0, _at(_right(_OVER_BOWL_Y, _JAR_UP + 0.2)), close=_BOTH),
    Keyframe("back over its place", 1.5, _jar_to(0.1), close=_BOTH),
    Keyframe("lid over the jar", 1.5, left=_lid_to(0.03), close=_BOTH),
    Keyframe("close the jar", 2.0, left=_lid_to(-0.004), close=_BOTH, until=_carried(LID, JAR, SEATED_N)),
    Keyframe("let the lid go", 1.0, close=_FIRST),
    Keyframe("leave the lid", 1.0, left=_raised(LEFT, np.array([0.0, 0.2, 0.0])), close=_FIRST),
    Keyframe("put the jar back", 2.0, _jar_to(-0.004), close=_FIRST, until=_carried(JAR, WORLD, STANDS_N)),
    Keyframe("let the jar go", 1.0),
    Keyframe("leave the jar", 1.0, _raised(RIGHT, np.array([0.0, -0.1, 0.0]))),
)
