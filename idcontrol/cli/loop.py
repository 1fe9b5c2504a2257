"""``idcontrol loop``: run a controller at a fixed rate against a simulated or real machine."""

from __future__ import annotations

import importlib.util
import shutil
import sys
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from idcontrol.cli import options
from idcontrol.cli.console import DONE, TASK_FAILED, UNUSABLE, Grid, print_json, say
from idcontrol.cli.faults import RunFault, Stopped
from idcontrol.cli.run import show_metrics
from idcontrol.config.entries import entry_points
from idcontrol.errors import IdControlError, InputError, Terminated, UnknownName, install_command

if TYPE_CHECKING:
    from idcontrol.loop.launch import Viewer

LOOPS = "idcontrol.loops"
CONNECTION = ("transport", "pacing", "bind", "peer", "arm", "planner", "estimator")
"""Options that set the loop itself; the others set its experiment."""


@click.command("loop", short_help="Run a controller at a fixed rate on the wall clock.")
@options.with_options(options.ROBOT, options.CONTROLLER, options.PLANT, options.MU, options.RATE, options.DURATION)
@click.option("--experiment", default="trot", metavar="E", help="Experiment that the loop runs.")
@click.option("--planner", metavar="P", help="Your planner: file.py:Class, instead of the experiment's.")
@click.option("--estimator", metavar="E", help="Your estimator of the state: file.py:Class.")
@click.option("--power", type=options.real, metavar="X", help="Factor for all torque limits, 0.1 to 1.")
@click.option("--transport", metavar="T", help="Connection to the machine: shared (memory), udp or inprocess.")
@click.option(
    "--pacing", metavar="P", help="Clock: real; with inprocess: fast, or simulated (slowed down to the wall clock)."
)
@click.option("--bind", metavar="HOST:PORT", help="Address to listen on for UDP; by default a loopback port.")
@click.option(
    "--peer", metavar="HOST:PORT|FILE", help="Machine (UDP address or shared-memory file) in place of a simulated one."
)
@click.option("--arm", is_flag=True, default=None, help="Arm the machine at --peer once it is ready, without asking.")
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="KEY=VALUE",
    help="Any other setting; KEY is loop.NAME for settings of the loop.",
)
@click.option("--view", is_flag=True, help="Serve a page with the running loop in 3-D.")
@click.option("--port", type=int, metavar="N", help="Port of the page on 127.0.0.1.")
@options.OUT
@click.option("--header", is_flag=True, help="Only print the header of the datagrams for C and C++.")
@options.JSON
def command(
    experiment: str,
    settings: tuple[str, ...],
    view: bool,
    port: int | None,
    out: Path | None,
    as_json: bool,
    header: bool,
    **request: Any,
) -> int:
    """Run a controller at a fixed rate, by default on the wall clock; record the run and print its metrics."""
    if header:
        click.echo(files("idcontrol.loop").joinpath("idcontrol_wire.h").read_text(encoding="utf-8"), nl=False)
        return DONE
    from idcontrol.loop.realtime import one_blas_thread

    one_blas_thread()
    from idcontrol.loop.launch import Viewer

    viewer = Viewer("idcontrol.cli.live", port) if view or port is not None else None
    if viewer is not None and importlib.util.find_spec("viser") is None:
        raise InputError(f"--view needs the package viser: {install_command('viz')}")
    metrics = drive(experiment, request, settings, out, viewer)
    if as_json:
        print_json(metrics)
    else:
        show_metrics({key: value for key, value in metrics.items() if key != "error"}, *_timing(metrics))
    if metrics["signal"] is not None:
        return say(f"stopped by a signal; the record is complete: {metrics['out']}", 128 + metrics["signal"])
    if metrics["completed"]:
        return DONE
    from idcontrol.sweeps.record import why_not

    raised = {"raised", "hung"} & set((metrics["fault"] or "").split(", "))
    beside = f"; the traceback is in {Path(metrics['out']) / 'traceback.txt'}" if raised else ""
    return say(f"{metrics['error'] or why_not(metrics)}{beside}", UNUSABLE if raised else TASK_FAILED)


