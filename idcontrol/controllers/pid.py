"""Joint-space error feedback alone: the baseline that knows neither inertia nor contacts."""

from __future__ import annotations

import numpy as np

from idcontrol.controllers.feedback import Gains, proportional_derivative
from idcontrol.system import System
from idcontrol.types import Command, Reference, State, Status


class Pid:
    """``τ = kp (q_des - q) + kd (v_des - v)``, clipped at the torque limits.

    No integral term: the planner's stance anchors hold what gravity would make drift (planner.md, sections 4.2 and 6).
    """

    def __init__(self, system: System, gains: Gains) -> None:
        """Bind the law to a machine.

        Args:
            system: Tells joints and torque limits.
            gains: In torque: kp [N m/rad], kd [N m s/rad], one for each joint.
        """
        self._system, self._gains = system, gains

    def reset(self) -> None:
        """Nothing is remembered."""

    def __call__(self, state: State, reference: Reference) -> Command:
        """Torques for the period that begins at `state.t`."""
        q, v = self._system.joint_positions(state.q), self._system.joint_velocities(state.v)
        wanted = proportional_derivative(self._gains, reference, q, v)
        if not np.isfinite(wanted).all():
            return Command(tau=np.zeros_like(wanted), status=Status.FAILED, dropped=("state is not finite",))
        limit = self._system.effort_limit
        tau = np.clip(wanted, -limit, limit)
        return Command(tau=tau, clipped=bool((tau != wanted).any()))
