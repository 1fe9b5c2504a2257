"""Kernels that turn close shapes into contact points: corners over ground, faces clipped against faces.

Flat parts of two shapes touch along a polygon, whose corners carry the load (math.md, section 12.5). The flat face that
is most perpendicular to the contact normal is the reference, and defines the exact normal. The facing feature of the
other shape (face, edge of a capsule, side line of a cylinder) is clipped against the borders of the reference, and each
remaining corner is a contact with its own gap. Parallel side lines touch at two points. If no contact is at the nearest
points of the shapes, these points are an additional contact, or the only contact.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from idcontrol.contact.shapes import BOX, RIM_POINTS, SPHERE, ShapeArrays
from idcontrol.contact.terrain import sphere_gap
from idcontrol.kernels.arena import Arena, begin, matrix, vector
from idcontrol.kernels.jit import njit
from idcontrol.types import Array, Integers

GROUND = -1
"""Stands for the ground in place of the index of shape B."""

MAX_POINTS = 8
"""Largest number of contact points of a pair of shapes; two boxes never need more."""

RIM_GROUND_POINTS = 4
"""Number of contact points of a cylinder's rim on the ground: its lowest point, and three more at right angles."""

SQUARE = 0.9986
"""Cosine of 3°, the largest angle between the contact normal and the normal of a face that touches flat; beyond it an
edge or a corner touches."""

PARALLEL = 0.0523
"""Largest angle between side lines that touch along a line: 3° [rad]."""

ENGINE_TOLERANCE = 1e-5
"""Accuracy of measured distances [m]. If a distance is wrong by more than ten times this, its normal counts as wrong,
too."""

SAME_POINT = 1e-7
"""Corners of a manifold closer than this are one point [m]."""


class Placed(NamedTuple):
    """Placement of the shapes of a scene; written by `place`.

    Attributes:
        position: Origins of the shapes, world frame, shape (g, 3) [m].
        rotation: Axes of the shapes (columns), shape (g, 3, 3).
        corner: Corners, world frame, shape (n_corners, 3) [m].
        face_normal: Outward normals of the faces, world frame, shape (n_faces, 3).
        low: Least coordinates of each shape, world frame, shape (g, 3) [m].
        high: Largest coordinates, shape (g, 3) [m].
    """

    position: Array
    rotation: Array
    corner: Array
    face_normal: Array
    low: Array
    high: Array


class Ground(NamedTuple):
    """The ground, and the shapes that can touch it.

    Attributes:
        parameters: `Terrain.parameters`.
        coefficients: `Terrain.coefficients`.
        moving: Shapes that can touch the ground.
        first: Ground contacts of shape g are numbered ``first[g]:first[g + 1]``; shape (g + 1,).
    """

    parameters: Array
    coefficients: Array
    moving: Integers
    first: Integers


class Pairs(NamedTuple):
    """Pairs of shapes, and measured distances between them.

    Attributes:
        shape: Shapes A and B, in ascending order, shape (p, 2).
        margin: A pair is in contact below this distance, shape (p,) [m].
        direction: Unit normals from B to A, shape (p, 3).
        witness: Middle between the nearest points, shape (p, 3) [m].
        distance: Signed distances, shape (p,) [m].
    """

    shape: Integers
    margin: Array
    direction: Array
    witness: Array
    distance: Array


class Points(NamedTuple):
    """Contact points; contacts with the ground come first.

    Attributes:
        identity: Number of each contact, the same from step to step, shape (n,).
        shape: Shapes A and B, shape (n, 2); B is `GROUND` for the ground.
        gap: Signed distance, shape (n,) [m].
        normal: Unit normal, from B to A, shape (n, 3).
        point: Middle between the surfaces, shape (n, 3) [m].
    """

    identity: Integers
    shape: Integers
    gap: Array
    normal: Array
    point: Array


class Tracked(NamedTuple):
    """Record of contacts between shapes, by which the next step matches its contacts.

    Attributes:
        pair: Number of each contact's pair, ascending, shape (n,).
        slot: Index of each contact among the `MAX_POINTS` contacts of its pair, shape (n,).
        point: Contact points in the frame of shape A, shape (n, 3) [m].
    """

    pair: Integers
    slot: Integers
    point: Array


