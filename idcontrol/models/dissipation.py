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

from idcontrol.models.problem import StepProblem, StepSolution, WarmStart
from idcontrol.models.reduction import Reduction, hold, recover, reduce
from idcontrol.solvers.psd import solve_psd_lcp
from idcontrol.solvers.status import SolverStatus
from idcontrol.types import Array, Booleans, Integers, Status

CLOSED_GAP = 1e-5
"""A contact with infinite friction is held against slip if its gap is below this [m]."""


@njit(cache=True)
def _edges(rho: Array, c: Array, mu: Array, owner: Integers, rows: Array, r: Array) -> int:  # pragma: no cover
    """Edge rows divided by sqrt(1 + μ²), so that all are comparable; `owner` is 4 i + edge."""
    n, k = mu.shape[0], rho.shape[1]
    count = 0
    for i in range(n):
        if mu[i] == 0.0 or np.isinf(mu[i]):
            rows[count] = rho[i]
            r[count] = c[i]
            owner[count] = 4 * i
            count += 1
            continue
        s = np.sqrt(1.0 + mu[i] * mu[i])
        for edge in range(4):
            source = (1 + edge // 2) * n + i
            weight = mu[i] if edge % 2 == 0 else -mu[i]
            for a in range(k):
                rows[count, a] = (rho[i, a] + weight * rho[source, a]) / s
            r[count] = (c[i] + weight * c[source]) / s
            owner[count] = 4 * i + edge
            count += 1
    return count


@njit(cache=True)
def _impulses(eta: Array, owner: Integers, mu: Array, f: Array) -> None:  # pragma: no cover - compiled
    """Contact impulses from edge impulses."""
    n = mu.shape[0]
    for row in range(eta.shape[0]):
        i, edge = owner[row] // 4, owner[row] % 4
        if mu[i] == 0.0 or np.isinf(mu[i]):
            f[i] += eta[row]
            continue
        value = eta[row] / np.sqrt(1.0 + mu[i] * mu[i])
        f[i] += value
        f[(1 + edge // 2) * n + i] += (mu[i] if edge % 2 == 0 else -mu[i]) * value


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
    rho, c = reduction.rho, reduction.c
    sticking = np.flatnonzero(held_contacts(problem))
    rigid = np.arange(3 * n, rows)
    held = None
    if sticking.size or rigid.size:
        held = hold(reduction, np.concatenate((rigid, np.column_stack((n + sticking, 2 * n + sticking)).ravel())))
        rho, c = held.rho, held.c
    edge_rows, r = np.empty((4 * n, rho.shape[1])), np.empty(4 * n)
    owner = np.empty(4 * n, dtype=np.int64)
    count = _edges(rho[: 3 * n], c[: 3 * n], contacts.mu, owner, edge_rows, r)
    owner = owner[:count]
    active = np.zeros(0, dtype=np.int64)
    if warm:
        bits = np.array([warm.get(int(identity), 0) for identity in contacts.identity], dtype=np.int64)
        active = np.flatnonzero((bits[owner // 4] >> (owner % 4)) & 1)
    result = solve_psd_lcp(edge_rows[:count], r[:count], active)
    f = np.zeros(rows)
    if result.status is SolverStatus.SOLVED:
        _impulses(result.z, owner, contacts.mu, f)
        if held is not None:
            f = held.impulses(reduction, f)
    v_plus, impulse = recover(reduction, f)
    remember: WarmStart = {}
    for row in np.flatnonzero(result.z > 0.0):
        identity = int(contacts.identity[owner[row] // 4])
        remember[identity] = remember.get(identity, 0) | 1 << int(owner[row] % 4)
    solved = result.status is SolverStatus.SOLVED
    return StepSolution(
        v_plus=v_plus,
        impulses=np.ascontiguousarray(f[: 3 * n].reshape(3, n).T),
        multipliers=impulse,
        status=Status.SOLVED if solved else Status.FALLBACK,
        residual=result.residual,
        iterations=result.iterations,
        note="" if solved else "squeeze" if result.status is SolverStatus.INFEASIBLE else result.status.name.lower(),
        warm=remember,
    )
