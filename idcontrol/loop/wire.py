"""The datagrams between a loop and its machine, byte by byte, so that a program in any language can be either end.

Numbers are little endian. A datagram begins with a head of 48 bytes::

    offset  type    content
         0  char[4] magic "IDC2": the layout and its version
         4  uint16  kind: 1 a command (to the machine), 2 a state (from the machine)
         6  uint16  mode of the sender (`idcontrol.loop.safety.Mode`): 0 idle, 1 ready, 2 running, 3 damped, 4 stopped
         8  uint32  robot: CRC-32 of its name in UTF-8
        12  uint32  session: any number that the sender drew when it started
        16  uint64  sequence: 1, 2, 3, ... within the session
        24  int64   stamp: sending time on the sender's monotonic clock [ns]
        32  uint64  echo: sequence of the newest datagram accepted from the other side; 0 before the first
        40  uint32  count of values
        44  uint32  CRC-32 (as in zlib) of bytes 0 to 43 and the values

After the head, there are `count` float64 values. The values of a command are, with joints in the order of
`System.actuated_names`::

    tau (a)         feed-forward torques [N m]
    q (a), v (a)    positions and velocities that the drives hold [rad, rad/s]
    kp (a), kd (a)  gains of the drives [N m/rad, N m s/rad]

Gains are not negative, and at most the torque limit divided by `STIFFEST_RAD` (kp) or `STIFFEST_RAD_S` (kd), and at
most `LARGEST_GAIN`. Commands apply in mode 2: drives compute ``tau + kp (q - q_measured) + kd (v - v_measured)`` at 10
kHz or more, within the torque limits; with zero gains only the torque remains. In mode 3 the machine brakes its joints
by itself; in all other modes it applies no torque. The values of a state are::

    t               time of the machine [s]
    q (nq), v (nv)  configuration and velocity in Pinocchio's layout (`idcontrol.types.State`)
    tau (a)         torques applied in the last period, or at its start if they change during the period [N m]
    accelerometer (3)           specific force of the base (acceleration minus gravity), base axes [m/s²]
    force (n_feet, 3)           force of the ground on each foot, summed over a sole, world axes [N]
    normal (n_feet, 3)          contact normal at each foot; zero without contact
    drive_error (a)             error of each drive, an integer of up to 32 bits, defined by its maker; 0 is no error
    temperature (a)             highest measured temperature in each drive [°C]
    voltage                     supply voltage of the motors [V]
    estop                       1 while the emergency stop is pressed, otherwise 0
    axes (4)                    joystick, -1 to 1: forward, left, turn to the left, one free axis
    buttons                     joystick: bit i is button i, up to 32
    joints                      CRC-32 of the joints' names in the order above, separated by commas, in UTF-8
    model                       checksum of the machine's model (`model_number`)

From `drive_error` on, a value is NaN if the machine does not measure or know it; it is then not used. The accelerometer
may also be NaN if the loop does not estimate the base. If the machine does not know the position of its base, the base
is at zero; such a machine needs a loop that estimates the base. Before torques flow, the loop compares `joints` and
`model` with its own values (`Format.stranger`), and thus refuses a machine with its legs in another order.

A receiver reads datagrams one by one. It drops and counts datagrams that are short or long, damaged, of another
version, foreign (another kind or another robot), old (not newer than the last accepted datagram, or of another session)
or out of range. If the session of the other side is known, as for a plant that the loop has started, only this session
is accepted. Otherwise the first accepted datagram determines the session. A datagram whose sequence number is more than
`AHEAD` beyond the last is dropped, too. The next datagram is accepted if it continues from that number. One wrong
number thus does not make all later datagrams old.
"""

from __future__ import annotations

import enum
import struct
import zlib
from collections.abc import Iterable, Sequence
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
"""Largest gap of sequence numbers that is accepted without a second datagram: about a second for most loops."""

FARTHEST = 1e4
"""Largest position of a joint or of the base in a datagram [rad or m]."""
FASTEST = 1e3
"""Largest velocity in a datagram [rad/s, m/s]; only a diverged simulation exceeds it."""

STIFFEST_RAD, STIFFEST_RAD_S = 0.01, 0.5
"""Position and velocity errors at which the largest gains of a drive command its full torque [rad, rad/s]. Larger gains
would turn the noise of encoders into large torques."""
LARGEST_GAIN = 1e6
"""Largest gain of a drive, whatever its torque limit [N m/rad, N m s/rad]."""

AXES = 4
"""Number of joystick axes in a state."""

NOT_MEASURED = np.nan
"""Value in a state for a quantity that the machine does not measure."""

LAST_MODE = 4
"""The largest number of a mode in a datagram (stopped)."""


