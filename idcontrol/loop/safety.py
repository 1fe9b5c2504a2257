"""The safety of a loop and of the machine at its other end: a pure state machine, and the last gate of torques.

::

    idle ──heard──> ready ──arm──> armed ──start──> running ──done──> stopped
      <────lost────   ↑  <───────────────lost          │                ↑
                      │                               damp              │
                      └──────────recover──────────── damped ────rest────┘     (stop leads there from anywhere)

Damping is for faults; a normal end is done when the machine carries itself. A machine that was damped may be recovered
once it rests and nothing is wrong any more; then it is armed anew. What is wrong in a tick is a set of `Fault`; the
`Policy` says for each how many ticks in a row are survived by holding the last admissible torque, and what comes then.
Loop and machine run the same state machine, each with faults of its own to look for; a machine is never armed, it
follows its loop.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Annotated, Final, Literal

import msgspec
import numpy as np

from idcontrol.config.configuration import Duration, NotNegative, Positive
from idcontrol.kernels.jit import njit
from idcontrol.loop.clock import NS
from idcontrol.types import Array


class Mode(enum.IntEnum):
    """The mode of a loop or of a machine."""

    IDLE = 0
    """Nothing is known of the other side; no torque."""
    READY = 1
    """The other side is there; the machine is held, and nothing asked of it."""
    RUNNING = 2
    """The controller's torques are applied."""
    DAMPED = 3
    """The machine brakes its own joints: τ = -D q̇."""
    STOPPED = 4
    """No torque; the end."""
    ARMED = 5
    """Somebody has allowed torques; whether they may begin is being checked. To its machine the loop is still ready."""


NOT_BEGUN = (Mode.IDLE, Mode.READY, Mode.ARMED)
"""Modes in which nothing has begun."""


class Signal(enum.Enum):
    """An event that may change the mode; weakest first."""

    HEARD = "the other side was heard"
    LOST = "the other side is silent"
    ARM = "somebody allows torques"
    START = "torques may flow"
    DONE = "the machine carries itself"
    RECOVER = "somebody wants to begin anew, and nothing is wrong"
    REST = "the machine rests, or was given time enough"
    DAMP = "brake"
    STOP = "end at once"


TRANSITIONS: Mapping[tuple[Mode, Signal], Mode] = MappingProxyType(
    {
        (Mode.IDLE, Signal.HEARD): Mode.READY,
        (Mode.READY, Signal.LOST): Mode.IDLE,
        (Mode.READY, Signal.ARM): Mode.ARMED,
        (Mode.READY, Signal.START): Mode.RUNNING,  # a machine, by its loop
        (Mode.ARMED, Signal.LOST): Mode.IDLE,
        (Mode.ARMED, Signal.START): Mode.RUNNING,
        (Mode.RUNNING, Signal.DAMP): Mode.DAMPED,
        (Mode.RUNNING, Signal.DONE): Mode.STOPPED,
        (Mode.DAMPED, Signal.RECOVER): Mode.READY,
        (Mode.DAMPED, Signal.REST): Mode.STOPPED,
        # whoever brakes before it runs has nothing to brake
        (Mode.IDLE, Signal.DAMP): Mode.STOPPED,
        (Mode.READY, Signal.DAMP): Mode.STOPPED,
        (Mode.ARMED, Signal.DAMP): Mode.STOPPED,
        (Mode.IDLE, Signal.STOP): Mode.STOPPED,
        (Mode.READY, Signal.STOP): Mode.STOPPED,
        (Mode.ARMED, Signal.STOP): Mode.STOPPED,
        (Mode.RUNNING, Signal.STOP): Mode.STOPPED,
        (Mode.DAMPED, Signal.STOP): Mode.STOPPED,
    }
)
"""The mode that each signal leads to; where a pair is not listed, the mode stays."""


