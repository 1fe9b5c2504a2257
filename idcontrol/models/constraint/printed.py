r"""The programs of Drumwright 2019 as printed, to reproduce its figures; use `idcontrol.models.constraint.solve`.

Numbers in parentheses are equations of the paper.

* `bilateral_force`, (61), (62), (53): loses digits as K grows and needs (G M⁻¹Gᵀ)⁻¹ (math.md, section 11.1).
* `unilateral_forces`, the QP (83)-(85): obeys the law max(0, -Kφ⁺ - Bφ̇⁺) for one constraint only (math.md, 11.2).
* `solve`, the programs (99)-(120) with the true friction cone. The slack β is about as large as B_r = 10⁶/h times the
  slip, and has the same weight as a force. A larger normal force therefore lowers the cost until nothing slides. The
  normal force has no upper bound, and blocks are thrown off ramps (math.md, section 11.3).
"""

from __future__ import annotations

import importlib.util
import warnings
from typing import Any, Literal

import numpy as np

from idcontrol.errors import InputError, install_command
from idcontrol.models.step import Ending, StepProblem, StepSolution, WarmStart
from idcontrol.models.whitened import finish, whiten
from idcontrol.solvers.active_set_qp import solve_qp
from idcontrol.types import Array, Status

TANGENTIAL_DAMPING = 1e6
"""Tangential damping times step, h B_r, of Drumwright 2019, section 6.4 ("10⁶/h meters", read as N s/m)."""


def bilateral_force(
    A: Array, phi: Array, phi_dot: Array, pushed: Array, turning: Array, h: float, stiffness: float, damping: float
) -> Array:
    """Compute the forces λ₁ of bilateral springs by (61), (62) and (53).

    Args:
        A: ``G M⁻¹Gᵀ``, invertible, shape (k, k).
        phi: Deviations φ₀, shape (k,) [m].
        phi_dot: Rates ``G v₀`` of the deviations, shape (k,) [m/s].
        pushed: ``G M⁻¹ f``, shape (k,) [m/s²].
        turning: ``Ġ v₀``, shape (k,) [m/s²].
        h: Step [s].
        stiffness: K of each row [N/m].
        damping: B of each row [N s/m].

    Returns:
        λ₁, shape (k,) [N].
    """
    Y = np.linalg.inv(np.eye(phi.size) + (h * h * stiffness + h * damping) * A)
    phi_dot_1 = Y @ (phi_dot - h * stiffness * A @ phi + h * pushed)
    phi_1 = phi + h * phi_dot_1
    return -stiffness * phi_1 - damping * phi_dot_1 - np.linalg.solve(A, turning)


def unilateral_forces(A: Array, phi: Array, phi_dot_free: Array, h: float, stiffness: Array, damping: Array) -> Array:
    """Compute the forces λ₁ of unilateral springs by the QP (83)-(85), for constant G.

    Args:
        A: ``G M⁻¹Gᵀ``, shape (k, k).
        phi: Gaps φ₀, shape (k,) [m].
        phi_dot_free: Rates at the end of the step without these forces, shape (k,) [m/s].
        h: Step [s].
        stiffness: K, shape (k,) [N/m].
        damping: B, shape (k,) [N s/m].

    Returns:
        λ₁, shape (k,) [N].
    """
    k = phi.size
    rows = np.eye(k) + (h * h * stiffness + h * damping)[:, None] * A
    sides = -stiffness * phi - (h * stiffness + damping) * phi_dot_free
    return solve_qp(np.eye(k), np.zeros(k), np.vstack((rows, np.eye(k))), np.concatenate((sides, np.zeros(k)))).x


