"""Judges answers of contact models in the units of each contact and of each row of the momentum balance.

`idcontrol.trust.contact_laws` measures against the fastest contact and the largest impulse of a problem; a contact that
is far away, or a heavy body, then hides what is wrong with a slow or light one. Here every condition is relative to the
numbers that it is computed from:

* velocities along a contact row: the row's velocity at zero impulse and the change that all impulses make together;
  what rounding leaves of the terms of these sums counts as zero,
* impulses of a contact: the largest of its own, or what gives it its own velocities,
* a row of the momentum balance: the magnitudes of its terms.

Velocities are those that the solution reports, which must also satisfy the momentum balance; nothing of the models' own
whitening or residuals is used.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from idcontrol.kernels.jit import njit
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
CONE: Final = 6

TOLERANCE: Final = 1e-6
"""Violation up to which an answer is right; what rounding may leave of a velocity is that much of its unit."""

EPSILON: Final = 2.0**-52
"""Distance from 1 to the next number in double precision."""

DIGITS: Final = 1e-8
"""Part of the speed that the energy of all impulses together could give a row, up to which rounding counts."""


class Answered(NamedTuple):
    """A step without bilateral rows, and what a model answered; fields as in `StepProblem` and `StepSolution`.

    Attributes:
        free: Indices of the k unknown velocities.
        fixed: Indices of the prescribed velocities b.
        J: Contact rows [N; S; T], shape (3 n, m).
        surface: Velocities that they are measured against, shape (3 n,) [m/s].
        v: v⁺, shape (m,).
        f: Impulses in the order of J's rows, shape (3 n,) [N s].
        motors: Motor impulses hτ of the prescribed velocities [N m s].
    """

    h: float
    M: Array
    kappa: Array
    free: Integers
    fixed: Integers
    b: Array
    J: Array
    gap: Array
    mu: Array
    damping: Array
    surface: Array
    v: Array
    f: Array
    motors: Array


class Rows(NamedTuple):
    """Velocities along the contact rows, each shape (3 n,).

    Attributes:
        speed: After the step, what compliance gives way to included [m/s].
        unit: What they are relative to [m/s].
        mobility: How each answers to its own impulse, compliance included [1/kg].
    """

    speed: Array
    unit: Array
    mobility: Array


def violation(law: int, problem: StepProblem, solution: StepSolution) -> float:
    """Largest relative violation of a model's conditions, for steps without bilateral rows; inf if not finite.

    Args:
        law: `COULOMB`, `DISSIPATION`, `VISCOUS`, `NO_SLIP`, `NEARLY_RIGID`, `SAP` or `CONE`.
        problem: The step.
        solution: What the model answered.
    """
    free, fixed, b = free_indices(problem)
    contacts = problem.contacts
    answered = Answered(
        h=problem.h,
        M=problem.M,
        kappa=problem.kappa,
        free=free,
        fixed=fixed,
        b=b,
        J=contacts.jacobian,
        gap=contacts.gap,
        mu=contacts.mu,
        damping=contacts.damping,
        surface=contacts.surface_velocity,
        v=solution.v_plus,
        f=np.ascontiguousarray(solution.impulses.T).ravel(),
        motors=solution.multipliers,
    )
    return float(_violation(law, answered))


@njit(cache=True, inner=True, error_model="numpy")
def _least(a: float, b: float) -> float:  # pragma: no cover - compiled
    """How far 0 ≤ a ⊥ b ≥ 0 is missed."""
    return abs(min(a, b))


@njit(cache=True, inner=True, error_model="numpy")
def _part(a: float, unit: float) -> float:  # pragma: no cover - compiled
    """``a / unit``; 0 where both are zero."""
    return a / unit if unit > 0.0 else (0.0 if a == 0.0 else np.sign(a) * np.inf)


@njit(cache=True, inner=True, error_model="numpy")
def _momentum(step: Answered) -> float:  # pragma: no cover - compiled
    """Largest relative residual of a row of ``M v⁺ + κ = Jᵀf + Pᵀ(hτ)``."""
    m, worst = step.kappa.size, 0.0
    for i in range(m):
        missing, size = step.kappa[i], abs(step.kappa[i])
        for j in range(m):
            missing += step.M[i, j] * step.v[j]
            size += abs(step.M[i, j] * step.v[j])
        for r in range(step.f.size):
            missing -= step.J[r, i] * step.f[r]
            size += abs(step.J[r, i] * step.f[r])
        for a in range(step.fixed.size):
            if step.fixed[a] == i:
                missing -= step.motors[a]
                size += abs(step.motors[a])
        worst = max(worst, abs(_part(missing, size)))
    return worst


@njit(cache=True, inner=True, error_model="numpy")
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


@njit(cache=True, inner=True, error_model="numpy")
def _rows(law: int, step: Answered) -> Rows:  # pragma: no cover - compiled
    """Velocities of all contact rows.

    Rounding may leave ``count ε Σ|terms|`` of the sums that they are, and of what they are without the momenta that
    velocities at zero impulse answer to: of impulses that cancel only while 8 digits of what they change together are
    left. A contact is one thing: what it leaves along one axis it may leave along others.
    """
    M, J, v, f, free, fixed = step.M, step.J, step.v, step.f, step.free, step.fixed
    m, n, k = v.size, step.gap.size, free.size
    right, momenta = np.empty((k, 1 + 3 * n)), np.empty(k)
    for i in range(k):
        right[i, 0], momenta[i] = -step.kappa[free[i]], abs(step.kappa[free[i]])
        for a in range(fixed.size):
            right[i, 0] -= M[free[i], fixed[a]] * step.b[a]
            momenta[i] += abs(M[free[i], fixed[a]] * step.b[a])
        for r in range(3 * n):
            right[i, 1 + r] = J[r, free[i]]
    x = _answers(M, free, right)
    before, factored = np.zeros(m), 0.0  # velocities at zero impulse, and what solving for them works with
    for i in range(k):
        before[free[i]] = x[i, 0]
        factored += np.sqrt(M[free[i], free[i]]) * abs(x[i, 0])
    for a in range(fixed.size):
        before[fixed[a]] = step.b[a]
    energy = 0.0  # twice that of the change of velocity
    for i in range(k):
        for j in range(k):
            energy += (v[free[i]] - x[i, 0]) * M[free[i], free[j]] * (v[free[j]] - x[j, 0])
    rows, lost = Rows(np.zeros(3 * n), np.zeros(3 * n), np.zeros(3 * n)), np.zeros(n)
    for r in range(3 * n):
        offset, compliance = -step.surface[r], 0.0
        if r < n and law == NEARLY_RIGID:
            B = 0.0 if step.gap[r] > 0.0 else DAMPING
            offset += step.gap[r] * STIFFNESS / (step.h * STIFFNESS + B)
            compliance = 1.0 / (step.h * (step.h * STIFFNESS + B))
        elif r < n:
            offset += max(step.gap[r] / step.h, -PUSH_OUT_SPEED)
        elif law == NEARLY_RIGID:
            for j in range(m):
                for tangent in (n + r % n, 2 * n + r % n):
                    compliance += 0.5 * CREEP * J[tangent, j] ** 2 / M[j, j]
        start, speed, size, pushed, mobility = offset, offset, abs(offset), 0.0, 0.0
        for j in range(m):
            start += J[r, j] * before[j]
            speed += J[r, j] * v[j]
            size += abs(J[r, j]) * (abs(before[j]) + abs(v[j]))
        for i in range(k):
            size += abs(x[i, 1 + r]) * (momenta[i] + np.sqrt(M[free[i], free[i]]) * factored)
        for other in range(3 * n):
            answer = 0.0
            for i in range(k):
                answer += J[r, free[i]] * x[i, 1 + other]
            pushed += abs(answer * f[other])
            mobility = answer if other == r else mobility
        yielding = compliance * f[r]
        left = (m + 3 * n) * EPSILON * size
        left += min((m + 3 * n) * EPSILON * pushed, DIGITS * np.sqrt(max(mobility * energy, 0.0)))
        rows.mobility[r] = mobility + compliance
        rows.speed[r] = speed + yielding
        rows.unit[r] = abs(start) + abs(speed - start) + abs(yielding)
        lost[r % n] = max(lost[r % n], left)
    for r in range(3 * n):
        rows.unit[r] += lost[r % n] / TOLERANCE
    return rows


@njit(cache=True, error_model="numpy")
def _violation(law: int, step: Answered) -> float:  # pragma: no cover - compiled
    """`violation`, compiled."""
    for numbers in (step.v, step.f, step.motors):
        for x in numbers:
            if not np.isfinite(x):
                return np.inf
    worst = _momentum(step)
    for a in range(step.fixed.size):
        worst = max(worst, abs(_part(step.v[step.fixed[a]] - step.b[a], abs(step.b[a]))))
    n = step.gap.size
    if n == 0:
        return worst
    rows = _rows(law, step)
    for i in range(n):
        worst = max(worst, _sap(step, rows, i) if law == SAP else _contact(law, step, rows, i))
    return worst


@njit(cache=True, inner=True, error_model="numpy")
def _contact(law: int, step: Answered, rows: Rows, i: int) -> float:  # pragma: no cover - compiled
    """Largest relative violation of the law of one contact, for all models but sap."""
    f, speed, unit, mobility = step.f, rows.speed, rows.unit, rows.mobility
    n, mu = step.gap.size, step.mu[i]
    s, t = n + i, 2 * n + i
    closed = step.gap[i] <= CLOSED_GAP
    worst = 0.0
    push = max(abs(f[i]), abs(f[s]), abs(f[t]))
    p_n = max(push, unit[i] / mobility[i]) if mobility[i] > 0.0 else push
    across, inverse = max(unit[s], unit[t]), max(mobility[s], mobility[t])
    p_t = max(abs(f[s]), abs(f[t]))
    p_t = max(p_t, across / inverse) if inverse > 0.0 else p_t
    slip, used = max(abs(speed[s]), abs(speed[t])), abs(f[s]) + abs(f[t])
    if law == CONE:
        slip, used = np.hypot(speed[s], speed[t]), np.hypot(f[s], f[t])
    touches = False
    for j in range(step.v.size):
        touches = touches or step.J[s, j] != 0.0 or step.J[t, j] != 0.0

    may_slip = law != NO_SLIP and mu != np.inf
    if law == DISSIPATION and mu > 0.0 and may_slip:
        worst = _edges((f[i], f[s], f[t]), (speed[i], speed[s], speed[t]), mu, unit[i] + max(mu, 1.0) * across, p_n)
        # inside its pyramid a contact neither parts nor slips, however steep it is
        inside = _part(f[i] - used / mu, p_n)
        worst = max(worst, _least(inside, _part(abs(speed[i]), unit[i])), _least(inside, _part(slip, across)))
        return max(worst, -_part(speed[i], unit[i]))
    # what no impulse can change may approach at up to the speed that no_slip leaves (math.md, section 4.3)
    slow = law == NO_SLIP and -SLIP_SPEED <= speed[i] < 0.0
    worst = _least(_part(f[i], p_n), 0.0 if slow else _part(speed[i], unit[i]))
    if law == VISCOUS:
        rate = step.h * step.damping[i] if closed else 0.0
        for r in (s, t):
            missed = f[r] + rate * speed[r]
            worst = max(worst, abs(_part(missed, max(abs(f[r]), rate * unit[r], p_t))))
        return worst
    if not may_slip and not (closed or law in (COULOMB, NEARLY_RIGID, CONE)):
        return max(worst, _part(used, p_t))
    if not may_slip:  # what presses does not slip; what parts has no friction
        if not (law == NO_SLIP and slip <= SLIP_SPEED):
            worst = max(worst, _least(_part(f[i], p_n), _part(slip, across)))
        slow = law == NO_SLIP and speed[i] <= SLIP_SPEED
        parting = 0.0 if slow else _part(max(speed[i], 0.0), unit[i])
        return max(worst, _least(_part(used, p_t), parting))
    if not touches:  # friction does nothing there, but stays within its bound, which is known as well as f_n is
        return max(worst, _part(used - mu * f[i], max(p_t, mu * p_n)))
    if mu == 0.0:
        return max(worst, _part(used, p_t))
    if law == CONE:
        most = max(mu * f[i], used, across / inverse if inverse > 0.0 else mu * p_n)
        a, b = _part(used, most), _part(slip, across)
        along = _part(f[s] * speed[s] + f[t] * speed[t], most * across)
        aside = _part(f[s] * speed[t] - f[t] * speed[s], most * across)
        opposes = _part(max(a * b + along, abs(aside)), max(a, b))  # by the smaller one of friction and slip
        return max(worst, opposes, _least(b, _part(mu * f[i] - used, most)))
    # friction pyramid
    slack, most = mu * f[i] - used, max(mu * f[i], used, across / inverse if inverse > 0.0 else mu * p_n)
    worst = max(worst, _least(_part(slip, across), _part(slack, most)))
    for r in (s, t):
        for sign in (1.0, -1.0):
            share = max(sign * f[r], 0.0)
            worst = max(worst, _least(_part(share, p_t), _part(slip + sign * speed[r], across)))
    return worst


@njit(cache=True, inner=True, error_model="numpy")
def _edges(
    impulse: tuple[float, float, float], velocity: tuple[float, float, float], mu: float, unit: float, push: float
) -> float:  # pragma: no cover - compiled
    """Violation of 0 ≤ η_e ⊥ u_n ± μ u_t ≥ 0, for the better of two ways to share f_n among the edges."""
    f_n, f_s, f_t = impulse
    u_n, u_s, u_t = velocity
    slack, best = f_n - (abs(f_s) + abs(f_t)) / mu, np.inf
    for loose in range(2):
        missed = 0.0
        for axis in range(2):
            along, moves = (f_s, u_s) if axis == 0 else (f_t, u_t)
            for sign in (1.0, -1.0):
                share = max(sign * along, 0.0) / mu + (0.5 * slack if axis == loose else 0.0)
                missed = max(missed, _least(_part(share, push), _part(u_n + sign * mu * moves, unit)))
        best = min(best, missed)
    return best


@njit(cache=True, inner=True, error_model="numpy")
def _sap(step: Answered, velocities: Rows, i: int) -> float:  # pragma: no cover - compiled
    """Difference of one contact's impulses from the projection of ``-R⁻¹(J v⁺ - v̂)``, relative to impulse or unit/R.

    For near-rigid contacts (Castro, Permenter & Han 2022, sections VII and IX).
    """
    h, M, J, mu = step.h, step.M, step.J, step.mu
    gap, surface, v, f, unit = step.gap, step.surface, step.v, step.f, velocities.unit
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
