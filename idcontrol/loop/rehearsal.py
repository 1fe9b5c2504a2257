"""Run a rehearsal shortly before each tick, so that the tick's code and data are in the processor's caches.

Between two ticks the processor halts or runs other processes, so the caches contain little of a tick's code when it
starts. A `Rehearsal` is a second loop with a separate planner and controller. It reads the same state repeatedly, and
its commands are not sent. It runs while the loop would otherwise only spin.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Final

import numpy as np
from msgspec import structs

from idcontrol.loop.clock import NS, Clock, Cycle
from idcontrol.loop.machine import specific_force
from idcontrol.loop.real import WARM_TICKS, ControlLoop
from idcontrol.loop.safety import NAMES, Mode, Policy, Rule, Safety
from idcontrol.loop.session import Parts
from idcontrol.loop.wire import Kind, Outbox, SessionNumbers
from idcontrol.types import State

SLOWER: Final = 1.5
"""Expected duration of a rehearsal with cold caches, relative to its duration with warm caches."""


class Rehearsal:
    """A loop without a machine; the object is also the link of this loop, and plays the machine.

    Attributes:
        on_alarm: The handler of SIGALRM, as in `ControlLoop`. Without an alarm, a planner that hangs in the rehearsal
            would block the loop for ever.
    """

    def __init__(
        self, parts: Parts, clock: Clock, policy: Policy, period: int, state: State, *, interrupt: bool = False
    ) -> None:
        """Prepare the rehearsal.

        Args:
            parts: Parts that no other loop uses; planner and controller continue in their present state.
            clock: The clock of the ticks.
            policy: Policy of the loop; in the rehearsal all faults are tolerated.
            period: Time between two ticks [ns].
            state: State of the machine.
            interrupt: True if SIGALRM may interrupt planner and controller, as in `ControlLoop`.
        """
        wire, self._clock, self._heard, self._count = parts.wire, clock, b"", 0
        self._machine = Outbox(Kind.STATE, wire.robot, wire.state_values, session=1)
        at_rest = specific_force(state, state, 1.0, wire.floating)
        felt = structs.replace(state, forces=None)
        wire.write_state(self._machine.values, felt, np.zeros_like(wire.torque_limit), at_rest)
        tolerant = structs.replace(policy, **dict.fromkeys(NAMES.values(), Rule(then="hold")))
        self._loop = ControlLoop(
            self, replace(parts, between=None), clock, tolerant,
            period=period, duration=sys.maxsize, numbers=SessionNumbers(own=2, other=1), interrupt=interrupt,
        )  # fmt: skip
        self._loop.safety = Safety(mode=Mode.RUNNING)
        self._lasts, self._hang = min(self._tick() for _ in range(WARM_TICKS)), round(policy.hang_s * NS)
        self.on_alarm = self._loop.on_alarm

    def __call__(self, deadline: int) -> None:
        """Run a tick if it should end before `deadline` [ns]; do nothing if an earlier tick has hung."""
        if deadline - self._clock.now() > SLOWER * self._lasts and self._tick() >= self._hang:
            self._lasts = sys.maxsize

    def _tick(self) -> int:
        """Run a tick of the rehearsal; return its duration [ns]."""
        began = self._clock.now()
        self._heard, self._count = bytes(self._machine.seal(Mode.RUNNING, began, 0)), self._count + 1
        self._loop.tick(Cycle(index=self._count, due=began, woke=began))
        self._loop.kept()
        return self._clock.now() - began

    def send(self, data: memoryview) -> None:
        """Drop a command."""

    def receive(self) -> bytes | None:
        """Return the message prepared for this tick; at further calls in the tick return None."""
        heard, self._heard = self._heard, b""
        return heard or None

    def settle(self) -> None:
        """Do nothing: there is no other sender."""

    def close(self) -> None:
        """Do nothing: there is nothing to release."""
