r"""Stage II with many contacts: at most as many unknowns as motors, for any number of contacts.

The program of `idcontrol.models.distribution` in the impulses y, with weights w_i,

    minimize  ½ |T y + t|² + ½ Σ w_i |y_i|²      s.t.   ρᵀy = x,   y_i in the span of a cone

depends on the contacts only through k motions and p torques. As long as no impulse reaches the surface of its cone, the
√w_i y_i are therefore in the span of k + p rows: ρᵀ and T, divided by √w_i and projected onto the spans of the cones.
Gram-Schmidt makes these rows orthonormal, first the rows of the motion, so that the motion determines their
coordinates. At most p coordinates remain free. The caller solves the dense program of the torque in these coordinates,
with bounds if there are any. A contact costs about (k + p)² multiplications; in a program in y it would cost the square
of the number of contacts.

If impulses reach the surface of their cones, y_i is the projection onto cone i of the impulses demanded by multipliers
λ of the motion and z of the torque,

    y_i = P_i((ρ_i λ - T_iᵀ z) / w_i),

and lies in a face of that cone. The program with the spans of these faces, instead of the spans of the cones, has the
same solution. `turn_to_faces` moves the multipliers towards the solution on their faces as long as the dual program

    minimize  Σ ½ |P_i(ρ_i λ - T_iᵀ z)|² / w_i - xᵀλ + ½ |z|² - tᵀz

decreases. This is Newton's method on the dual program. It is finite because the program is convex and piecewise
quadratic.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from idcontrol.kernels.arena import Arena, indices, mark, matrix, release, vector, zeros
from idcontrol.kernels.jit import njit
from idcontrol.kernels.lanes import dot
from idcontrol.kernels.linear import add, assign
from idcontrol.kernels.linked import linked
from idcontrol.types import Array, Integers

MOTION_RANK_TOLERANCE: Final = 1e-8
"""Relative length below which a direction of J_bᵀ depends on the other directions (math.md, sections 7.4 and 13.4)."""

TORQUE_RANK_TOLERANCE: Final = 1e-13
"""Relative length below which the remainder of a torque row counts as rounding error."""

LOST: Final = 1e-2
"""A row is orthogonalized a second time if at most this fraction of its square remains. The rounding error in so short
a remainder is not orthogonal to the basis.
"""

INSIDE: Final = 1e-9
"""Distance from a cone, relative to the largest impulse, that counts as rounding."""

ALL_EDGES: Final = 15
"""A friction cone with the edges +S, -S, +T, -T, in bits 0 to 3."""

FLAT: Final = 1e-9
"""Slope at the end of the path of `turn_to_faces` that counts as zero, relative to the slope at the start."""

LEVEL: Final = 0.1
"""Slope at which the search along the path of `turn_to_faces` ends, relative to the slope at the start."""

HALVINGS: Final = 20
"""Largest number of steps of the search along the path of `turn_to_faces`."""

PRESSES: Final = 16
"""The half space of a pressing contact with unbounded friction."""

HOLDS: Final = 32
"""Face of the half space `PRESSES`: the contact holds along its tangents and has no normal impulse."""


class Reduced(NamedTuple):
    """Impulses that give a motion, in orthonormal coordinates β: √w y = moving + Σ β_j rows[order[j]].

    Attributes:
        moving: √w times the shortest impulses that give the motion, shape (3 n,).
        rows: Orthonormal rows, shape (k + p, 3 n).
        order: Indices of the rows of the free coordinates, shape (f,).
        scale: 1/√w, shape (3 n,).
        torque: Torque per free coordinate, shape (p, f).
        rest: Torque of `moving`, plus the torque at zero impulse, shape (p,).
        R: The rows ρᵀ and T, divided by √w and projected, in terms of the orthonormal rows: row i was Σ_j R[i, j]
            rows[basis[j]], shape (k + p, k + p).
        basis: The original row of each orthonormal row, first for the motion, shape (k + p,).
        along: Coordinates of the motion, shape (rank of the motion,).
    """

    moving: Array
    rows: Array
    order: Integers
    scale: Array
    torque: Array
    rest: Array
    R: Array
    basis: Integers
    along: Array


@njit(cache=True, inner=True, error_model="numpy")
def _orthogonalize(rows: Array, begin: int, end: int, rank: int, tolerance: float, R: Array, order: Integers) -> int:
    """Orthonormalize rows[begin:end] in place, by Gram-Schmidt with pivoting; subtract the basis from later rows.

    Basis row j is stored as rows[order[j]]; row i was Σ_j R[i, j] rows[order[j]] plus its remainder.

    Args:
        rows: Shape (q, d).
        begin: First row that may become a basis row.
        end: Row after the last candidate.
        rank: Number of existing basis rows; positions from `rank` on are free.
        tolerance: A row counts as dependent if its remainder is at most this times the longest row.
        R: In and out, shape (q, q).
        order: In and out, shape (q,).

    Returns:
        The new number of basis rows.
    """
    first, smallest = rank, 0.0
    while rank - first < end - begin:
        best, square = -1, smallest
        for i in range(begin, end):
            size = dot(rows[i], rows[i])
            for j in range(first, rank):
                if order[j] == i:
                    size = 0.0
            if size > square:
                best, square = i, size
        if best < 0:
            break
        if rank == first:
            smallest = tolerance * tolerance * square
        basis, before = rows[best], square
        for j in range(rank):
            before += R[best, j] * R[best, j]
        if square <= LOST * before:
            for j in range(rank):
                along = dot(basis, rows[order[j]])
                R[best, j] += along
                add(basis, -along, rows[order[j]])
            square = dot(basis, basis)
        length = np.sqrt(square)
        for c in range(basis.shape[0]):
            basis[c] /= length
        R[best, rank], order[rank] = length, best
        rank += 1
        for i in range(begin, rows.shape[0]):
            waits = True
            for j in range(first, rank):
                waits = waits and order[j] != i
            if waits:
                R[i, rank - 1] = dot(rows[i], basis)
                add(rows[i], -R[i, rank - 1], basis)
    return rank


@njit(cache=True, inner=True, error_model="numpy")
def _onto_spans(rows: Array, cone: Integers, mu: Array, arena: Arena) -> None:
    """Project rows (q, 3 n), in place, onto the spans of the contacts' cones."""
    n = mu.shape[0]
    span = matrix(arena, 2, 3)
    for i in range(n):
        plus_s, minus_s, plus_t, minus_t = cone[i] & 1, cone[i] >> 1 & 1, cone[i] >> 2 & 1, cone[i] >> 3 & 1
        edges = plus_s + minus_s + plus_t + minus_t
        if cone[i] == PRESSES or edges > 2:
            continue
        if cone[i] == HOLDS:
            for r in range(rows.shape[0]):
                rows[r, i] = 0.0
            continue
        s, t = mu[i] * (plus_s - minus_s), mu[i] * (plus_t - minus_t)
        span[:, :] = 0.0
        if edges == 1:
            length = np.sqrt(1.0 + s * s + t * t)
            span[0, 0], span[0, 1], span[0, 2] = 1.0 / length, s / length, t / length
        elif edges == 2 and s == 0.0 and t == 0.0:  # two opposite edges
            span[0, 0] = span[1, 1 if plus_s else 2] = 1.0
        elif edges == 2:  # two adjacent edges: their mean, and the direction across
            length, across = np.sqrt(4.0 + s * s + t * t), np.sqrt(s * s + t * t)
            span[0, 0], span[0, 1], span[0, 2] = 2.0 / length, s / length, t / length
            span[1, 1], span[1, 2] = s / across, -t / across
        for r in range(rows.shape[0]):
            a, b, c = rows[r, i], rows[r, n + i], rows[r, 2 * n + i]
            rows[r, i] = rows[r, n + i] = rows[r, 2 * n + i] = 0.0
            for j in range(edges):
                along = a * span[j, 0] + b * span[j, 1] + c * span[j, 2]
                for axis in range(3):
                    rows[r, axis * n + i] += along * span[j, axis]


