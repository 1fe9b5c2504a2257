"""Spheres on links against the ground: the contacts of feet, all found in one compiled call."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from numba import njit

from idcontrol.contact.contacts import Contacts, contact_rows, write_axes
from idcontrol.contact.terrain import Terrain, sphere_gap
from idcontrol.errors import InputError
from idcontrol.system import System
from idcontrol.types import Array, Booleans, Integers


class SphereContacts:
    """Contacts between spheres on the links of a machine and the ground.

    All arrays below are overwritten by the next `detect`, and so are the `Contacts` that it returns.

    Attributes:
        system: The machine; its last `update` is where the spheres are.
        terrain: The ground.
        radius: Radii of the k spheres, shape (k,) [m].
        mu: Friction coefficient of each sphere, shape (k,); inf means no slip. May be written at any time.
        centre: Centres, world frame, shape (k, 3) [m].
        gap: Distances from the ground, shape (k,) [m].
        point: Contact points ``centre - radius n̂`` of all spheres, near or not, world frame, shape (k, 3) [m].
        axes: Rows normal, first, second tangent at each sphere, world frame, shape (k, 3, 3).
    """

    def __init__(
        self,
        system: System,
        frames: Sequence[str],
        radii: npt.ArrayLike,
        terrain: Terrain,
        mu: npt.ArrayLike,
        *,
        offsets: npt.ArrayLike | None = None,
        orientation: float = 0.0,
    ) -> None:
        """Put spheres on frames.

        Args:
            system: The machine.
            frames: Names of the k frames that carry a sphere each; the place in this list is the contact's identity.
            radii: Of the spheres, shape (k,) or one for all [m]; 0 is a point.
            terrain: The ground.
            mu: Friction coefficients, shape (k,) or one for all; inf means no slip.
            offsets: Centres in their frames, shape (k, 3) [m]; None means at the frames' origins.
            orientation: Angle of the first tangent from the projected world x axis, about the normal [rad].

        Raises:
            UnknownName: A frame does not exist.
            InputError: A frame does not move, a radius or coefficient is negative, or shapes do not fit.
        """
        k = len(frames)
        self.system, self.terrain = system, terrain
        self.radius: Array = _one_each("radius", radii, frames)
        self.mu: Array = _one_each("friction coefficient", mu, frames)
        if not np.isfinite(self.radius).all():
            raise InputError(f"the radii of spheres must be finite, not {self.radius.tolist()}")
        self._offset: Array = np.zeros((k, 3)) if offsets is None else np.array(offsets, dtype=np.float64)
        if self._offset.shape != (k, 3) or not np.isfinite(self._offset).all():
            raise InputError(f"offsets of {k} spheres must be finite, of shape ({k}, 3)")
        self._frame: Integers = np.array([system.frame(name) for name in frames], dtype=np.int64)
        self._joint: Integers = system.frame_joint[self._frame].astype(np.int64)
        for name, joint in zip(frames, self._joint, strict=True):
            if joint == 0:
                raise InputError(f"frame {name!r} is fixed to the world and cannot carry a contact sphere")
        self._orientation = float(orientation)

        m = system.n_velocities
        self.centre: Array = np.zeros((k, 3))
        self.gap: Array = np.full(k, np.inf)
        self.point: Array = np.zeros((k, 3))
        self.axes: Array = np.zeros((k, 3, 3))
        self._slip: Array = np.zeros(k)
        # what `detect` hands out: the first n of each
        self._identity: Integers = np.zeros(k, dtype=np.int64)
        self._near = (np.zeros((k, 3)), np.zeros((k, 3, 3)), np.zeros(k), np.zeros(k), np.zeros((3 * k, m)))
        self._still = (np.zeros(3 * k), np.full(k, np.inf), np.zeros(k))
        self._views: dict[int, Contacts] = {0: Contacts.none(m)}
        self.detection: tuple[tuple[Array | Integers | Booleans | float, ...], tuple[Array | Integers, ...]] = (
            (
                system.frame_position,
                system.frame_rotation,
                system.jacobian,
                system.support,
                self._frame,
                self._joint,
                self._offset,
                self.radius,
                self.mu,
                terrain.parameters,
                terrain.coefficients,
                self._orientation,
            ),
            (self.centre, self.gap, self.point, self.axes, self._identity, *self._near),
        )
        """What `detect_kernel` reads, and what it writes; the margin stands between them."""

    def detect(self, margin: float) -> Contacts:
        """The contacts whose gap is below `margin` [m] at the system's last update.

        Returns:
            Views of arrays that the next call overwrites (`Contacts.take` copies); identity is the index of the sphere.
        """
        reads, writes = self.detection
        n = detect_kernel(*reads, margin, *writes)
        contacts = self._views.get(n)
        if contacts is None:
            contacts = self._views[n] = self._first(n)
        return contacts

    def mounting(self) -> tuple[Integers, Array]:
        """The joint that carries each sphere, shape (k,), and its centre in that joint's frame, shape (k, 3) [m]."""
        places = [self.system.model.frames[int(frame)].placement for frame in self._frame]
        centres = [place.act(offset) for place, offset in zip(places, self._offset, strict=True)]
        return self._joint.copy(), np.array(centres).reshape(-1, 3)

    def slip(self, v: Array) -> Array:
        """Tangential speed of every sphere's contact point at the last `detect`, shape (k,) [m/s]; `v` in our order."""
        _slip_speed(self.system.jacobian, self.system.support, self._joint, self.point, self.axes, v, self._slip)
        return self._slip

    def _first(self, n: int) -> Contacts:
        point, axes, gap, mu, jacobian = self._near
        still, stiffness, damping = self._still
        return Contacts(
            identity=self._identity[:n],
            point=point[:n],
            axes=axes[:n],
            gap=gap[:n],
            mu=mu[:n],
            jacobian=jacobian[: 3 * n],
            surface_velocity=still[: 3 * n],
            stiffness=stiffness[:n],
            damping=damping[:n],
        )


