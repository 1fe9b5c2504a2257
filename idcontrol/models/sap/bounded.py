r"""Rows of limited impulse (joint limits, motors) in the same convex problem as contacts.

Source: Castro, Permenter & Han 2022, section XI.

A row with the velocity u = row v⁺ - target has the impulse ``g = clip(-u/C, lower, upper)``, which is minus the
derivative of a convex cost. The target and the compliance of a row represent a spring and a damper, implicit in v⁺; its
limits represent the largest force.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from idcontrol.errors import InputError
from idcontrol.models.sap.regularization import BETA
from idcontrol.models.step import PUSH_OUT_SPEED
from idcontrol.types import Array, Integers


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounded:
    """Rows with a limited impulse, ``g = clip((target - row v⁺)/compliance, lower, upper)``.

    Attributes:
        rows: Rows over the velocities, shape (e, m).
        target: Velocities of the rows without impulse, shape (e,) [m/s or rad/s].
        compliance: Velocity per impulse, positive, shape (e,).
        lower: Smallest impulses, shape (e,) [N s or N m s]; -inf for no limit.
        upper: Largest impulses, shape (e,) [N s or N m s]; inf for no limit.

    Raises:
        InputError: A compliance is not positive, or a lower limit is above the upper limit.
    """

    rows: Array
    target: Array
    compliance: Array
    lower: Array
    upper: Array

    def __post_init__(self) -> None:
        if not (self.compliance > 0.0).all():
            raise InputError("bounded rows need a positive compliance; use `Bilateral` for rigid rows")
        if not (self.lower <= self.upper).all():
            raise InputError("bounded rows: a lower limit of the impulse is above the upper limit")

    def __add__(self, other: Bounded) -> Bounded:
        """Return these rows, then the rows of `other`."""
        return Bounded(
            rows=np.vstack((self.rows, other.rows)),
            target=np.concatenate((self.target, other.target)),
            compliance=np.concatenate((self.compliance, other.compliance)),
            lower=np.concatenate((self.lower, other.lower)),
            upper=np.concatenate((self.upper, other.upper)),
        )


def motors(
    h: float, m: int, index: Integers, error: Array, velocity: Array, kp: Array, kd: Array, effort: Array
) -> Bounded:
    """Return PD actuators, implicit in v⁺: ``τ = clip(kp (q_d - q - h v⁺) + kd (v_d - v⁺), ±effort)``.

    Args:
        h: Length of the step [s].
        m: Number of velocities of the robot.
        index: Driven velocities, shape (e,).
        error: q_d - q at the start of the step, shape (e,) [rad or m].
        velocity: v_d, shape (e,).
        kp: Stiffness, shape (e,) [N m/rad or N/m].
        kd: Damping, shape (e,) [N m s/rad or N s/m]; kp or kd must be positive.
        effort: Largest torque or force, nonnegative, shape (e,) [N m or N].

    Returns:
        One row per motor; its impulse is hτ.

    Raises:
        InputError: Both gains of a motor are zero.
    """
    rate = kd + h * kp
    if not (rate > 0.0).all():
        raise InputError("motors need a positive kp or kd")
    return Bounded(
        rows=np.eye(m)[index],
        target=(kp * error + kd * velocity) / rate,
        compliance=1.0 / (h * rate),
        lower=-h * effort,
        upper=h * effort,
    )


def joint_limits(
    h: float, M: Array, index: Integers, position: Array, lowest: Array, highest: Array, beta: float = BETA
) -> Bounded:
    """Keep joints between their stops, which are near-rigid like contacts (Castro, Permenter & Han 2022, section IX-A).

    Args:
        h: Length of the step [s].
        M: Joint-space inertia, shape (m, m).
        index: Velocities with stops, shape (e,).
        position: Joint positions, shape (e,) [rad or m].
        lowest: Lower stops, shape (e,) [rad or m]; -inf for no stop.
        highest: Upper stops, shape (e,) [rad or m]; inf for no stop.
        beta: Period of a near-rigid stop, in steps.

    Returns:
        One row per finite stop, first the lower stops; impulses push away from the stop.
    """
    tau_d = beta * h / np.pi
    gap = np.concatenate((position - lowest, highest - position))
    sign = np.repeat([1.0, -1.0], len(index))
    which = np.flatnonzero(np.isfinite(gap))
    joint = np.tile(index, 2)[which]
    w = np.diag(np.linalg.inv(M))[joint]
    return Bounded(
        rows=sign[which, None] * np.eye(len(M))[joint],
        target=np.minimum(-gap[which] / (h + tau_d), PUSH_OUT_SPEED),
        compliance=beta * beta * w / (4.0 * np.pi**2),
        lower=np.zeros(len(which)),
        upper=np.full(len(which), np.inf),
    )
