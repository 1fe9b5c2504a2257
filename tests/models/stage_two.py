"""Stage II as math.md 7.4 writes it, solved by Clarabel."""

from __future__ import annotations

import cvxpy
import numpy as np

from idcontrol.models.problem import StepProblem, StepSolution


def by_clarabel(
    problem: StepProblem, first: StepSolution, v_tol: float, weights: np.ndarray, reference: np.ndarray | float = 0.0
) -> tuple[np.ndarray, np.ndarray]:
    """Smallest torque over edge impulses η ≥ 0 with the edge rule, for a machine whose joints are all prescribed.

    Args:
        problem: The step; no friction coefficient is infinite.
        first: Its solution by stage I.
        v_tol: Edges that move faster carry no impulse [m/s].
        weights: On each contact's impulse, relative to the mean of diag(LτᵀLτ), shape (n,).
        reference: Motor impulses to come near to, shape (a,) [N m s].

    Returns:
        Motor impulses hτ and the contact impulses y in block order.
    """
    contacts, u = problem.contacts, problem.M.shape[0] - problem.prescribed.index.size
    n = len(contacts)
    y1 = first.impulses.T.ravel()
    J_b, J_q = contacts.jacobian[:, :u], contacts.jacobian[:, u:]
    L_tau = problem.M[u:, :u] @ np.linalg.solve(problem.M[:u, :u], J_b.T) - J_q.T
    normal, s, t = (contacts.jacobian @ first.v_plus - contacts.surface_velocity).reshape(3, n)
    normal = normal + np.maximum(contacts.gap / problem.h, -0.1)
    generators = []
    for i in range(n):
        for axis, speed in ((1, s[i]), (2, t[i])):
            for sign in (1.0, -1.0):
                if normal[i] + sign * contacts.mu[i] * speed <= v_tol:
                    edge = np.zeros(3 * n)
                    edge[i], edge[axis * n + i] = 1.0, sign * contacts.mu[i]
                    generators.append(edge)
    if not generators:
        return first.multipliers - L_tau @ y1, np.zeros(3 * n)
    B = np.array(generators).T
    # forces, not impulses, and rows of one size: tolerances of the solver are absolute
    eta = cvxpy.Variable(B.shape[1], nonneg=True)
    typical = np.sqrt((L_tau**2).sum() / (3 * n))
    constant = first.multipliers - L_tau @ y1
    ridge = np.sqrt(1e-8 + np.tile(weights, 3))
    tau = (L_tau @ B / typical) @ eta + (constant - reference) / (typical * problem.h)
    basis, size, _ = np.linalg.svd(J_b.T @ B, full_matrices=False)
    basis = basis[:, size > 1e-8 * size[0]]
    program = cvxpy.Problem(
        cvxpy.Minimize(cvxpy.sum_squares(tau) + cvxpy.sum_squares(ridge[:, None] * B @ eta)),
        [(basis.T @ J_b.T @ B) @ eta == basis.T @ J_b.T @ y1 / problem.h],
    )
    program.solve(solver=cvxpy.CLARABEL, tol_gap_abs=1e-12, tol_gap_rel=1e-12, tol_feas=1e-12)
    assert program.status in (cvxpy.OPTIMAL, cvxpy.OPTIMAL_INACCURATE)
    y = problem.h * B @ eta.value
    return first.multipliers + L_tau @ (y - y1), y