def _one_each(what: str, values: npt.ArrayLike, frames: Sequence[str]) -> Array:
    given = np.asarray(values, dtype=np.float64)
    if given.shape not in ((), (len(frames),)):
        raise InputError(f"give one {what}, or one for each of {len(frames)} spheres, not shape {given.shape}")
    each = np.array(np.broadcast_to(given, (len(frames),)))
    for frame, value in zip(frames, each, strict=True):
        if not value >= 0.0:
            raise InputError(f"the {what} of the sphere on {frame!r} is {value}; it must not be negative")
    return each


@njit(cache=True, error_model="numpy")
def detect_kernel(
    frame_position: Array,
    frame_rotation: Array,
    jacobian: Array,
    support: Booleans,
    frame: Integers,
    joint: Integers,
    offset: Array,
    radius: Array,
    mu: Array,
    parameters: Array,
    coefficients: Array,
    orientation: float,
    margin: float,
    centre: Array,
    gap: Array,
    point: Array,
    axes: Array,
    identity: Integers,
    near_point: Array,
    near_axes: Array,
    near_gap: Array,
    near_mu: Array,
    near_jacobian: Array,
) -> int:
    """Measure all spheres, collect the near ones, write their rows; returns their number."""
    n = 0
    for i in range(frame.shape[0]):
        f = frame[i]
        for k in range(3):
            centre[i, k] = (
                frame_position[f, k]
                + frame_rotation[f, k, 0] * offset[i, 0]
                + frame_rotation[f, k, 1] * offset[i, 1]
                + frame_rotation[f, k, 2] * offset[i, 2]
            )
        gap[i], normal, touch = sphere_gap(
            parameters, coefficients, centre[i, 0], centre[i, 1], centre[i, 2], radius[i]
        )
        point[i, 0], point[i, 1], point[i, 2] = touch
        write_axes(normal[0], normal[1], normal[2], orientation, axes[i])
        if gap[i] >= margin:  # false for a NaN, which must stay visible
            continue
        identity[n] = i
        near_point[n] = point[i]
        near_axes[n] = axes[i]
        near_gap[n] = gap[i]
        near_mu[n] = mu[i]
        n += 1
    contact_rows(
        jacobian, support, joint[identity[:n]], np.zeros(n, np.int64), near_point, near_axes, near_jacobian[: 3 * n]
    )
    return n


@njit(cache=True, error_model="numpy")
def _slip_speed(
    jacobian: Array, support: Booleans, joint: Integers, point: Array, axes: Array, v: Array, out: Array
) -> None:
    """Speed of the material points `point` across their normals."""
    for i in range(joint.shape[0]):
        w = np.zeros(6)
        for k in range(v.shape[0]):
            if support[joint[i], k]:
                for row in range(6):
                    w[row] += jacobian[row, k] * v[k]
        x, y, z = point[i, 0], point[i, 1], point[i, 2]
        vx, vy, vz = w[0] + w[4] * z - w[5] * y, w[1] + w[5] * x - w[3] * z, w[2] + w[3] * y - w[4] * x
        s = axes[i, 1, 0] * vx + axes[i, 1, 1] * vy + axes[i, 1, 2] * vz
        t = axes[i, 2, 0] * vx + axes[i, 2, 1] * vy + axes[i, 2, 2] * vz
        out[i] = np.sqrt(s * s + t * t)
