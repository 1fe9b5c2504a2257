"""Run a loop: start its machine and its recorder, prepare, tick, and end everything cleanly.

With the transports ``shared`` and ``udp``, the machine is a separate process on the wall clock. With ``inprocess``,
both sides share a simulated clock, which makes the run reproducible; `LoopSettings.pacing` sets the clock's speed.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import select
import subprocess
import sys
import termios
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, cast

import msgspec
import numpy as np

from idcontrol import controllers, sensing
from idcontrol.config.configuration import Duration, Rate
from idcontrol.contact.spheres import SphereContacts
from idcontrol.dynamics.system import Actuators
from idcontrol.errors import DISK_FULL, Diverged, IdControlError, InputError
from idcontrol.kernels.linked import compile_linked
from idcontrol.loop import machine, motion, own, real, realtime, record
from idcontrol.loop.clock import AWAKE_NS, NS, Clock, Cycle, VirtualClock, WallClock
from idcontrol.loop.jobs import PlantJob, RecordJob, ViewJob, encode, start
from idcontrol.loop.memory import anonymous
from idcontrol.loop.order import Translation, translation
from idcontrol.loop.real import ControlLoop
from idcontrol.loop.rehearsal import Rehearsal
from idcontrol.loop.ring import Ring, ring_bytes
from idcontrol.loop.safety import Fault, Mode, Policy, patience
from idcontrol.loop.session import Parts, Planner, Sense, begins, resolve, wire_format
from idcontrol.loop.simulated import ticks
from idcontrol.loop.stop import Stop
from idcontrol.loop.telemetry import channels
from idcontrol.loop.transport import Link, inprocess
from idcontrol.loop.transport.shared import BYTES, SharedLink, named
from idcontrol.loop.transport.udp import LOOPBACK, Address, UdpLink, address
from idcontrol.loop.wire import FASTEST, HEAD_BYTES, MAGIC, Drop, SessionNumbers, names_number
from idcontrol.record.channels import width
from idcontrol.types import Array, State

RING_S = 10.0
"""Length of the rings [s]; also the largest lag of the recorder."""
CONNECT_S = 60.0
"""Time within which the machine must send its first state [s]; at its first start, a plant compiles kernels."""
ENDING_S = 25.0
"""Time limit for the end of the machine [s], longer than it brakes (`machine.WATCHDOG`)."""
WRITING_S = 30.0
"""Time limit for the recorder to write and evaluate a run [s]; the length of the run is added."""
REHEARSAL_S = 0.6
"""Simulated time of the rehearsal [s]: longer than one step of the feet, so that every kernel is compiled and loaded
before the first tick."""


class LoopSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of a loop, for any experiment.

    Attributes:
        transport: Transport of datagrams to and from the machine.
        pacing: ``real`` is the wall clock. In process only: ``fast`` is simulated time as fast as possible,
            ``simulated`` is simulated time slowed down to the wall clock.
        bind: Address at which to listen for UDP, HOST:PORT; null means a free port of loopback.
        peer: Address of the machine: HOST:PORT over UDP, or a file over ``shared``, best in ``/dev/shm``. The ticks of
            the loop follow this machine's states. null starts a plant in a separate process.
        joints: Order of the joints of the machine at `peer`, one of `orders` in the robot file; null means the order of
            the model.
        plant_rate_hz: Rate of the plant; null means the rate of the loop.
        plant_silence_s: Silence of the loop after which the plant brakes; null means 20 times the longer of both
            periods, and at least 20 ms (`patience`).
        start: Initial pose of the plant; a robot that cannot lie always stands.
        arm: True arms the machine at `peer` as soon as it is ready. If False, the operator types ``arm`` at the
            terminal, and ``recover`` after braking. A plant that the loop starts is always armed automatically.
        policy: For each fault, how long the loop tolerates it, and the reaction.
        sensing: How the loop senses the machine's state.
        planner: Place of your planner, ``file.py:Class`` (`idcontrol.loop.own`); null takes the experiment's planner.
        estimator: Place of your estimator, called with the readings after `sensing`; null for none.
    """

    transport: Literal["shared", "udp", "inprocess"] = "shared"
    pacing: Literal["real", "simulated", "fast"] = "real"
    bind: str | None = None
    peer: str | None = None
    joints: str | None = None
    plant_rate_hz: Rate | None = None
    plant_silence_s: Duration | None = None
    start: Literal["lying", "standing"] = "lying"
    arm: bool = False
    policy: Policy = Policy()
    sensing: sensing.Sensing = sensing.Sensing()
    planner: str | None = None
    estimator: str | None = None

    @property
    def estimates(self) -> bool:
        """True if planner and controller get an estimated state of the base."""
        return self.sensing.base == "estimated" or self.estimator is not None


