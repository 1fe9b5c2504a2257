"""Closed-form distances between spheres and boxes, for kernels; and candidate pairs of shapes in a scene.

Distances are positive between separate shapes, and minus the penetration depth otherwise. The depth of two boxes is the
smallest overlap along fifteen axes (separating axis theorem); the distance of separate boxes is the smallest distance
between a corner and a face, or between two edges.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from idcontrol.contact.manifold import Pairs, Placed
from idcontrol.contact.shapes import BOX, SPHERE, ShapeArrays
from idcontrol.kernels.arena import Arena, begin, vector
from idcontrol.kernels.jit import njit
from idcontrol.kernels.linear import assign
from idcontrol.types import Array, Integers

PARALLEL_EDGES = 1e-6
"""Angle [rad] below which edges count as parallel: a face normal then replaces their separating axis."""

FLAT = 1e-7
"""A face normal replaces another direction between two boxes if both distances differ by at most this [m], since the
normal is exact."""


class _Box(NamedTuple):
    """A placed box.

    Attributes:
        position: Centre, world frame, shape (3,) [m].
        rotation: Axes (columns), shape (3, 3).
        half: Half lengths of the sides, shape (3,) [m].
    """

    position: Array
    rotation: Array
    half: Array


@njit(cache=True, error_model="numpy")
def candidate_pairs(low: Array, high: Array, reach: Array, group: Integers) -> Integers:
    """Return the pairs of shapes whose widened bounding boxes overlap, by a sweep along x.

    Args:
        low: Least coordinates of each shape, shape (g, 3) [m].
        high: Largest coordinates, shape (g, 3) [m].
        reach: Widening on all sides, shape (g,) [m].
        group: Number of the body that carries each shape, shape (g,); -1 is the world. Shapes of one body cannot meet.

    Returns:
        Shapes (A, B) in ascending order, shape (p, 2). A moves; if both move, A has the lower number. A shape with a
        NaN is in no pair.
    """
    count = low.shape[0]
    order = np.argsort(low[:, 0] - reach)
    # sorted copies of the widened boxes, so that the sweep reads contiguous memory
    least, most = np.empty((3, count)), np.empty((3, count))
    for i in range(count):
        for k in range(3):
            least[k, i] = low[order[i], k] - reach[order[i]]
            most[k, i] = high[order[i], k] + reach[order[i]]
    room, n = 4 * count + 16, 0
    code = np.empty(room, np.int64)
    for i in range(count):
        a, end = order[i], most[0, i]
        for j in range(i + 1, count):
            if not least[0, j] <= end:
                break
            if not (
                least[1, i] <= most[1, j]
                and least[1, j] <= most[1, i]
                and least[2, i] <= most[2, j]
                and least[2, j] <= most[2, i]
            ):
                continue
            b = order[j]
            if group[a] == group[b]:
                continue
            first, second = min(a, b), max(a, b)
            if group[first] < 0:
                first, second = second, first
            if n == room:
                grown = np.empty(2 * room, np.int64)
                assign(grown, code)
                code, room = grown, 2 * room
            code[n] = first * count + second
            n += 1
    codes = np.sort(code[:n])
    pairs = np.empty((n, 2), np.int64)
    for i in range(n):
        pairs[i, 0], pairs[i, 1] = codes[i] // count, codes[i] % count
    return pairs


@njit(cache=True, inner=True, error_model="numpy")
def measure(shapes: ShapeArrays, placed: Placed, pairs: Pairs, arena: Arena) -> None:
    """Write direction, witness and distance of the pairs of spheres and boxes; skip other pairs.

    If shapes are apart by their margin or more, the distance may be a lower bound, and the other results are arbitrary.

    Args:
        shapes: All shapes.
        placed: Placement of the shapes.
        pairs: Pairs of shapes.
        arena: Memory for one pair; its contents are lost.
    """
    for i in range(pairs.shape.shape[0]):
        begin(arena)
        a, b = pairs.shape[i]
        kind_a, kind_b = shapes.kind[a], shapes.kind[b]
        direction, witness = pairs.direction[i], pairs.witness[i]
        if kind_a == SPHERE and kind_b == SPHERE:
            pairs.distance[i] = _sphere_sphere(shapes, placed, a, b, direction, witness)
        elif kind_a == SPHERE and kind_b == BOX:
            pairs.distance[i] = _sphere_box(shapes, placed, a, b, direction, witness, arena)
        elif kind_a == BOX and kind_b == SPHERE:
            pairs.distance[i] = _sphere_box(shapes, placed, b, a, direction, witness, arena)
            for k in range(3):
                direction[k] = -direction[k]
        elif kind_a == BOX and kind_b == BOX:
            box_a = _Box(placed.position[a], placed.rotation[a], shapes.half[a])
            box_b = _Box(placed.position[b], placed.rotation[b], shapes.half[b])
            pairs.distance[i] = _box_box(box_a, box_b, pairs.margin[i], direction, witness, arena)


@njit(cache=True, inner=True, error_model="numpy")
def _dot(a: Array, b: Array) -> float:
    return float(a[0] * b[0] + a[1] * b[1] + a[2] * b[2])


@njit(cache=True, inner=True, error_model="numpy")
def _sphere_sphere(shapes: ShapeArrays, placed: Placed, a: int, b: int, direction: Array, witness: Array) -> float:
    """Return the distance of two spheres; write direction and witness as in `Pairs`.

    The direction is the line between the centres, or the world's z axis if the centres coincide.
    """
    length = 0.0
    for k in range(3):
        direction[k] = placed.position[a, k] - placed.position[b, k]
        length += direction[k] * direction[k]
    length = np.sqrt(length)
    if length > 0.0:
        for k in range(3):
            direction[k] /= length
    elif length == 0.0:
        direction[0], direction[1], direction[2] = 0.0, 0.0, 1.0
    distance = length - shapes.rounding[a] - shapes.rounding[b]
    for k in range(3):
        witness[k] = placed.position[b, k] + (shapes.rounding[b] + 0.5 * distance) * direction[k]
    return float(distance)


@njit(cache=True, inner=True, error_model="numpy")
def _sphere_box(
    shapes: ShapeArrays, placed: Placed, ball: int, box: int, direction: Array, witness: Array, arena: Arena
) -> float:
    """Return the distance of a ball from a box.

    The distance refers to the point of the box nearest to the ball's centre, or to the nearest face if the centre is
    inside. The direction points to the ball.
    """
    rotation, half = placed.rotation[box], shapes.half[box]
    local, apart = vector(arena, 3), 0.0
    face, least = 0, np.inf
    for k in range(3):
        local[k] = 0.0
        for j in range(3):
            local[k] += rotation[j, k] * (placed.position[ball, j] - placed.position[box, j])
        inside = half[k] - abs(local[k])
        if not inside >= least:  # a NaN must stay visible
            face, least = k, inside
    if least >= 0.0:
        for k in range(3):
            direction[k] = rotation[k, face] if local[face] >= 0.0 else -rotation[k, face]
        apart = -least
    else:
        for k in range(3):
            local[k] -= min(max(local[k], -half[k]), half[k])
            apart += local[k] * local[k]
        apart = np.sqrt(apart)
        for k in range(3):
            direction[k] = (rotation[k, 0] * local[0] + rotation[k, 1] * local[1] + rotation[k, 2] * local[2]) / apart
    distance = apart - shapes.rounding[ball]
    for k in range(3):
        witness[k] = placed.position[ball, k] - (shapes.rounding[ball] + 0.5 * distance) * direction[k]
    return float(distance)


@njit(cache=True, inner=True, error_model="numpy")
def _reach(box: _Box, axis: Array) -> float:
    """Return the half width of a box along a unit vector [m]."""
    R, most = box.rotation, 0.0
    for k in range(3):
        most += box.half[k] * abs(R[0, k] * axis[0] + R[1, k] * axis[1] + R[2, k] * axis[2])
    return most


@njit(cache=True, inner=True, error_model="numpy")
def _corner(box: _Box, axis: Array, sign: float, out: Array) -> None:
    """Write the corner of a box that lies farthest along ``sign * axis``."""
    R = box.rotation
    for j in range(3):
        out[j] = box.position[j]
    for k in range(3):
        along = sign * (R[0, k] * axis[0] + R[1, k] * axis[1] + R[2, k] * axis[2])
        step = box.half[k] if along >= 0.0 else -box.half[k]
        for j in range(3):
            out[j] += step * R[j, k]


@njit(cache=True, inner=True, error_model="numpy")
def _within(box: _Box, k: int, point: Array) -> bool:
    """True if a point lies between the two faces of a box that are perpendicular to its axis k, or on one of them."""
    p, R, half = box
    along = R[0, k] * (point[0] - p[0]) + R[1, k] * (point[1] - p[1]) + R[2, k] * (point[2] - p[2])
    return bool(abs(along) <= half[k])


@njit(cache=True, inner=True, error_model="numpy")
def _separating_face(a: _Box, b: _Box, axis: Array, direction: Array) -> tuple[float, int]:
    """Return the largest separation along a face normal, and the axis of the face: 0-2 of A, 3-5 of B.

    Write the normal, from B to A, into `direction`; `axis` is scratch.
    """
    best, owner = -np.inf, 0
    for i in range(6):
        toward = 0.0
        for k in range(3):
            axis[k] = a.rotation[k, i] if i < 3 else b.rotation[k, i - 3]
            toward += axis[k] * (a.position[k] - b.position[k])
        width = abs(toward) - _reach(a, axis) - _reach(b, axis)
        if not width <= best:  # a NaN must stay visible
            best, owner = width, i
            for k in range(3):
                direction[k] = axis[k] if toward >= 0.0 else -axis[k]
    return best, owner


@njit(cache=True, inner=True, error_model="numpy")
def _separating_edges(a: _Box, b: _Box, best: float, edge: Array, axis: Array) -> tuple[float, int, int]:
    """Return the larger of `best` and the largest separation along a common normal of two edges.

    Return also the box axes along which the two edges lie, or -1 if `best` is returned unchanged. Write the normal of
    the edges, from B to A, into `axis`.
    """
    Ra, Rb, best_i, best_j = a.rotation, b.rotation, -1, -1
    for i in range(3):
        for j in range(3):
            for k in range(3):
                edge[k] = Ra[(k + 1) % 3, i] * Rb[(k + 2) % 3, j] - Ra[(k + 2) % 3, i] * Rb[(k + 1) % 3, j]
            length = np.sqrt(_dot(edge, edge))
            if length < PARALLEL_EDGES:
                continue
            toward = 0.0
            for k in range(3):
                edge[k] /= length
                toward += edge[k] * (a.position[k] - b.position[k])
            width = abs(toward) - _reach(a, edge) - _reach(b, edge)
            if width > best + FLAT:
                best, best_i, best_j = width, i, j
                for k in range(3):
                    axis[k] = edge[k] if toward >= 0.0 else -edge[k]
    return best, best_i, best_j


@njit(cache=True, inner=True, error_model="numpy")
def _box_box(a: _Box, b: _Box, margin: float, direction: Array, witness: Array, arena: Arena) -> float:
    """Return the distance of two boxes; write direction and witness as in `Pairs`.

    If the separation along an axis is `margin` or more, it is returned: a lower bound of the distance.
    """
    axis, edge, on_a, on_b = vector(arena, 3), vector(arena, 3), vector(arena, 3), vector(arena, 3)
    flat, owner = _separating_face(a, b, axis, direction)
    if flat >= margin:
        return float(flat)
    best, best_i, best_j = _separating_edges(a, b, flat, edge, axis)
    if best >= margin:
        return float(best)
    # the separation along any axis is a lower bound of the distance: two points at that distance are the nearest
    if best_i >= 0:
        _corner(a, axis, -1.0, on_a)
        _corner(b, axis, 1.0, on_b)
        _nearest_on_lines(on_a, a.rotation[:, best_i], on_b, b.rotation[:, best_j], witness)
        if best <= 0.0 or (_within(a, best_i, witness) and _within(b, best_j, witness)):
            for k in range(3):
                direction[k] = axis[k]
            return float(best)
    else:
        # the corner of the other box
        face, owning, other, sign = owner % 3, a, b, 1.0
        if owner >= 3:
            owning, other, sign = b, a, -1.0
        _corner(other, direction, sign, on_b)
        if not best > 0.0 or (_within(owning, (face + 1) % 3, on_b) and _within(owning, (face + 2) % 3, on_b)):
            for k in range(3):
                witness[k] = on_b[k] + 0.5 * sign * flat * direction[k]
            return float(flat)
    distance = _nearest_points(a, b, on_a, on_b, arena)
    for k in range(3):
        witness[k] = 0.5 * (on_a[k] + on_b[k])
    if distance - flat <= FLAT:
        return float(flat)
    if distance > 10.0 * FLAT or best_i < 0:
        for k in range(3):
            axis[k] = on_a[k] - on_b[k]
    # for closer points the difference is mostly rounding: use the best axis
    length = np.sqrt(_dot(axis, axis))
    for k in range(3):
        direction[k] = axis[k] / length
    return float(distance)


@njit(cache=True, inner=True, error_model="numpy")
def _nearest_on_lines(p: Array, u: Array, q: Array, w: Array, middle: Array) -> None:
    """Write the middle between the nearest points of two skew lines: through p along u, and through q along w."""
    across, r_u, r_w = _dot(u, w), 0.0, 0.0
    for k in range(3):
        r_u += (q[k] - p[k]) * u[k]
        r_w += (q[k] - p[k]) * w[k]
    scale = 1.0 / (1.0 - across * across)
    s, t = scale * (r_u - across * r_w), scale * (across * r_u - r_w)
    for k in range(3):
        middle[k] = 0.5 * (p[k] + s * u[k] + q[k] + t * w[k])


@njit(cache=True, inner=True, error_model="numpy")
def _nearest_points(a: _Box, b: _Box, on_a: Array, on_b: Array, arena: Arena) -> float:
    """Write the nearest points of two boxes that do not overlap; return their distance."""
    corner, local = vector(arena, 3), vector(arena, 3)
    least = _corners_over_box(a, b, np.inf, on_a, on_b, corner, local)
    least = _corners_over_box(b, a, least, on_b, on_a, corner, local)
    for i in range(3):
        for j in range(3):
            least = _edge_over_edge(a, b, i, j, least, on_a, on_b, corner, local)
    return float(np.sqrt(least))


@njit(cache=True, inner=True, error_model="numpy")
def _corners_over_box(a: _Box, b: _Box, least: float, on_a: Array, on_b: Array, corner: Array, local: Array) -> float:
    """Write the corner of A and the point of B nearest to each other if their squared distance is below `least`.

    Return the smaller of this square and `least`.
    """
    p, R, h = a
    o, Q, g = b
    for bits in range(8):
        for k in range(3):
            corner[k] = p[k]
            for j in range(3):
                corner[k] += (h[j] if (bits >> j) & 1 else -h[j]) * R[k, j]
        far = 0.0
        for k in range(3):
            s = 0.0
            for j in range(3):
                s += Q[j, k] * (corner[j] - o[j])
            local[k] = min(max(s, -g[k]), g[k])
            far += (s - local[k]) ** 2
        if far < least:
            least = far
            for k in range(3):
                on_a[k], on_b[k] = corner[k], o[k] + Q[k, 0] * local[0] + Q[k, 1] * local[1] + Q[k, 2] * local[2]
    return least


@njit(cache=True, inner=True, error_model="numpy")
def _edge_over_edge(
    a: _Box, b: _Box, i: int, j: int, least: float, on_a: Array, on_b: Array, start: Array, local: Array
) -> float:
    """Write the nearest points of A's edges along its axis i and B's edges along its axis j.

    Nothing is written if a nearest point is a corner, if the edges are parallel, or if the squared distance is not
    below `least`. Return the smaller of this square and `least`.
    """
    pa, Ra, ha = a
    pb, Rb, hb = b
    cross = Ra[0, i] * Rb[0, j] + Ra[1, i] * Rb[1, j] + Ra[2, i] * Rb[2, j]
    if 1.0 - cross * cross < PARALLEL_EDGES * PARALLEL_EDGES:
        return least  # parallel edges: a corner over a face or an edge is as near
    scale = 1.0 / (1.0 - cross * cross)
    for bits_a in range(4):
        for k in range(3):
            start[k] = pa[k] - pb[k]
            start[k] += (ha[(i + 1) % 3] if bits_a & 1 else -ha[(i + 1) % 3]) * Ra[k, (i + 1) % 3]
            start[k] += (ha[(i + 2) % 3] if bits_a & 2 else -ha[(i + 2) % 3]) * Ra[k, (i + 2) % 3]
        for bits_b in range(4):
            far, r_u, r_w = 0.0, 0.0, 0.0
            for k in range(3):
                local[k] = start[k]
                local[k] -= (hb[(j + 1) % 3] if bits_b & 1 else -hb[(j + 1) % 3]) * Rb[k, (j + 1) % 3]
                local[k] -= (hb[(j + 2) % 3] if bits_b & 2 else -hb[(j + 2) % 3]) * Rb[k, (j + 2) % 3]
                r_u += local[k] * Ra[k, i]
                r_w += local[k] * Rb[k, j]
            s, t = scale * (cross * r_w - r_u), scale * (r_w - cross * r_u)
            if not (abs(s) < ha[i] and abs(t) < hb[j]):
                continue  # the nearest point is an end: already covered
            for k in range(3):
                far += (local[k] + s * Ra[k, i] - t * Rb[k, j]) ** 2
            if far < least:
                least = far
                for k in range(3):
                    on_b[k] = pb[k] + t * Rb[k, j]
                    on_b[k] += (hb[(j + 1) % 3] if bits_b & 1 else -hb[(j + 1) % 3]) * Rb[k, (j + 1) % 3]
                    on_b[k] += (hb[(j + 2) % 3] if bits_b & 2 else -hb[(j + 2) % 3]) * Rb[k, (j + 2) % 3]
                    on_a[k] = on_b[k] + local[k] + s * Ra[k, i] - t * Rb[k, j]
    return least
