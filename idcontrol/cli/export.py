"""``idcontrol export``: write a run as a file for other tools."""

from pathlib import Path

import click

from idcontrol.cli.console import print_json
from idcontrol.cli.options import FOLDER, JSON


@click.command("export", short_help="Write a run as a file for Foxglove or PlotJuggler.")
@click.argument("folder", type=FOLDER, metavar="RUN")
@click.option("--mcap", type=FOLDER, required=True, metavar="FILE", help="MCAP file to write.")
@JSON
def command(folder: Path, mcap: Path, as_json: bool) -> None:
    """Write the run in RUN as an MCAP file, which Foxglove and PlotJuggler open.

    The topic /run has all channels except t, each number under the name of its joint, foot or axis; /base has the pose
    of a floating base, /events the events.
    """
    from idcontrol.record.mcap import export
    from idcontrol.record.recording import load

    rows = export(load(folder), mcap)
    size = mcap.stat().st_size
    if as_json:
        print_json({"file": mcap, "rows": rows, "bytes": size})
    else:
        click.echo(f"{mcap}: {rows} rows, {1e-6 * size:.1f} MB")
