"""``idcontrol loop``: run a controller on the wall clock against a machine in another process."""

from __future__ import annotations

import importlib.util
import json
import shutil
import sys
from importlib.resources import files
from pathlib import Path
from typing import Any

import click

from idcontrol.cli import completion
from idcontrol.cli.console import DONE, TASK_FAILED, UNUSABLE, console, real, say
from idcontrol.cli.faults import RunFault
from idcontrol.cli.run import show_metrics
from idcontrol.config.entries import entry_points
from idcontrol.errors import IdControlError, InputError, UnknownName, install_command

LOOPS = "idcontrol.loops"
CONNECTION = ("transport", "pacing", "bind", "peer", "arm")
"""Options that set the loop; the others set its experiment."""


@click.command("loop", short_help="Run a controller at a fixed rate on the wall clock.")
@click.option(
    "--robot",
    shell_complete=completion.robots,
    metavar="R",
    help="Robot, or the path of a robot file or of a URDF beside one.",
)
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
    help="What stands in for the hardware: a name, or file.py:Class.",
)
@click.option("--mu", type=real, metavar="X", help="Friction of the ground; inf means that nothing slips.")
@click.option("--rate", "rate_hz", type=real, metavar="HZ", help="Rate of the control loop [Hz].")
@click.option("--duration", "duration_s", type=real, metavar="S", help="How long to run [s].")
@click.option("--experiment", default="trot", metavar="E", help="What to do.")
@click.option("--transport", metavar="T", help="To the machine: shared (memory), udp or inprocess.")
@click.option("--pacing", metavar="P", help="real; in process: simulated (not faster than real) or fast.")
@click.option("--bind", metavar="HOST:PORT", help="Where to listen for UDP; a port of loopback by default.")
@click.option("--peer", metavar="HOST:PORT", help="The machine, over UDP, instead of a plant of our own.")
@click.option("--arm", is_flag=True, default=None, help="Arm the machine at --peer as soon as it is ready, unasked.")
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="KEY=VALUE",
    help="Any other setting; those of the loop itself as loop.KEY.",
)
@click.option("--view", is_flag=True, help="Serve a page that shows it in 3-D while it runs.")
@click.option("--port", type=int, metavar="N", help="Port of that page on 127.0.0.1.")
@click.option("--out", type=click.Path(path_type=Path), metavar="DIR", help="Folder of the record; must be empty.")
@click.option("--header", is_flag=True, help="Only print the datagrams as a header for C and C++.")
@click.option("--json", "as_json", is_flag=True, help="Print the metrics as one JSON object.")
def command(
    experiment: str,
    settings: tuple[str, ...],
    view: bool,
    port: int | None,
    out: Path | None,
    as_json: bool,
    header: bool,
    **options: Any,
) -> int:
    """Run a controller at a fixed rate on the wall clock, record it, and print what came out."""
    if header:
        click.echo(files("idcontrol.loop").joinpath("idcontrol_wire.h").read_text(encoding="utf-8"), nl=False)
        return DONE
    from idcontrol.loop.realtime import one_blas_thread

    one_blas_thread()
    from idcontrol.config.configuration import build, jsonable, parse_setting
    from idcontrol.kernels.compiling import announced
    from idcontrol.loop.launch import LoopSettings, Viewer, run
    from idcontrol.loop.stop import Interrupted
    from idcontrol.sweeps.record import why_not
    from idcontrol.sweeps.running import open_folder, what

    viewer = Viewer("idcontrol.cli.live", port) if view or port is not None else None
    if viewer is not None and importlib.util.find_spec("viser") is None:
        raise InputError(f"--view needs the package viser: {install_command('viz')}")
    entries = entry_points(LOOPS)
    if experiment not in entries:
        raise UnknownName("loop", experiment, entries)
    offer = entries[experiment].load()
    parsed = dict(parse_setting(text) for text in settings)
    own = {key.removeprefix("loop."): parsed.pop(key) for key in list(parsed) if key.startswith("loop.")}
    given = {name: value for name, value in options.items() if value is not None}
    own |= {name: given.pop(name) for name in CONNECTION if name in given}
    if own.get("peer") is not None:
        own.setdefault("transport", "udp")
    how = build(LoopSettings(), own, {name: f"--{name}" for name in CONNECTION})
    spelling = {name: "--" + name.partition("_")[0] for name in options}
    for name in given:
        if name not in offer.presets["default"].__struct_fields__:
            raise InputError(f"{spelling[name]}: the loop {experiment} has no such setting; leave it out")
    config = build(offer.presets["default"], given | parsed, spelling)
    out = open_folder(f"loop-{experiment}", "default", offer.presets["default"], config, out)
    if sys.stderr.isatty():
        click.echo(f"preparing, then working for {config.duration_s:g} s; Ctrl-C ends it, twice at once", err=True)
    try:
        with announced(what(f"the loop {experiment}", config)):
            metrics = run(entries[experiment].value, config, how, out, viewer)
    except (IdControlError, Interrupted) as error:
        shutil.rmtree(out, ignore_errors=True)  # nothing has moved: what the recorder has opened only confuses
        if isinstance(error, Interrupted):
            return say("stopped by a signal before anything moved", 128 + error.number)
        raise
    except (Exception, SystemExit, GeneratorExit) as error:  # its traceback goes beside the record
        raise RunFault(out) from error
    used = {name: getattr(config, name) for name in ("controller", "plant", "robot", "terrain", "mu", "seed", *options)
            if hasattr(config, name)}  # fmt: skip
    metrics = {"experiment": experiment, **used, **metrics, "out": str(out)}
    if as_json:
        click.echo(json.dumps(jsonable(metrics), allow_nan=False))
    else:
        show_metrics({key: value for key, value in metrics.items() if key != "error"})  # too long for a table
        _show_timing(metrics)
    if metrics["signal"] is not None:
        return say(f"stopped by a signal; the record is complete: {out}", 128 + metrics["signal"])
    if metrics["completed"]:
        return DONE
    raised = {"raised", "hung"} & set((metrics["fault"] or "").split(", "))
    beside = f"; the traceback is in {out / 'traceback.txt'}" if raised else ""
    return say(f"{metrics['error'] or why_not(metrics)}{beside}", UNUSABLE if raised else TASK_FAILED)


