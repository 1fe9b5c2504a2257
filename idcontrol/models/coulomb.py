r"""Coulomb friction as a linear complementarity problem (math.md, section 5).

    ⎡ NΓNᵀ   NΓFᵀ   0 ⎤ ⎡f_N⎤   ⎡ N v° + φ/h ⎤   ⎡w_N⎤
    ⎢ FΓNᵀ   FΓFᵀ   E ⎥ ⎢f_F⎥ + ⎢ F v°       ⎥ = ⎢w_F⎥ ,   0 ≤ z ⊥ w ≥ 0
    ⎣ diag μ  -Eᵀ   0 ⎦ ⎣ λ ⎦   ⎣ 0          ⎦   ⎣w_λ⎦

with F = [S; -S; T; -T], v° the velocity at zero contact impulse, λ the slip speed of each contact, which E repeats for
its four edges, and Γ the response of the velocities to impulses, M⁻¹ in forward mode
(`idcontrol.models.friction_lcp`). The friction pyramid is the inscribed diamond |f_S| + |f_T| ≤ μ f_N: its friction
coefficient is μ along the two tangents, and μ/√2 midway between them. Contacts with μ = 0 have no tangential unknowns.
Contacts with μ = inf do not slip while they have a normal impulse: `idcontrol.models.sticking` determines which of them
stick; the tangential rows of these contacts hold with equality (math.md, section 4).

Sources: Stewart & Trinkle 1996, Anitescu & Potra 1997; for prescribed joints Zapolsky & Drumwright 2017, section 5.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Final, TypeAlias

import numpy as np
from numba import types

from idcontrol.errors import InputError
from idcontrol.kernels.arena import HEAP, Arena, indices, mark, matrix, release, vector, zeros
from idcontrol.kernels.jit import njit
from idcontrol.kernels.linear import assign
from idcontrol.kernels.linked import late, linked
from idcontrol.models.friction_lcp import (
    MOST_RETRIED,
    FrictionLcp,
    Unbalanced,
    assemble,
    balance_contacts,
    contact_impulses,
    frictional_contacts,
    judged,
    on_support,
    restarted,
    solve_lcp,
)
from idcontrol.models.no_slip import Frictionless
from idcontrol.models.no_slip import settle as settle_frictionless
from idcontrol.models.step import CLOSED_GAP, SQUEEZE, Ending, StepProblem, StepSolution, WarmStart, warm_bits
from idcontrol.models.sticking import CONTRADICTED, UNSETTLED, Attempt, settle
from idcontrol.models.whitened import INEXACT, finish, held_rows, hold, may_part, outcomes, whiten
from idcontrol.solvers.lemke import TIKHONOV
from idcontrol.solvers.modes import find_solution
from idcontrol.solvers.status import INACCURATE, INFEASIBLE, SOLVED, TOLERANCE
from idcontrol.types import Array, Booleans, Integers, Status

OPENING: Final = 1e-9
"""A contact opens if its opening speed exceeds this share of a reference speed. The reference is the contact's speed at
zero impulse plus the speed that impulses add. The share is the accuracy of the solver.
"""

MOST_CONTACTS = 500
"""Largest number of contacts: Lemke's tableau has (12 n)(6 n) entries, gigabytes for 2000 contacts."""

KEPT: Final = 1e-10
"""Additional tolerance of the law for a vertex (set of positive unknowns) kept from the last step, relative to the
velocity changes by impulses. The error of one step appears in the gaps of the next step, and grows when boxes balance
on edges. Without the tolerance the vertex would be dropped, the next solution might be far away, and held boxes would
fall.
"""

MANY_CONTACTS: Final = 2
"""Number of contacts per unknown velocity above which `_by_few` first tries a subset of the contacts."""

SEARCH_NODES: Final = 200
"""Largest number of quadratic programs in the search over contact modes. They take a few milliseconds for a few
contacts, and two seconds for 54 contacts. The search decides every problem of up to two coupled contacts.
"""

