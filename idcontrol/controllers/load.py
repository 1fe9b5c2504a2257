"""Estimation of an unmodelled force on a floating base, such as a payload, a leash, or the effect of a tilted sensor.

The predicted forces f of the last period explain only a part of the base's motion. In every period, a fraction of the
unexplained force updates the load w,

    w ← w + Δt/T ((M (v - v_last)/Δt + c - Jᵀf_last)_base - w),

and the next step adds w, reduced by the dead band `UNMODELLED`, to the forces on the base. This is the observer of
external forces of De Luca, Albu-Schäffer, Haddadin and Hirzinger (2006) on the linear rows of the base. Their observer
integrates the momentum; this one takes differences of velocities. With the load estimate, a robot does not sag under a
payload, and its predicted foot forces include the payload.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from idcontrol.contact.contacts import AnyContacts, ContactArrays
from idcontrol.controllers.step import MachineTerms, usable
from idcontrol.kernels.bound import Bound, borrow
from idcontrol.kernels.jit import njit
from idcontrol.types import Array, Integers

LEARNT_S: Final = 0.2
"""Time constant T of the estimate [s], far longer than a landing or a delay."""

UNMODELLED: Final = 0.02
"""Dead band of the compensation, as a fraction of the weight. It equals the prediction error at touchdown and lift-off.
Without an unmodelled load, torques are bitwise unchanged."""


class Load(NamedTuple):
    """The estimated load, and the memory of the last step.

    Attributes:
        t: Time of the last step, shape (1,) [s].
        v: Velocity at the beginning of the last step, in the system's order, shape (m,).
        contacts: Number of contacts with predicted forces, shape (1,).
        force: The estimated load w, axes of the base, shape (3,) [N].
    """

    t: Array
    v: Array
    contacts: Integers
    force: Array

    @staticmethod
    def unknown(m: int) -> Load:
        """Return the initial memory of a robot with `m` velocities."""
        return Load(t=np.full(1, -np.inf), v=np.zeros(m), contacts=np.zeros(1, dtype=np.int64), force=np.zeros(3))

    def forget(self) -> None:
        """Reset to the initial memory."""
        for mine, fresh in zip(self, Load.unknown(self.v.size), strict=True):
            mine[:] = fresh


@njit(cache=True, inner=True, error_model="numpy")
def weight(terms: MachineTerms) -> float:
    """Return the approximate weight that contacts carry [N], from the linear rows of the floating base in the bias."""
    square = 0.0
    for k in range(min(3, terms.free.shape[0])):
        square += terms.bias[k] ** 2
    return float(np.sqrt(square))


@njit(cache=True, error_model="numpy")
def weigh(bound: Bound, seen: Bound, candidates: AnyContacts, t: float) -> None:
    """Update the load with the motion of the last period, and include it in the bias of the new step (`UNMODELLED`).

    Touchdown and flight periods are ignored: the control step does not predict impacts, and a hoist may carry a robot
    in the air. Each update is clamped to the robot's weight, so that a blow is not mistaken for a load.

    Args:
        bound: The `Machine` with the terms and inputs of the new step, and the forces of the last step; the linear rows
            of the base in ``terms.bias`` are updated.
        seen: `Load`, updated.
        candidates: Contacts of the new step.
        t: Time of the new step [s]; NaN to skip the update.
    """
    machine, memory, contacts = bound.borrowed, seen.borrowed, ContactArrays(*borrow(candidates))
    terms, inputs, force = machine.terms, machine.inputs, machine.result.force
    order, last, n = terms.order, memory.contacts[0], contacts.identity.shape[0]
    m, dt = order.shape[0], t - memory.t[0]
    learns = last > 0 and 0.0 < dt < 1.5 * machine.h and usable(contacts, inputs.stance.shape[0], m)
    for foot in range(inputs.stance.shape[0]):
        learns = learns and not (inputs.stance[foot] and inputs.since_touchdown[foot] < machine.rule.landing_s)
    most = weight(terms)
    if learns:
        for k in range(3):
            missing = terms.bias[k] - memory.force[k]
            for j in range(m):
                missing += terms.M[k, j] * (inputs.v[order[j]] - memory.v[j]) / dt
            for c in range(last):
                for i in range(n):
                    if contacts.identity[i] == machine.result.identity[c]:
                        for axis in range(3):
                            for d in range(3):
                                share = contacts.jacobian[axis * n + i, k] * contacts.axes[i, axis, d]
                                missing -= share * force[c, d]
            if np.isfinite(missing):  # Δt may be close to zero
                memory.force[k] += dt / LEARNT_S * min(max(missing, -most), most)
    if t == t:
        memory.t[0] = t
        for j in range(m):
            memory.v[j] = inputs.v[order[j]]
    size = np.sqrt(memory.force[0] ** 2 + memory.force[1] ** 2 + memory.force[2] ** 2)
    if size > UNMODELLED * most:
        for k in range(3):
            terms.bias[k] -= (1.0 - UNMODELLED * most / size) * memory.force[k]
