"""MINDIFF (Zapolsky & Drumwright 2017, Algorithm 3): the closest basic solution, by trying all 2^n bases.

A reference for `idcontrol.solvers.enumerate`, which controllers use.
"""

from __future__ import annotations

import numpy as np

from idcontrol.kernels.jit import njit
from idcontrol.kernels.linear import solve_in_place
from idcontrol.types import Array


@njit(cache=True, error_model="numpy")
def _nearest_basis(Q: Array, r: Array, X: Array, miss: Array, best: Array) -> tuple[float, int]:
    """Try all 2^n bases and write the solution z with the smallest ``|miss + X z|`` into `best`.

    Returns ``½ |miss + X z|²`` of this solution, and the number of bases that are solutions.
    """
    n = r.size
    system, z = np.empty((n, n + 1)), np.empty(n)
    members = np.empty(n, dtype=np.int64)
    r_max = 0.0
    for i in range(n):
        r_max = max(r_max, abs(r[i]))
    nearest, count = np.inf, 0
    for mask in range(2**n):
        size = 0
        for i in range(n):
            z[i] = 0.0
            if mask >> i & 1:
                members[size] = i
                size += 1
        for a in range(size):
            for b in range(size):
                system[a, b] = Q[members[a], members[b]]
            system[a, size] = -r[members[a]]
        if not solve_in_place(system, size):
            continue
        lowest, largest = 0.0, 0.0
        for a in range(size):
            z[members[a]] = system[a, size]
            lowest = min(lowest, system[a, size])
            largest = max(largest, abs(system[a, size]))
        if lowest < -1e-9 * largest:
            continue
        holds = True
        for i in range(n):
            w = r[i]
            for a in range(size):
                w += Q[i, members[a]] * z[members[a]]
            holds = holds and w >= -1e-9 * r_max
        if not holds:
            continue
        count += 1
        distance = 0.0
        for i in range(miss.size):
            d = miss[i]
            for a in range(size):
                d += X[i, members[a]] * z[members[a]]
            distance += d * d
        if distance < nearest:
            nearest = distance
            for i in range(n):
                best[i] = z[i]
    return 0.5 * nearest, count


def nearest_basis(Q: Array, r: Array, X: Array, x0: Array, target: Array) -> tuple[Array | None, float]:
    """Find the basic solution of an LCP whose x = X z + x0 is closest to a target, by trying all bases.

    This is Algorithm 3 of Zapolsky & Drumwright 2017 with two corrections: the sign (x = -A⁻¹(Cz + g) in their
    symbols), and infinite cost for infeasible leaves. The algorithm finds only vertices and takes 2^n linear solves, so
    it is a reference for at most about 18 unknowns.

    Args:
        Q: Matrix, shape (n, n).
        r: Constant, shape (n,).
        X: Shape (t, n).
        x0: Shape (t,).
        target: Shape (t,).

    Returns:
        z, shape (n,), and ½|X z + x0 - target|²; None and infinity if no basis is a solution.
    """
    best = np.zeros(r.size)
    value, count = _nearest_basis(
        np.ascontiguousarray(Q), np.ascontiguousarray(r), np.ascontiguousarray(X), x0 - target, best
    )
    return (best, value) if count else (None, np.inf)
