"""Planners and estimators of users in a loop, given as ``file.py:Class`` or ``package.module:Class``.

The classes are constructed like users' controllers (`idcontrol.config.places`): with (robot, mu, rate), with one
`idcontrol.controllers.Setup`, or without arguments. A loop calls the objects within its ticks, so a call that takes
longer than a period delays a command. A slower planner needs a separate process.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

import msgspec
import numpy as np
import pinocchio as pin

from idcontrol.config import places
from idcontrol.controllers import Setup
from idcontrol.errors import InputError
from idcontrol.mpc import Socket, Target
from idcontrol.robots import Robot
from idcontrol.tasks import Task
from idcontrol.types import Array, Reference, Sensed, State

__all__ = ["Estimator", "PacedEstimator", "Planner", "SocketPlanner", "estimator", "planner"]


def __dir__() -> list[str]:
    return __all__


class Planner(Protocol):
    """A user's planner.

    With an attribute `rate_hz` [Hz], a planner is called at this rate and returns targets for `idcontrol.mpc.Socket`.
    Without this attribute, it is called in every period and returns a `Reference`. An optional attribute `tasks` lists
    tasks for the controller. If the planner has ``halt()`` and ``halted``, the loop lets it come to rest before the
    robot lies down (`idcontrol.loop.life.Halting`).
    """

    def reset(self, state: State) -> None:
        """Restart at `state`."""

    def __call__(self, state: State) -> Reference | Target | Sequence[Target]:
        """Return the reference at ``state.t``, or the next targets in the order of their times."""


class Estimator(Protocol):
    """A user's estimator; with an attribute `rate_hz` [Hz] it is called at this rate, otherwise on every message.

    Between two calls, the base is extrapolated with its estimated velocity, and the joints are as in the newest
    message.
    """

    def reset(self, state: State) -> None:
        """Restart at `state`, the start of the experiment."""

    def __call__(self, sensed: Sensed) -> State:
        """Return the state at ``sensed.state.t``."""


PLANNER: Final = places.Kind(
    name="planner", group="idcontrol.planners", calls=("__call__", "reset"), protocol="idcontrol.loop.own.Planner"
)
ESTIMATOR: Final = places.Kind(
    name="estimator", group="idcontrol.estimators", calls=("__call__", "reset"), protocol="idcontrol.loop.own.Estimator"
)


class SocketPlanner:
    """A user's planner, called in every period or at its `rate_hz` (`Planner`).

    Attributes:
        tasks: Tasks for the controller: the socket's, if there is one, then the planner's.
    """

    def __init__(self, name: str, planner: Any, setup: Setup, notes: int) -> None:
        """Connect the planner called `name`; `notes` is the number of values that `notes()` returns.

        Raises:
            InputError: The rate of the planner is unusable, or the robot cannot follow targets
                (`idcontrol.mpc.Socket`).
        """
        self._name, self._planner, self._notes = name, planner, np.full(notes, np.nan)
        self._every, self._socket = _period("planner", name, planner, setup), None
        self._next, self._stance = -math.inf, np.zeros(1, dtype=np.bool_)
        self.tasks: Sequence[Task] = tuple(getattr(planner, "tasks", ()))
        if self._every is not None:
            if not isinstance(setup.robot, Robot):
                raise InputError(f"planner {name}: rate_hz needs a robot from a file; return references instead")
            self._socket = Socket(setup.robot, rate_hz=setup.rate_hz)
            self.tasks = (*self._socket.tasks, *self.tasks)

    def reset(self, state: State) -> None:
        """Restart at `state`."""
        self._planner.reset(state)
        self._next = state.t
        if self._socket is not None:
            self._socket.reset(state)

    def __call__(self, state: State) -> Reference:
        """Return the reference at ``state.t``.

        Raises:
            InputError: The planner's result has a different type than `Planner` demands.
        """
        if self._socket is None or self._every is None:
            reference = self._planner(state)
            if not isinstance(reference, Reference):
                raise self._wrong(reference, "an idcontrol.types.Reference; with rate_hz, targets")
        else:
            if state.t >= self._next - 1e-9:
                self._next = max(self._next, state.t - 0.5 * self._every) + self._every  # missed calls are lost
                self._send(self._socket, self._planner(state))
            reference = self._socket(state)
        self._stance = reference.stance
        return reference

    def _send(self, socket: Socket, targets: Any) -> None:
        for target in [targets] if isinstance(targets, Target) else targets:
            if not isinstance(target, Target):
                raise self._wrong(target, "idcontrol.mpc.Target, or a list of them")
            socket.set_target(**msgspec.structs.asdict(target))

    def _wrong(self, result: object, right: str) -> InputError:
        return InputError(f"planner {self._name}: it returned {type(result).__name__}; it must return {right}")

    @property
    def halted(self) -> bool:
        """True if the planner has come to rest; for a planner without ``halted``, True if all feet are in stance."""
        return bool(getattr(self._planner, "halted", self._stance.all()))

    def halt(self) -> None:
        """Let the planner come to rest, if it can."""
        getattr(self._planner, "halt", lambda: None)()

    def notes(self) -> Array:
        """Return NaN for each value that the experiment's own planner would record."""
        return self._notes


