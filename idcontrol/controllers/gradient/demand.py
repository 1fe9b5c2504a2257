"""Derivatives of the first stages of a control step: demand, targets of contacts, projection, momentum, bounds.

Derivatives have one column for each of the P variables (`idcontrol.controllers.gradient.equations.Columns`).
"""

from __future__ import annotations

import numpy as np

from idcontrol.controllers.feedback import NEARING, TURNS_RAD_S, nearing
from idcontrol.controllers.gradient.equations import (
    RANK,
    column_length,
    errors,
    pseudo_inverse,
    rows_times,
    rows_transposed,
)
from idcontrol.controllers.gradient.site import NO_ERRORS, square_slopes
from idcontrol.controllers.load import UNMODELLED
from idcontrol.controllers.stance import SOLE_RANK
from idcontrol.controllers.step import internal_share, joint_error
from idcontrol.dynamics.derivatives import force_slopes, inertia_times, turning
from idcontrol.kernels.bound import Bound
from idcontrol.kernels.jit import njit
from idcontrol.types import Array, Integers


@njit(cache=True, inner=True, error_model="numpy")
def demand(bound: Bound, visited: Bound) -> tuple[Array, Array, Array, float]:
    """Return the desired joint velocities before their projection, and their derivatives.

    The derivatives are by variables, shape (a, P), and by q, v, a, kp and kd of each joint's reference, shape (5, a).
    The last result is the smallest change of a velocity at which a joint's stop begins or ceases to limit it [rad/s].
    """
    machine, site = bound.borrowed, visited.borrowed
    joints, inputs, h, at = machine.joints, machine.inputs, machine.h, site.at
    a, u = joints.kp.shape[0], machine.terms.free.shape[0]
    b, slope, own, room = np.zeros(a), np.zeros((a, at.total)), np.zeros((5, a)), np.inf
    for j in range(a):
        angle, error = joint_error(machine.terms, inputs, j)
        kp, kd, slower = joints.kp[j], joints.kd[j], inputs.joint_v[j] - site.v[u + j]
        b[j] = site.v[u + j] + h * (inputs.joint_a[j] + kp * error + kd * slower)
        lowest, highest = nearing(angle, joints.room.lower[j], h), nearing(angle, joints.room.upper[j], h)
        room = min(room, min(abs(b[j] - lowest), abs(highest - b[j])))
        if lowest <= b[j] <= highest:
            slope[j, at.q + u + j], slope[j, at.v + u + j] = -h * kp, 1.0 - h * kd
            own[0, j], own[1, j], own[2, j], own[3, j], own[4, j] = h * kp, h * kd, h, h * error, h * slower
        else:
            b[j] = min(max(b[j], lowest), highest)
            slope[j, at.q + u + j] = -NEARING / h
        slope[j, at.demand + j] = 1.0
    return b, slope, own, room


@njit(cache=True, inner=True, error_model="numpy")
def target(bound: Bound, visited: Bound) -> tuple[Array, float]:
    """Return the derivative of the target velocities of the contacts (`landing_contacts`), shape (3 n, P).

    The second result is the smallest change of a contact's velocity, or of the speed at which its gap closes, at which
    this derivative jumps [m/s].
    """
    machine, site = bound.borrowed, visited.borrowed
    contacts, rows, landing, h, at = site.contacts, site.rows, machine.landing, machine.h, site.at
    n, m, room = contacts.identity.shape[0], site.v.shape[0], np.inf
    surface = surface_slope(contacts.axes, rows.axes, contacts.surface_velocity)
    w = contacts.jacobian @ site.v - contacts.surface_velocity - h * contacts.drift
    slope, landed = rows_times(site.terms, site.v), contacts.surface_velocity.copy()
    for r in range(3 * n):
        for k in range(surface.shape[1]):
            slope[r, at.q + k] -= h * rows.drift_q[r, k] + surface[r, k]
        for k in range(m):
            slope[r, at.v + k] += contacts.jacobian[r, k] - h * rows.drift_v[r, k]
    for i in range(n):
        settles = machine.inputs.since_touchdown[contacts.identity[i]] <= landing.settle_s
        slip = np.hypot(w[n + i], w[2 * n + i])
        decay = landing.decay if settles or slip > landing.slip_m_s else 0.0
        if not settles and landing.decay > 0.0:
            room = min(room, abs(slip - landing.slip_m_s))
        for r in (i, n + i, 2 * n + i):
            slope[r] *= decay
            landed[r] += decay * w[r]
            for k in range(surface.shape[1]):
                slope[r, at.q + k] += surface[r, k]
        closing = -contacts.gap[i] / landing.closing_s
        landed[i] += (1.0 - decay) * min(max(closing, -landing.sink_m_s), landing.rise_m_s)
        room = min(room, min(abs(closing + landing.sink_m_s), abs(closing - landing.rise_m_s)))
        if -landing.sink_m_s < closing < landing.rise_m_s:
            for k in range(surface.shape[1]):
                slope[i, at.q + k] += (decay - 1.0) / landing.closing_s * rows.gap[i, k]
    if machine.patch.shape[0] > 0 and machine.terms.free.shape[0] >= 6:
        _make_rigid(visited, machine.patch[contacts.identity], landed, slope)
    return slope, room


