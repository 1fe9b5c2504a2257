"""``idcontrol compare``: many runs of an experiment side by side."""

from __future__ import annotations

import functools
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from idcontrol.cli import completion, options
from idcontrol.cli.console import DONE, INTERRUPTED, TASK_FAILED, Grid, cell, one_line, print_json, say, show
from idcontrol.config.configuration import number as parsed_number
from idcontrol.config.configuration import parse_setting
from idcontrol.config.entries import load_experiment
from idcontrol.errors import InputError, Terminated
from idcontrol.sweeps.progress import progress_bar
from idcontrol.sweeps.study import load_study

if TYPE_CHECKING:
    from idcontrol.sweeps.plan import PlannedRun
    from idcontrol.sweeps.record import RunOutcome
    from idcontrol.sweeps.study import Study, Table

_SHOWN = (
    "q_err_rad", "com_err_rms_m", "dtau_mean_nm_s", "force_err_rel", "wrench_err_rel", "slip_m_s", "slip_mean_m_s",
    "dtau_max_nm_s", "qd_err_rad_s", "com_path_err_m", "step_us.p50", "realtime_factor",
)  # fmt: skip
"""Quantities of the table on the terminal, in this order, as many as fit; the files have all quantities."""
FEW = 4
"""If more settings than this vary, the progress line of a run names only the controller and the settings that the run
sets explicitly."""
PEERS_ON = "coulomb-lcp,sap,mujoco"
"""Plants of a comparison with a peer, unless the user names other plants."""
AXES = {"controller": "controllers", "plant": "plants", "mu": "mu", "seed": "seeds"}
"""Options that vary a setting, by its key."""


@click.command("compare", short_help="Run every combination of settings; one table.")
@click.argument("experiment", shell_complete=completion.experiments)
@click.option(
    "--controllers",
    shell_complete=completion.controllers,
    metavar="A,B|all",
    help="Controllers, or your classes as file.py:Class; by default all names.",
)
@click.option(
    "--plants",
    shell_complete=completion.plants,
    metavar="A,B|all",
    help="Plants, or your classes as file.py:Class; by default the experiment's plant.",
)
@click.option(
    "--peers",
    type=click.Choice(["tsid"]),
    help=f"Also run another package's controller, by default on {PEERS_ON}. TSID_PYTHON names a Python with TSID.",
)
@click.option("--mu", metavar="X,Y", help="Friction coefficients of the ground; inf means no slip.")
@click.option("--seeds", type=click.IntRange(1, 10**5), metavar="N", help="Number of seeds per combination.")
@click.option(
    "--vary", multiple=True, metavar="KEY=V,W", help="Values of any other setting, by dotted key or its last part."
)
@options.with_options(options.SETTINGS, options.PRESET, options.ROBOT, options.DURATION)
@click.option(
    "--study",
    shell_complete=completion.studies,
    metavar="NAME",
    help="A named comparison with its own tables; see `idcontrol list studies`.",
)
@click.option("--jobs", type=click.IntRange(min=1), metavar="N", help="Simultaneous runs; by default one per core.")
@click.option("--scheduler", metavar="ADDRESS", help="Dask scheduler; its workers run the comparison and need DIR.")
@click.option("--out", type=options.FOLDER, metavar="DIR", help="Folder; an unfinished comparison in it is continued.")
@options.with_options(options.JSON, options.QUIET)
def command(
    experiment: str,
    study: str | None,
    jobs: int | None,
    scheduler: str | None,
    out: Path | None,
    as_json: bool,
    quiet: bool,
    **request: Any,
) -> int:
    """Run EXPERIMENT for every combination of settings and print one table.

    A stopped comparison continues if the command is repeated with the same --out; finished runs are kept. The row of a
    failed run contains the reason. Exit status 0: every run completed its task; 1: some did not.
    """
    from idcontrol.record.recording import fresh_folder
    from idcontrol.sweeps import comparison, execute, record

    if jobs is not None and scheduler is not None:
        raise InputError("--jobs is for this computer, --scheduler for a cluster; leave one of them out")
    named = None if study is None else load_study(study, experiment)
    request |= _beside(request.pop("peers"), experiment, request)
    planned = _plan_runs(experiment, named, request)
    out = out or fresh_folder("runs", f"compare-{experiment}" + (f"-{study}" if study else ""))
    again = _command_line(experiment, study, request, out)
    on_a_cluster = None if scheduler is None else functools.partial(execute.on_a_cluster, address=scheduler)
    outcomes: tuple[RunOutcome, ...] = ()
    try:
        while len(outcomes) < len(planned):
            with progress_bar(f"{experiment}: {len(planned)} runs", quiet) as progress:
                outcomes = comparison.conduct(
                    planned,
                    out,
                    on_a_cluster or comparison.on_this_machine(jobs),
                    experiment=experiment,
                    study=study,
                    command=again,
                    notice=lambda line: click.echo(f"idcontrol: {one_line(line)}", err=True),
                    ended=functools.partial(_report_end, record.varied_keys(planned), progress, quiet),
                )
            if named is not None and (further := named.further(outcomes)):
                planned += _plan_runs(experiment, named, request, further)
    except (KeyboardInterrupt, Terminated) as stop:
        status = stop.status if isinstance(stop, Terminated) else INTERRUPTED
        return say(f"stopped; to continue: {shlex.join(again)}", status)
    tables = () if named is None else named.tables(outcomes)
    _write_tables(out, tables)
    if as_json:
        print_json({"rows": record.flat_rows(outcomes), "out": out})
    else:
        _show(outcomes, tables, out)
    return DONE if all(o.done for o in outcomes) else TASK_FAILED


