"""Options of several commands, and the configuration that results from them."""

import functools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import click

from idcontrol.cli import completion
from idcontrol.config.configuration import Config, build, number
from idcontrol.errors import InputError

Command = TypeVar("Command", bound=Callable[..., Any])
Option = Callable[[Any], Any]


def real(text: str) -> float:
    """Parse the number of an option, as `float` does; refuse numbers that are too large for double precision.

    Raises:
        click.BadParameter: The text is not a number, or the number is too large.
    """
    try:
        return number(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


FOLDER = click.Path(path_type=Path)
ROBOT_HELP = "Name of a robot, or path of a robot file, or of a URDF next to a robot file."

CONTROLLER = click.option(
    "--controller",
    shell_complete=completion.controllers,
    metavar="C",
    help="Name of a controller (see `idcontrol list`), or your class: file.py:Class.",
)
PLANT = click.option(
    "--plant",
    shell_complete=completion.plants,
    metavar="P",
    help="Name of a plant (simulated hardware), or your class: file.py:Class.",
)
ROBOT = click.option("--robot", shell_complete=completion.robots, metavar="R", help=ROBOT_HELP)
MU = click.option("--mu", type=real, metavar="X", help="Friction coefficient of the ground; inf means no slip.")
DURATION = click.option("--duration", "duration_s", type=real, metavar="S", help="Length of a run [s].")
RATE = click.option("--rate", "rate_hz", type=real, metavar="HZ", help="Rate of the control loop [Hz].")
PRESET = click.option(
    "--preset",
    metavar="NAME",
    help="Initial settings: default, paper (the method as published), or another preset of the experiment.",
)
SETTINGS = click.option(
    "--set", "settings", multiple=True, metavar="KEY=VALUE", help="Any other setting, by dotted key or its last part."
)
OUT = click.option("--out", type=FOLDER, metavar="DIR", help="Folder of the record; must be empty.")
JSON = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
QUIET = click.option("--quiet", is_flag=True, help="Show no progress.")


def with_options(*options: Option) -> Callable[[Command], Command]:
    """Return a decorator that adds `options` to a command; its help shows them in this order."""
    return lambda command: functools.reduce(lambda function, option: option(function), reversed(options), command)


def configure(start: Config, what: str, options: Mapping[str, Any], settings: Mapping[str, Any]) -> Config:
    """Return a configuration changed by options and settings.

    Args:
        start: The configuration to begin with.
        what: Owner of the configuration for messages, e.g. ``"the experiment trot"``.
        options: Value of each option, by the key of its setting; None for an unused option.
        settings: Values by dotted key or its last part; they override options.

    Raises:
        UnknownName: The setting does not exist.
        InputError: `what` lacks the setting of an option, a key fits several settings, or a value does not fit.
    """
    request = {name: value for name, value in options.items() if value is not None}
    spelling = {name: "--" + name.partition("_")[0] for name in options}
    for name in request:
        if not hasattr(start, name):
            raise InputError(f"{spelling[name]}: {what} has no such setting; leave it out")
    return build(start, request | dict(settings), spelling)
