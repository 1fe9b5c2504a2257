"""Contacts of arbitrary convex shapes of the library coal with the ground, with fixed shapes and with each other."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pinocchio as pin

from idcontrol.contact.contacts import Contacts, axes_of, contact_rows
from idcontrol.contact.detection import Detection
from idcontrol.contact.manifold import close_pairs
from idcontrol.contact.terrain import Terrain
from idcontrol.dynamics.friction import require_friction
from idcontrol.dynamics.system import System
from idcontrol.errors import InputError
from idcontrol.kernels.placements import placement_views
from idcontrol.types import Array, Integers


class CollisionContacts:
    """Contacts between the shapes of a Pinocchio geometry model, and of its moving shapes with the ground.

    `idcontrol.contact.detection` defines the contact points. A shape fixed to the world is an obstacle.

    Attributes:
        system: The robot; its last `update` places the shapes.
        geometry: The geometry model, with convex hulls for meshes; its collision pairs decide which shapes may collide.
        joints: Joints of bodies A and B of each contact of the last `detect`, shape (n, 2); 0 is the world.
        shapes: Indices in `geometry` of shapes A and B of these contacts, shape (n, 2); `detection.GROUND` is the
            ground.
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
            system: The robot.
            geometry: Pinocchio GeometryModel of spheres, capsules, boxes, cylinders, convex hulls and meshes.
            mu: Friction coefficient of each geometry, shape (g,) or one for all; a contact has the smaller coefficient
                of its two sides.
            terrain: Ground that every moving geometry can touch; None for no ground.
            terrain_mu: Friction coefficient of the ground.
            orientation: Angle of the first tangent from the projected world x axis, about the normal [rad].

        Raises:
            InputError: A geometry is of an unsupported kind, has no volume or is not finite; or a coefficient is
                negative, or `mu` has another shape.
        """
        self.system = system
        self.geometry = geometry.copy()
        things = self.geometry.geometryObjects
        # the last entry, at index -1, is for the ground
        self._joint: Integers = np.array([*(thing.parentJoint for thing in things), 0], dtype=np.int64)
        self._detection = Detection(
            [thing.geometry for thing in things],
            [thing.name for thing in things],
            np.flatnonzero(self._joint != 0),
            terrain,
        )
        for thing, hull in zip(things, self._detection.geometries, strict=True):
            thing.geometry = hull
        self._data = self.geometry.createData()
        count = len(things)
        coefficients = np.asarray(mu, dtype=np.float64)
        if coefficients.shape not in ((), (count,)):
            raise InputError(
                f"give one friction coefficient for each of {count} geometries, not shape {coefficients.shape}"
            )
        self._mu: Array = np.append(np.broadcast_to(coefficients, (count,)), terrain_mu)
        require_friction(self._mu, [*(thing.name for thing in things), "terrain"])
        self._orientation = float(orientation)
        # body A must be able to move; two shapes on one joint would have zero rows
        listed = {(pair.first, pair.second) for pair in self.geometry.collisionPairs}
        useful = {(b, a) if self._joint[a] == 0 else (a, b) for a, b in listed if self._joint[a] != self._joint[b]}
        self._pair: Integers = np.array(sorted(useful), dtype=np.int64).reshape(-1, 2)
        self._position, self._rotation = placement_views(self._data.oMg)
        self.reset()

    def reset(self) -> None:
        """Forget the contacts of the last step."""
        self.joints: Integers = np.zeros((0, 2), dtype=np.int64)
        self.shapes: Integers = self.joints
        self._detection.reset()

    def detect(self, margin: float) -> Contacts:
        """Return the contacts whose gap is below `margin` [m] at the system's last update: ground first, then pairs."""
        system, detection = self.system, self._detection
        pin.updateGeometryPlacements(system.model, system.data, self.geometry, self._data)
        detection.put(self._position, self._rotation)
        pair = self._pair[close_pairs(detection.placed, self._pair, margin)]
        points = detection.find(pair, np.full(len(pair), margin), np.full(len(self._joint) - 1, margin))
        self.shapes = points.shape
        self.joints = self._joint[points.shape]
        axes = axes_of(points.normal, self._orientation)
        rows = np.empty((3 * len(points.gap), system.n_velocities))
        joint_a, joint_b = np.ascontiguousarray(self.joints.T)
        contact_rows(system.jacobian, system.support, joint_a, joint_b, points.point, axes, rows)
        return Contacts(
            identity=points.identity,
            point=points.point,
            axes=axes,
            gap=points.gap,
            mu=self._mu[points.shape].min(axis=1),
            jacobian=rows,
        )