class Fault(enum.IntFlag):
    """The faults of a tick, a set of flags."""

    NONE = 0
    OVERRUN = 1
    """The control step took longer than its period, or beats were missed before it."""
    SILENT = 2
    """The newest news of the other side is older than `Policy.late_s`."""
    NOT_FINITE = 4
    """The controller returned a NaN or an infinity; at a machine: its plant diverged."""
    RAISED = 8
    """Planner or controller raised, or the controller returned torques of another shape."""
    HUNG = 16
    """Planner or controller did not return within `Policy.hang_s`."""
    FALLBACK = 32
    """The controller's status is fallback: its torque is sent."""
    CLOCK = 64
    """The clock jumped: the process, or the whole computer, was suspended. Or the machine's time went back."""
    PEER = 128
    """The other side has damped or stopped by itself."""
    FAILED = 256
    """The controller's status is failed: its torque is not sent."""
    RECORDER = 512
    """The recorder has ended (its disk is full, or it was killed), or has fallen behind by all that its ring holds."""
    ENCODER = 1024
    """A joint jumped, or stood still while its velocity said that it moved (`idcontrol.loop.plausible`): the message is
    not used."""
    TIPPED = 2048
    """The base leans by more than `Policy.tilt_rad`; before the start, nothing is begun."""
    ASTRAY = 4096
    """A joint is further from its reference than `Policy.tracking`."""
    DRIVE = 8192
    """A drive reports an error."""
    HOT = 16384
    """A drive is hotter than `Policy.hot_c`."""
    VOLTAGE = 32768
    """The supply is outside of `Policy.voltage`."""
    ESTOP = 65536
    """The emergency stop is pressed; before the start, nothing is begun."""
    QUATERNION = 131072
    """The norm of the base's quaternion is off 1 by more than 0.001: the message is not used."""
    POSE = 262144
    """The machine cannot begin from where its joints are; before the start alone."""


NAMES: Mapping[Fault, str] = MappingProxyType(
    {
        Fault.OVERRUN: "overrun",
        Fault.SILENT: "silent",
        Fault.NOT_FINITE: "not_finite",
        Fault.RAISED: "raised",
        Fault.HUNG: "hung",
        Fault.FALLBACK: "fallback",
        Fault.CLOCK: "clock",
        Fault.PEER: "peer",
        Fault.FAILED: "failed",
        Fault.RECORDER: "recorder",
        Fault.ENCODER: "encoder",
        Fault.TIPPED: "tipped",
        Fault.ASTRAY: "astray",
        Fault.DRIVE: "drive",
        Fault.HOT: "hot",
        Fault.VOLTAGE: "voltage",
        Fault.ESTOP: "estop",
        Fault.QUATERNION: "quaternion",
        Fault.POSE: "pose",
    }
)
"""The faults by the names of their fields in `Policy`."""
MEANINGS: Mapping[Fault, str] = MappingProxyType(
    {
        Fault.OVERRUN: "ticks took longer than their period, or beats were missed",
        Fault.SILENT: "nothing was heard of the other side for too long",
        Fault.NOT_FINITE: "torques or states were no finite numbers",
        Fault.RAISED: "planner or controller raised an error",
        Fault.HUNG: "planner or controller did not return in time",
        Fault.FALLBACK: "the controller found no solution and fell back",
        Fault.CLOCK: "the clock jumped, or the machine's time went back",
        Fault.PEER: "the machine braked or stopped by itself",
        Fault.FAILED: "the controller could not use its input",
        Fault.RECORDER: "the recorder has ended or cannot keep up",
        Fault.ENCODER: "a joint's angle jumped, or stood still while its velocity said that it moved",
        Fault.TIPPED: "the base leaned too far",
        Fault.ASTRAY: "a joint was too far from its reference",
        Fault.DRIVE: "a drive reported an error",
        Fault.HOT: "a drive was too hot",
        Fault.VOLTAGE: "the supply's voltage was too low or too high",
        Fault.ESTOP: "the emergency stop was pressed",
        Fault.QUATERNION: "the base's quaternion was not of unit norm",
        Fault.POSE: "the machine cannot begin from where its joints are",
    }
)
"""The faults in words, for the report of why a loop ended."""
_FAULTS, _BITS = tuple(NAMES), tuple(map(int, NAMES))
_CALM = (0,) * len(_FAULTS)


class Rule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The reaction to a fault.

    Attributes:
        tolerate: Number of ticks in a row with the fault that are survived; without a new torque the last is held.
        then: Reaction to one more tick with it: go on holding, brake, or drop all torque.
    """

    tolerate: Annotated[int, msgspec.Meta(ge=0)] = 0
    then: Literal["hold", "damp", "stop"] = "damp"


PATIENCE: Final = 20
"""Silence that a side tolerates, in periods; libfranka's robots tolerate 20 lost packets in a row, too."""
PATIENCE_S: Final = 0.02
"""It tolerates no less than this [s]. What held torques do depends on time, not on the rate at which they came."""


def patience(period_s: float) -> float:
    """How old news may be of a side that speaks, and answers, once in a period [s]: the same rule for both sides."""
    return max(PATIENCE * period_s, PATIENCE_S)


