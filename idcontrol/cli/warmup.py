"""``idcontrol warmup``: compile and cache the kernels."""

from __future__ import annotations

import tempfile
from pathlib import Path

import click

from idcontrol.cli.entries import EXPERIMENTS, entry_points, load_experiment


@click.command("warmup")
@click.option("--quiet", is_flag=True, help="Print nothing.")
def command(quiet: bool) -> None:
    """Compile and cache the kernels, so that the next command starts at once."""
    with tempfile.TemporaryDirectory() as folder:
        for name in entry_points(EXPERIMENTS):
            load_experiment(name).warmup(Path(folder) / name)
    if not quiet:
        click.echo("kernels are compiled and cached")
