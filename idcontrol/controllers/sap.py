"""Inverse dynamics through compliant contact (math.md 10): Newton's method on the unactuated velocities."""

from __future__ import annotations

from functools import partial

from idcontrol.controllers.compiled import RAMPS, Plain
from idcontrol.controllers.schemes import Outcome, Scheme, Step
from idcontrol.models import compiled, sap
from idcontrol.models.problem import StepProblem

STIFF = sap.Parameters(beta=0.1, sigma=1e-4)
"""Ground that hardly gives way to the whole machine.

The default is near-rigid against the inverse mass of a *foot*, whose leg is light: in every period the standing machine
would then be expected to sink by as much as the contacts need to press, on ground that does not; joints follow that
error (5e-2 rad off in the trot of `links`, 2e-3 with these).
"""


def compliant(problem: StepProblem, step: Step) -> Outcome:
    """One strongly convex problem: always solvable, unique, continuous in what is asked; no second stage is needed."""
    solution = sap.solve(problem, step.warm, STIFF)
    return Outcome(solution=solution, motor_impulse=solution.multipliers)


SAP = Scheme(
    solve=compliant,
    model=partial(sap.solve, parameters=STIFF),
    plain=Plain(model=compiled.SAP, after=RAMPS, law=(STIFF.beta, STIFF.sigma)),
)
