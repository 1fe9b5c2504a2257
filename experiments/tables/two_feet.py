"""The gaits of Table 6 that stand on two feet: ``idcontrol compare trot --study two-feet``.

The quadruped trots on its diagonals with a duty factor of a half: two feet stand at any time, the other two swing.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from idcontrol.experiments.tables.printed import scored, scores
from idcontrol.experiments.tables.results import PREDICTING, PRESETS, Results
from idcontrol.experiments.verdicts import Judged
from idcontrol.sweeps.plan import product
from idcontrol.sweeps.record import RunOutcome
from idcontrol.sweeps.study import Study, Table

DUTY = 0.5
"""Duty factor: one pair lands as the other lifts."""

DURATION_S = 10.0
"""Length of a run [s]: thirty-three gait periods, including two turns in place."""

TASKS: Final[Mapping[int, str]] = {0: "rigid_high", 1: "rigid_low"}
"""Rows of Table 6 with these gaits, and their terrain."""


def tables(outcomes: Sequence[RunOutcome]) -> tuple[Table, ...]:
    """Return the two rows of Table 6 on these gaits: the paper's scores beside ours."""
    return (scores(Results(outcomes), TASKS),)


def judged(outcomes: Sequence[RunOutcome]) -> Iterator[Judged]:
    """Return the paper's scores, compared with the runs."""
    return scored(scores(Results(outcomes), TASKS))


study = Study(
    experiment="trot",
    summary="Zapolsky & Drumwright 2017, Table 6: a gait on two feet, with high and low friction",
    runs=tuple(
        product(
            {
                "preset": PRESETS,
                "gait.duty": (DUTY,),
                "duration_s": (DURATION_S,),
                "plant": ("coulomb-lcp",),
                "mu": (math.inf, 0.1),
                "controller": (*PREDICTING, "pid"),
            }
        )
    ),
    tables=tables,
)
