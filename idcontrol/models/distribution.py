r"""Stage II: contact impulses that give the same motion with the smallest torque (math.md, section 7.4).

The torque is affine in y = (f_N, f_S, f_T), ``hτ(y) = hτ(y₁) + Lτ (y - y₁)`` with ``Lτ = M_qb M_bb⁻¹ J_bᵀ - J_qᵀ``.
Stage II solves

    minimize ½ |hτ(y) - hτ_ref|² + ½ |targets(y)|² + ½ Σ w_i |y_i|²
    s.t.     J_bᵀ y = J_bᵀ y₁                          v⁺ is kept
             y_i in the cone of the friction edges e of contact i with w_e = 0
             least ≤ hτ(y) ≤ most                      dropped if no y satisfies it

y₁ are the impulses of the contact model; the indices b and q select the unknown and the prescribed velocities. The
targets are `Cones.targets`. The weight w_i of a contact is (`RIDGE` + `Cones.weight`) times the mean of diag(LτᵀLτ);
w_e is defined below.

The cone condition is the edge rule: an open contact keeps no edge and therefore no force, a sliding contact keeps the
one or two edges that oppose its slip, and a sticking contact keeps all four. The complement w_e of an edge follows from
the law of the model, with the normal velocity u_N = N v⁺ + φ/h, the slip u_T along the tangents and the edge's
direction d_e,

    maximal dissipation     w_e = u_N + μ d_e·u_T                         sliding contacts open at μ max|u_T|
    Coulomb, pyramid        w_e = u_N + μ (max|u_T| + d_e·u_T)            sliding contacts do not open
    Coulomb, circle         w_e = u_N + 2 μ max|u_T|                      all edges or none: no edge opposes the slip

De Saxcé & Feng 1998 introduce the shift of u_N by μ |u_T|. At a contact that slips no faster than v_tol, w_e counts as
zero up to v_tol; at faster slip, only up to the tolerance of the model. A contact with unbounded friction has an
impulse only if it slips at no more than v_tol and opens at no more than `PARTING` v_tol.

The coordinates ξ of a contact with up to three edges are the multipliers of these edges. With all four edges, they are
the three components of the impulse, and the four facets of the pyramid are inequalities. The coordinates that give the
motion are ξ₁ + waysᵀ z, where ξ₁ is the shortest solution and the rows of `ways` are orthonormal. If all feet stick,
the unknown z has six entries for four feet, one entry for two feet, and none for one foot.

Source: Zapolsky & Drumwright 2017, eqs. 98-112, which minimize the added torque instead.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numba import types

from idcontrol.kernels.arena import HEAP, Arena, indices, matrix, vector, zeros
from idcontrol.kernels.jit import njit
from idcontrol.kernels.lanes import dot
from idcontrol.kernels.linear import add, assign, assign_rows
from idcontrol.kernels.linked import late, linked
from idcontrol.models.friction_lcp import Unbalanced, frictional_contacts, judged
from idcontrol.models.reduced import (
    ALL_EDGES,
    MOTION_RANK_TOLERANCE,
    PRESSES,
    ManyContacts,
    Multipliers,
    Reduced,
    impulses,
    in_cones,
    reduce_kernel,
    turn_to_faces,
)
from idcontrol.models.whitened import Whitened
from idcontrol.solvers.active_set import DEPENDENT
from idcontrol.solvers.active_set_qp import QuadraticProgram, qp_kernel
from idcontrol.solvers.basis import all_solutions
from idcontrol.solvers.status import SOLVED, TOLERANCE
from idcontrol.types import Array, Booleans, Integers

DISSIPATION: Final = 0
"""Maximal dissipation with friction pyramids."""
COULOMB: Final = 1
"""Coulomb's law with friction pyramids."""
CIRCLE: Final = 2
"""Coulomb's law with a circle of friction; pyramids can redistribute its forces only if no contact slides."""

RIDGE = 1e-8
"""Weight of ½|y|² relative to the mean of diag(LτᵀLτ). It makes duplicate contacts share the load evenly (math.md,
section 7.4).
"""

MET = 1e-9
"""Rounding by which motor impulses may exceed their bounds, relative to the distance between the two bounds or, with a
single bound, relative to the impulse.
"""

KEPT = 1e-8
"""Largest relative error of the motion in stage II. The program is accurate to about 1e-12, but omits motions that its
generators cannot span (math.md, section 7.4).
"""

PARTING: Final = 1e-3
"""Opening speed, as a fraction of v_tol, above which a contact with unbounded friction counts as open. Since no normal
force bounds its friction, a slowly opening foot could otherwise transmit any force.
"""

MANY_CONTACTS = 2
"""Ratio of unknowns to motions and motors above which the reduced program is tried first (`idcontrol.models.reduced`).
"""

TURNS = 40
"""Largest number of turns to other faces of the cones, with many contacts. At most one turn per five contacts is
allowed, so that turns take less time than the full program.
"""