class _Manifold(NamedTuple):
    """Contact points of one pair, with room for all corners that clipping can produce.

    Attributes:
        point: Contact points, shape (room, 3) [m].
        gap: Signed distances, shape (room,) [m].
        normal: Common unit normal, from B to A, shape (3,).
    """

    point: Array
    gap: Array
    normal: Array


class _Reference(NamedTuple):
    """The face that a manifold lies on.

    Attributes:
        face: Index of the face.
        owner: Shape with the face.
        other: The shape that is clipped against it.
        sign: 1 if the face points along the contact normal (its owner is B), else -1.
    """

    face: int
    owner: int
    other: int
    sign: float


@njit(cache=True, inner=True, error_model="numpy")
def _dot(a: Array, b: Array) -> float:
    """Return the inner product of two vectors, shapes (3,); np.dot would call BLAS."""
    return float(a[0] * b[0] + a[1] * b[1] + a[2] * b[2])


@njit(cache=True, inner=True, error_model="numpy")
def _gap2(a: Array, b: Array) -> float:
    """Return the squared distance of two points."""
    return float((a[0] - b[0]) ** 2 + (a[1] - b[1]) ** 2 + (a[2] - b[2]) ** 2)


def unplaced(shapes: ShapeArrays) -> Placed:
    """Allocate the placement of `shapes`, to be written by `place`."""
    count = shapes.rounding.shape[0]
    return Placed(
        position=np.empty((count, 3)),
        rotation=np.empty((count, 3, 3)),
        corner=np.empty_like(shapes.corner),
        face_normal=np.empty_like(shapes.face_normal),
        low=np.empty((count, 3)),
        high=np.empty((count, 3)),
    )


@njit(cache=True, inner=True, error_model="numpy")
def place(shapes: ShapeArrays, position: Array, rotation: Array, placed: Placed) -> None:
    """Write the placement of the shapes: origins `position` (g, 3) [m], axes `rotation` (g, 3, 3)."""
    for g in range(position.shape[0]):
        for k in range(3):
            placed.position[g, k] = position[g, k]
            for j in range(3):
                placed.rotation[g, k, j] = rotation[g, k, j]
            rx, ry, rz, at = rotation[g, k, 0], rotation[g, k, 1], rotation[g, k, 2], position[g, k]
            for i in range(shapes.corner_start[g], shapes.corner_start[g + 1]):
                x, y, z = shapes.corner[i]
                placed.corner[i, k] = at + rx * x + ry * y + rz * z
            for i in range(shapes.face_start[g], shapes.face_start[g + 1]):
                x, y, z = shapes.face_normal[i]
                placed.face_normal[i, k] = rx * x + ry * y + rz * z
            x, y, z = shapes.middle[g]
            at += rx * x + ry * y + rz * z
            x, y, z = shapes.half[g]
            half = abs(rx) * x + abs(ry) * y + abs(rz) * z
            placed.low[g, k], placed.high[g, k] = at - half, at + half


@njit(cache=True, error_model="numpy")
def close_pairs(placed: Placed, pair: Integers, margin: float) -> Integers:
    """Return the indices of the pairs whose bounding boxes are closer than `margin` [m]; a NaN counts as close."""
    low, high = placed.low, placed.high
    close = np.empty(pair.shape[0], np.int64)
    n = 0
    for i in range(pair.shape[0]):
        a, b = pair[i, 0], pair[i, 1]
        apart = False
        for k in range(3):
            apart |= low[a, k] - high[b, k] > margin or low[b, k] - high[a, k] > margin
        if not apart:
            close[n] = i
            n += 1
    return close[:n].copy()


