"""Contact rows of many bodies in blocks of six velocities, and products with these rows.

Source: Castro, Permenter & Han 2022, section VIII-D.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from idcontrol.kernels.jit import njit
from idcontrol.kernels.linear import solve_lower
from idcontrol.kernels.six import add_product, add_rows, times
from idcontrol.models.sap.cone import derivative
from idcontrol.models.sap.newton import Law, Line, exact_step
from idcontrol.solvers.block_cholesky import BLOCK, Structure, slot
from idcontrol.types import Array, Integers


class Rows(NamedTuple):
    """Whitened contact rows by node: contact i has the entries ``start[i]`` to ``start[i + 1]``, with distinct nodes.

    Attributes:
        start: First entry of each contact, shape (n + 1,).
        node: Node of each entry, shape (nnz,).
        rho: Rows of the normal and the two tangents, shape (nnz, 3, 6).
    """

    start: Integers
    node: Integers
    rho: Array


class Cost(NamedTuple):
    """The cost ℓ of `idcontrol.models.sap.newton` for n contacts and nodes of six velocities.

    Attributes:
        rows: Whitened contact rows.
        c: Velocities of the rows at z = 0, relative to v̂, shape (3 n,).
        law: Law of the impulses at contact velocities.
        momentum: Whitened momentum ``Lᵀv*`` at z = 0, shape (nodes, 6).
    """

    rows: Rows
    c: Array
    law: Law
    momentum: Array


class Optimum(NamedTuple):
    """Arrays of a search.

    Attributes:
        z: Whitened velocities, start and result, shape (nodes, 6).
        gamma: Impulses at z, shape (3 n,).
        u: Contact velocities at z, shape (3 n,).
    """

    z: Array
    gamma: Array
    u: Array


class Hessian(NamedTuple):
    """Memory for the Hessian of an island; the factor overwrites it (`idcontrol.solvers.block_cholesky`).

    Attributes:
        structure: Sparsity.
        diagonal: Diagonal blocks in the order of elimination, shape (nodes, 6, 6).
        upper: Blocks right of the diagonal, shape (nnz, 6, 6).
    """

    structure: Structure
    diagonal: Array
    upper: Array


FLAT = 1e-2
"""Slope at which the line search ends, relative to the slope at its start. With a tighter tolerance, the additional
evaluations of the slope take longer than the saved Newton steps.
"""


@njit(cache=True, inner=True, error_model="numpy")
def whitened_rows(
    size: Integers, first: Integers, L: Array, tree: Integers, J: Array
) -> Rows:  # pragma: no cover - compiled
    """Whiten the contact rows J (`SparseProblem.rows`) and split them into nodes.

    Nodes that a contact does not move are skipped.

    Args:
        size: Number of velocities of each tree, shape (t,).
        first: Index of each tree's first node, then the number of all nodes, shape (t + 1,).
        L: Cholesky factors of the trees' inertias, shape (t, d, d).
        tree: Trees of each contact, shape (n, 2), or `WORLD`.
        J: Contact rows, shape (n, 2, 3, d).
    """
    n, d = tree.shape[0], J.shape[3]
    per_side = (d + BLOCK - 1) // BLOCK
    start = np.zeros(n + 1, dtype=np.int64)
    node = np.empty(2 * n * per_side, dtype=np.int64)
    rho = np.zeros((2 * n * per_side, 3, BLOCK))
    count, row = 0, np.empty((3, d))
    for i in range(n):
        for side in range(2):
            t = tree[i, side]
            if t < 0 or (side == 1 and t == tree[i, 0]):
                continue
            s = size[t]
            for axis in range(3):
                for k in range(s):
                    row[axis, k] = J[i, side, axis, k]
                    if side == 0 and tree[i, 1] == t:
                        row[axis, k] += J[i, 1, axis, k]
                solve_lower(L[t, :s, :s], row[axis, :s])
            for part in range((s + BLOCK - 1) // BLOCK):
                low = part * BLOCK
                high = min(low + BLOCK, s)
                moves = False
                for axis in range(3):
                    for k in range(low, high):
                        rho[count, axis, k - low] = row[axis, k]
                        moves = moves or row[axis, k] != 0.0
                if moves:
                    node[count] = first[t] + part
                    count += 1
        start[i + 1] = count
    return Rows(start, node[:count].copy(), rho[:count].copy())


@njit(cache=True, inner=True, error_model="numpy")
def inverse_mass(rows: Rows, i: int) -> float:  # pragma: no cover - compiled
    """Return the inverse mass w of contact i (see `regularization`)."""
    squares = 0.0
    for a in range(3):
        for b in range(3):
            s = 0.0
            for at in range(rows.start[i], rows.start[i + 1]):
                for k in range(BLOCK):
                    s += rows.rho[at, a, k] * rows.rho[at, b, k]
            squares += s * s
    w: float = np.sqrt(squares) / 3.0
    return w


@njit(cache=True, inner=True, error_model="numpy")
def velocities(rows: Rows, z: Array, c: Array, u: Array) -> None:  # pragma: no cover - compiled
    """Write ``u = c + ρ z``, block order."""
    n = rows.start.shape[0] - 1
    for i in range(n):
        a, b, d = c[i], c[n + i], c[2 * n + i]
        for at in range(rows.start[i], rows.start[i + 1]):
            p, q, r = times(rows.rho[at], z[rows.node[at]])
            a, b, d = a + p, b + q, d + r
        u[i], u[n + i], u[2 * n + i] = a, b, d


@njit(cache=True, inner=True, error_model="numpy")
def impulse(rows: Rows, gamma: Array, j: Array) -> None:  # pragma: no cover - compiled
    """Write ``j = ρᵀγ``, by node."""
    n = rows.start.shape[0] - 1
    j[:] = 0.0
    for i in range(n):
        a, b, d = gamma[i], gamma[n + i], gamma[2 * n + i]
        if a == 0.0 and b == 0.0 and d == 0.0:
            continue
        for at in range(rows.start[i], rows.start[i + 1]):
            add_rows(rows.rho[at], a, b, d, j[rows.node[at]])


@njit(cache=True, inner=True, error_model="numpy")
def hessian(rows: Rows, u: Array, law: Law, H: Hessian) -> None:  # pragma: no cover - compiled
    """Write ``H = I + ρᵀGρ`` at contact velocities u, block order.

    ``rows.node`` holds places in the order of elimination, not the numbers of nodes.
    """
    n, structure, diagonal, upper = rows.start.shape[0] - 1, H.structure, H.diagonal, H.upper
    diagonal[:] = 0.0
    upper[:] = 0.0
    for i in range(diagonal.shape[0]):
        for k in range(BLOCK):
            diagonal[i, k, k] = 1.0
    for i in range(n):
        G = derivative(u[i], u[n + i], u[2 * n + i], law.mu[i], law.R_n[i], law.R_t[i])
        if G[0] == 0.0 and G[3] == 0.0:
            continue
        for at in range(rows.start[i], rows.start[i + 1]):
            here = rows.node[at]
            for other in range(rows.start[i], rows.start[i + 1]):
                there = rows.node[other]
                if there > here:
                    continue
                block = diagonal[here] if there == here else upper[slot(structure, there, here)]
                add_product(rows.rho[other], G, rows.rho[at], block)


@njit(cache=True, inner=True, error_model="numpy")
def descend(at: Optimum, dz: Array, du: Array, law: Law, least: float) -> bool:  # pragma: no cover - compiled
    """Move z by α dz and u by α du, where α in (0, 1] minimizes the cost; gamma is unchanged.

    The direction dz has the shape (nodes, 6), du the shape (3 n,).

    Returns:
        False, without any change, if the cost does not fall in that direction or the direction is shorter than `least`.
    """
    z, u = at.z, at.u
    zdz, dzdz = 0.0, 0.0
    for i in range(z.shape[0]):
        for k in range(BLOCK):
            zdz += z[i, k] * dz[i, k]
            dzdz += dz[i, k] ** 2
    start = zdz - np.dot(at.gamma, du)
    if not start < 0.0 or dzdz < least * least:
        return False
    alpha = exact_step(start, Line(u, du, np.nan, zdz, dzdz), law, FLAT)
    for i in range(z.shape[0]):
        for k in range(BLOCK):
            z[i, k] += alpha * dz[i, k]
    for r in range(u.shape[0]):
        u[r] += alpha * du[r]
    return True
