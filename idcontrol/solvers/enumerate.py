"""The solution of a Coulomb contact problem that is closest to a target (math.md, chapter 6).

In coordinates along the diagonals of its tangents, a friction pyramid is a box. One diagonal has the friction p = f_S +
f_T and the velocity v_S + v_T; the other has q = f_S - f_T and v_S - v_T. Friction acts along each diagonal separately:
|p|, |q| ≤ μ f_N. So Coulomb's law consists of three choices per contact between convex sets: open or closed, and, along
each diagonal, sliding forward, sticking, or sliding backward. `nearest_solution` searches the choices by branch and
bound. It makes a choice only if the nearest point without that choice violates the law. `idcontrol.solvers.modes` runs
the same search without an initial solution, after Lemke's method ended on a ray. MINDIFF (Zapolsky & Drumwright 2017,
Algorithm 3), in `idcontrol.solvers.mindiff`, tries all bases of the LCP instead.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from idcontrol.errors import InputError
from idcontrol.kernels.arena import HEAP, Arena, indices, mark, matrix, release, vector, zeros
from idcontrol.kernels.jit import njit
from idcontrol.kernels.linear import assign, cholesky, solve_lower, solve_lower_transposed
from idcontrol.kernels.linked import linked
from idcontrol.solvers.active_set import (
    CUT_OFF,
    FEASIBLE,
    FREE,
    NEGATIVE,
    POSITIVE,
    ZERO,
    Point,
    Rows,
    approach,
    solve_active,
)
from idcontrol.solvers.factor import RowFactor
from idcontrol.solvers.status import INFEASIBLE, SOLVED
from idcontrol.types import Array, Integers

# Rows of a contact; each kind of row is stored for all contacts before the next kind. A row is zero on the boundary of
# its condition.
FORCE: Final = 0
"""Kind of the row f_N."""
MARGIN: Final = 1
"""Kind of the row μ f_N - p; the rows μ f_N + p, μ f_N - q and μ f_N + q have the next three numbers. All are distances
of friction from its bounds."""
NORMAL: Final = 5
"""Kind of the row N v⁺ + φ/h."""
SLIP: Final = 6
"""Kind of the row v_S + v_T; the row v_S - v_T has the next number."""
ROWS: Final = 8

CHOICES: Final = 3
"""Number of choices per contact: one between open and closed, and for each of two diagonals one between sliding
backward, sticking and sliding forward."""
OPTIONS: Final = 3
"""Maximum number of options of a choice."""

RIDGE: Final = 1e-8
"""Number added to the diagonal of the objective's matrix, relative to the mean of this diagonal. It makes ½|y|² decide
among equal torques."""
_WORTH: Final = 1e-9
"""Smallest improvement of the objective that is worth a search, relative to the objective plus ½(|w ∘ t0|² + |w ∘
target|²).
"""
_VELOCITY: Final = 1e-6
"""Contact velocity that counts as zero, relative to the largest component of `v0` at contacts with an impulse."""
_FORCE: Final = 1e-8
"""Normal impulse that counts as zero, relative to the largest."""

TICK_WORK: Final = 4800
"""Largest number of quadratic programs in the search of one control step, times the square of the number of contacts:
300 programs at four contacts, about a millisecond.

A program takes about 3 µs at four contacts; its time grows with the square of their number. A trot needs at most about
100 programs (math.md, section 6.3).
"""


class NearestProblem(NamedTuple):
    """A Coulomb contact problem for y = (f_N, f_S, f_T), in block order, and a target of the torque T y + t0.

    Every array is contiguous.

    Attributes:
        V: Contact velocities per impulse, shape (3n, 3n): J Γ Jᵀ.
        v0: Contact velocities at y = 0, plus φ/h in the normal direction, shape (3n,) [m/s].
        mu: Friction coefficients, finite, shape (n,).
        T: Torque (or any other quantity with a target) per impulse, shape (t, 3n).
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
    """The solution closest to the target, and the bounds that the search proved.

    Attributes:
        y: Impulses (f_N, f_S, f_T), shape (3n,).
        value: Objective ½|w ∘ (T y + t0 - target)|² plus the ridge on ½|y|²; inf without a solution.
        lower_bound: Lower bound of the objective of any solution; equal to `value` if proved.
        proved: True if the search was completed, so that y is the closest of all solutions.
        nodes: Number of quadratic programs solved.
    """

    y: Array
    value: float
    lower_bound: float
    proved: bool
    nodes: int


