r"""The convex contact problems as stated in math.md, solved by a general library: an oracle for the fast models.

Over the whitened change of velocity x (`idcontrol.models.whitened`), with ``J v⁺ = ρ x + c``, and math.md's sections on
the right:

    `dissipation`      min ½|x|²            s.t.  G_e (ρx + c) ≥ 0,  S v⁺ = T v⁺ = 0 where μ = inf     (7.3)
    `one_stage`        min ½|x|² + ½|s|²/δ  s.t.  the same with ρx + s + c                             (7.5)
    `no_slip`          min ½|x|²            s.t.  N v⁺ + φ/h ≥ 0,  S v⁺ = T v⁺ = 0 at closed contacts  (4 and 7.6)
    `smallest_torque`  min ½|hτ(y)|² over the impulses y of the same motion, within the edge rule      (7.4)

The multipliers of the rows are the contact impulses. Clarabel solves the programs; if Clarabel fails and ECOS is
installed, ECOS solves them. A step takes tens of milliseconds and is accurate to about six digits.
"""

from __future__ import annotations

import warnings
from typing import Any, Final

import cvxpy
import numpy as np
from msgspec import structs

from idcontrol.models.dissipation import SQUEEZED, held_contacts
from idcontrol.models.distribution import PARTING, Bounds, Cones
from idcontrol.models.step import CLOSED_GAP, Ending, StepProblem, StepSolution, WarmStart
from idcontrol.models.sticking import Attempt, settle
from idcontrol.models.whitened import Whitened, finish, held_rows, hold, whiten
from idcontrol.solvers.rank import HELD_RANK_TOLERANCE
from idcontrol.types import Array, Booleans, Status

ACCEPTED: Final = 1e-5
"""Relative residual up to which an answer counts: general libraries are less accurate than the solvers of this package.
"""

RIDGE: Final = 1e-8
"""Weight of ½|y|² in `smallest_torque` (math.md, section 7.4)."""

_SOLVERS: Final[tuple[tuple[str, dict[str, float]], ...]] = (
    ("CLARABEL", {"tol_gap_abs": 1e-12, "tol_gap_rel": 1e-12, "tol_feas": 1e-12}),
    ("ECOS", {"abstol": 1e-11, "reltol": 1e-11, "feastol": 1e-11}),
)


def dissipation(problem: StepProblem, warm: WarmStart | None = None) -> StepSolution:
    """Solve stage I of maximal dissipation: v⁺ is unique for fixed held contacts, the impulses are not.

    Args:
        problem: The step, forward or inverse.
        warm: Not used.
    """
    return _without_slip(problem, held_contacts(problem), problem.contacts.mu)


def one_stage(problem: StepProblem, warm: WarmStart | None = None, epsilon: float = 1e-6) -> StepSolution:
    """Solve maximal dissipation with a unique distribution of impulses, as `idcontrol.models.dissipation.one_stage`.

    Args:
        problem: The step, forward or inverse.
        warm: Not used.
        epsilon: δ relative to the mean diagonal entry of ρρᵀ.
    """
    solution = _without_slip(problem, held_contacts(problem), problem.contacts.mu, epsilon)
    r, n = whiten(problem), len(problem.contacts)
    y = solution.impulses.T
    undone = np.abs(r.c[: 3 * n].reshape(3, n)[:, y.any(axis=0)]).max(initial=0.0)
    if _delta(r, n, epsilon) * np.abs(y).max(initial=0.0) <= SQUEEZED * undone:
        return solution
    ending = Ending(Status.FALLBACK, solution.residual, 0, epsilon, "squeeze")
    return finish(problem, r, np.zeros(r.rho.shape[0]), ending)


def no_slip(problem: StepProblem, warm: WarmStart | None = None) -> StepSolution:
    """Solve the projection without slip: only contacts that press keep their tangential rows.

    Args:
        problem: The step, forward or inverse.
        warm: Not used.
    """
    return _without_slip(problem, problem.contacts.gap <= CLOSED_GAP, np.zeros(len(problem.contacts)))