WORTH = 100
"""Number of contacts from which turns continue although their faces cannot give the motion. Such turns seldom converge,
and with fewer contacts the full program is faster. With more contacts, one additional turn per five contacts is
allowed.
"""


class TorqueMap(NamedTuple):
    """Motor impulses as an affine function of contact impulses, ``hτ(y) - hτ_ref = matrix y + constant``.

    Attributes:
        matrix: Lτ, shape (p, 3 n).
        constant: hτ(0) - hτ_ref, shape (p,) [N m s].
    """

    matrix: Array
    constant: Array


NO_TARGETS: Final = TorqueMap(np.zeros((0, 0)), np.zeros(0))
"""No targets in addition to the torque."""


class Bounds(NamedTuple):
    """Bounds of the motor impulses in one step: torque limits, and the limit of change from the last torque.

    Attributes:
        least: Smallest motor impulses, shape (p,) [N m s]; -inf for no bound.
        most: Largest motor impulses, shape (p,) [N m s]; inf for no bound.
    """

    least: Array
    most: Array


class Cones(NamedTuple):
    """Cones of the contact impulses, and the cost of impulses in addition to torque.

    Attributes:
        mu: Friction coefficients, shape (n,); not used for `held` contacts.
        held: True for contacts with unbounded friction, shape (n,).
        weight: Extra weight of each contact's impulse, in units of the mean of diag(LτᵀLτ), shape (n,). The weight
            unloads feet shortly before liftoff and after touchdown.
        v_tol: Slip up to which a contact counts as at rest [m/s]. If it is zero, the law of rigid contacts is satisfied
            to `TOLERANCE`, and checked (`missed_law`).
        law: `DISSIPATION`, `COULOMB` or `CIRCLE`.
        targets: Further residuals of the objective, scaled to motor impulses [N m s].
    """

    mu: Array
    held: Booleans
    weight: Array
    v_tol: float
    law: int = DISSIPATION
    targets: TorqueMap = NO_TARGETS


@njit(cache=True, error_model="numpy")
def torque_map_kernel(w: Whitened, n3: int, arena: Arena) -> Array:  # pragma: no cover - compiled
    """Return Lτ = (L⁻¹ M_bq)ᵀ ρᵀ - J_qᵀ for the first n3 rows, shape (p, n3)."""
    k, p = w.free.shape[0], w.fixed.shape[0]
    X = matrix(arena, k, p)
    for i in range(k):
        for a in range(p):
            X[i, a] = w.M[w.free[i], w.fixed[a]]
        for o in range(i):
            for a in range(p):
                X[i, a] -= w.L[i, o] * X[o, a]
        inverse = 1.0 / w.L[i, i]
        for a in range(p):
            X[i, a] *= inverse
    columns = matrix(arena, k, n3)
    for r in range(n3):
        for i in range(k):
            columns[i, r] = w.rho[r, i]
    out: Array = matrix(arena, p, n3)
    for a in range(p):
        for r in range(n3):
            out[a, r] = -w.rows[r, w.fixed[a]]
        for i in range(k):
            for r in range(n3):
                out[a, r] += X[i, a] * columns[i, r]
    return out


@njit(cache=True, inner=True, error_model="numpy")
def within(bounds: Bounds, impulse: Array) -> bool:
    """True if motor impulses (p,) are within their bounds, with the allowance `MET`; False for a NaN."""
    for a in range(impulse.shape[0]):
        room = bounds.most[a] - bounds.least[a]
        slack = MET * (room if room < np.inf else abs(impulse[a]))
        if not bounds.least[a] - slack <= impulse[a] <= bounds.most[a] + slack:
            return False
    return True


@njit(cache=True, error_model="numpy")
def shifted(bounds: Bounds, reference: Array, arena: Arena) -> Bounds:
    """Return the bounds of hτ - hτ_ref, from the bounds of hτ; `reference` (p,) is hτ_ref."""
    least, most = vector(arena, reference.shape[0]), vector(arena, reference.shape[0])
    for a in range(reference.shape[0]):
        least[a] = bounds.least[a] - reference[a]
        most[a] = bounds.most[a] - reference[a]
    return Bounds(least, most)


