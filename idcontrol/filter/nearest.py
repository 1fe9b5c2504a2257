r"""The admissible torques that are nearest to the torques of a policy.

The contact law of maximal dissipation predicts motion and forces for the wanted torques τ*, clipped to the motors'
limits. The clipped torques are applied if the motion keeps all limits and every foot that slips slows down. Otherwise a
program finds torques τ, contact impulses f and the velocity v⁺ at the end of the period::

    minimize   ½ Σ ((τ_j - τ*_j) / limit_j)² + ½ w |J_bᵀ(f - f°)|² + small ½ |f|²
    s.t.       M v⁺ + κ = Jᵀf + Pᵀ(hτ)
               N v⁺ + φ/h = 0, T v⁺ = 0,  f in the friction pyramids        contacts that stand
               N v⁺ + φ/h ± μ T v⁺ = 0 on edges with f,  |T v⁺| ≤ γ |T v|   contacts that slide
               N v⁺ + φ/h ± μ T v⁺ ≥ 0,  f = 0                              contacts that open
               f_N ≤ h force_max;  τ and P v⁺ within bounds;  (P v)ᵀτ ≤ power_max

N and T are normal and tangential contact rows of J, J_b are the columns of J for the base, and φ are gaps; γ is
`SLOWS`, and the weights w and small follow from `WRENCH_WEIGHT` and `FORCE_WEIGHT`. The prediction decides the role of
each contact. A contact without load opens. A loaded contact slides if it slips in the prediction, and already slips too
fast to stop within a period; its friction acts along the same edges as in the prediction. All other contacts stand. The
rows of each role are its contact law, so v⁺ is the motion that τ causes.

The reference f° consists of the predicted normal impulses, and of tangential impulses computed for the same roles and
τ* without the motors' limits. If the sum of the tangential impulses exceeds the friction of all loaded contacts, the
tangential impulses are scaled down. The normal impulses are for torques within the motors' limits. Otherwise they would
push the base up: if the targets of go1's hips pull its feet apart by 0.15 rad, the feet would carry 1.8 times the
weight.

J_bᵀ(f - f°) is the change of the wrench on the robot, and |…|² is the kinetic energy of this change with locked joints.
Feet that pull against each other do not change the wrench, but feedback that keeps the base upright does. So the
program reduces opposing forces first, and the base moves as the policy wants if possible. Without this term, two hips
whose wanted torques exceed the motors' limits would lose all of their feedback.

The contact law has at most as many independent equalities as there are impulses. The equalities are solved for the
impulses, so that mostly torques remain as unknowns of the program; corners of a sole keep some impulses as unknowns.
Few inequalities are active at the solution. So inequalities are added to the program when its solution violates them,
until it violates none.

If no torques satisfy all rows, the program is relaxed in this order:

1. Contacts may slip as in the prediction.
2. Slip is bounded again. Conflicting limits of joints are relaxed one by one: a joint with a relaxed limit brakes as
   hard as the other rows permit.
3. Contacts may slip, and conflicting limits of joints, forces and power are relaxed one by one.

If there is still no solution, the wanted torques are applied, clipped to the motors' limits.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from idcontrol.controllers.repair import ACCURATE
from idcontrol.controllers.schemes import COULOMB_QP, Scheme
from idcontrol.controllers.step import MOVED, SLIPS, SOLVED, Answer, AssembledStep
from idcontrol.filter.motion import Motion, accelerate, free_motion, pushed, velocity
from idcontrol.kernels.arena import Arena, flags, indices, mark, matrix, release, vector, zeros
from idcontrol.kernels.bound import Bound
from idcontrol.kernels.jit import njit
from idcontrol.kernels.lanes import dot
from idcontrol.kernels.linear import add, assign, cholesky, solve_lower, solve_lower_transposed
from idcontrol.models.dissipation import edge_lcp_kernel
from idcontrol.models.distribution import into_cones
from idcontrol.models.no_slip import SLIP_SPEED
from idcontrol.solvers.active_set import FEASIBLE
from idcontrol.solvers.cuts import cut, minimizer, refined, uncut, unscaled
from idcontrol.solvers.status import INFEASIBLE
from idcontrol.solvers.status import SOLVED as SOLVED_PROGRAM
from idcontrol.types import TOUCHING_N, Array, Booleans, Integers

TORQUE, SLIP, JOINT, FORCE, POWER = 1, 2, 4, 8, 16
"""Bits of `Filter.cut`: limits of motors; slip of feet; limits of joints, contact forces and power."""

FIRST_JOINT: Final = 32
"""Bit of the first joint in `Filter.cut`, which is set together with `JOINT`; the next joints have the next bits."""
MOST_JOINTS: Final = 58
"""Number of bits for joints; in a robot with more joints, the last bit stands for all remaining joints."""

SLOWS: Final = 0.95
"""Share γ of its slip that a contact may keep in a period."""

MET: Final = 1e-9
"""Relative excess at which a limit of force or power still counts as met."""
MOVED_BY_SLIP: Final = 1e-5
"""Excess of a joint's speed that still counts as allowed [rad/s]; above 1 rad/s it is relative to the speed. Contacts
that slip less than `SLIP_SPEED`, 1e-6 m/s, stand in the program; with levers of a decimetre they move joints by 1e-5
rad/s."""

GRAVITY: Final = 9.81
"""A contact can stop within a period if it slips slower than μ times this acceleration times the period [m/s²]."""

WRENCH_WEIGHT: Final = 100.0
"""Factor of the weight w of changes of the wrench: w is this factor times the weight of the weakest motor, divided by
the largest energy of a unit impulse at a contact. With a factor of 1, feet that the policy pulls together stay at the
edges of their friction, where the net lateral force follows from the loads: a standing robot tips over within a second.
With 100 it stands."""

FORCE_WEIGHT: Final = 1e-9
"""Weight ``small`` of contact impulses, relative to the largest weight of motor impulses [m²]: it makes forces unique.
"""

SOFT: Final = 1e2
"""Weight of the squared excess of a relaxed limit, relative to the cost of removing a unit of this excess."""

DEPENDENT: Final = 1e-8
"""Relative size up to which the entries of a row after the elimination are rounding errors."""

MOST_RELAXED: Final = 16
"""Largest number of relaxed limits."""


class _Prediction(NamedTuple):
    """The motion predicted for known torques.

    Attributes:
        motion: Velocities as functions of the contact impulses.
        pushes: True for contacts that carry load, shape (n,).
        slides: True for loaded contacts that slip, shape (n,).
        fast: True for sliding contacts that keep more than `SLOWS` of their slip, shape (n,).
        edges: Bit set of each contact's friction edges with an impulse (`idcontrol.models.dissipation`), shape (n,).
        slip: Slip at the beginning of the step, the larger value of both tangents, shape (n,) [m/s].
        broken: Bits of the limits that the motion breaks.
        residual: Relative residual of the contact problem.
    """

    motion: Motion
    pushes: Booleans
    slides: Booleans
    fast: Booleans
    edges: Integers
    slip: Array
    broken: int
    residual: float


class _Rows(NamedTuple):
    """Velocities of contacts as functions of x = (f, hτ), with the impulses f of s loaded contacts.

    Attributes:
        load: Indices of the loaded contacts, shape (s,).
        pushing: Indices of the loaded contacts' rows, shape (3 s,).
        J: Contact velocities per unit of x, shape (3 n, 3 s + a).
        still: Values of J x at which contact velocities are zero, shape (3 n,).
    """

    load: Integers
    pushing: Integers
    J: Array
    still: Array


class _Elimination(NamedTuple):
    """All solutions x = T y + x_0 of the contact law. The entries of y are the entries of x that remain unknown.

    Attributes:
        T: Shape (size, z), size is 3 s + a; the rows of entries that remain unknown are not written.
        x_0: Shape (size,); zero for entries that remain unknown.
        place: Index in y of each entry of x, -1 for an eliminated entry, shape (size,).
        reach: Largest magnitude in each row of T, 1 for entries that remain unknown, shape (size,).
        z: Number of entries that remain unknown.
    """

    T: Array
    x_0: Array
    place: Integers
    reach: Array
    z: int


class _Limits(NamedTuple):
    """Inequalities of the program, numbered: the contact law, the motors' limits, then limits that may be relaxed.

    The left-hand side of an inequality is a sum of up to three terms, multiples of entries of ``(x, J x, V x, power)``:
    unknowns, contact velocities, joint velocities and the power of all motors. The program gets an inequality when its
    solution without the inequality violates it.

    Attributes:
        entry: Index of each term's entry, shape (r, 3).
        factor: Factor of each term, shape (r, 3); zero for terms that do not exist.
        sides: Right-hand sides of ``left-hand side ≥ side``, shape (r,).
        caps: First number of the limits of forces and power.
        joints: First number of the limits of joints, after forces and power.
        passed: True for inequalities that the program got, shape (r,).
        G: Coefficients of y in the order in which the program gets inequalities, shape (r, z).
        least: Right-hand sides of G, shape (r,).
        number: Numbers of the inequalities in G, shape (r,).
    """

    entry: Integers
    factor: Array
    sides: Array
    caps: int
    joints: int
    passed: Booleans
    G: Array
    least: Array
    number: Integers


@njit(cache=True, inner=True, error_model="numpy")
def _broken(p: AssembledStep, v: Array, f: Array, impulse: Array) -> int:
    """Return the bits of the limits of joints, forces and power that a step breaks.

    Args:
        p: The step.
        v: Velocity at the end of the step, shape (m,).
        f: Contact impulses, shape (3 n,) [N s].
        impulse: Motor impulses, shape (a,) [N m s].
    """
    wanted, a, cut, power = p.wanted, impulse.shape[0], 0, 0.0
    u = v.shape[0] - a
    for j in range(a):
        slack = MOVED_BY_SLIP * max(abs(wanted.v[u + j]), 1.0)
        if not wanted.slowest[j] - slack <= v[u + j] <= wanted.fastest[j] + slack:
            cut |= JOINT | (FIRST_JOINT << min(j, MOST_JOINTS - 1))
        power += wanted.v[u + j] * impulse[j]
    if power > p.h * wanted.filter.power * (1.0 + MET):
        cut |= POWER
    for i in range(p.which.shape[0]):
        if f[i] > p.h * wanted.filter.force * (1.0 + MET):
            cut |= FORCE
    return cut


@njit(cache=True, inner=True, error_model="numpy")
def predict(p: AssembledStep, motion: Motion, impulse: Array, f: Array, arena: Arena) -> _Prediction:
    """Predict the motion by maximal dissipation.

    Args:
        p: The step; the search starts at `p.active` and updates it.
        motion: The motion for known motor impulses.
        impulse: These motor impulses, shape (a,) [N m s].
        f: Result, contact impulses, shape (3 n,) [N s].
        arena: Arena for all arrays.
    """
    n, jacobian, surface = p.which.shape[0], p.contacts.jacobian, p.contacts.surface_velocity
    edges, before = indices(arena, n), vector(arena, n)
    _, _, residual = edge_lcp_kernel(motion.rho, motion.c, motion.roundoff, p.cones.mu, p.active, f, arena)
    v = velocity(motion, f, arena)
    pushes, slides, fast = flags(arena, n), flags(arena, n), flags(arena, n)
    for i in range(n):
        slip, before[i] = 0.0, 0.0
        for r in (n + i, 2 * n + i):
            slip = max(slip, abs(dot(jacobian[r], v) - surface[r]))
            before[i] = max(before[i], abs(dot(jacobian[r], p.wanted.v) - surface[r]))
        edges[i] = p.active[i]
        pushes[i] = f[i] > p.h * TOUCHING_N
        slides[i] = pushes[i] and slip > SLIP_SPEED
        fast[i] = slides[i] and slip > SLOWS * before[i] + SLIP_SPEED  # the program may end at the limit
    broken = _broken(p, v, f, impulse) | (SLIP if fast.any() else 0)
    return _Prediction(motion, pushes, slides, fast, edges, before, broken, residual)


@njit(cache=True, inner=True, error_model="numpy")
def _rows(p: AssembledStep, wish: _Prediction, impulse: Array, arena: Arena) -> _Rows:
    """Return velocities as functions of the unknowns x; `impulse` (a,) are the motor impulses of the prediction."""
    motion, n, a, s = wish.motion, p.which.shape[0], impulse.shape[0], 0
    load, u = indices(arena, n), motion.W.shape[0] - a
    for i in range(n):
        if wish.pushes[i]:
            load[s] = i
            s += 1
    columns, pushing = 3 * s, indices(arena, 3 * s)
    for k in range(columns):
        pushing[k] = k // s * n + load[k % s]
    J, still = matrix(arena, 3 * n, columns + a), vector(arena, 3 * n)
    for r in range(3 * n):
        loaded = wish.pushes[r % n]
        for k in range(columns):
            if not loaded or pushing[k] <= r:
                J[r, k] = dot(motion.rho[r], motion.rho[pushing[k]])
        for j in range(a):
            J[r, columns + j] = motion.W[u + j, r]
        still[r] = dot(J[r, columns:], impulse) - motion.c[r]
    for k in range(columns):
        for q in range(k):
            J[pushing[q], k] = J[pushing[k], q]
    return _Rows(load[:s], pushing, J, still)


@njit(cache=True, inner=True, error_model="numpy")
def _edge(rows: _Rows, i: int, axis: int, slope: float, row: Array) -> float:
    """Write the row of N v⁺ + slope T v⁺, the velocity of an edge of contact i, in the unknowns x of `_Rows`.

    Return the value of row · x at which this velocity is zero.
    """
    n = rows.still.shape[0] // 3
    assign(row, rows.J[i])
    add(row, slope, rows.J[axis * n + i])
    at_rest: float = rows.still[i] + slope * rows.still[axis * n + i]
    return at_rest


@njit(cache=True, inner=True, forceinline=True, error_model="numpy")
def _sign(edges: int, axis: int) -> float:
    """Return the sign of the friction along tangent `axis` (1 or 2) from the bit set `edges`; 0 without friction."""
    return float((edges >> (2 * axis - 2)) & 1) - float((edges >> (2 * axis - 1)) & 1)


@njit(cache=True, inner=True, error_model="numpy")
def _law(p: AssembledStep, wish: _Prediction, rows: _Rows, slides: Booleans, arena: Arena) -> tuple[Array, Array]:
    """Return E (3 s, 3 s + a) and e (3 s,) of the contact laws E x = e: three rows for each loaded contact."""
    n, s, size = p.which.shape[0], rows.load.shape[0], rows.J.shape[1]
    E, e = matrix(arena, 3 * s, size), zeros(arena, 3 * s)
    for k in range(s):
        i, count = rows.load[k], 0
        if not slides[i]:
            for axis in range(3):
                assign(E[axis * s + k], rows.J[axis * n + i])
                e[axis * s + k] = rows.still[axis * n + i]
            continue
        mu = p.cones.mu[i]
        E[k] = 0.0
        E[k, k] = -mu
        for axis in (1, 2):  # the impulse lies on the facet of its edges, and these edges have no velocity
            r, sign = axis * s + k, _sign(wish.edges[i], axis)
            if sign == 0.0:
                E[r] = 0.0
                E[r, r] = 1.0
            else:
                E[k, r] = sign
                e[r] = _edge(rows, i, axis, sign * mu, E[r])
                count += 1
        if count == 0:  # without friction the contact stays closed
            assign(E[k], rows.J[i])
            e[k] = rows.still[i]
    return E, e


@njit(cache=True, inner=True, error_model="numpy")
def _pivot(work: Array, r: int, forces: int, least: float) -> int:
    """Return the column of the entry of row r of `work` with the largest magnitude; -1 if all are at most `least`.

    A column of a torque, from column `forces` on, is returned only if all entries of forces are at most `least`.
    """
    for begin, end in ((0, forces), (forces, work.shape[1] - 1)):
        best, largest = -1, least
        for c in range(begin, end):
            if abs(work[r, c]) > largest:
                best, largest = c, abs(work[r, c])
        if best >= 0:
            return best
    return -1


@njit(cache=True, inner=True, error_model="numpy")
def _eliminate(E: Array, e: Array, arena: Arena) -> tuple[bool, _Elimination]:
    """Solve E x = e for as many unknowns as there are independent rows, by Gauss-Jordan elimination.

    Args:
        E: Rows, shape (c, size); the first c unknowns are forces, which are eliminated first.
        e: Right-hand sides, shape (c,).
        arena: Arena for all arrays.

    Returns:
        True and all solutions; False if rows contradict each other, then the second result is unusable.
    """
    count, size = E.shape
    work, column, place = matrix(arena, count, size + 1), indices(arena, count), indices(arena, size)
    place[:] = 0
    for r in range(count):
        assign(work[r], E[r])
        work[r, size] = e[r]
    for r in range(count):
        unit = 0.0
        for c in range(size):
            unit = max(unit, abs(E[r, c]))
        column[r] = _pivot(work, r, count, DEPENDENT * unit)
        if column[r] < 0:
            if not abs(work[r, size]) <= SLIP_SPEED:
                return False, _Elimination(work, e, place, e, 0)
            continue
        place[column[r]] = -1
        inverse = 1.0 / work[r, column[r]]
        for c in range(size + 1):
            work[r, c] *= inverse
        for other in range(count):
            if other != r:
                add(work[other], -work[other, column[r]], work[r])
    z = 0
    for c in range(size):
        if place[c] == 0:
            place[c] = z
            z += 1
    T, x_0, reach = matrix(arena, size, z), zeros(arena, size), vector(arena, size)
    reach[:] = 1.0
    for r in range(count):
        i = column[r]
        if i >= 0:
            x_0[i], reach[i] = work[r, size], 0.0
            for c in range(size):
                if place[c] >= 0:
                    T[i, place[c]] = -work[r, c]
                    reach[i] = max(reach[i], abs(work[r, c]))
    return True, _Elimination(T, x_0, place, reach, z)


@njit(cache=True, inner=True, error_model="numpy")
def _substitute(row: Array, elimination: _Elimination, out: Array) -> float:
    """Write row · T into `out` (z,), zero if rounding is all that remains; return row · x_0."""
    T, x_0, place = elimination.T, elimination.x_0, elimination.place
    out[:] = 0.0
    constant, size, largest = 0.0, 0.0, 0.0
    for c in range(row.shape[0]):
        if row[c] != 0.0:
            size += abs(row[c]) * elimination.reach[c]
            if place[c] >= 0:
                out[place[c]] += row[c]
            else:
                add(out, row[c], T[c])
                constant += row[c] * x_0[c]
    for i in range(out.shape[0]):
        largest = max(largest, abs(out[i]))
    if largest <= DEPENDENT * size:
        out[:] = 0.0
    return constant


@njit(cache=True, inner=True, error_model="numpy")
def _reference(p: AssembledStep, rows: _Rows, elimination: _Elimination, f: Array, arena: Arena) -> Array:
    """Return the impulses of the loaded contacts, shape (3 s,), for torques that are not clipped to the motors' limits.

    Of several solutions, the shortest is returned.

    Args:
        p: The step.
        rows: Velocities as functions of the unknowns.
        elimination: Solutions of the contact law.
        f: Impulses of the prediction, shape (3 n,). If the contact law restricts the torques, the predicted
            impulses at loaded contacts are returned.
        arena: Arena for all arrays.
    """
    columns, (T, x_0, place, _, z) = rows.pushing.shape[0], elimination
    a = p.wanted.impulse.shape[0]
    known, free = vector(arena, columns), z - a
    for r in range(columns):
        known[r] = f[rows.pushing[r]]
    for j in range(a):
        if place[columns + j] < 0:
            return known
    slope, square, side = matrix(arena, columns, free), matrix(arena, free, free), zeros(arena, free)
    square[:] = 0.0
    for r in range(columns):
        slope[r] = 0.0
        known[r] = x_0[r]
        if place[r] >= 0:
            slope[r, place[r]] = 1.0
        else:
            assign(slope[r], T[r, :free])
            known[r] += dot(T[r, free:], p.wanted.impulse)
        add(side, -known[r], slope[r])
        for i in range(free):
            add(square[i], slope[r, i], slope[r])
    cholesky(square, square)  # at least the identity
    solve_lower(square, side)
    solve_lower_transposed(square, side)
    for r in range(columns):
        known[r] += dot(slope[r], side)
    return known


@njit(cache=True, inner=True, error_model="numpy")
def _wrench(p: AssembledStep, rows: _Rows, elimination: _Elimination, f: Array, arena: Arena) -> Array:
    """Return f° of the loaded contacts (3 s,), whose wrench the program approaches; arguments as in `_reference`."""
    columns, s = rows.pushing.shape[0], rows.load.shape[0]
    reference = _reference(p, rows, elimination, f, arena)
    across, friction = zeros(arena, 3), 0.0
    for k in range(s):
        i = rows.load[k]
        reference[k] = f[i]
        friction += p.cones.mu[i] * f[i]
        for axis in (1, 2):
            add(across, reference[axis * s + k], p.contacts.axes[i, axis])
    net = np.sqrt(dot(across, across))
    if net > friction:  # friction could give a larger net force only with larger loads, and the robot would hop
        for r in range(s, columns):
            reference[r] *= friction / net
    return reference


@njit(cache=True, inner=True, error_model="numpy")
def _objective(
    p: AssembledStep, rows: _Rows, elimination: _Elimination, reference: Array, arena: Arena
) -> tuple[Array, Array]:
    """Return H and g of the objective ½ yᵀH y + gᵀy; `reference`, shape (3 s,), is f° of the loaded contacts."""
    weight, columns, (T, x_0, place, _, z) = p.wanted.weight, rows.pushing.shape[0], elimination
    size, dimensions, unit, largest, t = place.shape[0], p.w.rho.shape[1], weight.max(), 0.0, 0
    for i in range(columns):
        rho = p.w.rho[rows.pushing[i]]
        largest = max(largest, dot(rho, rho))
    # squares of slope · y + at_zero: dimensions of the wrench, then eliminated unknowns
    slopes, at_zero = matrix(arena, z, dimensions + size - z), vector(arena, dimensions + size - z)
    row, slope, root = vector(arena, columns), vector(arena, z), 0.0
    if largest > 0.0:
        root = np.sqrt(WRENCH_WEIGHT * unit / largest)
    for d in range(dimensions):
        for i in range(columns):
            row[i] = p.w.rho[rows.pushing[i], d]
        at_zero[t] = root * (_substitute(row, elimination, slope) - dot(row, reference))
        for i in range(z):
            slopes[i, t] = root * slope[i]
        t += 1
    for c in range(size):
        if place[c] < 0:
            wanted = p.wanted.impulse[c - columns] if c >= columns else 0.0
            root = np.sqrt(weight[c - columns] if c >= columns else FORCE_WEIGHT * unit)
            at_zero[t] = root * (x_0[c] - wanted)
            for i in range(z):
                slopes[i, t] = root * T[c, i]
            t += 1
    H, g = matrix(arena, z, z), vector(arena, z)
    for i in range(z):
        g[i] = dot(slopes[i], at_zero)
        for j in range(i + 1):
            H[i, j] = H[j, i] = dot(slopes[i], slopes[j])
    for c in range(size):
        if place[c] >= 0:
            heavy = weight[c - columns] if c >= columns else FORCE_WEIGHT * unit
            H[place[c], place[c]] += heavy
            g[place[c]] -= heavy * (p.wanted.impulse[c - columns] if c >= columns else 0.0)
    return H, g


@njit(cache=True, inner=True, error_model="numpy")
def _limit(limits: _Limits, at: int, side: float, entry: int, factor: float) -> int:
    """Write side and first term of inequality number `at`; return at + 1."""
    limits.sides[at], limits.entry[at, 0], limits.factor[at, 0] = side, entry, factor
    return at + 1


@njit(cache=True, inner=True, error_model="numpy")
def _term(limits: _Limits, at: int, k: int, entry: int, factor: float) -> None:
    """Write term k of inequality number `at`."""
    limits.entry[at, k], limits.factor[at, k] = entry, factor


@njit(cache=True, inner=True, error_model="numpy")
def _law_limits(
    p: AssembledStep, wish: _Prediction, rows: _Rows, slides: Booleans, slows: bool, limits: _Limits
) -> int:
    """Write the inequalities of the contact law and of the motors' limits; return their number."""
    s, n, a, mu, at = rows.load.shape[0], p.which.shape[0], p.bounds.least.shape[0], p.cones.mu, 0
    columns, size = 3 * s, 3 * s + a
    for k in range(s):
        at = _limit(limits, at, 0.0, k, 1.0)
        for sign in (1.0, -1.0):
            for across in (1.0, -1.0):
                _term(limits, at, 1, s + k, sign)
                _term(limits, at, 2, 2 * s + k, across)
                at = _limit(limits, at, 0.0, k, mu[rows.load[k]])
    for j in range(a):
        for sign, bound in ((1.0, p.bounds.least[j]), (-1.0, p.bounds.most[j])):
            if np.isfinite(bound):
                at = _limit(limits, at, sign * bound, columns + j, sign)
    for i in range(n):
        if wish.pushes[i] and not slides[i]:
            continue
        for axis in (1, 2):
            for sign in (1.0, -1.0):
                if not (wish.pushes[i] and sign == _sign(wish.edges[i], axis)):
                    slope, along = sign * mu[i], axis * n + i
                    side = rows.still[i] + slope * rows.still[along]
                    _term(limits, at, 1, size + along, slope)
                    at = _limit(limits, at, side, size + i, 1.0)
        if slides[i] and slows:  # the law opens a sliding contact at μ times its slip
            side = -rows.still[i] - mu[i] * SLOWS * wish.slip[i]
            at = _limit(limits, at, side, size + i, -1.0)
    return at


