"""A rehearsal runs whole ticks, does not change the real loop, and takes no time that a cycle needs."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest
from msgspec import structs

from idcontrol.loop import launch
from idcontrol.loop.clock import NS, Clock, VirtualClock, WallClock
from idcontrol.loop.launch import LoopSettings
from idcontrol.loop.life import Phase
from idcontrol.loop.real import WARM_TICKS
from idcontrol.loop.rehearsal import Rehearsal
from idcontrol.loop.safety import Policy
from idcontrol.loop.session import Parts, wire_format
from idcontrol.loop.stop import Stop
from idcontrol.record.recording import load
from idcontrol.scenes.walk import WalkConfig
from tests import GUARD_S
from tests.loop.rig import PERIOD, ArmSession, Pd

TARGET = "idcontrol.experiments.live:loop"
STANDING = LoopSettings(transport="inprocess", pacing="fast", start="standing")
TAKES = 100_000
"""Duration of a tick [ns]."""
WALKS = 6 * NS // 10
"""Duration of the walk, including standing up [ns]."""


def rehearsed(controller: Pd, clock: Clock, hang_s: float = 0.1, *, interrupt: bool = False) -> Rehearsal:
    """A rehearsal of the loop of an arm."""
    session = ArmSession()
    parts = Parts(
        planner=session.planner(), controller=controller, system=session.system, wire=wire_format(session),
        limits=session.limits,
    )  # fmt: skip
    return Rehearsal(parts, clock, Policy(hang_s=hang_s), PERIOD, session.start, interrupt=interrupt)


class Slow(Pd):
    """A controller that takes time."""

    def __init__(self, clock: VirtualClock) -> None:
        super().__init__()
        self.clock = clock

    def __call__(self, state, reference):
        self.clock.spend(TAKES)
        return super().__call__(state, reference)


def test_each_rehearsal_calls_planner_and_controller_despite_faults():
    def wrong(calls, command):
        if calls % 2:
            raise ArithmeticError
        return structs.replace(command, tau=np.full(2, np.nan))

    controller = Pd(wrong=wrong)
    rehearsal = rehearsed(controller, VirtualClock())
    before = controller.calls
    for _ in range(200):
        rehearsal(NS)
    assert controller.calls == before + 200


def test_a_rehearsal_that_would_end_after_the_deadline_is_skipped():
    clock = VirtualClock()
    controller = Slow(clock)
    rehearsal = rehearsed(controller, clock)
    assert controller.calls == WARM_TICKS
    for remainder, calls in ((TAKES, 0), (3 * TAKES // 2, 0), (3 * TAKES // 2 + 1, 1), (PERIOD, 1)):
        before = controller.calls
        rehearsal(clock.now() + remainder)
        assert controller.calls - before == calls


def test_a_rehearsal_that_hangs_is_interrupted_and_is_the_last():
    clock, returned = WallClock(), []

    def hangs(calls, command):
        began = time.monotonic()
        while calls > WARM_TICKS and time.monotonic() < began + GUARD_S:
            pass
        returned.append(calls)
        return command

    with Stop() as stop:
        controller = Pd(wrong=hangs)
        rehearsal = rehearsed(controller, clock, 0.2, interrupt=True)
        stop.on_alarm = rehearsal.on_alarm
        for _ in range(3):
            rehearsal(clock.now() + NS)
    assert controller.calls == WARM_TICKS + 1
    assert returned == list(range(1, WARM_TICKS + 1))


class Enough(Exception):
    """The loop has run for long enough."""


def arrays(folder: Path, *, rehearse: bool, monkeypatch) -> bytes:
    """Return the record of the start of a walk in simulated time, with or without a rehearsal before each tick."""
    config = WalkConfig(robot="go1")
    with monkeypatch.context() as patched, Stop() as stop:
        work, sleep, rehearsals = (
            launch._Work(TARGET, config, STANDING, stop, folder, None),
            VirtualClock.sleep_until,
            [],
        )
        if rehearse:
            own = work._parts()
            own.planner.reset(work.session.start)
            rehearsals.append(Rehearsal(own, VirtualClock(), Policy(), PERIOD, work.session.start))

        def waits(clock: VirtualClock, until: int) -> None:
            if until > WALKS:
                raise Enough
            for rehearsal in rehearsals:
                rehearsal(NS)
            sleep(clock, until)

        patched.setattr(VirtualClock, "sleep_until", waits)
        with pytest.raises(Enough):
            work.in_process()
    assert (load(folder).arrays["phase"] == Phase.WORKING).sum() > 100
    return (folder / "arrays.h5").read_bytes()


@pytest.mark.slow
def test_a_rehearsed_walk_is_the_same_to_the_last_bit(tmp_path, monkeypatch):
    plain, other = (
        arrays(tmp_path / f"{rehearse}", rehearse=rehearse, monkeypatch=monkeypatch) for rehearse in (False, True)
    )
    assert plain == other
