"""What a loop, and the machine at its other end, may do when: a pure state machine, and the last gate of torques.

::

    idle ──heard──> ready ──start──> running ──damp──> damped ──rest──> stopped
      <────lost────   │                 │                               ↑
                      └──────stop───────┴──────────────stop─────────────┘     (stop leads there from anywhere)

There is no way back: a machine that was damped is started by a new session. What is wrong in a tick is a set of
`Fault`; the `Policy` says for each how many ticks in a row are survived by holding the last admissible torque, and what
comes then. Loop and machine run the same state machine, each with faults of its own to look for.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Annotated, Literal

import msgspec
import numpy as np
from numba import njit

from idcontrol.loop.clock import NS
from idcontrol.types import Array


class Mode(enum.IntEnum):
    """What a side is doing."""

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


class Signal(enum.Enum):
    """What may change the mode, weakest first."""

    HEARD = "the other side was heard"
    LOST = "the other side is silent"
    START = "torques may flow"
    REST = "the machine rests, or was given time enough"
    DAMP = "brake"
    STOP = "end at once"


TRANSITIONS: Mapping[tuple[Mode, Signal], Mode] = MappingProxyType(
    {
        (Mode.IDLE, Signal.HEARD): Mode.READY,
        (Mode.READY, Signal.LOST): Mode.IDLE,
        (Mode.READY, Signal.START): Mode.RUNNING,
        (Mode.RUNNING, Signal.DAMP): Mode.DAMPED,
        (Mode.DAMPED, Signal.REST): Mode.STOPPED,
        # whoever brakes before it runs has nothing to brake
        (Mode.IDLE, Signal.DAMP): Mode.STOPPED,
        (Mode.READY, Signal.DAMP): Mode.STOPPED,
        (Mode.IDLE, Signal.STOP): Mode.STOPPED,
        (Mode.READY, Signal.STOP): Mode.STOPPED,
        (Mode.RUNNING, Signal.STOP): Mode.STOPPED,
        (Mode.DAMPED, Signal.STOP): Mode.STOPPED,
    }
)
"""What is not listed changes nothing."""


class Fault(enum.IntFlag):
    """The faults of a tick."""

    NONE = 0
    OVERRUN = 1
    """The control step took longer than its period, or beats were missed before it."""
    SILENT = 2
    """The newest news of the other side is older than `Policy.late_s`."""
    NOT_FINITE = 4
    """The controller returned a NaN, an infinity, or torques of another shape; at a machine: its plant diverged."""
    RAISED = 8
    """Planner or controller raised."""
    HUNG = 16
    """Planner or controller did not return within `Policy.hang_s`."""
    SOLVER = 32
    """The controller's status is fallback or failed."""
    CLOCK = 64
    """The clock jumped: the process, or the whole computer, was suspended."""
    PEER = 128
    """The other side has damped or stopped by itself."""


NAMES: Mapping[Fault, str] = MappingProxyType(
    {
        Fault.OVERRUN: "overrun",
        Fault.SILENT: "silent",
        Fault.NOT_FINITE: "not_finite",
        Fault.RAISED: "raised",
        Fault.HUNG: "hung",
        Fault.SOLVER: "solver",
        Fault.CLOCK: "clock",
        Fault.PEER: "peer",
    }
)
"""The faults by the names of their fields in `Policy`."""
_FAULTS = tuple(NAMES)
_CALM = (0,) * len(_FAULTS)

NotNegative = Annotated[float, msgspec.Meta(ge=0)]
Positive = Annotated[float, msgspec.Meta(gt=0)]


class Rule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The reaction to a fault.

    Attributes:
        tolerate: Number of ticks in a row with the fault that are survived; without a new torque the last is held.
        then: Reaction to one more tick with it: go on holding, brake, or drop all torque.
    """

    tolerate: Annotated[int, msgspec.Meta(ge=0)] = 0
    then: Literal["hold", "damp", "stop"] = "damp"


class Policy(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The faults that a side tolerates.

    The first eight are the rules for each `Fault`.

    Attributes:
        overrun: For `Fault.OVERRUN`.
        silent: For `Fault.SILENT`; libfranka's robots tolerate 20 lost packets in a row, too.
        not_finite: For `Fault.NOT_FINITE`.
        raised: For `Fault.RAISED`.
        hung: For `Fault.HUNG`.
        solver: For `Fault.SOLVER`.
        clock: For `Fault.CLOCK`.
        peer: For `Fault.PEER`.
        start_s: How long the other side may take to become ready before nothing is begun at all.
        late_s: Age of news above which the other side counts as silent.
        hang_s: Time after which planner or controller is interrupted.
        soft_start_s: Torques grow from zero to what is asked over this time.
        rest_speed: All joints slower than this are at rest [rad/s].
        damp_s: The longest braking.
    """

    overrun: Rule = Rule(tolerate=50)
    silent: Rule = Rule(tolerate=20)
    not_finite: Rule = Rule(tolerate=5)
    raised: Rule = Rule()
    hung: Rule = Rule()
    solver: Rule = Rule(tolerate=20)
    clock: Rule = Rule()
    peer: Rule = Rule()
    start_s: Positive = 5.0
    late_s: Positive = 0.01
    hang_s: Positive = 0.1
    soft_start_s: NotNegative = 0.02
    rest_speed: Positive = 0.05
    damp_s: Positive = 1.0


