"""``idcontrol check``: what is wrong with a robot, or that it is fit to run."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import click

from idcontrol.cli import completion
from idcontrol.cli.console import DONE, UNUSABLE, cell, console, say
from idcontrol.config.entries import ROBOTS, entry_points
from idcontrol.errors import InputError


@click.command("check", short_help="Say what is wrong with a robot, or that it is fit.")
@click.argument("robot", shell_complete=completion.robots)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(robot: str, as_json: bool) -> int:
    """Say what is wrong with ROBOT, a name or the path of a robot file or URDF, or that it is fit to run."""
    from idcontrol.config.configuration import jsonable

    libraries = [entry.load() for entry in entry_points(ROBOTS).values()]
    if not libraries:
        raise InputError("no robot library is installed; install idcontrol with its robots")
    report = next((library for library in libraries if robot in library.names()), libraries[0]).check(robot)
    if as_json:
        fields = {name: getattr(report, name) for name in ("robot", "problems", "warnings", "summary")}
        click.echo(json.dumps(jsonable({"fit": not report.problems, **fields}), allow_nan=False))
    else:
        _print_report(report)
    if not report.problems:
        return DONE
    others = len(report.problems) - 1
    more = f" (and {others} more, listed on standard output)" if others else ""
    return say(f"{report.robot} is not fit to run: {report.problems[0]}{more}", UNUSABLE)


def _print_report(report: Any) -> None:
    """Print a report: single facts line by line, tables as tables, then warnings and problems."""
    from rich.table import Column, Table
    from rich.text import Text

    from idcontrol.record.quantities import label, words

    screen = console()
    if not report.problems:
        screen.print(Text(f"{report.robot} is fit to run", style="bold green"))
    facts = Table(box=None, show_header=False)
    for key, value in report.summary.items():
        if not _is_table(value):
            name, unit = words(key)
            facts.add_row(Text(name, style="cyan"), Text(f"{cell(value)} {unit}".rstrip()))
    if facts.row_count:
        screen.print(facts)
    for key, value in report.summary.items():
        if _is_table(value):
            heads = (Column(Text(label(head))) for head in value[0])
            table = Table(*heads, title=key, title_justify="left", title_style="bold", box=None)
            for row in value:
                table.add_row(*(Text(cell(item)) for item in row.values()))
            screen.print(table)
    for line in report.warnings:
        screen.print(Text(f"warning: {line}", style="yellow"), soft_wrap=True)
    if len(report.problems) > 1:
        for line in report.problems:
            screen.print(Text(f"problem: {line}", style="red"), soft_wrap=True)


def _is_table(value: Any) -> bool:
    return isinstance(value, list | tuple) and bool(value) and all(isinstance(row, Mapping) for row in value)
