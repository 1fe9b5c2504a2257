"""Control steps that a scheme could not solve at once: solved in Python, and what is given up where that fails.

First comes the scheme's contact model with all that it can do: infinite friction, restarts, a regularization. In
schemes without slip the joints then give way, or contacts slip (`without_slip`). Last, all motors become stiff velocity
servos (`servo`), which always has a solution. Friction cones and torque limits are never given up.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

import numpy as np
from msgspec import structs

from idcontrol.controllers.repair import GAVE_WAY, nearest_motion, velocity_kernel
from idcontrol.controllers.step import GIVEN_UP, MOVED, Posed
from idcontrol.kernels.arena import HEAP
from idcontrol.models import dissipation, no_slip, specification
from idcontrol.models.distribution import Bounds, Cones, missed_law, smallest_torque, torque_map, unbounded, within
from idcontrol.models.step import (
    CLOSED_GAP,
    Bilateral,
    ContactModel,
    StepProblem,
    StepSolution,
    WarmStart,
)
from idcontrol.models.whitened import recover, whiten
from idcontrol.solvers.enumerate import NearestProblem, gap, nearest_solution, tick_nodes
from idcontrol.solvers.status import TOLERANCE
from idcontrol.types import Array, Status

SERVO_COMPLIANCE: Final = 1e-4
"""ε of soft tracking (math.md, section 12.3): joints follow to 1e-4 of the demand where the demand can be met."""

FADES_S: Final = 0.01
"""Time in which the last torque fades where impulses are shared next to it [s]: as long as a foot may be landing.

Forces that the base does not feel are kept by nothing else, so those of one stance would last into the next, where they
have to be given back within a few periods (math.md, section 6.1).
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A control step for Python, some of whose joints may have got their limit as a known torque.

    Attributes:
        problem: The step; the joints that are tracked are prescribed.
        posed: The step in whitened form.
        warm: Warm start from the last step's solution.
        repair: Whether a scheme without slip gives up tracking, or that nothing slips, to stay within friction pyramids
            and limits. Off, its contacts must have infinite friction.
    """

    problem: StepProblem
    posed: Posed
    warm: WarmStart
    repair: bool


def request(problem: StepProblem, cones: Cones, *, last: Array, bounds: Bounds | None = None) -> Request:
    """A control step from its problem alone, without a memory of the last one.

    Args:
        problem: The step, with prescribed velocities.
        cones: Where the impulses of its contacts may lie.
        last: Motor impulses of the last step, shape (p,) [N m s].
        bounds: Of the motor impulses; None is no bound.
    """
    assert problem.prescribed is not None
    contacts = problem.contacts.arrays
    n = contacts.identity.size
    posed = Posed(
        w=whiten(problem),
        b=problem.prescribed.velocity,
        which=np.arange(n),
        contacts=contacts,
        target=contacts.surface_velocity,
        cones=cones,
        active=np.zeros(n, dtype=np.int64),
        last=last,
        held=np.zeros_like(last),
        bounds=unbounded(last.size) if bounds is None else bounds,
        h=problem.h,
        sticks=False,
        lands=False,
    )
    return Request(problem=problem, posed=posed, warm={}, repair=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """A solution of a control step.

    Attributes:
        solution: The model's solution; its impulses are those that are predicted.
        motor_impulse: hτ of the tracked joints, shape (p,) [N m s].
        dropped: The demands that were given up, in the words of `Command.dropped`.
        sticking: Whether the sticking motion was the solution.
        gap: As `Command.gap`, of motor impulses [N m s].
    """

    solution: StepSolution
    motor_impulse: Array
    dropped: tuple[str, ...] = ()
    sticking: bool = False
    gap: float = np.nan


Distribution: TypeAlias = Callable[[Request, StepSolution], Outcome]
"""From a model's solution to impulses and torques."""


