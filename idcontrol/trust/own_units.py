"""What a contact model answers, judged in the units of each contact and of each row of the momentum balance.

`idcontrol.trust.contact_laws` measures against the fastest contact and the largest impulse of a problem; a contact that
is far away, or a heavy body, then hides what is wrong with a slow or light one. Here every condition is relative to the
numbers that it is computed from:

* velocities along a contact row: the row's velocity at zero impulse and the change that all impulses make together,
* impulses of a contact: the largest of its own, or what gives it its own velocities,
* a row of the momentum balance: the magnitudes of its terms.

Velocities are those that the solution reports, which must also satisfy the momentum balance; nothing of the models' own
whitening or residuals is used.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numba import njit

from idcontrol.models.constraint.laws import DAMPING, STIFFNESS
from idcontrol.models.constraint.solver import CREEP
from idcontrol.models.no_slip import SLIP_SPEED
from idcontrol.models.sap.regularization import BETA, SIGMA
from idcontrol.models.step import CLOSED_GAP, PUSH_OUT_SPEED, StepProblem, StepSolution, free_indices
from idcontrol.types import Array, Integers

COULOMB: Final = 0
DISSIPATION: Final = 1
VISCOUS: Final = 2
NO_SLIP: Final = 3
NEARLY_RIGID: Final = 4
SAP: Final = 5

ROUNDING: Final = 1e-8
"""Part of the velocities |J||v| of the bodies themselves that counts towards the unit of a contact: a millionth of it,
1e-14, is what rounding in v may do to their difference."""


def violation(law: int, problem: StepProblem, solution: StepSolution) -> float:
    """Largest relative violation of a model's conditions, for steps without bilateral rows; inf if not finite.

    Args:
        law: `COULOMB`, `DISSIPATION`, `VISCOUS`, `NO_SLIP`, `NEARLY_RIGID` or `SAP`.
        problem: The step.
        solution: What the model answered.
    """
    free, fixed, b = free_indices(problem)
    contacts = problem.contacts
    return float(
        _violation(
            law,
            problem.h,
            problem.M,
            problem.kappa,
            free,
            fixed,
            b,
            contacts.jacobian,
            contacts.gap,
            contacts.mu,
            contacts.damping,
            contacts.surface_velocity,
            solution.v_plus,
            np.ascontiguousarray(solution.impulses.T).ravel(),
            solution.multipliers,
        )
    )


@njit(cache=True, error_model="numpy")
def _least(a: float, b: float) -> float:  # pragma: no cover - compiled
    """How far 0 ≤ a ⊥ b ≥ 0 is missed."""
    return abs(min(a, b))


@njit(cache=True, error_model="numpy")
def _part(a: float, unit: float) -> float:  # pragma: no cover - compiled
    """``a / unit``; 0 where both are zero."""
    return a / unit if unit > 0.0 else (0.0 if a == 0.0 else np.sign(a) * np.inf)


@njit(cache=True, error_model="numpy")
def _momentum(
    M: Array, kappa: Array, fixed: Integers, J: Array, v: Array, f: Array, motors: Array
) -> float:  # pragma: no cover - compiled
    """Largest relative residual of a row of ``M v⁺ + κ = Jᵀf + Pᵀ(hτ)``."""
    m, worst = kappa.size, 0.0
    for i in range(m):
        missing, size = kappa[i], abs(kappa[i])
        for j in range(m):
            missing += M[i, j] * v[j]
            size += abs(M[i, j] * v[j])
        for r in range(f.size):
            missing -= J[r, i] * f[r]
            size += abs(J[r, i] * f[r])
        for a in range(fixed.size):
            if fixed[a] == i:
                missing -= motors[a]
                size += abs(motors[a])
        worst = max(worst, abs(_part(missing, size)))
    return worst


@njit(cache=True, error_model="numpy")
def _answers(M: Array, free: Integers, right: Array) -> Array:  # pragma: no cover - compiled
    """M_bb⁻¹ times columns (k, c), by elimination in balanced units."""
    k, columns = free.size, right.shape[1]
    A, x, size = np.empty((k, k)), np.empty((k, columns)), np.empty(k)
    for i in range(k):
        size[i] = np.sqrt(M[free[i], free[i]])
    for i in range(k):
        for j in range(k):
            A[i, j] = M[free[i], free[j]] / size[i] / size[j]
        for c in range(columns):
            x[i, c] = right[i, c] / size[i]
    for p in range(k):
        for i in range(p + 1, k):
            factor = A[i, p] / A[p, p]
            if factor != 0.0:
                for j in range(p, k):
                    A[i, j] -= factor * A[p, j]
                for c in range(columns):
                    x[i, c] -= factor * x[p, c]
    for p in range(k - 1, -1, -1):
        for c in range(columns):
            s = x[p, c]
            for j in range(p + 1, k):
                s -= A[p, j] * x[j, c]
            x[p, c] = s / A[p, p]
    for i in range(k):
        for c in range(columns):
            x[i, c] /= size[i]
    return x


@njit(cache=True, error_model="numpy")
def _violation(
    law: int,
    h: float,
    M: Array,
    kappa: Array,
    free: Integers,
    fixed: Integers,
    b: Array,
    J: Array,
    gap: Array,
    mu: Array,
    damping: Array,
    surface: Array,
    v: Array,
    f: Array,
    motors: Array,
) -> float:  # pragma: no cover - compiled
    m, n, k = kappa.size, gap.size, free.size
    for numbers in (v, f, motors):
        for x in numbers:
            if not np.isfinite(x):
                return np.inf
    worst = _momentum(M, kappa, fixed, J, v, f, motors)
    for a in range(fixed.size):
        worst = max(worst, abs(_part(v[fixed[a]] - b[a], abs(b[a]))))
    if n == 0:
        return worst

    # velocities at zero impulse, and how each row answers to each impulse
    right = np.empty((k, 1 + 3 * n))
    for i in range(k):
        right[i, 0] = -kappa[free[i]]
        for a in range(fixed.size):
            right[i, 0] -= M[free[i], fixed[a]] * b[a]
        for r in range(3 * n):
            right[i, 1 + r] = J[r, free[i]]
    x = _answers(M, free, right)
    before = np.zeros(m)
    for i in range(k):
        before[free[i]] = x[i, 0]
    for a in range(fixed.size):
        before[fixed[a]] = b[a]
    speed, unit, mobility = np.zeros(3 * n), np.zeros(3 * n), np.zeros(3 * n)
    for r in range(3 * n):
        offset = -surface[r]
        if r < n:
            if law == NEARLY_RIGID:
                B = 0.0 if gap[r] > 0.0 else DAMPING
                offset += gap[r] * STIFFNESS / (h * STIFFNESS + B)
            else:
                offset += max(gap[r] / h, -PUSH_OUT_SPEED)
        start, moved = offset, 0.0
        speed[r] = offset
        for j in range(m):
            start += J[r, j] * before[j]
            speed[r] += J[r, j] * v[j]
            moved += abs(J[r, j]) * (abs(before[j]) + abs(v[j]))
        unit[r] = abs(start) + abs(speed[r] - start) + ROUNDING * moved
        for i in range(k):
            mobility[r] += J[r, free[i]] * x[i, 1 + r]

    for i in range(n):
        s, t = n + i, 2 * n + i
        if law == SAP:
            worst = max(worst, _sap(h, M, J, gap, mu, surface, v, f, unit, i))
            continue
        C_n, C_t = 0.0, 0.0
        if law == NEARLY_RIGID:
            C_n = 1.0 / (h * (h * STIFFNESS + (0.0 if gap[i] > 0.0 else DAMPING)))
            for j in range(m):
                C_t += 0.5 * CREEP * (J[s, j] ** 2 + J[t, j] ** 2) / M[j, j]
            speed[i] += C_n * f[i]
            unit[i] += abs(C_n * f[i])
            for r in (s, t):
                speed[r] += C_t * f[r]
                unit[r] += abs(C_t * f[r])
        # normal law
        inverse = mobility[i] + C_n
        push = max(abs(f[i]), abs(f[s]), abs(f[t]))
        p_n = max(push, unit[i] / inverse) if inverse > 0.0 else push
        if law != DISSIPATION:
            # what no impulse can change may approach at up to the speed that no_slip leaves (math.md, section 4.3)
            slow = law == NO_SLIP and -SLIP_SPEED <= speed[i] < 0.0
            worst = max(worst, _least(_part(f[i], p_n), 0.0 if slow else _part(speed[i], unit[i])))
        across = max(unit[s], unit[t])
        inverse = max(mobility[s], mobility[t]) + C_t
        own = max(abs(f[s]), abs(f[t]))
        p_t = max(own, across / inverse) if inverse > 0.0 else own
        slip = max(abs(speed[s]), abs(speed[t]))
        used = abs(f[s]) + abs(f[t])
        closed = gap[i] <= CLOSED_GAP
        touches = False
        for j in range(m):
            touches = touches or J[s, j] != 0.0 or J[t, j] != 0.0
        if law == VISCOUS:
            rate = h * damping[i] if closed else 0.0
            for r in (s, t):
                missed = f[r] + rate * speed[r]
                worst = max(worst, abs(_part(missed, max(abs(f[r]), rate * unit[r], p_t))))
            continue
        if law == NO_SLIP or mu[i] == np.inf:
            # what presses does not slip; what parts has no friction
            if law == DISSIPATION:
                worst = max(worst, _least(_part(f[i], p_n), _part(speed[i], unit[i])))
            held = closed or law in (COULOMB, NEARLY_RIGID)
            holding = f[i] if held else 0.0
            if held:
                if not (law == NO_SLIP and slip <= SLIP_SPEED):
                    worst = max(worst, _least(_part(holding, p_n), _part(slip, across)))
                if _part(used, p_t) > 0.0:
                    worst = max(worst, abs(min(_part(used, p_t), _part(max(speed[i], 0.0), unit[i]))))
            else:
                worst = max(worst, _part(used, p_t))
            continue
        if law == DISSIPATION and mu[i] > 0.0:
            worst = max(worst, _edges(f[i], f[s], f[t], speed[i], speed[s], speed[t], mu[i], unit[i], across, p_n))
            worst = max(worst, -_part(speed[i], unit[i]))
            continue
        if law == DISSIPATION:
            worst = max(worst, _least(_part(f[i], p_n), _part(speed[i], unit[i])))
        if not touches:  # friction does nothing there, but stays within its bound
            worst = max(worst, _part(used - mu[i] * f[i], p_t))
            continue
        if mu[i] == 0.0:
            worst = max(worst, _part(used, p_t))
            continue
        # friction pyramid
        slack, most = mu[i] * f[i] - used, max(mu[i] * f[i], used, across / inverse if inverse > 0.0 else 0.0)
        worst = max(worst, _least(_part(slip, across), _part(slack, most)))
        for r in (s, t):
            for sign in (1.0, -1.0):
                share = max(sign * f[r], 0.0)
                worst = max(worst, _least(_part(share, p_t), _part(slip + sign * speed[r], across)))
    return worst


@njit(cache=True, error_model="numpy")
def _edges(
    f_n: float,
    f_s: float,
    f_t: float,
    u_n: float,
    u_s: float,
    u_t: float,
    mu: float,
    unit: float,
    across: float,
    push: float,
) -> float:  # pragma: no cover - compiled
    """Violation of 0 ≤ η_e ⊥ u_n ± μ u_t ≥ 0, for the better of two ways to share f_n among the edges."""
    slack, best = f_n - (abs(f_s) + abs(f_t)) / mu, np.inf
    for loose in range(2):
        missed = 0.0
        for axis in range(2):
            along, moves = (f_s, u_s) if axis == 0 else (f_t, u_t)
            for sign in (1.0, -1.0):
                share = max(sign * along, 0.0) / mu + (0.5 * slack if axis == loose else 0.0)
                missed = max(missed, _least(_part(share, push), _part(u_n + sign * mu * moves, unit + mu * across)))
        best = min(best, missed)
    return best


@njit(cache=True, error_model="numpy")
def _sap(
    h: float, M: Array, J: Array, gap: Array, mu: Array, surface: Array, v: Array, f: Array, unit: Array, i: int
) -> float:  # pragma: no cover - compiled
    """Difference of one contact's impulses from the projection of ``-R⁻¹(J v⁺ - v̂)``, relative to impulse or unit/R.

    For near-rigid contacts (Castro, Permenter & Han 2022, sections VII and IX).
    """
    n, m = gap.size, v.size
    s, t = n + i, 2 * n + i
    rows = np.empty((m, 3))
    for j in range(m):
        rows[j, 0], rows[j, 1], rows[j, 2] = J[i, j], J[s, j], J[t, j]
    x = _answers(M, np.arange(m), rows)
    squares = 0.0
    for a in range(3):
        for c in range(3):
            entry = 0.0
            for j in range(m):
                entry += rows[j, a] * x[j, c]
            squares += entry * entry
    w = np.sqrt(squares) / 3.0
    if w == 0.0:
        return 0.0 if abs(f[i]) + abs(f[s]) + abs(f[t]) < 1e-200 else np.inf
    R_n, R_t = BETA * BETA * w / (4.0 * np.pi**2), SIGMA * w
    v_hat = min(-gap[i] / (h + BETA * h / np.pi), PUSH_OUT_SPEED)
    u_n, u_s, u_t = -v_hat, -surface[s], -surface[t]
    for j in range(m):
        u_n += J[i, j] * v[j]
        u_s += J[s, j] * v[j]
        u_t += J[t, j] * v[j]
    u_n -= surface[i]
    y_n, y_s, y_t = -u_n / R_n, -u_s / R_t, -u_t / R_t
    along = np.sqrt(y_s * y_s + y_t * y_t)
    wanted = np.zeros(3)
    most = mu[i]
    if most == np.inf and gap[i] > CLOSED_GAP:
        most = 0.0
    if most == 0.0:
        wanted[0] = max(y_n, 0.0)
    elif most == np.inf:
        wanted[0] = max(y_n, 0.0)
        # one that parts is let go, or held where it would press then: its cone is the half space
        if y_n > 0.0 or f[s] != 0.0 or f[t] != 0.0:
            wanted[1], wanted[2] = y_s, y_t
    else:
        hat = most * R_t / R_n
        if along <= most * y_n:
            wanted[0], wanted[1], wanted[2] = y_n, y_s, y_t
        elif y_n > -hat * along:
            wanted[0] = (y_n + hat * along) / (1.0 + most * hat)
            wanted[1], wanted[2] = most * wanted[0] * y_s / along, most * wanted[0] * y_t / along
    own = max(abs(f[i]), abs(f[s]), abs(f[t]))
    missed = abs(_part(f[i] - wanted[0], max(own, unit[i] / R_n)))
    missed = max(missed, abs(_part(f[s] - wanted[1], max(own, unit[s] / R_t))))
    return max(missed, abs(_part(f[t] - wanted[2], max(own, unit[t] / R_t))))
