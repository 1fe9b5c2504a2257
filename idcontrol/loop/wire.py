"""The datagrams between a loop and its machine, byte by byte, for programs in any language at either end.

Little endian. A head of 48 bytes::

    offset  type    what
         0  char[4] magic "IDC2": the layout and its version
         4  uint16  kind: 1 a command (to the machine), 2 a state (from it)
         6  uint16  mode of the sender (`idcontrol.loop.safety.Mode`): 0 idle, 1 ready, 2 running, 3 damped, 4 stopped
         8  uint32  robot: CRC-32 of its name in UTF-8
        12  uint32  session: any number that the sender drew when it began
        16  uint64  sequence: 1, 2, 3, ... within the session
        24  int64   stamp: when it was sent, on the sender's monotonic clock [ns]
        32  uint64  echo: sequence of the newest datagram that the sender has accepted from the other side; 0 is none
        40  uint32  count of values
        44  uint32  CRC-32 (that of zlib) of bytes 0 to 43 and the values

then `count` float64 values. A command has, one after the other, joints in the order of `System.actuated_names`::

    tau (a)         feed-forward torques [N m]
    q (a), v (a)    positions and velocities that the drives hold [rad, rad/s]
    kp (a), kd (a)  their gains [N m/rad, N m s/rad]

They hold in mode 2: drives compute ``tau + kp (q - q_measured) + kd (v - v_measured)`` at 10 kHz or more, within the
torque limits; with gains of zero that is the torque alone. In mode 3 the machine brakes its joints by itself, in the
others it gives no torque. A state has, one after the other::

    t               time of the machine [s]
    q (nq), v (nv)  configuration and velocity as Pinocchio has them (`idcontrol.types.State`)
    tau (a)         torques that were applied in the last period, or at its beginning where they change [N m]
    accelerometer (3)           specific force of the base (acceleration without gravity's), its own axes [m/s²]
    force (n_feet, 3)           force of the ground on each foot, of a sole on all of it, world axes [N]
    normal (n_feet, 3)          contact normal at each foot; zero where the foot has no contact
    drive_error (a)             error of each drive, a whole number of up to 32 bits in its maker's meaning; 0 is none
    temperature (a)             of the warmest part of each drive that is measured [°C]
    voltage                     of the motors' supply [V]
    estop                       1 while the emergency stop is pressed, else 0
    axes (4)                    joystick, -1 to 1: forward, left, turn to the left, one that is free
    buttons                     joystick: bit i is button i, up to 32
    joints                      CRC-32 of the joints' names in the order above, with commas between, in UTF-8
    model                       a number of the machine's model (`model_number`)

From `drive_error` on, NaN means not measured, and the value is not used. A machine that does not know its base's
position sends zero; it needs a loop that estimates the position. Before torques flow the loop compares `joints` and
`model` with its own (`Format.stranger`), so that legs in another order are refused.

A receiver takes datagrams one by one. It drops and counts a datagram that has the wrong length, is damaged, of another
version, foreign (another kind or robot), old (not newer than the last accepted, or of another session) or out of range.
A plant that the loop has started has a known session; otherwise the first accepted datagram sets it. A sequence number
more than `AHEAD` beyond the last one is accepted once the next datagram continues it, so that a single wrong number
does not make all later datagrams old.
"""

from __future__ import annotations

import enum
import struct
import zlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec
import numpy as np
import pinocchio as pin

from idcontrol.kernels.bound import entry
from idcontrol.kernels.jit import njit
from idcontrol.record.channels import span, views, width
from idcontrol.types import Array, ContactForces, Integers, Sensed, State

MAGIC = b"IDC2"
HEAD = struct.Struct("<4sHHIIQqQI")
"""The head of a datagram without its checksum."""
_SUM = struct.Struct("<I")
_WHOLE = struct.Struct(HEAD.format + "I")
HEAD_BYTES = _WHOLE.size
VALUES = np.dtype("<f8")
"""The type of the values."""
LARGEST = 65_507
"""The longest datagram that UDP can carry [bytes]."""


AHEAD = 1000
"""Largest gap of sequence numbers between two datagrams before the newer one is doubted: about a second in most loops.
A side that sends this many times faster than the other would never be accepted."""

FASTEST = 1e3
"""Largest velocity in a state [rad/s, m/s]: only a diverged simulation exceeds it."""

AXES = 4
"""Axes of a joystick in a state."""

NOT_MEASURED = np.nan
"""Value in a state for anything not measured."""

LAST_MODE = 4
"""The largest number of a mode: stopped."""


