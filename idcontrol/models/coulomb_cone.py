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

from typing import Final, NamedTuple

import numpy as np

from idcontrol.kernels.arena import HEAP, Arena, indices, mark, matrix, release, vector, zeros
from idcontrol.kernels.jit import njit
from idcontrol.kernels.linear import assign, solve_in_place
from idcontrol.kernels.linked import linked
from idcontrol.models import coulomb
from idcontrol.models.coulomb import UNSOLVED, Outcome
from idcontrol.models.friction_lcp import MOST_RETRIED
from idcontrol.models.step import SQUEEZE, StepProblem, StepSolution, WarmStart
from idcontrol.models.whitened import may_part
from idcontrol.solvers.lcp import missed, row_rounding, sum_rounding
from idcontrol.solvers.status import INACCURATE, INFEASIBLE, SOLVED, TOLERANCE
from idcontrol.types import Array, Integers

STARTS: Final = 50
"""Number of starting points of Newton's method with at most `FEW` contacts: the contact modes of the last step, the
modes at zero impulse, compliant ground, then random modes. Every second start is `bold` (`_modes`).
"""
FEW: Final = 12
"""Largest number of contacts with which Newton's method starts on compliant ground and from random modes. With more
contacts such starts are slow and rarely succeed; it then starts from results of alternating directions.
"""
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
STEPS: Final = 20
"""Largest number of Newton steps from one starting point. Most starts need two to six."""
FIRM: Final = 1e-8
"""Compliance of the ground at which `_firming` changes to rigid ground, relative to a contact's mean mobility (velocity
per impulse). The first compliance equals the mobility.
"""
CAUTION: Final = 0.03
"""Factor r of f - r u on compliant ground (Alart & Curnier 1991); any r > 0 states the same law. With this value
`_firming` solves 153 of 160 problems of a box between two fingers; with r = 1, only 99.
"""
CONTINUED: Final = 400
"""Number of Newton steps at which `_firming` gives up: three times the median in the 160 problems of `CAUTION`."""
PENALTIES: Final = (0.3, 0.1, 1.0, 0.03)
"""Penalties of the alternating directions, relative to a contact's mean mobility; they are tried in this order."""
ROUNDS: Final = 50
"""Rounds of `_approach` at each penalty; the number doubles each time all penalties have been tried."""
RELAXED: Final = 1.6
"""Over-relaxation of the rounds of `_approach` (Boyd et al. 2011, section 3.4.3)."""
APPROACHES: Final = 12
"""Number of results of alternating directions; Newton's method starts twice from each."""
PROXIMAL: Final = 1e-8
"""Weight on the change of the balanced impulses, relative to the mean diagonal of their matrix. If impulses are not
unique, the first Newton step takes the smallest ones, and later steps stay close to them. The error caused by the
weight shrinks with each step.
"""
REFINEMENTS: Final = 5
"""Largest number of Newton steps with exact velocities; they refine an answer that misses the tolerance."""
FINE: Final = 1e-12
"""Weight in place of `PROXIMAL` for steps with exact velocities. The error it causes is within rounding even if rows
are nearly dependent.
"""
EXACT: Final = 1e-12
"""Residual at which Newton's method stops."""
RESTS: Final = 1e-6
"""Share of a reference speed below which a contact is at rest. The reference is the contact's speed at zero impulse
plus the speed that impulses add."""
PRESSED: Final = 10.0
"""Factor by which impulses may exceed the smallest impulses with the same motion. Larger impulses are reduced if the
cones allow it."""
PROJECTIONS: Final = 200
"""Largest number of alternating projections with which `_smallest_within` reduces impulses."""
NARROW: Final = 0.9
"""Fraction of the friction coefficient that the projections of `_smallest_within` use."""
IMMOVABLE: Final = 1e-12
"""A contact gets no impulse if its mobility along the normal is below this fraction of its mean mobility."""

LARGE: Final = 64
"""Number of unknowns above which LAPACK is faster than `solve_in_place`."""

PRESSES: Final = 1
SLIDES: Final = 2
TURN: Final = 1 << 20
"""Number of stored directions of friction per turn; the direction is stored in the bits above `PRESSES` and `SLIDES`.
"""


