"""Tables 3 to 6 of Zapolsky & Drumwright 2017: the paper beside the presets `paper` and `default`."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from idcontrol.experiments.headings import headed
from idcontrol.experiments.tables.results import (
    CHATTER,
    CONTROLLERS,
    MITIGATION,
    PAPER,
    PREDICTING,
    PRESETS,
    SMOOTHNESS_ON,
    SOURCE,
    TERRAINS,
    Results,
    derivation_of,
)
from idcontrol.experiments.verdicts import Judged, by_source, compared, verdict
from idcontrol.show.report import plain
from idcontrol.sweeps.study import Table


def tracking(results: Results) -> Table:
    """Return Table 3, the tracking errors: the paper's numbers beside ours."""
    rows = [(title, c, *_row(results, "tracking", c, t)) for t, (title, _) in TERRAINS.items() for c in CONTROLLERS]
    return headed("table3-tracking", rows)


def smoothness(results: Results) -> Table:
    """Return Table 4, the smoothness of torques: the paper's numbers beside ours."""
    rows = []
    for controller in (*CONTROLLERS, *MITIGATION):
        largest = [results.value(preset, controller, SMOOTHNESS_ON, "dtau_max_nm_s") for preset in PRESETS]
        rows.append((controller, *_row(results, "smoothness", controller, SMOOTHNESS_ON, largest)))
    return headed("table4-smoothness", rows)


def force_prediction(results: Results) -> Table:
    """Return Table 5, the errors of predicted forces: the paper's numbers beside ours."""
    rows = [
        (title, c, *_row(results, "force_prediction", c, t)) for t, (title, _) in TERRAINS.items() for c in PREDICTING
    ]
    return headed("table5-force-prediction", rows)


def _row(results: Results, name: str, controller: str, terrain: str, more: Sequence[Any] = ()) -> list[Any]:
    """Return a controller's row: for each column the paper's number and ours in both presets; `more`; the verdicts."""
    table = PAPER[name]
    printed = table["values"].get(terrain, table["values"]).get(controller, ())
    row, said = [], []
    for column, key in enumerate(table["columns"]):
        number = printed[column] if printed else None
        row.append("fell" if printed is None else number)
        row += [results.cell(preset, controller, terrain, key) for preset in PRESETS]
        said.append(None if printed == () else _compared(results, controller, terrain, key, number))
    return [*row, *more, *said]


def _compared(results: Results, controller: str, terrain: str, key: str, printed: float | None) -> str | None:
    """Return the verdict on a number from the preset `paper`."""
    result = results.cell("paper", controller, terrain, key)
    return compared(result, printed, derivation_of(controller, terrain, key, printed, result))


def verdicts(judged: Sequence[Judged]) -> Table:
    """Return a table of the verdicts, by the place of each number in the paper."""
    return headed("verdicts", tuple((source, *counts) for source, counts in by_source(judged).items()))


def numbers(results: Results) -> Iterator[Judged]:
    """Yield the numbers of Tables 3 to 5, compared with the preset `paper`."""
    for name in ("tracking", "smoothness", "force_prediction"):
        table = PAPER[name]
        by_terrain = {SMOOTHNESS_ON: table["values"]} if name == "smoothness" else table["values"]
        source = SOURCE.format(f"Table {table['table']}")
        for terrain, by_controller in by_terrain.items():
            for controller, values in by_controller.items():
                for column, key in enumerate(table["columns"]):
                    printed = None if values is None else values[column]
                    result = results.cell("paper", controller, terrain, key)
                    if (said := _compared(results, controller, terrain, key, printed)) is not None:
                        what = f"{key}, {controller}, {TERRAINS[terrain][0]}"
                        yield Judged(source, what, "fell" if printed is None else printed, result, said)


def scored(table: Table) -> Iterator[Judged]:
    """Yield the rows of a table of scores: task, controller, printed score, our scores, verdict.

    Of several scores of ours, the first is taken. Rows without a verdict are left out.
    """
    for task, controller, printed, result, *_, said in table.rows:
        if said is not None:
            yield Judged(SOURCE.format("Table 6"), f"{controller}, {task}", printed, result, said)


TROTS: Final[Mapping[int, str]] = {2: "rigid_high", 3: "rigid_low"}
"""Rows of Table 6 on quadruped gaits with two to four standing feet, and their terrain."""


def scores(results: Results, tasks: Mapping[int, str] = TROTS) -> Table:
    """Return rows of Table 6, scored by measurements instead of by eye.

    Args:
        results: Outcomes of one gait.
        tasks: Rows of the paper's table, from 0, and the terrain of each.
    """
    rows = []
    for number, scored in enumerate(PAPER["scores"]["rows"]):
        for controller, printed in zip(PAPER["scores"]["columns"], scored["result"], strict=True):
            if number not in tasks:
                continue
            result = [_score(results, preset, controller, tasks[number]) for preset in PRESETS]
            rows.append((scored["task"], controller, printed, *result, scored_alike(result[0], printed)))
    return headed("table6-scores", rows)


def scored_alike(result: str | None, printed: str, derivation: str = "") -> str | None:
    """Return the verdict on a score, which agrees if both scores pass or both fail; None without a run."""
    return None if result is None else verdict(result.startswith("pass") is printed.startswith("pass"), derivation)


def _score(results: Results, preset: str, controller: str, terrain: str) -> str | None:
    runs = results.at(preset, controller, terrain)
    if not runs:
        return None
    failed = [run.reason for run in runs if not run.done]
    if failed:
        return f"fail: {failed[0]}"
    rate = results.value(preset, controller, terrain, "dtau_mean_nm_s")
    baseline = results.value(preset, "pid", terrain, "dtau_mean_nm_s")
    step = results.value(preset, controller, terrain, "step_us.p50")
    assert rate is not None
    if baseline is not None and rate > CHATTER * baseline:
        return f"fail: torque chatter ({plain(rate)} N m/s, pid {plain(baseline)})"
    if step is not None and step > 1e6 / float(runs[0].setting("rate_hz")):
        return f"fail: {step:.0f} µs a step"
    return f"pass ({plain(rate)} N m/s, {step:.0f} µs)"
