"""Whether impulses obey the law of a contact model: from the step problem alone, without the models' own algebra.

The velocity that impulses lead to is solved from the momentum balance, refined in extended precision, so that what is
measured is the answer's error, not the check's. Each law gives the largest violation of its conditions, every condition
as min(impulse, velocity) with impulses relative to the largest (or to what moves the lightest contact at that velocity,
if that is more) and velocities to the fastest at zero impulse: zero at an exact solution (math.md 13.3).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from idcontrol.models.problem import CLOSED_GAP, PUSH_OUT_SPEED, StepProblem, free_indices
from idcontrol.types import Array

Extended = npt.NDArray[np.longdouble]


@dataclass(frozen=True, slots=True, kw_only=True)
class Motion:
    """What impulses lead to, relative to the problem's own scales.

    Attributes:
        impulses: (normal, first, second tangent) over `impulse_unit`, shape (3, n).
        velocities: Of the contacts, φ/h included, over `unit`, shape (3, n).
        unit: Largest contact velocity at zero impulse [m/s].
        impulse_unit: Largest impulse [N s], but no less than what gives the lightest contact that velocity.
    """

    impulses: Array
    velocities: Array
    unit: float
    impulse_unit: float


def motion(problem: StepProblem, impulses: Array) -> Motion:
    """The contact velocities that `impulses`, shape (n, 3) [N s], lead to."""
    contacts = problem.contacts
    n = len(contacts)
    free, fixed, b = free_indices(problem)
    J = contacts.jacobian.astype(np.longdouble)
    f = impulses.T.ravel().astype(np.longdouble)
    M = problem.M.astype(np.longdouble)
    balance = -problem.kappa[free] - M[np.ix_(free, fixed)] @ b
    offset = -contacts.surface_velocity
    offset[:n] += np.maximum(contacts.gap / problem.h, -PUSH_OUT_SPEED)
    A, rows = M[np.ix_(free, free)], J[:, free]
    velocities = []
    for right in (balance, balance + rows.T @ f):
        v = np.zeros(problem.M.shape[0], dtype=np.longdouble)
        v[fixed] = b
        v[free] = solve_refined(A, right)
        velocities.append((J @ v + offset).astype(np.float64).reshape(3, n))
    at_rest, moving = velocities
    unit = largest(at_rest) or 1.0
    answers = np.linalg.solve(A.astype(np.float64), rows.T.astype(np.float64))
    lightest = float(np.einsum("ij,ji->i", rows.astype(np.float64), answers).max(initial=0.0))
    impulse_unit = max(largest(impulses), unit / lightest if lightest > 0.0 else 1.0)
    return Motion(impulses=impulses.T / impulse_unit, velocities=moving / unit, unit=unit, impulse_unit=impulse_unit)


def solve_refined(A: Extended, b: Extended) -> Extended:
    """A⁻¹ b for a symmetric positive definite A, to some digits more than double precision."""
    size = np.sqrt(np.diag(A))
    balanced = A / np.outer(size, size)
    inverse = np.linalg.inv(balanced.astype(np.float64))
    right = b / size
    x: Extended = np.zeros_like(right)
    for _ in range(4):
        x = x + inverse @ (right - balanced @ x).astype(np.float64)
    return np.asarray(x / size, dtype=np.longdouble)


def coulomb(problem: StepProblem, impulses: Array) -> float:
    """Violation of the LCP of math.md 5.1, for the smallest split of friction into edges and the smallest λ."""
    m, mu = motion(problem, impulses), problem.contacts.mu
    worst = normal_law(m)
    slip = np.abs(m.velocities[1:]).max(axis=0)
    used = np.abs(m.impulses[1:]).sum(axis=0)
    worst = max(worst, largest(np.where(mu > 0.0, np.minimum(slip, mu * m.impulses[0] - used), used)))
    for axis in (1, 2):
        for sign in (1.0, -1.0):
            share = np.maximum(sign * m.impulses[axis], 0.0)
            worst = max(worst, largest(np.where(mu > 0.0, np.minimum(share, slip + sign * m.velocities[axis]), 0.0)))
    return worst


def dissipation(problem: StepProblem, impulses: Array) -> float:
    """Violation of the edge LCP of math.md 7.3, for the better of two ways to share f_N among the edges."""
    m, mu = motion(problem, impulses), problem.contacts.mu
    worst = 0.0
    for i in range(mu.size):
        f_n, *f_t = m.impulses[:, i]
        u_n, *u_t = m.velocities[:, i]
        if mu[i] == 0.0:
            worst = max(worst, abs(min(f_n, u_n)), *(abs(f) for f in f_t))
            continue
        slack = f_n - (abs(f_t[0]) + abs(f_t[1])) / mu[i]
        options = []
        for loose in range(2):
            violation = 0.0
            for axis in range(2):
                for sign in (1.0, -1.0):
                    eta = max(sign * f_t[axis], 0.0) / mu[i] + (0.5 * slack if axis == loose else 0.0)
                    speed = (u_n + sign * mu[i] * u_t[axis]) / np.sqrt(1.0 + mu[i] ** 2)
                    violation = max(violation, abs(min(eta, speed)))
            options.append(violation)
        worst = max(worst, min(options))
    return worst


def no_slip(problem: StepProblem, impulses: Array) -> float:
    """Violation of math.md 4.1 by the normal impulses; `slip` is what closed contacts slip."""
    return normal_law(motion(problem, impulses))


def slip(problem: StepProblem, impulses: Array) -> float:
    """Fastest slip of closed contacts that do not part, or that have an impulse [m/s]."""
    m = motion(problem, impulses)
    closed = problem.contacts.gap <= CLOSED_GAP
    # in m/s as the slip: of a free velocity of 300 m/s, a millionth would be a contact that opens for all to see
    held = closed & ((m.unit * m.velocities[0] <= 1e-6) | m.impulses.any(axis=0))
    return m.unit * largest(np.where(held, m.velocities[1:], 0.0))


def viscous(problem: StepProblem, impulses: Array) -> float:
    """Violation of math.md 8 with implicit drag f_S = -h μ_v (S v⁺ - s) at closed contacts."""
    m, contacts = motion(problem, impulses), problem.contacts
    rate = np.where(contacts.gap <= CLOSED_GAP, problem.h * contacts.damping, 0.0) * m.unit / m.impulse_unit
    dragged = rate > 0.0
    missed = m.velocities[1:, dragged] + m.impulses[1:, dragged] / rate[dragged]
    return max(normal_law(m), largest(missed), largest(m.impulses[1:, ~dragged]))


def normal_law(m: Motion) -> float:
    """0 ≤ f_N ⊥ N v⁺ + φ/h ≥ 0."""
    return largest(np.minimum(m.impulses[0], m.velocities[0]))


def largest(x: Array) -> float:
    """Largest magnitude; inf where something is NaN."""
    value = float(np.abs(x).max(initial=0.0))
    return value if np.isfinite(value) else float(np.inf)