class Kind(enum.IntEnum):
    """The kind of a datagram."""

    COMMAND = 1
    STATE = 2


class Drop(enum.IntEnum):
    """Why a datagram was dropped."""

    SIZE = 0
    DAMAGED = 1
    FOREIGN = 2
    OLD = 3
    RANGE = 4
    VERSION = 5


class Datagram(msgspec.Struct, frozen=True):
    """An accepted datagram.

    Attributes:
        mode: Mode of the sender.
        sequence: Its sequence number.
        stamp: Sending time on the sender's clock [ns].
        echo: Sequence number of our newest datagram that the sender had accepted.
        values: Its values, shape (count,).
    """

    mode: int
    sequence: int
    stamp: int
    echo: int
    values: Array


class SessionNumbers(NamedTuple):
    """The session numbers of a conversation, from the view of one side."""

    own: int
    """Any number below 2³² that differs from run to run."""
    other: int | None = None
    """Number of the other side's session; None takes the first accepted datagram's."""


def robot_number(name: str) -> int:
    """Return the number that stands for a robot's name in a datagram."""
    return zlib.crc32(name.encode())


def names_number(names: Iterable[str]) -> float:
    """Return the number that stands for names in their order: CRC-32 of them with commas between."""
    return float(zlib.crc32(",".join(names).encode()))


def model_number(model: pin.Model) -> float:
    """Return the number that stands for a Pinocchio model.

    It is the CRC-32 of the names of its joints with commas between, then of float64 numbers, little endian, rounded to
    1e-6: for each joint except the universe, the translation of its placement and the mass and centre of mass of its
    body.
    """
    numbers = [
        (*place.translation, body.mass, *body.lever)
        for place, body in zip(model.jointPlacements, model.inertias, strict=True)
    ]
    rounded = np.round(np.array(numbers[1:], dtype="<f8"), 6) + 0.0  # adding zero removes negative zeros
    return float(zlib.crc32(rounded.tobytes(), zlib.crc32(",".join(model.names[1:]).encode())))


class Outbox:
    """Numbers, stamps and seals datagrams of one kind.

    Attributes:
        values: Values of the next datagram, to be filled before `seal`, shape (count,).
        sequence: Sequence number of the last datagram.
    """

    def __init__(self, kind: Kind, robot: str, count: int, session: int) -> None:
        """Prepare datagrams of `count` values; `session` is any number below 2³² that differs from run to run."""
        self._kind, self._robot, self._session = kind, robot_number(robot), session & 0xFFFFFFFF
        self._bytes = bytearray(HEAD_BYTES + 8 * count)
        self._view = memoryview(self._bytes)
        self._head, self._body = self._view[: HEAD.size], self._view[HEAD_BYTES:]
        self.values: Array = np.frombuffer(self._bytes, VALUES, -1, HEAD_BYTES)
        self.sequence = 0

    def seal(self, mode: int, stamp: int, echo: int) -> memoryview:
        """Return the next datagram; the next call overwrites its bytes."""
        self.sequence += 1
        HEAD.pack_into(
            self._bytes, 0, MAGIC, self._kind, mode, self._robot, self._session, self.sequence, stamp, echo,
            len(self.values),
        )  # fmt: skip
        total = zlib.crc32(self._body, zlib.crc32(self._head))
        _SUM.pack_into(self._bytes, HEAD.size, total)
        return self._view


