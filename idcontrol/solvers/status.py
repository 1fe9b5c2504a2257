"""How a solver ended, and the residual that decides it."""

from __future__ import annotations

import enum
from typing import Final

from numba import njit

from idcontrol.types import Array


class SolverStatus(enum.IntEnum):
    """How a solver ended. Kernels return the plain number."""

    SOLVED = 0
    """The residual was computed and is below `TOLERANCE`."""
    INFEASIBLE = 1
    """There is no solution; the certificate proves it."""
    RAY = 2
    """Lemke's method ended on a ray: there may be no solution; the ray is kept."""
    ITERATIONS = 3
    """The iteration limit was reached."""
    INACCURATE = 4
    """The method ended, but the residual (or a NaN) says that its answer cannot be used."""


# Plain integers, because kernels return them next to numbers.
SOLVED: Final = int(SolverStatus.SOLVED)
INFEASIBLE: Final = int(SolverStatus.INFEASIBLE)
RAY: Final = int(SolverStatus.RAY)
ITERATIONS: Final = int(SolverStatus.ITERATIONS)
INACCURATE: Final = int(SolverStatus.INACCURATE)

TOLERANCE: Final = 1e-8
"""Largest relative residual of an answer that is called solved (math.md 13.3)."""


@njit(cache=True, error_model="numpy")
def lcp_residual(z: Array, w: Array, r: Array) -> float:
    """Relative residual max|min(z / max|z|, w / max|r|)| of an LCP w = Qz + r, 0 ≤ z ⊥ w ≥ 0 (math.md 13.3).

    Args:
        z: Unknowns, shape (n,).
        w: Their complements Qz + r, shape (n,).
        r: Constant, shape (n,).

    Returns:
        Zero at a solution; NaN if anything is NaN.
    """
    z_max = 0.0
    r_max = 0.0
    for i in range(z.size):
        z_max = max(z_max, abs(z[i]))
        r_max = max(r_max, abs(r[i]))
    z_unit = 1.0 / z_max if z_max > 0.0 else 0.0
    w_unit = 1.0 / r_max if r_max > 0.0 else 1.0
    worst = 0.0
    for i in range(z.size):
        a = z[i] * z_unit
        b = w[i] * w_unit
        e = abs(a if a < b else b)
        # written so that a NaN in a, b or e is kept
        if not (e <= worst) or a != a:
            worst = e if a == a else a
    return worst
