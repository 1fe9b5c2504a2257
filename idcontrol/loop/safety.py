"""Safety of a loop and of its machine: a pure state machine, and the last gate of torques.

::

    idle ──heard──> ready ──arm──> armed ──start──> running ──done──> stopped
      <────lost────   ↑  <───────────────lost          │                ↑
                      │                               damp              │
                      └──────────recover──────────── damped ────rest────┘     (stop leads there from anywhere)

The mode *damped* is for faults, and for the end of a machine that cannot lie down. Other machines end with the signal
*done* when the body lies on the ground. The operator can recover a damped machine once it rests and has no fault; it
must then be armed again.

The faults of a tick are a set of `Fault`. For each fault the `Policy` defines how many ticks in a row are tolerated,
and the reaction to one more tick. In a tolerated tick without a new torque, the last admissible torque holds. Loop and
machine run the same state machine and detect different faults. A machine is never in the mode *armed*, because it
follows its loop.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Annotated, Final, Literal

import msgspec
import numpy as np

from idcontrol.config.configuration import Duration, NotNegative, Positive
from idcontrol.errors import InputError
from idcontrol.kernels.jit import njit
from idcontrol.loop.clock import NS
from idcontrol.types import Array, Integers


class Mode(enum.IntEnum):
    """The mode of a loop or of a machine."""

    IDLE = 0
    """No datagram comes from the other side; no torque."""
    READY = 1
    """Datagrams come; the machine is held, and commands have no torque."""
    RUNNING = 2
    """The commands are applied."""
    DAMPED = 3
    """The machine brakes its own joints: τ = -D q̇."""
    STOPPED = 4
    """No torque; final mode."""
    ARMED = 5
    """The operator has allowed torques; the loop checks that they may begin, and still sends the mode ready."""


NOT_BEGUN = (Mode.IDLE, Mode.READY, Mode.ARMED)
"""Modes before the first torque."""


class Signal(enum.Enum):
    """An event that may change the mode."""

    HEARD = "a datagram came"
    LOST = "the other side is silent"
    ARM = "the operator allows torques"
    START = "torques may flow"
    DONE = "the machine lies on its body"
    RECOVER = "the operator requests a restart, and there is no fault"
    REST = "the machine rests, or has braked for long enough"
    DAMP = "brake"
    STOP = "stop immediately"


TRANSITIONS: Mapping[tuple[Mode, Signal], Mode] = MappingProxyType(
    {
        (Mode.IDLE, Signal.HEARD): Mode.READY,
        (Mode.READY, Signal.LOST): Mode.IDLE,
        (Mode.READY, Signal.ARM): Mode.ARMED,
        (Mode.READY, Signal.START): Mode.RUNNING,  # a machine is never armed
        (Mode.ARMED, Signal.LOST): Mode.IDLE,
        (Mode.ARMED, Signal.START): Mode.RUNNING,
        (Mode.RUNNING, Signal.DAMP): Mode.DAMPED,
        (Mode.RUNNING, Signal.DONE): Mode.STOPPED,
        (Mode.DAMPED, Signal.RECOVER): Mode.READY,
        (Mode.DAMPED, Signal.REST): Mode.STOPPED,
        # before torques flow there is nothing to brake
        **{(mode, signal): Mode.STOPPED for mode in NOT_BEGUN for signal in (Signal.DAMP, Signal.STOP)},
        (Mode.RUNNING, Signal.STOP): Mode.STOPPED,
        (Mode.DAMPED, Signal.STOP): Mode.STOPPED,
    }
)
"""The mode after each signal; pairs that are not listed leave the mode unchanged."""


class Fault(enum.IntFlag):
    """The faults of a tick, a set of flags."""

    NONE = 0
    OVERRUN = 1
    """The control step took longer than its period, or ticks were missed before it."""
    SILENT = 2
    """The newest datagram of the other side is older than `Policy.late_s`."""
    NOT_FINITE = 4
    """The controller returned a NaN or an infinity; at a machine: its plant diverged."""
    RAISED = 8
    """Planner or controller raised an exception, or the controller returned torques of another shape."""
    HUNG = 16
    """Planner or controller did not return within `Policy.hang_s`."""
    FALLBACK = 32
    """The controller's status is fallback; its torque is sent."""
    CLOCK = 64
    """The clock jumped because the process or the computer was suspended, or the machine's time jumped."""
    PEER = 128
    """The other side braked or stopped by itself."""
    FAILED = 256
    """The controller's status is failed; its torque is not sent."""
    RECORDER = 512
    """The recorder has ended (its disk is full, or it was killed), or it lags by the whole length of its ring."""
    ENCODER = 1024
    """Position and velocity of a joint or of the base contradict each other, or a joint or the base stands still
    although joints are driven (`idcontrol.loop.plausible`); the state is not used. While a joint is `ASTRAY`, a run
    that this would end ends as both."""
    TIPPED = 2048
    """The base leans by more than `Policy.tilt_rad`; if torques do not flow yet, the start is refused."""
    ASTRAY = 4096
    """A joint is further than `Policy.tracking` from its reference; if torques do not flow yet, the start is
    refused."""
    DRIVE = 8192
    """A drive reports an error."""
    HOT = 16384
    """A drive is hotter than `Policy.hot_c`, by default the limit in the robot file."""
    VOLTAGE = 32768
    """The supply voltage is outside `Policy.voltage_v`, by default the limits in the robot file."""
    ESTOP = 65536
    """The emergency stop is pressed; if torques do not flow yet, the start is refused."""
    QUATERNION = 131072
    """The norm of the base's quaternion differs from 1 by more than 0.001; the state is not used."""
    POSE = 262144
    """The machine cannot stand up from its joint positions; checked only before the start, which is refused."""
    STALE = 524288
    """Datagrams come, but the machine's time has stood still for longer than `Policy.late_s`."""
    CUT = 1048576
    """In every tick the gate has cut torques to their limits or rates, for longer than `Policy.cut_s`; or it has cut
    gains or targets of drives, in all for longer than `Policy.wrong_s`."""
    TORQUE = 2097152
    """The torque that a drive reports is outside the range of recently sent torques by more than
    `Policy.torque_share`."""
    LOAD = 4194304
    """The force on the base that no contact explains differs from its usual value by more than `Policy.load_share` of
    the weight (`idcontrol.loop.load`)."""
    MOTION = 8388608
    """The motion contradicts the torque of one joint: its drive or its encoder is faulty (`idcontrol.loop.motion`).
    While a joint is `ASTRAY`, a run that this would end ends as `ASTRAY`."""
    EXCESS = 16777216
    """A commanded torque is many times beyond its limit (`idcontrol.loop.gate.EXCESS`); it is not sent."""
    WEAK = 33554432
    """For a long time, the motion shows that a drive lacks a share of its torque (`idcontrol.loop.motion`)."""
    ACCELEROMETER = 67108864
    """The accelerometer stands still or sends NaN although the robot moves; motion is not judged. If an estimator needs
    the accelerometer, the fault is `ENCODER`, too."""
    RARE = 134217728
    """The machine renews its state too rarely for the period of the loop (`idcontrol.loop.observer.RARE`); if torques
    do not flow yet, the start is refused."""
    SLIP = 268435456
    """Feet that stand seem to move apart as if the encoder of one joint slipped (`idcontrol.loop.stance`)."""


