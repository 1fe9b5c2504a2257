"""``idcontrol league``: contact problems through every solver that is installed, and one judge."""

from __future__ import annotations

import contextlib
import json
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from idcontrol.cli.console import DONE, TASK_FAILED, console, say
from idcontrol.config.configuration import build, parse_setting
from idcontrol.config.entries import load_experiment

if TYPE_CHECKING:
    from rich.table import Table

NAME = "league"
COLUMNS = {
    "given": "given",
    "solved": "solved",
    "loose": "loose",
    "false_success": "false successes",
    "unsolved_though_solvable": "unsolved, though another solves it",
    "crashed": "crashed",
    "median_us": "median [µs]",
    "fastest": "fastest",
}


@click.command(NAME, short_help="Contact problems through every installed solver.")
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="KEY=VALUE",
    help="""A setting, as --set 'data=["FOLDER"]' for further problems, 'solvers=["file.py:solve"]' for further
    solvers, random=N, hostile=N, seed=N.""",
)
@click.option("--out", type=click.Path(path_type=Path), metavar="DIR", help="Folder of the record; must be empty.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(settings: tuple[str, ...], out: Path | None, as_json: bool) -> int:
    """Give contact problems to every solver that is installed, and judge all answers alike.

    The law is Coulomb's with circular cones. A solution misses it by 1e-8 at most; a false success is called
    solved and misses it by more than 1e-6; what lies between is loose. Times are the solvers' own, the shortest of
    several. Exit status 1: our solver fails at something that another solves, or calls something solved that is not.
    """
    from idcontrol.config.changes import start_of
    from idcontrol.config.configuration import jsonable
    from idcontrol.program.progress import progress_bar
    from idcontrol.sweeps import running

    league = load_experiment(NAME)
    start = start_of(league, "default")
    config = build(start, dict(parse_setting(text) for text in settings), {})
    folder = running.open_folder(NAME, "default", start, config, out)
    with progress_bar(NAME, as_json) as progress, contextlib.redirect_stdout(sys.stderr):
        metrics = running.conduct(league, config, folder, progress)
    if as_json:
        click.echo(json.dumps(jsonable(metrics), allow_nan=False))
    else:
        from rich.text import Text

        console().print(_table(metrics))
        report = f"idcontrol report {shlex.quote(str(folder))}"
        console().print(Text(f"every answer, and the performance profile: {report}", style="dim"), soft_wrap=True)
    if metrics["completed"]:
        return DONE
    return say("does not hold: " + ", ".join(key for key, holds in metrics["checks"].items() if not holds), TASK_FAILED)


def _table(metrics: dict[str, Any]) -> Table:
    from rich.table import Table

    from idcontrol.show.report import number

    table = Table(title=f"{metrics['problems']} problems", title_justify="left", box=None, header_style="dim")
    table.add_column("")
    for heading in COLUMNS.values():
        table.add_column(heading, justify="right")
    for row in metrics["solvers"]:
        table.add_row(row["name"], *("" if row[key] is None else number(row[key]) for key in COLUMNS))
    return table
