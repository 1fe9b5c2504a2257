"""Measure the claim on contact models: they solve random steps, and answers called SOLVED obey the contact law."""

from __future__ import annotations

from typing import Final

import numpy as np

from idcontrol import judge
from idcontrol.judge.models import MODELS
from idcontrol.problems.steps import hostile_step, numbered_step
from idcontrol.trust.claims import claim
from idcontrol.types import Status

JUDGED: Final = 200
"""Number of judged random steps, and number of judged hostile steps."""


@claim(
    "random steps are solved, and every answer called solved, even on hostile problems, obeys the law of each contact",
    judge.TOLERANCE,
    "tests/judge/test_hostile.py",
    "tests/models/test_coulomb.py",
)
def unlawful() -> float:
    """Return the largest violation of a model's law by its solutions, scaled per contact.

    The violation is infinite if a model finds no solution of a random forward step (`Status.FALLBACK`), because every
    such step has a solution.
    """
    worst = []
    for number in range(JUDGED):
        random, hostile = numbered_step(number, most_contacts=16), hostile_step(number)
        for problem in (random, hostile):
            for law, solve in MODELS.items():
                solution = solve(problem, None)
                if solution.status is Status.SOLVED:
                    worst.append(judge.violation(law, problem, solution))
                elif solution.status is Status.FALLBACK and problem is random and problem.prescribed is None:
                    return float(np.inf)
    return float(np.max(worst))
