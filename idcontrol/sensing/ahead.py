"""Compensate a known delay: predict the state in which the machine will receive a command (Smith's predictor)."""

from __future__ import annotations

from collections import deque

from msgspec import structs

from idcontrol.contact.soles import by_foot
from idcontrol.types import Array, Command, Integers, Plant, Reference, State


class Ahead:
    """Predicts the state in which the next command arrives.

    Until this command arrives, the plant follows earlier commands. They are known, so a model of the plant is stepped
    with them.
    """

    def __init__(self, model: Plant, periods: int, h: float, patch: Integers | None = None) -> None:
        """Set up the prediction.

        Args:
            model: Model of the plant; it takes the same commands as the plant.
            periods: The delay of commands in control periods, 1 or more.
            h: Control period [s].
            patch: Foot of each contact of the model, indexed by the identity of the contact, shape (k,); None if each
                contact is a foot.
        """
        self._patch = patch
        self._model, self._h, self._periods = model, h, periods
        self._commands: deque[Array] = deque(maxlen=periods)
        self._references: deque[Reference] = deque(maxlen=periods + 1)

    def reset(self) -> None:
        """Forget all commands and references."""
        self._commands.clear()
        self._references.clear()

    def __call__(self, state: State) -> State:
        """Return the state predicted for the time at which a command sent at ``state.t`` arrives.

        Before the first command is sent, the prediction is `state` with the time of arrival.
        """
        then = state.t + self._periods * self._h
        if not self._commands:
            return structs.replace(state, t=then)
        after = self._model.reset(state)
        for command in self._commands:
            after = self._model.step(command, self._h)
        return State(t=then, q=after.q, v=after.v, forces=by_foot(self._model.contact_forces(), self._patch))

    def sent(self, command: Command, reference: Reference) -> Reference:
        """Record a command that is sent, with its reference; return the reference of the command that arrives now.

        Until the first command arrives, the result is the first reference: meanwhile, the plant applies the first
        command (`idcontrol.scenes.disturbances.Delayed`).
        """
        self._commands.extend([command.driven.copy()] * (1 if self._commands else self._periods))
        self._references.append(reference)
        return self._references[0]