@dataclass(frozen=True, slots=True)
class Viewer:
    """A process that shows the loop while it runs; it reads a `ViewJob`.

    Attributes:
        module: The module to run; it prints a line once it is ready, and ends when its standard input closes.
        port: Port of the page; None means any free port.
    """

    module: str
    port: int | None = None


def run(
    target: str, config: msgspec.Struct, settings: LoopSettings, out: Path, viewer: Viewer | None = None
) -> dict[str, Any]:
    """Run a loop and record it.

    Args:
        target: The loop's experiment, ``package.module:name``.
        config: Configuration of the experiment, which has `controller`, `rate_hz` and `duration_s`.
        settings: Settings of the loop.
        out: Folder of the record, empty.
        viewer: A process that shows the loop, on the wall clock only; None shows nothing.

    Returns:
        The metrics of the run and of the loop; ``ended`` is the reason for the end.

    Raises:
        InputError: A setting, the machine or the recorder cannot be used; nothing has moved.
        Diverged: The simulated machine of the rehearsal left all bounds; nothing has moved.
        Interrupted: A signal requested the end before anything moved.
        OSError: The recorder found the disk full.
        RuntimeError: An error came after the first tick, or the recorder failed; the machine may have moved.
    """
    _check(settings, viewer)
    with Stop() as stop, np.errstate(all="ignore"):  # values that are not finite are a fault of the tick
        work = _Work(target, config, settings, stop, out, viewer)
        try:
            return work.in_process() if settings.transport == "inprocess" else work.on_the_wall_clock()
        except IdControlError as error:
            if not stop.moving:
                raise
            # after the first tick, an `InputError` must not look like an error in the user's input
            raise RuntimeError(f"after the first tick: {error}") from error


def _check(settings: LoopSettings, viewer: Viewer | None) -> None:
    """Check the settings of a loop before anything starts.

    Raises:
        InputError: Settings contradict each other or the viewer, or there is no terminal on which to arm the machine.
    """
    if settings.peer is not None and settings.transport == "inprocess":
        raise InputError(f"peer={settings.peer} is reached by transport=udp or shared, not inprocess")
    if settings.joints is not None and settings.peer is None:
        raise InputError(
            f"joints={settings.joints} is for a machine at loop.peer; the loop's own plant has the model's order"
        )
    if (settings.pacing == "real") != (settings.transport != "inprocess"):
        raise InputError(
            f"transport={settings.transport} with pacing={settings.pacing}: simulated time needs transport=inprocess, "
            "and the wall clock a machine in another process (shared or udp)"
        )
    if settings.peer is not None and not settings.arm and not sys.stdin.isatty():
        _open(settings).close()  # refuse an unusable address before anything starts
        raise InputError(
            f"the machine at {settings.peer} moves only after it is armed: run at a terminal and type 'arm', "
            "or give --arm to have it armed as soon as it is ready"
        )
    if viewer is not None and settings.transport == "inprocess":
        raise InputError("a loop in process ends too soon to be shown; record it, then replay it: idcontrol view DIR")