@njit(cache=True, inner=True, error_model="numpy")
def ground_contacts(shapes: ShapeArrays, placed: Placed, ground: Ground, margin: Array, points: Points) -> int:
    """Write the contacts with the ground: corners, and rim points of cylinders, that are closer to it than `margin`.

    Only corners are tested: a hilltop below the middle of a flat face is missed.

    Args:
        shapes: All shapes.
        placed: Placement of the shapes.
        ground: The ground.
        margin: Largest gap of each shape, shape (g,) [m].
        points: Overwritten from the first entry on, with identities; it must have room for ``ground.first[-1]``
            contacts.

    Returns:
        The number of contacts.
    """
    rim = np.empty((2 * RIM_GROUND_POINTS, 3))
    n = 0
    for g in ground.moving:
        size, middle = 0.0, np.empty(3)
        for k in range(3):
            middle[k] = 0.5 * (placed.low[g, k] + placed.high[g, k])
            size += 0.25 * (placed.high[g, k] - placed.low[g, k]) ** 2
        distance, _, _ = sphere_gap(ground.parameters, ground.coefficients, middle[0], middle[1], middle[2], 0.0)
        if distance - np.sqrt(size) > margin[g]:
            continue
        round_side = shapes.cylinder[g, 0] > 0.0
        if round_side:
            _rim_points(shapes.cylinder[g], placed.rotation[g], middle, ground, rim)
        for i in range(ground.first[g + 1] - ground.first[g]):
            x, y, z = rim[i] if round_side else placed.corner[shapes.corner_start[g] + i]
            d, up, touch = sphere_gap(ground.parameters, ground.coefficients, x, y, z, shapes.rounding[g])
            if d >= margin[g]:  # false for a NaN, which must stay visible
                continue
            points.identity[n], points.shape[n, 0], points.shape[n, 1] = ground.first[g] + i, g, GROUND
            points.gap[n] = d
            points.normal[n, 0], points.normal[n, 1], points.normal[n, 2] = up
            points.point[n, 0], points.point[n, 1], points.point[n, 2] = touch
            n += 1
    return n


@njit(cache=True, inner=True, error_model="numpy")
def _rim_points(cylinder: Array, rotation: Array, middle: Array, ground: Ground, out: Array) -> None:
    """Write four points of each rim of a cylinder, 90° apart; the first is the lowest."""
    radius, half_length = cylinder
    zx, zy, zz = rotation[:, 2]
    for end in range(2):
        along = (2 * end - 1) * half_length
        cx, cy, cz = middle[0] + along * zx, middle[1] + along * zy, middle[2] + along * zz
        _, up, _ = sphere_gap(ground.parameters, ground.coefficients, cx, cy, cz, 0.0)
        across = up[0] * zx + up[1] * zy + up[2] * zz
        dx, dy, dz = across * zx - up[0], across * zy - up[1], across * zz - up[2]
        length = np.sqrt(dx * dx + dy * dy + dz * dz)
        if length > 1e-9:
            dx, dy, dz = dx / length, dy / length, dz / length
        else:  # upright: all points are equally low
            dx, dy, dz = rotation[:, 0]
        sx, sy, sz = zy * dz - zz * dy, zz * dx - zx * dz, zx * dy - zy * dx
        for i in range(RIM_GROUND_POINTS):
            c, s = radius * (1.0, 0.0, -1.0, 0.0)[i], radius * (0.0, 1.0, 0.0, -1.0)[i]
            k = RIM_GROUND_POINTS * end + i
            out[k, 0], out[k, 1], out[k, 2] = cx + c * dx + s * sx, cy + c * dy + s * sy, cz + c * dz + s * sz


@njit(cache=True, inner=True, error_model="numpy")
def _most_corners(shapes: ShapeArrays) -> int:
    """Return the number of corners of the largest face, at least the two of a line."""
    most = 2
    for f in range(shapes.loop_start.shape[0] - 1):
        most = max(most, shapes.loop_start[f + 1] - shapes.loop_start[f])
    return most


@njit(cache=True, inner=True, error_model="numpy")
def _add_point(points: Points, n: int, a: int, b: int, gap: float, normal: Array, point: Array) -> int:
    """Write contact n; return the number of contacts."""
    points.shape[n, 0], points.shape[n, 1], points.gap[n] = a, b, gap
    for k in range(3):
        points.normal[n, k], points.point[n, k] = normal[k], point[k]
    return n + 1


