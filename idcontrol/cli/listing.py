"""``idcontrol list``: the names that other commands take, each with a line that describes it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import click

from idcontrol.cli.console import console
from idcontrol.config.entries import EXPERIMENTS, ROBOTS, STUDIES, RobotLibrary, entry_points, summaries
from idcontrol.errors import UnknownName


@click.command("list", short_help="Names that other commands take, and what each is.")
@click.argument("kind", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(kind: str | None, as_json: bool) -> None:
    """List controllers, plants, robots, terrains, experiments, studies, or all of them, with what each is."""
    kinds: dict[str, Callable[[], Mapping[str, str]]] = {
        "controllers": _controllers,
        "plants": _plants,
        "robots": _robots,
        "terrains": _terrains,
        "experiments": lambda: summaries(EXPERIMENTS),
        "studies": lambda: summaries(STUDIES),
    }
    if kind is not None and kind not in kinds:
        raise UnknownName("list", kind, kinds)
    found = {name: dict(sorted(give().items())) for name, give in kinds.items() if kind in (None, name)}
    if as_json:
        click.echo(json.dumps(found))
        return
    from rich.table import Table
    from rich.text import Text

    screen = console()
    for name, entries in found.items():
        table = Table(title=name, title_justify="left", title_style="bold", box=None, show_header=False)
        for entry, line in entries.items():
            table.add_row(Text(entry, style="cyan", no_wrap=True), Text(line))
        screen.print(table)


def _robots() -> dict[str, str]:
    found = {}
    for entry in entry_points(ROBOTS).values():
        library: RobotLibrary = entry.load()
        for name in library.names():
            report = library.check(name)
            found[name] = _in_short(report.summary)
            if report.problems:
                needs = getattr(report, "needs", "")
                found[name] = f"needs {needs}" if needs else f"not fit to run: {report.problems[0]}"
    return found


def _in_short(summary: Mapping[str, Any]) -> str:
    """One line that describes a robot, from the summary of its check."""
    parts = [f"{summary['mass_kg']:.3g} kg"] if "mass_kg" in summary else []
    tips = "fingers" if summary.get("base") == "fixed" else "feet"
    counted = (("joints", "joints"), ("feet", tips))
    parts += [f"{len(summary[name])} {called}" for name, called in counted if summary.get(name)]
    parts += [f"base {summary['height_m']:.3g} m high"] if summary.get("height_m") else []
    return ", ".join(parts)


def _controllers() -> Mapping[str, str]:
    from idcontrol import controllers

    return controllers.available()


def _plants() -> Mapping[str, str]:
    from idcontrol import plants

    return plants.available()


def _terrains() -> Mapping[str, str]:
    from idcontrol.contact import terrain

    return terrain.available()
