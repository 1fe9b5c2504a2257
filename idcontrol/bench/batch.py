"""Control steps per second of many controllers in one call (`idcontrol.batch`)."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from idcontrol import robots
from idcontrol.batch import Commands, Controllers, References
from idcontrol.bench.measurement import Bar, Benchmark, Effort, TimingRow, floor, measure
from idcontrol.bench.problems.walks import RecordedWalk
from idcontrol.bench.timing import Job
from idcontrol.types import Status

ROBOTS = 1000
BAR = Bar(of="us", bar=1e6 * ROBOTS / 80_000, goal=1e6 * ROBOTS / 200_000)
"""At least 80 000 control steps per second on two processors; the goal is 200 000. The bar is in microseconds, not in
multiples of the floor: a call for a thousand robots fills the caches, so the floor is slower than in other sections."""
NAMES = ("id-coulomb-qp", "id-noslip-lcp")


def rows(walk: RecordedWalk, effort: Effort) -> Iterator[TimingRow]:
    """Return a row for each controller in `NAMES`, with a thousand robots spread over the instants of the walk.

    From call to call, each robot moves on by one instant.
    """
    moments, robot = walk.moments, robots.load(walk.robot)
    start = np.arange(ROBOTS) % len(moments)
    t = np.array([moment.state.t for moment in moments])
    q, v = np.array([moment.state.q for moment in moments]), np.array([moment.state.v for moment in moments])
    asked = [moment.reference for moment in moments]
    fields: list[Any] = [np.array([getattr(each, name) for each in asked]) for name in References._fields]
    for name in NAMES:
        batch = Controllers(name, robot, ROBOTS, mu=np.linspace(0.3, 1.0, ROBOTS), rate_hz=1.0 / walk.h)

        def run(i: int, batch: Controllers = batch) -> Commands:
            at = (start + i) % len(moments)
            return batch(t[at], q[at], v[at], References(*[field[at] for field in fields]))

        benchmark = Benchmark(
            what=f"{name}, {ROBOTS} robots",
            job=Job(run=run, reset=batch.reset),
            floor=floor(walk),
            states=len(moments),
            solved=lambda commands: bool((commands.status <= Status.REPAIRED).all()),
            bar=BAR,
            robots=ROBOTS,
        )
        yield measure(benchmark, effort)
