"""Joint limits as contacts: one row of the joint's velocity, without friction (math.md, section 12.5).

The lower limit q_lo of joint j has the gap ``q - q_lo`` and the row e_j, the unit vector of the joint's velocity. The
upper limit q_hi has the gap ``q_hi - q`` and the row -e_j. In time-stepping plants the contact model solves such rows
together with the robot's contacts.
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
"""First identity of stops; other contacts have smaller identities."""

MARGIN_RAD: Final = 5e-3
"""A stop is listed if it is closer than this plus the distance covered in two steps [rad or m]."""


@njit(cache=True, error_model="numpy")
def reachable_stops(bound: Bound, q: Array, v: Array, h: float) -> int:
    """Write 2 j for each joint j close to its lower limit, 2 j + 1 if close to its upper limit; return their number.

    `bound` has the joints' limits, their indices in q and v, a flag for joints without limits, and the result; q and v
    are in Pinocchio's layout.
    """
    limits, at_q, at_v, circle, stops = bound.borrowed
    count = 0
    for j in range(at_q.shape[0]):
        angle, speed = q[at_q[j]], v[at_v[j]]
        reach = MARGIN_RAD + 2.0 * h * abs(speed)
        if not circle[j] and angle - limits.lower[j] < reach:
            stops[count] = 2 * j
            count += 1
        if not circle[j] and limits.upper[j] - angle < reach:
            stops[count] = 2 * j + 1
            count += 1
    return count


class Stops:
    """The stops of a robot's actuated joints."""

    def __init__(self, system: System) -> None:
        """Bind the limits of `system`."""
        self._system = system
        self._stops = np.zeros(2 * system.n_actuated, dtype=np.int64)
        at_v = np.ascontiguousarray(system.order[system.n_unactuated :])
        self.bound = bind((system.limits, system.joint_q, at_v, system.joint_circle, self._stops))
        q, v = np.zeros(system.model.nq), np.zeros(system.n_velocities)
        self._reachable: Any = entry(reachable_stops, self.bound, q, v, 0.0)

    def beside(self, contacts: Contacts, q: Array, v: Array, h: float) -> Contacts:
        """Return the contacts, followed by the stops that joints may reach soon (`MARGIN_RAD`).

        Args:
            contacts: Contacts of the robot at q.
            q: Configuration in Pinocchio's layout, shape (nq,).
            v: Velocity in Pinocchio's layout, shape (m,).
            h: Length of the step [s].
        """
        count = self._reachable(self.bound, q, v, h)
        if count == 0:
            return contacts
        system, limits = self._system, self._system.limits
        j, upper = np.divmod(self._stops[:count], 2)
        rows = np.zeros((3 * count, system.n_velocities))
        rows[np.arange(count), system.n_unactuated + j] = np.where(upper, -1.0, 1.0)
        angle = q[system.joint_q[j]]
        stops = Contacts(
            identity=FIRST + self._stops[:count],
            point=np.zeros((count, 3)),
            axes=np.tile(np.eye(3), (count, 1, 1)),
            gap=np.where(upper, limits.upper[j] - angle, angle - limits.lower[j]),
            mu=np.zeros(count),
            jacobian=rows,
        )
        return concatenate((contacts, stops))