@njit(cache=True, inner=True)
def allowed_edges(c: Array, u: Array, cones: Cones, cone: Integers) -> int:  # pragma: no cover - compiled
    """Write the edges that the edge rule allows each contact, as bit sets (`idcontrol.models.reduced`), shape (n,).

    Args:
        c: Contact velocities at zero impulse, φ/h included, shape (3 n,).
        u: Contact velocities, φ/h included, shape (3 n,).
        cones: Cones of the impulses.
        cone: Result: bits 0 to 3 for the edges +S, -S, +T, -T; a single bit for a contact without friction; `PRESSES`
            for a held contact.

    Returns:
        The number of generators, i.e. of coordinates ξ, at most 3 n.
    """
    mu, held, v_tol = cones.mu, cones.held, cones.v_tol
    n, d = mu.shape[0], 0
    for i in range(n):
        cone[i] = 0
        s, t = abs(u[n + i]), abs(u[2 * n + i])
        exact, slip = 0.0, np.hypot(s, t) if cones.law == CIRCLE else max(s, t)
        for r in (i, n + i, 2 * n + i):
            exact = max(exact, TOLERANCE * (abs(c[r]) + abs(u[r] - c[r])))
        if held[i]:  # a held contact that slips or opens has no impulse
            if slip <= max(v_tol, exact) and u[i] <= max(PARTING * v_tol, exact):
                cone[i] = PRESSES
                d += 3
            continue
        if not mu[i] > 0.0:
            if u[i] <= max(v_tol, exact):
                cone[i] = 1
                d += 1
            continue
        allowed, most = 0, max(v_tol if slip <= v_tol else 0.0, (1.0 + mu[i]) * exact)
        apart = u[i] + (0.0 if cones.law == DISSIPATION else mu[i] * slip)
        for axis in range(1, 3):
            for sign in (1.0, -1.0):
                along = slip if cones.law == CIRCLE else sign * u[axis * n + i]
                if apart + mu[i] * along <= most:
                    cone[i] |= 1 << (2 * axis - (2 if sign > 0.0 else 1))
                    allowed += 1
        d += min(allowed, 3)
    return d


class _Generators(NamedTuple):
    """Columns of B with y = B ξ: column j has the entry 1 at `row[j]` and `weight[j]` at `other[j]`, shapes (d,)."""

    row: Integers
    other: Integers
    weight: Array


