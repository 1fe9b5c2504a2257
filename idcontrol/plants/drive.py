"""Drives: electronics that convert impedance commands to torques, at a much higher rate than the loop."""

from __future__ import annotations

from collections import deque
from typing import Final

import numpy as np

from idcontrol.dynamics.system import ActuatorLimits, System
from idcontrol.kernels.jit import njit
from idcontrol.models.step import StepSolution
from idcontrol.plants import SimulatedPlant
from idcontrol.plants.parts import averaged, copied, substeps
from idcontrol.types import Array, ContactForces, State

PERIOD_S: Final = 1e-4
"""Longest time for which a drive holds its torque [s]."""


@njit(cache=True)
def drive_torque(command: Array, errors: Array, v: Array, limit: Array) -> Array:  # pragma: no cover - compiled
    """Return ``τ = tau + kp (q_des - q) + kd (v_des - v)``, clipped at the torque limits, shape (a,) [N m].

    Args:
        command: Rows tau, q_des, v_des, kp, kd (`idcontrol.types.Command.driven`), shape (5, a).
        errors: ``q_des - q`` (`System.position_errors`), shape (a,) [rad].
        v: Measured velocities, shape (a,) [rad/s].
        limit: Torque limits, shape (a,) [N m]; inf for no limit.
    """
    tau, _, v_des, kp, kd = command
    torque = np.empty(limit.shape[0])
    for j in range(limit.shape[0]):
        asked = tau[j] + kp[j] * errors[j] + kd[j] * (v_des[j] - v[j])
        torque[j] = np.copysign(limit[j], asked) if abs(asked) > limit[j] else asked
    return torque


class Motors:
    """Converts commanded torques to the torques of motors with delay, lag and speed-dependent limits."""

    def __init__(self, system: System) -> None:
        """Set up motors; at the first call they are in the steady state of the commanded torques.

        Args:
            system: Provides torque limits, speed limits and `System.actuators`, which must not be None.
        """
        assert system.actuators is not None
        self._actuators, self._limit, self._room = system.actuators, system.effort_limit, system.limits
        self.reset()

    def reset(self) -> None:
        """Forget all past torques."""
        self._asked: deque[Array] = deque()
        self._torque: Array | None = None

    def __call__(self, asked: Array, v: Array, h: float) -> Array:
        """Return the joint torques, shape (a,) [N m], for `h` [s] at commanded torques `asked` and velocities `v`.

        Delays are rounded to whole numbers of `h`; the lag is exact for torques held for `h`.
        """
        late = np.rint(self._actuators.delay / h).astype(np.int64)
        longest = int(late.max(initial=0)) + 1
        if self._torque is None:
            self._torque = asked = asked.copy()
            self._asked.extend([asked] * longest)
        self._asked.append(asked.copy())
        while len(self._asked) > longest:
            self._asked.popleft()
        arrived = np.array([self._asked[-1 - periods][joint] for joint, periods in enumerate(late.tolist())])
        share = -np.expm1(-2.0 * np.pi * h * self._actuators.bandwidth)
        self._torque = self._torque + share * (arrived - self._torque)
        forwards, backwards = at_speed(self._limit, self._room, v)
        torque: Array = np.clip(self._torque, -backwards, forwards)
        return torque


def at_speed(limit: Array, room: ActuatorLimits, v: Array) -> tuple[Array, Array]:
    """Return the largest torques forwards and backwards at joint velocities `v`, shapes (a,) [N m].

    Above `ActuatorLimits.speed` the limit of an accelerating torque falls linearly to zero at `no_load`.
    """
    falls = np.isfinite(room.no_load)
    span = np.where(falls, room.no_load, 1.0) - np.where(falls, room.speed, 0.0)
    share = np.where(falls, np.clip((room.no_load - np.abs(v)) / span, 0.0, 1.0), 1.0)
    reduced = np.where(share > 0.0, limit * np.where(share > 0.0, share, 1.0), 0.0)  # 0 inf would be NaN
    return np.where(v > 0.0, reduced, limit), np.where(v < 0.0, reduced, limit)


class Driven:
    """A `SimulatedPlant` with motors and drives, which accept impedance commands as well as torques.

    Attributes:
        torque: Torques of the last `step`, averaged over it, shape (a,) [N m].
    """

    def __init__(self, plant: SimulatedPlant, system: System, period_s: float = PERIOD_S) -> None:
        """Put drives in front of `plant`.

        Args:
            plant: A plant that takes torques.
            system: Provides joints, torque limits and actuators.
            period_s: Longest period of the drives [s].
        """
        self._plant, self._system, self._period = plant, system, period_s
        self._motors = None if system.actuators is None else Motors(system)
        self._state = State(t=0.0, q=np.zeros(0), v=np.zeros(0))
        self._forces = ContactForces.none()
        self.torque: Array = np.zeros(system.n_actuated)

    @property
    def last(self) -> StepSolution | None:
        """Outcome of the solver in the last period of the drives; None if unknown."""
        return self._plant.last

    def reset(self, state: State) -> State:
        """Start from `state`, with motors in the steady state of the first command.

        Raises:
            InputError: `state` cannot be a state of this robot.
        """
        self._state, self._forces = self._plant.reset(state), ContactForces.none()
        if self._motors is not None:
            self._motors.reset()
        return copied(self._state)

    def push(self, velocity: Array) -> None:
        """Add `velocity`, world frame, shape (3,) [m/s], to the velocity of the floating base and all its links.

        Raises:
            InputError: `velocity` is not three finite numbers.
        """
        self._plant.push(velocity)

    def step(self, command: Array, dt: float) -> State:
        """Hold the command `Command.driven`, shape (5, a) or (a,), for `dt` [s]; return the resulting state.

        Raises:
            InputError: The plant refuses the torques, or `dt` is not positive or too long.
            Diverged: The motion is out of bounds.
        """
        if command.ndim == 1 and self._motors is None:
            self._state, self.torque = self._plant.step(command, dt), command
            self._forces = self._plant.contact_forces()
            return copied(self._state)
        count, system, forces = substeps(dt, self._period), self._system, []
        total = np.zeros_like(self.torque)
        for _ in range(count):
            q, v = system.joint_positions(self._state.q), system.joint_velocities(self._state.v)
            torque = command
            if command.ndim == 2:
                torque = drive_torque(command, system.position_errors(command[1], q), v, system.effort_limit)
            if self._motors is not None:
                torque = self._motors(torque, v, dt / count)
            self._state = self._plant.step(torque, dt / count)
            forces.append(self._plant.contact_forces())
            total += torque
        self._forces, self.torque = averaged(forces, count), total / count
        return copied(self._state)

    def contact_forces(self) -> ContactForces:
        """Return the contact forces of the last `step`, averaged over it."""
        return self._forces
