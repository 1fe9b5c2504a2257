"""``idcontrol warmup``: compile and cache the kernels."""

import multiprocessing
import os
import shlex
import tempfile
import threading
from concurrent.futures import ProcessPoolExecutor
from itertools import repeat
from pathlib import Path

import click

from idcontrol.cli.console import one_line
from idcontrol.cli.options import QUIET
from idcontrol.config.entries import EXPERIMENTS, entry_points, load_experiment
from idcontrol.errors import InputError, UnknownName


@click.command("warmup", short_help="Compile the kernels before the first run.")
@click.argument("experiments", nargs=-1, metavar="[EXPERIMENT]...")
@click.option(
    "--into",
    type=click.Path(file_okay=False, writable=True, path_type=Path),
    metavar="DIR",
    help="Write the kernels to DIR. Users set NUMBA_CACHE_DIR=DIR, and need only read access.",
)
@QUIET
def command(experiments: tuple[str, ...], into: Path | None, quiet: bool) -> None:
    """Compile and cache the kernels of EXPERIMENTs (all by default), so that later commands need not compile them.

    An experiment that needs a missing package is left out, with a message.
    """
    known = entry_points(EXPERIMENTS)
    for name in experiments:
        if name not in known:
            raise UnknownName("experiment", name, known)
    names = experiments or tuple(known)
    # one process for each core, because Numba compiles on a single core
    with ProcessPoolExecutor(
        len(os.sched_getaffinity(0)), multiprocessing.get_context("spawn"), initializer=_begin, initargs=(into,)
    ) as pool:
        try:
            first = list(pool.map(_rehearse, names, repeat(0)))
            # kernels that several rehearsals need are compiled first, so that no two processes compile the same kernel
            later = [
                (name, number) for name, (count, _) in zip(names, first, strict=True) for number in range(1, count)
            ]
            rest = list(pool.map(_rehearse, *zip(*later, strict=True))) if later else []
        except BaseException:
            for worker in multiprocessing.active_children():
                worker.terminate()  # after a signal, the pool would wait for rehearsals that have begun
            raise
    done = zip((*names, *(name for name, _ in later)), (*first, *rest), strict=True)
    skipped = {name: reason for name, (_, reason) in done if reason}
    if quiet:
        return
    for name, reason in skipped.items():
        click.echo(f"skipped {name}: {reason}")
    where = "" if into is None else f"; to use them: export NUMBA_CACHE_DIR={shlex.quote(str(into.resolve()))}"
    click.echo(f"kernels are compiled and cached{where}")


def _begin(folder: Path | None) -> None:
    """Prepare this worker: it writes kernels into `folder` (None for the default cache) and ends with its parent.

    This function must run before Numba is imported.
    """
    threading.Thread(target=_end_with_the_parent, daemon=True).start()
    if folder is not None:
        os.environ["NUMBA_CACHE_DIR"] = str(folder.resolve())


def _end_with_the_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)  # a worker whose parent was killed would wait for work forever


def _rehearse(name: str, number: int) -> tuple[int, str]:
    """Run rehearsal `number` of an experiment, if it has one; rehearsals are short runs that compile its kernels.

    Returns:
        The experiment's number of rehearsals, and ""; after an `InputError`, 0 and its text.
    """
    from idcontrol.kernels.linked import compile_linked

    try:
        experiment = load_experiment(name)
        rehearsals = experiment.rehearsals()
        for config in rehearsals[number : number + 1]:
            with tempfile.TemporaryDirectory() as folder:
                experiment.run(config, Path(folder) / name, lambda share: None)
        compile_linked()
    except InputError as error:
        return 0, one_line(error)
    return len(rehearsals), ""
