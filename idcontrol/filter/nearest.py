r"""The admissible torques that are nearest to the torques of a policy.

The contact law of maximal dissipation predicts motion and forces f* for the wanted torques τ*. If no foot slips and all
limits hold, the torques are bitwise unchanged. Otherwise::

    minimize   ½ Σ ((τ_j - τ*_j) / limit_j)² + ½ w Σ (N f - N f*)² + small ½ |f|²
    s.t.       M v⁺ + κ = Jᵀf + Pᵀ(hτ)
               N v⁺ + φ/h = 0, T v⁺ = γ T v,  f in the friction pyramids,  N f ≤ h force_max    contacts that stand
               N v⁺ + φ/h ≥ 0,  f = 0                                                           contacts that open
               f = f*                                                                           contacts that slow down
               τ and P v⁺ within bounds,  (P v)ᵀτ ≤ power_max

The prediction for τ* decides the role of each contact. A loaded contact must stand if it sticks, or if its slip would
decrease by less than the fraction 1 - γ. A contact without load opens. Other contacts slow down enough without help,
and keep their impulses. If no torques satisfy all rows, the program is relaxed: first the bounds of the joints are
dropped, if the wanted torques break them; then contacts may slip. If there is still no solution, the wanted torques are
used, within the motors' limits.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from idcontrol.controllers.repair import ACCURATE, condition, limit_rows, motions, roles
from idcontrol.controllers.schemes import COULOMB_QP, Scheme
from idcontrol.controllers.step import MOVED, SLIPS, SOLVED, Answer, AssembledStep
from idcontrol.kernels.arena import Arena, flags, indices, matrix, vector, zeros
from idcontrol.kernels.jit import njit
from idcontrol.kernels.lanes import dot
from idcontrol.kernels.linear import add, assign, assign_rows
from idcontrol.models.dissipation import edge_lcp_kernel
from idcontrol.models.distribution import MET, into_cones
from idcontrol.models.no_slip import SLIP_SPEED
from idcontrol.models.step import PUSH_OUT_SPEED
from idcontrol.models.whitened import Whitened, recover_kernel, uncertain, whiten_rows_kernel
from idcontrol.solvers.active_set_qp import QuadraticProgram, qp_kernel
from idcontrol.types import TOUCHING_N, Array, Booleans, Integers

TORQUE, SLIP, JOINT, FORCE, POWER = 1, 2, 4, 8, 16
"""Bits of `Filter.cut`: limits of motors; slip of feet; limits of joints, contact forces and power."""

SLOWS: Final = 0.95
"""Largest fraction γ of its slip that a contact may keep after a period, as in `idcontrol.contact.landing`."""

LOAD_WEIGHT: Final = 1.0
"""Weight of changes of normal impulses relative to the largest weight of motor impulses [m²]. Without this weight, the
nearest torques would often unload a slipping foot, and the robot would sink."""

FORCE_WEIGHT: Final = 1e-9
"""Weight of contact impulses relative to the largest weight of motor impulses [m²]. It makes the forces unique."""


@njit(cache=True, inner=True, error_model="numpy")
def _free_motion(p: AssembledStep, impulse: Array, arena: Arena) -> Whitened:
    """Return the step with known motor impulses (a,) on the real ground: all velocities are unknown."""
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


@njit(cache=True, inner=True, error_model="numpy")
def _contacts(p: AssembledStep, w: Whitened, after: Array, f: Array, arena: Arena) -> tuple[Booleans, Booleans]:
    """Decide the role of each contact from its velocities after the step, shape (3 n,), and its impulses f (3 n,).

    For contacts that slip too fast, subtract the allowed slip from the constants of `w`.

    Returns:
        Contacts that stand or should stand (n,); contacts that slip too fast (n,).
    """
    n, jacobian, surface = p.which.shape[0], p.contacts.jacobian, p.contacts.surface_velocity
    stands, slips, now = flags(arena, n), flags(arena, n), vector(arena, 3 * n)
    for r in range(n, 3 * n):
        now[r] = dot(jacobian[r], p.wanted.v) - surface[r]
    for i in range(n):
        s, t = n + i, 2 * n + i
        slip = max(abs(after[s]), abs(after[t]))
        loaded = f[i] > p.h * TOUCHING_N
        slips[i] = loaded and slip > max(SLOWS * max(abs(now[s]), abs(now[t])), SLIP_SPEED)
        stands[i] = loaded and (slips[i] or slip <= SLIP_SPEED)
        if slips[i]:
            w.c[s] -= SLOWS * now[s]
            w.c[t] -= SLOWS * now[t]
    return stands, slips


@njit(cache=True, inner=True, error_model="numpy")
def _broken(p: AssembledStep, v: Array, f: Array, impulse: Array) -> int:
    """Return the bits of the limits of joints, forces and power that a motion v (m,) breaks."""
    wanted, a, cut, power = p.wanted, impulse.shape[0], 0, 0.0
    u = v.shape[0] - a
    for j in range(a):
        slack = MET * max(abs(wanted.v[u + j]), 1.0)  # a joint at rest still moves by the rounding of the step
        if not wanted.slowest[j] - slack <= v[u + j] <= wanted.fastest[j] + slack:
            cut |= JOINT
        power += wanted.v[u + j] * impulse[j]
    if power > p.h * wanted.filter.power * (1.0 + MET):
        cut |= POWER
    for i in range(p.which.shape[0]):
        if f[i] > p.h * wanted.filter.force * (1.0 + MET):
            cut |= FORCE
    return cut


class _Prediction(NamedTuple):
    """The motion that torques cause.

    Attributes:
        w: The step with known motor impulses; slips that are too fast are relative to the allowed slip.
        stands: Contacts that stand or should stand, shape (n,).
        slips: Contacts that slip too fast, shape (n,).
        broken: Bits of the limits that the motion breaks.
        residual: Relative residual of the contact problem.
    """

    w: Whitened
    stands: Booleans
    slips: Booleans
    broken: int
    residual: float


class _Part(NamedTuple):
    """The contacts of the program, which stand or open.

    Attributes:
        w: The step with these contacts; κ includes the impulses of all other contacts.
        which: Indices of these contacts among all contacts, shape (k,).
        mu: Their friction, shape (k,).
        stand: Numbers of the s standing contacts among these, shape (s,).
        apart: Numbers of the opening contacts among these.
        pushing: Rows of the standing contacts, shape (3 s,).
        A: Velocities per unit of the unknowns (f, hτ), and without them, shape (m, 3 s + a + 1).
    """

    w: Whitened
    which: Integers
    mu: Array
    stand: Integers
    apart: Integers
    pushing: Integers
    A: Array


@njit(cache=True, inner=True, error_model="numpy")
def _take(p: AssembledStep, w: Whitened, stands: Booleans, opens: Booleans, f: Array, arena: Arena) -> _Part:
    """Assemble the unknowns of the program; arguments as in `nearest_torques`."""
    n, m, a = p.which.shape[0], w.M.shape[0], p.bounds.least.shape[0]
    kappa, count = vector(arena, m), 0
    assign(kappa, p.w.kappa)
    for i in range(n):
        count += int(stands[i] or opens[i])
    rows, c, which = matrix(arena, 3 * count, m), vector(arena, 3 * count), indices(arena, count)
    held, mu, k = flags(arena, count), vector(arena, count), 0
    for i in range(n):
        if not (stands[i] or opens[i]):
            for r in (i, n + i, 2 * n + i):
                add(kappa, -f[r], w.rows[r])
            continue
        which[k], held[k], mu[k] = i, stands[i], p.cones.mu[i]
        for axis in range(3):
            assign(rows[axis * count + k], w.rows[axis * n + i])
            c[axis * count + k] = w.c[axis * n + i]
        k += 1
    part = Whitened(w.M, kappa, w.free, p.w.fixed, w.L, w.v_free, rows, rows, c, c)
    stand, apart, pushing = roles(part, held, arena)
    A = matrix(arena, m, pushing.shape[0] + a + 1)
    motions(part, pushing, A, arena)
    return _Part(part, which, mu, stand, apart, pushing, A)


@njit(cache=True, inner=True, error_model="numpy")
def _objective(p: AssembledStep, part: _Part, f: Array, arena: Arena) -> tuple[Array, Array]:
    """Return H and g of the objective ½ xᵀH x + gᵀx in the unknowns x = (f, hτ)."""
    weight, columns, size = p.wanted.weight, part.pushing.shape[0], part.A.shape[1] - 1
    H, g = matrix(arena, size, size), zeros(arena, size)
    H[:] = 0.0
    for j in range(size - columns):
        H[columns + j, columns + j] = weight[j]
        g[columns + j] = -weight[j] * p.wanted.impulse[j]
    unit = weight.max()
    for i in range(columns):
        H[i, i] = FORCE_WEIGHT * unit
    for k in range(part.stand.shape[0]):
        H[k, k] += LOAD_WEIGHT * unit
        g[k] -= LOAD_WEIGHT * unit * f[part.which[part.stand[k]]]
    return H, g


@njit(cache=True, inner=True, error_model="numpy")
def _limits(p: AssembledStep, part: _Part, joints: bool, arena: Arena) -> tuple[Array, Array]:
    """Return G and `least` of the inequalities G x ≥ least."""
    wanted, A, s = p.wanted, part.A, part.stand.shape[0]
    a, columns, size = wanted.impulse.shape[0], part.pushing.shape[0], A.shape[1] - 1
    u = A.shape[0] - a
    basic, basic_least = limit_rows(part.w, part.mu, p.bounds, part.stand, part.apart, A, arena)
    at = basic.shape[0]
    G, least = matrix(arena, at + s + 1 + 2 * a, size), vector(arena, at + s + 1 + 2 * a)
    G[at:] = 0.0
    assign_rows(G[:at], basic)
    assign(least[:at], basic_least)
    if wanted.filter.force < np.inf:
        for k in range(s):
            G[at, k], least[at] = -1.0, -p.h * wanted.filter.force
            at += 1
    if wanted.filter.power < np.inf:
        for j in range(a):
            G[at, columns + j] = -wanted.v[u + j]
        least[at] = -p.h * wanted.filter.power
        at += 1
    for j in range(a if joints else 0):
        for sign, bound in ((1.0, wanted.slowest[j]), (-1.0, wanted.fastest[j])):
            if np.isfinite(bound):
                for i in range(size):
                    G[at, i] = sign * A[u + j, i]
                least[at] = sign * (bound - A[u + j, size])
                at += 1
    return G[:at], least[:at]


@njit(cache=True, inner=True, error_model="numpy")
def nearest_torques(
    p: AssembledStep,
    w: Whitened,
    stands: Booleans,
    opens: Booleans,
    joints: bool,
    f: Array,
    impulse: Array,
    arena: Arena,
) -> bool:
    """Solve the program of the module.

    Args:
        p: The step.
        w: The step with known motor impulses (`_free_motion`).
        stands: Contacts that stand, shape (n,).
        opens: Contacts without force, shape (n,); contacts that neither stand nor open keep their impulses.
        joints: True to respect the bounds of the joints.
        f: Updated: impulses, shape (3 n,), initially for the wanted torques.
        impulse: Result: motor impulses, shape (a,) [N m s].
        arena: Arena for all arrays.

    Returns:
        False if there is no solution; f and impulse are then unchanged.
    """
    n, part = p.which.shape[0], _take(p, w, stands, opens, f, arena)
    s, columns, size = part.stand.shape[0], part.pushing.shape[0], part.A.shape[1] - 1
    H, g = _objective(p, part, f, arena)
    G, least = _limits(p, part, joints, arena)
    E, e = matrix(arena, columns, size), vector(arena, columns)
    for r in range(columns):
        e[r] = condition(part.w, part.pushing[r], part.A, E[r])
    answer = qp_kernel(QuadraticProgram(H, g, G, least, E, e), arena)
    if not answer.residual <= ACCURATE:
        return False
    for i in range(n):
        if opens[i]:
            f[i] = f[n + i] = f[2 * n + i] = 0.0
    for k in range(s):
        for axis in range(3):
            f[axis * n + part.which[part.stand[k]]] = answer.x[axis * s + k]
    into_cones(p.cones.mu, p.cones.held, f)
    for j in range(impulse.shape[0]):
        impulse[j] = min(max(answer.x[columns + j], p.bounds.least[j]), p.bounds.most[j])
    return True


@njit(cache=True, inner=True, error_model="numpy")
def predict(p: AssembledStep, impulse: Array, f: Array, arena: Arena) -> _Prediction:
    """Predict the motion under known motor impulses (a,) by maximal dissipation; write contact impulses f (3 n,)."""
    n = p.which.shape[0]
    w = _free_motion(p, impulse, arena)
    _, _, residual = edge_lcp_kernel(w.rho, w.c, uncertain(w, arena), p.cones.mu, p.active, f, arena)
    v, _ = recover_kernel(w, f, arena)
    after = vector(arena, 3 * n)
    for r in range(3 * n):
        after[r] = dot(p.contacts.jacobian[r], v) - p.contacts.surface_velocity[r]
    stands, slips = _contacts(p, w, after, f, arena)
    broken = _broken(p, v, f, impulse) | (SLIP if slips.any() else 0)
    return _Prediction(w, stands, slips, broken, residual)


@njit(cache=True, error_model="numpy")
def filtered(p: AssembledStep, f: Array, arena: Arena) -> Answer:
    """Take the admissible torques nearest to the wanted torques: a scheme (`idcontrol.controllers.schemes`)."""
    n, a = p.which.shape[0], p.bounds.least.shape[0]
    impulse, cut = vector(arena, a), 0
    for j in range(a):
        impulse[j] = min(max(p.wanted.impulse[j], p.bounds.least[j]), p.bounds.most[j])
        if impulse[j] != p.wanted.impulse[j]:
            cut |= TORQUE
    wish = predict(p, impulse, f, arena)
    if wish.broken == 0:
        p.wanted.filter.cut[0] = cut
        return Answer(MOVED if cut else SOLVED, False, wish.residual, impulse, np.nan)
    opens, solved, residual, broken = flags(arena, n), False, wish.residual, wish.broken
    for i in range(n):
        opens[i] = not f[i] > p.h * TOUCHING_N
    for holds in (True, False):
        held = flags(arena, n)
        for i in range(n):
            held[i] = wish.stands[i] and (holds or not wish.slips[i])
        for joints in (True, False):
            solved = solved or nearest_torques(p, wish.w, held, opens, joints, f, impulse, arena)
            if solved or not wish.broken & JOINT:
                break
        if solved or not wish.broken & SLIP:
            break
    if solved:
        result = predict(p, impulse, f, arena)
        residual, broken = result.residual, result.broken
    p.wanted.filter.cut[0] = cut | wish.broken
    p.wanted.filter.cut[1] = broken
    return Answer(SLIPS if broken & SLIP else MOVED, False, residual, impulse, np.nan)


SCHEME: Final = Scheme(name="dissipation", solve=filtered, model=COULOMB_QP.model, forward=COULOMB_QP.forward)