NAMES: Mapping[Fault, str] = MappingProxyType({fault: str(fault.name).lower() for fault in Fault})
"""Names of the faults; the rule for a fault is the field of `Policy` with this name."""
MEANINGS: Mapping[Fault, str] = MappingProxyType(
    {
        Fault.OVERRUN: "ticks took longer than their period, or cycles were missed",
        Fault.SILENT: "no usable datagram came from the other side for too long",
        Fault.NOT_FINITE: "torques or states were not finite",
        Fault.RAISED: "planner or controller raised an error",
        Fault.HUNG: "planner or controller did not return in time",
        Fault.FALLBACK: "the controller found no solution and fell back",
        Fault.CLOCK: "the clock or the machine's time jumped",
        Fault.PEER: "the machine braked or stopped by itself",
        Fault.FAILED: "the controller could not use its input",
        Fault.RECORDER: "the recorder has ended or cannot keep up",
        Fault.ENCODER: "readings of a joint, or of the base, contradict each other or stand still",
        Fault.TIPPED: "the base leaned too far",
        Fault.ASTRAY: "a joint was too far from its reference",
        Fault.DRIVE: "a drive reported an error",
        Fault.HOT: "a drive was too hot",
        Fault.VOLTAGE: "the supply's voltage was too low or too high",
        Fault.ESTOP: "the emergency stop was pressed",
        Fault.QUATERNION: "the base's quaternion was not of unit norm",
        Fault.POSE: "the machine cannot start from its joint positions",
        Fault.STALE: "the machine repeated an old state: its time stood still",
        Fault.CUT: "commanded torques or gains were beyond the limits, or targets far from the reference, for too long",
        Fault.TORQUE: "a drive did not apply the torque that was sent",
        Fault.LOAD: "a force that no contact explains acted on the base, or several drives are weak",
        Fault.MOTION: "the motion contradicted the torque of a joint: its drive or encoder is faulty",
        Fault.EXCESS: "a commanded torque was many times beyond its limit",
        Fault.WEAK: "a drive lacked a share of the torque that was sent",
        Fault.ACCELEROMETER: "the accelerometer stood still or sent no number, and motion was not judged",
        Fault.SLIP: "an encoder seemed to slip on its joint: feet that stand moved apart",
        Fault.RARE: "the machine renewed its state too rarely for the rate of the loop",
    }
)
"""The faults in words, for reports."""
_FAULTS, _BITS = tuple(NAMES), tuple(map(int, NAMES))
_CALM = (0,) * len(_FAULTS)


