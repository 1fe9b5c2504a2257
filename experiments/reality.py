"""Claims about measured motions and public contact problems, for ``idcontrol trust --data FOLDER``."""

from functools import partial
from pathlib import Path
from typing import Final

import numpy as np

from idcontrol.bench.claims import Claim
from idcontrol.bench.judge import miss
from idcontrol.bench.league.problems import read
from idcontrol.errors import InputError
from idcontrol.experiments import icub_forces, tosses
from idcontrol.models.coulomb_cone import solve_delassus
from idcontrol.solvers.status import SOLVED

TOSSES: Final = "cube_tosses.npz"
WALK: Final = "icub_walk.npz"
PROBLEMS: Final = "friction_problems"
MOST_CONTACTS: Final = 60
"""Public problems with more contacts are left out: they take seconds each."""


def claims(folder: Path) -> tuple[Claim, ...]:
    """Return the claims that the data in `folder` can check (docs/reality.md, docs/league.md).

    Raises:
        InputError: The folder has no data for any claim.
    """
    rows = []
    if (folder / TOSSES).is_file():
        rows.append(
            Claim(
                statement="simulated corners of a thrown cube are where they were measured: mean distance",
                measure=partial(off_the_cube, folder / TOSSES),
                unit="m",
                limit=0.02,
                tests=("tests/experiments/test_tosses.py",),
            )
        )
    if (folder / WALK).is_file():
        rows.append(
            Claim(
                statement="a walking humanoid's foot forces follow from its motion: 1 - correlation, worse foot",
                measure=partial(uncorrelated, folder / WALK),
                limit=0.05,
                tests=("tests/experiments/test_icub_forces.py",),
            )
        )
    if (folder / PROBLEMS).is_dir():
        rows.append(
            Claim(
                statement=f"public contact problems up to {MOST_CONTACTS} contacts are solved, by the league's judge",
                measure=partial(missed, folder / PROBLEMS),
                limit=1e-8,
                tests=(
                    "tests/bench/league/test_league.py::"
                    "test_our_solver_solves_the_public_problems_of_up_to_a_hundred_contacts",
                ),
            )
        )
    if not rows:
        raise InputError(f"--data: {folder} has none of {TOSSES}, {WALK} and {PROBLEMS}/ (see docs/reality.md)")
    return tuple(rows)


def off_the_cube(path: Path) -> float:
    """Return the mean corner error [m] of odd tosses, simulated with circular friction cones and restitution."""
    config = tosses.Config(data=str(path), plant="coulomb-cone", evaluations=0)
    results = tosses.run(config, _silent)
    return next(float(f.value or np.nan) for f in results.findings if f.key == "corner_coulomb_cone_m")


def uncorrelated(path: Path) -> float:
    """Return one minus the correlation of predicted and measured vertical forces, for the worse foot."""
    return 1.0 - float(icub_forces.run(icub_forces.Config(data=str(path)), _silent).extra["r"])


def missed(folder: Path) -> float:
    """Return the largest violation of Coulomb's law by our solutions of the problems in `folder`; inf if one fails.

    Problems of more than `MOST_CONTACTS` contacts are left out.
    """
    worst = 0.0
    for problem in read([folder]):
        if problem.mu.size <= MOST_CONTACTS:
            outcome, r = solve_delassus(problem.W, problem.q, problem.mu)
            worst = max(worst, miss(problem.W, problem.q, problem.mu, r) if outcome.status == SOLVED else np.inf)
    return float(worst)


def _silent(_: float) -> None:
    """Report no progress."""