def _report_end(
    varied: Sequence[str], progress: Callable[[float], None], quiet: bool, outcome: RunOutcome, share: float
) -> None:
    """Move the progress bar to `share`; without a terminal, print a line for the finished run.

    No line is printed for a refused run, or if `quiet` is True.
    """
    from idcontrol.sweeps.execute import REFUSED

    progress(share)
    refused = (outcome.reason or "").startswith(REFUSED)  # refused runs are only shown in the table
    if not quiet and not refused and not sys.stderr.isatty():
        shown = [key for key in varied if len(varied) <= FEW or key == "controller" or key in outcome.row.changes]
        took, name = outcome.metric("wall_s"), ", ".join(f"{key} {cell(outcome.setting(key))}" for key in shown)
        how = outcome.reason or "done" + (f" in {took:.1f} s" if took is not None else "")
        click.echo(f"{100.0 * share:3.0f} %  {name}: {how}", err=True)


def _plan_runs(
    experiment: str, study: Study | None, request: Mapping[str, Any], further: Sequence[Mapping[str, Any]] | None = None
) -> list[PlannedRun]:
    """Return the runs to make: every combination of the options' values, or the runs of `study`.

    Args:
        experiment: Name of the experiment.
        study: The study; None for every combination.
        request: Value of each option, by name.
        further: Runs of the study that follow from earlier outcomes; None for the study's first runs.
    """
    from idcontrol.config.changes import start_of
    from idcontrol.sweeps.plan import plan

    chosen = load_experiment(experiment)
    start = start_of(chosen, request["preset"] or "default")
    shared: dict[str, Any] = dict(map(parse_setting, request["settings"]))
    shared |= {name: request[name] for name in ("robot", "duration_s") if request[name] is not None}
    if study is None:
        runs = _combinations(experiment, start, request, {**shared, "preset": request["preset"] or "default"})
    else:
        runs = _study_runs(study.runs if further is None else further, request, shared)
    options_of = AXES | {"duration_s": "duration_s"}
    spelling = {key: f"--{name.removesuffix('_s')}" for key, name in options_of.items() if request[name] is not None}
    return plan(chosen, runs, spelling)


def _beside(peer: str | None, experiment: str, request: Mapping[str, Any]) -> dict[str, str]:
    """Return the options ``controllers`` and ``plants`` of a comparison with a peer; empty if `peer` is None.

    Raises:
        InputError: ``TSID_PYTHON`` is not set, or the experiment has no controller.
    """
    if peer is None:
        return {}
    from idcontrol.adapters.tsid_controller import interpreter
    from idcontrol.config.changes import start_of

    interpreter()
    start = start_of(load_experiment(experiment), request["preset"] or "default")
    ours = request["controllers"] or getattr(start, "controller", None)
    if ours is None:
        raise InputError(f"--peers: the experiment {experiment} has no controller; take sway, squat or lift")
    return {"controllers": f"{ours},{peer}", "plants": request["plants"] or PEERS_ON}