class Kind(enum.IntEnum):
    """The kind of a datagram."""

    COMMAND = 1
    STATE = 2


class Drop(enum.IntEnum):
    """The reason why a datagram was dropped."""

    SIZE = 0
    DAMAGED = 1
    FOREIGN = 2
    OLD = 3
    RANGE = 4
    VERSION = 5


class Datagram(msgspec.Struct, frozen=True):
    """An accepted datagram.

    Attributes:
        mode: Mode of the sender, a number of `idcontrol.loop.safety.Mode`.
        sequence: Sequence number of the datagram.
        stamp: Sending time on the sender's clock [ns].
        echo: Sequence number of the last datagram that the sender had accepted from the receiver; 0 before the first.
        values: Values of the datagram, shape (count,).
    """

    mode: int
    sequence: int
    stamp: int
    echo: int
    values: Array


class SessionNumbers(NamedTuple):
    """The session numbers of a conversation, as known to one side."""

    own: int
    """Any number below 2³² that differs from run to run."""
    other: int | None = None
    """Session number of the other side; None means the number in the first accepted datagram."""


def robot_number(name: str) -> int:
    """Return the CRC-32 of a robot's name in UTF-8."""
    return zlib.crc32(name.encode())


def names_number(names: Iterable[str]) -> float:
    """Return the CRC-32 of `names`, separated by commas, in UTF-8; it depends on their order."""
    return float(zlib.crc32(",".join(names).encode()))


def model_number(model: pin.Model) -> float:
    """Return a checksum of a Pinocchio model.

    The checksum is the CRC-32 of the joint names, separated by commas, followed by float64 numbers, little endian,
    rounded to 1e-6. The numbers are, for each joint except the universe, the translation of its placement, and the mass
    and centre of mass of its body.
    """
    numbers = [
        (*place.translation, body.mass, *body.lever)
        for place, body in zip(model.jointPlacements, model.inertias, strict=True)
    ]
    rounded = np.round(np.array(numbers[1:], dtype="<f8"), 6) + 0.0  # adding 0.0 removes negative zeros
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
        """Return the next datagram, with `values` and this head; the next call overwrites its bytes."""
        self.sequence += 1
        HEAD.pack_into(
            self._bytes, 0, MAGIC, self._kind, mode, self._robot, self._session, self.sequence, stamp, echo,
            len(self.values),
        )  # fmt: skip
        total = zlib.crc32(self._body, zlib.crc32(self._head))
        _SUM.pack_into(self._bytes, HEAD.size, total)
        return self._view


class Inbox:
    """Accepts good datagrams and drops bad datagrams.

    Attributes:
        accepted: Number of accepted datagrams.
        dropped: Number of dropped datagrams for each `Drop`, shape (6,).
    """

    def __init__(self, kind: Kind, robot: str, low: Array, high: Array, session: int | None = None) -> None:
        """Prepare for datagrams of one kind.

        Args:
            kind: Kind of the datagrams that are accepted.
            robot: Name of the only robot that is accepted.
            low: Smallest values of a datagram, shape (count,); NaN as in `within`.
            high: Largest values of a datagram, shape (count,).
            session: Number of the only session that is accepted; None means the session of the first accepted datagram.
        """
        self._kind, self._robot = kind, robot_number(robot)
        self._low, self._high, self._within = low, high, entry(within, low, np.empty(0), high)
        self._session = session
        self._last = self._far = 0
        self.accepted = 0
        self.dropped: Array = np.zeros(len(Drop))
        self._taken = b""

    def accept(self, data: bytes) -> Datagram | None:
        """Return the datagram in `data` if it is intact, new, in range and of the right sender.

        Otherwise count the datagram as dropped and return None.
        """
        judged = self._judge(data)
        if isinstance(judged, Drop):
            self.dropped[judged] += 1
            return None
        self.accepted += 1
        self._taken = data
        return judged

    def rehearse(self) -> None:
        """Judge the last accepted datagram again, so that the code is in the processor's caches for the next one."""
        if self._taken:
            self._last -= 1  # the datagram is new again; judging it restores the number
            self._judge(self._taken)

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
    """Return True if a datagram is intact, but its magic is of another version of the layout."""
    if len(data) < HEAD_BYTES or data[:3] != MAGIC[:3] or data[:4] == MAGIC:
        return False
    view = memoryview(data)
    total: int = _SUM.unpack_from(data, HEAD.size)[0]
    return total == zlib.crc32(view[HEAD_BYTES:], zlib.crc32(view[: HEAD.size]))


