"""Derivatives of the rows, gaps and drifts of contacts between spheres and the ground (`idcontrol.contact.spheres`)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from idcontrol.contact.contacts import Contacts
from idcontrol.contact.spheres import SphereContacts
from idcontrol.contact.terrain import surface
from idcontrol.dynamics.derivatives import MotionDerivatives, Tree, skew
from idcontrol.kernels.bound import Bound
from idcontrol.kernels.jit import njit
from idcontrol.types import Array, Integers


class RowDerivatives(NamedTuple):
    """Derivatives of n contacts with respect to a robot's configuration q (in its tangent space) and velocity v.

    Derivatives by q may be followed by derivatives by 2 n turns of the normals, towards the first and the second
    tangent of each contact, at constant centre of the sphere and constant gap. Then w is m + 2 n, otherwise w is m.

    Attributes:
        jacobian: Derivative of the rows [N; S; T] by q, shape (3 n, m, w).
        gap: Derivative of the gaps by q, shape (n, w).
        drift_q: Derivative of J̇v by q, shape (3 n, w).
        drift_v: Derivative of J̇v by v, shape (3 n, m).
        axes: Derivative of the axes by q, shape (n, 3, 3, w).
    """

    jacobian: Array
    gap: Array
    drift_q: Array
    drift_v: Array
    axes: Array


@njit(cache=True, inner=True, error_model="numpy")
def normal_slope(parameters: Array, coefficients: Array, centre: Array, normal: Array, gap: float) -> Array:
    """Return ∂n/∂c, shape (3, 3) [1/m]: n is the ground's normal at the point p closest to a sphere with centre c.

    The centre is ``c = p + d n``; the part of dc along the ground is ``dp + d dn``.

    Args:
        parameters: `Terrain.parameters`.
        coefficients: `Terrain.coefficients`.
        centre: Centre of the sphere, shape (3,) [m].
        normal: Normal at the closest point, shape (3,).
        gap: Distance d of the centre from the ground [m].
    """
    if coefficients.shape[0] == 0:
        return np.zeros((3, 3))
    x, y = centre[0] - gap * normal[0], centre[1] - gap * normal[1]
    _, hx, hy, hxx, hxy, hyy = surface(parameters, coefficients, x, y)
    tangents = np.array(((1.0, 0.0), (0.0, 1.0), (hx, hy)))
    steep = np.array(((-hxx, -hxy), (-hxy, -hyy), (0.0, 0.0))) / np.sqrt(1.0 + hx * hx + hy * hy)
    turned = (np.eye(3) - np.outer(normal, normal)) @ steep  # dn for a step along x or y of the map
    moved = tangents + gap * turned
    across = np.ascontiguousarray(moved.T)
    return turned @ np.linalg.solve(across @ moved, across)


@njit(cache=True, inner=True, error_model="numpy")
def _axes_slope(axes: Array, slope: Array, angle: float) -> Array:
    """Return the derivatives of axes (3, 3), shape (3, 3, k), from the derivative `slope` (3, k) of the normal.

    See `idcontrol.contact.contacts.write_axes`.
    """
    normal, e, out = axes[0], np.array((1.0, 0.0, 0.0)), np.zeros((3, 3, slope.shape[1]))
    if abs(normal[0]) >= 0.99:
        e = np.array((0.0, 0.0, -1.0 if normal[0] > 0.0 else 1.0))
    first = e - np.dot(e, normal) * normal
    length = np.sqrt(np.dot(first, first))
    first /= length
    d_first = -(np.outer(normal, e @ slope) + np.dot(e, normal) * slope)
    d_first = (d_first - np.outer(first, first @ d_first)) / length
    d_second = skew(normal) @ d_first - skew(first) @ slope
    c, s = np.cos(angle), np.sin(angle)
    out[0], out[1], out[2] = slope, c * d_first + s * d_second, c * d_second - s * d_first
    return out


@njit(cache=True, inner=True, error_model="numpy")
def _turn(a: Array, b: Array, out: Array, factor: float) -> None:
    """Add ``factor a × b`` to `out`, shapes (3,)."""
    out[0] += factor * (a[1] * b[2] - a[2] * b[1])
    out[1] += factor * (a[2] * b[0] - a[0] * b[2])
    out[2] += factor * (a[0] * b[1] - a[1] * b[0])


@njit(cache=True, inner=True, error_model="numpy")
def acceleration_slope(
    motion: tuple[Array, Array], slopes: tuple[Array, Array], places: tuple[Array, Array], moved: tuple[Array, Array]
) -> Array:
    """Return the derivatives of a contact point's acceleration at v̇ = 0 by k variables, shape (3, k).

    The acceleration is as in `idcontrol.contact.spheres`.

    Args:
        motion: Velocity and drift of the body, shapes (6,).
        slopes: Derivatives of `motion`, shapes (6, k).
        places: Centre of the sphere, and contact point, shapes (3,) [m].
        moved: Derivatives of `places`, shapes (3, k).
    """
    (V, A), (dV, dA), (c, p), (dc, dp) = motion, slopes, places, moved
    speed, faster, out = V[:3].copy(), np.zeros(3), np.zeros((3, dV.shape[1]))
    _turn(V[3:], c, speed, 1.0)
    for k in range(dV.shape[1]):
        faster[:], out[:, k] = dV[:3, k], dA[:3, k]
        _turn(dV[3:, k], c, faster, 1.0)
        _turn(V[3:], dc[:, k], faster, 1.0)
        _turn(dA[3:, k], p, out[:, k], 1.0)
        _turn(A[3:], dp[:, k], out[:, k], 1.0)
        _turn(V[3:], faster, out[:, k], 1.0)
        _turn(dV[3:, k], speed, out[:, k], 1.0)
    return out


class _Spheres(NamedTuple):
    """The n contacts of spheres.

    Attributes:
        joint: Joint that carries each sphere, shape (n,).
        axes: The rows are the normal, the first and the second tangent, world frame, shape (n, 3, 3).
        point: Contact points, world frame, shape (n, 3) [m].
        radius: Radii of the spheres, shape (n,) [m].
        tilt: Derivative of the axes by the sphere's centre, shape (n, 3, 3, 3).
        orientation: Angle of the first tangents about the normals [rad].
    """

    joint: Integers
    axes: Array
    point: Array
    radius: Array
    tilt: Array
    orientation: float


def row_derivatives(spheres: SphereContacts, contacts: Contacts, motion: MotionDerivatives) -> RowDerivatives:
    """Return the derivatives of contacts that `spheres` has detected at its system's last update.

    Args:
        spheres: The detector.
        contacts: Contacts of its last `detect`, all or some.
        motion: Derivatives of the system's motion.
    """
    return row_slopes(spheres.bound, contacts.identity, motion, True)


@njit(cache=True, error_model="numpy")
def row_slopes(bound: Bound, sphere: Integers, motion: MotionDerivatives, normals: bool) -> RowDerivatives:
    """Return the derivatives of the contacts of spheres (n,) at the last detection.

    Args:
        bound: `SphereContacts.bound`.
        sphere: The spheres.
        motion: Derivatives of the system's motion.
        normals: True for derivatives by the normals, too.
    """
    mounted, placed, _ = bound.borrowed
    n = sphere.shape[0]
    radius, tilt, axes = mounted.radius[sphere], np.zeros((n, 3, 3, 3)), np.zeros((n, 3, 3))
    point = np.zeros((n, 3))
    for i in range(n):
        axes[i], point[i] = placed.axes[sphere[i]], placed.point[sphere[i]]
        if mounted.coefficients.shape[0] > 0:
            centre, height = point[i] + radius[i] * axes[i, 0], placed.gap[sphere[i]] + radius[i]
            slope = normal_slope(mounted.terrain, mounted.coefficients, centre, axes[i, 0], height)
            tilt[i] = _axes_slope(axes[i], slope, mounted.orientation)
    seen = _Spheres(mounted.joint[sphere], axes, point, radius, tilt, mounted.orientation)
    return _rows(seen, mounted.motion.velocity, mounted.motion.drift, motion, 2 * n if normals else 0)


@njit(cache=True, inner=True, error_model="numpy")
def _turn_rows(tree: Tree, moves: Integers, points: tuple[Array, Array], axes: Array, rows: Array) -> None:
    """Add the derivative of a contact's rows by q at constant axes to `rows`, shape (3, m, m).

    The point's velocity by velocity k changes by ``ω_k ×`` the motion of the contact point. If velocity o moves the
    axis of k, the velocity turns by ``ω_o`` with the axis, and only the motion relative to the axis remains.

    Args:
        tree: The robot.
        moves: Velocities that move the contact, shape (s,).
        points: Velocities of the point that is fixed to the body, and of the contact point, shapes (3, m).
        axes: The rows are the axes of the contact, shape (3, 3).
        rows: The result.
    """
    J, (speed, point), t, changed = tree.J, points, np.zeros(3), np.zeros(3)
    for k in moves:
        for o in moves:
            t[:], changed[:] = point[:, o], 0.0
            if tree.support[tree.owner[k], o]:
                t -= speed[:, o]
                _turn(J[3:, o], speed[:, k], changed, 1.0)
            _turn(J[3:, k], t, changed, 1.0)
            for a in range(3):
                rows[a, k, o] += axes[a, 0] * changed[0] + axes[a, 1] * changed[1] + axes[a, 2] * changed[2]


@njit(cache=True, inner=True, error_model="numpy")
def _turn_normal(
    J: Array, moves: Integers, seen: _Spheres, i: int, point: tuple[Array, Array], body: tuple[Array, Array],
    out: tuple[Array, Array], drift: Array,
) -> None:  # fmt: skip
    """Write the derivatives of contact i by turns of its normal towards its first and second tangent.

    Args:
        J: Columns of the spatial Jacobian, shape (6, m).
        moves: Velocities that move the contact, shape (s,).
        seen: The contacts.
        i: Contact.
        point: Velocity of the contact point by each velocity, shape (3, m), and its acceleration at v̇ = 0, shape (3,).
        body: Velocity and drift of its body, shapes (6,).
        out: Derivatives of the axes, shape (3, 3, 2), and of the rows, shape (3, m, 2).
        drift: Derivative of J̇v, shape (3, 2 or more).
    """
    (speed, acceleration), (turned, rows), axes, radius = point, out, seen.axes[i], seen.radius[i]
    toward = np.ascontiguousarray(axes[1:].T)
    turned[:] = _axes_slope(axes, toward, seen.orientation)
    moved, still, none, swept = -radius * toward, np.zeros((3, 2)), np.zeros((6, 2)), np.zeros(3)
    c = seen.point[i] + radius * axes[0]
    sways = acceleration_slope(body, (none, none), (c, seen.point[i]), (still, moved))
    for b in range(2):
        for a in range(3):
            for x in range(3):
                drift[a, b] += axes[a, x] * sways[x, b] + turned[a, x, b] * acceleration[x]
        for k in moves:
            swept[:] = 0.0
            _turn(J[3:, k], moved[:, b], swept, 1.0)
            for a in range(3):
                for x in range(3):
                    rows[a, k, b] += axes[a, x] * swept[x] + turned[a, x, b] * speed[x, k]


@njit(cache=True, inner=True, error_model="numpy")
def _rows(seen: _Spheres, velocity: Array, drift: Array, motion: MotionDerivatives, turns: int) -> RowDerivatives:
    """Return the derivatives of contacts by q, v and `turns` turns of normals, 2 n or none.

    Velocity and drift of all bodies have the shape (n_joints, 6).
    """
    J, n, m = motion.tree.J, seen.joint.shape[0], motion.tree.J.shape[1]
    width = m + turns
    rows, gap, turned = np.zeros((3 * n, m, width)), np.zeros((n, width)), np.zeros((n, 3, 3, width))
    drift_q, drift_v, acceleration, fast = np.zeros((3 * n, width)), np.zeros((3 * n, m)), np.zeros(3), np.zeros(3)
    centre, point, speed = np.zeros((3, m)), np.zeros((3, m)), np.zeros((3, m))
    for i in range(n):
        joint, axes, p = seen.joint[i], seen.axes[i], seen.point[i]
        moves = np.flatnonzero(motion.tree.support[joint])
        c = p + seen.radius[i] * axes[0]
        centre[:], speed[:] = 0.0, 0.0
        for k in moves:
            centre[:, k], speed[:, k] = J[:3, k], J[:3, k]
            _turn(J[3:, k], c, centre[:, k], 1.0)
            _turn(J[3:, k], p, speed[:, k], 1.0)
            for x in range(3):
                gap[i, k] += axes[0, x] * centre[x, k]
        point[:] = centre
        if seen.tilt[i].any():
            for a in range(3):
                for x in range(3):
                    for y in range(3):
                        turned[i, a, x, :m] += seen.tilt[i, a, x, y] * centre[y]
                    for k in moves:
                        rows[a * n + i, k] += speed[x, k] * turned[i, a, x]
            point -= seen.radius[i] * turned[i, 0, :, :m]
        _turn_rows(motion.tree, moves, (speed, point), axes, rows[i::n])
        V, A = velocity[joint], drift[joint]
        acceleration[:], fast[:] = A[:3], V[:3]
        _turn(V[3:], c, fast, 1.0)
        _turn(A[3:], p, acceleration, 1.0)
        _turn(V[3:], fast, acceleration, 1.0)
        slopes_q = motion.velocity_q[joint][:, moves], motion.drift_q[joint][:, moves]
        slopes_v, still = (J[:, moves], motion.drift_v[joint][:, moves]), np.zeros((3, moves.shape[0]))
        by_q = acceleration_slope((V, A), slopes_q, (c, p), (centre[:, moves], point[:, moves]))
        by_v = acceleration_slope((V, A), slopes_v, (c, p), (still, still))
        for a in range(3):
            for x in range(3):
                for at, k in enumerate(moves):
                    drift_q[a * n + i, k] += axes[a, x] * by_q[x, at] + turned[i, a, x, k] * acceleration[x]
                    drift_v[a * n + i, k] += axes[a, x] * by_v[x, at]
        if turns > 0:
            at_turn = turned[i, :, :, m + 2 * i : m + 2 * i + 2], rows[i::n, :, m + 2 * i : m + 2 * i + 2]
            _turn_normal(J, moves, seen, i, (speed, acceleration), (V, A), at_turn, drift_q[i::n, m + 2 * i :])
    return RowDerivatives(rows, gap, drift_q, drift_v, turned)
