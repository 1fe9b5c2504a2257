r"""Stage II with many contacts: as many unknowns as there are motors, however many the contacts are.

The program of `idcontrol.models.distribution` in the impulses y, whose weights are w_i,

    minimize  ½ |T y + t|² + ½ Σ w_i |y_i|²      s.t.   ρᵀy = x,   y_i in the span of a cone

asks of the contacts only what they add to k motions and p torques. Where no cone is reached, the √w_i y_i are therefore
in the span of the k + p rows of ρᵀ and T, over √w_i and projected on the spans of the cones. Gram-Schmidt makes these
rows orthonormal, the motion's first, so that the motion decides its own coordinates. The torque is a dense program in
the others, at most p, which the caller solves, with bounds if there are any. A contact costs some (k + p)²
multiplications; in a program in y it costs the square of their number, and more once its matrix outgrows the cache.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numba import njit

from idcontrol.kernels.arena import Arena, indices, matrix, vector, zeros
from idcontrol.kernels.linked import linked
from idcontrol.types import Array, Integers

MOTION_RANK_TOLERANCE: Final = 1e-8
"""Relative length below which a direction of J_bᵀ depends on the others (math.md, sections 7.4 and 13.4)."""

TORQUE_RANK_TOLERANCE: Final = 1e-13
"""Relative length below which what is left of a torque's row is rounding."""

LOST: Final = 1e-2
"""A row of whose square no more than this is left is orthogonalized twice, or rounding would not be orthogonal."""

INSIDE: Final = 1e-9
"""Distance from a cone, relative to the largest impulse, that counts as rounding."""

ALL_EDGES: Final = 15
"""A friction cone with the edges +S, -S, +T, -T, which are the bits 0 to 3."""

PRESSES: Final = 16
"""The half space in which a contact without a bound on friction presses."""


class Reduced(NamedTuple):
    """Impulses that give a motion, in orthonormal coordinates β: √w y = moving + Σ β_j rows[order[j]].

    Attributes:
        moving: √w times the shortest impulses that give the motion, shape (3 n,).
        rows: Orthonormal rows, shape (k + p, 3 n).
        order: Which of them belong to the free coordinates, shape (f,).
        scale: 1/√w, shape (3 n,).
        torque: Torque of the free coordinates, shape (p, f).
        rest: Torque of `moving`, with what there is at no impulse, shape (p,).
    """

    moving: Array
    rows: Array
    order: Integers
    scale: Array
    torque: Array
    rest: Array


@njit(cache=True, error_model="numpy")
def _dot(a: Array, b: Array) -> float:
    """a·b, in four sums that do not wait for one another."""
    s0, s1, s2, s3 = 0.0, 0.0, 0.0, 0.0
    whole = a.shape[0] - a.shape[0] % 4
    for i in range(0, whole, 4):
        s0 += a[i] * b[i]
        s1 += a[i + 1] * b[i + 1]
        s2 += a[i + 2] * b[i + 2]
        s3 += a[i + 3] * b[i + 3]
    for i in range(whole, a.shape[0]):
        s0 += a[i] * b[i]
    return (s0 + s1) + (s2 + s3)


@njit(cache=True, error_model="numpy")
def _add(a: Array, factor: float, b: Array) -> None:
    """Add factor b to a, shapes (n,)."""
    for i in range(a.shape[0]):
        a[i] += factor * b[i]


@njit(cache=True, error_model="numpy")
def _orthogonalize(rows: Array, begin: int, end: int, rank: int, tolerance: float, R: Array, order: Integers) -> int:
    """Gram-Schmidt with pivoting of rows[begin:end], in place; the rows after `end` lose what is along them, too.

    Basis row j is stored as rows[order[j]]; row i was Σ_j R[i, j] rows[order[j]] and what is left of it.

    Args:
        rows: Shape (q, d).
        begin: First row that may become a basis row.
        end: Row after the last one.
        rank: Number of basis rows that there are, of which the rows from `begin` on are free.
        tolerance: A row of which no more is left than this times the longest row depends on the others.
        R: In and out, shape (q, q).
        order: In and out, shape (q,).

    Returns:
        The number of basis rows now.
    """
    first, smallest = rank, 0.0
    while rank - first < end - begin:
        best, square = -1, smallest
        for i in range(begin, end):
            size = _dot(rows[i], rows[i])
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
                along = _dot(basis, rows[order[j]])
                R[best, j] += along
                _add(basis, -along, rows[order[j]])
            square = _dot(basis, basis)
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
                R[i, rank - 1] = _dot(rows[i], basis)
                _add(rows[i], -R[i, rank - 1], basis)
    return rank


@njit(cache=True, error_model="numpy")
def _onto_spans(rows: Array, cone: Integers, mu: Array, arena: Arena) -> None:
    """Project rows (q, 3 n), in place, onto what the contacts' cones span."""
    n = mu.shape[0]
    span = matrix(arena, 2, 3)
    for i in range(n):
        plus_s, minus_s, plus_t, minus_t = cone[i] & 1, cone[i] >> 1 & 1, cone[i] >> 2 & 1, cone[i] >> 3 & 1
        edges = plus_s + minus_s + plus_t + minus_t
        if cone[i] == PRESSES or edges > 2:
            continue
        s, t = mu[i] * (plus_s - minus_s), mu[i] * (plus_t - minus_t)
        span[:, :] = 0.0
        if edges == 1:
            length = np.sqrt(1.0 + s * s + t * t)
            span[0, 0], span[0, 1], span[0, 2] = 1.0 / length, s / length, t / length
        elif edges == 2 and s == 0.0 and t == 0.0:  # opposite ones
            span[0, 0] = span[1, 1 if plus_s else 2] = 1.0
        elif edges == 2:  # their middle, and the way across
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
@njit(cache=True, error_model="numpy")
def reduce_kernel(
    rho: Array, x: Array, T: Array, t: Array, cone: Integers, mu: Array, weight: Array, arena: Arena
) -> Reduced:
    """Reduce the program of the module.

    Args:
        rho: ρ, shape (3 n, k).
        x: The motion, shape (k,). What the spans cannot give of it is left out.
        T: Torque of the impulses, shape (p, 3 n).
        t: Torque at no impulse, shape (p,).
        cone: Edges of each contact's cone (`ALL_EDGES`), or `PRESSES`, shape (n,).
        mu: Friction, the slope of the edges, shape (n,).
        weight: w, shape (n,).
        arena: Where arrays come from.
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
        _add(moving, along[j], rows[order[j]])
    torque = matrix(arena, p, rank - fixed)
    for a in range(p):
        rest[a] = t[a]
        for j in range(fixed):
            rest[a] += R[k + a, j] * along[j]
        for j in range(fixed, rank):
            torque[a, j - fixed] = R[k + a, j]
    return Reduced(moving, rows, order[fixed:rank], scale, torque, rest)


@njit(cache=True, error_model="numpy")
def impulses(reduced: Reduced, free: Array, out: Array) -> None:
    """Write the impulses with the free coordinates (f,) into out (3 n,)."""
    for r in range(out.shape[0]):
        out[r] = reduced.moving[r]
    for j in range(free.shape[0]):
        _add(out, free[j], reduced.rows[reduced.order[j]])
    for r in range(out.shape[0]):
        out[r] *= reduced.scale[r]


@njit(cache=True, error_model="numpy")
def in_cones(y: Array, cone: Integers, mu: Array) -> bool:
    """Whether impulses (3 n,), each in the span of its contact's cone, lie in that cone, to rounding."""
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
