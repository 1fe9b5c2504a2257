"""The control loop against a machine behind a link, on any clock.

A tick listens, asks planner and controller, lets the state machine judge (`idcontrol.loop.safety`), sends what passes
the gate, and leaves a row of telemetry. It writes no file, prints nothing, raises nothing, and allocates nothing that
stays.
"""

from __future__ import annotations

import math
import resource
import signal
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from msgspec import structs

from idcontrol.config import places
from idcontrol.controllers.answer import check_command
from idcontrol.dynamics.system import System
from idcontrol.kernels.bound import bind, entry
from idcontrol.loop.brake import brake
from idcontrol.loop.clock import NS, Beat, Clock, Pacer
from idcontrol.loop.gate import Asked, Gate, let_through, recorder, take
from idcontrol.loop.life import Between, Halting, Life, Phase
from idcontrol.loop.machine import FAREWELL
from idcontrol.loop.order import Translation
from idcontrol.loop.plausible import UNUSED, Bearable, Joints, Judge, Trust, judge, nothing, see, tilt
from idcontrol.loop.safety import NOT_BEGUN, Cut, Fault, Inputs, Limits, Mode, Policy, Safety, advance, patience
from idcontrol.loop.session import Planner, Steered
from idcontrol.loop.transport import Endpoint, Link
from idcontrol.loop.wire import AXES, Drop, Format, Inbox, Kind, Outbox, SessionNumbers
from idcontrol.record.channels import ChannelRow, span
from idcontrol.record.metrics import solver_number
from idcontrol.types import Array, Controller, Reference, Sensed, State, Status

Sense = Callable[[Sensed], State]
"""Gives the state that planner and controller see, from what the machine has sent."""
Stance = Callable[[State, Reference], Reference]
"""Gives the reference with the contacts that the controller is to count on."""


class Hung(BaseException):
    """Planner or controller did not return in time; not an `Exception`, so that neither catches it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """The parts that a loop joins.

    Attributes:
        planner: Gives the reference at a state.
        controller: Gives the command at a state and its reference.
        system: Multibody terms, for the brake and for the joints' places in a state.
        wire: Format of the datagrams.
        limits: Limits of the joints.
        sense: Makes what gives the sensed state, anew for each work; None senses the whole state as the machine sends
            it.
        stance: Replaces the planned contacts by sensed ones; None keeps the planned ones.
        translation: Puts the machine's joints into the loop's order; None where it is the same.
        notes: How many numbers the planner notes.
        between: How the machine stands up and lies down; None where it does not, and is braked at the end.
    """

    planner: Planner
    controller: Controller
    system: System
    wire: Format
    limits: Limits
    sense: Callable[[], Sense] | None = None
    stance: Stance | None = None
    translation: Translation | None = None
    notes: int = 0
    between: Between | None = None


@dataclass(slots=True)
class Counts:
    """Counters of a running loop.

    Attributes:
        ticks: Control periods.
        overruns: Number of ticks that took longer than their period.
        missed: Number of beats that were skipped.
        complete: Whether planner and controller worked for as long as they were meant to.
        error: One line about the first error that planner or controller raised, or about where they hung; or why the
            machine could not begin from where it was; "" if none of these.
        traceback: Traceback of that error; "" if there was none.
    """

    ticks: int = 0
    overruns: int = 0
    missed: int = 0
    complete: bool = False
    error: str = ""
    traceback: str = ""


COURSE = (
    "tick", "mode", "phase", "faults", "cut", "machine_mode", "missed", "period_us", "late_us", "age_us", "compute_us",
    "cpu_us", "read_us", "estimate_us", "plan_us", "control_us", "gate_us", "record_us", "switches",
)  # fmt: skip
"""Channels of one number each, side by side, that tell how the tick went; `phase` is what a running loop does
(`idcontrol.loop.life.Phase`). Times of its parts are those of `PARTS`;
`switches` is how often the system took the CPU away since the tick before."""
PARTS = ("read", "estimate", "plan", "control", "gate", "record")
"""Parts of a tick of which the time is told: listening and judging what the machine says, `Parts.sense`, planner,
controller, gate (judging and keeping their answers, the state machine, the gate, sending), and keeping the row of the
tick before."""
_UNSPENT = dict.fromkeys(PARTS, np.nan)
HEARD = (
    "t", "q", "v", "tau_applied", "accelerometer", "force_sensed", "normal_sensed",
    "drive_error", "temperature", "voltage", "estop", "axes", "buttons", "joints", "model",
)  # fmt: skip
"""Channels of the machine's message, side by side, in the order of a state datagram (`idcontrol.loop.wire`)."""
PLAN = ("q_des", "v_des", "a_des", "base_ref", "feet_des", "stance")
"""Channels of the planner's answer."""
VERDICT = ("unreachable", "status", "residual", "clipped", "rate_off", "solved_by", "gap_nm", "step_us")
"""Channels of one number each, side by side, of the answers of planner and controller."""
ANSWER = (*PLAN, *VERDICT, "notes", "force_pred")
"""Channels that are known only where planner and controller were asked, side by side."""