def smallest_torque(
    problem: StepProblem,
    solution: StepSolution,
    cones: Cones,
    reference: Array | float = 0.0,
    bounds: Bounds | None = None,
) -> tuple[Array, Array] | None:
    """Solve stage II: impulses of the same motion with the smallest torque.

    Args:
        problem: The step with prescribed velocities.
        solution: Its solution by stage I.
        cones: Cones of the impulses.
        reference: Target of the motor impulses, shape (p,) [N m s].
        bounds: Bounds of the motor impulses; dropped if no impulses of the same motion satisfy them.

    Returns:
        Motor impulses hτ (p,) and contact impulses (n, 3); None if the library fails.
    """
    h, n, held = problem.h, len(problem.contacts), cones.held
    r = whiten(problem)
    J_b, J_q = problem.contacts.jacobian[:, r.free], problem.contacts.jacobian[:, r.fixed]
    L_tau = r.M[np.ix_(r.fixed, r.free)] @ np.linalg.solve(r.M[np.ix_(r.free, r.free)], J_b.T) - J_q.T
    y_1 = solution.impulses.T.ravel()
    velocity = r.c[: 3 * n] + r.rows[: 3 * n] @ (solution.v_plus - r.v_free)
    edges = _edges(np.where(held, 0.0, problem.contacts.mu))
    slip, speed = (np.abs(x).reshape(3, n) for x in (velocity, np.abs(r.c[: 3 * n]) + np.abs(velocity - r.c[: 3 * n])))
    rubs = ~held & (problem.contacts.mu > 0.0) & (slip[1:].max(axis=0) > cones.v_tol)
    most = np.where(rubs, ACCEPTED * speed.max(axis=0), cones.v_tol)
    edges = edges[:, edges.T @ velocity <= most[edges[:n].argmax(axis=0)]]
    resting = np.flatnonzero(held & (velocity[:n] <= PARTING * cones.v_tol))
    pushes, directions = (
        edges.shape[1],
        np.hstack((edges, np.eye(3 * n)[:, np.concatenate((n + resting, 2 * n + resting))])),
    )
    if not directions.shape[1]:
        return solution.multipliers - L_tau @ y_1, np.zeros((n, 3))
    # forces instead of impulses, and torques relative to a typical one: tolerances of libraries are absolute
    typical = float(np.sqrt((L_tau**2).sum() / (3 * n)))
    weights = np.sqrt(RIDGE + np.tile(cones.weight, 3))
    eta = cvxpy.Variable(directions.shape[1])
    torque = (L_tau @ directions / typical) @ eta + (solution.multipliers - L_tau @ y_1 - reference) / (typical * h)
    span, size, _ = np.linalg.svd(J_b.T @ directions, full_matrices=False)
    span = span[:, size > 1e-8 * size[0]]
    rows = [(span.T @ J_b.T @ directions) @ eta == span.T @ J_b.T @ y_1 / h]
    if pushes:
        rows.append(eta[:pushes] >= 0.0)
    objective = cvxpy.sum_squares(torque) + cvxpy.sum_squares((weights[:, None] * directions) @ eta)
    bounded = []
    if bounds is not None:
        least, most = ((bound - reference) / (typical * h) for bound in bounds)
        bounded += [torque[np.isfinite(least)] >= least[np.isfinite(least)]]
        bounded += [torque[np.isfinite(most)] <= most[np.isfinite(most)]]
    goal = cvxpy.Minimize(objective)
    if not _solved(cvxpy.Problem(goal, rows + bounded)) and not (bounded and _solved(cvxpy.Problem(goal, rows))):
        return None
    y = h * directions @ eta.value
    return solution.multipliers + L_tau @ (y - y_1), np.ascontiguousarray(y.reshape(3, n).T)


def _edges(mu: Array) -> Array:
    """Return impulses [N; S; T] along the edges N ± μS, N ± μT of each pyramid, columns; N alone if μ is 0 or inf."""
    n = mu.size
    columns = []
    for i in range(n):
        for axis, sign in ((1, 1.0), (1, -1.0), (2, 1.0), (2, -1.0)) if 0.0 < mu[i] < np.inf else ((1, 0.0),):
            edge = np.zeros(3 * n)
            edge[axis * n + i] = sign * mu[i] if sign else 0.0
            edge[i] = 1.0
            columns.append(edge)
    return np.array(columns).reshape(-1, 3 * n).T


