r"""The friction LCP: normal impulses, and tangential impulses within friction pyramids (math.md, sections 5 and 11.3).

    ⎡ NΓNᵀ + C_n   NΓFᵀ                     0 ⎤ ⎡f_N⎤   ⎡c_N⎤   ⎡w_N⎤
    ⎢ FΓNᵀ         FΓFᵀ + C_t [I -I; -I I]  E ⎥ ⎢f_F⎥ + ⎢c_F⎥ = ⎢w_F⎥ ,   0 ≤ z ⊥ w ≥ 0
    ⎣ diag μ       -Eᵀ                      0 ⎦ ⎣ λ ⎦   ⎣ 0 ⎦   ⎣w_λ⎦

with Γ the response of the velocities to impulses (M⁻¹ in forward mode) and F = [S; -S; T; -T]. The columns of E sum
each contact's four edges; λ is the slip speed of a contact. The friction pyramid is the inscribed diamond |f_S| + |f_T|
≤ μ f_N. C_n and C_t are the compliances of the contacts along normals and tangents: zero for rigid contacts
(`idcontrol.models.coulomb`), positive for springs and dampers (`idcontrol.models.constraint`).

Of the n contacts, t are *frictional*; the others have no tangential unknowns. The unknowns are in the order
z = (f_N, f_+S, f_-S, f_+T, f_-T, λ); f_N has size n, every other block size t.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numba import types

from idcontrol.kernels.arena import HEAP, Arena, indices, mark, matrix, release, vector, zeros
from idcontrol.kernels.jit import njit
from idcontrol.kernels.linear import assign, solve_in_place
from idcontrol.kernels.linked import late, linked
from idcontrol.solvers.lcp import lost, missed, row_rounding
from idcontrol.solvers.lemke import lemke_kernel
from idcontrol.solvers.status import INACCURATE, SOLVED, TOLERANCE
from idcontrol.types import Array, Integers

RESTARTS: Final = 12
"""Least number of covering vectors to try after a failure; with more contacts, one vector per contact is tried. About
one vector in four finds a solution that the first vector missed; with dozens of contacts, one in twenty.
"""
SPREAD: Final = 1.5
"""Log-normal spread of the entries of covering vectors in `restarted`."""

REFINEMENTS: Final = 5
"""Limit of linear systems solved to refine an answer; two usually suffice."""
PROXIMAL: Final = 1e-7
"""Weight on the change of impulses in the linear systems of `_refined`, for dependent rows; the diagonal is 1."""
INSIDE: Final = 1.0 - 1e-6
"""Fraction of the friction pyramid within which a contact counts as sticking in `_refined`."""

MOST_RETRIED: Final = 64
"""Largest number of contacts for restarts and for the search over modes. With more contacts, one run takes a second,
and the search completes too few branches.
"""


class FrictionLcp(NamedTuple):
    """The LCP of the module for n contacts, of which t are frictional.

    Attributes:
        Q: Matrix, shape (n + 5 t, n + 5 t).
        r: Constants, shape (n + 5 t,).
        scale: Balancing factors of the unknowns (math.md, section 13.2), shape (n + 5 t,).
        frictional: The contacts with tangential unknowns, shape (t,).
    """

    Q: Array
    r: Array
    scale: Array
    frictional: Integers


@njit(cache=True, inner=True, error_model="numpy")
def frictional_contacts(mu: Array, arena: Arena) -> Integers:  # pragma: no cover - compiled
    """Return the contacts whose friction coefficient is finite and not zero."""
    out: Integers = indices(arena, mu.shape[0])
    count = 0
    for i in range(mu.shape[0]):
        if 0.0 < mu[i] < np.inf:
            out[count] = i
            count += 1
    return out[:count]


@njit(cache=True)
def assemble(
    rho: Array, c: Array, compliance: Array, mu: Array, frictional: Integers, arena: Arena
) -> FrictionLcp:  # pragma: no cover - compiled
    """Assemble Q and r with a scale of ones (see `balance_contacts` and `balance_uniformly`).

    Args:
        rho: Whitened contact rows [N; S; T], shape (3 n, k).
        c: Velocities of the rows at zero impulse, shape (3 n,) [m/s].
        compliance: C_n, then C_t twice, shape (3 n,) [m/s per N s].
        mu: Friction coefficients, shape (n,).
        frictional: The contacts with tangential unknowns, whose friction coefficient is finite, shape (t,).
        arena: Arena for all arrays.
    """
    n, t, k = mu.shape[0], frictional.shape[0], rho.shape[1]
    impulses = n + 4 * t
    size = impulses + t
    Q, r, scale = matrix(arena, size, size), zeros(arena, size), vector(arena, size)
    Q[:], scale[:] = 0.0, 1.0
    rows = matrix(arena, impulses, k)  # rows N and F
    for i in range(n):
        assign(rows[i], rho[i])
        r[i], Q[i, i] = c[i], compliance[i]
    for j in range(t):
        for axis in range(2):
            row = (1 + axis) * n + frictional[j]
            plus, minus = n + 2 * axis * t + j, n + (2 * axis + 1) * t + j
            for a in range(k):
                rows[plus, a], rows[minus, a] = rho[row, a], -rho[row, a]
            r[plus], r[minus] = c[row], -c[row]
            Q[plus, plus] = Q[minus, minus] = compliance[row]
            Q[plus, minus] = Q[minus, plus] = -compliance[row]
    for i in range(impulses):
        for j in range(i + 1):
            s = Q[i, j]
            for a in range(k):
                s += rows[i, a] * rows[j, a]
            Q[i, j] = Q[j, i] = s
    for j in range(t):
        slip = impulses + j
        Q[slip, frictional[j]] = mu[frictional[j]]
        for edge in range(4):
            Q[n + edge * t + j, slip] = 1.0
            Q[slip, n + edge * t + j] = -1.0
    return FrictionLcp(Q, r, scale, frictional)


@njit(cache=True, inner=True, error_model="numpy")
def balance_contacts(lcp: FrictionLcp, rho: Array) -> None:  # pragma: no cover - compiled
    """Balance with one factor per contact, computed from the rows `rho` (3 n, k); each cone keeps its shape.

    math.md, section 13.2, uses one factor for all contacts. One factor per contact also handles very different masses,
    and takes a tenth fewer pivots.
    """
    scale, frictional = lcp.scale, lcp.frictional
    n, t, k = rho.shape[0] // 3, frictional.shape[0], rho.shape[1]
    largest = 0.0
    for i in range(n):
        square = 0.0
        for row in (i, n + i, 2 * n + i):
            for a in range(k):
                square += rho[row, a] * rho[row, a] / 3.0
        scale[i] = 1.0 / np.sqrt(square) if square > 0.0 else 0.0
        largest = max(largest, scale[i])
    for i in range(n):
        if scale[i] == 0.0:
            scale[i] = largest if largest > 0.0 else 1.0
    for j in range(t):
        for edge in range(4):
            scale[n + edge * t + j] = scale[frictional[j]]
        scale[n + 4 * t + j] = 1.0 / scale[frictional[j]]  # leaves E and μ unchanged


@njit(cache=True, inner=True, error_model="numpy")
def balance_uniformly(lcp: FrictionLcp, arena: Arena) -> None:  # pragma: no cover - compiled
    """Balance with one factor for all contacts, the median of the diagonal (math.md, section 13.2)."""
    impulses = lcp.r.shape[0] - lcp.frictional.shape[0]
    diagonal = vector(arena, impulses)
    for i in range(impulses):
        diagonal[i] = lcp.Q[i, i]
    diagonal.sort()
    typical = 0.5 * (diagonal[(impulses - 1) // 2] + diagonal[impulses // 2]) if impulses else 0.0
    factor = 1.0 / np.sqrt(typical) if typical > 0.0 else 1.0
    lcp.scale[:impulses] = factor
    lcp.scale[impulses:] = 1.0 / factor


class Unbalanced(NamedTuple):
    """The problem without balancing, for `judged`; fields are as in `assemble` and `Whitened`."""

    rho: Array
    c: Array
    roundoff: Array
    compliance: Array
    mu: Array
    frictional: Integers


@njit(cache=True, inner=True, error_model="numpy")
def _velocity(
    problem: Unbalanced, f: Array, y: Array, row: int, roundoff: float
) -> tuple[float, float, float]:  # pragma: no cover - compiled
    """Return the velocity of a row, its unit (its value at zero impulse plus the net change), and its mobility.

    The unit is increased so that the rounding bound `roundoff` is within the tolerance.
    """
    rho, c = problem.rho, problem.c
    own = problem.compliance[row] * f[row]
    change, mobility = own, problem.compliance[row]
    for d in range(y.shape[0]):
        change += rho[row, d] * y[d]
        mobility += rho[row, d] * rho[row, d]
    return c[row] + change, abs(c[row]) + abs(change - own) + abs(own) + roundoff / TOLERANCE, mobility


@njit(cache=True, inner=True, error_model="numpy")
def _roundoff(problem: Unbalanced, f: Array, y: Array, i: int) -> float:  # pragma: no cover - compiled
    """Bound the rounding error in the velocity of contact i, along its worst axis [m/s]."""
    n, roundoff = problem.mu.shape[0], 0.0
    for row in (i, n + i, 2 * n + i):
        roundoff = max(roundoff, row_rounding(problem.rho, problem.c, problem.roundoff, f, y, row))
    return roundoff


@njit(cache=True, error_model="numpy")
def judged(problem: Unbalanced, f: Array, arena: Arena) -> float:  # pragma: no cover - compiled
    """Return the violation of the law by impulses f (3 n,) or, if larger, the fraction `lost` to rounding.

    The residual of the LCP's unknowns would be different: balancing scales the velocity of a heavy body like its
    momentum, and opposite edges may cancel to less than their rounding error.
    """
    at, k = mark(arena), problem.rho.shape[1]
    y = zeros(arena, k)
    for row in range(f.shape[0]):
        if f[row] != 0.0:
            for d in range(k):
                y[d] += problem.rho[row, d] * f[row]
    worst = max(violation(problem, f, y), lost(problem.rho, f, y))
    release(arena, at)
    return worst


@njit(cache=True, error_model="numpy")
def violation(problem: Unbalanced, f: Array, y: Array) -> float:  # pragma: no cover - compiled
    """Return the largest violation of the law, scaled per contact (math.md, section 13.3).

    A velocity is relative to its value at zero impulse plus the net change. An impulse is relative to the largest
    impulse of its contact or, if larger, to the impulse that causes the reference velocity. A fast, distant or heavy
    contact therefore cannot hide a violation elsewhere.

    Args:
        problem: The problem; impulses of further rows also act, but these rows are not judged.
        f: Impulses of all rows, shape (rows,).
        y: ρᵀf, shape (k,).
    """
    worst = _violation(problem, f, y, False)
    if worst > TOLERANCE:  # compute the rounding bound only if the verdict depends on it
        worst = _violation(problem, f, y, True)
    return worst


@njit(cache=True, inner=True, error_model="numpy")
def _violation(problem: Unbalanced, f: Array, y: Array, rounded: bool) -> float:  # pragma: no cover - compiled
    n, worst = problem.mu.shape[0], 0.0
    for i in range(n):
        speed, unit, mobility = _velocity(problem, f, y, i, _roundoff(problem, f, y, i) if rounded else 0.0)
        worst = max(worst, missed(f[i], speed, unit, mobility))
        friction = abs(f[n + i]) + abs(f[2 * n + i])
        if problem.mu[i] == 0.0 and friction > 0.0:
            worst = max(worst, friction / max(friction, f[i]))
    for i in problem.frictional:
        rows = (n + i, 2 * n + i)
        across, mobility, slip, used = 0.0, 0.0, 0.0, 0.0
        roundoff = _roundoff(problem, f, y, i) if rounded else 0.0
        for row in rows:
            speed, unit, own = _velocity(problem, f, y, row, roundoff)
            if not np.isfinite(speed + unit + f[row]):  # `max` ignores a NaN
                return np.inf
            across, mobility, slip = max(across, unit), max(mobility, own), max(slip, abs(speed))
            used += abs(f[row])
        if across == 0.0:
            continue
        natural = across / mobility if mobility > 0.0 else 0.0
        most = problem.mu[i] * f[i]
        push = max(most, used, natural)
        if push > 0.0:
            worst = max(worst, abs(min(slip / across, (most - used) / push)))
        for row in rows:
            speed, _, _ = _velocity(problem, f, y, row, 0.0)
            along = slip + speed if f[row] > 0.0 else slip - speed
            share = abs(f[row])
            if share > 0.0:
                worst = max(worst, min(share / max(share, natural), along / across))
    return worst


@njit(cache=True, inner=True, error_model="numpy")
def contact_impulses(lcp: FrictionLcp, z: Array, f: Array) -> None:  # pragma: no cover - compiled
    """Overwrite f (3 n,) with the contact impulses [N; S; T] of a solution z."""
    n, t = f.shape[0] // 3, lcp.frictional.shape[0]
    f[:] = 0.0
    assign(f, z[:n])
    for j in range(t):
        i = lcp.frictional[j]
        if z[i] > 0.0:  # without a normal impulse, friction is a rounding error
            f[n + i] = z[n + j] - z[n + t + j]
            f[2 * n + i] = z[n + 2 * t + j] - z[n + 3 * t + j]


@njit(cache=True, inner=True, error_model="numpy")
def on_support(lcp: FrictionLcp, members: Integers, z: Array, arena: Arena) -> bool:  # pragma: no cover - compiled
    """Write z with w = Qz + r = 0 at `members` and z = 0 elsewhere; negative entries become 0.

    Return False if the equations are singular.
    """
    Q, r, scale = lcp.Q, lcp.r, lcp.scale
    count, at = members.shape[0], mark(arena)
    A = matrix(arena, count, count + 1)
    for a in range(count):
        i = members[a]
        for b in range(count):
            A[a, b] = scale[i] * Q[i, members[b]] * scale[members[b]]
        A[a, count] = -scale[i] * r[i]
    z[:] = 0.0
    solved = solve_in_place(A, count)
    for a in range(count if solved else 0):
        z[members[a]] = scale[members[a]] * max(A[a, count], 0.0)
    release(arena, at)
    return bool(solved)


@late(lambda *_: types.float64)
@njit(cache=True, inner=True, error_model="numpy")
def _refined(problem: Unbalanced, residual: float, f: Array, arena: Arena) -> float:  # pragma: no cover - compiled
    """Make the velocities zero that must be zero, by a small change of f; return the residual.

    These are the normal velocities of contacts with an impulse, and the tangential velocities of sticking contacts. f
    changes only if the residual decreases.

    Pivoting cannot distinguish velocities that differ by less than 1e-12 of the fastest approach.
    """
    at, n, rho = mark(arena), problem.mu.shape[0], problem.rho
    k = rho.shape[1]
    members, g, y, length = indices(arena, 3 * n), vector(arena, f.shape[0]), vector(arena, k), vector(arena, 3 * n)
    A = matrix(arena, 3 * n, 3 * n + 1)
    for row in range(3 * n):
        square = problem.compliance[row]
        for d in range(k):
            square += rho[row, d] * rho[row, d]
        length[row] = np.sqrt(square)
    assign(g, f)
    for _ in range(REFINEMENTS):
        y[:] = 0.0
        for row in range(g.shape[0]):
            for d in range(k):
                y[d] += rho[row, d] * g[row]
        count = 0
        for i in range(n):
            if g[i] > 0.0 and length[i] > 0.0:
                members[count] = i
                count += 1
        for i in problem.frictional:
            if abs(g[n + i]) + abs(g[2 * n + i]) < INSIDE * problem.mu[i] * g[i]:
                for row in (n + i, 2 * n + i):
                    if length[row] > 0.0:
                        members[count] = row
                        count += 1
        for a in range(count):
            row = members[a]
            velocity = problem.c[row] + problem.compliance[row] * g[row]
            for d in range(k):
                velocity += rho[row, d] * y[d]
            for b in range(count):
                entry = problem.compliance[row] if a == b else 0.0
                for d in range(k):
                    entry += rho[row, d] * rho[members[b], d]
                A[a, b] = entry / (length[row] * length[members[b]])
            A[a, a] += PROXIMAL
            A[a, count] = -velocity / length[row]
        if not solve_in_place(A, count):
            break
        for a in range(count):
            row = members[a]
            g[row] += A[a, count] / length[row]
            if row < n:
                g[row] = max(g[row], 0.0)
        smaller = judged(problem, g, arena)
        if smaller < residual:
            residual = smaller
            assign(f, g)
        if residual <= TOLERANCE:
            break
    release(arena, at)
    return residual


@linked
@njit(cache=True, error_model="numpy")
def solve_lcp(
    lcp: FrictionLcp, problem: Unbalanced, tikhonov: float, z: Array, f: Array, arena: Arena
) -> tuple[int, int, float]:  # pragma: no cover - compiled
    """Write the solution z of Lemke's method and its contact impulses f, even if the status is INACCURATE.

    If f misses the tolerance, it is refined; z is not.

    Returns:
        Status number, pivots, residual.
    """
    answer = lemke_kernel(lcp.Q, lcp.r, lcp.scale, tikhonov, 50 * (z.shape[0] + 1), arena)
    assign(z, answer.z)
    f[:] = 0.0
    if answer.status != SOLVED and answer.status != INACCURATE:
        return answer.status, answer.iterations, answer.residual
    contact_impulses(lcp, z, f)
    residual = judged(problem, f, arena)
    if not residual <= TOLERANCE:
        residual = _refined(problem, residual, f, arena)
    return SOLVED if residual <= TOLERANCE else INACCURATE, answer.iterations, residual


def restarted(lcp: FrictionLcp, problem: Unbalanced, f: Array) -> tuple[int, int, float]:
    """Write contact impulses f by Lemke's method with other covering vectors, after the first vector failed.

    Returns:
        Status number, pivots, residual. The impulses have the smallest known residual; they are zero if this residual
        is inf.
    """
    rng, pivots, n = np.random.default_rng(0), 0, problem.mu.size
    best, least, z = np.zeros_like(f), np.inf, np.empty(lcp.r.size)
    for _ in range(max(RESTARTS, n)):
        # a positive factor on each variable changes the path in the same way as a different covering vector
        factors = lcp.scale * np.exp(rng.normal(scale=SPREAD, size=z.size))
        status, more, residual = solve_lcp(lcp._replace(scale=factors), problem, 0.0, z, f, HEAP)
        pivots += more
        if status == SOLVED:
            return SOLVED, pivots, residual
        if status == INACCURATE and residual < least:
            best[:], least = f, residual
    f[:] = best
    return INACCURATE, pivots, least
