"""Refinement of a solution of the equations: to the last digits, to sticking contacts, and to smaller impulses."""

from __future__ import annotations

from typing import Final

import numpy as np

from idcontrol.kernels.arena import Arena, indices, mark, release, vector, zeros
from idcontrol.kernels.jit import njit
from idcontrol.kernels.linear import assign
from idcontrol.kernels.linked import linked
from idcontrol.models.coulomb_cone.equations import (
    Cones,
    exact_velocities,
    onto_cones,
    velocities,
    velocity_rounding,
    violation,
)
from idcontrol.models.coulomb_cone.newton import PRESSES, PROXIMAL, SLIDES, Modes, newton_step, write_modes
from idcontrol.solvers.status import TOLERANCE
from idcontrol.types import Array, Integers

REFINEMENTS: Final = 5
"""Largest number of Newton steps with exact velocities; they refine an answer that misses the tolerance."""
FINE: Final = 1e-12
"""Weight in place of `PROXIMAL` for steps with exact velocities. The error it causes is within rounding even if rows
are nearly dependent.
"""
RESTS: Final = 1e-6
"""Share of a reference speed below which a contact is at rest. The reference is the contact's speed at zero impulse
plus the speed that impulses add."""
PRESSED: Final = 10.0
"""Factor by which impulses may exceed the smallest impulses with the same motion. Larger impulses are reduced if the
cones allow it."""
PROJECTIONS: Final = 200
"""Largest number of alternating projections with which `_smallest_within` reduces impulses."""
NARROW: Final = 0.9
"""Fraction of the friction coefficient that the projections of `_smallest_within` use."""


@njit(cache=True, inner=True, error_model="numpy")
def let_stick(p: Cones, f: Array, modes: Integers, u: Array) -> bool:  # pragma: no cover - compiled
    """Change sliding contacts without motion to sticking contacts.

    For a contact at rest, friction at the edge of the cone is only one of many solutions.

    Args:
        p: The problem.
        f: A solution, shape (3 n,).
        modes: In and out, modes of the solution, shape (n,).
        u: Scratch, shape (3 n,).

    Returns:
        True if any contact was changed.
    """
    n, some = modes.shape[0], False
    velocities(p, f, u)
    for i in range(n):
        s, t = n + i, 2 * n + i
        if not (modes[i] & SLIDES and p.mu[i] > 0.0):
            continue
        change = np.hypot(p.c[s], p.c[t]) + np.hypot(u[s] - p.c[s], u[t] - p.c[t])
        if np.hypot(u[s], u[t]) <= RESTS * change + velocity_rounding(p, f, u, i):
            modes[i], some = PRESSES, True
    return some


@njit(cache=True, inner=True, error_model="numpy")
def _into_cones(p: Cones, f: Array) -> None:  # pragma: no cover - compiled
    """Move impulses back into their cones, which they may have left by rounding."""
    n = p.mu.shape[0]
    for i in range(n):
        f[i] = max(f[i], 0.0)
        used, most = np.hypot(f[n + i], f[2 * n + i]), p.mu[i] * f[i]
        if used > most:
            f[n + i] *= most / used
            f[2 * n + i] *= most / used


@njit(cache=True, inner=True, error_model="numpy")
def settle(p: Cones, m: Modes, f: Array, arena: Arena) -> float:  # pragma: no cover - compiled
    """Move f into its cones and refine it with exact velocities down to rounding; return the residual.

    When impulses cancel, the sum c + Gf and therefore the f of `newton_step` lose digits. Newton steps that solve for
    the change of f keep these digits.
    """
    n, at = p.mu.shape[0], mark(arena)
    u = vector(arena, 3 * n)
    _into_cones(p, f)
    exact_velocities(p, f, u, arena)
    least = violation(p, f, u, False)
    if least > TOLERANCE:
        g, w = vector(arena, 3 * n), vector(arena, 3 * n)
        change = Cones(p.G, u, p.mu, p.size, p.roundoff, p.fastest, p.terms, p.rho, p.exact)
        for _ in range(REFINEMENTS):
            for i in range(n):
                used = np.hypot(f[n + i], f[2 * n + i])
                if m.kind[i] & SLIDES and used > 0.0:
                    m.d[i, 0], m.d[i, 1] = f[n + i] / used, f[2 * n + i] / used
            g[:] = 0.0
            if not newton_step(change, FINE, m, g, arena):
                break
            for row in range(3 * n):
                g[row] += f[row]
            _into_cones(p, g)
            exact_velocities(p, g, w, arena)
            missing = violation(p, g, w, False)
            if not missing < least:
                break
            assign(f, g)
            assign(u, w)
            least = missing
            if least <= TOLERANCE:
                break
        if least > TOLERANCE:
            least = violation(p, f, u, True)
    release(arena, at)
    return least


