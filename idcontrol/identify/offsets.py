"""Encoder offsets from feet that stand on level ground.

While feet stand, their contact points keep their distances from each other and have the same height. Together with the
measured attitude of the base, these two conditions determine the joint angles. The position of the base is not needed:
the mean over the standing feet is subtracted from their positions. From horizontal positions, the median over the time
of standing is also subtracted. A point foot rolls on its sphere: the centre moves by the rotation of the foot times the
radius.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
import pinocchio as pin

from idcontrol.dynamics.system import System
from idcontrol.identify.logs import Log
from idcontrol.robots import Robot
from idcontrol.types import Array, Booleans, Integers

OFFSET_SPREAD: Final = 0.1
"""Prior standard deviation of an encoder offset [rad or m]."""
TILT_SPREAD: Final = 0.03
"""Prior standard deviation of the ground's slope relative to the measured attitude [rad]."""
FOOT_M: Final = 1e-4
"""Smallest standard deviation of the position of a standing foot [m]."""
SETTLED_S: Final = 0.02
"""Time after each touchdown and before each lift-off in which a foot does not count as standing [s]."""
SPACING_S: Final = 0.01
"""Time between two samples [s]."""
MOST_SAMPLES: Final = 3000
"""Largest number of samples; if there are more, evenly spaced samples are used."""
PASSES: Final = 10
"""Number of Newton steps; two suffice for offsets of 0.1 rad without slip."""
OUTLIER: Final = 3.0
"""For residuals beyond this many standard deviations, e.g. of feet that slip, the cost grows linearly (Huber 1964)."""


class Offsets(NamedTuple):
    """Encoder offsets of the actuated joints.

    Attributes:
        angle: True angles minus recorded angles, shape (a,) [rad or m].
        spread: Standard deviations of `angle`, shape (a,) [rad or m].
        before_m: Rms displacement of the standing feet, computed with the recorded angles [m].
        after_m: Rms displacement of the standing feet, computed with the corrected angles [m].
    """

    angle: Array
    spread: Array
    before_m: float
    after_m: float


class Point(NamedTuple):
    """The sphere of a point foot or of a sole's corner.

    Attributes:
        joint: Joint that carries the sphere.
        offset: Centre of the sphere in the joint's frame, shape (3,) [m].
        radius: Radius of the sphere [m].
        patch: Column of the foot in `Log.touching`.
    """

    joint: int
    offset: Array
    radius: float
    patch: int


class Samples(NamedTuple):
    """Samples of k points of standing feet.

    Attributes:
        q: Configurations of n samples, shape (n, nq).
        standing: True for the points that stand, shape (n, k).
        stance: Index of each sample's stance, shape (n,); during a stance the same points stand.
        rolled: Displacement of each sphere by rolling since the beginning of the log, world axes, shape (n, k, 3) [m].
    """

    q: Array
    standing: Booleans
    stance: Integers
    rolled: Array


