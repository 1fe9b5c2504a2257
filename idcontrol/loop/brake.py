"""The brake: joint damping that a machine applies by itself when nothing else may."""

from __future__ import annotations

import numpy as np

from idcontrol.loop.safety import Limits
from idcontrol.system import System
from idcontrol.types import Array, State


def brake(system: System, limits: Limits, state: State, h: float) -> Array:
    """Torques that act as the damper ``τ = -D q̇⁺`` of velocities that the period ends with, shape (a,) [N m].

    ::

        q̇⁺ = q̇ + h A τ,   A = (M⁻¹) of the actuated joints      =>      τ = -(1 + h D A)⁻¹ D q̇

    So it is stable whatever D, h and the pose are, as the damping of a motor's electronics is, which run at many
    kilohertz; ``-D q̇`` of the last state is not. Contacts only make A smaller, and bias is left out: what gravity adds
    in one period is damped in the next.

    Args:
        system: Multibody terms, which are updated.
        limits: D and the torque limits.
        state: Where the machine is, finite.
        h: Period over which the torques hold [s].
    """
    system.update(state.q, state.v)
    u = system.n_unactuated
    mobility = np.linalg.inv(system.M)[u:, u:]
    damping = limits.damping
    wanted = -np.linalg.solve(
        np.eye(len(damping)) + h * damping[:, None] * mobility, damping * system.joint_velocities(state.v)
    )
    return np.clip(wanted, -limits.torque, limits.torque)
