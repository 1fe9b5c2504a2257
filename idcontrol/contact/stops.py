"""Ends of joints as contacts: one row of the joint's own velocity, without friction (math.md, section 12.5).

The end q_hi of a joint has the gap ``q_hi - q`` and the row -e_j. Every contact model solves it with the contacts of
the machine.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from idcontrol.contact.contacts import Contacts, concatenate
from idcontrol.dynamics.system import System
from idcontrol.kernels.bound import Bound, bind, entry
from idcontrol.kernels.jit import njit
from idcontrol.types import Array

FIRST: Final = 1 << 40
"""Identities of stops begin here; those of other contacts are smaller."""

NEAR_RAD: Final = 5e-3
"""The end of a joint is listed from this distance on, and from where the joint could be within two steps."""


@njit(cache=True, error_model="numpy")
def near_stops(bound: Bound, q: Array, v: Array, h: float) -> int:
    """Write 2 j for a lower end near joint j and 2 j + 1 for an upper one into `found`, (2 a,); returns how many.

    The bound values are the joints' limits, their places in q and in v, which have no ends, and `found`; q and v are in
    Pinocchio's layout.
    """
    limits, at_q, at_v, circle, found = bound.borrowed
    count = 0
    for j in range(at_q.shape[0]):
        angle, speed = q[at_q[j]], v[at_v[j]]
        reach = NEAR_RAD + 2.0 * h * abs(speed)
        if not circle[j] and angle - limits.lower[j] < reach:
            found[count] = 2 * j
            count += 1
        if not circle[j] and limits.upper[j] - angle < reach:
            found[count] = 2 * j + 1
            count += 1
    return count


class Stops:
    """The ends of a machine's actuated joints."""

    def __init__(self, system: System) -> None:
        """Bind the limits of `system`."""
        self._system = system
        self._found = np.zeros(2 * system.n_actuated, dtype=np.int64)
        at_v = np.ascontiguousarray(system.order[system.n_unactuated :])
        self.bound = bind((system.limits, system.joint_q, at_v, system.joint_circle, self._found))
        q, v = np.zeros(system.model.nq), np.zeros(system.n_velocities)
        self._near: Any = entry(near_stops, self.bound, q, v, 0.0)

    def beside(self, contacts: Contacts, q: Array, v: Array, h: float) -> Contacts:
        """The contacts, and after them the ends that joints could meet within a step.

        Args:
            contacts: Of the machine at q.
            q: Configuration in Pinocchio's layout, shape (nq,).
            v: Velocity in Pinocchio's layout, shape (m,).
            h: Length of the step [s].
        """
        count = self._near(self.bound, q, v, h)
        if count == 0:
            return contacts
        system, limits = self._system, self._system.limits
        j, upper = np.divmod(self._found[:count], 2)
        rows = np.zeros((3 * count, system.n_velocities))
        rows[np.arange(count), system.n_unactuated + j] = np.where(upper, -1.0, 1.0)
        angle = q[system.joint_q[j]]
        stops = Contacts(
            identity=FIRST + self._found[:count],
            point=np.zeros((count, 3)),
            axes=np.tile(np.eye(3), (count, 1, 1)),
            gap=np.where(upper, limits.upper[j] - angle, angle - limits.lower[j]),
            mu=np.zeros(count),
            jacobian=rows,
        )
        return concatenate((contacts, stops))