class Inbox:
    """Accepts good datagrams and drops bad ones.

    Attributes:
        accepted: Number of accepted datagrams.
        dropped: Number of dropped datagrams for each `Drop`, shape (6,).
    """

    def __init__(self, kind: Kind, robot: str, low: Array, high: Array, session: int | None = None) -> None:
        """Prepare for datagrams of one kind.

        Args:
            kind: Accepted kind of datagrams.
            robot: Name of the accepted robot.
            low: Least value of each entry, shape (count,).
            high: Largest value of each entry, shape (count,).
            session: Number of the accepted session; None takes the first accepted datagram's.
        """
        self._kind, self._robot = kind, robot_number(robot)
        self._low, self._high, self._within = low, high, entry(within, low, np.empty(0), high)
        self._session = session
        self._last = self._far = 0
        self.accepted = 0
        self.dropped: Array = np.zeros(len(Drop))

    def accept(self, data: bytes) -> Datagram | None:
        """Return a datagram if it is intact, new and from the right sender; else count it and return None."""
        judged = self._judge(data)
        if isinstance(judged, Drop):
            self.dropped[judged] += 1
            return None
        self.accepted += 1
        return judged

    def _judge(self, data: bytes) -> Datagram | Drop:
        if _of_another_version(data):
            return Drop.VERSION
        if len(data) != HEAD_BYTES + 8 * len(self._low):
            return Drop.SIZE
        magic, kind, mode, robot, session, sequence, stamp, echo, count, total = _WHOLE.unpack_from(data)
        view = memoryview(data)
        if magic != MAGIC or zlib.crc32(view[HEAD_BYTES:], zlib.crc32(view[: HEAD.size])) != total:
            return Drop.DAMAGED
        if kind != self._kind or robot != self._robot or count != len(self._low):
            return Drop.FOREIGN
        if (self._session is not None and session != self._session) or sequence <= self._last:
            return Drop.OLD
        values: Array = np.frombuffer(data, VALUES, -1, HEAD_BYTES).copy()
        if mode > LAST_MODE or not self._within(self._low, values, self._high):
            return Drop.RANGE
        if sequence - self._last > AHEAD and not 0 < sequence - self._far <= AHEAD:
            self._far = sequence
            return Drop.OLD
        self._session, self._last = session, sequence
        return Datagram(mode=mode, sequence=sequence, stamp=stamp, echo=echo, values=values)


def _of_another_version(data: bytes) -> bool:
    """True if a datagram is whole, but of another version of this layout, with the same head."""
    if len(data) < HEAD_BYTES or data[:3] != MAGIC[:3] or data[:4] == MAGIC:
        return False
    view = memoryview(data)
    total: int = _SUM.unpack_from(data, HEAD.size)[0]
    return total == zlib.crc32(view[HEAD_BYTES:], zlib.crc32(view[: HEAD.size]))


@njit(cache=True)
def within(low: Array, values: Array, high: Array) -> bool:  # pragma: no cover - compiled
    """True if ``low <= values <= high`` holds for each value.

    A NaN in `low` marks a value that need not be measured: it may be NaN, or within ±`high`.
    """
    inside = True
    for i in range(values.shape[0]):
        if np.isnan(low[i]):
            inside &= not abs(values[i]) > high[i]
        else:
            inside &= low[i] <= values[i] <= high[i]
    return inside


class Health(NamedTuple):
    """The part of a state about drives, supply and joystick; NaN means not measured."""

    drive_error: Array
    """Error of each drive, shape (a,); 0 is none."""
    temperature: Array
    """Temperature of each drive, shape (a,) [°C]."""
    supply: Array
    """Voltage [V], and 1 while the emergency stop is pressed, shape (2,)."""
    operator: Array
    """Axes and buttons of the joystick, shape (5,)."""

    @property
    def axes(self) -> Array:
        """Return axes of the joystick, shape (4,), -1 to 1."""
        return self.operator[:AXES]


