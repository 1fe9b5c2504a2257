"""Contacts in stance of a control step: their selection, lifted corners of soles, and ramps of their loads.

`stance` selects contacts by the plan and by the measured motion of their feet. Corners of soles that lift are marked
(`mark_lifted`) until they land (`land_corners`). `as_rigid` replaces the corners of a sole by at most six rows, and
`ramp_weights` unloads feet before lift-off and loads them after touchdown.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numba import typeof, types

from idcontrol.contact.contacts import ContactArrays
from idcontrol.controllers.inputs import Inputs
from idcontrol.kernels.arena import Arena, flags, frames, indices, matrix, vector, zeros
from idcontrol.kernels.jit import njit
from idcontrol.kernels.lanes import dot
from idcontrol.kernels.linear import add, assign, assign_rows
from idcontrol.kernels.linked import late
from idcontrol.models.step import CLOSED_GAP
from idcontrol.models.whitened import Whitened
from idcontrol.solvers.basis import column_basis
from idcontrol.types import Array, Booleans, Integers

RAMP_WEIGHT: Final = 30.0
"""Weight on a foot's impulse at lift-off and touchdown, in units of the torque objective (planner.md, section 7)."""

SOLE_RANK: Final = 1e-7
"""Relative length below which a motion of a sole's corners counts as zero. It is needed since two corners do not
determine every twist."""

ROWS: Final = types.Tuple((typeof(np.empty((0, 0))), typeof(np.empty(0))))
"""Numba's type of rows and one number for each row."""

LIFT_M_S: Final = 2e-3
"""Speed above which a rising corner of a sole counts as lifted [m/s]. A lifted corner carries no force until it
lands."""

REST_M_S: Final = 1e-3
"""Speed below which a lifted corner counts as at rest [m/s]."""

LANDED_PERIODS: Final = 50
"""Number of control periods at rest after which a lifted corner stands."""

HOVER_M: Final = 1e-3
"""Gap [m] above which a foot that is planned to stand is a contact only while it is slower than `RESTING_M_S`."""

RESTING_M_S: Final = 0.2
"""Speed above which a foot that seems above the ground (`HOVER_M`) is no contact [m/s]. Sensors with a constant error
misplace a standing foot by millimetres but show it at rest. A late foot is still in the air and moves."""


class StanceRule(NamedTuple):
    """Rule for feet that are planned to stand; see `idcontrol.controllers.settings.InverseSettings`."""

    landing_s: float
    approach_speed_m_s: float
    slide_speed_m_s: float
    ramp_s: float


@njit(cache=True, inner=True, error_model="numpy")
def meets_ground(contacts: ContactArrays, i: int, v: Array, h: float, approach_speed_m_s: float) -> bool:
    """True if contact i approaches the ground faster than a resting foot, and closes its gap within a period.

    False for a foot that seems to be below the ground: it has already landed, or the estimated ground is too high.

    Args:
        contacts: All candidate contacts.
        i: Index of the contact.
        v: Velocity in the order of `System.order`, shape (m,).
        h: Control period [s].
        approach_speed_m_s: Speed below which a foot rests.
    """
    opening = -contacts.surface_velocity[i]
    for k in range(v.shape[0]):
        opening += contacts.jacobian[i, k] * v[k]
    gap = contacts.gap[i]
    meets: bool = opening < -approach_speed_m_s and gap >= -CLOSED_GAP and gap + h * opening < 0.0
    return meets


@late(lambda *_: types.none)
@njit(cache=True, error_model="numpy")
def land_corners(
    lifted: Integers, patch: Integers, stands: Booleans, contacts: ContactArrays, v: Array, h: float
) -> None:
    """Clear the marks of lifted corners that have landed, once in a control step, before its problem is assembled.

    A corner has landed if it is as low as the lowest corner of its sole or as the ground, or will be at the end of this
    period. A corner that rests for `LANDED_PERIODS` while seeming higher has landed, too: the estimated tilt of the
    sole must be wrong. The marks of a foot that is planned to swing are cleared.

    Args:
        lifted: Marks of all corners, updated.
        patch: Foot of each corner.
        stands: True for corners of feet that are planned to stand.
        contacts: All candidate contacts.
        v: Velocity in the order of `System.order`, shape (m,).
        h: Control period [s].
    """
    gap = contacts.gap
    for corner in range(lifted.shape[0]):
        if not stands[corner]:
            lifted[corner] = 0
    for i in range(gap.shape[0]):
        corner, lowest = contacts.identity[i], i
        if lifted[corner] == 0:
            continue
        for k in range(gap.shape[0]):
            if patch[contacts.identity[k]] == patch[corner] and gap[k] < gap[lowest]:
                lowest = k
        opening = dot(contacts.jacobian[i], v) - contacts.surface_velocity[i]
        height = min(gap[i] - gap[lowest], gap[i])
        rests = lifted[corner] + 1 if abs(opening) < REST_M_S else 1
        lands = height < CLOSED_GAP or height + h * opening < 0.0 or rests > LANDED_PERIODS
        lifted[corner] = 0 if lands else rests


