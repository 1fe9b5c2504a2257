"""Error feedback of joints, its limits close to joint stops, and feed-forward of joint friction."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeVar

import numpy as np

from idcontrol.dynamics.system import Actuators
from idcontrol.kernels.jit import njit
from idcontrol.types import Array

NEARING: Final = 0.2
"""Largest fraction of its distance to a stop that a joint may cover in one period. The joint thus comes to rest at the
stop."""

TURNS_RAD_S: Final = 0.1
"""Scale of the speed with which the feed-forward of dry friction grows from zero [rad/s or m/s]; at twice this speed it
is nearly full. A swinging joint takes several periods to pass through such low speeds, so its torque has no step."""

Value = TypeVar("Value", Array, float)


@dataclass(frozen=True, slots=True, kw_only=True)
class Gains:
    """Gains of a proportional-derivative law in joint space.

    Attributes:
        kp: Stiffness, one number for all joints or shape (a,): [1/s²] if the law returns accelerations, [N m/rad] if it
            returns torques.
        kd: Damping, one number for all joints or shape (a,): [1/s] or [N m s/rad].
    """

    kp: Array | float
    kd: Array | float


def proportional_derivative(gains: Gains, position_error: Array, velocity_error: Array) -> Array:
    """Return ``kp (q_des - q) + kd (v_des - v)``; the errors of the actuated joints have shape (a,) [rad, rad/s]."""
    wanted: Array = gains.kp * position_error + gains.kd * velocity_error
    return wanted


@njit(cache=True, forceinline=True)
def nearing(at: Value, end: Value, h: float) -> Value:
    """Return the velocity that covers the fraction `NEARING` of the way from `at` to `end` [rad or m] in `h` [s].

    This is the largest commanded speed towards a stop; a joint beyond its stop returns at least at this speed (math.md,
    section 12.5).
    """
    return NEARING * (end - at) / h


def overcoming(actuators: Actuators, v_des: Array) -> Array:
    """Return torques [N m] that overcome the friction of joints with the desired velocity `v_des` [rad/s], shapes (a,).

    Dry friction takes its sign from the desired velocity.
    """
    # a measured velocity close to zero changes its sign with the noise, and the torque would chatter
    torque: Array = actuators.damping * v_des + actuators.friction * np.tanh(v_des / TURNS_RAD_S)
    return torque