JAM: Final = "jam"
"""Note: some velocities keep the contacts apart, but it is proved that with friction no solution exists."""
UNSOLVED: Final = "no solution found"
"""Note: the solver found neither a solution nor a proof that there is none."""


@njit(cache=True, error_model="numpy")
def _rigid_lcp(
    rho: Array, c: Array, roundoff: Array, mu: Array, arena: Arena
) -> tuple[FrictionLcp, Unbalanced]:  # pragma: no cover - compiled
    """Assemble the balanced friction LCP of rigid contacts, and the unbalanced problem."""
    problem = Unbalanced(rho, c, roundoff, zeros(arena, c.shape[0]), mu, frictional_contacts(mu, arena))
    lcp = assemble(rho, c, problem.compliance, mu, problem.frictional, arena)
    balance_contacts(lcp, rho)
    return lcp, problem


@njit(cache=True, error_model="numpy")
def friction_lcp_kernel(
    rho: Array, c: Array, roundoff: Array, mu: Array, tikhonov: float, f: Array, arena: Arena
) -> tuple[int, int, float]:  # pragma: no cover - compiled
    """Assemble and solve the LCP of this module.

    Args:
        rho: Whitened contact rows, shape (3 n, k).
        c: Velocities of the rows at zero impulse, shape (3 n,).
        roundoff: Rounding bounds of c, shape (3 n,).
        mu: Friction coefficients, shape (n,); contacts with 0 or inf have no tangential unknowns.
        tikhonov: Regularization added to the balanced diagonal, relative to this diagonal.
        f: Result, contact impulses, shape (3 n,).
        arena: Arena for all arrays.

    Returns:
        Status number, pivots, residual. With status INACCURATE f is inexact.
    """
    lcp, problem = _rigid_lcp(rho, c, roundoff, mu, arena)
    status, pivots, residual = solve_lcp(lcp, problem, tikhonov, vector(arena, lcp.r.shape[0]), f, arena)
    return status, pivots, residual


@njit(cache=True, inner=True, error_model="numpy")
def _support(lcp: FrictionLcp, active: Integers, arena: Arena) -> Integers:  # pragma: no cover - compiled
    """Return the indices of the unknowns in the bit sets `active` (n,), in increasing order."""
    n, t = active.shape[0], lcp.frictional.shape[0]
    members: Integers = indices(arena, lcp.r.shape[0])
    count = 0
    for i in range(n):
        if active[i] & 1:
            members[count] = i
            count += 1
    for unknown in range(5):  # four edges, then λ
        for j in range(t):
            if (active[lcp.frictional[j]] >> (1 + unknown)) & 1:
                members[count] = n + unknown * t + j
                count += 1
    return members[:count]


@njit(cache=True, inner=True, error_model="numpy")
def _worn(problem: Unbalanced, f: Array, arena: Arena) -> Unbalanced:  # pragma: no cover - compiled
    """Return the problem with larger rounding bounds, which permit the impulses f of the last vertex a small violation.

    The permitted violation of a row is `KEPT` times the sum of the magnitudes of its velocity changes by the impulses.
    This sum counts only up to the fastest speed that the contacts stop: large impulses that cancel would otherwise
    permit any violation.
    """
    n, fastest, roundoff = problem.mu.shape[0], 0.0, vector(arena, f.shape[0])
    for row in range(f.shape[0]):
        if f[row % n] > 0.0:
            fastest = max(fastest, abs(problem.c[row]))
    for row in range(f.shape[0]):
        changed = 0.0
        for other in range(f.shape[0]):
            entry = 0.0
            for d in range(problem.rho.shape[1] if f[other] != 0.0 else 0):
                entry += problem.rho[row, d] * problem.rho[other, d]
            changed += abs(entry * f[other])
        roundoff[row] = problem.roundoff[row] + KEPT * min(changed, fastest)
    return Unbalanced(problem.rho, problem.c, roundoff, problem.compliance, problem.mu, problem.frictional)