@late(lambda *_: types.none)
@njit(cache=True, error_model="numpy")
def mark_lifted(lifted: Integers, identity: Integers, w: Whitened, target: Array, f: Array, arena: Arena) -> None:
    """Mark corners of soles that leave the ground under the impulses f (3 n,) [N s].

    Args:
        lifted: Marks of all corners, updated.
        identity: Corners of the n contacts.
        w: The whitened problem of the contacts, with constants relative to `target`.
        target: Target velocities of the contacts, shape (3 n,) [m/s].
        f: The impulses.
        arena: Arena for all arrays.
    """
    base = vector(arena, w.rho.shape[1])
    np.dot(f, w.rho, base)
    for i in range(identity.shape[0]):
        if f[i] <= 0.0 and dot(w.rho[i], base) + w.c[i] + target[i] > LIFT_M_S:
            lifted[identity[i]] = 1


@njit(cache=True, inner=True, forceinline=True, error_model="numpy")
def stance(
    contacts: ContactArrays,
    v: Array,
    inputs: Inputs,
    rule: StanceRule,
    lifted: Integers,
    arena: Arena,
) -> Integers:
    """Return the indices of contacts in stance, whose feet are planned to stand, are not landing, and rest.

    A foot with a gap below `HOVER_M` counts as resting, even if it moves. Lifted corners of soles are not in stance.

    Args:
        contacts: All candidate contacts; identities are numbers of feet, or of corners of soles.
        v: Velocity in the order of `System.order`, shape (m,).
        inputs: Planned stance of each foot, and the time since its touchdown.
        rule: Rule for landing feet.
        lifted: Indexed by identity, 0 for a corner that stands; empty without soles.
        arena: Arena for all arrays.
    """
    total = contacts.identity.shape[0]
    which: Integers = indices(arena, total)
    w, n = vector(arena, 3), 0
    for i in range(total):
        foot = contacts.identity[i]
        if not inputs.stance[foot]:
            continue
        if lifted.shape[0] > 0 and lifted[foot] > 0:
            continue
        lands, far = inputs.since_touchdown[foot] < rule.landing_s, contacts.gap[i] > HOVER_M
        if lands or far:
            for axis in range(3):
                w[axis] = -contacts.surface_velocity[axis * total + i]
                for k in range(v.shape[0]):
                    w[axis] += contacts.jacobian[axis * total + i, k] * v[k]
            slide = w[1] * w[1] + w[2] * w[2]
            if lands and contacts.gap[i] > 0.0 and w[0] < -rule.approach_speed_m_s:
                continue
            if lands and slide > rule.slide_speed_m_s * rule.slide_speed_m_s:
                continue
            if far and w[0] * w[0] + slide > RESTING_M_S * RESTING_M_S:
                continue
        which[n] = i
        n += 1
    return which[:n]