@linked
@njit(cache=True, inner=True, error_model="numpy")
def reduce_kernel(
    rho: Array, x: Array, T: Array, t: Array, cone: Integers, mu: Array, weight: Array, arena: Arena
) -> Reduced:
    """Reduce the program of this module to orthonormal coordinates of the impulses.

    Args:
        rho: ρ, shape (3 n, k).
        x: The motion, shape (k,). Components outside the spans are dropped.
        T: Torque of the impulses, shape (p, 3 n).
        t: Torque at zero impulse, shape (p,).
        cone: Edges of each contact's cone (`ALL_EDGES`), or `PRESSES`, shape (n,).
        mu: Friction coefficients, the slopes of the edges, shape (n,).
        weight: Weights w, shape (n,).
        arena: Arena for all arrays.
    """
    n3, k = rho.shape
    n, p = n3 // 3, T.shape[0]
    q = k + p
    rows, R, order, scale = matrix(arena, q, n3), matrix(arena, q, q), indices(arena, q), vector(arena, n3)
    for i in range(n):
        scale[i] = scale[n + i] = scale[2 * n + i] = 1.0 / np.sqrt(weight[i])
    for r in range(n3):
        for d in range(k):
            rows[d, r] = rho[r, d] * scale[r]
    for a in range(p):
        for r in range(n3):
            rows[k + a, r] = T[a, r] * scale[r]
    _onto_spans(rows, cone, mu, arena)
    R[:, :] = 0.0
    fixed = _orthogonalize(rows, 0, k, 0, MOTION_RANK_TOLERANCE, R, order)
    rank = _orthogonalize(rows, k, q, fixed, TORQUE_RANK_TOLERANCE, R, order)
    moving, rest, along = zeros(arena, n3), vector(arena, p), vector(arena, fixed)
    for j in range(fixed):
        missing = x[order[j]]
        for i in range(j):
            missing -= R[order[j], i] * along[i]
        along[j] = missing / R[order[j], j]
        add(moving, along[j], rows[order[j]])
    torque = matrix(arena, p, rank - fixed)
    for a in range(p):
        rest[a] = t[a]
        for j in range(fixed):
            rest[a] += R[k + a, j] * along[j]
        for j in range(fixed, rank):
            torque[a, j - fixed] = R[k + a, j]
    return Reduced(moving, rows, order[fixed:rank], scale, torque, rest, R, order, along)