@njit(cache=True, inner=True, error_model="numpy")
def _limits(
    p: AssembledStep,
    wish: _Prediction,
    rows: _Rows,
    slides: Booleans,
    slows: bool,
    impulse: Array,
    z: int,
    arena: Arena,
) -> _Limits:
    """Return the inequalities; the program, with z unknowns, has none yet.

    With `slows`, the slip of sliding contacts is limited. `impulse` (a,) are the motor impulses of the prediction.
    """
    wanted, s, n, motion = p.wanted, rows.load.shape[0], p.which.shape[0], wish.motion
    a, m = impulse.shape[0], motion.W.shape[0]
    u, speeds, most = m - a, 3 * s + a + 3 * n, 5 * s + 4 * a + 5 * n + s + 1
    entry, factor, sides = indices(arena, 3 * most).reshape((most, 3)), matrix(arena, most, 3), vector(arena, most)
    passed = flags(arena, most)
    passed[:], entry[:], factor[:] = False, 0, 0.0
    limits = _Limits(
        entry, factor, sides, 0, 0, passed, matrix(arena, most, z), vector(arena, most), indices(arena, most)
    )
    caps = _law_limits(p, wish, rows, slides, slows, limits)
    at = caps
    if wanted.filter.force < np.inf:
        for k in range(s):
            at = _limit(limits, at, -p.h * wanted.filter.force, k, -1.0)
    if wanted.filter.power < np.inf:
        at = _limit(limits, at, -p.h * wanted.filter.power, speeds + a, -1.0)
    joints, idle = at, zeros(arena, m)
    assign(idle[u:], impulse)
    accelerate(motion.H, idle)
    for j in range(a):
        for sign, bound in ((1.0, wanted.slowest[j]), (-1.0, wanted.fastest[j])):
            if np.isfinite(bound):
                side = sign * (bound - motion.v_free[u + j] + idle[u + j])
                at = _limit(limits, at, side, speeds + j, sign)
    return _Limits(
        entry[:at], factor[:at], sides[:at], caps, joints, passed[:at], limits.G, limits.least, limits.number
    )


