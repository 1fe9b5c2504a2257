"""Machines whose joints differ from the model in order, sign, zero or torque scale.

A `MachineOrder` of the robot file defines the order. `translation` builds the maps between datagram values in the
machine's order and in the loop's order.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from idcontrol.dynamics.system import System
from idcontrol.errors import InputError
from idcontrol.loop.wire import Format, names_number
from idcontrol.record.channels import span
from idcontrol.robots.schema import MachineOrder
from idcontrol.types import Array, Integers


class Affine(NamedTuple):
    """An affine map of vectors: ``factor * values[source] + shift``."""

    source: Integers
    factor: Array
    shift: Array

    def __call__(self, values: Array) -> Array:
        """Return the image of `values`."""
        image: Array = self.factor * values[self.source] + self.shift
        return image


class Translation(NamedTuple):
    """The maps between a machine's datagrams and the loop's datagrams."""

    state: Affine
    """Map from a state of the machine to a state in the loop's order."""
    command: Affine
    """Map from a command in the loop's order to a command for the machine."""
    joints: float
    """Checksum of the machine's order of joints (`idcontrol.loop.wire.names_number`)."""


def translation(order: MachineOrder, system: System, feet: tuple[str, ...], wire: Format) -> Translation:
    """Return the maps for a machine with the order `order`.

    Args:
        order: The machine's order of joints and feet, with signs, offsets and torque scales.
        system: Multibody system of the loop.
        feet: Names of the feet in the loop's order.
        wire: Format of the loop's datagrams.

    Raises:
        InputError: The robot has a continuous joint, the order does not name each joint and each foot once, it turns,
            offsets or scales an unknown joint, or a torque scale is not positive.
    """
    names = system.actuated_names
    if system.joint_circle.any():
        raise InputError("a robot with continuous joints cannot have another order of joints; leave loop.joints out")
    # position p of the machine is joint `listed[p]`; joint i is at position `place[i]`
    listed = _permutation("joints", names, order.joints)
    walked = _permutation("feet", feet, order.feet or feet)
    for name in (*order.turned, *order.offset_rad, *order.torque_scale):
        if name not in names:
            raise InputError(f"{name} is not a joint of {wire.robot}; its joints are {', '.join(names)}")
    for name, share in order.torque_scale.items():
        if not share > 0.0:  # the machine's own brake would push the joint
            raise InputError(f"torque_scale of {name} is {share:g}, not positive; correct its sign in the machine")
    place, a = np.argsort(listed), len(names)
    sign = np.array([-1.0 if name in order.turned else 1.0 for name in names])
    offset = np.array([order.offset_rad.get(name, 0.0) for name in names])
    scale = np.array([order.torque_scale.get(name, 1.0) for name in names])

    def slots(name: str, joints: Integers) -> Integers:
        return span(wire.state, (name,)).start + joints

    source, factor, shift = np.arange(wire.state_values), np.ones(wire.state_values), np.zeros(wire.state_values)
    q, v = slots("q", system.joint_q), slots("v", system.order[system.n_unactuated :])
    tau, errors, heat = (slots(name, np.arange(a)) for name in ("tau_applied", "drive_error", "temperature"))
    for joints in (q, v, tau, errors, heat):
        source[joints] = joints[place]
    factor[np.concatenate((q, v, tau))] = np.concatenate((sign, sign, sign * scale))
    shift[q] = offset
    vectors = source[span(wire.state, ("force_sensed", "normal_sensed"))].reshape(2, len(feet), 3)
    vectors[:] = vectors[:, np.argsort(walked)]

    rows = np.arange(5 * a).reshape(5, a)[:, listed].ravel()
    scaled = np.stack((sign / scale, sign, sign, 1.0 / scale, 1.0 / scale))[:, listed]
    moved = np.zeros((5, a))
    moved[1] = -(sign * offset)[listed]
    return Translation(
        state=Affine(source, factor, shift),
        command=Affine(rows, scaled.ravel(), moved.ravel()),
        joints=names_number(order.joints),
    )


def _permutation(what: str, ours: tuple[str, ...], theirs: tuple[str, ...]) -> Integers:
    """Return the index in `ours` of each name in `theirs`; raise `InputError` unless both contain the same names."""
    if sorted(ours) != sorted(theirs):
        raise InputError(f"the order of the machine's {what} must name each of {', '.join(ours)} once")
    return np.array([ours.index(name) for name in theirs], dtype=np.int64)
