"""Checks of what a contact model answers, from the step problem alone: momentum, complementarity, friction cones.

The laws `coulomb`, `coulomb_cone`, `dissipation`, `no_slip` and `viscous` take impulses and return the largest
violation of their conditions, zero at an exact solution (math.md, section 13.3). The velocity that the impulses lead to
is solved from the momentum balance and refined in extended precision, so that the answer's error is measured and not
the check's. Every condition is min(impulse, velocity): impulses relative to the largest of them (or, if that is more,
to the impulse that gives the lightest contact the reference velocity), velocities relative to the fastest contact at
zero impulse.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from idcontrol.models.step import CLOSED_GAP, PUSH_OUT_SPEED, StepProblem, StepSolution, free_indices
from idcontrol.solvers.status import TOLERANCE
from idcontrol.types import Array

Extended = npt.NDArray[np.longdouble]

SLIP_SPEED: Final = 1e-6
"""Slip [m/s] that the no-slip model may leave (math.md, section 4.3), unless TOLERANCE times the reference is more."""


def unbalanced(problem: StepProblem, solution: StepSolution) -> Array:
    """Residual of the momentum balance M v⁺ + κ = Jᵀf + Pᵀ(hτ) + Λᵀg, shape (m,).

    A solution does not contain the impulses g of bilateral rows. Compliant rows get the g of their law; rigid rows get
    those that leave the smallest residual.
    """
    rest: Array = (
        problem.M @ solution.v_plus + problem.kappa - problem.contacts.jacobian.T @ solution.impulses.T.ravel()
    )
    if problem.prescribed is not None:
        rest[problem.prescribed.index] -= solution.multipliers
    if problem.bilateral is None:
        return rest
    ties, soft = problem.bilateral, problem.bilateral.compliance > 0.0
    g = (ties.target[soft] - ties.rows[soft] @ solution.v_plus) / ties.compliance[soft]
    rest -= ties.rows[soft].T @ g
    rigid = ties.rows[~soft].T
    return np.asarray(rest - rigid @ np.linalg.lstsq(rigid, rest, rcond=None)[0])


def balanced_terms(problem: StepProblem, solution: StepSolution) -> Array:
    """Sum of the magnitudes of the terms that cancel in the balance without bilateral rows, shape (m,)."""
    pushed = np.abs(problem.contacts.jacobian.T) @ np.abs(solution.impulses.T.ravel())
    size: Array = np.abs(problem.M) @ np.abs(solution.v_plus) + np.abs(problem.kappa) + pushed
    if problem.prescribed is not None:
        size[problem.prescribed.index] += np.abs(solution.multipliers)
    return size


def pressing_and_friction(force: Array, normal: Array) -> tuple[Array, Array]:
    """Normal force, negative where it pulls, and magnitude of friction of world forces (n, 3) at `normal` (n, 3)."""
    pressing = np.einsum("ij,ij->i", force, normal)
    return pressing, np.linalg.norm(force - pressing[:, None] * normal, axis=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class ContactMotion:
    """Impulses and the contact velocities that they lead to, relative to the problem's own scales.

    Attributes:
        impulses: (normal, first, second tangent) over `impulse_unit`, shape (3, n).
        velocities: Contact velocities, φ/h included, over `unit`, shape (3, n).
        unit: Largest contact velocity at zero impulse [m/s].
        impulse_unit: Largest impulse [N s], but no less than the impulse that gives the lightest contact that velocity.
    """

    impulses: Array
    velocities: Array
    unit: float
    impulse_unit: float


def motion(problem: StepProblem, impulses: Array) -> ContactMotion:
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
    return ContactMotion(
        impulses=impulses.T / impulse_unit, velocities=moving / unit, unit=unit, impulse_unit=impulse_unit
    )


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
    """Violation of the friction LCP (math.md, section 5.1), for the smallest λ and the smallest shares of the edges."""
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


def coulomb_cone(problem: StepProblem, impulses: Array) -> float:
    """Violation of Coulomb's law with a circular cone: normal law, cone, and friction that opposes slip at its edge."""
    m, mu = motion(problem, impulses), problem.contacts.mu
    used, slip = np.linalg.norm(m.impulses[1:], axis=0), np.linalg.norm(m.velocities[1:], axis=0)
    most = mu * np.maximum(m.impulses[0], 0.0)
    worst = max(normal_law(m), largest(np.maximum(used - most, 0.0)), largest(np.minimum(slip, most - used)))
    # power that friction could take and does not, over the smaller of slip and friction: across the smaller of both
    missed = most * slip + np.einsum("ij,ij->j", m.impulses[1:], m.velocities[1:])
    across = np.abs(m.impulses[1] * m.velocities[2] - m.impulses[2] * m.velocities[1])
    larger = np.maximum(most, slip)
    larger[larger == 0.0] = 1.0
    return max(worst, largest(missed / larger), largest(across / larger))


def dissipation(problem: StepProblem, impulses: Array) -> float:
    """Violation of the edge LCP (math.md, section 7.3), for the better of two ways to share f_N among the edges."""
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
    """Violation of the no-slip model's normal law (math.md, section 4.1); infinite where closed contacts slip."""
    m = motion(problem, impulses)
    return normal_law(m) if slip(problem, impulses) <= max(SLIP_SPEED, TOLERANCE * m.unit) else float(np.inf)


def slip(problem: StepProblem, impulses: Array) -> float:
    """Fastest slip of closed contacts that do not part, or that have an impulse [m/s]."""
    m = motion(problem, impulses)
    closed = problem.contacts.gap <= CLOSED_GAP
    # in m/s, as the slip is: a millionth of a free velocity of 300 m/s would be a contact that opens visibly
    held = closed & ((m.unit * m.velocities[0] <= 1e-6) | m.impulses.any(axis=0))
    return m.unit * largest(np.where(held, m.velocities[1:], 0.0))


def viscous(problem: StepProblem, impulses: Array) -> float:
    """Violation of the viscous law (math.md, section 8): implicit drag f_S = -h μ_v (S v⁺ - s) at closed contacts."""
    m, contacts = motion(problem, impulses), problem.contacts
    rate = np.where(contacts.gap <= CLOSED_GAP, problem.h * contacts.damping, 0.0) * m.unit / m.impulse_unit
    dragged = rate > 0.0
    missed = m.velocities[1:, dragged] + m.impulses[1:, dragged] / rate[dragged]
    return max(normal_law(m), largest(missed), largest(m.impulses[1:, ~dragged]))


def normal_law(m: ContactMotion) -> float:
    """Violation of 0 ≤ f_N ⊥ N v⁺ + φ/h ≥ 0."""
    return largest(np.minimum(m.impulses[0], m.velocities[0]))


def largest(x: Array) -> float:
    """Largest magnitude; inf where something is NaN."""
    value = float(np.abs(x).max(initial=0.0))
    return value if np.isfinite(value) else float(np.inf)
