"""Checks of a controller's answer: it must be a command for its robot."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from idcontrol.config import places
from idcontrol.errors import InputError
from idcontrol.types import Command, ContactForces, Controller, State, Status

ROWS: Final = ("tau", "q", "v", "kp", "kd")
"""Fields of a command with one number for each joint. All but the first may be None."""
NUMBER: Final = (float, int, np.floating, np.integer)
SINGLE: Final[tuple[tuple[str, tuple[type, ...], str], ...]] = (
    ("status", (Status,), "a Status"),
    ("residual", NUMBER, "a number"),
    ("gap", NUMBER, "a number"),
    ("clipped", (bool, np.bool_), "True or False"),
    ("dropped", (tuple, list), "a tuple of words"),
    ("solved_by", (str, type(None)), "a word or None"),
    ("predicted", (ContactForces, type(None)), "ContactForces or None"),
)
"""Other fields, their types, and a description of each type for messages."""


def check_command(command: Command, controller: Controller, state: State, joints: int, feet: float = math.inf) -> None:
    """Check that an answer is a command for this number of joints and feet. Infinite numbers and NaN are accepted.

    Raises:
        InputError: The answer is not a valid command. For a user's controller, the message names the file and line of
            its class.
    """
    wrong = _fault(command, joints, feet)
    if wrong:
        refuse(controller, state, wrong)


def check_finite(command: Command, controller: Controller, state: State) -> None:
    """Check that torques and drive commands are finite; raise an `InputError` like `check_command` otherwise."""
    if not np.isfinite(command.driven).all():
        refuse(controller, state, "torques that are not finite; return numbers")


def refuse(controller: Controller, state: State, wrong: str) -> None:
    """Raise an `InputError`: the controller returned `wrong` in this state."""
    raise InputError(f"{places.definition(controller)}at {state.t:.3f} s the controller returned {wrong}")


def _fault(command: Any, joints: int, feet: float) -> str:
    """Return the fault of an answer in words; "" if it has none."""
    if not isinstance(command, Command):
        return f"{type(command).__name__}; return a Command"
    for name in ROWS:
        values = getattr(command, name)
        if values is None and name != "tau":
            continue
        try:
            array = np.asarray(values)
        except ValueError:  # a list of lists of different lengths
            return f"{name} that is no array of {joints} numbers"
        if array.dtype.kind not in "fiu":
            return f"{name} of type {array.dtype.name}; return real numbers"
        if array.shape != (joints,):
            return f"{name} of shape {array.shape}, not ({joints},)"
    for name, types, words in SINGLE:
        if not isinstance(getattr(command, name), types):
            return f"{name} of type {type(getattr(command, name)).__name__}; it must be {words}"
    return "" if command.predicted is None else _misplaced(command.predicted, feet)


def _misplaced(forces: ContactForces, feet: float) -> str:
    """Return the fault of a controller's predicted forces in words; "" if they have none."""
    identity, force = np.asarray(forces.identity), np.asarray(forces.force)
    if identity.dtype.kind not in "iu" or force.dtype.kind not in "fiu" or force.shape != (*identity.shape, 3):
        return f"predicted.force of shape {force.shape} at predicted.identity of shape {identity.shape}"
    if any(not 0 <= i < feet for i in identity.ravel().tolist()):
        return f"predicted.identity {identity.tolist()}; the {feet} feet are numbered from 0"
    return ""
