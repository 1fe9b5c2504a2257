"""The command ``idcontrol``.

Exit status: 0 done; 1 the run finished but its task failed; 2 unusable arguments or input, with one line on stderr; 3 a
fault inside, with one line that says where the traceback is. ``--json`` prints one JSON object on stdout and nothing
else; progress goes to stderr, and only to a terminal.

Experiments and robots are found by entry points (groups ``idcontrol.experiments`` and ``idcontrol.robots``), so that
other packages can add theirs. Heavy imports are inside the commands: ``idcontrol --help`` answers at once.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import json
import math
import re
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import click

from idcontrol.errors import IdControlError, InputError, UnknownName

if TYPE_CHECKING:
    import msgspec
    from rich.console import Console

EXPERIMENTS = "idcontrol.experiments"
ROBOTS = "idcontrol.robots"
DONE, TASK_FAILED, UNUSABLE, FAULT = 0, 1, 2, 3
INTERRUPTED = 130
"""What shells expect of a command that Ctrl-C ended: 128 + SIGINT."""


class Experiment(Protocol):
    """What an entry point of the group ``idcontrol.experiments`` gives.

    Attributes:
        name: Its name.
        summary: One line.
        presets: Configurations to begin with, by name; one is called ``"default"``. Options such as ``--mu`` set the
            fields `controller, plant, robot, terrain, mu, duration_s, rate_hz, seed` where they exist.
    """

    name: str
    summary: str
    presets: Mapping[str, msgspec.Struct]

    def run(self, config: Any, out: Path, progress: Callable[[float], None]) -> dict[str, Any]:
        """Run it.

        Args:
            config: One of `presets`, some values changed.
            out: An empty folder for the record.
            progress: To be called with the share that is done, 0 to 1.

        Returns:
            The metrics; ``completed`` says whether the task succeeded.
        """
        ...

    def warmup(self, out: Path) -> None:
        """Compile every kernel that a run may need, by short runs; whatever they record goes below `out`."""
        ...


class RobotLibrary(Protocol):
    """What an entry point of the group ``idcontrol.robots`` gives."""

    def names(self) -> Sequence[str]:
        """Names of its robots."""
        ...

    def check(self, name_or_path: str) -> Any:
        """A report with `robot`, `problems`, `warnings` (lines) and `summary` (plain data)."""
        ...


class _Fault(Exception):
    """A fault inside a run; its cause is the error, `folder` is the run's."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit status.

    Args:
        arguments: Instead of those of the process.
    """
    try:
        status = cli.main(args=arguments, prog_name="idcontrol", standalone_mode=False)
        return status if isinstance(status, int) else DONE
    except click.Abort:
        return _say("stopped by Ctrl-C", INTERRUPTED)
    except click.UsageError as error:
        command = error.ctx.command_path if error.ctx else "idcontrol"
        return _say(f"{error.format_message()} (see {command} --help)", UNUSABLE)
    except click.ClickException as error:
        return _say(error.format_message(), UNUSABLE)
    except IdControlError as error:
        return _say(str(error), UNUSABLE)
    except _Fault as fault:
        return _report_fault(fault.__cause__ or fault, fault.folder)
    except Exception as error:
        return _report_fault(error, None)


@click.group(invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="idcontrol", message="%(version)s")
@click.pass_context
def cli(context: click.Context) -> None:
    """Motor torques for robots in contact: run experiments, look at what they recorded, check robots."""
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


@cli.command("run")
@click.argument("experiment")
@click.option("--controller", metavar="C", help="Controller; see `idcontrol list controllers`.")
@click.option("--plant", metavar="P", help="Plant; see `idcontrol list plants`.")
@click.option("--robot", metavar="R", help="Robot, or the path of a robot file or of a URDF beside one.")
@click.option("--terrain", metavar="T", help="Ground; see `idcontrol list terrains`.")
@click.option("--mu", type=float, metavar="X", help="Friction of the ground; inf means that nothing slips.")
@click.option("--duration", "duration_s", type=float, metavar="S", help="Length of the run [s].")
@click.option("--rate", "rate_hz", type=float, metavar="HZ", help="Rate of the control loop [Hz].")
@click.option("--seed", type=int, metavar="N", help="Seed of everything that is random.")
@click.option("--preset", metavar="NAME", help="default: what is right; paper: the original with its quirks.")
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="Any other setting, by dotted key.")
@click.option("--out", type=click.Path(path_type=Path), metavar="DIR", help="Folder of the record; must be empty.")
@click.option("--json", "as_json", is_flag=True, help="Print the metrics as one JSON object.")
@click.option("--quiet", is_flag=True, help="No progress bar.")
def run_command(
    experiment: str, settings: tuple[str, ...], out: Path | None, as_json: bool, quiet: bool, **options: Any
) -> int:
    """Run EXPERIMENT, record it, and print what came out."""
    from idcontrol.configuration import build, parse_setting
    from idcontrol.recording import claim, fresh_folder, jsonable

    chosen = _experiment(experiment)
    given = {name: value for name, value in options.items() if value is not None}
    spelling = {name: "--" + name.partition("_")[0] for name in options}
    preset = given.pop("preset", "default")
    if preset not in chosen.presets:
        raise UnknownName("preset", preset, chosen.presets)
    start = chosen.presets[preset]
    for name in given:
        if name not in start.__struct_fields__:
            raise InputError(f"{spelling[name]}: the experiment {experiment} has no such setting; leave it out")
    config = build(start, given | dict(parse_setting(text) for text in settings), spelling)
    for name in ("duration_s", "rate_hz"):
        if math.isinf(getattr(config, name, 0.0)):
            raise InputError(f"{spelling[name]}: must be finite")
    if out is None:
        out = fresh_folder("runs", _stem(experiment, config))
    else:
        claim(out)

    try:
        with _progress(experiment, quiet) as progress, contextlib.redirect_stdout(sys.stderr):
            metrics = chosen.run(config, out, progress)
    except IdControlError:
        with contextlib.suppress(OSError):
            out.rmdir()  # a folder that nothing was recorded into only confuses
        raise
    except (KeyboardInterrupt, SystemExit) as stop:
        signalled = stop.code if isinstance(stop, SystemExit) and isinstance(stop.code, int) else INTERRUPTED
        return _say(f"stopped; what was recorded until then is in {out}", signalled)
    except Exception as error:
        raise _Fault(out) from error
    used = {name: getattr(config, name) for name in options if name in start.__struct_fields__}
    metrics = {"experiment": experiment, **used, **metrics, "out": str(out)}
    if as_json:
        click.echo(json.dumps(jsonable(metrics), allow_nan=False))
    else:
        _print_metrics(metrics)
    return DONE if metrics.get("completed", True) else TASK_FAILED


@cli.command("list")
@click.argument("kind", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def list_command(kind: str | None, as_json: bool) -> None:
    """List controllers, plants, robots, terrains, experiments, or all of them, with what each is."""
    kinds = {
        "controllers": _controllers,
        "plants": _plants,
        "robots": _robots,
        "terrains": _terrains,
        "experiments": _experiments,
    }
    if kind is not None and kind not in kinds:
        raise UnknownName("list", kind, kinds)
    found = {name: dict(sorted(give().items())) for name, give in kinds.items() if kind in (None, name)}
    if as_json:
        click.echo(json.dumps(found))
        return
    from rich.table import Table
    from rich.text import Text

    console = _console()
    for name, entries in found.items():
        table = Table(title=name, title_justify="left", title_style="bold", box=None, show_header=False)
        for entry, line in entries.items():
            table.add_row(Text(entry, style="cyan", no_wrap=True), Text(line))
        console.print(table)


@cli.command("check")
@click.argument("robot")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def check_command(robot: str, as_json: bool) -> int:
    """Say what is wrong with ROBOT, a name or the path of a robot file or URDF, or that it is fit to run."""
    from idcontrol.recording import jsonable

    libraries = [entry.load() for entry in _entry_points(ROBOTS).values()]
    if not libraries:
        raise InputError("no robot library is installed; install idcontrol with its robots")
    report = next((library for library in libraries if robot in library.names()), libraries[0]).check(robot)
    if as_json:
        fields = {name: getattr(report, name) for name in ("robot", "problems", "warnings", "summary")}
        click.echo(json.dumps(jsonable({"fit": not report.problems, **fields}), allow_nan=False))
    else:
        _print_report(report)
    if not report.problems:
        return DONE
    others = len(report.problems) - 1
    more = f" (and {others} more, listed on standard output)" if others else ""
    return _say(f"{report.robot} is not fit to run: {report.problems[0]}{more}", UNUSABLE)


@cli.command("report")
@click.argument("folder", type=click.Path(path_type=Path), metavar="DIR")
def report_command(folder: Path) -> None:
    """Write an HTML page of plots and tables of the run in DIR and print its path."""
    from idcontrol.report import report

    click.echo(report(folder))


@cli.command("warmup")
@click.option("--quiet", is_flag=True, help="Print nothing.")
def warmup_command(quiet: bool) -> None:
    """Compile and cache the kernels, so that the next command starts at once."""
    with tempfile.TemporaryDirectory() as folder:
        for name in _entry_points(EXPERIMENTS):
            _experiment(name).warmup(Path(folder) / name)
    if not quiet:
        click.echo("kernels are compiled and cached")


def _entry_points(group: str) -> Mapping[str, Any]:
    """What is installed under an entry point group, by name; each has `load()`."""
    return {entry.name: entry for entry in importlib.metadata.entry_points(group=group)}


def _experiment(name: str) -> Experiment:
    entries = _entry_points(EXPERIMENTS)
    if name not in entries:
        raise UnknownName("experiment", name, entries)
    try:
        experiment: Experiment = entries[name].load()
    except ModuleNotFoundError as error:
        raise InputError(f"the experiment {name} needs the package {error.name}, which is not installed") from error
    return experiment


def _experiments() -> dict[str, str]:
    found = {}
    for name, entry in _entry_points(EXPERIMENTS).items():
        try:
            found[name] = str(entry.load().summary)
        except Exception as error:  # one broken package must not hide the experiments of the others
            found[name] = f"cannot be loaded: {_one_line(error)}"
    return found


def _robots() -> dict[str, str]:
    found = {}
    for entry in _entry_points(ROBOTS).values():
        library: RobotLibrary = entry.load()
        for name in library.names():
            report = library.check(name)
            found[name] = f"not fit to run: {report.problems[0]}" if report.problems else _in_short(report.summary)
    return found


def _in_short(summary: Mapping[str, Any]) -> str:
    """The line of a robot in a list: what its check found."""
    parts = [f"{summary['mass_kg']:.3g} kg"] if "mass_kg" in summary else []
    parts += [f"{len(summary[name])} {name}" for name in ("joints", "feet") if summary.get(name)]
    parts += [f"base {summary['height_m']:.3g} m high"] if summary.get("height_m") else []
    return ", ".join(parts)


def _controllers() -> Mapping[str, str]:
    from idcontrol import controllers

    return controllers.available()


def _plants() -> Mapping[str, str]:
    from idcontrol import plants

    return plants.available()


def _terrains() -> Mapping[str, str]:
    from idcontrol.contact import terrain

    return terrain.available()


def _stem(experiment: str, config: Any) -> str:
    """Name of a run's folder: the experiment and what is most often varied."""
    parts = [experiment]
    for field in ("controller", "robot"):
        value = str(getattr(config, field, ""))
        path = Path(value)
        parts.append(path.parent.name or path.stem if path.suffix else path.name)
    return re.sub(r"[^A-Za-z0-9_.-]+", "_", "-".join(part for part in parts if part))