class Policy(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The faults that a side tolerates.

    The first nineteen are the rules for each `Fault`.

    Attributes:
        overrun: For `Fault.OVERRUN`.
        silent: For `Fault.SILENT`.
        not_finite: For `Fault.NOT_FINITE`.
        raised: For `Fault.RAISED`.
        hung: For `Fault.HUNG`.
        fallback: For `Fault.FALLBACK`.
        clock: For `Fault.CLOCK`.
        peer: For `Fault.PEER`.
        failed: For `Fault.FAILED`.
        recorder: For `Fault.RECORDER`; ``then="hold"`` goes on without a record.
        encoder: For `Fault.ENCODER`.
        tipped: For `Fault.TIPPED`.
        astray: For `Fault.ASTRAY`.
        drive: For `Fault.DRIVE`.
        hot: For `Fault.HOT`.
        voltage: For `Fault.VOLTAGE`; motors that start together let it sag for some ticks.
        estop: For `Fault.ESTOP`.
        quaternion: For `Fault.QUATERNION`.
        pose: For `Fault.POSE`.
        start_s: How long the other side may take to become ready before nothing is begun at all.
        late_s: Age of news above which the other side counts as silent; null is `patience`.
        hang_s: Time after which planner or controller is interrupted.
        soft_start_s: Torques grow from zero to what is asked over this time.
        rest_speed: All joints slower than this may be at rest [rad/s].
        rest_s: They are once it has lasted: a leg that is loaded gathers speed meanwhile.
        damp_s: After this time of braking it counts as resting, whatever its joints do: legs of a machine that lies may
            go on sinking for long.
        jump: How far a joint may be from where its velocities lead [rad or m].
        frozen_s: How long a joint may stand still while its velocity says that it moves.
        tilt_rad: How far the base may lean from upright.
        tracking: How far a joint may be from its reference [rad or m].
        hot_c: How hot a drive may be [°C].
        voltage_v: Least and largest voltage of the supply; robots differ, so the default looks at none.
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
    start_s: Duration = 5.0
    late_s: Duration | None = None
    hang_s: Duration = 0.1
    soft_start_s: NotNegative = 0.02
    rest_speed: Positive = 0.05
    rest_s: Duration = 0.3
    damp_s: Duration = 1.0
    jump: Positive = 0.1
    frozen_s: Duration = 0.02
    tilt_rad: Positive = 1.0
    tracking: Positive = 0.5
    hot_c: Positive = 80.0
    voltage_v: tuple[NotNegative, Positive] = (0.0, 1e6)


@dataclass(frozen=True, slots=True)
class Safety:
    """State of the state machine.

    Attributes:
        mode: The mode.
        since: When it was entered [ns].
        streak: How many ticks in a row each fault has lasted, in the order of `NAMES`; counted while running.
        slow_since: Since when all joints are slow [ns]; None while they are not, or nothing brakes.
        ended_by: The faults that were no longer tolerated when the running ended, or that kept it from being begun.
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
    heard: bool = False
    """Whether there is good news of the other side."""
    start: bool = False
    """Whether torques may flow."""
    damp: bool = False
    """Whether to brake."""
    stop: bool = False
    """Whether to end at once."""
    slow: bool = False
    """Whether all joints are slower than `Policy.rest_speed`."""
    arm: bool = False
    """Whether somebody allows torques."""
    done: bool = False
    """Whether the machine carries itself, so that torques can end."""
    recover: bool = False
    """Whether somebody wants to begin anew."""
    wait: bool = False
    """Whether a machine that has been braked is to be held until somebody recovers it."""


def advance(safety: Safety, policy: Policy, now: int, inputs: Inputs) -> Safety:
    """Advance the state machine by one tick; a pure function.

    Args:
        safety: State before the tick.
        policy: The faults that are tolerated.
        now: Time [ns].
        inputs: Faults and requests of this tick.
    """
    faults, damp, stop = inputs.faults, inputs.damp, inputs.stop
    mode, streak, ended_by, slow_since = safety.mode, safety.streak, safety.ended_by, safety.slow_since
    wanted = damp or stop or inputs.done
    if mode is Mode.RUNNING and streak is _CALM and inputs.heard and not (wanted or faults):
        return safety  # as in almost all ticks
    if mode is Mode.RUNNING and (faults or streak != _CALM):
        found = int(faults)  # of a set of flags each question takes a microsecond or two
        streak = tuple(count + 1 if found & bit else 0 for bit, count in zip(_BITS, streak, strict=True))
        streak = streak if any(streak) else _CALM
        for fault, count in zip(_FAULTS, streak, strict=True):
            if count:
                rule: Rule = getattr(policy, NAMES[fault])
                if rule.then != "hold" and count > rule.tolerate:
                    ended_by |= fault
                    damp |= rule.then == "damp"
                    stop |= rule.then == "stop"
    elif damp and mode in NOT_BEGUN:
        ended_by |= faults  # what kept it from being begun
    if stop:
        signal = Signal.STOP
    elif mode is Mode.DAMPED:
        slow_since = None if not inputs.slow else now if slow_since is None else slow_since
        resting = slow_since is not None and now - slow_since >= policy.rest_s * NS
        resting |= now - safety.since >= policy.damp_s * NS
        if resting and inputs.recover and not faults:
            signal = Signal.RECOVER
        elif resting and not inputs.wait:
            signal = Signal.REST
        else:
            return safety if slow_since == safety.slow_since else replace(safety, slow_since=slow_since)
    elif damp:
        signal = Signal.DAMP
    elif inputs.done and mode is Mode.RUNNING:
        signal = Signal.DONE
    elif not inputs.heard or Fault.SILENT in faults:
        signal = Signal.LOST
    elif mode is Mode.READY and inputs.arm:
        signal = Signal.ARM
    else:
        signal = Signal.START if inputs.start and mode is not Mode.IDLE else Signal.HEARD
    entered = TRANSITIONS.get((mode, signal), mode)
    if entered is mode:
        return safety if streak == safety.streak else replace(safety, streak=streak)
    return Safety(mode=entered, since=now, ended_by=Fault.NONE if signal is Signal.RECOVER else ended_by)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits of the actuated joints, shape (a,) each.

    Attributes:
        torque: Largest torque [N m]; inf where there is none, as in the rest.
        torque_rate: Fastest change of torque [N m/s].
        low: Least position [rad].
        high: Largest position [rad].
        speed: Largest velocity [rad/s].
        damping: D of the brake (`idcontrol.loop.brake`) [N m s/rad].
        gate: The first five, shape (5, a): one argument of `admit`'s kernel, which tells arrays apart in every call.
    """

    torque: Array
    torque_rate: Array
    low: Array
    high: Array
    speed: Array
    damping: Array
    gate: Array = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "gate", np.stack((self.torque, self.torque_rate, self.low, self.high, self.speed)))