@njit(cache=True, inner=True, error_model="numpy")
def _entries(p: AssembledStep, wish: _Prediction, rows: _Rows, x: Array, arena: Arena) -> Array:
    """Return the values of (x, J x, V x, power); each inequality is a sum of some of them."""
    motion, columns, size = wish.motion, rows.pushing.shape[0], x.shape[0]
    m, contacts, a = motion.W.shape[0], rows.still.shape[0], size - columns
    values, v, u = vector(arena, size + contacts + a + 1), zeros(arena, m), m - a
    f = zeros(arena, contacts)
    assign(values, x)
    for r in range(contacts):
        values[size + r] = dot(rows.J[r], x)
    for k in range(columns):
        f[rows.pushing[k]] = x[k]
    assign(v[u:], x[columns:])
    accelerate(motion.H, v)
    for j in range(a):
        values[size + contacts + j] = v[u + j] + dot(motion.W[u + j], f)
    values[size + contacts + a] = dot(p.wanted.v[u:], x[columns:])
    return values


@njit(cache=True, inner=True, error_model="numpy")
def _coefficients(
    p: AssembledStep, wish: _Prediction, rows: _Rows, limits: _Limits, r: int, row: Array, arena: Arena
) -> None:
    """Write the coefficients of x of inequality r into `row` (size,)."""
    motion, columns, size = wish.motion, rows.pushing.shape[0], row.shape[0]
    m, contacts, a = motion.W.shape[0], rows.still.shape[0], size - columns
    u, at = m - a, mark(arena)
    row[:] = 0.0
    for k in range(3):
        entry, factor = limits.entry[r, k], limits.factor[r, k]
        if factor == 0.0:
            continue
        if entry < size:
            row[entry] += factor
        elif entry < size + contacts:
            add(row, factor, rows.J[entry - size])
        elif entry < size + contacts + a:
            j, push = entry - size - contacts, zeros(arena, m)
            push[u + j] = factor
            accelerate(motion.H, push)
            assign(row[columns:], push[u:])
            for i in range(columns):
                row[i] = factor * motion.W[u + j, rows.pushing[i]]
        else:
            add(row[columns:], factor, p.wanted.v[u:])
    release(arena, at)


