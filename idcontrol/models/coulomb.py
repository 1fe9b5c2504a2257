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

from dataclasses import dataclass

import numpy as np
from numba import njit

from idcontrol.errors import InputError
from idcontrol.models.problem import CLOSED_GAP, StepProblem, StepSolution, WarmStart
from idcontrol.models.reduction import Reduction, hold, recover, reduce
from idcontrol.models.sticking import Attempt, settle
from idcontrol.solvers.lcp import lcp_residual
from idcontrol.solvers.lemke import TIKHONOV, lemke_kernel
from idcontrol.solvers.linear import solve_in_place
from idcontrol.solvers.status import RAY, SOLVED, TOLERANCE, SolverStatus
from idcontrol.types import Array, Booleans, Integers, Status

MOST_CONTACTS = 500
"""More would need gigabytes: Lemke's tableau has (12 n)(6 n) entries."""


@njit(cache=True)
def _assemble(
    rho: Array, c: Array, mu: Array, n: int, rough: Integers
) -> tuple[Array, Array, Array]:  # pragma: no cover - compiled
    """Q, r and the balancing scale for n normals and the contacts `rough` with finite friction.

    math.md 13.2 has one factor for all contacts; one for each finds a solution where bodies of very different mass
    touch, too, with a tenth fewer pivots.
    """
    k, t = rho.shape[1], rough.shape[0]
    impulses = n + 4 * t
    rows = np.empty((impulses, k))
    r = np.zeros(impulses + t)
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
    Q = np.zeros((size, size))
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
    scale = np.zeros(size)
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
def _lemke(
    Q: Array, r: Array, scale: Array, tikhonov: float, z: Array
) -> tuple[int, int, float]:  # pragma: no cover - compiled
    size = r.shape[0]
    status, pivots, residual = lemke_kernel(
        Q,
        r,
        scale,
        tikhonov,
        50 * (size + 1),
        z,
        np.empty(size),
        np.empty((2 * size + 3, size + 2)),
        np.empty(5 * size + 2, dtype=np.int64),
    )
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
    rho: Array, c: Array, mu: Array, rough: Integers, tikhonov: float, f: Array
) -> tuple[int, int, float]:  # pragma: no cover - compiled
    """Assemble and solve the LCP of the module; f (3 n,) gets the contact impulses. Status, pivots, residual."""
    Q, r, scale = _assemble(rho, c, mu, mu.shape[0], rough)
    z = np.empty(r.shape[0])
    status, pivots, residual = _lemke(Q, r, scale, tikhonov, z)
    f[:] = 0.0
    if status == SOLVED:
        _impulses(z, rough, f)
    return status, pivots, residual