def drive(
    experiment: str, request: Mapping[str, Any], settings: tuple[str, ...], out: Path | None, viewer: Viewer | None
) -> dict[str, Any]:
    """Run the loop of an experiment; return its metrics.

    Args:
        experiment: Name of the experiment.
        request: Value of each option, by the key of its setting; None for an unused option.
        settings: Further settings, ``KEY=VALUE``.
        out: Folder of the record; None for a new folder.
        viewer: Page that shows the running loop; None for no page.

    Raises:
        UnknownName: The experiment or a setting does not exist.
        InputError: The value of an option or a setting is unusable.
        Stopped: A signal ended the loop before anything moved.
        RunFault: An error that the input did not cause.
    """
    from idcontrol.config.configuration import build, keys, parse_setting
    from idcontrol.kernels.compiling import announced
    from idcontrol.loop.launch import LoopSettings, run
    from idcontrol.loop.stop import Interrupted
    from idcontrol.sweeps.running import open_folder, what

    entries = entry_points(LOOPS)
    if experiment not in entries:
        raise UnknownName("loop", experiment, entries)
    parsed = dict(map(parse_setting, settings))
    own = {key.removeprefix("loop."): parsed.pop(key) for key in list(parsed) if key.startswith("loop.")}
    own |= {name: request[name] for name in CONNECTION if request[name] is not None}
    if own.get("peer") is not None:
        own.setdefault("transport", "shared" if "/" in str(own["peer"]) else "udp")
    spelling = {key: f"loop.{key}" for key in keys(LoopSettings())} | {name: f"--{name}" for name in CONNECTION}
    how = build(LoopSettings(), own, spelling)
    start = entries[experiment].load().presets["default"]
    of_run = {name: value for name, value in request.items() if name not in CONNECTION}
    config = options.configure(start, f"the loop {experiment}", of_run, parsed)
    out = open_folder(f"loop-{experiment}", "default", start, config, out)
    if sys.stderr.isatty():
        click.echo(f"preparing a run of {config.duration_s:g} s; Ctrl-C ends it, a second Ctrl-C at once", err=True)
    try:
        with announced(what(f"the loop {experiment}", config)):
            metrics = run(entries[experiment].value, config, how, out, viewer)
    except (IdControlError, Interrupted) as error:
        shutil.rmtree(out, ignore_errors=True)  # nothing has moved: remove the recorder's empty files
        if isinstance(error, Interrupted):
            raise Stopped("stopped by a signal before anything moved", 128 + error.number) from None
        raise
    except Terminated:  # raised while `run` does not handle signals itself
        raise
    except (Exception, SystemExit, GeneratorExit) as error:  # the traceback goes next to the record
        raise RunFault(out) from error
    used = {name: getattr(config, name) for name in ("controller", "plant", "robot", "terrain", "mu", "seed", *of_run)
            if hasattr(config, name)}  # fmt: skip
    return {"experiment": experiment, **used, **metrics, "out": str(out)}


TIMES = {
    "period": "period_us",
    "delay of the start": "late_us",
    "computing": "compute_us",
    "  CPU time": "compute_cpu_us",
    "  listening": "read",
    "  estimator": "estimate",
    "  planner": "plan",
    "  controller": "control",
    "  gate and sending": "gate",
    "  recording the last row": "record",
}
"""Keys of times in the metrics, or in their entry `parts_us`, by label in the table."""
PARTS = {"estimator": "estimate_us", "planner": "plan_us", "controller": "control_us", "gate": "gate_us"}
"""Keys of the times of a slow tick, by heading in the table."""


def _timing(metrics: dict[str, Any]) -> list[Grid | str]:
    """Return tables of time percentiles and slowest ticks, and lines on missed ticks and privileges of the process."""
    times = Grid("µs", "50 %", "99 %", "99.9 %", "99.99 %", "longest", words=("µs",))
    for label, key in TIMES.items():
        values = metrics.get(key) or metrics["parts_us"].get(key) or {}
        if values.get("max") is not None:
            times.add(label, *(_shown(values.get(name)) for name in ("p50", "p99", "p999", "p9999", "max")))
    headings = ("longest ticks, at s", "computing µs", "on the CPU", *PARTS, "preempted", "controller, faults")
    worst = Grid(*headings, words=headings[-1:], spare=tuple(PARTS))
    for tick in metrics["worst_ticks"]:
        shown = (_shown(tick[name]) for name in ("compute_us", "cpu_us", *PARTS.values(), "switches"))
        worst.add(f"{tick['t']:.3f}", *shown, ", ".join(filter(None, (tick["status"], *tick["faults"]))))
    granted, stolen = metrics["realtime"], metrics["steal_s"]
    had = (
        granted["scheduler"],
        "memory locked" if granted["memory_locked"] else "memory not locked",
        "CPUs kept awake" if granted["cpu_awake"] else "CPUs may sleep",
        "bound to no CPU" if granted["cpu"] is None else f"bound to CPU {granted['cpu']}",
    )
    simulated = metrics["compute_us"]["max"] == 0.0
    return [
        times,
        *(["the clock is simulated: computing takes no simulated time; its parts are in real time"] * simulated),
        worst,
        f"{metrics['missed']} ticks were missed; the loop was preempted {metrics['switches']} times"
        + ("" if stolen is None else f", and lost {stolen:.2f} s to a hypervisor"),
        ", ".join(had),
        *(f"{what}: {why}" for what, why in granted["refused"].items()),
    ]


def _shown(value: float | None) -> str:
    return "" if value is None or value != value else f"{value:.0f}"
