"""Collision shapes as arrays."""

import coal
import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from idcontrol.contact.shapes import Shape, flatten, from_coal
from idcontrol.errors import InputError
from idcontrol.types import Array

CUBE = np.array([[x, y, z] for x in (-0.1, 0.1) for y in (-0.2, 0.2) for z in (-0.3, 0.3)])


def mesh(points: Array, triangles: Array) -> coal.BVHModelOBBRSS:
    model = coal.BVHModelOBBRSS()
    model.beginModel(len(triangles), len(points))
    for triangle in triangles:
        model.addTriangle(*points[triangle])
    model.endModel()
    return model


def hull(points: Array) -> coal.Convex:
    vertices = coal.StdVec_Vec3s()
    for point in points:
        vertices.append(point)
    return coal.Convex.convexHull(vertices, True, "Qt")


def assert_closed(shape: Shape) -> None:
    """All corners lie behind every face; loops run counter-clockwise; areas times normals sum to zero."""
    total = np.zeros(3)
    for loop, normal in zip(shape.faces, shape.normals, strict=True):
        ring = shape.corners[loop]
        assert ((shape.corners - ring[0]) @ normal).max() < 1e-12
        area = 0.5 * np.cross(ring - ring[0], np.roll(ring, -1, axis=0) - ring[0]).sum(axis=0)
        assert area @ normal == pytest.approx(np.linalg.norm(area), rel=1e-9)
        total += area
    assert np.abs(total).max() < 1e-12


def test_a_box_has_eight_corners_and_six_faces_of_four() -> None:
    shape, geometry = from_coal(coal.Box(0.2, 0.4, 0.6), "box")
    assert isinstance(geometry, coal.Box)
    assert {tuple(c) for c in shape.corners.round(12)} == {tuple(c) for c in CUBE}
    assert sorted(len(loop) for loop in shape.faces) == [4] * 6
    assert {tuple(n) for n in np.abs(shape.normals)} == {(1, 0, 0), (0, 1, 0), (0, 0, 1)}
    assert_closed(shape)


def test_triangles_in_one_plane_are_one_face() -> None:
    """A box as a mesh, turned and far from its frame, is six faces of four corners."""
    turn = Rotation.from_rotvec([0.3, -1.0, 0.7])
    points = turn.apply(CUBE) + np.array([5.0, -3.0, 2.0])
    triangles = np.array([[0, 1, 2], [1, 2, 3], [4, 5, 6], [5, 6, 7], [0, 1, 4], [2, 3, 6], [3, 6, 7], [1, 4, 5]])
    for geometry in (mesh(points, triangles), hull(points)):
        shape, convex = from_coal(geometry, "crate")
        assert isinstance(convex, coal.Convex)
        assert len(shape.corners) == 8
        assert sorted(len(loop) for loop in shape.faces) == [4] * 6
        assert_closed(shape)


def test_random_hulls_are_closed() -> None:
    rng = np.random.default_rng(0)
    for _ in range(20):
        shape, _ = from_coal(hull(rng.normal(size=(rng.integers(4, 40), 3))), "stone")
        assert_closed(shape)
        assert len(shape.corners) - 1.5 * len(shape.faces) + len(shape.faces) == 2  # Euler, triangles only


def test_flat_arrays_convert_back_to_shapes() -> None:
    shapes = [
        from_coal(geometry, "thing")[0]
        for geometry in (coal.Sphere(0.1), coal.Box(0.1, 0.2, 0.3), coal.Cylinder(0.1, 0.2), coal.Capsule(0.1, 0.2))
    ]
    flat = flatten(shapes)
    face = 0
    for g, shape in enumerate(shapes):
        first = flat.corner_start[g]
        assert np.array_equal(flat.corner[first : flat.corner_start[g + 1]], shape.corners)
        assert flat.face_start[g] == face
        for loop, normal in zip(shape.faces, shape.normals, strict=True):
            assert np.array_equal(flat.loop[flat.loop_start[face] : flat.loop_start[face + 1]] - first, loop)
            assert np.array_equal(flat.face_normal[face], normal)
            face += 1
    assert flat.face_start[-1] == face


@pytest.mark.parametrize(
    ("geometry", "says"),
    [
        (coal.Ellipsoid(0.1, 0.2, 0.3), "'thing' is a Ellipsoid; use a sphere"),
        (coal.Halfspace(np.array([0.0, 0.0, 1.0]), 0.0), "'thing' is a Halfspace"),
        (coal.Sphere(np.nan), "'thing' must have finite sizes above 0"),
        (coal.Sphere(0.0), "'thing' must have finite sizes above 0"),
        (coal.Box(0.1, 0.0, 0.1), "'thing' has no volume"),
        (mesh(CUBE[:4], np.array([[0, 1, 2], [1, 2, 3]])), "'thing' has no volume"),
        (coal.BVHModelOBBRSS(), "'thing' has no volume"),
    ],
)
def test_geometry_that_cannot_touch_is_named(geometry: object, says: str) -> None:
    with pytest.raises(InputError, match=says) as caught:
        from_coal(geometry, "thing")
    assert "\n" not in str(caught.value)