@contextlib.contextmanager
def _progress(title: str, quiet: bool) -> Iterator[Callable[[float], None]]:
    """A progress bar on stderr if that is a terminal; yields what to call with the share that is done."""
    if quiet or not sys.stderr.isatty():
        yield lambda share: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(title, total=1.0)
        yield lambda share: bar.update(task, completed=share)


def _print_metrics(metrics: Mapping[str, Any]) -> None:
    """A table of a run: the known quantities in their units, then whatever else the experiment gave."""
    from rich.table import Table
    from rich.text import Text

    from idcontrol.metrics import QUANTITIES

    shown = [quantity for quantity in QUANTITIES if quantity.of(metrics) is not None]
    rows = [(quantity.label, quantity.text(quantity.of(metrics)), quantity.unit) for quantity in shown]
    known = {quantity.key.partition(".")[0] for quantity in QUANTITIES}
    other = {key: value for key, value in metrics.items() if key not in known and not isinstance(value, dict | list)}
    settings = (
        "experiment",
        "controller",
        "plant",
        "robot",
        "terrain",
        "mu",
        "seed",
        "duration_s",
        "rate_hz",
        "preset",
    )
    title = ", ".join(f"{key} {metrics[key]}" for key in settings if metrics.get(key) is not None)
    table = Table(box=None, show_header=False)
    table.add_column()
    table.add_column(justify="right")
    table.add_column(style="dim")
    for label, value, unit in rows:
        table.add_row(label, value, unit)
    for key, value in other.items():
        if key not in (*settings, "steps", "out") and value is not None:
            table.add_row(key, f"{value:.4g}" if isinstance(value, float) else str(value), "")
    console = _console()
    console.print(Text(title, style="bold"))
    console.print(table)
    console.print(Text(f"recorded in {metrics['out']}; plots: idcontrol report {metrics['out']}"), soft_wrap=True)


