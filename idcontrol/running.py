"""One run of an experiment, as the command line and Python both ask for it."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from idcontrol.configuration import build
from idcontrol.entries import Experiment, load_experiment
from idcontrol.errors import IdControlError, UnknownName
from idcontrol.record.recording import Run, claim, fresh_folder, load

HEADLINE = ("controller", "plant", "robot", "terrain", "mu", "seed", "duration_s", "rate_hz", "preset")
"""Settings that a run's metrics repeat, where the experiment has them."""


def run(experiment: str, *, preset: str = "default", out: str | Path | None = None, **settings: Any) -> Run:
    """Run an experiment and read its record.

    Args:
        experiment: Name of the experiment; ``idcontrol list experiments`` shows what there is.
        preset: The configuration to begin with.
        out: Folder of the record, which must be empty; None makes a new one below ``runs``.
        **settings: Changes to the preset, by name, by dotted key or by its last part:
            ``run("trot", mu=0.1, **{"friction.cap": 0.5})``.

    Returns:
        The record; ``metrics["completed"]`` says whether the robot did its task.

    Raises:
        UnknownName: There is no such experiment, preset or setting.
        InputError: A value does not fit, or the folder cannot be used.
    """
    chosen = load_experiment(experiment)
    config = build(start_of(chosen, preset), settings)
    folder = open_folder(chosen.name, config, out)
    conduct(chosen, config, folder, lambda share: None)
    return load(folder)


def start_of(experiment: Experiment, preset: str) -> msgspec.Struct:
    """The configuration that a preset stands for.

    Raises:
        UnknownName: The experiment has no such preset.
    """
    if preset not in experiment.presets:
        raise UnknownName("preset", preset, experiment.presets)
    return experiment.presets[preset]


def open_folder(experiment: str, config: msgspec.Struct, out: str | Path | None) -> Path:
    """The folder `out`, or a new one below ``runs`` that is named after what users vary most.

    Raises:
        InputError: It cannot be made, or is not empty.
    """
    if out is not None:
        claim(Path(out))
        return Path(out)
    parts = [experiment]
    for field in ("controller", "robot"):
        path = Path(str(getattr(config, field, "")))
        parts.append(path.parent.name or path.stem if path.suffix else path.name)
    return fresh_folder("runs", re.sub(r"[^A-Za-z0-9_.-]+", "_", "-".join(part for part in parts if part)))


def conduct(
    experiment: Experiment, config: msgspec.Struct, out: Path, progress: Callable[[float], None]
) -> dict[str, Any]:
    """Run `experiment` into the empty folder `out`, which is removed again if its configuration cannot be used.

    Args:
        experiment: The experiment.
        config: Its configuration.
        out: Folder of the record.
        progress: Called with the share that is done, 0 to 1.

    Returns:
        The metrics, beside the settings of `HEADLINE` and the folder.
    """
    try:
        # whether numbers are finite is checked where it matters, and told as a status
        with np.errstate(all="ignore"):
            metrics = experiment.run(config, out, progress)
    except IdControlError:
        with contextlib.suppress(OSError):
            out.rmdir()  # a folder that nothing was recorded into only confuses
        raise
    used = {name: getattr(config, name) for name in HEADLINE if hasattr(config, name)}
    return {"experiment": experiment.name, **used, **metrics, "out": str(out)}
