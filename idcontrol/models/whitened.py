r"""The elimination that every model rests on (math.md, section 3): unknown velocities, whitened rows.

With the velocities ``q`` prescribed (inverse mode) only the rest, ``b``, is unknown; in forward mode all are. Either
way,

    v°  = (M_bb⁻¹(-κ_b - M_bq b), b)            the velocity at zero contact impulse
    v⁺  = v° + (M_bb⁻¹ J_bᵀ f, 0)               for any contact impulse f
    hτ  = [M v⁺ + κ - Jᵀ f]_q                   the motor impulses

and with ``M_bb = L Lᵀ`` every contact row enters only as ``ρ = L⁻¹ J_bᵀ`` and its constant ``c = J v°``:
``J v⁺ = c + ρ ρᵀ f``. With the joints of a floating machine prescribed ρ has six columns, whatever the number of
contacts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numba import njit

from idcontrol.errors import InputError
from idcontrol.kernels.arena import HEAP, Arena, matrix, vector, zeros
from idcontrol.kernels.linear import assign, cholesky, solve_lower, solve_lower_transposed, solve_upper
from idcontrol.models.step import PUSH_OUT_SPEED, Ending, StepProblem, StepSolution, free_indices
from idcontrol.solvers.lcp import rounding
from idcontrol.solvers.rank import HELD_RANK_TOLERANCE, eliminated_rounding, find_indices
from idcontrol.solvers.status import TOLERANCE
from idcontrol.types import Array, Booleans, Integers, Status


class Whitened(NamedTuple):
    """A step problem in whitened form: every row answers to impulses f of all rows as ``J v⁺ = c + ρ ρᵀ f``.

    Kernels take it as one argument.

    Attributes:
        M: Inertia with soft bilateral rows folded in, shape (m, m).
        kappa: κ with soft bilateral rows folded in, shape (m,).
        free: Unknown velocities, shape (k,).
        fixed: Prescribed velocities, shape (p,).
        L: Cholesky factor of M_bb, shape (k, k); NaN where M_bb is not positive definite.
        v_free: v°, shape (m,).
        rows: Contact rows [N; S; T], then rigid bilateral rows, shape (3 n + e, m).
        rho: Whitened rows, shape (3 n + e, k).
        c: ``rows v°`` measured against the surface's velocity, φ/h added on normals, targets subtracted on bilateral
            rows; shape (3 n + e,) [m/s].
        left: What rounding may leave of c, shape (3 n + e,) [m/s].
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
    left: Array


@njit(cache=True, forceinline=True, error_model="numpy")
def whiten_kernel(
    M: Array, kappa: Array, free: Integers, fixed: Integers, b: Array, J: Array, arena: Arena
) -> Whitened:  # pragma: no cover - compiled
    """Whiten the rows J with the velocities `fixed` prescribed to be b; c is ``J v°``.

    Its rounding is that of the terms before they cancel, in it and in v°. What callers add to c is no smaller than
    these terms where it cancels them.
    """
    m, k, rows = M.shape[0], free.shape[0], J.shape[0]
    M_bb = matrix(arena, k, k)
    for i in range(k):
        for j in range(k):
            M_bb[i, j] = M[free[i], free[j]]
    L = matrix(arena, k, k)
    L[:] = 0.0
    if not cholesky(M_bb, L):
        L[:] = np.nan
    x, terms = vector(arena, k), vector(arena, m)  # momenta, and the magnitudes of the terms of each v°
    for i in range(k):
        s, size = -kappa[free[i]], abs(kappa[free[i]])
        for j in range(fixed.shape[0]):
            momentum = M[free[i], fixed[j]] * b[j]
            s -= momentum
            size += abs(momentum)
        x[i], terms[free[i]] = s, size / M[free[i], free[i]]
    solve_lower(L, x)
    solve_lower_transposed(L, x)
    v_free = vector(arena, m)
    for i in range(k):
        v_free[free[i]] = x[i]
        terms[free[i]] += abs(x[i])
    for j in range(fixed.shape[0]):
        v_free[fixed[j]], terms[fixed[j]] = b[j], abs(b[j])
    # L⁻¹ of all rows at once, as columns: nothing waits for the sum before
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
    rho, c, left = matrix(arena, rows, k), vector(arena, rows), vector(arena, rows)
    for r in range(rows):
        for i in range(k):
            rho[r, i] = white[i, r]
        s, size = 0.0, 0.0
        for i in range(m):
            s += J[r, i] * v_free[i]
            size += abs(J[r, i]) * terms[i]
        c[r], left[r] = s, rounding(m + k, size)
    return Whitened(M, kappa, free, fixed, L, v_free, J, rho, c, left)


@njit(cache=True, forceinline=True, error_model="numpy")
def recover_kernel(w: Whitened, f: Array, arena: Arena) -> tuple[Array, Array]:  # pragma: no cover - compiled
    """The velocity v⁺ and the motor impulses hτ of the module's formulas, for impulses f of the first rows."""
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
        for r in range(f.shape[0]):
            s -= w.rows[r, j] * f[r]
        impulse[a] = s
    return v_plus, impulse


