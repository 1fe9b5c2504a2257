r"""Coulomb friction as a linear complementarity problem (math.md, section 5).

    ⎡ NΓNᵀ   NΓFᵀ   0 ⎤ ⎡f_N⎤   ⎡ N v° + φ/h ⎤   ⎡w_N⎤
    ⎢ FΓNᵀ   FΓFᵀ   E ⎥ ⎢f_F⎥ + ⎢ F v°       ⎥ = ⎢w_F⎥ ,   0 ≤ z ⊥ w ≥ 0
    ⎣ diag μ  -Eᵀ   0 ⎦ ⎣ λ ⎦   ⎣ 0          ⎦   ⎣w_λ⎦

with F = [S; -S; T; -T] and Γ = M⁻¹ (`idcontrol.models.friction_lcp`): the friction pyramid is the inscribed diamond
|f_S| + |f_T| ≤ μ f_N, which has all of μ along the two tangents and μ/√2 along their diagonals. Contacts with μ = 0
have no tangential unknowns. Contacts with μ = inf do not slip while they press: their tangential rows hold with
equality (math.md, section 4), found by trying which of them press (`idcontrol.models.sticking`).

Sources: Stewart & Trinkle 1996, Anitescu & Potra 1997; for prescribed joints Zapolsky & Drumwright 2017, section 5.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Final, TypeAlias

import numpy as np
from numba import njit

from idcontrol.errors import InputError
from idcontrol.kernels.arena import HEAP, Arena, indices, mark, matrix, release, vector, zeros
from idcontrol.kernels.linear import assign, solve_in_place
from idcontrol.models.friction_lcp import (
    FrictionLcp,
    assemble,
    balance_contacts,
    contact_impulses,
    frictional_contacts,
    unknowns,
)
from idcontrol.models.step import CLOSED_GAP, Ending, StepProblem, StepSolution, WarmStart, warm_bits
from idcontrol.models.sticking import Attempt, settle
from idcontrol.models.whitened import finish, held_rows, hold, whiten
from idcontrol.solvers.active_set import project
from idcontrol.solvers.enumerate import find_solution
from idcontrol.solvers.lcp import lcp_residual
from idcontrol.solvers.lemke import TIKHONOV, lemke_kernel
from idcontrol.solvers.status import INACCURATE, INFEASIBLE, SOLVED, TOLERANCE, SolverStatus
from idcontrol.types import Array, Booleans, Integers, Status

MOST_CONTACTS = 500
"""More would need gigabytes: Lemke's tableau has (12 n)(6 n) entries."""

RESTARTS: Final = 12
"""Covering vectors that are tried after a failure, or one for each contact where these are more. Where there is a
solution that the first one missed, one in four finds it; at dozens of contacts, one in twenty."""
SPREAD: Final = 1.5
"""Log-normal spread of the entries of those covering vectors."""
SEARCH_NODES: Final = 200
"""Quadratic programs of the search over contact modes: a few milliseconds at a few contacts, some hundredths of a
second at 28. It settles up to two contacts that act on each other."""
MOST_RETRIED: Final = 64
"""Contacts beyond which neither is tried: one run takes a second, and the search too few of its branches to the end."""

SQUEEZE: Final = "squeeze"
"""No velocity of what is free keeps the contacts apart: there is a certificate."""
JAM: Final = "jam"
"""Such velocities exist, but with friction no solution: all contact modes were searched."""
UNSOLVED: Final = "no solution found"
"""Neither a solution nor a proof that there is none."""


@njit(cache=True, error_model="numpy")
def _rigid_lcp(rho: Array, c: Array, mu: Array, arena: Arena) -> FrictionLcp:  # pragma: no cover - compiled
    """The balanced friction LCP of rigid contacts."""
    lcp = assemble(rho, c, zeros(arena, c.shape[0]), mu, frictional_contacts(mu, arena), arena)
    balance_contacts(lcp, rho)
    return lcp