@njit(cache=True, inner=True, error_model="numpy")
def impulses(reduced: Reduced, free: Array, out: Array) -> None:
    """Write the impulses at the free coordinates `free` (f,) into `out` (3 n,)."""
    for r in range(out.shape[0]):
        out[r] = reduced.moving[r]
    for j in range(free.shape[0]):
        add(out, free[j], reduced.rows[reduced.order[j]])
    for r in range(out.shape[0]):
        out[r] *= reduced.scale[r]


@njit(cache=True, inner=True, error_model="numpy")
def in_cones(y: Array, cone: Integers, mu: Array) -> bool:
    """True if impulses (3 n,) lie in their cones, up to rounding; each must lie in the span of its cone."""
    n, slack = mu.shape[0], 0.0
    for r in range(y.shape[0]):
        slack = max(slack, INSIDE * abs(y[r]))
    for i in range(n):
        normal, s, t = y[i], y[n + i], y[2 * n + i]
        if not normal >= -slack:
            return False
        if cone[i] == PRESSES:
            continue
        if abs(s) + abs(t) > mu[i] * normal + slack:
            return False
        if (s > slack and not cone[i] & 1) or (s < -slack and not cone[i] & 2):
            return False
        if (t > slack and not cone[i] & 4) or (t < -slack and not cone[i] & 8):
            return False
    return True


