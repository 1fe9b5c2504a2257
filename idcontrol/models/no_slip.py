r"""Contact without slip as a linear complementarity problem (math.md, section 4).

    0 ≤ f_N ⊥ N v⁺ + φ/h ≥ 0,    S v⁺ = 0,    T v⁺ = 0

S and T are the rows of the closed contacts. A contact that opens loses its tangential rows; if it then presses, it
regains them. The step is solved again after each change (`idcontrol.models.sticking`). The algorithm FIND-INDICES
selects independent tangential rows, and Gram-Schmidt orthogonalization eliminates them from the whitened problem. LCP(N
v° + φ/h, ρρᵀ) remains; ρ has one column per unknown velocity. It is solved by principal pivoting, then the dual active
set, then, for up to `_LEMKE_ROWS` contacts, Lemke's method. Friction coefficients are not used.

This model predicts v⁺, but not the impulses. Dependent tangential rows get no impulse, and on uneven ground the
selected rows carry the robot with forces of several thousand newtons (math.md, section 4.3). Redistribute the impulses
with `idcontrol.models.distribution.smallest_torque` before use.

Sources: Drumwright 2015, section VI; with prescribed joints Zapolsky & Drumwright 2017, section 4.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np

from idcontrol.kernels.arena import HEAP, Arena, indices, mark, matrix, release, vector, zeros
from idcontrol.kernels.jit import njit
from idcontrol.kernels.linear import assign, assign_rows, solve_upper
from idcontrol.kernels.linked import linked
from idcontrol.models.step import CLOSED_GAP, Ending, StepProblem, StepSolution, WarmStart, warm_bits
from idcontrol.models.sticking import NOTES, Attempt, scan, settled
from idcontrol.models.whitened import (
    INEXACT,
    USED_UP,
    Whitened,
    finish,
    hold_kernel,
    outcomes_kernel,
    whiten,
)
from idcontrol.solvers.active_set import project_kernel
from idcontrol.solvers.lcp import LEMKE, RowLcpAnswer, gram_residual, missed, rounding, row_rounding
from idcontrol.solvers.lemke import lemke_kernel
from idcontrol.solvers.psd import psd_lcp_kernel
from idcontrol.solvers.rank import (
    HELD_RANK_TOLERANCE,
    IndependentRows,
    eliminate_kernel,
    eliminated_rounding,
    find_indices_kernel,
)
from idcontrol.solvers.status import INACCURATE, INFEASIBLE, SOLVED, TOLERANCE, SolverStatus
from idcontrol.types import Array, Booleans, Integers, Status

SLIP_SPEED: Final = 1e-6
"""Slip of a closed contact above which it is reported [m/s]. It is also the tolerance for a negative normal velocity
that no impulse can change (math.md, section 4.3).
"""

OPENING: Final = 1e-7
"""A contact is open if its opening speed exceeds this share of a reference speed, which is its speed at zero impulse
plus the speed that impulses add (math.md, section 13.3).
"""

PIVOTING, DUAL = np.bool_(False), np.bool_(True)
"""Values of `dual` of `no_slip_kernel`. They are not literals, because Numba would compile the kernel once per literal.
"""

_STAYS = np.bool_(False)
"""Value of `lifts`: contacts with an impulse may not open."""

_LEMKE_ROWS: Final = 400
"""Largest number of contacts for Lemke's method, which needs the full matrix."""


@njit(cache=True, inner=True, error_model="numpy")
def _dot(a: Array, b: Array) -> float:  # pragma: no cover - compiled
    """Return the dot product of short rows; a call of BLAS would take longer."""
    total = 0.0
    for d in range(a.shape[0]):
        total += a[d] * b[d]
    return total


