"""Inverse dynamics with sensed contact forces: ID(t_i-1) and ID(t_i-2) of Zapolsky & Drumwright 2017, section 7.3."""

from __future__ import annotations

from collections import deque

import numpy as np

from idcontrol.contact.contacts import Detector
from idcontrol.controllers.feedback import Gains, proportional_derivative
from idcontrol.system import System
from idcontrol.types import Array, Command, ContactForces, Reference, State, Status


class SensedForces:
    """``τ = [M v̇ + c - Jᵀ f]_q`` with forces f that were sensed some periods ago (math.md, section 1).

    The joints' part of v̇ is desired, the base's is that of the same balance:
    ``M_bb v̇_b = J_bᵀ f - c_b - M_bq q̈_des``.
    Forces count at feet that are planned to stand, as in the original.

    It cannot hold forces that the motion does not show. Where feet stick, the difference between what the
    joints are told and what the footholds allow moves nothing; it turns into contact forces that balance each other,
    and these are sensed and fed back in the next period, with the same difference added. They are its integral over
    time: four feet of the paper's quadruped whose hips are told 0.01 rad more than they can turn press sideways by 51
    N/s more and more, until friction lets go (8.3 N at μ = 0.7). At infinite friction nothing does: in a trot on
    ``mu=inf`` what the feet do against each other was measured to grow from a median of 12 N to 26 N within 3.5 s, with
    a maximum of 114 N (9 to 16 N and at most 33 N at μ = 0.7); feet lost contact, a foot that had lost it was sensed as
    zero and not loaded again, and in that run the machine fell at 5 s. With projection of the demand (math.md, section
    12.1), which takes the inconsistent part out of each, it fell at 2.5 s; why so early was not looked into. Use a
    controller that predicts its forces there.
    """

    def __init__(self, system: System, contacts: Detector, gains: Gains, delay: int) -> None:
        """Bind the controller to a machine.

        Args:
            system: The controller's own multibody terms.
            contacts: Detector of foot contacts on `system`: tells where the forces act; it lists every foot that is
                asked for with an infinite margin, in the order of their numbers.
            gains: In acceleration: kp [1/s²], kd [1/s].
            delay: Age of the forces in control periods, 1 or more.
        """
        self._system, self._contacts, self._gains = system, contacts, gains
        self._queue: deque[ContactForces] = deque(maxlen=delay)

    def reset(self) -> None:
        """Forget what was sensed."""
        self._queue.clear()

    def __call__(self, state: State, reference: Reference) -> Command:
        """Torques for the period that begins at `state.t`."""
        system, u = self._system, self._system.n_unactuated
        if not (np.isfinite(state.q).all() and np.isfinite(state.v).all() and np.isfinite(reference.a).all()):
            return Command(
                tau=np.zeros(system.n_actuated), status=Status.FAILED, dropped=("state or reference is not finite",)
            )
        system.update(state.q, state.v)
        self._queue.append(state.forces or ContactForces.none())
        sensed = self._queue[0]
        pull = self._generalized(sensed, reference)
        q, v = system.joint_positions(state.q), system.joint_velocities(state.v)
        wanted = reference.a + proportional_derivative(self._gains, reference, q, v)
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

    def _generalized(self, sensed: ContactForces, reference: Reference) -> Array:
        """Jᵀ f of the sensed forces at feet that are planned to stand, shape (m,)."""
        pull = np.zeros(self._system.n_velocities)
        contacts = self._contacts.detect(np.inf)
        n = len(contacts)
        for identity, force in zip(sensed.identity.tolist(), sensed.force, strict=True):
            if reference.stance[identity]:
                rows = contacts.jacobian[identity::n]
                pull += rows.T @ (contacts.axes[identity] @ force)
        return pull
