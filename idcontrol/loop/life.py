"""The phases of a running loop: stand up, work, come to rest, lie down.

::

    standing_up ──up──> working ──end──> halting ──feet at rest──> lying_down ──carried by its body──> (stopped)
         └──────────────────────────────end──────────────────────────↑

Halting takes at most `HALT_S`; it is skipped if the planner cannot halt.

While the machine stands up or lies down, the drives track a path of the joints (`idcontrol.planners.rise.Rise`), and
the controller is not called. Feed-forward torques along the path carry the machine. At a handover between path and
controller, the commands of both are mixed so that no torque jumps.
"""

from __future__ import annotations

import enum
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np

from idcontrol.kernels.bound import entry
from idcontrol.kernels.jit import njit
from idcontrol.types import Array

UP_S, LOAD_S = 2.0, 0.5
"""Duration of the longest path; duration of loading the feet before it, or of unloading them after it [s]."""
LEAST_S = 0.3
"""Minimum duration of a path [s]."""
MIX_S = 0.1
"""Duration of mixing two commands [s]."""
HALT_S = 3.0
"""Time that a planner may take to come to rest [s]."""


class Phase(enum.IntEnum):
    """Phase of a running loop."""

    STANDING_UP = 0
    WORKING = 1
    """Planner and controller are called."""
    HALTING = 2
    """Planner and controller are called; the planner comes to rest."""
    LYING_DOWN = 3


ON_THE_WAY = (Phase.STANDING_UP, Phase.LYING_DOWN)
"""Phases in which the joints follow a path."""


class OnTheWay(Protocol):
    """The joints at a point of the path (`idcontrol.planners.rise.Posture`)."""

    @property
    def q(self) -> Array:
        """Positions, shape (a,) [rad]."""

    @property
    def v(self) -> Array:
        """Velocities, shape (a,) [rad/s]."""

    @property
    def torque(self) -> Array:
        """Torques that support the machine in this posture, shape (a,) [N m]."""


class Way(Protocol):
    """The path between lying and standing (`idcontrol.planners.rise.Rise`)."""

    def problem(self, joints: Array) -> str:
        """Return why a machine with joint positions `joints` (a,) [rad] cannot stand up; "" if it can."""

    def begin(self, joints: Array, *, down: bool) -> None:
        """Start a path at the joint positions `joints`: down to lying if `down`, otherwise up to standing."""

    @property
    def share(self) -> float:
        """Length of the path that was started last, as a fraction of the longest path."""

    def __call__(self, share: float, rate: float = 0.0) -> OnTheWay:
        """Return the joints at the fraction `share` of the path; the fraction grows at `rate` [1/s]."""


@runtime_checkable
class Halting(Protocol):
    """A planner that can come to rest with the feet at positions from which the machine can lie down."""

    @property
    def halted(self) -> bool:
        """True if the planner has come to rest since `halt`."""

    def halt(self) -> None:
        """Let the planner come to rest."""


class Between(NamedTuple):
    """The path of a machine between lying and standing, and the gains of its drives on the path."""

    way: Way
    kp: Array
    """Stiffness, shape (a,) [N m/rad]."""
    kd: Array
    """Damping, shape (a,) [N m s/rad]."""