@njit(cache=True, inner=True, error_model="numpy")
def _rests(p: Cones, f: Array, u: Array, i: int) -> bool:  # pragma: no cover - compiled
    """True if contact i neither slips nor opens."""
    n, speed, unit = p.mu.shape[0], 0.0, 0.0
    for row in (i, n + i, 2 * n + i):
        speed, unit = max(speed, abs(u[row])), max(unit, abs(p.c[row]) + abs(u[row] - p.c[row]))
    return bool(speed <= RESTS * unit or speed <= RESTS * unit + velocity_rounding(p, f, u, i))


@njit(cache=True, inner=True, error_model="numpy")
def _smallest_within(p: Cones, m: Modes, least: Array, arena: Arena) -> bool:  # pragma: no cover - compiled
    """Overwrite `least` (3 n,) with the smallest impulses in the cones that keep contacts at rest.

    Return True on success.

    Alternating projections (Boyle & Dykstra 1986) start at the smallest impulses without cones. The cones are narrowed
    by a tenth, so that finitely many projections reach the true cones.
    """
    projection, owed, u = zeros(arena, least.shape[0]), zeros(arena, least.shape[0]), vector(arena, least.shape[0])
    for _ in range(PROJECTIONS):
        assign(least, projection)
        if not newton_step(p, PROXIMAL, m, least, arena):
            return False
        for row in range(least.shape[0]):
            projection[row] = least[row] + owed[row]
            owed[row] = projection[row]
        onto_cones(p.mu, NARROW, projection)
        for row in range(least.shape[0]):
            owed[row] -= projection[row]
        assign(u, least)
        if onto_cones(p.mu, 1.0, u):
            return True
    return False


@linked
@njit(cache=True, inner=True, error_model="numpy")
def ease(p: Cones, m: Modes, f: Array, residual: float, arena: Arena) -> float:  # pragma: no cover - compiled
    """Replace impulses f that keep contacts at rest by much smaller impulses with the same motion, if these exist.

    The fingers around a box may press with any force, and Newton's method may end with millions of times the necessary
    force.

    Args:
        p: The problem.
        m: In and out, modes.
        f: In and out, balanced impulses, shape (3 n,).
        residual: Residual of f.
        arena: Arena for all arrays.

    Returns:
        The residual of f.
    """
    n, at = p.mu.shape[0], mark(arena)
    least, u = zeros(arena, 3 * n), vector(arena, 3 * n)
    rest = Modes(indices(arena, n), m.d, m.share)
    velocities(p, f, u)
    eases, largest, needed = True, 0.0, 0.0
    for i in range(n):
        rest.kind[i] = PRESSES if p.mu[i] > 0.0 and _rests(p, f, u, i) else 0
        eases = eases and (rest.kind[i] != 0 or f[i] == 0.0)
    if eases and newton_step(p, PROXIMAL, rest, least, arena):
        for row in range(3 * n):
            largest, needed = max(largest, abs(f[row])), max(needed, abs(least[row]))
    if largest > PRESSED * needed and _smallest_within(p, rest, least, arena) and np.abs(least).max() < largest:
        settled = settle(p, rest, least, arena)
        if settled <= TOLERANCE:
            residual = settled
            assign(f, least)
            velocities(p, f, u)
            write_modes(p, f, u, False, m)
    release(arena, at)
    return residual
