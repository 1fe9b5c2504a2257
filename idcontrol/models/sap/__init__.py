r"""SAP: compliant contact as an unconstrained convex problem in velocities (math.md, section 10).

    minimize over v   ½ (v - v*)ᵀ M (v - v*) + ½ Σ γ(v)ᵀ R γ(v)

γ is the projection of ``-R⁻¹(J v - v̂)`` onto the circular friction cone (`cone`); R and v̂ follow from stiffness,
damping and friction (`regularization`). The optimum always exists, and with finite friction it is unique and continuous
in all data. This includes inverse problems with conflicting velocities, in which torques grow with the stiffness of the
contacts. With prescribed joints only the unactuated velocities are unknown. R is computed for the whole robot in both
modes, so that forward and inverse solutions agree.

The convex approximation has two artefacts: a sliding contact has the gap ``μ (h + τ_d) |v_t|``, and a sticking contact
creeps at no more than ``μ σ g h``.

A contact with μ = inf has no cone limit. If it is closed initially (`CLOSED_GAP`) and has a normal impulse at the end,
it is held along its tangents. If it opens, its tangents are released, unless the released contact would press
(`idcontrol.models.sticking`). For a fixed set of held contacts the optimum is unique, but more than one set may be
consistent.

Source: Castro, Permenter & Han 2022, "An unconstrained convex formulation of compliant contact".
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from idcontrol.errors import InputError
from idcontrol.kernels.arena import HEAP, Arena, flags, mark, matrix, release, vector, zeros
from idcontrol.kernels.jit import njit
from idcontrol.kernels.linear import assign, assign_rows, cholesky, solve_lower, solve_lower_transposed
from idcontrol.kernels.linked import linked
from idcontrol.models.sap.bounded import Bounded, joint_limits, motors
from idcontrol.models.sap.cone import OPEN, STICK
from idcontrol.models.sap.many import Sparse, solve_sparse
from idcontrol.models.sap.newton import (
    ACCEPTED,
    CONVERGED,
    NOT_FINITE,
    STALLED,
    UNPHYSICAL,
    UNSETTLED,
    Cost,
    Law,
    Parameters,
    change_roles,
    minimize,
    read_modes,
    respond,
)
from idcontrol.models.sap.regularization import mean_inverse_mass, regularize
from idcontrol.models.step import (
    CLOSED_GAP,
    PUSH_OUT_SPEED,
    Bilateral,
    Ending,
    StepProblem,
    StepSolution,
    WarmStart,
    warm_bits,
)
from idcontrol.models.sticking import MOVING, sets
from idcontrol.models.sticking import UNSETTLED as NOT_SETTLED
from idcontrol.models.whitened import Whitened, finish, hold, whiten
from idcontrol.solvers.lcp import rounding
from idcontrol.types import Array, Booleans, Integers, Status

__all__ = [
    "IMPACT",
    "Bounded",
    "Parameters",
    "Sparse",
    "joint_limits",
    "motors",
    "solve",
    "solve_bounded",
    "solve_sparse",
]


class _Contacts(NamedTuple):
    """Parameters of contacts, all of shape (n,); the inverse mass w is defined in `regularization`."""

    gap: Array
    mu: Array
    stiffness: Array
    damping: Array
    w: Array


class _Rows(NamedTuple):
    """Whitened rows of n contacts, then of e scalar rows with limited impulse.

    Attributes:
        rho: The rows, shape (3 n + e, k).
        c: Velocities of the rows at zero impulse, shape (3 n + e,). Normals include φ/h, which -v̂ replaces later.
        momentum: As in `newton.Cost`, shape (k,).
        compliance: Compliances of the scalar rows, shape (e,).
        lower: Smallest impulses of the scalar rows, shape (e,).
        upper: Largest impulses of the scalar rows, shape (e,).
    """

    rho: Array
    c: Array
    momentum: Array
    compliance: Array
    lower: Array
    upper: Array


DEFAULTS = Parameters()
IMPACT = Parameters(beta=1e-2, sigma=1e-4)
"""Parameters for impacts that rebound. Contacts yield by about 1e-5 of the approach speed; with `DEFAULTS`, by 4 %."""
_NONE = Bounded(rows=np.zeros((0, 0)), target=np.zeros(0), compliance=np.zeros(0), lower=np.zeros(0), upper=np.zeros(0))


@njit(cache=True)
def _inverse_mass(M: Array, J: Array, arena: Arena) -> tuple[Array, float]:  # pragma: no cover - compiled
    """Return the inverse masses w of all contacts with the whole inertia, shape (n,), and their relative error.

    The inverse mass is defined in `regularization`. The error is about ε times the largest ratio ``M_ii (M⁻¹)_ii``, a
    condition number of the inertia that does not depend on the units of the velocities. The ratio is at most e ∏ M_ii /
    L_ii², and is computed only if this bound is too large. Both results are NaN if the inertia is not positive
    definite.
    """
    m, rows = M.shape[0], J.shape[0]
    L, rho = matrix(arena, m, m), matrix(arena, rows, m)
    L[:] = 0.0
    assign_rows(rho, J)
    if not cholesky(M, L):
        return np.full(rows // 3, np.nan), np.nan
    shrinks = np.e
    for i in range(m):
        shrinks *= M[i, i] / (L[i, i] * L[i, i])
    if rounding(1, shrinks) > ACCEPTED:
        x, shrinks = vector(arena, m), 0.0
        for i in range(m):
            x[:] = 0.0
            x[i] = 1.0
            solve_lower(L, x)
            shrinks = max(shrinks, M[i, i] * np.dot(x, x))  # |L⁻¹e_i|² = (M⁻¹)_ii
    for r in range(rows):
        solve_lower(L, rho[r])
    return mean_inverse_mass(rho, rows // 3), rounding(1, shrinks)


@njit(cache=True, inner=True, error_model="numpy")
def _value(cost: Cost, z: Array, u: Array, gamma: Array, arena: Arena) -> float:  # pragma: no cover - compiled
    """Return ℓ(z) [J]; overwrite u and gamma, shape (3 n + e,), with velocities and impulses."""
    np.dot(cost.rho, z, u)
    for r in range(u.shape[0]):
        u[r] += cost.c[r]
    value: float = 0.5 * np.dot(z, z) + respond(u, cost.law, gamma, arena)
    return value


@njit(cache=True, inner=True, error_model="numpy")
def _start(cost: Cost, mode: Integers, z: Array, arena: Arena) -> None:  # pragma: no cover - compiled
    """Start from the modes of the last step, without friction at sliding contacts, if this lowers the cost.

    The new start results from one Newton step from a point with these modes.
    """
    rho, c, law = cost.rho, cost.c, cost.law
    n, k, at = law.mu.shape[0], z.shape[0], mark(arena)
    H, L, x = matrix(arena, k, k), matrix(arena, k, k), zeros(arena, k)
    H[:], L[:] = 0.0, 0.0
    for p in range(k):
        H[p, p] = 1.0
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
    if cholesky(H, L):
        solve_lower(L, x)
        solve_lower_transposed(L, x)
        u, gamma = vector(arena, c.shape[0]), vector(arena, c.shape[0])
        if _value(cost, x, u, gamma, arena) < _value(cost, z, u, gamma, arena):
            assign(z, x)
    release(arena, at)


@njit(cache=True, inner=True, error_model="numpy")
def _attempt(
    cost: Cost, parameters: Parameters, held: Booleans, mode: Integers, z: Array, gamma: Array, arena: Arena
) -> tuple[int, int, float, bool]:  # pragma: no cover - compiled
    """Run `minimize`; write the mode of each contact (open, stick or slide), shape (n,).

    Returns the result of `minimize`, and True if each contact of `held` (n,) presses exactly when its μ is inf.
    """
    law, u, right = cost.law, vector(arena, cost.c.shape[0]), True
    n = law.mu.shape[0]
    ending, count, residual = minimize(cost, parameters, z, gamma, arena)
    np.dot(cost.rho, z, u)
    for r in range(u.shape[0]):
        u[r] += cost.c[r]
    read_modes(u, law, mode, arena)
    for i in range(n):
        right = right and (not held[i] or (law.mu[i] == np.inf) == (mode[i] != OPEN))
    return ending, count, residual, right


@njit(cache=True, inner=True, error_model="numpy")
def _settle(
    cost: Cost, parameters: Parameters, mode: Integers, z: Array, gamma: Array, arena: Arena
) -> tuple[int, int, float]:  # pragma: no cover - compiled
    """Run `minimize`; hold contacts of infinite friction that press, and release those contacts when they open.

    If a contact presses when released and opens when held, sets of held contacts are tried
    (`idcontrol.models.sticking`). If no set is consistent, the result is `UNSETTLED`, and these contacts hold along
    their tangents.
    """
    mu, n, total = cost.law.mu, mode.shape[0], 0
    held, released = np.isinf(mu), flags(arena, n)
    released[:] = False
    while True:
        ending, count, residual, right = _attempt(cost, parameters, held, mode, z, gamma, arena)
        total += count
        if right or ending == NOT_FINITE:
            return ending, total, residual
        if not change_roles(mu, mode, released):
            break
    clings = np.isinf(mu)
    for stick in sets(held, clings):
        for i in range(n):
            if held[i]:
                mu[i] = np.inf if stick[i] else 0.0
        ending, count, residual, right = _attempt(cost, parameters, held, mode, z, gamma, arena)
        total += count
        if right:
            return ending, total, residual
    for i in range(n):
        if held[i]:
            mu[i] = np.inf if clings[i] else 0.0
    ending, count, residual, _ = _attempt(cost, parameters, held, mode, z, gamma, arena)
    return ending if ending == NOT_FINITE else UNSETTLED, total + count, residual


@njit(cache=True, error_model="numpy")
def _solve(
    h: float,
    contacts: _Contacts,
    rows: _Rows,
    parameters: Parameters,
    mode: Integers,
    z: Array,
    gamma: Array,
    arena: Arena,
) -> tuple[int, int, float]:  # pragma: no cover - compiled
    """Regularize the contacts, determine a start, and search; return the result of `_settle`.

    Args:
        h: Length of the step [s].
        contacts: The contacts.
        rows: All rows; `c` is overwritten.
        parameters: Parameters of the method.
        mode: Mode of each contact (open, stick, slide) in the last step, overwritten for this step, shape (n,).
        z: Start, overwritten with the result, shape (k,).
        gamma: Overwritten with the impulses, shape (3 n + e,).
        arena: Arena for all arrays.
    """
    n, c = contacts.gap.shape[0], rows.c
    mu, R_n, R_t = vector(arena, n), vector(arena, n), vector(arena, n)
    assign(mu, contacts.mu)
    for i in range(n):
        gap, stiffness, damping = contacts.gap[i], contacts.stiffness[i], contacts.damping[i]
        if not (stiffness > 0.0 and damping >= 0.0 and mu[i] >= 0.0):
            return UNPHYSICAL, 0, np.inf
        R_n[i], R_t[i], v_hat = regularize(h, contacts.w[i], gap, stiffness, damping, parameters.beta, parameters.sigma)
        c[i] -= max(gap / h, -PUSH_OUT_SPEED) + v_hat
        if mu[i] == np.inf and gap > CLOSED_GAP:
            mu[i] = 0.0
    law = Law(mu, R_n, R_t, rows.compliance, rows.lower, rows.upper)
    cost = Cost(rows.rho, c, law, rows.momentum)
    started = 0
    if mode.any():
        _start(cost, mode, z, arena)
        started = 1
    ending, count, residual = _settle(cost, parameters, mode, z, gamma, arena)
    return ending, started + count, residual


@linked
@njit(cache=True, inner=True, error_model="numpy")
def closed_kernel(
    h: float, w: Whitened, mu: Array, parameters: Parameters, mode: Integers, f: Array, away: Array, arena: Arena
) -> tuple[int, int, float]:  # pragma: no cover - compiled
    """Run `solve` for rigid contacts that are closed initially, without other rows.

    Args:
        h: Length of the step [s].
        w: The whitened problem, without rigid bilateral rows.
        mu: Friction coefficients, shape (n,).
        parameters: Parameters of the method.
        mode: Mode of each contact (open, stick, slide) in the last step, overwritten for this step, shape (n,).
        f: Overwritten with the impulses, shape (3 n,).
        away: Overwritten with v⁺ of the free velocities minus the velocity computed from f (see `_move_to`), shape
            (k,).
        arena: Arena for all arrays.

    Returns:
        `CONVERGED` if the step is solved, `UNSETTLED` as from `_settle`, otherwise `STALLED`; iterations; residual.
    """
    n, k = mu.shape[0], w.free.shape[0]
    momentum, c, none = zeros(arena, k), vector(arena, 3 * n), vector(arena, 0)
    assign(c, w.c)
    friction = vector(arena, n)  # the search for sticking contacts changes it
    assign(friction, mu)
    away[:] = 0.0
    for i in range(k):
        for j in range(i, k):
            momentum[i] += w.L[j, i] * w.v_free[w.free[j]]
    rigid = vector(arena, n)
    rigid[:] = np.inf
    inverse_mass, error = _inverse_mass(w.M, w.rows, arena)
    contacts = _Contacts(zeros(arena, n), friction, rigid, zeros(arena, n), inverse_mass)
    rows = _Rows(w.rho, c, momentum, none, none, none)
    ending, iterations, residual = _solve(h, contacts, rows, parameters, mode, away, f, arena)
    for r in range(3 * n):
        for i in range(k):
            away[i] -= w.rho[r, i] * f[r]
    solve_lower_transposed(w.L, away)
    if ending == STALLED and residual <= ACCEPTED:
        ending = CONVERGED
    settled = ending in (CONVERGED, UNSETTLED) and error <= ACCEPTED
    return ending if settled else STALLED, iterations, residual


def solve(problem: StepProblem, warm: WarmStart | None = None, parameters: Parameters = DEFAULTS) -> StepSolution:
    """Solve one step.

    Args:
        problem: The step, forward or inverse. Contacts have stiffness and damping; `damping` over `stiffness` is τ_d in
            the paper. Rigid contacts are solved as near-rigid (`regularization`).
        warm: `warm` of the last solution: modes of the contacts (stick or slide).
        parameters: See `Parameters`.

    Returns:
        The solution, with the momentum error as residual (Castro, Permenter & Han 2022, eq. 24) and σ as
        `regularization`. FALLBACK only if the problem is not finite or its inertia is not positive definite. REPAIRED
        if rounding ended the search or makes contacts inaccurate, if rigid rows contradict each other, or if no set of
        held contacts is consistent.

    Raises:
        InputError: A contact's stiffness, damping or friction is not physical.
    """
    return solve_bounded(problem, _NONE, warm, parameters)[0]


def solve_bounded(
    problem: StepProblem,
    bounded: Bounded,
    warm: WarmStart | None = None,
    parameters: Parameters = DEFAULTS,
    start: Array | None = None,
) -> tuple[StepSolution, Array]:
    """Run `solve` with rows of limited impulse; return the solution and the impulses of these rows, shape (e,).

    Args:
        problem: The step.
        bounded: The rows of limited impulse.
        warm: As in `solve`.
        parameters: See `Parameters`.
        start: Velocity from which the search starts, shape (m,); in the paper, the velocity at the start of the step.
            None means the velocity without contact.

    Raises:
        InputError: A contact's stiffness, damping or friction is not physical.
    """
    contacts = problem.contacts
    n, e = len(contacts), len(bounded.target)
    whitened = whiten(problem if e == 0 else _with_rows(problem, bounded))
    # order of the rows: contacts, rigid rows (eliminated), limited rows
    rho, c, held = whitened.rho, whitened.c.copy(), None
    rigid = np.arange(3 * n, rho.shape[0] - e)
    if rigid.size:
        held = hold(whitened, rigid)
        rho, c = np.delete(held.rho, rigid, axis=0), np.delete(held.c, rigid)
    mode = warm_bits(warm, contacts)
    gamma, z = np.zeros(3 * n + e), np.zeros(len(whitened.free))
    if start is not None:
        z = whitened.L.T @ (start - whitened.v_free)[whitened.free]
        if held is not None:
            z -= held.basis.T @ (held.basis @ z)
    w, error = _inverse_mass(problem.M, contacts.jacobian, HEAP)
    with np.errstate(invalid="ignore"):  # the search detects values that are not finite
        momentum = whitened.L.T @ whitened.v_free[whitened.free]
    listed = _Contacts(contacts.gap, contacts.mu, contacts.stiffness, contacts.damping, w)
    rows = _Rows(rho, c, momentum, bounded.compliance, bounded.lower, bounded.upper)
    code, iterations, residual = _solve(problem.h, listed, rows, parameters, mode, z, gamma, HEAP)
    if code == UNPHYSICAL:
        raise InputError("contacts: stiffness must be positive, damping and friction must not be negative")
    if code == NOT_FINITE:
        gamma[:] = 0.0
    f = gamma
    if held is not None:
        f = held.impulses(whitened, np.insert(gamma, np.full(rigid.size, 3 * n), 0.0))
    status, note = _outcome(code, residual)
    if status is Status.SOLVED and error > ACCEPTED and gamma[: 3 * n].any():
        status, note = Status.REPAIRED, "the inertia is too nearly singular for the inverse mass of contacts"
    if status is Status.SOLVED and held is not None and held.contradicts:
        status, note = Status.REPAIRED, MOVING
    solution = finish(problem, whitened, f, Ending(status, residual, iterations, parameters.sigma, note), mode)
    if solution.status is not Status.FALLBACK:
        _move_to(solution, whitened, z if held is None else z - held.basis.T @ held.constants)
    return solution, f[f.size - e :]


def _move_to(solution: StepSolution, whitened: Whitened, z: Array) -> None:
    """Overwrite the velocity of a solution with v° + L⁻ᵀz, and its motor impulses accordingly."""
    # z satisfies the contact law exactly, and the momentum balance to the tolerance. A v⁺ computed from the impulses
    # would satisfy the balance exactly and the law only to the tolerance; stiff contacts would react to that error in
    # the next step
    solve_lower_transposed(whitened.L, z)
    free, fixed = whitened.free, whitened.fixed
    away = whitened.v_free[free] + z - solution.v_plus[free]
    solution.v_plus[free] += away
    if fixed.size:
        solution.multipliers[:] += whitened.M[np.ix_(fixed, free)] @ away


def _outcome(code: int, residual: float) -> tuple[Status, str]:
    if code == NOT_FINITE:
        return Status.FALLBACK, "not finite"
    if code == UNSETTLED:
        return Status.REPAIRED, NOT_SETTLED
    if code == CONVERGED or residual <= ACCEPTED:
        return Status.SOLVED, ""
    return Status.REPAIRED, "not converged"


def _with_rows(problem: StepProblem, bounded: Bounded) -> StepProblem:
    """Return the problem with the rows appended to its rigid rows, so that `whiten` whitens them."""
    rows = Bilateral(rows=bounded.rows, target=bounded.target, compliance=np.zeros(len(bounded.target)))
    ties = problem.bilateral
    if ties is not None:
        rows = Bilateral(
            rows=np.vstack((ties.rows, rows.rows)),
            target=np.concatenate((ties.target, rows.target)),
            compliance=np.concatenate((ties.compliance, rows.compliance)),
        )
    return replace(problem, bilateral=rows)
