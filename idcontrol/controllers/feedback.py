"""The error feedback that all controllers share, and how near the ends of joints it may ask them to go."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeVar

from numba import njit

from idcontrol.types import Array

NEARING: Final = 0.2
"""Largest part of the way to its end that a joint is asked to cover in one period: it comes to rest there."""

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
    """``kp (q_des - q) + kd (v_des - v)`` of the errors of the actuated joints, shape (a,) each [rad, rad/s]."""
    wanted: Array = gains.kp * position_error + gains.kd * velocity_error
    return wanted


@njit(cache=True, forceinline=True)
def nearing(at: Value, end: Value, h: float) -> Value:
    """Velocity at which a joint at `at` covers `NEARING` of the way to its `end` [rad or m] in a period of `h` [s].

    No joint is asked to move towards an end any faster, or away from one that it has passed any slower (math.md,
    section 12.5).
    """
    return NEARING * (end - at) / h