@njit(cache=True, error_model="numpy")
def _checked(lcp: FrictionLcp, z: Array, residual: float) -> float:  # pragma: no cover - compiled
    """`residual`, that of the balanced problem; or that of the problem as it is, if this exceeds `TOLERANCE`.

    Balanced, the velocity of a heavy body counts by its momentum; here all velocities are relative to the fastest at
    zero impulse, impulses to the largest or what gives the lightest contact that velocity (math.md, section 13.3).
    """
    Q, r = lcp.Q, lcp.r
    size = r.shape[0]
    impulses = size - lcp.frictional.shape[0]
    unit, lightest, push = 0.0, 0.0, 0.0
    for i in range(impulses):
        unit = max(unit, abs(r[i]))
        lightest = max(lightest, Q[i, i])
        push = max(push, z[i])
    if unit == 0.0 or lightest == 0.0:
        return residual
    push = max(push, unit / lightest)
    worst = 0.0
    for i in range(size):
        w = r[i]
        for j in range(size):
            if z[j] != 0.0:
                w += Q[i, j] * z[j]
        missed = min(z[i] / push, w / unit) if i < impulses else min(z[i] / unit, w / push)
        worst = max(worst, abs(missed))
    return worst if worst > TOLERANCE else residual


@njit(cache=True, error_model="numpy")
def _lemke(
    lcp: FrictionLcp, tikhonov: float, z: Array, arena: Arena
) -> tuple[int, int, float]:  # pragma: no cover - compiled
    """Write a solution z by Lemke's method. Status number, pivots, residual."""
    answer = lemke_kernel(lcp.Q, lcp.r, lcp.scale, tikhonov, 50 * (z.shape[0] + 1), arena)
    status, pivots, residual = answer.status, answer.iterations, answer.residual
    assign(z, answer.z)
    if status == SOLVED:
        residual = _checked(lcp, z, residual)
        if residual > TOLERANCE:
            status = INACCURATE
    return status, pivots, residual


@njit(cache=True, error_model="numpy")
def friction_lcp_kernel(
    rho: Array, c: Array, mu: Array, tikhonov: float, f: Array, arena: Arena
) -> tuple[int, int, float]:  # pragma: no cover - compiled
    """Assemble and solve the LCP of the module.

    Args:
        rho: Whitened contact rows, shape (3 n, k).
        c: Their constants, shape (3 n,).
        mu: Friction, shape (n,); contacts with 0 or inf have no tangential unknowns.
        tikhonov: Added to the balanced diagonal, relative to it.
        f: Result, contact impulses, shape (3 n,).
        arena: Where arrays come from.

    Returns:
        Status number, pivots, residual.
    """
    lcp = _rigid_lcp(rho, c, mu, arena)
    z = vector(arena, lcp.r.shape[0])
    status, pivots, residual = _lemke(lcp, tikhonov, z, arena)
    f[:] = 0.0
    if status == SOLVED:
        contact_impulses(lcp, z, f)
    return status, pivots, residual


@njit(cache=True, error_model="numpy")
def _on_support(lcp: FrictionLcp, members: Integers, z: Array, arena: Arena) -> float:  # pragma: no cover - compiled
    """Solve for the z that is zero but for `members`, where w = Qz + r is; returns the balanced residual of the LCP."""
    Q, r, scale = lcp.Q, lcp.r, lcp.scale
    count, at = members.shape[0], mark(arena)
    A = matrix(arena, count, count + 1)
    for a in range(count):
        i = members[a]
        for b in range(count):
            A[a, b] = scale[i] * Q[i, members[b]] * scale[members[b]]
        A[a, count] = -scale[i] * r[i]
    z[:] = 0.0
    residual = np.inf
    if solve_in_place(A, count):
        for a in range(count):
            z[members[a]] = max(A[a, count], 0.0)
        constant, w = vector(arena, r.shape[0]), vector(arena, r.shape[0])
        for i in range(r.shape[0]):
            constant[i] = scale[i] * r[i]
            w[i] = constant[i]
            for a in range(count):
                w[i] += scale[i] * Q[i, members[a]] * scale[members[a]] * z[members[a]]
        residual = float(lcp_residual(z, w, constant))
        for a in range(count):
            z[members[a]] *= scale[members[a]]
    release(arena, at)
    return residual


