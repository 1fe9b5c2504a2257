"""The judge of contact laws: computes by how much an answer violates a law, independently of the contact models.

- `violation` scales each contact and each row of the momentum balance separately. Thus a large speed or mass does not
  hide the error of a slow contact or a light body. `violation` uses the velocities of the solution. Its scales include
  the rounding of each sum, so that rounding errors stay below `TOLERANCE`.
- `missed` scales by the largest impulse and the fastest contact of the problem, like tolerances of solvers. It computes
  velocities from the momentum balance in extended precision.
- `miss` judges impulses of a problem given by its Delassus operator, as in the league.

The judge does not use the elimination, the scaling or the residual of any model.
"""

from typing import Final

import numpy as np
import numpy.typing as npt

from idcontrol.bench.judge.delassus import miss
from idcontrol.bench.judge.laws import Law, Touching, excess, relative
from idcontrol.models.constraint.laws import DAMPING, STIFFNESS
from idcontrol.models.constraint.solver import CREEP
from idcontrol.models.sap.regularization import BETA, SIGMA
from idcontrol.models.step import CLOSED_GAP, PUSH_OUT_SPEED, StepProblem, StepSolution, free_indices
from idcontrol.types import Array, Booleans

__all__ = ["TOLERANCE", "Law", "miss", "missed", "momentum_terms", "unbalanced", "violation"]

TOLERANCE: Final = 1e-6
"""Largest violation of a correct answer; also the largest rounding error of a velocity, relative to its scale."""
EPSILON: Final = 2.0**-52
"""Distance from 1 to the next number in double precision."""
DIGITS: Final = 1e-8
"""Largest rounding error of a contact's velocity that is attributed to the impulses. It is a fraction of the velocity
at which the contact's effective mass would have the kinetic energy of the change of motion."""


def violation(law: Law, problem: StepProblem, solution: StepSolution) -> float:
    """Return the largest violation of law, momentum balance and prescribed velocities in a step without bilateral rows.

    Each contact, each row of the balance and each prescribed velocity has its own scale. The result is inf if a
    velocity or an impulse of the answer is not finite.

    Args:
        law: Law of the model.
        problem: The step.
        solution: The model's answer.
    """
    v = solution.v_plus
    if not all(np.isfinite(x).all() for x in (v, solution.impulses, solution.multipliers)):
        return float(np.inf)
    _, fixed, b = free_indices(problem)
    parts = [
        np.abs(relative(unbalanced(problem, solution), momentum_terms(problem, solution))),
        np.abs(relative(v[fixed] - b, np.abs(b))),
    ]
    if len(problem.contacts):
        touching = _in_own_units(law, problem, solution)
        parts.append(_sap(problem, solution, touching.speed) if law == "sap" else excess(law, touching))
    return float(np.concatenate(parts).max(initial=0.0))


def missed(law: Law, problem: StepProblem, impulses: Array) -> float:
    """Return the largest violation of a rigid model's law by impulses (n, 3) [N s], scaled by the problem.

    Velocities are scaled by the fastest contact velocity at zero impulse. Impulses are scaled by the largest impulse,
    or by the impulse that gives the lightest contact this velocity, if that is larger.
    """
    free, fixed, b = free_indices(problem)
    J, M = problem.contacts.jacobian.astype(np.longdouble), problem.M.astype(np.longdouble)
    A, rows = M[np.ix_(free, free)], J[:, free]
    balance = -problem.kappa[free] - M[np.ix_(free, fixed)] @ b
    v = np.zeros((problem.kappa.size, 2), dtype=np.longdouble)
    v[fixed] = b[:, None]
    v[free] = _solved(A, np.column_stack((balance, balance + rows.T @ impulses.T.ravel().astype(np.longdouble))))
    at_rest, u = (J @ v + _offset(problem)[:, None]).astype(np.float64).T
    fastest = float(np.abs(at_rest).max(initial=0.0)) or 1.0
    lightest = float(np.einsum("ij,ji->i", rows, _solved(A, rows.T)).max(initial=0.0))
    unit = max(float(np.abs(impulses).max(initial=0.0)), fastest / lightest if lightest > 0.0 else 1.0)
    n = len(problem.contacts)
    closed, drag = _closed(problem)
    touching = Touching(
        f=impulses,
        u=_by_contact(u),
        mu=problem.contacts.mu,
        impulse=np.full((n, 2), unit),
        speed=np.full((n, 3), fastest),
        drag=drag,
        closed=closed,
        movable=np.ones(n, dtype=np.bool_),
    )
    return float(excess(law, touching).max(initial=0.0))