class Cut(enum.IntFlag):
    """The limits at which the gate has cut a torque, a set of flags."""

    NONE = 0
    POSITION = 1
    SPEED = 2
    RATE = 4
    TORQUE = 8


def admit(limits: Limits, wanted: Array, last: Array, q: Array, v: Array, share: float, dt: float, out: Array) -> Cut:
    """The last gate before the hardware: write the torques that may be sent into `out`.

    A torque that pushes a joint further out of its range, or makes one that is too fast faster, becomes zero; then no
    torque moves away from the last by more than its rate allows; then none exceeds its limit.

    Args:
        limits: Limits of the joints.
        wanted: Torques that are asked for, finite, shape (a,) [N m].
        last: Torques that were sent last, within the limits, shape (a,) [N m].
        q: Joint positions, shape (a,) [rad].
        v: Joint velocities, shape (a,) [rad/s].
        share: How much of `wanted` (soft start), 0 to 1.
        dt: Time since `last` was sent [s].
        out: Shape (a,); may be `last`.

    Returns:
        The limits at which a torque was cut.
    """
    cut = admit_kernel(limits.gate, wanted, last, q, v, share, dt, out)
    return Cut(cut) if cut else Cut.NONE


@njit(cache=True)
def admit_kernel(
    gate: Array, wanted: Array, last: Array, q: Array, v: Array, share: float, dt: float, out: Array
) -> int:  # pragma: no cover - compiled
    """`admit`, with `Limits.gate`; the sum of the limits at which a torque was cut."""
    torque, rate, low, high, speed = gate
    cut = 0
    for i in range(wanted.shape[0]):
        tau = share * wanted[i]
        if (q[i] < low[i] and tau < 0.0) or (q[i] > high[i] and tau > 0.0):
            tau = 0.0
            cut |= 1
        if abs(v[i]) > speed[i] and tau * v[i] > 0.0:
            tau = 0.0
            cut |= 2
        step = rate[i] * dt
        if abs(tau - last[i]) > step:
            tau = last[i] + np.copysign(step, tau - last[i])
            cut |= 4
        if abs(tau) > torque[i]:
            tau = np.copysign(torque[i], tau)
            cut |= 8
        out[i] = tau
    return cut