@late(lambda *_: ROWS)
@njit(cache=True, inner=True, error_model="numpy")
def as_rigid(contacts: ContactArrays, patch: Integers, u: int, target: Array, arena: Arena) -> tuple[Array, Array]:
    """Replace the target velocities of the corners of each sole by the closest velocities of a rigid body.

    The base's columns of the contact rows are the corner velocities of a robot that moves as one rigid body.

    Args:
        contacts: The n contacts.
        patch: Foot of each contact, indexed by the identity of the contact.
        u: Number of unactuated velocities; below six no sole moves freely, and nothing changes.
        target: In and out, shape (3 n,) [m/s].
        arena: Arena for all arrays.

    Returns:
        Equivalent rows, shape (r, m), and targets, shape (r,): at most six rows for the twist of each sole.
    """
    n, m, r = contacts.identity.shape[0], contacts.jacobian.shape[1], 0
    done, corners, rows = flags(arena, n), indices(arena, n), indices(arena, 3 * n)
    J, goal = matrix(arena, 3 * n, m), vector(arena, 3 * n)
    if u < 6:
        return contacts.jacobian, target
    done[:], J[:] = False, 0.0
    for first in range(n):
        if done[first]:
            continue
        count = 0
        for i in range(first, n):
            if patch[contacts.identity[i]] == patch[contacts.identity[first]]:
                corners[count], done[i] = i, True
                count += 1
        # columns: the corners' velocities for each motion of the base
        columns, unused, longest = matrix(arena, 3 * count, 6), zeros(arena, 6), 0.0
        old, squares = vector(arena, 3 * count), zeros(arena, 6)
        for k in range(3 * count):
            rows[k] = (k % 3) * n + corners[k // 3]
            old[k] = target[rows[k]]
            for d in range(6):
                columns[k, d] = contacts.jacobian[rows[k], d]
                squares[d] += columns[k, d] * columns[k, d]
        if count == 1:
            for k in range(3):
                assign(J[r], contacts.jacobian[rows[k]])
                goal[r] = old[k]
                r += 1
            continue
        for d in range(6):
            longest = max(longest, squares[d])
        basis, _ = column_basis(columns, unused, SOLE_RANK * np.sqrt(longest), arena)
        for k in range(3 * count):
            target[rows[k]] = 0.0
        for d in range(basis.shape[0]):
            goal[r] = dot(basis[d], old)
            for k in range(3 * count):
                target[rows[k]] += goal[r] * basis[d, k]
                add(J[r], basis[d, k], contacts.jacobian[rows[k]])
            r += 1
    return J[:r], goal[:r]


@njit(cache=True, inner=True, forceinline=True, error_model="numpy")
def take(contacts: ContactArrays, which: Integers, arena: Arena) -> ContactArrays:
    """Return the contacts at the indices `which`, as copies."""
    total, n, m = contacts.identity.shape[0], which.shape[0], contacts.jacobian.shape[1]
    identity, axes = indices(arena, n), frames(arena, n)
    gap, mu, J = vector(arena, n), vector(arena, n), matrix(arena, 3 * n, m)
    surface, drift = vector(arena, 3 * n), vector(arena, 3 * n)
    for i in range(n):
        place = which[i]
        identity[i], gap[i], mu[i] = contacts.identity[place], contacts.gap[place], contacts.mu[place]
        assign_rows(axes[i], contacts.axes[place])
        for axis in range(3):
            surface[axis * n + i] = contacts.surface_velocity[axis * total + place]
            drift[axis * n + i] = contacts.drift[axis * total + place]
            assign(J[axis * n + i], contacts.jacobian[axis * total + place])
    return ContactArrays(identity, axes, gap, mu, surface, J, drift)


@njit(cache=True, inner=True, forceinline=True, error_model="numpy")
def ramp_weights(identity: Integers, patch: Integers, inputs: Inputs, ramp_s: float, arena: Arena) -> Array:
    """Return weights on the impulses of feet close to lift-off or touchdown, shape (n,) (planner.md, section 7).

    The weight is ``k RAMP_WEIGHT (1 - t / ramp_s)³``, with t the shorter of the times to lift-off and since touchdown
    [s], and k the number of contacts of the same foot. It is zero if t exceeds `ramp_s`, or `ramp_s` is 0.

    Args:
        identity: The n contacts.
        patch: Foot of each contact, indexed by the identity of the contact; empty if each contact is a foot.
        inputs: Provides the times.
        ramp_s: Length of a ramp [s].
        arena: Arena for all arrays.
    """
    n = identity.shape[0]
    out: Array = zeros(arena, n)
    if ramp_s > 0.0:
        for i in range(n):
            t = min(inputs.to_liftoff[identity[i]], inputs.since_touchdown[identity[i]])
            share = min(max(1.0 - t / ramp_s, 0.0), 1.0)
            out[i] = RAMP_WEIGHT * share * share * share
            # k corners that share a load equally cost 1/k of a single contact with this load; the factor k makes the
            # costs equal
            corners = 1 if patch.shape[0] == 0 else 0
            for k in range(n if patch.shape[0] > 0 else 0):
                corners += patch[identity[k]] == patch[identity[i]]
            out[i] *= corners
    return out
