"""Tables 3 to 6 of Zapolsky & Drumwright 2017: the paper, preset paper and preset default side by side."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

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
from idcontrol.experiments.tables.torque_parts import torques_of
from idcontrol.experiments.verdicts import VERDICTS, WITHIN, Judged, by_source, compared, summed_up, verdict
from idcontrol.show.report import plain
from idcontrol.sweeps.record import RunOutcome
from idcontrol.sweeps.study import Table

VERDICT = "verdict on the preset paper"
"""Begins the heading of columns with a verdict (`idcontrol.experiments.verdicts`)."""

SIDE_BY_SIDE = ("printed", *(f"preset {preset}" for preset in PRESETS))
"""Columns side by side: the paper's own number, then ours in each preset."""


def tracking(results: Results) -> Table:
    """Table 3."""
    paper = PAPER["tracking"]["values"]
    rows = []
    for terrain, (title, _) in TERRAINS.items():
        for controller in CONTROLLERS:
            printed = paper[terrain][controller] or ("fell", None)
            found = [
                (
                    results.cell(preset, controller, terrain, "q_err_rad"),
                    results.value(preset, controller, terrain, "qd_err_rad_s"),
                )
                for preset in PRESETS
            ]
            said = _verdicts(results, "tracking", controller, terrain, ("q_err_rad", "qd_err_rad_s"))
            rows.append(
                (title, controller, *(part for pair in zip(printed, *found, strict=True) for part in pair), *said)
            )
    return Table(
        name="table3-tracking",
        title="Table 3: tracking",
        sentence="Mean errors of the joints against their planned motion; for a run that did not end, the reason.",
        header=(
            "terrain",
            "controller",
            *(f"{what}, {whose}" for what in ("|q − q*| [rad]", "|q̇ − q̇*| [rad/s]") for whose in SIDE_BY_SIDE),
            f"{VERDICT}, |q − q*|",
            f"{VERDICT}, |q̇ − q̇*|",
        ),
        rows=tuple(rows),
    )


def _verdicts(
    results: Results, table: str, controller: str, terrain: str, keys: tuple[str, str]
) -> tuple[str | None, str | None]:
    """The verdicts on two numbers of the preset paper; none where the paper prints none."""
    values = PAPER[table]["values"]
    printed = values.get(terrain, values).get(controller, ())
    if printed == ():
        return None, None
    first, second = (
        _compared(results, controller, terrain, key, None if printed is None else printed[number])
        for number, key in enumerate(keys)
    )
    return first, second


def _compared(results: Results, controller: str, terrain: str, key: str, printed: float | None) -> str | None:
    """The verdict on a number of the preset paper."""
    found = results.cell("paper", controller, terrain, key)
    return compared(found, printed, derivation_of(controller, terrain, key, printed, found))


def verdicts(judged: Sequence[Judged]) -> Table:
    """The verdicts by the place where the paper prints what they are on."""
    said = summed_up(one.verdict for one in judged)
    return Table(
        name="verdicts",
        title="Verdicts",
        sentence=f"Of what the paper prints and claims {said} A number agrees within {WITHIN:.0%}. No record has the "
        "paper's gains: those of the preset paper were sought against its Tables 3 and 4 (study gains).",
        header=("where", *VERDICTS),
        rows=tuple((source, *counts) for source, counts in by_source(judged).items()),
    )


def numbers(results: Results) -> Iterator[Judged]:
    """The numbers of Tables 3 to 5 beside those of the preset paper."""
    for name in ("tracking", "smoothness", "force_prediction"):
        table = PAPER[name]
        by_terrain = {SMOOTHNESS_ON: table["values"]} if name == "smoothness" else table["values"]
        source = SOURCE.format(f"Table {table['table']}")
        for terrain, by_controller in by_terrain.items():
            for controller, values in by_controller.items():
                for column, key in enumerate(table["columns"]):
                    printed = None if values is None else values[column]
                    found = results.cell("paper", controller, terrain, key)
                    if (said := _compared(results, controller, terrain, key, printed)) is not None:
                        what = f"{key}, {controller}, {TERRAINS[terrain][0]}"
                        yield Judged(source, what, "fell" if printed is None else printed, found, said)


def scored(table: Table) -> Iterator[Judged]:
    """The rows of a table of scores: task, controller, printed score, ours, and last the verdict."""
    for task, controller, printed, found, *_, said in table.rows:
        if said is not None:
            yield Judged(SOURCE.format("Table 6"), f"{controller}, {task}", printed, found, said)


