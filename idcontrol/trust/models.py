"""Measures the claims on contact models, on random steps: their laws, energy, inverses."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from idcontrol import judge
from idcontrol.judge.models import MODELS
from idcontrol.problems import machines
from idcontrol.problems.steps import hostile_step, numbered_step
from idcontrol.trust.claims import claim
from idcontrol.types import Status

STEPS: Final = 50
"""Number of random steps of the walker."""
JUDGED: Final = 200
"""Number of random steps and of hostile ones, whose answers are judged."""


@claim(
    "steps are solved, and what is called solved obeys the law of each contact, however hostile",
    judge.TOLERANCE,
    "tests/judge/test_hostile.py",
    "tests/models/test_coulomb.py",
)
def unlawful() -> float:
    """Return the largest violation of its law by what a model calls solved, each contact in its own units.

    It is infinite where a model leaves a random forward step unanswered: all of them have a solution.
    """
    worst = []
    for number in range(JUDGED):
        random, hostile = numbered_step(number, most_contacts=16), hostile_step(number)
        for problem in (random, hostile):
            for law, solve in MODELS.items():
                found = solve(problem, None)
                if found.status is Status.SOLVED:
                    worst.append(judge.violation(law, problem, found))
                elif found.status is Status.FALLBACK and problem is random and problem.prescribed is None:
                    return float(np.inf)
    return float(np.max(worst))


@claim(
    "contact alone never adds kinetic energy to a step",
    1e-9,
    "tests/models/test_coulomb.py",
    "tests/models/test_dissipation.py",
)
def gained_energy() -> float:
    """Return the largest relative growth of the kinetic energy in a step in which only contact acts."""
    worst = []
    for seed in range(STEPS):
        rng = np.random.default_rng(seed)
        problem = machines.walker_step(rng, inverse=False)
        v = 0.3 * rng.normal(size=18)
        free = replace(problem, kappa=-problem.M @ v)
        before = v @ problem.M @ v
        for solve in MODELS.values():
            after = solve(free, None).v_plus
            worst.append(after @ problem.M @ after / before - 1.0)
    return float(np.max(worst))


@claim(
    "convex models, run forward under their inverse's torques, move as the inverse predicted",
    1e-6,
    "tests/models/test_sap.py",
    unit="m/s",
)
def missed_way_back() -> float:
    """Return the largest difference in velocity [m/s] between an inverse step and a forward one under its torques."""
    worst = []
    for solve in (MODELS["dissipation"], MODELS["sap"]):
        for seed in range(STEPS):
            problem = machines.walker_step(np.random.default_rng(seed), inverse=True)
            found = solve(problem, None)
            assert problem.prescribed is not None
            kappa = problem.kappa.copy()
            kappa[problem.prescribed.index] -= found.multipliers
            back = solve(replace(problem, kappa=kappa, prescribed=None), None)
            worst.append(np.abs(back.v_plus - found.v_plus).max())
    return float(np.max(worst))
