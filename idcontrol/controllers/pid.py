"""Joint-space error feedback: alone, as a model-free baseline, or in addition to another controller."""

from __future__ import annotations

from typing import Any

import numpy as np
from msgspec import structs

from idcontrol.controllers.answer import check_command
from idcontrol.controllers.feedback import Gains, nearing, overcoming, proportional_derivative
from idcontrol.controllers.inputs import Intake, alone, failed
from idcontrol.dynamics.system import System
from idcontrol.types import Command, Controller, Reference, State, Status


class Pid:
    """``τ = kp (q_des - q) + kd (v_des - v)``, clipped at the torque limits.

    q_des is limited to the joint's range, and v_des towards a stop of the joint is at most `nearing`.

    The friction of the system's joints is added as a feed-forward. There is no integral term: the planner's stance
    anchors prevent drift by gravity (planner.md, sections 4.2 and 6).
    """

    def __init__(self, system: System, gains: Gains, h: float, accelerations: bool = False) -> None:
        """Set up the law for a robot.

        Args:
            system: Provides joints and torque limits.
            gains: Gains in torque, kp [N m/rad] and kd [N m s/rad], one per joint.
            h: Control period [s].
            accelerations: True to require accelerations in references, as drives do.
        """
        self._parts = (system, gains, h, accelerations)
        self._system, self._gains, self._h = system, gains, float(h)
        self._intake = Intake(system, accelerations=accelerations)

    def __reduce__(self) -> tuple[Any, ...]:
        """Rebuild copies and unpickled controllers with their own arrays."""
        return type(self), self._parts

    def reset(self) -> None:
        """Do nothing: no step depends on an earlier one."""

    @alone
    def __call__(self, state: State, reference: Reference) -> Command:
        """Return torques for the period that begins at `state.t`.

        The status is `Status.FAILED` if state or reference is unusable, or two threads use the system.
        """
        fault = self._intake.take(state, reference)
        if fault:
            return failed(self._system, fault)
        inputs, system, h = self._intake.inputs, self._system, self._h
        q, v, lower, upper = system.joint_positions(inputs.q), system.joint_velocities(inputs.v), *system.limits[:2]
        q_des = np.minimum(np.maximum(inputs.joint_q, lower), upper)
        v_des = np.minimum(np.maximum(inputs.joint_v, nearing(q, lower, h)), nearing(q, upper, h))
        wanted = proportional_derivative(self._gains, system.position_errors(q_des, q), v_des - v)
        if system.actuators is not None:
            wanted += overcoming(system.actuators, v_des)
        limit = self._system.effort_limit
        tau = np.minimum(np.maximum(wanted, -limit), limit)  # np.clip takes three times as long
        return Command(tau=tau, clipped=bool((tau != wanted).any()))


class Beside:
    """Another controller's torques plus ``kp (q_des - q) + kd (v_des - v)``; the sum is clipped at the torque limits.

    The controller's predicted forces do not include the effect of these torques.
    """

    def __init__(self, controller: Controller, system: System, gains: Gains) -> None:
        """Add feedback to a controller.

        Args:
            controller: Returns the torques to which the feedback is added.
            system: Provides joints and torque limits.
            gains: Gains in torque, kp [N m/rad] and kd [N m s/rad], one per joint.
        """
        self._controller, self._system, self._gains = controller, system, gains

    def reset(self) -> None:
        """Forget all earlier steps."""
        self._controller.reset()

    def __call__(self, state: State, reference: Reference) -> Command:
        """Return torques for the period that begins at `state.t`; do not add feedback if the controller has failed.

        Raises:
            InputError: The answer of the controller is not a valid command (`check_command`).
        """
        command, system = self._controller(state, reference), self._system
        check_command(command, self._controller, state, system.n_actuated)
        if command.status is Status.FAILED:
            return command
        arrays = (state.q, state.v, reference.q, reference.v)
        q, v, q_des, v_des = (
            np.asarray(vector, dtype=np.float64) for vector in arrays
        )  # references may contain lists, too
        q, v, limit = system.joint_positions(q), system.joint_velocities(v), system.effort_limit
        wanted = command.tau + proportional_derivative(self._gains, system.position_errors(q_des, q), v_des - v)
        tau = np.minimum(np.maximum(wanted, -limit), limit)
        return structs.replace(command, tau=tau, clipped=command.clipped or bool((tau != wanted).any()))
