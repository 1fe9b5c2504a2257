"""Stage II as stated in math.md 7.4, solved by a general library: an oracle for `smallest_torque`.

Clarabel solves the program; if Clarabel fails and ECOS is installed, ECOS solves it. A step takes tens of milliseconds
and is accurate to about six digits.
"""

import warnings
from typing import Any, Final

import cvxpy
import numpy as np

from idcontrol.models.distribution import PARTING, Bounds, Cones
from idcontrol.models.step import StepProblem, StepSolution
from idcontrol.models.whitened import whiten
from idcontrol.types import Array

ACCEPTED: Final = 1e-5
"""Relative residual up to which an answer counts: general libraries are less accurate than the solvers of this package.
"""

RIDGE: Final = 1e-8
"""Weight of ½|y|² in `smallest_torque` (math.md, section 7.4)."""

_SOLVERS: Final[tuple[tuple[str, dict[str, float]], ...]] = (
    ("CLARABEL", {"tol_gap_abs": 1e-12, "tol_gap_rel": 1e-12, "tol_feas": 1e-12}),
    ("ECOS", {"abstol": 1e-11, "reltol": 1e-11, "feastol": 1e-11}),
)


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
