r"""The elimination that all models share (math.md, section 3): unknown velocities, whitened rows.

In inverse mode the velocities with the index q have the prescribed values b, and only the other velocities, with the
index b (for base), are unknown; in forward mode all velocities are unknown. In both modes

    v°  = (M_bb⁻¹(-κ_b - M_bq b), b)            the velocity at zero contact impulse
    v⁺  = v° + (M_bb⁻¹ J_bᵀ f, 0)               for any contact impulse f
    hτ  = [M v⁺ + κ - Jᵀ f]_q                   the motor impulses

and with ``M_bb = L Lᵀ`` every contact row appears only as ``ρ = L⁻¹ J_bᵀ`` and its constant ``c = J v°``: ``J v⁺ = c +
ρ ρᵀ f``. With the joints of a floating-base robot prescribed, ρ has six columns for any number of contacts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from idcontrol.dynamics.friction import require_friction
from idcontrol.kernels.arena import HEAP, Arena, matrix, vector, zeros
from idcontrol.kernels.jit import njit
from idcontrol.kernels.linear import assign, assign_rows, cholesky, solve_lower, solve_lower_transposed, solve_upper
from idcontrol.kernels.linked import linked
from idcontrol.models.step import PUSH_OUT_SPEED, Ending, StepProblem, StepSolution, free_indices
from idcontrol.solvers.active_set import project
from idcontrol.solvers.lcp import SLIGHT, rounding, sum_rounding
from idcontrol.solvers.rank import (
    HELD_RANK_TOLERANCE,
    IndependentRows,
    eliminate_kernel,
    eliminated_rounding,
    find_indices_kernel,
)
from idcontrol.solvers.status import TOLERANCE, SolverStatus
from idcontrol.types import Array, Booleans, Integers, Status


class Whitened(NamedTuple):
    """A step problem in whitened form: impulses f of all rows cause the row velocities ``c + ρ ρᵀ f``.

    Kernels take this tuple as one argument.

    Attributes:
        M: Inertia including soft bilateral rows, shape (m, m).
        kappa: κ including soft bilateral rows, shape (m,).
        free: Indices of the unknown velocities, shape (k,).
        fixed: Indices of the prescribed velocities, shape (p,).
        L: Cholesky factor of M_bb, shape (k, k); NaN if M_bb is not positive definite.
        v_free: v°, shape (m,).
        rows: Contact rows [N; S; T], then rigid bilateral rows, shape (3 n + e, m).
        rho: Whitened rows, shape (3 n + e, k).
        c: ``rows v°`` minus the surface velocity, plus φ/h (at least -`PUSH_OUT_SPEED`) on normals, minus the targets
            of bilateral rows, shape (3 n + e,) [m/s].
        roundoff: Rounding bounds of c, shape (3 n + e,) [m/s].
    """

    M: Array
    kappa: Array
    free: Integers
    fixed: Integers
    L: Array
    v_free: Array
    rows: Array
    rho: Array
    c: Array
    roundoff: Array


@njit(cache=True, inner=True, forceinline=True, error_model="numpy")
def whiten_rows_kernel(
    M: Array, kappa: Array, free: Integers, fixed: Integers, b: Array, J: Array, arena: Arena
) -> tuple[Whitened, Array]:  # pragma: no cover - compiled
    """Run `whiten_kernel` without `roundoff`, which `uncertain` computes on demand; also return the transpose of ρ."""
    m, k, rows = M.shape[0], free.shape[0], J.shape[0]
    M_bb = matrix(arena, k, k)
    for i in range(k):
        for j in range(k):
            M_bb[i, j] = M[free[i], free[j]]
    L = matrix(arena, k, k)
    L[:] = 0.0
    if not cholesky(M_bb, L):
        L[:] = np.nan
    x = vector(arena, k)
    for i in range(k):
        s = -kappa[free[i]]
        for j in range(fixed.shape[0]):
            s -= M[free[i], fixed[j]] * b[j]
        x[i] = s
    solve_lower(L, x)
    solve_lower_transposed(L, x)
    v_free = vector(arena, m)
    for i in range(k):
        v_free[free[i]] = x[i]
    for j in range(fixed.shape[0]):
        v_free[fixed[j]] = b[j]
    # apply L⁻¹ to all rows in one pass, as columns: the sums are independent, so none waits for its previous term
    white = matrix(arena, k, rows)
    for i in range(k):
        for r in range(rows):
            white[i, r] = J[r, free[i]]
        for o in range(i):
            factor = L[i, o]
            for r in range(rows):
                white[i, r] -= factor * white[o, r]
        for r in range(rows):
            white[i, r] /= L[i, i]
    rho, c, roundoff = matrix(arena, rows, k), vector(arena, rows), vector(arena, rows)
    for r in range(rows):
        for i in range(k):
            rho[r, i] = white[i, r]
        s = 0.0
        for i in range(m):
            s += J[r, i] * v_free[i]
        c[r] = s
    return Whitened(M, kappa, free, fixed, L, v_free, J, rho, c, roundoff), white


@njit(cache=True, inner=True, forceinline=True, error_model="numpy")
def _write_roundoff(w: Whitened, white: Array, arena: Arena) -> None:  # pragma: no cover - compiled
    """Write the rounding bounds of c, ``w.roundoff``; `white`, the transpose of ρ, is overwritten.

    The bounds cover the terms of ``J v°`` and of the momenta before cancellation, and the error of Cholesky factors
    (Higham 2002, section 10.1). Terms that callers add to c need no separate bound: a term that cancels c is about as
    large as c, so the bounds cover its rounding.
    """
    (rows, k), m, free, fixed = w.rho.shape, w.M.shape[0], w.free, w.fixed
    terms, factored = vector(arena, k), 0.0  # magnitudes of the terms of the momenta
    for i in range(k):
        size = abs(w.kappa[free[i]])
        for j in range(fixed.shape[0]):
            size += abs(w.M[free[i], fixed[j]] * w.v_free[fixed[j]])
        terms[i] = size
        factored += np.sqrt(w.M[free[i], free[i]]) * abs(w.v_free[free[i]])
    # an error δ of the momenta changes c by (M_bb⁻¹Jᵀ)·δ, at most |M_bb⁻¹Jᵀ|·|δ|
    for i in range(k - 1, -1, -1):
        for o in range(i + 1, k):
            factor = w.L[o, i]
            for r in range(rows):
                white[i, r] -= factor * white[o, r]
        for r in range(rows):
            white[i, r] /= w.L[i, i]
        terms[i] += np.sqrt(w.M[free[i], free[i]]) * factored
    for r in range(rows):
        size = 0.0
        for i in range(k):
            size += abs(white[i, r]) * terms[i]
        for i in range(m):
            size += abs(w.rows[r, i] * w.v_free[i])
        w.roundoff[r] = rounding(m + k, size)


@linked
@njit(cache=True, inner=True, error_model="numpy")
def uncertain(w: Whitened, arena: Arena) -> Array:  # pragma: no cover - compiled
    """Write and return the rounding bounds of c, for rows that were whitened without them."""
    rows, k = w.rho.shape
    white = matrix(arena, k, rows)
    for i in range(k):
        for r in range(rows):
            white[i, r] = w.rho[r, i]
    _write_roundoff(w, white, arena)
    return w.roundoff


@njit(cache=True, forceinline=True, error_model="numpy")
def whiten_kernel(
    M: Array, kappa: Array, free: Integers, fixed: Integers, b: Array, J: Array, arena: Arena
) -> Whitened:  # pragma: no cover - compiled
    """Whiten the rows J with the velocities `fixed` prescribed to be b; the constants c are ``J v°``."""
    w, white = whiten_rows_kernel(M, kappa, free, fixed, b, J, arena)
    _write_roundoff(w, white, arena)
    return w


@njit(cache=True, forceinline=True, error_model="numpy")
def recover_kernel(w: Whitened, f: Array, arena: Arena) -> tuple[Array, Array]:  # pragma: no cover - compiled
    """Compute the velocity v⁺ and the motor impulses hτ by the module's formulas, for impulses f of the first rows."""
    m, k, p = w.M.shape[0], w.free.shape[0], w.fixed.shape[0]
    x = zeros(arena, k)
    for r in range(f.shape[0]):
        if f[r] != 0.0:
            for i in range(k):
                x[i] += w.rho[r, i] * f[r]
    solve_lower_transposed(w.L, x)
    v_plus, impulse = vector(arena, m), vector(arena, p)
    assign(v_plus, w.v_free)
    for i in range(k):
        v_plus[w.free[i]] += x[i]
    for a in range(p):
        j = w.fixed[a]
        s = w.kappa[j]
        for i in range(m):
            s += w.M[j, i] * v_plus[i]
        impulse[a] = s
    for r in range(f.shape[0]):  # row by row, so that the sums of all motors advance together
        if f[r] != 0.0:
            for a in range(p):
                impulse[a] -= w.rows[r, w.fixed[a]] * f[r]
    return v_plus, impulse