@njit(cache=True, error_model="numpy")
def surface_slope(axes: Array, slope: Array, velocity: Array) -> Array:
    """Return the derivative of surface velocities along the contacts' axes, shape (3 n, w).

    Args:
        axes: Axes of the contacts, shape (n, 3, 3).
        slope: Derivative of the axes, shape (n, 3, 3, w).
        velocity: The velocities, shape (3 n,) [m/s].
    """
    n = axes.shape[0]
    out = np.zeros((3 * n, slope.shape[3]))
    if not velocity.any():
        return out
    for i in range(n):
        for x in range(3):
            along = 0.0
            for axis in range(3):
                along += axes[i, axis, x] * velocity[axis * n + i]
            for axis in range(3):
                out[axis * n + i] += along * slope[i, axis, x]
    return out


@njit(cache=True, inner=True, error_model="numpy")
def _make_rigid(visited: Bound, feet: Integers, raw: Array, slope: Array) -> None:
    """Project the derivative of targets `raw` (3 n,) onto velocities of rigid soles (`as_rigid`).

    `feet` has the sole of each contact. The projection Π onto the range of C, the base's columns of a sole's rows,
    changes by ``(1 - Π) dC C⁺`` and its transpose (Golub & Pereyra 1973, eq. 4.12).
    """
    site = visited.borrowed
    n, m = feet.shape[0], site.at.v
    for first in range(n):
        corners = np.flatnonzero(feet == feet[first])
        if corners[0] < first or corners.shape[0] == 1:
            continue
        rows = np.concatenate((corners, n + corners, 2 * n + corners))
        C, dC, dC_T = site.terms.J[rows, :6].copy(), np.zeros((rows.shape[0], m)), np.zeros((6, m))
        size = 0.0
        for k in range(6):
            size = max(size, np.sqrt((C[:, k] ** 2).sum()))
        inverse, _ = pseudo_inverse(C, SOLE_RANK * size)
        twist = inverse @ raw[rows]
        rest = raw[rows] - C @ twist
        for r in range(rows.shape[0]):
            for k in range(6):
                dC[r] += twist[k] * site.terms.slopes[rows[r], k]
                dC_T[k] += rest[r] * site.terms.slopes[rows[r], k]
        dC -= C @ (inverse @ dC)
        dC += np.ascontiguousarray(inverse.T) @ dC_T
        projected = C @ (inverse @ slope[rows])
        for r in range(rows.shape[0]):
            slope[rows[r]] = projected[r]
            for k in range(m):
                slope[rows[r], site.at.q + k] += dC[r, k]


