"""A known delay: prediction of the state at which a command will arrive (Smith's predictor)."""

from __future__ import annotations

from collections import deque

from msgspec import structs

from idcontrol.contact.soles import by_foot
from idcontrol.types import Array, Command, Integers, Plant, Reference, State


class Ahead:
    """Prediction by a model of the plant, stepped with the commands that have not yet arrived.

    Planner and controller compute for the time at which their command arrives. Until then the plant follows earlier
    commands, which are known.
    """

    def __init__(self, model: Plant, periods: int, h: float, patch: Integers | None = None) -> None:
        """Set up the prediction.

        Args:
            model: Model of the plant; it takes the same commands.
            periods: The delay in control periods, 1 or more.
            h: Control period [s].
            patch: Foot of each contact of the model; None if each contact is a foot.
        """
        self._patch = patch
        self._model, self._h, self._periods = model, h, periods
        self._commands: deque[Array] = deque(maxlen=periods)
        self._references: deque[Reference] = deque(maxlen=periods + 1)

    def reset(self) -> None:
        """Forget the commands that have not arrived."""
        self._commands.clear()
        self._references.clear()

    def __call__(self, state: State) -> State:
        """Return the predicted state at the arrival of a command sent in `state`.

        Before the first command, return `state` with the time of arrival.
        """
        then = state.t + self._periods * self._h
        if not self._commands:
            return structs.replace(state, t=then)
        after = self._model.reset(state)
        for command in self._commands:
            after = self._model.step(command, self._h)
        return State(t=then, q=after.q, v=after.v, forces=by_foot(self._model.contact_forces(), self._patch))

    def sent(self, command: Command, reference: Reference) -> Reference:
        """Record a command and its reference; return the reference of the command that arrives in this period.

        Before the first command arrives, return the first reference, as in `idcontrol.scenes.disturbances.Delayed`.
        """
        self._commands.extend([command.driven.copy()] * (1 if self._commands else self._periods))
        self._references.append(reference)
        return self._references[0]
