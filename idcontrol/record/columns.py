"""The name and unit of each number in a channel, for tables."""

import itertools
import math
from collections.abc import Mapping, Sequence

import numpy as np

from idcontrol.record.metrics import SOLES, Layout

Column = str | tuple[str, ...]
"""Name of a number: one word, or a pair such as (foot, axis) in a channel with one vector per foot."""

AXES = ("x", "y", "z")
PLACE: Mapping[Column, str] = {"x": "m", "y": "m", "z": "m", "qx": "", "qy": "", "qz": "", "qw": ""}
"""A pose: position in the world, unit quaternion."""
MOTION: Mapping[Column, str] = {"vx": "m/s", "vy": "m/s", "vz": "m/s", "wx": "rad/s", "wy": "rad/s", "wz": "rad/s"}
"""A base's linear and angular velocity, base axes."""
COMMAND: Mapping[Column, str] = {"ahead": "m/s", "left": "m/s", "turn": "rad/s"}
"""The commanded velocity of a robot."""
OF_BASE: Mapping[str, Mapping[Column, str]] = {
    "base_ref": {"x": "m", "y": "m", "z": "m", "yaw": "rad"},
    "com": dict.fromkeys(AXES, "m"),
    "target": {"x": "m", "y": "m"},
    "segment": {"x": "m", "y": "m"},
    "commanded": COMMAND,
    "granted": COMMAND,
}
"""Channels of a walk whose numbers belong to neither joints nor feet, with the names and units of the numbers."""
PER_JOINT = (
    "q_des", "v_des", "a_des", "tau", "tau_wanted", "torque_off", "torque_lost", "cut_ticks", "tau_applied",
)  # fmt: skip
SENT: Mapping[str, str] = {"tau": "N m", "q": "rad", "v": "rad/s", "kp": "N m/rad", "kd": "N m s/rad"}
"""The rows of a command to the drives, with their units."""
PER_FOOT = ("stance", "gap", "slip")
PER_FOOT_AND_AXIS = ("feet", "feet_des", "force", "force_pred", *SOLES)


def columns_of(channel: str, shape: Sequence[int], unit: str, layout: Layout | None) -> dict[Column, str]:
    """Return the units of the numbers in a channel, keyed by the numbers' names, in the order of a row.

    In the known channels of a walk, numbers are named after joints, feet and axes. In channels ``pose_...``, the names
    are in `PLACE`. All other numbers are named after the channel: ``t``, or with an index ``tau[0]``.

    Args:
        channel: Name of the channel.
        shape: Shape of a row.
        unit: Unit of the channel.
        layout: Layout of the walk; None if the run is not a walk.
    """
    names: dict[Column, str] = {} if layout is None else _of_a_walk(channel, shape, unit, layout)
    if channel.startswith("pose_"):
        names = dict(PLACE)
    if len(names) == math.prod(shape):
        return names
    return {channel + "".join(f"[{index}]" for index in place): unit for place in np.ndindex(*shape)}


def _of_a_walk(channel: str, shape: Sequence[int], unit: str, layout: Layout) -> dict[Column, str]:
    """Return names and units of the numbers in a channel of a walk; an empty dictionary for unknown channels."""
    if channel in PER_JOINT:
        return dict.fromkeys(layout.joints, unit)
    if channel == "sent":
        return {(row, joint): of for row, of in SENT.items() for joint in layout.joints}
    if channel in PER_FOOT:
        return dict.fromkeys(layout.feet, unit)
    if channel in PER_FOOT_AND_AXIS:
        return dict.fromkeys(itertools.product(layout.feet, AXES), unit)
    if channel in ("q", "q_machine", "q_sensed"):
        return _of_state(shape[0], PLACE, layout.joint_q, layout.joints, "rad")
    if channel in ("v", "v_machine", "v_sensed"):
        return _of_state(shape[0], MOTION, layout.joint_v, layout.joints, "rad/s")
    return dict(OF_BASE.get(channel, {}))


def _of_state(
    size: int, base: Mapping[Column, str], places: Sequence[int], joints: Sequence[str], unit: str
) -> dict[Column, str]:
    """Return names and units of `size` numbers of a configuration or velocity.

    Args:
        size: Number of values.
        base: Names and units of the base's values; they fill the indices that belong to no joint.
        places: Index of each joint.
        joints: Names of the joints.
        unit: Unit of the joints' values.
    """
    at, rest = dict(zip(places, joints, strict=True)), iter(base.items())
    columns: dict[Column, str] = {}
    for k in range(size):
        if k in at:
            columns[at[k]] = unit
        else:
            name, of = next(rest, (f"[{k}]", ""))
            columns[f"base_{name}"] = of
    return columns
