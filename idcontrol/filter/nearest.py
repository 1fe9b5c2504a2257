r"""The admissible torques that are nearest to the torques of a policy.

The contact law of maximal dissipation predicts motion and forces for the wanted torques τ*, clipped to the motors'
limits. These torques are applied if the motion keeps all limits and every foot that slips slows down. Otherwise::

    minimize   ½ Σ ((τ_j - τ*_j) / limit_j)² + ½ w |J_bᵀ(f - f°)|² + small ½ |f|²
    s.t.       M v⁺ + κ = Jᵀf + Pᵀ(hτ)
               N v⁺ + φ/h = 0, T v⁺ = 0,  f in the friction pyramids        contacts that stand
               N v⁺ + φ/h ± μ T v⁺ = 0 on edges with f,  |T v⁺| ≤ γ |T v|   contacts that slide
               N v⁺ + φ/h ± μ T v⁺ ≥ 0,  f = 0                              contacts that open
               N f ≤ h force_max;  τ and P v⁺ within bounds;  (P v)ᵀτ ≤ power_max

The prediction decides the role of each contact. A contact without load opens. A loaded contact slides if it slips in
the prediction, and already slips too fast to stop within a period; its friction acts along the same edges as in the
prediction. All other contacts stand. The rows of each role state its contact law, so the program computes the motion
that its torques cause.

The reference f° consists of the predicted normal impulses, and of tangential impulses computed for the same roles and
τ* without the motors' limits. If the sum of the tangential impulses exceeds the friction of all loaded contacts, they
are scaled down. Normal impulses without the motors' limits would push the base up: feet that the hips of go1 pull apart
by 0.15 rad would carry 1.8 times the weight.

J_bᵀ(f - f°) is the change of the wrench on the robot, and |…|² is the kinetic energy of this change with locked joints.
Feet that pull against each other do not change the wrench, but feedback that keeps the base upright does. So the
program reduces opposing forces first, and the base moves as the policy wants if possible. Without this term, two hips
beyond their limits would lose all of their feedback.

If no torques satisfy all rows, the program is relaxed in this order:

1. Contacts may slip as in the prediction.
2. Slip is bounded again. Conflicting limits of joints are relaxed one by one: such a joint brakes as hard as the other
   rows permit.
3. Contacts may slip, and both joint limits and caps are relaxed.

If there is still no solution, the wanted torques are applied, clipped to the motors' limits.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from idcontrol.controllers.repair import ACCURATE, condition, limit_rows, motions, roles
from idcontrol.controllers.schemes import COULOMB_QP, Scheme
from idcontrol.controllers.step import MOVED, SLIPS, SOLVED, Answer, AssembledStep
from idcontrol.kernels.arena import Arena, flags, indices, matrix, vector, zeros
from idcontrol.kernels.bound import Bound
from idcontrol.kernels.jit import njit
from idcontrol.kernels.lanes import dot
from idcontrol.kernels.linear import add, assign, assign_rows
from idcontrol.models.dissipation import edge_lcp_kernel
from idcontrol.models.distribution import into_cones
from idcontrol.models.no_slip import SLIP_SPEED
from idcontrol.models.step import PUSH_OUT_SPEED
from idcontrol.models.whitened import Whitened, recover_kernel, uncertain, whiten_rows_kernel
from idcontrol.solvers.active_set_qp import QuadraticProgram, qp_kernel
from idcontrol.solvers.status import INFEASIBLE
from idcontrol.types import TOUCHING_N, Array, Booleans, Integers

TORQUE, SLIP, JOINT, FORCE, POWER = 1, 2, 4, 8, 16
"""Bits of `Filter.cut`: limits of motors; slip of feet; limits of joints, contact forces and power."""

FIRST_JOINT: Final = 32
"""Bit of the first joint in `Filter.cut`, set with `JOINT`; the next joints have the next bits."""
MOST_JOINTS: Final = 58
"""Number of joints with a bit of their own; further joints share the last bit."""

SLOWS: Final = 0.95
"""Share γ of its slip that a contact may keep in a period, as in `idcontrol.contact.landing`."""

MET: Final = 1e-9
"""Relative excess at which a cap of force or power still counts as met."""
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
"""Weight of contact impulses relative to the largest weight of motor impulses [m²]: it makes forces unique."""

SOFT: Final = 1e2
"""Weight of a relaxed limit, relative to the cost of the changes of torques and forces that restore it."""

MOST_RELAXED: Final = 16
"""Largest number of relaxed limits."""


@njit(cache=True, inner=True, error_model="numpy")
def _free_motion(p: AssembledStep, impulse: Array, arena: Arena) -> Whitened:
    """Return the step relative to the detected ground, with given motor impulses (a,) and all velocities unknown."""
    m, n, u = p.w.M.shape[0], p.which.shape[0], p.w.M.shape[0] - impulse.shape[0]
    kappa, everything = vector(arena, m), indices(arena, m)
    for i in range(m):
        everything[i] = i
        kappa[i] = p.w.kappa[i] - (impulse[i - u] if i >= u else 0.0)
    w, _ = whiten_rows_kernel(p.w.M, kappa, everything, indices(arena, 0), vector(arena, 0), p.contacts.jacobian, arena)
    for r in range(3 * n):
        w.c[r] -= p.contacts.surface_velocity[r]
    for i in range(n):
        w.c[i] += max(p.contacts.gap[i] / p.h, -PUSH_OUT_SPEED)
    return w


class _Prediction(NamedTuple):
    """The motion predicted for known torques.

    Attributes:
        w: The whitened problem with known motor impulses.
        pushes: Contacts that carry load, shape (n,).
        slides: Loaded contacts that slip, shape (n,).
        fast: Sliding contacts that keep more than `SLOWS` of their slip, shape (n,).
        edges: Bit set of each contact's friction edges with an impulse (`idcontrol.models.dissipation`), shape (n,).
        slip: Slip at the beginning of the step, the larger of both axes, shape (n,) [m/s].
        broken: Bits of the limits that the motion breaks.
        residual: Relative residual of the contact problem.
    """

    w: Whitened
    pushes: Booleans
    slides: Booleans
    fast: Booleans
    edges: Integers
    slip: Array
    broken: int
    residual: float


class _Rows(NamedTuple):
    """Velocities of contacts and joints in the unknowns x = (f, hτ) with the impulses f of s loaded contacts.

    Attributes:
        w: The step with unknown motor impulses.
        load: Loaded contacts, shape (s,).
        pushing: Rows of the loaded contacts, shape (3 s,).
        A: Velocities per unit of x, and in the last column at x = 0, shape (m, 3 s + a + 1).
        J: Contact velocities per unit of x, shape (3 n, 3 s + a).
        still: Values of J x at which contact velocities are zero, shape (3 n,).
    """

    w: Whitened
    load: Integers
    pushing: Integers
    A: Array
    J: Array
    still: Array


class _Limits(NamedTuple):
    """Inequalities G x ≥ least: the contact law and the motors' limits, then limits that may be relaxed.

    Attributes:
        G: Rows, shape (r, size).
        least: Right-hand sides, shape (r,).
        joints: First row of the limits of joints.
        caps: First row of the caps of forces and power, after the joints.
    """

    G: Array
    least: Array
    joints: int
    caps: int


@njit(cache=True, inner=True, error_model="numpy")
def _broken(p: AssembledStep, v: Array, f: Array, impulse: Array) -> int:
    """Return the bits of the limits of joints, forces and power that a motion v (m,) breaks."""
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
def predict(p: AssembledStep, impulse: Array, f: Array, arena: Arena) -> _Prediction:
    """Predict the motion under known motor impulses (a,) by maximal dissipation; write contact impulses f (3 n,)."""
    n, jacobian, surface = p.which.shape[0], p.contacts.jacobian, p.contacts.surface_velocity
    w, edges, before = _free_motion(p, impulse, arena), indices(arena, n), vector(arena, n)
    _, _, residual = edge_lcp_kernel(w.rho, w.c, uncertain(w, arena), p.cones.mu, p.active, f, arena)
    v, _ = recover_kernel(w, f, arena)
    pushes, slides, fast = flags(arena, n), flags(arena, n), flags(arena, n)
    for i in range(n):
        slip, before[i] = 0.0, 0.0
        for r in (n + i, 2 * n + i):
            slip = max(slip, abs(dot(jacobian[r], v) - surface[r]))
            before[i] = max(before[i], abs(dot(jacobian[r], p.wanted.v) - surface[r]))
        edges[i] = p.active[i]
        pushes[i] = f[i] > p.h * TOUCHING_N
        slides[i] = pushes[i] and slip > SLIP_SPEED
        fast[i] = slides[i] and slip > SLOWS * before[i]
    broken = _broken(p, v, f, impulse) | (SLIP if fast.any() else 0)
    return _Prediction(w, pushes, slides, fast, edges, before, broken, residual)


@njit(cache=True, inner=True, error_model="numpy")
def _rows(p: AssembledStep, wish: _Prediction, arena: Arena) -> _Rows:
    """Return the velocities of contacts and joints as functions of the unknowns."""
    n, m, a = p.which.shape[0], p.w.M.shape[0], p.bounds.least.shape[0]
    part = Whitened(wish.w.M, p.w.kappa, wish.w.free, p.w.fixed, wish.w.L, wish.w.v_free, wish.w.rows, wish.w.rho,
                    wish.w.c, wish.w.roundoff)  # fmt: skip
    load, _, pushing = roles(part, wish.pushes, arena)
    A = matrix(arena, m, pushing.shape[0] + a + 1)
    motions(part, pushing, A, arena)
    J, still = matrix(arena, 3 * n, A.shape[1] - 1), vector(arena, 3 * n)
    for r in range(3 * n):
        still[r] = condition(part, r, A, J[r])
    return _Rows(part, load, pushing, A, J, still)


@njit(cache=True, inner=True, error_model="numpy")
def _edge(rows: _Rows, i: int, axis: int, slope: float, row: Array) -> float:
    """Write the row of N v⁺ + slope T v⁺, an edge's velocity at contact i; return row · x for which it is zero."""
    n = rows.still.shape[0] // 3
    assign(row, rows.J[i])
    add(row, slope, rows.J[axis * n + i])
    at_rest: float = rows.still[i] + slope * rows.still[axis * n + i]
    return at_rest