def _lists(request: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Return the controllers, plants and frictions that the options list, by key of the setting.

    Without the option, or with "all" as controllers, the key is missing.
    """
    from idcontrol import controllers, plants

    lists: dict[str, list[Any]] = {}
    if request["controllers"] not in (None, "all"):
        lists["controller"] = _names(request["controllers"], controllers)
    if request["plants"] is not None:
        lists["plant"] = _names(request["plants"], plants)
    if request["mu"] is not None:
        lists["mu"] = _frictions(request["mu"])
    return lists


def _combinations(
    experiment: str, start: Any, request: Mapping[str, Any], shared: dict[str, Any]
) -> list[dict[str, Any]]:
    """Return each run's changes to `start`: the settings in `shared`, and one combination of the varied settings."""
    from idcontrol.sweeps.comparison import all_controllers
    from idcontrol.sweeps.plan import product

    axes: dict[str, Sequence[Any]] = dict(map(_values, request["vary"]))
    lists = _lists(request)
    axes |= all_controllers(start, {*shared, *axes, *lists}) | lists
    if request["seeds"] is not None:
        first = shared.get("seed", getattr(start, "seed", 0))
        axes["seed"] = list(range(first, first + request["seeds"]))
    for key, option in AXES.items():
        if request[option] is not None and not hasattr(start, key):
            raise InputError(f"--{option}: the experiment {experiment} has no such setting; leave it out")
    for key, varied in axes.items():
        if twice := [value for i, value in enumerate(varied) if value in varied[:i]]:
            raise InputError(f"{key}: {cell(twice[0])} appears twice; write each value once (--seeds N repeats runs)")
    return [shared | run for run in product(axes)]


def _study_runs(
    runs: Sequence[Mapping[str, Any]], request: Mapping[str, Any], shared: dict[str, Any]
) -> list[dict[str, Any]]:
    """Return the study's runs that the options select, with the settings in `shared`; with `seeds`, once per seed."""
    if request["vary"]:
        raise InputError("--vary and --study exclude each other; leave one of them out")
    wanted = _lists({**request, "plants": None if request["plants"] == "all" else request["plants"]})
    if request["preset"] is not None:
        wanted["preset"] = [request["preset"]]
        runs = [{"preset": "default"} | dict(run) for run in runs]
    for key, values in wanted.items():
        has = list(dict.fromkeys(run[key] for run in runs if key in run))
        if strange := [str(value) for value in values if has and value not in has and key != "preset"]:
            raise InputError(f"the study has no runs with {key} {strange[0]}, only with {', '.join(map(str, has))}")
    kept = [run | shared for run in map(dict, runs) if all(run.get(key) in wanted[key] for key in wanted)]
    if not kept:
        raise InputError("the study has no such runs; choose other controllers, plants, frictions or presets")
    return [run | {"seed": seed} for run in kept for seed in range(request["seeds"])] if request["seeds"] else kept


def _names(text: str, registry: Any) -> list[str]:
    """Return the comma-separated names; for "all", all names of `registry`, e.g. `idcontrol.controllers`."""
    if text == "all":
        return list(registry.available())
    names = [name.strip() for name in text.split(",")]
    if "" in names or len(set(names)) < len(names):
        raise InputError(f"{text!r}: write each name once, separated by single commas")
    for name in names:
        registry.factory(name)  # detect unknown names before anything runs
    return names


def _frictions(text: str) -> list[float]:
    try:
        return [parsed_number(value) for value in text.split(",")]
    except ValueError as error:
        raise InputError(f"--mu {text}: {error}; write numbers with commas between them, e.g. --mu 0.1,inf") from None


def _values(text: str) -> tuple[str, list[Any]]:
    """Return the key and the values of ``KEY=V,W``."""
    key, equals, values = text.partition("=")
    if not equals or not key.strip() or not values.strip():
        raise InputError(f"--vary {text}: write it as KEY=VALUE,VALUE, e.g. --vary noise.angle_rad=0,1e-3")
    _, together = parse_setting(f"{key}=[{values}]")
    if isinstance(together, list):
        return key.strip(), together
    return key.strip(), [parse_setting(f"{key}={value}")[1] for value in values.split(",")]


def _command_line(experiment: str, study: str | None, request: Mapping[str, Any], out: Path) -> list[str]:
    """Return the command that makes or continues this comparison."""
    words = ["idcontrol", "compare", experiment]
    names = {"settings": "set", "duration_s": "duration"}
    for name, value in {"study": study, **request, "out": out}.items():
        for item in value if isinstance(value, tuple) else () if value is None else (value,):
            words += [f"--{names.get(name, name)}", str(item)]
    return words


def _write_tables(out: Path, tables: Sequence[Table]) -> None:
    """Write the study's tables as CSV, one file each, and as JSON together."""
    from idcontrol.record.recording import write_json
    from idcontrol.sweeps.record import write_csv

    for table in tables:
        write_csv(out / f"{table.name}.csv", table.header, table.rows)
    if tables:
        whole = {t.name: {name: getattr(t, name) for name in ("title", "sentence", "header", "rows")} for t in tables}
        write_json(out / "tables.json", whole)


def _show(outcomes: Sequence[RunOutcome], tables: Sequence[Table], out: Path) -> None:
    """Print the study's tables; without tables, print one table of all runs."""
    from rich.text import Text

    from idcontrol.record.quantities import label, text
    from idcontrol.show.report import number
    from idcontrol.sweeps.record import coinciding, varied_keys

    for table in tables:
        grid = Grid(*table.header, words=table.header, title=table.title)
        for row in table.rows:
            grid.add(*map(number, row))
        show(grid)
        show(table.sentence, style="dim")
    if not tables:
        varied = varied_keys([o.row for o in outcomes])
        keys = [key for key in _SHOWN if any(o.metric(key) is not None for o in outcomes)]
        keys = keys or [key for key, value in (outcomes[0].metrics or {}).items() if isinstance(value, float)][:9]
        settings, heads = [label(key) for key in varied], [label(key) for key in keys]
        grid = Grid(*settings, *heads, "reason", words=(*settings, "reason"), spare=heads[::-1])
        for o in outcomes:
            values = [text(key, o.metric(key)) for key in keys]
            grid.add(*(cell(o.setting(key)) for key in varied), *values, Text(o.reason or "", style="yellow"))
        show(grid)
    done, same = sum(o.done for o in outcomes), coinciding(outcomes)
    show(*([same] if same else []))
    show(f"{done} of {len(outcomes)} runs completed their task", style="bold")
    show(f"recorded in {out}; page: idcontrol report {shlex.quote(str(out))}")
