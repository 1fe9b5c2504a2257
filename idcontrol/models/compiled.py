"""Contact models by number, for steps that are compiled as a whole (`controllers.compiled`, `plants.compiled`)."""

from __future__ import annotations

from typing import Final

import numpy as np
from numba import njit

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


@njit(cache=True, error_model="numpy")
def contact_impulses(
    model: int, rho: Array, c: Array, mu: Array, closed: Booleans, warm: Integers, f: Array
) -> tuple[bool, int, float]:
    """Impulses of contacts with finite friction, by the model as it stands.

    Args:
        model: One of the numbers of this module.
        rho: Whitened rows [N; S; T], shape (3 n, k) (math.md 3).
        c: Their constants, φ/h added on normals, shape (3 n,).
        mu: Friction, shape (n,); finite (without slip it does not matter).
        closed: Contacts that may not slip, where the model forbids it, shape (n,).
        warm: In and out: what the model remembers of each contact, shape (n,).
        f: Result, shape (3 n,).

    Returns:
        Whether it was solved without any repair, iterations, the residual.
    """
    n = mu.shape[0]
    if model == DISSIPATION:
        active = np.empty(n, dtype=np.int64)
        status, iterations, residual = edge_lcp_kernel(rho, c, mu, warm, f, active)
        warm[:] = active
        return status == SOLVED, iterations, residual
    if model == ONE_STAGE:
        active = np.empty(n, dtype=np.int64)
        status, iterations, residual = one_stage_kernel(rho, c, mu, warm, f, active)
        warm[:] = active
        return status == SOLVED, iterations, residual
    if model == COULOMB:
        status, iterations, residual = continued_lcp_kernel(rho, c, mu, np.flatnonzero(mu), warm, f)
        return status == SOLVED, iterations, residual
    status, iterations, residual, slip = no_slip_kernel(rho, c, closed, warm, model == NO_SLIP_DUAL, f)
    return status == SOLVED and slip <= SLIP_SPEED, iterations, residual
