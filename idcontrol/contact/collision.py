"""Contacts of arbitrary convex shapes with the ground, with fixed shapes and with each other, on coal."""

from __future__ import annotations

from typing import Any

import coal
import numpy as np
import numpy.typing as npt
import pinocchio as pin
from numba import njit

from idcontrol.contact.contacts import Contacts, axes_of, contact_rows
from idcontrol.contact.manifold import (
    MAX_POINTS,
    RIM_GROUND_POINTS,
    Placed,
    close_pairs,
    ground_contacts,
    match,
    pair_contacts,
    place,
)
from idcontrol.contact.shapes import ShapeArrays, flatten, from_coal
from idcontrol.contact.terrain import Terrain
from idcontrol.errors import InputError
from idcontrol.system import System
from idcontrol.types import Array, Booleans, Integers

_NO_INDEX: Integers = np.zeros(0, dtype=np.int64)
_NO_VALUES: Array = np.zeros((1, 0))

FOLLOW = 0.2
"""A contact keeps its identity while it moves less than this in one step, in radii of the smaller shape."""


class CollisionContacts:
    """Contacts between the shapes of a Pinocchio geometry model, and of its moving shapes with the ground.

    coal measures distances; flat contacts become manifolds of up to eight points with their own gaps (see `manifold`).
    A contact keeps its identity from step to step: on the ground it is the corner, between shapes the nearest contact
    of the step before. A shape that is fixed to the world is an obstacle.

    Attributes:
        system: The machine; its last `update` is where the shapes are.
        geometry: The geometry model, with convex hulls for meshes; its collision pairs decide what can meet.
        joints: Joints of bodies A and B of each contact of the last `detect`, shape (n, 2); 0 is the world.
    """

    def __init__(
        self,
        system: System,
        geometry: Any,
        mu: npt.ArrayLike,
        *,
        terrain: Terrain | None = None,
        terrain_mu: float = np.inf,
        orientation: float = 0.0,
    ) -> None:
        """Prepare the shapes of `geometry`, which is not changed.

        Args:
            system: The machine.
            geometry: Pinocchio GeometryModel of spheres, capsules, boxes, cylinders, convex hulls and meshes.
            mu: Friction coefficient of each geometry, shape (g,) or one for all; the smaller of two decides.
            terrain: Ground that every moving geometry can touch; None means there is none.
            terrain_mu: Friction coefficient of the ground; the smaller of both decides.
            orientation: Angle of the first tangent from the projected world x axis, about the normal [rad].

        Raises:
            InputError: A kind of geometry is not supported or a coefficient is negative.
        """
        self.system = system
        self.geometry = geometry.copy()
        shapes = []
        for thing in self.geometry.geometryObjects:
            shape, thing.geometry = from_coal(thing.geometry, thing.name)
            shapes.append(shape)
        self._shapes = flatten(shapes)
        self._data = self.geometry.createData()
        for i in range(len(self._data.distanceRequests)):
            # Pinocchio's own start from the last result, so that normals would depend on history
            self._data.distanceRequests[i] = coal.DistanceRequest()
        count = len(shapes)
        given = np.asarray(mu, dtype=np.float64)
        if given.shape not in ((), (count,)):
            raise InputError(f"give one friction coefficient for each of {count} geometries, not shape {given.shape}")
        self._mu: Array = np.array(np.broadcast_to(given, (count,)))
        if not (self._mu >= 0.0).all() or not terrain_mu >= 0.0:
            raise InputError("friction coefficients of collision geometries must not be negative")
        self._terrain, self._terrain_mu, self._orientation = terrain, float(terrain_mu), float(orientation)
        self._joint: Integers = np.array([thing.parentJoint for thing in self.geometry.geometryObjects], dtype=np.int64)
        pairs = [(pair.first, pair.second) for pair in self.geometry.collisionPairs]
        # body A is the one that is pushed: it moves
        self._pair: Integers = np.array([(b, a) if self._joint[a] == 0 else (a, b) for a, b in pairs], dtype=np.int64)
        self._pair = self._pair.reshape(-1, 2)
        self._flipped = np.array([self._joint[a] == 0 for a, _ in pairs], dtype=np.bool_)
        self._useful: Integers = np.flatnonzero(self._joint[self._pair[:, 0]] != self._joint[self._pair[:, 1]])
        radius = np.linalg.norm(self._shapes.half, axis=1)
        self._near: Array = FOLLOW * np.minimum(radius[self._pair[:, 0]], radius[self._pair[:, 1]])
        rims = self._shapes.cylinder[:, 0] > 0.0
        corners = np.where(rims, 2 * RIM_GROUND_POINTS, np.diff(self._shapes.corner_start))
        self._ground_slot: Integers = np.concatenate([[0], np.cumsum(corners)]).astype(np.int64)
        self._moving: Integers = np.flatnonzero(self._joint != 0)

        self._placements = _placement_views(self._data.oMg)
        self._placed = Placed(
            position=np.empty((count, 3)),
            rotation=np.empty((count, 3, 3)),
            corner=np.empty_like(self._shapes.corner),
            face_normal=np.empty_like(self._shapes.face_normal),
            low=np.empty((count, 3)),
            high=np.empty((count, 3)),
        )
        self.reset()

    def reset(self) -> None:
        """Forget which contacts there were."""
        self.joints: Integers = np.zeros((0, 2), dtype=np.int64)
        none: Integers = np.zeros(0, dtype=np.int64)
        self._old: tuple[Integers, Integers, Array] = (none, none, np.zeros((0, 3)))

    def detect(self, margin: float) -> Contacts:
        """The contacts whose gap is below `margin` [m] at the system's last update: ground first, then pairs."""
        system, terrain = self.system, self._terrain
        pin.updateGeometryPlacements(system.model, system.data, self.geometry, self._data)
        close, direction, witness, distance = [], [], [], []
        place(self._shapes, *self._placements, self._placed)
        for index in self._useful[close_pairs(self._placed, self._pair[self._useful], margin)]:
            result = pin.computeDistance(self.geometry, self._data, int(index))
            if not result.min_distance >= margin:  # a NaN must stay visible
                close.append(index)
                direction.append(result.normal if self._flipped[index] else -result.normal)
                witness.append(0.5 * (result.getNearestPoint1() + result.getNearestPoint2()))
                distance.append(result.min_distance)
        identity, self.joints, point, axes, gap, mu, rows, self._old = _assemble(
            self._shapes,
            self._placed,
            self._moving if terrain is not None else _NO_INDEX,
            self._ground_slot,
            terrain.parameters if terrain is not None else _NO_VALUES[0],
            terrain.coefficients if terrain is not None else _NO_VALUES,
            self._terrain_mu,
            self._mu,
            self._joint,
            self._pair,
            self._near,
            self._old,
            np.array(close, dtype=np.int64),
            np.array(direction).reshape(-1, 3),
            np.array(witness).reshape(-1, 3),
            np.array(distance, dtype=np.float64),
            margin,
            self._orientation,
            system.jacobian,
            system.support,
        )
        return Contacts(identity=identity, point=point, axes=axes, gap=gap, mu=mu, jacobian=rows)


