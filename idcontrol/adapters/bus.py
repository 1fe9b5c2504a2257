"""Connect a loop to a robot on a bus: convert between the loop's datagrams and Unitree's DDS messages.

::

    idcontrol loop  <── UDP, idcontrol.loop.wire ──>  idcontrol bus  <── DDS, idcontrol.adapters.unitree ──>  robot

The loop sees the `Bridge` as its machine (`idcontrol.loop.machine`). The bridge sends no message to the robot until the
loop runs. It forwards the newest state of the robot to the loop and, while the loop runs, the newest command of the
loop to the robot. If the loop is silent or brakes, the bridge brakes the joints with the damping of the robot's
drives; at the end it turns the motors off. If the robot is silent, the bridge is also silent, and the loop brakes.

A message on ``rt/lowcmd`` moves every robot that receives it. Messages therefore stay on this computer unless an
interface is named.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import os
import secrets
import select
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np

from idcontrol.adapters import unitree
from idcontrol.adapters.unitree import LOW_CMD, LOW_STATE, OFF, SERVO, Message
from idcontrol.errors import InputError, install_command
from idcontrol.loop import realtime
from idcontrol.loop.clock import NS
from idcontrol.loop.machine import WATCHDOG, follow
from idcontrol.loop.order import translation
from idcontrol.loop.safety import Mode, Safety
from idcontrol.loop.session import Session, wire_format
from idcontrol.loop.stop import Stop
from idcontrol.loop.transport import Endpoint, Link
from idcontrol.loop.transport.udp import Address, UdpLink
from idcontrol.loop.wire import Inbox, Kind, Outbox, SessionNumbers
from idcontrol.types import Array, Integers

ORDER = "unitree"
"""Name of the joint order in the robot file."""
KEPT = 64
"""Largest number of received messages that wait to be read; the oldest are dropped first."""
LOOK_S = 2e-3
"""Period at which the bridge checks both sides for silence [s]; messages are forwarded immediately."""
LITTLE_ENDIAN = b"\0\1\0\0"
"""Header of a message in CDR, the encoding of DDS messages (OMG XTypes, 7.4)."""
_ONLY_HERE = """
<General><AllowMulticast>false</AllowMulticast>
<Interfaces><NetworkInterface address="127.0.0.1"/></Interfaces></General>
<Discovery><ParticipantIndex>auto</ParticipantIndex><Peers><Peer Address="127.0.0.1"/></Peers></Discovery>
"""
_AT = '<General><Interfaces><NetworkInterface name="{}"/></Interfaces></General>'


def places(layout: np.dtype[Any]) -> Integers:
    """Return the offset in `layout` of each byte of a CDR message after its header; -1 for padding.

    The result has the shape (bytes after the header,). Like C, CDR aligns every number to its size; unlike C, it does
    not align structures.
    """
    positions: list[int] = []

    def walk(part: np.dtype[Any], at: int) -> None:
        if part.subdtype is not None:
            base, (count,) = part.subdtype
            for i in range(count):
                walk(base, at + i * base.itemsize)
        elif part.fields is not None:
            for kind, offset, *_ in part.fields.values():
                walk(kind, at + offset)
        else:
            positions.extend([-1] * (-len(positions) % part.itemsize))
            positions.extend(range(at, at + part.itemsize))

    walk(layout, 0)
    return np.array(positions)


@functools.cache
def idl_type(layout: np.dtype[Any]) -> Any:
    """Return the type that Cyclone DDS announces on the bus for `layout`; messages are encoded by `_sample`."""
    from cyclonedds.idl import annotations, make_idl_struct, types

    if layout.subdtype is not None:
        base, (count,) = layout.subdtype
        return types.array[idl_type(base), count]
    if layout.fields is None:
        return getattr(types, layout.name)
    name = unitree.NAMES[layout]
    fields = {field: idl_type(kind) for field, (kind, *_) in layout.fields.items()}
    return annotations.final(
        annotations.autoid("sequential")(make_idl_struct(name, f"{unitree.MODULE}.{name}", fields))
    )


@functools.cache
def _sample(layout: np.dtype[Any]) -> Any:
    """Return the type of messages with this layout; their `message` is a record, or None if its bytes are unreadable.

    The type converts whole messages. Cyclone DDS takes 0.25 ms to convert a message number by number, and 0.02 ms to
    pass on bytes.
    """
    place = places(layout)
    there = place >= 0

    class Sample(idl_type(layout)):  # type: ignore[misc]
        def __init__(self, message: Message | None) -> None:
            self.message = message

        def serialize(self, *_: Any, **__: Any) -> bytes:
            assert self.message is not None
            inside = np.frombuffer(self.message.tobytes(), dtype=np.uint8)
            return LITTLE_ENDIAN + np.where(there, inside[place], np.uint8(0)).tobytes()

        @classmethod
        def deserialize(cls, data: bytes, *_: Any, **__: Any) -> Sample:
            if not data[1] & 1 or len(data) < 4 + place.size:  # the data are big-endian or too short
                return cls(None)
            inside = np.zeros(layout.itemsize, dtype=np.uint8)
            inside[place[there]] = np.frombuffer(data, dtype=np.uint8, offset=4, count=place.size)[there]
            return cls(inside.view(layout)[0])

        @classmethod
        def deserialize_key(cls, *_: Any, **__: Any) -> Sample:
            return cls(None)  # a writer has left: the bus reports this by a sample without a message

    return Sample


class Bus:
    """A connection to the bus that writes commands and reads states, or vice versa if it acts as the robot.

    Attributes:
        damaged: Number of messages dropped because they were unreadable or had a wrong checksum.
    """

    def __init__(self, *, robot: bool, interface: str | None = None, domain: int = 0) -> None:
        """Join the bus.

        Args:
            robot: True to act as the robot, which reads commands and writes states.
            interface: Network interface to the robot; None for messages on this computer only.
            domain: Number of the DDS domain.

        Raises:
            InputError: Cyclone DDS is not installed, or cannot use the interface.
        """
        if importlib.util.find_spec("cyclonedds") is None:
            raise InputError(f"the bus needs the package cyclonedds: {install_command('bus')}")
        from cyclonedds.core import DDSException, Listener
        from cyclonedds.domain import Domain, DomainParticipant
        from cyclonedds.pub import DataWriter
        from cyclonedds.qos import Policy as Wanted
        from cyclonedds.qos import Qos
        from cyclonedds.sub import DataReader
        from cyclonedds.topic import Topic

        settings = _ONLY_HERE if interface is None else _AT.format(interface)
        try:
            self._domain = Domain(domain, f"<CycloneDDS><Domain>{settings}</Domain></CycloneDDS>")
            self._member = member = DomainParticipant(domain)
        except DDSException as error:
            raise InputError(f"DDS cannot use the interface {interface or 'lo'}: {error}") from error
        self.damaged = 0
        command, state = (Topic(member, topic, _sample(layout)) for topic, layout in
                          ((unitree.LOW_CMD_TOPIC, LOW_CMD), (unitree.LOW_STATE_TOPIC, LOW_STATE)))  # fmt: skip
        self._robot = robot
        self._taken, self._sample = (_sample(layout) for layout in
                                     ((LOW_CMD, LOW_STATE) if robot else (LOW_STATE, LOW_CMD)))  # fmt: skip
        self._writer = DataWriter(member, state if robot else command)
        # a thread of DDS signals new messages; the bridge's thread can wait for this signal
        self._come = come = os.eventfd(0, os.EFD_NONBLOCK)
        self._listener = Listener(on_data_available=lambda _: os.eventfd_write(come, 1))
        self._reader = DataReader(
            member, command if robot else state, Qos(Wanted.History.KeepLast(KEPT)), listener=self._listener
        )

    def close(self) -> None:
        """Leave the bus."""
        del self._reader, self._listener, self._writer, self._member, self._domain
        os.close(self._come)

    def fileno(self) -> int:
        """Return the descriptor that becomes readable when a message arrives, for `select`."""
        return self._come

    def put(self, message: Message) -> None:
        """Write `message`, whose checksum must be valid."""
        self._writer.write(self._sample(message))

    def take(self) -> Iterator[Message]:
        """Yield the intact messages that have arrived, oldest first, without waiting; count damaged messages."""
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(self._come)
        for sample in self._reader.take(KEPT):
            if not isinstance(sample, self._taken):
                continue  # a writer has left
            if self._sound(sample.message):
                yield sample.message
            else:
                self.damaged += 1

    def _sound(self, message: Message | None) -> bool:
        """True if a message is intact.

        States without a checksum also count as intact: simulators send them, since DDS itself checks the transport.
        """
        if message is None:
            return False
        return bool(message["crc"] == unitree.checksum(message) or (not self._robot and message["crc"] == 0))


class Count(msgspec.Struct):
    """Counters of the messages through a bridge.

    Attributes:
        commands: Commands received from a running loop.
        lost: Datagrams of the loop that never arrived or were not accepted.
        overtaken: Commands that were not forwarded, since a newer command was read in the same tick.
        put: Commands of the loop written to the bus.
        brakes: Messages written to brake the joints or to turn the motors off.
        states: States received from the bus.
        damaged: States dropped because they were unreadable or had a wrong checksum.
    """

    commands: int = 0
    lost: int = 0
    overtaken: int = 0
    put: int = 0
    brakes: int = 0
    states: int = 0
    damaged: int = 0


class Bridge:
    """Stands in for the machine of a loop: passes commands to the motors on a bus, and their states to the loop.

    Attributes:
        safety: State machine of the bridge.
        count: Counters of messages.
    """

    def __init__(self, link: Link, bus: Bus, session: Session, *, silence_s: float, numbers: SessionNumbers) -> None:
        """Set up a bridge; it then waits for a loop.

        Args:
            link: Connection to the loop.
            bus: Connection to the robot.
            session: Description of the robot; its `orders` must contain `ORDER`.
            silence_s: Silence of the loop after which the robot is braked [s].
            numbers: Session numbers in the bridge's datagrams and in the loop's.

        Raises:
            InputError: The robot file defines no joint order with the name `ORDER`.
        """
        if ORDER not in session.orders:
            raise InputError(
                f"{session.robot} has no order of joints named {ORDER}; add [orders.{ORDER}] to its robot file"
            )
        wire, system = wire_format(session), session.system
        translated = translation(session.orders[ORDER], system, session.feet, wire)
        self._wire, self._system = replace(wire, joints=translated.joints), system
        low, high = wire.command_range()
        self._link, self._bus, self._late = link, bus, round(silence_s * NS)
        self._endpoint = Endpoint(
            link,
            Inbox(
                Kind.COMMAND, wire.robot, low[translated.command.source], high[translated.command.source], numbers.other
            ),
            Outbox(Kind.STATE, wire.robot, wire.state_values, numbers.own),
        )
        nothing = np.zeros((4, system.n_actuated))
        damping = np.vstack((nothing, session.limits.damping))
        self._brake = translated.command(damping.ravel()).reshape(5, -1)
        self._message, self._state = unitree.blank_command(), np.zeros(wire.state_values)
        self.safety, self.count = Safety(), Count()
        self._begun, self._first, self._speed = False, 0, np.inf

    def tick(self, now: int, *, stop: bool = False) -> None:
        """Forward the newest messages of both sides, or brake the robot.

        Args:
            now: Time on the monotonic clock [ns].
            stop: True to brake and then stop, whatever the loop sends.
        """
        endpoint, count, before = self._endpoint, self.count, self.safety.mode
        accepted = endpoint.inbox.accepted
        fresh = endpoint.poll(now)
        come = self._listen()
        self.safety, _ = follow(
            self.safety, WATCHDOG, now, endpoint, self._late, slow=lambda: self._speed < WATCHDOG.rest_speed, stop=stop
        )
        mode = self.safety.mode
        self._begun |= mode is Mode.RUNNING
        if fresh and endpoint.newest is not None:
            self._first = self._first or endpoint.newest.sequence - (endpoint.inbox.accepted - 1)
            count.lost = endpoint.newest.sequence - self._first + 1 - endpoint.inbox.accepted
            if mode is Mode.RUNNING:
                count.commands += endpoint.inbox.accepted - accepted
                count.overtaken += endpoint.inbox.accepted - accepted - 1
                count.put += 1
                self._put(endpoint.newest.values.reshape(5, -1), SERVO)
        if mode is not Mode.RUNNING and self._begun and (come or mode is not before or mode is Mode.STOPPED):
            count.brakes += 1
            self._put(self._brake, OFF if mode is Mode.STOPPED else SERVO)
        if come or mode is Mode.STOPPED:
            endpoint.post(mode, self._state, now)

    @property
    def finished(self) -> bool:
        """True if the bridge has stopped and has announced this to the loop."""
        return self._endpoint.finished

    def _listen(self) -> bool:
        """Read the robot's newest state; return True if an intact state arrived."""
        states = list(self._bus.take())
        self.count.states += len(states)
        self.count.damaged = self._bus.damaged
        if states:
            unitree.read_state(states[-1], self._state, self._wire, self._system)
            self._speed = float(np.abs(states[-1]["motor_state"]["dq"][: self._system.n_actuated]).max())
        return bool(states)

    def _put(self, rows: Array, mode: int) -> None:
        unitree.write_command(self._message, rows, mode)
        self._bus.put(self._message)


