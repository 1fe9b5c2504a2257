"""``idcontrol check``: check a robot file or URDF."""

import shlex
from collections.abc import Mapping
from typing import Any

import click

from idcontrol.cli import completion
from idcontrol.cli.console import DONE, UNUSABLE, Grid, cell, print_json, say, show
from idcontrol.cli.options import JSON
from idcontrol.config.configuration import is_number
from idcontrol.config.entries import library_of


@click.command("check", short_help="Check a robot file or URDF.")
@click.argument("robot", shell_complete=completion.robots)
@JSON
def command(robot: str, as_json: bool) -> int:
    """Check ROBOT, a name or the path of a robot file or URDF; print its properties and its faults, if any."""
    report = library_of(robot).check(robot)
    if as_json:
        fields = {name: getattr(report, name) for name in ("robot", "problems", "warnings", "summary")}
        print_json({"fit": not report.problems, **fields})
    else:
        _print_report(robot, report)
    if not report.problems:
        return DONE
    others = len(report.problems) - 1
    more = f" (and {others} more, listed on standard output)" if others else ""
    what = "" if report.problems[0].startswith(f"{robot}:") else f"{report.robot} is not fit to run: "
    return say(f"{what}{report.problems[0]}{more}", UNUSABLE)


def _print_report(robot: str, report: Any) -> None:
    """Print the facts, tables and warnings of a report, then all problems if there are several.

    Without problems, print the verdict, and for a robot with a gait the next command.
    """
    from rich.text import Text

    from idcontrol.record.quantities import label, words

    facts, tables, paths = Grid("", " ", words=("", " "), header=False), [], []
    for key, value in report.summary.items():
        if isinstance(value, list | tuple) and value and all(isinstance(row, Mapping) for row in value):
            texts = [label(head) for head, item in value[0].items() if not is_number(item) and item is not None]
            tables.append(Grid(*map(label, value[0]), words=texts, title=key))
            for row in value:
                tables[-1].add(*map(cell, row.values()))
        elif isinstance(value, str) and "/" in value:  # outside the table, which would break a path into lines
            paths.append(f"{words(key)[0]}: {value}")
        else:
            name, unit = words(key)
            facts.add(Text(name, style="cyan"), f"{cell(value)} {unit}".rstrip())
    show(*paths, *([facts] if facts.rows else []), *tables)
    show(*(f"warning: {line}" for line in report.warnings), style="yellow")
    if len(report.problems) > 1:
        show(*(f"problem: {line}" for line in report.problems), style="red")
    if not report.problems:
        show(f"{report.robot} is fit to run", style="bold green")
        if report.summary.get("gait"):
            show(f"to see it trot: idcontrol run trot --robot {shlex.quote(robot)}")
