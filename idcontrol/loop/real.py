"""The control loop against a machine at the other end of a link, on any clock.

A tick listens, judges, calls planner and controller, advances the state machine (`idcontrol.loop.safety`), passes the
gate, sends, and records. It writes no file, prints nothing and raises nothing, and its memory does not grow.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from idcontrol.loop.brake import brake
from idcontrol.loop.clock import NS, Clock, Cycle, Pacer
from idcontrol.loop.control import Control, Guard
from idcontrol.loop.gate import UNABLE, WRONG, Setpoints
from idcontrol.loop.life import ON_THE_WAY, Life, Phase
from idcontrol.loop.observer import Observer
from idcontrol.loop.safety import NOT_BEGUN, Cut, Fault, Inputs, Mode, Policy, Safety, advance
from idcontrol.loop.session import Parts
from idcontrol.loop.telemetry import Counts, Telemetry
from idcontrol.loop.transport import Endpoint, Link
from idcontrol.loop.wire import SessionNumbers
from idcontrol.record.channels import ChannelRow
from idcontrol.types import Array

WARM_TICKS = 20
"""Number of calls of planner and controller before the first tick, to compile and load all code and to fill the CPU's
caches."""
FORGIVEN = 0.1
"""Part of the time without cuts of gains and targets that makes up for the time with cuts (`Policy.wrong_s`)."""


class Timing(NamedTuple):
    """Times of a loop [ns]."""

    period: int
    """Time between two ticks."""
    duration: int
    """Time for which planner and controller work."""
    late: int
    """Age of the newest datagram above which the machine counts as silent."""


@dataclass(slots=True)
class Progress:
    """Progress of a loop since it was armed.

    Attributes:
        since: Start of the time limit `Policy.start_s` [ns]; None before the first tick.
        first: Number of the first tick of work; None before that tick.
        ending: True once the work must end.
    """

    since: int | None = None
    first: int | None = None
    ending: bool = False


class ControlLoop:
    """The loop, tick by tick.

    Attributes:
        endpoint: The loop's side of the conversation.
        safety: State machine of the loop.
        counts: Counters of the loop.
        on_alarm: Handler of SIGALRM, which interrupts planner or controller if they hang.
    """

    def __init__(
        self,
        link: Link,
        parts: Parts,
        clock: Clock,
        policy: Policy,
        *,
        period: int,
        duration: int,
        numbers: SessionNumbers,
        interrupt: bool = False,
        attended: bool = False,
    ) -> None:
        """Prepare a loop.

        Args:
            link: Connection to the machine.
            parts: The parts that the loop joins.
            clock: The clock of the ticks.
            policy: Faults that are tolerated.
            period: Time between two ticks [ns].
            duration: Time for which planner and controller work [ns].
            numbers: Session numbers of the conversation.
            interrupt: True if SIGALRM may interrupt planner and controller; only within a `stop.Stop` that calls
                `on_alarm`.
            attended: True if an operator arms and recovers the loop (`tick`). If False, the loop is armed
                automatically, and stops after braking.
        """
        self._parts, self._clock, self._policy, self._attended = parts, clock, policy, attended
        self._timing = Timing(period, duration, policy.late_ns(period / NS))
        # only estimators read accelerometer and applied torques; a controller that reads forces rejects NaN itself
        unread = ["accelerometer", "tau_applied"] if parts.sense is None else []
        if parts.sense is None and parts.stance is None:
            unread += ["force_sensed", "normal_sensed"]
        self.endpoint = Endpoint.of_loop(link, parts.wire, numbers, unread)
        self.safety, self.counts, self._progress = Safety(), Counts(), Progress()
        self._unable = self._wrong = 0.0  # time for which the gate has cut for `UNABLE` and `WRONG` [ns]
        self._telemetry = Telemetry(parts.wire, parts.notes, clock.utc_ns)
        self.endpoint.inbox.dropped = self.row.of["dropped"]  # counters are views of the recorded row
        self._observer = Observer(parts, policy, self._telemetry, self._timing.late)
        self._setpoints = Setpoints(self.row.of, self._observer.joints, parts.limits)
        guard = Guard(self.counts, policy.hang_s if interrupt else None)
        self._control = Control(parts, policy, self._observer, self._setpoints, self._telemetry, guard)
        self._life = None if parts.between is None else Life(parts.between)
        self.on_alarm = guard.on_alarm

    @property
    def row(self) -> ChannelRow:
        """Telemetry of the last tick (`idcontrol.loop.telemetry.channels`)."""
        return self._telemetry.row

    @property
    def finished(self) -> bool:
        """True if the loop has stopped and has announced it."""
        return self.endpoint.finished

    @property
    def phase(self) -> Phase:
        """Phase of a running loop; always `Phase.WORKING` for a machine that cannot lie down."""
        return Phase.WORKING if self._life is None else self._life.phase

    def connect(self, timeout_s: float, alive: Callable[[], bool] = lambda: True) -> bool:
        """Wait for the machine's first state, and warm up planner and controller with it.

        Args:
            timeout_s: Time to wait [s].
            alive: Returns False once it is certain that no state will come.

        Returns:
            True if a state came.
        """
        deadline = self._clock.now() + round(timeout_s * NS)
        while not self.endpoint.poll(self._clock.now()):
            if self._clock.now() > deadline or not alive():
                return False
            # the machine learns the loop's address from the first datagram
            self._post(Mode.IDLE)
            self._clock.sleep_until(self._clock.now() + NS // 100)
        assert self.endpoint.newest is not None
        self._observer.read(self.endpoint.newest, self._clock.now(), running=False, working=False)
        state = self._observer.warm()
        if self._life is not None:
            self._life.problem(self._parts.system.joint_positions(state.q))
            self._life.on_the_way(0.0)
        self._control.warm(WARM_TICKS)
        return True

    def leave(self) -> None:
        """Tell a waiting machine that the loop has stopped; call this only before the first tick."""
        self._setpoints.clear()
        self._post(Mode.STOPPED)

    def hear(self) -> bool:
        """Receive datagrams for the next tick to read; return True if a newer datagram came."""
        return self.endpoint.poll(self._clock.now())

    def tick(self, cycle: Cycle, *, end: bool = False, act: bool = False, faults: Fault = Fault.NONE) -> None:
        """Run one period.

        Args:
            cycle: The period that begins.
            end: True to request the end.
            act: True if the operator has typed the word that leaves this mode: ``arm`` arms a ready loop; ``recover``
                makes a braked loop ready again if the machine rests and there is no fault.
            faults: Faults that the loop cannot detect itself, e.g. of its recorder.
        """
        telemetry = self._telemetry
        telemetry.begin()
        detected, unchanged = self._listen(cycle)
        if detected:
            faults |= detected
        telemetry.lap("read")
        telemetry.answer.fill(np.nan)
        age = self.endpoint.age(cycle.woke)
        if detected := self._judge(cycle, age):
            faults |= detected
        end = end or self._observer.stops
        faults, damp, start, done = self._command(cycle, faults, end=end)
        self._advance(
            Inputs(
                faults=faults,
                unchanged=unchanged,
                heard=self.endpoint.newest is not None,
                start=start,
                damp=damp,
                slow=self.safety.mode is Mode.DAMPED and self._slow(cycle.woke),
                arm=act or not self._attended,
                done=done,
                recover=act,
                wait=self._attended and not (end or self._progress.ending),
            ),
            cycle,
        )
        power = self._power(cycle)
        cut = self._gate(cycle, power)
        # while limits grow, cuts are intended
        unable = int(cut) if self.safety.mode is Mode.RUNNING and power == 1.0 else 0
        period = self._timing.period
        self._unable = self._unable + period if unable & UNABLE else 0.0
        self._wrong = self._wrong + period if unable & WRONG else max(0.0, self._wrong - FORGIVEN * period)
        self._post(self.safety.mode)
        self._observer.remember(self.endpoint.outbox.sequence)
        telemetry.lap("gate")
        telemetry.describe(
            cycle, self._clock.now(), age, mode=self.safety.mode,
            phase=self.phase if self.safety.mode is Mode.RUNNING else np.nan,
            faults=faults, cut=cut, power=power, sequence=self.endpoint.outbox.sequence, newest=self.endpoint.newest,
        )  # fmt: skip

    def kept(self) -> None:
        """Record how long it took to pass on the row of the last tick; call this right after passing it on."""
        self._telemetry.lap("record")

    def _listen(self, cycle: Cycle) -> tuple[Fault, Fault]:
        """Read the newest state if it is new; return the fields `faults` and `unchanged` of `Inputs`."""
        self.endpoint.poll(cycle.woke)
        observer, newest, running = self._observer, self.endpoint.newest, self.safety.mode is Mode.RUNNING
        fresh = newest is not observer.datagram
        if fresh and newest is not None:
            working, lies = running and self.phase not in ON_THE_WAY, self.phase is Phase.LYING_DOWN
            observer.read(newest, cycle.woke, running=running, working=working, lies=lies)
        missed = cycle.missed * self._timing.period
        if missed > self._timing.late:  # the machine may have been held up, too
            observer.advanced = min(cycle.woke, observer.advanced + missed)
        # while torques flow, a fault counts once per state, so that the number of faulty states in a row is counted
        faults, stays = observer.faults, observer.stays
        return (faults, stays) if fresh or not running else (Fault.NONE, faults | stays)

    def _judge(self, cycle: Cycle, age: int) -> Fault:
        """Return the faults of clocks, conversation and gate; `age` is the age of the newest datagram [ns]."""
        faults, mode, newest = Fault.NONE, self.safety.mode, self.endpoint.newest
        if age > self._timing.late:
            faults |= Fault.SILENT
        still = cycle.woke - max(self._observer.advanced, self.safety.since)
        if not faults and mode is Mode.RUNNING and not cycle.jumped and still > self._timing.late:
            faults |= Fault.STALE
        if self._unable > self._policy.cut_s * NS or self._wrong > self._policy.wrong_s * NS:
            faults |= Fault.CUT
        if cycle.jumped:
            faults |= Fault.CLOCK
        peer = Mode.IDLE if newest is None else newest.mode
        if peer == Mode.STOPPED or (peer == Mode.DAMPED and mode is not Mode.DAMPED):
            faults |= Fault.PEER
        return faults

    def _command(self, cycle: Cycle, faults: Fault, *, end: bool) -> tuple[Fault, bool, bool, bool]:
        """Command the next setpoints.

        Return all faults of the tick, and the fields `damp`, `start` and `done` of `Inputs`.
        """
        mode, now, progress = self.safety.mode, cycle.woke, self._progress
        if mode in NOT_BEGUN:
            if progress.since is None or (mode is Mode.READY and self._attended):
                progress.since = now
            start = False
            if mode is Mode.ARMED and not faults and not end:
                faults = self._check(now)
                start = Fault.ASTRAY not in faults and Fault.POSE not in faults
            late = now - progress.since > self._policy.start_s * NS
            return faults, end or late or Fault.POSE in faults, start, False
        if mode is not Mode.RUNNING:
            return faults, end, False, False
        progress.ending |= end
        done, detected = self._go_on(now)
        if detected:
            faults |= detected
        if self._overran(cycle):
            faults |= Fault.OVERRUN
        return faults, self._life is None and progress.ending, False, done

    def _check(self, now: int) -> Fault:
        """Check whether torques may begin at the machine's pose, and command the first setpoints; return faults."""
        life, state, t = self._life, self._observer.state, now / NS
        if life is None:
            return self._control.begin()
        assert state is not None
        joints = self._parts.system.joint_positions(state.q)
        self.counts.error = life.problem(joints)
        if self.counts.error:
            return Fault.POSE
        life.enter(Phase.STANDING_UP, t, joints, self._setpoints.sent)
        return self._setpoints.follow(life.on_the_way(t), self._policy.tracking)

    def _go_on(self, now: int) -> tuple[bool, Fault]:
        """Command a running machine; return True if it has lain down, and the faults."""
        life, control, setpoints, t = self._life, self._control, self._setpoints, now / NS
        if life is None:
            return False, control.ask()
        before, phase = life.phase, life.following(t, ending=self._progress.ending, halted=control.halted)
        if phase is not before:
            assert self._observer.state is not None
            life.enter(phase, t, self._parts.system.joint_positions(self._observer.state.q), setpoints.sent)
        if phase in ON_THE_WAY:
            if phase is before is Phase.LYING_DOWN and life.over(t):
                return True, Fault.NONE
            return False, setpoints.follow(life.on_the_way(t), self._policy.tracking)
        fault = control.ask() if phase is before else control.begin() if phase is Phase.WORKING else control.halt()
        if life.mixes(t):
            rows = np.vstack((setpoints.wanted, setpoints.held))
            life.take_over(t, rows)
            setpoints.take(rows, np.inf)  # not tied: mixed targets may be far from the reference
        return False, fault

    def _overran(self, cycle: Cycle) -> bool:
        """Count a running tick; return True if it took too long or ticks before it were missed."""
        counts, progress, timing = self.counts, self._progress, self._timing
        long = self._clock.now() - cycle.woke > timing.period
        counts.ticks += 1
        counts.missed += cycle.missed
        counts.overruns += long
        if progress.first is not None and (cycle.index - progress.first) * timing.period >= timing.duration:
            counts.complete = progress.ending = True
        return long or cycle.missed > 0

    def _advance(self, inputs: Inputs, cycle: Cycle) -> None:
        """Advance the state machine, and prepare the new mode."""
        before, progress = self.safety.mode, self._progress
        self.safety = advance(self.safety, self._policy, cycle.woke, inputs)
        mode = self.safety.mode
        if mode is Mode.READY and mode is not before:
            self._observer.renew()
        elif mode is Mode.ARMED and mode is not before:
            progress = self._progress = Progress(since=cycle.woke)
            self._control.restart()
            self.counts.complete, self.counts.error, self.counts.traceback = False, "", ""
        if progress.first is None and mode is Mode.RUNNING and self.phase is Phase.WORKING:
            progress.first = cycle.index

    def _slow(self, now: int) -> bool:
        """Return True if a recent state shows that all joints are slower than `Policy.rest_speed`."""
        known = self._observer.message is not None and self.endpoint.silence(now) <= self._timing.late
        return known and self._observer.slow()

    def _power(self, cycle: Cycle) -> float:
        """Return the share of the limits of torques and torque rates that the gate admits."""
        first, ramp_s = self._parts.limits.least_share, self._policy.power_ramp_s
        if first == 1.0 or ramp_s == 0.0 or self.safety.mode is not Mode.RUNNING:
            return 1.0
        return min(1.0, first + (1.0 - first) * (cycle.woke - self.safety.since) / (ramp_s * NS))

    def _gate(self, cycle: Cycle, power: float) -> Cut:
        """Pass the setpoints through the gate; return the limits at which a setpoint was cut."""
        safety, setpoints, state, timing = self.safety, self._setpoints, self._observer.state, self._timing
        if safety.mode not in (Mode.RUNNING, Mode.DAMPED) or state is None:
            setpoints.clear()
            return Cut.NONE
        share, running = 1.0, safety.mode is Mode.RUNNING
        if not running:
            setpoints.wanted[:] = brake(self._parts.system, self._parts.limits, state, timing.period / NS)
        elif self._policy.soft_start_s > 0.0:
            share = min(1.0, (cycle.woke - safety.since + timing.period) / (self._policy.soft_start_s * NS))
        return setpoints.admit(share, (1 + cycle.missed) * timing.period / NS, drives=running, power=power)

    def _post(self, mode: Mode) -> None:
        """Send the setpoints in the machine's order; an armed loop still sends the mode ready."""
        values, translation = self._setpoints.values, self._parts.translation
        self.endpoint.post(
            Mode.READY if mode is Mode.ARMED else mode,
            values if translation is None else translation.command(values),
            self._clock.now(),
        )


def run(
    loop: ControlLoop,
    clock: Clock,
    period: int,
    push: Callable[[Array], None],
    asked: Callable[[], bool],
    recorded: Callable[[], bool] = lambda: True,
    acts: Callable[[Mode], bool] = lambda mode: False,
    heard: Callable[[int, bool], bool] | None = None,
) -> None:
    """Tick in every period until the loop has stopped.

    Args:
        loop: A loop that is connected to its machine.
        clock: The clock of the ticks.
        period: Time between two ticks [ns].
        push: Passes on the row of each tick.
        asked: Returns True once the end is requested.
        recorded: Returns True while the recorder records the rows.
        acts: Returns True if the operator has just typed the word that leaves the loop's mode.
        heard: Waits for a datagram of the machine; the ticks follow these datagrams (`Pacer`). None lets ticks follow
            only the clock.
    """
    pacer = Pacer(clock, period, heard)
    while not loop.finished:
        faults = Fault.NONE if recorded() else Fault.RECORDER
        act = acts(loop.safety.mode)
        loop.tick(pacer.wait(), end=asked(), act=act, faults=faults)
        push(loop.row.values)
        loop.kept()
