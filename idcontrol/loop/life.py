"""What a running loop does before its planner and controller take over, and after them: stand up, and lie down again.

::

    standing_up ──up──> working ──end──> halting ──feet at rest──> lying_down ──carried by its body──> (stopped)
         └──────────────────────────────end──────────────────────────↑

Standing up and lying down, the drives hold the joints to a path (`idcontrol.planners.rise.Rise`), with the torques that
carry the machine fed forward; whatever the controller is, it has no part in it. Where one hands over to the other their
commands are mixed, so that no torque jumps.
"""

from __future__ import annotations

import enum
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np

from idcontrol.kernels.bound import entry
from idcontrol.kernels.jit import njit
from idcontrol.types import Array

UP_S, LOAD_S = 2.0, 0.5
"""How long the machine moves over its longest way; how long its feet take over the load, or give it up [s]."""
LEAST_S = 0.3
"""The shortest time of a way [s]."""
MIX_S = 0.1
"""How long two commands are mixed [s]."""
HALT_S = 3.0
"""How long a planner may take to come to rest [s]."""


class Phase(enum.IntEnum):
    """What a running loop is doing."""

    STANDING_UP = 0
    WORKING = 1
    """Planner and controller are asked."""
    HALTING = 2
    """They still are, and come to rest."""
    LYING_DOWN = 3


class OnTheWay(Protocol):
    """Joints on the way, as `idcontrol.planners.rise.Posture` has them."""

    @property
    def q(self) -> Array:
        """Positions, shape (a,) [rad]."""

    @property
    def v(self) -> Array:
        """Velocities, shape (a,) [rad/s]."""

    @property
    def torque(self) -> Array:
        """Torques that carry the machine there, shape (a,) [N m]."""


class Way(Protocol):
    """The way between lying and standing, as `idcontrol.planners.rise.Rise` is."""

    def problem(self, joints: Array) -> str:
        """Why a machine at `joints` cannot stand up from there; "" where it can."""
        ...

    def begin(self, joints: Array, *, down: bool) -> None:
        """Begin at `joints`, down to lying, or up."""
        ...

    @property
    def share(self) -> float:
        """How long this way is, as a share of the longest."""

    def __call__(self, share: float, rate: float = 0.0) -> OnTheWay:
        """Joints at a `share` of the way that grows at `rate` [1/s]."""
        ...


@runtime_checkable
class Halting(Protocol):
    """A planner that can be brought to rest, its feet where the machine can lie down from."""

    @property
    def halted(self) -> bool:
        """Whether it has come to rest since `halt`."""

    def halt(self) -> None:
        """Come to rest."""
        ...


class Between(NamedTuple):
    """What a loop needs to know of a machine that can lie."""

    way: Way
    kp: Array
    """Stiffness with which drives hold the joints on the way, shape (a,) [N m/rad]."""
    kd: Array
    """Their damping, shape (a,) [N m s/rad]."""


class Life:
    """The phases of a machine that can lie.

    Attributes:
        phase: What it is doing.
    """

    def __init__(self, between: Between) -> None:
        """Begin as nothing has moved."""
        self._between, self.phase = between, Phase.STANDING_UP
        self._since, self._duration, self._load = 0.0, LEAST_S, 0.0
        self._before, self._rows = np.zeros((2, 5, len(between.kp)))
        self._mix = entry(mix, self._before, self._rows, 0.0)

    def problem(self, joints: Array) -> str:
        """Why a machine at `joints`, shape (a,) [rad], cannot stand up from there, in one line; "" where it can."""
        return self._between.way.problem(joints)

    def stand_up(self, t: float, joints: Array) -> None:
        """Begin to stand up from `joints`, shape (a,) [rad], at time `t` [s]."""
        self._begin(Phase.STANDING_UP, t, joints)

    def lie_down(self, t: float, joints: Array, before: Array) -> None:
        """Begin to lie down at `joints`; `before` is the command until now, shape (5, a)."""
        self._before[:] = before
        self._begin(Phase.LYING_DOWN, t, joints)

    def work(self, t: float, before: Array) -> None:
        """Hand over to planner and controller; `before` is the command until now, shape (5, a)."""
        self._before[:] = before
        self.phase, self._since = Phase.WORKING, t

    def halt(self, t: float) -> None:
        """Let the planner come to rest."""
        self.phase, self._since = Phase.HALTING, t

    def over(self, t: float) -> bool:
        """Whether the time of the phase is over: of a way, or of a planner that was to come to rest."""
        lasts = HALT_S if self.phase is Phase.HALTING else self._duration + self._load
        return t - self._since >= lasts

    def on_the_way(self, t: float) -> Array:
        """The command while it stands up or lies down, rows tau, q, v, kp, kd, shape (5, a); the next overwrites it."""
        between, since, down = self._between, t - self._since, self.phase is not Phase.STANDING_UP
        share, rate = smooth((since if down else since - self._load) / self._duration)
        at = between.way(share, rate / self._duration)
        taken = (self._duration + self._load - since if down else since) / max(self._load, 1e-9)
        load, _ = smooth(taken)
        rows = self._rows
        rows[0], rows[1], rows[2], rows[3], rows[4] = load * at.torque, at.q, at.v, between.kp, between.kd
        if down:
            rows[3] *= load
            self._mix(self._before, rows, since / MIX_S)
        return rows

    def mixes(self, t: float) -> bool:
        """Whether a controller has just taken over."""
        return self.phase is Phase.WORKING and t - self._since < MIX_S

    def take_over(self, t: float, rows: Array) -> None:
        """Mix a controller's command, shape (5, a), with what held the joints before it took over."""
        self._mix(self._before, rows, (t - self._since) / MIX_S)

    def _begin(self, phase: Phase, t: float, joints: Array) -> None:
        way = self._between.way
        way.begin(joints, down=phase is Phase.LYING_DOWN)
        self.phase, self._since, share = phase, t, way.share
        # a machine that stands already has its feet loaded
        self._duration, self._load = max(LEAST_S, UP_S * share), LOAD_S * share


def smooth(u: float) -> tuple[float, float]:
    """A polynomial from 0 to 1 that begins and ends at rest and without acceleration, and its slope."""
    u = min(max(u, 0.0), 1.0)
    return u * u * u * (10.0 + u * (6.0 * u - 15.0)), 30.0 * (u * (1.0 - u)) ** 2


@njit(cache=True, error_model="numpy")
def mix(before: Array, after: Array, share: float) -> None:  # pragma: no cover - compiled
    """Make `after` the command whose drives give ``(1 - s) τ_before + s τ_after`` in every state.

    Its gains are the mixed gains, and its positions and velocities the means that these gains weigh.

    Args:
        before: Rows tau, q, v, kp, kd, shape (5, a).
        after: The same; overwritten.
        share: The share s, taken as one from 0 to 1.
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
