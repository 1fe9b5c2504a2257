"""Per-joint values by name or pattern; the most specific key applies: ``{"*" = 20, "*_HAA" = 23, "LF_HAA" = 5}``."""

from __future__ import annotations

import difflib
import functools
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

import numpy as np

from idcontrol.errors import InputError
from idcontrol.types import Array


def problems(values: Mapping[str, Any], joints: Sequence[str], where: str, *, complete: bool = True) -> list[str]:
    """Return the mistakes in a per-joint table.

    Args:
        values: Number by joint name or by pattern, in which ``*`` matches any characters.
        joints: Names of the actuated joints.
        where: The table's key in the robot file, for messages.
        complete: True if every joint must get a value.

    Returns:
        One line for each key without a match, and one for each joint with two or more equally specific patterns; if
        `complete`, also one line that names all joints without a value.
    """
    mistakes = []
    for key in values:
        if key not in joints and not any(fnmatchcase(joint, key) for joint in joints):
            suggestions = difflib.get_close_matches(key, joints, n=1, cutoff=0.0)
            hint = f"the nearest is {suggestions[0]}" if suggestions else "the robot has no joints"
            mistakes.append(f'{where}."{key}": matches no actuated joint; {hint}')
    for joint in joints:
        matching = keys(values, joint)
        if len(matching) > 1:
            mistakes.append(
                f'{where}: joint {joint} is matched by "{matching[0]}" and "{matching[1]}"; name the joint itself'
            )
    bare = [joint for joint in joints if not keys(values, joint)]
    if bare and complete:
        mistakes.append(f"{where}: no value for {', '.join(bare)}; name each, or add a pattern that matches")
    return mistakes


def resolve(values: Mapping[str, float], joints: Sequence[str], where: str, *, default: float | None = None) -> Array:
    """Return the numbers of a per-joint table in the order of `joints`; the most specific pattern applies.

    Args:
        values: Number by joint name or by pattern, in which ``*`` matches any characters.
        joints: Names of the actuated joints.
        where: The table's key in the robot file, for messages.
        default: Value of joints without an entry; None if every joint needs an entry.

    Returns:
        Shape (len(joints),).

    Raises:
        InputError: The table has mistakes; the message describes the first mistake.
    """
    mistakes = problems(values, joints, where, complete=default is None)
    if mistakes:
        raise InputError(mistakes[0])
    matching = [keys(values, joint) for joint in joints]
    return np.array([values[key[0]] if key else default for key in matching], dtype=np.float64)


def keys(values: Mapping[str, Any], joint: str) -> list[str]:
    """Return the keys that apply to a joint: its name, or the most specific matching patterns."""
    return [joint] if joint in values else list(_narrowest(tuple(values), joint))


@functools.lru_cache(maxsize=1 << 14)  # a humanoid's tables ask a thousand times for each system
def _narrowest(patterns: tuple[str, ...], joint: str) -> tuple[str, ...]:
    matching = [pattern for pattern in patterns if fnmatchcase(joint, pattern)]
    return tuple(one for one in matching if not any(_narrower(other, one) for other in matching))


def _narrower(one: str, other: str) -> bool:
    """True if pattern `other` matches all names that pattern `one` matches, and more."""
    return fnmatchcase(one, other) and not fnmatchcase(other, one)
