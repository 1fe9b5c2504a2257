"""``idcontrol report``: the page of a run."""

from __future__ import annotations

from pathlib import Path

import click


@click.command("report")
@click.argument("folder", type=click.Path(path_type=Path), metavar="DIR")
def command(folder: Path) -> None:
    """Write an HTML page of plots and tables of the run in DIR and print its path."""
    from idcontrol.report import report

    click.echo(report(folder))
