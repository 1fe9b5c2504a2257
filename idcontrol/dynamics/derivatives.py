"""Derivatives of multibody terms with respect to configuration and velocity.

All vectors and indices are in the system's order, as in `idcontrol.dynamics.system`. A change of the configuration is a
velocity δ: the derivative of X is the coefficient of δ in ``X(q ⊕ δ)``. A column of the spatial Jacobian at the world
origin moves with its joint: it changes by ``∂J_k/∂q_l = J_l × J_k`` if velocity l moves the joint of velocity k
(Featherstone 2008, section 2.10). Pinocchio provides the derivatives of inverse dynamics (Carpentier & Mansard 2018,
Analytical derivatives of rigid body dynamics algorithms).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pinocchio as pin

from idcontrol.dynamics.system import System
from idcontrol.kernels.jit import njit
from idcontrol.types import Array, Booleans, Integers


class Tree(NamedTuple):
    """Jacobian and inertia of a robot at the world origin.

    Attributes:
        J: Columns of the spatial Jacobian, shape (6, m).
        support: True at [j, k] if velocity k moves joint j, shape (n_joints, m).
        owner: Joint of each velocity, shape (m,).
        parent: Parent of each joint, shape (n_joints,).
        inertia: Spatial inertia of each body, shape (n_joints, 6, 6).
        composite: Spatial inertia of each subtree, shape (n_joints, 6, 6).
    """

    J: Array
    support: Booleans
    owner: Integers
    parent: Integers
    inertia: Array
    composite: Array


class MotionDerivatives(NamedTuple):
    """Derivatives of spatial vectors at the world origin, linear part first, with respect to q and v.

    The last axis of each array belongs to the m components of q or v.

    Attributes:
        column_q: Derivatives of the Jacobian's columns, ``∂J_k/∂q_l``, shape (6, m, m).
        velocity_q: Derivative of `Motion.velocity` by q, shape (n_joints, 6, m); the derivative by v is the joint's
            Jacobian.
        drift_q: Derivative of `Motion.drift` by q, shape (n_joints, 6, m).
        drift_v: Derivative of `Motion.drift` by v, shape (n_joints, 6, m).
        tree: Jacobian and inertia of the robot.
    """

    column_q: Array
    velocity_q: Array
    drift_q: Array
    drift_v: Array
    tree: Tree


@njit(cache=True, error_model="numpy")
def skew(x: Array) -> Array:
    """Return the matrix of ``x ×``, shape (3, 3)."""
    out = np.zeros((3, 3))
    for i, j, k in ((0, 1, 2), (1, 2, 0), (2, 0, 1)):
        out[i, j], out[j, i] = -x[k], x[k]
    return out


@njit(cache=True, error_model="numpy")
def turn_by(x: Array) -> tuple[Array, Array]:
    """Return the rotation exp(x ×) and the matrix J with ``exp((x + δ) ×) = exp(x ×) exp((J δ) ×)``, shapes (3, 3)."""
    square, K = np.dot(x, x), skew(x)
    angle = np.sqrt(square)
    if angle < 1e-3:  # the next terms of the series are 1e-15
        a, b, c = 1.0 - square / 6.0, 0.5 - square / 24.0, 1.0 / 6.0 - square / 120.0
    else:
        a, b, c = np.sin(angle) / angle, (1.0 - np.cos(angle)) / square, (angle - np.sin(angle)) / (square * angle)
    return np.eye(3) + a * K + b * (K @ K), np.eye(3) - b * K + c * (K @ K)


@njit(cache=True, error_model="numpy")
def turning(flyers: Integers, v: Array) -> tuple[Array, Array]:
    """Return the linear accelerations ``ω × v`` of free-flyers, shape (m,), and their derivative by v, shape (m, m).

    They are the difference between classical and spatial accelerations (`idcontrol.dynamics.system`). The rows of
    `flyers` are `System.flyer_rows`.
    """
    m = v.shape[0]
    turn, slope = np.zeros(m), np.zeros((m, m))
    for rows in flyers:
        for i, j, k in ((0, 1, 2), (1, 2, 0), (2, 0, 1)):
            x, y, z, wy, wz = rows[i], rows[j], rows[k], rows[3 + j], rows[3 + k]
            turn[x] = v[wy] * v[z] - v[wz] * v[y]
            slope[x, z], slope[x, y] = v[wy], -v[wz]
            slope[x, wy], slope[x, wz] = v[z], -v[y]
    return turn, slope


def inverse_dynamics(system: System, q: Array, v: Array, a: Array) -> tuple[Array, Array]:
    """Return the derivatives of ``M a + c`` by q and by v at constant classical acceleration a, shapes (m, m).

    Args:
        system: The robot, updated at q and v.
        q: Configuration, shape (nq,).
        v: Velocity, shape (m,).
        a: Acceleration, shape (m,).
    """
    turn, slope = turning(system.flyer_rows, v)
    arguments = (system.to_pinocchio(v), system.to_pinocchio(a - turn))
    by_q, by_v, _ = pin.computeRNEADerivatives(system.model, system.scratch, q, *arguments)
    order = np.ix_(system.order, system.order)
    return by_q[order], by_v[order] - system.M @ slope


@njit(cache=True, inner=True, error_model="numpy")
def _cross(a: Array, b: Array, out: Array) -> None:
    """Add the cross product ``a × b`` of motion vectors to `out`, shapes (6,)."""
    for x, y, z in ((0, 1, 2), (1, 2, 0), (2, 0, 1)):
        out[x] += a[y + 3] * b[z] - a[z + 3] * b[y] + a[y] * b[z + 3] - a[z] * b[y + 3]
        out[x + 3] += a[y + 3] * b[z + 3] - a[z + 3] * b[y + 3]


@njit(cache=True, inner=True, error_model="numpy")
def _push(a: Array, f: Array, out: Array) -> None:
    """Add the cross product ``a ×* f`` of a motion and a momentum to `out`, shapes (6,)."""
    for x, y, z in ((0, 1, 2), (1, 2, 0), (2, 0, 1)):
        out[x] += a[y + 3] * f[z] - a[z + 3] * f[y]
        out[x + 3] += a[y] * f[z] - a[z] * f[y] + a[y + 3] * f[z + 3] - a[z + 3] * f[y + 3]


@njit(cache=True, inner=True, error_model="numpy")
def _inertias(parent: Integers, position: Array, rotation: Array, dynamic: Array) -> tuple[Array, Array]:
    """Return the spatial inertias of bodies and of subtrees at the world origin, shapes (n_joints, 6, 6).

    Args:
        parent: Parent of each joint, shape (n_joints,).
        position: Origins of the joints, shape (n_joints, 3) [m].
        rotation: Axes of the joints (columns), shape (n_joints, 3, 3).
        dynamic: Mass, mass times centre, and xx, xy, yy, xz, yz, zz of the inertia about the origin of each body, axes
            of its joint, shape (n_joints, 10).
    """
    joints = parent.shape[0]
    body, turned, c, first, half = np.zeros((joints, 6, 6)), np.zeros((3, 3)), np.zeros(3), np.zeros(3), np.zeros(3)
    for j in range(1, joints):
        R, r, mass, (xx, xy, yy, xz, yz, zz) = rotation[j], position[j], dynamic[j, 0], dynamic[j, 4:]
        for x in range(3):
            c[x] = R[x, 0] * dynamic[j, 1] + R[x, 1] * dynamic[j, 2] + R[x, 2] * dynamic[j, 3]
            first[x] = c[x] + mass * r[x]  # first moment about the world origin
            half[0] = R[x, 0] * xx + R[x, 1] * xy + R[x, 2] * xz
            half[1] = R[x, 0] * xy + R[x, 1] * yy + R[x, 2] * yz
            half[2] = R[x, 0] * xz + R[x, 1] * yz + R[x, 2] * zz
            for y in range(3):
                turned[x, y] = half[0] * R[y, 0] + half[1] * R[y, 1] + half[2] * R[y, 2]
        both, square = 2.0 * (c[0] * r[0] + c[1] * r[1] + c[2] * r[2]), r[0] * r[0] + r[1] * r[1] + r[2] * r[2]
        spatial = body[j]
        for x in range(3):
            spatial[x, x] = mass
            for y in range(3):
                spatial[3 + x, 3 + y] = turned[x, y] - c[x] * r[y] - r[x] * c[y] - mass * r[x] * r[y]
            spatial[3 + x, 3 + x] += both + mass * square
        for x, y, z in ((0, 1, 2), (1, 2, 0), (2, 0, 1)):  # momentum = mass v - first × ω, first × v + I ω
            spatial[x, 3 + y], spatial[x, 3 + z] = first[z], -first[y]
            spatial[3 + y, x], spatial[3 + z, x] = first[z], -first[y]
    composite = body.copy()
    for j in range(joints - 1, 0, -1):
        composite[parent[j]] += composite[j]
    return body, composite


@njit(cache=True, inner=True, error_model="numpy")
def _momenta(tree: Tree, x: Array) -> tuple[Array, Array]:
    """Return velocities of all bodies and momenta of all subtrees at velocity x (m,), shapes (n_joints, 6)."""
    joints, m = tree.support.shape
    V, h = np.zeros((joints, 6)), np.zeros((joints, 6))
    for k in range(m):
        if x[k] != 0.0:
            for y in range(6):
                V[tree.owner[k], y] += tree.J[y, k] * x[k]
    for j in range(1, joints):
        V[j] += V[tree.parent[j]]
    for j in range(joints - 1, 0, -1):
        for y in range(6):
            for z in range(6):
                h[j, y] += tree.inertia[j, y, z] * V[j, z]
        if tree.parent[j] > 0:
            h[tree.parent[j]] += h[j]
    return V, h


@njit(cache=True, error_model="numpy")
def inertia_times(tree: Tree, x: Array) -> Array:
    """Return the derivative of ``M x`` by q at constant x (m,), shape (m, m).

    Entry k of ``M x`` is ``J_k · h``, with the momentum h of the subtree that velocity k moves. If velocity l moves
    this subtree rigidly, only the velocity of its parent changes relative to the subtree, by ``-J_l × V_parent``.
    """
    V, h = _momenta(tree, x)
    m = x.shape[0]
    out, u, g, momentum = np.zeros((m, m)), np.zeros((m, 6)), np.zeros(6), np.zeros(6)
    for o in range(m):
        _cross(tree.J[:, o], V[tree.parent[tree.owner[o]]], u[o])
    for o in range(m):
        own = tree.owner[o]
        g[:], momentum[:] = 0.0, 0.0
        _push(tree.J[:, o], h[own], g)
        for y in range(6):
            for z in range(6):
                g[y] -= tree.composite[own, y, z] * u[o, z]
                momentum[y] += tree.composite[own, y, z] * tree.J[z, o]
        for k in range(m):
            if not tree.support[own, k]:
                continue
            # k moves o
            other = tree.owner[k] != own
            for y in range(6):
                out[o, k] -= momentum[y] * u[k, y]
                if other:
                    out[k, o] += tree.J[y, k] * g[y]
    return out


@njit(cache=True, inner=True, error_model="numpy")
def _bend(inertia: Array, V: Array, h: Array, out: Array) -> None:
    """Add ``(V ×*) I + (×* h) - I (V ×)`` to `out` (6, 6), for a body of velocity V and momentum ``h = I V``."""
    for x, y, z in ((0, 1, 2), (1, 2, 0), (2, 0, 1)):
        for k in range(6):
            out[x, k] += V[y + 3] * inertia[z, k] - V[z + 3] * inertia[y, k]
            out[x + 3, k] += V[y] * inertia[z, k] - V[z] * inertia[y, k]
            out[x + 3, k] += V[y + 3] * inertia[z + 3, k] - V[z + 3] * inertia[y + 3, k]
            # column x of (V ×): [ω × e, 0] for the linear part, [v × e, ω × e] for the angular part
            out[k, x] -= inertia[k, y] * V[z + 3] - inertia[k, z] * V[y + 3]
            out[k, x + 3] -= inertia[k, y] * V[z] - inertia[k, z] * V[y]
            out[k, x + 3] -= inertia[k, y + 3] * V[z + 3] - inertia[k, z + 3] * V[y + 3]
        out[x, 3 + y] += h[z]
        out[x, 3 + z] -= h[y]
        out[3 + x, y] += h[z]
        out[3 + x, z] -= h[y]
        out[3 + x, 3 + y] += h[z + 3]
        out[3 + x, 3 + z] -= h[y + 3]


@njit(cache=True, inner=True, error_model="numpy")
def force_slopes(tree: Tree, velocity: Array, acceleration: Array) -> tuple[Array, Array]:
    """Return the derivatives of ``M a + c`` by q and v at constant spatial acceleration, shapes (m, m).

    If velocity o moves a subtree, the velocity of the subtree in its own axes changes by ``V × J_o``, with the parent's
    V, and its acceleration by ``A × J_o + V × (V × J_o)``.

    Source: Singh, Russell & Wensing 2022, Efficient analytical derivatives of rigid-body dynamics using spatial vector
    algebra.

    Args:
        tree: The robot.
        velocity: Velocity of each body, shape (n_joints, 6).
        acceleration: Spatial acceleration of each body minus that of gravity, shape (n_joints, 6).
    """
    (joints, m), J, composite = tree.support.shape, tree.J, tree.composite
    bent, force, by_q, by_v = np.zeros((joints, 6, 6)), np.zeros((joints, 6)), np.zeros((m, m)), np.zeros((m, m))
    # changes of velocity, of acceleration, and of acceleration with the velocity, for each column
    turned, bends, both = np.zeros((m, 6)), np.zeros((m, 6)), np.zeros((m, 6))
    h, of_q, of_v, lifted, bowed = np.zeros(6), np.zeros(6), np.zeros(6), np.zeros(6), np.zeros(6)
    for j in range(1, joints):
        h[:] = 0.0
        for y in range(6):
            for z in range(6):
                h[y] += tree.inertia[j, y, z] * velocity[j, z]
                force[j, y] += tree.inertia[j, y, z] * acceleration[j, z]
        _push(velocity[j], h, force[j])
        _bend(tree.inertia[j], velocity[j], h, bent[j])
    for j in range(joints - 1, 0, -1):
        bent[tree.parent[j]] += bent[j]
        force[tree.parent[j]] += force[j]
    for o in range(m):
        before = tree.parent[tree.owner[o]]
        _cross(velocity[before], J[:, o], turned[o])
        _cross(acceleration[before], J[:, o], bends[o])
        _cross(velocity[before], turned[o], bends[o])
        _cross(velocity[tree.owner[o]], J[:, o], both[o])
        both[o] += turned[o]
    for o in range(m):
        own = tree.owner[o]
        of_q[:], of_v[:], lifted[:], bowed[:] = 0.0, 0.0, 0.0, 0.0
        _push(J[:, o], force[own], of_q)
        for y in range(6):
            for z in range(6):
                of_q[y] += composite[own, y, z] * bends[o, z] + bent[own, y, z] * turned[o, z]
                of_v[y] += composite[own, y, z] * both[o, z] + bent[own, y, z] * J[z, o]
                lifted[z] += composite[own, y, z] * J[y, o]
                bowed[z] += bent[own, y, z] * J[y, o]
        for k in range(m):
            if not tree.support[own, k]:
                continue
            # k moves o
            other = tree.owner[k] != own
            for y in range(6):
                by_q[o, k] += lifted[y] * bends[k, y] + bowed[y] * turned[k, y]
                by_v[o, k] += lifted[y] * both[k, y] + bowed[y] * J[y, k]
                if other:
                    by_q[k, o] += J[y, k] * of_q[y]
                    by_v[k, o] += J[y, k] * of_v[y]
    return by_q, by_v


@njit(cache=True, inner=True, error_model="numpy")
def energies(tree: Tree, rows: Array) -> Array:
    """Return the derivatives of ``xᵀM x`` by q for all rows x, shape (r, m)."""
    r, m = rows.shape
    out, u = np.zeros((r, m)), np.zeros(6)
    for i in range(r):
        V, h = _momenta(tree, rows[i])
        for o in range(m):
            own = tree.owner[o]
            u[:] = 0.0
            _cross(tree.J[:, o], V[tree.parent[own]], u)
            for y in range(6):
                out[i, o] -= 2.0 * h[own, y] * u[y]
    return out


class Bodies(NamedTuple):
    """Constants of a robot, for kernels.

    Attributes:
        support: As in `Tree`.
        owner: As in `Tree`.
        parent: As in `Tree`.
        dynamic: As for `_inertias`.
        flyers: `System.flyer_rows`.
    """

    support: Booleans
    owner: Integers
    parent: Integers
    dynamic: Array
    flyers: Integers


def bodies_of(system: System) -> Bodies:
    """Return the constants of a robot."""
    return Bodies(
        support=system.support,
        owner=system.support.argmax(axis=0),  # joints are in depth-first order: the first that a velocity moves
        parent=np.array(system.model.parents),
        dynamic=np.array([body.toDynamicParameters() for body in system.model.inertias]),
        flyers=system.flyer_rows,
    )


def motions(system: System, placed: tuple[Array, Array], v: Array) -> MotionDerivatives:
    """Return the derivatives of Jacobian and motion of a system that is updated at velocity v (m,).

    Args:
        system: The robot.
        placed: Origins (n_joints, 3) [m] and axes (n_joints, 3, 3) of its joints in the world.
        v: Velocity.
    """
    return motion_slopes(bodies_of(system), system.jacobian, *placed, system.motion.velocity, v)


@njit(cache=True, error_model="numpy")
def motion_slopes(
    bodies: Bodies, J: Array, position: Array, rotation: Array, velocity: Array, v: Array
) -> MotionDerivatives:
    """Return the derivatives of Jacobian and motion.

    Args:
        bodies: The robot.
        J: Columns of its spatial Jacobian, shape (6, m).
        position: Origins of its joints, shape (n_joints, 3) [m].
        rotation: Axes of its joints, shape (n_joints, 3, 3).
        velocity: Velocity of each body, shape (n_joints, 6).
        v: Velocity, shape (m,).
    """
    inertia, composite = _inertias(bodies.parent, position, rotation, bodies.dynamic)
    tree = Tree(J, bodies.support, bodies.owner, bodies.parent, inertia, composite)
    turn, slope = turning(bodies.flyers, v)
    free = np.zeros(v.shape[0], np.bool_)
    for rows in bodies.flyers:
        for k in rows[:3]:
            free[k] = True
    return _motions(tree, velocity, v, free, turn, slope)


@njit(cache=True, inner=True, error_model="numpy")
def _motions(tree: Tree, velocity: Array, v: Array, free: Booleans, turn: Array, slope: Array) -> MotionDerivatives:
    """Return the derivatives of Jacobian and motion.

    Args:
        tree: The robot.
        velocity: Velocity of each body, shape (n_joints, 6).
        v: Velocity, shape (m,).
        free: True for linear velocities of free-flyers, shape (m,).
        turn: Accelerations from `turning`, shape (m,).
        slope: Derivative of `turn` by v, from `turning`, shape (m, m).
    """
    (joints, m), J = tree.support.shape, tree.J
    column, velocity_q = np.zeros((6, m, m)), np.zeros((joints, 6, m))
    drift_q, drift_v, own = np.zeros((joints, 6, m)), np.zeros((joints, 6, m)), np.zeros(6)
    for k in range(m):
        for o in range(m):
            if tree.support[tree.owner[k], o]:
                own[:] = 0.0
                _cross(J[:, o], J[:, k], own)
                for y in range(6):
                    column[y, k, o] = own[y]
    for j in range(1, joints):
        parent = tree.parent[j]
        before, after = -velocity[j], velocity[parent]
        velocity_q[j], drift_q[j], drift_v[j] = velocity_q[parent], drift_q[parent], drift_v[parent]
        for k in range(m):
            if tree.owner[k] != j:
                continue
            for y in range(6):
                for o in range(m):
                    velocity_q[j, y, o] += column[y, k, o] * v[k]
                    if free[k]:
                        drift_q[j, y, o] -= column[y, k, o] * turn[k]
                        drift_v[j, y, o] -= J[y, k] * slope[k, o]
        for o in range(m):
            if tree.support[j, o]:
                _cross(after, J[:, o], drift_v[j, :, o])
                _cross(after, velocity_q[j, :, o], drift_q[j, :, o])
            if tree.support[parent, o]:
                _cross(before, J[:, o], drift_v[j, :, o])
                _cross(before, velocity_q[parent, :, o], drift_q[j, :, o])
    return MotionDerivatives(column, velocity_q, drift_q, drift_v, tree)
