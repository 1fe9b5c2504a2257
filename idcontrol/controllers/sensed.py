"""Inverse dynamics with sensed contact forces: ID(t_i-1) and ID(t_i-2) of Zapolsky & Drumwright 2017, section 7.3."""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np

from idcontrol.contact.contacts import Detector
from idcontrol.controllers.feedback import Gains, nearing, overcoming, proportional_derivative
from idcontrol.controllers.inputs import Intake, alone, failed, unmasked
from idcontrol.dynamics.system import LARGEST, System
from idcontrol.errors import InputError
from idcontrol.types import Array, Command, ContactForces, Reference, State, Status


class SensedForces:
    """``τ = [M v̇ + c - Jᵀ f]_q`` with forces f that were sensed some periods ago (math.md, section 1).

    The index q means the rows of the joints. The joints' part of v̇ is the desired acceleration; the base's part follows
    from the same balance, ``M_bb v̇_b = J_bᵀ f - c_b - M_bq q̈_des``. Only forces at feet that are planned to stand are
    used, as in Zapolsky & Drumwright 2017.

    Internal forces are not controlled, and they can grow. A demand that the footholds forbid moves nothing while the
    feet stick; it causes contact forces that balance each other. The sensed forces contain these internal forces, and
    each period adds the same demand again. The internal forces therefore grow until they reach the friction limit. With
    infinite friction there is no limit: use a controller that predicts its forces.
    """

    def __init__(self, system: System, contacts: Detector, gains: Gains, h: float, delay: int) -> None:
        """Set up the controller of a robot.

        Args:
            system: Multibody terms for this controller alone.
            contacts: Detector of foot contacts on `system`; it provides the points at which the forces act. With an
                infinite margin it must list all feet in order.
            gains: Gains in acceleration, kp [1/s²] and kd [1/s].
            h: Control period [s].
            delay: Age of the forces in control periods, 1 or more. In the first periods after a reset, the first forces
                since the reset are used.

        Raises:
            InputError: The robot stands on soles: sensors measure no forces at the corners of soles.
        """
        if getattr(contacts, "sole_patch", None) is not None:
            raise InputError("sensed forces at the corners of soles are unknown; take a controller that predicts them")
        self._parts = (system, contacts, gains, h, delay)
        self._system, self._contacts, self._gains, self._h = system, contacts, gains, float(h)
        self._intake = Intake(system)
        self._queue: deque[ContactForces] = deque(maxlen=delay)

    def __reduce__(self) -> tuple[Any, ...]:
        """Rebuild copies and unpickled controllers with their own copy of the sensed forces."""
        return type(self), self._parts, tuple(self._queue)

    def __setstate__(self, sensed: tuple[ContactForces, ...]) -> None:
        self._queue.extend(sensed)

    def reset(self) -> None:
        """Forget the sensed forces."""
        self._queue.clear()

    @alone
    def __call__(self, state: State, reference: Reference) -> Command:
        """Return torques for the period that begins at `state.t`.

        The status is `Status.FAILED` if state or reference is unusable, or two threads use the system.
        """
        system, u = self._system, self._system.n_unactuated
        fault = self._intake.take(state, reference)
        if fault:
            return failed(system, fault)
        try:
            forces = self._copied(state.forces)
        except (
            Exception
        ) as error:  # reading a user's object as an array may raise anything; a controller raises nothing
            return failed(system, f"state.forces: {error}")
        inputs = self._intake.inputs
        system.update(inputs.q, inputs.v)
        if system.actuators is not None:
            system.bias[system.n_unactuated :] += overcoming(system.actuators, inputs.joint_v)
        self._queue.append(forces)
        pull = self._generalized(self._queue[0])
        q, v = system.joint_positions(inputs.q), system.joint_velocities(inputs.v)
        errors = system.position_errors(inputs.joint_q, q)
        wanted = inputs.joint_a + proportional_derivative(self._gains, errors, inputs.joint_v - v)
        h, (lower, upper) = self._h, system.limits[:2]
        wanted = np.minimum(np.maximum(wanted, (nearing(q, lower, h) - v) / h), (nearing(q, upper, h) - v) / h)
        M, c = system.M, system.bias
        base = np.linalg.solve(M[:u, :u], pull[:u] - c[:u] - M[:u, u:] @ wanted)
        needed = M[u:, :u] @ base + M[u:, u:] @ wanted + c[u:] - pull[u:]
        limit = system.effort_limit
        tau = np.clip(needed, -limit, limit)
        clipped = bool((tau != needed).any())
        return Command(
            tau=tau,
            status=Status.REPAIRED if clipped else Status.SOLVED,
            clipped=clipped,
            dropped=("tracking",) if clipped else (),
        )

    def _copied(self, forces: ContactForces | None) -> ContactForces:
        """Copy sensed forces into arrays.

        Raises:
            ValueError: The forces are unusable; the text says why.
        """
        if forces is None:
            return ContactForces.none()
        identity, force = unmasked("identity", forces.identity), unmasked("force", forces.force)
        feet = self._intake.inputs.stance.size
        if identity.ndim != 1 or identity.dtype.kind not in "iu" or not ((identity >= 0) & (identity < feet)).all():
            raise ValueError(f"identity is {identity.tolist()}; it must be numbers of {feet} feet")
        if force.shape != (identity.size, 3) or force.dtype.kind not in "iuf" or not (np.abs(force) <= LARGEST).all():
            raise ValueError(f"force must be ({identity.size}, 3) finite numbers")
        force = np.array(force, dtype=np.float64)
        return ContactForces(identity=np.array(identity, dtype=np.int64), force=force, normal=np.zeros_like(force))

    def _generalized(self, sensed: ContactForces) -> Array:
        """Return Jᵀ f of the sensed forces at feet that are planned to stand, shape (m,)."""
        pull, stance = np.zeros(self._system.n_velocities), self._intake.inputs.stance
        contacts = self._contacts.detect(np.inf)
        n = len(contacts)
        for identity, force in zip(sensed.identity.tolist(), sensed.force, strict=True):
            if identity < min(n, stance.size) and stance[identity]:  # earlier plans may have had other feet
                rows = contacts.jacobian[identity::n]
                pull += rows.T @ (contacts.axes[identity] @ force)
        return pull