@njit(cache=True, error_model="numpy")
def pyramid_residual(
    rho: Array, c: Array, roundoff: Array, mu: Array, f: Array, arena: Arena
) -> float:  # pragma: no cover - compiled
    """Return the violation of the law by impulses f of all rows, shape (3 n + e,), scaled per contact.

    At contacts with μ = inf only the normals are judged. Arguments are as in `friction_lcp_kernel`, but with all rows;
    e rows are bilateral.
    """
    return judged(Unbalanced(rho, c, roundoff, zeros(arena, c.shape[0]), mu, frictional_contacts(mu, arena)), f, arena)


@linked
@njit(cache=True, inner=True, error_model="numpy")
def _by_all(
    rho: Array, c: Array, roundoff: Array, mu: Array, active: Integers, f: Array, arena: Arena
) -> tuple[int, int, float]:  # pragma: no cover - compiled
    """Run `continued_lcp_kernel` with all contacts in one LCP."""
    lcp, problem = _rigid_lcp(rho, c, roundoff, mu, arena)
    n, t = mu.shape[0], lcp.frictional.shape[0]
    z = vector(arena, lcp.r.shape[0])
    if active.any() and on_support(lcp, _support(lcp, active, arena), z, arena):
        contact_impulses(lcp, z, f)
        residual = judged(problem, f, arena)
        if residual > TOLERANCE:
            residual = judged(_worn(problem, f, arena), f, arena)
        if residual <= TOLERANCE:
            return SOLVED, 0, residual
    status, pivots, residual = solve_lcp(lcp, problem, 0.0, z, f, arena)
    active[:] = 0
    if status != SOLVED:
        return status, pivots, residual
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


@njit(cache=True, inner=True, error_model="numpy")
def _approaching(problem: Unbalanced, f: Array, chosen: Integers, arena: Arena) -> int:  # pragma: no cover - compiled
    """Return the fastest approaching contact that is not `chosen`, under impulses f (3 n,); -1 if none approaches."""
    at, rho, c = mark(arena), problem.rho, problem.c
    n, k = problem.mu.shape[0], rho.shape[1]
    y, fastest, which = zeros(arena, k), 0.0, -1
    for i in chosen:
        for row in (i, n + i, 2 * n + i):
            for d in range(k):
                y[d] += rho[row, d] * f[row]
    for i in range(n):
        change = 0.0
        for d in range(k):
            change += rho[i, d] * y[d]
        speed = -c[i] - change
        if speed > fastest and speed > TOLERANCE * (abs(c[i]) + abs(change)):
            taken = False
            for other in chosen:
                taken = taken or other == i
            if not taken:
                fastest, which = speed, i
    release(arena, at)
    return which


