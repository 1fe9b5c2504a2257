"""How a controller turns one step with prescribed joints into motor impulses: a contact model, and what follows it.

A scheme is a function from the problem and a `Step` to an `Outcome`; its impulses are those that the controller
predicts. What a scheme gives up when its model has no use is given up in a fixed order: tracking, then the demand that
nothing slips; never a friction cone, and never a torque limit (`idcontrol.controllers.inverse`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal, TypeAlias

import numpy as np
from msgspec import structs

from idcontrol.controllers.compiled import ALONE, NEAREST_RAMPS, RAMPS, SEARCH_NODES, SHARES, Plain
from idcontrol.controllers.repair import nearest_motion
from idcontrol.errors import InputError
from idcontrol.models import coulomb, dissipation, no_slip, specification
from idcontrol.models.compiled import COULOMB, DISSIPATION, NO_SLIP, NO_SLIP_DUAL, ONE_STAGE
from idcontrol.models.distribution import smallest_torque, torque_map
from idcontrol.models.problem import CLOSED_GAP, ContactModel, StepProblem, StepSolution, WarmStart
from idcontrol.models.reduction import Reduction, recover, reduce
from idcontrol.solvers.enumerate import NearestProblem, nearest_solution
from idcontrol.types import Array, Booleans, Status

Objective: TypeAlias = Literal["consistent", "printed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What a scheme may use beside the problem.

    Attributes:
        warm: What the last step's solution left behind.
        reluctance: Weight on the impulses of feet that are about to lift or have just landed, shape (n,); None is none.
        edge_speed_m_s: v_tol of stage II (math.md 7.4) [m/s].
        last: Motor impulses hτ of the last step, of the prescribed joints, shape (p,) [N m s].
        limit: The largest motor impulses, likewise; inf where there is none.
        repair: Whether a scheme without slip stays within friction pyramids and limits, whatever that costs.
        objective: Of stage I: consistent with the contact model, or as 003 prints it (math.md 7.2).
    """

    warm: WarmStart
    reluctance: Array | None
    edge_speed_m_s: float
    last: Array
    limit: Array
    repair: bool = True
    objective: Objective = "consistent"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a scheme found.

    Attributes:
        solution: The model's solution; its impulses are those that are predicted.
        motor_impulse: hτ of the prescribed joints, shape (p,) [N m s].
        dropped: What was given up, in the words of `Command.dropped`.
    """

    solution: StepSolution
    motor_impulse: Array
    dropped: tuple[str, ...] = ()


Solver: TypeAlias = Callable[[StepProblem, Step], Outcome]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scheme:
    """One row of the table of controllers.

    Attributes:
        solve: The scheme itself.
        model: The contact model that is used forward where the joints must give way (math.md 12.3).
        projects: Whether the desired velocity is first projected onto what the contacts allow (math.md 12.1).
        ramp_follows: Whether `ramp` follows: not where the scheme's own second stage minds `Step.reluctance`, nor where
            stage I is to be seen as it is.
        plain: Its compiled step; None where there is none.
        specified: The same with its convex problems solved by a general library (`idcontrol.models.specification`);
            None where they are not convex.
    """

    solve: Solver
    model: ContactModel
    projects: bool = True
    ramp_follows: bool = True
    plain: Plain | None = None
    specified: Solver | None = None


def as_specified(scheme: Scheme) -> Scheme:
    """The scheme with its problems solved as they are stated, by a general library; never compiled.

    Raises:
        InputError: The scheme's problem is not convex, or the library is not installed.
    """
    if scheme.specified is None:
        raise InputError(
            "inverse.solver=reference: this controller's contact problem is not convex; those of id-coulomb-qp, "
            "id-coulomb-qp-raw, id-coulomb-qp-1 and id-noslip-qp are"
        )
    specification.require()
    return replace(scheme, solve=scheme.specified, model=specification.dissipation, plain=None)


def _outcome(solution: StepSolution) -> Outcome:
    """The solution as it is; "exactness" was given up where the exact problem failed and a regularized one did not."""
    regularized = solution.status is Status.REPAIRED and solution.regularization > 0.0
    return Outcome(solution=solution, motor_impulse=solution.multipliers, dropped=("exactness",) if regularized else ())


def _shared(
    problem: StepProblem,
    step: Step,
    reduction: Reduction,
    solution: StepSolution,
    held: Booleans,
    reference: Array | None = None,
) -> Outcome | None:
    """The same motion with the torque smallest, or nearest to a reference; None where no impulses were found for it."""
    y, better = smallest_torque(
        reduction,
        solution.impulses.T.ravel(),
        solution.multipliers,
        problem.contacts.mu,
        held=held,
        v_tol=step.edge_speed_m_s,
        reluctance=step.reluctance,
        reference=reference,
    )
    if not better:
        return None
    rigid = np.zeros(reduction.rho.shape[0] - y.size)
    _, motor_impulse = recover(reduction, np.concatenate((y, rigid)))
    solution = structs.replace(solution, impulses=np.ascontiguousarray(y.reshape(3, -1).T))
    return Outcome(solution=solution, motor_impulse=motor_impulse)


def ramp(problem: StepProblem, step: Step, outcome: Outcome) -> Outcome:
    """Unload reluctant feet without changing the motion, and the torque as little as that takes."""
    solution = outcome.solution
    if step.reluctance is None or not step.reluctance.any() or solution.status is Status.FALLBACK:
        return outcome
    found = structs.replace(solution, multipliers=outcome.motor_impulse)
    held = dissipation.held_contacts(problem)
    shared = _shared(problem, step, reduce(problem), found, held, reference=outcome.motor_impulse)
    return outcome if shared is None else replace(shared, dropped=outcome.dropped)


def two_stages(problem: StepProblem, step: Step) -> Outcome:
    """Maximal dissipation, then the smallest torque among its optima (math.md 7.3, 7.4)."""
    reduction = reduce(problem)
    if step.objective == "printed":
        # its optimum knows nothing of contact velocities, so neither can the edge rule
        solution, step = dissipation.solve_printed(problem, step.warm), replace(step, edge_speed_m_s=np.inf)
    else:
        solution = dissipation.solve_reduced(problem, reduction, step.warm)
    if solution.status is Status.FALLBACK:
        return _outcome(solution)
    shared = _shared(problem, step, reduction, solution, dissipation.held_contacts(problem))
    if shared is None:
        return _outcome(structs.replace(solution, status=Status.REPAIRED, note="stage II found no point"))
    return shared


def stage_one(problem: StepProblem, step: Step) -> Outcome:
    """Maximal dissipation alone: which of its optima comes out is the solver's choice (003 Figs. 6, 15)."""
    solve = dissipation.solve_printed if step.objective == "printed" else dissipation.solve
    return _outcome(solve(problem, step.warm))


