"""Contact points of placed shapes with the ground and with each other.

Spheres and boxes have closed-form distances; coal measures other shapes. Flat contacts become manifolds of up to eight
points with their own gaps (see `manifold`). A contact keeps its identity from step to step: on the ground, the number
of the corner; between shapes, the identity of the nearest contact in the previous step.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import coal
import numpy as np

from idcontrol.contact.distance import measure
from idcontrol.contact.manifold import (
    GROUND,
    MAX_POINTS,
    RIM_GROUND_POINTS,
    Ground,
    Pairs,
    Placed,
    Points,
    Tracked,
    ground_contacts,
    match,
    pair_contacts,
    place,
    unplaced,
)
from idcontrol.contact.shapes import OTHER, ShapeArrays, flatten, from_coal
from idcontrol.contact.terrain import Terrain
from idcontrol.kernels.arena import reserve
from idcontrol.kernels.bound import Bound, bind
from idcontrol.kernels.jit import njit
from idcontrol.kernels.linked import linked
from idcontrol.types import Array, Integers

__all__ = ["GROUND", "Detection", "contact_points", "put", "unmeasured", "untracked"]

FOLLOW = 0.2
"""Largest motion in one step, in radii of the smaller shape, for which a contact keeps its identity."""


class Detection:
    """Shapes, their last placement, and their last contacts.

    Attributes:
        shapes: The shapes as arrays.
        placed: Placement of the shapes at the last `put`.
        geometries: Coal geometries of the shapes, with convex hulls for meshes.
        scene: Shapes, placement, ground and arena, for `put` and `contact_points`.
        needs_coal: True if some distances have no closed form.
    """

    def __init__(
        self, geometries: Sequence[Any], names: Sequence[str], moving: Integers, terrain: Terrain | None
    ) -> None:
        """Prepare g coal geometries.

        Args:
            geometries: The geometries.
            names: Names of the geometries, for messages.
            moving: Indices of the geometries that can touch the ground.
            terrain: The ground; None for no ground.

        Raises:
            InputError: A geometry is of an unsupported kind, has no volume or is not finite; the text names it.
        """
        converted = [from_coal(geometry, name) for geometry, name in zip(geometries, names, strict=True)]
        self.shapes: ShapeArrays = flatten([shape for shape, _ in converted])
        self.geometries = [geometry for _, geometry in converted]
        rims = self.shapes.cylinder[:, 0] > 0.0
        corners = np.where(rims, 2 * RIM_GROUND_POINTS, np.diff(self.shapes.corner_start))
        ground = Ground(
            parameters=np.zeros(0) if terrain is None else terrain.parameters,
            coefficients=np.zeros((0, 0)) if terrain is None else terrain.coefficients,
            moving=moving[:0] if terrain is None else moving,
            first=np.concatenate([[0], np.cumsum(corners)]).astype(np.int64),
        )
        self.placed: Placed = unplaced(self.shapes)
        self.scene: Bound = bind((self.shapes, self.placed, ground, reserve()))
        self.needs_coal = bool((self.shapes.kind == OTHER).any())
        self.reset()

    def reset(self) -> None:
        """Forget the contacts of the last step."""
        self._tracked = untracked()

    def put(self, position: Array, rotation: Array) -> None:
        """Place the shapes: origins (g, 3) [m], axes (columns) (g, 3, 3), world frame."""
        put(self.scene, position, rotation)

    def find(self, pair: Integers, margin: Array, ground_margin: Array) -> Points:
        """Return the contacts whose gap is below a margin.

        Args:
            pair: Candidate pairs of shapes (A, B), rows in ascending order, shape (p, 2).
            margin: Largest gap of each pair, shape (p,) [m].
            ground_margin: Largest gap of each shape over the ground, shape (g,) [m].
        """
        pairs = unmeasured(pair, margin)
        self.measure(pairs)
        points: Points
        points, self._tracked = contact_points(self.scene, pairs, ground_margin, self._tracked)
        return points

    def measure(self, pairs: Pairs) -> None:
        """Measure the pairs without a closed form, in place; `contact_points` measures the others."""
        if not self.needs_coal:
            return
        request = coal.DistanceRequest()
        for i in np.flatnonzero((self.shapes.kind[pairs.shape] == OTHER).any(axis=1)):
            a, b = pairs.shape[i]
            place_a, place_b = (
                coal.Transform3s(np.array(self.placed.rotation[g]), np.array(self.placed.position[g])) for g in (a, b)
            )
            result = coal.DistanceResult()
            coal.distance(self.geometries[a], place_a, self.geometries[b], place_b, request, result)
            pairs.direction[i] = -result.normal
            pairs.witness[i] = 0.5 * (result.getNearestPoint1() + result.getNearestPoint2())
            pairs.distance[i] = result.min_distance


def untracked() -> Tracked:
    """Return an empty record of contacts between shapes, for the first step."""
    none: Integers = np.zeros(0, dtype=np.int64)
    return Tracked(pair=none, slot=none, point=np.zeros((0, 3)))


@njit(cache=True, error_model="numpy")
def unmeasured(pair: Integers, margin: Array) -> Pairs:
    """Return pairs (p, 2) of shapes with their margins (p,) [m]; their distances have yet to be measured."""
    p = pair.shape[0]
    return Pairs(pair, margin, np.empty((p, 3)), np.empty((p, 3)), np.empty(p))


@njit(cache=True, error_model="numpy")
def put(scene: Bound, position: Array, rotation: Array) -> None:
    """Write the placement of the shapes of a scene."""
    shapes, placed, _, _ = scene.borrowed
    place(shapes, position, rotation, placed)


@linked
@njit(cache=True, error_model="numpy")
def contact_points(scene: Bound, pairs: Pairs, ground_margin: Array, before: Tracked) -> tuple[Points, Tracked]:
    """Return contact points with their identities, and the record by which the next step matches them.

    Args:
        scene: `Detection.scene`.
        pairs: Candidate pairs; pairs without a closed form must have been measured.
        ground_margin: Largest gap of each shape over the ground, shape (g,) [m].
        before: Contacts between shapes in the previous step.
    """
    shapes, placed, ground, arena = scene.borrowed
    measure(shapes, placed, pairs, arena)
    most = 0
    for g in ground.moving:
        most += ground.first[g + 1] - ground.first[g]
    for i in range(pairs.distance.shape[0]):
        if not pairs.distance[i] >= pairs.margin[i]:  # a NaN must stay visible
            most += MAX_POINTS
    room = Points(
        identity=np.empty(most, np.int64),
        shape=np.empty((most, 2), np.int64),
        gap=np.empty(most),
        normal=np.empty((most, 3)),
        point=np.empty((most, 3)),
    )
    first = ground_contacts(shapes, placed, ground, ground_margin, room)
    n = pair_contacts(shapes, placed, pairs, room, first, arena)
    points = Points(
        room.identity[:n].copy(),
        room.shape[:n].copy(),
        room.gap[:n].copy(),
        room.normal[:n].copy(),
        room.point[:n].copy(),
    )
    count = shapes.rounding.shape[0]
    now = Tracked(
        pair=np.empty(n - first, np.int64), slot=np.empty(n - first, np.int64), point=np.empty((n - first, 3))
    )
    follow = np.empty(n - first)
    for i in range(n - first):
        a, b = points.shape[first + i]
        now.pair[i], follow[i] = a * count + b, FOLLOW * min(shapes.radius[a], shapes.radius[b])
        for k in range(3):
            now.point[i, k] = 0.0
            for j in range(3):
                now.point[i, k] += placed.rotation[a, j, k] * (points.point[first + i, j] - placed.position[a, j])
    match(now, before, follow)
    for i in range(n - first):
        points.identity[first + i] = ground.first[-1] + MAX_POINTS * now.pair[i] + now.slot[i]
    return points, now
