"""Derivatives of the rows, gaps and drifts of contacts between spheres and the ground (`idcontrol.contact.spheres`)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from idcontrol.contact.contacts import Contacts
from idcontrol.contact.spheres import SphereContacts
from idcontrol.contact.terrain import Terrain, surface
from idcontrol.dynamics.derivatives import MotionDerivatives, skew
from idcontrol.types import Array


class RowDerivatives(NamedTuple):
    """Derivatives of n contacts with respect to a robot with m velocities, last axis.

    Attributes:
        jacobian: Of the rows [N; S; T] by q, shape (3 n, m, m).
        gap: Of the gaps by q, shape (n, m).
        drift_q: Of J̇v by q, shape (3 n, m).
        drift_v: Of J̇v by v, shape (3 n, m).
        axes: Of the axes by q, shape (n, 3, 3, m).
    """

    jacobian: Array
    gap: Array
    drift_q: Array
    drift_v: Array
    axes: Array


def normal_slope(terrain: Terrain, centre: Array, normal: Array, gap: float) -> Array:
    """Return the derivative of the ground's normal at the point closest to a sphere, by its centre, shape (3, 3).

    The closest point p moves with the centre ``c = p + d n`` such that ``dc = dp + d dn`` along the ground.

    Args:
        terrain: The ground.
        centre: Centre of the sphere, shape (3,) [m].
        normal: Normal at the closest point, shape (3,).
        gap: Distance d of the centre from the ground [m].
    """
    if terrain.coefficients.shape[0] == 0:
        return np.zeros((3, 3))
    x, y, _ = centre - gap * normal
    _, hx, hy, hxx, hxy, hyy = surface(terrain.parameters, terrain.coefficients, x, y)
    tangents = np.array([[1.0, 0.0], [0.0, 1.0], [hx, hy]])
    steep = np.array([[-hxx, -hxy], [-hxy, -hyy], [0.0, 0.0]]) / np.sqrt(1.0 + hx * hx + hy * hy)
    turned = (np.eye(3) - np.outer(normal, normal)) @ steep  # dn for a step along x or y of the map
    out: Array = turned @ np.linalg.pinv(tangents + gap * turned)
    return out


def _axes_slope(axes: Array, slope: Array, angle: float) -> Array:
    """Return the derivatives of axes (3, 3), of which the normal has the derivative `slope` (3, k), shape (3, 3, k).

    See `idcontrol.contact.contacts.write_axes`.
    """
    normal = axes[0]
    e = np.array([1.0, 0.0, 0.0]) if abs(normal[0]) < 0.99 else np.array([0.0, 0.0, -1.0 if normal[0] > 0.0 else 1.0])
    first = e - (e @ normal) * normal
    length = np.linalg.norm(first)
    first /= length
    d_first = -(np.outer(normal, e @ slope) + (e @ normal) * slope)
    d_first = (d_first - np.outer(first, first @ d_first)) / length
    d_second = skew(normal) @ d_first - skew(first) @ slope
    c, s = np.cos(angle), np.sin(angle)
    return np.stack((slope, c * d_first + s * d_second, c * d_second - s * d_first))


def acceleration_slope(
    motion: tuple[Array, Array], slopes: tuple[Array, Array], places: tuple[Array, Array], moved: tuple[Array, Array]
) -> Array:
    """Return the derivative of a contact point's acceleration at v̇ = 0 (`spheres`), shape (3, k).

    Args:
        motion: Velocity and drift of the body, shapes (6,).
        slopes: Their derivatives, shapes (6, k).
        places: Centre of the sphere, and contact point, shapes (3,) [m].
        moved: Their derivatives, shapes (3, k).
    """
    (V, A), (dV, dA), (c, p), (dc, dp) = motion, slopes, places, moved
    turn, speed = skew(V[3:]), V[:3] + np.cross(V[3:], c)
    faster = dV[:3] - skew(c) @ dV[3:] + turn @ dc
    return np.asarray(dA[:3] - skew(p) @ dA[3:] + skew(A[3:]) @ dp + turn @ faster - skew(speed) @ dV[3:])


def row_derivatives(spheres: SphereContacts, contacts: Contacts, motion: MotionDerivatives) -> RowDerivatives:
    """Return the derivatives of contacts that `spheres` has detected at its system's last update.

    Args:
        spheres: The detector.
        contacts: Contacts of its last `detect`, all or some.
        motion: Derivatives of the system's motion.
    """
    system, n = spheres.system, len(contacts)
    J, (velocity, drift), joints = system.jacobian, system.motion, spheres.mounting()[0]
    m = J.shape[1]
    out = RowDerivatives(
        np.zeros((3, n, m, m)), np.zeros((n, m)), np.zeros((3, n, m)), np.zeros((3, n, m)), np.zeros((n, 3, 3, m))
    )
    still = np.zeros((3, m))
    for i, sphere in enumerate(contacts.identity.tolist()):
        joint, axes, radius = joints[sphere], contacts.axes[i], spheres.radius[sphere]
        p, c, moves = contacts.point[i], contacts.point[i] + radius * axes[0], system.support[joint]
        centre = (J[:3] - skew(c) @ J[3:]) * moves  # derivative of the centre
        slope = normal_slope(spheres.terrain, c, axes[0], contacts.gap[i] + radius) @ centre
        point, turned = centre - radius * slope, _axes_slope(axes, slope, spheres.orientation)
        speed = (J[:3] - skew(p) @ J[3:]) * moves  # velocity of the material point at p
        column = motion.column_q * moves[:, None]
        changed = column[:3] - np.einsum("xy,ykl->xkl", skew(p), column[3:])
        changed += np.cross((J[3:] * moves)[:, :, None], point[:, None, :], axis=0)
        out.jacobian[:, i] = np.einsum("ax,xkl->akl", axes, changed) + np.einsum("axl,xk->akl", turned, speed)
        out.gap[i], out.axes[i] = axes[0] @ centre, turned
        V, A, dV, dA = velocity[joint], drift[joint], motion.velocity_q[joint], motion.drift_q[joint]
        acceleration = A[:3] + np.cross(A[3:], p) + np.cross(V[3:], V[:3] + np.cross(V[3:], c))
        by_q = acceleration_slope((V, A), (dV, dA), (c, p), (centre, point))
        by_v = acceleration_slope((V, A), (J * moves, motion.drift_v[joint]), (c, p), (still, still))
        out.drift_q[:, i] = axes @ by_q + np.einsum("axl,x->al", turned, acceleration)
        out.drift_v[:, i] = axes @ by_v
    flat = (part.reshape(-1, *part.shape[2:]) for part in (out.jacobian, out.drift_q, out.drift_v))
    jacobian, drift_q, drift_v = flat
    return RowDerivatives(jacobian, out.gap, drift_q, drift_v, out.axes)
