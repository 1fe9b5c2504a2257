"""The error feedback that all controllers share."""

from __future__ import annotations

from dataclasses import dataclass

from idcontrol.types import Array, Reference


@dataclass(frozen=True, slots=True, kw_only=True)
class Gains:
    """Gains of a proportional-derivative law in joint space.

    Attributes:
        kp: One for all or shape (a,): [1/s²] where the law gives accelerations, [N m/rad] where it gives torques.
        kd: One for all or shape (a,): [1/s] or [N m s/rad].
    """

    kp: Array | float
    kd: Array | float


def proportional_derivative(gains: Gains, reference: Reference, q: Array, v: Array) -> Array:
    """``kp (q_des - q) + kd (v_des - v)`` for the actuated joints, shape (a,)."""
    wanted: Array = gains.kp * (reference.q - q) + gains.kd * (reference.v - v)
    return wanted