def channels(wire: Format, notes: int) -> dict[str, tuple[int, ...]]:
    """Names and shapes of the channels that record a tick of the loop."""
    a, feet = len(wire.torque_limit), wire.n_feet
    one: tuple[int, ...] = ()
    return {
        **dict.fromkeys(COURSE, one),
        "dropped": (len(Drop),),
        "tau_wanted": (a,),
        "tau": (a,),
        "t": one,
        "q": (wire.nq,),
        "v": (wire.nv,),
        "tau_applied": (a,),
        "accelerometer": (3,),
        "force_sensed": (feet, 3),
        "normal_sensed": (feet, 3),
        "drive_error": (a,),
        "temperature": (a,),
        **dict.fromkeys(("voltage", "estop"), one),
        "axes": (AXES,),
        **dict.fromkeys(("buttons", "joints", "model"), one),
        "q_des": (a,),
        "v_des": (a,),
        "a_des": (a,),
        "base_ref": (4,),
        "feet_des": (feet, 3),
        "stance": (feet,),
        **dict.fromkeys(VERDICT, one),
        "notes": (notes,),
        "force_pred": (feet, 3),
    }


class ControlLoop:
    """The loop, tick by tick.

    Attributes:
        endpoint: Its side of the conversation.
        safety: Its state machine.
        counts: Its counters.
        row: Telemetry of the last tick (`channels`).
        finished: Whether it has stopped, and told so.
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
            parts: The parts that it joins.
            clock: The clock of its beats.
            policy: Faults that are tolerated.
            period: Time between two beats [ns].
            duration: How long planner and controller work [ns].
            numbers: Session numbers of the conversation.
            interrupt: Whether SIGALRM may interrupt planner and controller; only within a `stop.Stop` that calls
                `on_alarm`.
            attended: Whether somebody is there who acts (`tick`), to arm it and to recover it; else it is armed by
                itself, and stops once it is braked.
        """
        self._parts, self._clock, self._policy, self._period, self._duration = parts, clock, policy, period, duration
        self._late = round((policy.late_s or patience(period / NS)) * NS)
        wire = parts.wire
        self.endpoint = Endpoint(
            link,
            Inbox(Kind.STATE, wire.robot, *wire.state_range(), numbers.other),
            Outbox(Kind.COMMAND, wire.robot, wire.command_values, numbers.own),
        )
        self.safety, self.counts = Safety(), Counts()
        layout = channels(wire, parts.notes)
        self.row = ChannelRow(layout)
        self.finished = False
        self._life = None if parts.between is None else Life(parts.between)
        self._attended, self._ending = attended, False
        self._sense: Sense | None = None
        self._used = False
        self._sensed: Sensed | None = None
        self._epoch, self._told = 0.0, Fault.NONE
        self._seen: State | None = None
        self._fresh = False
        self._steered = parts.planner if isinstance(parts.planner, Steered) else None
        self._halting = parts.planner if isinstance(parts.planner, Halting) else None
        # the torques live in the row, so that no tick has to copy them there
        self._tau, self._wanted = self.row.of["tau"], self.row.of["tau_wanted"]
        self._tau[:], self._wanted[:] = 0.0, 0.0
        # rows tau, q, v, kp, kd: what is sent, and what the controller wants of the last four
        self._sent, self._held = np.zeros((5, len(self._tau))), np.zeros((4, len(self._tau)))
        self._sending = self._sent.ravel()
        self._axes = self.row.of["axes"]
        self.row.of["dropped"][:] = 0.0
        self.endpoint.inbox.dropped = self.row.of["dropped"]  # counted where they are recorded
        heard, self._answer = (self.row.values[span(layout, names)] for names in (HEARD, ANSWER))
        system = parts.system
        self._joints = Joints(
            at_q=system.joint_q,
            circle=system.joint_circle,
            at_v=system.order[system.n_unactuated :],
            q=np.zeros(system.n_actuated),
            v=np.zeros(system.n_actuated),
        )
        self._last = nothing(system.n_actuated)
        self._judge = bind(
            Judge(
                floats=system.floats,
                joints=self._joints,
                heard=self._last,
                trust=Trust(jump=policy.jump, speed=policy.rest_speed, still=policy.frozen_s),
                bearable=Bearable(policy.hot_c, *policy.voltage_v),
                tilt_rad=policy.tilt_rad,
                values=heard,
                q=heard[1 : 1 + wire.nq],
                v=heard[1 + wire.nq : 1 + wire.nq + wire.nv],
                health=wire.health(heard),
            )
        )
        self._judged = entry(judge, self._judge, heard, 0.0, False)
        self._asked_for = bind(Asked(self._wanted, self._held, self.row.of["q_des"], self._joints.q))
        self._take = entry(take, self._asked_for, self._tau)
        self._record = recorder(self.row.of)
        self._gated = bind(
            Gate(
                limits=parts.limits.gate,
                wanted=self._wanted,
                held=self._held,
                q=self._joints.q,
                v=self._joints.v,
                tau=self._tau,
                sent=self._sent,
            )
        )
        self._let_through = entry(let_through, self._gated, False, 0.0, 0.0)
        self._write_course, self._write_verdict = self.row.writer(COURSE), self.row.writer(VERDICT)
        self._began: int | None = None
        self._first: int | None = None
        self._woke, self._farewell, self._halted = 0, 0, False
        self._spent = _UNSPENT.copy()  # [µs]
        self._mark, self._switched = 0, _switches()
        self._alarm, self._asking = interrupt, False

    def connect(self, timeout_s: float, alive: Callable[[], bool] = lambda: True) -> bool:
        """Wait for the machine's first state and warm up planner and controller on it; returns whether one came.

        Args:
            timeout_s: Time to wait [s].
            alive: Whether there is still somebody to wait for.
        """
        deadline = self._clock.now() + round(timeout_s * NS)
        while not self.endpoint.poll(self._clock.now()):
            if self._clock.now() > deadline or not alive():
                return False
            # speaking first tells the machine where we are
            self._post(Mode.IDLE)
            self._clock.sleep_until(self._clock.now() + NS // 100)
        parts = self._parts
        self._look()
        assert self._sensed is not None
        assert self._seen is not None
        if parts.sense is not None:
            self._seen, self._sense = parts.sense()(self._sensed), parts.sense()
            see(self._joints, self.row.of["q"], self.row.of["v"])
            _ = parts.system.floats and tilt(self._seen.q[3:7])
        if self._life is not None:
            self._life.problem(parts.system.joint_positions(self._seen.q))
            self._life.on_the_way(0.0)
        for _ in range(WARM_TICKS):
            parts.planner.reset(self._seen)
            parts.controller.reset()
            parts.controller(self._seen.sealed(), parts.planner(self._seen))
        parts.planner.reset(self._seen)
        parts.controller.reset()
        return True

    def leave(self) -> None:
        """Tell a machine that waits that nobody will come; before the first tick."""
        self._sent[:] = 0.0
        self._post(Mode.STOPPED)

    def hear(self) -> bool:
        """Take what has come, for the next tick to look at; returns whether it was newer than what there was."""
        fresh = self.endpoint.poll(self._clock.now())
        self._fresh |= fresh
        return fresh

    def tick(self, beat: Beat, *, end: bool = False, act: bool = False, faults: Fault = Fault.NONE) -> None:
        """One period.

        Args:
            beat: The period that begins.
            end: Whether somebody asked for the end.
            act: Whether somebody acted: a loop that is ready is armed by it, one that is braked begins anew once the
                machine rests and nothing is wrong.
            faults: Faults that the loop cannot see itself, as of its recorder.
        """
        cpu, policy, endpoint, life = time.thread_time_ns(), self._policy, self.endpoint, self._life
        now, self._mark = beat.woke, time.perf_counter_ns()
        before = self.safety.mode
        fresh = endpoint.poll(now) or self._fresh
        if fresh:
            self._fresh, self._told = False, self._look()
        if self._told and (fresh or before is not Mode.RUNNING):
            faults |= self._told
        self._spend("read")
        self._answer.fill(np.nan)
        age = endpoint.age(now)
        if age > self._late:
            faults |= Fault.SILENT
        if beat.jumped:
            faults |= Fault.CLOCK
        peer = Mode.IDLE if endpoint.newest is None else endpoint.newest.mode
        if peer == Mode.STOPPED or (peer == Mode.DAMPED and before is not Mode.DAMPED):
            faults |= Fault.PEER
        damp, start, done = end, False, False
        if before in NOT_BEGUN:
            if self._began is None or (before is Mode.READY and self._attended):
                self._began = now
            if before is Mode.ARMED and not faults and not end:
                faults |= self._check(now)
                start = Fault.ASTRAY not in faults and Fault.POSE not in faults
            damp |= Fault.POSE in faults or now - self._began > policy.start_s * NS
        elif before is Mode.RUNNING:
            self._ending |= end
            done, answered = self._go_on(now)
            if answered:
                faults |= answered
            damp = life is None and self._ending
        worked = self._clock.now() - beat.woke
        if before is Mode.RUNNING:
            self.counts.ticks += 1
            self.counts.missed += beat.missed
            self.counts.overruns += worked > self._period
            if worked > self._period or beat.missed:
                faults |= Fault.OVERRUN
            if self._first is not None and (beat.index - self._first) * self._period >= self._duration:
                self.counts.complete = self._ending = True
                damp |= life is None
        inputs = Inputs(
            faults=faults,
            heard=endpoint.newest is not None,
            start=start,
            damp=damp,
            slow=before is Mode.DAMPED and self._slow(now),
            arm=act or not self._attended,
            done=done,
            recover=act,
            wait=self._attended and not (end or self._ending),
        )
        self.safety = advance(self.safety, policy, now, inputs)
        if self.safety.mode is not before:
            self._entered(now)
        if self._first is None and self.safety.mode is Mode.RUNNING and self.phase is Phase.WORKING:
            self._first = beat.index
        cut = self._gate(now, beat)
        self._post(self.safety.mode)
        self._spend("gate")
        self._describe(beat, faults, cut, age, cpu)
        if self.safety.mode is Mode.STOPPED:
            self._farewell += 1
            self.finished = self._farewell >= FAREWELL

    @property
    def phase(self) -> Phase:
        """Whether it stands up, works, halts or lies down; one without a way to lie always works."""
        return Phase.WORKING if self._life is None else self._life.phase

    def kept(self) -> None:
        """Hear that the row of the last tick is kept."""
        self._spend("record")

    def on_alarm(self) -> None:
        """Interrupt planner or controller; what else the loop does is not disturbed.

        An alarm while time is left is another's, or that of the tick before.

        Raises:
            Hung: One of them was asked, and has not answered in time.
        """
        if self._asking and not signal.getitimer(signal.ITIMER_REAL)[0]:
            self._asking = False
            raise Hung("planner or controller did not return in time")

    def _post(self, mode: Mode) -> None:
        """Send what may be sent, in the machine's order; an armed loop is ready to its machine."""
        mode = Mode.READY if mode is Mode.ARMED else mode
        values, translation = self._sending, self._parts.translation
        self.endpoint.post(mode, values if translation is None else translation.command(values), self._clock.now())

    def _look(self) -> Fault:
        """Read the newest state; returns what is wrong with it. While it runs, one that cannot be is not used."""
        newest, parts, last = self.endpoint.newest, self._parts, self._sensed
        assert newest is not None
        values = newest.values if parts.translation is None else parts.translation.state(newest.values)
        sensed = parts.wire.read_state(values, self._epoch)
        said = sensed.state
        found = self._judged(self._judge, values, said.t, self.safety.mode is not Mode.RUNNING)
        if found & UNUSED:
            return Fault(found)
        if last is not None and said.t < last.state.t:
            found |= Fault.CLOCK
        self._sensed, self._seen = sensed, said
        if self._sense is not None and self._works:
            self._estimate(self._sense)
            leans = parts.system.floats and tilt(self._seen.q[3:7]) > self._policy.tilt_rad
            found = found | Fault.TIPPED if leans else found & ~Fault.TIPPED
        if self._steered is not None:
            self._steered.steer(self._axes)
        return Fault(found) if found else Fault.NONE

    @property
    def _works(self) -> bool:
        """Whether planner and controller are asked while it runs."""
        return self.safety.mode is Mode.RUNNING and self.phase in (Phase.WORKING, Phase.HALTING)

    def _estimate(self, sense: Sense) -> None:
        """See what `sense` gives of what the machine has sent."""
        assert self._sensed is not None
        self._spend("read")
        self._used = True
        self._seen = seen = sense(self._sensed)
        self._spend("estimate")
        of = self.row.of
        of["q"][:], of["v"][:] = seen.q, seen.v
        see(self._joints, of["q"], of["v"])
        if seen.forces is not None:
            for channel, felt in (("force_sensed", seen.forces.force), ("normal_sensed", seen.forces.normal)):
                of[channel][:] = 0.0
                of[channel][seen.forces.identity] = felt

    def _check(self, now: int) -> Fault:
        """Whether torques may begin from where the machine is; the first ones are wanted then."""
        life, state, system = self._life, self._seen, self._parts.system
        assert state is not None
        if life is None:
            return self._take_over()
        joints = system.joint_positions(state.q)
        self.counts.error = life.problem(joints)
        if self.counts.error:
            return Fault.POSE
        life.stand_up(now / NS, joints)
        return self._follow(life.on_the_way(now / NS))

    def _go_on(self, now: int) -> tuple[bool, Fault]:
        """Ask for the next command of a running machine; returns whether the machine lies on its body, and faults."""
        life, t, halting = self._life, now / NS, self._halting
        if life is None:
            return False, self._ask()
        if life.phase is Phase.STANDING_UP and life.over(t) and not self._ending:
            life.work(t, self._sent.copy())
            return False, self._mixed(life, t, self._take_over())
        if life.phase is Phase.WORKING and self._ending and halting is not None:
            life.halt(t)
            return False, self._ask(halting.halt)
        if life.phase is Phase.LYING_DOWN:
            if life.over(t):
                return True, Fault.NONE
        elif self._ending and (life.phase is not Phase.HALTING or self._halted or life.over(t)):
            assert self._seen is not None
            life.lie_down(t, self._parts.system.joint_positions(self._seen.q), self._sent.copy())
        if life.phase in (Phase.STANDING_UP, Phase.LYING_DOWN):
            return False, self._follow(life.on_the_way(t))
        return False, self._mixed(life, t, self._ask())

    def _mixed(self, life: Life, t: float, fault: Fault) -> Fault:
        """Mix what the controller wants with what held the joints before it, where it has just taken over."""
        if life.mixes(t):
            rows = np.vstack((self._wanted, self._held))
            life.take_over(t, rows)
            self._wanted[:], self._held[:] = rows[0], rows[1:]
        return fault

    def _take_over(self) -> Fault:
        """Let planner and controller begin at the machine's state, which is at their time zero."""
        assert self._sensed is not None
        state = self._sensed.state
        self._epoch, self._last.t[0] = self._epoch + state.t, np.nan
        self._sensed = structs.replace(self._sensed, state=structs.replace(state, t=0.0))
        self._seen = self._sensed.state
        if self._sense is not None:
            self._estimate(self._sense)
        return self._ask(self._begin)

    def _begin(self) -> None:
        assert self._seen is not None
        self._parts.planner.reset(self._seen)
        self._parts.controller.reset()

    def _entered(self, now: int) -> None:
        """Do what a new mode asks for."""
        if self.safety.mode is Mode.READY and self._used and self._parts.sense is not None:
            # an estimator takes 0.1 s to make, after which the machine's news are old: who is armed then is disarmed
            self._sense, self._used = self._parts.sense(), False
        if self.safety.mode is Mode.ARMED:
            self._began, self._first, self._ending, self._halted, self._epoch = now, None, False, False, 0.0
            self.counts.complete, self.counts.error, self.counts.traceback = False, "", ""

    def _follow(self, rows: Array) -> Fault:
        """Want what the drives shall hold, rows tau, q, v, kp, kd; returns what is wrong with it."""
        self.row.of["q_des"][:], self.row.of["v_des"][:] = rows[1], rows[2]
        return self._want(rows)

    def _want(self, rows: Array) -> Fault:
        """Want torques, shape (a,), or what drives shall hold, shape (5, a); returns what is wrong with them."""
        finite, off = self._take(self._asked_for, rows.ravel())
        if not finite:
            return Fault.NOT_FINITE
        return Fault.ASTRAY if off > self._policy.tracking else Fault.NONE

    def _ask(self, first: Callable[[], None] | None = None) -> Fault:
        """Ask planner and controller; their answers are in `row`, and the torques are wanted if they can be used.

        What is to be done `first` is guarded as they are.
        """
        # An alarm may come at any moment while `_asking`, so it is caught around everything that happens then. It stays
        # set between two ticks, which saves a call of the system: the next tick sets it anew.
        try:
            try:
                if self._alarm:
                    signal.setitimer(signal.ITIMER_REAL, self._policy.hang_s)
                self._asking = True
                if first is not None:
                    first()
                fault = self._answers()
            except Hung:
                raise
            except BaseException as error:  # both may be a user's and raise anything; the machine must still be braked
                fault = Fault.RAISED
                self._keep(error)
            self._asking = False
            return fault
        except Hung as hung:
            self._keep(hung)  # its traceback tells where they were
            return Fault.HUNG

    def _keep(self, error: BaseException) -> None:
        if not self.counts.error:
            self.counts.error = places.described(error)
            self.counts.traceback = "".join(traceback.format_exception(error))

    def _answers(self) -> Fault:
        parts, state, of = self._parts, self._seen, self.row.of
        assert state is not None
        reference = parts.planner(state)
        if self._halting is not None:
            self._halted = self._halting.halted
        if parts.stance is not None:
            reference = parts.stance(state, reference)
        self._spend("plan")
        command = parts.controller(state.sealed(), reference)
        self._spend("control")
        check_command(command, parts.controller, state, len(self._tau), len(of["stance"]))
        self._record(reference, command.predicted)
        self._write_verdict(
            reference.residual,
            command.status,
            command.residual,
            command.clipped,
            "rate" in command.dropped,
            solver_number(command.solved_by),
            command.gap,
            self._spent["control"],
        )
        if parts.notes:
            of["notes"][:] = parts.planner.notes()
        if command.status == Status.FAILED:
            return Fault.FAILED  # its torque is zero, under which a robot would sink: the last one holds
        fault = self._want(np.ascontiguousarray(command.driven, dtype=np.float64))
        if command.status == Status.FALLBACK and fault is not Fault.NOT_FINITE:
            fault |= Fault.FALLBACK
        return fault

    def _slow(self, now: int) -> bool:
        """Whether the machine's joints are known to be slow."""
        if self._sensed is None or self.endpoint.silence(now) > self._late:
            return False
        speed = np.abs(self._parts.system.joint_velocities(self._sensed.state.v)).max(initial=0.0)
        return bool(speed < self._policy.rest_speed)

    def _gate(self, now: int, beat: Beat) -> Cut:
        """Write what may be sent."""
        mode, state = self.safety.mode, self._seen
        if mode not in (Mode.RUNNING, Mode.DAMPED) or state is None:
            self._tau[:], self._sent[:] = 0.0, 0.0
            return Cut.NONE
        share, drives = 1.0, mode is Mode.RUNNING
        if mode is Mode.DAMPED:
            self._wanted[:] = brake(self._parts.system, self._parts.limits, state, self._period / NS)
        elif self._policy.soft_start_s > 0.0:
            share = min(1.0, (now - self.safety.since + self._period) / (self._policy.soft_start_s * NS))
        cut = self._let_through(self._gated, drives, share, (1 + beat.missed) * self._period / NS)
        return Cut(cut) if cut else Cut.NONE

    def _describe(self, beat: Beat, faults: Fault, cut: Cut, age: int, cpu: int) -> None:
        """Write how the tick went, as its last act; `cpu` is the time of the thread at its beginning [ns]."""
        newest, switched = self.endpoint.newest, _switches()
        self._write_course(
            beat.index,
            self.safety.mode,
            self.phase if self.safety.mode is Mode.RUNNING else np.nan,
            faults,
            cut,
            np.nan if newest is None else newest.mode,
            beat.missed,
            1e-3 * (beat.woke - self._woke) if self._woke else np.nan,
            1e-3 * (beat.woke - beat.due),
            1e-3 * age,
            1e-3 * (self._clock.now() - beat.woke),
            1e-3 * (time.thread_time_ns() - cpu),
            *self._spent.values(),
            switched - self._switched,
        )
        self._woke, self._switched = beat.woke, switched
        self._spent = _UNSPENT.copy()

    def _spend(self, part: str) -> None:
        """Add the time since the last mark to that of `part`, and set the mark anew.

        It is the wall clock's, which is read without a call of the system; of the thread's own time there is the sum.
        """
        now, before = time.perf_counter_ns(), self._spent[part]
        self._spent[part] = 1e-3 * (now - self._mark) + (0.0 if math.isnan(before) else before)
        self._mark = now


def _switches() -> int:
    """How often the system took the CPU away from the thread."""
    return resource.getrusage(resource.RUSAGE_THREAD).ru_nivcsw


WARM_TICKS = 20
"""Calls of planner and controller before the first tick, so that all is compiled, loaded and in caches."""


def run(
    loop: ControlLoop,
    clock: Clock,
    period: int,
    push: Callable[[Array], None],
    asked: Callable[[], bool],
    recorded: Callable[[], bool] = lambda: True,
    acts: Callable[[], bool] = lambda: False,
    heard: Callable[[int], bool] | None = None,
) -> None:
    """Tick at every beat until the loop has stopped.

    Args:
        loop: A loop that is connected to its machine.
        clock: The clock of the beats.
        period: Time between two beats [ns].
        push: Takes the telemetry of each tick.
        asked: Whether somebody has asked for the end.
        recorded: Whether the telemetry is being recorded.
        acts: Whether somebody has just acted; asked only while it is waited for.
        heard: Waits for news of the machine, which the beats follow (`Pacer`); None beats by the clock alone.
    """
    pacer = Pacer(clock, period, heard)
    while not loop.finished:
        faults = Fault.NONE if recorded() else Fault.RECORDER
        act = loop.safety.mode in (Mode.READY, Mode.DAMPED) and acts()
        loop.tick(pacer.wait(), end=asked(), act=act, faults=faults)
        push(loop.row.values)
        loop.kept()
