"""Linear equations with one right side per variable; equations may depend on each other."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from idcontrol.kernels.jit import njit
from idcontrol.types import Array, Booleans, Integers

RANK: Final = 1e-11
"""Relative length below which a direction counts as dependent. Directions that depend by geometry have a length of
about 1e-16, the ridges and compliances of the models 1e-8 or more."""
EXPLAINED: Final = 1e-6
"""Largest relative error of the conditions that are differentiated; a larger error means that other conditions chose
the solution."""


class Columns(NamedTuple):
    """First column of each kind of variable in all matrices; velocities and joints are in the system's order.

    The reference and the gains of a joint act through few variables (`controllers.gradient.result.Part`), so they need
    no columns of their own.

    Attributes:
        q: Configuration, in the tangent space.
        normal: Normals of the contacts (`RowDerivatives`); no columns unless `site.Loads.wide`.
        v: Velocity.
        demand: Desired joint velocities before their projection.
        held: Motor impulses of internal forces; no columns if there are none.
        load: Generalized forces besides contacts and torques [N, N m]; no columns without a model of the motors, whose
            friction is such a force, unless `site.Loads.wide`.
        turn: Motor impulses in the stationarity of the projection; no columns unless `site.Loads.wide`.
        unit: Unit of the weights of impulses in stage II (`impulses.torque_unit`); no column unless `site.Loads.wide`.
        limits: Largest torques; no columns if no torque is at its limit.
        task: Desired accelerations of the task rows.
        mu: Friction of the contacts in stance.
        total: Number P of columns.
    """

    q: int
    normal: int
    v: int
    demand: int
    held: int
    load: int
    turn: int
    unit: int
    limits: int
    task: int
    mu: int
    total: int


BLOCKS: Final = len(Columns._fields)
"""Number of errors of equations (`errors`)."""


class Terms(NamedTuple):
    """Terms of a robot with m velocities and n contacts.

    Attributes:
        M: Inertia, shape (m, m).
        J: Rows [N; S; T] of the contacts, shape (3 n, m).
        slopes: Derivatives of the rows by q and normals, shape (3 n, m, w).
        moves: True for each velocity that moves a contact, shape (n, m).
        ends: Ends of the columns of variables (`Columns`).
    """

    M: Array
    J: Array
    slopes: Array
    moves: Booleans
    ends: Integers


@njit(cache=True, inner=True, error_model="numpy")
def rows_times(terms: Terms, x: Array) -> Array:
    """Return the derivative of ``J x`` at constant x (m,), shape (3 n, P)."""
    rows, m = terms.J.shape
    out = np.zeros((rows, terms.ends[-1]))
    for r in range(rows):
        for k in range(m):
            if terms.moves[r % terms.moves.shape[0], k]:
                for o in range(terms.slopes.shape[2]):
                    out[r, o] += x[k] * terms.slopes[r, k, o]
    return out


@njit(cache=True, inner=True, error_model="numpy")
def rows_transposed(terms: Terms, y: Array) -> Array:
    """Return the derivative of ``Jᵀ y`` at constant y (3 n,), shape (m, P)."""
    rows, m = terms.J.shape
    out = np.zeros((m, terms.ends[-1]))
    for r in range(rows):
        for k in range(m):
            if y[r] != 0.0 and terms.moves[r % terms.moves.shape[0], k]:
                for o in range(terms.slopes.shape[2]):
                    out[k, o] += y[r] * terms.slopes[r, k, o]
    return out


@njit(cache=True, inner=True, error_model="numpy")
def errors(ends: Integers, missed: Array, right: Array) -> Array:
    """Return the relative error of linear equations for each block of variables, shape (BLOCKS,).

    The last block is the friction of all contacts together.

    Args:
        ends: Ends of the columns of variables (`Columns`).
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


@njit(cache=True, inner=True, error_model="numpy")
def _lengths(A: Array, first: int) -> Array:
    """Return the squares of the lengths of the columns of A from row `first` on."""
    out = np.zeros(A.shape[1])
    for i in range(first, A.shape[0]):
        for j in range(A.shape[1]):  # by rows: the columns of a row are adjacent
            out[j] += A[i, j] * A[i, j]
    return out


@njit(cache=True, inner=True, error_model="numpy")
def _reflect(A: Array, k: int, Q: Array) -> None:
    """Zero column k of A below its diagonal by a reflection; apply the reflection to Q, whose rows it mixes."""
    rows, count, size = A.shape[0], A.shape[1], 0.0
    x, s = np.zeros(rows), np.zeros(count + Q.shape[1])
    for i in range(k, rows):
        x[i] = A[i, k]
        size += x[i] * x[i]
    if size == 0.0:
        return
    length = np.sqrt(size)
    scale = 1.0 / (size + length * abs(x[k]))
    x[k] += length if x[k] >= 0.0 else -length
    for i in range(k, rows):
        y = scale * x[i]
        for j in range(k, count):
            s[j] += y * A[i, j]
        for j in range(Q.shape[1]):
            s[count + j] += y * Q[i, j]
    for i in range(k, rows):
        y = x[i]
        for j in range(k, count):
            A[i, j] -= y * s[j]
        for j in range(Q.shape[1]):
            Q[i, j] -= y * s[count + j]