def _delta(whitened: Whitened, n: int, epsilon: float) -> float:
    """Return the ridge δ of `one_stage`."""
    rows = whitened.rho[: 3 * n]
    return epsilon * float(np.vdot(rows, rows)) / max(3 * n, 1)


def _without_slip(problem: StepProblem, closed: Booleans, mu: Array, epsilon: float = 0.0) -> StepSolution:
    """Run `_projection` without slip at closed contacts that press (`idcontrol.models.sticking`)."""
    r, n = whiten(problem), len(problem.contacts)

    def attempt(held: Booleans, out: Booleans, _: float) -> Attempt[StepSolution]:
        solution = _projection(problem, held, mu, epsilon, out)
        solved = solution.status is Status.SOLVED
        pressure = solution.impulses[:, 0]
        velocity = r.c[:n] + r.rows[:n] @ (solution.v_plus - r.v_free)
        presses = pressure > ACCEPTED * pressure.max(initial=0.0)
        still = ACCEPTED * np.abs(r.c).max(initial=0.0)
        presses |= out & (velocity < -still)
        return Attempt(answer=solution, solved=solved, presses=solved & presses, parts=solved & (velocity > still))

    solution, unsettled = settle(closed, closed, attempt)
    if not unsettled or solution.status is not Status.SOLVED:
        return solution
    return structs.replace(solution, status=Status.REPAIRED, note=unsettled)


def _projection(problem: StepProblem, held: Booleans, mu: Array, epsilon: float, out: Booleans) -> StepSolution:
    """Solve the first three programs of the module.

    `mu` bounds friction at contacts that are not held, `out` are excluded.
    """
    r, n, h = whiten(problem), len(problem.contacts), problem.h
    edges = _edges(np.where(held, 0.0, mu))
    edges = edges[:, ~(edges[:n][out] > 0.0).any(axis=0)]
    delta = _delta(r, n, epsilon)
    # δ alone distinguishes held rows that share the load, so they are not dependent
    rho = np.hstack((r.rho, np.sqrt(delta) * np.eye(r.rho.shape[0], 3 * n))) if delta else r.rho
    tolerance = 1e-6 * epsilon if delta else HELD_RANK_TOLERANCE
    kept = hold(r._replace(rho=rho), held_rows(r, held), tolerance).kept

    G, c = edges.T @ rho[: 3 * n], edges.T @ r.c[: 3 * n]
    length = np.linalg.norm(G, axis=1)
    length[length == 0.0] = 1.0
    # accelerations instead of velocities: the multipliers are then forces, and all numbers have a similar size
    x = cvxpy.Variable(rho.shape[1])
    conditions: list[Any] = []
    if length.size:
        conditions.append((G / length[:, None]) @ x + c / length / h >= 0.0)
    if kept.size:
        conditions.append(rho[kept] @ x + r.c[kept] / h == 0.0)
    f, residual = np.zeros(r.rho.shape[0]), np.inf
    if _solved(cvxpy.Problem(cvxpy.Minimize(0.5 * cvxpy.sum_squares(x)), conditions)):
        eta = np.zeros(0)
        if length.size:
            eta = h * np.maximum(np.atleast_1d(conditions[0].dual_value), 0.0) / length
            f[: 3 * n] = edges @ eta
        if kept.size:
            f[kept] -= h * np.atleast_1d(conditions[-1].dual_value)
        # rows of length one give impulses and velocities the same unit, so that near-zero impulses are visible
        missed = np.abs(np.minimum(eta * length, (G @ (rho.T @ f) + c) / length)).max(initial=0.0)
        residual = missed / (np.abs(c / length).max(initial=0.0) or 1.0)
    status, note = (Status.SOLVED, "") if residual <= ACCEPTED else (Status.FALLBACK, "squeeze")
    return finish(problem, r, f, Ending(status, residual, 0, epsilon, note))


def _solved(program: Any) -> bool:
    """True if Clarabel, or ECOS after Clarabel has failed, solves the program."""
    for solver, options in _SOLVERS:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # "may be inaccurate": residuals are checked
                program.solve(solver=solver, **options)
        except cvxpy.SolverError:
            continue
        if program.status in (cvxpy.OPTIMAL, cvxpy.OPTIMAL_INACCURATE):
            return True
        if program.status == cvxpy.INFEASIBLE:
            return False
    return False