@njit(cache=True, inner=True, error_model="numpy")
def _normal_lcp(
    rho: Array, r: Array, roundoff: Array, dual: bool, start: Integers, arena: Arena
) -> RowLcpAnswer:  # pragma: no cover - compiled
    """Solve LCP(r, ρρᵀ) by the dual active set if `dual` is True, else by principal pivoting.

    If that fails, at most `_LEMKE_ROWS` rows are solved by Lemke's method. The other arguments are as in
    `psd_lcp_kernel`.
    """
    n, k = rho.shape
    if dual:
        answer: RowLcpAnswer = project_kernel(rho, r, roundoff, arena)
        if answer.status == INFEASIBLE:
            # after elimination a normal row may have lost digits and seem to contradict its neighbours; principal
            # pivoting then returns a solution with a checked residual
            answer = psd_lcp_kernel(rho, r, roundoff, start[:0], arena)
    else:
        answer = psd_lcp_kernel(rho, r, roundoff, start, arena)
    if answer.status in (SOLVED, INFEASIBLE) or n > _LEMKE_ROWS:
        return answer
    Q = matrix(arena, n, n)
    largest = 0.0
    for i in range(n):
        for j in range(n):
            Q[i, j] = _dot(rho[i], rho[j])
        largest = max(largest, Q[i, i])
    scale = vector(arena, n)
    scale[:] = 1.0 / np.sqrt(largest) if largest > 0.0 else 1.0
    lemke = lemke_kernel(Q, r, scale, 0.0, 50 * n + 100, arena)
    status, residual = answer.status, answer.residual
    z, y, w, active = lemke.z, answer.y, lemke.w, indices(arena, k)
    if lemke.status == SOLVED:
        residual = gram_residual(rho, r, roundoff, z, y, w)
        status = SOLVED if residual <= TOLERANCE else status
    count = 0
    for i in range(n):
        if status == SOLVED and z[i] > 0.0 and count < k:
            active[count] = i
            count += 1
    return RowLcpAnswer(status, answer.iterations + lemke.iterations, residual, LEMKE, z, y, w, active[:count])


@njit(cache=True, inner=True, error_model="numpy")
def _candidates(rigid: int, stick: Integers, active: Integers, arena: Arena) -> Integers:  # pragma: no cover - compiled
    """Return the rows to hold at zero, most important first: rigid, tangents kept at the last step, other tangents."""
    n, count = stick.shape[0], 0
    order: Integers = indices(arena, rigid + 2 * n)
    for j in range(rigid):
        order[count] = 3 * n + j
        count += 1
    for last in (True, False):
        for i in range(n):
            if stick[i]:
                for axis in range(1, 3):
                    if ((active[i] >> axis) & 1 == 1) == last:
                        order[count] = axis * n + i
                        count += 1
    return order[:count]


@njit(cache=True, inner=True, error_model="numpy")
def _opening(rho: Array, c: Array, roundoff: Array, x: Array, row: int) -> float:  # pragma: no cover - compiled
    """Return the value of ``c + ρ x`` above which a contact is open: `OPENING` (|c| + |ρ x|), plus rounding bounds."""
    change, size = 0.0, abs(c[row])
    for d in range(x.shape[0]):
        change += rho[row, d] * x[d]
        size += abs(rho[row, d] * x[d])
    return OPENING * (abs(c[row]) + abs(change)) + roundoff[row] + rounding(1 + x.shape[0], size)


@njit(cache=True, inner=True, error_model="numpy")
def _moves(rho: Array, c: Array, x: Array, row: int) -> float:  # pragma: no cover - compiled
    """Return the speed ``|c + ρ x|`` of a row; 0 within the solvers' tolerance, inf if not finite."""
    change = _dot(rho[row], x)
    speed = abs(c[row] + change)
    if not np.isfinite(speed):
        return np.inf
    return speed if speed > TOLERANCE * (abs(c[row]) + abs(change)) else 0.0


