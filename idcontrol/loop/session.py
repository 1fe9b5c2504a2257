"""The session of a loop: robot, planner, controller, plant, and how to record them.

An entry point of the group ``idcontrol.loops`` has `name`, `summary`, `presets` and a method
``session(config) -> Session`` (see `idcontrol.scenes.session`). Loop, plant and recorder are processes of their own,
and each makes its own session from the same configuration: nothing but plain data crosses.
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
    """Computes the reference of the joints from the state."""

    def reset(self, state: State) -> None:
        """Start anew at `state`."""
        ...

    def __call__(self, state: State) -> Reference:
        """The reference at ``state.t``."""
        ...

    def notes(self) -> Array:
        """Further numbers of the last call for the record, shape (`Session.notes`,)."""
        ...


class Session(Protocol):
    """All that a loop runs.

    Attributes:
        robot: Name of the robot.
        system: Its multibody system, for the loop itself; planner, controller and plant have systems of their own.
        start: State in which it begins.
        limits: Limits of its joints.
        feet: Names of the feet with force sensors.
        notes: How many numbers the planner notes in each tick.
    """

    robot: str
    system: System
    start: State
    limits: Limits
    feet: tuple[str, ...]
    notes: int

    def planner(self) -> Planner:
        """A new planner, which the caller resets."""
        ...

    def setup(self) -> controllers.Setup:
        """The setup that a controller is built from."""
        ...

    def plant(self, dt: float) -> Plant:
        """The plant that stands in for the hardware, stepped every `dt` [s]."""
        ...

    def channels(self) -> tuple[dict[str, tuple[int, ...]], dict[str, str]]:
        """Shapes and units of what is recorded: channels of `idcontrol.loop.real.channels`, and what `derive` gives.

        Channel `t` is the time since the start; `force` are the contact forces that a tick's torques have led to.
        """
        ...

    def derive(self, row: Mapping[str, Array]) -> Mapping[str, Any]:
        """Further channels of the record, computed from those of one tick."""
        ...

    def meta(self) -> dict[str, Any]:
        """Facts about the run for the record."""
        ...

    def metrics(self, arrays: dict[str, Array]) -> dict[str, Any]:
        """Metrics of the recorded arrays."""
        ...


def _search_working_directory() -> None:
    """Let a user's own modules be found there: last, so that none of them stands in for an installed package."""
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())


def resolve(target: str, config: Any) -> Session:
    """The session of an experiment.

    Args:
        target: Where the experiment is, ``package.module:name``, installed or in the working directory.
        config: Its configuration, or the plain data of one.
    """
    _search_working_directory()
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

    A user's own controller is any object with the call and the `reset` of `idcontrol.types.Controller`. A class or a
    function is called with the `Setup` if it takes an argument, else without; an object that is a controller already
    is taken as it is. The module is looked for among the installed ones first, then in the working directory.

    Raises:
        UnknownName: No controller has that name.
        InputError: The module, or the name in it, does not exist, or does not give a controller.
    """
    if ":" not in name:
        return controllers.build(name, setup)
    module, _, attribute = name.partition(":")
    _search_working_directory()
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