def _in_own_units(law: Law, problem: StepProblem, solution: StepSolution) -> Touching:
    """Return the contacts after a step, each with its own scales.

    The scale of a velocity is its size at zero impulse, plus the net change by all impulses, plus the velocity by
    compliance, plus the contact's largest rounding bound divided by `TOLERANCE`. The scale of a normal impulse is the
    largest impulse of its contact, or the impulse that changes its normal velocity by the scale of this velocity, if
    that is larger. The scale of tangential impulses follows likewise from the larger tangential impulse, velocity scale
    and mobility.
    """
    contacts, h, v = problem.contacts, problem.h, solution.v_plus
    n, J = len(contacts), contacts.jacobian
    free, fixed, b = free_indices(problem)
    A, coupled = problem.M[np.ix_(free, free)], problem.M[np.ix_(free, fixed)]
    rows, f = J[:, free], solution.impulses.T.ravel()
    momenta = np.abs(problem.kappa[free]) + np.abs(coupled) @ np.abs(b)
    at_rest = _solved(A, -problem.kappa[free] - coupled @ b)
    answers = _solved(A, rows.T)
    before = np.zeros_like(v)
    before[free], before[fixed] = at_rest, b
    offset, compliance = _offset(problem), np.zeros(3 * n)
    if law == "constraint":
        B = np.where(contacts.gap > 0.0, 0.0, DAMPING)
        offset[:n] = contacts.gap * STIFFNESS / (h * STIFFNESS + B) - contacts.surface_velocity[:n]
        compliance[:n] = 1.0 / (h * (h * STIFFNESS + B))
        creep = 0.5 * CREEP * (J[n:] ** 2 @ (1.0 / np.diag(problem.M))).reshape(2, n).sum(axis=0)
        compliance[n:] = np.tile(creep, 2)
    start, yielding = offset + J @ before, compliance * f
    speed = offset + J @ v
    operator = rows @ answers
    mobility = np.diag(operator)
    unit = np.abs(start) + np.abs(speed - start) + np.abs(yielding)
    # The rounding error of `speed`, and of the velocities at zero impulse in it, is at most ``count ε Σ|terms|``. It is
    # capped, so that 8 digits of the net effect of cancelling impulses must be correct.
    root, change = np.sqrt(np.diag(A)), v[free] - at_rest
    size = np.abs(offset) + np.abs(J) @ (np.abs(before) + np.abs(v))
    size += np.abs(answers).T @ (momenta + root * (root @ np.abs(at_rest)))
    energy = np.sqrt(np.maximum(mobility * (change @ A @ change), 0.0))
    count = (v.size + 3 * n) * EPSILON
    lost = count * size + np.minimum(count * (np.abs(operator) @ np.abs(f)), DIGITS * energy)
    # the axes of a contact share a bound: rounding along one axis may appear along another
    units = _by_contact(unit) + _by_contact(lost).max(axis=1, keepdims=True) / TOLERANCE
    mobilities = _by_contact(mobility + compliance)
    pushed, along = np.abs(solution.impulses).max(axis=1), np.abs(solution.impulses[:, 1:]).max(axis=1)
    across, softest = units[:, 1:].max(axis=1), mobilities[:, 1:].max(axis=1)
    p_n = np.maximum(pushed, _quotient(units[:, 0], mobilities[:, 0]))
    p_t = np.maximum(along, _quotient(across, softest))
    closed, drag = _closed(problem)
    return Touching(
        f=solution.impulses,
        u=_by_contact(speed + yielding),
        mu=contacts.mu,
        impulse=np.column_stack((p_n, p_t)),
        speed=units,
        drag=drag,
        closed=closed,
        movable=(J[n:] != 0.0).any(axis=1).reshape(2, n).any(axis=0),
    )


