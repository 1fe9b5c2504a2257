"""How a controller turns one step with prescribed joints into motor impulses: a contact model, and what follows it.

A scheme is a function from the problem and a `Step` to the model's solution and the motor impulses hτ. Its impulses are
those that the controller predicts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeAlias

import numpy as np

from idcontrol.models import coulomb, dissipation, no_slip
from idcontrol.models.distribution import smallest_torque, torque_map
from idcontrol.models.problem import CLOSED_GAP, ContactModel, StepProblem, StepSolution, WarmStart
from idcontrol.models.reduction import Reduction, recover, reduce
from idcontrol.solvers.enumerate import NearestProblem, nearest_solution
from idcontrol.types import Array, Booleans, Status


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What a scheme may use beside the problem.

    Attributes:
        warm: What the last step's solution left behind.
        reluctance: Weight on the impulses of feet that are about to lift or have just landed, shape (n,); None is none.
        edge_speed_m_s: v_tol of stage II (math.md 7.4) [m/s].
        last: Motor impulses hτ of the last step, of the prescribed joints, shape (p,) [N m s].
    """

    warm: WarmStart
    reluctance: Array | None
    edge_speed_m_s: float
    last: Array


Solver: TypeAlias = Callable[[StepProblem, Step], tuple[StepSolution, Array]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scheme:
    """One row of the table of controllers.

    Attributes:
        solve: The scheme itself.
        model: The contact model behind it, used forward where the joints must give way (math.md 12.3).
        projects: Whether the desired velocity is first projected onto what the contacts allow (math.md 12.1).
    """

    solve: Solver
    model: ContactModel
    projects: bool = True


def two_stages(problem: StepProblem, step: Step) -> tuple[StepSolution, Array]:
    """Maximal dissipation, then the smallest torque among its optima (math.md 7.3, 7.4)."""
    reduction = reduce(problem)
    solution = dissipation.solve_reduced(problem, reduction, step.warm)
    if solution.status is Status.FALLBACK:
        return solution, solution.multipliers
    shared = _shared(problem, step, reduction, solution, dissipation.held_contacts(problem))
    if shared is None:
        return replace(solution, status=Status.REPAIRED, note="stage II found no point"), solution.multipliers
    return shared


def one_stage(problem: StepProblem, step: Step) -> tuple[StepSolution, Array]:
    """Maximal dissipation with a ridge that shares the impulses at once (math.md 7.5)."""
    solution = dissipation.one_stage(problem, step.warm)
    return solution, solution.multipliers


def without_slip(problem: StepProblem, step: Step, *, dual: bool) -> tuple[StepSolution, Array]:
    """No contact slips; the impulses are then shared for the smallest torque (math.md 4, 7.6).

    They are sought within the friction pyramids first: where the motion can be had so, nothing forbids that the ground
    is believed to hold what it can. Where it cannot, friction has no bound, as the model has it (math.md 4.3).

    Args:
        problem: The step.
        step: What else is known.
        dual: Whether the convex projection is solved (003 "QP, inf") or the LCP of its normals by pivoting (003
            Algorithms 1 and 2); the motion is the same.
    """
    reduction = reduce(problem)
    solution = no_slip.solve_reduced(problem, reduction, step.warm, dual=dual)
    if solution.status is Status.FALLBACK:
        return solution, solution.multipliers
    closed = problem.contacts.gap <= CLOSED_GAP
    for held in (dissipation.held_contacts(problem), closed):
        shared = _shared(problem, step, reduction, solution, held)
        if shared is not None:
            return shared
    return replace(solution, status=Status.REPAIRED, note="no distribution was found"), solution.multipliers


def _shared(
    problem: StepProblem, step: Step, reduction: Reduction, solution: StepSolution, held: Booleans
) -> tuple[StepSolution, Array] | None:
    """The same motion with the smallest torque; None where no impulses were found that give it."""
    y, better = smallest_torque(
        reduction,
        solution.impulses.T.ravel(),
        solution.multipliers,
        problem.contacts.mu,
        held=held,
        v_tol=step.edge_speed_m_s,
        reluctance=step.reluctance,
    )
    if not better:
        return None
    rigid = np.zeros(reduction.rho.shape[0] - y.size)
    _, motor_impulse = recover(reduction, np.concatenate((y, rigid)))
    return replace(solution, impulses=np.ascontiguousarray(y.reshape(3, -1).T)), motor_impulse


def stage_one(problem: StepProblem, step: Step) -> tuple[StepSolution, Array]:
    """Maximal dissipation alone: which of its optima comes out is the solver's choice (003 Figs. 6, 15)."""
    solution = dissipation.solve(problem, step.warm)
    return solution, solution.multipliers


def friction_lcp(problem: StepProblem, step: Step) -> tuple[StepSolution, Array]:
    """Coulomb friction by Lemke's method (math.md 5)."""
    solution = coulomb.solve(problem, step.warm)
    return solution, solution.multipliers


SEARCH_NODES = 1
"""Quadratic programs that `nearest_torque` may solve in a step.

The first is the nearest point with the contact modes of Lemke's solution; more would look for another motion, which
exists for high friction only (math.md 6.3).
"""


def nearest_torque(problem: StepProblem, step: Step) -> tuple[StepSolution, Array]:
    """Of the solutions of the friction LCP the one whose torque is nearest to the last (003 Alg. 3; math.md 6)."""
    solution = coulomb.solve(problem)
    n = len(problem.contacts)
    if n == 0 or solution.status is Status.FALLBACK:
        return solution, solution.multipliers
    reduction = reduce(problem)
    y = solution.impulses.T.ravel()
    torque = torque_map(reduction, n)
    rho = reduction.rho[: 3 * n]
    nearest = nearest_solution(
        NearestProblem(
            V=rho @ rho.T,
            v0=reduction.c[: 3 * n],
            mu=problem.contacts.mu,
            T=torque,
            t0=solution.multipliers - torque @ y,
            target=step.last,
            weights=np.ones_like(step.last),
        ),
        y,
        max_nodes=SEARCH_NODES,
    )
    _, motor_impulse = recover(reduction, nearest.y)
    return replace(solution, impulses=np.ascontiguousarray(nearest.y.reshape(3, -1).T)), motor_impulse


COULOMB_QP = Scheme(solve=two_stages, model=dissipation.solve)
COULOMB_QP_RAW = Scheme(solve=stage_one, model=dissipation.solve, projects=False)
COULOMB_QP_1 = Scheme(solve=one_stage, model=dissipation.one_stage)
NO_SLIP_LCP = Scheme(solve=partial(without_slip, dual=False), model=no_slip.solve)
NO_SLIP_QP = Scheme(solve=partial(without_slip, dual=True), model=dissipation.no_slip_qp)
COULOMB_LCP = Scheme(solve=friction_lcp, model=coulomb.solve)
COULOMB_SMOOTH = Scheme(solve=nearest_torque, model=coulomb.solve)
