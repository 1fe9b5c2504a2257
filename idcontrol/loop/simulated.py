"""The loop on a simulated clock: time advances by one control period per tick, however long the tick takes."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec

from idcontrol.contact.soles import by_foot
from idcontrol.controllers.answer import check_command, check_finite
from idcontrol.kernels import stopwatch
from idcontrol.sensing.ahead import Ahead
from idcontrol.types import Command, ContactForces, Controller, Integers, Plant, Reference, State

Planner = Callable[[State], Reference]
Sensor = Callable[[State], State]


class Tick(msgspec.Struct, frozen=True, kw_only=True):
    """One control period.

    Attributes:
        state: True state at the start of the period.
        sensed: State sensed at the start of the period.
        reference: Reference of the planner.
        command: Command of the controller.
        forces: Contact forces of the plant, averaged over the period.
        after: True state at the end of the period.
        planner_s: Wall time of sensing and planner [s].
        controller_s: Wall time of the controller [s].
    """

    state: State
    sensed: State
    reference: Reference
    command: Command
    forces: ContactForces
    after: State
    planner_s: float
    controller_s: float


def ticks(
    plant: Plant,
    planner: Planner,
    controller: Controller,
    start: State,
    *,
    h: float,
    steps: int,
    sense: Sensor | None = None,
    ahead: Ahead | None = None,
    patch: Integers | None = None,
) -> Iterator[Tick]:
    """Run the loop tick by tick; the caller may stop after any tick.

    Args:
        plant: The plant, which is reset to `start`.
        planner: Returns the reference at a sensed state.
        controller: Returns the command at a sensed state and its reference.
        start: Initial state.
        h: Control period [s].
        steps: Number of periods.
        sense: Returns the sensed state from the true state. None means that the true state is sensed.
        ahead: Predicts the state in which the plant will receive the command; planner and controller get this state.
            None means no delay. With a delay, a `Tick` contains the command sent in the period, and the reference of
            the command that arrives in the period.
        patch: Foot of each contact of plant and controller, for robots with soles; None if each contact is a foot.
            States contain one force per foot.

    Yields:
        One `Tick` per period.

    Raises:
        InputError: The controller did not return a command for its machine, or returned torques that are not finite.
    """
    state = plant.reset(start)
    if ahead is not None:
        ahead.reset()
    for step in range(steps):
        began = stopwatch.wall_s()
        sensed = state if sense is None else sense(state)
        expected = sensed if ahead is None else ahead(sensed)
        reference, sealed = planner(expected), expected.sealed()
        planned = stopwatch.wall_s()
        command = controller(sealed, reference)
        ended = stopwatch.wall_s()
        contacts = len(reference.stance) if patch is None else len(patch)
        check_command(command, controller, state, len(reference.q), contacts)
        check_finite(command, controller, state)
        if ahead is not None:
            reference = ahead.sent(command, reference)
        after = plant.step(command.driven, h)
        forces = plant.contact_forces()
        # k h instead of repeated addition of h, so that time does not drift in long runs
        after = State(t=start.t + (step + 1) * h, q=after.q, v=after.v, forces=by_foot(forces, patch))
        yield Tick(
            state=state,
            sensed=sensed,
            reference=reference,
            command=command,
            forces=forces,
            after=after,
            planner_s=planned - began,
            controller_s=ended - planned,
        )
        state = after
