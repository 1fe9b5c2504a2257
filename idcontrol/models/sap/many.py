r"""SAP of many bodies: block-sparse Newton steps, island by island (Castro, Permenter & Han 2022, section VIII-D).

After whitening with the inertia of each tree, ``A = I`` and the Hessian ``I + ρᵀGρ`` is as sparse as the contacts. The
velocities of a tree are therefore split into *nodes* of six velocities that only contacts couple. A free body is one
node, a robot has several nodes. Contacts group the nodes into islands; each island is solved separately, to its own
tolerance.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from idcontrol.errors import InputError
from idcontrol.kernels.arena import Arena, begin, flags, indices, mark, matrix, release, reserve, stack, vector, zeros
from idcontrol.kernels.jit import njit
from idcontrol.kernels.linear import cholesky, solve_lower_transposed
from idcontrol.kernels.linked import linked
from idcontrol.models.sap.blocks import (
    Cost,
    Hessian,
    Optimum,
    Rows,
    descend,
    hessian,
    impulse,
    inverse_mass,
    velocities,
    whitened_rows,
)
from idcontrol.models.sap.newton import (
    ABSOLUTE,
    ACCEPTED,
    CONVERGED,
    NOT_FINITE,
    ROUNDING,
    STALLED,
    UNPHYSICAL,
    Law,
    Parameters,
    change_roles,
    read_modes,
    respond,
)
from idcontrol.models.sap.regularization import BETA, SIGMA, regularize
from idcontrol.models.sap.sweeps import start_from
from idcontrol.models.sparse import SparseProblem, SparseSolution
from idcontrol.models.step import CLOSED_GAP
from idcontrol.solvers.block_cholesky import BLOCK, Structure, analyze, factorize, solve
from idcontrol.types import Array, Integers, Status

SCRATCH = reserve(1 << 18)
"""Memory for one island; kernels hold the interpreter's lock, so only one island uses it at a time."""


class Trees(NamedTuple):
    """The trees of a `SparseProblem`; fields have the same names."""

    size: Integers
    M: Array
    v: Array
    v_star: Array


class Touching(NamedTuple):
    """The contacts of a `SparseProblem`; fields have the same names."""

    tree: Integers
    rows: Array
    gap: Array
    mu: Array
    stiffness: Array
    damping: Array
    surface_velocity: Array
    impulses: Array


class Result(NamedTuple):
    """Arrays for the result of a step; fields are as in `SparseSolution`."""

    v_plus: Array
    impulses: Array
    contact_velocity: Array


@njit(cache=True, inner=True, error_model="numpy")
def _whiten(size: Integers, M: Array, L: Array) -> bool:  # pragma: no cover - compiled
    """Factor each tree's inertia by Cholesky, shape (t, d, d); return False if an inertia is not positive definite."""
    for t in range(size.shape[0]):
        s = size[t]
        if not cholesky(M[t, :s, :s], L[t, :s, :s]):
            return False
    return True


@njit(cache=True, inner=True)
def _islands(nodes: int, rows: Rows) -> tuple[Integers, int]:  # pragma: no cover - compiled
    """Return each node's island (-1 without contacts) and the number of islands.

    Islands are ordered by their smallest node.
    """
    root = np.arange(nodes)
    touched = np.zeros(nodes, dtype=np.bool_)
    for i in range(rows.start.shape[0] - 1):
        for at in range(rows.start[i], rows.start[i + 1]):
            touched[rows.node[at]] = True
            a, b = rows.node[rows.start[i]], rows.node[at]
            while root[a] != a:
                root[a] = root[root[a]]
                a = root[a]
            while root[b] != b:
                root[b] = root[root[b]]
                b = root[b]
            root[max(a, b)] = min(a, b)
    island, count = np.full(nodes, -1), 0
    for i in range(nodes):
        if not touched[i]:
            continue
        a = i
        while root[a] != a:
            a = root[a]
        if a == i:
            island[i] = count
            count += 1
        else:
            island[i] = island[a]
    return island, count


