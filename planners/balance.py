"""Feedback on the tilt of the base through the standing legs, in addition to the level reference (planner.md 6)."""

from __future__ import annotations

import math
from dataclasses import dataclass

from idcontrol.errors import InputError
from idcontrol.kernels.jit import njit
from idcontrol.types import Array


@dataclass(frozen=True, slots=True, kw_only=True)
class Balance:
    """Gains from roll and pitch to the demanded angular acceleration of the base; zero by default.

    The joint feedback of standing legs already holds the base at its level reference. These gains help if that feedback
    is soft or the robot is pushed.

    Attributes:
        stiffness_1_s2: Gain on roll and pitch, K_p [1/s²].
        damping_1_s: Gain on the rates of roll and pitch, K_v [1/s].

    Raises:
        InputError: A gain is negative or not finite.
    """

    stiffness_1_s2: float = 0.0
    damping_1_s: float = 0.0

    def __post_init__(self) -> None:
        """Reject gains that are negative or not finite."""
        for name in ("stiffness_1_s2", "damping_1_s"):
            if not (math.isfinite(getattr(self, name)) and getattr(self, name) >= 0.0):
                raise InputError(f"balance {name} is {getattr(self, name)}; it must be zero or positive")


@njit(cache=True, inner=True)
def righting_acceleration(
    stiffness: float, damping: float, rotation: Array, omega_B: Array
) -> tuple[float, float, float]:  # pragma: no cover - compiled
    """Return the angular acceleration that rights the base, ``α_b = -K_p θ - K_v ω`` about horizontal axes [rad/s²].

    θ = (Rᵀe_z) × e_z is the rotation vector from level to the measured tilt, (roll, pitch, 0) for small angles.
    Standing legs realize α_b with feet in place: ``q̈ = -J⁻¹ (α_b × p)`` for a foot at p whose Jacobian is J
    (`joints.move_joints`).

    Args:
        stiffness: K_p [1/s²].
        damping: K_v [1/s].
        rotation: R, base to world, shape (3, 3).
        omega_B: ω, angular velocity of the base, base axes, shape (3,) [rad/s].

    Returns:
        α_b, base axes [rad/s²].
    """
    return (
        -stiffness * rotation[2, 1] - damping * omega_B[0],
        stiffness * rotation[2, 0] - damping * omega_B[1],
        0.0,
    )
