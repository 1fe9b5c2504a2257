r"""Lagging joints: joints that cannot follow the demand even with full torque (math.md, section 12.4).

Bounded motors and contacts form one convex problem, maximal dissipation (`idcontrol.models.dissipation`). Each motor j
applies the full impulse bound_j [N m s] towards the demanded velocity b_j, and a fictitious stop with the impulse t_j
keeps the joint from exceeding b_j,

    hτ_j = bound_j - σ_j t_j,     0 ≤ t_j  ⊥  σ_j (b_j - v_j) ≥ 0        σ_j = 1 at the upper bound, -1 at the lower

A stop acts like a contact without friction, so one linear complementarity problem decides which joints lag. If the
impulse of a stop exceeds the range between both bounds, the motor must apply full torque in the other direction.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from idcontrol.kernels.arena import Arena, indices, mark, matrix, release, vector, zeros
from idcontrol.kernels.jit import njit
from idcontrol.kernels.linear import assign
from idcontrol.kernels.linked import late
from idcontrol.models.dissipation import STEEP, edge_lcp_kernel
from idcontrol.models.distribution import MET, Bounds
from idcontrol.models.whitened import Whitened, recover_kernel, whiten_kernel
from idcontrol.solvers.status import SOLVED
from idcontrol.types import Array, Integers

HOLDS: Final = 1 << 4
"""Bit of the normal row in the active rows of `edge_lcp_kernel`."""


class _Stops(NamedTuple):
    """Stops for the motors whose bound on the side σ is finite; the other joints stay prescribed.

    Attributes:
        side: σ of the module's equation for each joint, shape (a,).
        joint: Joints with a stop, shape (s,).
        free: Indices of velocities that are not prescribed, shape (u + s,).
        fixed: Indices of prescribed velocities, shape (a - s,).
        prescribed: Prescribed velocities, shape (a - s,).
    """

    side: Array
    joint: Integers
    free: Integers
    fixed: Integers
    prescribed: Array


@njit(cache=True, inner=True, error_model="numpy")
def _stops(u: int, b: Array, bounds: Bounds, impulse: Array, arena: Arena) -> _Stops:
    """Put a stop at the closer bound of each motor. Arguments as for `lagging`; u velocities are unactuated."""
    a, stops = b.shape[0], 0
    free, fixed, joint = indices(arena, u + a), indices(arena, a), indices(arena, a)
    prescribed, side = vector(arena, a), vector(arena, a)
    for i in range(u):
        free[i] = i
    for j in range(a):
        side[j] = 1.0 if bounds.most[j] - impulse[j] < impulse[j] - bounds.least[j] else -1.0
        if np.isfinite(bounds.most[j] if side[j] > 0.0 else bounds.least[j]):
            free[u + stops], joint[stops] = u + j, j
            stops += 1
        else:
            fixed[j - stops], prescribed[j - stops] = u + j, b[j]
    return _Stops(side, joint[:stops], free[: u + stops], fixed[: a - stops], prescribed[: a - stops])


@njit(cache=True, inner=True, error_model="numpy")
def _rows(w: Whitened, target: Array, n: int, stops: int, arena: Arena) -> tuple[Array, Array]:
    """Return rows [N; S; T] and targets of n contacts, followed by zeros for this number of stops."""
    rows = n + stops
    J, surface = matrix(arena, 3 * rows, w.M.shape[0]), zeros(arena, 3 * rows)
    J[:, :] = 0.0
    for i in range(n):
        for axis in range(3):
            assign(J[axis * rows + i], w.rows[axis * n + i])
            surface[axis * rows + i] = target[axis * n + i]
    return J, surface


@njit(cache=True, inner=True, error_model="numpy")
def _bound(bounds: Bounds, side: Array, j: int) -> float:
    """Return the bound of motor j at which its stop is."""
    return bounds.most[j] if side[j] > 0.0 else bounds.least[j]


@njit(cache=True, inner=True, error_model="numpy")
def _turned(stops: _Stops, bounds: Bounds, push: Array) -> bool:
    """Move each stop whose push (s,) exceeds the range between the bounds to the other side; True if any moved."""
    turns = False
    for s in range(push.shape[0]):
        j = stops.joint[s]
        if push[s] > (1.0 + MET) * (bounds.most[j] - bounds.least[j]):
            stops.side[j], turns = -stops.side[j], True
    return turns


@late(lambda *arguments: arguments[-2])
@njit(cache=True, inner=True, error_model="numpy")
def lagging(
    w: Whitened, target: Array, mu: Array, b: Array, bounds: Bounds, impulse: Array, known: Array, arena: Arena
) -> Array:
    """Write the bounds of lagging joints, and NaN for all other joints, into `known`; return `known`.

    Friction is capped at `STEEP`. If the problem is not solved, `known` is unchanged.

    Args:
        w: A step in whitened form, for its inertia and rows.
        target: Targets of the contact rows, shape (3 n,) [m/s].
        mu: Friction, shape (n,).
        b: Desired joint velocities, shape (a,).
        bounds: Bounds of the motor impulses.
        impulse: Motor impulses with all joints tracked, shape (a,). Each stop begins at the bound closer to this
            impulse.
        known: Result, shape (a,) [N m s].
        arena: Arena for all arrays.
    """
    before, a, n = mark(arena), b.shape[0], mu.shape[0]
    u = w.M.shape[0] - a
    stops = _stops(u, b, bounds, impulse, arena)
    count = stops.joint.shape[0]
    J, surface = _rows(w, target, n, count, arena)
    friction, active = zeros(arena, n + count), indices(arena, n + count)
    for i in range(n):
        friction[i] = min(mu[i], STEEP)
    active[:n], active[n:] = 0, HOLDS
    kappa, f = vector(arena, u + a), vector(arena, surface.shape[0])
    begun = mark(arena)
    for _ in range(a + 1):
        release(arena, begun)
        assign(kappa, w.kappa)
        for s in range(count):
            j = stops.joint[s]
            kappa[u + j] -= _bound(bounds, stops.side, j)
            J[n + s, u + j], surface[n + s] = -stops.side[j], -stops.side[j] * b[j]
        driven = whiten_kernel(w.M, kappa, stops.free, stops.fixed, stops.prescribed, J, arena)
        for r in range(surface.shape[0]):
            driven.c[r] -= surface[r]
        ending, _, _ = edge_lcp_kernel(driven.rho, driven.c, driven.roundoff, friction, active, f, arena)
        if ending != SOLVED:
            break
        if _turned(stops, bounds, f[n : n + count]):
            continue
        v, _ = recover_kernel(driven, f, arena)
        known[:] = np.nan
        largest = np.abs(b).max()
        for s in range(count):
            j = stops.joint[s]
            # a joint with a loaded stop follows the demand, even if its velocity differs by rounding
            if f[n + s] == 0.0 and stops.side[j] * (b[j] - v[u + j]) > MET * largest:
                known[j] = _bound(bounds, stops.side, j)
        break
    release(arena, before)
    return known
