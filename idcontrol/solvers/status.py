"""Outcomes of a solver."""

from __future__ import annotations

import enum
from typing import Final


class SolverStatus(enum.IntEnum):
    """Outcome of a solver. Kernels return the plain number."""

    SOLVED = 0
    """The residual was computed and is at most `TOLERANCE`."""
    INFEASIBLE = 1
    """No solution exists; the certificate proves it."""
    RAY = 2
    """Lemke's method ended on a ray, which is returned; in general, a solution may still exist."""
    ITERATIONS = 3
    """The iteration limit was reached."""
    INACCURATE = 4
    """The method ended, but its residual is too large or NaN."""


# Plain integers, because kernels return them next to numbers.
SOLVED: Final = int(SolverStatus.SOLVED)
INFEASIBLE: Final = int(SolverStatus.INFEASIBLE)
RAY: Final = int(SolverStatus.RAY)
ITERATIONS: Final = int(SolverStatus.ITERATIONS)
INACCURATE: Final = int(SolverStatus.INACCURATE)

TOLERANCE: Final = 1e-8
"""Largest relative residual of a solved answer (math.md, section 13.3)."""