@njit(cache=True, inner=True, error_model="numpy")
def _pass_violated(
    p: AssembledStep,
    wish: _Prediction,
    rows: _Rows,
    limits: _Limits,
    elimination: _Elimination,
    y: Array,
    count: int,
    arena: Arena,
) -> int:
    """Append the inequalities that y violates to the `count` inequalities in G; return their new number."""
    at, (T, x_0, place, _, _) = mark(arena), elimination
    x, row = vector(arena, place.shape[0]), vector(arena, place.shape[0])
    for i in range(x.shape[0]):
        x[i] = y[place[i]] if place[i] >= 0 else x_0[i] + dot(T[i], y)
    values, length = _entries(p, wish, rows, x, arena), np.sqrt(dot(x, x))
    for r in range(limits.sides.shape[0]):
        entry, factor = limits.entry[r], limits.factor[r]
        miss = limits.sides[r] - factor[0] * values[entry[0]]
        miss -= factor[1] * values[entry[1]] + factor[2] * values[entry[2]]
        if miss > 0.0 and not limits.passed[r]:
            _coefficients(p, wish, rows, limits, r, row, arena)
            if not miss > FEASIBLE * length * np.sqrt(dot(row, row)):
                continue
            G, limits.passed[r], limits.number[count] = limits.G[count], True, r
            limits.least[count] = limits.sides[r] - _substitute(row, elimination, G)
            # the law alone decides whether a row without entries holds
            if limits.least[count] > SLIP_SPEED or dot(G, G) > 0.0:
                count += 1
    release(arena, at)
    return count


