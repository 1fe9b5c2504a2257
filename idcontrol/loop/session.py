"""What a loop runs: robot, planner, controller, plant, and how to record them.

What offers it (entry points of the group ``idcontrol.loops``) has `name`, `summary`, `presets` and a method
``session(config) -> Session`` (see `idcontrol.scenes.session`). Loop, plant and recorder
are processes of their own and each makes its own session from the same configuration: nothing but plain data crosses.
"""

from __future__ import annotations

import importlib
import inspect
import os
import pkgutil
import sys
from collections.abc import Mapping
from typing import Any, Protocol

import msgspec

from idcontrol import controllers
from idcontrol.errors import InputError
from idcontrol.loop.safety import Limits
from idcontrol.loop.wire import Format
from idcontrol.system import System
from idcontrol.types import Array, Controller, Plant, Reference, State


class Planner(Protocol):
    """From a state to what the joints should do."""

    def reset(self, state: State) -> None:
        """Begin anew at `state`."""
        ...

    def __call__(self, state: State) -> Reference:
        """What to do at ``state.t``."""
        ...

    def notes(self) -> Array:
        """What else of the last call belongs into the record, of the size of `Session.notes`."""
        ...


class Session(Protocol):
    """What a loop runs.

    Attributes:
        robot: Name of the robot.
        system: Its multibody terms, for whoever asks for nothing else.
        start: Where it begins.
        limits: What its joints may be asked.
        feet: Names of the feet with force sensors.
        notes: Numbers that the planner notes in each tick.
    """

    robot: str
    system: System
    start: State
    limits: Limits
    feet: tuple[str, ...]
    notes: int

    def planner(self) -> Planner:
        """The planner, to be reset."""
        ...

    def setup(self) -> controllers.Setup:
        """What a controller is built from."""
        ...

    def plant(self, dt: float) -> Plant:
        """The plant that stands in for the hardware, stepped every `dt` [s]."""
        ...

    def channels(self) -> tuple[dict[str, tuple[int, ...]], dict[str, str]]:
        """Shapes and units of what is recorded: channels of `idcontrol.loop.real.channels`, and what `derive` gives.

        Its `t` is the time since the start, its `force` what came of a tick's torques.
        """
        ...

    def derive(self, row: Mapping[str, Array]) -> Mapping[str, Any]:
        """What else the record says of a tick, from its channels."""
        ...

    def meta(self) -> dict[str, Any]:
        """Facts about the run for the record."""
        ...

    def metrics(self, arrays: dict[str, Array]) -> dict[str, Any]:
        """Metrics of the recorded arrays."""
        ...


def resolve(target: str, config: Any) -> Session:
    """The session of what is at `target` (``package.module:name``).

    Args:
        target: Where it is.
        config: Its configuration, or the plain data of one.
    """
    offer = pkgutil.resolve_name(target)
    kind = type(offer.presets["default"])
    made: Session = offer.session(config if isinstance(config, kind) else msgspec.convert(config, kind))
    return made


def wire_format(session: Session) -> Format:
    """Sizes and ranges of the datagrams of this session's machine."""
    system = session.system
    return Format(
        robot=session.robot,
        nq=system.model.nq,
        nv=system.model.nv,
        floating=system.n_unactuated >= 6,
        torque_limit=system.effort_limit,
        n_feet=len(session.feet),
    )


def make_controller(name: str, setup: controllers.Setup) -> Controller:
    """A controller by its name, or a user's own by ``package.module:Class``.

    A user's is any callable object with the call and the `reset` of `idcontrol.types.Controller`. What is named is
    called with the `Setup` if it takes an argument, else without; an object that is a controller already is taken as
    it is. The module is looked for among the installed ones first, then in the working directory.

    Raises:
        UnknownName: No controller has that name.
        InputError: The module, or the name in it, does not exist, or does not give a controller.
    """
    if ":" not in name:
        return controllers.build(name, setup)
    module, _, attribute = name.partition(":")
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())  # last, so that nothing in the folder stands in for an installed package
    try:
        found = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, SyntaxError) as error:
        raise InputError(f"controller {name}: {error}; write it as package.module:Class") from error
    if not isinstance(found, type) and hasattr(found, "reset"):
        made = found
    elif callable(found):
        required = [
            parameter
            for parameter in inspect.signature(found).parameters.values()
            if parameter.default is parameter.empty
            and parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
        ]
        made = found(setup) if required else found()
    else:
        raise InputError(
            f"controller {name}: it is a {type(found).__name__}; name a class or a function that makes one"
        )
    if not callable(made) or not hasattr(made, "reset"):
        raise InputError(
            f"controller {name}: {type(made).__name__} has no __call__(state, reference) or no reset(); "
            "see idcontrol.types.Controller"
        )
    controller: Controller = made
    return controller
