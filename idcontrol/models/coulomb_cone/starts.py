"""Starting points of Newton's method: the last step, compliant ground, random modes, and alternating directions."""

from __future__ import annotations

from typing import Final

import numpy as np

from idcontrol.kernels.arena import Arena, mark, matrix, release, vector, zeros
from idcontrol.kernels.jit import njit
from idcontrol.kernels.linear import assign
from idcontrol.kernels.linked import linked
from idcontrol.models.coulomb_cone.equations import Cones, onto_cones, velocities
from idcontrol.models.coulomb_cone.newton import PRESSES, SLIDES, Modes, newton, write_modes
from idcontrol.models.coulomb_cone.refinement import settle
from idcontrol.solvers.status import TOLERANCE
from idcontrol.types import Array, Integers

STARTS: Final = 50
"""Number of starting points of Newton's method with at most `FEW` contacts: the contact modes of the last step, the
modes at zero impulse, compliant ground, then random modes. Every second start is `bold` (`write_modes`).
"""
FEW: Final = 12
"""Largest number of contacts with which Newton's method starts on compliant ground and from random modes. With more
contacts such starts are slow and rarely succeed; it then starts from results of alternating directions.
"""
FIRM: Final = 1e-8
"""Compliance of the ground at which `_firming` changes to rigid ground, relative to a contact's mean mobility (velocity
per impulse). The first compliance equals the mobility.
"""
CAUTION: Final = 0.03
"""Factor r of f - r u on compliant ground (Alart & Curnier 1991); any r > 0 states the same law. With this value
`_firming` solves 153 of 160 problems of a box between two fingers; with r = 1, only 99.
"""
CONTINUED: Final = 400
"""Number of Newton steps at which `_firming` gives up: three times the median in the 160 problems of `CAUTION`."""
PENALTIES: Final = (0.3, 0.1, 1.0, 0.03)
"""Penalties of the alternating directions, relative to a contact's mean mobility; they are tried in this order."""
ROUNDS: Final = 50
"""Rounds of `_approach` at each penalty; the number doubles each time all penalties have been tried."""
RELAXED: Final = 1.6
"""Over-relaxation of the rounds of `_approach` (Boyd et al. 2011, section 3.4.3)."""
APPROACHES: Final = 12
"""Number of results of alternating directions; Newton's method starts twice from each."""
TURN: Final = 1 << 20
"""Number of stored directions of friction per turn; the direction is stored in the bits above `PRESSES` and `SLIDES`.
"""


@njit(cache=True, inner=True, error_model="numpy")
def _firming(
    p: Cones, bold: bool, m: Modes, f: Array, arena: Arena
) -> tuple[int, float]:  # pragma: no cover - compiled
    """Run `newton` on compliant ground that becomes rigid step by step, for contacts that creep.

    If a box does not fit exactly between two fingers, the fingers must slip very slowly. Their friction is at its limit
    μ f_N. Newton's method converges only from velocities that differ from the solution by less than this small slip. On
    compliant ground a spring replaces the slip. Returns the number of steps and the residual.
    """
    n3, at = f.shape[0], mark(arena)
    G, g, u = matrix(arena, n3, n3), vector(arena, n3), vector(arena, n3)
    soft = Cones(G, p.c, p.mu, p.size, p.roundoff, p.fastest, p.terms, p.rho, p.exact)  # in terms of impulses g = f / r
    f[:] = 0.0
    total, residual, gives, last, less = 0, np.inf, 1.0, np.inf, 0.1
    while total < CONTINUED and less < 0.98:
        for i in range(n3):
            g[i] = f[i] / CAUTION
            for j in range(n3):
                G[i, j] = CAUTION * p.G[i, j]
            G[i, i] += CAUTION * gives
        velocities(soft, g, u)
        write_modes(soft, g, u, bold, m)
        steps, residual = newton(soft, bold, m, g, arena)
        total += steps
        if residual <= TOLERANCE:
            last, less = gives, max(less * less, 0.01)
            for i in range(n3):
                f[i] = g[i] * CAUTION
        elif last < np.inf and gives > 0.0:
            less = np.sqrt(less)
        else:
            break
        if gives == 0.0:
            break
        gives = less * last if last > FIRM else 0.0
        residual = np.inf
    release(arena, at)
    return total, residual


@linked
@njit(cache=True, inner=True, error_model="numpy")
def _approach(p: Cones, penalty: float, rounds: int, f: Array, w: Array, arena: Arena) -> None:  # pragma: no cover
    """Approach a solution by the alternating direction method of multipliers (ADMM, Boyd et al. 2011).

    With the current s = μ |w_T| e_N (Acary et al. 2011), a round is

        (ρρᵀ + σ) g = σ f + w - c - s,    f ← P(g - w/σ),    w ← w - σ (g - f)

    with P the projection onto the cones K and σ the penalty. At convergence w = u + μ |u_T| e_N.

    Args:
        p: The problem.
        penalty: σ.
        rounds: Number of rounds.
        f: In and out, impulses in K, shape (3 n,).
        w: In and out, in K*, shape (3 n,).
        arena: Arena for all arrays.
    """
    n, at = p.mu.shape[0], mark(arena)
    A, right = matrix(arena, 3 * n, 3 * n), vector(arena, 3 * n)
    for i in range(3 * n):
        for j in range(3 * n):
            A[i, j] = p.G[i, j]
        A[i, i] += penalty
    try:
        inverse = np.ascontiguousarray(np.linalg.inv(A))
    except Exception:  # Numba raises no other error here: A is not finite
        rounds, inverse = 0, np.ascontiguousarray(A)
    for _ in range(rounds):
        for row in range(3 * n):
            right[row] = penalty * f[row] + w[row] - p.c[row]
        for i in range(n):
            right[i] -= p.mu[i] * np.hypot(w[n + i], w[2 * n + i])
        g = np.dot(inverse, right)
        for row in range(3 * n):
            g[row] = RELAXED * g[row] + (1.0 - RELAXED) * f[row]
            f[row] = g[row] - w[row] / penalty
        onto_cones(p.mu, 1.0, f)
        for row in range(3 * n):
            w[row] -= penalty * (g[row] - f[row])
    release(arena, at)


