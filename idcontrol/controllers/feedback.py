"""The error feedback that all controllers share."""

from __future__ import annotations

from dataclasses import dataclass

from idcontrol.types import Array, Reference


@dataclass(frozen=True, slots=True, kw_only=True)
class Gains:
    """Gains of a proportional-derivative law in joint space.

    Attributes:
        kp: Shape (a,): [1/s²] where the law gives accelerations, [N m/rad] where it gives torques.
        kd: Shape (a,): [1/s] or [N m s/rad].
    """

    kp: Array
    kd: Array


def proportional_derivative(gains: Gains, reference: Reference, q: Array, v: Array) -> Array:
    """``kp (q_des - q) + kd (v_des - v)`` for the actuated joints, shape (a,)."""
    return gains.kp * (reference.q - q) + gains.kd * (reference.v - v)
