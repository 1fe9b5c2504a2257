"""A comparison from its plan to its table, for the command line and Python."""

import contextlib
import functools
import json
import os
import sys
import warnings
from collections.abc import Callable, Generator, Mapping, Sequence
from pathlib import Path
from typing import Any

from idcontrol import controllers as registry
from idcontrol import plants
from idcontrol.config.changes import start_of
from idcontrol.config.entries import load_experiment
from idcontrol.errors import InputError
from idcontrol.record.recording import fresh_folder
from idcontrol.sweeps import execute, record
from idcontrol.sweeps.plan import PlannedRun, plan, product
from idcontrol.sweeps.progress import progress_bar
from idcontrol.sweeps.record import Comparison, RunOutcome

MakeRuns = Callable[[Sequence[PlannedRun], Path], Generator[PlannedRun, None, None]]


def compare(
    experiment: str,
    controllers: Sequence[str] | None = None,
    *,
    vary: Mapping[str, Sequence[Any]] | None = None,
    preset: str = "default",
    jobs: int | None = None,
    out: str | Path | None = None,
    **settings: Any,
) -> Comparison:
    """Run an experiment for every combination of some settings and read the records.

    Args:
        experiment: Name of the experiment.
        controllers: Names, or places of user classes (``"mine.py:Mine"``); None means all controllers with a name,
            unless `vary` or `settings` sets the controller.
        vary: Values of any other settings, e.g. ``{"mu": [0.1, 0.8], "seed": range(5)}``.
        preset: Name of the preset that every run begins with.
        jobs: Number of simultaneous runs; None means one per core.
        out: Folder of the comparison; an interrupted comparison is continued. None creates a new folder below ``runs``.
        **settings: Changes to the preset for all runs, by dotted key or its last part.

    Returns:
        The comparison. A failed run is a row with the reason.

    Raises:
        UnknownName: The experiment, preset, setting, controller or plant does not exist.
        InputError: A value is invalid, the folder is unusable, or no run accepted its settings.

    Warns: UserWarning: The record of a finished run is damaged, so the run is repeated.
    """
    chosen = load_experiment(experiment)
    axes: dict[str, Sequence[Any]] = {key: list(values) for key, values in (vary or {}).items()}
    if controllers is not None:
        axes["controller"] = list(controllers)
    axes |= all_controllers(start_of(chosen, preset), {*settings, *axes})
    for kind, factory in (("controller", registry.factory), ("plant", plants.factory)):
        for name in axes.get(kind, [settings[kind]] if kind in settings else []):
            factory(name)  # detect unknown names before anything runs
    planned = plan(chosen, [{"preset": preset, **settings, **run} for run in product(axes)])
    folder = fresh_folder("runs", f"compare-{experiment}") if out is None else Path(out)
    words = ["idcontrol", "compare", experiment, "--preset", preset, "--out", str(folder)]
    for key, values in axes.items():
        words += ["--vary", f"{key}={','.join(json.dumps(value) for value in values)}"]
    for key, value in settings.items():
        words += ["--set", f"{key}={json.dumps(value)}"]
    with progress_bar(f"{experiment}: {len(planned)} runs") as progress:
        conduct(
            planned,
            folder,
            on_this_machine(jobs),
            experiment=experiment,
            study=None,
            command=words,
            notice=functools.partial(warnings.warn, stacklevel=3),
            ended=lambda outcome, share: progress(share),
        )
    return record.load(folder)


def all_controllers(start: Any, decided: set[str]) -> dict[str, Sequence[Any]]:
    """Return the setting `controller` with all its values; empty if it is in `decided` or does not exist."""
    if "controller" in decided or not hasattr(start, "controller"):
        return {}
    return {"controller": list(registry.available())}


def on_this_machine(jobs: int | None) -> MakeRuns:
    """Return a function that makes up to `jobs` runs at a time; None means one per core that this process may use."""

    def say(line: str) -> None:
        print(line, file=sys.stderr, flush=True)

    return functools.partial(execute.on_this_machine, jobs=jobs or len(os.sched_getaffinity(0)), say=say)


def conduct(
    planned: Sequence[PlannedRun],
    out: Path,
    make_runs: MakeRuns,
    *,
    experiment: str,
    study: str | None,
    command: Sequence[str],
    notice: Callable[[str], None],
    ended: Callable[[RunOutcome, float], None] = lambda outcome, share: None,
) -> tuple[RunOutcome, ...]:
    """Make the missing runs, write the table of all runs, and return all outcomes in planned order.

    Args:
        planned: All runs of the comparison.
        out: Folder of the comparison.
        make_runs: Makes runs and yields each finished run.
        experiment: Name of the experiment.
        study: Name of the study; None without a study.
        command: The command that makes or continues this comparison.
        notice: Called with a line about each run that is repeated because its record is damaged.
        ended: Called with the outcome of each run that has ended, and the completed share, 0 to 1.

    Raises:
        InputError: The folder is unusable, or the settings of every run were refused.
    """
    with record.opened(out, planned, experiment=experiment, study=study, command=command) as folder:
        wanted = []
        for run in {run.name: run for run in planned}.values():
            if execute.done(run, folder):
                if (reason := execute.damage(run, folder)) is None:
                    continue
                execute.set_aside(run, folder, reason)
                notice(f"{run.name} is run again: {reason}")
            wanted.append(run)
        with contextlib.closing(make_runs(wanted, folder)) as attempts:
            for count, run in enumerate(attempts, start=1):
                ended(record.outcome(run, folder), count / len(wanted))
        outcomes = tuple(record.outcome(run, folder) for run in planned)
        record.write_rows(out, outcomes)
    refusals = [o.reason for o in outcomes if o.reason is not None and o.reason.startswith(execute.REFUSED)]
    if len(refusals) == len(outcomes):
        raise InputError(refusals[0].removeprefix(execute.REFUSED))
    return outcomes
