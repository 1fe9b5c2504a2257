"""``idcontrol list``: names for other commands, with descriptions, and settings."""

from collections.abc import Callable, Mapping
from functools import partial

import click

from idcontrol.cli import completion
from idcontrol.cli.console import Grid, print_json, show
from idcontrol.cli.options import JSON
from idcontrol.config.entries import (
    CONTROLLERS,
    EXPERIMENTS,
    PLANTS,
    STUDIES,
    load_experiment,
    registered,
    robot_libraries,
    summaries,
)
from idcontrol.contact import TERRAINS
from idcontrol.errors import InputError, UnknownName


@click.command("list", short_help="List controllers, plants, robots, experiments, settings.")
@click.argument("kind", required=False)
@click.argument("experiment", required=False, shell_complete=completion.experiments)
@JSON
def command(kind: str | None, experiment: str | None, as_json: bool) -> None:
    """List controllers, plants, robots, terrains, experiments, studies, or all of them, with a description of each.

    `idcontrol list settings EXPERIMENT` (by default trot) lists the settings for --set: default, unit, allowed values.
    """
    kinds: dict[str, Callable[[], Mapping[str, str]]] = {
        "controllers": partial(registered, CONTROLLERS),
        "plants": partial(registered, PLANTS),
        "robots": lambda: {name: line for library in robot_libraries() for name, line in library.summaries().items()},
        "terrains": lambda: TERRAINS,
        "experiments": partial(summaries, EXPERIMENTS),
        "studies": partial(summaries, STUDIES),
    }
    if kind == "settings":
        _list_settings(experiment or "trot", as_json)
        return
    if kind is not None and kind not in kinds:
        raise UnknownName("list", kind, (*kinds, "settings"))
    if experiment is not None:
        raise InputError(f"list {kind} {experiment}: only `list settings` takes an experiment; leave it out")
    items = {name: dict(sorted(lines().items())) for name, lines in kinds.items() if kind in (None, name)}
    if as_json:
        print_json(items)
        return
    from rich.text import Text

    for name, entries in items.items():
        grid = Grid("name", "line", words=("name", "line"), title=name, header=False)
        for entry, line in entries.items():
            grid.add(Text(entry, style="cyan"), line)
        show(grid)


def _list_settings(experiment: str, as_json: bool) -> None:
    from idcontrol.cli.settings import settings

    items = list(settings(load_experiment(experiment).presets["default"]))
    if as_json:
        print_json({"settings": {one.key: one._asdict() for one in items}})
        return
    headings = ("setting", "default", "allowed", "meaning")
    grid = Grid(*headings, words=headings, spare=("allowed",), title=f"settings of {experiment}")
    for one in items:
        unit = "" if one.default == "null" else one.unit
        grid.add(one.key, f"{one.default} {unit}".rstrip(), one.allowed, one.meaning)
    show(grid)