@njit(cache=True, inner=True, error_model="numpy")
def _relax(limits: _Limits, begin: int, count: int, H: Array, g: Array, certificate: Array) -> bool:
    """Move the relaxable inequality with the largest share in a conflict from the program to its objective.

    An inequality whose row is zero in y comes first.

    Args:
        limits: The inequalities; the relaxed row of G becomes zero.
        begin: First number of an inequality that may be relaxed.
        count: Number of inequalities in G.
        H: Matrix of the objective.
        g: Linear part of the objective.
        certificate: Multipliers that prove the conflict, one for each inequality in G.

    Returns:
        False if no relaxable inequality takes part in the conflict.
    """
    row, worst, unit = -1, 0.0, 1.0
    for r in range(count):
        if limits.number[r] >= begin and certificate[r] > 0.0:
            square = 0.0
            for d in range(H.shape[0]):
                square += limits.G[r, d] ** 2 / H[d, d]
            if square == 0.0:  # only the contact law decides whether this limit holds
                row, unit = r, 1.0
                break
            if certificate[r] * np.sqrt(square) > worst:
                row, worst, unit = r, certificate[r] * np.sqrt(square), square
    if row < 0:
        return False
    for d in range(H.shape[0]):
        add(H[d], SOFT / unit * limits.G[row, d], limits.G[row])
    add(g, -SOFT / unit * limits.least[row], limits.G[row])
    limits.G[row] = 0.0  # always satisfied
    limits.least[row] = -1.0
    return True


