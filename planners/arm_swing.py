"""The motion of an arm that swings a body held in its hand (Zapolsky & Drumwright 2017)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from msgspec import structs

from idcontrol.types import Array, Booleans, Reference, State


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmSwing:
    """All joints of an arm swing together from rest, ``q = home + A (cos ωt - 1)``; fingers keep their targets.

    Attributes:
        home: Joint positions at the beginning, shape (a,) [rad or m].
        arm: True for joints that swing, False for fingers, shape (a,).
        amplitude: A [rad].
        rate: ω [rad/s].
        closing: Distance of the finger targets beyond `home`, towards smaller values [rad or m].
        tips: Number of fingertips.
    """

    home: Array
    arm: Booleans
    amplitude: float
    rate: float
    closing: float
    tips: int

    def __call__(self, state: State) -> Reference:
        """Return the reference at `state.t`."""
        return self.at(state.t)

    def at(self, t: float) -> Reference:
        """Return the reference at time `t` [s]."""
        phase = self.rate * t
        moved = self.amplitude * self.arm
        return structs.replace(
            Reference.standing(self.home + moved * (np.cos(phase) - 1.0) - self.closing * ~self.arm, self.tips),
            v=-self.rate * np.sin(phase) * moved,
            a=-(self.rate**2) * np.cos(phase) * moved,
        ).sealed()
