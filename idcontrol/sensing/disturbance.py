"""What lies between a machine and what is known of it: delay and noise."""

from __future__ import annotations

from collections import deque
from typing import Annotated, Any

import msgspec
import numpy as np
import pinocchio as pin
from msgspec import structs

from idcontrol.loop.wire import Sensed

NotNegative = Annotated[float, msgspec.Meta(ge=0)]


class NoiseLevel(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Standard deviations of white noise, fresh at each tick.

    Attributes:
        position_m: On the position of the base.
        tilt_rad: On its orientation.
        joint_rad: On the joints.
        velocity_m_s: On the linear velocity of the base.
        rate_rad_s: On its angular velocity (a gyroscope).
        joint_rad_s: On the joints' velocities.
        acceleration_m_s2: On the accelerometer.
        force_n: On each component of the feet's forces.
    """

    position_m: NotNegative = 0.0
    tilt_rad: NotNegative = 0.0
    joint_rad: NotNegative = 0.0
    velocity_m_s: NotNegative = 0.0
    rate_rad_s: NotNegative = 0.0
    joint_rad_s: NotNegative = 0.0
    acceleration_m_s2: NotNegative = 0.0
    force_n: NotNegative = 0.0


class Noise:
    """Adds noise to all that is sensed of a machine with a floating base."""

    def __init__(self, level: NoiseLevel, model: Any, rng: np.random.Generator) -> None:
        """Draw from `rng`; `model` is the machine's Pinocchio model."""
        joints = model.nv - 6
        self._level, self._model, self._rng = level, model, rng
        self._q = np.repeat([level.position_m, level.tilt_rad, level.joint_rad], [3, 3, joints])
        self._v = np.repeat([level.velocity_m_s, level.rate_rad_s, level.joint_rad_s], [3, 3, joints])

    def __call__(self, sensed: Sensed) -> Sensed:
        """The same with noise; what was given is left as it is."""
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
    """Shows what was sensed some calls ago; the oldest there is until then."""

    def __init__(self, ticks: int) -> None:
        """Hold back by `ticks` calls."""
        self._held: deque[Sensed] = deque(maxlen=ticks + 1)

    def __call__(self, sensed: Sensed) -> Sensed:
        """What came `ticks` calls before."""
        self._held.append(sensed)
        return self._held[0]