def solve(
    problem: StepProblem,
    warm: WarmStart | None = None,
    *,
    backend: Literal["CLARABEL", "ECOS"] = "CLARABEL",
) -> StepSolution:
    """Solve one step by the cone program (109)-(120), with K_r = K_s = 0.

    Only contacts with φ ≤ 0 are included, as in section 6.1 of the paper. Terms with the rotation of G are neglected;
    they are zero for a sliding block.

    Args:
        problem: The step, without bilateral rows; contacts of finite stiffness and friction.
        warm: Not used.
        backend: Name of the solver for cone programs.

    Returns:
        The solution; FALLBACK without impulses if the solver has no answer, REPAIRED if it reports reduced accuracy
        (the numbers in these programs span about sixteen digits).

    Raises:
        InputError: cvxpy or the solver is not installed, there are bilateral rows, or a contact is rigid or has
            infinite friction.
    """
    for package in ("cvxpy", backend.lower()):
        if importlib.util.find_spec(package) is None:
            command = install_command("gpl" if package == "ecos" else "cvx")
            raise InputError(f"the printed programs of Drumwright 2019 need {package}: {command}")
    contacts, h = problem.contacts, problem.h
    if problem.bilateral is not None:
        raise InputError("the printed programs of Drumwright 2019 take no bilateral rows here; use constraint.solve")
    if np.isinf(contacts.stiffness).any() or np.isinf(contacts.mu).any():
        raise InputError(
            "the printed programs of Drumwright 2019 need finite stiffness and friction; use constraint.solve"
        )
    n = len(contacts)
    closed = np.flatnonzero(contacts.gap <= 0.0)
    whitened = whiten(problem)
    f, status, iterations = np.zeros(3 * n), Status.SOLVED, 0
    if closed.size:
        rows = np.concatenate((closed, n + closed, 2 * n + closed))
        rho = whitened.rho[rows]
        free = contacts.jacobian[rows] @ whitened.v_free - contacts.surface_velocity[rows]
        K, B = contacts.stiffness[closed], contacts.damping[closed]
        force, status, iterations = _cone_program(
            rho @ rho.T, free, contacts.gap[closed], K, B, contacts.mu[closed], h, backend
        )
        f[rows] = h * force
    residual, note = (0.0, "") if status is Status.SOLVED else (np.inf, "cone program")
    return finish(problem, whitened, f, Ending(status, residual, iterations, note=note))


def _cone_program(
    A: Array, free: Array, phi: Array, K: Array, B: Array, mu: Array, h: float, backend: str
) -> tuple[Array, Status, int]:
    """Return the forces λ = (λ_n, λ_r, λ_s) [N] of the cone program (109)-(120), (3 k,), the status and iterations."""
    import cvxpy

    k = phi.size
    B_r, weight = TANGENTIAL_DAMPING / h, 1.0 / h  # the weight is ζ
    x = cvxpy.Variable(3 * k)
    # slack is β / √ζ, as large as a force; β itself is larger by many orders of magnitude
    slack = cvxpy.Variable(2 * k)
    rate = free + h * A @ x
    rows: list[Any] = [
        # velocities: (116) divided by hK + B, (118) and (119) divided by B_r
        x[:k] / (h * K + B) + rate[:k] >= -K / (h * K + B) * phi,
        x[:k] >= 0.0,
        x[k:] / B_r + rate[k:] == slack * (np.sqrt(weight) / B_r),
    ]
    rows += [cvxpy.SOC(mu[i] * x[i], cvxpy.hstack((x[k + i], x[2 * k + i]))) for i in range(k)]
    # the square of the norm is 2/ζ times (109)
    cost = cvxpy.norm(cvxpy.hstack((x[:k], x[k:] / np.sqrt(weight), slack)))
    program = cvxpy.Problem(cvxpy.Minimize(cost), rows)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # cvxpy warns "may be inaccurate"; the status reports it
            program.solve(solver=backend)
    except cvxpy.SolverError:
        return np.zeros(3 * k), Status.FALLBACK, 0
    iterations = int(program.solver_stats.num_iters or 0)
    if x.value is None:
        return np.zeros(3 * k), Status.FALLBACK, iterations
    return np.asarray(x.value), Status.SOLVED if program.status == "optimal" else Status.REPAIRED, iterations