class Cones(NamedTuple):
    """The balanced problem: contact i has impulses f/size_i and velocities u size_i, so that its cone keeps its shape.

    Attributes:
        G: ρρᵀ, balanced so that each contact's mean diagonal entry is 1, shape (3 n, 3 n).
        c: Velocities at zero impulse, shape (3 n,).
        mu: Friction coefficients, shape (n,). inf counts as 0: `idcontrol.models.sticking` holds the tangents.
        size: Balancing factors, shape (n,).
        roundoff: Rounding bound of c, the largest over each contact's axes, shape (n,).
        fastest: Largest magnitude in c, not balanced [m/s].
        rho: The whitened rows, not balanced, shape (3 n, k).
        exact: Constants of the rows, not balanced, shape (3 n,) [m/s].
        terms: Half the number of terms in a velocity, so that rounding bounds are stricter here than in any later
            check.
    """

    G: Array
    c: Array
    mu: Array
    size: Array
    roundoff: Array
    fastest: float
    terms: int
    rho: Array
    exact: Array


class Modes(NamedTuple):
    """Mode of each contact, and the direction of friction if it slides.

    Attributes:
        kind: 0, `PRESSES` or `PRESSES | SLIDES`, shape (n,).
        d: Directions of friction at contacts that slide, shape (n, 2).
        share: Factors a of sliding contacts in the equations of `_newton_step`, shape (n,).
    """

    kind: Integers
    d: Array
    share: Array