@njit(cache=True, inner=True, error_model="numpy")
def pair_contacts(shapes: ShapeArrays, placed: Placed, pairs: Pairs, points: Points, first: int, arena: Arena) -> int:
    """Write the manifolds of the pairs that are closer than their margin.

    Args:
        shapes: All shapes.
        placed: Placement of the shapes.
        pairs: Pairs with their distances.
        points: Overwritten from entry `first` on, except identities; it must have room for `MAX_POINTS` per pair.
        first: The number of existing contacts in `points`.
        arena: Memory for one manifold; its contents are lost.

    Returns:
        The number of contacts, including the `first` existing contacts.
    """
    room = 2 * _most_corners(shapes) + 1  # a convex polygon gains at most one corner per border
    n = first
    for i in range(pairs.distance.shape[0]):
        if pairs.distance[i] >= pairs.margin[i]:  # false for a NaN, which must stay visible
            continue
        begin(arena)
        a, b = pairs.shape[i, 0], pairs.shape[i, 1]
        if _touch_at_a_point(shapes.kind[a], shapes.kind[b]):
            n = _add_point(points, n, a, b, pairs.distance[i], pairs.direction[i], pairs.witness[i])
            continue
        up = vector(arena, 3)
        for k in range(3):
            up[k] = pairs.direction[i, k]
        nearest = _separation(shapes, placed, a, b, up, 1.0)
        if nearest < pairs.distance[i] - 10.0 * ENGINE_TOLERANCE:
            nearest = _best_face_normal(shapes, placed, a, b, nearest, up)
        if not nearest > pairs.distance[i]:  # a NaN must stay visible
            nearest = pairs.distance[i]
        manifold = _Manifold(matrix(arena, room, 3), vector(arena, room), vector(arena, 3))
        for k in range(3):
            manifold.normal[k] = up[k]
        face_a, square_a = _facing(shapes, placed, a, up, -1.0)
        face_b, square_b = _facing(shapes, placed, b, up, 1.0)
        count = 0
        if max(square_a, square_b) > SQUARE:
            # B is the reference unless A is clearly flatter, so that rounding cannot flip the choice
            flatter_b = square_b >= square_a - 1e-6
            reference = _Reference(face_b, b, a, 1.0) if flatter_b else _Reference(face_a, a, b, -1.0)
            count = _face_manifold(shapes, placed, reference, pairs.margin[i], manifold, arena)
        elif _has_side(shapes, a) and _has_side(shapes, b):
            count = _side_lines(shapes, placed, a, b, pairs.margin[i], manifold, arena)
        lowest = np.inf
        for j in range(count):
            lowest = min(lowest, manifold.gap[j])
        for j in range(count):
            n = _add_point(points, n, a, b, manifold.gap[j], manifold.normal, manifold.point[j])
        if not lowest <= nearest + ENGINE_TOLERANCE:  # the nearest points lie outside the manifold, or it is empty
            n = _add_point(points, n - (count == MAX_POINTS), a, b, nearest, up, pairs.witness[i])
    return n


@njit(cache=True, inner=True, error_model="numpy")
def _touch_at_a_point(kind_a: int, kind_b: int) -> bool:
    """True if shapes of these kinds never touch flat, and their distance has a closed form (see `distance`)."""
    round_a, round_b = kind_a == SPHERE, kind_b == SPHERE
    return (round_a and (round_b or kind_b == BOX)) or (round_b and kind_a == BOX)


@njit(cache=True, inner=True, error_model="numpy")
def _separation(shapes: ShapeArrays, placed: Placed, a: int, b: int, direction: Array, sign: float) -> float:
    """Return the separation of A and B along ``sign * direction``; its maximum over directions is their distance."""
    return float(-_extent(shapes, placed, a, direction, -sign) - _extent(shapes, placed, b, direction, sign))


@njit(cache=True, inner=True, error_model="numpy")
def _best_face_normal(shapes: ShapeArrays, placed: Placed, a: int, b: int, least: float, up: Array) -> float:
    """Replace `up` by the face normal of A or B with the largest separation above `least`; return that separation."""
    for g, sign in ((a, -1.0), (b, 1.0)):
        for f in range(shapes.face_start[g], shapes.face_start[g + 1]):
            width = _separation(shapes, placed, a, b, placed.face_normal[f], sign)
            if width > least:
                least = width
                for k in range(3):
                    up[k] = sign * placed.face_normal[f, k]
    return least


