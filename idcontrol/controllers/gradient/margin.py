"""Distances of a step to the next change of its active set.

Distances of forces and velocities are Euclidean, for each contact alone: while every contact force changes by less than
the distance of forces, all of them stay within their faces. Equations of the active set hold along the way, so forces
move within their faces, and velocities only in the directions that the roles of their contacts allow. Where a boundary
is curved, or its equations couple a contact's force with its velocity, the distance is a lower bound.
"""

from __future__ import annotations

import numpy as np

from idcontrol.controllers.gradient.chain import Limits
from idcontrol.controllers.gradient.equations import RANK
from idcontrol.controllers.gradient.impulses import used_edges
from idcontrol.controllers.gradient.motion import AXES, CONVEX, PART, SIGNS, SLIDE, STICK, edges_along
from idcontrol.controllers.gradient.result import Margin
from idcontrol.models.distribution import CIRCLE, DISSIPATION, PARTING
from idcontrol.models.reduced import ALL_EDGES, PRESSES
from idcontrol.types import Array


def margin(limits: Limits, h: float, lag: float = np.inf, room: float = np.inf) -> Margin:
    """Return the margin of a step of length h; `lag` and `room` are as in `Slopes`."""
    return Margin(
        force=float(_impulse_distance(limits) / h),
        speed=float(min(_speed_distance(limits), lag)),
        torque=float(room / h),
        multiplier=_smallest_multiplier(limits) if limits.shares else np.inf,
    )


def _impulse_distance(limits: Limits) -> float:
    """Return the smallest change of a contact's impulse at which an impulse reaches another face of its cone [N s]."""
    n, out = limits.mu.size, np.inf
    if limits.edge:
        return 0.0
    if limits.shares:
        faces = limits.stage.faces
        for i in range(n):
            B = faces.B[i::n, faces.owner == i]
            out = min(out, _within_face(int(limits.cone[i]), B, B @ faces.shares[faces.owner == i], limits.mu[i]))
    if limits.determined:
        for i in range(n):
            out = min(out, _of_model(limits, i))
    return out


def _speed_distance(limits: Limits) -> float:
    """Return the smallest change of a contact's velocity at which its role, or an edge of stage II, changes [m/s]."""
    out = limits.jump
    for i in range(limits.mu.size):
        w = limits.u[i :: limits.mu.size] + limits.D[i :: limits.mu.size] * limits.vertex[i :: limits.mu.size]
        out = min(out, _of_role(limits, i, w))
        if limits.shares and limits.roles.kind[i] != STICK and limits.mu[i] > 0.0:
            out = min(out, _of_edge_rule(limits, i, w))
    return out


def _within_face(cone: int, B: Array, y: Array, mu: float) -> float:
    """Return the distance of impulse y (3,) to the boundary of the face with directions B (3, k) of a cone [N s].

    The face consists of the multiples of the directions, or if it is a friction cone with all edges, of the pyramid.
    """
    if cone == PRESSES:  # its tangents are not limited
        return float(y[0]) if B.shape[1] == 3 else np.inf
    if cone == ALL_EDGES and B.shape[1] == 3:
        return _to_facets(B, y, mu)
    return _to_edges(B, y)


def _to_edges(B: Array, y: Array) -> float:
    """Return the distance of ``y = B ξ`` with ξ > 0 to the next ξ = 0, within the span of B."""
    if B.shape[1] == 0:
        return np.inf
    inverse = np.linalg.pinv(B)
    return float((np.abs(inverse @ y) / np.linalg.norm(inverse, axis=1)).min())


def _to_facets(B: Array, y: Array, mu: float) -> float:
    """Return the distance of y to the facets of a friction pyramid, within the span of B (3, k)."""
    within, out = B @ np.linalg.pinv(B), np.inf
    for s in (1.0, -1.0):
        for t in (1.0, -1.0):
            normal = np.array((mu, s, t))
            length = float(np.linalg.norm(within @ normal))
            if length > RANK * mu:
                out = min(out, abs(float(normal @ y)) / length)
    return out


def _of_model(limits: Limits, i: int) -> float:
    """Return the distance of the contact model's impulse at contact i to the next change of its active set [N s]."""
    n, law, kind, mu = limits.mu.size, limits.law, limits.roles.kind[i], limits.mu[i]
    y = limits.vertex[i::n]
    if kind == PART:
        return np.inf
    if not y.any():  # another vertex may load this contact
        return 0.0
    if mu == np.inf or mu == 0.0:
        return float(abs(y[0]))
    if law in (CIRCLE, CONVEX):
        inside = mu * y[0] - np.hypot(y[1], y[2])
        return float(np.linalg.norm(y) if kind == SLIDE else max(inside, 0.0) / np.hypot(1.0, mu))
    if not limits.rigid:
        B = limits.roles.B[i::n, limits.roles.owner == i]
        return _to_facets(B, y, mu) if kind == STICK else _to_edges(B, y)
    B = limits.kept[i::n]
    B = B[:, B.any(axis=0)]
    axes = (np.count_nonzero(B, axis=0) == 1).all()  # the impulse is inside the pyramid
    return min(_to_edges(B, y), _to_facets(B, y, mu) if axes else np.inf)


