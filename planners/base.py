"""The reference of the base: level, moved by the command, corrected towards a goal (planner.md 3.2)."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import types

from idcontrol.kernels.jit import njit
from idcontrol.kernels.linked import late
from idcontrol.planners.commands import LimitedCommand
from idcontrol.types import Array

LEASH = 2.0
"""Gain k_l of the correction towards the goal [1/s]: slow compared with a gait, fast compared with drift."""


class BaseReference(NamedTuple):
    """The base reference: four coordinates (x, y, z, yaw) in the world frame, and its sway; arrays change in place.

    Attributes:
        pose: Position and heading, shape (4,) [m, m, m, rad].
        twist: Velocities of the coordinates, shape (4,) [m/s, rad/s].
        rate: Accelerations of the coordinates, shape (4,) [m/s², rad/s²].
        sway: Displacement of the base in a swaying gait (ahead, left, up, roll, pitch) with first and second time
            derivatives, shape (3, 5), in m, rad and s. Pose, twist and rate contain the first three displacements.
        extent: Fraction of the sway that has built up, and its first and second time derivatives, shape (3,)
            [-, 1/s, 1/s²].
        goal: Goal of the correction: x, y and heading, shape (3,) [m, m, rad].
    """

    pose: Array
    twist: Array
    rate: Array
    sway: Array
    extent: Array
    goal: Array

    @staticmethod
    def at_rest() -> BaseReference:
        """Return a reference at rest at the origin."""
        return BaseReference(np.zeros(4), np.zeros(4), np.zeros(4), np.zeros((3, 5)), np.zeros(3), np.zeros(3))


class Push(NamedTuple):
    """The effect of each of n feet on the base.

    Attributes:
        acceleration: Acceleration of the coordinates of `BaseReference.sway` due to a force m g/n at each foot, shape
            (5, n) [m/s², rad/s²].
        reaction: Roll and pitch of the base per displacement of a foot relative to the base, due to the reaction of its
            leg, shape (n, 2, 3) [rad/m].
    """

    acceleration: Array
    reaction: Array


@njit(cache=True)
def wrap(angle: float) -> float:  # pragma: no cover - compiled
    """Wrap an angle into [-π, π) [rad]."""
    return (angle + math.pi) % (2.0 * math.pi) - math.pi


@njit(cache=True, inner=True)
def advance_base(dt: float, base: BaseReference) -> None:  # pragma: no cover - compiled
    """Move the pose by `dt` [s] with the twist and rate at the beginning of that time; update the vertical velocity."""
    pose, twist, rate = base.pose, base.twist, base.rate
    for k in range(4):
        pose[k] += dt * (twist[k] + 0.5 * dt * rate[k])
    twist[2] += dt * rate[2]


@njit(cache=True, inner=True)
def follow_machine(position: Array, yaw: float, lead: Array, base: BaseReference) -> None:  # pragma: no cover
    """Set the goal to the measured pose, and keep the reference within `lead` of that pose.

    Args:
        position: Measured base position, shape (3,) [m].
        yaw: Measured heading [rad].
        lead: Largest distance of the reference along the ground [m], and in heading [rad], shape (2,).
        base: In and out: pose of the reference; out: its goal.
    """
    pose, goal = base.pose, base.goal
    goal[0], goal[1], goal[2] = position[0], position[1], yaw
    x, y = pose[0] - position[0], pose[1] - position[1]
    far = math.sqrt(x * x + y * y)
    if far > lead[0]:
        pose[0], pose[1] = position[0] + lead[0] / far * x, position[1] + lead[0] / far * y
    turned = wrap(pose[3] - yaw)
    if abs(turned) > lead[1]:
        pose[3] = yaw + math.copysign(lead[1], turned)


@late(lambda *_: types.none)
@njit(cache=True, inner=True)
def follow_feet(dt: float, nominal: Array, feet: Array, goal: Array) -> None:  # pragma: no cover - compiled
    """Move the goal of a standing robot, at the rate `LEASH`, to the pose over its planned feet.

    In this pose, the nominal feet are as close as possible to the planned feet.

    Standing legs hold the base in its reference pose relative to the planned feet. With the measured base as the goal,
    encoder biases or creeping feet would make reference and base drift together.

    Args:
        dt: Time since the last tick [s].
        nominal: Nominal feet in the horizontal frame, shape (n, 3) [m].
        feet: Planned feet, world frame, shape (n, 3) [m].
        goal: In and out: x, y and heading, shape (3,) [m, m, rad].
    """
    n, c, s = feet.shape[0], math.cos(goal[2]), math.sin(goal[2])
    # the rigid motion, in the goal's axes, that best moves the nominal feet onto the planned feet (Kabsch 1976)
    mean = np.zeros(4)
    for i in range(n):
        dx, dy = feet[i, 0] - goal[0], feet[i, 1] - goal[1]
        mean[0] += (c * dx + s * dy) / n
        mean[1] += (c * dy - s * dx) / n
        mean[2] += nominal[i, 0] / n
        mean[3] += nominal[i, 1] / n
    cross, dot = 0.0, 0.0
    for i in range(n):
        dx, dy = feet[i, 0] - goal[0], feet[i, 1] - goal[1]
        x, y = c * dx + s * dy - mean[0], c * dy - s * dx - mean[1]
        cross += (nominal[i, 0] - mean[2]) * y - (nominal[i, 1] - mean[3]) * x
        dot += (nominal[i, 0] - mean[2]) * x + (nominal[i, 1] - mean[3]) * y
    turn, share = math.atan2(cross, dot), min(LEASH * dt, 1.0)
    x = mean[0] - (math.cos(turn) * mean[2] - math.sin(turn) * mean[3])
    y = mean[1] - (math.sin(turn) * mean[2] + math.cos(turn) * mean[3])
    goal[0] += share * (c * x - s * y)
    goal[1] += share * (s * x + c * y)
    goal[2] += share * turn


@njit(cache=True, inner=True)
def _push_of(since: float, duty: float) -> tuple[float, float, float]:  # pragma: no cover - compiled
    """Return the deviation of a foot's push from m g/n: its double integral, its integral, and the deviation itself.

    The push is defined in `sway_base`; here its unit is m g/n, and both integrals have mean zero. `since` is the time
    since touchdown in cycles, so T² times the double integral is a displacement, and T times the single integral is a
    velocity.
    """
    swing = 1.0 - duty
    mean = -duty * duty * (1.0 / math.pi**2 + duty / 24.0) + swing * (swing * swing / 12.0 - duty * duty / 8.0)
    if since < duty:
        u = since / duty
        p = -duty * (math.sin(math.pi * u) / (2.0 * math.pi) + 0.5 * duty * (u - 0.5) ** 2)
        return (
            p - mean,
            -0.5 * math.cos(math.pi * u) - duty * (u - 0.5),
            0.5 * math.pi * math.sin(math.pi * u) / duty - 1.0,
        )
    r = (since - duty) / swing
    return 0.5 * swing * swing * r * (1.0 - r) - duty * duty / 8.0 - mean, swing * (0.5 - r), -1.0


@njit(cache=True, inner=True)
def _way_of(since: float, duty: float) -> tuple[float, float, float]:  # pragma: no cover - compiled
    """Return a foot's displacement relative to the base, in units of T times the command, and two derivatives.

    The derivatives are with respect to `since`, the time since touchdown in cycles.
    """
    if since < duty:
        return duty * (0.5 - since / duty), -1.0, 0.0
    swing = 1.0 - duty
    r = (since - duty) / swing
    way = r**3 * (10.0 + r * (6.0 * r - 15.0)) - swing * r - 0.5 * duty
    return way, 30.0 * (r * (1.0 - r)) ** 2 / swing - 1.0, 60.0 * r * (1.0 - r) * (1.0 - 2.0 * r) / swing**2


@late(lambda *_: types.none)
@njit(cache=True, inner=True)
def sway_base(
    phase: float,
    dt: float,
    period: float,
    duty: float,
    touchdown: Array,
    push: Push,
    command: LimitedCommand,
    builds: bool,
    base: BaseReference,
) -> None:  # pragma: no cover - compiled
    """Compute the sway: the motion of the base due to the feet, in gaits that cannot hold it level (planner.md 4.5).

    A foot that stands for D T pushes up with ``m g/n · π/(2D) sin πu``, where u is the elapsed share of its stance; the
    average over a cycle is m g/n. The base moves with the double integral of the deviation from m g/n, with mean zero.
    In addition, the base rotates against the swinging legs. The sway builds up within a cycle, before any foot lifts.
    All feet together can start this motion, whereas the first stance feet alone could not hold the base level. The
    sway also fades within a cycle.

    Args:
        phase: Time since the gait began, in cycles [-].
        dt: Time since the last tick [s].
        period: T [s].
        duty: D [-].
        touchdown: Touchdown of each foot as a share of the cycle, shape (n,).
        push: Effect of each foot on the base.
        command: The command that the feet follow.
        builds: True if the sway builds up; it fades otherwise.
        base: In and out: sway and extent.
    """
    sway, extent = base.sway, base.extent
    bandwidth = (2.0 if builds else 4.0) * math.pi / period  # the motion fades while all feet stand and hold the base
    extent[0] += dt * (extent[1] + 0.5 * dt * extent[2])
    extent[1] += dt * extent[2]
    extent[2] = bandwidth * (bandwidth * ((1.0 if builds else 0.0) - extent[0]) - 2.0 * extent[1])
    sway[:] = 0.0
    for i in range(touchdown.shape[0]):
        since = (phase - touchdown[i]) % 1.0
        p, v, a = _push_of(since, duty)
        way, rate, bend = _way_of(since, duty)
        p, v = p * period * period, v * period
        for k in range(5):
            c = push.acceleration[k, i]
            sway[0, k] += c * p
            sway[1, k] += c * v
            sway[2, k] += c * a
        for k in range(2):
            c = push.reaction[i, k, 0] * command.velocity[0] + push.reaction[i, k, 1] * command.velocity[1]
            sway[0, 3 + k] += c * period * way
            sway[1, 3 + k] += c * rate
            sway[2, 3 + k] += c * bend / period
    for k in range(5):
        p, v = sway[0, k], sway[1, k]
        sway[0, k] = extent[0] * p
        sway[1, k] = extent[0] * v + extent[1] * p
        sway[2, k] = extent[0] * sway[2, k] + 2.0 * extent[1] * v + extent[2] * p


@njit(cache=True, inner=True)
def turned_base(base: BaseReference, R: Array) -> tuple[float, float, float, float, float, float]:  # pragma: no cover
    """Write the rotation R = Rz(yaw) Ry(pitch) Rx(roll) of the reference; return its angular velocity and acceleration.

    Both are in base axes [rad/s, rad/s²]. The acceleration neglects products of two angular rates.
    """
    c, s = math.cos(base.pose[3]), math.sin(base.pose[3])
    cr, sr = math.cos(base.sway[0, 3]), math.sin(base.sway[0, 3])
    cp, sp = math.cos(base.sway[0, 4]), math.sin(base.sway[0, 4])
    R[0, 0], R[0, 1], R[0, 2] = c * cp, c * sp * sr - s * cr, c * sp * cr + s * sr
    R[1, 0], R[1, 1], R[1, 2] = s * cp, s * sp * sr + c * cr, s * sp * cr - c * sr
    R[2, 0], R[2, 1], R[2, 2] = -sp, cp * sr, cp * cr
    roll, pitch, yaw = base.sway[1, 3], base.sway[1, 4], base.twist[3]
    rolls, pitches, yaws = base.sway[2, 3], base.sway[2, 4], base.rate[3]
    return (
        roll - yaw * sp,
        pitch * cr + yaw * cp * sr,
        yaw * cp * cr - pitch * sr,
        rolls - yaws * sp,
        pitches * cr + yaws * cp * sr,
        yaws * cp * cr - pitches * sr,
    )


@njit(cache=True, inner=True)
def command_base(
    command: LimitedCommand,
    height: float,
    ground: Array,
    bandwidth: float,
    base: BaseReference,
) -> None:  # pragma: no cover - compiled
    """Compute velocity and acceleration of the reference at its current pose (planner.md 3.2).

        v_r = Rz(ψ_r) V + k_l (g - x_r),   ω_r = ω + k_l wrap(g_ψ - ψ_r),   a_r = Rz(ψ_r) dV/dt + ω e_z × Rz(ψ_r) V

    x_r and ψ_r are position and heading of the reference; the sway of the base is added. The goal g is the measured
    pose of a walking robot, or the pose over the feet of a standing robot. The angular acceleration is dω/dt.

    a_r omits the derivative of the correction k_l (g - x_r): this derivative would pass the jumps of measured
    velocities at touchdown directly into the torque. The height follows the mean ground under the feet with critical
    damping, so that steps in the ground move the base smoothly.

    Args:
        command: The command V and its time derivative.
        height: Height of the base over the ground, z0 [m].
        ground: Height of the ground under each foothold, shape (n,) [m].
        bandwidth: Bandwidth with which the height follows the ground [1/s].
        base: In: its pose, goal, vertical velocity and sway; out: the rest of its twist, and its rate.
    """
    pose, twist, rate, goal = base.pose, base.twist, base.rate, base.goal
    V, dV = command.velocity, command.acceleration
    c, s = math.cos(pose[3]), math.sin(pose[3])
    v_x, v_y = c * V[0] - s * V[1], s * V[0] + c * V[1]
    twist[0] = v_x + LEASH * (goal[0] - pose[0])
    twist[1] = v_y + LEASH * (goal[1] - pose[1])
    twist[3] = V[2] + LEASH * wrap(goal[2] - pose[3])
    rate[0] = c * dV[0] - s * dV[1] - V[2] * v_y
    rate[1] = s * dV[0] + c * dV[1] + V[2] * v_x
    high, rising = pose[2] - base.sway[0, 2], twist[2] - base.sway[1, 2]
    rate[2] = base.sway[2, 2] + bandwidth * (bandwidth * (height + ground.mean() - high) - 2.0 * rising)
    rate[3] = dV[2]
    twist[0] += c * base.sway[1, 0] - s * base.sway[1, 1]
    twist[1] += s * base.sway[1, 0] + c * base.sway[1, 1]
    rate[0] += c * base.sway[2, 0] - s * base.sway[2, 1]
    rate[1] += s * base.sway[2, 0] + c * base.sway[2, 1]