@njit(cache=True, error_model="numpy")
def _is_friction(mu: Array) -> bool:  # pragma: no cover - compiled
    """Whether friction coefficients are numbers, 0 or more."""
    known = True
    for value in mu:
        known = known and value >= 0.0
    return known


def whiten(problem: StepProblem) -> Whitened:
    """Whiten a step problem (math.md, section 3).

    A soft bilateral row, ``row v⁺ = target - C g``, is a damper on v⁺: it adds ``rowᵀ row / C`` to M and
    ``-rowᵀ target / C`` to κ, and the rest of the text holds unchanged.

    Raises:
        InputError: A friction coefficient is negative or not a number.
    """
    free, fixed, b = free_indices(problem)
    contacts = problem.contacts
    if not _is_friction(contacts.mu):
        i = int(np.flatnonzero(~(contacts.mu >= 0.0))[0])
        raise InputError(f"contact {i}: friction is {contacts.mu[i]}; it must be 0 or more, inf means no slip")
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


def motion(whitened: Whitened, f: Array) -> tuple[Array, Array]:
    """Velocities of all rows under impulses f, and their units: those at zero impulse and the changes [m/s]."""
    change = whitened.rho @ (whitened.rho.T @ f)
    return whitened.c + change, np.abs(whitened.c) + np.abs(change)


def rounded(whitened: Whitened, f: Array, n: int) -> tuple[Array, Array]:
    """Bound the rounding errors in the velocities of n contacts and e other rows, shape (3 n + e,) twice [m/s].

    The first bound is that of `idcontrol.solvers.lcp.row_rounding`. The second is ε times the changes that each impulse
    makes by itself: no rounding of f gives the velocities more exactly.
    """
    V, y = whitened.rho @ whitened.rho.T, whitened.rho.T @ f
    pushed, reach = np.abs(V) @ np.abs(f), np.sqrt(np.diag(V) * (y @ y))
    reach = np.minimum(reach, np.abs(whitened.c).max(initial=0.0))
    count = whitened.v_free.size + f.size
    left = whitened.left + np.minimum(rounding(count, pushed), TOLERANCE * reach)
    left[: 3 * n] = np.tile(left[: 3 * n].reshape(3, n).max(axis=0), 3)  # a contact is one thing
    return left, np.asarray(rounding(1, pushed))


def recover(whitened: Whitened, f: Array) -> tuple[Array, Array]:
    """Velocity v⁺ (m,) and motor impulses hτ (p,) for impulses f of all rows, shape (3 n + e,) [N s]."""
    v_plus, impulse = recover_kernel(whitened, f, HEAP)
    return v_plus, impulse


@njit(cache=True, error_model="numpy")
def _recover_finite(w: Whitened, f: Array, arena: Arena) -> tuple[Array, Array, bool]:  # pragma: no cover - compiled
    """`recover`, and whether its results and the inertia are finite."""
    v_plus, impulse = recover_kernel(w, f, arena)
    finite = True
    for speed in v_plus:
        finite = finite and np.isfinite(speed)
    for entry in impulse:
        finite = finite and np.isfinite(entry)
    for i in range(w.M.shape[0]):
        for j in range(w.M.shape[1]):
            finite = finite and np.isfinite(w.M[i, j])
    return v_plus, impulse, finite


INEXACT: Final = "some contact obeys its law to fewer digits than is called solved"
"""Note of a step whose impulses are kept though they miss the tolerance in a contact's own units: zero impulses would
let a machine fall through the ground."""

COARSE: Final = 1e-3
"""Part of the fastest approach that such impulses may leave, and of their power that they may add."""


def _better_than_none(whitened: Whitened, f: Array, n: int) -> bool:
    """Whether impulses f let n contacts hardly approach, and do no work; both fail where digits are gone."""
    x = whitened.rho.T @ f
    velocity, taken = whitened.c[:n] + whitened.rho[:n] @ x, float(f @ whitened.c)
    through = -velocity.min(initial=0.0) <= COARSE * -whitened.c[:n].min(initial=0.0)
    return bool(through and taken + x @ x <= COARSE * (abs(taken) + x @ x))


def finish(
    problem: StepProblem, whitened: Whitened, f: Array, ending: Ending, active: Integers | None = None
) -> StepSolution:
    """The solution of a step with impulses f of all rows, shape (3 n + e,) [N s]; without impulses where it failed.

    What is not finite is no solution, whatever the solver made of it: numbers of joints that are prescribed reach the
    motor impulses alone.

    Args:
        problem: The step.
        whitened: Its whitened form.
        f: Impulses of all rows.
        ending: How the solver ended.
        active: Bit set of each contact's active rows, shape (n,), for the next step; None leaves nothing behind.
    """
    n = len(problem.contacts)
    if ending.note == INEXACT and not _better_than_none(whitened, f, n):
        ending = ending._replace(status=Status.FALLBACK, note="inaccurate")
    if ending.status is Status.FALLBACK:
        f = np.zeros_like(f)
    v_plus, impulse, finite = _recover_finite(whitened, f, HEAP)
    if not finite and ending.status is not Status.FALLBACK:
        return finish(problem, whitened, f, Ending(Status.FALLBACK, np.inf, ending.iterations, note="not finite"))
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
"""Elimination has used a row up if |ρ⊥|² is at most this times |ρ|², 1e-8 in length (math.md, section 13.4): what is
left of it is rounding, and pushing along it would take any force."""

