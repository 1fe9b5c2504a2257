"""Derivatives of the first stages of a control step: demand, targets of contacts, projection, momentum, bounds.

Derivatives have one column for each of the P parameters (`idcontrol.controllers.gradient.equations.Columns`).
"""

from __future__ import annotations

import numpy as np

from idcontrol.controllers.feedback import NEARING, TURNS_RAD_S, nearing
from idcontrol.controllers.gradient.equations import fit, optimum
from idcontrol.controllers.gradient.site import NO_ERRORS, Site, square_slopes
from idcontrol.controllers.load import UNMODELLED
from idcontrol.controllers.stance import SOLE_RANK
from idcontrol.controllers.step import EASE_S, AssembledStep
from idcontrol.dynamics.derivatives import inertia_times, inverse_dynamics
from idcontrol.dynamics.system import System
from idcontrol.types import Array


def demand(site: Site) -> tuple[Array, Array]:
    """Return the desired joint velocities before their projection, shape (a,), and their derivative, shape (a, P)."""
    machine, system, at = site.machine, site.system, site.columns
    inputs, joints, h = machine.inputs, machine.joints, machine.h
    a, m = joints.kp.size, site.v.size
    angle, speed = system.joint_positions(inputs.q), site.v[m - a :]
    error = system.position_errors(inputs.joint_q, angle)
    b = speed + h * (inputs.joint_a + joints.kp * error + joints.kd * (inputs.joint_v - speed))
    slope, each = site.zeros(a), np.arange(a)
    slope[each, at.q.start + m - a + each] = -h * joints.kp
    slope[each, at.v.start + m - a + each] = 1.0 - h * joints.kd
    for block, factor in enumerate((joints.kp, joints.kd, np.ones(a))):
        slope[each, at.reference.start + block * a + each] = h * factor
    slope[each, at.gains.start + each] = h * error
    slope[each, at.gains.start + a + each] = h * (inputs.joint_v - speed)
    for end, clipped in ((joints.room.lower, np.less), (joints.room.upper, np.greater)):
        most = nearing(angle, end, h)
        beyond = clipped(b, most)
        b = np.where(beyond, most, b)
        slope[beyond] = 0.0
        slope[each[beyond], at.q.start + m - a + each[beyond]] = -NEARING / h
    return b, slope


def target(site: Site, step: AssembledStep) -> Array:
    """Return the derivative of the target velocities of the contacts in stance, shape (3 n, P)."""
    landing, contacts, rows, at = site.machine.landing, site.contacts, site.rows, site.columns
    n, h = len(contacts), site.machine.h
    w = contacts.jacobian @ site.v - contacts.surface_velocity - h * contacts.drift
    slope = site.rows_times(site.v)
    slope[:, at.q] -= h * rows.drift_q
    slope[:, at.v] += contacts.jacobian - h * rows.drift_v
    since = site.machine.inputs.since_touchdown[contacts.identity]
    sliding = np.hypot(w[n : 2 * n], w[2 * n :]) > landing.slip_m_s
    decay = np.where((since <= landing.settle_s) | sliding, landing.decay, 0.0)
    slope *= np.tile(decay, 3)[:, None]
    closing = -contacts.gap / landing.closing_s
    moves = (closing > -landing.sink_m_s) & (closing < landing.rise_m_s)
    landed = contacts.surface_velocity + np.tile(decay, 3) * w
    landed[:n] += (1.0 - decay) * np.clip(closing, -landing.sink_m_s, landing.rise_m_s)
    slope[:n, at.q] += np.where(moves, (decay - 1.0) / landing.closing_s, 0.0)[:, None] * rows.gap
    return _rigid(site, landed, slope)