def keep(request: Request, solution: StepSolution) -> Outcome:
    """The solution as it is; "exactness" was given up where the exact problem failed and a regularized one did not."""
    regularized = solution.status is Status.REPAIRED and solution.note == "regularized"
    return Outcome(solution=solution, motor_impulse=solution.multipliers, dropped=("exactness",) if regularized else ())


def share(request: Request, solution: StepSolution) -> Outcome:
    """Stage II; where it finds no point the model's own impulses stay."""
    shared = _shared(request, solution, request.posed.cones, request.posed.held)
    if shared is None:
        return keep(request, structs.replace(solution, status=Status.REPAIRED, note="stage II found no point"))
    return shared


def share_as_specified(request: Request, solution: StepSolution) -> Outcome:
    """Stage II by a general library."""
    posed = request.posed
    shared = specification.smallest_torque(request.problem, solution, posed.cones, posed.held, posed.bounds)
    if shared is None:
        return keep(request, structs.replace(solution, status=Status.REPAIRED, note="stage II found no point"))
    return Outcome(solution=structs.replace(solution, impulses=shared[1]), motor_impulse=shared[0])


def unload(request: Request, solution: StepSolution) -> Outcome:
    """Add the inner forces of `Posed.held`, unload feet that ramp and bring motors within bounds: the same motion."""
    return _unloaded(request, keep(request, solution))


def nearest(request: Request, solution: StepSolution) -> Outcome:
    """Choose the solution of the friction LCP whose torque is nearest to the last one, which fades as `FADES_S` says.

    It fades to `Posed.held`.

    The search knows the modes of friction pyramids. With a contact of infinite friction the motion is kept, and of the
    impulses that give it those with the nearest torque are taken. A nearest solution that misses the law, by velocities
    that are rounding to the search, is left out.
    """
    posed, n, left = request.posed, len(request.problem.contacts), np.nan
    solution = structs.replace(solution, warm={})  # of another vertex
    if n == 0:
        return replace(keep(request, solution), gap=0.0)
    outcome = keep(request, solution)
    if not posed.cones.held.any():
        posing, own = nearest_problem(request, solution), solution.impulses.T.ravel()
        found = nearest_solution(posing, own, max_nodes=tick_nodes(n))
        left = gap(found)
        missed = missed_law(posed.w, posed.cones.mu, found.y, HEAP)
        if missed <= max(TOLERANCE, solution.residual):
            _, motor_impulse = recover(posed.w, found.y)
            impulses = np.ascontiguousarray(found.y.reshape(3, -1).T)
            solution = structs.replace(solution, impulses=impulses, multipliers=motor_impulse, residual=missed)
        elif not np.abs(posing.V @ (found.y - own)).max() <= TOLERANCE * np.abs(posing.v0).max():
            left = np.inf
        outcome = replace(keep(request, solution), gap=left)
    fading = posed.held + (posed.last - posed.held) * (FADES_S / (FADES_S + posed.h))
    shared = _shared(request, solution, posed.cones, reference=fading)
    return outcome if shared is None else replace(shared, dropped=outcome.dropped, gap=left)


def nearest_problem(request: Request, solution: StepSolution) -> NearestProblem:
    """Pose the search of `nearest`: the step's contact problem, of which a solution is known, and the last torque."""
    posed, torque = request.posed, torque_map(request.posed.w, len(request.problem.contacts))
    return NearestProblem(
        V=posed.w.rho @ posed.w.rho.T,
        v0=posed.w.c,
        mu=posed.cones.mu,
        T=torque,
        t0=solution.multipliers - torque @ solution.impulses.T.ravel(),
        target=posed.last,
        weights=np.ones_like(posed.last),
    )