def one_stage(problem: StepProblem, step: Step) -> Outcome:
    """Maximal dissipation with a ridge that shares the impulses at once (math.md 7.5)."""
    return _outcome(dissipation.one_stage(problem, step.warm))


def friction_lcp(problem: StepProblem, step: Step) -> Outcome:
    """Coulomb friction by Lemke's method (math.md 5)."""
    return _outcome(coulomb.solve(problem, step.warm))


def without_slip(problem: StepProblem, step: Step, *, dual: bool) -> Outcome:
    """Nothing slips; the impulses are then shared for the smallest torque (math.md 4, 7.6), within friction pyramids.

    The model itself knows no pyramid. Where the motion needs more friction than there is, or rows that should hold do
    not, the joints give way (`nearest_motion`); where that is of no use, contacts may slip (`two_stages`). With
    `Step.repair` off friction has no bound there, as in the original.

    Args:
        problem: The step.
        step: What else is known.
        dual: Whether the convex projection is solved (003 "QP, inf") or the LCP of its normals by pivoting (003
            Algorithms 1 and 2); the motion is the same.
    """
    reduction = reduce(problem)
    solution = no_slip.solve_reduced(problem, reduction, step.warm, dual=dual)
    closed = problem.contacts.gap <= CLOSED_GAP
    if solution.status is Status.SOLVED or (solution.status is Status.REPAIRED and not step.repair):
        shared = _shared(problem, step, reduction, solution, dissipation.held_contacts(problem))
        if shared is None and not step.repair:
            shared = _shared(problem, step, reduction, solution, closed)
        # without a joint that is prescribed there is nothing to share by, and the pyramids were not looked at
        if shared is not None and (reduction.fixed.size > 0 or not step.repair):
            return shared
    if not step.repair:
        return _outcome(solution)
    held = closed
    if solution.status is not Status.FALLBACK:
        n = closed.size
        contact = reduction.c[:n] + reduction.rows[:n] @ (solution.v_plus - reduction.v_free)
        held = closed & (contact <= step.edge_speed_m_s)
    if reduction.fixed.size > 0:
        nearest = nearest_motion(problem, reduction, held, step.limit, step.reluctance)
        if nearest is not None:
            return Outcome(solution=nearest, motor_impulse=nearest.multipliers, dropped=("tracking",))
    slipping = two_stages(problem, replace(step, warm={}, objective="consistent"))
    return replace(slipping, solution=_repaired(slipping.solution, "contacts may slip"), dropped=("no-slip",))


