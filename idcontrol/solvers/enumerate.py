"""The solution of a Coulomb contact problem that is nearest to a target (math.md, chapter 6).

For fixed modes of all contacts (apart, sticking, sliding along one of four edges or four corners of the pyramid) the
solutions form one polyhedron, and the nearest of them is a quadratic program. `nearest_solution` searches the 10^n
combinations by branch and bound; `find_solution` does so without a solution to start from, where Lemke's method ended
on a ray. Zapolsky & Drumwright 2017, Algorithm 3 (MINDIFF), try all bases of the LCP instead: that is
`idcontrol.solvers.mindiff`.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numba import njit
from scipy.sparse.csgraph import connected_components

from idcontrol.errors import InputError
from idcontrol.kernels.arena import HEAP, Arena, indices, mark, matrix, release, vector
from idcontrol.solvers.active_set_qp import QuadraticProgram, qp_kernel
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
"""Smallest relative improvement of the objective that is searched for."""
_VELOCITY: Final = 1e-6
"""A contact velocity is zero below this times the largest free one (math.md, section 13.3)."""
_FORCE: Final = 1e-8
"""A normal impulse is zero below this times the largest (math.md, section 13.3)."""


class NearestProblem(NamedTuple):
    """A Coulomb contact problem and the target of its solutions y = (f_N, f_S, f_T), in block order.

    Every array is contiguous.

    Attributes:
        V: Contact velocities per impulse, shape (3n, 3n): J Γ Jᵀ.
        v0: Contact velocities at y = 0, φ/h added to the normal ones, shape (3n,) [m/s].
        mu: Friction coefficients, finite, shape (n,).
        T: Torque (or whatever else has a target) per impulse, shape (t, 3n).
        t0: Torque at y = 0, shape (t,).
        target: Target of the torque, shape (t,).
        weights: Factors w of the distance ½|w ∘ (T y + t0 - target)|², shape (t,).
    """

    V: Array
    v0: Array
    mu: Array
    T: Array
    t0: Array
    target: Array
    weights: Array


class NearestResult(NamedTuple):
    """The nearest solution found.

    Attributes:
        y: Impulses (f_N, f_S, f_T), shape (3n,).
        value: Objective at y: ½|w ∘ (T y + t0 - target)|² and the ridge on ½|y|²; inf where no solution was found.
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


class _Objective(NamedTuple):
    """The objective ½|w ∘ (T y + miss)|² + ½ ridge |y|², which is ½yᵀHy + gᵀy and a constant.

    Attributes:
        T: Shape (t, 3n).
        miss: t0 - target, shape (t,).
        weights: Factors w, shape (t,).
        ridge: Weight of ½|y|².
        H: Shape (3n, 3n).
        g: Shape (3n,).
    """

    T: Array
    miss: Array
    weights: Array
    ridge: float
    H: Array
    g: Array


class _Free(NamedTuple):
    """The impulses that some modes leave free, k of them: variable a moves contact owner[a] along column[a].

    Attributes:
        owner: Shape (k,).
        column: (f_N, f_S, f_T) of the contact per variable, shape (k, 3).
    """

    owner: Integers
    column: Array


@njit(cache=True, error_model="numpy")
def _read_modes(problem: NearestProblem, y: Array, modes: Integers) -> None:
    """The mode of each contact at a solution y, with the tolerances of math.md, section 13.3."""
    V, v0, mu = problem.V, problem.v0, problem.mu
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
def _free_impulses(modes: Integers, mu: Array, arena: Arena) -> _Free:
    """The impulses that the modes leave free."""
    size = 3 * modes.size
    owner, column = indices(arena, size), matrix(arena, size, 3)
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
    return _Free(owner[:k], column[:k])