class PacedEstimator:
    """A user's estimator, called on every message or at its `rate_hz` (`Estimator`)."""

    def __init__(self, name: str, estimator: Any, setup: Setup, start: State) -> None:
        """Restart the estimator called `name` at `start`.

        Raises:
            InputError: The rate of the estimator is unusable.
        """
        self._name, self._estimator, self._system = name, estimator, setup.system
        self._every = _period("estimator", name, estimator, setup) or 0.0
        self._last: State | None = None
        self._next = -math.inf
        estimator.reset(start)

    def __call__(self, sensed: Sensed) -> Sensed:
        """Return `sensed` with the estimated state.

        Raises:
            InputError: The estimator's result is not a `State`, or does not fit this robot.
        """
        now, last = sensed.state, self._last
        if last is None or now.t < last.t or now.t >= self._next - 1e-9:
            last = self._estimator(sensed)
            if not isinstance(last, State) or (misfit := self._system.misfit(last.q, last.v)):
                why = misfit if isinstance(last, State) else f"it returned {type(last).__name__}, not a State"
                raise InputError(f"estimator {self._name}: {why}")
            self._last, self._next = last, now.t + self._every
            return msgspec.structs.replace(sensed, state=last)
        q, v = now.q.copy(), now.v.copy()
        if self._system.floats:
            q[:7] = pin.integrate(self._system.model, last.q, (now.t - last.t) * last.v)[:7]
            v[:6] = last.v[:6]
        return msgspec.structs.replace(sensed, state=msgspec.structs.replace(now, q=q, v=v))


def planner(name: str, setup: Setup, notes: int) -> SocketPlanner:
    """Return the planner at the place `name`, e.g. ``file.py:Class``.

    Raises:
        UnknownName: Nothing has that name.
        InputError: The place has no planner, its rate is unusable, or the robot cannot follow targets.
    """
    return SocketPlanner(name, places.factory(PLANNER, name, ())(setup), setup, notes)


def estimator(name: str, setup: Setup, start: State) -> Callable[[Sensed], Sensed]:
    """Return the estimator at the place `name`, e.g. ``file.py:Class``, restarted at `start`.

    Raises:
        UnknownName: Nothing has that name.
        InputError: The place has no estimator, or its rate is unusable.
    """
    return PacedEstimator(name, places.factory(ESTIMATOR, name, ())(setup), setup, start)


def _period(kind: str, name: str, thing: Any, setup: Setup) -> float | None:
    """Return the period between two calls [s]; None without a rate.

    Raises:
        InputError: The rate is not a positive number up to the rate of the loop.
    """
    rate = getattr(thing, "rate_hz", None)
    if rate is None:
        return None
    if isinstance(rate, bool) or not isinstance(rate, int | float) or not 0.0 < rate <= setup.rate_hz * (1.0 + 1e-9):
        raise InputError(
            f"{kind} {name}: rate_hz={rate!r} must be a number above 0, up to {setup.rate_hz:g} of the loop"
        )
    return 1.0 / float(rate)