@njit(cache=True, inner=True)
def _by_group(group: Integers, count: int) -> tuple[Integers, Integers]:  # pragma: no cover - compiled
    """Sort members by group: group g has ``member[start[g]:start[g + 1]]``; group -1 is skipped."""
    start = np.zeros(count + 1, dtype=np.int64)
    for g in group:
        if g >= 0:
            start[g + 1] += 1
    for g in range(count):
        start[g + 1] += start[g]
    member, fill = np.empty(start[count], dtype=np.int64), start[:count].copy()
    for i in range(group.shape[0]):
        if group[i] >= 0:
            member[fill[group[i]]] = i
            fill[group[i]] += 1
    return start, member


@njit(cache=True, inner=True, error_model="numpy")
def _minimize(
    cost: Cost, H: Hessian, parameters: Parameters, at: Optimum, arena: Arena
) -> tuple[int, int, float]:  # pragma: no cover - compiled
    """Run `idcontrol.models.sap.newton.minimize` for one island, with sparse steps and the island's nodes."""
    rows, c, law, momentum = cost.rows, cost.c, cost.law, cost.momentum
    z, gamma, u = at.z, at.gamma, at.u
    most, nodes, taken = parameters.iterations, z.shape[0], mark(arena)
    j, dz, du = matrix(arena, nodes, BLOCK), matrix(arena, nodes, BLOCK), vector(arena, u.shape[0])
    none = zeros(arena, c.shape[0])
    ending, iteration, residual = STALLED, 0, np.inf
    velocities(rows, z, c, u)
    while True:
        respond(u, law, gamma, arena)
        impulse(rows, gamma, j)
        p2, j2, error2 = 0.0, 0.0, 0.0
        for i in range(nodes):
            for k in range(BLOCK):
                p2 += (momentum[i, k] + z[i, k]) ** 2
                j2 += j[i, k] ** 2
                dz[i, k] = j[i, k] - z[i, k]
                error2 += dz[i, k] ** 2
        size, error = np.sqrt(max(p2, j2)), np.sqrt(error2)
        if not np.isfinite(error):
            ending, residual = NOT_FINITE, np.inf
            break
        last, residual = residual, error / size if size > 0.0 else 0.0
        if error < ABSOLUTE + parameters.tolerance * size:
            ending = CONVERGED
            break
        if iteration == most or (residual < ROUNDING and residual > 0.5 * last):
            break
        hessian(rows, u, law, H)
        if not factorize(H.structure, H.diagonal, H.upper):
            break
        solve(H.structure, H.diagonal, H.upper, dz)
        velocities(rows, dz, none, du)
        if not descend(at, dz, du, law, 1e-15 * size):
            break
        iteration += 1
    release(arena, taken)
    return ending, iteration, residual


class _Island(NamedTuple):
    """One island's share of a `Cost`; its nodes are in the order of elimination.

    Attributes:
        members: Numbers of the island's nodes among all nodes, shape (nodes,).
        contacts: Numbers of the island's contacts, shape (n,).
        cost: Cost of the island.
        at: Start and result of the search.
        H: Memory for the Hessian.
    """

    members: Integers
    contacts: Integers
    cost: Cost
    at: Optimum
    H: Hessian


@njit(cache=True, inner=True, error_model="numpy")
def _island_rows(
    rows: Rows, members: Integers, contacts: Integers, local: Integers, arena: Arena
) -> tuple[Rows, Structure]:  # pragma: no cover - compiled
    """Return rows of an island's contacts, with nodes numbered by place, and the structure of its Hessian."""
    n = contacts.shape[0]
    for i in range(members.shape[0]):
        local[members[i]] = i
    start, size, pairs = indices(arena, n + 1), 0, 0
    start[0] = 0
    for i in range(n):
        many = rows.start[contacts[i] + 1] - rows.start[contacts[i]]
        size += many
        pairs += many * (many - 1) // 2
        start[i + 1] = size
    node, rho = indices(arena, size), stack(arena, size, 3, BLOCK)
    edges, edge = np.empty((pairs, 2), dtype=np.int64), 0
    for i in range(n):
        from_ = rows.start[contacts[i]]
        for at in range(start[i], start[i + 1]):
            node[at] = local[rows.node[from_ + at - start[i]]]
            for axis in range(3):
                for k in range(BLOCK):
                    rho[at, axis, k] = rows.rho[from_ + at - start[i], axis, k]
            for other in range(start[i], at):
                edges[edge, 0], edges[edge, 1] = node[other], node[at]
                edge += 1
    structure = analyze(members.shape[0], edges)
    for at in range(size):
        node[at] = structure.place[node[at]]
    return Rows(start, node, rho), structure


