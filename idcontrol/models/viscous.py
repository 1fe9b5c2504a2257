r"""Viscous friction: drag along the tangents in proportion to slip (math.md, section 8).

    M (v⁺ - v) = h f + Nᵀf_N - h Sᵀ D (S v⁺ - s) - h Tᵀ D (T v⁺ - t),     0 ≤ f_N ⊥ N v⁺ + φ/h ≥ 0

with D = diag μ_v, f all other forces, and (s, t) the velocity of the surface. Drag is not an unknown, so the remaining
problem is frictionless. Implicit drag is a damper in the inertia, ``M̃ = M + h (SᵀDS + TᵀDT)``; explicit drag, at the
initial velocity v, is a known force.

The coefficient μ_v is `Contacts.damping` [N s/m], finite; friction coefficients are not used. A contact whose initial
gap exceeds `CLOSED_GAP` has no drag.

Source: Drumwright 2015, section IV, which uses explicit drag (`solve_explicit`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

import numpy as np
from msgspec import structs

from idcontrol.contact.contacts import Contacts
from idcontrol.errors import InputError
from idcontrol.kernels.jit import njit
from idcontrol.models import dissipation
from idcontrol.models.step import CLOSED_GAP, Bilateral, StepProblem, StepSolution, WarmStart
from idcontrol.models.whitened import Whitened, balances, whiten
from idcontrol.solvers.lcp import SLIGHT, rounding
from idcontrol.types import Array, Integers, Status

WhitenedModel: TypeAlias = Callable[[StepProblem, Whitened, WarmStart | None], StepSolution]
"""A contact model for a whitened problem."""


def solve(
    problem: StepProblem, warm: WarmStart | None = None, normals: WhitenedModel = dissipation.solve_whitened
) -> StepSolution:
    """Solve one step with implicit drag, stable for any h: ``f_S = -h μ_v (S v⁺ - s)``, and the same along T.

    A drag row is a soft bilateral row, ``S v⁺ = s - f_S / (h μ_v)``. In inverse mode the motor impulses follow from M̃.

    Args:
        problem: The step, forward or inverse.
        warm: `warm` of the last solution: pressing contacts by identity.
        normals: Solver of the remaining frictionless problem.

    Returns:
        The solution. FALLBACK with the note ``"squeeze"`` if no impulses can keep contacts apart; then only drag acts.
        REPAIRED if the momenta do not balance, or normal velocities violate their law, by more than the tolerance.

    Raises:
        InputError: A drag coefficient is not finite.
    """
    axis, dragged, rate = _drag(problem)
    rows = axis * len(problem.contacts) + dragged
    target = problem.contacts.surface_velocity[rows]
    drag = Bilateral(rows=problem.contacts.jacobian[rows], target=target, compliance=1.0 / rate)
    ties = drag if problem.bilateral is None else _joined(problem.bilateral, drag)
    dragging = replace(problem, contacts=_frictionless(problem), bilateral=ties)
    whitened = whiten(dragging)
    solution = normals(dragging, whitened, warm)
    solution = _with_drag(solution, axis, dragged, rate * (target - drag.rows @ solution.v_plus))
    if solution.status is Status.SOLVED and problem.bilateral is None and not _exact(problem, whitened, solution):
        return structs.replace(solution, status=Status.REPAIRED, note="drag loses the momentum of light bodies")
    return solution


def _exact(problem: StepProblem, whitened: Whitened, solution: StepSolution) -> bool:
    """True if momenta balance, and normal velocities obey their law.

    If drag nearly stops a light body, the drag is the product of a large coefficient and a small slip. The coefficient
    magnifies the rounding error of the slip. Errors up to the rounding of the velocities are therefore allowed. Larger
    errors must be slight compared with the velocities that the same impulses would cause without drag (inertia M).
    With M̃, which includes drag, the comparison would hide errors of other contacts.
    """
    f, v = solution.impulses.T.ravel(), solution.v_plus
    f_n = f[: len(problem.contacts)]
    balance = balances(problem.M, problem.kappa, problem.contacts.jacobian, whitened.free, v, f)
    return bool(balance and (_rests(whitened, v, f_n, False) or _rests(whiten(problem), v, f_n, True)))


@njit(cache=True, error_model="numpy")
def _rests(w: Whitened, v: Array, f_n: Array, slightly: bool) -> bool:  # pragma: no cover - compiled
    """True if at velocities v (m,) no contact approaches, and no contact with a normal impulse f_n (n,) opens.

    The tolerance is the rounding of v. If `slightly`, it includes the fraction `SLIGHT` of the velocity at zero impulse
    and of its change, and the rounding bound of the velocity at zero impulse.
    """
    rests = True
    for i in range(f_n.size):
        change, terms = 0.0, 0.0
        for j in range(v.size):
            term = w.rows[i, j] * (v[j] - w.v_free[j])
            change += term
            terms += abs(term)
        speed, unit = w.c[i] + change, abs(w.c[i]) + abs(change)
        if speed < 0.0 or f_n[i] > 0.0:
            allowed = rounding(v.size, terms) + (SLIGHT * unit + w.roundoff[i] if slightly else 0.0)
            rests = rests and abs(speed) <= allowed
    return rests


def solve_explicit(problem: StepProblem, v: Array, warm: WarmStart | None = None) -> StepSolution:
    """Solve one step with explicit drag: ``f_S = -h μ_v (S v - s)``; stable only for ``h μ_v S M⁻¹Sᵀ < 2``.

    Args:
        problem: The step, forward or inverse.
        v: Velocity at the start of the step, shape (m,).
        warm: `warm` of the last solution.

    Raises:
        InputError: A drag coefficient is not finite.
    """
    axis, dragged, rate = _drag(problem)
    rows = axis * len(problem.contacts) + dragged
    jacobian = problem.contacts.jacobian[rows]
    impulse = rate * (problem.contacts.surface_velocity[rows] - jacobian @ v)
    driven = replace(problem, contacts=_frictionless(problem), kappa=problem.kappa - jacobian.T @ impulse)
    return _with_drag(dissipation.solve(driven, warm), axis, dragged, impulse)


def _drag(problem: StepProblem) -> tuple[Integers, Integers, Array]:
    """Return the tangent axis (1 or 2), contact and h μ_v of every row with drag.

    Raises:
        InputError: A drag is not finite.
    """
    contacts = problem.contacts
    if not np.isfinite(contacts.damping).all():
        raise InputError("viscous model: drag must be finite; use the model no_slip for contacts that never slip")
    closed = np.flatnonzero((contacts.gap <= CLOSED_GAP) & (contacts.damping > 0.0))
    return np.repeat([1, 2], closed.size), np.tile(closed, 2), problem.h * np.tile(contacts.damping[closed], 2)


def _frictionless(problem: StepProblem) -> Contacts:
    return replace(problem.contacts, mu=np.zeros(len(problem.contacts)))


def _joined(one: Bilateral, other: Bilateral) -> Bilateral:
    return Bilateral(
        rows=np.vstack((one.rows, other.rows)),
        target=np.concatenate((one.target, other.target)),
        compliance=np.concatenate((one.compliance, other.compliance)),
    )


def _with_drag(solution: StepSolution, axis: Integers, dragged: Integers, impulse: Array) -> StepSolution:
    impulses = solution.impulses.copy()
    impulses[dragged, axis] = impulse
    return structs.replace(solution, impulses=impulses)
