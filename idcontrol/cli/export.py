"""``idcontrol export``: a run as a file that other tools open."""

from __future__ import annotations

import json
from pathlib import Path

import click


@click.command("export", short_help="Write a run as a file for Foxglove or PlotJuggler.")
@click.argument("folder", type=click.Path(path_type=Path), metavar="RUN")
@click.option("--mcap", type=click.Path(path_type=Path), required=True, metavar="FILE", help="MCAP file to write.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(folder: Path, mcap: Path, as_json: bool) -> None:
    """Write the run in RUN as an MCAP file, which Foxglove and PlotJuggler open.

    The topic /run has all channels, by the names of joints, feet and axes; /events has the events.
    """
    from idcontrol.record.mcap import export
    from idcontrol.record.recording import load

    rows = export(load(folder), mcap)
    size = mcap.stat().st_size
    if as_json:
        click.echo(json.dumps({"file": str(mcap), "rows": rows, "bytes": size}))
    else:
        click.echo(f"{mcap}: {rows} rows, {1e-6 * size:.1f} MB")