@njit(cache=True, inner=True, error_model="numpy")
def _has_side(shapes: ShapeArrays, g: int) -> bool:
    """True if a shape is a capsule, a cylinder or a sphere."""
    return bool(shapes.cylinder[g, 0] > 0.0 or shapes.face_start[g] == shapes.face_start[g + 1])


@njit(cache=True, inner=True, error_model="numpy")
def _facing(shapes: ShapeArrays, placed: Placed, g: int, direction: Array, sign: float) -> tuple[int, float]:
    """Return the face with the normal closest to ``sign * direction``, and the cosine between both.

    For a shape without faces the result is (-1, -2).
    """
    best, most = -1, -2.0
    for f in range(shapes.face_start[g], shapes.face_start[g + 1]):
        square = sign * _dot(placed.face_normal[f], direction)
        if square > most:
            best, most = f, square
    return best, most


@njit(cache=True, inner=True, error_model="numpy")
def _loop(shapes: ShapeArrays, placed: Placed, face: int, out: Array) -> int:
    """Write world corners of a face, counter-clockwise seen from outside; return their number."""
    first, end = shapes.loop_start[face], shapes.loop_start[face + 1]
    for i in range(first, end):
        for k in range(3):
            out[i - first, k] = placed.corner[shapes.loop[i], k]
    return int(end - first)


@njit(cache=True, inner=True, error_model="numpy")
def _feature(shapes: ShapeArrays, placed: Placed, g: int, direction: Array, sign: float, out: Array) -> int:
    """Write the corners of a shape that face ``sign * direction``, without its rounding; return their number.

    They are the corners of a face, the two ends of a line, or one point.
    """
    radius, half_length = shapes.cylinder[g]
    if radius > 0.0:
        axis = placed.rotation[g, :, 2]
        along = sign * _dot(axis, direction)
        across = np.sqrt(max(0.0, 1.0 - along * along))
        # the foremost point of the rims, or any point of a cap perpendicular to the direction
        aim = np.empty(3)
        for k in range(3):
            aim[k] = (sign * direction[k] - along * axis[k]) / across if across > 1e-9 else placed.rotation[g, k, 0]
        if abs(along) < across:
            for k in range(3):
                side = 0.5 * (placed.low[g, k] + placed.high[g, k]) + radius * aim[k]
                out[0, k], out[1, k] = side - half_length * axis[k], side + half_length * axis[k]
            return 2
        turn = 2.0 * np.pi / RIM_POINTS
        for k in range(3):
            x, y = (k + 1) % 3, (k + 2) % 3
            side = axis[x] * aim[y] - axis[y] * aim[x]
            cap = (
                0.5 * (placed.low[g, k] + placed.high[g, k]) + (half_length if along > 0.0 else -half_length) * axis[k]
            )
            for i in range(RIM_POINTS):
                out[i, k] = cap + radius * (np.cos(i * turn) * aim[k] + np.sin(i * turn) * side)
        return RIM_POINTS
    face, _ = _facing(shapes, placed, g, direction, sign)
    if face >= 0:
        return int(_loop(shapes, placed, face, out))
    first, end = shapes.corner_start[g], shapes.corner_start[g + 1]
    for i in range(first, end):
        for k in range(3):
            out[i - first, k] = placed.corner[i, k]
    return int(end - first)


@njit(cache=True, inner=True, error_model="numpy")
def _extent(shapes: ShapeArrays, placed: Placed, g: int, direction: Array, sign: float) -> float:
    """Return the largest coordinate of a shape along ``sign * direction``, from the world's origin."""
    radius, half_length = shapes.cylinder[g]
    if radius > 0.0:
        along, middle = _dot(placed.rotation[g, :, 2], direction), 0.0
        for k in range(3):
            middle += 0.5 * (placed.low[g, k] + placed.high[g, k]) * direction[k]
        return float(sign * middle + half_length * abs(along) + radius * np.sqrt(max(0.0, 1.0 - along * along)))
    most = -np.inf
    for i in range(shapes.corner_start[g], shapes.corner_start[g + 1]):
        most = max(most, sign * _dot(placed.corner[i], direction))
    return float(most + shapes.rounding[g])


