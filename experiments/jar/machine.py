"""A Kuka LBR iiwa 14 with an Allegro hand (23 joints, fixed to the world), and the boxes and spheres of the hand.

Joint frames, masses and inertias of the arm follow Bullet's and Drake's URDFs of the iiwa 14; the hand and its
collision shapes follow Wonik Robotics' URDF. A left hand is the right hand, mirrored in y.
"""

from typing import NamedTuple

import coal
import numpy as np
import pinocchio as pin

from idcontrol.dynamics.system import System
from idcontrol.plants.trees import Part
from idcontrol.types import Array

ARM_JOINTS, FINGER_JOINTS = 7, 16

PALM = "palm"
"""Name of the palm's frame: x points out of the palm, z along the straight fingers."""

_ARM = (
    # joint origin in the previous frame: roll, pitch, yaw, x, y, z; then mass, centre, moments of inertia, range of
    # angle
    ((0.0, 0.0, 0.0, 0.0, 0.0, 0.1575), 4.0, (0.0, -0.03, 0.12), (0.1, 0.09, 0.02), 2.967),
    ((0.5, 0.0, 1.0, 0.0, 0.0, 0.2025), 4.0, (0.0003, 0.059, 0.042), (0.05, 0.018, 0.044), 2.094),
    ((0.5, 0.0, 1.0, 0.0, 0.2045, 0.0), 3.0, (0.0, 0.03, 0.13), (0.08, 0.075, 0.01), 2.967),
    ((0.5, 0.0, 0.0, 0.0, 0.0, 0.2155), 2.7, (0.0, 0.067, 0.034), (0.03, 0.01, 0.029), 2.094),
    ((-0.5, 1.0, 0.0, 0.0, 0.1845, 0.0), 1.7, (0.0001, 0.021, 0.076), (0.02, 0.018, 0.005), 2.967),
    ((0.5, 0.0, 0.0, 0.0, 0.0, 0.2155), 1.8, (0.0, 0.0006, 0.0004), (0.005, 0.0036, 0.0047), 2.094),
    ((-0.5, 1.0, 0.0, 0.0, 0.081, 0.0), 0.3, (0.0, 0.0, 0.02), (0.001, 0.001, 0.001), 3.054),
)
"""The arm's joints, each about its z axis. Roll, pitch and yaw are in half turns (0.5 is a right angle), the range of
angle in rad."""

_MOUNT_M = 0.15
"""Distance from the last joint of the arm to the palm's frame, at the far end of the palm's box [m]."""

_THICK, _WIDE = 0.0196, 0.0275
_PALM_BOX, _PALM_CENTRE, _PALM_KG = (0.0408, 0.113, 0.095), (-0.0093, 0.0, -0.0475), 0.4154
_TIP_M, _TIP_KG = 0.012, 0.0168
_FINGER = (
    # length of the link, mass, axis, minimum and maximum angle
    (0.0164, 0.0119, "z", -0.47, 0.47),
    (0.054, 0.065, "y", -0.196, 1.61),
    (0.0384, 0.0355, "y", -0.174, 1.709),
    (0.0267, 0.0096, "y", -0.227, 1.618),
)
_KNUCKLES = ((0.0435, -0.001542, -0.08726646), (0.0, 0.0007, 0.0), (-0.0435, -0.001542, 0.08726646))
"""Position y and z of each finger on the palm, and its roll [m, m, rad]."""


class Shape(NamedTuple):
    """A box or sphere that a link carries.

    Attributes:
        frame: The link's frame.
        size: Edges of a box, or the radius of a sphere [m].
        centre: Centre in the link's frame, shape (3,) [m].
    """

    frame: str
    size: tuple[float, ...]
    centre: tuple[float, float, float]


def arm_with_hand(base: Array, *, mirrored: bool) -> tuple[System, list[Shape]]:
    """Return the machine, and the shapes of its hand.

    Args:
        base: Position of the arm's foot, shape (3,) [m].
        mirrored: True for a left hand.
    """
    model = pin.Model()
    joint, before = 0, pin.SE3(np.eye(3), np.asarray(base, dtype=np.float64))
    for number, (origin, mass, centre, moments, reach) in enumerate(_ARM, start=1):
        roll, pitch, yaw = np.pi * np.array(origin[:3])
        place = before * pin.SE3(pin.rpy.rpyToMatrix(roll, pitch, yaw), np.array(origin[3:]))
        joint = _add(model, joint, place, f"arm{number}", (0.0, 0.0, 1.0), (-reach, reach))
        inertia = pin.Inertia(mass, np.array(centre), np.diag(moments))
        model.appendBodyToJoint(joint, inertia, pin.SE3.Identity())
        before = pin.SE3.Identity()
    palm = pin.SE3(np.eye(3), np.array([0.0, 0.0, _MOUNT_M]))
    model.addFrame(pin.Frame(PALM, joint, palm, pin.FrameType.OP_FRAME))
    model.appendBodyToJoint(joint, _box(_PALM_KG, _PALM_BOX, _PALM_CENTRE), palm)
    shapes = [Shape(PALM, _PALM_BOX, _PALM_CENTRE)]
    for finger, (y, z, roll) in enumerate(_KNUCKLES):
        at, parent = palm * pin.SE3(pin.rpy.rpyToMatrix(roll, 0.0, 0.0), np.array([0.0, y, z])), joint
        for link, (length, mass, axis, low, high) in enumerate(_FINGER):
            name = f"finger{finger}_{link}"
            parent = _add(model, parent, at, name, _AXES[axis], (low, high))
            box = (_THICK, _WIDE, length)
            model.appendBodyToJoint(parent, _box(mass, box, (0.0, 0.0, 0.5 * length)), pin.SE3.Identity())
            shapes.append(Shape(name, box, (0.0, 0.0, 0.5 * length)))
            at = pin.SE3(np.eye(3), np.array([0.0, 0.0, length]))
        _tip(model, parent, at, shapes, f"finger{finger}_3")
    _thumb(model, joint, palm, shapes, side=-1.0 if mirrored else 1.0)
    return System(model), shapes