def _rigid(site: Site, raw: Array, slope: Array) -> Array:
    """Return the derivative of targets `raw` (3 n,) after the projection onto velocities of rigid soles (`as_rigid`).

    The projection Π onto the range of C, the base's columns of a sole's rows, changes by ``(1 - Π) dC C⁺`` and its
    transpose (Golub & Pereyra 1973, eq. 4.12).
    """
    n, patch, u = len(site.contacts), site.machine.patch, site.v.size - site.system.n_actuated
    if patch.size == 0 or u < 6:
        return slope
    out, foot = slope.copy(), patch[site.contacts.identity]
    for one in np.unique(foot):
        corners = np.flatnonzero(foot == one)
        if corners.size == 1:
            continue
        rows = np.concatenate([axis * n + corners for axis in range(3)])
        C, dC = site.contacts.jacobian[rows, :6], site.rows.jacobian[rows, :6]
        inverse = np.linalg.pinv(C, rcond=SOLE_RANK)
        twist, rest = inverse @ raw[rows], raw[rows] - C @ (inverse @ raw[rows])
        turned = np.einsum("rkl,k->rl", dC, twist)
        turned -= C @ (inverse @ turned)
        turned += inverse.T @ np.einsum("rkl,r->kl", dC, rest)
        out[rows] = C @ (inverse @ slope[rows])
        out[rows, site.columns.q] += turned
    return out


def projection(site: Site, step: AssembledStep, wanted: tuple[Array, Array], d: Array) -> tuple[Array, Array]:
    """Return the derivative of the projected joint velocities, shape (a, P), and the relative error of its equations.

    Args:
        site: The robot and its contacts.
        step: The step with all joints tracked.
        wanted: Joint velocities before the projection, and their derivative.
        d: Derivative of the target velocities.
    """
    (b, slope), J, M = wanted, step.contacts.jacobian, site.system.M
    if not site.machine.projects or len(site.contacts) == 0:
        return slope, NO_ERRORS
    m, a = M.shape[0], b.size
    u = m - a
    W, away = M[u:, u:], step.b - b
    base, _ = fit(J[:, :u], step.target - J[:, u:] @ step.b)
    v = np.concatenate((base, step.b))
    right = np.concatenate((np.zeros(u), -W @ away))
    multiplier, wrong = fit(J.T, right)
    H, g = np.zeros((m, m)), -site.rows_transposed(multiplier)
    H[u:, u:] = W
    moved = np.concatenate((np.zeros(u), away))
    g[u:] += W @ slope - site.by_q(inertia_times(site.motion.tree, moved))[u:]
    e = d - site.rows_times(v)
    out, unexplained = optimum(H, J, g, e), wrong if np.abs(away).max() > 1e-6 * np.abs(b).max() else 0.0
    return out[u:], np.maximum(site.errors(J @ out - e, e), unexplained)


def momentum(site: Site, v_plus: Array, load: Array) -> Array:
    """Return the derivative of ``M v⁺ + κ`` at constant v⁺ (m,), shape (m, P).

    Args:
        site: The robot.
        v_plus: Velocity at the end of the period.
        load: Estimated load on the base, shape (3,) [N]; a constant.
    """
    system, machine, at = site.system, site.machine, site.columns
    h, q, a = machine.h, machine.inputs.q, system.n_actuated
    by_q, by_v = inverse_dynamics(system, q, site.v, (v_plus - site.v) / h)
    out = site.zeros(site.v.size)
    out[:, at.q], out[:, at.v] = h * by_q, h * by_v - system.M
    if system.actuators is not None:
        speed, each = machine.inputs.joint_v, np.arange(a)
        dry = system.actuators.friction / np.cosh(speed / TURNS_RAD_S) ** 2 / TURNS_RAD_S
        out[site.v.size - a + each, at.reference.start + a + each] = h * (system.actuators.damping + dry)
    size = np.linalg.norm(load)
    if size > 0.0:
        # undo the compensation to get the weight that scales its dead band (`idcontrol.controllers.load.weigh`)
        own_q, own_v = inverse_dynamics(system, q, site.v, np.zeros_like(site.v))
        pull = _bias_without_load(system, load)
        weight = np.linalg.norm(pull)
        if size > UNMODELLED * weight:
            for columns, slope in ((at.q, own_q), (at.v, own_v)):
                out[:3, columns] += h * UNMODELLED / size * np.outer(load, pull @ slope[:3] / weight)
    return out