def _repaired(solution: StepSolution, note: str) -> StepSolution:
    if solution.status is Status.FALLBACK:
        return solution
    return structs.replace(solution, status=Status.REPAIRED, note=note, warm={})


def nearest_torque(problem: StepProblem, step: Step) -> Outcome:
    """Of the solutions of the friction LCP the one whose torque is nearest to the last (003 Alg. 3; math.md 6).

    The search knows the modes of friction pyramids. With a contact of infinite friction the motion is kept, and of the
    impulses that give it those with the nearest torque are taken.
    """
    solution = coulomb.solve(problem)
    n = len(problem.contacts)
    if n == 0 or solution.status is Status.FALLBACK:
        return _outcome(solution)
    reduction = reduce(problem)
    if np.isinf(problem.contacts.mu).any():
        outcome, held = _outcome(solution), dissipation.held_contacts(problem)
        shared = _shared(problem, step, reduction, solution, held, reference=step.last)
        return outcome if shared is None else replace(shared, dropped=outcome.dropped)
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
    solution = structs.replace(solution, impulses=np.ascontiguousarray(nearest.y.reshape(3, -1).T))
    return replace(_outcome(solution), motor_impulse=motor_impulse)


def _shared_as_specified(problem: StepProblem, step: Step, solution: StepSolution) -> Outcome | None:
    shared = specification.smallest_torque(
        problem,
        solution,
        held=dissipation.held_contacts(problem),
        v_tol=step.edge_speed_m_s,
        reluctance=step.reluctance,
    )
    if shared is None:
        return None
    return Outcome(solution=structs.replace(solution, impulses=shared[1]), motor_impulse=shared[0])


def two_stages_specified(problem: StepProblem, step: Step) -> Outcome:
    """`two_stages` as math.md 7.3 and 7.4 state them."""
    solution = specification.dissipation(problem)
    if solution.status is Status.FALLBACK:
        return _outcome(solution)
    shared = _shared_as_specified(problem, step, solution)
    if shared is None:
        return _outcome(structs.replace(solution, status=Status.REPAIRED, note="stage II found no point"))
    return shared


def without_slip_specified(problem: StepProblem, step: Step) -> Outcome:
    """`without_slip` as math.md 7.6 and 7.4 state it; what is given up where that has no use is the fast scheme's."""
    solution = specification.no_slip(problem)
    if solution.status is Status.SOLVED:
        shared = _shared_as_specified(problem, step, solution)
        if shared is not None:
            return shared
    return without_slip(problem, step, dual=True)


COULOMB_QP = Scheme(
    solve=two_stages,
    model=dissipation.solve,
    ramp_follows=False,
    plain=Plain(model=DISSIPATION, after=SHARES),
    specified=two_stages_specified,
)
COULOMB_QP_RAW = Scheme(
    solve=stage_one,
    model=dissipation.solve,
    projects=False,
    ramp_follows=False,
    plain=Plain(model=DISSIPATION, after=ALONE),
    specified=lambda problem, step: _outcome(specification.dissipation(problem)),
)
COULOMB_QP_1 = Scheme(
    solve=one_stage,
    model=dissipation.one_stage,
    plain=Plain(model=ONE_STAGE, after=RAMPS),
    specified=lambda problem, step: _outcome(specification.one_stage(problem)),
)
NO_SLIP_LCP = Scheme(
    solve=partial(without_slip, dual=False),
    model=dissipation.solve,
    ramp_follows=False,
    plain=Plain(model=NO_SLIP, after=SHARES),
)
NO_SLIP_QP = Scheme(
    solve=partial(without_slip, dual=True),
    model=dissipation.solve,
    ramp_follows=False,
    plain=Plain(model=NO_SLIP_DUAL, after=SHARES),
    specified=without_slip_specified,
)
COULOMB_LCP = Scheme(solve=friction_lcp, model=coulomb.solve, plain=Plain(model=COULOMB, after=RAMPS))
COULOMB_SMOOTH = Scheme(solve=nearest_torque, model=coulomb.solve, plain=Plain(model=COULOMB, after=NEAREST_RAMPS))
