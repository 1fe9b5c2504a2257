"""``idcontrol completion``: names of commands, experiments, controllers and so on, completed by the shell."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import click
from click.shell_completion import CompletionItem, get_completion_class

from idcontrol.config.entries import EXPERIMENTS, STUDIES, entry_points, robot_libraries
from idcontrol.errors import InputError

VARIABLE = "_IDCONTROL_COMPLETE"
PLACES = {
    "bash": "~/.local/share/bash-completion/completions/idcontrol",
    "fish": "~/.config/fish/completions/idcontrol.fish",
    "zsh": "~/.zsh/completions/_idcontrol",
}
"""Where each shell looks for completions; zsh where its ``fpath`` says so."""


@click.command("completion", short_help="Let the shell complete names.")
@click.argument("shell", type=click.Choice(sorted(PLACES)), required=False)
@click.option("--print", "printed", is_flag=True, help="Print it instead.")
@click.pass_context
def command(context: click.Context, shell: str | None, printed: bool) -> None:
    """Install the completion of names for SHELL (by default, the one of $SHELL)."""
    shell = shell or Path(os.environ.get("SHELL", "bash")).name
    kind = get_completion_class(shell)
    if shell not in PLACES or kind is None:
        raise InputError(f"there is no completion for {shell}; name one of {', '.join(sorted(PLACES))}")
    source = kind(context.find_root().command, {}, "idcontrol", VARIABLE).source()
    if printed:
        click.echo(source)
        return
    path = Path(PLACES[shell]).expanduser()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source, encoding="utf-8")
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror}; idcontrol completion {shell} --print") from error
    more = "; put `fpath+=(~/.zsh/completions)` before compinit in ~/.zshrc" if shell == "zsh" else ""
    click.echo(f"{path} is written{more}; open a new shell")


def available(module: str) -> Mapping[str, str]:
    """Names that ``idcontrol.MODULE`` offers, each with a line; the module is imported when this is called."""
    names: Mapping[str, str] = importlib.import_module(f"idcontrol.{module}").available()
    return names


def names(known: Callable[[], Iterable[str]]) -> Callable[..., list[CompletionItem]]:
    """A completion of the last of some names with commas between them."""

    def complete(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
        before, comma, last = incomplete.rpartition(",")
        return [CompletionItem(before + comma + name) for name in sorted(known()) if name.startswith(last)]

    return complete


experiments = names(lambda: entry_points(EXPERIMENTS))
studies = names(lambda: entry_points(STUDIES))
controllers = names(lambda: available("controllers"))
plants = names(lambda: available("plants"))
terrains = names(lambda: available("contact.terrain"))
robots = names(lambda: [name for library in robot_libraries() for name in library.names()])