@njit(cache=True, inner=True, forceinline=True)
def _generators(cone: Integers, mu: Array, d: int, arena: Arena) -> _Generators:  # pragma: no cover - compiled
    """Return the generators of the cones of `allowed_edges`, at most three per contact, in the order of the contacts.

    A generator is a single component (weight 0) or a friction edge.
    """
    row, other, weight = indices(arena, d), indices(arena, d), vector(arena, d)
    n, j = mu.shape[0], 0
    for i in range(n):
        if cone[i] == PRESSES or cone[i] == ALL_EDGES:
            for axis in range(3):
                row[j], other[j], weight[j] = axis * n + i, axis * n + i, 0.0
                j += 1
            continue
        for edge in range(4):
            if not cone[i] >> edge & 1:
                continue
            rubs = mu[i] > 0.0
            row[j], other[j] = i, (1 + edge // 2) * n + i if rubs else i
            weight[j] = mu[i] * (1.0 - 2.0 * (edge % 2)) if rubs else 0.0
            j += 1
    return _Generators(row, other, weight)


@njit(cache=True, inner=True, error_model="numpy")
def _facets(
    cone: Integers, mu: Array, xi: Array, ways: Array, A: Array, least: Array
) -> int:  # pragma: no cover - compiled
    """Write rows A z ≥ least that keep ξ + waysᵀ z within the cones of `allowed_edges`; return their number.

    A row that does not depend on z is set to zero: its rounding error would make the program unbounded.
    """
    d, rows = 0, 0
    for i in range(mu.shape[0]):
        pyramid, edges = cone[i] == ALL_EDGES, 0
        for edge in range(4):
            edges += cone[i] >> edge & 1
        for facet in range(1 if cone[i] == PRESSES else edges):
            a, s, t = d + facet, 0.0, 0.0
            if pyramid:
                a, s, t = d, 1.0 - 2.0 * (facet // 2), 1.0 - 2.0 * (facet % 2)
            normal, square = mu[i] if pyramid else 1.0, 0.0
            least[rows] = -normal * xi[a]
            if pyramid:
                least[rows] -= s * xi[a + 1] + t * xi[a + 2]
            for j in range(ways.shape[0]):
                A[rows, j] = normal * ways[j, a]
                if pyramid:
                    A[rows, j] += s * ways[j, a + 1] + t * ways[j, a + 2]
                square += A[rows, j] * A[rows, j]
            if square <= DEPENDENT * (normal * normal + s * s + t * t):
                A[rows] = 0.0
            rows += 1
        d += min(edges, 3) if cone[i] != PRESSES else 3
    return rows


@njit(cache=True, inner=True, error_model="numpy")
def into_cones(mu: Array, held: Booleans, y: Array) -> None:  # pragma: no cover - compiled
    """Move impulses y (3 n,) that leave their pyramids by rounding back into them; a `held` contact may only press.

    The rounding error is relative to the largest impulses, and may exceed the impulses of lightly loaded feet.
    """
    n = mu.shape[0]
    for i in range(n):
        y[i] = max(y[i], 0.0)
        if held[i]:
            continue
        friction, most = abs(y[n + i]) + abs(y[2 * n + i]), mu[i] * y[i]
        if friction > most:
            share = most / friction
            y[n + i] *= share
            y[2 * n + i] *= share


@njit(cache=True, inner=True, error_model="numpy")
def _keeps(w: Whitened, y: Array, x: Array, longest: float, arena: Arena) -> bool:  # pragma: no cover - compiled
    """True if ρᵀy equals the motion x up to `KEPT`, relative to the size of x or, if larger, to a typical size.

    The typical size is the size of a motion that stops the fastest contact; the error of a much smaller x is rounding.
    `longest` is the largest squared length of a column of ρ, or of Bᵀρ with generators B.
    """
    fastest = 0.0
    for r in range(y.shape[0]):
        fastest = max(fastest, abs(w.c[r]))
    miss, largest = 0.0, fastest / np.sqrt(longest) if longest > 0.0 else 0.0
    motion = zeros(arena, x.shape[0])
    for r in range(y.shape[0]):
        for d in range(x.shape[0]):
            motion[d] += w.rho[r, d] * y[r]
    for d in range(x.shape[0]):
        if not np.isfinite(motion[d] - x[d]):
            return False
        miss, largest = max(miss, abs(motion[d] - x[d])), max(largest, abs(x[d]))
    return bool(miss <= KEPT * largest)


@njit(cache=True, inner=True, error_model="numpy")
def _least_torque(
    reduced: Reduced, bounds: Bounds, free: Array, z: Array, arena: Arena
) -> tuple[bool, bool]:  # pragma: no cover - compiled
    """Write the free coordinates (f,) of smallest torque within bounds, and that torque z (p,).

    Returns:
        Two flags: such coordinates exist; bounds are active, so that the multipliers of the torque differ from z.
    """
    S, rest = reduced.torque, reduced.rest
    p, f = S.shape
    H, g = matrix(arena, f, f), zeros(arena, f)
    for i in range(f):
        for j in range(f):
            H[i, j] = 1.0 if i == j else 0.0
            for a in range(p):
                H[i, j] += S[a, i] * S[a, j]
        for a in range(p):
            g[i] += S[a, i] * rest[a]
    none, nothing = matrix(arena, 0, f), vector(arena, 0)
    answer = qp_kernel(QuadraticProgram(H, g, none, nothing, none, nothing), arena)
    if answer.status != SOLVED:
        return False, False
    _torque_of(reduced, answer.x, z)
    bounded = not within(bounds, z)
    if bounded:
        A, least = _with_bounds(none, nothing, S, rest, bounds, arena)
        answer = qp_kernel(QuadraticProgram(H, g, A, least, none, nothing), arena)
        if answer.status != SOLVED:
            return False, True
        _torque_of(reduced, answer.x, z)
    assign(free, answer.x)
    return True, bounded


@njit(cache=True, inner=True, error_model="numpy")
def _torque_of(reduced: Reduced, free: Array, out: Array) -> None:  # pragma: no cover - compiled
    """Write the torque (p,) at free coordinates (f,)."""
    for a in range(out.shape[0]):
        out[a] = reduced.rest[a]
        for j in range(free.shape[0]):
            out[a] += reduced.torque[a, j] * free[j]


@njit(cache=True, inner=True, error_model="numpy")
def _scaled(
    w: Whitened, cones: Cones, torque: TorqueMap, unit: float, x: Array, cone: Integers, arena: Arena
) -> ManyContacts:  # pragma: no cover - compiled
    """Return the program of the module with torques divided by `unit`."""
    p, n3 = torque.matrix.shape
    T, t, weight = matrix(arena, p, n3), vector(arena, p), vector(arena, cone.shape[0])
    for a in range(p):
        t[a] = torque.constant[a] / unit
        for r in range(n3):
            T[a, r] = torque.matrix[a, r] * (1.0 / unit)
    for i in range(cone.shape[0]):
        weight[i] = RIDGE + cones.weight[i]
    return ManyContacts(w.rho[:n3], x, T, t, cone, cones.mu, weight)


@njit(cache=True, inner=True, error_model="numpy")
def _longest_column(rho: Array, n3: int, arena: Arena) -> float:  # pragma: no cover - compiled
    """Return the square of the longest column of the first n3 rows."""
    squares, longest = zeros(arena, rho.shape[1]), 0.0
    for r in range(n3):  # row by row, so that the sums of all columns advance together
        for i in range(squares.shape[0]):
            squares[i] += rho[r, i] * rho[r, i]
    for square in squares:
        longest = max(longest, square)
    return longest


@late(lambda *_: types.boolean)
@njit(cache=True, inner=True, error_model="numpy")
def _share_among_many(
    w: Whitened,
    cones: Cones,
    bounds: Bounds,
    x: Array,
    torque: TorqueMap,
    typical: float,
    cone: Integers,
    out: Array,
    arena: Arena,
) -> bool:  # pragma: no cover - compiled
    """Run `share_kernel` with few unknowns, for the cones of `allowed_edges`; return True if it has a solution."""
    n3, k, p = out.shape[0], x.shape[0], torque.constant.shape[0]
    n, unit, scaled, face = n3 // 3, np.sqrt(typical), vector(arena, p), indices(arena, n3 // 3)
    many = _scaled(w, cones, torque, unit, x, cone, arena)
    narrow = Bounds(vector(arena, p), vector(arena, p))
    for a in range(p):
        narrow.least[a], narrow.most[a] = bounds.least[a] / unit, bounds.most[a] / unit
    now = Multipliers(zeros(arena, k), zeros(arena, p), zeros(arena, n3))
    for i in range(n):
        face[i] = cone[i]
    longest = _longest_column(w.rho, n3, arena)
    turns, missed = n // 5, 0
    for turn in range(TURNS + 1):
        reduced = reduce_kernel(many.rho, x, many.T, many.t, face, cones.mu, many.weight, arena)
        free = vector(arena, reduced.torque.shape[1])
        exists, bounded = _least_torque(reduced, narrow, free, scaled, arena)
        if not exists:
            return False
        impulses(reduced, free, out)
        if turn == 0 and in_cones(out, cone, cones.mu):
            break
        if bounded:  # the multipliers that `turn_to_faces` needs then differ from the torque z
            return False
        if not _keeps(w, out, x, longest, arena):
            missed += 1
            if n < WORTH or missed > turns:
                return False
        changed = turn_to_faces(many, reduced, now, scaled, face, arena)
        if changed == 0 and in_cones(out, cone, cones.mu):
            break
        if changed <= 0 or turn == TURNS or turn - missed >= turns:
            return False
    into_cones(cones.mu, cones.held, out)
    return bool(_keeps(w, out, x, longest, arena))


@njit(cache=True, inner=True, error_model="numpy")
def missed_law(w: Whitened, mu: Array, y: Array, arena: Arena) -> float:
    """Return the violation of Coulomb's law with pyramids by impulses y (3 n,) of rigid contacts.

    Contacts that do not slide and obey this law also obey the law with a circle.

    Args:
        w: The whitened problem, with rounding bounds of its constants (`whitened.uncertain`).
        mu: Friction coefficients, shape (n,).
        y: Impulses in block order [N; S; T], shape (3 n,) [N s].
        arena: Arena for all arrays.
    """
    rigid, frictional = zeros(arena, y.shape[0]), frictional_contacts(mu, arena)
    return float(judged(Unbalanced(w.rho, w.c, w.roundoff, rigid, mu, frictional), y, arena))


@late(lambda *_: types.boolean)
@njit(cache=True, error_model="numpy")
def drags(w: Whitened, cones: Cones, y: Array, arena: Arena) -> bool:
    """True if a contact with unbounded friction has an impulse although it slips or opens.

    Args:
        w: The whitened problem.
        cones: Held contacts, and v_tol.
        y: Impulses in block order [N; S; T], shape (3 n,) [N s].
        arena: Arena for all arrays.
    """
    n, x, u = cones.mu.shape[0], zeros(arena, w.rho.shape[1]), vector(arena, y.shape[0])
    for r in range(y.shape[0]):
        for i in range(x.shape[0]):
            x[i] += w.rho[r, i] * y[r]
    for r in range(y.shape[0]):
        u[r] = w.c[r] + dot(w.rho[r], x)
    cone = indices(arena, n)
    allowed_edges(w.c, u, cones, cone)
    any_drags = False
    for r in range(y.shape[0]):
        any_drags = any_drags or (cones.held[r % n] and cone[r % n] == 0 and y[r] != 0.0)
    return any_drags


@njit(cache=True, inner=True, error_model="numpy")
def _slides(w: Whitened, v_tol: float, x: Array, y: Array) -> bool:  # pragma: no cover - compiled
    """True if a contact with a normal impulse slides faster than v_tol [m/s] and than rounding explains.

    Args:
        w: The whitened problem, with its rounding bounds if v_tol is zero (`whitened.uncertain`).
        v_tol: As in `Cones`.
        x: The whitened velocity change ρᵀy, shape (k,).
        y: Impulses in block order [N; S; T], shape (3 n,) [N s].
    """
    slides, n = False, y.shape[0] // 3
    for i in range(n):
        slip, exact = 0.0, v_tol
        for r in (n + i, 2 * n + i):
            change = dot(w.rho[r], x)
            slip, exact = np.hypot(slip, w.c[r] + change), max(exact, TOLERANCE * (abs(w.c[r]) + abs(change)))
            if v_tol == 0.0:
                exact = max(exact, w.roundoff[r])
        slides = slides or (y[i] > 0.0 and slip > exact)
    return slides


@njit(cache=True, error_model="numpy")
def smallest_torque_kernel(
    w: Whitened, cones: Cones, bounds: Bounds, y: Array, difference: Array, out: Array, arena: Arena
) -> float:  # pragma: no cover - compiled
    """Solve the program of this module: find impulses of smallest torque that give the same motion as y (3 n,).

    Args:
        w: The whitened problem, without rigid bilateral rows.
        cones: Cones of the impulses.
        bounds: Bounds of hτ - hτ_ref.
        y: Impulses of a solution, block order [N; S; T], shape (3 n,) [N s].
        difference: hτ(y) - hτ_ref, shape (p,) [N m s].
        out: Result, shape (3 n,).
        arena: Arena for all arrays.

    Returns:
        Violation of the law; impulses can be used if it is at most `TOLERANCE`. It is 0 without a check if
        `Cones.v_tol` is positive, because the edge rule then enforces the law. It is inf if no admissible impulses keep
        the motion, or if the cones are circles and a loaded contact slides.
    """
    n3, p = y.shape[0], w.fixed.shape[0]
    x = zeros(arena, w.rho.shape[1])
    for r in range(n3):
        for i in range(x.shape[0]):
            x[i] += w.rho[r, i] * y[r]
    # a circle has no edges that oppose the slip: other contacts would take the load, and the friction would be lost
    if cones.law == CIRCLE and _slides(w, cones.v_tol, x, y):
        return np.inf
    torque = torque_map_kernel(w, n3, arena)
    rest = vector(arena, p)
    assign(rest, difference)
    for a in range(p):
        rest[a] -= dot(torque[a], y)
    if not share_kernel(w, cones, bounds, x, TorqueMap(torque, rest), out, arena):
        return np.inf
    return 0.0 if cones.v_tol > 0.0 else missed_law(w, cones.mu, out, arena)


@njit(cache=True, inner=True, forceinline=True, error_model="numpy")
def _solutions(
    rho: Array, B: _Generators, x: Array, arena: Arena
) -> tuple[float, Array, Array]:  # pragma: no cover - compiled
    """Return the largest squared length of a row of ρᵀB, the shortest ξ with ρᵀB ξ = x, and `ways` (see the module).

    All coordinates ``ξ + waysᵀ z`` also satisfy this equation, so they give the same motion.
    """
    k, d = x.shape[0], B.row.shape[0]
    span, motion, longest = matrix(arena, k, d), vector(arena, k), 0.0
    assign(motion, x)
    for i in range(k):
        square = 0.0
        for j in range(d):
            span[i, j] = rho[B.row[j], i] + B.weight[j] * rho[B.other[j], i]
            square += span[i, j] * span[i, j]
        longest = max(longest, square)
    xi, ways = all_solutions(span, motion, MOTION_RANK_TOLERANCE * np.sqrt(longest), arena)
    return longest, xi, ways


@njit(cache=True, inner=True, forceinline=True, error_model="numpy")
def _torque_along(
    torque: TorqueMap, B: _Generators, xi: Array, ways: Array, arena: Arena
) -> TorqueMap:  # pragma: no cover - compiled
    """Return the torque as a function of z, with y = B (ξ + waysᵀ z)."""
    p, d, free = torque.constant.shape[0], B.row.shape[0], ways.shape[0]
    T, constant, generated = matrix(arena, p, free), vector(arena, p), vector(arena, d)
    for a in range(p):
        for j in range(d):
            generated[j] = torque.matrix[a, B.row[j]] + B.weight[j] * torque.matrix[a, B.other[j]]
        constant[a] = torque.constant[a] + dot(generated, xi)
        for j in range(free):
            T[a, j] = dot(generated, ways[j])
        if dot(T[a], T[a]) <= DEPENDENT * dot(generated, generated):  # as in `_facets`
            T[a] = 0.0
    return TorqueMap(T, constant)


@njit(cache=True, inner=True, forceinline=True, error_model="numpy")
def _objective(
    along: TorqueMap, typical: float, B: _Generators, extra: Array, xi: Array, ways: Array, arena: Arena
) -> tuple[Array, Array]:  # pragma: no cover - compiled
    """Return H and g of ½ |hτ - hτ_ref|² / typical + ½ Σ (RIDGE + extra) y² = ½ zᵀH z + gᵀz.

    Args:
        along: From `_torque_along`.
        typical: Mean of diag(LτᵀLτ).
        B: The generators.
        extra: Extra weight of each contact's impulse, shape (n,).
        xi: Coordinates ξ at z = 0, shape (d,).
        ways: From `_solutions`, shape (f, d).
        arena: Arena for all arrays.
    """
    (free, d), p = ways.shape, along.constant.shape[0]
    turned, H, g = matrix(arena, free, p), matrix(arena, free, free), vector(arena, free)
    for a in range(p):
        for j in range(free):
            turned[j, a] = along.matrix[a, j]
    for i in range(free):
        g[i] = dot(turned[i], along.constant) / typical
        for j in range(i + 1):
            H[i, j] = H[j, i] = dot(turned[i], turned[j]) / typical
        H[i, i] += RIDGE
    # so far the ridge is on |ξ|²; the ridge on |y|² differs in a load ramp, or if edges share a normal component
    if extra.any() or B.weight.any():
        n, more = extra.shape[0], matrix(arena, free, d)
        more[:] = 0.0
        for i in range(d):
            for j in range(max(i - 2, 0), min(i + 3, d)):
                weighs = -RIDGE if i == j else 0.0
                if B.row[i] == B.row[j]:
                    weighs += RIDGE + extra[B.row[i] % n]
                if B.weight[i] * B.weight[j] != 0.0 and B.other[i] == B.other[j]:
                    weighs += (RIDGE + extra[B.row[i] % n]) * B.weight[i] * B.weight[j]
                if weighs != 0.0:
                    for a in range(free):
                        more[a, i] += weighs * ways[a, j]
        for i in range(free):
            g[i] += dot(more[i], xi)
            for j in range(free):
                H[i, j] += dot(more[i], ways[j])
    return H, g


@njit(cache=True, inner=True, forceinline=True, error_model="numpy")
def _move_to_least_torque(
    cones: Cones,
    bounds: Bounds,
    cone: Integers,
    along: TorqueMap,
    objective: tuple[Array, Array],
    xi: Array,
    ways: Array,
    arena: Arena,
) -> bool:  # pragma: no cover - compiled
    """Move ξ along the rows of `ways` to the minimum of the objective within cones and bounds.

    If no point satisfies all bounds, all are dropped. Returns True if the cones contain a point.
    """
    free, (H, g) = ways.shape[0], objective
    A, least = matrix(arena, 4 * cone.shape[0], free), vector(arena, 4 * cone.shape[0])
    limits = _facets(cone, cones.mu, xi, ways, A, least)
    A, least = A[:limits], least[:limits]
    none, nothing = matrix(arena, 0, free), vector(arena, 0)
    answer = qp_kernel(QuadraticProgram(H, g, A, least, none, nothing), arena)
    if answer.status != SOLVED:
        return False
    z, torque = answer.x, vector(arena, along.constant.shape[0])
    for a in range(torque.shape[0]):
        torque[a] = along.constant[a] + dot(along.matrix[a], z)
    if not within(bounds, torque):
        A, least = _with_bounds(A, least, along.matrix, along.constant, bounds, arena)
        answer = qp_kernel(QuadraticProgram(H, g, A, least, none, nothing), arena)
        if answer.status == SOLVED:
            z = answer.x
    for j in range(free):
        add(xi, z[j], ways[j])
    return True


@late(lambda targets, torque, bounds, arena: types.Tuple((torque, bounds)))
@njit(cache=True, inner=True, error_model="numpy")
def _with_targets(
    targets: TorqueMap, torque: TorqueMap, bounds: Bounds, arena: Arena
) -> tuple[TorqueMap, Bounds]:  # pragma: no cover - compiled
    """Return the torque with the rows of targets appended, and the bounds; targets have no bounds."""
    p, q, n3 = torque.constant.shape[0], targets.constant.shape[0], torque.matrix.shape[1]
    rows, constant = matrix(arena, p + q, n3), vector(arena, p + q)
    least, most = vector(arena, p + q), vector(arena, p + q)
    for a in range(p):
        assign(rows[a], torque.matrix[a])
        constant[a], least[a], most[a] = torque.constant[a], bounds.least[a], bounds.most[a]
    for i in range(q):
        assign(rows[p + i], targets.matrix[i])
        constant[p + i], least[p + i], most[p + i] = targets.constant[i], -np.inf, np.inf
    return TorqueMap(rows, constant), Bounds(least, most)


@njit(cache=True, inner=True, error_model="numpy")
def _share(
    w: Whitened, cones: Cones, bounds: Bounds, x: Array, torque: TorqueMap, out: Array, arena: Arena
) -> bool:  # pragma: no cover - compiled
    """Solve the program once, for `share_kernel`; targets, if any, are already rows of the torque (`_with_targets`)."""
    n3, k, p = out.shape[0], x.shape[0], torque.constant.shape[0]
    u, cone = vector(arena, n3), indices(arena, n3 // 3)
    for r in range(n3):
        u[r] = w.c[r]
        for i in range(k):
            u[r] += w.rho[r, i] * x[i]
    d = allowed_edges(w.c, u, cones, cone)
    if d == 0:
        out[:] = 0.0
        return not x.any()
    typical = 0.0
    for a in range(p):
        typical += dot(torque.matrix[a], torque.matrix[a])
    typical = typical / n3 if typical > 0.0 else 1.0  # if it is zero, no contact transmits a torque
    if d > MANY_CONTACTS * (k + p) and _share_among_many(w, cones, bounds, x, torque, typical, cone, out, arena):
        return True
    B = _generators(cone, cones.mu, d, arena)
    longest, xi, ways = _solutions(w.rho, B, x, arena)
    if ways.shape[0] > 0:
        along = _torque_along(torque, B, xi, ways, arena)
        objective = _objective(along, typical, B, cones.weight, xi, ways, arena)
        if not _move_to_least_torque(cones, bounds, cone, along, objective, xi, ways, arena):
            return False
    out[:] = 0.0
    for j in range(d):
        out[B.row[j]] += xi[j]
        out[B.other[j]] += B.weight[j] * xi[j]
    into_cones(cones.mu, cones.held, out)
    return _keeps(w, out, x, longest, arena)


@linked
@njit(cache=True, inner=True, error_model="numpy")
def share_kernel(
    w: Whitened, cones: Cones, bounds: Bounds, x: Array, torque: TorqueMap, out: Array, arena: Arena
) -> bool:  # pragma: no cover - compiled
    """Solve the program of this module for a motion x in place of known impulses y₁; return True if the motion is kept.

    Args:
        w: The whitened problem, whose first 3 n rows belong to the contacts.
        cones: Cones of the impulses.
        bounds: Bounds of hτ - hτ_ref.
        x: The whitened velocity change ρᵀy to keep, shape (k,).
        torque: Motor impulses as a function of y.
        out: Result, shape (3 n,).
        arena: Arena for all arrays.
    """
    if cones.targets.constant.shape[0] > 0:
        aimed, wide = _with_targets(cones.targets, torque, bounds, arena)
        if _share(w, cones, wide, x, aimed, out, arena):
            impulse = vector(arena, torque.constant.shape[0])
            for a in range(impulse.shape[0]):
                impulse[a] = torque.constant[a] + dot(torque.matrix[a], out)
            if within(bounds, impulse):
                return True
        # targets have a million times the weight of torques, so the motion may lose digits if the cones barely contain
        # a solution: solve without targets
    return bool(_share(w, cones, bounds, x, torque, out, arena))


@njit(cache=True, inner=True, error_model="numpy")
def _with_bounds(
    A: Array, constants: Array, TB: Array, rest: Array, bounds: Bounds, arena: Arena
) -> tuple[Array, Array]:  # pragma: no cover - compiled
    """Stack the rows A ξ ≥ constants and least ≤ TB ξ + rest ≤ most in the form rows ξ ≥ constants."""
    (rows, d), p = A.shape, rest.shape[0]
    count = rows
    for a in range(p):
        # without compilation, NumPy evaluates True + True as True
        count += int(np.isfinite(bounds.least[a])) + int(np.isfinite(bounds.most[a]))
    out, constant = matrix(arena, count, d), zeros(arena, count)
    assign_rows(out[:rows], A)
    assign(constant, constants)
    r = rows
    for a in range(p):
        if np.isfinite(bounds.least[a]):
            assign(out[r], TB[a])
            constant[r] = bounds.least[a] - rest[a]
            r += 1
        if np.isfinite(bounds.most[a]):
            for j in range(d):
                out[r, j] = -TB[a, j]
            constant[r] = rest[a] - bounds.most[a]
            r += 1
    return out, constant


def torque_map(whitened: Whitened, n: int) -> Array:
    """Return the matrix Lτ (see the module): motor impulses per impulse [N; S; T] of n contacts, shape (p, 3 n)."""
    mapped: Array = torque_map_kernel(whitened, 3 * n, HEAP)
    return mapped


def unbounded(p: int) -> Bounds:
    """Return bounds that do not limit p motors."""
    return Bounds(np.full(p, -np.inf), np.full(p, np.inf))


def smallest_torque(
    whitened: Whitened,
    cones: Cones,
    y: Array,
    torque_impulse: Array,
    reference: Array | None = None,
    bounds: Bounds | None = None,
) -> tuple[Array, bool]:
    """Redistribute contact impulses for the smallest torque, without changing the motion.

    Args:
        whitened: The whitened problem that `y` solves; rigid bilateral rows keep zero impulses.
        cones: Cones of the impulses.
        y: Impulses in block order [N; S; T], shape (3 n,) [N s].
        torque_impulse: Motor impulses hτ of `y`, shape (p,) [N m s].
        reference: hτ_ref, shape (p,) [N m s]; zero by default.
        bounds: Bounds of hτ; by default there are no bounds.

    Returns:
        The new impulses and True; or `y` and False if no impulses were found that keep the motion and obey the law.
    """
    if cones.mu.shape[0] == 0 or whitened.fixed.size == 0:
        return y, True
    reference = np.zeros_like(torque_impulse) if reference is None else reference
    about = shifted(unbounded(reference.size) if bounds is None else bounds, reference, HEAP)
    out = np.empty(y.size)
    missed = smallest_torque_kernel(whitened, cones, about, y, torque_impulse - reference, out, HEAP)
    return (out, True) if missed <= TOLERANCE else (y, False)
