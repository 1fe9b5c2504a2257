"""Collision shapes as arrays: corners, flat faces and a rounding radius, for kernels that compute contact manifolds.

A shape is the hull of its corners, rounded by a radius: a sphere has one corner, a capsule two, a box eight and radius
0. A cylinder has corners on its two rims, and a smooth side in addition. A mesh is replaced by its convex hull.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import coal
import numpy as np

from idcontrol.errors import InputError
from idcontrol.types import Array, Integers

RIM_POINTS = 8
"""Number of corners that represent a cylinder's rim in a face contact."""

COPLANAR = 1e-6
"""Triangles of a hull form one face if their normals, and their offsets relative to the hull's size, differ by less
than this."""

SPHERE, BOX, OTHER = 0, 1, 2
"""Kinds of shape; spheres and boxes have closed-form distances (`idcontrol.contact.distance`)."""


@dataclass(frozen=True, slots=True)
class Shape:
    """One convex shape in its own frame.

    Attributes:
        corners: Corners, shape (k, 3) [m].
        faces: Corners of each flat face, counter-clockwise seen from outside.
        normals: Outward unit normals of the faces, shape (len(faces), 3).
        rounding: Radius of a sphere swept over the hull of the corners [m].
        cylinder: Radius and half length of a cylinder along z [m]; (0, 0) for all other shapes.
        kind: `SPHERE`, `BOX` or `OTHER`.
    """

    corners: Array
    faces: tuple[Integers, ...]
    normals: Array
    rounding: float
    cylinder: tuple[float, float] = (0.0, 0.0)
    kind: int = OTHER

    @property
    def half_extents(self) -> tuple[Array, Array]:
        """Return the middle and half sizes of the box around the shape, shapes (3,) [m]."""
        low, high = self.corners.min(axis=0), self.corners.max(axis=0)
        half = 0.5 * (high - low) + self.rounding
        half[:2] = np.maximum(half[:2], self.cylinder[0])
        return 0.5 * (high + low), half


class ShapeArrays(NamedTuple):
    """All shapes of a scene, flattened for kernels.

    Attributes:
        corner: Corners of all shapes, shape (n_corners, 3) [m].
        corner_start: Corners of shape g are ``corner_start[g]:corner_start[g + 1]``.
        face_normal: Outward unit normals of all faces, shape (n_faces, 3).
        face_start: Faces of shape g are ``face_start[g]:face_start[g + 1]``.
        loop: Corners of all faces, one loop after the other, as indices into `corner`.
        loop_start: The loop of face f is ``loop[loop_start[f]:loop_start[f + 1]]``.
        rounding: Radius of the sphere swept over each shape, shape (g,) [m].
        cylinder: Radius and half length, shape (g, 2) [m]; 0 for other shapes.
        middle: Middle of the box around each shape, shape (g, 3) [m].
        half: Half sizes of that box, shape (g, 3) [m].
        radius: Radius of a sphere around that box, shape (g,) [m].
        kind: `SPHERE`, `BOX` or `OTHER`, shape (g,).
    """

    corner: Array
    corner_start: Integers
    face_normal: Array
    face_start: Integers
    loop: Integers
    loop_start: Integers
    rounding: Array
    cylinder: Array
    middle: Array
    half: Array
    radius: Array
    kind: Integers


def from_coal(geometry: Any, name: str) -> tuple[Shape, Any]:
    """Return the shape of a coal geometry, and the coal geometry for distances (for a mesh, its convex hull).

    Raises:
        InputError: The geometry is of an unsupported kind, has no volume or is not finite; the text contains `name`.
    """
    if isinstance(geometry, coal.Sphere):
        shape = Shape(np.zeros((1, 3)), (), np.zeros((0, 3)), geometry.radius, kind=SPHERE)
    elif isinstance(geometry, coal.Capsule):
        ends = np.array([[0.0, 0.0, -geometry.halfLength], [0.0, 0.0, geometry.halfLength]])
        shape = Shape(ends, (), np.zeros((0, 3)), geometry.radius)
    elif isinstance(geometry, coal.Box):
        shape = replace(_hull(_box_corners(np.asarray(geometry.halfSide)), name), kind=BOX)
    elif isinstance(geometry, coal.Cylinder):
        shape = _cylinder(geometry.radius, geometry.halfLength)
    elif isinstance(geometry, coal.Convex):
        shape = _hull(np.array(geometry.points()), name)
    elif hasattr(geometry, "vertices"):
        shape = _hull(np.array(geometry.vertices()), name)
        geometry = _coal_convex(shape.corners)
    else:
        raise InputError(
            f"collision geometry {name!r} is a {type(geometry).__name__}; "
            "use a sphere, capsule, box, cylinder, convex hull or mesh"
        )
    middle, half = shape.half_extents
    if not (np.isfinite(middle).all() and np.isfinite(half).all() and half.min() > 0.0):
        raise InputError(f"collision geometry {name!r} must have finite sizes above 0")
    return shape, geometry


