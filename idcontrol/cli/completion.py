"""``idcontrol completion``: let the shell complete names of commands, experiments, controllers and so on."""

import os
from collections.abc import Callable, Iterable
from pathlib import Path

import click
from click.shell_completion import CompletionItem, get_completion_class

from idcontrol.config import entries
from idcontrol.contact import TERRAINS
from idcontrol.errors import InputError

VARIABLE = "_IDCONTROL_COMPLETE"
SHELLS = ("bash", "fish", "zsh")


@click.command("completion", short_help="Print the shell's script for completing names.")
@click.argument("shell", type=click.Choice(SHELLS), required=False)
@click.option("--print", "printed", is_flag=True, hidden=True, help="No effect; for older scripts.")
@click.pass_context
def command(context: click.Context, shell: str | None, printed: bool) -> None:
    """Print the script that completes names in SHELL (by default the shell in $SHELL)."""
    shell = shell or Path(os.environ.get("SHELL", "bash")).name
    kind = get_completion_class(shell)
    if shell not in SHELLS or kind is None:
        raise InputError(f"there is no completion for {shell}; name one of {', '.join(SHELLS)}")
    click.echo(kind(context.find_root().command, {}, "idcontrol", VARIABLE).source())


def names(known: Callable[[], Iterable[str]]) -> Callable[..., list[CompletionItem]]:
    """Return a function that completes the last name of a comma-separated list from the names of `known`."""

    def complete(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
        before, comma, last = incomplete.rpartition(",")
        return [CompletionItem(before + comma + name) for name in sorted(known()) if name.startswith(last)]

    return complete


experiments = names(lambda: entries.entry_points(entries.EXPERIMENTS))
studies = names(lambda: entries.entry_points(entries.STUDIES))
controllers = names(lambda: entries.registered(entries.CONTROLLERS))
plants = names(lambda: entries.registered(entries.PLANTS))
terrains = names(lambda: TERRAINS)
robots = names(lambda: [name for library in entries.robot_libraries() for name in library.names()])