@njit(cache=True, inner=True, error_model="numpy")
def projection(
    bound: Bound, visited: Bound, joints: Bound, b: Array, slope: Array, d: Array
) -> tuple[Array, Array, Array]:
    """Return the derivative of the projected joint velocities, shape (a, P), and errors of its equations (`errors`).

    The third result is the change of the joint velocities by the projection, shape (a,). If the controller does not
    project, or there is no contact, the derivative is `slope`, and the third result is empty.

    Args:
        bound: The `Machine`.
        visited: The `Site`.
        joints: The step with all joints tracked.
        b: Joint velocities before the projection.
        slope: Derivative of b.
        d: Derivative of the target velocities.
    """
    machine, site, step = bound.borrowed, visited.borrowed, joints.borrowed
    terms, m = site.terms, site.v.shape[0]
    u = m - b.shape[0]
    if not machine.projects or terms.J.shape[0] == 0:
        return slope, NO_ERRORS.copy(), np.zeros(0)
    J_base, J, away = np.ascontiguousarray(terms.J[:, :u].T), terms.J[:, u:].copy(), step.b - b
    L = np.linalg.cholesky(terms.M[u:, u:].copy())
    unwhiten = np.ascontiguousarray(np.linalg.solve(L, np.eye(m - u)).T)
    # the base moves as it likes: only rows of J across its columns constrain the joints
    lifts, across = pseudo_inverse(J_base, RANK * column_length(J_base))
    rows = np.ascontiguousarray(across.T) @ J
    held = rows @ unwhiten
    inverse, _ = pseudo_inverse(held, RANK * column_length(held))
    v, moved, pulled = np.zeros(m), np.zeros(m), -(np.ascontiguousarray(L.T) @ away)
    v[:u], v[u:], moved[u:] = np.ascontiguousarray(lifts.T) @ (step.target - J @ step.b), step.b, away
    shares = np.ascontiguousarray(inverse.T) @ pulled
    turned = rows_transposed(terms, across @ shares)[:, : site.at.v].copy()
    pull = turned[u:] - np.ascontiguousarray(J.T) @ (lifts @ turned[:u])
    pull[:, :m] += inertia_times(site.motion.tree, moved)[u:]
    out, e = slope.copy(), d - rows_times(terms, v)
    inertia = unwhiten @ np.ascontiguousarray(unwhiten.T)
    out[:, : site.at.v] -= inertia @ pull
    if site.at.unit > site.at.turn:
        out[:, site.at.turn : site.at.unit] -= inertia
    needed = np.ascontiguousarray(across.T) @ e
    out += (unwhiten @ inverse) @ (needed - rows @ out)
    wrong = 0.0
    if np.abs(away).max() > 1e-6 * np.abs(b).max():
        wrong = np.abs(np.ascontiguousarray(held.T) @ shares - pulled).max() / np.abs(pulled).max()
    return out, np.maximum(errors(terms.ends, rows @ out - needed, e), wrong), away


@njit(cache=True, inner=True, error_model="numpy")
def _force(bound: Bound, visited: Bound, a: Array) -> tuple[Array, Array]:
    """Return the derivatives of ``M a + c`` by q and v at constant acceleration a (m,), shapes (m, m)."""
    at, tree, M = bound.borrowed.tasks.placement, visited.borrowed.motion.tree, visited.borrowed.terms.M
    acceleration = at.motion.drift.copy()
    for j in range(1, acceleration.shape[0]):
        for y in range(6):
            for k in range(a.shape[0]):
                if tree.support[j, k]:
                    acceleration[j, y] += tree.J[y, k] * a[k]
    for y in range(3):
        acceleration[:, y] -= at.gravity[y]
    by_q, by_v = force_slopes(tree, at.motion.velocity, acceleration)
    return by_q, by_v - M @ turning(visited.borrowed.flyers, visited.borrowed.v)[1]


@njit(cache=True, inner=True, error_model="numpy")
def momentum(bound: Bound, visited: Bound, a: Array) -> Array:
    """Return the derivative of ``M v⁺ + κ`` at constant v⁺ (m,), shape (m, P); a is (v⁺ - v) / h."""
    machine, site, load = bound.borrowed, visited.borrowed, visited.borrowed.loads.base
    h, at, m = machine.h, site.at, site.v.shape[0]
    out, (by_q, by_v) = np.zeros((m, at.total)), _force(bound, visited, a)
    out[:, at.q : at.q + m], out[:, at.v : at.v + m] = h * by_q, h * by_v - site.terms.M
    for k in range(at.turn - at.load):
        out[k, at.load + k] = -h
    size = np.linalg.norm(load)
    if not size > 0.0:
        return out
    # undo the compensation to get the weight that scales its dead band (`idcontrol.controllers.load.weigh`)
    pull = bias_without_load(site.bias[:3], load)
    weight = np.linalg.norm(pull)
    if size > UNMODELLED * weight:
        bias_q, bias_v = _force(bound, visited, np.zeros(m))
        share = h * UNMODELLED / size
        out[:3, at.q : at.q + m] += share * np.outer(load, pull / weight @ bias_q[:3])
        out[:3, at.v : at.v + m] += share * np.outer(load, pull / weight @ bias_v[:3])
    return out