class _Metric(NamedTuple):
    """The objective ½|w ∘ (T y + t0 - target)|² + ½ ridge |y|² as ½|z|² + constant, with z = Lᵀy + origin.

    Attributes:
        L: Cholesky factor of the objective's matrix H = Tᵀ diag(w²) T + ridge, shape (3n, 3n).
        origin: L⁻¹ g with the objective's gradient g at y = 0, shape (3n,).
        constant: Minimum of the objective over all y.
        scale: Reference for differences of the objective.
        definite: True if H is positive definite, which is the case if all values are finite.
    """

    L: Array
    origin: Array
    constant: float
    scale: float
    definite: bool


class _Node(NamedTuple):
    """A node of the search: the program min ½|z|² subject to demands on the rows, and its solution.

    Attributes:
        point: The program's solution z as `Point.y`, shape (3n,); its values and demands have shape (8n,).
        choices: Choices so far, shape (3n,): 1 + the option, 0 if undecided. Order: normals, first diagonals, second
            diagonals.
    """

    point: Point
    choices: Integers


@njit(cache=True, inner=True, error_model="numpy")
def _metric(problem: NearestProblem, arena: Arena) -> _Metric:
    """Build the objective's metric, with a ridge of `RIDGE` relative to the mean of the diagonal of its matrix."""
    T, t0, target, weights, k = problem.T, problem.t0, problem.target, problem.weights, problem.v0.size
    t = t0.size
    W, H, L, origin = matrix(arena, t, k), matrix(arena, k, k), matrix(arena, k, k), vector(arena, k)
    constant, scale, trace = 0.0, 0.0, 0.0
    H[:] = 0.0
    origin[:] = 0.0
    for i in range(t):
        miss = weights[i] * (t0[i] - target[i])
        constant += 0.5 * miss * miss
        scale += 0.5 * (weights[i] * weights[i]) * (t0[i] * t0[i] + target[i] * target[i])
        for a in range(k):
            W[i, a] = weights[i] * T[i, a]
            origin[a] += W[i, a] * miss
        for a in range(k):
            factor = W[i, a]
            for c in range(k):
                H[a, c] += factor * W[i, c]
    for a in range(k):
        trace += H[a, a]
    ridge = RIDGE * trace / k if trace > 0.0 else 1.0
    for a in range(k):
        H[a, a] += ridge
    definite = cholesky(H, L)
    solve_lower(L, origin)
    for a in range(k):
        constant -= 0.5 * origin[a] * origin[a]
    return _Metric(L, origin, constant, scale, definite)


@njit(cache=True, inner=True, error_model="numpy")
def _pyramid_rows(problem: NearestProblem, arena: Arena) -> tuple[Array, Array]:
    """Return eight rows per contact as functions of y: coefficients, shape (3n, 8n), and offsets, shape (8n,).

    The rows are the normal impulse, the four margins of friction, the normal velocity, and the two diagonal velocities.
    """
    V, v0, mu = problem.V, problem.v0, problem.mu
    n, k = mu.size, v0.size
    columns, offset = matrix(arena, k, ROWS * n), zeros(arena, ROWS * n)
    columns[:] = 0.0
    for i in range(n):
        columns[i, i] = 1.0
        for side in range(4):
            r = (MARGIN + side) * n + i
            columns[i, r] = mu[i]
            columns[n + i, r] = -1.0 if side % 2 == 0 else 1.0
            columns[2 * n + i, r] = -1.0 if side == 0 or side == 3 else 1.0
        for d in range(k):
            columns[d, NORMAL * n + i] = V[d, i]
            columns[d, SLIP * n + i] = V[d, n + i] + V[d, 2 * n + i]
            columns[d, (SLIP + 1) * n + i] = V[d, n + i] - V[d, 2 * n + i]
        offset[NORMAL * n + i] = v0[i]
        offset[SLIP * n + i] = v0[n + i] + v0[2 * n + i]
        offset[(SLIP + 1) * n + i] = v0[n + i] - v0[2 * n + i]
    return columns, offset


