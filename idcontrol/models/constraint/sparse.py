r"""The constraint solver for many bodies, on sparse matrices, for contacts that creep but do not slide.

As long as no contact reaches its friction limit, its tangential dampers are linear, and a step is solved by Newton's
method on the normal springs that push. With ``s = J v⁺ - (surface) + (C h K φ, 0, 0)``, the velocity v* without
contacts, and c the value of s at v*,

    (M + Σ_pressing J_iᵀ C_i⁻¹ J_i) (v⁺ - v*) = -Σ_pressing J_iᵀ C_i⁻¹ c_i,     f_i = -C_i⁻¹ s_i

The iteration ends when exactly the pressing contacts have s < 0 in their normal row (math.md, section 11). The matrix
couples only bodies that touch, so the cost of factoring follows the contact graph: n for a column of n spheres, whereas
the dense problem costs n³. The result is checked against the dense law: normal forces push, and tangential forces are
within the friction pyramids.
"""

from __future__ import annotations

import numpy as np
from scipy.sparse import coo_array, csc_array, csr_array, diags_array
from scipy.sparse.linalg import splu

from idcontrol.models.constraint.solver import CREEP, contact_law
from idcontrol.models.sparse import WORLD, SparseProblem, SparseSolution
from idcontrol.solvers.status import TOLERANCE
from idcontrol.types import Array, Booleans, Integers, Status

_ITERATIONS = 50
"""Limit of iterations in addition to one per contact; in a column, an impact may travel one contact further per
iteration.
"""
_REFINEMENTS = 3
_SHARP = 1e-14
"""Momentum error below which the solution is not refined."""


def solve_sparse(problem: SparseProblem) -> SparseSolution | None:
    """Solve one step of many bodies whose contacts are springs.

    Args:
        problem: The step.

    Returns:
        The solution, whose residual is the relative momentum error. None if a contact has reached its friction limit,
        is rigid, has neither stiffness nor damping, or may not slip at all, or if the iteration failed: the dense
        solver (`idcontrol.models.constraint.solve`) is then needed.

    Raises:
        InputError: A stiffness or damping is negative.
    """
    n, mu = len(problem.gap), problem.mu
    compliance, rest = contact_law(problem, problem.h)
    if np.isinf(mu).any() or not (compliance > 0.0).all() or np.isinf(compliance).any():
        return None
    used: Booleans = np.arange(problem.v.shape[1]) < problem.size[:, None]
    M, J = _inertia(problem, used), _rows(problem, used)
    creep = CREEP * 0.5 * (J[n:] ** 2 @ (1.0 / M.diagonal())).reshape(2, n).sum(axis=0)
    tangents = (mu > 0.0) & (creep > 0.0)
    stiff = np.tile(np.divide(1.0, creep, out=np.zeros(n), where=tangents), 3)
    stiff[:n] = 1.0 / compliance
    v_star = problem.v_star[used]
    c = J @ v_star - problem.surface_velocity.T.ravel()
    c[:n] += rest
    solution = _newton(M, J, stiff, c)
    if solution is None:
        return None
    change, f, iterations = solution
    if (np.abs(f[n : 2 * n]) + np.abs(f[2 * n :]) > mu * f[:n]).any():
        return None
    pushed = J.T @ f
    size = max(np.linalg.norm(M @ (v_star + change)), np.linalg.norm(pushed))
    residual = float(np.linalg.norm(M @ change - pushed) / size) if size > 0.0 else 0.0
    v_plus = np.zeros_like(problem.v)
    v_plus[used] = v_star + change
    return SparseSolution(
        v_plus=v_plus,
        impulses=f.reshape(3, n).T.copy(),
        contact_velocity=np.ascontiguousarray((J @ v_plus[used] - problem.surface_velocity.T.ravel()).reshape(3, n).T),
        status=Status.SOLVED if residual <= TOLERANCE else Status.REPAIRED,
        residual=residual,
        iterations=iterations,
        islands=1,
    )


def _newton(M: csr_array, J: csr_array, stiff: Array, c: Array) -> tuple[Array, Array, int] | None:
    """Return the change of velocities (m,), impulses (3 n,) and iterations; None if the iteration does not converge.

    Args:
        M: Inertia, shape (m, m).
        J: Contact rows [N; S; T], shape (3 n, m).
        stiff: C⁻¹ of the rows, shape (3 n,); 0 for tangents without friction.
        c: s of the rows at zero impulse, shape (3 n,) [m/s].
    """
    n = c.size // 3
    presses = c[:n] < 0.0
    for iteration in range(1, n + _ITERATIONS + 1):
        weight = np.where(np.tile(presses, 3), stiff, 0.0)
        factors = splu(csc_array(M + J.T @ diags_array(weight) @ J), permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0)
        change = factors.solve(-(J.T @ (weight * c)))
        f = -weight * (c + J @ change)
        for _ in range(_REFINEMENTS):  # refine on the remaining momentum error, since stiff springs lose digits
            miss = J.T @ f - M @ change
            if np.linalg.norm(miss) <= _SHARP * np.linalg.norm(J.T @ f):
                break
            change = change + factors.solve(miss)
            f = -weight * (c + J @ change)
        after = (c + J @ change)[:n] < 0.0
        if (after == presses).all():
            return change, f, iteration
        presses = after
    return None


def _inertia(problem: SparseProblem, used: Booleans) -> csr_array:
    """Return the block-diagonal inertia without padding."""
    start = np.concatenate(([0], np.cumsum(problem.size)))
    both = used[:, :, None] & used[:, None, :]
    tree, row, column = np.nonzero(both)
    return csr_array(coo_array((problem.M[both], (start[tree] + row, start[tree] + column)), shape=2 * (start[-1],)))


def _rows(problem: SparseProblem, used: Booleans) -> csr_array:
    """Return all contact rows in block order [N; S; T], without padding."""
    start: Integers = np.concatenate(([0], np.cumsum(problem.size)))
    n = len(problem.gap)
    contact, side, axis, k = np.nonzero(
        np.broadcast_to(((problem.tree != WORLD)[:, :, None] & used[problem.tree])[:, :, None, :], problem.rows.shape)
    )
    column = start[problem.tree[contact, side]] + k
    values = problem.rows[contact, side, axis, k]
    return csr_array(coo_array((values, (axis * n + contact, column)), shape=(3 * n, start[-1])))