class Life:
    """The phases of a machine that can lie down.

    Attributes:
        phase: The present phase.
    """

    def __init__(self, between: Between) -> None:
        """Start before any motion."""
        self._between, self.phase = between, Phase.STANDING_UP
        self._since, self._duration, self._load = 0.0, LEAST_S, 0.0
        self._before, self._rows = np.zeros((2, 5, len(between.kp)))
        self._mix = entry(mix, self._before, self._rows, 0.0)

    def problem(self, joints: Array) -> str:
        """Return in one line why a machine at `joints`, shape (a,) [rad], cannot stand up; "" if it can."""
        return self._between.way.problem(joints)

    def following(self, t: float, *, ending: bool, halted: bool | None) -> Phase:
        """Return the phase that follows from time and requests.

        Args:
            t: Time [s].
            ending: True if the machine must come to its end.
            halted: True if the planner has come to rest; None if it cannot be halted.
        """
        if self.phase is Phase.STANDING_UP and self.over(t) and not ending:
            return Phase.WORKING
        if self.phase is Phase.WORKING and ending and halted is not None:
            return Phase.HALTING
        if not ending or (self.phase is Phase.HALTING and not halted and not self.over(t)):
            return self.phase
        return Phase.LYING_DOWN

    def enter(self, phase: Phase, t: float, joints: Array, before: Array) -> None:
        """Enter a phase.

        Args:
            phase: The phase.
            t: Time [s].
            joints: Positions of the joints, shape (a,) [rad].
            before: The last sent rows tau, q, v, kp, kd, shape (5, a), to be mixed with the next commands.
        """
        self.phase, self._since = phase, t
        self._before[:] = before
        if phase in ON_THE_WAY:
            way = self._between.way
            way.begin(joints, down=phase is Phase.LYING_DOWN)
            # the feet of a standing machine already carry its load
            self._duration, self._load = max(LEAST_S, UP_S * way.share), LOAD_S * way.share

    def over(self, t: float) -> bool:
        """Return True if the time for the path is over; while halting, if the time for coming to rest is over."""
        return t - self._since >= (HALT_S if self.phase is Phase.HALTING else self._duration + self._load)

    def on_the_way(self, t: float) -> Array:
        """Return the command at time `t` [s] on the path: rows tau, q, v, kp, kd, shape (5, a).

        The next call overwrites the result.
        """
        between, since, down = self._between, t - self._since, self.phase is not Phase.STANDING_UP
        share, rate = smooth((since if down else since - self._load) / self._duration)
        at = between.way(share, rate / self._duration)
        loading = (self._duration + self._load - since if down else since) / max(self._load, 1e-9)
        load, _ = smooth(loading)
        rows = self._rows
        rows[0], rows[1], rows[2], rows[3], rows[4] = load * at.torque, at.q, at.v, between.kp, between.kd
        if down:
            rows[3] *= load
            self._mix(self._before, rows, since / MIX_S)
        return rows

    def mixes(self, t: float) -> bool:
        """Return True while the controller's commands must be mixed with the last command of the path."""
        return self.phase is Phase.WORKING and t - self._since < MIX_S

    def take_over(self, t: float, rows: Array) -> None:
        """Overwrite `rows`, a controller's command (5, a), by its mixture with the last command of the path."""
        self._mix(self._before, rows, (t - self._since) / MIX_S)


def smooth(u: float) -> tuple[float, float]:
    """Return value and slope at `u` of a polynomial that rises from 0 to 1 while `u` grows from 0 to 1.

    Slope and curvature are zero at both ends.
    """
    u = min(max(u, 0.0), 1.0)
    return u * u * u * (10.0 + u * (6.0 * u - 15.0)), 30.0 * (u * (1.0 - u)) ** 2


@njit(cache=True, error_model="numpy")
def mix(before: Array, after: Array, share: float) -> None:  # pragma: no cover - compiled
    """Overwrite `after` with a command for which the drives apply ``(1 - s) τ_before + s τ_after`` in every state.

    Gains and feed-forward torques are mixed in this ratio; positions and velocities are means, weighted with the gains.

    Args:
        before: Rows tau, q, v, kp, kd, shape (5, a).
        after: Rows tau, q, v, kp, kd, shape (5, a); overwritten.
        share: The fraction s, clipped to 0 to 1.
    """
    s = min(max(share, 0.0), 1.0)
    if s == 1.0:
        return
    for j in range(after.shape[1]):
        after[0, j] = (1.0 - s) * before[0, j] + s * after[0, j]
        for gain, at in ((3, 1), (4, 2)):
            ours, theirs = (1.0 - s) * before[gain, j], s * after[gain, j]
            both = ours + theirs
            if both > 0.0:
                after[at, j] = (ours * before[at, j] + theirs * after[at, j]) / both
            after[gain, j] = both