def smoothness(results: Results) -> Table:
    """Table 4."""
    paper = PAPER["smoothness"]["values"]
    rows = []
    for controller in (*CONTROLLERS, *MITIGATION):
        row: list[Any] = [controller]
        for number, key in enumerate(("dtau_mean_nm_s", "tau_mean_nm")):
            row.append(paper[controller][number] if controller in paper else None)
            row += [results.cell(preset, controller, SMOOTHNESS_ON, key) for preset in PRESETS]
        row += [results.value(preset, controller, SMOOTHNESS_ON, "dtau_max_nm_s") for preset in PRESETS]
        row += _verdicts(results, "smoothness", controller, SMOOTHNESS_ON, ("dtau_mean_nm_s", "tau_mean_nm"))
        rows.append(tuple(row))
    return Table(
        name="table4-smoothness",
        title="Table 4: torque smoothness",
        sentence=f"On {TERRAINS[SMOOTHNESS_ON][0]} ground; the paper does not say which its own was.",
        header=(
            "controller",
            *(f"{what}, {whose}" for what in ("mean |dτ/dt| [N m/s]", "mean |τ| [N m]") for whose in SIDE_BY_SIDE),
            *(f"largest |dτ/dt|, {whose}" for whose in SIDE_BY_SIDE[1:]),
            f"{VERDICT}, |dτ/dt|",
            f"{VERDICT}, |τ|",
        ),
        rows=tuple(rows),
    )


def force_prediction(results: Results) -> Table:
    """Table 5."""
    paper = PAPER["force_prediction"]["values"]
    rows = []
    for terrain, (title, _) in TERRAINS.items():
        for controller in PREDICTING:
            row: list[Any] = [title, controller]
            for number, key in enumerate(("force_err_n", "force_err_rel")):
                printed = paper[terrain][controller]
                row.append(printed[number] if printed else "fell")
                row += [results.cell(preset, controller, terrain, key) for preset in PRESETS]
            row += _verdicts(results, "force_prediction", controller, terrain, ("force_err_n", "force_err_rel"))
            rows.append(tuple(row))
    return Table(
        name="table5-force-prediction",
        title="Table 5: predicted contact forces",
        sentence="Error of the predicted sum of the normal forces against the plant's.",
        header=(
            "terrain",
            "controller",
            *(f"{what}, {whose}" for what in ("error [N]", "relative error") for whose in SIDE_BY_SIDE),
            f"{VERDICT}, error",
            f"{VERDICT}, relative error",
        ),
        rows=tuple(rows),
    )


TROTS: Final[Mapping[int, str]] = {2: "rigid_high", 3: "rigid_low"}
"""Rows of Table 6 that are trots on three and four feet, and their terrain."""


def scores(results: Results, tasks: Mapping[int, str] = TROTS) -> Table:
    """Rows of Table 6, by what was measured instead of by eye.

    Args:
        results: Outcomes of one gait.
        tasks: Rows of the paper's table, from 0, and the terrain of each.
    """
    rows = []
    for number, scored in enumerate(PAPER["scores"]["rows"]):
        for controller, printed in zip(PAPER["scores"]["columns"], scored["result"], strict=True):
            if number not in tasks:
                continue
            found = [_score(results, preset, controller, tasks[number]) for preset in PRESETS]
            rows.append((scored["task"], controller, printed, *found, scored_alike(found[0], printed)))
    return Table(
        name="table6-scores",
        title="Table 6: pass or fail",
        sentence="Passed is a run that goes to its end without chatter (a mean torque rate above "
        f"{CHATTER:g} times pid's: what separates pass from fail in the paper's own Table 4) and with a median control "
        "step shorter than the period; beside it the largest part of the load on one foot while all four stand. The "
        "study two-feet has the gaits of two feet, the experiment grasp the rows of grasping.",
        header=("task", "controller", *SIDE_BY_SIDE, VERDICT),
        rows=tuple(rows),
    )


def scored_alike(found: str | None, printed: str, derivation: str = "") -> str | None:
    """The verdict on a score: whether both pass or both fail; None where nothing was run."""
    return None if found is None else verdict(found.startswith("pass") is printed.startswith("pass"), derivation)


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
    share = _largest_share(runs[0])  # none where all four never stand
    return f"pass ({plain(rate)} N m/s, {step:.0f} µs" + (f", {share:.0%} on one foot)" if share == share else ")")


def _largest_share(outcome: RunOutcome) -> float:
    parts = torques_of(outcome.folder)
    return parts.largest_share if parts else float("nan")
