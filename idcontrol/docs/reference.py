"""Generated reference pages: settings from their structs, commands from their options."""

import inspect
from collections.abc import Iterable, Sequence
from typing import Any

import click

from idcontrol.cli import cli
from idcontrol.cli.settings import settings as each_setting
from idcontrol.config.entries import EXPERIMENTS, entry_points, load_experiment
from idcontrol.loop.launch import LoopSettings


def markdown(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table in Markdown."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def settings() -> str:
    """Return tables of the settings of the trot, the loop, and each other configuration type, without repeated rows."""
    sharing: dict[type, list[str]] = {}
    for name in sorted(entry_points(EXPERIMENTS), key=lambda name: (name != "trot", name)):
        sharing.setdefault(type(load_experiment(name).presets["default"]), []).append(name)
    tables = {", ".join(names): _rows(load_experiment(names[0]).presets["default"]) for names in sharing.values()}
    first, *others = tables
    parts = [_section(first, tables[first]), _section("The loop", _rows(LoopSettings(), "loop."))]
    for heading in others:
        same = [row for row in tables[heading] if row in tables[first]]
        parts.append(_section(heading, [row for row in tables[heading] if row not in same]))
        if same:
            parts.append(f"As for the trot: {', '.join(row[0] for row in same)}.")
    return "\n\n".join(parts)


def _section(heading: str, rows: Sequence[Sequence[str]]) -> str:
    return f"## {heading}\n\n" + markdown(("setting", "default", "range", "meaning"), rows)


def _rows(config: Any, prefix: str = "") -> list[tuple[str, ...]]:
    return [
        (
            f"`{one.key}`",
            (f"`{one.default}`" if one.default else "") + (f" [{one.unit}]" if one.unit else ""),
            _cell(
                ", ".join(
                    part if part[:1] in "<>≤≥" or " " in part else f"`{part}`" for part in one.allowed.split(", ")
                )
            ),
            _cell(one.meaning),
        )
        for one in each_setting(config, prefix)
    ]


def _markdown(text: str) -> str:
    """Convert a docstring to Markdown: double backticks of code become single ones."""
    return text.replace("``", "`")


def commands() -> str:
    """Return every command with its arguments and options, from its help."""
    return "\n\n".join(_command(name, command) for name, command in cli.commands.items() if not command.hidden)


def _command(name: str, command: click.Command) -> str:
    with click.Context(command, info_name=f"idcontrol {name}") as context:
        usage = " ".join((context.command_path, *command.collect_usage_pieces(context)))
        records = [each.get_help_record(context) for each in command.params if isinstance(each, click.Option)]
    rows = [(_cell(f"`{record[0]}`"), _cell(record[1])) for record in records if record]
    summary = _markdown(" ".join(inspect.cleandoc(command.help or "").partition("\n\n")[0].split()))
    return f"## {name}\n\n{summary}\n\n```text\n{usage}\n```\n\n" + markdown(("option", "meaning"), rows)


def _cell(text: str) -> str:
    """Escape text for a cell of a Markdown table."""
    return text.replace("|", "\\|").replace("*", "\\*").replace("<", "\\<")
