r"""SAP: compliant contact as an unconstrained convex problem in velocities (math.md 10; 004).

    minimize over v   ½ (v - v*)ᵀ M (v - v*) + ½ Σ γ(v)ᵀ R γ(v)

γ is the projection of ``-R⁻¹(J v - v̂)`` onto the friction cone, a circle (`cone`); R and v̂ come from stiffness,
damping and friction (`regularization`). The optimum is unique, depends continuously on all data and exists always:
inverse, too, where joints are told to squeeze (torques are then as large as contacts are stiff). With prescribed joints
the unknowns are the unactuated velocities alone, and R is that of the whole machine, so that both modes agree.

What the convexity costs: a contact that slides does so at the gap ``μ (h + τ_d) |v_t|``; one that sticks creeps at
``μ σ g h`` at most.

μ = inf has no cone limit: a contact that is closed when the step begins (`CLOSED_GAP`) and presses at its end is held
along its tangents; one that parts is let go, unless it would press then (`idcontrol.models.sticking`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numba import njit

from idcontrol.errors import InputError
from idcontrol.kernels.linear import cholesky, solve_lower, solve_lower_transposed
from idcontrol.models.sap.bounded import Bounded, joint_limits, motors
from idcontrol.models.sap.cone import OPEN, STICK, project
from idcontrol.models.sap.many import solve_sparse
from idcontrol.models.sap.newton import ACCEPTED, CONVERGED, NOT_FINITE, STALLED, UNPHYSICAL, Law, minimize, respond
from idcontrol.models.sap.regularization import BETA, SIGMA, mean_inverse_mass, regularize
from idcontrol.models.step import CLOSED_GAP, PUSH_OUT_SPEED, Bilateral, StepProblem, StepSolution, WarmStart
from idcontrol.models.whitened import Whitened, hold, recover, whiten
from idcontrol.types import Array, Integers, Status

__all__ = ["Bounded", "Parameters", "joint_limits", "motors", "solve", "solve_bounded", "solve_sparse"]

TOLERANCE: Final = 1e-13
"""Default of `Parameters.tolerance`."""

ITERATIONS: Final = 100
"""Default of `Parameters.iterations`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters:
    """What may be set of the method; nothing of it is physical but for β and σ, whose defaults are the paper's.

    Attributes:
        beta: Period of a near-rigid contact, in steps.
        sigma: Tangential regularization relative to the inverse mass.
        tolerance: ε_r of the stopping rule 004 (20).
        iterations: Largest number of Newton steps.
        exact: Exact line search; else backtracking.
    """

    beta: float = BETA
    sigma: float = SIGMA
    tolerance: float = TOLERANCE
    iterations: int = ITERATIONS
    exact: bool = True


_NONE = Bounded(rows=np.zeros((0, 0)), target=np.zeros(0), compliance=np.zeros(0), lower=np.zeros(0), upper=np.zeros(0))