def whiten(problem: StepProblem) -> Whitened:
    """Whiten a step problem (math.md, section 3).

    A soft bilateral row, ``row v⁺ = target - C g`` with compliance C and impulse g, is a damper on v⁺: it adds ``rowᵀ
    row / C`` to M and ``-rowᵀ target / C`` to κ, and the formulas stay the same.

    Raises:
        InputError: A friction coefficient is negative or not a number.
    """
    free, fixed, b = free_indices(problem)
    contacts = problem.contacts
    require_friction(contacts.mu)
    M, kappa, rows = problem.M, problem.kappa, contacts.jacobian
    offset = -contacts.surface_velocity
    n = contacts.gap.shape[0]
    offset[:n] += np.maximum(contacts.gap / problem.h, -PUSH_OUT_SPEED)
    if problem.bilateral is not None:
        soft = problem.bilateral.compliance > 0.0
        if soft.any():
            dampers = problem.bilateral.rows[soft]
            weighted = dampers.T / problem.bilateral.compliance[soft]
            M = M + weighted @ dampers
            kappa = kappa - weighted @ problem.bilateral.target[soft]
        rigid = ~soft
        if rigid.any():
            rows = np.vstack((rows, problem.bilateral.rows[rigid]))
            offset = np.concatenate((offset, -problem.bilateral.target[rigid]))
    whitened: Whitened = whiten_kernel(M, kappa, free, fixed, b, rows, HEAP)
    whitened.c[:] += offset
    return whitened