@njit(cache=True, error_model="numpy")
def _velocity_row(V: Array, contact: int, along: tuple[float, float, float], free: _Free, row: Array) -> None:
    """The row, over the free impulses, of the velocity of one contact `along` (N, S, T)."""
    owner, column = free.owner, free.column
    normal, s, t = along
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
    """How many equalities and inequalities `_conditions` writes."""
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
def _restrict(objective: _Objective, free: _Free, Hk: Array, gk: Array) -> None:
    """Write the objective as ½xᵀHk x + gkᵀx over the impulses that are free."""
    H, g, owner, column = objective.H, objective.g, free.owner, free.column
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
def _conditions(problem: NearestProblem, modes: Integers, free: _Free, program: QuadraticProgram) -> None:
    """Write what the modes demand of the impulses that are free: A x ≥ b, E x = e."""
    V, v0, mu, column = problem.V, problem.v0, problem.mu, free.column
    A, b, E, e = program.A, program.b, program.E, program.e
    n = mu.size
    A[:] = 0.0
    b[:] = 0.0
    m, p, first = 0, 0, 0
    for i in range(n):
        mode = modes[i]
        v_n, v_s, v_t = v0[i], v0[n + i], v0[2 * n + i]
        if mode <= APART:
            _velocity_row(V, i, (1.0, 0.0, 0.0), free, A[p])
            b[p] = -v_n
            p += 1
        else:
            _velocity_row(V, i, (1.0, 0.0, 0.0), free, E[m])
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
            _velocity_row(V, i, (0.0, sigma, -tau), free, E[m])
            e[m] = -(sigma * v_s - tau * v_t)
            _velocity_row(V, i, (0.0, -sigma, 0.0), free, A[p + 2])
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
                _velocity_row(V, i, (0.0, s, t), free, A[p + 1 + c])
                b[p + 1 + c] = -(s * v_s + t * v_t)
            p += 3
            first += 1
        else:
            if mode == STICK:
                _velocity_row(V, i, (0.0, 1.0, 0.0), free, E[m])
                e[m] = -v_s
                _velocity_row(V, i, (0.0, 0.0, 1.0), free, E[m + 1])
                e[m + 1] = -v_t
                m += 2
            for c in range(4):
                A[p, first] = mu[i]
                A[p, first + 1] = -1.0 if c < 2 else 1.0
                A[p, first + 2] = -1.0 if c % 2 == 0 else 1.0
                p += 1
            first += 3


@njit(cache=True, error_model="numpy")
def _node(problem: NearestProblem, objective: _Objective, modes: Integers, y: Array, arena: Arena) -> int:
    """Nearest point of the polyhedron of some modes, the undecided contacts relaxed; y and a status number.

    Undecided contacts may be anywhere in {f in the pyramid, N v⁺ + φ/h ≥ 0}, which holds every mode.
    """
    v0, mu = problem.v0, problem.mu
    n = mu.size
    at = mark(arena)
    free = _free_impulses(modes, mu, arena)
    k = free.owner.size
    y[:] = 0.0
    if k == 0:
        release(arena, at)
        fastest, lowest = 0.0, 0.0
        for i in range(n):
            fastest = max(fastest, abs(v0[i]))
            lowest = min(lowest, v0[i])
        return SOLVED if lowest >= -1e-9 * fastest else INFEASIBLE

    m, p = _count_conditions(modes, mu)
    program = QuadraticProgram(
        matrix(arena, k, k),
        vector(arena, k),
        matrix(arena, p, k),
        vector(arena, p),
        matrix(arena, m, k),
        vector(arena, m),
    )
    _restrict(objective, free, program.H, program.g)
    _conditions(problem, modes, free, program)
    answer = qp_kernel(program, arena)
    for a in range(k):
        for axis in range(3):
            y[axis * n + free.owner[a]] += free.column[a, axis] * answer.x[a]
    release(arena, at)
    return int(answer.status)