@njit(cache=True, inner=True, forceinline=True, error_model="numpy")
def _sign(edges: int, axis: int) -> float:
    """Return the sign of the friction along an axis, 1 or 2, with impulses on these edges; 0 without friction."""
    return float((edges >> (2 * axis - 2)) & 1) - float((edges >> (2 * axis - 1)) & 1)


@njit(cache=True, inner=True, error_model="numpy")
def _law(p: AssembledStep, wish: _Prediction, rows: _Rows, slides: Booleans, arena: Arena) -> tuple[Array, Array]:
    """Return E and e of the equalities E x = e: three for each loaded contact."""
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
def _reference(p: AssembledStep, rows: _Rows, E: Array, e: Array, f: Array, arena: Arena) -> Array:
    """Return the impulses of the loaded contacts for the wanted torques, without the motors' limits, shape (3 s,).

    Args:
        p: The step.
        rows: Velocities as functions of the unknowns.
        E: Equalities of the contact law.
        e: Right-hand sides of the equalities.
        f: Impulses of the prediction, shape (3 n,), which are returned if the equalities have no solution.
        arena: Arena for all arrays.
    """
    columns = rows.pushing.shape[0]
    H, square, sides = matrix(arena, columns, columns), matrix(arena, columns, columns), vector(arena, columns)
    H[:] = 0.0
    for r in range(columns):
        H[r, r] = 1.0
        assign(square[r], E[r, :columns])
        sides[r] = e[r] - dot(E[r, columns:], p.wanted.impulse)
    nothing = vector(arena, 0)
    # roles of many contacts may be redundant: the shortest solution
    answer = qp_kernel(
        QuadraticProgram(H, zeros(arena, columns), matrix(arena, 0, columns), nothing, square, sides), arena
    )
    if answer.residual <= ACCURATE:
        assign(sides, answer.x)
    else:
        for r in range(columns):
            sides[r] = f[rows.pushing[r]]
    return sides


