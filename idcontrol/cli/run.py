"""``idcontrol run``: run an experiment, record it, print its metrics."""

import contextlib
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from idcontrol.cli import completion, options
from idcontrol.cli.console import DONE, INTERRUPTED, TASK_FAILED, Grid, mark, print_json, say, show
from idcontrol.cli.faults import RunFault, Stopped
from idcontrol.config.configuration import parse_setting
from idcontrol.config.entries import load_experiment
from idcontrol.errors import IdControlError, Terminated
from idcontrol.sweeps.progress import progress_bar


@click.command("run", short_help="Run an experiment, record it, print its metrics.")
@click.argument("experiment", shell_complete=completion.experiments)
@options.with_options(options.CONTROLLER, options.PLANT, options.ROBOT)
@click.option(
    "--terrain", shell_complete=completion.terrains, metavar="T", help="Ground; see `idcontrol list terrains`."
)
@options.with_options(options.MU, options.DURATION, options.RATE)
@click.option("--seed", type=int, metavar="N", help="Seed of all random numbers.")
@options.with_options(options.PRESET, options.SETTINGS, options.OUT, options.JSON)
@click.option("--view", "watch", is_flag=True, help="Replay the run in 3-D in the browser at the end.")
@options.QUIET
def command(
    experiment: str,
    preset: str | None,
    settings: tuple[str, ...],
    out: Path | None,
    as_json: bool,
    watch: bool,
    quiet: bool,
    **request: Any,
) -> int:
    """Run EXPERIMENT, record it, and print its metrics."""
    from idcontrol.sweeps.record import why_not

    metrics = make_run(experiment, preset or "default", request, settings, out, quiet)
    if as_json:
        print_json(metrics)
    else:
        show_metrics(metrics)
    if watch:
        from idcontrol.cli.view import view

        with contextlib.redirect_stdout(sys.stderr):
            view(Path(metrics["out"]))
    reason = why_not(metrics)
    return DONE if reason is None else say(f"the task was not done: {reason}", TASK_FAILED)


def make_run(
    experiment: str, preset: str, request: Mapping[str, Any], settings: tuple[str, ...], out: Path | None, quiet: bool
) -> dict[str, Any]:
    """Run an experiment; return its metrics.

    Args:
        experiment: Name of the experiment.
        preset: Name of the preset to start from.
        request: Value of each option, by the key of its setting; None for an unused option.
        settings: Further settings, ``KEY=VALUE``.
        out: Folder of the record; None for a new folder.
        quiet: True to show no progress.

    Raises:
        UnknownName: The experiment or a setting does not exist.
        InputError: The value of an option or a setting is unusable.
        Stopped: A signal ended the run.
        RunFault: An error that the input did not cause.
    """
    from idcontrol.config.changes import start_of
    from idcontrol.sweeps import running

    chosen = load_experiment(experiment)
    start = start_of(chosen, preset)
    config = options.configure(start, f"the experiment {experiment}", request, dict(map(parse_setting, settings)))
    folder = running.open_folder(experiment, preset, start, config, out)
    try:
        with progress_bar(experiment, quiet) as progress, contextlib.redirect_stdout(sys.stderr):
            return running.conduct(chosen, config, folder, progress)
    except IdControlError:
        raise
    except (KeyboardInterrupt, Terminated) as stop:
        status = stop.status if isinstance(stop, Terminated) else INTERRUPTED
        begun = any(folder.iterdir())
        kept = f"; what was recorded until then is in {folder}" if begun else " before anything was recorded"
        raise Stopped(f"stopped{kept}", status) from None
    except BaseException as error:  # including sys.exit in a user's controller; the traceback goes next to the record
        raise RunFault(folder) from error


VERDICT = ("q_err_rad", "dtau_mean_nm_s")
"""Quantities that the verdict at the end of the output repeats, if the run has them."""


def show_metrics(metrics: Mapping[str, Any], *more: Grid | str) -> None:
    """Print a run's figures with limits and the paper's numbers, then `more`, a verdict, and the record's folder."""
    from rich.text import Text

    from idcontrol.record.files import read_json
    from idcontrol.record.quantities import QUANTITIES, words
    from idcontrol.show import report
    from idcontrol.sweeps.running import HEADLINE, state

    paper, checks, units, verdicts = (metrics.get(name) or {} for name in ("paper", "checks", "units", "verdicts"))
    grid = Grid("", "value", "unit", "limit", "paper", "verdict", words=("", "unit", "verdict"))
    known = {"experiment", "out", "began", "verdict", "steps", "missed", *HEADLINE}
    known |= {q.key.partition(".")[0] for q in QUANTITIES}
    out = metrics["out"]
    goals = (read_json(Path(out), "run.json").get("meta") or {}).get("goals") or {}
    rows = [row for rows in report.table(metrics, goals).values() for row in rows]
    for row in rows:
        limit = Text(f"{row['goal']} ").append_text(mark(row["met"])) if row["goal"] else ""
        grid.add(row["label"], row["value"], Text(row["unit"], style="dim"), limit, "", "")
    others = [key for key, value in metrics.items() if key not in known and not isinstance(value, dict | list)]
    for key in others:
        if metrics[key] is not None or key in units:
            label, unit = words(key, units.get(key))
            beside = report.number(paper[key]) if key in paper else ""
            cells = Text(unit, style="dim"), mark(checks.get(key)), beside, verdicts.get(key, "")
            grid.add(label, report.number(metrics[key]), *cells)

    title = ", ".join(_said(key, metrics[key]) for key in ("experiment", *HEADLINE) if metrics.get(key) is not None)
    show(title, style="bold")
    show(grid)
    labels, notes = {q.key: q.label for q in QUANTITIES}, metrics.get("notes") or {}
    show(*(f"{labels.get(key) or words(key)[0]}: {note}" for key, note in notes.items()), style="dim")
    show(*more)
    held = [met for met in (*(row["met"] for row in rows), *checks.values()) if met is not None]
    limits = [f"{sum(held)} of {len(held)} limits hold"] if held else []
    figures = [f"{q.label} {q.text(q.of(metrics))} {q.unit}" for q in QUANTITIES if q.key in VERDICT and q.of(metrics)]
    show("; ".join((state(metrics), *limits, *figures)), style="bold")
    show(f"recorded in {out}; plots: idcontrol report {shlex.quote(out)}")


def _said(key: str, value: Any) -> str:
    """Return label, value and unit of a setting, for the heading of a run."""
    from idcontrol.record.quantities import words

    label, unit = words(key)
    return f"{label} {value:g} {unit}".rstrip() if isinstance(value, float) else f"{label} {value}"