@njit(cache=True, error_model="numpy")
def _value(objective: _Objective, y: Array) -> float:
    """½|w ∘ (T y + miss)|² + ½ ridge |y|²."""
    T, miss, weights, ridge = objective.T, objective.miss, objective.weights, objective.ridge
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
def _objective(problem: NearestProblem, arena: Arena) -> _Objective:
    """The objective of a problem, with a ridge of `RIDGE` relative to the mean of its diagonal."""
    T, t0, weights, size = problem.T, problem.t0, problem.weights, problem.v0.size
    miss, H, g = vector(arena, t0.size), matrix(arena, size, size), vector(arena, size)
    for i in range(t0.size):
        miss[i] = t0[i] - problem.target[i]
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
    for a in range(size):
        H[a, a] += ridge
    return _Objective(T, miss, weights, ridge, H, g)


@njit(cache=True, error_model="numpy")
def nearest_kernel(problem: NearestProblem, start: Array, known: bool, max_nodes: int, arena: Arena) -> NearestResult:
    """Branch and bound over contact modes, from a solution and its modes (math.md, section 6.3).

    Without a known solution the search ends with the first that it finds, or with the proof that there is none.

    Args:
        problem: The contact problem and the target.
        start: A solution, if one is known, shape (3n,).
        known: Whether `start` is a solution.
        max_nodes: Quadratic programs allowed; 1 is the nearest point with the modes of the start.
        arena: Where arrays come from, those of the result included.

    Returns:
        The nearest solution found.
    """
    mu, t0, target, weights = problem.mu, problem.t0, problem.target, problem.weights
    n = mu.size
    y, modes, trial = vector(arena, start.size), indices(arena, n), vector(arena, start.size)
    y[:] = start
    bounds, branch = vector(arena, n + 1), indices(arena, n)
    tried, first = indices(arena, n), indices(arena, n)
    objective = _objective(problem, arena)
    scale = 0.0
    for i in range(t0.size):
        scale += 0.5 * (weights[i] * weights[i]) * (t0[i] * t0[i] + target[i] * target[i])

    best, nodes = np.inf, 0
    modes[:] = STICK
    if known:
        _read_modes(problem, y, modes)
        best = _value(objective, y)
        nodes = 1
        # a start whose modes were misread by the tolerance stays as it is
        if _node(problem, objective, modes, trial, arena) == SOLVED:
            value = _value(objective, trial)
            if value < best:
                best = value
                y[:] = trial
        if nodes >= max_nodes:
            return NearestResult(y, best, 0.0, False, nodes, modes)

    for i in range(n):
        first[i] = modes[i]
        branch[i] = RELAXED
        tried[i] = 0
    nodes += 1
    bounds[0] = 0.0
    if _node(problem, objective, branch, trial, arena) == SOLVED:
        bounds[0] = min(_value(objective, trial), best)
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
        status = _node(problem, objective, branch, trial, arena)
        if status == INFEASIBLE:
            continue
        value = bounds[level]
        if status == SOLVED:
            value = max(value, _value(objective, trial))
        if value >= promising:
            continue
        if level == n - 1:
            if status == SOLVED:
                best, promising = value, value - _WORTH * (scale + value)
                y[:] = trial
                modes[:] = branch
                if not known:
                    return NearestResult(y, best, 0.0, False, nodes, modes)
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
    return NearestResult(y, best, lower, level < 0 and undecided == np.inf, nodes, modes)


def nearest_solution(problem: NearestProblem, start: Array, *, max_nodes: int = 10000) -> NearestResult:
    """The solution of a Coulomb contact problem whose torque is nearest to a target (math.md, section 6.3).

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
    contiguous = NearestProblem(*(np.ascontiguousarray(array, dtype=np.float64) for array in problem))
    found: NearestResult = nearest_kernel(
        contiguous, np.ascontiguousarray(start, dtype=np.float64), True, max_nodes, HEAP
    )
    return found


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
    """`find_solution` for contacts that all act on each other; the problem is balanced first."""
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
    result = nearest_kernel(problem, nothing, False, max_nodes, HEAP)
    found = result.value < np.inf
    return (d * d * fastest * result.y if found else None), found or result.proved, result.nodes
