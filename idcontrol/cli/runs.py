"""``idcontrol runs``: the runs of a folder, with their differences from the presets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from idcontrol.cli.console import Grid, cell, print_json, show
from idcontrol.cli.options import FOLDER, JSON
from idcontrol.errors import InputError

if TYPE_CHECKING:
    from idcontrol.sweeps.running import Listed

SHOWN = ("q_err_rad", "dtau_mean_nm_s", "dtau_max_nm_s", "slip_m_s")
"""Quantities of the table; ``--json`` has all."""
LONGEST = 160
"""Largest number of characters in the table's list of changed settings; a longer list is cut."""


@click.command("runs", short_help="List runs and their changed settings.")
@click.argument("filters", nargs=-1, metavar="[KEY=VALUE]...")
@click.option("--in", "folder", type=FOLDER, default="runs", metavar="DIR", help="Folder of the runs [runs].")
@JSON
def command(filters: tuple[str, ...], folder: Path, as_json: bool) -> None:
    """List the runs in a folder, including runs of comparisons, with the settings that differ from their presets.

    KEY=VALUE keeps the runs with this setting: `idcontrol runs experiment=trot mu=0.1 completed=false`. Settings have
    the names of --set; `experiment` and `completed` are also keys.
    """
    from idcontrol.config.configuration import full_key, parse_setting
    from idcontrol.sweeps.running import listed

    wanted = dict(map(parse_setting, filters))
    if not folder.is_dir():
        raise InputError(f"there is no folder {folder}; idcontrol runs --in DIR lists another")
    records = listed(folder)
    known = tuple({name: None for run in records for name in _facts(run)})
    for key, value in wanted.items() if known else ():
        name = full_key(key, known)
        records = [run for run in records if _same(_facts(run).get(name), value)]
    if as_json:
        keys = ("experiment", "began", "changes", "state", "metrics")
        rows = [{"out": str(run.folder), **{key: getattr(run, key) for key in keys}} for run in records]
        print_json({"runs": rows})
    else:
        _show(records)


def _facts(run: Listed) -> Mapping[str, Any]:
    """Return the facts by which a filter can select the run, by key."""
    return {"experiment": run.experiment, "completed": (run.metrics or {}).get("completed"), **run.settings}


def _same(fact: Any, wanted: Any) -> bool:
    """True if a recorded value equals the typed value; 10 equals 10.0, and infinity is recorded as "inf"."""
    return bool(fact == wanted or str(fact) == str(wanted))


def _show(records: Sequence[Listed]) -> None:
    from rich.text import Text

    from idcontrol.record.quantities import QUANTITIES, label

    quantities = [
        q for q in QUANTITIES if q.key in SHOWN and any(q.of(run.metrics or {}) is not None for run in records)
    ]
    heads = [label(q.key) for q in quantities]
    texts = ("run", "state", "differs from the preset in")
    for parent in dict.fromkeys(run.folder.parent for run in records):
        grid = Grid(*texts[:2], *heads, texts[2], words=texts, spare=heads[::-1], title=f"{parent}/")
        for run in records:
            if run.folder.parent == parent:
                differs = ", ".join(f"{key} {cell(value)}" for key, value in run.changes.items())
                differs = differs if len(differs) <= LONGEST else differs[: LONGEST - 1] + "…"
                values = (q.text(q.of(run.metrics or {})) for q in quantities)
                state = Text(run.state, style="" if run.state == "completed" else "yellow")
                grid.add(run.folder.name, state, *values, differs or "–")
        show(grid)
    show(f"{len(records)} runs")
