"""Wrench, centre of pressure and yaw moment of soles.

A sole touches the ground with its corners. Many distributions of force among the corners have the same sum and moment,
and a contact model may return any of them, so soles are compared by their wrenches. A point foot is a sole with one
corner.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from idcontrol.errors import UnknownName
from idcontrol.kernels.jit import njit
from idcontrol.kernels.linear import add
from idcontrol.types import TOUCHING_N, Array, ContactForces, Integers


class Soles(NamedTuple):
    """Placement of the n feet of a robot and their k corners, world frame.

    Attributes:
        frames: Frame that carries each foot.
        patch: Foot of each corner, shape (k,).
        corner: Contact points of all corners, touching or not, shape (k, 3) [m].
        origin: Origin of the frame of each sole, or contact point of a point foot, shape (n, 3) [m].
        ground: Contact point of the corner of each foot that is nearest to the ground, shape (n, 3) [m].
        normal: Unit normal of the ground at `ground`, shape (n, 3).
    """

    frames: tuple[str, ...]
    patch: Integers
    corner: Array
    origin: Array
    ground: Array
    normal: Array

    def number(self, sole: str) -> int:
        """Return the index of a foot in `Reference.stance`, by its frame.

        Raises:
            UnknownName: No foot is on that frame.
        """
        if sole not in self.frames:
            raise UnknownName("sole", sole, self.frames)
        return self.frames.index(sole)

    def wrenches(self, forces: ContactForces) -> Array:
        """Return force and moment of the ground on each foot, about `origin`, world axes, shape (n, 6) [N, N m].

        A foot without contact has zeros; contacts that belong to no foot are omitted.
        """
        out = np.zeros((len(self.frames), 6))
        _add_wrenches(forces.identity, forces.force, self.patch, self.corner, self.origin, out)
        return out

    def pressure_centres(self, wrenches: Array) -> Array:
        """Return the centre of pressure of each foot, shape (n, 3) [m], from its wrench, shape (n, 6)."""
        return self.origin + centre_of_pressure(wrenches, self.normal, self.ground - self.origin)


def by_foot(forces: ContactForces, patch: Integers | None) -> ContactForces:
    """Return the total force on each foot in contact, as sensors in feet measure it.

    Its identity is the foot's index; its normal is the normal at one contact of the foot. If `patch` is None, the
    result is `forces`; otherwise it has no `soles`.

    Args:
        forces: Forces at contacts; contacts that belong to no foot are omitted.
        patch: Foot of each contact, indexed by the identity of the contact, shape (k,); None if each contact is a foot.
    """
    if patch is None:
        return forces
    identity, force, normal = _sums(forces.identity, forces.force, forces.normal, patch)
    return ContactForces(identity=identity, force=force, normal=normal)


@njit(cache=True, error_model="numpy")
def _sums(identity: Integers, force: Array, normal: Array, patch: Integers) -> tuple[Integers, Array, Array]:
    """Return the feet in contact, their total forces, and the normal at one contact of each foot."""
    feet = patch.max() + 1
    contact, total = np.full(feet, -1), np.zeros((feet, 3))
    for i in range(identity.shape[0]):
        if identity[i] < patch.shape[0]:
            contact[patch[identity[i]]] = i
            add(total[patch[identity[i]]], 1.0, force[i])
    touching = np.flatnonzero(contact >= 0)
    return touching, total[touching], normal[contact[touching]]


@njit(cache=True, error_model="numpy")
def _add_wrenches(identity: Integers, force: Array, patch: Integers, corner: Array, origin: Array, out: Array) -> None:
    """Add the forces at corners, and their moments about the origins of their feet, to the wrenches `out`, (n, 6)."""
    for i in range(identity.shape[0]):
        if identity[i] >= patch.shape[0]:
            continue
        foot, f = patch[identity[i]], force[i]
        for x in range(3):
            y, z = (x + 1) % 3, (x + 2) % 3
            arm_y, arm_z = corner[identity[i], y] - origin[foot, y], corner[identity[i], z] - origin[foot, z]
            out[foot, x] += f[x]
            out[foot, x + 3] += arm_y * f[z] - arm_z * f[y]


@njit(cache=True, error_model="numpy")
def centre_of_pressure(wrench: Array, normal: Array, ground: Array) -> Array:
    """Return the point of each plane about which its wrench has no moment along the plane, shape (n, 3) [m].

    Without load the result is the point nearest to the wrench's origin, so it is always finite. Source: Sardain and
    Bessonnet (2004), "Forces acting on a biped robot. Center of pressure - zero moment point".

    Args:
        wrench: Force and moment about an origin, shape (n, 6) [N, N m].
        normal: Unit normal of each plane, shape (n, 3).
        ground: Any point of each plane relative to the origin, shape (n, 3) [m].

    Returns:
        Positions relative to the origin, shape (n, 3) [m].
    """
    out = np.zeros((wrench.shape[0], 3))
    for i in range(wrench.shape[0]):
        f, m, n = wrench[i, :3], wrench[i, 3:], normal[i]
        load, depth = _dot(f, n), _dot(ground[i], n)
        for x in range(3):
            y, z = (x + 1) % 3, (x + 2) % 3
            out[i, x] = depth * n[x]
            if load > TOUCHING_N:
                out[i, x] = (n[y] * m[z] - n[z] * m[y] + depth * f[x]) / load
    return out


def yaw_moment(wrench: Array, normal: Array, at: Array) -> Array:
    """Return the moments of wrenches about normals through points, shape (n,) [N m].

    Args:
        wrench: Force and moment about an origin, shape (n, 6) [N, N m].
        normal: Unit normals, shape (n, 3).
        at: Points relative to the origin, such as `centre_of_pressure`, shape (n, 3) [m].
    """
    about = wrench[:, 3:] - np.cross(at, wrench[:, :3])
    return np.asarray((normal * about).sum(axis=1))


@njit(cache=True, inner=True, error_model="numpy")
def _dot(a: Array, b: Array) -> float:
    """Return the inner product of two vectors, shapes (3,)."""
    product: float = a[0] * b[0] + a[1] * b[1] + a[2] * b[2]
    return product