@njit(cache=True)
def within(low: Array, values: Array, high: Array) -> bool:  # pragma: no cover - compiled
    """Return True if ``low <= values <= high`` holds for each value; all arrays have shape (n,).

    A value whose `low` is NaN is optional: it may be NaN, or within ±`high`. Any other NaN is out of range.
    """
    inside = True
    for i in range(values.shape[0]):
        if np.isnan(low[i]):
            inside &= not abs(values[i]) > high[i]
        else:
            inside &= low[i] <= values[i] <= high[i]
    return inside


class Health(NamedTuple):
    """Values of drives, supply and joystick in a state; NaN means not measured."""

    drive_error: Array
    """Error of each drive, shape (a,); 0 is no error."""
    temperature: Array
    """Temperature of each drive, shape (a,) [°C]."""
    supply: Array
    """Voltage [V]; and 1 while the emergency stop is pressed, otherwise 0; shape (2,)."""
    operator: Array
    """Axes and buttons of the joystick, shape (5,)."""

    @property
    def axes(self) -> Array:
        """Return the axes of the joystick, shape (4,), -1 to 1; NaN without a joystick."""
        return self.operator[:AXES]


@dataclass(frozen=True, slots=True)
class Format:
    """Sizes and ranges of a machine's datagrams.

    Attributes:
        robot: Name of the robot.
        nq: Number of values of a configuration.
        nv: Number of values of a velocity.
        floating: True if the first seven values of a configuration are a position and a quaternion.
        torque_limit: Torque limit of each actuated joint, shape (a,) [N m]; inf for no limit.
        n_feet: Number of feet with force sensors.
        patch: Foot of each contact of plant and controller, shape (k,); None if each contact is a foot.
        joints: Checksum of the order of the joints (`names_number`); NaN if unknown.
        model: Checksum of the model (`model_number`); NaN if unknown.
        state: Shape of each part of a state by name, in the order of the datagram.
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
        """Lay out the values of a state."""
        a, foot = (len(self.torque_limit),), (self.n_feet, 3)
        state = {
            "t": (), "q": (self.nq,), "v": (self.nv,), "tau_applied": a, "accelerometer": (3,),
            "force_sensed": foot, "normal_sensed": foot, "drive_error": a, "temperature": a, "voltage": (), "estop": (),
            "axes": (AXES,), "buttons": (), "joints": (), "model": (),
        }  # fmt: skip
        object.__setattr__(self, "state", state)
        # computed once, because every tick reads a state
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
        """Return the number of values in a state about drives, supply and joystick."""
        return 2 * len(self.torque_limit) + 2 + AXES + 1

    def command_range(self) -> tuple[Array, Array]:
        """Return bounds of the values of a command, low and high, shape (command_values,)."""
        torque, one = self.torque_limit, np.ones_like(self.torque_limit)
        gains = np.minimum(np.concatenate((torque / STIFFEST_RAD, torque / STIFFEST_RAD_S)), LARGEST_GAIN)
        high = np.concatenate((torque, FARTHEST * one, FASTEST * one, gains))
        low = -high
        low[3 * len(one) :] = 0.0
        return low, high

    def state_range(self, unread: Sequence[str] = ()) -> tuple[Array, Array]:
        """Return bounds of the values of a state, low and high, shape (state_values,); no real machine exceeds them.

        The values named in `unread` may be NaN.
        """
        high = np.full(self.state_values, 1e6)
        of = views(high, self.state)
        of["q"][:], of["v"][:] = FARTHEST, FASTEST
        if self.floating:
            of["q"][3:7] = 2.0  # other norms than 1 have a fault of their own
        of["t"][...] = np.finfo(np.float64).max
        for word in ("drive_error", "buttons", "joints", "model"):
            of[word][...] = 2.0**32 - 1.0
        low = -high
        low[0] = 0.0
        low[-self.health_values - 2 :] = NOT_MEASURED
        for name in unread:
            views(low, self.state)[name][...] = NOT_MEASURED
        return low, high

    def health(self, values: Array) -> Health:
        """Return views of `values`, shape (state_values,), on drives, supply and joystick."""
        of = views(values, self.state)
        supply, operator = (values[span(self.state, names)] for names in (("voltage", "estop"), ("axes", "buttons")))
        return Health(of["drive_error"], of["temperature"], supply, operator)

    def stranger(self, values: Array) -> str:
        """Return why the values of a state (state_values,) belong to another machine; "" if no checksum says so."""
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
            out: Result, shape (state_values,).
            state: The state.
            tau: Torques that were applied, shape (a,) [N m].
            accelerometer: Specific force of the base, base axes, shape (3,) [m/s²].
            health: Values of drives, supply and joystick, shape (health_values,); None if they are not measured.
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
        """Return the content of a state datagram, with its time relative to `since` [s].

        Arrays of the result are views of `values`, except the contact forces.
        """
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
    """Return indices, forces and normals of the touching feet, given forces, then normals, of all feet (6 n_feet,)."""
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
