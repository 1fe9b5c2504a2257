"""Loads or compiles everything that a controller may call, before its first tick."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Iterator
from typing import Final, Protocol, runtime_checkable
from weakref import WeakKeyDictionary

import numpy as np
from msgspec import structs

from idcontrol.contact.spheres import SphereContacts
from idcontrol.errors import InputError
from idcontrol.kernels.linked import compile_linked
from idcontrol.types import Command, Controller, Reference, State

TWICE: Final = 2
"""Number of rounds of calls in `warm`: the second starts from the controller's memory of the first."""
DRAWS: Final = 20
"""Number of random demands of each size in a round."""
DEMANDS: Final = (1e2, 1e3, 1e4)
"""Joint accelerations from hard to infeasible [rad/s²]."""
PUSH: Final = 1.0
"""Speed of the base while it slides or falls [m/s], or of the joints of a fixed robot [rad/s]."""
TICK_S: Final = 1e-4
"""Time between two calls [s]: estimators learn from the motion within a control period only."""
SLIDING: Final = 8
"""Number of calls in which the base slides, enough for the friction estimator to use the slip of the feet."""


class StandingRobot(Protocol):
    """A robot with a standing pose, such as `idcontrol.robots.Robot`."""

    def standing_state(self) -> State:
        """Return a state at rest in its home pose, feet on the ground."""
        ...

    def standing_reference(self) -> Reference:
        """Return a reference that holds the home pose with all feet on the ground."""
        ...


@runtime_checkable
class WithFallback(Protocol):
    """A controller with a second path for steps that its compiled path does not solve."""

    def fall_back(self, state: State, reference: Reference) -> Command:
        """Take the step by the second path."""
        ...


_ROBOTS: WeakKeyDictionary[Controller, StandingRobot] = WeakKeyDictionary()
"""The robot of each controller, as long as the controller exists: `warm` begins in its standing pose."""


def remember(controller: Controller, robot: StandingRobot) -> None:
    """Record the robot of `controller` for `warm`, if weak references to the controller are possible."""
    with contextlib.suppress(TypeError):
        _ROBOTS[controller] = robot


def _robot_of(controller: Controller) -> StandingRobot:
    with contextlib.suppress(TypeError, KeyError):
        return _ROBOTS[controller]
    raise InputError("warm does not know this controller's robot: pass it a planner and a start state")


def warm(
    controller: Controller, planner: Callable[[State], Reference] | None = None, start: State | None = None
) -> None:
    """Load or compile all kernels that a call of `controller` may need.

    Without warming, the first step that needs a kernel waits 0.1 s or more for loading it, or minutes for compiling it.
    A copy of the controller is called with easy, hard and impossible demands, with every number of feet on the ground,
    while sliding and while falling. Its second path (`WithFallback`) gets the same demands. In the copy, feet or
    fingertips that are in the air at `start` are enlarged to reach the ground. The memory of the controller itself is
    unchanged.

    Args:
        controller: The controller; it must be copyable, as all controllers of this package are.
        planner: The controller's planner, called once, such as ``lambda state: reference``; None holds the standing
            pose.
        start: Initial state; None for the standing pose of the controller's robot.

    Raises:
        InputError: The controller has no robot, and `planner` or `start` is missing.
    """
    if planner is None or start is None:
        robot = _robot_of(controller)
        start = robot.standing_state() if start is None else start
        reference = robot.standing_reference() if planner is None else planner(start)
    else:
        reference = planner(start)
    parts: dict[int, object] = {}
    twin = copy.deepcopy(controller, parts)
    for part in parts.values():
        if isinstance(part, SphereContacts):
            _reach_the_ground(part, start)
    ways: list[Callable[[State, Reference], Command]] = [twin]
    ways += [part.fall_back for part in parts.values() if isinstance(part, WithFallback)]
    cases = [*_asked(start, reference)] * TWICE
    for k, (state, asked) in enumerate(cases):
        now = structs.replace(state, t=start.t + k * TICK_S)
        for way in ways:
            way(now, asked)
    compile_linked()


def _reach_the_ground(spheres: SphereContacts, state: State) -> None:
    """Enlarge spheres to reach the ground below them."""
    spheres.system.update(state.q, state.v)
    spheres.detect(np.inf)
    spheres.radius += np.maximum(spheres.gap, 0.0)


def _asked(state: State, reference: Reference) -> Iterator[tuple[State, Reference]]:
    rng, one = np.random.default_rng(0), np.ones(reference.q.size)
    floats = state.v.size > one.size
    yield state, reference
    for demand in DEMANDS:
        for sign in (1.0, -1.0):
            yield state, structs.replace(reference, a=sign * demand * one)
        for feet in range(reference.stance.size + 1):
            stance = np.arange(reference.stance.size) < feet
            yield state, structs.replace(reference, a=demand * one, stance=stance)
            yield state, structs.replace(reference, stance=stance)
    for demand in DEMANDS:
        for _ in range(DRAWS):
            asked = structs.replace(reference, a=demand * rng.normal(size=one.size))
            yield state, asked
            yield structs.replace(state, v=PUSH * rng.normal(size=state.v.size)), asked
    joints = np.eye(state.v.size)
    for direction in joints[:3] * np.array([[1.0], [1.0], [-1.0]]) if floats else (*joints, *-joints):
        moving = structs.replace(state, v=state.v + PUSH * direction)
        for _ in range(SLIDING):
            yield moving, reference
        yield moving, structs.replace(reference, stance=np.zeros_like(reference.stance))  # the feet land off schedule
    yield state, structs.replace(reference, a=np.nan * one)