@dataclass(frozen=True, slots=True)
class Format:
    """Sizes and ranges of a machine's datagrams.

    Attributes:
        robot: Name.
        nq: Values of a configuration.
        nv: Values of a velocity.
        floating: True if the first seven values of a configuration are a position and a quaternion.
        torque_limit: Torque limit of each actuated joint, shape (a,) [N m]; inf for no limit.
        n_feet: Feet with force sensors.
        patch: Foot of each contact of plant and controller, shape (k,); None if each contact is a foot.
        joints: Number of the joints' order (`names_number`); NaN if unknown.
        model: Number of the model (`model_number`); NaN if unknown.
        state: Names and shapes of the values of a state, side by side in this order.
    """

    robot: str
    nq: int
    nv: int
    floating: bool
    torque_limit: Array
    n_feet: int
    patch: Integers | None = None
    joints: float = NOT_MEASURED
    model: float = NOT_MEASURED
    state: dict[str, tuple[int, ...]] = field(init=False, repr=False, compare=False)
    _parts: tuple[slice, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Lay out a state."""
        a, foot = (len(self.torque_limit),), (self.n_feet, 3)
        state = {
            "t": (), "q": (self.nq,), "v": (self.nv,), "tau_applied": a, "accelerometer": (3,),
            "force_sensed": foot, "normal_sensed": foot, "drive_error": a, "temperature": a, "voltage": (), "estop": (),
            "axes": (AXES,), "buttons": (), "joints": (), "model": (),
        }  # fmt: skip
        object.__setattr__(self, "state", state)
        # cached, as a state is read in every tick
        read = ("q",), ("v",), ("tau_applied",), ("accelerometer",), ("force_sensed", "normal_sensed")
        object.__setattr__(self, "_parts", tuple(span(state, names) for names in read))

    @property
    def command_values(self) -> int:
        """Return the number of values of a command."""
        return 5 * len(self.torque_limit)

    @property
    def state_values(self) -> int:
        """Return the number of values of a state."""
        return width(self.state)

    @property
    def health_values(self) -> int:
        """Return the number of values about drives, supply and joystick."""
        return 2 * len(self.torque_limit) + 2 + AXES + 1

    def command_range(self) -> tuple[Array, Array]:
        """Return the least and largest values of a command: a gain is not negative."""
        one = np.ones_like(self.torque_limit)
        high = np.concatenate((self.torque_limit, 1e4 * one, FASTEST * one, 1e6 * one, 1e6 * one))
        low = -high
        low[3 * len(one) :] = 0.0
        return low, high

    def state_range(self) -> tuple[Array, Array]:
        """Return the least and largest values of a state, which no real machine exceeds."""
        high = np.full(self.state_values, 1e6)
        of = views(high, self.state)
        of["q"][:], of["v"][:] = 1e4, FASTEST
        if self.floating:
            of["q"][3:7] = 1.0 + 1e-6
        of["t"][...], of["axes"][:] = np.finfo(np.float64).max, 1.0
        for word in ("drive_error", "buttons", "joints", "model"):
            of[word][...] = 2.0**32 - 1.0
        low = -high
        low[0] = 0.0
        low[-self.health_values - 2 :] = NOT_MEASURED
        return low, high

    def health(self, values: Array) -> Health:
        """Return views of drives, supply and joystick in the `values` of a state, shape (state_values,)."""
        of = views(values, self.state)
        supply, operator = (values[span(self.state, names)] for names in (("voltage", "estop"), ("axes", "buttons")))
        return Health(of["drive_error"], of["temperature"], supply, operator)

    def stranger(self, values: Array) -> str:
        """Return why a state, shape (state_values,), comes from another machine; "" if it does not."""
        joints, model = values[-2:]
        if not np.isnan(joints) and joints != self.joints:
            return "has other joints, or in another order"
        if not np.isnan(model) and model != self.model:
            return "has another model (masses, or places of joints)"
        return ""

    def write_state(
        self, out: Array, state: State, tau: Array, accelerometer: Array, health: Array | None = None
    ) -> None:
        """Fill the values of a state datagram.

        Args:
            out: Shape (state_values,).
            state: The state.
            tau: Torques that were applied, shape (a,) [N m].
            accelerometer: Specific force of the base, base axes, shape (3,) [m/s²].
            health: Values about drives, supply and joystick, shape (health_values,); None if none is measured.
        """
        q, v, applied, specific, feet = self._parts
        out[0], out[q], out[v], out[applied], out[specific] = state.t, state.q, state.v, tau, accelerometer
        felt = out[feet].reshape(2, self.n_feet, 3)
        felt[:] = 0.0
        if state.forces is not None and self.n_feet:
            felt[0, state.forces.identity], felt[1, state.forces.identity] = state.forces.force, state.forces.normal
        out[feet.stop : -2] = NOT_MEASURED if health is None else health
        out[-2:] = self.joints, self.model

    def read_state(self, values: Array, since: float = 0.0) -> Sensed:
        """Read the values of a state datagram, its time counted from `since` [s]; the result's arrays are views."""
        q, v, tau, accelerometer, feet = self._parts
        identity, force, normal = _touching(values[feet])
        forces = ContactForces(identity=identity, force=force, normal=normal)
        return Sensed(
            state=State(t=float(values[0]) - since, q=values[q], v=values[v], forces=forces),
            tau=values[tau],
            accelerometer=values[accelerometer],
        )


@njit(cache=True)
def _touching(feet: Array) -> tuple[Integers, Array, Array]:  # pragma: no cover - compiled
    """Return number, force and normal of the touching feet, from the end of a state (6 n_feet,)."""
    n = feet.shape[0] // 6
    identity, force, normal = np.empty(n, np.int64), np.empty((n, 3)), np.empty((n, 3))
    count = 0
    for i in range(n):
        at, up = 3 * i, 3 * (n + i)
        if feet[up] != 0.0 or feet[up + 1] != 0.0 or feet[up + 2] != 0.0:
            identity[count] = i
            for k in range(3):  # assigning slices would also compile error messages for wrong shapes
                force[count, k], normal[count, k] = feet[at + k], feet[up + k]
            count += 1
    return identity[:count], force[:count], normal[:count]
