"""The error feedback that all controllers share, and its limits close to joint stops."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeVar

import numpy as np

from idcontrol.dynamics.system import Actuators
from idcontrol.kernels.jit import njit
from idcontrol.types import Array

NEARING: Final = 0.2
"""Largest part of the distance to a stop that a joint is commanded to cover in one period: it comes to rest there."""

TURNS_RAD_S: Final = 0.1
"""Scale of the speeds at which the feed-forward of dry friction changes its sign [rad/s or m/s]: at twice that it is
nearly full. A swinging joint passes it within some periods, so that its torque has no step."""

Value = TypeVar("Value", Array, float)


@dataclass(frozen=True, slots=True, kw_only=True)
class Gains:
    """Gains of a proportional-derivative law in joint space.

    Attributes:
        kp: One for all or shape (a,): [1/s²] where the law gives accelerations, [N m/rad] where it gives torques.
        kd: One for all or shape (a,): [1/s] or [N m s/rad].
    """

    kp: Array | float
    kd: Array | float


def proportional_derivative(gains: Gains, position_error: Array, velocity_error: Array) -> Array:
    """Return ``kp (q_des - q) + kd (v_des - v)`` of the errors of the actuated joints, shape (a,) each [rad, rad/s]."""
    wanted: Array = gains.kp * position_error + gains.kd * velocity_error
    return wanted


@njit(cache=True, forceinline=True)
def nearing(at: Value, end: Value, h: float) -> Value:
    """Return the velocity at which a joint at `at` covers `NEARING` of the way to its `end` [rad or m] in `h` [s].

    No joint is commanded to approach a stop any faster, or to leave a stop that it has passed any slower (math.md,
    section 12.5).
    """
    return NEARING * (end - at) / h


def overcoming(actuators: Actuators, v_des: Array) -> Array:
    """Return torques that overcome the friction of joints with the desired velocity `v_des`, shape (a,) [rad/s].

    The sign of dry friction is that of the desired velocity, which is smooth: a measured one close to zero would make
    the torque chatter.
    """
    torque: Array = actuators.damping * v_des + actuators.friction * np.tanh(v_des / TURNS_RAD_S)
    return torque
