"""Python fallback for steps that a compiled scheme does not solve; it relaxes demands if necessary.

First the scheme's contact model runs in Python, which supports contacts of finite and infinite friction together and,
in some models, restarts and regularization; compiled schemes without slip skip this stage. In schemes without slip, the
next stage relaxes tracking or lets contacts slip (`without_slip`). Last, all motors become stiff velocity servos
(`servo`), a problem that always has a solution. Torque limits are never relaxed, nor are friction cones, except in
schemes without slip if `InverseSettings.repair` is False.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from idcontrol.contact.contacts import Contacts
from idcontrol.controllers import schemes
from idcontrol.controllers.schemes import Scheme, share
from idcontrol.controllers.step import (
    COARSE,
    INEXACT,
    NO_SOLUTION,
    SERVO,
    SERVO_SLIPS,
    SLIPS,
    SOLVED,
    Answer,
    AssembledStep,
    problem_of,
)
from idcontrol.kernels.arena import HEAP, Arena
from idcontrol.kernels.bound import bind
from idcontrol.models import dissipation, no_slip
from idcontrol.models.distribution import drags
from idcontrol.models.step import Bilateral, ContactModel, StepProblem, StepSolution, WarmStart
from idcontrol.models.whitened import whiten
from idcontrol.types import Array, Status

SERVO_COMPLIANCE: Final = 1e-4
"""ε of soft tracking (math.md, section 12.3): joint j misses its demanded velocity by ε hτ_j / M_jj, M the inertia.
"""


def solve(
    scheme: Scheme,
    step: AssembledStep,
    f: Array,
    arena: Arena = HEAP,
    *,
    candidates: Contacts | None = None,
) -> Answer:
    """Solve a control step by its compiled scheme, else by the scheme's model in Python, else by servos.

    Args:
        scheme: The scheme.
        step: The assembled problem; `AssembledStep.active` is updated.
        f: Contact impulses, initially zero, shape (3 n,) [N s].
        arena: Arena for the compiled scheme's arrays.
        candidates: As for `problem_of`.
    """
    if scheme.solve is not None:
        active = step.active.copy()
        answer = scheme.solve(bind(step), f, arena)
        if answer.ending != NO_SOLUTION:
            return answer._replace(impulse=answer.impulse.copy())  # the arena will overwrite the original
        step.active[:] = active
    problem = problem_of(step, candidates)
    step = step._replace(w=whiten(problem))  # this whitening includes rounding bounds
    answer = Answer(NO_SOLUTION, False, np.inf, np.zeros(step.b.size), np.nan)
    if scheme.solve is None or not scheme.sticks:
        answer = accept(step, f, scheme.model(problem, _warm(step)))
        if answer.ending != NO_SOLUTION and scheme.after is not None:
            shared = scheme.after(step, f, answer, arena)
            answer = answer._replace(ending=COARSE) if shared.ending == NO_SOLUTION else shared
        if answer.ending != NO_SOLUTION and drags(step.w, step.cones, f, arena):
            answer = answer._replace(ending=SLIPS)
    if scheme.sticks and answer.ending != SOLVED:
        answer = without_slip(problem, step, f)
    if answer.ending != NO_SOLUTION:
        return answer
    return servo(problem, scheme.forward, f, ending=SERVO_SLIPS if scheme.sticks and step.repairs else SERVO)


def accept(step: AssembledStep, f: Array, solution: StepSolution) -> Answer:
    """Write a solution's impulses into f (3 n,) and its memory into `AssembledStep.active`; return the answer.

    The outcome is `INEXACT` if only a regularized problem was solved.
    """
    if solution.status is Status.FALLBACK:
        ending = NO_SOLUTION
    elif solution.status is Status.SOLVED:
        ending = SOLVED
    else:
        ending = INEXACT if solution.note == "regularized" else COARSE
    f[:] = solution.impulses.T.ravel()
    step.active[:] = [solution.warm.get(identity, 0) for identity in step.contacts.identity.tolist()]
    return Answer(ending, False, solution.residual, solution.multipliers, np.nan)


def _warm(step: AssembledStep) -> WarmStart:
    """Return the memory of the last step for models in Python."""
    return dict(zip(step.contacts.identity.tolist(), step.active.tolist(), strict=True))


def without_slip(problem: StepProblem, step: AssembledStep, f: Array) -> Answer:
    """Solve a step that has no motion without slip, or whose motion without slip exceeds the friction limits.

    A demand is relaxed (`schemes.without_slip`). If `AssembledStep.repairs` is False, a motion without slip is kept,
    and without such a motion there is no solution. `problem` is the step as a problem for models in Python; the other
    arguments are as for `solve`.
    """
    if not step.repairs:
        answer = accept(step, f, no_slip.solve_whitened(problem, step.w, _warm(step)))
        shared = answer if answer.ending == NO_SOLUTION else share(step, f, answer, HEAP)
        return answer if shared.ending == NO_SOLUTION else shared
    answer = schemes.without_slip(bind(step), f, False, HEAP)
    if answer.ending != NO_SOLUTION:
        return answer
    answer = accept(step, f, dissipation.solve_whitened(problem, step.w, None))
    step.active[:] = 0
    if answer.ending == NO_SOLUTION:
        return answer
    shared = share(step, f, answer, HEAP)
    return (answer if shared.ending == NO_SOLUTION else shared)._replace(ending=SLIPS)


def servo(problem: StepProblem, forward: ContactModel, f: Array, *, ending: int = SERVO) -> Answer:
    """Solve with soft tracking: ``hτ = Σ⁻¹ (b - P v⁺)`` with Σ = ε diag(M_qq)⁻¹ (math.md, section 12.3).

    P selects the actuated joints. This problem always has a solution.

    Args:
        problem: The step, with prescribed velocities.
        forward: Contact model.
        f: Result, contact impulses, shape (3 n,) [N s].
        ending: Outcome to report if the model succeeds.
    """
    assert problem.prescribed is not None
    index, b = problem.prescribed.index, problem.prescribed.velocity
    rows = np.zeros((index.size, problem.M.shape[0]))
    rows[np.arange(index.size), index] = 1.0
    compliance = SERVO_COMPLIANCE / np.diag(problem.M)[index]
    servos = Bilateral(rows=rows, target=b, compliance=compliance)
    solution = forward(replace(problem, prescribed=None, bilateral=servos), None)
    f[:] = solution.impulses.T.ravel()
    motor_impulse = (b - solution.v_plus[index]) / compliance
    if solution.status is Status.FALLBACK:
        ending = NO_SOLUTION
    return Answer(ending, False, solution.residual, motor_impulse, np.nan)
