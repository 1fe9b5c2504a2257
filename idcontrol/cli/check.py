"""``idcontrol check``: what is wrong with a robot, or that it is fit to run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from idcontrol.cli import completion
from idcontrol.cli.console import DONE, UNUSABLE, cell, grid, print_json, say, show
from idcontrol.cli.options import JSON
from idcontrol.config.entries import library_of


@click.command("check", short_help="Say what is wrong with a robot, or that it is fit.")
@click.argument("robot", shell_complete=completion.robots)
@JSON
def command(robot: str, as_json: bool) -> int:
    """Say what is wrong with ROBOT, a name or the path of a robot file or URDF, or that it is fit to run."""
    report = library_of(robot).check(robot)
    if as_json:
        fields = {name: getattr(report, name) for name in ("robot", "problems", "warnings", "summary")}
        print_json({"fit": not report.problems, **fields})
    else:
        _print_report(report)
    if not report.problems:
        return DONE
    others = len(report.problems) - 1
    more = f" (and {others} more, listed on standard output)" if others else ""
    return say(f"{report.robot} is not fit to run: {report.problems[0]}{more}", UNUSABLE)


def _print_report(report: Any) -> None:
    """Print a report: single facts line by line, tables as tables, then warnings and problems."""
    from rich.text import Text

    from idcontrol.record.quantities import label, words

    if not report.problems:
        show(f"{report.robot} is fit to run", style="bold green")
    facts, tables = grid("", "", show_header=False), []
    for key, value in report.summary.items():
        if isinstance(value, list | tuple) and value and all(isinstance(row, Mapping) for row in value):
            headings = [label(head) for head in value[0]]
            tables.append(grid(*headings, words=headings, title=key, title_style="bold"))
            for row in value:
                tables[-1].add_row(*(Text(cell(item)) for item in row.values()))
        else:
            name, unit = words(key)
            facts.add_row(Text(name, style="cyan"), Text(f"{cell(value)} {unit}".rstrip()))
    show(*([facts] if facts.row_count else []), *tables)
    show(*(f"warning: {line}" for line in report.warnings), style="yellow")
    if len(report.problems) > 1:
        show(*(f"problem: {line}" for line in report.problems), style="red")
