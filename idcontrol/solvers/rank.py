"""FIND-INDICES (Zapolsky & Drumwright 2017, Algorithm 1) as a Gram-Schmidt over whitened rows.

The rank tolerance is a physical quantity: see `HELD_RANK_TOLERANCE` and math.md, section 4.2.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from idcontrol.kernels.arena import Arena, matrix, vector
from idcontrol.kernels.jit import njit
from idcontrol.kernels.linear import solve_upper
from idcontrol.solvers.factor import append, empty_factor, split
from idcontrol.types import Array, Integers

HELD_RANK_TOLERANCE: Final = 1e-4
"""Rank tolerance ε_rank of rows held with equality, a ratio of squared lengths: a row is dropped if the kept rows
determine its velocity to within 1 %. The tolerance describes the accuracy of the model, not rounding. At 1e-9, feet
that deviate from a plane by 0.1 mm would push against each other with thousands of newtons.
"""

_ROUNDING: Final = 1e-14
"""Rounding error of the difference of squares in `find_indices_kernel`, relative to the square of the row."""


class IndependentRows(NamedTuple):
    """Rows held with equality, ρ·y + c = 0, reduced to independent rows: basis y + constants = 0.

    Attributes:
        kept: Indices of the kept rows, in order, shape (rank,). All other rows depend on the kept rows, to the
            tolerance, and get no multiplier.
        basis: Orthonormal rows that span the kept rows, shape (rank, k).
        upper: Upper triangular, ρ_kept[l] = Σ_j upper[j, l] basis[j], shape (rank, rank).
        constants: Constants of the conditions on the basis, shape (rank,).
    """

    kept: Integers
    basis: Array
    upper: Array
    constants: Array

    def hold(self, y: Array) -> Array:
        """Return the point closest to y, shape (k,), at which the kept conditions hold."""
        return y - self.basis.T @ (self.basis @ y + self.constants)

    def multipliers(self, push: Array) -> Array:
        """Return multipliers f of the kept rows, shape (rank,), with ρ_keptᵀ f = push; `push` (k,) is in their span."""
        f = self.basis @ push
        solve_upper(self.upper, f.size, f)
        return f


@njit(cache=True, inner=True, error_model="numpy")
def find_indices_kernel(
    rho: Array, c: Array, order: Integers, tolerance: float, arena: Arena
) -> IndependentRows:  # pragma: no cover - compiled
    """Keep each row, in order, that is independent of the rows kept before; stop when the kept rows span the space.

    Args:
        rho: Whitened rows, shape (n, k).
        c: Constants of the rows, shape (n,).
        order: Rows to try, most important first.
        tolerance: A row is kept if |ρ⊥|² > tolerance |ρ|².
        arena: Arena for all arrays, including the arrays of the result.

    Returns:
        The kept rows.
    """
    k = rho.shape[1]
    factor, constants = empty_factor(k, arena), vector(arena, k)
    basis, coefficients = factor.basis, factor.coefficients
    rank = 0
    for index in range(order.size):
        if rank == k:
            break
        row = rho[order[index]]
        square = 0.0
        for d in range(k):
            square += row[d] * row[d]
        # With many contacts most rows are dropped by a wide margin. For such rows the difference of squares suffices,
        # although cancellation limits its accuracy to the rounding of the square.
        rest = square
        for j in range(rank):
            along = 0.0
            for d in range(k):
                along += basis[j, d] * row[d]
            rest -= along * along
        if rest <= (0.5 * tolerance - _ROUNDING) * square:
            continue
        apart = split(factor, rank, row)
        if apart > tolerance * square and apart > 0.0:
            constant = c[order[index]]
            for j in range(rank):
                constant -= coefficients[j] * constants[j]
            length = np.sqrt(apart)
            constants[rank] = constant / length
            append(factor, rank, order[index], length)
            rank += 1
    upper = matrix(arena, rank, rank)
    for i in range(rank):
        for j in range(rank):
            upper[i, j] = factor.upper[i, j] if i <= j else 0.0
    return IndependentRows(factor.active[:rank], basis[:rank], upper, constants[:rank])


@njit(cache=True, inner=True, error_model="numpy")
def eliminate_kernel(rho: Array, c: Array, held: IndependentRows) -> None:  # pragma: no cover - compiled
    """Remove the held conditions from the rows, in place: ρ·y + c is unchanged where basis[j]·y + constants[j] = 0."""
    n, k = rho.shape
    basis, constants = held.basis, held.constants
    for i in range(n):
        for j in range(constants.size):
            along = 0.0
            for d in range(k):
                along += basis[j, d] * rho[i, d]
            for d in range(k):
                rho[i, d] -= along * basis[j, d]
            c[i] -= along * constants[j]


@njit(cache=True, inner=True, error_model="numpy")
def eliminated_rounding(
    rho: Array, roundoff: Array, held: IndependentRows, out: Array, arena: Arena
) -> None:  # pragma: no cover - compiled
    """Add to `out` (n,) rounding bounds of the terms that `eliminate_kernel` adds to the constants of rows (n, k).

    Args:
        rho: The rows, before elimination.
        roundoff: Rounding bounds of the constants of all rows, including the held rows.
        held: The conditions.
        out: Rounding bounds of the constants of `rho`, increased in place.
        arena: Arena for scratch.
    """
    rank, k = held.constants.size, rho.shape[1]
    of_basis = vector(arena, rank)
    for j in range(rank):
        s = roundoff[held.kept[j]]
        for i in range(j):
            s += abs(held.upper[i, j]) * of_basis[i]
        of_basis[j] = s / held.upper[j, j]
    for i in range(rho.shape[0]):
        for j in range(rank):
            along = 0.0
            for d in range(k):
                along += held.basis[j, d] * rho[i, d]
            out[i] += abs(along) * of_basis[j]