@late(lambda *_: types.Tuple((types.int64, types.int64, types.float64)))
@njit(cache=True, inner=True, error_model="numpy")
def _by_few(
    rho: Array, c: Array, roundoff: Array, mu: Array, active: Integers, f: Array, arena: Arena
) -> tuple[int, int, float]:  # pragma: no cover - compiled
    """Run `continued_lcp_kernel` on a subset of the contacts, for many contacts that act on few velocities.

    A contact without impulses obeys its law if it does not approach, whatever its slip. A solution for a subset
    therefore solves the whole problem if no other contact approaches; otherwise the fastest approaching contact joins
    the subset. The first subset consists of the contacts with an impulse in the last step. The method fails if it needs
    more contacts than `MANY_CONTACTS` allows, or if the subset has no solution.
    """
    n, k = mu.shape[0], rho.shape[1]
    problem = Unbalanced(rho, c, roundoff, zeros(arena, 3 * n), mu, frictional_contacts(mu, arena))
    most, count, pivots = MANY_CONTACTS * k, 0, 0
    chosen, bits = indices(arena, most), indices(arena, most)
    for i in range(n):
        if active[i] and count < most:
            chosen[count], bits[count] = i, active[i]
            count += 1
    f[:] = 0.0
    while True:
        if count > 0:
            at, rows = mark(arena), 3 * count
            rho_few, c_few, roundoff_few = matrix(arena, rows, k), vector(arena, rows), vector(arena, rows)
            mu_few, f_few = vector(arena, count), vector(arena, rows)
            for row in range(rows):
                i = chosen[row % count]
                mu_few[row % count] = mu[i]
                whole = row // count * n + i
                assign(rho_few[row], rho[whole])
                c_few[row], roundoff_few[row] = c[whole], roundoff[whole]
            status, more, residual = _by_all(rho_few, c_few, roundoff_few, mu_few, bits[:count], f_few, arena)
            for row in range(rows):
                f[row // count * n + chosen[row % count]] = f_few[row]
            release(arena, at)
            pivots += more
            if status != SOLVED:
                return status, pivots, residual
        joins = _approaching(problem, f, chosen[:count], arena)
        if joins < 0:
            break
        if count == most:
            return INACCURATE, pivots, np.inf
        chosen[count] = joins
        count += 1
        bits[:count] = 0
    residual = judged(problem, f, arena)
    if residual > TOLERANCE and pivots == 0:
        residual = judged(_worn(problem, f, arena), f, arena)
    if residual > TOLERANCE:
        return INACCURATE, pivots, residual
    active[:] = 0
    for a in range(count):
        active[chosen[a]] = bits[a]
    return SOLVED, pivots, residual


@linked
@njit(cache=True, error_model="numpy")
def continued_lcp_kernel(
    rho: Array, c: Array, roundoff: Array, mu: Array, active: Integers, f: Array, arena: Arena
) -> tuple[int, int, float]:  # pragma: no cover - compiled
    """Run `friction_lcp_kernel`, but keep the vertex (the positive unknowns) of the last step while it is a solution.

    Sticking feet have many solutions, and Lemke's method ends at another one after a small change of the demand. With
    cold starts, torques would jump between equally good answers (math.md, section 6.4).

    Args:
        rho: Whitened contact rows, shape (3 n, k).
        c: Velocities of the rows at zero impulse, shape (3 n,).
        roundoff: Rounding bounds of c, shape (3 n,).
        mu: Friction coefficients, shape (n,); contacts with 0 or inf have no tangential unknowns.
        active: In and out, bit set of each contact's positive unknowns, shape (n,): bit 0 for the normal, bits 1 to 4
            for the edges +S, -S, +T, -T, bit 5 for the slip speed λ.
        f: Result, contact impulses, shape (3 n,).
        arena: Arena for all arrays.

    Returns:
        Status number, pivots (0 if the last vertex was kept), residual. With status INACCURATE f is inexact.
    """
    pivots = 0
    if mu.shape[0] > MANY_CONTACTS * rho.shape[1]:
        status, pivots, residual = _by_few(rho, c, roundoff, mu, active, f, arena)
        if status == SOLVED:
            return status, pivots, residual
    status, more, residual = _by_all(rho, c, roundoff, mu, active, f, arena)
    return status, pivots + more, residual


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Outcome of a solver; fields are as in `StepSolution`, but `status` is a number of `idcontrol.solvers.status`."""

    status: int
    iterations: int
    residual: float
    regularization: float = 0.0
    note: str = ""


def _solve_pyramids(rho: Array, c: Array, roundoff: Array, mu: Array, active: Integers, f: Array) -> Outcome:
    """Solve by Lemke's method and, if it fails, by other methods; the outcome's note names the method.

    After a failure, the normals alone are first checked for infeasibility. Then follow Lemke's method with other
    covering vectors, i.e. along other paths; Lemke's method with 1e-12, 1e-10, 1e-8 of the balanced diagonal added to
    the matrix (math.md, section 13.5); and a short search over contact modes. If every method misses the tolerance, the
    answer with the smallest residual is returned.
    """
    _load()
    status, iterations, residual = continued_lcp_kernel(rho, c, roundoff, mu, active, f, HEAP)
    if status == SOLVED:
        return Outcome(status=status, iterations=iterations, residual=residual)
    return _after_failure(rho, c, roundoff, mu, f, Outcome(status=status, iterations=iterations, residual=residual))


@cache
def _load() -> None:
    """Load the code for failures when the first step is solved; in a later control cycle, it would take too long."""
    rho, c, roundoff, mu, f = np.eye(3), np.array([-1.0, 0.0, 0.0]), np.zeros(3), np.array([0.5]), np.zeros(3)
    _after_failure(rho, c, roundoff, mu, f, Outcome(status=INACCURATE, iterations=0, residual=np.inf))
    # that call stopped at the first attempt that succeeded: load the remaining attempts
    friction_lcp_kernel(rho, c, roundoff, mu, TIKHONOV[0], f, HEAP)
    find_solution(rho, c, mu, max_nodes=1)
    judged(_rigid_lcp(rho, c, roundoff, mu, HEAP)[1], f, HEAP)


def _after_failure(rho: Array, c: Array, roundoff: Array, mu: Array, f: Array, first: Outcome) -> Outcome:
    """Solve by the other methods, in the order of `_solve_pyramids`; `first` is the outcome of the first attempt."""
    status, iterations = first.status, first.iterations
    best, least = f.copy(), first.residual if status == INACCURATE else np.inf
    if not may_part(rho, c, mu.size):
        return replace(first, status=INFEASIBLE, note=SQUEEZE)
    lcp, problem = _rigid_lcp(rho, c, roundoff, mu, HEAP)
    again, more, residual = restarted(lcp, problem, f) if mu.size <= MOST_RETRIED else (status, 0, np.inf)
    iterations += more
    if again == SOLVED:
        return Outcome(status=SOLVED, iterations=iterations, residual=residual, note="restarted")
    if residual < least:
        best[:], least = f, residual
    for tikhonov in TIKHONOV:
        again, more, residual = friction_lcp_kernel(rho, c, roundoff, mu, tikhonov, f, HEAP)
        iterations += more
        if again == SOLVED:
            return Outcome(
                status=again, iterations=iterations, residual=residual, regularization=tikhonov, note="regularized"
            )
    nodes_allowed = SEARCH_NODES if mu.size <= MOST_RETRIED else 0
    y, settled, nodes = find_solution(rho @ rho.T, c, mu, max_nodes=nodes_allowed)
    iterations += nodes
    if y is not None:
        residual = judged(problem, y, HEAP)
        if residual <= TOLERANCE:
            f[:] = y
            return Outcome(status=SOLVED, iterations=iterations, residual=residual, note="searched")
        if residual < least:
            best[:], least = y, residual
    f[:] = best
    if least < np.inf:
        return Outcome(status=INACCURATE, iterations=iterations, residual=least, note=INEXACT)
    if settled and y is None:
        return Outcome(status=INFEASIBLE, iterations=iterations, residual=np.inf, note=JAM)
    return Outcome(status=status, iterations=iterations, residual=np.inf, note=UNSOLVED)


def solve(problem: StepProblem, warm: WarmStart | None = None) -> StepSolution:
    """Solve one step under Coulomb friction.

    In forward mode with nonnegative gaps a solution exists and Lemke's method finds it. With prescribed joints,
    contacts may prescribe conflicting velocities, or joints may move against friction; a solution may then not exist
    (math.md, section 5.1), or Lemke's method may miss it. Without a solution the status is FALLBACK, the impulses are
    zero, and the note is `SQUEEZE`, `JAM`, `UNSOLVED` or as in `StepSolution.note`. Solutions of later attempts have
    the note ``"restarted"`` (other covering vector), ``"searched"`` (over contact modes) or ``"regularized"`` (status
    REPAIRED). A solution that violates the law of some contact by more than the tolerance is also REPAIRED, with the
    note `INEXACT`. With infinite friction the status is REPAIRED, too, if no consistent set of sticking contacts was
    found (`idcontrol.models.sticking`).

    Args:
        problem: The step.
        warm: `warm` of the last solution: positive unknowns by contact identity. They are tried first; of many
            solutions, this keeps the same solution from step to step. If they fail, Lemke's method starts cold.

    Returns:
        The solution, with the residual of the complementarity problem.

    Raises:
        InputError: There are more than `MOST_CONTACTS` contacts.
    """
    return solve_by(_solve_pyramids, pyramid_residual, problem, warm)


Solver: TypeAlias = Callable[[Array, Array, Array, Array, Integers, Array], Outcome]
"""Writes impulses f (3 n,) of contacts with finite friction, from ρ (3 n, k), c and its rounding bounds (3 n,), μ (n,)
and active bits (n,). With an INACCURATE outcome the impulses have the smallest known residual.
"""

Residual: TypeAlias = Callable[[Array, Array, Array, Array, Array, Arena], float]
"""Returns the residual of the law, as `pyramid_residual` does."""


def solve_by(solver: Solver, law: Residual, problem: StepProblem, warm: WarmStart | None) -> StepSolution:
    """Solve one step by a solver of contacts with finite friction.

    Tangents of sticking contacts with infinite friction, and rigid bilateral rows, hold with equality.

    Args:
        solver: Solver of contacts with finite friction.
        law: Residual of the solver's law.
        problem: The step.
        warm: `warm` of the last solution.

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
        outcome = solver(whitened.rho, whitened.c, whitened.roundoff, mu, active, f)
        return finish(problem, whitened, f, _ending(outcome), active)

    def attempt(stick: Booleans, out: Booleans, rank_tolerance: float) -> Attempt[tuple[Outcome, Array, Integers]]:
        held = hold(whitened, held_rows(whitened, stick), rank_tolerance, out)
        f, unknown = np.zeros(rows), active.copy()
        outcome = solver(held.rho[: 3 * n], held.c[: 3 * n], held.roundoff[: 3 * n], mu, unknown, f[: 3 * n])
        f = held.impulses(whitened, f)
        parts, presses, moves = outcomes(whitened, f, stick, out, OPENING)
        return Attempt(
            answer=(outcome, f, unknown),
            solved=outcome.status == SOLVED,
            presses=presses,
            parts=parts,
            moves=moves,
            impossible=outcome.note == SQUEEZE or held.contradicts,
        )

    closed, lets_slip = no_slip & (problem.contacts.gap <= CLOSED_GAP), problem.prescribed is None
    if (np.isfinite(mu) & (mu > 0.0)).any():
        (outcome, f, active), why = settle(no_slip, closed, attempt, lets_slip=lets_slip)
        if why == CONTRADICTED:
            # with sliding contacts v⁺ is not unique, and another solution may be consistent with the roles
            why = UNSETTLED
    else:
        answer, why = settle_frictionless(whitened, OPENING, no_slip, closed, lets_slip=lets_slip)
        outcome, f, active = _outcome(answer), answer.f, answer.active & 1
    if outcome.status == INFEASIBLE and no_slip.any():
        # the proof concerns the held contacts; without holding them a solution may exist
        outcome = replace(outcome, note=SQUEEZE if why == SQUEEZE else JAM if why == CONTRADICTED else UNSOLVED)
    if outcome.status == SOLVED and not why:
        # elimination of held tangents also removes nearly equal rows of contacts that may slip: judge the rows before
        # elimination
        outcome = replace(outcome, residual=law(whitened.rho, whitened.c, whitened.roundoff, mu, f, HEAP))
        if not outcome.residual <= TOLERANCE:
            outcome = replace(outcome, status=INACCURATE, note=INEXACT)
    return finish(problem, whitened, f, _ending(outcome, why), active)


def _outcome(answer: Frictionless) -> Outcome:
    notes = {SOLVED: "", INFEASIBLE: SQUEEZE, INACCURATE: INEXACT}
    return Outcome(
        status=answer.number,
        iterations=answer.iterations,
        residual=answer.residual,
        note=notes.get(answer.number, UNSOLVED),
    )


def _ending(outcome: Outcome, unsettled: str = "") -> Ending:
    status, note = Status.SOLVED, outcome.note
    if outcome.note == INEXACT:
        status = Status.REPAIRED
    elif outcome.status != SOLVED:
        status = Status.FALLBACK
    elif outcome.regularization > 0.0:
        status = Status.REPAIRED
    elif unsettled:
        status, note = Status.REPAIRED, unsettled
    return Ending(status, outcome.residual, outcome.iterations, outcome.regularization, note)