@njit(cache=True, error_model="numpy")
def _support(lcp: FrictionLcp, active: Integers, arena: Arena) -> Integers:  # pragma: no cover - compiled
    """The unknowns that the bit sets `active` (n,) name, in increasing order."""
    n, t = active.shape[0], lcp.frictional.shape[0]
    members: Integers = indices(arena, lcp.r.shape[0])
    count = 0
    for i in range(n):
        if active[i] & 1:
            members[count] = i
            count += 1
    for unknown in range(5):  # four edges and λ
        for j in range(t):
            if (active[lcp.frictional[j]] >> (1 + unknown)) & 1:
                members[count] = n + unknown * t + j
                count += 1
    return members[:count]


@njit(cache=True, error_model="numpy")
def continued_lcp_kernel(
    rho: Array, c: Array, mu: Array, active: Integers, f: Array, arena: Arena
) -> tuple[int, int, float]:  # pragma: no cover - compiled
    """`friction_lcp_kernel`, but the vertex of the last step is kept where it still is a solution.

    Solutions at sticking feet are many, and Lemke's path ends elsewhere when the demand changes by little: started cold
    at each step, torques jump between equally good answers (math.md, section 6.4).

    Args:
        rho: Whitened contact rows, shape (3 n, k).
        c: Their constants, shape (3 n,).
        mu: Friction, shape (n,); contacts with 0 or inf have no tangential unknowns.
        active: In and out, which unknowns of a contact are positive, shape (n,): bit 0 its normal, bits 1 to 4 its
            edges +S, -S, +T, -T, bit 5 its slip speed λ.
        f: Result, contact impulses, shape (3 n,).
        arena: Where arrays come from.

    Returns:
        Status number, pivots (0 where the last vertex was kept), residual.
    """
    lcp = _rigid_lcp(rho, c, mu, arena)
    n, t = mu.shape[0], lcp.frictional.shape[0]
    z = vector(arena, lcp.r.shape[0])
    if active.any():
        residual = _checked(lcp, z, _on_support(lcp, _support(lcp, active, arena), z, arena))
        if residual <= TOLERANCE:
            contact_impulses(lcp, z, f)
            return SOLVED, 0, residual
    status, pivots, residual = _lemke(lcp, 0.0, z, arena)
    f[:] = 0.0
    active[:] = 0
    if status != SOLVED:
        return status, pivots, residual
    contact_impulses(lcp, z, f)
    positive = 0.0
    for i in range(z.shape[0]):
        positive = max(positive, TOLERANCE * z[i] / lcp.scale[i])
    for i in range(n):
        active[i] = 1 if z[i] / lcp.scale[i] > positive else 0
    for j in range(t):
        for unknown in range(5):
            at = n + unknown * t + j
            if z[at] / lcp.scale[at] > positive:
                active[lcp.frictional[j]] |= 2 << unknown
    return status, pivots, residual


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How the LCP ended; `note` as in `StepSolution`."""

    status: int
    iterations: int
    residual: float
    regularization: float = 0.0
    note: str = ""


def _solve_pyramids(rho: Array, c: Array, mu: Array, active: Integers, f: Array) -> Outcome:
    """Solve by Lemke's method, and after a failure by other means, which the outcome's note tells.

    In this order: whether normals alone have no solution; Lemke's method with other covering vectors, which follow
    other paths; 1e-12, 1e-10, 1e-8 of the balanced diagonal added (math.md, section 13.5); a short search over contact
    modes.
    """
    _load()
    status, iterations, residual = continued_lcp_kernel(rho, c, mu, active, f, HEAP)
    if status == SOLVED:
        return Outcome(status=status, iterations=iterations, residual=residual)
    return _after_failure(rho, c, mu, f, Outcome(status=status, iterations=iterations, residual=residual))


@cache
def _load() -> None:
    """Load with the first step what only failures need: in a tick of a loop that takes longer than a robot waits."""
    rho, c, mu = np.eye(3), np.array([-1.0, 0.0, 0.0]), np.array([0.5])
    _after_failure(rho, c, mu, np.zeros(3), Outcome(status=INACCURATE, iterations=0, residual=np.inf))
    find_solution(rho, c, mu, max_nodes=1)


def _after_failure(rho: Array, c: Array, mu: Array, f: Array, first: Outcome) -> Outcome:
    """Solve by the other means, in the order of `_solve_pyramids`; `first` is how the first attempt ended."""
    status, iterations, residual = first.status, first.iterations, first.residual
    if not may_part(rho, c, mu.size):
        return replace(first, status=INFEASIBLE, note=SQUEEZE)
    lcp: FrictionLcp = _rigid_lcp(rho, c, mu, HEAP)
    z = np.empty(lcp.r.size)
    rng = np.random.default_rng(0)
    for _ in range(max(RESTARTS, mu.size) if mu.size <= MOST_RETRIED else 0):
        # a positive factor on each variable does to the path what a covering vector other than 1 does
        factors = lcp.scale * np.exp(rng.normal(scale=SPREAD, size=z.size))
        again, more, _ = _lemke(lcp._replace(scale=factors), 0.0, z, HEAP)
        iterations += more
        residual = _residual(lcp, z)
        if again == SOLVED and residual <= TOLERANCE:
            contact_impulses(lcp, z, f)
            return Outcome(status=SOLVED, iterations=iterations, residual=residual, note="restarted")
    for tikhonov in TIKHONOV:
        again, more, residual = friction_lcp_kernel(rho, c, mu, tikhonov, f, HEAP)
        iterations += more
        if again == SOLVED:
            return Outcome(
                status=again, iterations=iterations, residual=residual, regularization=tikhonov, note="regularized"
            )
    nodes_allowed = SEARCH_NODES if mu.size <= MOST_RETRIED else 0
    y, settled, nodes = find_solution(rho @ rho.T, c, mu, max_nodes=nodes_allowed)
    iterations += nodes
    if y is not None:
        z = unknowns(rho, c, y, lcp.frictional)
        residual = _checked(lcp, z, _residual(lcp, z))
        if residual <= TOLERANCE:
            f[:] = y
            return Outcome(status=SOLVED, iterations=iterations, residual=residual, note="searched")
    if settled and y is None:
        return Outcome(status=INFEASIBLE, iterations=iterations, residual=np.inf, note=JAM)
    return Outcome(status=status, iterations=iterations, residual=np.inf, note=UNSOLVED)


def may_part(rho: Array, c: Array, n: int) -> bool:
    """Whether no certificate says that no velocity of what is free keeps the contacts apart (math.md, section 5.1)."""
    return project(rho[:n], c[:n]).status is not SolverStatus.INFEASIBLE


def _residual(lcp: FrictionLcp, z: Array) -> float:
    """The residual of the balanced problem, which Lemke's method measures."""
    return float(lcp_residual(z / lcp.scale, lcp.scale * (lcp.Q @ z + lcp.r), lcp.scale * lcp.r))


