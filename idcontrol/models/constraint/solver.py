r"""Constraints as stiff springs and dampers, integrated implicitly (math.md, section 11).

The method is stable for every step size as long as the constraint directions G are constant
(docs/theory/constraint.md).

At the end of the step a constraint φ with Jacobian G exerts the force ``λ = -K φ⁺ - B φ̇⁺``. In impulses Λ = hλ,

    G v⁺ + C Λ + C h K φ = 0,     C = 1/(h²K + hB)                     bilateral (11.1)
    0 ≤ Λ ⊥ G v⁺ + C Λ + C h K φ ≥ 0                                   unilateral (11.2)

For K = inf, C = 0 and C h K φ = φ/h. Contact with friction (11.3) has a unilateral row along the normal and a damper
B_r with a bounded force along the tangents. This is the friction LCP with C_n on the diagonal of NΓNᵀ and C_t = 1/(h
B_r) on the diagonals of the tangents,

    ⎡ NΓNᵀ + C_n   NΓFᵀ                    0 ⎤ ⎡f_N⎤   ⎡ N v° + C_n h K φ ⎤
    ⎢ FΓNᵀ         FΓFᵀ + C_t [I -I; -I I] E ⎥ ⎢f_F⎥ + ⎢ F v°             ⎥ ≥ 0,   ⊥ z ≥ 0
    ⎣ diag μ       -Eᵀ                     0 ⎦ ⎣ λ ⎦   ⎣ 0                ⎦

with the friction pyramid of `idcontrol.models.coulomb`. If all stiffness is finite, the matrix is strictly copositive
in the impulses, and a solution exists even if joints prescribe conflicting velocities.

Differences from Drumwright 2019:

The method needs neither (G M⁻¹Gᵀ)⁻¹, which does not exist for redundant constraints, nor Ġ. Forces of coupled
constraints obey the law; the printed programs (`idcontrol.models.constraint.printed`) obey it for one constraint only.
An initially open contact has no damping, so that no force acts at a distance; it gets a force only if its gap closes
within the step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from msgspec import structs

from idcontrol.contact.contacts import Contacts
from idcontrol.errors import InputError
from idcontrol.kernels.arena import HEAP, Arena, indices, vector, zeros
from idcontrol.kernels.jit import njit
from idcontrol.kernels.linked import linked
from idcontrol.models.constraint.unilateral import solve_springs, spring_kernel
from idcontrol.models.coulomb import UNSOLVED
from idcontrol.models.friction_lcp import (
    MOST_RETRIED,
    FrictionLcp,
    Unbalanced,
    assemble,
    balance_uniformly,
    restarted,
    solve_lcp,
    violation,
)
from idcontrol.models.no_slip import settle as settle_frictionless
from idcontrol.models.sparse import SparseProblem
from idcontrol.models.step import PUSH_OUT_SPEED, SQUEEZE, Ending, StepProblem, StepSolution, WarmStart
from idcontrol.models.sticking import CONTRADICTED, UNSETTLED, YIELD, Attempt, settle
from idcontrol.models.whitened import INEXACT, Whitened, finish, held_rows, hold, outcomes, whiten
from idcontrol.solvers.lemke import TIKHONOV
from idcontrol.solvers.modes import islands
from idcontrol.solvers.status import INACCURATE, INFEASIBLE, RAY, SOLVED, TOLERANCE, SolverStatus
from idcontrol.types import Array, Booleans, Integers, Status

CREEP = 1e-6
"""Creep of sticking contacts, as a fraction of their speed without friction. It sets the tangential damper
B_r = 1/(CREEP h w), with the inverse mass w of `tangential_compliance`."""

OPENING = 1e-9
"""A contact opens if its opening speed exceeds this share of a reference speed, which is its speed at zero impulse plus
the speed that impulses add.
"""

SPRING_RANK_TOLERANCE = 1e-16
"""A bilateral row counts as a repetition of other rows if its squared distance from them is below this fraction of its
squared length.