@njit(cache=True, error_model="numpy")
def _assemble(
    shapes: ShapeArrays,
    placed: Placed,
    moving: Integers,
    ground_slot: Integers,
    parameters: Array,
    coefficients: Array,
    terrain_mu: float,
    shape_mu: Array,
    shape_joint: Integers,
    pair: Integers,
    near: Array,
    old: tuple[Integers, Integers, Array],
    close: Integers,
    direction: Array,
    witness: Array,
    distance: Array,
    margin: float,
    orientation: float,
    jacobian: Array,
    support: Booleans,
) -> tuple[Integers, Integers, Array, Array, Array, Array, Array, tuple[Integers, Integers, Array]]:
    """Ground contacts and manifolds with identities, joints, axes, friction and rows; and what `match` needs next."""
    room = ground_slot[-1] + MAX_POINTS * close.shape[0]
    identity, which = np.empty(room, np.int64), np.empty(room, np.int64)
    gap, normal, point = np.empty(room), np.empty((room, 3)), np.empty((room, 3))
    g = ground_contacts(
        shapes, placed, moving, ground_slot, parameters, coefficients, margin, identity, which, gap, normal, point
    )
    n = g + pair_contacts(
        shapes, placed, pair, close, direction, witness, distance, margin, which[g:], gap[g:], normal[g:], point[g:]
    )
    local, slot = np.empty((n - g, 3)), np.empty(n - g, np.int64)
    joint, mu = np.zeros((n, 2), np.int64), np.empty(n)
    for i in range(n):
        if i < g:
            joint[i, 0] = shape_joint[which[i]]
            mu[i] = min(shape_mu[which[i]], terrain_mu)
            continue
        a, b = pair[which[i]]
        joint[i, 0], joint[i, 1] = shape_joint[a], shape_joint[b]
        mu[i] = min(shape_mu[a], shape_mu[b])
        for k in range(3):
            local[i - g, k] = 0.0
            for j in range(3):
                local[i - g, k] += placed.rotation[a, j, k] * (point[i, j] - placed.position[a, j])
    old_pair, old_slot, old_point = old
    match(which[g:n], local, near, old_pair, old_slot, old_point, slot)
    for i in range(g, n):
        identity[i] = ground_slot[-1] + MAX_POINTS * which[i] + slot[i - g]
    axes, rows = axes_of(normal[:n], orientation), np.empty((3 * n, jacobian.shape[1]))
    contact_rows(jacobian, support, joint[:, 0].copy(), joint[:, 1].copy(), point[:n], axes, rows)
    kept = (which[g:n].copy(), slot, local)
    return identity[:n].copy(), joint, point[:n].copy(), axes, gap[:n].copy(), mu, rows, kept


def _placement_views(placements: Any) -> tuple[Array, Array]:
    """Positions and rotations of Pinocchio's vector of placements as strided views, without copies."""
    n = len(placements)
    if n == 0:
        return np.zeros((0, 3)), np.zeros((0, 3, 3))
    first = placements[0].rotation
    start = [placements[i].rotation.__array_interface__["data"][0] for i in range(n)]
    stride = start[1] - start[0] if n > 1 else 0
    shift = placements[0].translation.__array_interface__["data"][0] - start[0]
    if start != [start[0] + i * stride for i in range(n)] or shift != 72 or not first.flags.f_contiguous:
        raise RuntimeError("this Pinocchio lays out its placements in an unknown way; please report its version")
    rotation = np.lib.stride_tricks.as_strided(first, shape=(n, 3, 3), strides=(stride, 8, 24))
    position = np.lib.stride_tricks.as_strided(placements[0].translation, shape=(n, 3), strides=(stride, 8))
    return position, rotation
