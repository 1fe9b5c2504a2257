"""Meshes of a robot: the visual geometry of its URDF or, without it, rods between joints, and foot spheres."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import coal
import numpy as np
import pinocchio as pin

from idcontrol.robots.robot import Robot
from idcontrol.robots.schema import Sole
from idcontrol.show.view.shapes import Colour, Mesh, of_coal, rod, solid
from idcontrol.types import Array

BODY: Colour = (0.30, 0.33, 0.38)
LIMB: Colour = (0.72, 0.74, 0.78)
FOOT: Colour = (0.25, 0.26, 0.28)
OUTLINE: Colour = (0.0, 0.62, 0.45)
ROD_SHARE = 0.04
"""Radius of a rod as a share of the robot's `reach`."""
OUTLINE_SHARE = 0.03
"""Radius of the outline of a sole as a share of the distance from its middle to its corners."""
SMALLEST_M = 0.1
"""Smallest `reach` [m], e.g. of a robot with a single joint."""


@dataclass(frozen=True, slots=True)
class DrawableLink:
    """The meshes that one joint carries.

    Attributes:
        name: Name of the joint.
        joint: Index of the joint in the Pinocchio model.
        meshes: Meshes in the joint's frame.
    """

    name: str
    joint: int
    meshes: tuple[Mesh, ...]


def drawable_links(robot: Robot, model: Any) -> tuple[DrawableLink, ...]:
    """Return the meshes of each joint in the Pinocchio model of `robot`; joints without meshes are left out."""
    meshes = _visuals(robot, model) or _rods(robot, model)
    for sole in robot.description.soles:
        frame = model.frames[model.getFrameId(sole.frame)]
        outline = (mesh.moved(frame.placement.rotation, frame.placement.translation) for mesh in _outline(sole))
        meshes.setdefault(frame.parentJoint, []).extend(outline)
    return tuple(DrawableLink(str(model.names[joint]), joint, tuple(parts)) for joint, parts in sorted(meshes.items()))


def reach(model: Any, q: Array) -> float:
    """Return the largest distance between moving frames at configuration `q` (nq,), at least `SMALLEST_M` [m]."""
    data = model.createData()
    pin.framesForwardKinematics(model, data, q)
    moving = [i for i, frame in enumerate(model.frames) if frame.parentJoint > 0]
    places = np.array([data.oMf[i].translation for i in moving])
    return max(float(np.linalg.norm(places[:, None] - places[None], axis=2).max()), SMALLEST_M)


def _visuals(robot: Robot, model: Any) -> dict[int, list[Mesh]]:
    """Return the visual geometry of the URDF by joint; empty without geometry, or if a file cannot be read."""
    folders = [str(folder) for folder in Path(robot.urdf).absolute().parents]
    try:
        # legs share their meshes
        loader = coal.CachedMeshLoader(coal.BV_OBBRSS)
        geometry = pin.buildGeomFromUrdf(model, str(robot.urdf), pin.GeometryType.VISUAL, None, folders, loader)
    except (ValueError, RuntimeError):
        return {}
    visuals: dict[int, list[Mesh]] = {}
    known: dict[tuple[Any, ...], Mesh | None] = {}
    for thing in geometry.geometryObjects:
        red, green, blue, _ = (float(share) for share in thing.meshColor)
        file = (thing.meshPath, *thing.meshScale, red, green, blue)
        if file in known and Path(thing.meshPath).is_file():
            mesh = known[file]
        else:
            mesh = known[file] = of_coal(thing.geometry, (red, green, blue))
        if mesh is not None:
            placed = mesh.moved(thing.placement.rotation, thing.placement.translation)
            visuals.setdefault(thing.parentJoint, []).append(placed)
    return visuals


def _outline(sole: Sole) -> list[Mesh]:
    """Return rods along the edges of a sole, in the sole's frame."""
    corners = np.array(sole.corners_m)
    away = corners - corners.mean(axis=0)
    across = away @ np.linalg.svd(away)[2][:2].T  # directions in the plane of the sole
    ring = corners[np.argsort(np.arctan2(across[:, 1], across[:, 0]))]
    radius = OUTLINE_SHARE * float(np.linalg.norm(away, axis=1).max())
    return [rod(start, end, radius, OUTLINE) for start, end in zip(ring, np.roll(ring, -1, axis=0), strict=True)]


def _rods(robot: Robot, model: Any) -> dict[int, list[Mesh]]:
    """Return rods and foot spheres by joint, in the joint's frame.

    Rods lead from a joint to its child joints and feet; without these, to the centre of mass of the joint's link.
    """
    radius = ROD_SHARE * reach(model, pin.neutral(model))
    rods: dict[int, list[Mesh]] = {joint: [] for joint in range(1, model.njoints)}
    ends: dict[int, list[Any]] = {joint: [] for joint in rods}
    for joint in rods:
        if model.parents[joint] > 0:
            ends[model.parents[joint]].append(model.jointPlacements[joint].translation)
    for foot in robot.description.feet:
        frame = model.frames[model.getFrameId(foot.frame)]
        centre = frame.placement.act(np.array(foot.offset_m))
        ends[frame.parentJoint].append(centre)
        sphere = solid("sphere", (foot.radius_m,), FOOT)
        rods[frame.parentJoint].append(sphere.moved(np.eye(3), centre))
    for joint, meshes in rods.items():
        centre_of_mass = model.inertias[joint].lever
        colour = BODY if model.parents[joint] == 0 else LIMB
        for end in ends[joint] or [centre_of_mass]:
            if np.linalg.norm(end) > 0.1 * radius:
                meshes.append(rod(np.zeros(3), np.array(end), radius, colour))
    return {joint: meshes for joint, meshes in rods.items() if meshes}