@njit(cache=True, inner=True, error_model="numpy")
def _face_manifold(
    shapes: ShapeArrays, placed: Placed, reference: _Reference, margin: float, manifold: _Manifold, arena: Arena
) -> int:
    """Clip the facing feature of the other shape against the borders of the reference face.

    Returns:
        The number of contacts, written into `manifold` with their exact normal. It is 0, and the normal is unchanged,
        if the feature is one point or clipped away.
    """
    point, gap = manifold.point, manifold.gap
    outward = placed.face_normal[reference.face]
    border = matrix(arena, point.shape[0], 3)
    corners = _loop(shapes, placed, reference.face, border)
    size = _feature(shapes, placed, reference.other, outward, -1.0, point)
    if size < 2:
        return 0
    rounding = shapes.rounding[reference.other]
    if size == 2:
        # only a nearly parallel line counts; at a clipped end its surface is r / cos(tilt) away along the normal
        length, rise = np.sqrt(_gap2(point[0], point[1])), _dot(outward, point[1]) - _dot(outward, point[0])
        if abs(rise) > PARALLEL * length:
            return 0
        rounding /= np.sqrt(1.0 - (rise / length) ** 2)
    size = _clip(point, size, border, corners, outward, arena)
    base = _dot(outward, border[0]) + shapes.rounding[reference.owner] + rounding
    count = 0
    for i in range(size):
        d = _dot(outward, point[i]) - base
        repeated = False
        for j in range(count):
            repeated |= _gap2(point[j], point[i]) < (10.0 * SAME_POINT) ** 2
        if d < margin and not repeated:
            for k in range(3):
                point[count, k] = point[i, k]
            gap[count] = d
            count += 1
    count = _thin_out(point, gap, count)
    for i in range(count):
        for k in range(3):
            point[i, k] -= (rounding + 0.5 * gap[i]) * outward[k]
    if count > 0:
        for k in range(3):
            manifold.normal[k] = reference.sign * outward[k]
    return int(count)


@njit(cache=True, inner=True, error_model="numpy")
def _clip(polygon: Array, n: int, border: Array, corners: int, outward: Array, arena: Arena) -> int:
    """Clip a polygon (or line) in place against the prism over a face; return its number of corners.

    `border` runs counter-clockwise about `outward`. Points on the border are inside, so equal faces keep their corners.
    Source: Sutherland and Hodgman (1974).
    """
    beyond, clipped = vector(arena, 3), matrix(arena, polygon.shape[0], 3)
    for e in range(corners):
        start, stop = border[e], border[(e + 1) % corners]
        ex, ey, ez = stop[0] - start[0], stop[1] - start[1], stop[2] - start[2]
        beyond[0] = ey * outward[2] - ez * outward[1]
        beyond[1] = ez * outward[0] - ex * outward[2]
        beyond[2] = ex * outward[1] - ey * outward[0]
        length = np.sqrt(_dot(beyond, beyond))
        offset = _dot(beyond, start)
        kept = 0
        for i in range(n):
            j = (i + 1) % n
            d_here, d_there = (_dot(beyond, polygon[i]) - offset) / length, (_dot(beyond, polygon[j]) - offset) / length
            inside = d_here <= SAME_POINT
            if inside:
                for k in range(3):
                    clipped[kept, k] = polygon[i, k]
                kept += 1
            if inside != (d_there <= SAME_POINT) and not (n == 2 and i == 1):
                t = min(max(d_here / (d_here - d_there), 0.0), 1.0)
                for k in range(3):
                    clipped[kept, k] = polygon[i, k] + t * (polygon[j, k] - polygon[i, k])
                kept += 1
        n = kept
        for i in range(n):
            for k in range(3):
                polygon[i, k] = clipped[i, k]
    return n


