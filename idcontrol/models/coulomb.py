r"""Coulomb friction as a linear complementarity problem (math.md 5; 003 section 5; Stewart-Trinkle, Anitescu-Potra).

    ⎡ NΓNᵀ   NΓFᵀ   0 ⎤ ⎡f_N⎤   ⎡ N v° + φ/h ⎤   ⎡w_N⎤
    ⎢ FΓNᵀ   FΓFᵀ   E ⎥ ⎢f_F⎥ + ⎢ F v°       ⎥ = ⎢w_F⎥ ,   0 ≤ z ⊥ w ≥ 0
    ⎣ diag μ  -Eᵀ   0 ⎦ ⎣ λ ⎦   ⎣ 0          ⎦   ⎣w_λ⎦

with F = [S; -S; T; -T]: the friction pyramid is the inscribed diamond |f_S| + |f_T| ≤ μ f_N, which has all of μ along
the two tangents and μ/√2 along their diagonals. Contacts with μ = 0 have no tangential variables. Contacts with μ = inf
do not slip while they press: their tangential rows hold with equality (math.md 4), found by trying which of them press
(`idcontrol.models.sticking`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import Final

import numpy as np
from numba import njit

from idcontrol.errors import InputError
from idcontrol.kernels.arena import HEAP, Arena, matrix, vector, zeros
from idcontrol.kernels.linear import solve_in_place
from idcontrol.models.step import CLOSED_GAP, Ending, StepProblem, StepSolution, WarmStart, warm_bits
from idcontrol.models.sticking import Attempt, settle
from idcontrol.models.whitened import finish, hold, whiten
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
"""Of their entries: standard deviation of the logarithm."""
SEARCH_NODES: Final = 200
"""Quadratic programs of the search over contact modes: some milliseconds at a few contacts, two seconds at 54. It
settles up to two contacts that act on each other, and gets to the end of a branch at all that are searched."""
MOST_RETRIED: Final = 64
"""Contacts beyond which neither is tried: one run takes a second, and the search too few of its branches to the end."""

SQUEEZE: Final = "squeeze"
"""No velocity of what is free keeps the contacts apart: there is a certificate."""
JAM: Final = "jam"
"""Such velocities exist, but with friction no solution: all contact modes were searched."""
UNSOLVED: Final = "no solution found"
"""Neither a solution nor a proof that there is none."""


@njit(cache=True)
def _assemble(
    rho: Array, c: Array, mu: Array, n: int, rough: Integers, arena: Arena
) -> tuple[Array, Array, Array]:  # pragma: no cover - compiled
    """Q, r and the balancing scale for n normals and the contacts `rough` with finite friction.

    math.md 13.2 has one factor for all contacts; one for each finds a solution where bodies of very different mass
    touch, too, with a tenth fewer pivots.
    """
    k, t = rho.shape[1], rough.shape[0]
    impulses = n + 4 * t
    rows, r = matrix(arena, impulses, k), zeros(arena, impulses + t)
    rows[:n] = rho[:n]
    r[:n] = c[:n]
    for j in range(t):
        i = rough[j]
        for axis in range(2):
            source = (1 + axis) * n + i
            plus, minus = n + 2 * axis * t + j, n + (2 * axis + 1) * t + j
            rows[plus] = rho[source]
            rows[minus] = -rho[source]
            r[plus] = c[source]
            r[minus] = -c[source]
    size = impulses + t
    Q = matrix(arena, size, size)
    Q[:] = 0.0
    for i in range(impulses):
        for j in range(i + 1):
            s = 0.0
            for a in range(k):
                s += rows[i, a] * rows[j, a]
            Q[i, j] = s
            Q[j, i] = s
    for j in range(t):
        slip = impulses + j
        Q[slip, rough[j]] = mu[rough[j]]
        for edge in range(4):
            Q[n + edge * t + j, slip] = 1.0
            Q[slip, n + edge * t + j] = -1.0
    # one factor for the three axes of a contact, so that its cone keeps its shape; 1/d for λ keeps E and μ as they are
    scale = zeros(arena, size)
    largest = 0.0
    for i in range(n):
        square = 0.0
        for row in (i, n + i, 2 * n + i):
            for a in range(k):
                square += rho[row, a] * rho[row, a] / 3.0
        scale[i] = 1.0 / np.sqrt(square) if square > 0.0 else 0.0
        largest = max(largest, scale[i])
    for i in range(n):
        if scale[i] == 0.0:
            scale[i] = largest if largest > 0.0 else 1.0
    for j in range(t):
        for edge in range(4):
            scale[n + edge * t + j] = scale[rough[j]]
        scale[impulses + j] = 1.0 / scale[rough[j]]
    return Q, r, scale


@njit(cache=True, error_model="numpy")
def _judged(Q: Array, r: Array, slips: int, z: Array, residual: float) -> float:  # pragma: no cover - compiled
    """`residual`, of the balanced problem; but where impulses and velocities miss the law by more than is solved, that.

    Balanced, the velocity of a heavy body counts by its momentum; here all velocities are relative to the fastest at
    zero impulse, impulses to the largest or what gives the lightest contact that velocity (math.md 13.3).

    Args:
        Q: Matrix of the module, as it is.
        r: Its constants.
        slips: How many of the unknowns, the last ones, are slip speeds λ.
        z: The unknowns.
        residual: Of z.
    """
    size = r.shape[0]
    impulses = size - slips
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
    Q: Array, r: Array, scale: Array, slips: int, tikhonov: float, z: Array, arena: Arena
) -> tuple[int, int, float]:  # pragma: no cover - compiled
    size = r.shape[0]
    answer = lemke_kernel(Q, r, scale, tikhonov, 50 * (size + 1), arena)
    status, pivots, residual = answer.status, answer.iterations, answer.residual
    z[:] = answer.z
    if status == SOLVED:
        residual = _judged(Q, r, slips, z, residual)
        if residual > TOLERANCE:
            status = INACCURATE
    return status, pivots, residual


@njit(cache=True, error_model="numpy")
def _impulses(z: Array, rough: Integers, f: Array) -> None:  # pragma: no cover - compiled
    """Contact impulses [N; S; T], shape (3 n,), of a solution z of the LCP."""
    n, t = f.shape[0] // 3, rough.shape[0]
    f[:] = 0.0
    f[:n] = z[:n]
    for j in range(t):
        if z[rough[j]] > 0.0:  # else rounding is all that friction can be
            f[n + rough[j]] = z[n + j] - z[n + t + j]
            f[2 * n + rough[j]] = z[n + 2 * t + j] - z[n + 3 * t + j]


@njit(cache=True, error_model="numpy")
def friction_lcp_kernel(
    rho: Array, c: Array, mu: Array, rough: Integers, tikhonov: float, f: Array, arena: Arena
) -> tuple[int, int, float]:  # pragma: no cover - compiled
    """Assemble and solve the LCP of the module; f (3 n,) gets the contact impulses. Status, pivots, residual."""
    Q, r, scale = _assemble(rho, c, mu, mu.shape[0], rough, arena)
    z = vector(arena, r.shape[0])
    status, pivots, residual = _lemke(Q, r, scale, rough.shape[0], tikhonov, z, arena)
    f[:] = 0.0
    if status == SOLVED:
        _impulses(z, rough, f)
    return status, pivots, residual


@njit(cache=True, error_model="numpy")
def _on_support(
    Q: Array, r: Array, scale: Array, support: Booleans, z: Array, arena: Arena
) -> float:  # pragma: no cover - compiled
    """Solve for the z whose w = Qz + r is zero in `support`, z zero outside; returns its residual as an LCP, scaled."""
    members = np.flatnonzero(support)
    count = members.shape[0]
    A = matrix(arena, count, count + 1)
    for a in range(count):
        i = members[a]
        for b in range(count):
            A[a, b] = scale[i] * Q[i, members[b]] * scale[members[b]]
        A[a, count] = -scale[i] * r[i]
    z[:] = 0.0
    if not solve_in_place(A, count):
        return np.inf
    for a in range(count):
        z[members[a]] = max(A[a, count], 0.0)
    constant = scale * r
    w = constant.copy()
    for i in range(r.shape[0]):
        for a in range(count):
            w[i] += scale[i] * Q[i, members[a]] * scale[members[a]] * z[members[a]]
    residual = float(lcp_residual(z, w, constant))
    for a in range(count):
        z[members[a]] *= scale[members[a]]
    return residual


@njit(cache=True, error_model="numpy")
def continued_lcp_kernel(
    rho: Array, c: Array, mu: Array, rough: Integers, bits: Integers, f: Array, arena: Arena
) -> tuple[int, int, float]:  # pragma: no cover - compiled
    """`friction_lcp_kernel`, but the vertex of the last step is kept where it still is a solution.

    Solutions at sticking feet are many, and Lemke's path ends elsewhere when the demand changes by little: started cold
    at each step, torques jump between equally good answers (math.md 6.4).

    Args:
        rho: Whitened contact rows, shape (3 n, k).
        c: Their constants, shape (3 n,).
        mu: Friction, finite, shape (n,).
        rough: Contacts with friction, shape (t,).
        bits: In and out, which unknowns of a contact are positive, shape (n,): bit 0 its normal, bits 1 to 4 its edges
            +S, -S, +T, -T, bit 5 its slip speed λ.
        f: Result, contact impulses, shape (3 n,).
        arena: Where arrays come from.

    Returns:
        Status number, pivots (0 where the last vertex was kept), residual.
    """
    n, t = mu.shape[0], rough.shape[0]
    Q, r, scale = _assemble(rho, c, mu, n, rough, arena)
    z = vector(arena, r.shape[0])
    if np.any(bits != 0):
        support = np.zeros(r.shape[0], dtype=np.bool_)
        for i in range(n):
            support[i] = bits[i] & 1
        for j in range(t):
            for unknown in range(5):  # four edges and λ
                support[n + unknown * t + j] = (bits[rough[j]] >> (1 + unknown)) & 1
        residual = _judged(Q, r, t, z, _on_support(Q, r, scale, support, z, arena))
        if residual <= TOLERANCE:
            _impulses(z, rough, f)
            return SOLVED, 0, residual
    status, pivots, residual = _lemke(Q, r, scale, t, 0.0, z, arena)
    f[:] = 0.0
    bits[:] = 0
    if status != SOLVED:
        return status, pivots, residual
    _impulses(z, rough, f)
    some = 0.0
    for i in range(z.shape[0]):
        some = max(some, TOLERANCE * z[i] / scale[i])
    for i in range(n):
        bits[i] = 1 if z[i] / scale[i] > some else 0
    for j in range(t):
        for unknown in range(5):
            at = n + unknown * t + j
            if z[at] / scale[at] > some:
                bits[rough[j]] |= 2 << unknown
    return status, pivots, residual


@dataclass(frozen=True, slots=True, kw_only=True)
class _Outcome:
    """How the LCP ended; `note` as in `StepSolution`."""

    status: int
    iterations: int
    residual: float
    regularization: float = 0.0
    note: str = ""


def _solve_pyramids(rho: Array, c: Array, mu: Array, rough: Integers, bits: Integers, f: Array) -> _Outcome:
    """By Lemke's method; after a failure by what else there is, and said so.

    In this order: whether normals alone have no solution; Lemke's method with other covering vectors, which follow
    other paths; 1e-12, 1e-10, 1e-8 of the (balanced) diagonal added (math.md 13.5); a short search over contact modes.
    """
    _load()
    status, iterations, residual = continued_lcp_kernel(rho, c, mu, rough, bits, f, HEAP)
    if status == SOLVED:
        return _Outcome(status=status, iterations=iterations, residual=residual)
    return _after_failure(rho, c, mu, rough, f, _Outcome(status=status, iterations=iterations, residual=residual))


@cache
def _load() -> None:
    """Load with the first step what only failures need: in a tick of a loop that takes longer than a robot waits."""
    rho, c, mu, rough = np.eye(3), np.array([-1.0, 0.0, 0.0]), np.array([0.5]), np.zeros(1, dtype=np.int64)
    _after_failure(rho, c, mu, rough, np.zeros(3), _Outcome(status=INACCURATE, iterations=0, residual=np.inf))
    find_solution(rho, c, mu, max_nodes=1)


def _after_failure(rho: Array, c: Array, mu: Array, rough: Integers, f: Array, first: _Outcome) -> _Outcome:
    """What else there is, in the order of `_solve_pyramids`; `first` is how the first attempt ended."""
    status, iterations, residual = first.status, first.iterations, first.residual
    if not _may_part(rho, c, mu.size):
        return replace(first, status=INFEASIBLE, note=SQUEEZE)
    Q, r, scale = _assemble(rho, c, mu, mu.size, rough, HEAP)
    z = np.empty(r.size)
    rng = np.random.default_rng(0)
    for _ in range(max(RESTARTS, mu.size) if mu.size <= MOST_RETRIED else 0):
        # a positive factor on each variable does to the path what a covering vector other than 1 does
        factors = scale * np.exp(rng.normal(scale=SPREAD, size=r.size))
        again, more, _ = _lemke(Q, r, factors, rough.size, 0.0, z, HEAP)
        iterations += more
        residual = _residual(Q, r, scale, z)
        if again == SOLVED and residual <= TOLERANCE:
            _impulses(z, rough, f)
            return _Outcome(status=SOLVED, iterations=iterations, residual=residual, note="restarted")
    for tikhonov in TIKHONOV:
        again, more, residual = friction_lcp_kernel(rho, c, mu, rough, tikhonov, f, HEAP)
        iterations += more
        if again == SOLVED:
            return _Outcome(
                status=again, iterations=iterations, residual=residual, regularization=tikhonov, note="regularized"
            )
    nodes_allowed = SEARCH_NODES if mu.size <= MOST_RETRIED else 0
    y, settled, nodes = find_solution(rho @ rho.T, c, mu, max_nodes=nodes_allowed)
    iterations += nodes
    if y is not None:
        z = _unknowns(rho, c, y, rough)
        residual = _judged(Q, r, rough.size, z, _residual(Q, r, scale, z))
        if residual <= TOLERANCE:
            f[:] = y
            return _Outcome(status=SOLVED, iterations=iterations, residual=residual, note="searched")
    if settled and y is None:
        return _Outcome(status=INFEASIBLE, iterations=iterations, residual=np.inf, note=JAM)
    return _Outcome(status=status, iterations=iterations, residual=np.inf, note=UNSOLVED)


def _may_part(rho: Array, c: Array, n: int) -> bool:
    """Whether no certificate says that no velocity of what is free keeps the contacts apart (math.md 5.1)."""
    return project(rho[:n], c[:n]).status is not SolverStatus.INFEASIBLE


def _residual(Q: Array, r: Array, scale: Array, z: Array) -> float:
    """As Lemke's method measures it, in scaled units."""
    return float(lcp_residual(z / scale, scale * (Q @ z + r), scale * r))