@njit(cache=True, inner=True, error_model="numpy")
def _lengths(columns: Array, out: Array) -> None:
    """Write the length of each column."""
    out[:] = 0.0
    for d in range(columns.shape[0]):
        for r in range(out.size):
            out[r] += columns[d, r] * columns[d, r]
    for r in range(out.size):
        out[r] = np.sqrt(out[r])


@njit(cache=True, inner=True, error_model="numpy")
def _impulse_scale(metric: _Metric, offset: Array, lengths: Array) -> float:
    """Estimate the length of the impulses that stop the contacts or reach the target."""
    L, origin = metric.L, metric.origin
    steepest, square = 0.0, 0.0
    for d in range(origin.size):
        diagonal, gradient = 0.0, 0.0
        for j in range(d + 1):
            diagonal += L[d, j] * L[d, j]
            gradient += L[d, j] * origin[j]
        steepest = max(steepest, diagonal)
        square += gradient * gradient
    scale = np.sqrt(square) / steepest
    for r in range(offset.size):
        if lengths[r] > 0.0:
            scale = max(scale, abs(offset[r]) / lengths[r])
    return float(scale)


@njit(cache=True, inner=True, error_model="numpy")
def _rows(problem: NearestProblem, metric: _Metric, arena: Arena) -> Rows:
    """Build the rows of all contacts as functions of z, whitened by the metric and scaled to length one."""
    L, origin = metric.L, metric.origin
    columns, offset = _pyramid_rows(problem, arena)
    k, p = columns.shape
    tolerance, shorten = vector(arena, p), zeros(arena, p)
    _lengths(columns, tolerance)
    scale = _impulse_scale(metric, offset, tolerance)
    for d in range(k):  # apply L⁻¹ to all rows in one pass
        inverse, at = 1.0 / L[d, d], origin[d]
        for r in range(p):
            columns[d, r] *= inverse
            offset[r] -= columns[d, r] * at
            shorten[r] += columns[d, r] * columns[d, r]
        for c in range(d + 1, k):
            factor = L[c, d]
            for r in range(p):
                columns[c, r] -= factor * columns[d, r]
    for r in range(p):
        shorten[r] = 1.0 / np.sqrt(shorten[r]) if shorten[r] > 0.0 else 1.0
        offset[r] *= shorten[r]
        tolerance[r] *= FEASIBLE * scale * shorten[r]
    for d in range(k):
        for r in range(p):
            columns[d, r] *= shorten[r]
    return Rows(columns, offset, tolerance)


@njit(cache=True, inner=True, error_model="numpy")
def _choose(node: _Node, n: int, choice: int, option: int) -> None:
    """Give `choice` the value `option`, and set the resulting demands on the rows of the contact."""
    demand, choices = node.point.demand, node.choices
    i, what = choice % n, choice // n
    choices[choice] = 1 + option
    if what == 0 and option == 0:
        for r in range(NORMAL):
            demand[r * n + i] = ZERO
        choices[n + i] = choices[2 * n + i] = 1
    elif what == 0:
        demand[NORMAL * n + i] = ZERO
    else:
        slip, margin = (SLIP + what - 1) * n + i, (MARGIN + 2 * (what - 1)) * n + i
        if option == 0:
            demand[slip], demand[margin] = NEGATIVE, ZERO
        elif option == 1:
            demand[slip] = ZERO
        else:
            demand[slip], demand[margin + n] = POSITIVE, ZERO


@njit(cache=True, inner=True, error_model="numpy", forceinline=True)
def _outside(rows: Rows, node: _Node, row: int, demand: int) -> float:
    """Return the distance by which a row misses a demand; zero within the tolerance of the row."""
    value = node.point.value[row]
    miss = -value if demand == POSITIVE else (value if demand == NEGATIVE else abs(value))
    return miss if miss > rows.tolerance[row] else 0.0