def _bias_without_load(system: System, load: Array) -> Array:
    """Return the linear rows of the base in the bias before the load was added, shape (3,) [N]."""
    size, pull = float(np.linalg.norm(load)), system.bias[:3]
    # pull = p - (1 - k |p|) load, solved for |p| by iteration: k |p| changes p by a few percent
    weight = float(np.linalg.norm(pull + load))
    for _ in range(60):
        weight = float(np.linalg.norm(pull + max(1.0 - UNMODELLED * weight / size, 0.0) * load))
    return np.asarray(pull + max(1.0 - UNMODELLED * weight / size, 0.0) * load)


def bound_slope(site: Site, step: AssembledStep) -> tuple[Array, Array]:
    """Return the derivatives of the smallest and the largest allowed motor impulses, shape (a, P) each.

    The torque that a fast motor can give falls with its speed; bounds by the torque-rate limit are constant.
    """
    joints, h = site.machine.joints, site.machine.h
    a, first = joints.limit.size, site.v.size - joints.limit.size
    least, most = site.zeros(a), site.zeros(a)
    for j in range(a):
        column = site.columns.limits.start + j
        least[j, column] = -h if step.bounds.least[j] == -h * joints.limit[j] else 0.0
        most[j, column] = h if step.bounds.most[j] == h * joints.limit[j] else 0.0
        speed, top, no_load = site.v[first + j], joints.room.speed[j], joints.room.no_load[j]
        if not top < abs(speed) < no_load or no_load == np.inf:
            continue
        share, column_v = (no_load - abs(speed)) / (no_load - top), site.columns.v.start + first + j
        slope, rest = -h * joints.limit[j] / (no_load - top), h * (joints.limit[j] * share)
        if speed > 0.0 and step.bounds.most[j] == rest:
            most[j, column_v], most[j, column] = slope, h * share
        elif speed < 0.0 and step.bounds.least[j] == -rest:
            least[j, column_v], least[j, column] = slope, -h * share
    return least, most


def held_slope(site: Site, step: AssembledStep) -> Array:
    """Return the derivative of the impulses of internal forces (`step.holding`), shape (a, P)."""
    machine, J, h = site.machine, step.contacts.jacobian, site.machine.h
    n, a, (rho, kp) = len(site.contacts), step.held.size, (step.w.rho, machine.joints.kp)
    out, u = site.zeros(a), J.shape[1] - a
    inputs, feet = machine.inputs, step.contacts.identity
    if not machine.projects or n == 0 or machine.tasks.targets.kind.size:
        return out
    share = min(1.0, inputs.since_touchdown[feet].min() / EASE_S) if np.isinf(inputs.to_liftoff[feet]).all() else 0.0
    if not share > 0.0:
        return out
    factor = h * share**3 * kp
    squares, each = (rho * rho).sum(axis=1), np.arange(a)
    used = squares > 0.0
    inertia = (J[used, u:] ** 2 / (n * squares[used, None])).sum(axis=0)
    error = site.system.position_errors(inputs.joint_q, site.system.joint_positions(inputs.q))
    changes = square_slopes(site, step)
    through = J[used, u:] / (n * squares[used, None])
    grows = 2.0 * np.einsum("rj,rjl->jl", through, site.rows.jacobian[used, u:]) - (J[used, u:] * through).T @ (
        changes[used] / squares[used, None]
    )
    out[:, site.columns.q] += (factor * error)[:, None] * grows
    out[each, site.columns.q.start + u + each] -= factor * inertia
    out[each, site.columns.reference.start + each] += factor * inertia
    out[each, site.columns.gains.start + each] += h * share**3 * inertia * error
    return out
