"""A simulated robot that hangs by its base, feet in the air, for tests of a loop before the first step."""

import msgspec
import numpy as np

from idcontrol.config.configuration import NotNegative
from idcontrol.dynamics.system import System
from idcontrol.models.step import StepSolution
from idcontrol.plants.parts import brake, copied, substeps
from idcontrol.types import Array, ContactForces, State

STEP_S = 5e-4
"""Longest step [s]; joint accelerations are taken at its beginning."""


class Hoist(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A hoist that carries the robot of a loop.

    Attributes:
        hangs: True if the robot hangs in the air: it neither stands up nor lies down. In simulation its base is at
            rest.
        estop_s: Time from which the simulated machine reports a pressed emergency stop; null for never.
    """

    hangs: bool = False
    estop_s: NotNegative | None = None


class Hoisted:
    """A plant for a robot whose base is at rest. Its joints have no stops, and its feet touch nothing."""

    last: StepSolution | None = None

    def __init__(self, system: System, estop_s: float | None = None) -> None:
        """Hang the robot `system`; from the time `estop_s` [s] on, the emergency stop is pressed."""
        self._system, self._estop_s = system, np.inf if estop_s is None else estop_s
        self._state = State(t=0.0, q=np.zeros(0), v=np.zeros(0))

    @property
    def estop(self) -> bool:
        """True while the emergency stop is pressed."""
        return self._state.t >= self._estop_s

    def reset(self, state: State) -> State:
        """Start from `state`, with the base at rest."""
        v = state.v.copy()
        v[self._system.order[: self._system.n_unactuated]] = 0.0
        self._state = State(t=state.t, q=state.q.copy(), v=v)
        return copied(self._state)

    def push(self, velocity: Array) -> None:
        """Do nothing: the hoist holds the base."""

    def step(self, tau: Array, dt: float) -> State:
        """Hold the joint torques `tau`, shape (a,) [N m], for `dt` [s]; return the state at the end."""
        system, q, v = self._system, self._state.q, self._state.v
        u, count = system.n_unactuated, substeps(dt, STEP_S)
        h = dt / count
        for _ in range(count):
            system.update(q, v)
            if system.actuators is not None:
                brake(system, v, h)
            after = system.from_pinocchio(v)
            after[u:] += h * np.linalg.solve(system.M[u:, u:], tau - system.bias[u:])
            q, v = system.advance(q, after, h)
        self._state = State(t=self._state.t + dt, q=q, v=v)
        return copied(self._state)

    def contact_forces(self) -> ContactForces:
        """Return no forces."""
        return ContactForces.none()