@njit(cache=True, inner=True, error_model="numpy")
def _wrench(p: AssembledStep, rows: _Rows, E: Array, e: Array, f: Array, arena: Arena) -> Array:
    """Return the impulses f° of the loaded contacts, whose wrench the program keeps; arguments as in `_reference`."""
    columns, s = rows.pushing.shape[0], rows.load.shape[0]
    reference = _reference(p, rows, E, e, f, arena)
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
def _objective(p: AssembledStep, rows: _Rows, reference: Array, arena: Arena) -> tuple[Array, Array]:
    """Return H and g of the objective ½ xᵀH x + gᵀx; `reference`, shape (3 s,), is f° of the loaded contacts."""
    weight, columns, size = p.wanted.weight, rows.pushing.shape[0], rows.J.shape[1]
    H, g = matrix(arena, size, size), zeros(arena, size)
    H[:] = 0.0
    for j in range(size - columns):
        H[columns + j, columns + j] = weight[j]
        g[columns + j] = -weight[j] * p.wanted.impulse[j]
    unit, largest = weight.max(), 0.0
    for i in range(columns):
        rho = p.w.rho[rows.pushing[i]]
        largest = max(largest, dot(rho, rho))
    for i in range(columns):
        for j in range(columns):
            if largest > 0.0:
                H[i, j] = WRENCH_WEIGHT * unit / largest * dot(p.w.rho[rows.pushing[i]], p.w.rho[rows.pushing[j]])
            g[i] -= H[i, j] * reference[j]
        H[i, i] += FORCE_WEIGHT * unit
    return H, g


