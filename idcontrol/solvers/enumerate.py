"""The solution of a Coulomb contact problem that is nearest to a target (003 Alg. 3, MINDIFF; math.md 6).

For fixed modes of all contacts (apart, sticking, sliding along one of four edges or four corners of the pyramid) the
solutions form one polyhedron, and the nearest of them is a quadratic program. `nearest_solution` searches the 10^n
combinations by branch and bound; `find_solution` does so without a solution to start from, where Lemke's method ended
on a ray. What the paper prints, to try all bases of the LCP, is `idcontrol.solvers.mindiff`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numba import njit
from scipy.sparse.csgraph import connected_components

from idcontrol.errors import InputError
from idcontrol.solvers.active_set_qp import qp_kernel
from idcontrol.solvers.status import INFEASIBLE, SOLVED
from idcontrol.types import Array, Integers

# Modes of a contact. 2..5: friction on +S, -S, +T, -T; 6..9: shared by (+S, +T), (+S, -T), (-S, +T), (-S, -T).
RELAXED: Final = -1
"""Not decided: closed or apart, anywhere in the pyramid."""
APART: Final = 0
STICK: Final = 1
"""Closed, no tangential velocity; without friction, closed only."""
EDGE: Final = 2
CORNER: Final = 6
MODES: Final = 10

RIDGE: Final = 1e-8
"""Added to the diagonal of the objective's matrix, relative to its mean: ½|y|² decides what torque does not see."""
_WORTH: Final = 1e-9
"""Relative improvement of the objective that is worth a search."""
_VELOCITY: Final = 1e-6
"""A contact velocity is zero below this times the largest free one (math.md 13.3)."""
_FORCE: Final = 1e-8
"""A normal impulse is zero below this times the largest (math.md 13.3)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NearestProblem:
    """All solutions of a Coulomb contact problem, and what is wanted of them; y = (f_N, f_S, f_T) in block order.

    Attributes:
        V: Contact velocities per impulse, shape (3n, 3n): J Γ Jᵀ.
        v0: Contact velocities at y = 0, φ/h added to the normal ones, shape (3n,) [m/s].
        mu: Friction coefficients, finite, shape (n,).
        T: Torque (or whatever is to be near its target) per impulse, shape (t, 3n).
        t0: Torque at y = 0, shape (t,).
        target: Where it should be near to, shape (t,).
        weights: Factors w of the distance ½|w ∘ (T y + t0 - target)|², shape (t,).
    """

    V: Array
    v0: Array
    mu: Array
    T: Array
    t0: Array
    target: Array
    weights: Array


@dataclass(frozen=True, slots=True, kw_only=True)
class NearestResult:
    """The nearest solution found.

    Attributes:
        y: Impulses (f_N, f_S, f_T), shape (3n,).
        value: Objective at y: ½|w ∘ (T y + t0 - target)|² and the ridge on ½|y|².
        lower_bound: No solution has a smaller objective; equal to `value` if proved.
        proved: Whether the search was completed, so that y is the nearest of all solutions.
        nodes: Quadratic programs solved.
        modes: Modes of the contacts at y, shape (n,).
    """

    y: Array
    value: float
    lower_bound: float
    proved: bool
    nodes: int
    modes: Integers


@njit(cache=True, error_model="numpy")
def _read_modes(V: Array, v0: Array, mu: Array, y: Array, modes: Integers) -> None:
    """The mode of each contact at a solution y, with the tolerances of math.md 13.3."""
    n = mu.size
    strongest, fastest = 0.0, 0.0
    for i in range(n):
        strongest = max(strongest, y[i])
    for i in range(n):
        if y[i] > _FORCE * strongest:
            for axis in range(3):
                fastest = max(fastest, abs(v0[axis * n + i]))
    zero = _VELOCITY * fastest
    for i in range(n):
        normal, s, t = v0[i], v0[n + i], v0[2 * n + i]
        for j in range(3 * n):
            normal += V[i, j] * y[j]
            s += V[n + i, j] * y[j]
            t += V[2 * n + i, j] * y[j]
        if y[i] <= _FORCE * strongest and normal > zero:
            modes[i] = APART
        elif mu[i] == 0.0 or (abs(s) <= zero and abs(t) <= zero):
            modes[i] = STICK
        elif abs(abs(s) - abs(t)) <= zero:
            # friction opposes: on +S where s < 0
            modes[i] = CORNER + (0 if s < 0.0 else 2) + (0 if t < 0.0 else 1)
        elif abs(s) > abs(t):
            modes[i] = EDGE + (0 if s < 0.0 else 1)
        else:
            modes[i] = EDGE + (2 if t < 0.0 else 3)


@njit(cache=True, error_model="numpy")
def _columns(modes: Integers, mu: Array, owner: Integers, column: Array) -> int:
    """The impulses that the modes leave free: variable a moves contact owner[a] along column[a] = (f_N, f_S, f_T)."""
    k = 0
    for i in range(modes.size):
        mode, m = modes[i], mu[i]
        if mode == APART:
            continue
        count = 1 if m == 0.0 or EDGE <= mode < CORNER else (2 if mode >= CORNER else 3)
        for a in range(count):
            owner[k + a] = i
            for axis in range(3):
                column[k + a, axis] = 0.0
        if m == 0.0:
            column[k, 0] = 1.0
        elif mode >= CORNER:
            column[k, 0], column[k, 1] = 1.0 / m, 1.0 if mode < CORNER + 2 else -1.0
            column[k + 1, 0], column[k + 1, 2] = 1.0 / m, 1.0 if (mode - CORNER) % 2 == 0 else -1.0
        elif mode >= EDGE:
            column[k, 0] = 1.0
            column[k, 1 + (mode - EDGE) // 2] = m if (mode - EDGE) % 2 == 0 else -m
        else:
            for axis in range(3):
                column[k + axis, axis] = 1.0
        k += count
    return k


@njit(cache=True, error_model="numpy")
def _velocity_row(
    V: Array, contact: int, s: float, t: float, normal: float, owner: Integers, column: Array, row: Array
) -> None:
    """The row, over the free impulses, of normal · v_N + s · v_S + t · v_T of one contact."""
    n = V.shape[0] // 3
    for a in range(row.size):
        j = owner[a]
        total = 0.0
        for axis in range(3):
            if column[a, axis] != 0.0:
                c = axis * n + j
                total += column[a, axis] * (normal * V[contact, c] + s * V[n + contact, c] + t * V[2 * n + contact, c])
        row[a] = total


@njit(cache=True, error_model="numpy")
def _count_conditions(modes: Integers, mu: Array) -> tuple[int, int]:
    """How many equalities and inequalities `_conditions` has."""
    m, p = 0, 0
    for i in range(modes.size):
        mode = modes[i]
        free = mu[i] == 0.0
        m += 0 if mode <= APART else (1 if free or EDGE <= mode < CORNER else (2 if mode >= CORNER else 3))
        if mode == APART:
            p += 1
        elif free:
            p += 1 if mode == STICK else 2
        else:
            p += 5 if mode == RELAXED else (4 if mode == STICK else 3)
    return m, p


@njit(cache=True, error_model="numpy")
def _objective(H: Array, g: Array, owner: Integers, column: Array, Hk: Array, gk: Array) -> None:
    """The objective ½yᵀHy + gᵀy over the impulses that are free."""
    n = g.size // 3
    for a in range(gk.size):
        gk[a] = 0.0
        for alpha in range(3):
            if column[a, alpha] != 0.0:
                gk[a] += column[a, alpha] * g[alpha * n + owner[a]]
        for c in range(gk.size):
            total = 0.0
            for alpha in range(3):
                if column[a, alpha] != 0.0:
                    for beta in range(3):
                        total += column[a, alpha] * H[alpha * n + owner[a], beta * n + owner[c]] * column[c, beta]
            Hk[a, c] = total


@njit(cache=True, error_model="numpy")
def _conditions(
    V: Array,
    v0: Array,
    mu: Array,
    modes: Integers,
    owner: Integers,
    column: Array,
    A: Array,
    b: Array,
    E: Array,
    e: Array,
) -> None:
    """What the modes demand of the impulses that are free: A x ≥ b, E x = e."""
    n = mu.size
    A[:] = 0.0
    b[:] = 0.0
    m, p, first = 0, 0, 0
    for i in range(n):
        mode = modes[i]
        v_n, v_s, v_t = v0[i], v0[n + i], v0[2 * n + i]
        if mode <= APART:
            _velocity_row(V, i, 0.0, 0.0, 1.0, owner, column, A[p])
            b[p] = -v_n
            p += 1
        else:
            _velocity_row(V, i, 0.0, 0.0, 1.0, owner, column, E[m])
            e[m] = -v_n
            m += 1
        if mode == APART:
            continue
        if mu[i] == 0.0:
            A[p, first] = 1.0
            p += 1
            first += 1
        elif mode >= CORNER:
            # both shares ≥ 0; both edges are met with the same speed, and that speed opposes them
            sigma, tau = column[first, 1], column[first + 1, 2]
            A[p, first] = A[p + 1, first + 1] = 1.0
            _velocity_row(V, i, sigma, -tau, 0.0, owner, column, E[m])
            e[m] = -(sigma * v_s - tau * v_t)
            _velocity_row(V, i, -sigma, 0.0, 0.0, owner, column, A[p + 2])
            b[p + 2] = sigma * v_s
            m += 1
            p += 3
            first += 2
        elif mode >= EDGE:
            # no other edge is met with a higher speed
            sign = 1.0 if (mode - EDGE) % 2 == 0 else -1.0
            along_s, along_t = (sign, 0.0) if mode < EDGE + 2 else (0.0, sign)
            A[p, first] = 1.0
            for c in range(2):
                other = 1.0 if c == 0 else -1.0
                s = -along_s + other * abs(along_t)
                t = -along_t + other * abs(along_s)
                _velocity_row(V, i, s, t, 0.0, owner, column, A[p + 1 + c])
                b[p + 1 + c] = -(s * v_s + t * v_t)
            p += 3
            first += 1
        else:
            if mode == STICK:
                _velocity_row(V, i, 1.0, 0.0, 0.0, owner, column, E[m])
                e[m] = -v_s
                _velocity_row(V, i, 0.0, 1.0, 0.0, owner, column, E[m + 1])
                e[m + 1] = -v_t
                m += 2
            for c in range(4):
                A[p, first] = mu[i]
                A[p, first + 1] = -1.0 if c < 2 else 1.0
                A[p, first + 2] = -1.0 if c % 2 == 0 else 1.0
                p += 1
            first += 3


@njit(cache=True, error_model="numpy")
def _node(
    V: Array,
    v0: Array,
    mu: Array,
    H: Array,
    g: Array,
    modes: Integers,
    y: Array,
    work: Array,
    order: Integers,
) -> int:
    """Nearest point of the polyhedron of some modes, the undecided contacts relaxed; y and a status number.

    Undecided contacts may be anywhere in {f in the pyramid, N v⁺ + φ/h ≥ 0}, which holds every mode.
    """
    n = mu.size
    size = 3 * n
    owner, active = order[:size], order[size : 2 * size]
    column = work[: 3 * size].reshape(size, 3)
    k = _columns(modes, mu, owner, column)
    for j in range(size):
        y[j] = 0.0
    if k == 0:
        fastest, lowest = 0.0, 0.0
        for i in range(n):
            fastest = max(fastest, abs(v0[i]))
            lowest = min(lowest, v0[i])
        return SOLVED if lowest >= -1e-9 * fastest else INFEASIBLE

    m, p = _count_conditions(modes, mu)
    at = 3 * size
    Hk = work[at : at + k * k].reshape(k, k)
    at += size * size
    gk = work[at : at + k]
    at += size
    E = work[at : at + m * k].reshape(m, k)
    at += size * size
    e = work[at : at + m]
    at += size
    A = work[at : at + p * k].reshape(p, k)
    at += 5 * n * size
    b = work[at : at + p]
    at += 5 * n
    x = work[at : at + k]
    at += size
    multipliers = work[at : at + m + p]
    at += 8 * n
    rows = work[at : at + (m + p) * k].reshape(m + p, k)
    at += 8 * n * size
    sides = work[at : at + 3 * (m + p)].reshape(3, m + p)
    at += 24 * n
    scratch = work[at : at + (3 * k + 6) * k].reshape(3 * k + 6, k)

    _objective(H, g, owner[:k], column[:k], Hk, gk)
    _conditions(V, v0, mu, modes, owner[:k], column[:k], A, b, E, e)
    status, _, _, _ = qp_kernel(Hk, gk, A, b, E, e, x, multipliers, active, rows, sides, scratch)
    for a in range(k):
        for axis in range(3):
            y[axis * n + owner[a]] += column[a, axis] * x[a]
    return int(status)


@njit(cache=True, error_model="numpy")
def _value(T: Array, miss: Array, weights: Array, ridge: float, y: Array) -> float:
    """½|w ∘ (T y + miss)|² + ½ ridge |y|²."""
    total = 0.0
    for i in range(miss.size):
        distance = miss[i]
        for j in range(y.size):
            distance += T[i, j] * y[j]
        distance *= weights[i]
        total += distance * distance
    for j in range(y.size):
        total += ridge * y[j] * y[j]
    return 0.5 * total


@njit(cache=True, error_model="numpy")
def nearest_work(n: int) -> tuple[Array, Integers]:
    """Scratch of `nearest_kernel` for n contacts."""
    size = 3 * n
    node = 9 * n + 2 * size * size + 3 * size + 13 * n * (size + 1) + 24 * n + (3 * size + 6) * size
    return np.empty(size * size + 2 * size + n + 1 + node), np.empty(2 * size + 3 * n, dtype=np.int64)


@njit(cache=True, error_model="numpy")
def nearest_kernel(
    V: Array,
    v0: Array,
    mu: Array,
    T: Array,
    t0: Array,
    target: Array,
    weights: Array,
    max_nodes: int,
    known: bool,
    y: Array,
    modes: Integers,
    work: Array,
    order: Integers,
) -> tuple[float, float, bool, int]:
    """Branch and bound over contact modes, from a solution and its modes (math.md 6.3).

    Without a known solution the search ends with the first that it finds, or with the proof that there is none.

    Args:
        V: As in `NearestProblem`, shape (3n, 3n).
        v0: Shape (3n,).
        mu: Shape (n,).
        T: Shape (t, 3n).
        t0: Shape (t,).
        target: Shape (t,).
        weights: Shape (t,).
        max_nodes: Quadratic programs allowed; 1 is the nearest point with the modes of the start.
        known: Whether y is a solution.
        y: In: a solution, if one is known; out: the nearest one found. Shape (3n,).
        modes: Result: modes of the contacts at y, shape (n,).
        work: Scratch from `nearest_work`.
        order: Scratch from `nearest_work`.

    Returns:
        Objective (inf where no solution was found), lower bound, whether the search was completed, quadratic programs
        solved.
    """
    n, size = mu.size, v0.size
    H = work[: size * size].reshape(size, size)
    g, trial = work[size * size : size * size + size], work[size * size + size : size * size + 2 * size]
    at = size * size + 2 * size
    bounds, scratch = work[at : at + n + 1], work[at + n + 1 :]
    branch, tried, first = (
        order[2 * size : 2 * size + n],
        order[2 * size + n : 2 * size + 2 * n],
        order[2 * size + 2 * n :],
    )
    miss = t0 - target

    trace = 0.0
    for a in range(size):
        g[a] = 0.0
        for i in range(t0.size):
            g[a] += T[i, a] * weights[i] * weights[i] * miss[i]
        for c in range(size):
            H[a, c] = 0.0
            for i in range(t0.size):
                H[a, c] += T[i, a] * weights[i] * weights[i] * T[i, c]
        trace += H[a, a]
    ridge = RIDGE * trace / size if trace > 0.0 else 1.0
    scale = 0.0
    for i in range(t0.size):
        scale += 0.5 * (weights[i] * weights[i]) * (t0[i] * t0[i] + target[i] * target[i])
    for a in range(size):
        H[a, a] += ridge

    best, nodes = np.inf, 0
    modes[:] = STICK
    if known:
        _read_modes(V, v0, mu, y, modes)
        best = _value(T, miss, weights, ridge, y)
        nodes = 1
        # a start whose modes were misread by the tolerance stays as it is
        if _node(V, v0, mu, H, g, modes, trial, scratch, order) == SOLVED:
            value = _value(T, miss, weights, ridge, trial)
            if value < best:
                best = value
                for j in range(size):
                    y[j] = trial[j]
        if nodes >= max_nodes:
            return best, 0.0, False, nodes

    for i in range(n):
        first[i] = modes[i]
        branch[i] = RELAXED
        tried[i] = 0
    nodes += 1
    bounds[0] = 0.0
    if _node(V, v0, mu, H, g, branch, trial, scratch, order) == SOLVED:
        bounds[0] = min(_value(T, miss, weights, ridge, trial), best)
    promising = best - _WORTH * (scale + best) if known else np.inf  # a node at or above this is not worth a search
    undecided = np.inf  # smallest bound of a leaf whose program could not be solved
    level = 0
    while level >= 0:
        if tried[level] == MODES or bounds[level] >= promising:
            tried[level] = MODES
            branch[level] = RELAXED
            level -= 1
            continue
        if nodes >= max_nodes:
            break
        # the mode of the start first, the others in their order
        turn = tried[level]
        tried[level] += 1
        branch[level] = first[level] if turn == 0 else (turn - 1 if turn <= first[level] else turn)
        if mu[level] == 0.0 and branch[level] > STICK:
            continue
        nodes += 1
        status = _node(V, v0, mu, H, g, branch, trial, scratch, order)
        if status == INFEASIBLE:
            continue
        value = bounds[level]
        if status == SOLVED:
            value = max(value, _value(T, miss, weights, ridge, trial))
        if value >= promising:
            continue
        if level == n - 1:
            if status == SOLVED:
                best, promising = value, value - _WORTH * (scale + value)
                for j in range(size):
                    y[j] = trial[j]
                for i in range(n):
                    modes[i] = branch[i]
                if not known:
                    return best, 0.0, False, nodes
            else:
                undecided = min(undecided, value)
            continue
        level += 1
        bounds[level] = value
        tried[level] = 0

    lower = min(best, undecided)
    for i in range(level + 1):
        if tried[i] < MODES:
            lower = min(lower, bounds[i])
    return best, lower, level < 0 and undecided == np.inf, nodes


def nearest_solution(problem: NearestProblem, start: Array, *, max_nodes: int = 10000) -> NearestResult:
    """The solution of a Coulomb contact problem whose torque is nearest to a target (math.md 6.3).

    Args:
        problem: The contact problem and the target.
        start: A solution y = (f_N, f_S, f_T), as Lemke's method finds it, shape (3n,) [N s].
        max_nodes: Quadratic programs allowed: 1 for the nearest point with the contact modes of the start, more for the
            search that finds the nearest of all. The first is the last wherever the motion is unique.

    Returns:
        The nearest solution found, and what is known about better ones. A solution nearer by less than 1e-9 of the
        objective is not looked for.

    Raises:
        InputError: The shapes do not fit, or a friction coefficient is negative or infinite.
    """
    p = problem
    n, t = p.mu.size, p.t0.size
    size = 3 * n
    shapes = (p.V.shape, p.v0.shape, p.T.shape, p.target.shape, p.weights.shape, np.shape(start))
    if shapes != ((size, size), (size,), (t, size), (t,), (t,), (size,)):
        raise InputError(
            f"nearest solution: V, v0, T, target, weights, start have shapes {shapes}: give (3n, 3n), (3n,), (t, 3n), "
            f"(t,), (t,), (3n,) with n = {n} contacts and t = {t} torques"
        )
    if not bool(np.all((p.mu >= 0.0) & np.isfinite(p.mu))):
        raise InputError(
            "nearest solution: μ must be finite and not negative: use the no-slip model where it is infinite"
        )
    y = np.array(start, dtype=np.float64)
    modes = np.zeros(n, dtype=np.int64)
    work, order = nearest_work(n)
    arrays = [np.ascontiguousarray(a, dtype=np.float64) for a in (p.V, p.v0, p.mu, p.T, p.t0, p.target, p.weights)]
    value, lower, proved, nodes = nearest_kernel(*arrays, max_nodes, True, y, modes, work, order)
    return NearestResult(y=y, value=value, lower_bound=lower, proved=proved, nodes=nodes, modes=modes)


def islands(V: Array) -> list[Integers]:
    """Contacts that act on each other, directly or through others, smallest group first.

    Args:
        V: Contact velocities per impulse, shape (3n, 3n); what does not act on each other has entries that are zero.
    """
    n = V.shape[0] // 3
    coupled = (V != 0.0).reshape(3, n, 3, n).any(axis=(0, 2))
    count, label = connected_components(coupled, directed=False)
    return sorted((np.flatnonzero(label == k) for k in range(count)), key=lambda members: members.size)


def find_solution(V: Array, v0: Array, mu: Array, *, max_nodes: int = 10000) -> tuple[Array | None, bool, int]:
    """Search all contact modes for a solution of a Coulomb contact problem: what Lemke's ray leaves open.

    Contacts that do not act on each other are searched apart: the work grows exponentially with the largest island
    only, and one island without a solution settles the whole.

    Args:
        V: Contact velocities per impulse, J Γ Jᵀ, shape (3n, 3n).
        v0: Contact velocities at zero impulse, φ/h added to the normal ones, shape (3n,) [m/s].
        mu: Friction coefficients, finite, shape (n,).
        max_nodes: Quadratic programs allowed, all islands together.

    Returns:
        A solution y = (f_N, f_S, f_T), to the 1e-9 of a contact velocity with which modes are told apart, or None;
        whether the question is settled, so that None means that there is none; quadratic programs solved.
    """
    n, y, nodes, found = mu.size, np.zeros(v0.size), 0, True
    for members in islands(V):
        rows = np.concatenate((members, n + members, 2 * n + members))
        part, settled, more = _search_island(V[np.ix_(rows, rows)], v0[rows], mu[members], max_nodes - nodes)
        nodes += more
        if part is not None:
            y[rows] = part
        elif settled:
            return None, True, nodes
        else:
            found = False
    return (y if found else None), found, nodes


def _search_island(V: Array, v0: Array, mu: Array, max_nodes: int) -> tuple[Array | None, bool, int]:
    size, n = v0.size, mu.size
    typical, fastest = float(np.median(np.diag(V))), float(np.abs(v0).max(initial=0.0))
    if fastest == 0.0 or not v0[:n].min(initial=0.0) < 0.0:
        return np.zeros(size), True, 0
    if max_nodes < 1:
        return None, False, 0
    d = typical**-0.5 if typical > 0.0 else 1.0
    y, modes = np.zeros(size), np.zeros(n, dtype=np.int64)
    work, order = nearest_work(n)
    nothing, ones = np.zeros(size), np.ones(size)
    balanced, constants = np.ascontiguousarray(d * d * V), np.ascontiguousarray(v0 / fastest)
    value, _, proved, nodes = nearest_kernel(
        balanced, constants, mu, np.eye(size), nothing, nothing, ones, max_nodes, False, y, modes, work, order
    )
    found = value < np.inf
    return (d * d * fastest * y if found else None), found or proved, nodes