@dataclass(frozen=True, slots=True)
class Safety:
    """Where the state machine is.

    Attributes:
        mode: The mode.
        since: When it was entered [ns].
        streak: How many ticks in a row each fault has lasted, in the order of `NAMES`; counted while running.
    """

    mode: Mode = Mode.IDLE
    since: int = 0
    streak: tuple[int, ...] = _CALM


def advance(
    safety: Safety,
    policy: Policy,
    now: int,
    faults: Fault,
    *,
    heard: bool,
    start: bool = False,
    damp: bool = False,
    stop: bool = False,
    resting: bool = False,
) -> Safety:
    """One tick of the state machine; pure.

    Args:
        safety: Where it was.
        policy: What is tolerated.
        now: Time [ns].
        faults: What is wrong in this tick.
        heard: Whether there is good news of the other side.
        start: Whether torques may flow.
        damp: Whether somebody asked for the end (Ctrl-C, the end of the run): brake.
        stop: Whether somebody asked for the end at once.
        resting: Whether the machine is at rest.
    """
    mode, streak = safety.mode, safety.streak
    if mode is Mode.RUNNING and (faults or streak != _CALM):
        streak = tuple(count + 1 if fault in faults else 0 for fault, count in zip(_FAULTS, streak, strict=True))
        for fault, count in zip(_FAULTS, streak, strict=True):
            if count:
                rule: Rule = getattr(policy, NAMES[fault])
                damp |= rule.then == "damp" and count > rule.tolerate
                stop |= rule.then == "stop" and count > rule.tolerate
    if stop:
        signal = Signal.STOP
    elif damp and mode is not Mode.DAMPED:
        signal = Signal.DAMP
    elif mode is Mode.DAMPED:
        if not resting and now - safety.since < policy.damp_s * NS:
            return safety
        signal = Signal.REST
    elif not heard or Fault.SILENT in faults:
        signal = Signal.LOST
    else:
        signal = Signal.START if start and mode is Mode.READY else Signal.HEARD
    entered = TRANSITIONS.get((mode, signal), mode)
    if entered is mode:
        return safety if streak == safety.streak else replace(safety, streak=streak)
    return Safety(mode=entered, since=now)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What the actuated joints may be asked, shape (a,) each.

    Attributes:
        torque: Largest torque [N m]; inf where there is none, as in the rest.
        torque_rate: Fastest change of torque [N m/s].
        low: Least position [rad].
        high: Largest position [rad].
        speed: Largest velocity [rad/s].
        damping: D of the brake (`idcontrol.loop.brake`) [N m s/rad].
    """

    torque: Array
    torque_rate: Array
    low: Array
    high: Array
    speed: Array
    damping: Array


class Cut(enum.IntFlag):
    """What the gate took away."""

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
        limits: What may be asked.
        wanted: What is asked, finite, shape (a,) [N m].
        last: What was sent last, within the limits, shape (a,) [N m].
        q: Joint positions, shape (a,) [rad].
        v: Joint velocities, shape (a,) [rad/s].
        share: How much of `wanted` (soft start), 0 to 1.
        dt: Time since `last` was sent [s].
        out: Shape (a,); may be `last`.

    Returns:
        What was taken away.
    """
    cut = _admit(
        wanted, last, q, v, limits.torque, limits.torque_rate, limits.low, limits.high, limits.speed, share, dt, out
    )
    return Cut(cut) if cut else Cut.NONE


@njit(cache=True)
def _admit(
    wanted: Array,
    last: Array,
    q: Array,
    v: Array,
    torque: Array,
    rate: Array,
    low: Array,
    high: Array,
    speed: Array,
    share: float,
    dt: float,
    out: Array,
) -> int:  # pragma: no cover - compiled
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