@njit(cache=True, inner=True, error_model="numpy")
def _limits(p: AssembledStep, wish: _Prediction, rows: _Rows, slides: Booleans, slows: bool, arena: Arena) -> _Limits:
    """Return the inequalities of the program; `slows` is True to limit the slip of sliding contacts."""
    wanted, A, s, n, mu = p.wanted, rows.A, rows.load.shape[0], p.which.shape[0], p.cones.mu
    a, columns, size = wanted.impulse.shape[0], rows.pushing.shape[0], rows.J.shape[1]
    u = A.shape[0] - a
    basic, basic_least = limit_rows(rows.w, mu, p.bounds, rows.load, indices(arena, 0), A, arena)
    at = basic.shape[0]
    most = at + 5 * n + s + 1 + 2 * a
    G, least = matrix(arena, most, size), vector(arena, most)
    assign_rows(G[:at], basic)
    assign(least[:at], basic_least)
    G[at:] = 0.0
    for i in range(n):
        if wish.pushes[i] and not slides[i]:
            continue
        for axis in (1, 2):
            for sign in (1.0, -1.0):
                if not (wish.pushes[i] and sign == _sign(wish.edges[i], axis)):
                    least[at] = _edge(rows, i, axis, sign * mu[i], G[at])
                    at += 1
        if slides[i] and slows:  # the law opens a sliding contact at μ times its slip
            add(G[at], -1.0, rows.J[i])
            least[at] = -rows.still[i] - mu[i] * SLOWS * wish.slip[i]
            at += 1
    joints = at
    for j in range(a):
        for sign, bound in ((1.0, wanted.slowest[j]), (-1.0, wanted.fastest[j])):
            if np.isfinite(bound):
                for d in range(size):
                    G[at, d] = sign * A[u + j, d]
                least[at] = sign * (bound - A[u + j, size])
                at += 1
    caps = at
    if wanted.filter.force < np.inf:
        for k in range(s):
            G[at, k], least[at] = -1.0, -p.h * wanted.filter.force
            at += 1
    if wanted.filter.power < np.inf:
        for j in range(a):
            G[at, columns + j] = -wanted.v[u + j]
        least[at] = -p.h * wanted.filter.power
        at += 1
    return _Limits(G[:at], least[:at], joints, caps)


@njit(cache=True, inner=True, error_model="numpy")
def _conflict(limits: _Limits, to: int, H: Array, certificate: Array) -> tuple[int, float]:
    """Return the relaxable row r with the largest share in a conflict (-1 without such a row), and G_r H⁻¹ G_rᵀ.

    Args:
        limits: The inequalities.
        to: Rows from here on are not relaxed.
        H: Matrix of the objective; only its diagonal is used.
        certificate: Multipliers that prove the conflict, one for each inequality.
    """
    row, worst, unit = -1, 0.0, 0.0
    for r in range(limits.joints, to):
        if certificate[r] > 0.0:
            square = 0.0
            for d in range(H.shape[0]):
                square += limits.G[r, d] ** 2 / H[d, d]
            if certificate[r] * np.sqrt(square) > worst:
                row, worst, unit = r, certificate[r] * np.sqrt(square), square
    return row, unit


