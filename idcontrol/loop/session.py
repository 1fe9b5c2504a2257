"""The session of a loop: robot, planner, controller, plant, and how to record them.

An entry point of the group ``idcontrol.loops`` has `name`, `summary`, `presets` and a method
``session(config) -> Session`` (see `idcontrol.scenes.session`). Loop, plant and recorder are separate processes,
and each makes a session from the same configuration: only plain data crosses.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol, runtime_checkable

import msgspec

from idcontrol import controllers
from idcontrol.config import places
from idcontrol.dynamics.system import System
from idcontrol.loop.life import Between
from idcontrol.loop.order import Translation
from idcontrol.loop.safety import Limits
from idcontrol.loop.wire import Format, model_number, names_number
from idcontrol.robots.schema import MachineOrder
from idcontrol.types import Array, Controller, Plant, Reference, Sensed, State


class Planner(Protocol):
    """Computes the reference of the joints from the state."""

    def reset(self, state: State) -> None:
        """Start anew at `state`."""

    def __call__(self, state: State) -> Reference:
        """Return the reference at ``state.t``."""

    def notes(self) -> Array:
        """Return further numbers of the last call for the record, shape (`Session.notes`,)."""


@runtime_checkable
class Steered(Protocol):
    """A planner that a joystick of the machine steers."""

    def steer(self, axes: Array) -> None:
        """Take the axes of the last message, shape (4,), -1 to 1; NaN for missing ones."""


class Session(Protocol):
    """Everything that a loop runs.

    Attributes:
        robot: Name of the robot.
        system: Its multibody system, for the loop itself; planner, controller and plant have separate ones.
        start: State in which it begins.
        limits: Limits of the joints.
        feet: Names of the feet with force sensors.
        notes: Number of further values that the planner records in each tick.
        orders: Joint orders of this robot's machines, by name.
        lying: State of lying on the ground; None without one.
    """

    robot: str
    system: System
    start: State
    limits: Limits
    feet: tuple[str, ...]
    notes: int
    orders: Mapping[str, MachineOrder]
    lying: State | None

    def planner(self) -> Planner:
        """Return a new planner, which the caller resets."""

    def setup(self) -> controllers.Setup:
        """Return the setup of a controller."""

    def plant(self, dt: float) -> Plant:
        """Return the plant that replaces the hardware, stepped every `dt` [s]."""

    def between(self) -> Between | None:
        """Return the machine's way between lying and standing; None without one."""

    def channels(self) -> tuple[dict[str, tuple[int, ...]], dict[str, str]]:
        """Return shapes and units of the record: channels of `idcontrol.loop.telemetry.channels`, and of `derive`.

        Channel `t` is the time since the start; `force` are the contact forces that result from a tick's torques.
        """

    def derive(self, row: Mapping[str, Array]) -> Mapping[str, Any]:
        """Return further channels of the record, computed from one tick's."""

    def meta(self) -> dict[str, Any]:
        """Return facts about the run for the record."""

    def metrics(self, arrays: dict[str, Array]) -> dict[str, Any]:
        """Return metrics of the recorded arrays."""


Sense = Callable[[Sensed], State]
"""Returns the state for planner and controller, from a message of the machine."""
Stance = Callable[[State, Reference], Reference]
"""Returns the reference with the contacts that the controller assumes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """The parts of a loop.

    Attributes:
        planner: Computes the reference at a state.
        controller: Computes the command at a state and its reference.
        system: Multibody terms, for the brake and for the places of the joints in a state.
        wire: Format of the datagrams.
        limits: Limits of the joints.
        sense: Creates a new `Sense` for each stretch of work; None uses the machine's state.
        stance: Replaces the planned contacts by sensed ones; None keeps the planned ones.
        translation: Maps between the machine's order of joints and the loop's; None if they are the same.
        notes: Number of further values that the planner records.
        between: The machine's way between lying and standing; None without one: it is braked at the end.
    """

    planner: Planner
    controller: Controller
    system: System
    wire: Format
    limits: Limits
    sense: Callable[[], Sense] | None = None
    stance: Stance | None = None
    translation: Translation | None = None
    notes: int = 0
    between: Between | None = None


def resolve(target: str, config: Any) -> Session:
    """Return the session of an experiment.

    Args:
        target: Place of the experiment, ``package.module:name``, installed or in the working directory.
        config: Its configuration, or the plain data of one.
    """
    places.search_working_directory()
    offer = pkgutil.resolve_name(target)
    kind = type(offer.presets["default"])
    session: Session = offer.session(config if isinstance(config, kind) else msgspec.convert(config, kind))
    return session


def begins(session: Session, place: Literal["lying", "standing"]) -> State:
    """Return the initial state of a session's plant; a machine that cannot lie stands."""
    return session.start if place == "standing" or session.lying is None else session.lying


def wire_format(session: Session) -> Format:
    """Return sizes and ranges of the datagrams of this session's machine."""
    system = session.system
    return Format(
        robot=session.robot,
        nq=system.model.nq,
        nv=system.model.nv,
        floating=system.n_unactuated >= 6,
        torque_limit=system.effort_limit,
        n_feet=len(session.feet),
        patch=getattr(session, "patch", None),  # users' sessions have point feet
        joints=names_number(system.actuated_names),
        model=model_number(system.model),
    )
