"""Settings that several scenes share."""

from __future__ import annotations

import msgspec

from idcontrol.configuration import NotNegative, Positive
from idcontrol.errors import InputError


class CountedFriction(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The friction that the controller counts on (planner.md 7): an over-estimate makes robots fall.

    Attributes:
        estimate: Best estimate of the friction coefficient; null is the true value.
        share: Part of the estimate that is counted on.
        cap: Upper bound, however rough the ground.
    """

    estimate: NotNegative | None = None
    share: Positive = 0.8
    cap: Positive = 0.7

    def of(self, mu: float) -> float:
        """The friction coefficient that the controller is given where the true one is `mu`."""
        return min(self.share * (mu if self.estimate is None else self.estimate), self.cap)


def control_periods(duration_s: float, rate_hz: float) -> int:
    """Number of control periods in `duration_s` [s] at `rate_hz` [Hz].

    Raises:
        InputError: There is none.
    """
    periods = round(duration_s * rate_hz)
    if periods < 1:
        raise InputError(f"duration_s={duration_s} is shorter than one period of {rate_hz} Hz")
    return periods
