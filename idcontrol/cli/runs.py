"""``idcontrol runs``: the runs of a folder, and what of each differs from its preset."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from idcontrol.cli.console import cell, console
from idcontrol.errors import InputError

SHOWN = ("q_err_rad", "dtau_mean_nm_s", "dtau_max_nm_s", "slip_m_s")
"""Quantities of the table; ``--json`` has all."""
LONGEST = 160
"""Longest list of differences in the table."""


@click.command("runs", short_help="List runs and how each differs from its preset.")
@click.argument("filters", nargs=-1, metavar="[KEY=VALUE]...")
@click.option("--in", "folder", type=click.Path(path_type=Path), default="runs", metavar="DIR", help="Where [runs].")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(filters: tuple[str, ...], folder: Path, as_json: bool) -> None:
    """List the runs in a folder, those of comparisons too, with what of each differs from its preset.

    KEY=VALUE keeps those with a setting: `idcontrol runs experiment=trot mu=0.1 completed=false`. Settings have the
    names of --set; `experiment` and `completed` are keys, too.
    """
    from idcontrol.configuration import parse_setting
    from idcontrol.record.recording import jsonable
    from idcontrol.running import Listed, listed

    wanted = [_filter(*parse_setting(text)) for text in filters]
    if not folder.is_dir():
        raise InputError(f"there is no folder {folder}; idcontrol runs --in DIR lists another")
    found: list[Listed] = [run for run in listed(folder) if all(keep(run) for keep in wanted)]
    if as_json:
        rows = [
            {
                "out": str(run.folder),
                "experiment": run.experiment,
                "began": run.began,
                "changes": run.changes,
                "state": run.state,
                "metrics": run.metrics,
            }
            for run in found
        ]
        click.echo(json.dumps(jsonable({"runs": rows}), allow_nan=False))
    else:
        _show(found)


def _filter(key: str, value: Any) -> Any:
    """Whether a run has a setting."""
    from idcontrol.configuration import full_key

    def keep(run: Any) -> bool:
        facts: Mapping[str, Any] = {
            "experiment": run.experiment,
            "completed": (run.metrics or {}).get("completed"),
            **run.settings,
        }
        if key not in facts and not any(name.endswith(f".{key}") for name in facts):
            return False
        return bool(str(facts[full_key(key, tuple(facts))]) == str(value))

    return keep


def _show(found: Sequence[Any]) -> None:
    from rich.table import Table
    from rich.text import Text

    from idcontrol.record.quantities import QUANTITIES

    shown = [q for q in QUANTITIES if q.key in SHOWN and any(q.of(run.metrics or {}) is not None for run in found)]
    grid = Table("run", "began", "differs from the preset in", "state", box=None, header_style="dim")
    for quantity in shown:
        grid.add_column(f"{quantity.label}\n[{quantity.unit}]".replace("[", r"\["), justify="right")
    for run in found:
        differs = ", ".join(f"{key} {cell(value)}" for key, value in run.changes.items())
        differs = differs if len(differs) <= LONGEST else differs[: LONGEST - 1] + "…"
        values = (quantity.text(quantity.of(run.metrics or {})) for quantity in shown)
        style = "" if run.state == "completed" else "yellow"
        grid.add_row(
            Text(str(run.folder), overflow="fold"),
            run.began,
            Text(differs or "–"),
            Text(run.state, style=style),
            *values,
        )
    screen = console()
    screen.print(grid)
    screen.print(f"{len(found)} runs")
