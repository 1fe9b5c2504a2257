"""Pages of reference that the code itself writes: settings from their structs, commands from their options."""

from __future__ import annotations

import dataclasses
import inspect
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, cast

import click
import msgspec

from idcontrol.cli import cli
from idcontrol.config.configuration import jsonable
from idcontrol.config.entries import EXPERIMENTS, entry_points, load_experiment
from idcontrol.loop.launch import LoopSettings
from idcontrol.record import quantities

UNITS = {
    **{"1_s2": "1/s²", "1_s": "1/s", "n_s_m": "N s/m", "n_m": "N/m", "rad_s2": "rad/s²"},
    **{"kg_m3": "kg/m³", "pa_m": "Pa/m", "pa": "Pa", "v": "V", "c": "°C"},
    **quantities.UNITS,
}
"""Units by the ending of a setting's name; the longest that fits counts."""

BOUNDS = {"gt": ">", "ge": "≥", "lt": "<", "le": "≤"}


def markdown(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table in Markdown."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def settings() -> str:
    """Return every setting of the loop and of experiments: one table for each configuration, that of the trot first."""
    sharing: dict[type, list[str]] = {}
    for name in sorted(entry_points(EXPERIMENTS), key=lambda name: (name != "trot", name)):
        sharing.setdefault(type(load_experiment(name).presets["default"]), []).append(name)
    walks, *others = (
        _settings_of(", ".join(names), load_experiment(names[0]).presets["default"]) for names in sharing.values()
    )
    return "\n\n".join((walks, _settings_of("The loop", LoopSettings(), "loop."), *others))


def _settings_of(heading: str, config: Any, prefix: str = "") -> str:
    """Return a table with one row for each value of a configuration."""
    return f"## {heading}\n\n" + markdown(("setting", "default", "range", "meaning"), _rows(config, prefix))


def _rows(config: Any, prefix: str) -> Iterator[Sequence[str]]:
    """Return one row for each value of a struct or dataclass; values of nested ones have dotted names."""
    meanings = _meanings(type(config))
    for field in cast(Any, msgspec.inspect.type_info(type(config))).fields:
        value = getattr(config, field.name)
        if dataclasses.is_dataclass(value) or isinstance(value, msgspec.Struct):
            yield from _rows(value, f"{prefix}{field.name}.")
            continue
        unit = next((UNITS[end] for end in sorted(UNITS, key=len, reverse=True) if field.name.endswith(f"_{end}")), "")
        default = jsonable(msgspec.to_builtins(value))
        text = default if isinstance(default, str) else json.dumps(default)
        shown = (f"`{text}`" if text else "") + (f" [{unit}]" if unit else "")
        yield f"`{prefix}{field.name}`", shown, _range(field.type), _cell(meanings[field.name])


def _range(kind: Any) -> str:
    """Return the values that a type allows."""
    if isinstance(kind, msgspec.inspect.UnionType):
        return ", ".join(text for text in map(_range, kind.types) if text)
    if isinstance(kind, msgspec.inspect.LiteralType):
        return ", ".join(f"`{value}`" for value in kind.values)
    if isinstance(kind, msgspec.inspect.BoolType):
        return "`true`, `false`"
    if isinstance(kind, msgspec.inspect.NoneType):
        return "`null`"
    limits = ((sign, getattr(kind, name, None)) for name, sign in BOUNDS.items())
    return ", ".join(f"{sign}\N{NO-BREAK SPACE}{limit:g}" for sign, limit in limits if limit is not None)


def _meanings(kind: type) -> dict[str, str]:
    """Return the first sentence about each attribute in a class's docstring."""
    _, _, attributes = (inspect.getdoc(kind) or "").partition("Attributes:\n")
    attributes = re.split(r"^\S", attributes, maxsplit=1, flags=re.M)[0]
    entries = re.findall(r"^    (\w+): (.*(?:\n {5,}.*)*)", attributes, flags=re.M)
    return {name: re.split(r"(?<=\.) (?=[A-Z])", _markdown(" ".join(text.split())))[0] for name, text in entries}


def _markdown(text: str) -> str:
    """Text of a docstring in Markdown: double backticks of code become single ones."""
    return text.replace("``", "`")


def commands() -> str:
    """Return every command with its arguments and options, as its help says them."""
    return "\n\n".join(_command(name, command) for name, command in cli.commands.items() if not command.hidden)


def _command(name: str, command: click.Command) -> str:
    with click.Context(command, info_name=f"idcontrol {name}") as context:
        usage = " ".join((context.command_path, *command.collect_usage_pieces(context)))
        records = [each.get_help_record(context) for each in command.params if isinstance(each, click.Option)]
    rows = [(_cell(f"`{record[0]}`"), _cell(record[1])) for record in records if record]
    summary = _markdown(" ".join(inspect.cleandoc(command.help or "").partition("\n\n")[0].split()))
    return f"## {name}\n\n{summary}\n\n```text\n{usage}\n```\n\n" + markdown(("option", "meaning"), rows)


def _cell(text: str) -> str:
    """Text in a cell of a table, where Markdown would see its ends and HTML."""
    return text.replace("|", "\\|").replace("*", "\\*").replace("<", "\\<")
