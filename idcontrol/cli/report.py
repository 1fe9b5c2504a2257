"""``idcontrol report``: the page of a run or a comparison."""

from pathlib import Path

import click

from idcontrol.cli.options import FOLDER
from idcontrol.sweeps.study import load_study


@click.command("report", short_help="Write the HTML page of a run or a comparison.")
@click.argument("folder", type=FOLDER, metavar="DIR")
def command(folder: Path) -> None:
    """Write an HTML page of plots and tables of the run or the comparison in DIR and print its path."""
    if (folder / "comparison.json").is_file():
        from idcontrol.show import comparison as page
        from idcontrol.sweeps import record

        comparison = record.load(folder)
        study = None if comparison.study is None else load_study(comparison.study)
        click.echo(page.report(comparison, study))
        return
    from idcontrol.show.report import report

    click.echo(report(folder))