@njit(cache=True, inner=True, error_model="numpy")
def _thin_out(point: Array, gap: Array, n: int) -> int:
    """Keep at most `MAX_POINTS` points, in place; return their number.

    The deepest point is kept first, then repeatedly the point farthest from all kept points.
    """
    if n <= MAX_POINTS:
        return n
    for kept in range(MAX_POINTS):
        best, most = kept, -np.inf
        for i in range(kept, n):
            far = -gap[i] if kept == 0 else np.inf
            for j in range(kept):
                far = min(far, _gap2(point[i], point[j]))
            if far > most:
                best, most = i, far
        for k in range(3):
            point[kept, k], point[best, k] = point[best, k], point[kept, k]
        gap[kept], gap[best] = gap[best], gap[kept]
    return MAX_POINTS


@njit(cache=True, inner=True, error_model="numpy")
def _side_lines(
    shapes: ShapeArrays, placed: Placed, a: int, b: int, margin: float, manifold: _Manifold, arena: Arena
) -> int:
    """Write contacts at both ends of the overlap of parallel side lines (capsules, cylinders); return their number."""
    point, up = manifold.point, manifold.normal
    line_a, line_b = matrix(arena, point.shape[0], 3), matrix(arena, point.shape[0], 3)
    if _feature(shapes, placed, a, up, -1.0, line_a) != 2 or _feature(shapes, placed, b, up, 1.0, line_b) != 2:
        return 0
    u, w, along, length, full = np.empty(3), np.empty(3), 0.0, 0.0, 0.0
    for k in range(3):
        u[k], w[k] = line_a[1, k] - line_a[0, k], line_b[1, k] - line_b[0, k]
        along, length, full = along + u[k] * w[k], length + u[k] * u[k], full + w[k] * w[k]
    length = np.sqrt(length)
    along /= length
    if full - along * along > PARALLEL * PARALLEL * full:
        return 0
    start = 0.0  # start of line b, measured along line a
    for k in range(3):
        start += (line_b[0, k] - line_a[0, k]) * u[k] / length
    first, last = max(0.0, min(start, start + along)), min(length, max(start, start + along))
    if not last - first > SAME_POINT:
        return 0
    count = 0
    for t in (first, last):
        d = -shapes.rounding[a] - shapes.rounding[b]
        for k in range(3):
            point[count, k] = line_b[0, k] + (t - start) / along * w[k]
            d += up[k] * (line_a[0, k] + t / length * u[k] - point[count, k])
        if d < margin:
            for k in range(3):
                point[count, k] += (shapes.rounding[b] + 0.5 * d) * up[k]
            manifold.gap[count] = d
            count += 1
    return count


@njit(cache=True, inner=True, error_model="numpy")
def match(now: Tracked, before: Tracked, follow: Array) -> None:
    """Give each contact the slot of the nearest previous contact of its pair, or a free slot below `MAX_POINTS`.

    Args:
        now: Contacts of this step; their slots are overwritten.
        before: Contacts of the previous step.
        follow: Largest motion of each contact since the previous step, equal within a pair, shape (n,) [m].
    """
    pair, slot, point = now
    old_pair, old_slot, old_point = before
    n, m = pair.shape[0], old_pair.shape[0]
    start, old_start = 0, 0
    while start < n:
        end = start
        while end < n and pair[end] == pair[start]:
            slot[end] = -1
            end += 1
        while old_start < m and old_pair[old_start] < pair[start]:
            old_start += 1
        old_end = old_start
        while old_end < m and old_pair[old_end] == pair[start]:
            old_end += 1
        taken = 0  # bit set of slots
        while True:  # nearest first
            best, best_old, least = -1, -1, follow[start] ** 2
            for i in range(start, end):
                for j in range(old_start, old_end):
                    if slot[i] < 0 and not (taken >> old_slot[j]) & 1:
                        far = _gap2(point[i], old_point[j])
                        if far < least:
                            best, best_old, least = i, j, far
            if best < 0:
                break
            slot[best] = old_slot[best_old]
            taken |= 1 << old_slot[best_old]
        for i in range(start, end):
            if slot[i] < 0:
                free = 0
                while (taken >> free) & 1:
                    free += 1
                slot[i] = free
                taken |= 1 << free
        start, old_start = end, old_end
