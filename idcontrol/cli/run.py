"""``idcontrol run``: run an experiment, record it, print what came out."""

from __future__ import annotations

import contextlib
import json
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from idcontrol.cli import completion
from idcontrol.cli.console import DONE, INTERRUPTED, TASK_FAILED, console, real, say
from idcontrol.cli.faults import RunFault
from idcontrol.config.entries import load_experiment
from idcontrol.errors import IdControlError, InputError
from idcontrol.program.interrupts import Terminated
from idcontrol.program.progress import progress_bar


@click.command("run", short_help="Run an experiment, record it, print what came out.")
@click.argument("experiment", shell_complete=completion.experiments)
@click.option(
    "--controller",
    shell_complete=completion.controllers,
    metavar="C",
    help="A name (see `idcontrol list`), or your own: file.py:Class.",
)
@click.option(
    "--plant",
    shell_complete=completion.plants,
    metavar="P",
    help="A name (see `idcontrol list`), or your own: file.py:Class.",
)
@click.option(
    "--robot",
    shell_complete=completion.robots,
    metavar="R",
    help="Robot, or the path of a robot file or of a URDF beside one.",
)
@click.option(
    "--terrain", shell_complete=completion.terrains, metavar="T", help="Ground; see `idcontrol list terrains`."
)
@click.option("--mu", type=real, metavar="X", help="Friction of the ground; inf means that nothing slips.")
@click.option("--duration", "duration_s", type=real, metavar="S", help="Length of the run [s].")
@click.option("--rate", "rate_hz", type=real, metavar="HZ", help="Rate of the control loop [Hz].")
@click.option("--seed", type=int, metavar="N", help="Seed of everything that is random.")
@click.option(
    "--preset",
    metavar="NAME",
    help="Settings to begin with: default, paper (the method as it was published), or another of the experiment.",
)
@click.option(
    "--set", "settings", multiple=True, metavar="KEY=VALUE", help="Any other setting, by dotted key or its last part."
)
@click.option("--out", type=click.Path(path_type=Path), metavar="DIR", help="Folder of the record; must be empty.")
@click.option("--json", "as_json", is_flag=True, help="Print the metrics as one JSON object.")
@click.option("--view", "watch", is_flag=True, help="Replay it in 3-D in the browser when it has ended.")
@click.option("--quiet", is_flag=True, help="No progress bar.")
def command(
    experiment: str,
    settings: tuple[str, ...],
    out: Path | None,
    as_json: bool,
    watch: bool,
    quiet: bool,
    **options: Any,
) -> int:
    """Run EXPERIMENT, record it, and print what came out."""
    from idcontrol.config.changes import start_of
    from idcontrol.config.configuration import build, jsonable, parse_setting
    from idcontrol.sweeps import running
    from idcontrol.sweeps.record import why_not

    chosen = load_experiment(experiment)
    given = {name: value for name, value in options.items() if value is not None}
    spelling = {name: "--" + name.partition("_")[0] for name in options}
    preset = given.pop("preset", "default")
    start = start_of(chosen, preset)
    for name in given:
        if not hasattr(start, name):
            raise InputError(f"{spelling[name]}: the experiment {experiment} has no such setting; leave it out")
    config = build(start, given | dict(parse_setting(text) for text in settings), spelling)
    folder = running.open_folder(experiment, preset, start, config, out)

    try:
        with progress_bar(experiment, quiet) as progress, contextlib.redirect_stdout(sys.stderr):
            metrics = running.conduct(chosen, config, folder, progress)
    except IdControlError:
        raise
    except (KeyboardInterrupt, Terminated) as stop:
        status = stop.code if isinstance(stop, Terminated) and isinstance(stop.code, int) else INTERRUPTED
        return say(f"stopped; what was recorded until then is in {folder}", status)
    except BaseException as error:  # sys.exit in a user's controller, too: its traceback goes beside the record
        raise RunFault(folder) from error
    if as_json:
        click.echo(json.dumps(jsonable(metrics), allow_nan=False))
    else:
        show_metrics(metrics)
    if watch:
        from idcontrol.cli.view import view

        with contextlib.redirect_stdout(sys.stderr):
            view(folder)
    reason = why_not(metrics)
    return DONE if reason is None else say(f"the task was not done: {reason}", TASK_FAILED)


def show_metrics(metrics: Mapping[str, Any]) -> None:
    """Print a run as a table: known quantities in their units, then all other metrics, beside the paper's numbers."""
    from rich.table import Table
    from rich.text import Text

    from idcontrol.record.quantities import QUANTITIES, words
    from idcontrol.show.report import number
    from idcontrol.sweeps.running import HEADLINE

    paper, checks, units, verdicts = (metrics.get(name) or {} for name in ("paper", "checks", "units", "verdicts"))
    table = Table(box=None, show_header=bool(paper), header_style="dim")
    for heading in ("", "found", "", "", "paper" if paper else ""):
        table.add_column(heading, justify="right" if heading else "left")
    table.add_column("")
    known = {"experiment", "out", "steps", "missed", *HEADLINE}
    for quantity in QUANTITIES:
        known.add(quantity.key.partition(".")[0])
        value = quantity.of(metrics)
        if value is not None:
            table.add_row(quantity.label, quantity.text(value), Text(quantity.unit, style="dim"))
    for key, value in metrics.items():
        if key in known or isinstance(value, dict | list) or (value is None and key not in units):
            continue
        held = checks.get(key)
        mark = Text("") if held is None else Text("✓", style="green") if held else Text("✗", style="red")
        beside = number(paper[key]) if key in paper else ""
        label, unit = words(key, units.get(key))
        table.add_row(label, number(value), Text(unit, style="dim"), mark, beside, Text(verdicts.get(key, "")))

    screen = console()
    title = ", ".join(_said(key, metrics[key]) for key in ("experiment", *HEADLINE) if metrics.get(key) is not None)
    screen.print(Text(title, style="bold"))
    screen.print(table)
    if any(held is not None for held in checks.values()):
        screen.print(Text("✓: a bound that is stated for the figure holds; ✗: it does not", style="dim"))
    for key, note in (metrics.get("notes") or {}).items():
        screen.print(Text(f"{words(key)[0]}: {note}", style="dim"), soft_wrap=True)
    out = metrics["out"]
    screen.print(Text(f"recorded in {out}; plots: idcontrol report {shlex.quote(out)}"), soft_wrap=True)


def _said(key: str, value: Any) -> str:
    """A setting in the heading of a run: its label, value and unit."""
    from idcontrol.record.quantities import words

    label, unit = words(key)
    return f"{label} {value:g} {unit}".rstrip() if isinstance(value, float) else f"{label} {value}"
