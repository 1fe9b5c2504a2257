"""Linear equations with one right side per parameter; equations may depend on each other."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from idcontrol.kernels.jit import njit
from idcontrol.types import Array, Integers

RANK: Final = 1e-11
"""Relative length below which a direction counts as dependent. Directions that depend by geometry have a length of
about 1e-16, the ridges and compliances of the models 1e-8 or more."""


class Columns(NamedTuple):
    """Columns of derivatives, one for each of P parameters; velocities and joints are in the system's order.

    Attributes:
        q: Configuration, in the tangent space.
        v: Velocity.
        reference: `Reference.q`, then `Reference.v`, then `Reference.a`.
        task: Desired accelerations of the task rows.
        gains: kp of the joints, then kd.
        limits: Largest torques.
        mu: Friction of the contacts in stance.
        total: Number of columns.
        ends: End of each of these blocks, shape (7,).
    """

    q: slice
    v: slice
    reference: slice
    task: slice
    gains: slice
    limits: slice
    mu: slice
    total: int
    ends: Integers

    @staticmethod
    def of(m: int, a: int, tasks: int, n: int) -> Columns:
        """Return the columns of a robot with m velocities, a joints, this number of task rows, and n contacts."""
        ends = np.cumsum([0, m, m, 3 * a, tasks, 2 * a, a, n])
        q, v, reference, task, gains, limits, mu = (slice(*ends[k : k + 2].tolist()) for k in range(7))
        return Columns(q, v, reference, task, gains, limits, mu, int(ends[-1]), ends[1:])


BY: Final = Columns._fields[:-2]
"""Names of the parameters."""
BLOCKS: Final = len(BY) + 1
"""Number of errors of equations (`errors`)."""


class Terms(NamedTuple):
    """Terms of a robot with m velocities and n contacts.

    Attributes:
        M: Inertia, shape (m, m).
        J: Rows [N; S; T] of the contacts, shape (3 n, m).
        slopes: Derivatives of the rows by q, shape (3 n, m, m).
        ends: Ends of the columns of parameters (`Columns`).
    """

    M: Array
    J: Array
    slopes: Array
    ends: Integers


@njit(cache=True, error_model="numpy")
def rows_times(terms: Terms, x: Array) -> Array:
    """Return the derivative of ``J x`` at constant x (m,), shape (3 n, P)."""
    rows, m = terms.J.shape
    out = np.zeros((rows, terms.ends[-1]))
    for r in range(rows):
        for k in range(m):
            for o in range(m):
                out[r, o] += x[k] * terms.slopes[r, k, o]
    return out


@njit(cache=True, error_model="numpy")
def rows_transposed(terms: Terms, y: Array) -> Array:
    """Return the derivative of ``Jᵀ y`` at constant y (3 n,), shape (m, P)."""
    rows, m = terms.J.shape
    out = np.zeros((m, terms.ends[-1]))
    for r in range(rows):
        if y[r] != 0.0:
            for k in range(m):
                for o in range(m):
                    out[k, o] += y[r] * terms.slopes[r, k, o]
    return out


@njit(cache=True, error_model="numpy")
def errors(ends: Integers, missed: Array, right: Array) -> Array:
    """Return the relative error of linear equations for each block of parameters, shape (BLOCKS,).

    The last block is the friction of all contacts together.

    Args:
        ends: Ends of the columns of parameters (`Columns`).
        missed: Left minus right sides, shape (r, P).
        right: Right sides, shape (r or more, P); further rows only enlarge the reference of the errors.
    """
    out, size = np.zeros(BLOCKS), 1e-300
    for r in range(missed.shape[0]):
        column, together = 0, 0.0
        for k in range(ends.shape[0]):
            for c in range(column, ends[k]):
                out[k] = max(out[k], abs(missed[r, c]))
            column = ends[k]
        for c in range(ends[-2], column):
            together += missed[r, c]
        out[-1] = max(out[-1], abs(together))
    for r in range(right.shape[0]):
        for c in range(right.shape[1]):
            size = max(size, abs(right[r, c]))
    return out / size


@njit(cache=True, error_model="numpy")
def least_squares(A: Array, right: Array) -> Array:
    """Return the shortest x with the smallest ``|A x - right|``, shape (columns of A, columns of right)."""
    rows, columns = A.shape
    if rows == 0 or columns == 0:
        return np.zeros((columns, right.shape[1]))
    left, size, across = np.linalg.svd(A, False)
    turned = np.ascontiguousarray(left.T) @ right
    for k in range(size.shape[0]):
        if size[k] > RANK * size[0]:
            turned[k] /= size[k]
        else:
            turned[k] = 0.0
    return np.ascontiguousarray(across.T) @ turned


@njit(cache=True, error_model="numpy")
def fit(A: Array, right: Array) -> tuple[Array, float]:
    """Return the shortest solution of ``A x = right``, a vector, and the relative error of these equations."""
    x = least_squares(A, right.copy().reshape(-1, 1))[:, 0].copy()
    missed, size = 0.0, 1e-300
    for r in range(right.shape[0]):
        left = -right[r]
        for k in range(x.shape[0]):
            left += A[r, k] * x[k]
        missed, size = max(missed, abs(left)), max(size, abs(right[r]))
    return x, missed / size


@njit(cache=True, error_model="numpy")
def optimum(H: Array, A: Array, g: Array, e: Array) -> Array:
    """Return x of ``H x + Aᵀλ = g``, ``A x = e``; rows of A may be dependent.

    Args:
        H: Positive semidefinite, shape (d, d).
        A: Rows, shape (r, d).
        g: Shape (d, P).
        e: Shape (r, P).
    """
    d, rank = H.shape[0], 0
    x, ways, largest = np.zeros((d, g.shape[1])), np.eye(d), 0.0
    if A.shape[0] > 0 and d > 0:
        left, size, across = np.linalg.svd(A, True)
        while rank < size.shape[0] and size[rank] > RANK * size[0]:
            rank += 1
        turned = np.ascontiguousarray(left[:, :rank].T) @ e
        for k in range(rank):
            turned[k] /= size[k]
        x = np.ascontiguousarray(across[:rank].T) @ turned
        ways = np.ascontiguousarray(across[rank:].T)
    if ways.shape[1] == 0:
        return x
    back = np.ascontiguousarray(ways.T)
    costs, directions = np.linalg.eigh(back @ H @ ways)
    for i in range(d):
        for j in range(d):
            largest = max(largest, abs(H[i, j]))
    along = np.ascontiguousarray(directions.T) @ back
    turned = along @ (g - H @ x)
    for k in range(costs.shape[0]):
        # the ridge of stage II is 1e-8 of the torques; without a cost a direction stays zero
        if costs[k] > 1e-14 * largest:
            turned[k] /= costs[k]
        else:
            turned[k] = 0.0
    return x + np.ascontiguousarray(along.T) @ turned