def solve(problem: StepProblem, warm: WarmStart | None = None) -> StepSolution:
    """Solve one step under Coulomb friction.

    In forward mode with gaps that are not negative a solution exists and Lemke's method finds it. With prescribed
    joints it may not exist (joints that are told to squeeze, or against friction, math.md, section 5.1), and Lemke's
    method is not sure to find it where it does. Where none is found the status is FALLBACK, the impulses are zero, and
    the note says what is known: `SQUEEZE`, `JAM` or `UNSOLVED`. A solution that was not found at the first attempt has
    the note ``"restarted"`` (another covering vector), ``"regularized"`` (then the status is REPAIRED) or
    ``"searched"`` (over contact modes).

    Args:
        problem: The step.
        warm: The last solution's `warm`: which unknowns were positive, by contact identity. They are tried first, so
            that of many solutions the same vertex is kept from step to step; then Lemke's method starts cold.

    Returns:
        The solution; its residual is that of the complementarity problem.

    Raises:
        InputError: There are more than `MOST_CONTACTS` contacts.
    """
    return solve_by(_solve_pyramids, problem, warm)


Solver: TypeAlias = Callable[[Array, Array, Array, Integers, Array], Outcome]
"""Writes impulses f (3 n,) of contacts with finite friction, from ρ (3 n, k), c (3 n,), μ (n,) and active bits (n,)."""


