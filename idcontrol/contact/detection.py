"""Contact points of placed shapes: with the ground, and of pairs of shapes with each other.

Distances between spheres and boxes are closed forms; coal measures the others. Flat contacts become manifolds of up to
eight points with their own gaps (see `manifold`). A contact keeps its number from step to step: on the ground it is the
corner's, between shapes that of the nearest contact of the step before.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import coal
import numpy as np
from numba import njit

from idcontrol.contact.distance import measure
from idcontrol.contact.manifold import (
    MAX_POINTS,
    RIM_GROUND_POINTS,
    Placed,
    ground_contacts,
    match,
    pair_contacts,
    place,
)
from idcontrol.contact.shapes import ShapeArrays, flatten, from_coal
from idcontrol.contact.terrain import Terrain
from idcontrol.types import Array, Integers

FOLLOW = 0.2
"""A contact keeps its identity while it moves less than this in one step, in radii of the smaller shape."""

GROUND = -1
"""Stands for shape B where that is the ground."""

_Kept = tuple[Integers, Integers, Array]
"""Of the contacts between shapes: the pair's number, the slot, and the point in the frame of shape A [m]."""


class Points(NamedTuple):
    """Contact points, those on the ground first.

    Attributes:
        identity: The same number from step to step, shape (n,).
        shape: Shapes A and B, shape (n, 2); `GROUND` where B is the ground.
        gap: Signed distance, shape (n,) [m].
        normal: Unit normal, from B to A, shape (n, 3).
        point: In the middle between the surfaces, shape (n, 3) [m].
    """

    identity: Integers
    shape: Integers
    gap: Array
    normal: Array
    point: Array


class Detection:
    """Shapes, where they were last, and which contacts they had.

    Attributes:
        shapes: The shapes as arrays.
        placed: Where they were at the last `put`.
        geometries: Their coal geometries, with convex hulls for meshes.
    """

    def __init__(self, geometries: Sequence[Any], names: Sequence[str], terrain: Terrain | None) -> None:
        """Prepare coal geometries.

        Raises:
            InputError: A kind of geometry is not supported, has no volume or is not finite; its name is in the text.
        """
        made = [from_coal(geometry, name) for geometry, name in zip(geometries, names, strict=True)]
        self.shapes: ShapeArrays = flatten([shape for shape, _ in made])
        self.geometries = [geometry for _, geometry in made]
        count = len(made)
        self._parameters: Array = terrain.parameters if terrain is not None else np.zeros(0)
        self._coefficients: Array = terrain.coefficients if terrain is not None else np.zeros((1, 0))
        self._has_ground = terrain is not None
        rims = self.shapes.cylinder[:, 0] > 0.0
        corners = np.where(rims, 2 * RIM_GROUND_POINTS, np.diff(self.shapes.corner_start))
        self._ground_slot: Integers = np.concatenate([[0], np.cumsum(corners)]).astype(np.int64)
        self._radius: Array = np.linalg.norm(self.shapes.half, axis=1)
        self.placed = Placed(
            position=np.empty((count, 3)),
            rotation=np.empty((count, 3, 3)),
            corner=np.empty_like(self.shapes.corner),
            face_normal=np.empty_like(self.shapes.face_normal),
            low=np.empty((count, 3)),
            high=np.empty((count, 3)),
        )
        self.reset()

    def reset(self) -> None:
        """Forget which contacts there were."""
        none: Integers = np.zeros(0, dtype=np.int64)
        self._kept: _Kept = (none, none, np.zeros((0, 3)))

    def put(self, position: Array, rotation: Array) -> None:
        """Say where the shapes are: origins (g, 3) [m], axes as columns (g, 3, 3), world frame."""
        place(self.shapes, position, rotation, self.placed)

    def find(self, pair: Integers, margin: Array, on_ground: Integers, ground_margin: Array) -> Points:
        """The contacts whose gap is below a margin.

        Args:
            pair: Shapes (A, B) to look at, in ascending order, shape (p, 2).
            margin: Of each pair, shape (p,) [m].
            on_ground: Shapes that can touch the ground; none can where there is no ground.
            ground_margin: Of each shape, shape (g,) [m].
        """
        p = pair.shape[0]
        direction, witness, distance = np.empty((p, 3)), np.empty((p, 3)), np.empty(p)
        measured = np.empty(p, dtype=np.bool_)
        measure(self.shapes, self.placed, pair, direction, witness, distance, measured)
        if not measured.all():
            self._measure_others(pair, np.flatnonzero(~measured), direction, witness, distance)
        points: Points
        points, self._kept = _collect(
            self.shapes,
            self.placed,
            self._ground_slot,
            on_ground if self._has_ground else on_ground[:0],
            self._parameters,
            self._coefficients,
            self._radius,
            self._kept,
            pair,
            direction,
            witness,
            distance,
            margin,
            ground_margin,
        )
        return points

    def _measure_others(
        self, pair: Integers, which: Integers, direction: Array, witness: Array, distance: Array
    ) -> None:
        """Distances of pairs that have no closed form, by coal."""
        request = coal.DistanceRequest()
        for i in which:
            a, b = pair[i]
            place_a, place_b = (
                coal.Transform3s(np.array(self.placed.rotation[g]), np.array(self.placed.position[g])) for g in (a, b)
            )
            result = coal.DistanceResult()
            coal.distance(self.geometries[a], place_a, self.geometries[b], place_b, request, result)
            direction[i] = -result.normal
            witness[i] = 0.5 * (result.getNearestPoint1() + result.getNearestPoint2())
            distance[i] = result.min_distance


