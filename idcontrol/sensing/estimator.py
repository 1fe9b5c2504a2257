"""Position and velocity of a floating base from its legs and its IMU: a linear Kalman filter.

This is the filter of Bledt et al. 2018 ("MIT Cheetah 3", IROS). Orientation R and angular velocity come from the IMU;
the rest is linear. Its state is the base's position p, velocity v and the feet's positions p_i, all in the world::

    p⁺ = p + h v + ½ h² a,   v⁺ = v + h a,   a = R f + g        f the accelerometer's specific force
    p_i⁺ = p_i + h ω_i × r e_z                                   a foot that stands rolls on its radius r
    measured, every foot        p_i - p   = R s_i                s_i by the joints
    measured, touching feet     v         = -(R ṡ_i)             the lowest point stands still
                                e_z·p_i   = r                    on level ground at height zero

A foot in the air may move anywhere: its process noise is so large that the prediction has no weight. Measurements are
independent and are taken one by one, which needs no matrix inverse. Position in the plane and the sum of small slips
cannot be observed, so they drift.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pinocchio as pin
from msgspec import structs
from numba import njit

from idcontrol.contact.spheres import SphereContacts
from idcontrol.sensing.contacts import Touch
from idcontrol.types import Array, Booleans, Sensed, State

GRAVITY = np.array([0.0, 0.0, -9.81])

ACCELERATION_STD = 0.5
"""Standard deviation of the accelerometer, including what it misses of impacts between samples [m/s²]."""
CREEP_STD = 0.02
"""Standard deviation of the velocity with which a standing foot creeps [m/s]."""
KINEMATICS_STD = 1e-3
"""Standard deviation of a foot's position relative to the base [m]."""
SLIP_STD = 0.02
"""Standard deviation of the velocity of a standing foot's contact point [m/s]."""
GROUND_STD = 1e-3
"""Standard deviation of the height of the ground [m]."""
UNKNOWN = 1e3
"""Factor on `CREEP_STD` for a foot in the air."""


class Legs(NamedTuple):
    """The state of n feet as joints and IMU tell it.

    Attributes:
        place: Centres relative to the base, world axes, shape (n, 3) [m].
        velocity: Velocities of their lowest points relative to the base, world axes, shape (n, 3) [m/s].
        turning: Angular velocities, world axes, shape (n, 3) [rad/s].
        touching: Which feet stand, shape (n,).
        radius: Radii, shape (n,) [m].
    """

    place: Array
    velocity: Array
    turning: Array
    touching: Booleans
    radius: Array


class BaseEstimator:
    """The filter, as a stage of sensing: replaces base position and linear velocity by its estimate.

    Attributes:
        x: Estimate: position, velocity, feet, shape (6 + 3 n,) [m, m/s, m].
        P: Covariance of the estimate, shape (6 + 3 n, 6 + 3 n).
    """

    def __init__(self, feet: SphereContacts, start: State) -> None:
        """Begin at `start`, which is known well: the machine stands where it was put.

        Args:
            feet: Foot spheres on a system of their own.
            start: State of the machine.
        """
        self._model = feet.system.model
        self._data = self._model.createData()
        self._joints, self._centres = feet.mounting()
        n = len(self._joints)
        self._touch = Touch(n)
        self._t = start.t
        self._legs = Legs(
            place=np.zeros((n, 3)),
            velocity=np.zeros((n, 3)),
            turning=np.zeros((n, 3)),
            touching=np.zeros(n, dtype=np.bool_),
            radius=feet.radius,
        )
        self.x: Array = np.zeros(6 + 3 * n)
        self.P: Array = np.diag(np.repeat([1e-6, 1e-4, 1e-6], [3, 3, 3 * n]))
        self._kinematics(start.q, start.v)
        self.x[:3] = start.q[:3]
        self.x[6:] = (self._legs.place + start.q[:3]).ravel()

    def __call__(self, sensed: Sensed) -> Sensed:
        """A copy of `sensed` in which the position and linear velocity of the base are estimates."""
        state = sensed.state
        h, self._t = max(state.t - self._t, 0.0), state.t
        R = self._kinematics(state.q, state.v)
        legs = self._legs._replace(touching=self._touch.feel(state))
        predict(self.x, self.P, h, R @ sensed.accelerometer + GRAVITY, legs)
        correct(self.x, self.P, legs)
        q, v = state.q.copy(), state.v.copy()
        q[:3], v[:3] = self.x[:3], R.T @ self.x[3:6]
        return structs.replace(sensed, state=structs.replace(state, q=q, v=v))

    def _kinematics(self, q: Array, v: Array) -> Array:
        """Feet relative to the base in world axes; returns R. The base's own place and linear velocity are not used."""
        legs, here, moving = self._legs, q.copy(), v.copy()
        here[:3], moving[:3] = 0.0, 0.0
        pin.forwardKinematics(self._model, self._data, here, moving)
        for i, joint in enumerate(self._joints.tolist()):
            placed, motion = self._data.oMi[joint], self._data.v[joint]
            linear, angular = placed.rotation @ motion.linear, placed.rotation @ motion.angular
            offset = placed.rotation @ self._centres[i]
            legs.place[i], legs.turning[i] = placed.translation + offset, angular
            offset[2] -= legs.radius[i]
            legs.velocity[i] = linear + np.cross(angular, offset)
        R: Array = self._data.oMi[1].rotation
        return R