@njit(cache=True, inner=True, error_model="numpy")
def nearest_torques(
    p: AssembledStep, wish: _Prediction, slows: bool, relaxes: bool, f: Array, impulse: Array, arena: Arena
) -> bool:
    """Solve the program of this module: find the admissible torques nearest to the wanted torques.

    Args:
        p: The step.
        wish: The prediction for the wanted torques.
        slows: True to limit slip; False to let contacts slide as in the prediction.
        relaxes: True to relax conflicting limits of joints and, if `slows` is False, caps of forces and power.
        f: In: impulses for the wanted torques; out: impulses, shape (3 n,).
        impulse: Out: motor impulses, shape (a,) [N m s].
        arena: Arena for all arrays.

    Returns:
        False if there is no solution; f and impulse are then unchanged.
    """
    n, rows, slides = p.which.shape[0], _rows(p, wish, arena), flags(arena, p.which.shape[0])
    for i in range(n):
        rest = p.cones.mu[i] * GRAVITY * p.h
        slides[i] = wish.slides[i] and (not slows or wish.slip[i] > rest)
    columns = rows.pushing.shape[0]
    E, e = _law(p, wish, rows, slides, arena)
    H, g = _objective(p, rows, _wrench(p, rows, E, e, f, arena), arena)
    limits = _limits(p, wish, rows, slides, slows, arena)
    for _ in range(MOST_RELAXED + 1):
        answer = qp_kernel(QuadraticProgram(H, g, limits.G, limits.least, E, e), arena)
        if answer.status != INFEASIBLE or not relaxes:
            break
        to = limits.caps if slows else limits.least.shape[0]
        row, unit = _conflict(limits, to, H, answer.multipliers[columns:])
        if row < 0:
            break
        for d in range(H.shape[0]):
            add(H[d], SOFT / unit * limits.G[row, d], limits.G[row])
        add(g, -SOFT / unit * limits.least[row], limits.G[row])
        limits.G[row] = 0.0  # always satisfied
        limits.least[row] = -1.0
    if not answer.residual <= ACCURATE:
        return False
    f[:] = 0.0
    for r in range(columns):
        f[rows.pushing[r]] = answer.x[r]
    into_cones(p.cones.mu, p.cones.held, f)
    for j in range(impulse.shape[0]):
        impulse[j] = min(max(answer.x[columns + j], p.bounds.least[j]), p.bounds.most[j])
    return True


@njit(cache=True, error_model="numpy")
def filtered(held: Bound, f: Array, arena: Arena) -> Answer:
    """Compute the admissible torques nearest to the wanted torques, as a scheme (`idcontrol.controllers.schemes`)."""
    p = held.borrowed
    a = p.bounds.least.shape[0]
    impulse, cut = vector(arena, a), 0
    for j in range(a):
        impulse[j] = min(max(p.wanted.impulse[j], p.bounds.least[j]), p.bounds.most[j])
        if impulse[j] != p.wanted.impulse[j]:
            cut |= TORQUE
    wish = predict(p, impulse, f, arena)
    if wish.broken == 0:
        p.wanted.filter.cut[0] = cut
        return Answer(MOVED if cut else SOLVED, False, wish.residual, impulse, np.nan)
    solved, residual, broken = False, wish.residual, wish.broken
    for level in range(4):
        solved = nearest_torques(p, wish, level % 2 == 0, level >= 2, f, impulse, arena)
        if solved:
            break
    if solved:
        result = predict(p, impulse, f, arena)
        residual, broken = result.residual, result.broken
    p.wanted.filter.cut[0] = cut | wish.broken
    p.wanted.filter.cut[1] = broken
    return Answer(SLIPS if broken & SLIP else MOVED, False, residual, impulse, np.nan)


SCHEME: Final = Scheme(name="dissipation", solve=filtered, model=COULOMB_QP.model, forward=COULOMB_QP.forward)
