"""Make, name and list runs of an experiment, for the command line and Python."""

import contextlib
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from idcontrol.config import processes
from idcontrol.config.changes import changes, folder_name, spelled, start_of
from idcontrol.config.configuration import build, flat, jsonable
from idcontrol.config.entries import EXPERIMENTS, PLANTS, Experiment, entry_points, load_experiment
from idcontrol.errors import IdControlError, InputError
from idcontrol.kernels.compiling import announced
from idcontrol.record.files import read_json, within
from idcontrol.record.recording import Run, claim, fresh_folder, load, read_metrics
from idcontrol.sweeps.progress import progress_bar
from idcontrol.sweeps.record import why_not

HEADLINE = (
    "controller", "plant", "robot", "terrain", "mu", "mu_plant", "mu_controller", "seed", "duration_s", "rate_hz",
    "preset",
)  # fmt: skip
"""Settings and metrics in the heading of a run, if it has them."""


def run(experiment: str, *, preset: str = "default", out: str | Path | None = None, **settings: Any) -> Run:
    """Run an experiment and read its record.

    Args:
        experiment: Name of the experiment; see ``idcontrol list experiments``.
        preset: Name of the initial configuration.
        out: Folder of the record, which must be empty; None creates a new folder below ``runs``.
        **settings: Changes to the preset, by dotted key or its last part, with or without its unit:
            ``run("trot", mu=0.1, duration=3, **{"friction.cap": 0.5})``.

    Returns:
        The record; ``metrics["completed"]`` is True if the robot succeeded.

    Raises:
        UnknownName: The experiment, preset or setting does not exist.
        InputError: A value is invalid, or the folder is unusable.
    """
    chosen = load_experiment(experiment)
    start = start_of(chosen, preset)
    config = build(start, settings)
    folder = open_folder(chosen.name, preset, start, config, out)
    with progress_bar(chosen.name) as progress:
        conduct(chosen, config, folder, progress)
    return load(folder)


def open_folder(stem: str, preset: str, start: msgspec.Struct, config: msgspec.Struct, out: str | Path | None) -> Path:
    """Return the folder `out`, or a new folder below ``runs`` named after the differences from a preset.

    Args:
        stem: Beginning of its name, e.g. the experiment.
        preset: Name of the preset.
        start: The configuration of the preset.
        config: The configuration of the run.
        out: The requested folder; None creates a folder, e.g. ``runs/trot-mu0.1-pid``.

    Raises:
        InputError: The folder cannot be created, or is not empty.
    """
    if out is not None:
        claim(Path(out))
        return Path(out)
    return fresh_folder("runs", folder_name(stem, preset, start, config))


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """A run in a list.

    Attributes:
        folder: Folder of the run.
        experiment: Name of the experiment.
        began: Start time, local.
        settings: All settings by dotted key.
        changes: Settings that differ from its preset.
        state: Outcome of the run, in words.
        metrics: Metrics of the run; None if unfinished.
    """

    folder: Path
    experiment: str
    began: str
    settings: Mapping[str, Any]
    changes: Mapping[str, Any]
    state: str
    metrics: Mapping[str, Any] | None


def listed(folder: Path) -> list[Listed]:
    """Return the runs below a folder, oldest first; unreadable runs and the machine's sides of loops are skipped."""
    records = []
    for path in sorted(folder.rglob("run.json"), key=lambda path: (path.stat().st_mtime, str(path))):
        run = path.parent
        if (run.parent / "run.json").exists():
            continue  # skip the machine's side of a loop
        try:
            meta = read_json(run, "run.json").get("meta") or {}
            config = read_json(run, "config.json") if within(run, "config.json") else {}
            metrics = read_metrics(run) if within(run, "metrics.json") else None
        except InputError:
            continue
        name, preset = str(meta.get("experiment", "")), str(config.get("preset", "default"))
        records.append(
            Listed(
                folder=run,
                experiment=name,
                began=time.strftime("%Y-%m-%d %H:%M", time.localtime(path.stat().st_mtime)),
                settings=flat(config),
                changes=changes(config, name, preset),
                state=state(metrics),
                metrics=metrics,
            )
        )
    return records


def state(metrics: Mapping[str, Any] | None) -> str:
    """Return the outcome of a run in words, from its metrics; `metrics` is None for an unfinished run."""
    if metrics is None:
        return "not ended"
    if metrics.get("fell_at_s") is not None:
        return f"fell at {metrics['fell_at_s']:.2f} s"
    return "completed" if metrics.get("completed", True) else "not completed"


def what(experiment: str, config: msgspec.Struct) -> str:
    """Return words for an experiment with its controller and plant, if it has them."""
    parts = ((" with ", "controller"), (" on ", "plant"))
    return experiment + "".join(f"{word}{getattr(config, key)}" for word, key in parts if hasattr(config, key))


PLAIN = "pid"
"""A controller with few kernels."""


def _helper(experiment: Experiment, config: Any) -> list[str]:
    """Return the command of a process that compiles plant and planner, while this process compiles the controller.

    The process makes one control period of the same run with the controller `PLAIN`. The command is empty if the
    experiment has no duration, rate or controller, if the run itself uses `PLAIN`, or if the experiment or the plant is
    a user's: two processes must not drive the same hardware.
    """
    entry, plant = entry_points(EXPERIMENTS).get(experiment.name), getattr(config, "plant", "")
    ours = entry is not None and entry.module.startswith("idcontrol.")
    walks = hasattr(config, "duration_s") and hasattr(config, "rate_hz") and hasattr(config, "controller")
    if not (ours and walks) or config.controller == PLAIN or ":" in plant or plant in entry_points(PLANTS):
        return []
    plain = msgspec.structs.replace(config, controller=PLAIN, duration_s=1.0 / config.rate_hz)
    words = ["run", experiment.name, "--quiet"]
    for key, value in changes(jsonable(msgspec.to_builtins(plain)), experiment.name, "default").items():
        words += ["--set", f"{key}={spelled(value)}"]
    return processes.command("idcontrol.cli.helper", *words)


def conduct(
    experiment: Experiment, config: msgspec.Struct, out: Path, progress: Callable[[float], None]
) -> dict[str, Any]:
    """Run `experiment` into the empty folder `out`; after an `IdControlError`, remove the folder if it is still empty.

    Args:
        experiment: The experiment.
        config: Configuration of the run.
        out: Folder of the record.
        progress: Called with the completed share, 0 to 1.

    Returns:
        The metrics, the settings in `HEADLINE`, the experiment's name, a verdict in words, the start time and the
        folder.
    """
    try:
        # NumPy need not warn: our code detects numbers that are not finite and reports them as a status
        said = what(experiment.name, config)
        with np.errstate(all="ignore"), announced(said, _helper(experiment, config)):
            metrics = experiment.run(config, out, progress)
    except IdControlError:
        with contextlib.suppress(OSError):
            out.rmdir()  # remove the folder, because it has no record
        raise
    used = {name: getattr(config, name) for name in HEADLINE if hasattr(config, name)}
    began = read_json(out, "run.json").get("began")
    verdict = why_not(metrics) or state(metrics)
    return {"experiment": experiment.name, **used, **metrics, "verdict": verdict, "began": began, "out": str(out)}
