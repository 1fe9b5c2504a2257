"""Estimation of friction below the nominal value, from sliding feet.

A sliding foot shows the friction of the ground: the ratio of its tangential to its normal force is μ. No force sensor
is needed. The forces f follow from the motion of the robot between two periods: the rows of the joints in ``M (v -
v_last)/Δt + c - Pᵀτ_last = Jᵀ f`` determine f. Legs are light, so an unmodelled load on the base hardly affects these
rows. If each leg has three or more joints, f is unique. The rows of the base serve as a check. If f does not explain
the motion of the base, torques were late or something pushes the robot, and the estimate is not updated.

Friction above the nominal value is not detected: a robot also stands if its controller assumes too little friction.
While no foot slides, friction below the nominal value is not detected either.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numba import types

from idcontrol.contact.contacts import AnyContacts, ContactArrays
from idcontrol.controllers.load import weight
from idcontrol.controllers.step import Machine, usable
from idcontrol.kernels.bound import Bound, borrow
from idcontrol.kernels.jit import njit
from idcontrol.kernels.linear import cholesky, solve_lower, solve_lower_transposed
from idcontrol.kernels.linked import late, linked
from idcontrol.types import Array

MOST_FEET: Final = 16
"""Largest number of feet whose slip is observed; while a further foot is a candidate contact, nothing is estimated."""
SLIDES_M_S: Final = 0.03
"""Slip above which a foot counts as sliding [m/s]. Both its present slip and its average over `FADES_S` must exceed
this speed; feet that creep on soft ground are slower."""
FADES_S: Final = 0.01
"""Time constant of the filters of slip and forces [s]: ten periods of 1 ms, to suppress the noise of velocities."""
ENOUGH_S: Final = 0.004
"""Time for which sliding feet must carry the whole robot before their forces are used [s]. Feet that carry a part of
the weight must slide for longer. A scraping foot carries too little to show friction."""
UNEXPLAINED: Final = 0.2
"""Largest accepted imbalance of the base, as a share of the feet's load; torques 5 ms late exceed it."""
COUNTED: Final = 0.8
"""Ratio of assumed to measured friction (planner.md, section 7). It allows for the difference between friction pyramids
and circles, which is more than a tenth. It applies from the first slip with less than the nominal friction until the
assumed friction has grown back to the nominal value.
"""
REGAINED_S: Final = 20.0
"""Time constant of the recovery of the assumed friction [s]: between measurements it grows e-fold in this time, up to
the nominal value."""
SINGULAR: Final = 1e-9
"""Relative regularization of the equations for the forces, which are singular for a stretched leg."""


class Friction(NamedTuple):
    """Memory of the friction estimator.

    Attributes:
        t: Time of the last step, shape (1,) [s].
        v: Velocity at the beginning of the last step, in the system's order, shape (m,).
        slip: Velocity of each foot relative to its surface, along the two tangents, smoothed, shape (`MOST_FEET`, 2)
            [m/s].
        impulse: Low-pass filtered impulses on sliding feet, normal and tangential, shape (2,) [N s].
        balance: Low-pass filtered impulses, shape (4,) [N s]: first the normal impulse on all feet, then the impulse on
            the base (base axes) that the forces on the feet do not explain.
        mu: Measured friction of the ground, shape (1,). It grows slowly in periods without a usable measurement. It is
            inf before a foot shows less than the nominal friction, and once `COUNTED` times mu has grown to the nominal
            friction.
    """

    t: Array
    v: Array
    slip: Array
    impulse: Array
    balance: Array
    mu: Array

    @staticmethod
    def unknown(m: int) -> Friction:
        """Return the initial memory of a robot with `m` velocities."""
        return Friction(
            t=np.full(1, -np.inf),
            v=np.zeros(m),
            slip=np.zeros((MOST_FEET, 2)),
            impulse=np.zeros(2),
            balance=np.zeros(4),
            mu=np.full(1, np.inf),
        )

    def forget(self) -> None:
        """Reset to the initial memory."""
        for mine, fresh in zip(self, Friction.unknown(self.v.size), strict=True):
            mine[:] = fresh


