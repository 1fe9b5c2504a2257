r"""Maximal dissipation as a convex problem, stage I (math.md 7.1-7.3; 003 section 6; Drumwright-Shell, Anitescu).

The consistent objective is a projection of the free velocity onto the cone of velocities that contact allows,

    min ½ (v_b - v°_b)ᵀ M_bb (v_b - v°_b)   s.t.   G_e v + φ̃/h ≥ 0,    rows of G_e: N_i ± μ_i S_i, N_i ± μ_i T_i

Its multipliers are the edge impulses η ≥ 0, at most as many as there are unknown velocities: f_N = Σ η_e,
f_S = μ (η_+S - η_-S). v⁺ is unique. The price of convexity: a loaded contact that slides lifts at μ max(|v_S|, |v_T|).
Contacts with μ = 0 have one row. Contacts with μ = inf do not slip while they are closed (math.md 4.1).
"""

from __future__ import annotations

import numpy as np
from numba import njit

from idcontrol.models.problem import CLOSED_GAP, StepProblem, StepSolution, WarmStart
from idcontrol.models.reduction import Reduction, hold, recover, reduce
from idcontrol.solvers.psd import psd_lcp_kernel
from idcontrol.solvers.status import INFEASIBLE, SOLVED, SolverStatus
from idcontrol.types import Array, Booleans, Integers, Status


@njit(cache=True, error_model="numpy")
def _edge_lcp(
    rho: Array, c: Array, mu: Array, warm: Integers, f: Array, active: Integers
) -> tuple[int, int, float]:  # pragma: no cover - compiled
    """Assemble the edge rows, solve their LCP, and turn edge impulses into contact impulses.

    Edge rows are divided by sqrt(1 + μ²), so that all are comparable. Edges of a contact are numbered +S, -S, +T, -T.

    Args:
        rho: Whitened contact rows, shape (3 n, k).
        c: Their constants, shape (3 n,).
        mu: Friction coefficients, shape (n,); contacts with 0 or inf have their normal row only.
        warm: Bit set of the edges to start from, for each contact, shape (n,).
        f: Result, shape (3 n,).
        active: Result, bit set of the edges with impulse, shape (n,).

    Returns:
        Status number, iterations, residual.
    """
    n, k = mu.shape[0], rho.shape[1]
    rows, r = np.empty((4 * n, k)), np.empty(4 * n)
    owner, start = np.empty(4 * n, dtype=np.int64), np.empty(k, dtype=np.int64)
    count, started = 0, 0
    for i in range(n):
        edges = 1 if mu[i] == 0.0 or np.isinf(mu[i]) else 4
        weight = mu[i] if edges == 4 else 0.0
        s = np.sqrt(1.0 + weight * weight)
        for edge in range(edges):
            source = (1 + edge // 2) * n + i
            signed = weight if edge % 2 == 0 else -weight
            for a in range(k):
                rows[count, a] = (rho[i, a] + signed * rho[source, a]) / s
            r[count] = (c[i] + signed * c[source]) / s
            owner[count] = 4 * i + edge
            if (warm[i] >> edge) & 1 and started < k:
                start[started] = count
                started += 1
            count += 1
    rows, r = rows[:count], r[:count]
    z, y, w = np.empty(count), np.empty(k), np.empty(count)
    status, iterations, _, residual, _ = psd_lcp_kernel(
        rows, r, start, started, z, y, w, np.empty((count, k)), np.empty((3, count)), np.empty((2 * k + 4, k))
    )
    f[:] = 0.0
    active[:] = 0
    if status != SOLVED:
        return status, iterations, residual
    for row in range(count):
        if z[row] <= 0.0:
            continue
        i, edge = owner[row] // 4, owner[row] % 4
        active[i] |= 1 << edge
        weight = 0.0 if mu[i] == 0.0 or np.isinf(mu[i]) else mu[i]
        value = z[row] / np.sqrt(1.0 + weight * weight)
        f[i] += value
        f[(1 + edge // 2) * n + i] += (weight if edge % 2 == 0 else -weight) * value
    return status, iterations, residual


def held_contacts(problem: StepProblem) -> Booleans:
    """Contacts that may not slip: infinite friction, closed."""
    return np.isinf(problem.contacts.mu) & (problem.contacts.gap <= CLOSED_GAP)


def solve(problem: StepProblem, warm: WarmStart | None = None) -> StepSolution:
    """Stage I for one step.

    Forward, and inverse unless the joints are told to squeeze, a solution exists and is found; otherwise the status is
    FALLBACK with the note ``"squeeze"`` and the impulses are zero.

    Args:
        problem: The step.
        warm: The last solution's `warm`: which edges were active, by contact identity.
    """
    return solve_reduced(problem, reduce(problem), warm)


def solve_reduced(problem: StepProblem, reduction: Reduction, warm: WarmStart | None) -> StepSolution:
    """`solve`, for a problem that is whitened already."""
    contacts = problem.contacts
    n, rows = contacts.mu.shape[0], reduction.rho.shape[0]
    rho, c, held = reduction.rho, reduction.c, None
    if rows > 3 * n or np.isinf(contacts.mu).any():
        sticking = np.flatnonzero(held_contacts(problem))
        tangents = np.column_stack((n + sticking, 2 * n + sticking)).ravel()
        held = hold(reduction, np.concatenate((np.arange(3 * n, rows), tangents)))
        rho, c = held.rho[: 3 * n], held.c[: 3 * n]
    bits, active = np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.int64)
    identity = contacts.identity.tolist()
    if warm:
        for i, key in enumerate(identity):
            bits[i] = warm.get(key, 0)
    f = np.zeros(rows)
    number, iterations, residual = _edge_lcp(rho, c, contacts.mu, bits, f[: 3 * n], active)
    solved = number == SOLVED
    if held is not None:
        f = held.impulses(reduction, f)
    v_plus, impulse = recover(reduction, f)
    return StepSolution(
        v_plus=v_plus,
        impulses=np.ascontiguousarray(f[: 3 * n].reshape(3, n).T),
        multipliers=impulse,
        status=Status.SOLVED if solved else Status.FALLBACK,
        residual=residual,
        iterations=iterations,
        note="" if solved else "squeeze" if number == INFEASIBLE else SolverStatus(number).name.lower(),
        warm=dict(zip(identity, active.tolist(), strict=True)),
    )