def serve(session: Session, bind: Address, *, interface: str | None, domain: int, silence_s: float) -> Count:
    """Act as the machine of a loop until the loop ends or a signal arrives; return the counters.

    Args:
        session: Description of the robot.
        bind: Address on which to listen for the loop.
        interface: Network interface to the robot; None for messages on this computer only.
        domain: Number of the DDS domain.
        silence_s: Silence of the loop after which the robot is braked [s].

    Raises:
        InputError: The address cannot be used, Cyclone DDS is not installed or cannot use the interface, or the robot
            file defines no joint order with the name `ORDER`.
    """
    cpus = os.sched_getaffinity(0)
    link = UdpLink(bind)
    with Stop() as stop, contextlib.closing(link), realtime.undisturbed():
        os.sched_setaffinity(0, cpus)  # not bound to a CPU: the loop occupies one, and a plant may occupy another
        # the threads of the bus inherit this thread's priority
        with contextlib.closing(Bus(robot=False, interface=interface, domain=domain)) as bus:
            bridge = Bridge(link, bus, session, silence_s=silence_s, numbers=SessionNumbers(own=secrets.randbits(32)))
            stop.begin()
            while not bridge.finished:
                select.select([link.fileno(), bus.fileno()], [], [], LOOK_S)
                bridge.tick(time.monotonic_ns(), stop=bool(stop.asked))
    return bridge.count
