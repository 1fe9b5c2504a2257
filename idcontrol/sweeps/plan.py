"""The planned runs of a sweep: their settings, their names, their commands."""

import hashlib
import itertools
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from idcontrol.config.changes import folder_name
from idcontrol.config.configuration import build, full_key, jsonable, keys
from idcontrol.config.entries import Experiment
from idcontrol.errors import InputError, UnknownName

DIGITS = 6
"""Number of digits at the end of a folder name; they distinguish configurations with the same words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedRun:
    """One run of a sweep.

    Attributes:
        experiment: Name of the experiment.
        preset: Name of its preset.
        changes: The settings that the run sets explicitly, by dotted key; a value may equal the preset's.
        config: The resulting configuration as JSON values.
        name: Name of its folder: words, and `DIGITS` digits of a digest of experiment, preset and configuration.
    """

    experiment: str
    preset: str
    changes: Mapping[str, Any]
    config: Mapping[str, Any]
    name: str

    def command(self, out: Path) -> list[str]:
        """Return the arguments of ``idcontrol`` that make this run and record it into the folder `out`."""
        words = ["run", self.experiment, "--preset", self.preset, "--quiet", "--out", str(out)]
        for key, value in self.changes.items():
            words += ["--set", f"{key}={json.dumps(value, ensure_ascii=False)}"]
        return words


def product(axes: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    """Return every combination of the values of `axes`, the last axis varying fastest.

    Raises:
        InputError: An axis has no values.
    """
    for key, values in axes.items():
        if not len(values):
            raise InputError(f"{key}: there are no values to vary; give one or more")
    return [dict(zip(axes, values, strict=True)) for values in itertools.product(*axes.values())]


def plan(
    experiment: Experiment, runs: Iterable[Mapping[str, Any]], spelling: Mapping[str, str] | None = None
) -> list[PlannedRun]:
    """Return the planned runs from their changes.

    Args:
        experiment: The experiment.
        runs: One mapping per run: new values by dotted key, or its last part. The key ``preset`` names the preset;
            without it, the preset is ``default``.
        spelling: Option by which the user set a key, e.g. ``{"mu": "--mu"}``; errors name it instead of the key.

    Raises:
        UnknownName: The preset or setting does not exist.
        InputError: A value is invalid, or a name fits several keys.
    """
    rows = []
    for run in runs:
        changes = dict(run)
        preset = str(changes.pop("preset", "default"))
        if preset not in experiment.presets:
            raise UnknownName("preset", preset, experiment.presets)
        start = experiment.presets[preset]
        known = tuple(keys(start))
        changes = {full_key(key, known): value for key, value in changes.items()}
        config = build(start, changes, spelling)
        plain = jsonable(msgspec.to_builtins(config))
        digest = hashlib.sha256(json.dumps([experiment.name, preset, plain], sort_keys=True).encode()).hexdigest()
        rows.append(
            PlannedRun(
                experiment=experiment.name,
                preset=preset,
                changes=changes,
                config=plain,
                name=f"{folder_name(experiment.name, preset, start, config)}-{digest[:DIGITS]}",
            )
        )
    return rows