@njit(cache=True, inner=True, error_model="numpy")
def nearest_torques(
    p: AssembledStep, wish: _Prediction, slows: bool, relaxes: bool, f: Array, impulse: Array, arena: Arena
) -> bool:
    """Solve the program of this module: find the admissible torques nearest to the wanted torques.

    Args:
        p: The step.
        wish: The prediction for the wanted torques, clipped to the motors' limits.
        slows: True to limit slip; False to let contacts slide as in the prediction.
        relaxes: True to relax conflicting limits of joints and, if `slows` is False, of forces and power.
        f: In: impulses for the wanted torques; out: impulses, shape (3 n,).
        impulse: In: motor impulses of the prediction; out: of the solution, shape (a,) [N m s].
        arena: Arena for all arrays.

    Returns:
        False if there is no solution; f and impulse are then unchanged.
    """
    n, rows, slides = p.which.shape[0], _rows(p, wish, impulse, arena), flags(arena, p.which.shape[0])
    for i in range(n):
        rest = p.cones.mu[i] * GRAVITY * p.h
        slides[i] = wish.slides[i] and (not slows or wish.slip[i] > rest)
    columns = rows.pushing.shape[0]
    E, e = _law(p, wish, rows, slides, arena)
    agree, elimination = _eliminate(E, e, arena)
    if not agree:
        return False
    H, g = _objective(p, rows, elimination, _wrench(p, rows, elimination, f, arena), arena)
    limits = _limits(p, wish, rows, slides, slows, impulse, elimination.z, arena)
    begin = limits.joints if slows else limits.caps
    y, cuts, known, count, relaxed = vector(arena, elimination.z), uncut(H, g, arena), 0, 0, 0
    while True:
        if count > known:
            cuts, known = cut(cuts, limits.G[known:count], limits.least[known:count], arena), count
        if cuts.nearest.status == INFEASIBLE and relaxes and relaxed < MOST_RELAXED:
            if not _relax(limits, begin, count, H, g, unscaled(cuts, arena)):
                return False
            cuts, known, relaxed = uncut(H, g, arena), 0, relaxed + 1
            continue
        if cuts.nearest.status != SOLVED_PROGRAM:
            return False
        minimizer(cuts, y)
        count = _pass_violated(p, wish, rows, limits, elimination, y, known, arena)
        if count == known:
            break
    answer = refined(cuts, limits.G[:count], limits.least[:count], arena)
    if not answer.residual <= ACCURATE:
        return False
    T, x_0, place = elimination.T, elimination.x_0, elimination.place
    f[:] = 0.0
    for i in range(place.shape[0]):
        x = answer.x[place[i]] if place[i] >= 0 else x_0[i] + dot(T[i], answer.x)
        if i < columns:
            f[rows.pushing[i]] = x
        else:
            impulse[i - columns] = min(max(x, p.bounds.least[i - columns]), p.bounds.most[i - columns])
    into_cones(p.cones.mu, p.cones.held, f)
    return True


