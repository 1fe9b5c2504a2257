"""Tables 3 to 6 and Figs. 6, 14, 15, 17 of Zapolsky & Drumwright 2017, compared with presets `paper` and `default`.

A study of the trot: ``idcontrol compare trot --study tables``. Fig. 16 is the study `bumps` of the experiment `rough`;
Fig. 18 is the study `grasping` of the experiment `grasp`, Fig. 19 the experiment `scaling`.
"""

from collections.abc import Sequence

from idcontrol.experiments.tables import printed
from idcontrol.experiments.tables.claims import statement_table, statements
from idcontrol.experiments.tables.results import CONTROLLERS, MITIGATION, PRESETS, SMOOTHNESS_ON, TERRAINS, Results
from idcontrol.experiments.verdicts import Judged
from idcontrol.sweeps.plan import product
from idcontrol.sweeps.record import RunOutcome
from idcontrol.sweeps.study import Study, Table

RUNS = tuple(
    run | settings
    for terrain, (_, settings) in TERRAINS.items()
    for run in product(
        {"preset": PRESETS, "controller": CONTROLLERS + (MITIGATION if terrain == SMOOTHNESS_ON else ())}
    )
)


def tables(outcomes: Sequence[RunOutcome]) -> tuple[Table, ...]:
    """Return the outcomes in the form of the paper's tables, and verdicts on the paper's statements in words."""
    results = Results(outcomes)
    return (
        printed.verdicts(judged(outcomes)),
        printed.tracking(results),
        printed.smoothness(results),
        printed.force_prediction(results),
        printed.scores(results),
        statement_table(tuple(statements(results))),
    )


def judged(outcomes: Sequence[RunOutcome]) -> tuple[Judged, ...]:
    """Return the paper's numbers on walking, from tables and figures, compared with the runs."""
    results = Results(outcomes)
    return (*printed.numbers(results), *printed.scored(printed.scores(results)), *statements(results))


def _line_and_panel(outcome: RunOutcome) -> tuple[str, str]:
    """Return the line of a run (its controller) and its panel (preset and terrain)."""
    plant, mu = outcome.setting("plant"), outcome.setting("mu")
    terrain = next(
        (title for title, settings in TERRAINS.values() if (settings["plant"], settings["mu"]) == (plant, mu)),
        f"{plant}, µ {str(mu).replace('inf', '∞')}",
    )
    return outcome.setting("controller"), f"preset {outcome.row.preset}, {terrain}"


study = Study(
    experiment="trot",
    summary="Zapolsky & Drumwright 2017, Tables 3 to 6: seven controllers on four terrains, in both presets",
    runs=RUNS,
    tables=tables,
    grouping=_line_and_panel,
)
