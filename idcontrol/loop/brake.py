"""The brake: joint damping that a machine applies by itself when no command may be applied."""

from __future__ import annotations

import numpy as np

from idcontrol.dynamics.system import System
from idcontrol.loop.safety import Limits
from idcontrol.types import Array, State


def brake(system: System, limits: Limits, state: State, h: float) -> Array:
    """Return torques that damp the velocities at the end of the period, ``τ = -D q̇⁺``, shape (a,) [N m].

    Torques beyond the limits are clipped.

    ::

        M (v⁺ - v) = h Pᵀτ   =>   (M + h PᵀD P) v⁺ = M v,   q̇⁺ = P v⁺

    P selects the joint velocities. The brake is stable for any D, h and pose, like damping by a motor's
    electronics at many kilohertz. Damping ``-D q̇`` with the velocity of the last state is not stable for all D, h and
    poses. Contacts only make joints harder to move. Bias is neglected: the velocity that gravity adds in one period is
    damped in the next.

    Args:
        system: Multibody terms, updated by this call.
        limits: Damping D and torque limits of the joints.
        state: State of the machine, finite.
        h: Period over which the torques hold [s].
    """
    system.update(state.q, state.v)
    u, damped = system.n_unactuated, system.M.copy()
    damped.flat[u * (len(damped) + 1) :: len(damped) + 1] += h * limits.damping
    after = np.linalg.solve(damped, system.M @ system.from_pinocchio(state.v))[u:]
    return np.clip(-limits.damping * after, -limits.torque, limits.torque)
