"""``idcontrol league``: every installed solver on contact problems, and one judge."""

import shlex
from pathlib import Path
from typing import Any

import click

from idcontrol.cli.console import DONE, TASK_FAILED, Grid, print_json, say, show
from idcontrol.cli.options import JSON, OUT
from idcontrol.cli.run import make_run

NAME = "league"
COLUMNS = {
    "name": "",
    "tried": "tried",
    "solved": "solved",
    "loose": "loose",
    "false_success": "false successes",
    "unsolved_though_solvable": "missed, but solved by others",
    "crashed": "crashed",
    "median_us": "median [µs]",
    "fastest": "fastest",
}


@click.command(NAME, short_help="Run every installed solver on contact problems.")
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="KEY=VALUE",
    help="""A setting, as --set 'data=["FOLDER"]' for further problems, 'solvers=["file.py:solve"]' for further
    solvers, random=N, hostile=N, seed=N.""",
)
@OUT
@JSON
def command(settings: tuple[str, ...], out: Path | None, as_json: bool) -> int:
    """Solve contact problems by every installed solver, and judge all answers by the same law.

    The law is Coulomb's with circular cones. A problem is solved if the answer violates the law by at most 1e-8. If a
    solver reports success for a larger violation, its answer is loose up to 1e-6, and a false success above. Times are
    the shortest of several calls. Exit status 1: idcontrol's solver has a false success, or misses a problem that
    another solver solves.
    """
    metrics = make_run(NAME, "default", {}, settings, out, quiet=as_json)
    if as_json:
        print_json(metrics)
    else:
        _show(metrics)
    if metrics["completed"]:
        return DONE
    return say("does not hold: " + ", ".join(key for key, holds in metrics["checks"].items() if not holds), TASK_FAILED)


def _show(metrics: dict[str, Any]) -> None:
    from idcontrol.show.report import number

    table = Grid(*COLUMNS.values(), words=("",), title=f"{metrics['problems']} problems")
    for row in metrics["solvers"]:
        table.add(*("" if row[key] is None else number(row[key]) for key in COLUMNS))
    show(table)
    show(f"every answer, and the performance profile: idcontrol report {shlex.quote(str(metrics['out']))}", style="dim")