@njit(cache=True, error_model="numpy")
def _collect(
    shapes: ShapeArrays,
    placed: Placed,
    ground_slot: Integers,
    on_ground: Integers,
    parameters: Array,
    coefficients: Array,
    radius: Array,
    kept: _Kept,
    pair: Integers,
    direction: Array,
    witness: Array,
    distance: Array,
    margin: Array,
    ground_margin: Array,
) -> tuple[Points, _Kept]:
    """Ground contacts and manifolds with their identities, and what `match` needs in the next step."""
    count = shapes.rounding.shape[0]
    close = np.empty(pair.shape[0], np.int64)
    c = 0
    for i in range(pair.shape[0]):
        if not distance[i] >= margin[i]:  # a NaN must stay visible
            close[c] = i
            direction[c], witness[c] = direction[i], witness[i]
            distance[c], margin[c] = distance[i], margin[i]
            c += 1
    most = c * MAX_POINTS
    for g in on_ground:
        most += ground_slot[g + 1] - ground_slot[g]
    identity, which = np.empty(most, np.int64), np.empty(most, np.int64)
    gap, normal, point = np.empty(most), np.empty((most, 3)), np.empty((most, 3))
    g = ground_contacts(
        shapes,
        placed,
        on_ground,
        ground_slot,
        parameters,
        coefficients,
        ground_margin,
        identity,
        which,
        gap,
        normal,
        point,
    )
    n = g + pair_contacts(
        shapes, placed, pair, close[:c], direction, witness, distance, margin, which[g:], gap[g:], normal[g:], point[g:]
    )
    shape = np.empty((n, 2), np.int64)
    code, near, local, slot = (
        np.empty(n - g, np.int64),
        np.empty(n - g),
        np.empty((n - g, 3)),
        np.empty(n - g, np.int64),
    )
    for i in range(n):
        if i < g:
            shape[i, 0], shape[i, 1] = which[i], GROUND
            continue
        a, b = pair[which[i]]
        shape[i, 0], shape[i, 1] = a, b
        code[i - g], near[i - g] = a * count + b, FOLLOW * min(radius[a], radius[b])
        for k in range(3):
            local[i - g, k] = 0.0
            for j in range(3):
                local[i - g, k] += placed.rotation[a, j, k] * (point[i, j] - placed.position[a, j])
    match(code, local, near, kept[0], kept[1], kept[2], slot)
    for i in range(g, n):
        identity[i] = ground_slot[-1] + MAX_POINTS * code[i - g] + slot[i - g]
    points = Points(identity[:n].copy(), shape, gap[:n].copy(), normal[:n].copy(), point[:n].copy())
    return points, (code, slot, local)


def least_friction(mu: Array, terrain_mu: float, shape: Integers) -> Array:
    """Friction coefficient of each contact, shape (n,): the smaller of both partners', (g,) of the shapes."""
    with_ground: Array = np.append(mu, terrain_mu)  # GROUND is the last
    return np.minimum(with_ground[shape[:, 0]], with_ground[shape[:, 1]])
