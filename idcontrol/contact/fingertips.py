"""Contacts of fingertips with a body in a hand: at most one per fingertip, with the fingertip's number."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import coal
import numpy as np
import numpy.typing as npt
import pinocchio as pin

from idcontrol.contact.collision import CollisionContacts
from idcontrol.contact.contacts import Contacts
from idcontrol.dynamics.system import System
from idcontrol.errors import InputError
from idcontrol.types import Array, Integers


class Fingertips:
    """Contacts between spheres on a hand and one free body of the same system.

    Body A of each contact is the finger: the normal points into the fingertip, and the force acts on it.

    Attributes:
        system: Hand and body; its last `update` places them.
        radius: Radii of the k spheres, shape (k,) [m].
        mu: Friction coefficients, shape (k,); inf means no slip.
        body: Name of the free body.
        shape: Coal geometry of the free body.
    """

    def __init__(
        self,
        system: System,
        frames: Sequence[str],
        radii: npt.ArrayLike,
        body: str,
        shape: Any,
        mu: float,
        *,
        offsets: npt.ArrayLike | None = None,
        orientation: float = 0.0,
    ) -> None:
        """Put spheres on frames, and a shape on the body.

        Args:
            system: Hand and body, in one system.
            frames: Names of the k frames that carry one fingertip each; the index in this list is the contact's
                identity.
            radii: Radii of the spheres, shape (k,) or one for all [m].
            body: Name of the free body's frame.
            shape: coal geometry in that frame: box, sphere, capsule, cylinder, convex hull.
            mu: Friction coefficient; inf means no slip.
            offsets: Centres in their frames, shape (k, 3) [m]; None for the frames' origins.
            orientation: Angle of the first tangent from the projected world x axis, about the normal [rad].

        Raises:
            UnknownName: A frame does not exist.
            InputError: A radius or a size of the shape is not positive and finite, the coefficient is negative, arrays
                have the wrong shape, or the geometry is not supported.
        """
        k = len(frames)
        sizes = np.asarray(radii, dtype=np.float64)
        centres = np.zeros((k, 3)) if offsets is None else np.asarray(offsets, dtype=np.float64)
        if sizes.shape not in ((), (k,)) or centres.shape != (k, 3):
            raise InputError(f"{k} fingertips need {k} radii and offsets ({k}, 3), not {sizes.shape}, {centres.shape}")
        self.system, self.body, self.shape = system, body, shape
        self.radius: Array = np.array(np.broadcast_to(sizes, (k,)))
        self.mu: Array = np.full(k, float(mu))
        geometry = pin.GeometryModel()
        for name, r, centre in zip(frames, self.radius, centres, strict=True):
            frame = system.model.frames[system.frame(name)]
            at = frame.placement * pin.SE3(np.eye(3), centre)
            geometry.addGeometryObject(
                pin.GeometryObject(f"tip{geometry.ngeoms}", frame.parentJoint, at, coal.Sphere(r))
            )
        held = system.model.frames[system.frame(body)]
        geometry.addGeometryObject(pin.GeometryObject(body, held.parentJoint, held.placement, shape))
        for tip in range(k):
            geometry.addCollisionPair(pin.CollisionPair(tip, k))
        self._tips, self._frame = geometry.geometryObjects[:k], system.frame(body)
        self._contacts = CollisionContacts(system, geometry, mu, orientation=orientation)

    def detect(self, margin: float) -> Contacts:
        """Return the contacts whose gap is below `margin` [m] at the last update, in the order of the fingertips."""
        touching = self._contacts.detect(margin)
        tip: Integers = np.ascontiguousarray(self._contacts.shapes[:, 0])
        return replace(touching, identity=tip)

    def mounting(self) -> tuple[Integers, Array]:
        """Return the joint of each sphere, shape (k,), and its centre in that joint's frame, shape (k, 3) [m]."""
        joints = np.array([tip.parentJoint for tip in self._tips], dtype=np.int64)
        return joints, np.array([tip.placement.translation for tip in self._tips]).reshape(-1, 3)

    def body_axes(self) -> Array:
        """Return the axes of the body at the system's last update as columns, world frame, shape (3, 3)."""
        return self.system.frame_rotation[self._frame]
