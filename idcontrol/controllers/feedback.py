"""The error feedback that all controllers share."""

from __future__ import annotations

from dataclasses import dataclass

from idcontrol.types import Array


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
    """``kp (q_des - q) + kd (v_des - v)`` of the errors of the actuated joints, shape (a,) each [rad, rad/s]."""
    wanted: Array = gains.kp * position_error + gains.kd * velocity_error
    return wanted