@njit(cache=True, inner=True, error_model="numpy")
def _take_island(
    whole: Cost, optimum: Optimum, members: Integers, contacts: Integers, local: Integers, arena: Arena
) -> _Island:  # pragma: no cover - compiled
    """Copy an island's share of the cost and of the start."""
    own, structure = _island_rows(whole.rows, members, contacts, local, arena)
    n, nodes, total = contacts.shape[0], members.shape[0], whole.law.mu.shape[0]
    z, momentum = matrix(arena, nodes, BLOCK), matrix(arena, nodes, BLOCK)
    for i in range(nodes):
        for k in range(BLOCK):
            z[structure.place[i], k] = optimum.z[members[i], k]
            momentum[structure.place[i], k] = whole.momentum[members[i], k]
    c, mu, R_n, R_t = vector(arena, 3 * n), vector(arena, n), vector(arena, n), vector(arena, n)
    for i in range(n):
        for axis in range(3):
            c[axis * n + i] = whole.c[axis * total + contacts[i]]
        mu[i], R_n[i], R_t[i] = whole.law.mu[contacts[i]], whole.law.R_n[contacts[i]], whole.law.R_t[contacts[i]]
    law = Law(mu, R_n, R_t, whole.law.C, whole.law.lower, whole.law.upper)
    blocks = structure.column.shape[0]
    H = Hessian(structure, stack(arena, nodes, BLOCK, BLOCK), stack(arena, blocks, BLOCK, BLOCK))
    at = Optimum(z, vector(arena, 3 * n), vector(arena, 3 * n))
    return _Island(members, contacts, Cost(own, c, law, momentum), at, H)


@njit(cache=True, inner=True, error_model="numpy")
def _return_island(island: _Island, optimum: Optimum) -> None:  # pragma: no cover - compiled
    """Copy an island's result into the result of all islands."""
    members, contacts, at, place = island.members, island.contacts, island.at, island.H.structure.place
    n, total = contacts.shape[0], optimum.u.shape[0] // 3
    for i in range(members.shape[0]):
        for k in range(BLOCK):
            optimum.z[members[i], k] = at.z[place[i], k]
    for i in range(n):
        for axis in range(3):
            optimum.gamma[axis * total + contacts[i]] = at.gamma[axis * n + i]
            optimum.u[axis * total + contacts[i]] = at.u[axis * n + i]


@njit(cache=True, inner=True, error_model="numpy")
def _solve_island(
    island: _Island, parameters: Parameters, impulses: Array, arena: Arena
) -> tuple[int, int, float]:  # pragma: no cover - compiled
    """Solve one island; start from `impulses`, shape (all contacts, 3), if they are the better start.

    Return the result of `_minimize`.
    """
    cost, at, n = island.cost, island.at, island.contacts.shape[0]
    warm = vector(arena, 3 * n)
    for i in range(n):
        for axis in range(3):
            warm[axis * n + i] = impulses[island.contacts[i], axis]
    iterations = start_from(cost, island.H, warm, at, arena)
    released, modes = flags(arena, n), indices(arena, n)
    released[:] = False
    while True:
        code, count, residual = _minimize(cost, island.H, parameters, at, arena)
        iterations += count
        read_modes(at.u, cost.law, modes, arena)
        if not change_roles(cost.law.mu, modes, released) or code == NOT_FINITE:
            return code, iterations, residual


