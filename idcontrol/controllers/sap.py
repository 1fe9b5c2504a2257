"""Inverse dynamics through compliant contact (math.md 10): Newton's method on the unactuated velocities."""

from __future__ import annotations

from idcontrol.controllers.schemes import Scheme, Step
from idcontrol.models import sap
from idcontrol.models.problem import StepProblem, StepSolution
from idcontrol.types import Array


def compliant(problem: StepProblem, step: Step) -> tuple[StepSolution, Array]:
    """One strongly convex problem: always solvable, unique, continuous in what is asked; no second stage is needed."""
    solution = sap.solve(problem, step.warm)
    return solution, solution.multipliers


SAP = Scheme(solve=compliant, model=sap.solve)