@njit(cache=True, inner=True, error_model="numpy")
def friction_slope(bound: Bound, visited: Bound) -> Array:
    """Return the derivative of the friction torques by the reference velocities, shape (a,); empty without motors."""
    loads, v = visited.borrowed.loads, bound.borrowed.inputs.joint_v
    out = loads.damping.copy()
    for j in range(out.shape[0]):
        out[j] += loads.dry[j] / np.cosh(v[j] / TURNS_RAD_S) ** 2 / TURNS_RAD_S
    return out


@njit(cache=True, inner=True, error_model="numpy")
def bias_without_load(pull: Array, load: Array) -> Array:
    """Return the base's linear rows of the bias, `pull` (3,) [N], as they were before the load was included."""
    # pull = p - (1 - k |p|) load, solved for |p| by iteration: k |p| changes p by a few percent
    size, weight = float(np.linalg.norm(load)), float(np.linalg.norm(pull + load))
    for _ in range(60):
        weight = float(np.linalg.norm(pull + max(1.0 - UNMODELLED * weight / size, 0.0) * load))
    return pull + max(1.0 - UNMODELLED * weight / size, 0.0) * load


@njit(cache=True, inner=True, error_model="numpy")
def bound_slope(bound: Bound, visited: Bound, held: Bound) -> tuple[Array, Array]:
    """Return the derivatives of the smallest and the largest allowed motor impulses, shape (a, P) each.

    The torque that a fast motor can give falls with its speed; bounds by the torque-rate limit are constant.
    """
    machine, site, step = bound.borrowed, visited.borrowed, held.borrowed
    joints, h, first = machine.joints, machine.h, machine.terms.free.shape[0]
    a = joints.limit.shape[0]
    least, most = np.zeros((a, site.at.total)), np.zeros((a, site.at.total))
    if site.at.limits == site.at.task:  # no torque is at its limit
        return least, most
    for j in range(a):
        column, column_v = site.at.limits + j, site.at.v + first + j
        if step.bounds.least[j] == -h * joints.limit[j]:
            least[j, column] = -h
        if step.bounds.most[j] == h * joints.limit[j]:
            most[j, column] = h
        speed, top, no_load = site.v[first + j], joints.room.speed[j], joints.room.no_load[j]
        if not top < abs(speed) < no_load or no_load == np.inf:
            continue
        share = (no_load - abs(speed)) / (no_load - top)
        slope, rest = -h * joints.limit[j] / (no_load - top), h * (joints.limit[j] * share)
        if speed > 0.0 and step.bounds.most[j] == rest:
            most[j, column_v], most[j, column] = slope, h * share
        elif speed < 0.0 and step.bounds.least[j] == -rest:
            least[j, column_v], least[j, column] = slope, -h * share
    return least, most


@njit(cache=True, inner=True, error_model="numpy")
def held_slope(bound: Bound, visited: Bound, joints: Bound) -> tuple[Array, Array]:
    """Return the derivatives of the impulses of internal forces (`step.holding`).

    The derivatives are by variables, shape (a, P), and by q and kp of each joint's reference, shape (2, a).
    """
    machine, site, step = bound.borrowed, visited.borrowed, joints.borrowed
    J, h, at, inputs = site.terms.J, machine.h, site.at, machine.inputs
    n, a, m, kp = site.contacts.identity.shape[0], step.held.shape[0], site.v.shape[0], machine.joints.kp
    out, own, u = np.zeros((a, at.total)), np.zeros((2, a)), m - a
    share = internal_share(machine, site.contacts.identity)
    if not share > 0.0:
        return out, own
    changes, inertia, grows = square_slopes(visited, joints), np.zeros(a), np.zeros((a, at.v))
    for r in range(3 * n):
        square = (step.w.rho[r] ** 2).sum()
        if not square > 0.0:
            continue
        for j in range(a):
            if not site.terms.moves[r % n, u + j]:
                continue
            through = J[r, u + j] / (n * square)
            inertia[j] += J[r, u + j] * through
            shrinks = through * J[r, u + j] / square
            for k in range(at.v):
                grows[j, k] += 2.0 * through * site.terms.slopes[r, u + j, k] - shrinks * changes[r, k]
    for j in range(a):
        _, error = joint_error(machine.terms, inputs, j)
        factor = h * share**3 * kp[j]
        for k in range(at.v):
            out[j, at.q + k] = factor * error * grows[j, k]
        out[j, at.q + u + j] -= factor * inertia[j]
        out[j, at.held + j], own[0, j], own[1, j] = 1.0, factor * inertia[j], h * share**3 * inertia[j] * error
    return out, own
