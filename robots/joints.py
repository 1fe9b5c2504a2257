"""Per-joint values by name or pattern: of ``{"*" = 20, "*_HAA" = 23, "LF_HAA" = 5}`` the more specific applies."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

import numpy as np

from idcontrol.errors import InputError
from idcontrol.types import Array


def problems(values: Mapping[str, Any], joints: Sequence[str], where: str, *, complete: bool = True) -> list[str]:
    """The mistakes in a per-joint table.

    Args:
        values: Number by joint name or by pattern, in which ``*`` stands for any letters.
        joints: Names of the actuated joints.
        where: The table's key in the robot file, for the text.
        complete: True if every joint must get a value.

    Returns:
        One line for each key that matches nothing, each joint that two patterns match of which neither is more
        specific, and the joints without value.
    """
    found = []
    for key in values:
        if key not in joints and not any(fnmatchcase(joint, key) for joint in joints):
            near = difflib.get_close_matches(key, joints, n=1, cutoff=0.0)
            hint = f"the nearest is {near[0]}" if near else "the robot has no joints"
            found.append(f'{where}."{key}": matches no actuated joint; {hint}')
    for joint in joints:
        matching = keys(values, joint)
        if len(matching) > 1:
            found.append(
                f'{where}: joint {joint} is matched by "{matching[0]}" and "{matching[1]}"; name the joint itself'
            )
    bare = [joint for joint in joints if not keys(values, joint)]
    if bare and complete:
        found.append(f"{where}: no value for {', '.join(bare)}; name each, or add a pattern that matches")
    return found


def resolve(values: Mapping[str, float], joints: Sequence[str], where: str, *, default: float | None = None) -> Array:
    """The numbers of a per-joint table in the order of `joints`; of several patterns the narrowest applies.

    Args:
        values: Number by joint name or by pattern, in which ``*`` stands for any letters.
        joints: Names of the actuated joints.
        where: The table's key in the robot file, for the text of an error.
        default: Value of joints that get none; None means that all must get one.

    Returns:
        Shape (len(joints),).

    Raises:
        InputError: The table has a problem; the text is the first one's.
    """
    found = problems(values, joints, where, complete=default is None)
    if found:
        raise InputError(found[0])
    matching = [keys(values, joint) for joint in joints]
    return np.array([values[key[0]] if key else default for key in matching], dtype=np.float64)


def keys(values: Mapping[str, Any], joint: str) -> list[str]:
    """The keys that apply to a joint: its own name, else the narrowest patterns that match it."""
    if joint in values:
        return [joint]
    matching = [key for key in values if fnmatchcase(joint, key)]
    return [key for key in matching if not any(_narrower(other, key) for other in matching)]


def _narrower(one: str, other: str) -> bool:
    """True if pattern `other` matches all that pattern `one` does, and more."""
    return fnmatchcase(one, other) and not fnmatchcase(other, one)