@njit(cache=True, inner=True, error_model="numpy")
def _guess(seed: int, m: Modes) -> int:  # pragma: no cover - compiled
    """Write random modes and directions; return the next seed (Park & Miller 1988)."""
    for i in range(m.kind.shape[0]):
        seed = seed * 16807 % 2147483647
        x = 3.0 * seed / 2147483647.0
        m.kind[i] = PRESSES | SLIDES if x > 2.0 else np.int64(x)
        m.d[i, 0], m.d[i, 1], m.share[i] = np.cos(2.0 * np.pi * x), np.sin(2.0 * np.pi * x), 0.0
    return seed


@njit(cache=True, inner=True, error_model="numpy")
def _recall(active: Integers, m: Modes) -> None:  # pragma: no cover - compiled
    """Restore the modes that `memory_of` stored in `active`, shape (n,)."""
    for i in range(active.shape[0]):
        angle = 2.0 * np.pi * (active[i] >> 2) / TURN
        m.kind[i], m.d[i, 0], m.d[i, 1] = active[i] & (PRESSES | SLIDES), np.cos(angle), np.sin(angle)


@njit(cache=True, inner=True, error_model="numpy")
def memory_of(m: Modes, i: int) -> int:  # pragma: no cover - compiled
    """Return the mode and direction of contact i as one number."""
    if not m.kind[i] & SLIDES:
        return m.kind[i]
    turn = np.int64(np.round((np.arctan2(m.d[i, 1], m.d[i, 0]) / (2.0 * np.pi) + 1.0) * TURN)) % TURN
    return m.kind[i] | turn << 2


@njit(cache=True, inner=True, error_model="numpy")
def try_starts(
    p: Cones, active: Integers, f: Array, m: Modes, z: Array, arena: Arena
) -> tuple[int, int, float]:  # pragma: no cover - compiled
    """Start Newton's method from several points in turn, until the problem is solved or no point is left.

    The points are `active`, then f, then, only if f is zero, other points. With few contacts the other points are
    compliant ground and random modes; with many contacts they are the results of alternating directions.

    Args:
        p: The problem.
        active: As in `cone_kernel`.
        f: Balanced impulses, zero or a start, shape (3 n,).
        m: Result, modes.
        z: Result, balanced impulses, shape (3 n,).
        arena: Arena for all arrays.

    Returns:
        Number of starts, number of Newton steps, residual.
    """
    n, remembers, begun = p.mu.shape[0], active.any(), f.any()
    starts, seed, total, residual = 0, 1, 0, np.inf
    rigid = 1 + int(begun) + 2 * int(remembers)  # number of starts from `active` and f
    most, u = rigid if begun else STARTS if n <= FEW else rigid + 2 * APPROACHES, vector(arena, 3 * n)
    projection, w = zeros(arena, 3 * n), zeros(arena, 3 * n)
    while residual > TOLERANCE and starts < most:
        assign(z, f)
        bold = starts % 2 == 1
        if remembers and starts < 2:
            _recall(active, m)
        elif starts < rigid or n > FEW:
            approach, again = divmod(starts - rigid, 2)
            if approach >= 0 and not again:
                rounds = ROUNDS << (approach // len(PENALTIES))
                _approach(p, PENALTIES[approach % len(PENALTIES)], rounds, projection, w, arena)
            if approach >= 0:
                assign(z, projection)
            velocities(p, z, u)
            write_modes(p, z, u, bold, m)
        elif starts > rigid + 1:
            seed = _guess(seed, m)
        if n <= FEW and rigid <= starts <= rigid + 1:
            steps, residual = _firming(p, bold, m, z, arena)
        else:
            steps, residual = newton(p, bold, m, z, arena)
        if residual <= TOLERANCE:
            residual = settle(p, m, z, arena)
        starts, total = starts + 1, total + steps
    return starts, total, residual


@njit(cache=True, inner=True, error_model="numpy")
def start_from_zero(
    p: Cones, bold: bool, residual: float, m: Modes, f: Array, arena: Arena
) -> tuple[int, float]:  # pragma: no cover - compiled
    """Run Newton's method from zero impulses and the modes `m`; replace f by the solution if it converges.

    The next time step also starts from zero impulses. Among impulses that are not unique, the choice therefore does not
    depend on the history. Returns the number of steps and the residual.
    """
    z, u = zeros(arena, f.shape[0]), vector(arena, f.shape[0])
    m.share[:] = 0.0
    steps, smallest = newton(p, bold, m, z, arena)
    if smallest <= TOLERANCE:
        smallest = settle(p, m, z, arena)
    if smallest <= TOLERANCE:
        residual = smallest
        assign(f, z)
    else:
        velocities(p, f, u)
        write_modes(p, f, u, bold, m)
    return steps, residual
