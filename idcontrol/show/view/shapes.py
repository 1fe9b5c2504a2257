"""Triangle meshes of simple shapes, and of the geometry in a URDF."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import coal
import numpy as np
import pinocchio as pin
import trimesh

from idcontrol.types import Array, Integers

Colour = tuple[float, float, float]

SMOOTH_RAD = 0.6
"""Angle above which an edge is shaded as a sharp edge [rad]."""
FINE_FACES = 40_000
"""Number of triangles above which a mesh is coarsened, for browsers without a graphics card."""
CELLS = 300
"""Number of grid cells along the longest side of a mesh that is coarsened."""


RODS = tuple(2.0**k for k in range(-8, 4))
"""Lengths of the rods in shafts of arrows [m]."""


@dataclass(frozen=True, slots=True)
class Mesh:
    """Triangles of one colour.

    Attributes:
        vertices: Corners of the triangles, shape (n, 3) [m].
        faces: Indices of each triangle's vertices, shape (k, 3).
        colour: Red, green, blue, 0 to 1.
        opacity: 1 is opaque.
    """

    vertices: Array
    faces: Integers
    colour: Colour
    opacity: float = 1.0

    def moved(self, rotation: Array, position: Array) -> Mesh:
        """Return the mesh rotated by `rotation` (3, 3), then moved by `position` (3,) [m]."""
        return Mesh(self.vertices @ rotation.T + position, self.faces, self.colour, self.opacity)


def solid(shape: str, size: Sequence[float], colour: Colour, opacity: float = 1.0) -> Mesh:
    """Return a box, sphere, cylinder or capsule as `idcontrol.record.scenery.DrawableBody` describes it."""
    if shape == "box":
        solid = trimesh.creation.box(extents=size)
    elif shape == "sphere":
        solid = trimesh.creation.icosphere(subdivisions=3, radius=size[0])
    elif shape == "cylinder":
        solid = trimesh.creation.cylinder(radius=size[0], height=size[1], sections=48)
    else:
        solid = trimesh.creation.capsule(radius=size[0], height=size[1], count=(24, 24))
        solid.apply_translation(-solid.bounds.mean(axis=0))
    if shape in ("box", "cylinder"):
        solid = trimesh.graph.smooth_shade(solid, angle=SMOOTH_RAD)
    return Mesh(np.array(solid.vertices), np.array(solid.faces, np.int64), colour, opacity)


def arrow(shaft_radius: float, head_radius: float, head_length: float, colour: Colour) -> tuple[list[Mesh], Mesh]:
    """Return the parts of an arrow: rods of the lengths `RODS`, and a head, all along z from the origin upward."""
    rods = [
        solid("cylinder", (shaft_radius, length), colour).moved(np.eye(3), np.array([0.0, 0.0, 0.5 * length]))
        for length in RODS
    ]
    cone = trimesh.creation.cone(radius=head_radius, height=head_length, sections=24)
    return rods, Mesh(np.array(cone.vertices), np.array(cone.faces, np.int64), colour)


def shaft(length: float) -> tuple[int, float] | None:
    """Return the rod for a shaft of this length [m]; None if the shaft is too short to be drawn.

    A shaft consists of two overlapping copies of one rod; the first copy begins at the tail. A shaft longer than two of
    the longest rods has a gap.

    Returns:
        Index of the rod in `RODS`, and the distance from the tail at which the second copy begins [m].
    """
    rod = int(np.searchsorted(RODS, length, side="right")) - 1
    return None if rod < 0 else (rod, length - RODS[rod])


def rod(start: Array, end: Array, radius: float, colour: Colour) -> Mesh:
    """Return a capsule of this radius [m]; its caps have their centres at `start` and `end`, which differ [m]."""
    along = end - start
    length = float(np.linalg.norm(along))
    upright = solid("capsule", (radius, length), colour)
    turn = pin.Quaternion.FromTwoVectors(np.array([0.0, 0.0, 1.0]), along / length).toRotationMatrix()
    return upright.moved(turn, 0.5 * (start + end))


def pyramid(mu: float, colour: Colour, opacity: float) -> Mesh:
    """Return the sides of the inscribed friction pyramid ``|f_S| + |f_T| ≤ μ f_N`` up to f_N = 1.

    The apex is at the origin; N is along z, S along x and T along y.
    """
    corners = [(mu, 0, 1), (0, mu, 1), (-mu, 0, 1), (0, -mu, 1)]
    faces = [(0, 1, 2), (0, 2, 3), (0, 3, 4), (0, 4, 1)]
    return Mesh(np.array([(0, 0, 0), *corners], dtype=float), np.array(faces), colour, opacity)


def of_coal(geometry: Any, colour: Colour) -> Mesh | None:
    """Return the mesh of a geometry of the library coal; None unless it is a box, ball, cylinder, capsule or mesh."""
    if isinstance(geometry, coal.Box):
        return solid("box", 2.0 * geometry.halfSide, colour)
    if isinstance(geometry, coal.Sphere):
        return solid("sphere", (geometry.radius,), colour)
    if isinstance(geometry, coal.Cylinder | coal.Capsule):
        kind = "cylinder" if isinstance(geometry, coal.Cylinder) else "capsule"
        return solid(kind, (geometry.radius, 2.0 * geometry.halfLength), colour)
    if isinstance(geometry, coal.BVHModelBase) and geometry.num_tris:
        corners = (geometry.tri_indices(i) for i in range(geometry.num_tris))
        faces = np.array([(three[0], three[1], three[2]) for three in corners], np.int64)
        mesh = Mesh(np.array(geometry.vertices()), faces, colour)
        return mesh if len(faces) <= FINE_FACES else coarsened(mesh)
    return None


def coarsened(mesh: Mesh) -> Mesh:
    """Return `mesh` with the vertices in each cell of a grid merged: some URDF files have unreduced CAD meshes."""
    cell = float(np.ptp(mesh.vertices, axis=0).max()) / CELLS
    _, at, count = np.unique(np.floor(mesh.vertices / cell), axis=0, return_inverse=True, return_counts=True)
    vertices = np.zeros((len(count), 3))
    np.add.at(vertices, at.ravel(), mesh.vertices)
    faces = at.ravel()[mesh.faces]
    area = (faces[:, 0] != faces[:, 1]) & (faces[:, 1] != faces[:, 2]) & (faces[:, 2] != faces[:, 0])
    return Mesh(vertices / count[:, None], np.unique(faces[area], axis=0), mesh.colour, mesh.opacity)