def recover(whitened: Whitened, f: Array) -> tuple[Array, Array]:
    """Compute the velocity v⁺ (m,) and motor impulses hτ (p,) for impulses f of all rows, shape (3 n + e,) [N s]."""
    v_plus, impulse = recover_kernel(whitened, f, HEAP)
    return v_plus, impulse


@njit(cache=True, error_model="numpy")
def balances(
    M: Array, kappa: Array, J: Array, free: Integers, v: Array, f: Array
) -> bool:  # pragma: no cover - compiled
    """True if the momentum of every free velocity balances to `SLIGHT`, or if its terms are within rounding.

    With a nearly singular inertia the momentum may not balance: impulses cause large velocity changes that cancel, and
    the sum of these changes has too few digits.

    Args:
        M: Inertia, shape (m, m).
        kappa: κ, shape (m,).
        J: Rows, shape (r, m).
        free: Indices of the free velocities.
        v: Velocities, shape (m,).
        f: Impulses of the rows, shape (r,).
    """
    m, rows = v.size, f.size
    known, balance = np.abs(kappa), True
    pushed = np.zeros(m)
    for r in range(rows):  # row by row, so that the sums of all velocities advance together
        for i in range(m):
            known[i] += abs(J[r, i] * f[r])
            pushed[i] += J[r, i] * f[r]
    for i in free:
        missing, size, terms = kappa[i], known[i], 0.0
        for j in range(m):
            missing += M[i, j] * v[j]
            size += abs(M[i, j] * v[j])
            terms += abs(M[i, j]) * known[j] / M[j, j]
        missing -= pushed[i]
        # at rest, `size` is at most the rounding error of momenta and impulses before they cancel
        balance = balance and (abs(missing) <= SLIGHT * size or size <= rounding(m + rows, terms))
    return balance


@njit(cache=True, error_model="numpy")
def _recover_finite(
    w: Whitened, f: Array, arena: Arena
) -> tuple[Array, Array, bool, bool]:  # pragma: no cover - compiled
    """Run `recover`; also return True if problem and results are finite, and True if momenta balance."""
    v_plus, impulse = recover_kernel(w, f, arena)
    finite = True
    for speed in w.c:  # a row with an entry that is not finite makes the sum not finite, even at zero velocity
        finite = finite and np.isfinite(speed)
    for speed in v_plus:
        finite = finite and np.isfinite(speed)
    for entry in impulse:
        finite = finite and np.isfinite(entry)
    for i in range(w.M.shape[0]):
        for j in range(w.M.shape[1]):
            finite = finite and np.isfinite(w.M[i, j])
    return v_plus, impulse, finite, balances(w.M, w.kappa, w.rows, w.free, v_plus, f)