@njit(cache=True, inner=True, error_model="numpy")
def _by_node(trees: Trees, L: Array, first: Integers) -> tuple[Array, Array]:  # pragma: no cover - compiled
    """Compute z = Lᵀ(v - v*) and the momentum Lᵀ v* by node, shapes (nodes, 6)."""
    nodes = first[trees.size.shape[0]]
    z, momentum = np.zeros((nodes, BLOCK)), np.zeros((nodes, BLOCK))
    for i in range(trees.size.shape[0]):
        for a in range(trees.size[i]):
            start, p = 0.0, 0.0
            for b in range(a, trees.size[i]):
                start += L[i, b, a] * (trees.v[i, b] - trees.v_star[i, b])
                p += L[i, b, a] * trees.v_star[i, b]
            z[first[i] + a // BLOCK, a % BLOCK] = start
            momentum[first[i] + a // BLOCK, a % BLOCK] = p
    return z, momentum


@njit(cache=True, inner=True, error_model="numpy")
def _regularized(
    h: float, trees: Trees, contacts: Touching, rows: Rows, parameters: Parameters, momentum: Array
) -> tuple[bool, Cost, Array]:  # pragma: no cover - compiled
    """Build the cost of all islands and v̂ of each contact, shape (n,); return False if a contact is unphysical."""
    gap, stiffness, damping, J = contacts.gap, contacts.stiffness, contacts.damping, contacts.rows
    n, none, physical = gap.shape[0], np.zeros(0), True
    mu, R_n, R_t, v_hat, c = contacts.mu.copy(), np.ones(n), np.ones(n), np.zeros(n), np.zeros(3 * n)
    for i in range(n):
        if not (stiffness[i] > 0.0 and damping[i] >= 0.0 and mu[i] >= 0.0):
            physical = False
            break
        R_n[i], R_t[i], v_hat[i] = regularize(
            h, inverse_mass(rows, i), gap[i], stiffness[i], damping[i], parameters.beta, parameters.sigma
        )
        if mu[i] == np.inf and gap[i] > CLOSED_GAP:
            mu[i] = 0.0
        for axis in range(3):
            s = -contacts.surface_velocity[i, axis]
            for side in range(2):
                tree = contacts.tree[i, side]
                if tree >= 0:
                    for k in range(trees.size[tree]):
                        s += J[i, side, axis, k] * trees.v_star[tree, k]
            c[axis * n + i] = s
        c[i] -= v_hat[i]
    return physical, Cost(rows, c, Law(mu, R_n, R_t, none, none, none), momentum), v_hat


@njit(cache=True, inner=True, error_model="numpy")
def _add_change(
    size: Integers, first: Integers, island: Integers, L: Array, z: Array, v_plus: Array
) -> None:  # pragma: no cover - compiled
    """Add L⁻ᵀz to the velocities of the trees that contacts move."""
    x = np.empty(v_plus.shape[1])
    for i in range(size.shape[0]):
        moved, s = False, size[i]
        for a in range(s):
            at = first[i] + a // BLOCK
            moved = moved or island[at] >= 0
            x[a] = z[at, a % BLOCK] if island[at] >= 0 else 0.0
        if moved:
            solve_lower_transposed(L[i, :s, :s], x[:s])
            for a in range(s):
                v_plus[i, a] += x[a]


@linked
@njit(cache=True, error_model="numpy")
def solve_all(
    h: float, trees: Trees, contacts: Touching, parameters: Parameters, result: Result, arena: Arena
) -> tuple[int, int, float, int]:  # pragma: no cover - compiled
    """Solve a step of length h [s] into `result`; return outcome, iterations, residual and number of islands."""
    begin(arena)
    size, L, v_plus = trees.size, np.zeros_like(trees.M), result.v_plus
    t, n = size.shape[0], contacts.gap.shape[0]
    v_plus[:] = 0.0
    first = np.zeros(t + 1, dtype=np.int64)
    for i in range(t):
        first[i + 1] = first[i] + (size[i] + BLOCK - 1) // BLOCK
        for a in range(size[i]):
            v_plus[i, a] = trees.v_star[i, a]
    result.impulses[:] = 0.0
    result.contact_velocity[:] = 0.0
    if not (_whiten(size, trees.M, L) and np.isfinite(np.sum(v_plus))):
        return NOT_FINITE, 0, np.inf, 0
    rows = whitened_rows(size, first, L, contacts.tree, contacts.rows)
    z, momentum = _by_node(trees, L, first)
    physical, cost, v_hat = _regularized(h, trees, contacts, rows, parameters, momentum)
    if not physical:
        return UNPHYSICAL, 0, np.inf, 0
    optimum, local = Optimum(z, np.zeros(3 * n), cost.c.copy()), np.empty(first[t], dtype=np.int64)
    island, count = _islands(first[t], rows)
    owner = np.empty(n, dtype=np.int64)
    for i in range(n):
        owner[i] = island[rows.node[rows.start[i]]] if rows.start[i + 1] > rows.start[i] else -1
    node_start, members = _by_group(island, count)
    contact_start, touching = _by_group(owner, count)
    code, iterations, residual = CONVERGED, 0, 0.0
    for g in range(count):
        taken = mark(arena)
        nodes = members[node_start[g] : node_start[g + 1]]
        part = _take_island(cost, optimum, nodes, touching[contact_start[g] : contact_start[g + 1]], local, arena)
        ended, steps, rest = _solve_island(part, parameters, contacts.impulses, arena)
        _return_island(part, optimum)
        release(arena, taken)
        code, iterations, residual = max(code, ended), max(iterations, steps), max(residual, rest)
        if ended == NOT_FINITE:
            return NOT_FINITE, iterations, np.inf, count
    _add_change(size, first, island, L, z, v_plus)
    for i in range(n):
        for axis in range(3):
            result.impulses[i, axis] = optimum.gamma[axis * n + i]
            result.contact_velocity[i, axis] = optimum.u[axis * n + i]
        result.contact_velocity[i, 0] += v_hat[i]
    return code, iterations, residual, count


def solve_sparse(
    problem: SparseProblem,
    *,
    sigma: float = SIGMA,
    beta: float = BETA,
    tolerance: float = 1e-6,
    iterations: int = 200,
) -> SparseSolution:
    """Solve one step of many bodies; start from the initial velocities or, if better, from `SparseProblem.impulses`.

    Args:
        problem: The step.
        sigma: Tangential regularization relative to the inverse mass (Castro, Permenter & Han 2022, section IX-B).
        beta: Period of a near-rigid contact, in steps (section IX-A of that paper).
        tolerance: ε_r of the stopping rule (eq. 20 of that paper), for every island.
        iterations: Limit of Newton steps.

    Returns:
        Velocities, impulses and the outcome of the search.

    Raises:
        InputError: A contact's stiffness, damping or friction is unphysical.
    """
    n = len(problem.gap)
    result = Result(np.empty(problem.v.shape), np.empty((n, 3)), np.empty((n, 3)))
    ended = solve_all(
        problem.h,
        Trees(problem.size, problem.M, problem.v, problem.v_star),
        Touching(
            problem.tree,
            problem.rows,
            problem.gap,
            problem.mu,
            problem.stiffness,
            problem.damping,
            problem.surface_velocity,
            np.zeros((n, 3)) if problem.impulses is None else problem.impulses,
        ),
        Parameters(beta, sigma, tolerance, iterations),
        result,
        SCRATCH,
    )
    return as_solution(result, ended)


def as_solution(result: Result, ended: tuple[int, int, float, int]) -> SparseSolution:
    """Build a solution from the result of `solve_all` and its outcome `ended`.

    Raises:
        InputError: A contact's stiffness, damping or friction is unphysical.
    """
    code, count, residual, islands = ended
    if code == UNPHYSICAL:
        raise InputError("contacts: stiffness must be positive, damping and friction must not be negative")
    status = Status.SOLVED if code == CONVERGED or residual <= ACCEPTED else Status.REPAIRED
    return SparseSolution(
        v_plus=result.v_plus,
        impulses=result.impulses,
        contact_velocity=result.contact_velocity,
        status=Status.FALLBACK if code == NOT_FINITE else status,
        residual=residual,
        iterations=count,
        islands=islands,
    )


@dataclass(frozen=True, slots=True)
class Sparse:
    """SAP as a contact model of many bodies; `idcontrol.plants.bodies` runs each step in one compiled call."""

    parameters: Parameters

    def __call__(self, problem: SparseProblem, contacts: object) -> SparseSolution:
        """Solve one step; `contacts` is not used."""
        p = self.parameters
        return solve_sparse(problem, sigma=p.sigma, beta=p.beta, tolerance=p.tolerance, iterations=p.iterations)