def _of_role(limits: Limits, i: int, w: Array) -> float:
    """Return the smallest change of a velocity at which contact i gets another role or other edges [m/s].

    Args:
        limits: What bounds the active set.
        i: The contact.
        w: Its velocity, plus the speed at which it yields under its impulse, shape (3,).
    """
    n, law, kind, mu = limits.mu.size, limits.law, limits.roles.kind[i], limits.mu[i]
    slip = np.hypot(w[1], w[2])
    if kind == STICK or (kind == SLIDE and mu == 0.0):
        return np.inf
    if law == DISSIPATION and 0.0 < mu < np.inf:
        edges, _ = edges_along(np.ones(4, np.bool_), mu)
        B = limits.roles.B[i::n, limits.roles.owner == i] if kind == SLIDE else np.zeros((3, 0))
        free = np.eye(3) - B @ np.linalg.pinv(B)
        lengths = np.linalg.norm(free @ edges, axis=0)
        others = lengths > 1e-9
        return float((np.abs(w @ edges)[others] / lengths[others]).min(initial=np.inf))
    if kind == PART:
        return float((w[0] - mu * slip) / np.hypot(1.0, mu) if law == CONVEX and mu < np.inf else w[0])
    if law == CONVEX:
        D = limits.D[i::n]
        return float(np.sqrt((w * w / D).sum() * D.min()))
    if law == CIRCLE or (limits.roles.owner == i).sum() > 1:
        return float(slip)
    return float(abs(abs(w[1]) - abs(w[2])) / np.sqrt(2.0))  # at equal speeds a second edge carries friction, too


def _of_edge_rule(limits: Limits, i: int, w: Array) -> float:
    """Return the smallest change of a velocity at which stage II allows contact i other edges (`allowed_edges`) [m/s].

    Arguments are as for `_of_role`.
    """
    law, kind, mu, v_tol = limits.law, limits.roles.kind[i], limits.mu[i], limits.v_tol
    slip = np.hypot(w[1], w[2]) if law == CIRCLE else max(abs(w[1]), abs(w[2]))
    if mu == np.inf:
        ends = np.array((slip - v_tol, w[0] - PARTING * v_tol))
        return float(ends.max() if (ends > 0.0).any() else -ends.max())
    if slip > v_tol:
        return float(slip - v_tol if kind == SLIDE else max(slip, w[0]) - v_tol)
    apart = w[0] + (0.0 if law == DISSIPATION else mu * slip)
    along = np.array([slip if law == CIRCLE else SIGNS[k] * w[AXES[k]] for k in range(4)])
    return float(min(v_tol - slip, np.abs(apart + mu * along - v_tol).min() / np.hypot(1.0, 2.0 * mu)))


def _smallest_multiplier(limits: Limits) -> float:
    """Return the smallest multiplier of the active limits of stage II, relative to the gradient's largest term.

    A motor's multiplier counts times the largest entry of its column of J. If the multipliers are not unique, the
    multipliers with the largest minimum are taken. The result is inf if no limit is active, or if the minimum can be
    arbitrarily large.
    """
    J, cone, mu, at = limits.J, limits.cone, limits.mu, limits.stage
    n, unused, B = cone.size, [], at.faces.B
    for i in range(n):
        face_of = B[i::n, at.faces.owner == i]
        if face_of.shape[1] == 3:
            continue
        flat = cone[i] == PRESSES or mu[i] == 0.0
        edges = np.eye(3)[:, :1] if flat else edges_along(used_edges(cone[i]), mu[i])[0]
        for edge in edges.T:
            rest = edge - face_of @ np.linalg.lstsq(face_of, edge, rcond=None)[0] if face_of.size else edge
            if np.linalg.norm(rest) > 1e-9:
                row = np.zeros(3 * n)
                row[i::n] = edge
                unused.append(row)
    if not unused and not at.bounded.size:
        return np.inf
    normals, k = np.array(unused).reshape(-1, 3 * n), at.keeps.size - at.bounded.size
    pull = J[:, at.keeps]
    motors = np.where(at.above, -1.0, 1.0)[at.bounded] * np.abs(pull[:, k:]).max(axis=0)
    through = np.concatenate((normals @ at.gradient, motors * at.multipliers[k:])) / at.scale
    _, size, across = np.linalg.svd(B.T @ pull)
    ways = across[int((size > RANK * np.abs(pull).max()).sum()) :].T
    if ways.shape[1] == 0:
        return float(through.min())
    rows = np.vstack((normals @ pull @ ways, motors[:, None] * ways[k:]))
    from scipy.optimize import linprog  # imported late: SciPy would make every start a quarter longer

    largest = linprog(
        np.r_[np.zeros(ways.shape[1]), -1.0],
        np.c_[-rows, np.ones(through.size)],
        through,
        bounds=[(None, None)] * (ways.shape[1] + 1),
    )
    if largest.status == 3:  # unbounded: the motion alone keeps these contacts without load
        return np.inf
    return float(largest.x[-1] if largest.status == 0 else through.min())
