"""``idcontrol list``: the names that other commands take, each with a line that describes it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import click

from idcontrol.cli.completion import available
from idcontrol.cli.console import print_json, show
from idcontrol.cli.options import JSON
from idcontrol.config.entries import EXPERIMENTS, STUDIES, robot_libraries, summaries
from idcontrol.errors import UnknownName


@click.command("list", short_help="Names that other commands take, and what each is.")
@click.argument("kind", required=False)
@JSON
def command(kind: str | None, as_json: bool) -> None:
    """List controllers, plants, robots, terrains, experiments, studies, or all of them, with what each is."""
    kinds: dict[str, Callable[[], Mapping[str, str]]] = {
        "controllers": partial(available, "controllers"),
        "plants": partial(available, "plants"),
        "robots": _robots,
        "terrains": partial(available, "contact.terrain"),
        "experiments": partial(summaries, EXPERIMENTS),
        "studies": partial(summaries, STUDIES),
    }
    if kind is not None and kind not in kinds:
        raise UnknownName("list", kind, kinds)
    items = {name: dict(sorted(lines().items())) for name, lines in kinds.items() if kind in (None, name)}
    if as_json:
        print_json(items)
        return
    from rich.table import Table
    from rich.text import Text

    for name, entries in items.items():
        table = Table(title=name, title_justify="left", title_style="bold", box=None, show_header=False)
        for entry, line in entries.items():
            table.add_row(Text(entry, style="cyan", no_wrap=True), Text(line))
        show(table)


def _robots() -> dict[str, str]:
    items = {}
    for library in robot_libraries():
        for name in library.names():
            report = library.check(name)
            items[name] = _in_short(report.summary)
            if report.problems:
                needs = getattr(report, "needs", "")
                items[name] = f"needs {needs}" if needs else f"not fit to run: {report.problems[0]}"
    return items


def _in_short(summary: Mapping[str, Any]) -> str:
    """One line that describes a robot, from the summary of its check."""
    parts = [f"{summary['mass_kg']:.3g} kg"] if "mass_kg" in summary else []
    tips = "fingers" if summary.get("base") == "fixed" else "feet"
    counted = (("joints", "joints"), ("feet", tips))
    parts += [f"{len(summary[name])} {called}" for name, called in counted if summary.get(name)]
    parts += [f"base {summary['height_m']:.3g} m high"] if summary.get("height_m") else []
    return ", ".join(parts)
