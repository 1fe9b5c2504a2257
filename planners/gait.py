"""Stance and swing of each foot: pure functions of the time since the gait began (planner.md 4.1)."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from idcontrol.errors import InputError
from idcontrol.kernels.jit import njit
from idcontrol.types import Array, Booleans

_ROUNDING = 1e-9
"""Fraction of a period by which events are advanced, so that a tick exactly at an event belongs to the next phase
despite rounding."""


class Timing(NamedTuple):
    """Phase of every foot at one instant; arrays have shape (n_feet,), times are in s.

    Attributes:
        stance: True for feet in planned stance.
        since_touchdown: In stance, time since the planned touchdown; inf in swing and before the first touchdown.
        to_liftoff: In stance, time to the planned lift-off; inf in swing and without a planned lift-off.
        since_liftoff: In swing, time since lift-off; 0 in stance.
        to_touchdown: In swing, time to touchdown; in stance, time to the touchdown that ends the next swing.
    """

    stance: Booleans
    since_touchdown: Array
    to_liftoff: Array
    since_liftoff: Array
    to_touchdown: Array

    @staticmethod
    def of(n: int) -> Timing:
        """Allocate the timing of `n` feet."""
        return Timing(np.ones(n, dtype=np.bool_), *np.zeros((4, n)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Gait:
    """A periodic gait; the defaults are the trot of Zapolsky & Drumwright 2017.

    Attributes:
        period_s: Time of one cycle T [s].
        duty: Share D of the cycle in stance [-].
        touchdown: Touchdown of each foot as a share of the cycle, in the order of the planner's feet [-].
        step_height_m: Apex H of a swing above the line from lift-off to landing [m].
        touchdown_speed_m_s: Downward speed of a foot at touchdown [m/s]; a higher speed makes the time of contact more
            certain.
        start_s: Time with all feet standing before the first lift-off [s].
        sways: True if the base moves with the pushes of the feet (planner.md 4.5), because too few feet stand to hold
            it level.

    Raises:
        InputError: A value is out of range.
    """

    period_s: float = 0.3
    duty: float = 0.75
    touchdown: tuple[float, ...] = (0.25, 0.75, 0.75, 0.25)
    step_height_m: float = 0.015
    touchdown_speed_m_s: float = 0.10
    start_s: float = 0.2
    sways: bool = False

    def __post_init__(self) -> None:
        """Check that the parameters permit walking."""
        if not (math.isfinite(self.period_s) and self.period_s > 0.0):
            raise InputError(f"gait period_s is {self.period_s}; it must be positive")
        if not 0.0 < self.duty < 1.0:
            raise InputError(f"gait duty is {self.duty}; it must lie between 0 and 1, e.g. 0.75")
        if not self.touchdown or not all(0.0 <= phase < 1.0 for phase in self.touchdown):
            raise InputError(f"gait touchdown is {self.touchdown}; give each foot a share of the cycle in [0, 1)")
        for name in ("step_height_m", "touchdown_speed_m_s", "start_s"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value >= 0.0):
                raise InputError(f"gait {name} is {value}; it must be zero or positive")

    @property
    def stance_s(self) -> float:
        """Duration of a stance, D T [s]."""
        return self.duty * self.period_s

    @property
    def swing_s(self) -> float:
        """Duration of a swing, (1 - D) T [s]."""
        return (1.0 - self.duty) * self.period_s

    def timing(self, t: float) -> Timing:
        """Return the phase of every foot at time `t` [s] since the gait began; all feet stand for t < 0.

        A swing that would have begun before the gait is omitted: that foot stands until its next lift-off.
        """
        timing = Timing.of(len(self.touchdown))
        write_timing(t, self.period_s, self.duty, np.array(self.touchdown), timing)
        return timing


class Pattern(NamedTuple):
    """A named gait, in addition to the trot of a robot file.

    Attributes:
        duty: Share D of the cycle in stance [-].
        period: Time of one cycle, relative to the robot file's gait [-].
        height: Apex of a swing, relative to the robot file's gait [-].
        sways: As in `Gait`.
        liftoff: Lift-off of the left fore, right fore, left hind and right hind foot, as shares of the cycle [-].
    """

    duty: float
    period: float
    height: float
    sways: bool
    liftoff: tuple[float, float, float, float]


PATTERNS = {
    "walk": Pattern(0.8, 2.0, 1.0, False, (0.25, 0.75, 0.0, 0.5)),
    "pace": Pattern(0.6, 0.6, 0.8, True, (0.0, 0.5, 0.0, 0.5)),
    "bound": Pattern(0.6, 0.5, 0.8, True, (0.0, 0.0, 0.5, 0.5)),
    "flying-trot": Pattern(0.4, 1.0, 1.0, True, (0.0, 0.5, 0.5, 0.0)),
}
"""Named gaits, in addition to `stand` and the robot file's `trot`."""


def named_gait(kind: str, own: Gait, feet: Array) -> Gait:
    """Return the gait `kind` of a robot.

    Args:
        kind: ``trot`` or one of `PATTERNS`.
        own: The gait of the robot file, a trot.
        feet: The robot's feet in the standing pose, relative to their middle, x ahead and y to the left, shape
            (4, 2 or more) [m].

    Raises:
        InputError: The gait is not ``trot``, and the robot does not have two fore and two hind feet, left and right.
    """
    if kind == "trot":
        return own
    pattern = PATTERNS[kind]
    place = [2 * int(x < 0.0) + int(y < 0.0) for x, y in feet[:, :2].tolist()]
    if sorted(place) != [0, 1, 2, 3]:
        raise InputError(f"gait {kind} is for machines with two fore and two hind feet; use gait.kind=trot")
    return replace(
        own,
        duty=pattern.duty,
        period_s=pattern.period * own.period_s,
        step_height_m=pattern.height * own.step_height_m,
        sways=pattern.sways,
        touchdown=tuple((pattern.liftoff[k] + 1.0 - pattern.duty) % 1.0 for k in place),
    )


@njit(cache=True)
def write_timing(
    t: float, period: float, duty: float, touchdown: Array, timing: Timing
) -> None:  # pragma: no cover - compiled
    """Write the result of `Gait.timing` into `timing`."""
    swing = (1.0 - duty) * period
    begun = max(t, 0.0)
    wait = begun - t
    tiny = 2.0 * _ROUNDING * period
    for i in range(touchdown.shape[0]):
        cycles = begun / period - touchdown[i] + _ROUNDING
        phase = cycles - math.floor(cycles)
        since_touchdown, since_liftoff = phase * period, (phase - duty) * period
        timing.stance[i] = True
        timing.since_touchdown[i], timing.to_liftoff[i], timing.since_liftoff[i] = np.inf, np.inf, 0.0
        if phase < duty:
            if wait == 0.0 and since_touchdown <= t + tiny:
                timing.since_touchdown[i] = since_touchdown
            timing.to_liftoff[i] = wait - since_liftoff
        elif since_liftoff > begun + tiny:
            timing.to_liftoff[i] = wait - since_liftoff + period
        elif wait > 0.0:
            timing.to_liftoff[i] = wait
        else:
            timing.stance[i] = False
            timing.since_liftoff[i] = max(since_liftoff, 0.0)
            timing.to_touchdown[i] = (1.0 - phase) * period
            continue
        timing.to_touchdown[i] = timing.to_liftoff[i] + swing