@njit(cache=True, inner=True, error_model="numpy")
def _balanced(rho: Array, c: Array, roundoff: Array, mu: Array, arena: Arena) -> Cones:  # pragma: no cover - compiled
    """Balance the problem with whitened rows `rho` (3 n, k), constants `c` and their rounding bounds (3 n,)."""
    n, k = mu.shape[0], rho.shape[1]
    G, balanced = matrix(arena, 3 * n, 3 * n), vector(arena, 3 * n)
    size, friction, uncertain = zeros(arena, n), vector(arena, n), zeros(arena, n)
    for i in range(3 * n):
        for j in range(i + 1):
            s = 0.0
            for a in range(k):
                s += rho[i, a] * rho[j, a]
            G[i, j] = G[j, i] = s
        size[i % n] += G[i, i] / 3.0
    largest, fastest = 0.0, 0.0
    for i in range(n):
        largest = max(largest, size[i])
    for i in range(n):
        # keep the factor finite for a contact that no impulse moves
        size[i] = 1.0 / np.sqrt(max(size[i], 1e-20 * largest)) if largest > 0.0 else 1.0
        friction[i] = 0.0 if mu[i] == np.inf else mu[i]
    for i in range(3 * n):
        fastest = max(fastest, abs(c[i]))
        balanced[i] = size[i % n] * c[i]
        uncertain[i % n] = max(uncertain[i % n], size[i % n] * roundoff[i])
        for j in range(3 * n):
            G[i, j] *= size[i % n] * size[j % n]
    return Cones(G, balanced, friction, size, uncertain, fastest, (3 * n + k) // 2, rho, c)


@njit(cache=True, inner=True, error_model="numpy")
def _velocities(p: Cones, f: Array, u: Array) -> None:  # pragma: no cover - compiled
    """Write u = c + Gf."""
    assign(u, p.c)
    for j in range(f.shape[0]):
        if f[j] != 0.0:
            for i in range(u.shape[0]):
                u[i] += p.G[j, i] * f[j]


@njit(cache=True, inner=True, error_model="numpy")
def _exact_velocities(p: Cones, f: Array, u: Array, arena: Arena) -> None:  # pragma: no cover
    """Write u = c + ρ(ρᵀf), balanced; unlike c + Gf it keeps its digits when impulses cancel."""
    n, at, rho = p.mu.shape[0], mark(arena), p.rho
    x = zeros(arena, rho.shape[1])
    for row in range(3 * n):
        for a in range(x.shape[0]):
            x[a] += rho[row, a] * (p.size[row % n] * f[row])
    for row in range(3 * n):
        u[row] = p.exact[row]
        for a in range(x.shape[0]):
            u[row] += rho[row, a] * x[a]
        u[row] *= p.size[row % n]
    release(arena, at)


@njit(cache=True, inner=True, error_model="numpy")
def _roundoff(p: Cones, f: Array, u: Array, i: int) -> float:  # pragma: no cover - compiled
    """Bound the rounding error of the balanced velocity of contact i, along its worst axis."""
    n, energy, roundoff = p.mu.shape[0], 0.0, 0.0
    for row in range(3 * n):
        energy += f[row] * (u[row] - p.c[row])
    for row in (i, n + i, 2 * n + i):
        pushed = 0.0
        for other in range(3 * n):
            pushed += abs(p.G[row, other] * f[other])
        reach = min(np.sqrt(p.G[row, row] * max(energy, 0.0)), p.size[i] * p.fastest)
        roundoff = max(roundoff, sum_rounding(p.roundoff[i], p.terms, pushed, reach))
    return roundoff


@njit(cache=True, inner=True, error_model="numpy")
def _missed(p: Cones, f: Array, u: Array, rounded: bool) -> float:  # pragma: no cover - compiled
    """Return the largest violation of the module's equations, scaled per contact (math.md, section 13.3).

    The reference of a velocity is its value at zero impulse plus the net change by impulses and, if `rounded`, plus its
    rounding bound. The reference of an impulse is the impulse itself or, if larger, the impulse that causes the
    reference velocity.
    """
    worst = 0.0
    for i in range(p.mu.shape[0]):
        miss = _contact_missed(p, f, u, i, 0.0)
        if rounded and miss > TOLERANCE:  # compute the rounding bound only if the verdict depends on it
            miss = _contact_missed(p, f, u, i, _roundoff(p, f, u, i) / TOLERANCE)
        worst = max(worst, miss)
    return worst


@njit(cache=True, inner=True, forceinline=True, error_model="numpy")
def _contact_missed(p: Cones, f: Array, u: Array, i: int, least: float) -> float:  # pragma: no cover - compiled
    """Return `_missed` of contact i, with `least` added to its reference velocities."""
    n = p.mu.shape[0]
    s, t = n + i, 2 * n + i
    if not np.isfinite(u[i] + u[s] + u[t] + f[i] + f[s] + f[t]):  # `max` may ignore a NaN
        return np.inf
    along = missed(f[i], u[i], abs(p.c[i]) + abs(u[i] - p.c[i]) + least, p.G[i, i])
    slip = np.hypot(p.c[s], p.c[t]) + np.hypot(u[s] - p.c[s], u[t] - p.c[t]) + least
    radius, mobility = p.mu[i] * max(f[i], 0.0), max(p.G[s, s], p.G[t, t])
    # without mobility, the unit of friction is its bound, or its own size if that is larger
    hold = max(radius, np.hypot(f[s], f[t]), slip / mobility if mobility > 0.0 else 0.0)
    if slip == 0.0 or hold == 0.0:
        return along
    y_s, y_t = f[s] / hold - u[s] / slip, f[t] / hold - u[t] / slip
    length = np.hypot(y_s, y_t)
    shorter = radius / hold / length if length > radius / hold else 1.0
    return max(along, np.hypot(f[s] / hold - shorter * y_s, f[t] / hold - shorter * y_t))


@njit(cache=True, inner=True, error_model="numpy")
def _newton_step(p: Cones, proximal: float, m: Modes, f: Array, arena: Arena) -> bool:  # pragma: no cover - compiled
    """Overwrite f with the solution of the equations for fixed modes, which are linear in f; return False if it fails.

    A sticking contact has u = 0. A sliding contact has u_N = 0, d·f_T = μ f_N and, along e perpendicular to d, (1 - a)
    e·f_T + a e·u_T = 0, the derivative of the projection with factor a.

    Args:
        p: The problem.
        proximal: Weight on the change of f.
        m: The modes.
        f: In and out, shape (3 n,).
        arena: Arena for all arrays.
    """
    n, at = m.kind.shape[0], mark(arena)
    members = indices(arena, 3 * n)
    count = 0
    for i in range(n):
        if m.kind[i] and p.G[i, i] > IMMOVABLE:
            for axis in range(3):
                members[count] = axis * n + i
                count += 1
    A = matrix(arena, count, count + 1)
    for r in range(count):
        row = members[r]
        for q in range(count):
            A[r, q] = p.G[row, members[q]]
        A[r, r] += proximal
        A[r, count] = proximal * f[row] - p.c[row]
    for r in range(0, count, 3):
        i = members[r]
        if m.kind[i] & SLIDES:
            d_s, d_t, a = m.d[i, 0], m.d[i, 1], m.share[i]
            for q in range(count + 1):
                A[r + 2, q] = a * (d_s * A[r + 2, q] - d_t * A[r + 1, q])
                A[r + 1, q] = 0.0
            A[r + 2, r + 1] -= (1.0 - a) * d_t
            A[r + 2, r + 2] += (1.0 - a) * d_s
            steep = max(1.0, p.mu[i])
            A[r + 1, r], A[r + 1, r + 1], A[r + 1, r + 2] = -p.mu[i] / steep, d_s / steep, d_t / steep
    solved = _solve_large(A) if count > LARGE else solve_in_place(A, count)
    if solved:
        f[:] = 0.0
        for r in range(count):
            f[members[r]] = A[r, count]
    release(arena, at)
    return solved


@njit(cache=True, inner=True, error_model="numpy")
def _solve_large(A: Array) -> bool:  # pragma: no cover - compiled
    """Solve A as `solve_in_place` does, by LAPACK, which is faster for more than `LARGE` unknowns."""
    n = A.shape[0]
    try:
        assign(A[:, n], np.linalg.solve(np.ascontiguousarray(A[:, :n]), np.ascontiguousarray(A[:, n])))
    except Exception:  # Numba raises no other error here: A is singular, or not finite
        return False
    return True


@njit(cache=True, inner=True, error_model="numpy")
def _modes(p: Cones, f: Array, u: Array, bold: bool, m: Modes) -> None:  # pragma: no cover - compiled
    """Write the modes at f and u, for `_newton_step`.

    If friction cannot change the slip, it acts against the slip with its largest magnitude.

    For a creeping contact, f - u does not show the direction of slip. If `bold`, the factor r of f - r u gives slip and
    friction the same weight. The bold version solves problems with creeping contacts but fails on others, so both
    versions are tried alternately.
    """
    n = m.kind.shape[0]
    for i in range(n):
        m.kind[i] = 0
        if f[i] > u[i]:
            m.kind[i] = PRESSES
            y_s, y_t = f[n + i] - u[n + i], f[2 * n + i] - u[2 * n + i]
            radius = p.mu[i] * max(f[i], 0.0)
            if (
                p.G[n + i, n + i] + p.G[2 * n + i, 2 * n + i] == 0.0
                and np.hypot(u[n + i], u[2 * n + i]) > p.roundoff[i]
            ):
                y_s, y_t, radius = -u[n + i], -u[2 * n + i], 0.0
            length = np.hypot(y_s, y_t)
            if length > radius or p.mu[i] == 0.0:
                m.kind[i] |= SLIDES
                slip, r = np.hypot(u[n + i], u[2 * n + i]), 1.0
                if bold and 0.0 < slip < radius:
                    r = radius / slip
                    y_s, y_t = f[n + i] - r * u[n + i], f[2 * n + i] - r * u[2 * n + i]
                    length = np.hypot(y_s, y_t)
                m.d[i, 0], m.d[i, 1] = (y_s / length, y_t / length) if length > 0.0 else (1.0, 0.0)
                a = min(radius / length, 1.0) if length > 0.0 else 0.0
                m.share[i] = a * r / (1.0 - a + a * r)


@linked
@njit(cache=True, inner=True, error_model="numpy")
def _newton(p: Cones, bold: bool, m: Modes, f: Array, arena: Arena) -> tuple[int, float]:  # pragma: no cover - compiled
    """Run Newton's method from initial modes; write the best f and its modes. `bold` selects the factor r (`_modes`).

    Returns the number of steps and the residual.
    """
    at = mark(arena)
    trial, u = vector(arena, f.shape[0]), vector(arena, f.shape[0])
    assign(trial, f)
    best, steps = np.inf, 0
    while steps < STEPS and _newton_step(p, PROXIMAL, m, trial, arena):
        steps += 1
        _velocities(p, trial, u)
        residual = _missed(p, trial, u, False)
        if residual > max(TOLERANCE, 0.1 * best):  # not converged, unless the residual is within rounding
            residual = _missed(p, trial, u, True)
        _modes(p, trial, u, bold, m)
        stalls = best <= TOLERANCE and residual > 0.1 * best
        if residual < best:
            best = residual
            assign(f, trial)
        if best <= EXACT or stalls:
            break
    _velocities(p, f, u)
    _modes(p, f, u, bold, m)
    if best > TOLERANCE:
        best = min(best, _missed(p, f, u, True))
    release(arena, at)
    return steps, best


@njit(cache=True, inner=True, error_model="numpy")
def _firming(
    p: Cones, bold: bool, m: Modes, f: Array, arena: Arena
) -> tuple[int, float]:  # pragma: no cover - compiled
    """Run `_newton` on compliant ground that becomes rigid step by step, for contacts that creep.

    If a box does not fit exactly between two fingers, the fingers must slip very slowly. Their friction is at its limit
    μ f_N. Newton's method converges only from velocities that differ from the solution by less than this small slip. On
    compliant ground a spring replaces the slip. Returns the number of steps and the residual.
    """
    n3, at = f.shape[0], mark(arena)
    G, g, u = matrix(arena, n3, n3), vector(arena, n3), vector(arena, n3)
    soft = Cones(G, p.c, p.mu, p.size, p.roundoff, p.fastest, p.terms, p.rho, p.exact)  # in terms of impulses g = f / r
    f[:] = 0.0
    total, residual, gives, last, less = 0, np.inf, 1.0, np.inf, 0.1
    while total < CONTINUED and less < 0.98:
        for i in range(n3):
            g[i] = f[i] / CAUTION
            for j in range(n3):
                G[i, j] = CAUTION * p.G[i, j]
            G[i, i] += CAUTION * gives
        _velocities(soft, g, u)
        _modes(soft, g, u, bold, m)
        steps, residual = _newton(soft, bold, m, g, arena)
        total += steps
        if residual <= TOLERANCE:
            last, less = gives, max(less * less, 0.01)
            for i in range(n3):
                f[i] = g[i] * CAUTION
        elif last < np.inf and gives > 0.0:
            less = np.sqrt(less)
        else:
            break
        if gives == 0.0:
            break
        gives = less * last if last > FIRM else 0.0
        residual = np.inf
    release(arena, at)
    return total, residual


@njit(cache=True, inner=True, error_model="numpy")
def _onto_cones(mu: Array, part: float, f: Array) -> bool:  # pragma: no cover - compiled
    """Project impulses onto cones with `part` times the friction coefficients.

    Returns True if the impulses were within the full cones.
    """
    n, within = mu.shape[0], True
    for i in range(n):
        used, friction, shrink = np.hypot(f[n + i], f[2 * n + i]), part * mu[i], 1.0
        within = within and used <= mu[i] * f[i]
        if friction * used <= -f[i]:
            f[i] = shrink = 0.0
        elif used > friction * f[i]:
            f[i] = (f[i] + friction * used) / (1.0 + friction * friction)
            shrink = friction * f[i] / used
        f[n + i] *= shrink
        f[2 * n + i] *= shrink
    return within


@linked
@njit(cache=True, inner=True, error_model="numpy")
def _approach(p: Cones, penalty: float, rounds: int, f: Array, w: Array, arena: Arena) -> None:  # pragma: no cover
    """Approach a solution by the alternating direction method of multipliers (ADMM, Boyd et al. 2011).

    With the current s = μ |w_T| e_N (Acary et al. 2011), a round is

        (ρρᵀ + σ) g = σ f + w - c - s,    f ← P(g - w/σ),    w ← w - σ (g - f)

    with P the projection onto the cones K and σ the penalty. At convergence w = u + μ |u_T| e_N.

    Args:
        p: The problem.
        penalty: σ.
        rounds: Number of rounds.
        f: In and out, impulses in K, shape (3 n,).
        w: In and out, in K*, shape (3 n,).
        arena: Arena for all arrays.
    """
    n, at = p.mu.shape[0], mark(arena)
    A, right = matrix(arena, 3 * n, 3 * n), vector(arena, 3 * n)
    for i in range(3 * n):
        for j in range(3 * n):
            A[i, j] = p.G[i, j]
        A[i, i] += penalty
    try:
        inverse = np.ascontiguousarray(np.linalg.inv(A))
    except Exception:  # Numba raises no other error here: A is not finite
        rounds, inverse = 0, np.ascontiguousarray(A)
    for _ in range(rounds):
        for row in range(3 * n):
            right[row] = penalty * f[row] + w[row] - p.c[row]
        for i in range(n):
            right[i] -= p.mu[i] * np.hypot(w[n + i], w[2 * n + i])
        g = np.dot(inverse, right)
        for row in range(3 * n):
            g[row] = RELAXED * g[row] + (1.0 - RELAXED) * f[row]
            f[row] = g[row] - w[row] / penalty
        _onto_cones(p.mu, 1.0, f)
        for row in range(3 * n):
            w[row] -= penalty * (g[row] - f[row])
    release(arena, at)


@njit(cache=True, inner=True, error_model="numpy")
def _sticking(p: Cones, f: Array, modes: Integers, u: Array) -> bool:  # pragma: no cover - compiled
    """Change sliding contacts without motion to sticking contacts.

    For a contact at rest, friction at the edge of the cone is only one of many solutions.

    Args:
        p: The problem.
        f: A solution, shape (3 n,).
        modes: In and out, modes of the solution, shape (n,).
        u: Scratch, shape (3 n,).

    Returns:
        True if any contact was changed.
    """
    n, some = modes.shape[0], False
    _velocities(p, f, u)
    for i in range(n):
        s, t = n + i, 2 * n + i
        if not (modes[i] & SLIDES and p.mu[i] > 0.0):
            continue
        change = np.hypot(p.c[s], p.c[t]) + np.hypot(u[s] - p.c[s], u[t] - p.c[t])
        if np.hypot(u[s], u[t]) <= RESTS * change + _roundoff(p, f, u, i):
            modes[i], some = PRESSES, True
    return some


@njit(cache=True, inner=True, error_model="numpy")
def _guess(seed: int, m: Modes) -> int:  # pragma: no cover - compiled
    """Write random modes and directions; return the next seed (Park & Miller 1988)."""
    for i in range(m.kind.shape[0]):
        seed = seed * 16807 % 2147483647
        x = 3.0 * seed / 2147483647.0
        m.kind[i] = PRESSES | SLIDES if x > 2.0 else np.int64(x)
        m.d[i, 0], m.d[i, 1], m.share[i] = np.cos(2.0 * np.pi * x), np.sin(2.0 * np.pi * x), 0.0
    return seed


@njit(cache=True, inner=True, error_model="numpy")
def _into_cones(p: Cones, f: Array) -> None:  # pragma: no cover - compiled
    """Move impulses back into their cones, which they may have left by rounding."""
    n = p.mu.shape[0]
    for i in range(n):
        f[i] = max(f[i], 0.0)
        used, most = np.hypot(f[n + i], f[2 * n + i]), p.mu[i] * f[i]
        if used > most:
            f[n + i] *= most / used
            f[2 * n + i] *= most / used


@njit(cache=True, inner=True, error_model="numpy")
def _settled(p: Cones, m: Modes, f: Array, arena: Arena) -> float:  # pragma: no cover - compiled
    """Move f into its cones and refine it with exact velocities down to rounding; return the residual.

    When impulses cancel, the sum c + Gf and therefore the f of `_newton_step` lose digits. Newton steps that solve for
    the change of f keep these digits.
    """
    n, at = p.mu.shape[0], mark(arena)
    u = vector(arena, 3 * n)
    _into_cones(p, f)
    _exact_velocities(p, f, u, arena)
    least = _missed(p, f, u, False)
    if least > TOLERANCE:
        g, w = vector(arena, 3 * n), vector(arena, 3 * n)
        change = Cones(p.G, u, p.mu, p.size, p.roundoff, p.fastest, p.terms, p.rho, p.exact)
        for _ in range(REFINEMENTS):
            for i in range(n):
                used = np.hypot(f[n + i], f[2 * n + i])
                if m.kind[i] & SLIDES and used > 0.0:
                    m.d[i, 0], m.d[i, 1] = f[n + i] / used, f[2 * n + i] / used
            g[:] = 0.0
            if not _newton_step(change, FINE, m, g, arena):
                break
            for row in range(3 * n):
                g[row] += f[row]
            _into_cones(p, g)
            _exact_velocities(p, g, w, arena)
            missing = _missed(p, g, w, False)
            if not missing < least:
                break
            assign(f, g)
            assign(u, w)
            least = missing
            if least <= TOLERANCE:
                break
        if least > TOLERANCE:
            least = _missed(p, f, u, True)
    release(arena, at)
    return least


@njit(cache=True, inner=True, error_model="numpy")
def _rests(p: Cones, f: Array, u: Array, i: int) -> bool:  # pragma: no cover - compiled
    """True if contact i neither slips nor opens."""
    n, speed, unit = p.mu.shape[0], 0.0, 0.0
    for row in (i, n + i, 2 * n + i):
        speed, unit = max(speed, abs(u[row])), max(unit, abs(p.c[row]) + abs(u[row] - p.c[row]))
    return bool(speed <= RESTS * unit or speed <= RESTS * unit + _roundoff(p, f, u, i))


@njit(cache=True, inner=True, error_model="numpy")
def _smallest_within(p: Cones, m: Modes, least: Array, arena: Arena) -> bool:  # pragma: no cover - compiled
    """Overwrite `least` (3 n,) with the smallest impulses in the cones that keep contacts at rest.

    Return True on success.

    Alternating projections (Boyle & Dykstra 1986) start at the smallest impulses without cones. The cones are narrowed
    by a tenth, so that finitely many projections reach the true cones.
    """
    projection, owed, u = zeros(arena, least.shape[0]), zeros(arena, least.shape[0]), vector(arena, least.shape[0])
    for _ in range(PROJECTIONS):
        assign(least, projection)
        if not _newton_step(p, PROXIMAL, m, least, arena):
            return False
        for row in range(least.shape[0]):
            projection[row] = least[row] + owed[row]
            owed[row] = projection[row]
        _onto_cones(p.mu, NARROW, projection)
        for row in range(least.shape[0]):
            owed[row] -= projection[row]
        assign(u, least)
        if _onto_cones(p.mu, 1.0, u):
            return True
    return False


@linked
@njit(cache=True, inner=True, error_model="numpy")
def _eased(p: Cones, m: Modes, f: Array, residual: float, arena: Arena) -> float:  # pragma: no cover - compiled
    """Replace impulses f that keep contacts at rest by much smaller impulses with the same motion, if these exist.

    The fingers around a box may press with any force, and Newton's method may end with millions of times the necessary
    force.

    Args:
        p: The problem.
        m: In and out, modes.
        f: In and out, balanced impulses, shape (3 n,).
        residual: Residual of f.
        arena: Arena for all arrays.

    Returns:
        The residual of f.
    """
    n, at = p.mu.shape[0], mark(arena)
    least, u = zeros(arena, 3 * n), vector(arena, 3 * n)
    rest = Modes(indices(arena, n), m.d, m.share)
    _velocities(p, f, u)
    eases, largest, needed = True, 0.0, 0.0
    for i in range(n):
        rest.kind[i] = PRESSES if p.mu[i] > 0.0 and _rests(p, f, u, i) else 0
        eases = eases and (rest.kind[i] != 0 or f[i] == 0.0)
    if eases and _newton_step(p, PROXIMAL, rest, least, arena):
        for row in range(3 * n):
            largest, needed = max(largest, abs(f[row])), max(needed, abs(least[row]))
    if largest > PRESSED * needed and _smallest_within(p, rest, least, arena) and np.abs(least).max() < largest:
        settled = _settled(p, rest, least, arena)
        if settled <= TOLERANCE:
            residual = settled
            assign(f, least)
            _velocities(p, f, u)
            _modes(p, f, u, False, m)
    release(arena, at)
    return residual


@njit(cache=True, inner=True, error_model="numpy")
def _recall(active: Integers, m: Modes) -> None:  # pragma: no cover - compiled
    """Restore the modes that `_memory_of` stored in `active`, shape (n,)."""
    for i in range(active.shape[0]):
        angle = 2.0 * np.pi * (active[i] >> 2) / TURN
        m.kind[i], m.d[i, 0], m.d[i, 1] = active[i] & (PRESSES | SLIDES), np.cos(angle), np.sin(angle)


@njit(cache=True, inner=True, error_model="numpy")
def _memory_of(m: Modes, i: int) -> int:  # pragma: no cover - compiled
    """Return the mode and direction of contact i as one number."""
    if not m.kind[i] & SLIDES:
        return m.kind[i]
    turn = np.int64(np.round((np.arctan2(m.d[i, 1], m.d[i, 0]) / (2.0 * np.pi) + 1.0) * TURN)) % TURN
    return m.kind[i] | turn << 2


@njit(cache=True, inner=True, error_model="numpy")
def _try_starts(
    p: Cones, active: Integers, f: Array, m: Modes, z: Array, arena: Arena
) -> tuple[int, int, float]:  # pragma: no cover - compiled
    """Start Newton's method from several points in turn, until the problem is solved or no point is left.

    The points are `active`, then f, then, only if f is zero, other points. With few contacts the other points are
    compliant ground and random modes; with many contacts they are the results of alternating directions.

    Args:
        p: The problem.
        active: As in `cone_kernel`.
        f: Balanced impulses, zero or a start, shape (3 n,).
        m: Result, modes.
        z: Result, balanced impulses, shape (3 n,).
        arena: Arena for all arrays.

    Returns:
        Number of starts, number of Newton steps, residual.
    """
    n, remembers, begun = p.mu.shape[0], active.any(), f.any()
    starts, seed, total, residual = 0, 1, 0, np.inf
    rigid = 1 + int(begun) + 2 * int(remembers)  # number of starts from `active` and f
    most, u = rigid if begun else STARTS if n <= FEW else rigid + 2 * APPROACHES, vector(arena, 3 * n)
    projection, w = zeros(arena, 3 * n), zeros(arena, 3 * n)
    while residual > TOLERANCE and starts < most:
        assign(z, f)
        bold = starts % 2 == 1
        if remembers and starts < 2:
            _recall(active, m)
        elif starts < rigid or n > FEW:
            approach, again = divmod(starts - rigid, 2)
            if approach >= 0 and not again:
                rounds = ROUNDS << (approach // len(PENALTIES))
                _approach(p, PENALTIES[approach % len(PENALTIES)], rounds, projection, w, arena)
            if approach >= 0:
                assign(z, projection)
            _velocities(p, z, u)
            _modes(p, z, u, bold, m)
        elif starts > rigid + 1:
            seed = _guess(seed, m)
        if n <= FEW and rigid <= starts <= rigid + 1:
            steps, residual = _firming(p, bold, m, z, arena)
        else:
            steps, residual = _newton(p, bold, m, z, arena)
        if residual <= TOLERANCE:
            residual = _settled(p, m, z, arena)
        starts, total = starts + 1, total + steps
    return starts, total, residual


@njit(cache=True, inner=True, error_model="numpy")
def _from_nothing(
    p: Cones, bold: bool, residual: float, m: Modes, f: Array, arena: Arena
) -> tuple[int, float]:  # pragma: no cover - compiled
    """Run Newton's method from zero impulses and the modes `m`; replace f by the solution if it converges.

    The next time step also starts from zero impulses. Among impulses that are not unique, the choice therefore does not
    depend on the history. Returns the number of steps and the residual.
    """
    z, u = zeros(arena, f.shape[0]), vector(arena, f.shape[0])
    m.share[:] = 0.0
    steps, smallest = _newton(p, bold, m, z, arena)
    if smallest <= TOLERANCE:
        smallest = _settled(p, m, z, arena)
    if smallest <= TOLERANCE:
        residual = smallest
        assign(f, z)
    else:
        _velocities(p, f, u)
        _modes(p, f, u, bold, m)
    return steps, residual


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
    p = _balanced(rho, c, roundoff, mu, arena)
    z, u, remembers = vector(arena, 3 * n), vector(arena, 3 * n), active.any()
    m = Modes(indices(arena, n), matrix(arena, n, 2), zeros(arena, n))
    for row in range(3 * n):
        f[row] /= p.size[row % n]
    starts, total, residual = _try_starts(p, active, f, m, z, arena)
    assign(f, z)
    if residual <= TOLERANCE and (_sticking(p, f, m.kind, u) or starts > 1 or not remembers):
        steps, residual = _from_nothing(p, starts % 2 == 0, residual, m, f, arena)
        total += steps
    if residual > TOLERANCE:
        f[:], active[:] = 0.0, 0
        return INACCURATE, total, residual
    residual = _eased(p, m, f, residual, arena)
    for i in range(n):
        active[i] = _memory_of(m, i)
        for row in (i, n + i, 2 * n + i):
            f[row] *= p.size[i]
    return SOLVED, total, residual


@njit(cache=True, error_model="numpy")
def cone_residual(
    rho: Array, c: Array, roundoff: Array, mu: Array, f: Array, arena: Arena
) -> float:  # pragma: no cover
    """Compute `coulomb.pyramid_residual` for circular cones."""
    n, worst = mu.shape[0], 0.0
    p = _balanced(rho[: 3 * n], c[: 3 * n], roundoff[: 3 * n], mu, arena)
    y, g, u = zeros(arena, rho.shape[1]), vector(arena, 3 * n), vector(arena, 3 * n)
    for row in range(f.shape[0]):
        for a in range(y.shape[0]):
            y[a] += rho[row, a] * f[row]
    for row in range(3 * n):
        u[row] = c[row]
        for a in range(y.shape[0]):
            u[row] += rho[row, a] * y[a]
        g[row], u[row] = f[row] / p.size[row % n], u[row] * p.size[row % n]
    for i in range(n):
        lost = 0.0
        for row in (i, n + i, 2 * n + i):
            lost = max(lost, p.size[i] * row_rounding(rho, c, roundoff, f, y, row))
            if mu[i] == np.inf and row >= n:
                g[row] = u[row] = 0.0
        worst = max(worst, _contact_missed(p, g, u, i, lost / TOLERANCE))
    return worst


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
        are close to the smallest impulses; at rest, they usually exceed the smallest by less than the factor `PRESSED`.

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