def without_slip(request: Request) -> Outcome:
    """A step in which the motion without slip takes more friction than there is, or does not exist.

    The joints give way (`idcontrol.controllers.repair`); where that is of no use, contacts may slip. With
    `Request.repair` off the motion is kept.
    """
    problem, w, cones = request.problem, request.posed.w, request.posed.cones
    if not request.repair:
        solution = no_slip.solve_whitened(problem, w, request.warm)
        shared = None if solution.status is Status.FALLBACK else _shared(request, solution, cones, request.posed.held)
        return keep(request, solution) if shared is None else shared
    held = closed = problem.contacts.gap <= CLOSED_GAP
    opening = no_slip.normal_velocities(problem, w, request.warm)
    if opening is not None:
        held = closed & (opening <= cones.v_tol)
    if w.fixed.size > 0:
        moved = nearest_motion(problem, w, held, request.posed.bounds, cones.weight)
        if moved is not None:
            return Outcome(solution=moved, motor_impulse=moved.multipliers, dropped=("tracking",))
    solution = dissipation.solve_whitened(problem, w, None)
    slipping = keep(request, solution) if solution.status is Status.FALLBACK else share(request, solution)
    if solution.status is not Status.FALLBACK:
        repaired = structs.replace(slipping.solution, status=Status.REPAIRED, note="contacts may slip", warm={})
        slipping = replace(slipping, solution=repaired)
    return replace(slipping, dropped=("no-slip",))


def moved(request: Request, f: Array, impulse: Array, residual: float) -> Outcome:
    """The outcome of a scheme whose joints have given way, with contact impulses f (3 n,) and motor impulses (p,)."""
    solution = StepSolution(
        v_plus=velocity_kernel(request.posed.w, f, impulse, HEAP),
        impulses=np.ascontiguousarray(f.reshape(3, -1).T),
        multipliers=impulse,
        status=Status.REPAIRED,
        residual=residual,
        iterations=0,
        note=GAVE_WAY,
    )
    return Outcome(solution=solution, motor_impulse=impulse, dropped=GIVEN_UP[MOVED])


def servo(request: Request, forward: ContactModel, dropped: tuple[str, ...]) -> Outcome:
    """Soft tracking (math.md, section 12.3): ``hτ = Σ⁻¹ (b - P v⁺)``, Σ = ε diag(M_qq)⁻¹; always solvable."""
    problem = request.problem
    assert problem.prescribed is not None
    index, b = problem.prescribed.index, problem.prescribed.velocity
    rows = np.zeros((index.size, problem.M.shape[0]))
    rows[np.arange(index.size), index] = 1.0
    compliance = SERVO_COMPLIANCE / np.diag(problem.M)[index]
    servos = Bilateral(rows=rows, target=b, compliance=compliance)
    solution = forward(replace(problem, prescribed=None, bilateral=servos), None)
    motor_impulse = (b - solution.v_plus[index]) / compliance
    if solution.status is Status.SOLVED:
        solution = structs.replace(solution, status=Status.REPAIRED, note="squeeze")
    return Outcome(solution=solution, motor_impulse=motor_impulse, dropped=("tracking", *dropped))


def _unloaded(request: Request, outcome: Outcome) -> Outcome:
    posed = request.posed
    if not posed.held.any() and not posed.cones.weight.any() and within(posed.bounds, outcome.motor_impulse):
        return outcome
    own = structs.replace(outcome.solution, multipliers=outcome.motor_impulse)
    shared = _shared(request, own, posed.cones, reference=outcome.motor_impulse + posed.held)
    return outcome if shared is None else replace(shared, dropped=outcome.dropped)


def _shared(request: Request, solution: StepSolution, cones: Cones, reference: Array | None = None) -> Outcome | None:
    """Keep the motion and make the torque smallest, or nearest to a reference; None where no impulses were found."""
    w = request.posed.w
    bounds = request.posed.bounds
    y, better = smallest_torque(w, cones, solution.impulses.T.ravel(), solution.multipliers, reference, bounds)
    if not better:
        return None
    _, motor_impulse = recover(w, y)
    residual = solution.residual if cones.v_tol > 0.0 else missed_law(w, cones.mu, y, HEAP)
    solution = structs.replace(solution, impulses=np.ascontiguousarray(y.reshape(3, -1).T), residual=residual)
    return Outcome(solution=solution, motor_impulse=motor_impulse)
