"""Derivatives of the contact impulses of a motion, by stage II and by the contact models.

Derivatives have one column for each of the P parameters (`idcontrol.controllers.gradient.site.Columns`).
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from scipy.optimize import linprog

from idcontrol.controllers.gradient.motion import ALONG, NOTHING, ON_FACE, SOLID, Moved, blocks, edges_along
from idcontrol.controllers.gradient.site import NO_ERRORS, RANK, Site, fit, least_squares, optimum
from idcontrol.controllers.step import AssembledStep
from idcontrol.dynamics.derivatives import inertia_times
from idcontrol.models.distribution import RIDGE
from idcontrol.models.reduced import ALL_EDGES, PRESSES
from idcontrol.types import Array, Booleans, Integers

AT_BOUND: Final = 1e-8
"""Distance from a bound up to which a motor impulse is at the bound, relative to the distance between both bounds."""


class Share(NamedTuple):
    """The objective of stage II.

    Attributes:
        reference: hτ_ref, shape (p,).
        slope: Its derivative, shape (p, P).
    """

    reference: Array
    slope: Array


def face(cone: int, y: Array, mu: float, scale: float) -> tuple[Array, Array, float]:
    """Return directions of the face of a cone that contains y, their derivative by μ, and the distance to other faces.

    Args:
        cone: Edges as in `idcontrol.models.reduced`.
        y: Impulse, shape (3,) [N s].
        mu: Friction coefficient.
        scale: Impulse that counts as one [N s].
    """
    small = ON_FACE * scale
    if cone == PRESSES:
        B = np.eye(3) if y[0] > small else np.eye(3)[:, 1:]
        return B, np.zeros_like(B), float(y[0]) if y[0] > small else np.inf
    if cone == 0 or y[0] <= small:
        return NOTHING, NOTHING, np.inf
    if mu == 0.0:
        e = np.array([[1.0], [0.0], [0.0]])
        return e, 0.0 * e, float(y[0])
    if cone != ALL_EDGES:
        edges, slope = edges_along([ALONG[k] for k in range(4) if cone >> k & 1], mu)
        shares = np.linalg.lstsq(edges, y, rcond=None)[0]
        used = shares > small
        return edges[:, used], slope[:, used], float(shares[used].min(initial=np.inf))
    facets = np.array([[mu, s, t] for s in (1.0, -1.0) for t in (1.0, -1.0)])
    slack = facets @ y
    active = slack <= small * (1.0 + mu)
    distance = float(slack[~active].min(initial=np.inf) / np.sqrt(2.0 + mu * mu))
    if not active.any():
        return np.eye(3), SOLID, distance
    edges, slope = edges_along(list(ALONG), mu)
    inside = (np.abs(facets[active] @ edges) <= 1e-12 * (1.0 + mu)).all(axis=0)
    return edges[:, inside], slope[:, inside], distance


class Shared(NamedTuple):
    """Impulses of stage II.

    Attributes:
        slope: Their derivative, shape (3 n, P).
        error: Relative error of conditions and linear equations, as `Site.errors`.
        force: Distance of the impulses to the next face of their cones [N s].
        multiplier: Smallest multiplier of an active limit, relative to the largest gradient; inf without one.
        bounded: Tracked joints whose motor is at a bound, indices into the tracked joints.
    """

    slope: Array
    error: Array
    force: float
    multiplier: float
    bounded: Integers


def torque_unit(site: Site, step: AssembledStep, *, slope: bool) -> tuple[float, Array]:
    """Return the mean of diag(LτᵀLτ), the unit of the ridge and of ramps, and its derivative, shape (P,)."""
    free, fixed, M, J = step.w.free, step.w.fixed, site.system.M, site.contacts.jacobian
    rows, out = J.shape[0], np.zeros(site.columns.total)
    through = np.linalg.solve(M[np.ix_(free, free)], M[np.ix_(free, fixed)])
    directions = np.zeros((M.shape[0], fixed.size))
    directions[free], directions[fixed] = through, -np.eye(fixed.size)
    L = J @ directions
    typical = float((L * L).sum()) / rows
    if not typical > 0.0:
        return 1.0, out
    if slope:
        lifted = np.linalg.solve(M[np.ix_(free, free)], J[:, free].T @ L)
        for a in range(fixed.size):
            changed = site.rows.jacobian.transpose(0, 2, 1) @ directions[:, a]
            out[site.columns.q] += 2.0 / rows * (L[:, a] @ changed)
            inertia = inertia_times(site.motion.tree, directions[:, a])
            out[site.columns.q] -= 2.0 / rows * (lifted[:, a] @ inertia[free])
    return typical, out


class _Optimum(NamedTuple):
    """The optimality conditions of stage II at its solution.

    Attributes:
        faces: Directions of each contact's face, their derivatives by friction, and the distance to other faces.
        B: Directions of all contacts, shape (3 n, d).
        bounded: Tracked joints whose motor is at a bound.
        above: True for joints at the upper bound, shape (p,).
        keeps: Velocities of the equations: unknown, and of motors at a bound, shape (k,).
        multipliers: Multipliers of these equations, shape (k,).
        z: Multipliers such that ``Bᵀ (J z + ridge f) = 0``, shape (m,).
        ridge: Weight of each impulse in the objective, shape (3 n,).
        gradient: ``J z + ridge f``, shape (3 n,).
        scale: Largest term of the gradient.
        error: Relative error of the conditions.
    """

    faces: list[tuple[Array, Array, float]]
    B: Array
    bounded: Integers
    above: Booleans
    keeps: Integers
    multipliers: Array
    z: Array
    ridge: Array
    gradient: Array
    scale: float
    error: float


def _conditions(
    site: Site, step: AssembledStep, cone: Integers, f: Array, s: Array, goal: Share, typical: float
) -> _Optimum:
    """Return the optimality conditions of stage II; s (p,) are the motor impulses. Other arguments as for `share`."""
    n, (free, fixed), J = f.size // 3, (step.w.free, step.w.fixed), site.contacts.jacobian
    largest = np.abs(f).max(initial=0.0)
    faces = [face(int(cone[i]), f[i::n], float(step.cones.mu[i]), largest) for i in range(n)]
    B = blocks([one[0] for one in faces], n, columns=True)
    room = step.bounds.most - step.bounds.least
    slack = AT_BOUND * np.where(np.isfinite(room), room, np.abs(s))
    above, below = s >= step.bounds.most - slack, s <= step.bounds.least + slack
    ridge = typical * np.tile(RIDGE + step.cones.weight, 3)
    away, ramp = s - goal.reference, ridge * f
    pull = ramp - J[:, fixed] @ away
    while True:
        bounded = np.flatnonzero(above | below)
        keeps = np.concatenate((free, fixed[bounded]))
        multipliers, _ = fit(B.T @ J[:, keeps], -(B.T @ pull))
        wrong = np.where(above[bounded], 1.0, -1.0) * multipliers[free.size :] > 0.0
        if not wrong.any():
            break
        idle = bounded[wrong]  # the impulse is at its bound, but no multiplier holds it there
        above[idle] = below[idle] = False
    gradient = pull + J[:, keeps] @ multipliers
    scale = np.abs(J[:, fixed] * away).sum(axis=1).max(initial=1e-300) + np.abs(ramp).max(initial=0.0)
    z = np.zeros(J.shape[1])
    z[fixed] = -away
    z[keeps] += multipliers
    error = float(np.abs(B.T @ gradient).max(initial=0.0) / scale)
    return _Optimum(faces, B, bounded, above, keeps, multipliers, z, ridge, gradient, float(scale), error)


def share(
    site: Site, step: AssembledStep, cone: Integers, f: Array, moved: Moved, goal: Share, bounds: tuple[Array, Array]
) -> Shared:
    """Return the derivative of the impulses f (3 n,) of stage II.

    Args:
        site: The robot and its contacts.
        step: The step that was solved.
        cone: Edges of each contact's cone, shape (n,).
        f: The impulses.
        moved: The motion.
        goal: The objective.
        bounds: Derivatives of the least and largest impulses of the tracked motors, shapes (p, P).
    """
    n, (free, fixed), J = f.size // 3, (step.w.free, step.w.fixed), site.contacts.jacobian
    s = (site.system.M @ moved.v_plus + step.w.kappa)[fixed] - J[:, fixed].T @ f
    typical, unit = torque_unit(site, step, slope=bool(step.cones.weight.any()))
    at = _conditions(site, step, cone, f, s, goal, typical)
    turned, twisted, k = site.zeros(3 * n), site.zeros(at.B.shape[1]), 0
    for i, (edges, slope, _) in enumerate(at.faces):
        size, column = edges.shape[1], site.columns.mu.start + i
        if slope.any():
            turned[i::n, column] = slope @ np.linalg.lstsq(edges, f[i::n], rcond=None)[0]
            twisted[k : k + size, column] = slope.T @ at.gradient[i::n]
        k += size
    pushed = site.rows_transposed(f)
    ds = moved.p[fixed] - pushed[fixed]  # of s at constant f
    stiff = J[:, fixed] @ J[:, fixed].T + np.diag(at.ridge)
    g = J[:, fixed] @ (ds - goal.slope) - site.rows_times(at.z) - np.outer(at.ridge * f / typical, unit)
    A, limit = J[:, at.keeps].T @ at.B, np.where(at.above[:, None], bounds[1], bounds[0])
    e = np.vstack((moved.p[free] - pushed[free], (ds - limit)[at.bounded])) - J[:, at.keeps].T @ turned
    xi = optimum(at.B.T @ stiff @ at.B, A, at.B.T @ (g - stiff @ turned) - twisted, e)
    return Shared(
        slope=at.B @ xi + turned,
        # without a foot on the ground e is rounding, and only the motor impulses in p have a size
        error=np.maximum(site.errors(A @ xi - e, np.vstack((e, moved.p))), at.error),
        force=min((one[2] for one in at.faces), default=np.inf),
        multiplier=_multiplier(step, cone, at),
        bounded=at.bounded,
    )


def _multiplier(step: AssembledStep, cone: Integers, at: _Optimum) -> float:
    """Return the smallest multiplier of the limits of the cones that are active, relative to the largest gradient.

    Where multipliers are not unique, those are taken whose smallest is largest.
    """
    n, limits = cone.size, []
    for i in range(n):
        face_of, mu = at.faces[i][0], float(step.cones.mu[i])
        if face_of.shape[1] == 3:
            continue
        if cone[i] == PRESSES:
            edges = np.eye(3)[:, :1]
        else:
            edges = (
                edges_along([ALONG[k] for k in range(4) if cone[i] >> k & 1], mu)[0] if mu > 0.0 else np.eye(3)[:, :1]
            )
        for edge in edges.T:
            rest = edge - face_of @ np.linalg.lstsq(face_of, edge, rcond=None)[0] if face_of.size else edge
            if np.linalg.norm(rest) > 1e-9:
                row = np.zeros(3 * n)
                row[i::n] = edge
                limits.append(row)
    if not limits:
        return np.inf
    normals = np.array(limits)
    pull, through = step.contacts.jacobian[:, at.keeps], normals @ at.gradient / at.scale
    _, size, across = np.linalg.svd(at.B.T @ pull)
    ways = across[int((size > RANK * np.abs(pull).max()).sum()) :].T
    if ways.shape[1] == 0:
        return float(through.min())
    # motors at a bound keep the sign of their multipliers
    k = at.keeps.size - at.bounded.size
    motors = np.where(at.above, -1.0, 1.0)[at.bounded]
    rows = np.vstack((normals @ pull @ ways, motors[:, None] * ways[k:]))
    rest = np.concatenate((through, motors * at.multipliers[k:] / at.scale))
    slack = np.concatenate((np.ones(through.size), np.zeros(motors.size)))
    largest = linprog(
        np.r_[np.zeros(ways.shape[1]), -1.0], np.c_[-rows, slack], rest, bounds=[(None, None)] * (ways.shape[1] + 1)
    )
    if largest.status == 3:  # unbounded: the motion alone keeps these contacts without load
        return np.inf
    return float(largest.x[-1] if largest.status == 0 else through.min())


def raw_impulses(site: Site, step: AssembledStep, f: Array, moved: Moved, kept: Array | None) -> tuple[Array, Array]:
    """Return the derivative of the impulses of a contact model, shape (3 n, P), and their errors as `Site.errors`.

    Compliant contacts have unique impulses. Solvers of rigid contacts return a vertex of the set of solutions, i.e.
    impulses along independent directions; the motion determines them.

    Args:
        site: The robot and its contacts.
        step: The step that was solved.
        f: The impulses, shape (3 n,).
        moved: The motion.
        kept: Directions along which a vertex is loaded, shape (3 n, k); None for compliant contacts.
    """
    if kept is None:
        return moved.y_slope, NO_ERRORS
    free, J = step.w.free, site.contacts.jacobian
    turned = site.zeros(f.size)
    n = len(site.contacts)
    for i, one in enumerate(moved.roles):
        if one.name == "slide" and one.B_mu.any():
            turned[i::n, site.columns.mu.start + i] = one.B_mu @ np.linalg.lstsq(one.B, f[i::n], rcond=None)[0]
    e = moved.p[free] - site.rows_transposed(f)[free] - J[:, free].T @ turned
    A = J[:, free].T @ kept
    xi = least_squares(A, e)
    along = float(np.abs(kept @ np.linalg.lstsq(kept, f, rcond=None)[0] - f).max(initial=0.0)) if kept.size else 0.0
    wrong = along / max(np.abs(f).max(initial=0.0), 1e-300)
    if kept.size and np.linalg.matrix_rank(A) < kept.shape[1]:
        wrong = np.inf  # no vertex: nothing is known of internal forces
    # without a foot on the ground e is rounding, and only the motor impulses in p have a size
    return kept @ xi + turned, np.maximum(site.errors(A @ xi - e, np.vstack((e, moved.p))), wrong)