class _Work:
    """One run of a loop."""

    def __init__(
        self, target: str, config: Any, settings: LoopSettings, stop: Stop, out: Path, viewer: Viewer | None
    ) -> None:
        self.target, self.settings, self.stop, self.out, self.viewer = target, settings, stop, out, viewer
        self.session = session = resolve(target, config)
        self.config: dict[str, Any] = msgspec.to_builtins(config)
        self.period = round(NS / config.rate_hz)
        self.plant_period = round(NS / (settings.plant_rate_hz or config.rate_hz))
        self.duration = round(config.duration_s * NS)
        self.wire = wire_format(session)
        self.name: str = config.controller
        self.parts = self._parts()
        late_s = patience(max(self.period, self.plant_period) / NS)
        self.policy = msgspec.structs.replace(settings.policy, late_s=settings.policy.late_s or late_s)
        self.silence_s = settings.plant_silence_s or late_s

    def _parts(self) -> Parts:
        session, setup, place = self.session, self.session.setup(), self.settings.planner
        planner: Planner = session.planner() if place is None else own.planner(place, setup, session.notes)
        if isinstance(planner, own.SocketPlanner) and planner.tasks:
            setup = replace(setup, tasks=planner.tasks)
        return Parts(
            planner=planner,
            controller=controllers.build(self.name, setup),
            system=session.system,
            wire=self.wire,
            limits=session.limits,
            sense=self._sense(),
            base_sent=self.settings.sensing.base == "plant" and self.settings.estimator is None,
            stance=sensing.stance(self.settings.sensing, self._feet),
            translation=self._translation(),
            feet=motion.judged(session.setup().contacts),
            friction=self._friction(setup.system.actuators),
            notes=session.notes,
            between=session.between(),
        )

    def _friction(self, modelled: Actuators | None) -> Array | float:
        """Return the dry friction of the joints [N m]: a real robot has friction even if the loop's model has none."""
        if self.settings.peer is None:
            return 0.0 if modelled is None else modelled.friction
        session = self.session
        unknown = motion.UNKNOWN * session.limits.torque / session.limits.power
        return unknown if session.friction is None else session.friction

    def _sense(self) -> Callable[[], Sense] | None:
        """Return a function that creates a `Sense`; None if the loop uses received states unchanged."""

        def make() -> Sense | None:
            place, start = self.settings.estimator, self.session.start
            last = None if place is None else own.estimator(place, self.session.setup(), start)
            return sensing.sense(self.settings.sensing, self._feet, start, last=last)

        return None if make() is None else cast("Callable[[], Sense]", make)

    def _translation(self) -> Translation | None:
        """Return the maps between the machine's order of joints and the loop's; None if no other order is set."""
        session, asked = self.session, self.settings.joints
        if asked is None:
            return None
        if asked not in session.orders:
            known = ", ".join(session.orders) or "none"
            raise InputError(f"loop.joints={asked}: {session.robot} has no such order of joints; it has {known}")
        return translation(session.orders[asked], session.system, session.feet, self.wire)

    def _feet(self) -> SphereContacts:
        """Return the feet, with a separate `System`, for estimators of contacts and state."""
        contacts = self.session.setup().contacts
        if not isinstance(contacts, SphereContacts):
            raise InputError(
                f"loop.sensing: {self.session.robot} has no feet on the ground to sense with; leave it out"
            )
        return contacts

    def _loop(self, link: Link, clock: Clock, numbers: SessionNumbers, **options: bool) -> ControlLoop:
        return ControlLoop(
            link, self.parts, clock, self.policy,
            period=self.period, duration=self.duration, numbers=numbers, **options,
        )  # fmt: skip

    def in_process(self) -> dict[str, Any]:
        """Run loop and plant in this process on one simulated clock; return the metrics."""
        clock = VirtualClock(pace=1.0 if self.settings.pacing == "simulated" else None)
        scribe = record.Scribe(
            self.session, self.out, self.config | {"loop": msgspec.to_builtins(self.settings)}, self.period / NS,
            machine_too=True, estimated=self.settings.estimates,
        )  # fmt: skip
        loop_rows, machine_rows = record.Batch(scribe.loop_rows), record.Batch(scribe.machine_rows)
        here, there = inprocess.pair()
        dt = self.plant_period / NS
        body = machine.Machine(
            there, self.session.plant(dt), self.session, period_s=dt, numbers=SessionNumbers(own=1, other=2),
            policy=msgspec.structs.replace(machine.WATCHDOG, late_s=self.silence_s),
            start=begins(self.session, self.settings.start),
        )  # fmt: skip

        def tick() -> None:
            if not body.finished:
                now = clock.now()
                body.tick(Cycle(index=now // self.plant_period, due=now, woke=now))
                machine_rows.add(body.row.values)

        clock.every(self.plant_period, tick)
        loop = self._loop(here, clock, SessionNumbers(own=2, other=1))
        ending = None
        try:
            loop.connect(CONNECT_S)
            self.stop.begin()
            real.run(loop, clock, self.period, loop_rows.add, self._asked)
            while not body.finished:
                clock.spend(self.plant_period)  # let the machine brake until it rests
            ending = self._ending(loop, realtime.Granted())
        finally:
            loop_rows.flush()
            machine_rows.flush()
            metrics = scribe.close(ending)
        assert metrics is not None
        return metrics

    def on_the_wall_clock(self) -> dict[str, Any]:
        """Run against a machine in another process, on this computer or another; return the metrics."""
        row_width, plant_width = width(channels(self.wire, self.session.notes)), width(machine.channels(self.wire))
        ring_fd, memory = anonymous(ring_bytes(row_width, round(RING_S * NS / self.period)))
        machine_fd = None
        if self.settings.peer is None:
            machine_fd, _ = anonymous(ring_bytes(plant_width, round(RING_S * NS / self.plant_period)))
        job = RecordJob(
            target=self.target, config=self.config, settings=msgspec.to_builtins(self.settings), out=str(self.out),
            period=self.period, ring=ring_fd, machine_ring=machine_fd, reports=sys.stderr.isatty(),
            attended=self.attended,
        )  # fmt: skip
        children = [start("idcontrol.loop.record", job, [ring_fd] if machine_fd is None else [ring_fd, machine_fd])]
        try:
            if self.viewer is not None:
                children.append(self._show(self.viewer, ring_fd))
            return self._among(children, Ring(memory, row_width), machine_fd)
        finally:
            for child in children:
                child.kill()  # has no effect on a process that has ended
                child.communicate()

    def _show(self, viewer: Viewer, ring_fd: int) -> subprocess.Popen[bytes]:
        """Start the process that shows the loop and wait until it is ready."""
        job = ViewJob(target=self.target, config=self.config, period=self.period, ring=ring_fd, port=viewer.port)
        process = start(viewer.module, job, [ring_fd])
        assert process.stdout is not None
        if not process.stdout.readline():
            process.communicate()
            raise InputError("the view of the loop could not start; its messages are above")
        return process

    def _rehearse(self, parts: Parts) -> State:
        """Plan, control and simulate for a short time, so that errors in user code appear before anything moves.

        Returns:
            The state of the simulated machine at the end.

        Raises:
            Diverged: The simulated machine has left all bounds.
        """
        session, planner, h = self.session, parts.planner, self.period / NS
        planner.reset(session.start)
        if not self._foreign:
            controllers.warm(parts.controller, planner, session.start)
            planner.reset(session.start)
        parts.controller.reset()
        steps, patch = round(REHEARSAL_S / h), self.wire.patch
        rehearsal = ticks(session.plant(h), planner, parts.controller, session.start, h=h, steps=steps, patch=patch)
        for tick in rehearsal:
            if not np.abs(tick.after.v).max() <= FASTEST:
                raise Diverged(
                    f"with the controller {self.name} at {NS / self.period:g} Hz the machine of the rehearsal diverged "
                    f"within {tick.after.t:.2f} s; take a higher rate (--rate) or another controller"
                )
        compile_linked()
        return tick.after

    @property
    def _foreign(self) -> bool:
        """True if the controller is a user's; it may not support copies or a second instance."""
        return ":" in self.name

    @property
    def _rehearses(self) -> bool:
        """True if a second instance of all parts runs between the ticks; users' parts may not support this."""
        return not (self._foreign or self.settings.planner or self.settings.estimator)

    @property
    def attended(self) -> bool:
        """True if an operator arms and recovers the loop."""
        return self.settings.peer is not None and not self.settings.arm

    def _asked(self) -> bool:
        return bool(self.stop.asked)

    def _among(self, children: list[subprocess.Popen[bytes]], ring: Ring, machine_fd: int | None) -> dict[str, Any]:
        """Run the loop; return the metrics. `children` begins with the recorder; the process of a plant is appended."""
        recorder, stop, attended = children[0], self.stop, self.attended
        # a machine that was not started by this loop draws its own session number
        other = secrets.randbits(32) if self.settings.peer is None else None
        numbers = SessionNumbers(own=secrets.randbits(32), other=other)
        link, plant = self._connect(machine_fd, numbers)
        if plant is not None:
            children.append(plant)
        clock = WallClock(awake=AWAKE_NS)
        began, loop = clock.now(), self._loop(link, clock, numbers, interrupt=stop.heeded, attended=attended)
        self._prepare(loop, clock, rehearse=plant is not None and self._rehearses)
        try:
            self._meet(loop, plant, recorder)
            with realtime.undisturbed() as granted:
                memory_mb, stolen_s = realtime.resident_mb(), realtime.stolen_s()
                stop.begin()
                clock.meanwhile = loop.hear
                real.run(
                    loop, clock, self.period, ring.push, self._asked,
                    recorded=lambda: recorder.poll() is None and not ring.overrun,
                    acts=Terminal(sys.stdin.fileno()) if attended else lambda mode: False,
                    heard=None if plant is not None else _listening(loop, link, clock),
                )  # fmt: skip
                taken = {
                    "memory_mb": (memory_mb, realtime.resident_mb()),
                    "steal_s": realtime.stolen_s() - stolen_s,
                }
        finally:
            if not stop.moving:
                loop.leave()
            link.close()
        if plant is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                plant.wait(ENDING_S)
        braked = ", and the machine was braked" if Fault.RECORDER in loop.safety.ended_by else ""
        return self._metrics(recorder, self._ending(loop, granted, **taken), (clock.now() - began) / NS, braked)

    def _prepare(self, loop: ControlLoop, clock: WallClock, *, rehearse: bool) -> None:
        """Rehearse once and, if `rehearse`, also before each tick."""
        self.stop.on_alarm = loop.on_alarm
        if not rehearse:
            self._rehearse(self.parts)
            return
        parts = self._parts()
        rehearsal = Rehearsal(
            parts, clock, self.policy, self.period, self._rehearse(parts), interrupt=self.stop.heeded
        )  # fmt: skip

        def on_alarm() -> None:
            """Interrupt the call that hangs, in the rehearsal or in the loop."""
            loop.on_alarm()
            rehearsal.on_alarm()

        clock.beforehand, self.stop.on_alarm = rehearsal, on_alarm

    def _metrics(
        self, recorder: subprocess.Popen[bytes], ending: record.Ending, lasted_s: float, braked: str
    ) -> dict[str, Any]:
        """End the recorder; return the metrics."""
        patience_s = WRITING_S + lasted_s
        try:
            out, _ = recorder.communicate(encode(ending), timeout=patience_s)
        except subprocess.TimeoutExpired:
            fault = f"did not end within {patience_s:.0f} s and was killed"
        else:
            if not recorder.returncode:
                metrics: dict[str, Any] = json.loads(out.splitlines()[-1])
                return metrics
            fault = f"ended early (status {recorder.returncode})"
        if recorder.returncode in DISK_FULL:
            raise OSError(recorder.returncode, os.strerror(recorder.returncode) + braked)
        raise RuntimeError(f"the recorder {fault}{braked}; {self.out} has what it had written")

    def _ending(self, loop: ControlLoop, granted: realtime.Granted, **taken: Any) -> record.Ending:
        """Return how the loop ended; write a traceback of planner or controller into the folder of the record."""
        counts, asked = loop.counts, self.stop.asked
        if counts.traceback:
            with contextlib.suppress(OSError):  # if the disk is full, the recorder reports it
                # a path outside the locale's encoding contains surrogates, which UTF-8 cannot encode
                (self.out / "traceback.txt").write_bytes(counts.traceback.encode(errors="backslashreplace"))
        return record.Ending(
            faults=loop.safety.ended_by,
            ended="signal" if asked else "duration" if counts.complete and not loop.safety.ended_by else "fault",
            overruns=counts.overruns,
            missed=counts.missed,
            realtime=msgspec.to_builtins(granted),
            signal=asked or None,
            error=counts.error,
            **taken,
        )

    def _meet(
        self, loop: ControlLoop, plant: subprocess.Popen[bytes] | None, recorder: subprocess.Popen[bytes]
    ) -> None:
        """Wait until the machine sends and the recorder is ready."""
        if not loop.connect(CONNECT_S, lambda: plant is None or plant.poll() is None):
            raise InputError(self._silence(loop, plant))
        self._recognise(loop)
        assert recorder.stdout is not None
        if recorder.stdout.readline().strip() != record.READY.encode():
            raise InputError(f"the recorder could not open {self.out}")

    def _silence(self, loop: ControlLoop, plant: subprocess.Popen[bytes] | None) -> str:
        """Return the reason why no state has come."""
        if plant is not None and plant.poll() is not None:
            return "the plant's process ended before its first datagram"
        if plant is not None:
            return f"the plant's process sent nothing within {CONNECT_S:.0f} s: is the computer busy?"
        peer, see = self.settings.peer, "(see idcontrol.loop.wire)"
        dropped = {why.name.lower(): int(n) for why, n in zip(Drop, loop.endpoint.inbox.dropped, strict=True) if n}
        if "version" in dropped:
            return f"the machine at {peer} sends another version of the datagrams; it must be {MAGIC.decode()} {see}"
        if dropped:
            size = HEAD_BYTES + 8 * self.wire.state_values
            what = f"no {self.wire.robot} whose datagrams have {size} bytes"
            return f"the sender at {peer} is {what}: dropped {dropped} {see}"
        return f"no datagram comes from {peer}; is the machine switched on, and its address right?"

    def _recognise(self, loop: ControlLoop) -> None:
        """Refuse a machine that sends the checksum of a different order of joints, or of a different model.

        Also refuse a floating machine without a base position, unless the loop estimates the base.

        Raises:
            InputError: The machine is refused.
        """
        newest, translated, session = loop.endpoint.newest, self.parts.translation, self.session
        assert newest is not None
        expected = self.wire if translated is None else replace(self.wire, joints=translated.joints)
        if why := expected.stranger(newest.values):
            names = session.system.actuated_names
            if self.settings.joints is not None:
                names = session.orders[self.settings.joints].joints
            line = f"the machine at {self.settings.peer} {why}; expected is {session.robot} with {','.join(names)}"
            for name, order in session.orders.items():
                if names_number(order.joints) == newest.values[-2]:
                    line += f"; it has the order {name}: --set loop.joints={name}"
            raise InputError(line)
        if self.wire.floating and not self.settings.estimates and not newest.values[1:4].any():
            raise InputError(
                f"the machine at {self.settings.peer} does not report its base position: "
                "--set loop.sensing.base=estimated, and --set loop.sensing.forces=estimated if its feet have no sensors"
            )

    def _connect(self, machine_fd: int | None, numbers: SessionNumbers) -> tuple[Link, subprocess.Popen[bytes] | None]:
        """Return the loop's end of the link, and the process of the plant if the loop starts a plant."""
        settings = self.settings
        if settings.peer is not None:
            return _open(settings), None
        link = UdpLink(_local(settings)) if settings.transport == "udp" else None
        assert machine_fd is not None
        job = PlantJob(
            target=self.target, config=self.config, period=self.plant_period, session=numbers.other or 0,
            loop_session=numbers.own, parent=os.getpid(), silence_s=self.silence_s, ring=machine_fd,
            begins=settings.start,
        )  # fmt: skip
        if link is not None:
            job = msgspec.structs.replace(job, host=link.local[0], port=link.local[1])
            return link, start("idcontrol.loop.plant_process", job, [machine_fd])
        shared_fd, memory = anonymous(BYTES)
        job = msgspec.structs.replace(job, shared=shared_fd)
        return SharedLink(memory, side=0), start("idcontrol.loop.plant_process", job, [machine_fd, shared_fd])


def _open(settings: LoopSettings) -> UdpLink | SharedLink:
    """Open the loop's end of the connection to the machine at `settings.peer`."""
    assert settings.peer is not None
    if settings.transport == "udp":
        return UdpLink(_local(settings), address(settings.peer))
    lock, memory = named(settings.peer)
    return SharedLink(memory, side=0, lock=lock)


def _local(settings: LoopSettings) -> Address:
    return (LOOPBACK, 0) if settings.bind is None else address(settings.bind)


def _listening(loop: ControlLoop, link: Link, clock: Clock) -> Callable[[int, bool], bool]:
    """Return the function `heard` of a `Pacer`, which waits for a datagram of the machine."""
    assert isinstance(link, UdpLink | SharedLink)

    def heard(deadline: int, due: bool) -> bool:
        while not loop.hear():
            remaining = deadline - clock.now()
            if remaining <= 0:
                return False
            if due and isinstance(link, SharedLink):  # a datagram in memory wakes no process: poll if one is due
                loop.endpoint.inbox.rehearse()
            else:
                link.wait(remaining / NS)
        return True

    return heard


class Terminal:
    """Reads the operator's words from a terminal.

    Input from before a mode was entered is discarded: a key pressed too early must not move the machine. The recorder,
    not the loop, prints the questions: a terminal stopped by Ctrl-S blocks the process that writes to it.
    """

    def __init__(self, file: int) -> None:
        """Read the terminal with this file descriptor."""
        self._file, self._mode = file, Mode.IDLE

    def __call__(self, mode: Mode) -> bool:
        """Return True if the operator has typed the word that leaves this mode since the mode was entered."""
        word = record.WORDS.get(mode)
        try:
            if mode is not self._mode:
                self._mode = mode
                if word is not None:
                    termios.tcflush(self._file, termios.TCIFLUSH)
                return False
            if word is None or not select.select([self._file], [], [], 0.0)[0]:
                return False
            return os.read(self._file, 1024).decode(errors="replace").strip().lower() == word
        except (OSError, termios.error):  # the terminal has closed: its operator types nothing any more
            return False