@njit(cache=True, error_model="numpy")
def _missed(
    rho: Array, c: Array, roundoff: Array, f: Array, reduced: Array, w: Array, x: Array
) -> float:  # pragma: no cover - compiled
    """Return the violation of 0 ≤ f_N ⊥ N v⁺ + φ/h ≥ 0 by impulses f, including errors caused by elimination.

    Friction without a normal impulse counts as a violation if the contact opens faster than `SLIP_SPEED`. Each contact
    is scaled separately (math.md, section 13.3).

    Args:
        rho: As in `no_slip_kernel`.
        c: As in `no_slip_kernel`.
        roundoff: As in `no_slip_kernel`.
        f: Impulses of all rows, shape (3 n + e,).
        reduced: Normal rows after elimination, shape (n, k); zero if elimination left no remainder.
        w: Result, normal velocities, shape (n,).
        x: Result, ρᵀf, shape (k,).
    """
    n, k = reduced.shape
    x[:] = 0.0
    for row in range(f.shape[0]):
        if f[row] != 0.0:
            for d in range(k):
                x[d] += rho[row, d] * f[row]
    worst = 0.0
    for i in range(n):
        w[i] = c[i] + _dot(rho[i], x)
        short = 0.0 if -SLIP_SPEED <= w[i] < 0.0 and not reduced[i].any() else w[i]
        unit, mobility = abs(c[i]) + abs(w[i] - c[i]), _dot(rho[i], rho[i])
        miss = missed(f[i], short, unit, mobility)
        if miss > TOLERANCE:  # compute the rounding bound only if the verdict depends on it
            lost = 0.0
            for row in (i, n + i, 2 * n + i):  # all rows of a contact share one unit
                lost = max(lost, row_rounding(rho, c, roundoff, f, x, row))
            miss = missed(f[i], short, unit + lost / TOLERANCE, mobility)
        used = max(abs(f[n + i]), abs(f[2 * n + i]))
        if f[i] == 0.0 and used > 0.0 and w[i] > SLIP_SPEED:  # rounding hides the opening, so the contact has friction
            inverse = max(_dot(rho[n + i], rho[n + i]), _dot(rho[2 * n + i], rho[2 * n + i]))
            natural = max(abs(c[n + i]), abs(c[2 * n + i])) / inverse if inverse > 0.0 else 0.0
            miss = max(miss, min(used / max(used, natural), w[i] / unit))
        worst = max(worst, miss)
    return worst


@njit(cache=True, inner=True, error_model="numpy")
def _reduce(
    rho: Array,
    c: Array,
    roundoff: Array,
    held: IndependentRows,
    reduced: Array,
    r: Array,
    uncertain: Array,
    arena: Arena,
) -> None:  # pragma: no cover - compiled
    """Eliminate the held rows from the normal rows; write the reduced rows, constants and rounding bounds.

    A row without remainder after elimination is set to zero: no impulse changes its normal velocity.
    """
    n = reduced.shape[0]
    assign_rows(reduced, rho[:n])
    assign(r, c[:n])
    assign(uncertain, roundoff[:n])
    eliminated_rounding(reduced, roundoff, held, uncertain, arena)
    eliminate_kernel(reduced, r, held)
    for i in range(n):
        before = _dot(rho[i], rho[i])
        if before == 0.0 or _dot(reduced[i], reduced[i]) <= USED_UP * before:
            reduced[i] = 0.0
            if -SLIP_SPEED <= r[i] < 0.0:
                r[i] = 0.0


@njit(cache=True, inner=True, error_model="numpy")
def _reassign(
    reduced: Array,
    r: Array,
    uncertain: Array,
    c: Array,
    answer: RowLcpAnswer,
    closed: Booleans,
    stick: Integers,
    again: bool,
) -> bool:  # pragma: no cover - compiled
    """Release contacts that open and, if `again`, hold contacts that press; return True if any contact changed."""
    changed, solved = False, answer.status == SOLVED
    for i in range(stick.shape[0]):
        presses = solved and answer.z[i] > 0.0
        # without a solution, a contact certainly opens if the held rows alone make it open
        speed = answer.w[i] if solved else r[i]
        parts = stick[i] and not presses and speed > _opening(reduced, c, uncertain, answer.y, i)
        if parts and (solved or not reduced[i].any()):
            stick[i] = 0
            changed = True
        elif closed[i] and not stick[i] and presses and again:
            stick[i] = 1
            changed = True
    return changed