def offsets(logs: Sequence[Log], robot: Robot, system: System) -> Offsets | None:
    """Return the encoder offsets of a robot with a floating base; None if no two points ever stand simultaneously."""
    points = _points(robot, system)
    each = [_samples(log, points, system) for log in logs]
    first = np.cumsum([0, *(sample.stance.max(initial=-1) + 1 for sample in each)])
    samples = Samples(
        np.concatenate([sample.q for sample in each]),
        np.concatenate([sample.standing for sample in each]),
        np.concatenate([sample.stance + begin for sample, begin in zip(each, first, strict=False)]),
        np.concatenate([sample.rolled for sample in each]),
    )
    if len(samples.q) == 0:
        return None
    spaced = slice(None, None, -(-len(samples.q) // MOST_SAMPLES))
    q, standing, stance, rolled = samples
    samples = Samples(q[spaced], standing[spaced], stance[spaced], rolled[spaced])
    a = system.n_actuated
    x, prior = np.zeros(a + 2), np.repeat([OFFSET_SPREAD, TILT_SPREAD], [a, 2]) ** -2.0
    history = []
    for _ in range(PASSES):
        residual, slope = _displacements(samples, points, system, x)
        history.append(float(np.sqrt(np.mean(residual**2))))
        weight = np.concatenate([_weights(part) for part in np.split(residual, [samples.standing.sum()])])
        H = slope.T @ (weight[:, None] * slope) + np.diag(prior)
        x = x - np.linalg.solve(H, slope.T @ (weight * residual) + prior * x)
    after = float(np.sqrt(np.mean(_displacements(samples, points, system, x)[0] ** 2)))
    return Offsets(x[:a], np.sqrt(np.diag(np.linalg.inv(H))[:a]), history[0], after)


def _points(robot: Robot, system: System) -> list[Point]:
    points = []
    for sphere in robot.spheres:
        frame = system.model.frames[system.frame(sphere.frame)]
        centre = frame.placement.act(np.array(sphere.offset_m))
        points.append(Point(frame.parentJoint, centre, sphere.radius_m, robot.patches.index(sphere.name)))
    return points


def _samples(log: Log, points: list[Point], system: System) -> Samples:
    """Sample a log; return the samples in which two or more points stand."""
    period = float(np.median(np.diff(log.t)))
    wait = max(1, round(SETTLED_S / period))
    settled = np.ones((len(log.t), log.touching.shape[1]), dtype=np.bool_)
    for shift in range(-wait, wait + 1):
        settled &= np.roll(log.touching, shift, axis=0)
    settled[:wait] = settled[len(settled) - wait :] = False
    standing = settled[:, [point.patch for point in points]]
    stance = np.concatenate(([0], np.cumsum((standing[1:] != standing[:-1]).any(axis=1))))
    chosen = np.arange(0, len(log.t), max(1, round(SPACING_S / period)))
    chosen = chosen[standing[chosen].sum(axis=1) >= 2]
    return Samples(log.q[chosen], standing[chosen], stance[chosen], _rolled(log, points, system)[chosen])


def _rolled(log: Log, points: list[Point], system: System) -> Array:
    """Return how far spheres would roll on level ground as their links turn, since the first tick, (n, k, 3) [m]."""
    model, data = system.model, system.model.createData()
    speed = np.zeros((len(log.t), len(points), 3))
    for n in range(len(log.t)):
        pin.forwardKinematics(model, data, log.q[n], log.v[n])
        for k, point in enumerate(points):
            turn = pin.getVelocity(model, data, point.joint, pin.ReferenceFrame.LOCAL_WORLD_ALIGNED).angular
            speed[n, k, :2] = point.radius * turn[1], -point.radius * turn[0]
    h = np.diff(log.t)[:, None, None]
    return np.concatenate((np.zeros((1, len(points), 3)), np.cumsum(h * speed[:-1], axis=0)))


def _displacements(samples: Samples, points: list[Point], system: System, x: Array) -> tuple[Array, Array]:
    """Return the displacements of standing points, heights first, and their derivatives.

    Args:
        samples: The samples.
        points: The k points of the samples.
        system: The robot.
        x: Offsets of the joints, then the slope of the ground about the x and y axes of the world, shape (a + 2,).

    Returns:
        Displacements of all standing points, shape (3 s,) [m]: first the heights, then pairs along x and y; and their
            derivatives by `x`, shape (3 s, a + 2). s counts the standing points of all samples.
    """
    n, k, a = len(samples.q), len(points), system.n_actuated
    place, slope = np.empty((n, k, 3)), np.zeros((n, k, 3, a + 2))
    model, data, step = system.model, system.model.createData(), np.zeros(system.n_velocities)
    dof = system.order[system.n_unactuated :]
    step[dof] = x[:a]
    for row, q in enumerate(samples.q):
        pin.computeJointJacobians(model, data, pin.integrate(model, q, step))
        for i, point in enumerate(points):
            arm = data.oMi[point.joint].rotation @ point.offset
            J = pin.getJointJacobian(model, data, point.joint, pin.ReferenceFrame.LOCAL_WORLD_ALIGNED)
            place[row, i] = data.oMi[point.joint].translation + arm - [0.0, 0.0, point.radius]
            slope[row, i, :, :a] = (J[:3] - pin.skew(arm) @ J[3:])[:, dof]
    place -= samples.rolled
    stands = samples.standing[:, :, None].astype(np.float64)
    share = stands / stands.sum(axis=1, keepdims=True)
    place -= (share * place).sum(axis=1, keepdims=True)
    slope -= (share[..., None] * slope).sum(axis=1, keepdims=True)
    slope[:, :, 2, a], slope[:, :, 2, a + 1] = place[:, :, 1], -place[:, :, 0]
    place[:, :, 2] += slope[:, :, 2, a:] @ x[a:]
    for stance in np.unique(samples.stance):
        rows = samples.stance == stance
        # a foot that slips moves the median less than the mean
        place[rows, :, :2] -= np.median(place[rows, :, :2], axis=0)
        slope[rows, :, :2] -= slope[rows, :, :2].mean(axis=0)
    up, along = samples.standing, np.repeat(stands > 0.0, 2, axis=2)
    return (
        np.concatenate((place[:, :, 2][up], place[:, :, :2][along])),
        np.concatenate((slope[:, :, 2][up], slope[:, :, :2][along])),
    )


def _weights(residual: Array) -> Array:
    """Return the weights of Huber's estimate, shape as `residual`: 1/σ², smaller beyond `OUTLIER` σ.

    σ is the median absolute residual over 0.6745, at least `FOOT_M`.
    """
    sigma = max(FOOT_M, float(np.median(np.abs(residual))) / 0.6745)
    return np.minimum(1.0, OUTLIER * sigma / np.maximum(np.abs(residual), FOOT_M)) / sigma**2
