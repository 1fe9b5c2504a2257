"""Estimated unmodelled force on a floating base: a payload, a leash, a tilted sensor.

The predicted forces of the last period do not explain all of the base's motion. In every period, a share of the
difference is added to the load w,

    w ← w + Δt/T ((M (v - v_last)/Δt + c - Jᵀf_last)_base - w),

and the next step adds w to the forces on the base, less a dead band of `UNMODELLED`. This is the observer of external
forces of De Luca, Albu-Schäffer, Haddadin and Hirzinger (2006) on the linear rows of the base; it integrates the
momentum instead of differentiating. With it a robot does not sag under a payload, and predicts the load on its feet.
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
"""Time constant T of learning a load [s]: several stances of a trot, far longer than a landing or a delay."""

UNMODELLED: Final = 0.02
"""Dead band of the compensation, as a part of the weight: as large as the prediction error at touchdown and lift-off.
Torques of a robot without an unmodelled load stay unchanged to the bit."""


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
    """Return the approximate weight on contacts [N], from the linear rows of the floating base's bias."""
    square = 0.0
    for k in range(min(3, terms.free.shape[0])):
        square += terms.bias[k] ** 2
    return float(np.sqrt(square))


@njit(cache=True, error_model="numpy")
def weigh(bound: Bound, seen: Bound, candidates: AnyContacts, t: float) -> None:
    """Process the motion of the last period, and add the load to the bias of the new step.

    Touchdown and flight periods are ignored: no step predicts the impulse of an impact, and a hoist may carry a robot
    in the air. Each update is limited to the robot's weight, so that a blow is not taken for a load.

    Args:
        bound: The `Machine` with the terms and inputs of the new step, and the forces of the last step; the linear rows
            of the base in ``terms.bias`` are updated.
        seen: `Load`, updated.
        candidates: Contacts of the new step.
        t: Time of the new step [s]; NaN to learn nothing.
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