@linked
@njit(cache=True, error_model="numpy")
def watch(bound: Bound, seen: Bound, candidates: AnyContacts, t: float) -> float:
    """Update the estimate with the motion of the last period; return an upper bound on the friction to assume.

    The bound is inf if friction below the nominal value is not known.

    Args:
        bound: The `Machine` with the terms and inputs of the new step, and the torques of the last step.
        seen: `Friction`, updated.
        candidates: Contacts of the new step.
        t: Time of the new step [s].
    """
    machine, memory, contacts = bound.borrowed, seen.borrowed, ContactArrays(*borrow(candidates))
    order, inputs = machine.terms.order, machine.inputs
    m, n, dt = order.shape[0], contacts.identity.shape[0], t - memory.t[0]
    sliding, nominal = 0, np.inf
    if 0.0 < dt < 1.5 * machine.h and usable(contacts, min(inputs.stance.shape[0], MOST_FEET), m):
        kept = FADES_S / (FADES_S + dt)
        _fade(memory, kept)
        for i in range(n):
            foot, now, smooth = contacts.identity[i], 0.0, 0.0
            nominal = min(nominal, contacts.mu[i])
            if not inputs.stance[foot] or inputs.since_touchdown[foot] < machine.rule.landing_s:
                memory.slip[foot, 0] = memory.slip[foot, 1] = 0.0
                continue
            for axis in range(2):
                row = (axis + 1) * n + i
                speed = -contacts.surface_velocity[row]
                for k in range(m):
                    speed += contacts.jacobian[row, k] * inputs.v[order[k]]
                slip = speed + kept * (memory.slip[foot, axis] - speed)
                memory.slip[foot, axis] = slip
                now += speed * speed
                smooth += slip * slip
            if min(now, smooth) > SLIDES_M_S * SLIDES_M_S:
                sliding |= 1 << foot
        if sliding:
            _add_impulses(machine, contacts, dt, sliding, memory)
    else:
        _fade(memory, 0.0)
    memory.t[0] = t
    for k in range(m):
        memory.v[k] = inputs.v[order[k]]

    normal, tangential = memory.impulse
    missing = np.sqrt(memory.balance[1] ** 2 + memory.balance[2] ** 2 + memory.balance[3] ** 2)
    known = nominal < np.inf and missing < UNEXPLAINED * memory.balance[0]
    if sliding and known and normal > ENOUGH_S * weight(machine.terms):
        if tangential < nominal * normal or memory.mu[0] < np.inf:
            memory.mu[0] = tangential / normal
    elif dt < np.inf:
        memory.mu[0] *= 1.0 + max(dt, 0.0) / REGAINED_S
    if COUNTED * memory.mu[0] >= nominal:
        memory.mu[0] = np.inf
    return float(COUNTED * memory.mu[0])


@njit(cache=True, inner=True, error_model="numpy")
def _fade(memory: Friction, kept: float) -> None:
    """Multiply all filtered impulses by the factor `kept`."""
    for axis in range(2):
        memory.impulse[axis] *= kept
    for axis in range(4):
        memory.balance[axis] *= kept


@late(lambda *_: types.none)
@njit(cache=True, inner=True, error_model="numpy")
def _add_impulses(machine: Machine, contacts: ContactArrays, dt: float, sliding: int, memory: Friction) -> None:
    """Add the last period's impulses on the feet in the bit set `sliding` to the memory; update `Friction.balance`."""
    terms, v, tau = machine.terms, machine.inputs.v, machine.result.tau
    m, u, n = terms.M.shape[0], terms.free.shape[0], contacts.identity.shape[0]
    pull = np.empty(m)
    for j in range(m):
        pull[j] = terms.bias[j] - (tau[j - u] if j >= u else 0.0)
        for k in range(m):
            pull[j] += terms.M[j, k] * (v[terms.order[k]] - memory.v[k]) / dt
    J = np.ascontiguousarray(contacts.jacobian[:, u:])
    A, L, f = J @ J.T, np.zeros((3 * n, 3 * n)), J @ pull[u:]
    size = np.trace(A)
    for k in range(3 * n):
        A[k, k] += SINGULAR * size
    if not cholesky(A, L):
        return
    solve_lower(L, f)
    solve_lower_transposed(L, f)
    if not np.isfinite(np.sum(f) + np.sum(pull)):  # the last torque is unknown, or Δt is close to zero
        return
    for i in range(n):
        memory.balance[0] += dt * max(f[i], 0.0)
        if (sliding >> contacts.identity[i]) & 1 and f[i] > 0.0:
            x, y = abs(f[n + i]), abs(f[2 * n + i])
            memory.impulse[0] += dt * f[i]
            memory.impulse[1] += dt * 0.5 * (np.hypot(x, y) + x + y)
    for k in range(min(3, u)):
        for row in range(3 * n):
            pull[k] -= contacts.jacobian[row, k] * f[row]
        memory.balance[1 + k] += dt * pull[k]
