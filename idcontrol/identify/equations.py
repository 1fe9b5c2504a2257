"""Equations of motion of a log, linear in the parameters of bodies and drives.

In each tick, with the regressor Y of Pinocchio (Atkeson, An & Hollerbach 1986) and the parameters π of all bodies, ::

    Y(q, v, v̇) π + Sᵀ (armature v̇ + damping v + friction sgn v - scale τ) = Jᵀ w,

where S selects the actuated velocities and w are wrenches of the ground on feet. The equations are averaged over blocks
of ticks, weighted by a Hann window. The average of accelerations equals an average of velocities weighted by the slope
of the window (the modulating functions of Shinbrot 1957), so it does not amplify noise as differences of velocities do.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import pinocchio as pin

from idcontrol.dynamics.system import System
from idcontrol.identify.inertia import SIZE
from idcontrol.identify.logs import Log
from idcontrol.plants.parts import STICK_RAD_S
from idcontrol.robots import Robot
from idcontrol.types import Array, Booleans

BLOCK_S: Final = 0.04
"""Length of a block [s]."""
MOST_BLOCKS: Final = 1500
"""Largest number of blocks, one minute. From longer logs, only every second block is used, or every third, and so on.
"""
REST_RAD_S: Final = 0.02
"""Speed below which a joint may be at rest, averaged over two ticks [rad/s or m/s]. Dry friction at rest has any value
up to the friction of motion, so the torque of a joint that may rest for most of a block counts as unknown."""
GAP: Final = 1.5
"""Longest time between two rows of a block, in periods of the log."""

DRIVE: Final = ("armature", "damping", "friction", "scale")
"""The parameters of each drive, in the order of columns of `Blocks.A`."""


class Blocks(NamedTuple):
    """Equations of n blocks, ``A θ = b + U u`` with unknown u, of a robot with m velocities in Pinocchio's layout.

    θ (p,) are the ten parameters of each body, then each parameter in `DRIVE` for all joints.

    Attributes:
        A: Coefficients of θ, shape (n, m, p).
        b: Generalized forces of measured wrenches, shape (n, m) [N, N m].
        U: Columns of the unknowns, shape (n, m, u): components of wrenches that were not measured, and torques of
            joints whose torque is unknown or that are at rest. Columns of known components and torques are zero.
        reverses: True for the row of a joint whose velocity changes its sign in the block, shape (n, m). The friction
            of this joint is less certain, because it changes its sign between two ticks.
    """

    A: Array
    b: Array
    U: Array
    reverses: Booleans


class Mounting(NamedTuple):
    """The place of a point foot or a sole on the robot.

    Attributes:
        joint: Joint that carries the foot or sole.
        offset: Centre of the foot's sphere or origin of the sole's frame, in the joint's frame, shape (3,) [m].
        radius: Radius of the foot's sphere [m]; 0 for soles.
        size: Number of wrench components: 3 for point feet, which have no moment; 6 for soles.
    """

    joint: int
    offset: Array
    radius: float
    size: int


def mountings(robot: Robot, system: System) -> list[Mounting]:
    """Return the places of the point feet of `robot`, then of its soles."""
    places = []
    for foot in robot.description.feet:
        frame = system.model.frames[system.frame(foot.frame)]
        offset = frame.placement.act(np.array(foot.offset_m))
        places.append(Mounting(frame.parentJoint, offset, foot.radius_m, 3))
    for sole in robot.description.soles:
        frame = system.model.frames[system.frame(sole.frame)]
        places.append(Mounting(frame.parentJoint, frame.placement.translation, 0.0, 6))
    return places


def blocks(log: Log, robot: Robot, system: System) -> Blocks:
    """Return the equations of motion of `log`, a log of `robot` with the bodies and joints of `system`."""
    model, places = system.model, mountings(robot, system)
    dof, m, a = system.order[system.n_unactuated :], system.n_velocities, system.n_actuated
    inertial = SIZE * (model.njoints - 1)
    chosen = block_ticks(log)
    lag = velocity_lag(log, system, chosen)
    width = sum(place.size for place in places)
    A, b = np.zeros((len(chosen), m, inertial + len(DRIVE) * a)), np.zeros((len(chosen), m))
    U = np.zeros((len(chosen), m, width + a))
    data, joints, reverses = model.createData(), np.arange(a), np.zeros((len(chosen), m), dtype=np.bool_)
    ends = np.cumsum([place.size for place in places]).tolist()
    for n, (first, last) in enumerate(chosen):
        touched, span = log.touching[first:last].any(axis=0), slice(first, last)
        known = np.isfinite(log.tau[span]).all(axis=0)
        forward = log.v[first : last + 1, dof] > 0.0
        reverses[n, dof] = forward.any(axis=0) & ~forward.all(axis=0)
        measured = ~np.isnan(log.wrench[span].sum(axis=0))
        share = np.hanning(last - first + 2)[1:-1]
        for k, part in zip(range(first, last), share / share.sum(), strict=True):
            rate = acceleration(system, log, k)
            # drives hold a torque between two states, so it belongs to the middle
            v = 0.5 * (log.v[k] + log.v[k + 1])
            q = pin.integrate(model, log.q[k], (0.5 * (log.t[k + 1] - log.t[k]) - lag) * v)
            Y = pin.computeJointTorqueRegressor(model, data, q, v, rate)
            A[n, :, :inertial] += part * Y
            speed = v[dof]
            # mean sign of a velocity that changes linearly
            sign = 2.0 * speed / np.maximum(np.abs(log.v[k, dof]) + np.abs(log.v[k + 1, dof]), 2.0 * STICK_RAD_S)
            for i, column in enumerate((rate[dof], speed, sign, np.where(known, -log.tau[k], 0.0))):
                A[n, dof, inertial + i * a + joints] += part * column
            U[n, dof, width + joints] += part * (~known | (np.abs(speed) < REST_RAD_S))
            if touched.any():
                pin.computeJointJacobians(model, data, q)
            for foot in np.flatnonzero(touched):
                J = part * jacobian(model, data, places[foot])
                use = measured[foot, : len(J)]
                b[n] += J[use].T @ log.wrench[k, foot, : len(J)][use]
                U[n, :, ends[foot] - len(J) : ends[foot]] += np.where(use, 0.0, J.T)
    U[:, :, width:] = np.where(U[:, :, width:] > 0.5, 1.0, 0.0)
    return Blocks(A, b, U, reverses)


def velocity_lag(log: Log, system: System, windows: Sequence[tuple[int, int]]) -> float:
    """Return the time by which the joint velocities of a log lag behind its positions, e.g. by a filter [s].

    The lag is the least-squares solution of ``Δq/Δt = v + lag v̇``, averaged over each window, or 0 if v is constant. A
    window is the pair of its first tick and the tick after its last.
    """
    dof, h = system.order[system.n_unactuated :], np.diff(log.t)[:, None]
    pairs = zip(log.q[:-1], log.q[1:], strict=True)
    slope = np.array([pin.difference(system.model, *pair) for pair in pairs])[:, dof] / h
    v, step = log.v[:, dof], np.diff(log.v[:, dof], axis=0) / h
    ahead, change = (
        np.array([np.hanning(last - first + 2)[1:-1] @ each[first:last] for first, last in windows])
        for each in (slope - 0.5 * (v[:-1] + v[1:]), step)
    )
    power = float(np.square(change).sum())
    return float((ahead * change).sum()) / power if power > 0.0 else 0.0


def block_ticks(log: Log) -> list[tuple[int, int]]:
    """Return the first tick of each block, and the tick after its last.

    If there are more than `MOST_BLOCKS` blocks, evenly spaced blocks are returned.
    """
    period = float(np.median(np.diff(log.t)))
    ticks = max(1, round(BLOCK_S / period))
    whole = np.concatenate(([0], np.flatnonzero(np.diff(log.t) > GAP * period) + 1, [len(log.t)]))
    windows = [
        (first, first + ticks)
        for begin, end in itertools.pairwise(whole.tolist())
        for first in range(begin, end - ticks, ticks)
    ]
    return windows[:: -(-len(windows) // MOST_BLOCKS) or 1]


def acceleration(system: System, log: Log, k: int) -> Array:
    """Return the spatial acceleration between tick k and the next, Pinocchio's layout, shape (nv,).

    The next linear velocity of a free-flyer is first rotated into the axes of the free-flyer at tick k.
    """
    h, v, v_next = log.t[k + 1] - log.t[k], log.v[k], log.v[k + 1].copy()
    for q_at, v_at in zip(system.flyer_q, system.flyer_v, strict=True):
        turn = [pin.Quaternion(log.q[i, q_at + 3 : q_at + 7]).matrix() for i in (k, k + 1)]
        linear, angular = slice(v_at, v_at + 3), slice(v_at + 3, v_at + 6)
        v_next[linear] = turn[0].T @ turn[1] @ v_next[linear] - h * np.cross(v[angular], v[linear])
    return (v_next - v) / h


def jacobian(model: Any, data: Any, place: Mounting) -> Array:
    """Return the Jacobian of a point foot's contact point on level ground, or of a sole's frame.

    World axes, shape (3, nv) for point feet, (6, nv) for soles.
    """
    J = pin.getJointJacobian(model, data, place.joint, pin.ReferenceFrame.LOCAL_WORLD_ALIGNED)
    arm = data.oMi[place.joint].rotation @ place.offset - [0.0, 0.0, place.radius]
    J[:3] -= pin.skew(arm) @ J[3:]
    return J[: place.size]