@njit(cache=True, inner=True, error_model="numpy", forceinline=True)
def _distance(rows: Rows, node: _Node, n: int, choice: int, option: int) -> float:
    """Return a lower bound of the distance between z and the points that satisfy an option of a choice."""
    i, what = choice % n, choice // n
    if what == 0 and option == 0:
        far = 0.0
        for r in range(NORMAL):
            far = max(far, _outside(rows, node, r * n + i, ZERO))
        return far
    if what == 0:
        return _outside(rows, node, NORMAL * n + i, ZERO)
    slip, margin = (SLIP + what - 1) * n + i, (MARGIN + 2 * (what - 1)) * n + i
    if option == 1:
        return _outside(rows, node, slip, ZERO)
    if option == 0:
        return max(_outside(rows, node, slip, NEGATIVE), _outside(rows, node, margin, ZERO))
    return max(_outside(rows, node, slip, POSITIVE), _outside(rows, node, margin + n, ZERO))


@njit(cache=True, inner=True, error_model="numpy")
def _undecided(node: _Node, mu: Array) -> None:
    """Make `node` the root of the search: z = 0, no choices, and only the demands that every solution meets.

    The demands are f_N ≥ 0, friction within its pyramid, and N v⁺ + φ/h ≥ 0. At a contact without friction, the choices
    along the diagonals are settled.
    """
    n, demand, choices = mu.size, node.point.demand, node.choices
    demand[:] = FREE
    choices[:] = 0
    node.point.y[:] = 0.0
    for i in range(n):
        for r in range(SLIP):
            demand[r * n + i] = POSITIVE
        if mu[i] == 0.0:
            for r in range(4):
                demand[(MARGIN + r) * n + i] = ZERO
            choices[n + i] = choices[2 * n + i] = 1


@njit(cache=True, inner=True, error_model="numpy")
def _read_choices(problem: NearestProblem, y: Array, node: _Node) -> None:
    """Read the choices from a solution y, with the tolerances `_VELOCITY` and `_FORCE`."""
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
            _choose(node, n, i, 0)
            continue
        _choose(node, n, i, 1)
        if mu[i] > 0.0:
            for axis in range(2):
                slip = s + t if axis == 0 else s - t
                _choose(node, n, (1 + axis) * n + i, 1 if abs(slip) <= zero else (0 if slip < 0.0 else 2))


# Outcomes of a node of the search.
_CLOSED: Final = 0
"""The node contains no solution worth a search."""
_SOLUTION: Final = 1
"""The nearest point of the node is a solution."""
_BRANCHES: Final = 2
"""The search must branch on a choice."""
_STOPPED: Final = 3
"""The limit of programs is reached."""
_UNSOLVED: Final = 4
"""The program of the node could not be solved."""
_MOVED: Final = 5
"""New choices were made, and z must move to satisfy them."""


class _Branching(NamedTuple):
    """Result of `_enter`: outcome, choice on which the node branches, numbers of active rows and of programs solved."""

    ending: int
    choice: int
    filled: int
    nodes: int


class _Search(NamedTuple):
    """Data that all nodes of a search share.

    Attributes:
        rows: The rows.
        first: Choices of the known solution after `_polish`, as in `_Node.choices`, shape (3n,); -1 if there is none.
        max_nodes: Largest number of quadratic programs.
        loss: Scratch of `approach`, shape (3n,).
    """

    rows: Rows
    first: Integers
    max_nodes: int
    loss: Array


@njit(cache=True, inner=True, error_model="numpy")
def _project(search: _Search, node: _Node, count: int, limit: float) -> tuple[int, int]:
    """Move a node's z to the smallest z that meets its demands.

    Return the outcome of `approach` and the number of active rows.
    """
    k, p = search.rows.columns.shape
    end = approach(search.rows, node.point, count, limit, 20 * (p + k) + 50, search.loss)
    return end.status, end.size


@njit(cache=True, inner=True, error_model="numpy")
def _impulses(search: _Search, metric: _Metric, node: _Node, count: int, y: Array) -> float:
    """Write the impulses y of a node's solution, recomputed from the active rows; return ½|z|²."""
    z = node.point.y
    solve_active(search.rows.offset, node.point.factor, count, z, node.point.u)
    half = 0.0
    for d in range(z.size):
        half += 0.5 * z[d] * z[d]
        y[d] = z[d] - metric.origin[d]
    solve_lower_transposed(metric.L, y)
    return half