@njit(cache=True)
def _inverse_mass(M: Array, J: Array) -> Array:  # pragma: no cover - compiled
    """The w of all contacts (see `regularization`) with the inertia of the whole machine, shape (n,)."""
    L, rho = np.zeros_like(M), J.copy()
    if not cholesky(M, L):
        return np.full(J.shape[0] // 3, np.nan)
    for r in range(rho.shape[0]):
        solve_lower(L, rho[r])
    w: Array = mean_inverse_mass(rho, J.shape[0] // 3)
    return w


@njit(cache=True, error_model="numpy")
def _start(rho: Array, c: Array, law: Law, mode: Integers, z: Array) -> None:  # pragma: no cover - compiled
    """Where contacts go whose modes stay as they were, slides without their friction, if that is better than z.

    That is the Newton step from a point with those modes, and counts as one.
    """
    n, k = law.mu.shape[0], z.shape[0]
    H, x, L = np.eye(k), np.zeros(k), np.zeros((k, k))
    for i in range(n):
        if mode[i] == OPEN:
            continue
        for axis in range(3 if mode[i] == STICK else 1):
            R = law.R_n[i] if axis == 0 else law.R_t[i]
            row = rho[axis * n + i]
            for p in range(k):
                x[p] -= row[p] * c[axis * n + i] / R
                for q in range(p + 1):
                    H[p, q] += row[p] * row[q] / R
    if not cholesky(H, L):
        return
    solve_lower(L, x)
    solve_lower_transposed(L, x)
    gamma = np.empty(c.shape[0])
    there = 0.5 * np.dot(x, x) + respond(c + np.dot(rho, x), law, gamma)
    if there < 0.5 * np.dot(z, z) + respond(c + np.dot(rho, z), law, gamma):
        z[:] = x


@njit(cache=True, error_model="numpy")
def _solve(
    h: float,
    contacts: tuple[Array, Array, Array, Array, Array],
    bounds: tuple[Array, Array, Array],
    rho: Array,
    c: Array,
    momentum: Array,
    parameters: tuple[float, float, float, int, bool],
    mode: Integers,
    z: Array,
    gamma: Array,
) -> tuple[int, int, float]:  # pragma: no cover - compiled
    """Regularize, find a start, search; see `minimize` for what comes back.

    Args:
        h: Length of the step [s].
        contacts: Gap, friction, stiffness, damping and w of each contact, all of shape (n,).
        bounds: Compliance, lower and upper limit of the scalar rows, all of shape (e,).
        rho: Whitened rows, shape (3 n + e, k).
        c: Their velocities at zero impulse with φ/h on normals, which gives way to -v̂, shape (3 n + e,).
        momentum: See `minimize`.
        parameters: β, σ, tolerance, iterations, exact of `Parameters`.
        mode: What each contact did in the last step, overwritten with what it does, shape (n,).
        z: Start, overwritten with the result, shape (k,).
        gamma: Overwritten with the impulses, shape (3 n + e,).
    """
    gap, friction, stiffness, damping, w = contacts
    beta, sigma, tolerance, iterations, exact = parameters
    n = gap.shape[0]
    mu, R_n, R_t = friction.copy(), np.empty(n), np.empty(n)
    for i in range(n):
        if not (stiffness[i] > 0.0 and damping[i] >= 0.0 and mu[i] >= 0.0):
            return UNPHYSICAL, 0, np.inf
        R_n[i], R_t[i], v_hat = regularize(h, w[i], gap[i], stiffness[i], damping[i], beta, sigma)
        c[i] -= max(gap[i] / h, -PUSH_OUT_SPEED) + v_hat
        if mu[i] == np.inf and gap[i] > CLOSED_GAP:
            mu[i] = 0.0
    law = Law(mu, R_n, R_t, bounds[0], bounds[1], bounds[2])
    one, total, let_go = np.empty(3), 0, np.zeros(n, dtype=np.bool_)
    if mode.any():
        _start(rho, c, law, mode, z)
        total = 1
    while True:
        code, count, residual = minimize(rho, c, law, momentum, tolerance, iterations, exact, z, gamma)
        total += count
        u = c + np.dot(rho, z)
        settled = True
        for i in range(n):
            mode[i] = project(u[i], u[n + i], u[2 * n + i], mu[i], R_n[i], R_t[i], one)
            if mu[i] == np.inf and mode[i] == OPEN and not let_go[i]:
                mu[i] = 0.0
                let_go[i] = True
                settled = False
        for i in range(n if settled else 0):
            if let_go[i] and mu[i] == 0.0 and mode[i] != OPEN:
                mu[i] = np.inf
                settled = False
        if settled or code == NOT_FINITE:
            return code, total, residual


@njit(cache=True, error_model="numpy")
def closed_kernel(
    h: float, w: Whitened, mu: Array, law: tuple[float, float], mode: Integers, f: Array, away: Array
) -> tuple[bool, int, float]:  # pragma: no cover - compiled
    """`solve` for rigid contacts that are closed when the step begins, without other rows.

    Args:
        h: Length of the step [s].
        w: The whitened problem, without rigid bilateral rows.
        mu: Friction, shape (n,).
        law: β and σ of `Parameters`.
        mode: In and out: what each contact did in the last step, does in this one, shape (n,).
        f: Overwritten with the impulses, shape (3 n,).
        away: Overwritten with the free velocities' v⁺ less that which f causes (see `solve_bounded`), shape (k,).

    Returns:
        Whether it is solved, iterations, residual.
    """
    n, k = mu.shape[0], w.free.shape[0]
    beta, sigma = law
    momentum, z, gamma, none = np.zeros(k), np.zeros(k), np.zeros(3 * n), np.zeros(0)
    for i in range(k):
        for j in range(i, k):
            momentum[i] += w.L[j, i] * w.v_free[w.free[j]]
    code, iterations, residual = _solve(
        h,
        (np.zeros(n), mu, np.full(n, np.inf), np.zeros(n), _inverse_mass(w.M, w.rows)),
        (none, none, none),
        w.rho,
        w.c.copy(),
        momentum,
        (beta, sigma, TOLERANCE, ITERATIONS, True),
        mode,
        z,
        gamma,
    )
    f[:] = gamma
    away[:] = z
    for r in range(3 * n):
        for i in range(k):
            away[i] -= w.rho[r, i] * gamma[r]
    solve_lower_transposed(w.L, away)
    return code == CONVERGED or (code == STALLED and residual <= ACCEPTED), iterations, residual


def solve(problem: StepProblem, warm: WarmStart | None = None, parameters: Parameters = Parameters()) -> StepSolution:
    """One step.

    Args:
        problem: The step, forward or inverse; contacts are as stiff and damped as they say, `damping` over `stiffness`
            being the paper's τ_d; rigid ones are near-rigid.
        warm: The last solution's `warm`: which contacts stuck or slid.
        parameters: See `Parameters`.

    Returns:
        The solution; its residual is the momentum error 004 (24), `regularization` is σ. FALLBACK only if the problem
        is not finite or its inertia not positive definite.

    Raises:
        InputError: The step has no length, or a contact's stiffness or damping is not physical.
    """
    return solve_bounded(problem, _NONE, warm, parameters)[0]


def solve_bounded(
    problem: StepProblem,
    bounded: Bounded,
    warm: WarmStart | None = None,
    parameters: Parameters = Parameters(),
    start: Array | None = None,
) -> tuple[StepSolution, Array]:
    """`solve` with rows of limited impulse; the solution and their impulses, shape (e,).

    Args:
        problem: The step.
        bounded: The rows.
        warm: As for `solve`.
        parameters: See `Parameters`.
        start: Velocity from which the search starts, shape (m,): 004 takes that at the beginning of the step. None
            means the velocity without contact.
    """
    if not problem.h > 0.0:
        raise InputError(f"the step h must be positive, not {problem.h}")
    contacts = problem.contacts
    n, e = len(contacts), len(bounded.target)
    whitened = whiten(problem if e == 0 else _with_rows(problem, bounded))
    # rows are those of contacts, then rigid ones, which are eliminated, then those with a limit
    rows = whitened.rho.shape[0]
    rho, c, held = whitened.rho, whitened.c.copy(), None
    rigid = np.arange(3 * n, rows - e)
    if rigid.size:
        held = hold(whitened, rigid)
        rho, c = np.delete(held.rho, rigid, axis=0), np.delete(held.c, rigid)
    mode = np.zeros(n, dtype=np.int64)
    if warm:
        for i, key in enumerate(contacts.identity.tolist()):
            mode[i] = warm.get(key, OPEN)
    gamma, z = np.zeros(3 * n + e), np.zeros(len(whitened.free))
    if start is not None:
        z = whitened.L.T @ (start - whitened.v_free)[whitened.free]
        if held is not None:
            z -= held.basis.T @ (held.basis @ z)
    code, iterations, residual = _solve(
        problem.h,
        (contacts.gap, contacts.mu, contacts.stiffness, contacts.damping, _inverse_mass(problem.M, contacts.jacobian)),
        (bounded.compliance, bounded.lower, bounded.upper),
        rho,
        c,
        whitened.L.T @ whitened.v_free[whitened.free],
        (parameters.beta, parameters.sigma, parameters.tolerance, parameters.iterations, parameters.exact),
        mode,
        z,
        gamma,
    )
    if code == UNPHYSICAL:
        raise InputError("contacts: stiffness must be positive, damping and friction must not be negative")
    if code == NOT_FINITE:
        gamma[:] = 0.0
    f = gamma
    if held is not None:
        f = held.impulses(whitened, np.insert(gamma, np.full(rigid.size, 3 * n), 0.0))
    v_plus, motor_impulse = recover(whitened, f)
    if code != NOT_FINITE:
        # z meets the contact law exactly and momentum to the tolerance; v⁺ by the impulses would have it the other way
        # round, and stiff contacts would answer to its error in the next step
        if held is not None:
            z -= held.basis.T @ held.constants
        solve_lower_transposed(whitened.L, z)
        away = whitened.v_free[whitened.free] + z - v_plus[whitened.free]
        v_plus[whitened.free] += away
        motor_impulse += whitened.M[np.ix_(whitened.fixed, whitened.free)] @ away
    status, note = _outcome(code, residual)
    solution = StepSolution(
        v_plus=v_plus,
        impulses=np.ascontiguousarray(f[: 3 * n].reshape(3, n).T),
        multipliers=motor_impulse,
        status=status,
        residual=residual,
        iterations=iterations,
        regularization=parameters.sigma,
        note=note,
        warm=dict(zip(contacts.identity.tolist(), mode.tolist(), strict=True)),
    )
    return solution, f[rows - e :]


def _outcome(code: int, residual: float) -> tuple[Status, str]:
    if code == NOT_FINITE:
        return Status.FALLBACK, "not finite"
    if code == CONVERGED or residual <= ACCEPTED:
        return Status.SOLVED, ""
    return Status.REPAIRED, "not converged"


def _with_rows(problem: StepProblem, bounded: Bounded) -> StepProblem:
    """The problem with the rows among its rigid ones, last, so that whitened whitens them."""
    rows = Bilateral(rows=bounded.rows, target=bounded.target, compliance=np.zeros(len(bounded.target)))
    ties = problem.bilateral
    if ties is not None:
        rows = Bilateral(
            rows=np.vstack((ties.rows, rows.rows)),
            target=np.concatenate((ties.target, rows.target)),
            compliance=np.concatenate((ties.compliance, rows.compliance)),
        )
    return replace(problem, bilateral=rows)