@njit(cache=True, inner=True, error_model="numpy")
def _staircase(A: Array, right: Array, small: float) -> tuple[Array, Integers]:
    """Turn rows such that A becomes an upper triangle R of independent rows; return R and the order of its columns.

    The same turns are applied to the rows of `right`, and the columns of A are exchanged such that ``R = A[:, order]``.
    A row of R is left out if its column, less the parts along earlier columns, is at most `small` long (QR with column
    pivoting; Golub & Van Loan 2013, section 5.4.2). A is overwritten.
    """
    rows, count = A.shape
    order, rank = np.arange(count), 0
    while rank < min(rows, count):
        sizes = _lengths(A, rank)
        best = rank + int(np.argmax(sizes[rank:]))
        if not np.sqrt(sizes[best]) > small:
            break
        order[rank], order[best] = order[best], order[rank]
        for i in range(rows):
            A[i, rank], A[i, best] = A[i, best], A[i, rank]
        _reflect(A, rank, right)
        rank += 1
    return A[:rank].copy(), order


@njit(cache=True, inner=True, error_model="numpy")
def column_length(A: Array) -> float:
    """Return the largest length of a column of A."""
    return float(np.sqrt(_lengths(A, 0).max())) if A.shape[1] > 0 else 0.0


@njit(cache=True, inner=True, error_model="numpy")
def pseudo_inverse(A: Array, small: float) -> tuple[Array, Array]:
    """Return the pseudo-inverse of A, shape (columns, rows), and a basis (columns, k) of its kernel.

    Args:
        A: The matrix.
        small: Length up to which a direction counts as dependent.
    """
    rows, count = A.shape
    Q = np.eye(count)
    R, order = _staircase(np.ascontiguousarray(A.T).copy(), Q, small)
    rank = R.shape[0]
    if rank == 0:
        return np.zeros((count, rows)), np.ascontiguousarray(Q.T)
    # A[order] = Rᵀ Q₁, and the inverse of Rᵀ follows by substitution
    out = np.eye(rank, rows)
    tall = np.ascontiguousarray(R.T).copy()
    steps = np.arange(rank)
    if rank < rows:  # some rows of A are dependent: a second triangle
        turn = np.eye(rows)
        for k in range(rank):
            _reflect(tall, k, turn)
        out, steps = turn[:rank].copy(), steps[::-1].copy()
    for at in range(rank):
        i = steps[at]
        for k in steps[:at]:
            for j in range(rows):
                out[i, j] -= tall[i, k] * out[k, j]
        for j in range(rows):
            out[i, j] /= tall[i, i]
    ordered = np.zeros((rank, rows))
    for j in range(rows):
        for i in range(rank):
            ordered[i, order[j]] = out[i, j]
    return np.ascontiguousarray(Q[:rank].T) @ ordered, np.ascontiguousarray(Q[rank:].T)


@njit(cache=True, error_model="numpy")
def least_squares(A: Array, right: Array) -> Array:
    """Return the shortest x with the smallest ``|A x - right|``, shape (columns of A, columns of right)."""
    if A.shape[0] == 0 or A.shape[1] == 0:
        return np.zeros((A.shape[1], right.shape[1]))
    return pseudo_inverse(A, RANK * column_length(A))[0] @ right


@njit(cache=True, inner=True, error_model="numpy")
def fit(A: Array, right: Array) -> tuple[Array, float]:
    """Return the shortest least-squares solution of ``A x = right``, and the relative error of these equations."""
    y, count = right.copy().reshape(-1, 1), A.shape[1]
    R, order = _staircase(A.copy(), y, RANK * column_length(A))
    x, rank = np.zeros(count), R.shape[0]
    if rank == count:
        for i in range(rank - 1, -1, -1):
            rest = y[i, 0]
            for k in range(i + 1, rank):
                rest -= R[i, k] * x[order[k]]
            x[order[i]] = rest / R[i, i]
    elif rank > 0:  # the shortest solution lies in the range of Rᵀ
        tall, turn = np.ascontiguousarray(R.T).copy(), np.eye(count)
        for k in range(rank):
            _reflect(tall, k, turn)
        along = np.zeros(rank)
        for i in range(rank):
            along[i] = y[i, 0]
            for k in range(i):
                along[i] -= tall[k, i] * along[k]
            along[i] /= tall[i, i]
            for j in range(count):
                x[order[j]] += turn[i, j] * along[i]
    missed, size = 0.0, 1e-300
    for r in range(right.shape[0]):
        left = -right[r]
        for k in range(x.shape[0]):
            left += A[r, k] * x[k]
        missed, size = max(missed, abs(left)), max(size, abs(right[r]))
    return x, missed / size


@njit(cache=True, inner=True, error_model="numpy")
def optimum(H: Array, A: Array) -> tuple[Array, Array]:
    """Return the matrices S and E of the solution ``x = S g + E e`` of ``H x + Aᵀλ = g``, ``A x = e``.

    Args:
        H: Positive semidefinite, shape (d, d).
        A: Rows, which may be dependent, shape (r, d).

    Returns:
        S, shape (d, d), and E, shape (d, r).
    """
    d, largest = H.shape[0], 0.0
    S, E, ways = np.zeros((d, d)), np.zeros((d, A.shape[0])), np.eye(d)
    if d == 0:
        return S, E
    if A.shape[0] > 0:
        E, ways = pseudo_inverse(A, RANK * column_length(A))
    if ways.shape[1] == 0:
        return S, E
    for i in range(d):
        for j in range(d):
            largest = max(largest, abs(H[i, j]))
    back = np.ascontiguousarray(ways.T)
    # the ridge of stage II is 1e-8 of the torques; without a cost a direction stays zero
    inverse, _ = pseudo_inverse(back @ H @ ways, 1e-14 * largest)
    S = ways @ (inverse @ back)
    return S, E - S @ (H @ E)