INEXACT: Final = "a contact violates its law by more than the tolerance"
"""Note: the impulses are kept although a contact misses the tolerance, scaled per contact. With zero impulses a robot
would fall through the ground.
"""

UNBALANCED: Final = "the inertia is too nearly singular for momenta to balance"
"""Note: the velocities have too few digits, because much larger changes by impulses cancel."""

COARSE: Final = 1e-3
"""Limit for inexact impulses. They may leave this fraction of the fastest approach speed, and may add energy up to this
fraction of the sum of the energy's terms.
"""


def _better_than_none(whitened: Whitened, f: Array, n: int) -> bool:
    """True if impulses f nearly stop the approach of n contacts and add almost no energy (`COARSE`)."""
    x = whitened.rho.T @ f
    velocity, taken = whitened.c[:n] + whitened.rho[:n] @ x, float(f @ whitened.c)
    through = -velocity.min(initial=0.0) <= COARSE * -whitened.c[:n].min(initial=0.0)
    return bool(through and taken + x @ x <= COARSE * (abs(taken) + x @ x))


def finish(
    problem: StepProblem, whitened: Whitened, f: Array, ending: Ending, active: Integers | None = None
) -> StepSolution:
    """Build the solution of a step with impulses f of all rows, shape (3 n + e,) [N s]; on failure with zero impulses.

    A value that is not finite is a failure even if the solver reports success: M_qq and κ_q affect only the motor
    impulses, which the solver does not see.

    Args:
        problem: The step.
        whitened: The step in whitened form.
        f: Impulses of all rows.
        ending: Outcome of the solver.
        active: Bit set of each contact's active rows, shape (n,), for the next step; None means no memory.
    """
    n = len(problem.contacts)
    if ending.note == INEXACT and not _better_than_none(whitened, f, n):
        ending = ending._replace(status=Status.FALLBACK, note="inaccurate")
    if ending.status is Status.FALLBACK:
        f = np.zeros_like(f)
    v_plus, impulse, finite, balance = _recover_finite(whitened, f, HEAP)
    if not finite and ending.status is not Status.FALLBACK:
        return finish(problem, whitened, f, Ending(Status.FALLBACK, np.inf, ending.iterations, note="not finite"))
    if not balance and ending.status is Status.SOLVED:
        ending = ending._replace(status=Status.REPAIRED, note=UNBALANCED)
    return StepSolution(
        v_plus=v_plus,
        impulses=np.ascontiguousarray(f[: 3 * n].reshape(3, n).T),
        multipliers=impulse,
        status=ending.status,
        residual=ending.residual,
        iterations=ending.iterations,
        regularization=ending.regularization,
        note=ending.note,
        warm={} if active is None else dict(zip(problem.contacts.identity.tolist(), active.tolist(), strict=True)),
    )


USED_UP: Final = 1e-16
"""A row is used up by elimination if |ρ⊥|² is at most this times |ρ|², i.e. 1e-8 in length (math.md, section 13.4). The
remainder is rounding error, and an impulse along it would have arbitrary size.
"""