Compliance makes geometrically equal rows differ: by 1e-13 at h = 0.1 s, K = 1e15 N/m and 1 kg. A smaller distance is
rounding error, and then only one of the rows can carry the load.
"""


def solve(problem: StepProblem, warm: WarmStart | None = None) -> StepSolution:
    """Solve one step with the stiffness and damping of contacts and the compliance of bilateral rows.

    Prescribed joints are bilateral rows with C = 0, whose multipliers are the motor impulses. A contact with infinite
    friction does not slide while it has a normal impulse.

    Args:
        problem: The step, forward or inverse.
        warm: Not used; the solvers start cold.

    Returns:
        The solution. FALLBACK has the note `SQUEEZE` if contacts are rigid and no velocity keeps them apart. It has the
        note `UNSOLVED` if the solver failed although a solution may exist, for example at 1e15 N/m. Other notes of
        FALLBACK are as in `StepSolution.note`. REPAIRED has the note `INEXACT` if a contact violates its law by more
        than the tolerance, the note ``"regularized"`` if the matrix had to be regularized, or a note of
        `idcontrol.models.sticking`.

    Raises:
        InputError: A stiffness or damping is negative.
    """
    contacts = problem.contacts
    compliance, rest = contact_law(contacts, problem.h)
    if np.isinf(compliance).any():
        return _without(problem, np.isfinite(compliance))
    creep = tangential_compliance(problem)
    ties = problem.bilateral
    soft = np.zeros(0) if ties is None else ties.compliance
    bare = replace(
        problem,
        contacts=replace(contacts, gap=np.zeros(len(contacts))),
        bilateral=None if ties is None else replace(ties, compliance=np.zeros(soft.size)),
    )
    whitened = whiten(bare)
    whitened.c[: len(contacts)] += rest
    giving = np.concatenate((compliance, creep, creep, soft))
    outcome = _impulses(whitened, contacts.mu, giving)
    ending = _ending(outcome, rigid=not compliance.any())
    # `finish` judges inexact impulses by the motion of all rows, including the deflection of springs
    if ending.note == INEXACT:
        whitened = whitened._replace(rho=np.hstack((whitened.rho, np.diag(np.sqrt(giving)))))
    return finish(problem, whitened, outcome.f, ending)


def contact_law(contacts: Contacts | SparseProblem, h: float) -> tuple[Array, Array]:
    """Return C_n = 1/(h²K + hB) and C_n h K φ of each contact, shapes (n,) [m/s per N s] and [m/s].

    C_n = inf means that the contact has no force. A contact that is open (φ > 0) has B = 0. Penetration of rigid
    contacts is corrected at no more than `PUSH_OUT_SPEED`.

    Raises:
        InputError: A stiffness or damping is negative or NaN.
    """
    K, gap = contacts.stiffness, contacts.gap
    if not ((contacts.damping >= 0.0).all() and (K >= 0.0).all()):
        raise InputError("contacts: stiffness and damping must not be negative; inf stiffness is rigid")
    B = np.where(gap > 0.0, 0.0, contacts.damping)
    rigid, nothing = np.isinf(K), (K == 0.0) & (B == 0.0)
    usual = ~(rigid | nothing)
    compliance = np.where(nothing, np.inf, 0.0)
    compliance[usual] = 1.0 / (h * (h * K[usual] + B[usual]))
    rest = np.maximum(gap / h, -PUSH_OUT_SPEED)
    rest[usual] = gap[usual] * K[usual] / (h * K[usual] + B[usual])
    return compliance, rest


def tangential_compliance(problem: StepProblem) -> Array:
    """Return C_t = CREEP w of each contact with inverse mass w along the tangents, shape (n,) [m/s per N s].

    The inverse mass w is the mean of ``Σ_j J_j² / M_jj`` over both tangents. It does not depend on which joints are
    prescribed, and light and heavy bodies creep equally.
    """
    creep: Array = _creep(problem.M, problem.contacts.jacobian, HEAP)
    return creep


@njit(cache=True, error_model="numpy")
def _creep(M: Array, J: Array, arena: Arena) -> Array:  # pragma: no cover - compiled
    n = J.shape[0] // 3
    creep: Array = zeros(arena, n)
    for i in range(n):
        w = 0.0
        for r in (n + i, 2 * n + i):
            for j in range(M.shape[0]):
                w += 0.5 * J[r, j] * J[r, j] / M[j, j]
        creep[i] = CREEP * w
    return creep


@njit(cache=True, error_model="numpy")
def _soft_lcp(
    rho: Array, c: Array, compliance: Array, mu: Array, frictional: Integers, arena: Arena
) -> FrictionLcp:  # pragma: no cover - compiled
    """Assemble the balanced friction LCP of springs."""
    lcp = assemble(rho, c, compliance, mu, frictional, arena)
    balance_uniformly(lcp, arena)
    return lcp


@linked
@njit(cache=True, inner=True, error_model="numpy")
def closed_kernel(
    h: float, law: tuple[float, float], w: Whitened, mu: Array, f: Array, arena: Arena
) -> tuple[int, int, float]:  # pragma: no cover - compiled
    """Run the first attempt of `solve` for contacts of gap 0 that share one stiffness and damping, without other rows.

    Args:
        h: Length of the step [s].
        law: Stiffness K, positive and finite [N/m], and damping B [N s/m].
        w: The whitened problem, without rigid bilateral rows.
        mu: Friction coefficients, finite, shape (n,).
        f: Result, shape (3 n,).
        arena: Arena for all arrays.

    Returns:
        Status number, iterations, residual.
    """
    n, rho, c, roundoff = mu.shape[0], w.rho, w.c, w.roundoff
    stiffness, damping = law
    creep = _creep(w.M, w.rows, arena)
    compliance, frictional, count = vector(arena, 3 * n), indices(arena, n), 0
    for i in range(n):
        compliance[i] = 1.0 / (h * (h * stiffness + damping))
        compliance[n + i] = compliance[2 * n + i] = creep[i]
        if mu[i] > 0.0 and creep[i] > 0.0:
            frictional[count] = i
            count += 1
    f[:] = 0.0
    if count == 0:
        status, iterations, residual = spring_kernel(
            rho[:n], c[:n], roundoff[:n], compliance[:n], f[:n], vector(arena, n), arena
        )
        return status, iterations, residual
    lcp = _soft_lcp(rho, c, compliance, mu, frictional[:count], arena)
    problem = Unbalanced(rho, c, roundoff, compliance, mu, frictional[:count])
    status, iterations, residual = solve_lcp(lcp, problem, 0.0, vector(arena, lcp.r.shape[0]), f, arena)
    return status, iterations, residual


@dataclass(frozen=True, slots=True, kw_only=True)
class _Outcome:
    """Impulses of all rows, and the outcome of the solver."""

    f: Array
    status: SolverStatus
    iterations: int
    residual: float
    regularization: float = 0.0
    unsettled: str = ""


def _impulses(whitened: Whitened, mu: Array, compliance: Array) -> _Outcome:
    """Compute the impulses of the rows [N; S; T; bilateral] with their compliances."""
    n, rows = mu.size, compliance.size
    no_slip = np.isinf(mu)
    frictional = np.flatnonzero((mu > 0.0) & ~no_slip & (compliance[n : 2 * n] > 0.0))
    if rows == 3 * n and not no_slip.any():
        return _contact_impulses(whitened.rho, whitened.c, whitened.roundoff, compliance, mu, frictional)
    # rows held with equality get their compliance as an extra column √C: the Gram matrix of the rows is then ρρᵀ + C
    ridge = np.zeros((rows, rows))
    ridge[np.arange(n, rows), np.arange(n, rows)] = np.sqrt(compliance[n:])
    ridge[n + frictional] = ridge[2 * n + frictional] = 0.0
    ridged = whitened._replace(rho=np.hstack((whitened.rho, ridge)))
    fastest = np.abs(whitened.c[: 3 * n]).max(initial=0.0)

    def attempt(stick: Booleans, out: Booleans, _: float) -> Attempt[_Outcome]:
        kept = held_rows(ridged, stick)
        held = hold(ridged, kept, SPRING_RANK_TOLERANCE, out)
        outcome = _contact_impulses(
            held.rho[: 3 * n], held.c[: 3 * n], held.roundoff[: 3 * n], compliance, mu, frictional
        )
        f = held.impulses(ridged, np.concatenate((outcome.f, np.zeros(rows - 3 * n))))
        parts, presses, moves = outcomes(whitened._replace(c=whitened.c + compliance * f), f, stick, out, OPENING)
        deflection = np.abs(compliance * f)[kept[kept < 3 * n]].max(initial=0.0)
        return Attempt(
            answer=replace(outcome, f=f),
            solved=outcome.status is SolverStatus.SOLVED,
            presses=presses,
            parts=parts,
            moves=np.inf if deflection > YIELD * fastest else moves,
            impossible=outcome.status is SolverStatus.INFEASIBLE,
        )

    if frictional.size or compliance[:n].any():
        solution, unsettled = settle(no_slip, no_slip, attempt)
    else:
        most = np.full(rows, np.inf)
        creeps = n + np.flatnonzero(compliance[n : 3 * n])
        most[creeps] = YIELD * fastest / compliance[creeps]
        answer, unsettled = settle_frictionless(
            ridged, OPENING, no_slip, no_slip, rank_tolerance=SPRING_RANK_TOLERANCE, most=most
        )
        solution = _Outcome(
            f=answer.f,
            status=SolverStatus(answer.number),
            iterations=answer.iterations,
            residual=answer.residual,
        )
    if solution.status is SolverStatus.SOLVED:
        # elimination of held contacts may nearly remove the velocities and units of other contacts; the original rows
        # show the violation
        whole = Unbalanced(whitened.rho, whitened.c, whitened.roundoff, compliance, mu, frictional)
        residual = max(solution.residual, violation(whole, solution.f, whitened.rho.T @ solution.f))
        accurate = SolverStatus.SOLVED if residual <= TOLERANCE else SolverStatus.INACCURATE
        solution = replace(solution, status=accurate, residual=residual)
    return replace(solution, unsettled=UNSETTLED if unsettled == CONTRADICTED and frictional.size else unsettled)


def _contact_impulses(
    rho: Array, c: Array, roundoff: Array, compliance: Array, mu: Array, frictional: Integers
) -> _Outcome:
    """Compute the impulses (3 n,) of contacts with finite or no friction.

    If the solver fails for all contacts together, independent groups of contacts are solved separately. For example, a
    penetration of one kilometre means an approach at 1e6 m/s in a step of 1 ms. Compared with this speed, pivoting
    treats all velocities at a resting foot as rounding errors.
    """
    solution = _together(rho, c, roundoff, compliance, mu, frictional)
    if solution.status is SolverStatus.SOLVED:
        return solution
    groups = islands(rho @ rho.T)
    return _apart(rho, c, roundoff, compliance, mu, frictional, groups) if len(groups) > 1 else solution


def _together(rho: Array, c: Array, roundoff: Array, compliance: Array, mu: Array, frictional: Integers) -> _Outcome:
    """Run `_contact_impulses` for all contacts in one problem."""
    n = mu.size
    f = np.zeros(3 * n)
    if frictional.size == 0:
        status, f[:n], iterations, residual = solve_springs(
            np.ascontiguousarray(rho[:n]), np.ascontiguousarray(c[:n]), compliance[:n], roundoff[:n]
        )
        return _Outcome(f=f, status=status, iterations=iterations, residual=residual)
    lcp = _soft_lcp(rho, c, compliance, mu, frictional, HEAP)
    problem = Unbalanced(rho, c, roundoff, compliance, mu, frictional)
    z, regularization = np.empty(lcp.r.size), 0.0
    number, iterations, residual = solve_lcp(lcp, problem, 0.0, z, f, HEAP)
    if number != SOLVED and n <= MOST_RETRIED:
        other = np.zeros_like(f)
        again, more, least = restarted(lcp, problem, other)
        iterations += more
        if np.isfinite(least) and (number != INACCURATE or least < residual):
            number, residual, f = again, least, other
    for tikhonov in TIKHONOV:
        if number in (SOLVED, INACCURATE):
            break
        number, more, residual = solve_lcp(lcp, problem, tikhonov, z, f, HEAP)
        iterations, regularization = iterations + more, tikhonov if number == SOLVED else 0.0
    return _Outcome(
        f=f, status=SolverStatus(number), iterations=iterations, residual=residual, regularization=regularization
    )


def _apart(
    rho: Array,
    c: Array,
    roundoff: Array,
    compliance: Array,
    mu: Array,
    frictional: Integers,
    groups: Sequence[Integers],
) -> _Outcome:
    """Run `_contact_impulses` for each independent group of contacts, each with its own scale."""
    n = mu.size
    whole = _Outcome(f=np.zeros(3 * n), status=SolverStatus.SOLVED, iterations=0, residual=0.0)
    for members in groups:
        rows = np.concatenate((members, n + members, 2 * n + members))
        part = _together(
            rho[rows],
            c[rows],
            roundoff[rows],
            compliance[rows],
            mu[members],
            np.flatnonzero(np.isin(members, frictional)),
        )
        whole.f[rows] = part.f
        whole = replace(
            whole,
            status=max(whole.status, part.status),
            iterations=whole.iterations + part.iterations,
            residual=max(whole.residual, part.residual),
            regularization=max(whole.regularization, part.regularization),
        )
    return whole


def _without(problem: StepProblem, pushing: Booleans) -> StepSolution:
    """Solve for the contacts that can have a force; all other contacts get no impulse."""
    solution = solve(replace(problem, contacts=problem.contacts.take(pushing)))
    impulses = np.zeros((pushing.size, 3))
    impulses[pushing] = solution.impulses
    return structs.replace(solution, impulses=impulses)


def _ending(outcome: _Outcome, *, rigid: bool) -> Ending:
    """Translate the outcome to a status; if all contacts are `rigid`, infeasibility is proved."""
    status, note = Status.SOLVED, ""
    if outcome.status is SolverStatus.INACCURATE:
        status, note = Status.REPAIRED, INEXACT
    elif outcome.status is not SolverStatus.SOLVED:
        status = Status.FALLBACK
        nothing = SQUEEZE if rigid and outcome.status is SolverStatus.INFEASIBLE else UNSOLVED
        note = nothing if outcome.status in (RAY, INFEASIBLE) else outcome.status.name.lower()
    elif outcome.regularization > 0.0:
        status, note = Status.REPAIRED, "regularized"
    elif outcome.unsettled:
        status, note = Status.REPAIRED, outcome.unsettled
    return Ending(status, outcome.residual, outcome.iterations, outcome.regularization, note)