@njit(cache=True, inner=True, error_model="numpy")
def _settle(search: _Search, node: _Node, limit: float, reach: Array, arena: Arena) -> tuple[int, int]:
    """Make the choices with one remaining option, and find the choice to branch on.

    The points that satisfy an option lie at least `_distance` from z. All points of the node lie beyond z as seen from
    the origin, so their objective is at least ½(|z|² + distance²).

    Args:
        search: The search.
        node: A node, with z and the values of the rows at z.
        limit: Solutions with ½|z|² above this are not worth a search.
        reach: Result: lower bounds of ½|z|² for the options of the choice, inf if an option is not worth a search.
        arena: Arena for all arrays.

    Returns:
        _CLOSED, _SOLUTION, _BRANCHES or _MOVED; the choice to branch on, -1 unless the first result is _BRANCHES.
    """
    rows, first, at = search.rows, search.first, mark(arena)
    n = first.size // CHOICES
    trial = vector(arena, OPTIONS)
    half = 0.0
    for d in range(node.point.y.size):
        half += 0.5 * node.point.y[d] * node.point.y[d]
    moved, best, farthest, known = False, -1, 0.0, True
    for choice in range(CHOICES * n):
        if node.choices[choice] == 0:
            options, last, nearest, total = 0, -1, np.inf, 0.0
            trial[2] = np.inf
            for option in range(2 if choice < n else 3):
                distance = _distance(rows, node, n, choice, option)
                trial[option] = half + 0.5 * distance * distance
                nearest = min(nearest, distance)
                if trial[option] < limit:
                    options += 1
                    last = option
                    total += distance
            if options == 0:
                release(arena, at)
                return _CLOSED, -1
            if options == 1:
                _choose(node, n, choice, last)
                moved = moved or trial[last] > half
            elif nearest > 0.0 and total > farthest:  # z violates all options: prefer the largest total cost
                best, farthest = choice, total
                assign(reach, trial)
        known = known and node.choices[choice] == first[choice]
    release(arena, at)
    if known:
        return _CLOSED, -1
    if moved:
        return _MOVED, -1
    return (_BRANCHES if best >= 0 else _SOLUTION), best


@njit(cache=True, inner=True, error_model="numpy")
def _enter(
    search: _Search, node: _Node, count: int, limit: float, nodes: int, reach: Array, arena: Arena
) -> _Branching:
    """Solve a node's program and make forced choices, until a choice remains to branch on or the node is done.

    Arguments are as for `_settle`; in addition, `count` rows are active and `nodes` programs have been solved so far.
    """
    while True:
        if nodes >= search.max_nodes:
            return _Branching(_STOPPED, -1, count, nodes)
        nodes += 1
        status, count = _project(search, node, count, limit)
        if status in (CUT_OFF, INFEASIBLE):
            return _Branching(_CLOSED, -1, count, nodes)
        if status != SOLVED:
            return _Branching(_UNSOLVED, -1, count, nodes)
        ending, choice = _settle(search, node, limit, reach, arena)
        if ending != _MOVED:
            return _Branching(ending, choice, count, nodes)


class _Tree(NamedTuple):
    """Memory of a depth-first search, level by level.

    Attributes:
        z, u: Shape (levels, 3n).
        active: Shape (levels · 3n,).
        basis, upper: Shape (levels · 3n, 3n).
        value: Shape (levels, 8n).
        demand: Shape (levels · 8n,).
        choices: Shape (levels · 3n,).
        coefficients, rest: Shape (3n,), shared by all levels.
        filled: Number of active rows, shape (levels,).
        choice: Choice on which each level branches, shape (levels,).
        reach: Lower bounds of ½|z|² of the remaining options, inf for options already tried, shape (levels, options).
    """

    z: Array
    u: Array
    active: Integers
    basis: Array
    upper: Array
    value: Array
    demand: Integers
    choices: Integers
    coefficients: Array
    rest: Array
    filled: Integers
    choice: Integers
    reach: Array


