"""Newton's method on the equations of circular cones, from one starting point."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from idcontrol.kernels.arena import Arena, indices, mark, matrix, release, vector
from idcontrol.kernels.jit import njit
from idcontrol.kernels.linear import assign, solve_in_place
from idcontrol.kernels.linked import linked
from idcontrol.models.coulomb_cone.equations import Cones, velocities, violation
from idcontrol.solvers.status import TOLERANCE
from idcontrol.types import Array, Integers

STEPS: Final = 20
"""Largest number of Newton steps from one starting point. Most starts need two to six."""
PROXIMAL: Final = 1e-8
"""Weight on the change of the balanced impulses, relative to the mean diagonal of their matrix. If impulses are not
unique, the first Newton step takes the smallest ones, and later steps stay close to them. The error caused by the
weight shrinks with each step.
"""
EXACT: Final = 1e-12
"""Residual at which Newton's method stops."""
IMMOVABLE: Final = 1e-12
"""A contact gets no impulse if its mobility along the normal is below this fraction of its mean mobility."""
LARGE: Final = 64
"""Number of unknowns above which LAPACK is faster than `solve_in_place`."""
PRESSES: Final = 1
SLIDES: Final = 2


class Modes(NamedTuple):
    """Mode of each contact, and the direction of friction if it slides.

    Attributes:
        kind: 0, `PRESSES` or `PRESSES | SLIDES`, shape (n,).
        d: Directions of friction at contacts that slide, shape (n, 2).
        share: Factors a of sliding contacts in the equations of `newton_step`, shape (n,).
    """

    kind: Integers
    d: Array
    share: Array


@njit(cache=True, inner=True, error_model="numpy")
def newton_step(p: Cones, proximal: float, m: Modes, f: Array, arena: Arena) -> bool:  # pragma: no cover - compiled
    """Overwrite f with the solution of the equations for fixed modes, which are linear in f; return False if it fails.

    A sticking contact has u = 0. A sliding contact has u_N = 0, d·f_T = μ f_N and, along e perpendicular to d, (1 - a)
    e·f_T + a e·u_T = 0, the derivative of the projection with factor a.

    Args:
        p: The problem.
        proximal: Weight on the change of f.
        m: The modes.
        f: In and out, shape (3 n,).
        arena: Arena for all arrays.
    """
    n, at = m.kind.shape[0], mark(arena)
    members = indices(arena, 3 * n)
    count = 0
    for i in range(n):
        if m.kind[i] and p.G[i, i] > IMMOVABLE:
            for axis in range(3):
                members[count] = axis * n + i
                count += 1
    A = matrix(arena, count, count + 1)
    for r in range(count):
        row = members[r]
        for q in range(count):
            A[r, q] = p.G[row, members[q]]
        A[r, r] += proximal
        A[r, count] = proximal * f[row] - p.c[row]
    for r in range(0, count, 3):
        i = members[r]
        if m.kind[i] & SLIDES:
            d_s, d_t, a = m.d[i, 0], m.d[i, 1], m.share[i]
            for q in range(count + 1):
                A[r + 2, q] = a * (d_s * A[r + 2, q] - d_t * A[r + 1, q])
                A[r + 1, q] = 0.0
            A[r + 2, r + 1] -= (1.0 - a) * d_t
            A[r + 2, r + 2] += (1.0 - a) * d_s
            steep = max(1.0, p.mu[i])
            A[r + 1, r], A[r + 1, r + 1], A[r + 1, r + 2] = -p.mu[i] / steep, d_s / steep, d_t / steep
    solved = _solve_large(A) if count > LARGE else solve_in_place(A, count)
    if solved:
        f[:] = 0.0
        for r in range(count):
            f[members[r]] = A[r, count]
    release(arena, at)
    return solved


@njit(cache=True, inner=True, error_model="numpy")
def _solve_large(A: Array) -> bool:  # pragma: no cover - compiled
    """Solve A as `solve_in_place` does, by LAPACK, which is faster for more than `LARGE` unknowns."""
    n = A.shape[0]
    try:
        assign(A[:, n], np.linalg.solve(np.ascontiguousarray(A[:, :n]), np.ascontiguousarray(A[:, n])))
    except Exception:  # Numba raises no other error here: A is singular, or not finite
        return False
    return True


@njit(cache=True, inner=True, error_model="numpy")
def write_modes(p: Cones, f: Array, u: Array, bold: bool, m: Modes) -> None:  # pragma: no cover - compiled
    """Write the modes at f and u, for `newton_step`.

    If friction cannot change the slip, it acts against the slip with its largest magnitude.

    For a creeping contact, f - u does not show the direction of slip. If `bold`, the factor r of f - r u gives slip and
    friction the same weight. The bold version solves problems with creeping contacts but fails on others, so both
    versions are tried alternately.
    """
    n = m.kind.shape[0]
    for i in range(n):
        m.kind[i] = 0
        if f[i] > u[i]:
            m.kind[i] = PRESSES
            y_s, y_t = f[n + i] - u[n + i], f[2 * n + i] - u[2 * n + i]
            radius = p.mu[i] * max(f[i], 0.0)
            if (
                p.G[n + i, n + i] + p.G[2 * n + i, 2 * n + i] == 0.0
                and np.hypot(u[n + i], u[2 * n + i]) > p.roundoff[i]
            ):
                y_s, y_t, radius = -u[n + i], -u[2 * n + i], 0.0
            length = np.hypot(y_s, y_t)
            if length > radius or p.mu[i] == 0.0:
                m.kind[i] |= SLIDES
                slip, r = np.hypot(u[n + i], u[2 * n + i]), 1.0
                if bold and 0.0 < slip < radius:
                    r = radius / slip
                    y_s, y_t = f[n + i] - r * u[n + i], f[2 * n + i] - r * u[2 * n + i]
                    length = np.hypot(y_s, y_t)
                m.d[i, 0], m.d[i, 1] = (y_s / length, y_t / length) if length > 0.0 else (1.0, 0.0)
                a = min(radius / length, 1.0) if length > 0.0 else 0.0
                m.share[i] = a * r / (1.0 - a + a * r)


@linked
@njit(cache=True, inner=True, error_model="numpy")
def newton(p: Cones, bold: bool, m: Modes, f: Array, arena: Arena) -> tuple[int, float]:  # pragma: no cover - compiled
    """Run Newton's method from initial modes; write the best f and its modes.

    `bold` selects the factor r (`write_modes`). Returns the number of steps and the residual.
    """
    at = mark(arena)
    trial, u = vector(arena, f.shape[0]), vector(arena, f.shape[0])
    assign(trial, f)
    best, steps = np.inf, 0
    while steps < STEPS and newton_step(p, PROXIMAL, m, trial, arena):
        steps += 1
        velocities(p, trial, u)
        residual = violation(p, trial, u, False)
        if residual > max(TOLERANCE, 0.1 * best):  # not converged, unless the residual is within rounding
            residual = violation(p, trial, u, True)
        write_modes(p, trial, u, bold, m)
        stalls = best <= TOLERANCE and residual > 0.1 * best
        if residual < best:
            best = residual
            assign(f, trial)
        if best <= EXACT or stalls:
            break
    velocities(p, f, u)
    write_modes(p, f, u, bold, m)
    if best > TOLERANCE:
        best = min(best, violation(p, f, u, True))
    release(arena, at)
    return steps, best
