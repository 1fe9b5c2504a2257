"""Stand still, with feet and legs of any kind."""

from __future__ import annotations

import math

import numpy as np
from msgspec import structs

from idcontrol.planners.gait import Gait
from idcontrol.types import Array, Reference, State


class StandPlanner:
    """A planner that keeps the joints in one pose, with all feet on the ground.

    Attributes:
        gait: A gait whose period is used for averages in metrics; the robot does not walk.
        commanded: Zero velocity, shape (3,).
        command: Zero velocity, shape (3,).
    """

    def __init__(self, reference: Reference) -> None:
        """Hold the joints of `reference`."""
        self.gait, self.commanded, self.command = Gait(), np.zeros(3), np.zeros(3)
        self._reference = reference

    def reset(self, state: State) -> None:
        """Set the reference of the base to its position and heading in `state`."""
        place: Array = state.q[:3].copy()
        yaw = 2.0 * math.atan2(state.q[5], state.q[6])
        self._reference = structs.replace(self._reference, base_position=place, base_yaw=yaw)

    def __call__(self, state: State) -> Reference:
        """Return the reference, which does not depend on the state."""
        return self._reference
