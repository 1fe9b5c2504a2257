"""``idcontrol runs``: the runs of a folder, and what of each differs from its preset."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from idcontrol.cli.console import cell, console, print_json, show
from idcontrol.cli.options import FOLDER, JSON
from idcontrol.errors import InputError

if TYPE_CHECKING:
    from idcontrol.sweeps.running import Listed

SHOWN = ("q_err_rad", "dtau_mean_nm_s", "dtau_max_nm_s", "slip_m_s")
"""Quantities of the table, as many as have room; ``--json`` has all."""
WIDTH = 100
"""Widest table; narrower on a narrower terminal."""
QUANTITY, DIFFERS = 8, 20
"""Width of the column of a quantity, whose label is broken into lines, and least width of that of the differences."""
LONGEST = 160
"""Longest list of differences in the table."""


@click.command("runs", short_help="List runs and how each differs from its preset.")
@click.argument("filters", nargs=-1, metavar="[KEY=VALUE]...")
@click.option("--in", "folder", type=FOLDER, default="runs", metavar="DIR", help="Where [runs].")
@JSON
def command(filters: tuple[str, ...], folder: Path, as_json: bool) -> None:
    """List the runs in a folder, also of comparisons, with the differences of each from its preset.

    KEY=VALUE keeps those with a setting: `idcontrol runs experiment=trot mu=0.1 completed=false`. Settings have the
    names of --set; `experiment` and `completed` are keys, too.
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
    """Everything about a run that a filter can ask for."""
    return {"experiment": run.experiment, "completed": (run.metrics or {}).get("completed"), **run.settings}


def _same(fact: Any, wanted: Any) -> bool:
    """True if a recorded value equals the typed one: 10 is 10.0, and inf is JSON's word for it."""
    return bool(fact == wanted or str(fact) == str(wanted))


def _show(records: Sequence[Listed]) -> None:
    from rich.table import Table
    from rich.text import Text

    from idcontrol.record.quantities import QUANTITIES

    shown = [q for q in QUANTITIES if q.key in SHOWN and any(q.of(run.metrics or {}) is not None for run in records)]
    names = max((len(run.folder.name) for run in records), default=0)
    states = max((len(run.state) for run in records), default=0)
    width = min(WIDTH, console().width)
    shown = shown[: max(0, width - names - states - DIFFERS - 6) // (QUANTITY + 2)]
    for parent in dict.fromkeys(run.folder.parent for run in records):
        first = parent == records[0].folder.parent
        grid = Table(box=None, show_header=first, header_style="dim", width=width)
        grid.add_column("run", width=names, no_wrap=True)
        grid.add_column("state", width=states)
        for quantity in shown:
            unit = quantity.unit.replace(" ", "\N{NO-BREAK SPACE}")
            grid.add_column(Text(f"{quantity.label}\n[{unit}]"), width=QUANTITY, justify="right")
        grid.add_column("differs from the preset in", ratio=1)
        for run in records:
            if run.folder.parent == parent:
                differs = ", ".join(f"{key} {cell(value)}" for key, value in run.changes.items())
                differs = differs if len(differs) <= LONGEST else differs[: LONGEST - 1] + "…"
                values = (quantity.text(quantity.of(run.metrics or {})) for quantity in shown)
                state = Text(run.state, style="" if run.state == "completed" else "yellow")
                grid.add_row(Text(run.folder.name), state, *values, Text(differs or "–"))
        show(Text(f"{parent}/", style="bold"), grid)
    show(f"{len(records)} runs")
