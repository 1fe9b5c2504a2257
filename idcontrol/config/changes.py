"""Differences between a configuration and its preset, as settings, command-line words and folder names."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from idcontrol.config.configuration import flat, is_number, jsonable, without_unit
from idcontrol.config.entries import Experiment, load_experiment
from idcontrol.errors import IdControlError, UnknownName

FIRST = ("mu", "controller", "plant", "robot", "terrain")
"""Settings at the beginning of a folder's name, in order."""
LONGEST = 100
"""Longest name of a folder [characters], before an appended number that makes it unique."""


def start_of(experiment: Experiment, preset: str) -> msgspec.Struct:
    """Return the configuration of a preset.

    Raises:
        UnknownName: The preset does not exist.
    """
    if preset not in experiment.presets:
        raise UnknownName("preset", preset, experiment.presets)
    return experiment.presets[preset]


def folder_name(stem: str, preset: str, start: msgspec.Struct, config: msgspec.Struct) -> str:
    """Return a name for the record of a run, e.g. ``trot-mu0.1-pid``.

    It consists of `stem`, the preset unless this is ``default``, and the settings that differ from the preset. It is
    cut after `LONGEST` characters, and shows only the keys of lists: different configurations can have the same name.

    Args:
        stem: Beginning of the name, e.g. the experiment.
        preset: Name of the preset.
        start: The configuration of the preset.
        config: The configuration of the run.
    """
    before, now = (flat(jsonable(msgspec.to_builtins(each))) for each in (start, config))
    changed = {key: value for key, value in now.items() if value != before.get(key)}
    words = [stem, *([] if preset == "default" else [preset])]
    words += [_word(key, changed[key]) for key in sorted(changed, key=_rank)]
    return re.sub(r"[^A-Za-z0-9_.-]+", "_", "-".join(words))[:LONGEST]


def _rank(key: str) -> int:
    """Return the sort key of a setting in a folder's name: the settings in `FIRST` precede all others."""
    return FIRST.index(key) if key in FIRST else len(FIRST)


def _word(key: str, value: Any) -> str:
    """Return a setting as a part of a folder name."""
    name = without_unit(key.rpartition(".")[2])
    if key in ("controller", "plant"):
        return str(value).rpartition(":")[2]
    if key == "robot" and Path(value).suffix:
        return Path(value).parent.name or Path(value).stem
    if is_number(value) or value in ("inf", "-inf"):
        return f"{name}{value}" if isinstance(value, str) else f"{name}{value:g}"
    if isinstance(value, list):
        return name
    return str(value) if key in FIRST else f"{name}-{json.dumps(value).strip(chr(34))}"


def changes(config: Mapping[str, Any], experiment: str, preset: str) -> dict[str, Any]:
    """Return the settings of a recorded run that differ from its preset, by dotted key.

    If the experiment or its preset is unknown here, all settings are returned.
    """
    now = flat(config)
    try:
        before = flat(jsonable(msgspec.to_builtins(start_of(load_experiment(experiment), preset))))
    except IdControlError:
        return {key: value for key, value in now.items() if key != "preset"}
    return {key: now[key] for key in before if key in now and now[key] != before[key]}


def spelled(value: Any) -> str:
    """Return a recorded value as ``--set`` reads it: records, JSON and TOML spell infinity differently."""
    return str(value) if value in ("inf", "-inf") else json.dumps(with_infinities(value), ensure_ascii=False)


def with_infinities(value: Any) -> Any:
    """Return a recorded value with infinities as numbers; JSON has no infinity."""
    if isinstance(value, Mapping):
        return {key: with_infinities(item) for key, item in value.items()}
    if isinstance(value, list):
        return [with_infinities(item) for item in value]
    return float(value) if value in ("inf", "-inf") else value