@njit(cache=True, error_model="numpy")
def _on_support(Q: Array, r: Array, scale: Array, support: Booleans, z: Array) -> float:  # pragma: no cover - compiled
    """Solve for the z whose w = Qz + r is zero in `support`, z zero outside; returns its residual as an LCP, scaled."""
    members = np.flatnonzero(support)
    count = members.shape[0]
    A = np.empty((count, count + 1))
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
    rho: Array, c: Array, mu: Array, rough: Integers, bits: Integers, f: Array
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

    Returns:
        Status number, pivots (0 where the last vertex was kept), residual.
    """
    n, t = mu.shape[0], rough.shape[0]
    Q, r, scale = _assemble(rho, c, mu, n, rough)
    z = np.empty(r.shape[0])
    if np.any(bits != 0):
        support = np.zeros(r.shape[0], dtype=np.bool_)
        for i in range(n):
            support[i] = bits[i] & 1
        for j in range(t):
            for unknown in range(5):  # four edges and λ
                support[n + unknown * t + j] = (bits[rough[j]] >> (1 + unknown)) & 1
        residual = _on_support(Q, r, scale, support, z)
        if residual <= TOLERANCE:
            _impulses(z, rough, f)
            return SOLVED, 0, residual
    status, pivots, residual = _lemke(Q, r, scale, 0.0, z)
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
    """How the LCP ended."""

    status: int
    iterations: int
    residual: float
    regularization: float


def _solve_pyramids(rho: Array, c: Array, mu: Array, rough: Integers, bits: Integers, f: Array) -> _Outcome:
    """Exactly; after a failure with 1e-12, 1e-10, 1e-8 of the (balanced) diagonal added, and said so (math.md 13.5)."""
    status, iterations, residual = continued_lcp_kernel(rho, c, mu, rough, bits, f)
    if status == SOLVED:
        return _Outcome(status=status, iterations=iterations, residual=residual, regularization=0.0)
    for tikhonov in TIKHONOV:
        again, more, rest = friction_lcp_kernel(rho, c, mu, rough, tikhonov, f)
        iterations += more
        if again == SOLVED:
            return _Outcome(status=again, iterations=iterations, residual=rest, regularization=tikhonov)
    return _Outcome(status=status, iterations=iterations, residual=residual, regularization=0.0)


def solve(problem: StepProblem, warm: WarmStart | None = None) -> StepSolution:
    """Solve one step under Coulomb friction.

    In forward mode with gaps that are not negative a solution exists and Lemke's method finds it. With prescribed
    joints it
    may not exist (joints that are told to squeeze): then the status is FALLBACK with the note ``"squeeze"`` and the
    impulses are zero (math.md 5.1).

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
    reduction = reduce(problem)
    rows = reduction.rho.shape[0]
    endless = np.isinf(mu)
    f, bits = np.zeros(rows), np.zeros(n, dtype=np.int64)
    identity = problem.contacts.identity.tolist()
    if warm:
        for i, key in enumerate(identity):
            bits[i] = warm.get(key, 0)
    if rows == 3 * n and not endless.any():
        outcome = _solve_pyramids(reduction.rho, reduction.c, mu, np.flatnonzero(mu), bits, f)
        return _solution(reduction, outcome, f, identity, bits, settled=True)
    rigid = np.arange(3 * n, rows)
    rough = np.flatnonzero((mu > 0.0) & ~endless)
    # as exact as its solver; a contact that neither presses nor opens by more keeps its role
    tolerance = 1e-9 * max(1.0, float(np.abs(reduction.c).max(initial=0.0)))

    def attempt(stick: Booleans) -> Attempt[tuple[_Outcome, Array, Integers]]:
        sticking = np.flatnonzero(stick)
        held = hold(reduction, np.concatenate((rigid, np.column_stack((n + sticking, 2 * n + sticking)).ravel())))
        f, kept = np.zeros(rows), bits.copy()
        outcome = _solve_pyramids(held.rho[: 3 * n], held.c[: 3 * n], mu, rough, kept, f[: 3 * n])
        f = held.impulses(reduction, f)
        opening = reduction.c[:n] + reduction.rho[:n] @ (reduction.rho.T @ f)
        return Attempt(
            found=(outcome, f, kept), solved=outcome.status == SOLVED, presses=f[:n] > 0.0, parts=opening > tolerance
        )

    (outcome, f, bits), settled = settle(endless, endless & (problem.contacts.gap <= CLOSED_GAP), attempt)
    return _solution(reduction, outcome, f, identity, bits, settled=settled)


def _solution(
    reduction: Reduction, outcome: _Outcome, f: Array, identity: list[int], bits: Integers, *, settled: bool
) -> StepSolution:
    n = len(identity)
    status, note = Status.SOLVED, ""
    if outcome.status != SOLVED:
        f = np.zeros_like(f)
        status = Status.FALLBACK
        note = "squeeze" if outcome.status == RAY else SolverStatus(outcome.status).name.lower()
    elif outcome.regularization > 0.0:
        status, note = Status.REPAIRED, "regularized"
    elif not settled:
        status, note = Status.REPAIRED, "which contacts stick did not settle"
    v_plus, impulse = recover(reduction, f)
    return StepSolution(
        v_plus=v_plus,
        impulses=np.ascontiguousarray(f[: 3 * n].reshape(3, n).T),
        multipliers=impulse,
        status=status,
        residual=outcome.residual,
        iterations=outcome.iterations,
        regularization=outcome.regularization,
        note=note,
        warm=dict(zip(identity, bits.tolist(), strict=True)),
    )