SLOW: Final = 1e-6
"""Speed up to which a used-up row counts as at rest (math.md, section 4.3) [m/s]."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """Rows that hold with equality, eliminated from the other rows by FIND-INDICES and Gram-Schmidt (math.md, 4.2).

    Attributes:
        basis: Orthonormal rows that span the held rows, shape (rank, k).
        constants: s with ``basis x + s = 0`` for the whitened velocity change x, shape (rank,).
        upper: Upper triangular U, ``ρ_kept = Uᵀ basis``.
        kept: Indices of the independent rows, shape (rank,); other held rows get no impulse.
        rho: All rows, projected, shape (3 n + e, k); rows without remainder are exactly zero.
        c: Constants of the projected rows, shape (3 n + e,).
        roundoff: Rounding bounds of c, shape (3 n + e,).
        contradicts: True if no velocity satisfies all held rows: a row depends on other rows, but has a different
            target.
    """

    basis: Array
    constants: Array
    upper: Array
    kept: Integers
    rho: Array
    c: Array
    roundoff: Array
    contradicts: bool

    def impulses(self, whitened: Whitened, f: Array) -> Array:
        """Return the impulses of all rows from `f`, which is zero on held rows; both have shape (3 n + e,)."""
        x = self.rho.T @ f - self.basis.T @ self.constants
        g = self.basis @ (x - whitened.rho.T @ f)
        out = f.copy()
        solve_upper(self.upper, g.size, g)
        out[self.kept] = g
        return out


def held_rows(whitened: Whitened, stick: Booleans) -> Integers:
    """Return the rows that hold with equality: rigid bilateral rows, then tangents where `stick` (n,) is True."""
    n = stick.size
    tangents = np.flatnonzero(stick)[:, None] + np.array([n, 2 * n])
    return np.concatenate((np.arange(3 * n, whitened.rho.shape[0]), tangents.ravel()))


HELD: Final = 1e-7
"""A held row moves if its speed exceeds this share of a reference speed, which is its speed at zero impulse plus the
speed that impulses add. Rows with impulses move by rounding; rows dropped as nearly dependent move by up to 1 %, the
rank tolerance.
"""


def outcomes(
    whitened: Whitened, f: Array, stick: Booleans, out: Booleans, opening: float, *, lifts: bool = False
) -> tuple[Booleans, Booleans, float]:
    """Determine which contacts open, and which contacts press, under the impulses f.

    Contacts with an impulse are also checked for opening: when large impulses cancel, elimination may lose the digits
    of the velocities.

    Args:
        whitened: The whitened problem.
        f: Impulses of all rows, shape (3 n + e,).
        stick: Sticking contacts, shape (n,).
        out: Excluded contacts, shape (n,).
        opening: A contact is open above this relative speed; the reference is the sum of its speed at zero impulse and
            of the speed added by impulses.
        lifts: True if contacts with an impulse may open, as sliding contacts do in convex models.

    Returns:
        Contacts that open, shape (n,); contacts that press, and excluded contacts that approach, shape (n,); the
        largest speed of a held row, relative to the row's reference speed: 0 for rounding, inf if a contact that is not
        excluded approaches, or if a contact with an impulse opens although it may not.
    """
    rows = (whitened.rho, whitened.c, whitened.roundoff)
    independent: tuple[Booleans, Booleans, float] = outcomes_kernel(
        rows, whitened.v_free.size, f, (stick, out), opening, lifts, HEAP
    )
    return independent


@linked
@njit(cache=True, error_model="numpy")
def outcomes_kernel(
    whitened: tuple[Array, Array, Array],
    columns: int,
    f: Array,
    roles: tuple[Booleans, Booleans],
    opening: float,
    lifts: bool,
    arena: Arena,
) -> tuple[Booleans, Booleans, float]:  # pragma: no cover - compiled
    """Compute `outcomes` of rows ρ, c, roundoff with `columns` terms; `roles` are sticking and excluded contacts."""
    (rho, c, roundoff), (stick, out) = whitened, roles
    opens, presses = np.zeros_like(stick), np.zeros_like(stick)
    n, rows, k = stick.shape[0], rho.shape[0], rho.shape[1]
    velocity, unit, uncertain, lost = vector(arena, rows), vector(arena, rows), zeros(arena, rows), vector(arena, rows)
    y, largest, energy = zeros(arena, k), 0.0, 0.0
    for row in range(rows):
        largest = max(largest, abs(c[row]))
        if f[row] != 0.0:
            for d in range(k):
                y[d] += rho[row, d] * f[row]
    for d in range(k):
        energy += y[d] * y[d]
    for row in range(rows):
        change, pushed, square = 0.0, 0.0, 0.0
        for d in range(k):
            change += rho[row, d] * y[d]
            square += rho[row, d] * rho[row, d]
        for other in range(rows):
            if f[other] != 0.0:
                entry = 0.0
                for d in range(k):
                    entry += rho[row, d] * rho[other, d]
                pushed += abs(entry * f[other])
        velocity[row], unit[row], lost[row] = c[row] + change, abs(c[row]) + abs(change), rounding(1, pushed)
        here = sum_rounding(roundoff[row], columns + rows, pushed, min(np.sqrt(square * energy), largest))
        first, step = (row % n, n) if row < 3 * n else (row, rows)  # all rows of a contact share one unit
        for other in range(first, min(first + 3 * step, rows), step):
            uncertain[other] = max(uncertain[other], here)
    moves = 0.0
    for row in range(rows):
        allowed, speed = HELD * unit[row] + uncertain[row], velocity[row]
        if not np.isfinite(speed):
            moves = np.inf
        if row >= n:
            fast = max(abs(speed), lost[row])
            if (row >= 3 * n or stick[row % n]) and fast > allowed:
                moves = max(moves, fast / unit[row])
            continue
        # a used-up row may move at up to `SLOW`
        approaches = speed < -(TOLERANCE * unit[row] + uncertain[row])
        opens[row] = speed > opening * unit[row] + uncertain[row]
        presses[row] = f[row] > 0.0 or (out[row] and approaches)
        if (approaches and not out[row]) or (f[row] > 0.0 and (lost[row] > allowed or (speed > allowed and not lifts))):
            moves = np.inf
    return opens, presses, moves


def may_part(rho: Array, c: Array, n: int) -> bool:
    """True unless a certificate proves that no velocity keeps the contacts apart (math.md, section 5.1)."""
    return project(rho[:n], c[:n]).status is not SolverStatus.INFEASIBLE


_NO_CONTACTS: Booleans = np.zeros(0, dtype=np.bool_)


def hold(
    whitened: Whitened, held: Integers, tolerance: float = HELD_RANK_TOLERANCE, out: Booleans | None = None
) -> Held:
    """Eliminate rows that hold with equality.

    Args:
        whitened: The whitened problem.
        held: Rows ``r`` with ``rows[r] v⁺ = 0`` (relative to surface or target), most important first.
        tolerance: Rank tolerance ε_rank of math.md, section 4.2, on squared lengths: 1e-4 permits errors of 1 % in
            velocity.
        out: Excluded contacts, shape (n,): their rows become zero.
    """
    away = _NO_CONTACTS if out is None else out
    independent, rho, c, roundoff, contradicts = hold_kernel(
        whitened.rho, whitened.c, whitened.roundoff, held, tolerance, away, HEAP
    )
    return Held(
        basis=independent.basis,
        constants=independent.constants,
        upper=independent.upper,
        kept=independent.kept,
        rho=rho,
        c=c,
        roundoff=roundoff,
        contradicts=contradicts,
    )


@linked
@njit(cache=True, error_model="numpy")
def hold_kernel(
    rho: Array, c: Array, roundoff: Array, held: Integers, tolerance: float, out: Booleans, arena: Arena
) -> tuple[IndependentRows, Array, Array, Array, bool]:  # pragma: no cover - compiled
    """Run `hold`.

    Return the kept rows, all rows projected, their constants and rounding bounds, and True if held rows contradict each
    other.
    """
    rows, k = rho.shape
    independent = find_indices_kernel(rho, c, held, tolerance, arena)
    reduced, constants, uncertain = matrix(arena, rows, k), vector(arena, rows), vector(arena, rows)
    assign_rows(reduced, rho)
    assign(constants, c)
    assign(uncertain, roundoff)
    eliminate_kernel(reduced, constants, independent)
    eliminated_rounding(rho, roundoff, independent, uncertain, arena)
    gone, contradicts = zeros(arena, rows), False
    for row in range(rows):
        before, after = 0.0, 0.0
        for d in range(k):
            before += rho[row, d] * rho[row, d]
            after += reduced[row, d] * reduced[row, d]
        if after <= USED_UP * before:
            gone[row] = 1.0
            reduced[row] = 0.0
    for row in held:
        unit = abs(c[row]) + abs(constants[row] - c[row])
        contradicts |= gone[row] > 0.0 and abs(constants[row]) > HELD * unit + uncertain[row]
    n = out.shape[0]
    for row in range(rows):
        if independent.kept.size > 0 and gone[row] > 0.0 and abs(constants[row]) <= SLOW:
            constants[row] = 0.0
        if row < 3 * n and out[row % n]:
            reduced[row], constants[row] = 0.0, 0.0
    return independent, reduced, constants, uncertain, contradicts