SLOW: Final = 1e-6
"""A used-up row that moves no faster than this is taken to be at rest (math.md, section 4.3) [m/s]."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """Rows that hold with equality, eliminated from the others (math.md, section 4.2: FIND-INDICES as a Gram-Schmidt).

    Attributes:
        basis: Orthonormal rows spanning the held ones, shape (rank, k).
        constants: s with ``basis x + s = 0`` for the whitened velocity change x, shape (rank,).
        upper: Upper triangular U, ``ρ_kept = Uᵀ basis``.
        kept: The rows that were kept as independent, shape (rank,); the others of the held rows get no impulse.
        rho: All rows, projected, shape (3 n + e, k); those that the held ones have used up are exactly zero.
        c: Their constants, shape (3 n + e,).
        left: What rounding may leave of them, shape (3 n + e,).
    """

    basis: Array
    constants: Array
    upper: Array
    kept: Integers
    rho: Array
    c: Array
    left: Array

    def impulses(self, whitened: Whitened, f: Array) -> Array:
        """All impulses, given those of the rows that are not held (zeros at the held ones), shape (3 n + e,)."""
        x = self.rho.T @ f - self.basis.T @ self.constants
        g = self.basis @ (x - whitened.rho.T @ f)
        out = f.copy()
        solve_upper(self.upper, g.size, g)
        out[self.kept] = g
        return out


def held_rows(whitened: Whitened, stick: Booleans) -> Integers:
    """Rows that hold with equality: rigid bilateral ones, then both tangents of the contacts that stick, shape (n,)."""
    n, sticking = stick.size, np.flatnonzero(stick)
    tangents = np.column_stack((n + sticking, 2 * n + sticking)).ravel()
    return np.concatenate((np.arange(3 * n, whitened.rho.shape[0]), tangents))


HELD: Final = 1e-7
"""A held row moves if it is faster than this, relative to its velocity at zero impulse and the change. Rows whose
impulses are found move by rounding, those that were left out as nearly dependent by up to the rank tolerance's 1 %."""


def outcomes(
    whitened: Whitened, f: Array, stick: Booleans, opening: float, *, lifts: bool = False
) -> tuple[Booleans, bool]:
    """Which contacts open under impulses f, shape (n,), and whether held rows hold and no contact approaches.

    Contacts that press must not open, either: elimination may lose the digits of impulses that cancel, and forces that
    cancel may be so large that no double precision expresses the velocities that they leave.

    Args:
        whitened: The whitened problem.
        f: Impulses of all rows, shape (3 n + e,).
        stick: Contacts that stick, shape (n,).
        opening: Speed of a contact that opens, relative to its velocity at zero impulse and the change.
        lifts: Whether contacts that press may open, as those that slide do in convex models.
    """
    velocity, unit = motion(whitened, f)
    n, rows = stick.size, held_rows(whitened, stick)
    left, lost = rounded(whitened, f, n)
    allowed = HELD * unit + left
    holds = (np.maximum(np.abs(velocity), lost) <= allowed)[rows].all()
    apart = (velocity[:n] >= -allowed[:n]).all()  # a used-up row may approach at up to `SLOW`
    pressed = ((lifts | (velocity <= allowed)) & (lost <= allowed))[:n][f[:n] > 0.0].all()
    return velocity[:n] > (opening * unit + left)[:n], bool(holds and apart and pressed)


def hold(whitened: Whitened, held: Integers, tolerance: float = HELD_RANK_TOLERANCE) -> Held:
    """Eliminate rows that hold with equality.

    Args:
        whitened: The whitened problem.
        held: Rows ``r`` with ``rows[r] v⁺ = 0`` (relative to surface or target), most important first.
        tolerance: Rank tolerance ε_rank of math.md, section 4.2, on squares: physical, 1e-4 is 1 % in velocity.
    """
    found = find_indices(whitened.rho, whitened.c, held, tolerance=tolerance)
    rho, c = found.eliminate(whitened.rho, whitened.c)
    left = whitened.left.copy()
    eliminated_rounding(whitened.rho, whitened.left, found, left, HEAP)
    if found.kept.size:
        before, after = (np.einsum("ij,ij->i", rows, rows) for rows in (whitened.rho, rho))
        gone = (after <= USED_UP * before) & (before > 0.0)
        rho[gone] = 0.0
        c[gone & (np.abs(c) <= SLOW)] = 0.0
    return Held(
        basis=found.basis, constants=found.constants, upper=found.upper, kept=found.kept, rho=rho, c=c, left=left
    )