def solve_by(solver: Solver, problem: StepProblem, warm: WarmStart | None) -> StepSolution:
    """Solve one step by a solver of contacts with finite friction: others, and bilateral rows, are held.

    Args:
        solver: Solves contacts with finite friction.
        problem: The step.
        warm: The last solution's `warm`.

    Raises:
        InputError: There are more than `MOST_CONTACTS` contacts.
    """
    mu = problem.contacts.mu
    n = mu.shape[0]
    if n > MOST_CONTACTS:
        raise InputError(
            f"{n} contacts are too many for Coulomb friction, which takes {MOST_CONTACTS}; "
            "use the models dissipation, no_slip or sap"
        )
    whitened = whiten(problem)
    rows = whitened.rho.shape[0]
    no_slip = np.isinf(mu)
    f, active = np.zeros(rows), warm_bits(warm, problem.contacts)
    if rows == 3 * n and not no_slip.any():
        outcome = solver(whitened.rho, whitened.c, mu, active, f)
        return finish(problem, whitened, f, _ending(outcome, settled=True), active)
    # as exact as its solver; a contact that neither presses nor opens by more keeps its role
    tolerance = 1e-9 * max(1.0, float(np.abs(whitened.c).max(initial=0.0)))

    def attempt(stick: Booleans) -> Attempt[tuple[Outcome, Array, Integers]]:
        held = hold(whitened, held_rows(whitened, stick))
        f, unknown = np.zeros(rows), active.copy()
        outcome = solver(held.rho[: 3 * n], held.c[: 3 * n], mu, unknown, f[: 3 * n])
        f = held.impulses(whitened, f)
        opening = whitened.c[:n] + whitened.rho[:n] @ (whitened.rho.T @ f)
        return Attempt(
            found=(outcome, f, unknown), solved=outcome.status == SOLVED, presses=f[:n] > 0.0, parts=opening > tolerance
        )

    (outcome, f, active), settled = settle(no_slip, no_slip & (problem.contacts.gap <= CLOSED_GAP), attempt)
    if outcome.status == INFEASIBLE and no_slip.any():
        # that proof is of the contacts that were held; without them there may be a solution
        alone = hold(whitened, held_rows(whitened, np.zeros(n, dtype=np.bool_)))
        squeezed = not may_part(alone.rho, alone.c, n)
        outcome = replace(outcome, note=SQUEEZE if squeezed else UNSOLVED)
    return finish(problem, whitened, f, _ending(outcome, settled=settled), active)


def _ending(outcome: Outcome, *, settled: bool) -> Ending:
    status, note = Status.SOLVED, outcome.note
    if outcome.status != SOLVED:
        status = Status.FALLBACK
    elif outcome.regularization > 0.0:
        status = Status.REPAIRED
    elif not settled:
        status, note = Status.REPAIRED, "which contacts stick did not settle"
    return Ending(status, outcome.residual, outcome.iterations, outcome.regularization, note)