def _print_report(report: Any) -> None:
    """A check for people: single facts line by line, tables as tables, then warnings and problems."""
    from rich.table import Table
    from rich.text import Text

    console = _console()
    if not report.problems:
        console.print(Text(f"{report.robot} is fit to run", style="bold green"))
    facts = Table(box=None, show_header=False)
    for key, value in report.summary.items():
        if not _is_table(value):
            facts.add_row(Text(key, style="cyan"), Text(_cell(value)))
    if facts.row_count:
        console.print(facts)
    for key, value in report.summary.items():
        if _is_table(value):
            table = Table(*value[0], title=key, title_justify="left", title_style="bold", box=None)
            for row in value:
                table.add_row(*(Text(_cell(item)) for item in row.values()))
            console.print(table)
    for line in report.warnings:
        console.print(Text(f"warning: {line}", style="yellow"), soft_wrap=True)
    if len(report.problems) > 1:
        for line in report.problems:
            console.print(Text(f"problem: {line}", style="red"), soft_wrap=True)


def _is_table(value: Any) -> bool:
    return isinstance(value, list | tuple) and bool(value) and all(isinstance(row, Mapping) for row in value)


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, Iterable) and not isinstance(value, str | Mapping):
        return ", ".join(_cell(item) for item in value)
    return str(value)


def _console() -> Console:
    """For tables on stdout; wide where nobody looks, so that lines stay whole in files and pipes."""
    from rich.console import Console

    return Console(highlight=False, width=None if sys.stdout.isatty() else 200)


def _say(line: str, status: int) -> int:
    """Print one line on stderr; returns `status`."""
    click.echo(f"idcontrol: {_one_line(line)}", err=True)
    return status


def _one_line(text: object) -> str:
    return " ".join(str(text).split()) or type(text).__name__


def _report_fault(error: BaseException, folder: Path | None) -> int:
    """Write the traceback, into the run's folder if there is one, and say where it is."""
    text = "".join(traceback.format_exception(error))
    path = None
    if folder is not None:
        with contextlib.suppress(OSError):
            path = folder / "traceback.txt"
            path.write_text(text, encoding="utf-8")
    if path is None or not path.exists():
        with tempfile.NamedTemporaryFile(
            "w", prefix="idcontrol-", suffix=".txt", delete=False, encoding="utf-8"
        ) as file:
            file.write(text)
        path = Path(file.name)
    return _say(f"a fault inside: {type(error).__name__}: {_one_line(error)}; the traceback is in {path}", FAULT)
