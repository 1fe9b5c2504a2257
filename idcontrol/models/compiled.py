"""Contact models by number, for steps that are compiled as a whole (`controllers.compiled`, `plants.compiled`)."""

from __future__ import annotations

from typing import Final

import numpy as np
from numba import njit

from idcontrol.kernels.arena import Arena
from idcontrol.models import sap
from idcontrol.models.constraint import solver as constraint
from idcontrol.models.coulomb import continued_lcp_kernel
from idcontrol.models.dissipation import edge_lcp_kernel, one_stage_kernel
from idcontrol.models.no_slip import SLIP_SPEED, no_slip_kernel
from idcontrol.solvers.status import SOLVED
from idcontrol.types import Array, Booleans, Integers

DISSIPATION: Final = 0
NO_SLIP: Final = 1
NO_SLIP_DUAL: Final = 2
COULOMB: Final = 3
ONE_STAGE: Final = 4
SAP: Final = 5
SPRINGS: Final = 6

COMPLIANT: Final = (SAP, SPRINGS)
"""Models whose ground gives way: `compliant_impulses` has them, `contact_impulses` the others."""


@njit(cache=True, error_model="numpy")
def contact_impulses(
    model: int, rho: Array, c: Array, mu: Array, closed: Booleans, warm: Integers, f: Array, arena: Arena
) -> tuple[bool, int, float]:
    """Impulses of contacts with finite friction, by the model as it stands.

    Args:
        model: One of the numbers of this module, not of `COMPLIANT`.
        rho: Whitened rows [N; S; T], shape (3 n, k) (math.md 3).
        c: Their constants, φ/h added on normals, shape (3 n,).
        mu: Friction, shape (n,); finite (without slip it does not matter).
        closed: Contacts that may not slip, where the model forbids it, shape (n,).
        warm: In and out: what the model remembers of each contact, shape (n,).
        f: Result, shape (3 n,).
        arena: Where arrays come from.

    Returns:
        Whether it was solved without any repair, iterations, the residual.
    """
    n = mu.shape[0]
    if model == DISSIPATION:
        active = np.empty(n, dtype=np.int64)
        status, iterations, residual = edge_lcp_kernel(rho, c, mu, warm, f, active, arena)
        warm[:] = active
        return status == SOLVED, iterations, residual
    if model == ONE_STAGE:
        active = np.empty(n, dtype=np.int64)
        status, iterations, residual = one_stage_kernel(rho, c, mu, warm, f, active, arena)
        warm[:] = active
        return status == SOLVED, iterations, residual
    if model == COULOMB:
        status, iterations, residual = continued_lcp_kernel(rho, c, mu, np.flatnonzero(mu), warm, f, arena)
        return status == SOLVED, iterations, residual
    status, iterations, residual, slip = no_slip_kernel(rho, c, closed, warm, model == NO_SLIP_DUAL, f, arena)
    return status == SOLVED and slip <= SLIP_SPEED, iterations, residual


@njit(cache=True, error_model="numpy")
def compliant_impulses(
    model: int,
    law: tuple[float, float],
    h: float,
    M: Array,
    free: Integers,
    L: Array,
    v_free: Array,
    J: Array,
    rho: Array,
    c: Array,
    mu: Array,
    warm: Integers,
    f: Array,
    away: Array,
    arena: Arena,
) -> tuple[bool, int, float]:
    """Impulses of contacts that are closed when the step begins, on ground that gives way, by the model as it stands.

    Args:
        model: One of `COMPLIANT`.
        law: How stiff the ground is: β and σ of `SAP`, stiffness [N/m] and damping [N s/m] of `SPRINGS`.
        h: Length of the step [s].
        M: Inertia, shape (m, m).
        free: Unknown velocities, shape (k,).
        L: Cholesky factor of M_bb, shape (k, k).
        v_free: v°, shape (m,).
        J: Contact rows [N; S; T], shape (3 n, m).
        rho: The same, whitened, shape (3 n, k).
        c: Their constants, shape (3 n,).
        mu: Finite friction, shape (n,).
        warm: As for `contact_impulses`.
        f: Result, shape (3 n,).
        away: Result: free velocities of the solution less those that f causes, shape (k,). Momentum is balanced to the
            solver's tolerance only, and stiff ground answers to velocities.
        arena: Where arrays come from.

    Returns:
        As `contact_impulses`.
    """
    if model == SAP:
        beta, sigma = law
        solved, iterations, residual = sap.closed_kernel(
            h, M, free, L, v_free, J, rho, c, mu, beta, sigma, warm, f, away
        )
        return solved, iterations, residual
    warm[:] = 0
    away[:] = 0.0
    stiffness, damping = law
    status, iterations, residual = constraint.closed_kernel(h, stiffness, damping, M, J, rho, c, mu, f, arena)
    return status == SOLVED, iterations, residual
