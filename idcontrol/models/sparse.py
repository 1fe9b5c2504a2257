"""The step problem of many bodies: inertia in blocks, and contacts that each touch one or two bodies.

A *tree* is a set of velocities coupled by inertia: a free body, or a robot with all its joints. Only contacts couple
trees. Arrays are padded to the d velocities of the largest tree; padding is ignored in inputs and zero in outputs
(Castro, Permenter & Han 2022, section VIII-D).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from idcontrol.errors import InputError
from idcontrol.kernels.jit import njit
from idcontrol.types import Array, Integers, Status

WORLD = -1
"""Index that means the immovable world in place of a tree."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SparseProblem:
    """One step: find v⁺ and contact impulses f with ``M (v⁺ - v*) = Jᵀf``, for t trees and n contacts.

    Attributes:
        h: Length of the step [s].
        size: Number of velocities of each tree, shape (t,).
        M: Inertia of each tree, shape (t, d, d).
        v: Velocities at the start of the step, from which the search starts, shape (t, d).
        v_star: Velocities at the end of the step without contact, shape (t, d).
        tree: Trees of bodies A and B of each contact, shape (n, 2), or `WORLD`. The contact pushes A along the normal
            and B in the opposite direction. Both bodies may be in the same tree.
        rows: Contact rows of A and of B, shape (n, 2, 3, d): the relative velocity of contact i along its normal, first
            and second tangent is ``rows[i, 0] @ v[tree[i, 0]] + rows[i, 1] @ v[tree[i, 1]]``; the rows of B include the
            minus sign. Rows of the world are ignored.
        gap: Signed distance φ at the start of the step, shape (n,) [m].
        mu: Friction coefficients, shape (n,).
        stiffness: Normal stiffness, shape (n,) [N/m]; inf is rigid.
        damping: Normal damping, shape (n,) [N s/m].
        surface_velocity: Velocity of the surface in contact axes, subtracted from the relative velocity, shape (n, 3)
            [m/s].
        impulses: Impulses of the last step, zero for new contacts, in the order of `SparseSolution`, shape (n, 3) [N
            s]. The search may start from them. None if unknown.

    Raises:
        InputError: Shapes do not fit, a tree does not exist, or the length of the step is not positive.
    """

    h: float
    size: Integers
    M: Array
    v: Array
    v_star: Array
    tree: Integers
    rows: Array
    gap: Array
    mu: Array
    stiffness: Array
    damping: Array
    surface_velocity: Array
    impulses: Array | None = None

    def __post_init__(self) -> None:
        t, d = self.v.shape if self.v.ndim == 2 else (len(self.size), -1)
        n = self.gap.shape[0]
        impulses = self.surface_velocity if self.impulses is None else self.impulses
        wanted = ((t,), (t, d, d), (t, d), (t, d), (n, 2), (n, 2, 3, d), (n,), (n,), (n,), (n,), (n, 3), (n, 3))
        arrays = (
            *(self.size, self.M, self.v, self.v_star, self.tree, self.rows),
            *(self.gap, self.mu, self.stiffness, self.damping, self.surface_velocity, impulses),
        )
        if tuple([each.shape for each in arrays]) != wanted:
            for name, each, shape in zip(_ARRAYS, arrays, wanted, strict=True):
                if each.shape != shape:
                    raise InputError(
                        f"sparse problem: {name} has shape {each.shape}; {t} trees and {n} contacts need {shape}"
                    )
        if not self.h > 0.0:
            raise InputError(f"sparse problem: the step h must be positive, not {self.h}")
        if not _within(self.size, 1, d):
            raise InputError(f"sparse problem: sizes of trees must be from 1 to {d}")
        if not _within(self.tree, WORLD, t - 1):
            raise InputError(f"sparse problem: trees of contacts must be from {WORLD} (the world) to {t - 1}")


_ARRAYS = (
    *("size", "M", "v", "v_star", "tree", "rows"),
    *("gap", "mu", "stiffness", "damping", "surface_velocity", "impulses"),
)


@njit(cache=True)
def _within(values: Integers, low: int, high: int) -> bool:
    """True if all values are from `low` to `high`."""
    inside = True
    for value in values.flat:
        inside = inside and bool(low <= value <= high)
    return inside


@dataclass(frozen=True, slots=True, kw_only=True)
class SparseSolution:
    """Solution of a step.

    Attributes:
        v_plus: Velocities at the end of the step, shape (t, d).
        impulses: Normal, first and second tangential impulse of each contact, on body A, shape (n, 3) [N s].
        contact_velocity: Velocity of A relative to B and to the surface, contact axes, shape (n, 3) [m/s].
        status: SOLVED if the search converged or the residual is small enough; REPAIRED otherwise; FALLBACK if the
            input is not finite or an inertia is not positive definite. With FALLBACK, v⁺ is v* and the impulses are
            zero.
        residual: Momentum error of the worst island (Castro, Permenter & Han 2022, eq. 24).
        iterations: Newton steps of the slowest island.
        islands: Number of islands, i.e. sets of trees that are coupled by contacts; 1 if the model solves all trees
            together.
    """

    v_plus: Array
    impulses: Array
    contact_velocity: Array
    status: Status
    residual: float
    iterations: int
    islands: int


def dense_inertia(problem: SparseProblem) -> Array:
    """Return the block-diagonal inertia of all trees, without padding, shape (m, m)."""
    start = np.concatenate([[0], np.cumsum(problem.size)])
    M = np.zeros((start[-1], start[-1]))
    for tree, size in enumerate(problem.size):
        M[start[tree] : start[tree + 1], start[tree] : start[tree + 1]] = problem.M[tree, :size, :size]
    return M


def dense_rows(problem: SparseProblem) -> Array:
    """Return all contact rows in block order [N; S; T], without padding, shape (3 n, m)."""
    start = np.concatenate([[0], np.cumsum(problem.size)])
    n = len(problem.gap)
    J = np.zeros((3, n, start[-1]))
    for contact, sides in enumerate(problem.tree):
        for side, tree in enumerate(sides):
            if tree != WORLD:
                J[:, contact, start[tree] : start[tree + 1]] += problem.rows[contact, side][:, : problem.size[tree]]
    return J.reshape(3 * n, start[-1])
