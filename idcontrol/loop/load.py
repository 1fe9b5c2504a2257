"""The force on the base that no contact explains: a person holds or pushes the robot, or its payload changes."""

from __future__ import annotations

from typing import Final, Protocol, runtime_checkable

import numpy as np
import pinocchio as pin

from idcontrol.dynamics.system import System
from idcontrol.loop.safety import Fault
from idcontrol.types import Array, Controller

USUAL_S: Final = 1.0
"""Time constant with which the usual force follows [s]: a payload that stays is no fault, a push is."""


@runtime_checkable
class Weighing(Protocol):
    """A controller that estimates the force on the base that its contacts do not explain."""

    @property
    def load(self) -> Array:
        """The force, axes of the base, shape (3,) [N]."""


class BaseLoad:
    """Judges the estimate of a controller that is `Weighing`, by comparison with its usual value.

    An attribute `usual` is the force to which the estimate has settled, axes of the base, shape (3,) [N].
    """

    def __init__(self, controller: Controller, system: System, share: float) -> None:
        """Judge the estimates of `controller`; they may differ by `share` of the weight from the usual force."""
        self._controller = controller if isinstance(controller, Weighing) and system.floats else None
        weight = pin.computeTotalMass(system.model) * float(np.linalg.norm(system.model.gravity.linear))
        self._most, self._t, self.usual = share * weight, np.inf, np.zeros(3)

    def restart(self) -> None:
        """Forget the usual force: the next tick sets it."""
        self._t = np.inf

    def judge(self, t: float) -> Fault:
        """Return the fault of the tick at time `t` [s]."""
        if self._controller is None:
            return Fault.NONE
        off = self._controller.load - self.usual
        after = t - self._t
        self._t = t
        self.usual += min(1.0, after / USUAL_S) * off if after >= 0.0 else off
        return Fault.LOAD if after >= 0.0 and off @ off > self._most**2 else Fault.NONE
