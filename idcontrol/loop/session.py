"""The session of a loop: robot, planner, controller, plant, and how to record them.

An entry point of the group ``idcontrol.loops`` has `name`, `summary`, `presets` and a method ``session(config) ->
Session`` (see `idcontrol.scenes.session`). Loop, plant and recorder are separate processes, and each makes a session
from the same configuration: only plain data are exchanged.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol, runtime_checkable

import msgspec

from idcontrol import controllers
from idcontrol.config import places
from idcontrol.contact.spheres import SphereContacts
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
        """Restart at `state`."""

    def __call__(self, state: State) -> Reference:
        """Return the reference at ``state.t``."""

    def notes(self) -> Array:
        """Return further values of the last call for the record, shape (`Session.notes`,)."""


@runtime_checkable
class Steered(Protocol):
    """A planner that follows a joystick of the machine."""

    def steer(self, axes: Array) -> None:
        """Process the joystick axes of the last message, shape (4,), -1 to 1; NaN for missing axes."""


class Session(Protocol):
    """Robot, planner, controller, plant and record of a loop.

    Attributes:
        robot: Name of the robot.
        system: Multibody system for the loop itself; planner, controller and plant have separate systems.
        start: Initial state.
        limits: Limits of the joints.
        feet: Names of the feet with force sensors.
        notes: Number of values that the planner notes in each tick.
        orders: Orders in which machines of this robot number their joints, by name.
        lying: State in which the robot lies on the ground; None if it cannot lie.
        friction: Dry friction of the actuated joints of the real robot, shape (a,) [N m]; None if it is not known.
    """

    robot: str
    system: System
    start: State
    limits: Limits
    feet: tuple[str, ...]
    notes: int
    orders: Mapping[str, MachineOrder]
    lying: State | None
    friction: Array | None

    def planner(self) -> Planner:
        """Return a new planner, which the caller must reset."""

    def setup(self) -> controllers.Setup:
        """Return a new setup for the session's controller."""

    def plant(self, dt: float) -> Plant:
        """Return the plant that replaces the hardware, stepped every `dt` [s]."""

    def between(self) -> Between | None:
        """Return the path on which the machine stands up and lies down; None if it does neither."""

    def channels(self) -> tuple[dict[str, tuple[int, ...]], dict[str, str]]:
        """Return shapes and units of the recorded channels.

        A channel comes from the channel with the same name in `idcontrol.loop.telemetry.channels`, or from `derive`.
        There are two exceptions: ``t`` is the time since the first tick with torques, and ``force`` contains the
        contact forces that result from the torques of a tick.
        """

    def derive(self, row: Mapping[str, Array]) -> Mapping[str, Any]:
        """Return the values of further channels, computed from the telemetry channels of one tick."""

    def meta(self) -> dict[str, Any]:
        """Return facts about the run for the record."""

    def metrics(self, arrays: dict[str, Array]) -> dict[str, Any]:
        """Return metrics of the recorded arrays."""


Sense = Callable[[Sensed], State]
"""Returns the state for planner and controller, given a message of the machine."""
Stance = Callable[[State, Reference], Reference]
"""Returns the reference with the feet that count as standing, given the state and the planned reference."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """The parts that a loop joins.

    Attributes:
        planner: Computes the reference at a state.
        controller: Computes the command at a state and its reference.
        system: Multibody system, for the brake and for the indices of the joints in a state.
        wire: Format of the datagrams.
        limits: Limits of the joints.
        sense: Creates a new `Sense`. None means that the machine's state is used unchanged.
        base_sent: True if the loop uses the position of the base that the machine sends, which is then judged.
        stance: Replaces the planned stance by the sensed stance. None means that the planned stance is used.
        translation: Maps between the machine's order of joints and the loop's; None if no other order is set.
        feet: Foot spheres with a `System` that nothing else uses, to compare motion and torques
            (`idcontrol.loop.motion`); None for no comparison.
        friction: Dry friction of the joints in this comparison, shape (a,) or one for all [N m].
        notes: Number of values that the planner notes.
        between: Path on which the machine stands up and lies down; None if the machine is braked at the end instead.
    """

    planner: Planner
    controller: Controller
    system: System
    wire: Format
    limits: Limits
    sense: Callable[[], Sense] | None = None
    base_sent: bool = True
    stance: Stance | None = None
    translation: Translation | None = None
    feet: SphereContacts | None = None
    friction: Array | float = 0.0
    notes: int = 0
    between: Between | None = None


def resolve(target: str, config: Any) -> Session:
    """Return the session of an experiment.

    Args:
        target: Import path of the experiment, ``package.module:name``, installed or in the working directory.
        config: Configuration of the experiment, as an object or as plain data.
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
        patch=getattr(session, "patch", None),  # sessions from users may have only point feet
        joints=names_number(system.actuated_names),
        model=model_number(system.model),
    )
