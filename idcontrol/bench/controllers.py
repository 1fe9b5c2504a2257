"""Times of whole control steps, from state and reference to torques."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from idcontrol import controllers
from idcontrol.bench.measurement import Bar, Benchmark, Effort, TimingRow, floor, measure
from idcontrol.bench.problems.walks import RecordedWalk
from idcontrol.bench.timing import Job
from idcontrol.types import Booleans, Command, Controller, Status

BARS = {
    "id-noslip-lcp": Bar(of="floor", bar=2.0, goal=1.5),
    "id-coulomb-qp": Bar(of="floor", bar=4.0, goal=2.5),
    "id-coulomb-lcp": Bar(of="floor", bar=5.0, goal=4.0),
    "id-coulomb-smooth": Bar(of="floor", bar=8.0, goal=6.0),
    "id-coulomb-cone": Bar(of="floor", bar=6.0, goal=4.0),
}
"""Bounds on the controllers' medians at four contacts. TSID, called from Python for the same job, takes 5.7 times the
floor (`NOTE`)."""

NOTE = "TSID (tsid 1.7.0, numpy < 2, cmeel-boost 1.82.0, in an environment of its own) took 5.7 floors"

SENSING = ("id-sensed-1", "id-sensed-2")
"""Controllers that need sensed contact forces; sensing takes longer than the control step itself."""


def rows(walk: RecordedWalk, effort: Effort) -> Iterator[TimingRow]:
    """Return a row for each controller that needs no sensed forces; only times with all feet loaded count.

    A controller with the shortcut for sticking contacts has a second row without the shortcut, in which it solves its
    contact problem.
    """
    counted = np.array([moment.pressing == len(walk.feet) for moment in walk.moments])
    for name in controllers.available():
        if name in SENSING:
            continue
        controller = controllers.build(name, walk.setup())
        yield _row(walk, effort, name, controller, counted)
        moment = walk.moments[int(np.flatnonzero(counted)[0])]
        if controller(moment.state, moment.reference).solved_by == "sticking":
            setup = walk.setup()
            full = replace(setup, settings=replace(setup.settings, shortcut=False))
            yield _row(walk, effort, f"{name}, shortcut off", controllers.build(name, full), counted)


def _row(walk: RecordedWalk, effort: Effort, what: str, controller: Controller, counted: Booleans) -> TimingRow:
    def run(i: int) -> Command:
        return controller(walk.moments[i].state, walk.moments[i].reference)

    benchmark = Benchmark(
        what=what,
        contacts=len(walk.feet),
        job=Job(run=run, reset=controller.reset),
        floor=floor(walk),
        states=len(walk.moments),
        solved=lambda command: command.status <= Status.REPAIRED,
        counted=counted,
        bar=BARS.get(what),
        note=NOTE if what in BARS else "",
    )
    return measure(benchmark, effort)