class Rule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The reaction to a fault.

    Attributes:
        tolerate: Number of tolerated ticks in a row with the fault.
        then: Reaction to one more tick with the fault: go on tolerating it (hold), brake (damp), or remove all torque
            (stop).
    """

    tolerate: Annotated[int, msgspec.Meta(ge=0)] = 0
    then: Literal["hold", "damp", "stop"] = "damp"


PATIENCE: Final = 20
"""Tolerated silence of the other side, in periods; Franka's robots also tolerate 20 lost packets in a row."""
PATIENCE_S: Final = 0.02
"""Smallest value of the tolerated silence [s]: the effect of held torques depends on time, not on the control rate."""


def patience(period_s: float) -> float:
    """Return the tolerated age [s] of the newest datagram of a side that sends once per `period_s` [s]."""
    return max(PATIENCE * period_s, PATIENCE_S)


class Policy(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The faults that loop or machine tolerates, and the limits that define faults.

    The first attributes are the rules for the faults.

    Attributes:
        overrun: Rule for `Fault.OVERRUN`.
        silent: Rule for `Fault.SILENT`.
        not_finite: Rule for `Fault.NOT_FINITE`.
        raised: Rule for `Fault.RAISED`.
        hung: Rule for `Fault.HUNG`.
        fallback: Rule for `Fault.FALLBACK`.
        clock: Rule for `Fault.CLOCK`.
        peer: Rule for `Fault.PEER`.
        failed: Rule for `Fault.FAILED`.
        recorder: Rule for `Fault.RECORDER`; ``then="hold"`` continues without a record.
        encoder: Rule for `Fault.ENCODER`.
        tipped: Rule for `Fault.TIPPED`.
        astray: Rule for `Fault.ASTRAY`.
        drive: Rule for `Fault.DRIVE`.
        hot: Rule for `Fault.HOT`.
        voltage: Rule for `Fault.VOLTAGE`; the voltage sags for several ticks when motors start together.
        estop: Rule for `Fault.ESTOP`.
        quaternion: Rule for `Fault.QUATERNION`.
        pose: Rule for `Fault.POSE`.
        stale: Rule for `Fault.STALE`.
        cut: Rule for `Fault.CUT`.
        torque: Rule for `Fault.TORQUE`; tolerated ticks are noted as an event in the record.
        load: Rule for `Fault.LOAD`, by default an event in the record.
        motion: Rule for `Fault.MOTION`.
        excess: Rule for `Fault.EXCESS`.
        weak: Rule for `Fault.WEAK`, by default an event in the record.
        accelerometer: Rule for `Fault.ACCELEROMETER`, by default an event in the record.
        slip: Rule for `Fault.SLIP`, by default an event in the record: feet that slide may look the same.
        rare: Rule for `Fault.RARE`, by default an event in the record.
        start_s: Time limit for the other side to become ready; after that the loop ends without any torque.
        late_s: Age of the newest datagram above which the other side counts as silent; null means 20 periods, and at
            least 20 ms (`patience`).
        hang_s: Time after which planner or controller is interrupted.
        soft_start_s: Time over which torques and gains grow from zero to the commanded values.
        power_ramp_s: Time over which a loop with `Limits.least_share` below 1 raises its limits of torques and torque
            rates to their full values.
        rest_speed: Joint speed below which the machine may be at rest [rad/s].
        rest_s: Time below `rest_speed` after which the machine is at rest; a loaded leg that still sinks would exceed
            `rest_speed` within this time.
        damp_s: Braking time after which the machine counts as at rest even if joints move: the legs of a lying machine
            may continue to sink for a long time.
        jump: Largest motion of a joint or of the base beyond the integral of its velocity [rad or m].
        frozen_s: Longest time for which a joint or the base may stand still although the integral of its velocity
            exceeds `frozen`; longest time for which orientation and angular velocity of the base may be constant
            although a joint moves by more than `frozen`.
        frozen: Largest integral of the velocity while the joint or base stands still [rad or m]; coarse encoders need a
            positive value.
        tilt_rad: Largest angle of the base from upright.
        tracking: Largest distance of a joint from its reference [rad or m].
        cut_s: Longest time for which the gate may cut torques in every tick; cuts while the limits grow
            (`power_ramp_s`) do not count.
        wrong_s: Longest time for which the gate may cut gains and targets, which no right command lets it cut; a tenth
            of the time without such cuts is subtracted.
        torque_share: Largest difference between a sent and an applied torque, as a share of the torque limit. With
            `frozen`, it also bounds how far torque and reference of a joint may change while its readings are constant
            (`idcontrol.loop.encoders.sticks`).
        load_share: Largest difference of the unexplained force on the base from its usual value, as a share of the
            robot's weight.
        motion_share: Largest error of a drive's torque that the motion may show, as a share of the torque limit at full
            power; for the dry friction of modelled drives and real robots more is allowed (`idcontrol.loop.motion`).
            Walks of `solo12` whose sensors have constant errors show 0.041 in six states in a row.
        stop_button: Button of the machine's joystick that requests the end: the robot comes to rest and lies down.
        hot_c: Highest temperature of a drive [°C]; null means the limit in the robot file.
        voltage_v: Lowest and highest supply voltage [V]; null means the limits in the robot file.
    """

    overrun: Rule = Rule(tolerate=50)
    silent: Rule = Rule()
    not_finite: Rule = Rule(tolerate=5)
    raised: Rule = Rule()
    hung: Rule = Rule()
    fallback: Rule = Rule(tolerate=20)
    clock: Rule = Rule()
    peer: Rule = Rule()
    failed: Rule = Rule(tolerate=5)
    recorder: Rule = Rule()
    encoder: Rule = Rule(tolerate=5)
    tipped: Rule = Rule(tolerate=5)
    astray: Rule = Rule(tolerate=100)
    drive: Rule = Rule()
    hot: Rule = Rule(tolerate=100)
    voltage: Rule = Rule(tolerate=100)
    estop: Rule = Rule()
    quaternion: Rule = Rule(tolerate=5)
    pose: Rule = Rule()
    stale: Rule = Rule()
    cut: Rule = Rule()
    torque: Rule = Rule(tolerate=20)
    load: Rule = Rule(then="hold")
    motion: Rule = Rule(tolerate=5)
    excess: Rule = Rule(tolerate=5)
    weak: Rule = Rule(then="hold")
    accelerometer: Rule = Rule(then="hold")
    slip: Rule = Rule(then="hold")
    rare: Rule = Rule(then="hold")
    start_s: Duration = 5.0
    late_s: Duration | None = None
    hang_s: Duration = 0.1
    soft_start_s: NotNegative = 0.02
    power_ramp_s: NotNegative = 2.0
    rest_speed: Positive = 0.05
    rest_s: Duration = 0.3
    damp_s: Duration = 1.0
    jump: Positive = 0.02
    frozen_s: Duration = 0.02
    frozen: Positive = 0.01
    tilt_rad: Positive = 1.0
    tracking: Positive = 0.5
    cut_s: Duration = 0.2
    wrong_s: Duration = 0.03
    torque_share: Positive = 0.15
    load_share: Positive = 0.06
    motion_share: Positive = 0.05
    stop_button: Annotated[int, msgspec.Meta(ge=0, le=31)] = 0
    hot_c: Positive | None = None
    voltage_v: tuple[NotNegative, Positive] | None = None

    def __post_init__(self) -> None:
        if self.voltage_v is not None and not self.voltage_v[0] < self.voltage_v[1]:
            raise InputError(f"voltage_v is {list(self.voltage_v)}: the first must be below the second")

    def late_ns(self, period_s: float) -> int:
        """Return the age [ns] above which the other side counts as silent, if it sends once per `period_s` [s]."""
        return round((self.late_s or patience(period_s)) * NS)


@dataclass(frozen=True, slots=True)
class Safety:
    """State of the state machine.

    Attributes:
        mode: The mode.
        since: Time at which the mode was entered [ns].
        streak: Number of ticks in a row with each fault, in the order of `NAMES`; counted while running. Faults of a
            state count once per state.
        slow_since: Time at which all joints became slow [ns]; None while a joint is fast or the machine is not braked.
        ended_by: Faults beyond tolerance that ended the run, or that prevented the start.
    """

    mode: Mode = Mode.IDLE
    since: int = 0
    streak: tuple[int, ...] = _CALM
    slow_since: int | None = None
    ended_by: Fault = Fault.NONE


class Inputs(msgspec.Struct, frozen=True):
    """Inputs of the state machine in a tick."""

    faults: Fault = Fault.NONE
    """The faults of this tick."""
    unchanged: Fault = Fault.NONE
    """The faults of a state that an earlier tick has counted, and that is still the newest: their counts stay."""
    heard: bool = False
    """True if a good datagram from the other side has come."""
    start: bool = False
    """True if torques may flow."""
    damp: bool = False
    """True if the machine must brake."""
    stop: bool = False
    """True if the loop or machine must stop immediately."""
    slow: bool = False
    """True if all joints are slower than `Policy.rest_speed`."""
    arm: bool = False
    """True if the operator allows torques."""
    done: bool = False
    """True if the machine lies on its body, so torques may end."""
    recover: bool = False
    """True if the operator requests a restart."""
    wait: bool = False
    """True if a braked machine is held until the operator recovers it."""


def advance(safety: Safety, policy: Policy, now: int, inputs: Inputs) -> Safety:
    """Return the state of the state machine after one tick; a pure function.

    Args:
        safety: State before the tick.
        policy: Faults that are tolerated.
        now: Time [ns].
        inputs: Faults and requests of this tick.
    """
    mode, streak, ended_by = safety.mode, safety.streak, safety.ended_by
    asked = inputs.damp or inputs.stop or inputs.done
    if mode is Mode.RUNNING and streak is _CALM and inputs.heard and not (asked or inputs.faults):
        return safety  # the usual case
    stop, damp, slow_since = inputs.stop, inputs.damp, None
    if mode is Mode.RUNNING:
        streak = _lasting(streak, inputs.faults, inputs.unchanged)
        for fault, reaction in _exceeded(policy, streak):
            # a limp or falling robot hits its stops or the ground: the motion then accuses a sound drive, and an impact
            # a sound encoder, but not before a joint is astray
            astray, doubted = (streak[_FAULTS.index(each)] for each in (Fault.ASTRAY, fault))
            if fault in (Fault.MOTION, Fault.ENCODER) and astray >= doubted:
                ended_by |= Fault.ASTRAY
                fault &= Fault.ENCODER  # an encoder that is faulty also leads joints astray
            ended_by |= fault
            stop |= reaction == "stop"
            damp |= reaction == "damp"
    elif mode is Mode.DAMPED and inputs.slow:
        slow_since = now if safety.slow_since is None else safety.slow_since
    elif damp and mode in NOT_BEGUN:
        ended_by |= inputs.faults  # these faults prevented the start
    if stop:
        signal: Signal | None = Signal.STOP
    elif mode is Mode.DAMPED:
        rests = now - safety.since >= policy.damp_s * NS
        rests |= slow_since is not None and now - slow_since >= policy.rest_s * NS
        signal = _of_braked(inputs) if rests else None
    else:
        signal = Signal.DAMP if damp else _undisturbed(mode, inputs)
    entered = mode if signal is None else TRANSITIONS.get((mode, signal), mode)
    if entered is not mode:
        return Safety(mode=entered, since=now, ended_by=Fault.NONE if signal is Signal.RECOVER else ended_by)
    unchanged = streak == safety.streak and slow_since == safety.slow_since
    return safety if unchanged else replace(safety, streak=streak, slow_since=slow_since)


def _lasting(streak: tuple[int, ...], faults: Fault, unchanged: Fault) -> tuple[int, ...]:
    """Return `Safety.streak` after a tick with these faults."""
    # plain integers, because an operation on a set of flags takes one to two microseconds
    flags, stays = int(faults), int(unchanged)
    counts = tuple(
        count + 1 if flags & bit else count if stays & bit else 0 for bit, count in zip(_BITS, streak, strict=True)
    )
    return counts if any(counts) else _CALM


def _exceeded(policy: Policy, streak: tuple[int, ...]) -> Iterator[tuple[Fault, str]]:
    """Yield each fault that exceeds its rule, and the reaction; skip rules with ``then="hold"``."""
    for fault, count in zip(_FAULTS, streak, strict=True):
        if count:
            rule: Rule = getattr(policy, NAMES[fault])
            if rule.then != "hold" and count > rule.tolerate:
                yield fault, rule.then


def _of_braked(inputs: Inputs) -> Signal | None:
    """Return the signal of a braked machine that rests; None if it waits for the operator."""
    if inputs.recover and not inputs.faults:
        return Signal.RECOVER
    return None if inputs.wait else Signal.REST


def _undisturbed(mode: Mode, inputs: Inputs) -> Signal:
    """Return the signal of a tick in which nothing requests to brake or stop, and the mode is not damped."""
    if inputs.done and mode is Mode.RUNNING:
        return Signal.DONE
    if not inputs.heard or Fault.SILENT in inputs.faults:
        return Signal.LOST
    if mode is Mode.READY and inputs.arm:
        return Signal.ARM
    return Signal.START if inputs.start and mode is not Mode.IDLE else Signal.HEARD


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits of the actuated joints, shape (a,) each, and of drives and supply; inf means no limit.

    Attributes:
        torque: Largest torque [N m].
        torque_rate: Fastest change of torque [N m/s].
        low: Lower position limit [rad].
        high: Upper position limit [rad].
        speed: Largest velocity [rad/s].
        damping: D of the brake (`idcontrol.loop.brake`) [N m s/rad].
        least_share: Share of `torque` and `torque_rate` that the gate admits when torques begin; below 1 it then grows
            to 1 (`Policy.power_ramp_s`).
        power: `torque` as a share of the motors' full torque.
        hot_c: Highest temperature of a drive [°C].
        voltage_v: Lowest and highest supply voltage [V].
        gate: The first five limits as rows, shape (5, a), for `admit_kernel`.
    """

    torque: Array
    torque_rate: Array
    low: Array
    high: Array
    speed: Array
    damping: Array
    least_share: float = 1.0
    power: float = 1.0
    hot_c: float = 80.0
    voltage_v: tuple[float, float] = (0.0, 1e6)
    gate: Array = field(init=False)

    def __post_init__(self) -> None:
        # one array, because every argument of a compiled function takes time
        object.__setattr__(self, "gate", np.stack((self.torque, self.torque_rate, self.low, self.high, self.speed)))


class Cut(enum.IntFlag):
    """The limits at which the gate has cut a command, a set of flags."""

    NONE = 0
    POSITION = 1
    SPEED = 2
    RATE = 4
    TORQUE = 8
    GAIN = 16
    """A gain of a drive was too large."""
    TARGET = 32
    """The targets of a drive were too far from the reference (`idcontrol.loop.gate.tie`)."""
    MOTION = 64
    """A joint's motion would have changed its drive's torque too fast (`idcontrol.loop.gate.soften`). This is no fault
    of the command: the velocities of coarse encoders jump, of one joint or another in every tick."""


def admit(limits: Limits, wanted: Array, last: Array, q: Array, v: Array, share: float, dt: float, out: Array) -> Cut:
    """Write into `out` the torques that may be sent to the hardware; this is the last gate.

    A torque that pushes a joint further beyond its range, or accelerates a joint that is too fast, becomes zero. Then
    the change of every torque from the last torque is limited by its rate, and finally every torque by its limit.

    Args:
        limits: Limits of the joints.
        wanted: Commanded torques, finite, shape (a,) [N m].
        last: Torques that were sent last, within the limits, shape (a,) [N m].
        q: Joint positions, shape (a,) [rad].
        v: Joint velocities, shape (a,) [rad/s].
        share: Fraction of `wanted` that is applied (soft start), 0 to 1.
        dt: Time since `last` was sent [s].
        out: Result, shape (a,) [N m]; may be `last`.

    Returns:
        The limits at which a torque was cut.
    """
    cuts = np.zeros(len(out), dtype=np.int64)
    admit_kernel(limits.gate, wanted, last, q, v, share, dt, out, cuts)
    return Cut(int(np.bitwise_or.reduce(cuts)))


@njit(cache=True)
def admit_kernel(
    gate: Array, wanted: Array, last: Array, q: Array, v: Array, share: float, dt: float, out: Array, cuts: Integers
) -> None:  # pragma: no cover - compiled
    """Run `admit` with the limits `gate` (`Limits.gate`); add the `Cut` of each torque to `cuts`, shape (a,)."""
    torque, rate, low, high, speed = gate
    for i in range(wanted.shape[0]):
        tau = share * wanted[i]
        if (q[i] < low[i] and tau < 0.0) or (q[i] > high[i] and tau > 0.0):
            tau = 0.0
            cuts[i] |= 1
        if abs(v[i]) > speed[i] and tau * v[i] > 0.0:
            tau = 0.0
            cuts[i] |= 2
        step = rate[i] * dt
        if abs(tau - last[i]) > step:
            tau = last[i] + np.copysign(step, tau - last[i])
            cuts[i] |= 4
        if abs(tau) > torque[i]:
            tau = np.copysign(torque[i], tau)
            cuts[i] |= 8
        out[i] = tau
