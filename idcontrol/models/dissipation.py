r"""Maximal dissipation as a convex problem, stage I (math.md, sections 7.1-7.3).

The objective projects the velocity at zero impulse, v°, onto the velocities that the contacts allow,

    min ½ (v_b - v°_b)ᵀ M_bb (v_b - v°_b)   s.t.   G_e v + φ̃/h ≥ 0,    rows of G_e: N_i ± μ_i S_i, N_i ± μ_i T_i

The index b selects the unknown velocities; φ̃ is the gap of the contact that the row belongs to. The multipliers are the
edge impulses η ≥ 0, with f_N = Σ η_e and f_S = μ (η_+S - η_-S). The number of nonzero multipliers is at most the number
of unknown velocities. With finite friction v⁺ is unique. The convex approximation has an artefact: a sliding contact
lifts off at μ max(|v_S|, |v_T|). Contacts with μ = 0 have one row. Contacts with μ = inf do not slip while they are
closed (math.md, section 4.1). For a fixed set of sticking contacts v⁺ is unique, but more than one set may be
consistent.

Variants: a unique distribution of impulses (`one_stage`), no slip (`no_slip_qp`), and the printed objective
(`solve_printed`).

Sources: Zapolsky & Drumwright 2017, section 6; Drumwright & Shell 2010; Anitescu 2006.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from idcontrol.errors import InputError
from idcontrol.kernels.arena import HEAP, Arena, indices, matrix, vector, zeros
from idcontrol.kernels.jit import njit
from idcontrol.kernels.lanes import dot
from idcontrol.kernels.linear import add, assign, assign_rows, cholesky, solve_lower, solve_lower_transposed
from idcontrol.kernels.linked import linked
from idcontrol.models import no_slip
from idcontrol.models.coulomb import JAM
from idcontrol.models.step import CLOSED_GAP, SQUEEZE, Ending, StepProblem, StepSolution, WarmStart, warm_bits
from idcontrol.models.sticking import YIELD, Attempt, settle
from idcontrol.models.whitened import INEXACT, Whitened, finish, held_rows, hold, may_part, outcomes, whiten
from idcontrol.solvers.lcp import ACTIVE_SET, SLIGHT, gram_residual_doubled, lost, row_residual, row_rounding
from idcontrol.solvers.lemke import solve_regularized
from idcontrol.solvers.psd import psd_lcp_kernel
from idcontrol.solvers.rank import HELD_RANK_TOLERANCE
from idcontrol.solvers.status import INACCURATE, INFEASIBLE, RAY, SOLVED, TOLERANCE, SolverStatus
from idcontrol.types import Array, Booleans, Integers, Status

SQUEEZED: Final = 0.1
"""In `one_stage`, contacts may yield at up to this share of the speed that their impulses should stop. In feasible
problems they yield at up to 1e-4 of it, in infeasible problems at about all of it.
"""

OPENING = 1e-7
"""A contact is open if its opening speed exceeds this share of a reference speed, which is its speed at zero impulse
plus the speed that impulses add (math.md, section 13.3).
"""

STEEP: Final = 10.0
"""Friction coefficient above which a contact has a normal row in addition to its edges. Edges alone determine its
normal velocity only to μ times the tolerance.
"""

EPSILON: Final = 1e-6
"""δ of `one_stage`, relative to the mean diagonal entry of ρρᵀ."""

INSIDE: Final = 0.99
"""Share of the friction limit below which an impulse of `one_stage` counts as inside its cone."""

DEPENDENT: Final = 1e-6
"""A held row of `one_stage` counts as dependent if its squared remainder is below this fraction of δ. The fraction is
small because δ makes even equal rows independent.
"""

MOST_CONTACTS = 1000
"""Largest number of contacts for `one_stage`; its matrix is square in the number of rows."""


class _Edges(NamedTuple):
    """Rows of friction edges, each divided by sqrt(1 + μ²) to make all rows comparable.

    Attributes:
        rows: N + slope (S or T), shape (e, k).
        r: Constants of the rows, shape (e,).
        uncertain: Rounding bounds of r, shape (e,).
        slope: ±μ, or 0 for the normal row alone, shape (e,).
        owner: 5 times the contact plus the number of the edge: +S, -S, +T, -T, normal, shape (e,).
        start: Indices of rows that are tried first, shape (s,).
    """

    rows: Array
    r: Array
    uncertain: Array
    slope: Array
    owner: Integers
    start: Integers


@njit(cache=True, inner=True, error_model="numpy")
def _edges(
    rho: Array, c: Array, roundoff: Array, mu: Array, active: Integers, arena: Arena
) -> _Edges:  # pragma: no cover - compiled
    """Assemble the edge rows; arguments are as in `edge_lcp_kernel`.

    The edges of a contact imply its normal row. For steep edges this holds only up to rounding, so the normal row is
    added.
    """
    n, k = mu.shape[0], rho.shape[1]
    rows, r = matrix(arena, 5 * n, k), vector(arena, 5 * n)
    slope, uncertain = vector(arena, 5 * n), vector(arena, 5 * n)
    owner, start = indices(arena, 5 * n), indices(arena, k)
    count, started = 0, 0
    for i in range(n):
        flat = mu[i] == 0.0 or np.isinf(mu[i])
        steep = 0.0 if flat else mu[i]
        length = np.sqrt(1.0 + steep**2)
        for edge in range(4, 5) if flat else range(5 if mu[i] > STEEP else 4):
            slope[count] = 0.0 if edge == 4 else mu[i] if edge % 2 == 0 else -mu[i]
            owner[count] = 5 * i + edge
            normal, tangent = i, (1 + edge // 2 % 2) * n + i
            s = 1.0 if edge == 4 else length
            moves = False
            for a in range(k):
                rows[count, a] = (rho[normal, a] + slope[count] * rho[tangent, a]) / s
                moves = moves or rows[count, a] != 0.0
            r[count] = (c[normal] + slope[count] * c[tangent]) / s
            uncertain[count] = (roundoff[normal] + abs(slope[count]) * roundoff[tangent]) / s
            if not moves and edge < 4:  # no impulse changes this edge: tolerate an approach relative to the slip
                unit = abs(c[normal]) + max(mu[i], 1.0) * abs(c[tangent])
                uncertain[count] += SLIGHT * unit / s
            if (active[i] >> edge) & 1 and started < k:
                start[started] = count
                started += 1
            count += 1
    return _Edges(rows[:count], r[:count], uncertain[:count], slope[:count], owner[:count], start[:started])


@linked
@njit(cache=True, error_model="numpy")
def edge_lcp_kernel(
    rho: Array, c: Array, roundoff: Array, mu: Array, active: Integers, f: Array, arena: Arena
) -> tuple[int, int, float]:  # pragma: no cover - compiled
    """Assemble the edge rows, solve their LCP, and convert edge impulses to contact impulses.

    Args:
        rho: Whitened contact rows, shape (3 n, k).
        c: Velocities of the rows at zero impulse, shape (3 n,).
        roundoff: Rounding bounds of c, shape (3 n,).
        mu: Friction coefficients, shape (n,); contacts with 0 or inf have only their normal row.
        active: Bit set of each contact's edges, shape (n,). In: the start; out: edges with an impulse.
        f: Result, shape (3 n,).
        arena: Arena for all arrays.

    Returns:
        Status number, iterations, residual. With status INACCURATE f is inexact.
    """
    n, edges = mu.shape[0], _edges(rho, c, roundoff, mu, active, arena)
    answer = psd_lcp_kernel(edges.rows, edges.r, edges.uncertain, edges.start, arena)
    status, iterations, residual, z, w = answer.status, answer.iterations, answer.residual, answer.z, answer.w
    f[:] = 0.0
    active[:] = 0
    if status != SOLVED and status != INACCURATE:
        return status, iterations, residual
    for row in range(z.shape[0]):
        if z[row] > 0.0:
            i, edge = edges.owner[row] // 5, edges.owner[row] % 5
            value = z[row] / np.sqrt(1.0 + edges.slope[row] ** 2)
            active[i] |= 1 << edge
            f[i] += value
            if edge < 4:
                f[(1 + edge // 2) * n + i] += edges.slope[row] * value
    if answer.method == ACTIVE_SET:
        # large multipliers may satisfy the law only in doubled precision, and their sums in double precision may
        # violate it
        v = vector(arena, 3 * n)
        gram_residual_doubled(rho, c, roundoff, f, answer.y, v, arena)
        for row in range(z.shape[0]):
            i, edge, slope = edges.owner[row] // 5, edges.owner[row] % 5, edges.slope[row]
            w[row] = (v[i] + slope * v[(1 + edge // 2 % 2) * n + i]) / np.sqrt(1.0 + slope**2)
        residual = row_residual(edges.rows, edges.r, edges.uncertain, z, answer.y, w)
    residual = max(residual, _off_the_ground(rho, c, roundoff, mu, f, answer.y), lost(rho, f, answer.y))
    if not residual <= TOLERANCE:
        active[:] = 0
        status = INACCURATE
    return status, iterations, residual


@njit(cache=True, inner=True, error_model="numpy")
def _off_the_ground(
    rho: Array, c: Array, roundoff: Array, mu: Array, f: Array, y: Array
) -> float:  # pragma: no cover - compiled
    """Return the largest relative speed at which a contact approaches, or opens although it sticks.

    Only contacts with finite friction above zero are judged. A speed is divided by the sum of the magnitudes of the
    contact's normal velocity at zero impulse and of its change by impulses, plus a rounding bound. The conditions of
    the edges determine the normal velocity only to within μ `TOLERANCE` times the slip, so they are not enough. The
    result is inf if a speed is not finite. Arguments are as in `edge_lcp_kernel`; y = ρᵀf.
    """
    n, worst = mu.shape[0], 0.0
    for i in range(n):
        if mu[i] == 0.0 or mu[i] == np.inf:
            continue
        change = 0.0
        for d in range(y.shape[0]):
            change += rho[i, d] * y[d]
        speed, unit = c[i] + change, abs(c[i]) + abs(change)
        if not np.isfinite(speed):
            return np.inf
        sticks = f[i] * (1.0 - TOLERANCE) > (abs(f[n + i]) + abs(f[2 * n + i])) / mu[i]
        if abs(speed) > TOLERANCE * unit and (sticks or speed < 0.0):
            worst = max(worst, abs(speed) / (unit + row_rounding(rho, c, roundoff, f, y, i) / TOLERANCE))
    return worst


@njit(cache=True, error_model="numpy")
def _ridged(rho: Array, n3: int, epsilon: float, arena: Arena) -> tuple[Array, float]:  # pragma: no cover - compiled
    """Return ``[ρ, √δ I]`` and δ: `epsilon` times the mean diagonal entry of ρρᵀ over the n3 contact rows.

    The contact rows come first; the other rows get no √δ.
    """
    rows, k = rho.shape
    square = 0.0
    for r in range(n3):
        for a in range(k):
            square += rho[r, a] * rho[r, a]
    delta = epsilon * square / max(n3, 1)
    ridged = matrix(arena, rows, k + n3)
    ridged[:] = 0.0
    assign_rows(ridged, rho)
    for r in range(n3):
        ridged[r, k + r] = np.sqrt(delta)
    return ridged, delta


@njit(cache=True, error_model="numpy")
def _yields(f: Array, c: Array, n: int, delta: float) -> bool:  # pragma: no cover - compiled
    """True if a contact yields at more than `SQUEEZED` times the fastest velocity c at contacts with an impulse."""
    largest, undone = 0.0, 0.0
    for i in range(n):
        touches = False
        for r in (i, n + i, 2 * n + i):
            touches = touches or f[r] != 0.0
            largest = max(largest, abs(f[r]))
        if touches:
            for r in (i, n + i, 2 * n + i):
                undone = max(undone, abs(c[r]))
    return delta * largest > SQUEEZED * undone


@njit(cache=True, inner=True, error_model="numpy")
def _faces(
    f: Array, mu: Array, active: Integers, arena: Arena
) -> tuple[Array, Integers]:  # pragma: no cover - compiled
    """Return directions (d, 3) of the cone faces on which impulses f (3 n,) lie, and their contacts (d,)."""
    n, d = mu.shape[0], 0
    directions, owner = matrix(arena, 3 * n, 3), indices(arena, 3 * n)
    directions[:] = 0.0
    for i in range(n):
        if abs(f[n + i]) + abs(f[2 * n + i]) < INSIDE * mu[i] * f[i]:
            for axis in range(3):
                directions[d, axis], owner[d] = 1.0, i
                d += 1
            continue
        for edge in range(5):
            if active[i] >> edge & 1:
                directions[d, 0], owner[d] = 1.0, i
                if edge < 4:
                    directions[d, 1 + edge // 2] = mu[i] if edge % 2 == 0 else -mu[i]
                d += 1
    return directions[:d], owner[:d]


@njit(cache=True, inner=True, error_model="numpy")
def _edge_approach(rho: Array, c: Array, delta: float, mu: Array, f: Array, x: Array) -> float:
    """Return the largest speed at which an edge approaches; inf if impulses f are outside their cones.

    A speed is relative to the edge's speed at zero impulse plus its change by impulses. x (k,) is ρᵀf; other arguments
    are as for `_sharpen`.
    """
    n, worst = mu.shape[0], 0.0
    for i in range(n):
        if not abs(f[n + i]) + abs(f[2 * n + i]) <= mu[i] * f[i] * (1.0 + TOLERANCE):
            return np.inf
        normal = dot(rho[i], x) + delta * f[i]
        for r in (n + i, 2 * n + i):
            tangent = dot(rho[r], x) + delta * f[r]
            for slope in (mu[i], -mu[i]):
                start, change = c[i] + slope * c[r], normal + slope * tangent
                if start + change < 0.0:
                    worst = max(worst, -(start + change) / (abs(start) + abs(change)))
    return worst


@linked
@njit(cache=True, error_model="numpy")
def _sharpen(
    rho: Array, c: Array, delta: float, mu: Array, active: Integers, f: Array, arena: Arena
) -> None:  # pragma: no cover - compiled
    """Solve the ridge problem again on the faces of the cones that its solution f lies in.

    Pivoting leaves out edges that approach at less than 1e-9 of their speed. This is up to 1e-3 of the yield δ f, so
    the impulses would move by 1e-3 whenever an edge enters or leaves.
    """
    n, k = mu.shape[0], rho.shape[1]
    directions, owner = _faces(f, mu, active, arena)
    d = owner.shape[0]
    rows, A, L, xi = matrix(arena, d, k), matrix(arena, d, d), matrix(arena, d, d), zeros(arena, d)
    rows[:] = 0.0
    for a in range(d):
        for axis in range(3):
            add(rows[a], directions[a, axis], rho[axis * n + owner[a]])
            xi[a] -= directions[a, axis] * c[axis * n + owner[a]]
        for b in range(a + 1):
            A[a, b] = dot(rows[a], rows[b])
            if owner[a] == owner[b]:
                A[a, b] += delta * dot(directions[a], directions[b])
    if not cholesky(A, L):
        return
    solve_lower(L, xi)
    solve_lower_transposed(L, xi)
    sharp, x = zeros(arena, 3 * n), zeros(arena, k)
    for a in range(d):
        add(x, xi[a], rows[a])
        for axis in range(3):
            sharp[axis * n + owner[a]] += directions[a, axis] * xi[a]
    if _edge_approach(rho, c, delta, mu, sharp, x) <= TOLERANCE:
        assign(f, sharp)


@linked
@njit(cache=True, inner=True, error_model="numpy")
def one_stage_kernel(
    rho: Array, c: Array, roundoff: Array, mu: Array, active: Integers, f: Array, arena: Arena
) -> tuple[int, int, float]:  # pragma: no cover - compiled
    """Run `one_stage` for contacts that may slip, without other rows.

    Arguments and result are as in `edge_lcp_kernel`.
    """
    ridged, delta = _ridged(rho, rho.shape[0], EPSILON, arena)
    status, iterations, residual = edge_lcp_kernel(ridged, c, roundoff, mu, active, f, arena)
    if _yields(f, c, mu.shape[0], delta):
        f[:] = 0.0
        status = INFEASIBLE
    elif status == SOLVED:
        _sharpen(rho, c, delta, mu, active, f, arena)
    return status, iterations, residual


def held_contacts(problem: StepProblem) -> Booleans:
    """Return True for each contact that may not slip, i.e. is closed and has infinite friction, shape (n,)."""
    return np.isinf(problem.contacts.mu) & (problem.contacts.gap <= CLOSED_GAP)


def solve(problem: StepProblem, warm: WarmStart | None = None) -> StepSolution:
    """Solve stage I for one step.

    A solution exists, forward and inverse, unless the prescribed joint velocities contradict the contacts. Without a
    solution the status is FALLBACK with zero impulses. The note is then `JAM` if some velocities keep the contacts
    apart but none satisfies all edges, and otherwise `SQUEEZE`; other notes name a failure of the solver
    (`StepSolution.note`). The status is REPAIRED if a contact with infinite friction would lift off if it stuck and
    press if it slipped; it then sticks without normal force (`idcontrol.models.sticking`). The status is also REPAIRED,
    with the note `INEXACT`, if a contact violates its law by more than the tolerance.

    Args:
        problem: The step.
        warm: `warm` of the last solution: active edges by contact identity.
    """
    return solve_whitened(problem, whiten(problem), warm)


def solve_whitened(problem: StepProblem, whitened: Whitened, warm: WarmStart | None) -> StepSolution:
    """Run `solve` on a whitened problem."""
    answer, unsettled = _stage_one(problem, whitened, warm, HELD_RANK_TOLERANCE, np.full(whitened.c.size, np.inf))
    ending = _ending(whitened, answer, unsettled)
    return finish(problem, whitened, answer.f, ending, answer.active)


def one_stage(problem: StepProblem, warm: WarmStart | None = None, epsilon: float = EPSILON) -> StepSolution:
    r"""Solve stage I with ``½ δ |y|²`` added, y = (f_N, f_S, f_T): a unique distribution (math.md, section 7.5).

    The matrix ρρᵀ of the rows becomes ρρᵀ + δ I, i.e. ``[ρ, √δ I]`` replaces ρ, and contacts yield at the speed δ y.
    With δ even conflicting velocities have a solution, with forces of order 1/δ. The step is reported as infeasible if
    a contact yields at more than `SQUEEZED` times the largest velocity that the loaded contacts should stop.

    As in `solve`, closed contacts with infinite friction do not slip while they have a normal impulse, and have no
    impulse if they open. The step is REPAIRED if such contacts would have to yield by more than `sticking.YIELD`.

    Args:
        problem: The step, with a demand that the contacts allow (math.md, section 12.1); for other demands the torque
            chatters as with stage I alone.
        warm: As in `solve`.
        epsilon: δ relative to the mean diagonal entry of ρρᵀ.

    Returns:
        The solution; the residual refers to the problem with δ, and `regularization` is epsilon.

    Raises:
        InputError: There are more than `MOST_CONTACTS` contacts.
    """
    n3 = 3 * problem.contacts.mu.shape[0]
    if n3 > 3 * MOST_CONTACTS:
        raise InputError(
            f"{n3 // 3} contacts are too many for one stage, which takes {MOST_CONTACTS}: δ leaves no low rank to use; "
            "use two stages"
        )
    whitened = whiten(problem)
    rho, delta = _ridged(whitened.rho, n3, epsilon, HEAP)
    ridged = whitened._replace(rho=rho)
    most = np.full(whitened.c.size, np.inf)
    if delta > 0.0:
        # at this impulse a contact yields at `YIELD` with the default ridge; the yield grows with the ridge
        most[n3 // 3 : n3] = YIELD / EPSILON * epsilon / delta * np.abs(whitened.c[:n3]).max()
    answer, unsettled = _stage_one(problem, ridged, warm, DEPENDENT * epsilon, most)
    if _yields(answer.f, whitened.c, n3 // 3, delta):
        answer = answer._replace(number=INFEASIBLE)
    elif answer.number == SOLVED and whitened.c.size == n3 and not held_contacts(problem).any():
        _sharpen(whitened.rho, whitened.c, delta, problem.contacts.mu, answer.active, answer.f, HEAP)
    ending = _ending(whitened, answer, unsettled)._replace(regularization=epsilon)
    return finish(problem, whitened, answer.f, ending, answer.active)


def no_slip_qp(problem: StepProblem, warm: WarmStart | None = None) -> StepSolution:
    """Solve maximal dissipation without slip (math.md, section 7.6): the projection under S v⁺ = T v⁺ = 0.

    The optimality conditions are the LCP of `idcontrol.models.no_slip`, and v⁺ is the same; this function solves the
    projection itself by the dual active set. Closed contacts, status and forces are as in that module.
    """
    return no_slip.solve_whitened(problem, whiten(problem), warm, dual=True)


def solve_printed(problem: StepProblem, warm: WarmStart | None = None) -> StepSolution:
    r"""Solve stage I with the objective as printed, to reproduce the figures (Zapolsky & Drumwright 2017, eqs. 69, 97).

    With whitened impulses x = ρᵀy and p = -L⁻¹κ_b,

        min ½ |x + p|²   s.t.   y in the friction pyramids,   ρ_N x + N v° + φ/h ≥ 0

    In forward mode the objective is the kinetic energy with all listed contacts, so a foot stops in the air shortly
    before touchdown. In inverse mode the objective is the momentum of the base with fixed joints, so resting feet seem
    to brake a walking base (math.md, section 7.2). Unlike the objective of `solve`, this objective does **not**
    invert a contact model.

    Soft bilateral rows enter M and κ as dampers. As their compliance goes to 0, the solution approaches the solution
    with rigid rows only if their target is zero.

    Args:
        problem: The step.
        warm: Not used; Lemke's method starts cold.
    """
    whitened = whiten(problem)
    contacts = problem.contacts
    n = contacts.mu.shape[0]
    frictional = np.flatnonzero((contacts.mu > 0.0) & ~np.isinf(contacts.mu))
    frictionless = np.setdiff1d(np.arange(n), frictional)
    # edges N ± μS, N ± μT, or N alone without friction or without slip: axis, contacts, signed μ
    edges = [(axis, frictional, sign * contacts.mu[frictional]) for axis in (1, 2) for sign in (1.0, -1.0)]
    edges.append((1, frictionless, np.zeros(frictionless.size)))
    p = -whitened.kappa[whitened.free]
    solve_lower(whitened.L, p)
    held = hold(whitened, held_rows(whitened, held_contacts(problem)))
    normal, c_N = held.rho[:n], held.c[:n]
    G = np.vstack([normal[owner] + side[:, None] * held.rho[axis * n + owner] for axis, owner, side in edges])
    # optimality conditions in edge impulses η with x = Gᵀη and multipliers ν of the normal rows
    Q = np.block([[G @ G.T, -G @ normal.T], [normal @ G.T, np.zeros((n, n))]])
    result = solve_regularized(Q, np.concatenate((G @ p, c_N)))
    f = np.zeros(whitened.rho.shape[0])
    first = 0
    for axis, owner, side in edges:
        impulse = result.z[first : first + owner.size]
        np.add.at(f, owner, impulse)
        np.add.at(f, axis * n + owner, side * impulse)
        first += owner.size
    f = held.impulses(whitened, f)
    answer = _StageOne(f, np.zeros(n, dtype=np.int64), int(result.status), result.iterations, result.residual)
    ending = _ending(whitened, answer, "")._replace(regularization=result.regularization)
    if ending.status is Status.SOLVED and result.regularization > 0.0:
        ending = ending._replace(status=Status.REPAIRED, note="regularized")
    return finish(problem, whitened, f, ending)


class _StageOne(NamedTuple):
    """A solution of stage I: impulses of all rows, active edges of each contact, and the solver's outcome."""

    f: Array
    active: Integers
    number: int
    iterations: int
    residual: float


