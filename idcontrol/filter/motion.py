r"""The motion that known motor impulses cause: velocities as functions of the contact impulses.

The inertia is factored as ``M = Hᵀ H`` with a lower triangular H (Featherstone 2008, section 6.5). If a body's index is
larger than its parent's, entries between different branches of the tree stay exactly zero, and loops skip them. So
joints of the arms do not count for contacts of the feet.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from idcontrol.controllers.step import AssembledStep
from idcontrol.kernels.arena import Arena, indices, matrix, vector, zeros
from idcontrol.kernels.jit import njit
from idcontrol.kernels.lanes import dot
from idcontrol.kernels.linear import add, assign
from idcontrol.models.step import PUSH_OUT_SPEED
from idcontrol.solvers.lcp import rounding
from idcontrol.types import Array


class Motion(NamedTuple):
    """The motion for known motor impulses: v⁺ = v_free + W f, and contacts have the velocities c + ρ ρᵀ f.

    Contact velocities are relative to the surface. Normal velocities include the gap divided by the period, but at
    least -`PUSH_OUT_SPEED`.

    Attributes:
        H: Lower factor of the inertia, M = Hᵀ H, shape (m, m); entries above the diagonal are not written.
        W: M⁻¹Jᵀ, shape (m, 3 n).
        rho: The columns of (H⁻ᵀJᵀ)ᵀ that are not zero, shape (3 n, k).
        v_free: Velocity at zero contact impulse, shape (m,).
        c: Contact velocities at zero impulse, shape (3 n,) [m/s].
        roundoff: Rounding bounds of c, shape (3 n,) [m/s].
    """

    H: Array
    W: Array
    rho: Array
    v_free: Array
    c: Array
    roundoff: Array


@njit(cache=True, inner=True, error_model="numpy")
def _factor(M: Array, H: Array) -> None:
    """Write H (m, m) of M = Hᵀ H; it gets NaN if M is not positive definite."""
    m = M.shape[0]
    for i in range(m):
        assign(H[i], M[i, : i + 1])
    for i in range(m - 1, -1, -1):
        H[i, i] = np.sqrt(H[i, i])
        for j in range(i):
            H[i, j] /= H[i, i]
        for j in range(i):
            if H[i, j] != 0.0:
                add(H[j, : j + 1], -H[i, j], H[i, : j + 1])


@njit(cache=True, inner=True, error_model="numpy")
def accelerate(H: Array, x: Array) -> None:
    """Overwrite momenta x (m,) with the velocities M⁻¹x."""
    m = x.shape[0]
    for i in range(m - 1, -1, -1):
        if x[i] != 0.0:
            x[i] /= H[i, i]
            add(x[:i], -x[i], H[i, :i])
    for i in range(m):
        x[i] = (x[i] - dot(H[i, :i], x[:i])) / H[i, i]


@njit(cache=True, inner=True, error_model="numpy")
def _whiten(H: Array, W: Array, arena: Arena) -> Array:
    """Overwrite W = Jᵀ, shape (m, 3 n), with M⁻¹Jᵀ; return ρ."""
    (m, rows), used, k = W.shape, indices(arena, W.shape[0]), 0
    for i in range(m - 1, -1, -1):
        if not W[i].any():
            continue
        used[k] = i
        k += 1
        for r in range(rows):
            W[i, r] /= H[i, i]
        for j in range(i):
            if H[i, j] != 0.0:
                add(W[j], -H[i, j], W[i])
    rho = matrix(arena, rows, k)
    for r in range(rows):
        for d in range(k):
            rho[r, d] = W[used[d], r]
    for i in range(m):
        for j in range(i):
            if H[i, j] != 0.0:
                add(W[i], -H[i, j], W[j])
        for r in range(rows):
            W[i, r] /= H[i, i]
    return rho


@njit(cache=True, inner=True, error_model="numpy")
def free_motion(p: AssembledStep, impulse: Array, arena: Arena) -> Motion:
    """Return the motion for motor impulses (a,), with the joints free; rounding bounds as in `models.whitened`."""
    M, J, m, rows = p.w.M, p.contacts.jacobian, p.w.M.shape[0], 3 * p.which.shape[0]
    u, n = m - impulse.shape[0], p.which.shape[0]
    H, W, v, terms = matrix(arena, m, m), matrix(arena, m, rows), vector(arena, m), vector(arena, m)
    c, roundoff, factored = zeros(arena, rows), zeros(arena, rows), 0.0
    _factor(M, H)
    for i in range(m):
        v[i] = (impulse[i - u] if i >= u else 0.0) - p.w.kappa[i]
        terms[i] = abs(v[i])
    accelerate(H, v)
    for i in range(m):
        factored += np.sqrt(M[i, i]) * abs(v[i])
        for r in range(rows):
            W[i, r] = J[r, i]
            c[r] += J[r, i] * v[i]
            roundoff[r] += abs(J[r, i] * v[i])
    rho = _whiten(H, W, arena)
    for i in range(m):
        terms[i] += np.sqrt(M[i, i]) * factored
        for r in range(rows):
            roundoff[r] += abs(W[i, r]) * terms[i]
    for r in range(rows):
        roundoff[r] = rounding(2 * m, roundoff[r])
        c[r] -= p.contacts.surface_velocity[r]
    for i in range(n):
        c[i] += max(p.contacts.gap[i] / p.h, -PUSH_OUT_SPEED)
    return Motion(H, W, rho, v, c, roundoff)


@njit(cache=True, inner=True, error_model="numpy")
def pushed(p: AssembledStep, motion: Motion, change: Array, arena: Arena) -> Motion:
    """Return the motion for motor impulses that differ by `change` (a,)."""
    m, rows = motion.W.shape
    v, c, x = vector(arena, m), vector(arena, rows), zeros(arena, m)
    assign(x[m - change.shape[0] :], change)
    accelerate(motion.H, x)
    assign(v, motion.v_free)
    add(v, 1.0, x)
    for r in range(rows):
        c[r] = motion.c[r] + dot(p.contacts.jacobian[r], x)
    return Motion(motion.H, motion.W, motion.rho, v, c, motion.roundoff)


@njit(cache=True, inner=True, error_model="numpy")
def velocity(motion: Motion, f: Array, arena: Arena) -> Array:
    """Return v⁺ (m,) under contact impulses f (3 n,)."""
    v = vector(arena, motion.v_free.shape[0])
    for i in range(v.shape[0]):
        v[i] = motion.v_free[i] + dot(motion.W[i], f)
    return v