@njit(cache=True, inner=True)
def _tree(n: int, arena: Arena) -> _Tree:
    k, p, levels = 3 * n, ROWS * n, CHOICES * n + 1
    return _Tree(
        matrix(arena, levels, k),
        matrix(arena, levels, k),
        indices(arena, levels * k),
        matrix(arena, levels * k, k),
        matrix(arena, levels * k, k),
        matrix(arena, levels, p),
        indices(arena, levels * p),
        indices(arena, levels * k),
        vector(arena, k),
        vector(arena, k),
        indices(arena, levels),
        indices(arena, levels),
        matrix(arena, levels, OPTIONS),
    )


@njit(cache=True, inner=True)
def _at(tree: _Tree, level: int) -> _Node:
    """Return the node at a level."""
    k, p = tree.z.shape[1], tree.value.shape[1]
    low, high = level * k, (level + 1) * k
    factor = RowFactor(tree.active[low:high], tree.basis[low:high], tree.upper[low:high], tree.coefficients, tree.rest)
    demand = tree.demand[level * p : (level + 1) * p]
    return _Node(Point(tree.z[level], tree.u[level], factor, tree.value[level], demand), tree.choices[low:high])


@njit(cache=True, inner=True, error_model="numpy")
def _copy(source: _Node, count: int, to: _Node) -> None:
    """Copy a node to another node."""
    here, there = source.point, to.point
    assign(there.y, here.y)
    assign(there.demand, here.demand)
    assign(to.choices, source.choices)
    for a in range(count):
        there.u[a] = here.u[a]
        there.factor.active[a] = here.factor.active[a]
        for d in range(here.y.size):
            there.factor.basis[a, d] = here.factor.basis[a, d]
        for c in range(a, count):
            there.factor.upper[a, c] = here.factor.upper[a, c]


@njit(cache=True, inner=True, error_model="numpy")
def _polish(
    problem: NearestProblem, metric: _Metric, search: _Search, node: _Node, start: Array, y: Array, arena: Arena
) -> float:
    """Write the point nearest to the target among the points with a known solution's choices; return its objective.

    The point is written into y, and its choices into `search.first`. If the tolerance caused choices to be misread, y
    keeps the known solution.
    """
    best, k = metric.constant, start.size
    for a in range(k):  # Lᵀ y + origin
        entry = metric.origin[a]
        for d in range(a, k):
            entry += metric.L[d, a] * start[d]
        best += 0.5 * entry * entry
    _undecided(node, problem.mu)
    _read_choices(problem, start, node)
    status, count = _project(search, node, 0, np.inf)
    if status == SOLVED:
        assign(search.first, node.choices)
        at = mark(arena)
        trial = vector(arena, k)
        value = metric.constant + _impulses(search, metric, node, count, trial)
        if value < best:
            best = value
            assign(y, trial)
        release(arena, at)
    return float(best)


@njit(cache=True, inner=True)
def _next_option(tree: _Tree, level: int, constant: float, promising: float) -> tuple[int, int]:
    """Return the deepest level, up to `level`, with an option worth a search, and its option of least lower bound.

    An option is worth a search if its lower bound plus `constant` is below `promising`. The level is -1 if no level has
    such an option.
    """
    option = 0
    while level >= 0:
        reach = tree.reach[level]
        option = 0
        for other in range(1, OPTIONS):
            if reach[other] < reach[option]:
                option = other
        if constant + reach[option] < promising:
            break
        level -= 1
    return level, option


