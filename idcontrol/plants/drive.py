"""Drives: the electronics that turn impedance commands into torques, far faster than the loop that sends them."""

from __future__ import annotations

from typing import Final

import numpy as np

from idcontrol.models.step import StepSolution
from idcontrol.plants import SimulatedPlant
from idcontrol.plants.parts import averaged, substeps
from idcontrol.system import System
from idcontrol.types import Array, ContactForces, State

PERIOD_S: Final = 1e-4
"""Drives compute their torques at least this often [s]."""


def drive_torque(command: Array, q: Array, v: Array, limit: Array) -> Array:
    """``τ = tau + kp (q_des - q) + kd (v_des - v)``, the sum within the torque limits, shape (a,) [N m].

    Args:
        command: Rows tau, q_des, v_des, kp, kd (`idcontrol.types.Command.driven`), shape (5, a).
        q: Measured positions of the joints, shape (a,) [rad].
        v: Measured velocities, shape (a,) [rad/s].
        limit: Torque limits, shape (a,) [N m]; inf where there is none.
    """
    tau, q_des, v_des, kp, kd = command
    torque: Array = np.clip(tau + kp * (q_des - q) + kd * (v_des - v), -limit, limit)
    return torque


class Driven:
    """A `SimulatedPlant` behind drives: it takes impedance commands, and torques as it is.

    Attributes:
        torque: Torques of the last `step`, averaged over it, shape (a,) [N m].
    """

    def __init__(self, plant: SimulatedPlant, system: System, period_s: float = PERIOD_S) -> None:
        """Put drives before `plant`.

        Args:
            plant: Takes torques.
            system: Tells joints and torque limits.
            period_s: Longest period of the drives [s].
        """
        self._plant, self._system, self._period = plant, system, period_s
        self._state = State(t=0.0, q=np.zeros(0), v=np.zeros(0))
        self._forces = ContactForces.none()
        self.torque: Array = np.zeros(system.n_actuated)

    @property
    def last(self) -> StepSolution | None:
        """How the last period of the drives was solved; None where nothing is known of it."""
        return self._plant.last

    def reset(self, state: State) -> State:
        """Start from `state`."""
        self._state, self._forces = self._plant.reset(state), ContactForces.none()
        return self._state

    def push(self, velocity: Array) -> None:
        """Add `velocity`, world frame, shape (3,) [m/s], to that of the robot; its joints feel it in what follows."""
        self._plant.push(velocity)

    def step(self, command: Array, dt: float) -> State:
        """Hold what `Command.driven` is, shape (5, a) or (a,), for `dt` [s]; return the state after it."""
        if command.ndim == 1:
            self._state, self.torque = self._plant.step(command, dt), command
            self._forces = self._plant.contact_forces()
            return self._state
        count, system, forces = substeps(dt, self._period), self._system, []
        total = np.zeros_like(self.torque)
        for _ in range(count):
            q, v = system.joint_positions(self._state.q), system.joint_velocities(self._state.v)
            torque = drive_torque(command, q, v, system.effort_limit)
            self._state = self._plant.step(torque, dt / count)
            forces.append(self._plant.contact_forces())
            total += torque
        self._forces, self.torque = averaged(forces, count), total / count
        return self._state

    def contact_forces(self) -> ContactForces:
        """Contact forces of the last `step`, averaged over it."""
        return self._forces
