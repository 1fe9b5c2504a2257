r"""Coulomb friction with its circular cone: the nonlinear complementarity problem (docs/theory/coulomb_cone.md).

With the contact velocity u = J v⁺, plus φ/h in the normal direction, each contact obeys

    0 ≤ f_N ⊥ u_N ≥ 0
    f_T = argmin { u_T · g : |g| ≤ μ f_N }        friction does the most negative work

or in one line K_μ ∋ f ⊥ u + μ |u_T| e_N ∈ K_μ*, the bipotential of De Saxcé & Feng 1998. The equivalent equations are

    f_N = max(0, f_N - u_N),    f_T = P(f_T - u_T),    P the projection onto the disc of radius μ f_N,

(Alart & Curnier 1991). The residual of these equations decides whether a step is solved. The velocity is u = c + ρρᵀf
(`idcontrol.models.whitened`). Newton's method on the equations solves a few linear systems over the contacts with an
impulse. After a failure it restarts from compliant ground and from other contact modes or, with more than `FEW`
contacts, from results of alternating directions. If that fails, too, it restarts from solutions of the friction LCP,
and from solutions with more friction, which is then reduced.

Trinkle et al. 1997 use the same law; `idcontrol.models.coulomb` inscribes a diamond in each cone instead. As in that
model, contacts with μ = inf do not slip while they have a normal impulse.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from idcontrol.kernels.arena import HEAP, Arena, indices, matrix, vector, zeros
from idcontrol.kernels.jit import njit
from idcontrol.kernels.linear import assign
from idcontrol.kernels.linked import linked
from idcontrol.models import coulomb
from idcontrol.models.coulomb import UNSOLVED, Outcome
from idcontrol.models.coulomb_cone.equations import balance, cone_residual
from idcontrol.models.coulomb_cone.newton import Modes
from idcontrol.models.coulomb_cone.refinement import ease, let_stick
from idcontrol.models.coulomb_cone.starts import memory_of, start_from_zero, try_starts
from idcontrol.models.friction_lcp import MOST_RETRIED
from idcontrol.models.step import SQUEEZE, StepProblem, StepSolution, WarmStart
from idcontrol.models.whitened import may_part
from idcontrol.solvers.status import INACCURATE, INFEASIBLE, SOLVED, TOLERANCE
from idcontrol.types import Array, Integers

RESTARTS: Final = 12
"""Number of friction LCPs whose solutions are starts of Newton's method. All but the first have tangents rotated by
random angles.
"""
STEEPER: Final = (1.05, 1.2)
"""Factors on the friction coefficients in the last attempt. With more friction, contacts that creep at micrometres per
second stick. The attempt then reduces the friction.
"""
EASINGS: Final = 5
"""Number of steps in which the additional friction is reduced."""


@linked
@njit(cache=True, error_model="numpy")
def cone_kernel(
    rho: Array, c: Array, roundoff: Array, mu: Array, active: Integers, f: Array, arena: Arena
) -> tuple[int, int, float]:  # pragma: no cover - compiled
    """Solve the problem of this module: find impulses that obey Coulomb's law with circular cones.

    Args:
        rho: Whitened contact rows [N; S; T], shape (3 n, k).
        c: Velocities of the rows at zero impulse, shape (3 n,).
        roundoff: Rounding bounds of c, shape (3 n,).
        mu: Friction coefficients, shape (n,); contacts with 0 or inf have no tangential impulses.
        active: In and out, the mode of each contact, tried first, shape (n,): bit 0 if the contact has an impulse, bit
            1 if it slides, higher bits the direction of its friction in units of a turn / `TURN`.
        f: In: zero, or a start; with a start, only this start and `active` are tried. Out: contact impulses, zero if
            the problem is not solved. Shape (3 n,).
        arena: Arena for all arrays.

    Returns:
        Status number, Newton steps, residual.
    """
    n = mu.shape[0]
    p = balance(rho, c, roundoff, mu, arena)
    z, u, remembers = vector(arena, 3 * n), vector(arena, 3 * n), active.any()
    m = Modes(indices(arena, n), matrix(arena, n, 2), zeros(arena, n))
    for row in range(3 * n):
        f[row] /= p.size[row % n]
    starts, total, residual = try_starts(p, active, f, m, z, arena)
    assign(f, z)
    if residual <= TOLERANCE and (let_stick(p, f, m.kind, u) or starts > 1 or not remembers):
        steps, residual = start_from_zero(p, starts % 2 == 0, residual, m, f, arena)
        total += steps
    if residual > TOLERANCE:
        f[:], active[:] = 0.0, 0
        return INACCURATE, total, residual
    residual = ease(p, m, f, residual, arena)
    for i in range(n):
        active[i] = memory_of(m, i)
        for row in (i, n + i, 2 * n + i):
            f[row] *= p.size[i]
    return SOLVED, total, residual


def _solve_cones(rho: Array, c: Array, roundoff: Array, mu: Array, active: Integers, f: Array) -> Outcome:
    """Solve directly; after a failure, start from solutions with friction pyramids or with more friction.

    The outcome's note names the method.
    """
    status, iterations, residual = cone_kernel(rho, c, roundoff, mu, active, f, HEAP)
    if status == SOLVED:
        return Outcome(status=status, iterations=iterations, residual=residual)
    if not may_part(rho, c, mu.size):
        return Outcome(status=INFEASIBLE, iterations=iterations, residual=residual, note=SQUEEZE)
    rng, n = np.random.default_rng(0), mu.size
    for attempt in range(RESTARTS if n <= MOST_RETRIED else 0):
        turn = np.exp(1j * rng.uniform(0.0, 0.5 * np.pi, n)) if attempt else np.ones(n)
        status, more, _ = coulomb.friction_lcp_kernel(_turned(rho, turn), _turned(c, turn), roundoff, mu, 0.0, f, HEAP)
        iterations += more
        if status != SOLVED:
            continue
        f[:] = _turned(f, turn.conj())
        status, more, residual = cone_kernel(rho, c, roundoff, mu, active, f, HEAP)
        iterations += more
        if status == SOLVED:
            return Outcome(status=status, iterations=iterations, residual=residual, note="restarted")
    for steeper in STEEPER if n <= MOST_RETRIED else ():
        f[:], active[:] = 0.0, 0
        for share in np.linspace(steeper, 1.0, EASINGS + 1):
            status, more, residual = cone_kernel(rho, c, roundoff, share * mu, active, f, HEAP)
            iterations += more
            if status != SOLVED:
                break
        else:
            return Outcome(status=status, iterations=iterations, residual=residual, note="restarted")
    f[:] = 0.0
    return Outcome(status=INACCURATE, iterations=iterations, residual=np.inf, note=UNSOLVED)


def _turned(rows: Array, turn: Array) -> Array:
    """Return rows [N; S; T], shape (3 n, ...), for tangents rotated by angles α; `turn` (n,) is e^(iα)."""
    normal, s, t = rows.reshape(3, turn.size, -1)
    turned = (s + 1j * t) * turn.conj()[:, None]
    return np.ascontiguousarray(np.concatenate((normal, turned.real, turned.imag)).reshape(rows.shape))


def solve(problem: StepProblem, warm: WarmStart | None = None) -> StepSolution:
    """Solve one step under Coulomb friction with a circular cone.

    In forward mode with nonnegative gaps at least one solution exists. Without a solution the status is FALLBACK and
    the impulses are zero. The note is `SQUEEZE` if a proof shows that no velocity keeps the contacts apart,
    `coulomb.JAM` if it is proved that no set of sticking contacts is consistent, `UNSOLVED`, or as in
    `StepSolution.note`. Solutions from later attempts, with friction pyramids or more friction, have the note
    ``"restarted"``. With infinite friction or rigid bilateral rows, the status is REPAIRED if a solution violates the
    contact law by more than the tolerance (note `INEXACT`), or if no consistent set of sticking contacts was found
    (`idcontrol.models.sticking`).

    Args:
        problem: The step, forward or inverse.
        warm: `warm` of the last solution: mode and direction of friction of each contact, which are tried first.

    Returns:
        The solution, with the residual of the module's equations, scaled per contact. If impulses are not unique, they
        are close to the smallest impulses; at rest, they usually exceed the smallest by less than the factor
        `refinement.PRESSED`.

    Raises:
        InputError: There are more than `coulomb.MOST_CONTACTS` contacts.
    """
    return coulomb.solve_by(_solve_cones, cone_residual, problem, warm)


def solve_delassus(W: Array, q: Array, mu: Array) -> tuple[Outcome, Array]:
    """Solve a problem that is defined by its Delassus operator alone, as in public collections of contact problems.

    Args:
        W: Delassus operator JM⁻¹Jᵀ, symmetric and positive semidefinite, shape (3 n, 3 n); contact i has the rows 3
            i (normal), 3 i + 1 and 3 i + 2 (tangents) [1/kg]. Negative eigenvalues count as rounding.
        q: Contact velocities at zero impulse, shape (3 n,) [m/s].
        mu: Friction coefficients, finite, shape (n,).

    Returns:
        The outcome of the solver, and the impulses, shape (3 n,) [N s]; zero if the problem is not solved.
    """
    f = np.zeros(q.size)
    rho, c = _rows_of(W, q)
    outcome = _solve_cones(rho, c, np.zeros(q.size), mu, np.zeros(mu.size, dtype=np.int64), f)
    return outcome, f.reshape(3, -1).T.ravel()


@njit(cache=True)
def _rows_of(W: Array, q: Array) -> tuple[Array, Array]:  # pragma: no cover - compiled
    """Return rows ρ in the order [N; S; T] with ρρᵀ = W, with rank(W) columns, and their constants."""
    size, vectors = np.linalg.eigh(W)
    first = 0
    while first < size.shape[0] and size[first] <= 1e-13 * size[-1]:
        first += 1
    n3, k = W.shape[0], W.shape[0] - first
    rho, c = np.empty((n3, k)), np.empty(n3)
    for row in range(n3):
        own = 3 * (row % (n3 // 3)) + row // (n3 // 3)
        c[row] = q[own]
        for a in range(k):
            rho[row, a] = vectors[own, first + a] * np.sqrt(size[first + a])
    return rho, c