@njit(cache=True, inner=True, error_model="numpy")
def _child(tree: _Tree, level: int, option: int) -> _Node:
    """Start the node below `level` that takes `option` of the level's choice, and mark this option as tried."""
    tree.reach[level, option] = np.inf
    node = _at(tree, level + 1)
    _copy(_at(tree, level), tree.filled[level], node)
    _choose(node, node.choices.size // CHOICES, tree.choice[level], option)
    return node


@linked
@njit(cache=True, error_model="numpy")
def nearest_kernel(problem: NearestProblem, start: Array, max_nodes: int, arena: Arena) -> NearestResult:
    """Search the choices of Coulomb's law by branch and bound (math.md, section 6.3).

    Args:
        problem: The contact problem and the target.
        start: A solution, shape (3n,), or an empty array; without a solution the search ends at the first solution, or
            with a proof that no solution exists.
        max_nodes: Largest number of quadratic programs; 1 gives the closest point with the choices of the start.
        arena: Arena for all arrays, including the arrays of the result.

    Returns:
        The closest solution; without `start`, the first solution. Its `value` is inf if no solution was found.
    """
    k, y, metric = problem.v0.size, zeros(arena, problem.v0.size), _metric(problem, arena)
    n, known = problem.mu.size, start.size == k
    assign(y, start)
    rows = _rows(problem, metric, arena)
    if not (metric.definite and np.isfinite(rows.offset.sum() + rows.tolerance.sum())):
        return NearestResult(y, np.inf, 0.0, False, 0)
    tree, search = _tree(n, arena), _Search(rows, indices(arena, CHOICES * n), max_nodes, vector(arena, k))
    search.first[:] = -1
    constant, scale, best, promising = metric.constant, metric.scale, np.inf, np.inf
    node, nodes, level, floor, undecided = _at(tree, 0), 0, 0, 0.0, np.inf
    if known:
        best = _polish(problem, metric, search, node, start, y, arena)
        promising = best - _WORTH * (scale + best)  # nodes with an objective at or above this are not worth a search
        nodes = 1
    _undecided(node, problem.mu)
    # bounds from the distance to the target need no program; often only the choices of the start remain
    assign(node.point.value, rows.offset)
    ending, _ = _settle(search, node, promising - constant, tree.reach[0], arena)
    result = _Branching(_CLOSED, -1, 0, nodes)
    if ending != _CLOSED:
        result = _enter(search, node, 0, promising - constant, nodes, tree.reach[0], arena)
    while True:
        if result.ending in (_STOPPED, _UNSOLVED):
            undecided = min(undecided, floor)
        if result.ending == _STOPPED:
            break
        if result.ending == _BRANCHES:
            tree.filled[level], tree.choice[level] = result.filled, result.choice
            level += 1
        if result.ending == _SOLUTION:
            best = constant + _impulses(search, metric, node, result.filled, y)
            promising = best - _WORTH * (scale + best)
            if not known:
                return NearestResult(y, best, 0.0, False, result.nodes)
        level, option = _next_option(tree, level - 1, constant, promising)
        if level < 0:
            break
        floor = constant + tree.reach[level, option]
        node, count = _child(tree, level, option), tree.filled[level]
        level += 1
        result = _enter(search, node, count, promising - constant, result.nodes, tree.reach[level], arena)

    lower = min(best, undecided)
    for i in range(level):
        for option in range(OPTIONS):
            lower = min(lower, constant + tree.reach[i, option])
    return NearestResult(y, best, max(lower, 0.0), undecided == np.inf, result.nodes)


@njit(cache=True)
def tick_nodes(contacts: int) -> int:
    """Return the limit of quadratic programs in one control step; it depends on the contacts, not on the clock."""
    return max(1, TICK_WORK // max(contacts * contacts, 1))


@njit(cache=True, inner=True)
def gap(result: NearestResult) -> float:
    """Bound how much closer to the target another solution may be, in the target's units; zero if `proved`."""
    if result.proved:
        return 0.0
    return float(np.sqrt(2.0 * result.value) - np.sqrt(2.0 * min(result.lower_bound, result.value)))


def nearest_solution(problem: NearestProblem, start: Array, *, max_nodes: int = 10000) -> NearestResult:
    """Find the solution of a Coulomb contact problem whose torque is closest to a target (math.md, section 6.3).

    Args:
        problem: The contact problem and the target.
        start: A solution y = (f_N, f_S, f_T), for example from Lemke's method, shape (3n,) [N s].
        max_nodes: Largest number of quadratic programs. With 1, the result is the closest solution with the contact
            modes of the start (open or closed, sticking or sliding); with more, all modes are searched. Both give the
            same result if the motion is unique.

    Returns:
        The closest solution, with the proved lower bound of the objective. Improvements by less than 1e-9 of the
        objective plus ½(|w ∘ t0|² + |w ∘ target|²) are not searched for.

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
        raise InputError("nearest solution: μ must be finite and not negative: use the no-slip model for infinite μ")
    contiguous = NearestProblem(*(np.ascontiguousarray(array, dtype=np.float64) for array in problem))
    result: NearestResult = nearest_kernel(contiguous, np.ascontiguousarray(start, dtype=np.float64), max_nodes, HEAP)
    return result