@njit(cache=True)
def predict(x: Array, P: Array, h: float, acceleration: Array, legs: Legs) -> None:  # pragma: no cover - compiled
    """Move estimate and covariance ahead by `h` [s], in place.

    Args:
        x: Estimate, shape (6 + 3 n,).
        P: Covariance.
        h: Time [s].
        acceleration: Acceleration of the base, world axes, shape (3,) [m/s²].
        legs: The feet.
    """
    k, turning, touching, radius = x.shape[0], legs.turning, legs.touching, legs.radius
    for axis in range(3):
        x[axis] += h * x[3 + axis] + 0.5 * h * h * acceleration[axis]
        x[3 + axis] += h * acceleration[axis]
    for i in range(touching.shape[0]):
        if touching[i]:
            x[6 + 3 * i] += h * turning[i, 1] * radius[i]
            x[7 + 3 * i] -= h * turning[i, 0] * radius[i]
    # P <- F P Fᵀ + Q with F = 1 + h (position rows from velocity rows)
    for axis in range(3):
        for column in range(k):
            P[axis, column] += h * P[3 + axis, column]
    for axis in range(3):
        for row in range(k):
            P[row, axis] += h * P[row, 3 + axis]
    impulse = (ACCELERATION_STD * h) ** 2
    for axis in range(3):
        P[axis, axis] += 0.25 * h * h * impulse
        P[axis, 3 + axis] += 0.5 * h * impulse
        P[3 + axis, axis] += 0.5 * h * impulse
        P[3 + axis, 3 + axis] += impulse
    for i in range(touching.shape[0]):
        creep = (CREEP_STD * h * (1.0 if touching[i] else UNKNOWN)) ** 2
        for axis in range(3):
            P[6 + 3 * i + axis, 6 + 3 * i + axis] += creep


@njit(cache=True)
def correct(x: Array, P: Array, legs: Legs) -> None:  # pragma: no cover - compiled
    """Correct estimate and covariance by what legs and ground measure, one number after the other, in place.

    Args:
        x: Estimate, shape (6 + 3 n,).
        P: Covariance.
        legs: The feet.
    """
    for i in range(legs.touching.shape[0]):
        for axis in range(3):
            _take(x, P, 6 + 3 * i + axis, axis, legs.place[i, axis], KINEMATICS_STD**2)
        if legs.touching[i]:
            for axis in range(3):
                _take(x, P, 3 + axis, -1, -legs.velocity[i, axis], SLIP_STD**2)
            _take(x, P, 8 + 3 * i, -1, legs.radius[i], GROUND_STD**2)


@njit(cache=True)
def _take(x: Array, P: Array, i: int, j: int, measured: float, variance: float) -> None:  # pragma: no cover - compiled
    """Correct by one measurement of ``x_i - x_j``, or of ``x_i`` where j < 0."""
    k = x.shape[0]
    column = P[:, i].copy()
    error = measured - x[i]
    if j >= 0:
        error += x[j]
        column -= P[:, j]
    total = variance + column[i] - (column[j] if j >= 0 else 0.0)
    for row in range(k):
        gain = column[row] / total
        x[row] += gain * error
        for other in range(k):
            P[row, other] -= gain * column[other]
