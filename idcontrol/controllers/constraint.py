"""Inverse dynamics whose contacts are nearly rigid springs: `id-constraint` (002; math.md 11)."""

from __future__ import annotations

from idcontrol.controllers.compiled import RAMPS, Plain
from idcontrol.controllers.schemes import Outcome, Scheme, Step
from idcontrol.models import constraint
from idcontrol.models.compiled import SPRINGS
from idcontrol.models.problem import StepProblem


def stiff_springs(problem: StepProblem, step: Step) -> Outcome:
    """Compliance makes the forces unique, so one solve is all there is to do, and joints may squeeze."""
    solution = constraint.solve_nearly_rigid(problem, step.warm)
    return Outcome(solution=solution, motor_impulse=solution.multipliers)


CONSTRAINT = Scheme(
    solve=stiff_springs,
    model=constraint.solve_nearly_rigid,
    plain=Plain(model=SPRINGS, after=RAMPS, law=(constraint.STIFFNESS, constraint.DAMPING)),
)
