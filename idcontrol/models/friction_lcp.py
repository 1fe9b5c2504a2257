r"""The friction LCP: normal impulses, and tangential ones within friction pyramids (math.md, sections 5 and 11.3).

    ⎡ NΓNᵀ + C_n   NΓFᵀ                     0 ⎤ ⎡f_N⎤   ⎡c_N⎤   ⎡w_N⎤
    ⎢ FΓNᵀ         FΓFᵀ + C_t [I -I; -I I]  E ⎥ ⎢f_F⎥ + ⎢c_F⎥ = ⎢w_F⎥ ,   0 ≤ z ⊥ w ≥ 0
    ⎣ diag μ       -Eᵀ                      0 ⎦ ⎣ λ ⎦   ⎣ 0 ⎦   ⎣w_λ⎦

with Γ = M⁻¹, F = [S; -S; T; -T], and E the column of ones that belongs to each contact's four edges; λ is the speed at
which a contact slips. The friction pyramid is the inscribed diamond |f_S| + |f_T| ≤ μ f_N. Rigid contacts have
C = 0 (`idcontrol.models.coulomb`), springs and dampers do not (`idcontrol.models.constraint`).

Of n contacts t are *frictional*; the others have no tangential unknowns. The unknowns are in the order
z = (f_N, f_+S, f_-S, f_+T, f_-T, λ), the first of size n, the others of size t.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from idcontrol.kernels.arena import Arena, indices, matrix, vector, zeros
from idcontrol.kernels.linear import assign
from idcontrol.types import Array, Integers


class FrictionLcp(NamedTuple):
    """The LCP of the module for n contacts, t of them frictional.

    Attributes:
        Q: Matrix, shape (n + 5 t, n + 5 t).
        r: Constants, shape (n + 5 t,).
        scale: Balancing factors of the unknowns (math.md, section 13.2), shape (n + 5 t,).
        frictional: The contacts that have tangential unknowns, shape (t,).
    """

    Q: Array
    r: Array
    scale: Array
    frictional: Integers


@njit(cache=True, error_model="numpy")
def frictional_contacts(mu: Array, arena: Arena) -> Integers:  # pragma: no cover - compiled
    """Contacts with friction that is finite and not zero."""
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
    """Assemble Q and r; the scale is ones, see `balance_contacts` and `balance_uniformly`.

    Args:
        rho: Whitened contact rows [N; S; T], shape (3 n, k).
        c: Their velocities at zero impulse, shape (3 n,) [m/s].
        compliance: C_n, then C_t twice, shape (3 n,) [m/s per N s].
        mu: Friction coefficients, shape (n,).
        frictional: The contacts that have tangential unknowns, their friction finite, shape (t,).
        arena: Where arrays come from.
    """
    n, t, k = mu.shape[0], frictional.shape[0], rho.shape[1]
    impulses = n + 4 * t
    size = impulses + t
    Q, r, scale = matrix(arena, size, size), zeros(arena, size), vector(arena, size)
    Q[:], scale[:] = 0.0, 1.0
    rows = matrix(arena, impulses, k)  # N and F
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


@njit(cache=True, error_model="numpy")
def balance_contacts(lcp: FrictionLcp, rho: Array) -> None:  # pragma: no cover - compiled
    """Balance with one factor for each contact, from its rows `rho` (3 n, k), so that its cone keeps its shape.

    math.md, section 13.2, has one factor for all contacts; one for each finds a solution where bodies of very different
    mass touch, too, with a tenth fewer pivots.
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
        scale[n + 4 * t + j] = 1.0 / scale[frictional[j]]  # keeps E and μ as they are


@njit(cache=True, error_model="numpy")
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


@njit(cache=True, error_model="numpy")
def contact_impulses(lcp: FrictionLcp, z: Array, f: Array) -> None:  # pragma: no cover - compiled
    """Overwrite f (3 n,) with the contact impulses [N; S; T] of a solution z."""
    n, t = f.shape[0] // 3, lcp.frictional.shape[0]
    f[:] = 0.0
    assign(f, z[:n])
    for j in range(t):
        i = lcp.frictional[j]
        if z[i] > 0.0:  # otherwise friction is rounding
            f[n + i] = z[n + j] - z[n + t + j]
            f[2 * n + i] = z[n + 2 * t + j] - z[n + 3 * t + j]


def unknowns(rho: Array, c: Array, f: Array, frictional: Integers) -> Array:
    """The unknowns z of rigid contacts that have impulses f = (f_N, f_S, f_T), shape (3 n,)."""
    n = f.size // 3
    _, v_s, v_t = (c + rho @ (rho.T @ f)).reshape(3, n)
    f_n, f_s, f_t = f.reshape(3, n)
    edges = [np.maximum(sign * along[frictional], 0.0) for along in (f_s, f_t) for sign in (1.0, -1.0)]
    return np.concatenate((f_n, *edges, np.maximum(np.abs(v_s), np.abs(v_t))[frictional]))
