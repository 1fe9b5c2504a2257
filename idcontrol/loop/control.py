"""Planner and controller of a loop, called once per tick and guarded against errors and hangs."""

from __future__ import annotations

import signal
import traceback
from collections.abc import Callable

import numpy as np

from idcontrol.config import places
from idcontrol.controllers.answer import check_command
from idcontrol.loop.gate import Setpoints
from idcontrol.loop.life import Halting
from idcontrol.loop.load import BaseLoad
from idcontrol.loop.observer import Observer
from idcontrol.loop.safety import Fault, Policy
from idcontrol.loop.session import Parts
from idcontrol.loop.telemetry import Counts, Telemetry
from idcontrol.types import Status


class Hung(BaseException):
    """Planner or controller did not return in time.

    The class is not derived from `Exception`, so ``except Exception`` in user code does not catch it.
    """


class Guard:
    """Guarded calls of user code, which may raise any exception or never return."""

    def __init__(self, counts: Counts, hang_s: float | None) -> None:
        """Store the first error in `counts`; SIGALRM interrupts a call after `hang_s` [s]; None disables the alarm."""
        self._counts, self._hang_s, self._calling = counts, hang_s, False

    def __call__(self, call: Callable[[], Fault]) -> Fault:
        """Make the call and return its fault: `RAISED` if it raises, `HUNG` if it was interrupted."""
        # An alarm may come at any moment while `_calling`, so the try block contains all code of that time. The alarm
        # stays set between two ticks, which saves a system call: the next tick sets it again.
        try:
            try:
                if self._hang_s is not None:
                    signal.setitimer(signal.ITIMER_REAL, self._hang_s)
                self._calling = True
                fault = call()
            except Hung:
                raise
            except BaseException as error:  # user code may raise anything; the machine must still be braked
                fault = Fault.RAISED
                self._keep(error)
            self._calling = False
            return fault
        except Hung as hung:
            self._keep(hung)  # the traceback shows where the call hung
            return Fault.HUNG

    def on_alarm(self) -> None:
        """Interrupt a call that hangs; at any other time, do nothing.

        An alarm while the timer still runs is ignored: it belongs to other code, or to the previous tick.

        Raises:
            Hung: A call has not returned in time.
        """
        if self._calling and not signal.getitimer(signal.ITIMER_REAL)[0]:
            self._calling = False
            raise Hung("planner or controller did not return in time")

    def _keep(self, error: BaseException) -> None:
        if not self._counts.error:
            self._counts.error = places.described(error)
            self._counts.traceback = "".join(traceback.format_exception(error))


class Control:
    """Planner and controller.

    Attributes:
        guard: Guards the calls of planner and controller.
        halted: True if the planner has come to rest; None if it cannot be halted.
    """

    halted: bool | None

    def __init__(
        self, parts: Parts, policy: Policy, observer: Observer, setpoints: Setpoints, telemetry: Telemetry, guard: Guard
    ) -> None:
        """Read states of the `observer`, write `setpoints`, and record references and commands in the `telemetry`."""
        self._parts, self._policy = parts, policy
        self._observer, self._setpoints, self._telemetry, self.guard = observer, setpoints, telemetry, guard
        self._load = BaseLoad(parts.controller, parts.system, policy.load_share)
        self._halting = parts.planner if isinstance(parts.planner, Halting) else None
        self.restart()

    def warm(self, calls: int) -> None:
        """Reset and call planner and controller at the present state, `calls` times, then reset them again.

        Afterwards their code is compiled, loaded and in the CPU's caches.
        """
        state, parts = self._observer.state, self._parts
        assert state is not None
        for _ in range(calls):
            self._reset()
            parts.controller(state.sealed(), parts.planner(state))
        self._reset()

    def ask(self) -> Fault:
        """Compute the next command, record it, and adopt its setpoints if they are usable; return the fault."""
        return self.guard(self._answer)

    def begin(self) -> Fault:
        """Restart planner and controller at the machine's state and time zero; compute the first command as `ask` does.

        Return the fault.
        """
        self._observer.begin_work()
        return self.guard(self._begin)

    def halt(self) -> Fault:
        """Tell the planner to come to rest, and compute the next command as `ask` does; return the fault.

        The planner must be one that can be halted: `halted` is not None.
        """
        return self.guard(self._halt)

    def restart(self) -> None:
        """Forget that the planner was halted."""
        self.halted = None if self._halting is None else False

    def _reset(self) -> None:
        assert self._observer.state is not None
        self._parts.planner.reset(self._observer.state)
        self._parts.controller.reset()
        self._load.restart()

    def _begin(self) -> Fault:
        self._reset()
        return self._answer()

    def _halt(self) -> Fault:
        assert self._halting is not None
        self._halting.halt()
        return self._answer()

    def _answer(self) -> Fault:
        parts, state, telemetry = self._parts, self._observer.state, self._telemetry
        of = telemetry.row.of
        assert state is not None
        reference = parts.planner(state)
        if self._halting is not None:
            self.halted = self._halting.halted
        if parts.stance is not None:
            reference = parts.stance(state, reference)
        telemetry.lap("plan")
        command = parts.controller(state.sealed(), reference)
        telemetry.lap("control")
        patch = parts.wire.patch
        contacts = len(of["stance"]) if patch is None else len(patch)
        check_command(command, parts.controller, state, len(of["tau"]), contacts)
        telemetry.record(reference, command)
        if parts.notes:
            of["notes"][:] = parts.planner.notes()
        if command.status == Status.FAILED:
            return Fault.FAILED  # with the zero torque of a failed command a robot would sink: the last torque holds
        driven = np.ascontiguousarray(command.driven, dtype=np.float64)
        # a controller that predicts forces knows the torques of the motion; others may move joints by targets alone
        tied = command.predicted is not None
        fault = self._setpoints.take(driven, self._policy.tracking, tied=tied)
        if command.status == Status.FALLBACK and fault is not Fault.NOT_FINITE:
            fault |= Fault.FALLBACK
        return fault | self._load.judge(state.t)
