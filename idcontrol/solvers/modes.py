"""Decide whether a Coulomb contact problem has a solution, by searching all contact modes, island by island.

Lemke's method may end on a ray although a solution exists. The search is branch and bound from
`idcontrol.solvers.enumerate`; its target is the smallest impulses.
"""

from __future__ import annotations

import numpy as np

from idcontrol.kernels.arena import HEAP
from idcontrol.solvers.enumerate import NearestProblem, nearest_kernel
from idcontrol.types import Array, Integers


def islands(V: Array) -> list[Integers]:
    """Return groups of contacts that act on each other, directly or through other contacts, smallest group first.

    Args:
        V: Contact velocities per impulse, shape (3n, 3n), exactly zero between contacts that do not act on each other.
    """
    n = V.shape[0] // 3
    coupled = (V != 0.0).reshape(3, n, 3, n).any(axis=(0, 2)) | np.eye(n, dtype=bool)
    lowest, label = np.arange(n), np.full(n, -1)
    while (lowest != label).any():  # the lowest contact of an island spreads to its neighbours, and theirs
        label = lowest
        lowest = np.where(coupled, label, n).min(axis=1)
        lowest = lowest[lowest]
    return sorted((np.flatnonzero(label == k) for k in np.unique(label)), key=lambda members: members.size)


def find_solution(V: Array, v0: Array, mu: Array, *, max_nodes: int = 10000) -> tuple[Array | None, bool, int]:
    """Search all contact modes for a solution of a Coulomb contact problem, after Lemke's method ended on a ray.

    Islands are searched separately. The work grows exponentially only with the largest island, and one island without a
    solution proves that the whole problem has no solution.

    Args:
        V: Contact velocities per impulse, J Γ Jᵀ, shape (3n, 3n).
        v0: Contact velocities at zero impulse, plus φ/h in the normal direction, shape (3n,) [m/s].
        mu: Friction coefficients, finite, shape (n,).
        max_nodes: Largest number of quadratic programs for all islands together.

    Returns:
        Three values: a solution y = (f_N, f_S, f_T), or None; True if the search was completed, so that None proves
        that no solution exists; the number of quadratic programs solved.
    """
    n, y, nodes, solved = mu.size, np.zeros(v0.size), 0, True
    for members in islands(V):
        rows = np.concatenate((members, n + members, 2 * n + members))
        part, settled, more = _search_island(V[np.ix_(rows, rows)], v0[rows], mu[members], max_nodes - nodes)
        nodes += more
        if part is not None:
            smooth = members[mu[members] == 0.0]  # friction at contacts with μ = 0 is a rounding error
            y[rows] = part
            y[n + smooth] = y[2 * n + smooth] = 0.0
        elif settled:
            return None, True, nodes
        else:
            solved = False
    return (y if solved else None), solved, nodes


def _search_island(V: Array, v0: Array, mu: Array, max_nodes: int) -> tuple[Array | None, bool, int]:
    """Run `find_solution` for one island; the problem is balanced first."""
    size, n = v0.size, mu.size
    typical, fastest = float(np.median(np.diag(V))), float(np.abs(v0).max(initial=0.0))
    if fastest == 0.0 or not v0[:n].min(initial=0.0) < 0.0:
        return np.zeros(size), True, 0
    if max_nodes < 1:
        return None, False, 0
    d = typical**-0.5 if typical > 0.0 else 1.0
    nothing = np.zeros(size)
    problem = NearestProblem(
        V=np.ascontiguousarray(d * d * V),
        v0=np.ascontiguousarray(v0 / fastest),
        mu=mu,
        T=np.eye(size),
        t0=nothing,
        target=nothing,
        weights=np.ones(size),
    )
    result = nearest_kernel(problem, np.zeros(0), max_nodes, HEAP)
    solved = result.value < np.inf
    return (d * d * fastest * result.y if solved else None), solved or result.proved, result.nodes
