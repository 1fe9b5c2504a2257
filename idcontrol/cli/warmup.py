"""``idcontrol warmup``: compile and cache the kernels."""

from __future__ import annotations

import multiprocessing
import os
import tempfile
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import click

from idcontrol.cli.console import one_line
from idcontrol.entries import EXPERIMENTS, entry_points, load_experiment
from idcontrol.errors import InputError, UnknownName


@click.command("warmup")
@click.argument("experiments", nargs=-1, metavar="[EXPERIMENT]...")
@click.option("--quiet", is_flag=True, help="Print nothing.")
def command(experiments: tuple[str, ...], quiet: bool) -> None:
    """Compile and cache the kernels of EXPERIMENTs (all by default), so that the next command starts at once.

    An experiment that needs a package that is not installed is left out, and said so.
    """
    known = entry_points(EXPERIMENTS)
    for name in experiments:
        if name not in known:
            raise UnknownName("experiment", name, known)
    names = experiments or tuple(known)
    # one process for each core, because Numba compiles on one
    workers = min(len(names), len(os.sched_getaffinity(0)))
    if workers == 1:
        left_out = [_warm(name) for name in names]
    else:
        with ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn")) as pool:
            left_out = list(pool.map(_warm, names))
    if quiet:
        return
    for name, reason in zip(names, left_out, strict=True):
        if reason:
            click.echo(f"left out {name}: {reason}")
    click.echo("kernels are compiled and cached")


def _warm(name: str) -> str:
    """Compile the kernels of an experiment; returns why that could not be done, or an empty text."""
    try:
        with tempfile.TemporaryDirectory() as folder:
            load_experiment(name).warmup(Path(folder) / name)
    except InputError as error:
        return one_line(error)
    return ""
