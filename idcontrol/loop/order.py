"""Machines whose joints are in another order, turn the other way, or have another zero.

A `MachineOrder` of the robot file says how; `translation` makes of it two maps between the values of datagrams as the
machine means them and as the loop does. Whatever else the loop has keeps its own order.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from idcontrol.dynamics.system import System
from idcontrol.errors import InputError
from idcontrol.loop.wire import Format, names_number
from idcontrol.robots.schema import MachineOrder
from idcontrol.types import Array, Integers


class Affine(NamedTuple):
    """A map of vectors: ``factor * values[source] + shift``."""

    source: Integers
    factor: Array
    shift: Array

    def __call__(self, values: Array) -> Array:
        """The image of `values`."""
        image: Array = self.factor * values[self.source] + self.shift
        return image


class Translation(NamedTuple):
    """The maps between a machine's datagrams and the loop's."""

    state: Affine
    """From a state of the machine to one in the loop's order."""
    command: Affine
    """From a command in the loop's order to one for the machine."""
    joints: float
    """Number of the machine's order (`idcontrol.loop.wire.names_number`)."""


def translation(order: MachineOrder, system: System, feet: tuple[str, ...], wire: Format) -> Translation:
    """The maps for a machine in an `order`.

    Raises:
        InputError: It does not name each joint and each foot once, or a joint that turns without end.
    """
    names = system.actuated_names
    if system.joint_circle.any():
        raise InputError("a robot whose joints turn without end cannot be put into another order")
    # at place p of the machine is joint `listed[p]`; joint i is at place `place[i]`
    listed = _permutation("joints", names, order.joints)
    walked = _permutation("feet", feet, order.feet or feet)
    for name in (*order.turned, *order.offset_rad):
        if name not in names:
            raise InputError(f"{name} is no joint of {wire.robot}; its joints are {', '.join(names)}")
    place, a = np.argsort(listed), len(names)
    sign = np.array([-1.0 if name in order.turned else 1.0 for name in names])
    offset = np.array([order.offset_rad.get(name, 0.0) for name in names])

    source, factor, shift = np.arange(wire.state_values), np.ones(wire.state_values), np.zeros(wire.state_values)
    q, v = 1 + system.joint_q, 1 + wire.nq + system.order[system.n_unactuated :]
    tau = 1 + wire.nq + wire.nv + np.arange(a)
    errors = 1 + wire.nq + wire.nv + a + 3 + 6 * wire.n_feet + np.arange(a)
    for slots in (q, v, tau, errors, errors + a):
        source[slots] = slots[place]
    for slots in (q, v, tau):
        factor[slots] = sign
    shift[q] = offset
    vectors = source[tau[-1] + 4 : errors[0]].reshape(2, len(feet), 3)  # forces, then normals
    vectors[:] = vectors[:, np.argsort(walked)]

    rows = np.arange(5 * a).reshape(5, a)[:, listed].ravel()
    own = np.stack((sign, sign, sign, np.ones(a), np.ones(a)))[:, listed]
    moved = np.zeros((5, a))
    moved[1] = -(sign * offset)[listed]
    return Translation(
        state=Affine(source, factor, shift),
        command=Affine(rows, own.ravel(), moved.ravel()),
        joints=names_number(order.joints),
    )


def _permutation(what: str, ours: tuple[str, ...], theirs: tuple[str, ...]) -> Integers:
    """Index among `ours` of each of `theirs`, which must be the same names."""
    if sorted(ours) != sorted(theirs):
        raise InputError(f"the order of the machine's {what} must name each of {', '.join(ours)} once")
    return np.array([ours.index(name) for name in theirs], dtype=np.int64)