def _unknowns(rho: Array, c: Array, y: Array, rough: Integers) -> Array:
    """The unknowns of the LCP, (f_N, f_F, λ), of impulses y = (f_N, f_S, f_T)."""
    n = y.size // 3
    _, s, t = (c + rho @ (rho.T @ y)).reshape(3, n)
    f_n, f_s, f_t = y.reshape(3, n)
    edges = [np.maximum(sign * along[rough], 0.0) for along in (f_s, f_t) for sign in (1.0, -1.0)]
    return np.concatenate((f_n, *edges, np.maximum(np.abs(s), np.abs(t))[rough]))


def solve(problem: StepProblem, warm: WarmStart | None = None) -> StepSolution:
    """Solve one step under Coulomb friction.

    In forward mode with gaps that are not negative a solution exists and Lemke's method finds it. With prescribed
    joints it may not exist (joints that are told to squeeze, or against friction, math.md 5.1), and Lemke's method is
    not sure to find it where it does. Where none is found the status is FALLBACK, the impulses are zero, and the note
    says what is known: `SQUEEZE`, `JAM` or `UNSOLVED`. A solution that was not found at the first attempt has the
    note ``"restarted"`` (another covering vector), ``"regularized"`` (then the status is REPAIRED) or ``"searched"``
    (over contact modes).

    Args:
        problem: The step.
        warm: The last solution's `warm`: which unknowns were positive, by contact identity. They are tried first, so
            that of many solutions the same vertex is kept from step to step; then Lemke's method starts cold.

    Returns:
        The solution; its residual is that of the complementarity problem.

    Raises:
        InputError: There are more than `MOST_CONTACTS` contacts.
    """
    mu = problem.contacts.mu
    n = mu.shape[0]
    if n > MOST_CONTACTS:
        raise InputError(
            f"{n} contacts are too many for Lemke's method, which takes {MOST_CONTACTS}; "
            "use the models dissipation, no_slip or sap"
        )
    whitened = whiten(problem)
    rows = whitened.rho.shape[0]
    endless = np.isinf(mu)
    f, bits = np.zeros(rows), warm_bits(warm, problem.contacts)
    if rows == 3 * n and not endless.any():
        outcome = _solve_pyramids(whitened.rho, whitened.c, mu, np.flatnonzero(mu), bits, f)
        return finish(problem, whitened, f, _ending(outcome, settled=True), bits)
    rigid = np.arange(3 * n, rows)
    rough = np.flatnonzero((mu > 0.0) & ~endless)
    # as exact as its solver; a contact that neither presses nor opens by more keeps its role
    tolerance = 1e-9 * max(1.0, float(np.abs(whitened.c).max(initial=0.0)))

    def attempt(stick: Booleans) -> Attempt[tuple[_Outcome, Array, Integers]]:
        sticking = np.flatnonzero(stick)
        held = hold(whitened, np.concatenate((rigid, np.column_stack((n + sticking, 2 * n + sticking)).ravel())))
        f, kept = np.zeros(rows), bits.copy()
        outcome = _solve_pyramids(held.rho[: 3 * n], held.c[: 3 * n], mu, rough, kept, f[: 3 * n])
        f = held.impulses(whitened, f)
        opening = whitened.c[:n] + whitened.rho[:n] @ (whitened.rho.T @ f)
        return Attempt(
            found=(outcome, f, kept), solved=outcome.status == SOLVED, presses=f[:n] > 0.0, parts=opening > tolerance
        )

    (outcome, f, bits), settled = settle(endless, endless & (problem.contacts.gap <= CLOSED_GAP), attempt)
    if outcome.status == INFEASIBLE and endless.any():
        # that proof is of the contacts that were held; without them there may be a solution
        alone = hold(whitened, rigid)
        squeezed = not _may_part(alone.rho, alone.c, n)
        outcome = replace(outcome, note=SQUEEZE if squeezed else UNSOLVED)
    return finish(problem, whitened, f, _ending(outcome, settled=settled), bits)


def _ending(outcome: _Outcome, *, settled: bool) -> Ending:
    status, note = Status.SOLVED, outcome.note
    if outcome.status != SOLVED:
        status = Status.FALLBACK
    elif outcome.regularization > 0.0:
        status = Status.REPAIRED
    elif not settled:
        status, note = Status.REPAIRED, "which contacts stick did not settle"
    return Ending(status, outcome.residual, outcome.iterations, outcome.regularization, note)