_AXES = {"y": (0.0, 1.0, 0.0), "z": (0.0, 0.0, 1.0)}


def _thumb(model: pin.Model, joint: int, palm: pin.SE3, shapes: list[Shape], side: float) -> None:
    """Add the thumb's four joints; `side` is 1 for a right hand, -1 for a left hand."""
    links = (
        # position in the previous frame, box, centre of the box, mass
        ((-0.0182, side * 0.019333, -0.045987), (0.0358, 0.034, 0.0455), (-0.0179, side * 0.009, 0.0145), 0.0176),
        ((-0.027, side * 0.005, 0.0399), (_THICK, _WIDE, 0.0177), (0.0, 0.0, 0.00885), 0.0119),
        ((0.0, 0.0, 0.0177), (_THICK, _WIDE, 0.0514), (0.0, 0.0, 0.0257), 0.038),
        ((0.0, 0.0, 0.0514), (_THICK, _WIDE, 0.0423), (0.0, 0.0, 0.02115), 0.0388),
    )
    axes = ((-side, 0.0, 0.0), (0.0, 0.0, side), (0.0, 1.0, 0.0), (0.0, 1.0, 0.0))
    limits = ((0.263, 1.396), (-0.105, 1.163), (-0.189, 1.644), (-0.162, 1.719))
    base = pin.rpy.rpyToMatrix(0.0, -1.65806279, -side * 0.5 * np.pi)
    parent = joint
    for link, ((at, box, centre, mass), axis, limit) in enumerate(zip(links, axes, limits, strict=True)):
        place = palm * pin.SE3(base, np.array(at)) if link == 0 else pin.SE3(np.eye(3), np.array(at))
        name = f"thumb_{link}"
        parent = _add(model, parent, place, name, axis, limit)
        model.appendBodyToJoint(parent, _box(mass, box, centre), pin.SE3.Identity())
        shapes.append(Shape(name, box, centre))
    _tip(model, parent, pin.SE3(np.eye(3), np.array([0.0, 0.0, 0.0423])), shapes, "thumb_3")


def _tip(model: pin.Model, joint: int, at: pin.SE3, shapes: list[Shape], name: str) -> None:
    model.appendBodyToJoint(joint, pin.Inertia.FromSphere(_TIP_KG, _TIP_M), at)
    shapes.append(Shape(name, (_TIP_M,), tuple(at.translation)))


def _add(
    model: pin.Model,
    parent: int,
    place: pin.SE3,
    name: str,
    axis: tuple[float, float, float],
    limit: tuple[float, float],
) -> int:
    joint: int = model.addJoint(parent, pin.JointModelRevoluteUnaligned(np.array(axis)), place, name)
    model.addJointFrame(joint)
    low, high = model.lowerPositionLimit, model.upperPositionLimit
    low[-1], high[-1] = limit
    model.lowerPositionLimit, model.upperPositionLimit = low, high
    return joint


class Bone(NamedTuple):
    """A capsule drawn between two joints of an arm; it has no contacts.

    Attributes:
        frame: Index of the frame that carries it.
        place: Pose in that frame; the capsule lies along z.
        radius: Radius of the capsule [m].
        length: Length of the capsule without caps [m].
    """

    frame: int
    place: pin.SE3
    radius: float
    length: float


def bones(system: System) -> list[Bone]:
    """Return the arm, from its first joint to the palm, as capsules."""
    model = system.model
    out = []
    for joint in range(1, ARM_JOINTS + 1):
        last = joint == ARM_JOINTS
        along = np.array([0.0, 0.0, 0.05]) if last else np.array(model.jointPlacements[joint + 1].translation)
        length = float(np.linalg.norm(along))
        turn = pin.Quaternion.FromTwoVectors(np.array([0.0, 0.0, 1.0]), along / length).matrix()
        place = pin.SE3(turn, 0.5 * along)
        out.append(Bone(system.frame(model.names[joint]), place, 0.045 if last else 0.06, length))
    return out


def _box(mass: float, size: tuple[float, ...], centre: tuple[float, float, float]) -> pin.Inertia:
    inertia = pin.Inertia.FromBox(mass, *size)
    return pin.Inertia(mass, np.array(centre), inertia.inertia)


def parts(system: System, shapes: list[Shape], tree: int, mu: float) -> list[Part]:
    """Return the shapes of a hand as parts of the plant's tree `tree`, with friction `mu`."""
    return [
        Part(
            name=f"{tree}_{number}_{shape.frame}",
            shape=coal.Sphere(*shape.size) if len(shape.size) == 1 else coal.Box(*shape.size),
            tree=tree,
            frame=system.frame(shape.frame),
            position=np.array(shape.centre),
            rotation=np.eye(3),
            mu=mu,
        )
        for number, shape in enumerate(shapes)
    ]
