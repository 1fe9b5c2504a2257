r"""Coulomb friction as a linear complementarity problem (math.md 5; 003 section 5; Stewart-Trinkle, Anitescu-Potra).

    ⎡ NΓNᵀ   NΓFᵀ   0 ⎤ ⎡f_N⎤   ⎡ N v° + φ/h ⎤   ⎡w_N⎤
    ⎢ FΓNᵀ   FΓFᵀ   E ⎥ ⎢f_F⎥ + ⎢ F v°       ⎥ = ⎢w_F⎥ ,   0 ≤ z ⊥ w ≥ 0
    ⎣ diag μ  -Eᵀ   0 ⎦ ⎣ λ ⎦   ⎣ 0          ⎦   ⎣w_λ⎦

with F = [S; -S; T; -T]: the friction pyramid is the inscribed diamond |f_S| + |f_T| ≤ μ f_N, which has all of μ along
the two tangents and μ/√2 along their diagonals. Contacts with μ = 0 have no tangential variables. Contacts with μ = inf
do not slip while they press: their tangential rows hold with equality (math.md 4), found by trying which of them press.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from idcontrol.models.problem import StepProblem, StepSolution, WarmStart
from idcontrol.models.reduction import Reduction, hold, recover, reduce
from idcontrol.solvers.lemke import LemkeResult, solve_regularized
from idcontrol.solvers.status import SolverStatus
from idcontrol.types import Array, Integers, Status

CLOSED_GAP = 1e-5
"""A contact with infinite friction is first taken to stick if its gap is below this [m]."""


@njit(cache=True)
def _assemble(
    rho: Array, c: Array, mu: Array, n: int, rough: Integers
) -> tuple[Array, Array, Array]:  # pragma: no cover - compiled
    """Q, r and the balancing scale (math.md 13.2) for n normals and the contacts `rough` with finite friction."""
    k, t = rho.shape[1], rough.shape[0]
    impulses = n + 4 * t
    rows = np.empty((impulses, k))
    r = np.zeros(impulses + t)
    rows[:n] = rho[:n]
    r[:n] = c[:n]
    for j in range(t):
        i = rough[j]
        for axis in range(2):
            source = (1 + axis) * n + i
            plus, minus = n + 2 * axis * t + j, n + (2 * axis + 1) * t + j
            rows[plus] = rho[source]
            rows[minus] = -rho[source]
            r[plus] = c[source]
            r[minus] = -c[source]
    size = impulses + t
    Q = np.zeros((size, size))
    for i in range(impulses):
        for j in range(i + 1):
            s = 0.0
            for a in range(k):
                s += rows[i, a] * rows[j, a]
            Q[i, j] = s
            Q[j, i] = s
    for j in range(t):
        slip = impulses + j
        Q[slip, rough[j]] = mu[rough[j]]
        for edge in range(4):
            Q[n + edge * t + j, slip] = 1.0
            Q[slip, n + edge * t + j] = -1.0
    diagonal = np.empty(impulses)
    for i in range(impulses):
        diagonal[i] = Q[i, i]
    typical = np.median(diagonal)
    d = 1.0 / np.sqrt(typical) if typical > 0.0 else 1.0
    scale = np.full(size, d)
    scale[impulses:] = 1.0 / d
    return Q, r, scale


def _solve_normals_and_pyramids(rho: Array, c: Array, mu: Array, rough: Integers) -> tuple[LemkeResult, Array]:
    """The LCP of the module, and the impulses of all contact rows, shape (3 n,)."""
    n, t = mu.shape[0], rough.shape[0]
    Q, r, scale = _assemble(rho, c, mu, n, rough)
    result = solve_regularized(Q, r, scale=scale)
    z, f = result.z, np.zeros(3 * n)
    f[:n] = z[:n]
    f[n + rough] = z[n : n + t] - z[n + t : n + 2 * t]
    f[2 * n + rough] = z[n + 2 * t : n + 3 * t] - z[n + 3 * t : n + 4 * t]
    return result, f


def solve(problem: StepProblem, warm: WarmStart | None = None) -> StepSolution:
    """Solve one step under Coulomb friction.

    In forward mode with gaps that are not negative a solution exists and Lemke's method finds it. With prescribed
    joints it
    may not exist (joints that are told to squeeze): then the status is FALLBACK with the note ``"squeeze"`` and the
    impulses are zero (math.md 5.1).

    Args:
        problem: The step.
        warm: Not used: Lemke's method starts cold.

    Returns:
        The solution; its residual is that of the complementarity problem.
    """
    reduction = reduce(problem)
    mu = problem.contacts.mu
    n = mu.shape[0]
    rows = reduction.rho.shape[0]
    rigid = np.arange(3 * n, rows)
    rough = np.flatnonzero((mu > 0.0) & np.isfinite(mu))
    endless = np.isinf(mu)
    if not endless.any() and rigid.size == 0:
        if n == 0:
            v_plus, impulse = recover(reduction, np.zeros(0))
            return StepSolution(
                v_plus=v_plus,
                impulses=np.zeros((0, 3)),
                multipliers=impulse,
                status=Status.SOLVED,
                residual=0.0,
                iterations=0,
            )
        result, f = _solve_normals_and_pyramids(reduction.rho, reduction.c, mu, rough)
        return _solution(reduction, result, f, n)
    stick = endless & (problem.contacts.gap <= CLOSED_GAP)
    iterations = 0
    settled = False
    for _ in range(2 * n + 2):
        sticking = np.flatnonzero(stick)
        held = hold(reduction, np.concatenate((rigid, np.column_stack((n + sticking, 2 * n + sticking)).ravel())))
        result, f = _solve_normals_and_pyramids(held.rho[: 3 * n], held.c[: 3 * n], mu, rough)
        iterations += result.iterations
        f = held.impulses(reduction, np.concatenate((f, np.zeros(rows - 3 * n))))
        opening = reduction.c[:n] + reduction.rho[:n] @ (reduction.rho.T @ f)
        # what presses sticks, what opens does not; a contact that does neither keeps its role
        tolerance = 1e-9 * max(1.0, float(np.abs(reduction.c).max(initial=0.0)))
        wanted = endless & ((f[:n] > 0.0) | (stick & (opening <= tolerance)))
        if (wanted == stick).all():
            settled = True
            break
        stick = wanted
    solution = _solution(reduction, result, f, n)
    if settled or solution.status is not Status.SOLVED:
        return solution
    return StepSolution(
        v_plus=solution.v_plus,
        impulses=solution.impulses,
        multipliers=solution.multipliers,
        status=Status.REPAIRED,
        residual=solution.residual,
        iterations=iterations,
        regularization=solution.regularization,
        note="which contacts stick did not settle",
    )


def _solution(reduction: Reduction, result: LemkeResult, f: Array, n: int) -> StepSolution:
    failed = result.status is not SolverStatus.SOLVED
    if failed:
        f = np.zeros_like(f)
    v_plus, impulse = recover(reduction, f)
    status = Status.FALLBACK if failed else Status.REPAIRED if result.regularization > 0.0 else Status.SOLVED
    note = "squeeze" if result.status is SolverStatus.RAY else result.status.name.lower() if failed else ""
    return StepSolution(
        v_plus=v_plus,
        impulses=np.ascontiguousarray(f[: 3 * n].reshape(3, n).T),
        multipliers=impulse,
        status=status,
        residual=result.residual,
        iterations=result.iterations,
        regularization=result.regularization,
        note=note,
    )
