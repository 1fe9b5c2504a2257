"""Delay, bias and noise of real sensors, added to the exact values of a plant."""

from __future__ import annotations

from collections import deque
from typing import Annotated, Any

import msgspec
import numpy as np
import pinocchio as pin
from msgspec import structs

from idcontrol.types import Array, Sensed

NotNegative = Annotated[float, msgspec.Meta(ge=0)]


class NoiseLevel(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Standard deviations of white noise on each component of a sensor value; new values are drawn in each tick.

    Attributes:
        position_m: Noise on the position of the base [m].
        tilt_rad: Noise on the orientation of the base, about each axis [rad].
        joint_rad: Noise on joint positions [rad].
        velocity_m_s: Noise on the linear velocity of the base [m/s].
        rate_rad_s: Noise on the angular velocity of the base, the reading of the gyroscope [rad/s].
        joint_rad_s: Noise on joint velocities [rad/s].
        acceleration_m_s2: Noise on the accelerometer [m/s²].
        force_n: Noise on the forces on feet [N].
    """

    position_m: NotNegative = 0.0
    tilt_rad: NotNegative = 0.0
    joint_rad: NotNegative = 0.0
    velocity_m_s: NotNegative = 0.0
    rate_rad_s: NotNegative = 0.0
    joint_rad_s: NotNegative = 0.0
    acceleration_m_s2: NotNegative = 0.0
    force_n: NotNegative = 0.0


class BiasLevel(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Magnitudes of constant sensor errors; directions and signs of the errors are drawn once.

    Attributes:
        attitude_rad: Tilt error of the IMU's orientation, about an axis in the base's xy plane [rad]; unused if the
            base is estimated.
        encoder_rad: Magnitude of the offset of each joint's encoder [rad]; the signs are drawn.
        gyro_rad_s: Magnitude of the gyroscope's offset [rad/s].
        accelerometer_m_s2: Magnitude of the accelerometer's offset [m/s²].
    """

    attitude_rad: NotNegative = 0.0
    encoder_rad: NotNegative = 0.0
    gyro_rad_s: NotNegative = 0.0
    accelerometer_m_s2: NotNegative = 0.0


class Bias:
    """Adds constant errors to base tilt, joint positions, gyroscope and accelerometer of a floating-base robot.

    Attributes:
        q: Errors of base position (zero), base orientation and encoders, tangent of `State.q`, shape (nv,)
            [m, rad, rad].
        gyro: Error of the base's angular velocity, axes of the base, shape (3,) [rad/s].
        accelerometer: Error of the accelerometer, axes of the base, shape (3,) [m/s²].
    """

    def __init__(self, level: BiasLevel, model: Any, rng: np.random.Generator) -> None:
        """Draw errors of the magnitudes in `level` from `rng`; `model` is the robot's Pinocchio model."""
        heading, signs = rng.uniform(0.0, 2.0 * np.pi), rng.choice([-1.0, 1.0], model.nv - 6)
        tilt = level.attitude_rad * np.array([np.cos(heading), np.sin(heading), 0.0])
        ways = rng.standard_normal((2, 3))
        ways /= np.linalg.norm(ways, axis=1, keepdims=True)
        self._model = model
        self.q: Array = np.concatenate((np.zeros(3), tilt, level.encoder_rad * signs))
        self.gyro: Array = level.gyro_rad_s * ways[0]
        self.accelerometer: Array = level.accelerometer_m_s2 * ways[1]

    def __call__(self, sensed: Sensed) -> Sensed:
        """Return a copy of `sensed` with the errors."""
        state, v = sensed.state, sensed.state.v.copy()
        v[3:6] += self.gyro
        q = pin.integrate(self._model, state.q, self.q)
        return Sensed(
            state=structs.replace(state, q=q, v=v),
            tau=sensed.tau,
            accelerometer=sensed.accelerometer + self.accelerometer,
        )


class Noise:
    """Adds noise to all sensor values of a floating-base robot except the torques."""

    def __init__(self, level: NoiseLevel, model: Any, rng: np.random.Generator) -> None:
        """Set the standard deviations, the robot's Pinocchio model, and the generator of all noise."""
        joints = model.nv - 6
        self._level, self._model, self._rng = level, model, rng
        self._q = np.repeat([level.position_m, level.tilt_rad, level.joint_rad], [3, 3, joints])
        self._v = np.repeat([level.velocity_m_s, level.rate_rad_s, level.joint_rad_s], [3, 3, joints])

    def __call__(self, sensed: Sensed) -> Sensed:
        """Return a copy of `sensed` with noise."""
        level, rng, state = self._level, self._rng, sensed.state
        q = pin.integrate(self._model, state.q, self._q * rng.standard_normal(len(self._q)))
        v = state.v + self._v * rng.standard_normal(len(self._v))
        forces = state.forces
        if forces is not None:
            forces = structs.replace(
                forces, force=forces.force + level.force_n * rng.standard_normal(forces.force.shape)
            )
        accelerometer = sensed.accelerometer + level.acceleration_m_s2 * rng.standard_normal(3)
        return Sensed(
            state=structs.replace(state, q=q, v=v, forces=forces), tau=sensed.tau, accelerometer=accelerometer
        )


class Delay:
    """Delays sensor values by a number of calls."""

    def __init__(self, ticks: int) -> None:
        """Delay by `ticks` calls."""
        self._held: deque[Sensed] = deque(maxlen=ticks + 1)

    def __call__(self, sensed: Sensed) -> Sensed:
        """Return the sensor values of `ticks` calls earlier; in the first `ticks` calls, return the first values."""
        self._held.append(sensed)
        return self._held[0]