def _sap(problem: StepProblem, solution: StepSolution, speed: Array) -> Array:
    """Return the distance of each contact's impulse from the projection of ``-R⁻¹(J v⁺ - v̂)`` onto its cone, (n,).

    R is SAP's regularization, and v̂ is the surface velocity plus the normal velocity with which SAP closes a gap. The
    distance is relative to the impulse or to `speed` / R, whichever is larger. A near-rigid contact obeys its law if
    the distance is 0 (Castro, Permenter & Han 2022, sections VII and IX).
    """
    contacts, h, f = problem.contacts, problem.h, solution.impulses
    n, J = len(contacts), contacts.jacobian
    by_contact = J.reshape(3, n, -1).swapaxes(0, 1)
    answers = _solved(problem.M, J.T).T.reshape(3, n, -1).swapaxes(0, 1)
    w = np.linalg.norm(by_contact @ answers.swapaxes(1, 2), axis=(1, 2)) / 3.0
    R = np.column_stack((BETA**2 * w / (4.0 * np.pi**2), SIGMA * w, SIGMA * w))
    u = _by_contact(J @ solution.v_plus - contacts.surface_velocity)
    u[:, 0] -= np.minimum(-contacts.gap / (h + BETA * h / np.pi), PUSH_OUT_SPEED)
    y_n, y_t = np.split(-relative(u, R), [1], axis=1)
    y_n, along = y_n[:, 0], np.linalg.norm(y_t, axis=1)
    mu = np.where((contacts.gap > CLOSED_GAP) & (contacts.mu == np.inf), 0.0, contacts.mu)
    with np.errstate(invalid="ignore"):  # infinite friction, and contacts between immovable bodies
        hat = mu * SIGMA * 4.0 * np.pi**2 / BETA**2
        sticks, slides = along <= mu * y_n, (y_n + hat * along) / (1.0 + mu * hat)
        normal = np.maximum(np.where(sticks | (mu == 0.0) | (mu == np.inf), y_n, slides), 0.0)
        share = np.where(sticks, 1.0, mu * normal / np.where(along > 0.0, along, 1.0))
        # with infinite friction the cone is the half space. A contact with a tangential impulse counts as held, any
        # other opening contact as released.
        share = np.where(mu == np.inf, (y_n > 0.0) | f[:, 1:].any(axis=1), share)
        wanted = np.column_stack((normal, share[:, None] * y_t))
        unit = np.maximum(np.abs(f).max(axis=1, keepdims=True), _quotient(speed, R))
        away = np.abs(relative(f - wanted, unit)).max(axis=1)
    return np.where(w > 0.0, away, np.where(np.abs(f).sum(axis=1) < 1e-200, 0.0, np.inf))


def unbalanced(problem: StepProblem, solution: StepSolution) -> Array:
    """Return the residual of the momentum balance M v⁺ + κ = Jᵀf + Pᵀ(hτ) + Λᵀg, shape (m,).

    A solution does not contain the impulses g of bilateral rows. For compliant rows g follows from their law; for rigid
    rows g is chosen to minimize the residual.
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


def momentum_terms(problem: StepProblem, solution: StepSolution) -> Array:
    """Return the sum of magnitudes of all terms of the momentum balance, except bilateral impulses, shape (m,)."""
    pushed = np.abs(problem.contacts.jacobian.T) @ np.abs(solution.impulses.T.ravel())
    size: Array = np.abs(problem.M) @ np.abs(solution.v_plus) + np.abs(problem.kappa) + pushed
    if problem.prescribed is not None:
        size[problem.prescribed.index] += np.abs(solution.multipliers)
    return size


def _offset(problem: StepProblem) -> Array:
    """Return the offset of J v⁺ in the law: clipped φ/h on normals, minus surface velocities, shape (3 n,) [m/s]."""
    offset: Array = -problem.contacts.surface_velocity
    offset[: len(problem.contacts)] += np.maximum(problem.contacts.gap / problem.h, -PUSH_OUT_SPEED)
    return offset


def _closed(problem: StepProblem) -> tuple[Booleans, Array]:
    """Return True for closed contacts, and the drag h μ_v of the viscous law, shapes (n,)."""
    closed = problem.contacts.gap <= CLOSED_GAP
    return closed, np.where(closed, problem.h * problem.contacts.damping, 0.0)


def _by_contact(rows: Array) -> Array:
    """Rearrange `rows` in block order, shape (3 n,), into (normal, tangents) per contact, shape (n, 3)."""
    return np.ascontiguousarray(rows.reshape(3, -1).T)


def _quotient(x: Array, by: Array) -> Array:
    """Return the quotient x / by; 0 where `by` is zero."""
    return np.divide(x, by, out=np.zeros_like(x), where=by > 0.0)


def _solved(A: npt.NDArray[np.floating], b: npt.NDArray[np.floating]) -> npt.NDArray[np.floating]:
    """Return A⁻¹ b for a symmetric positive definite A, refined to the precision of `b`."""
    size = np.sqrt(np.diag(A))
    balanced, right = A / np.outer(size, size), (b.T / size).T
    rounded = balanced.astype(np.float64)
    x = np.linalg.solve(rounded, right.astype(np.float64))
    if b.dtype == np.longdouble:
        for _ in range(3):
            x = x + np.linalg.solve(rounded, (right - balanced @ x).astype(np.float64))
    return np.asarray((x.T / size).T)