@njit(cache=True, error_model="numpy")
def filtered(held: Bound, f: Array, arena: Arena) -> Answer:
    """Compute the admissible torques nearest to the wanted torques, as a scheme (`idcontrol.controllers.schemes`).

    Contact impulses are written into `f`, shape (3 n,) [N s].
    """
    p = held.borrowed
    a = p.bounds.least.shape[0]
    impulse, cut = vector(arena, a), 0
    for j in range(a):
        impulse[j] = min(max(p.wanted.impulse[j], p.bounds.least[j]), p.bounds.most[j])
        if impulse[j] != p.wanted.impulse[j]:
            cut |= TORQUE
    wish = predict(p, free_motion(p, impulse, arena), impulse, f, arena)
    if wish.broken == 0:
        p.wanted.filter.cut[0] = cut
        return Answer(MOVED if cut else SOLVED, False, wish.residual, impulse, np.nan)
    solved, residual, broken, change = False, wish.residual, wish.broken, vector(arena, a)
    assign(change, impulse)
    for level in range(4):
        solved = nearest_torques(p, wish, level % 2 == 0, level >= 2, f, impulse, arena)
        if solved:
            break
    if solved:
        for j in range(a):
            change[j] = impulse[j] - change[j]
        result = predict(p, pushed(p, wish.motion, change, arena), impulse, f, arena)
        residual, broken = result.residual, result.broken
    p.wanted.filter.cut[0] = cut | wish.broken
    p.wanted.filter.cut[1] = broken
    return Answer(SLIPS if broken & SLIP else MOVED, False, residual, impulse, np.nan)


SCHEME: Final = Scheme(name="dissipation", solve=filtered, model=COULOMB_QP.model, forward=COULOMB_QP.forward)