def flatten(shapes: list[Shape]) -> ShapeArrays:
    """Build the arrays of a scene from its shapes."""
    corner_start = _starts([len(shape.corners) for shape in shapes])
    loops = [loop + first for shape, first in zip(shapes, corner_start[:-1], strict=True) for loop in shape.faces]
    boxes = [shape.half_extents for shape in shapes]
    half = _stack([half for _, half in boxes])
    return ShapeArrays(
        corner=_stack([shape.corners for shape in shapes]),
        corner_start=corner_start,
        face_normal=_stack([shape.normals for shape in shapes]),
        face_start=_starts([len(shape.faces) for shape in shapes]),
        loop=np.concatenate([np.zeros(0, dtype=np.int64), *loops]),
        loop_start=_starts([len(loop) for loop in loops]),
        rounding=np.array([shape.rounding for shape in shapes], dtype=np.float64),
        cylinder=np.array([shape.cylinder for shape in shapes], dtype=np.float64).reshape(-1, 2),
        middle=_stack([middle for middle, _ in boxes]),
        half=half,
        radius=np.asarray(np.linalg.norm(half, axis=1)),
        kind=np.array([shape.kind for shape in shapes], dtype=np.int64),
    )


def _stack(parts: list[Array]) -> Array:
    return np.ascontiguousarray(np.vstack([np.zeros((0, 3)), *parts]))


def _starts(lengths: list[int]) -> Integers:
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)


def _box_corners(half: Array) -> Array:
    signs: Array = np.array([[x, y, z] for z in (-1.0, 1.0) for y in (-1.0, 1.0) for x in (-1.0, 1.0)])
    return signs * half


def _cylinder(radius: float, half_length: float) -> Shape:
    angle = 2.0 * np.pi * np.arange(RIM_POINTS) / RIM_POINTS
    rim = radius * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    corners = np.vstack([np.c_[rim, np.full(RIM_POINTS, z)] for z in (-half_length, half_length)])
    caps = (np.arange(RIM_POINTS)[::-1].copy(), RIM_POINTS + np.arange(RIM_POINTS))
    return Shape(corners, caps, np.array([[0.0, 0.0, -1.0], [0.0, 0.0, 1.0]]), 0.0, (radius, half_length))


def _hull(points: Array, name: str) -> Shape:
    """Return corners and faces of the convex hull; triangles in one plane are one face.

    Raises:
        InputError: The points have no volume or are not finite.
    """
    from scipy.spatial import ConvexHull, QhullError  # imported late, as most robots have no meshes in contact

    try:
        hull = ConvexHull(points)
    except (QhullError, ValueError):
        raise InputError(f"collision geometry {name!r} has no volume: its convex hull cannot be built") from None
    corners = np.ascontiguousarray(hull.points[hull.vertices])
    centre = corners.mean(axis=0)
    size = np.ptp(corners, axis=0).max()
    planes = hull.equations / np.array([1.0, 1.0, 1.0, size])
    planes[:, 3] += planes[:, :3] @ centre / size  # offsets from the middle do not depend on the frame
    faces: list[Integers] = []
    normals: list[Array] = []
    remaining = np.ones(len(planes), dtype=bool)
    for first, plane in enumerate(planes):
        if not remaining[first]:
            continue
        together = remaining & (np.abs(planes - plane).max(axis=1) < COPLANAR)
        remaining &= ~together
        normal = plane[:3]
        on = np.flatnonzero(np.abs((corners - centre) @ normal / size + plane[3]) < COPLANAR)
        faces.append(on[_counter_clockwise(corners[on], normal)])
        normals.append(normal)
    return Shape(corners, tuple(faces), np.array(normals), 0.0)


def _counter_clockwise(points: Array, normal: Array) -> Integers:
    """Return the counter-clockwise order of the points of a convex face, seen against its normal."""
    arm = points - points.mean(axis=0)
    u = arm[0] / np.linalg.norm(arm[0])
    return np.argsort(np.arctan2(arm @ np.cross(normal, u), arm @ u), kind="stable").astype(np.int64)


def _coal_convex(points: Array) -> Any:
    vertices = coal.StdVec_Vec3s()
    for point in points:
        vertices.append(point)
    return coal.Convex.convexHull(vertices, True, "Qt")