@njit(cache=True, inner=True, error_model="numpy")
def _nearest(point: Array, mu: float, cone: int, along: Array) -> int:
    """Overwrite `point` (3,) with the nearest point of a cone; return the edges of its face.

    `along` is scratch, shape (4,).
    """
    normal, s, t = point[0], point[1], point[2]
    if cone == PRESSES:
        point[0] = max(normal, 0.0)
        return PRESSES if normal >= 0.0 else HOLDS
    count = 0
    for edge in range(4):
        along[edge] = -np.inf
        if cone >> edge & 1:
            along[edge] = normal + mu * (1.0 - 2.0 * (edge & 1)) * (s if edge < 2 else t)
            count += 1
    if count > 2 and abs(s) + abs(t) <= mu * normal:
        inside = True
        for edge in range(4):
            beyond = (s if edge < 2 else t) * (1.0 - 2.0 * (edge & 1))
            inside = inside and (along[edge] > -np.inf or beyond <= 0.0)
        if inside:
            return cone
    # the nearest point is Σ α_e e with α ≥ 0 over at most two edges, if the remainder has no positive component along
    # any edge
    square, opposite = 1.0 + mu * mu, 1.0 - mu * mu
    face, least, a, b = 0, 0.0, 0.0, 0.0
    for edge in range(4):
        least = max(least, along[edge])
    for first in range(4):
        for second in range(first, 4):
            if min(along[first], along[second]) == -np.inf:
                continue
            one, other = along[first] / square, 0.0
            if second > first:
                between = opposite if first // 2 == second // 2 else 1.0
                determinant = square * square - between * between
                if not determinant > 0.0:
                    continue
                one = (square * along[first] - between * along[second]) / determinant
                other = (square * along[second] - between * along[first]) / determinant
            worst = square * max(-one, -other)
            for edge in range(4):
                if along[edge] > -np.inf and edge != first and edge != second:
                    excess = along[edge] - one * (opposite if edge // 2 == first // 2 else 1.0)
                    worst = max(worst, excess - other * (opposite if edge // 2 == second // 2 else 1.0))
            if worst < least:
                least, face, a, b = worst, 1 << first | 1 << second, one, other
    point[0], point[1], point[2] = 0.0, 0.0, 0.0
    for edge in range(4):
        if face >> edge & 1:
            share = max(a, 0.0)
            a = b  # the later of two edges
            point[0] += share
            point[1 + edge // 2] += share * mu * (1.0 - 2.0 * (edge & 1))
    return face


class ManyContacts(NamedTuple):
    """The program of the module.

    Attributes:
        rho: ρ, shape (3 n, k).
        x: The motion, shape (k,).
        T: Torque of the impulses, shape (p, 3 n).
        t: Torque at zero impulse, shape (p,).
        cone: Edges of each contact's cone, or `PRESSES`, shape (n,).
        mu: Friction coefficients, shape (n,).
        weight: Weights w, shape (n,).
    """

    rho: Array
    x: Array
    T: Array
    t: Array
    cone: Integers
    mu: Array
    weight: Array


class Multipliers(NamedTuple):
    """Multipliers of the motion λ (k,) and of the torque z (p,), and ``ρ λ - Tᵀz``, shape (3 n,).

    Projected onto the cones, the last vector is w y.
    """

    motion: Array
    torque: Array
    asked: Array


@njit(cache=True, inner=True, error_model="numpy")
def _slope(many: ManyContacts, now: Multipliers, to: Multipliers, step: float, face: Integers, arena: Arena) -> float:
    """Return the derivative of the dual program at the fraction `step` of the path from multipliers `now` to `to`.

    The faces at that point are written into `face` (n,).
    """
    at, n = mark(arena), many.mu.shape[0]
    point, along = vector(arena, 3), vector(arena, 4)
    slope = 0.0
    for i in range(n):
        for axis in range(3):
            r = axis * n + i
            point[axis] = now.asked[r] + step * (to.asked[r] - now.asked[r])
        face[i] = _nearest(point, many.mu[i], many.cone[i], along)
        for axis in range(3):
            r = axis * n + i
            slope += point[axis] / many.weight[i] * (to.asked[r] - now.asked[r])
    for d in range(many.x.shape[0]):
        slope -= many.x[d] * (to.motion[d] - now.motion[d])
    for a in range(many.t.shape[0]):
        change = to.torque[a] - now.torque[a]
        slope += (now.torque[a] + step * change - many.t[a]) * change
    release(arena, at)
    return slope


@linked
@njit(cache=True, inner=True, error_model="numpy")
def turn_to_faces(
    many: ManyContacts, reduced: Reduced, now: Multipliers, z: Array, face: Integers, arena: Arena
) -> int:
    """Move multipliers towards the solution on their current faces, as far as the dual program decreases.

    Args:
        many: The whole program.
        reduced: The program with the spans of the faces.
        now: In and out, the multipliers.
        z: Torque of the solution on the faces, shape (p,).
        face: In and out, edges of the faces, shape (n,).
        arena: Arena for all arrays.

    Returns:
        Number of contacts whose face differs at the multipliers of this solution. 0 means that the solution solves the
        whole program; -1, that the dual program does not decrease towards it.
    """
    n3, k = many.rho.shape
    n, p, R, basis, fixed = n3 // 3, z.shape[0], reduced.R, reduced.basis, reduced.along.shape[0]
    to, turned = Multipliers(zeros(arena, k), z, zeros(arena, n3)), indices(arena, n)
    for j in range(fixed - 1, -1, -1):
        missing = reduced.along[j]
        for a in range(p):
            missing += z[a] * R[k + a, j]
        for i in range(j + 1, fixed):
            missing -= to.motion[basis[i]] * R[basis[i], j]
        to.motion[basis[j]] = missing / R[basis[j], j]
    for a in range(p):
        add(to.asked, -z[a], many.T[a])
    for r in range(n3):
        for d in range(k):
            to.asked[r] += many.rho[r, d] * to.motion[d]
    first = _slope(many, now, to, 0.0, turned, arena)
    low, high, step = 0.0, 1.0, 1.0
    slope = _slope(many, now, to, step, turned, arena)
    changed = 0
    for i in range(n):
        changed += 1 if turned[i] != face[i] else 0
    if changed == 0:  # the solution on these faces solves the whole program
        return 0
    if not first < 0.0:
        return -1
    if slope > FLAT * -first:  # the slope becomes positive before the end of the path
        for _ in range(HALVINGS):
            low, high = (low, step) if slope > 0.0 else (step, high)
            step = 0.5 * (low + high)
            slope = _slope(many, now, to, step, turned, arena)
            if abs(slope) <= LEVEL * -first:
                break
    for d in range(k):
        now.motion[d] += step * (to.motion[d] - now.motion[d])
    for a in range(p):
        now.torque[a] += step * (z[a] - now.torque[a])
    for r in range(n3):
        now.asked[r] += step * (to.asked[r] - now.asked[r])
    assign(face, turned)
    return changed
