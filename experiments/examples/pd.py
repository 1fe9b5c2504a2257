"""The smallest custom controller: a PD law.

::

    idcontrol loop --robot go1 --controller idcontrol.experiments.examples.pd:JointPd --duration 10

Torque gains must tolerate the delay of one period between the processes; the gains of `links` do not at 1 kHz.
"""

import numpy as np

from idcontrol.controllers import Setup
from idcontrol.types import Command, Reference, State


class JointPd:
    """``τ = kp (q_des - q) + kd (v_des - v)`` with the gains of the robot file."""

    def __init__(self, setup: Setup) -> None:
        """Store the gains and sizes of `setup`, which the loop makes from the robot and the experiment."""
        assert setup.torque_gains is not None  # the trot provides them
        self.system, self.gains = setup.system, setup.torque_gains

    def reset(self) -> None:
        """Do nothing: the controller has no state."""

    def __call__(self, state: State, reference: Reference) -> Command:
        """Return torques for the period that begins at ``state.t``."""
        q, v = self.system.joint_positions(state.q), self.system.joint_velocities(state.v)
        tau = self.gains.kp * (reference.q - q) + self.gains.kd * (reference.v - v)
        limit = self.system.effort_limit
        return Command(tau=np.clip(tau, -limit, limit))
