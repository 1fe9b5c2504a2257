"""``idcontrol run``: run an experiment, record it, print what came out."""

from __future__ import annotations

import contextlib
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from idcontrol.cli import completion, options
from idcontrol.cli.console import DONE, INTERRUPTED, TASK_FAILED, grid, mark, print_json, say, show
from idcontrol.cli.faults import RunFault, Stopped
from idcontrol.config.configuration import parse_setting
from idcontrol.config.entries import load_experiment
from idcontrol.errors import IdControlError
from idcontrol.record.interrupts import Terminated
from idcontrol.sweeps.progress import progress_bar


@click.command("run", short_help="Run an experiment, record it, print what came out.")
@click.argument("experiment", shell_complete=completion.experiments)
@options.with_options(options.CONTROLLER, options.PLANT, options.ROBOT)
@click.option(
    "--terrain", shell_complete=completion.terrains, metavar="T", help="Ground; see `idcontrol list terrains`."
)
@options.with_options(options.MU, options.DURATION, options.RATE)
@click.option("--seed", type=int, metavar="N", help="Seed of everything that is random.")
@options.with_options(options.PRESET, options.SETTINGS, options.OUT, options.JSON)
@click.option("--view", "watch", is_flag=True, help="Replay it in 3-D in the browser when it has ended.")
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
    """Run EXPERIMENT, record it, and print what came out."""
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
    """Run the experiment that the options describe; return its metrics.

    Raises:
        Stopped: A signal ended it.
        RunFault: Something raised an error that is not the input's fault.
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
        code = stop.code if isinstance(stop, Terminated) and isinstance(stop.code, int) else INTERRUPTED
        raise Stopped(f"stopped; what was recorded until then is in {folder}", code) from None
    except BaseException as error:  # sys.exit in a user's controller, too: its traceback goes beside the record
        raise RunFault(folder) from error


def show_metrics(metrics: Mapping[str, Any]) -> None:
    """Print a run as a table: known quantities in their units, then all other metrics, beside the paper's numbers."""
    from rich.text import Text

    from idcontrol.record.quantities import QUANTITIES, words
    from idcontrol.show.report import number
    from idcontrol.sweeps.running import HEADLINE

    paper, checks, units, verdicts = (metrics.get(name) or {} for name in ("paper", "checks", "units", "verdicts"))
    table = grid("", "found", "", "", "paper" if paper else "", "", show_header=bool(paper), header_style="dim")
    known = {"experiment", "out", "steps", "missed", *HEADLINE}
    for quantity in QUANTITIES:
        known.add(quantity.key.partition(".")[0])
        value = quantity.of(metrics)
        if value is not None:
            table.add_row(quantity.label, quantity.text(value), Text(quantity.unit, style="dim"))
    for key, value in metrics.items():
        if key in known or isinstance(value, dict | list) or (value is None and key not in units):
            continue
        beside = number(paper[key]) if key in paper else ""
        label, unit = words(key, units.get(key))
        verdict = Text(verdicts.get(key, ""))
        table.add_row(label, number(value), Text(unit, style="dim"), mark(checks.get(key)), beside, verdict)

    title = ", ".join(_said(key, metrics[key]) for key in ("experiment", *HEADLINE) if metrics.get(key) is not None)
    show(title, style="bold")
    show(table)
    if any(held is not None for held in checks.values()):
        show("✓: a bound that is stated for the figure holds; ✗: it does not", style="dim")
    show(*(f"{words(key)[0]}: {note}" for key, note in (metrics.get("notes") or {}).items()), style="dim")
    out = metrics["out"]
    show(f"recorded in {out}; plots: idcontrol report {shlex.quote(out)}")


def _said(key: str, value: Any) -> str:
    """A setting in the heading of a run: its label, value and unit."""
    from idcontrol.record.quantities import words

    label, unit = words(key)
    return f"{label} {value:g} {unit}".rstrip() if isinstance(value, float) else f"{label} {value}"