@njit(cache=True, inner=True, error_model="numpy")
def _all_impulses(
    rho: Array, held: IndependentRows, y: Array, z: Array, f: Array, active: Integers, arena: Arena
) -> None:  # pragma: no cover - compiled
    """Write impulses f (3 n + e,), z for normals and g for held rows, and add the held rows to `active`.

    The held rows contribute Σ ρ_held g = y - Σ c_held e - Σ ρ_N z, which lies in their span with orthonormal basis e; y
    is the velocity change of the normals after elimination.
    """
    n, k, rank = z.shape[0], rho.shape[1], held.kept.shape[0]
    push, g = vector(arena, k), zeros(arena, k)
    assign(push, y)
    for j in range(rank):
        for d in range(k):
            push[d] -= held.constants[j] * held.basis[j, d]
    f[:] = 0.0
    for i in range(n):
        f[i] = z[i]
        if z[i] != 0.0:
            for d in range(k):
                push[d] -= rho[i, d] * z[i]
    for j in range(rank):
        g[j] = _dot(held.basis[j], push)
    solve_upper(held.upper, rank, g)
    for j in range(rank):
        row = held.kept[j]
        f[row] = g[j]
        if row < 3 * n:
            active[row % n] |= 1 << (row // n)


@njit(cache=True, inner=True, error_model="numpy")
def _largest_slip(
    rho: Array, c: Array, roundoff: Array, f: Array, w: Array, x: Array, closed: Booleans, stick: Integers
) -> float:  # pragma: no cover - compiled
    """Return the largest velocity of the rows that should hold (see `no_slip_kernel`)."""
    n, slip = closed.shape[0], 0.0
    for i in range(n):
        least = OPENING * (abs(c[i]) + abs(w[i] - c[i]))
        # compute rounding bounds only if the verdict depends on them: each takes time proportional to the number of
        # rows
        opens = closed[i] and w[i] > least and w[i] > least + row_rounding(rho, c, roundoff, f, x, i)
        if stick[i] and opens:
            slip = max(slip, w[i])
        elif closed[i] and not opens:
            for axis in range(1, 3):
                slip = max(slip, _moves(rho, c, x, axis * n + i))
    for row in range(3 * n, c.shape[0]):
        slip = max(slip, _moves(rho, c, x, row))
    return slip


@linked
@njit(cache=True, error_model="numpy")
def no_slip_kernel(
    rho: Array, c: Array, roundoff: Array, closed: Booleans, active: Integers, dual: bool, f: Array, arena: Arena
) -> tuple[int, int, float, float]:  # pragma: no cover - compiled
    """Solve the problem of this module on whitened rows; try which contacts stick until the answer is consistent.

    Args:
        rho: Rows N, S, T of n contacts, then rigid rows, shape (3 n + e, k).
        c: Velocities of the rows at zero impulse, shape (3 n + e,).
        roundoff: Rounding bounds of c, shape (3 n + e,).
        closed: Contacts whose tangential rows hold, shape (n,).
        active: Bit set of each contact, in and out, shape (n,): bit 0 if its normal is active, bits 1 and 2 if its S
            and T rows are kept.
        dual: True to use the dual active set from the start.
        f: Result, impulses of all rows, shape (3 n + e,).
        arena: Arena for all arrays.

    Returns:
        Status number, iterations, residual, and the largest velocity of the rows that should hold. These rows are
        tangents of closed contacts that stay closed, rigid rows, and normals of contacts that open although their
        tangents hold. The velocity is in m/s; velocities within the solvers' tolerance count as 0. With status
        INACCURATE f is inexact.
    """
    n, k = closed.shape[0], rho.shape[1]
    stick, start, count = indices(arena, n), indices(arena, k), 0
    for i in range(n):
        stick[i] = closed[i]
        if active[i] & 1 and count < k:
            start[count] = i
            count += 1
    iterations, passes = 0, 0
    reduced, r, uncertain, scratch = matrix(arena, n, k), vector(arena, n), vector(arena, n), mark(arena)
    while True:
        release(arena, scratch)
        candidates = _candidates(c.shape[0] - 3 * n, stick, active, arena)
        held = find_indices_kernel(rho, c, candidates, HELD_RANK_TOLERANCE, arena)
        _reduce(rho, c, roundoff, held, reduced, r, uncertain, arena)
        answer = _normal_lcp(reduced, r, uncertain, dual, start[:count], arena)
        status = answer.status
        count = answer.active.shape[0]
        assign(start, answer.active)
        iterations += answer.iterations
        passes += 1
        if status not in (SOLVED, INFEASIBLE):
            break
        if not _reassign(reduced, r, uncertain, c, answer, closed, stick, passes <= n + 2):
            break
    f[:] = 0.0
    active[:] = 0
    if status != SOLVED and status != INACCURATE:
        return status, iterations, answer.residual, 0.0
    for i in start[:count]:
        active[i] |= 1
    _all_impulses(rho, held, answer.y, answer.z, f, active, arena)
    x = vector(arena, k)
    residual = max(answer.residual, _missed(rho, c, roundoff, f, reduced, answer.w, x))
    if residual > TOLERANCE:
        return INACCURATE, iterations, residual, 0.0
    return status, iterations, residual, _largest_slip(rho, c, roundoff, f, answer.w, x, closed, stick)


def solve(problem: StepProblem, warm: WarmStart | None = None) -> StepSolution:
    """Solve one step without slip.

    The status is REPAIRED if closed contacts slip, or a rigid bilateral row is violated, by more than 1e-6 m/s: the
    prescribed velocities conflict with the footholds (math.md, section 4.3). The status is also REPAIRED if a contact
    has no consistent state: it would lift off if it stuck, and press if it slipped. It then sticks without normal
    force, or as `sticking.settled` decides. With the note `INEXACT`, REPAIRED means that a contact violates its law by
    more than the tolerance. FALLBACK has zero impulses; the note ``"squeeze"`` means that no impulses can keep the
    contacts apart, other notes are as in `sticking.settled` or `StepSolution.note`.

    Args:
        problem: The step; forward or inverse. A contact is closed if its gap is at most `CLOSED_GAP`.
        warm: `warm` of the last solution: active normals and kept tangential rows by contact identity.

    Returns:
        The solution, with the residual of the complementarity problem of all rows, computed from the final impulses.
    """
    return solve_whitened(problem, whiten(problem), warm)


def solve_whitened(
    problem: StepProblem, whitened: Whitened, warm: WarmStart | None, *, dual: bool = False
) -> StepSolution:
    """Run `solve` on a whitened problem; `dual` selects the dual active set instead of pivoting."""
    contacts = problem.contacts
    active = warm_bits(warm, contacts)
    f = np.zeros(whitened.rho.shape[0])
    closed = contacts.gap <= CLOSED_GAP
    number, iterations, residual, slip = no_slip_kernel(
        whitened.rho, whitened.c, whitened.roundoff, closed, active, dual, f, HEAP
    )
    if number == SOLVED and slip <= SLIP_SPEED:
        return finish(problem, whitened, f, Ending(Status.SOLVED, residual, iterations), active)
    solution, why = settle(whitened, OPENING, closed, closed, dual=dual, lets_slip=problem.prescribed is None)
    number, residual = solution.number, solution.residual
    if not why:
        n, w, x = closed.size, np.empty(closed.size), np.empty(whitened.rho.shape[1])
        missed_by = _missed(whitened.rho, whitened.c, whitened.roundoff, solution.f, whitened.rho[:n], w, x)
        residual = max(residual, missed_by)
    status, note = Status.SOLVED, ""
    if number not in (SOLVED, INACCURATE):
        status, note = Status.FALLBACK, why if number == INFEASIBLE else SolverStatus(number).name.lower()
    elif not residual <= TOLERANCE:
        status, note = Status.REPAIRED, INEXACT
    elif why:
        status, note = Status.REPAIRED, why
    return finish(
        problem, whitened, solution.f, Ending(status, residual, solution.iterations, note=note), solution.active
    )


class Frictionless(NamedTuple):
    """Impulses of all rows, the memory for the next step, and the solver's outcome."""

    f: Array
    active: Integers
    number: int
    iterations: int
    residual: float


class _Frame(NamedTuple):
    """Data shared by all attempts of a step.

    Attributes:
        rho: Whitened rows, shape (3 n + e, k).
        c: Velocities of the rows at zero impulse, shape (3 n + e,).
        roundoff: Rounding bounds of c, shape (3 n + e,).
        most: Largest impulses of held rows, shape (3 n + e,); a contact yields if it needs more.
        terms: Number of terms in c.
        opening: A contact is open above this relative speed; the reference is the sum of its speed at zero impulse and
            of the speed added by impulses.
        dual: True for the dual active set instead of pivoting.
        dependent: Largest rank tolerance of the held rows.
    """

    rho: Array
    c: Array
    roundoff: Array
    most: Array
    terms: int
    opening: float
    dual: bool
    dependent: float


@linked
@njit(cache=True, inner=True, error_model="numpy")
def _attempt_kernel(
    stick: Booleans, out: Booleans, rank_tolerance: float, frame: _Frame, arena: Arena
) -> Attempt[Frictionless]:  # pragma: no cover - compiled
    """Solve the step for assumed roles: contacts in `stick` do not slip; contacts in `out` have no impulse.

    All other contacts are without friction.
    """
    rho, c, roundoff = frame.rho, frame.c, frame.roundoff
    n = stick.shape[0]
    kept, count = indices(arena, rho.shape[0]), 0
    for row in range(3 * n, rho.shape[0]):
        kept[count] = row
        count += 1
    for i in range(n):
        if stick[i]:
            kept[count], kept[count + 1] = n + i, 2 * n + i
            count += 2
    held, reduced, constants, uncertain, contradicts = hold_kernel(
        rho, c, roundoff, kept[:count], min(rank_tolerance, frame.dependent), out, arena
    )
    answer = _normal_lcp(reduced[:n], constants[:n], uncertain[:n], frame.dual, kept[:0], arena)
    f, active = zeros(arena, rho.shape[0]), np.zeros(n, dtype=np.int64)
    if answer.status == SOLVED or answer.status == INACCURATE:
        for i in range(n):
            active[i] = answer.z[i] > 0.0
        _all_impulses(rho, held, answer.y, answer.z, f, active, arena)
    parts, presses, moves = outcomes_kernel(
        (rho, c, roundoff), frame.terms, f, (stick, out), frame.opening, _STAYS, arena
    )
    for row in kept[:count]:
        if abs(f[row]) > frame.most[row]:
            moves = np.inf
    solution = Frictionless(f, active, answer.status, answer.iterations, answer.residual)
    impossible = answer.status == INFEASIBLE or contradicts
    return Attempt(solution, answer.status == SOLVED, presses, parts, moves, impossible)


_scan: Any = njit(inline="always")(scan)
_settled: Any = njit(inline="always")(settled)


@linked
@njit(cache=True, inner=True, error_model="numpy")
def _search_kernel(
    may: Booleans, guess: Booleans, frame: _Frame, arena: Arena
) -> tuple[Frictionless, int]:  # pragma: no cover - compiled
    """Run `sticking.scan` over attempts without sliding contacts."""
    scanned: tuple[Frictionless, int] = _scan(_attempt_kernel, (frame, arena), may, guess)
    return scanned


@linked
@njit(cache=True, error_model="numpy")
def _settle_kernel(
    frame: _Frame, may: Booleans, stick: Booleans, lets_slip: bool, arena: Arena
) -> tuple[Frictionless, int]:  # pragma: no cover - compiled
    """Run `sticking.settled` over attempts without sliding contacts."""
    answer: tuple[Frictionless, int] = _settled(_attempt_kernel, _search_kernel, (frame, arena), may, stick, lets_slip)
    return answer


@linked
@njit(cache=True, inner=True, error_model="numpy")
def settled_kernel(
    w: Whitened, opening: float, may: Booleans, stick: Booleans, arena: Arena
) -> tuple[Frictionless, int]:  # pragma: no cover - compiled
    """Find the contacts that stick among contacts with infinite friction; no other contact has friction.

    Args:
        w: The step in whitened form, with rounding bounds.
        opening: As for `settle`.
        may: Contacts that may stick, shape (n,).
        stick: Contacts that stick in the first attempt, shape (n,).
        arena: Arena for all arrays.

    Returns:
        The solution; index of its note in `sticking.NOTES`.
    """
    most = vector(arena, w.c.shape[0])
    most[:] = np.inf
    frame = _Frame(w.rho, w.c, w.roundoff, most, w.v_free.shape[0], opening, False, HELD_RANK_TOLERANCE)
    answer: tuple[Frictionless, int] = _settle_kernel(frame, may, stick, False, arena)
    return answer


def settle(
    whitened: Whitened,
    opening: float,
    may: Booleans,
    stick: Booleans,
    *,
    dual: bool = False,
    rank_tolerance: float = HELD_RANK_TOLERANCE,
    most: Array | None = None,
    lets_slip: bool = False,
) -> tuple[Frictionless, str]:
    """Find the contacts that stick (`sticking.settled`); contacts that do not stick are without friction.

    Args:
        whitened: The whitened problem.
        opening: A contact is open above this relative speed; the reference is the sum of its speed at zero impulse and
            of the speed added by impulses.
        may: Contacts that may stick, shape (n,).
        stick: Contacts that stick in the first attempt, shape (n,).
        dual: True for the dual active set instead of pivoting.
        rank_tolerance: Largest rank tolerance of the held rows.
        most: Largest impulses of held rows, shape (3 n + e,), unbounded by default; a contact yields if it needs more.
        lets_slip: As for `sticking.settled`.

    Returns:
        The solution, and its note, one of `sticking.NOTES`.
    """
    bound = np.full(whitened.c.size, np.inf) if most is None else most
    frame = _Frame(
        whitened.rho, whitened.c, whitened.roundoff, bound, whitened.v_free.size, opening, dual, rank_tolerance
    )
    answer, note = _settle_kernel(frame, may, stick, lets_slip, HEAP)
    return answer, NOTES[note]
