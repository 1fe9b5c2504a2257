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
from idcontrol.types import Array


class MotionDerivatives(NamedTuple):
    """Derivatives of spatial vectors at the world origin, linear part first; m velocities, last axis.

    Attributes:
        column_q: Of the Jacobian's columns, ``∂J_k/∂q_l``, shape (6, m, m).
        velocity_q: Of `Motion.velocity` by q, shape (n_joints, 6, m); by v it is the Jacobian of the joint.
        drift_q: Of `Motion.drift` by q, shape (n_joints, 6, m).
        drift_v: Of `Motion.drift` by v, shape (n_joints, 6, m).
    """

    column_q: Array
    velocity_q: Array
    drift_q: Array
    drift_v: Array


def skew(x: Array) -> Array:
    """Return the matrix of ``x ×``, shape (3, 3)."""
    return np.array([[0.0, -x[2], x[1]], [x[2], 0.0, -x[0]], [-x[1], x[0], 0.0]])


def motion_cross(x: Array) -> Array:
    """Return the matrix of the spatial cross product ``x ×`` of motion vectors, shape (6, 6)."""
    turn, shift = skew(x[3:]), skew(x[:3])
    return np.block([[turn, shift], [np.zeros((3, 3)), turn]])


def turning(system: System, v: Array) -> tuple[Array, Array]:
    """Return the linear accelerations ``ω × v`` of free-flyers, shape (m,), and their derivative by v, shape (m, m).

    They are the difference between classical and spatial accelerations (`idcontrol.dynamics.system`).
    """
    turn, slope = np.zeros(v.size), np.zeros((v.size, v.size))
    for rows in system.flyer_rows:
        linear, angular = rows[:3], rows[3:]
        turn[linear] = np.cross(v[angular], v[linear])
        slope[np.ix_(linear, linear)] = skew(v[angular])
        slope[np.ix_(linear, angular)] = -skew(v[linear])
    return turn, slope


def inverse_dynamics(system: System, q: Array, v: Array, a: Array) -> tuple[Array, Array]:
    """Return the derivatives of ``M a + c`` by q and by v at constant classical acceleration a, shapes (m, m).

    Args:
        system: The robot, updated at q and v.
        q: Configuration, shape (nq,).
        v: Velocity, shape (m,).
        a: Acceleration, shape (m,).
    """
    turn, slope = turning(system, v)
    arguments = (system.to_pinocchio(v), system.to_pinocchio(a - turn))
    by_q, by_v, _ = pin.computeRNEADerivatives(system.model, system.scratch, q, *arguments)
    order = np.ix_(system.order, system.order)
    return by_q[order], by_v[order] - system.M @ slope


def inertia_times(system: System, q: Array, x: Array) -> Array:
    """Return the derivative of ``M x`` by q at constant x (m,), shape (m, m)."""
    rest, model, data = np.zeros(x.size), system.model, system.scratch
    moving = pin.computeRNEADerivatives(model, data, q, rest, system.to_pinocchio(x))[0].copy()
    resting = pin.computeRNEADerivatives(model, data, q, rest, rest)[0]
    return np.asarray((moving - resting)[np.ix_(system.order, system.order)])


def motions(system: System, v: Array) -> MotionDerivatives:
    """Return the derivatives of Jacobian and motion of a system that is updated at velocity v (m,)."""
    J, support, velocity = system.jacobian, system.support, system.motion.velocity
    m, joints = v.size, support.shape[0]
    owner = support.argmax(axis=0)  # joints are in depth-first order: the first that a velocity moves is its own
    column_q = np.zeros((6, m, m))
    for k in range(m):
        column_q[:, k] = np.where(support[owner[k]], -motion_cross(J[:, k]) @ J, 0.0)
    velocity_q, drift_q, drift_v = (np.zeros((joints, 6, m)) for _ in range(3))
    flyers = {int(owner[rows[0]]): rows for rows in system.flyer_rows}
    for j in range(1, joints):
        parent, own = system.model.parents[j], owner == j
        velocity_q[j] = velocity_q[parent] + np.einsum("xkl,k->xl", column_q[:, own], v[own])
        before, after = motion_cross(velocity[parent]), motion_cross(velocity[j])
        moved_before, moved = J * support[parent], J * support[j]
        drift_q[j] = drift_q[parent] - after @ velocity_q[parent] + before @ velocity_q[j]
        drift_v[j] = drift_v[parent] - after @ moved_before + before @ moved
        if j in flyers:
            turn, slope = turning(system, v)
            linear = flyers[j][:3]
            drift_q[j] -= np.einsum("xkl,k->xl", column_q[:, linear], turn[linear])
            drift_v[j] -= J[:, linear] @ slope[linear]
    return MotionDerivatives(column_q, velocity_q, drift_q, drift_v)
