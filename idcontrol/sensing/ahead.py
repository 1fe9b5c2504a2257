"""A known delay: the state that a machine will be in when a command reaches it (Smith's predictor)."""

from __future__ import annotations

from collections import deque

from msgspec import structs

from idcontrol.types import Array, Command, Plant, Reference, State


class Ahead:
    """Predicts with a model of the plant, stepped with the commands that are on their way.

    Planner and controller are asked for the time at which their command arrives; until then the commands before it act,
    and all of them are known.
    """

    def __init__(self, model: Plant, periods: int, h: float) -> None:
        """Look ahead.

        Args:
            model: What the plant is believed to be; it takes what the plant takes.
            periods: The delay in control periods, 1 or more.
            h: Control period [s].
        """
        self._model, self._h, self._periods = model, h, periods
        self._commands: deque[Array] = deque(maxlen=periods)
        self._references: deque[Reference] = deque(maxlen=periods + 1)

    def reset(self) -> None:
        """Forget the commands that are on their way."""
        self._commands.clear()
        self._references.clear()

    def __call__(self, state: State) -> State:
        """The state when a command that is sent in `state` arrives; `state` itself, then, before the first command."""
        then = state.t + self._periods * self._h
        if not self._commands:
            return structs.replace(state, t=then)
        after = self._model.reset(state)
        for command in self._commands:
            after = self._model.step(command, self._h)
        return State(t=then, q=after.q, v=after.v, forces=self._model.contact_forces())

    def sent(self, command: Command, reference: Reference) -> Reference:
        """Take note of a command and of the reference that it follows; returns the reference that is due now.

        Until the first command arrives it is held, as `idcontrol.scenes.disturbances.Delayed` does.
        """
        self._commands.extend([command.driven.copy()] * (1 if self._commands else self._periods))
        self._references.append(reference)
        return self._references[0]
