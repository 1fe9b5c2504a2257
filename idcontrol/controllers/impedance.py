"""Impedance commands: torques of any controller, plus targets that the drives track between two commands.

A command holds for a whole period h, so it refers to the middle of the period: the planner is called for t + h/2
(`centred`), and the drive holds the reference's position and velocity at that time. The controller gets the same
motion, evaluated at t.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from msgspec import structs

from idcontrol.controllers.answer import check_command
from idcontrol.controllers.feedback import Gains
from idcontrol.dynamics.system import System
from idcontrol.types import Command, Controller, Reference, State, Status


def centred(planner: Callable[[State], Reference], h: float) -> Callable[[State], Reference]:
    """Return a planner whose references for t have the acceleration and stance planned for t + h/2; `h` in s.

    ``q(t) = q(t + h/2) - h/2 v(t) - h²/8 a``. The planner's `Reference.v` for t + h/2 is the mean velocity from t - h/2
    to t + h/2, which is the velocity at t.
    """

    def shifted(state: State) -> Reference:
        middle = planner(structs.replace(state, t=state.t + 0.5 * h))
        return structs.replace(middle, q=middle.q - 0.5 * h * middle.v - 0.125 * h * h * middle.a).sealed()

    return shifted


def drive_gains(system: System, gains: Gains) -> Gains:
    """Convert gains in acceleration to gains in torque, separately for each joint, in the state of the last update.

    The results are ``I kp`` and ``I kd``. I is a joint's inertia with all other joints free: ``1/I`` is the diagonal of
    M⁻¹.
    """
    inertia = 1.0 / np.diag(np.linalg.inv(system.M))[system.n_unactuated :]
    return Gains(kp=inertia * gains.kp, kd=inertia * gains.kd)


class Impedance:
    """Adds targets for the drives to another controller's torques: the reference in the middle of the period."""

    def __init__(self, controller: Controller, gains: Gains, h: float) -> None:
        """Convert torque commands to impedance commands.

        Args:
            controller: Returns the torques, from references of `centred`.
            gains: Gains of the drives, [N m/rad] and [N m s/rad], shape (a,) each (`drive_gains`).
            h: Control period [s].
        """
        self._controller, self._h = controller, float(h)
        self._kp, self._kd = np.asarray(gains.kp), np.asarray(gains.kd)

    def reset(self) -> None:
        """Forget all earlier steps."""
        self._controller.reset()

    def __call__(self, state: State, reference: Reference) -> Command:
        """Return the command for the period that begins at `state.t`, with zero gains if the controller has failed.

        Raises:
            InputError: The answer of the controller is not a valid command (`check_command`).
        """
        command, h = self._controller(state, reference), self._h
        check_command(command, self._controller, state, self._kp.size)
        if command.status is Status.FAILED:  # the controller may have rejected this reference
            none = np.zeros_like(command.tau)
            return structs.replace(command, q=none, v=none, kp=none, kd=none)
        # references may contain lists, too
        q, v, a = (np.asarray(vector, dtype=np.float64) for vector in (reference.q, reference.v, reference.a))
        return structs.replace(
            command, q=q + 0.5 * h * v + 0.125 * h * h * a, v=v + 0.5 * h * a, kp=self._kp.copy(), kd=self._kd.copy()
        )