def _show_timing(metrics: dict[str, Any]) -> None:
    """Print percentiles of the measured times, and what the operating system granted."""
    from rich.table import Table

    table = Table(box=None, header_style="dim")
    for heading in ("µs", "50 %", "99 %", "99.9 %", "99.99 %", "longest"):
        table.add_column(heading, justify="left" if heading == "µs" else "right")
    rows = {
        "period": "period_us",
        "start after its time": "late_us",
        "computing": "compute_us",
        "  of it on the CPU": "compute_cpu_us",
        "  listening": "read",
        "  estimator": "estimate",
        "  planner": "plan",
        "  controller": "control",
        "  gate and sending": "gate",
        "  keeping the row before": "record",
    }
    for label, key in rows.items():
        values = metrics.get(key) or metrics["parts_us"].get(key) or {}
        if values.get("max") is not None:
            table.add_row(label, *(_shown(values.get(name)) for name in ("p50", "p99", "p999", "p9999", "max")))
    granted = metrics["realtime"]
    screen = console()
    screen.print(table)
    _show_worst(metrics["worst_ticks"])
    stolen = metrics["steal_s"]
    screen.print(
        f"{metrics['missed']} beats were missed; the system took the CPU away {metrics['switches']} times"
        + ("" if stolen is None else f", and a hypervisor {stolen:.2f} s")
    )
    had = [granted["scheduler"], "memory locked" if granted["memory_locked"] else "memory not locked"]
    had.append("CPUs kept awake" if granted["cpu_awake"] else "CPUs may sleep")
    had.append("bound to no CPU" if granted["cpu"] is None else f"bound to CPU {granted['cpu']}")
    screen.print(", ".join(had))
    for what, why in granted["refused"].items():
        screen.print(f"{what}: {why}", soft_wrap=True)


def _show_worst(ticks: list[dict[str, Any]]) -> None:
    """Print the ticks that took longest, and what happened in them."""
    from rich.table import Table

    parts = {"estimator": "estimate_us", "planner": "plan_us", "controller": "control_us", "gate": "gate_us"}
    table = Table(box=None, header_style="dim")
    for heading in ("longest ticks, at s", "computing µs", "on the CPU", *parts, "taken away", "controller, faults"):
        table.add_column(heading, justify="right")
    for tick in ticks:
        times = (_shown(tick[name]) for name in ("compute_us", "cpu_us", *parts.values(), "switches"))
        table.add_row(f"{tick['t']:.3f}", *times, ", ".join(filter(None, (tick["status"], *tick["faults"]))))
    console().print(table)


def _shown(value: float | None) -> str:
    return "" if value is None or value != value else f"{value:.0f}"