def _stage_one(
    problem: StepProblem, whitened: Whitened, warm: WarmStart | None, dependent: float, most: Array
) -> tuple[_StageOne, str]:
    """Solve stage I; return the solution, and the note of `sticking.settled` about contacts with infinite friction.

    Contacts that may not slip lose their tangential rows when they open, and regain them when they have a normal
    impulse (`idcontrol.models.sticking`).

    Args:
        problem: The step.
        whitened: The step in whitened form.
        warm: As in `solve`.
        dependent: Largest rank tolerance of held rows.
        most: Largest impulse of each row, shape (3 n + e,) [N s]; held contacts that need more yield instead of
            sticking.
    """
    contacts = problem.contacts
    n, rows = contacts.mu.shape[0], whitened.rho.shape[0]
    active = warm_bits(warm, contacts)
    closed, lets_slip = held_contacts(problem), problem.prescribed is None
    if rows == 3 * n and not closed.any():
        f = np.zeros(rows)
        number, iterations, residual = edge_lcp_kernel(
            whitened.rho, whitened.c, whitened.roundoff, contacts.mu, active, f, HEAP
        )
        return _StageOne(f, active, number, iterations, residual), ""

    if not (np.isfinite(contacts.mu) & (contacts.mu > 0.0)).any():
        answer, note = no_slip.settle(
            whitened, OPENING, closed, closed, rank_tolerance=dependent, most=most, lets_slip=lets_slip
        )
        return _StageOne(answer.f, (answer.active & 1) << 4, *answer[2:]), note

    def attempt(stick: Booleans, out: Booleans, rank_tolerance: float) -> Attempt[_StageOne]:
        held = hold(whitened, held_rows(whitened, stick), min(rank_tolerance, dependent), out)
        f, edges = np.zeros(rows), active.copy()
        normals = f[: 3 * n]
        number, count, residual = edge_lcp_kernel(
            held.rho[: 3 * n], held.c[: 3 * n], held.roundoff[: 3 * n], contacts.mu, edges, normals, HEAP
        )
        f = held.impulses(whitened, f)
        parts, presses, moves = outcomes(whitened, f, stick, out, OPENING, lifts=True)
        if number == INFEASIBLE:  # a contact certainly opens if the held rows alone make it open
            parts &= (held.c[:n] > 0.0) & ~held.rho[:n].any(axis=1)
        elif number != SOLVED:
            parts[:] = False
        answer = _StageOne(f, edges, number, count, residual)
        return Attempt(
            answer=answer,
            solved=number == SOLVED,
            presses=presses,
            parts=parts,
            moves=np.inf if (np.abs(f) > most).any() else moves,
            impossible=number == INFEASIBLE or held.contradicts,
        )

    return settle(closed, closed, attempt, lets_slip=lets_slip)


def _ending(whitened: Whitened, answer: _StageOne, unsettled: str) -> Ending:
    """Translate the outcome of stage I; if the step is infeasible, find out whether it is so without friction, too.

    Args:
        whitened: The whitened problem.
        answer: The solution of stage I.
        unsettled: Note of `sticking.settled`, or an empty string.
    """
    status, note = Status.FALLBACK, SolverStatus(answer.number).name.lower()
    if answer.number == SOLVED:
        status, note = Status.SOLVED, ""
    elif answer.number == INACCURATE:
        status, note = Status.REPAIRED, INEXACT
    elif answer.number in (INFEASIBLE, RAY):
        rows, n = whitened.rho.shape[0], answer.active.size
        held = hold(whitened, np.arange(3 * n, rows))
        note = JAM if may_part(held.rho, held.c, n) else SQUEEZE
    if unsettled not in ("", SQUEEZE) and answer.number in (SOLVED, INFEASIBLE):
        status, note = max(status, Status.REPAIRED), unsettled
    return Ending(status, answer.residual, answer.iterations, note=note)
