"""Where the time of a whole tick goes: a loop at 1 kHz on the wall clock, its plant in another process.

Between two ticks the processor does something else, or nothing; caches are colder than where steps follow one another,
as in the section `controllers`. The loop's own account tells the parts (`idcontrol.loop.real.PARTS`), in CPU time.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator

import numpy as np

from idcontrol.bench.measurement import Bar, Benchmark, Effort, TimingRow
from idcontrol.bench.scenes import RecordedWalk, floor
from idcontrol.bench.timing import in_turns
from idcontrol.errors import InputError

CONTROLLER, RATE_HZ = "id-coulomb-qp", 1000
PARTS = ("tick", "read", "plan", "control", "gate", "record")
"""The whole tick, and its parts; the state is not estimated."""
GOAL = Bar(of="us", bar=200.0, goal=100.0)
"""Of the median of a whole tick. The goal for one in a thousand is twice that."""


def rows(walk: RecordedWalk, effort: Effort) -> Iterator[TimingRow]:
    """Rows of the whole tick and of its parts; the loop works for as long as that many rows may take.

    Raises:
        InputError: The loop did not work to its end.
    """
    duration = effort.budget_s * len(PARTS)
    with tempfile.TemporaryDirectory() as folder:
        asked = [
            "--controller",
            CONTROLLER,
            "--robot",
            walk.robot,
            "--rate",
            str(RATE_HZ),
            "--set",
            "loop.start=standing",
        ]
        said = subprocess.run(
            [sys.executable, "-P", "-m", "idcontrol", "loop", *asked, "--duration", str(duration), "--json",
             "--out", f"{folder}/loop"],
            check=False, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
    if not said.stdout:
        raise InputError("bench tick: the loop could not begin; what it says is above")
    found = json.loads(said.stdout)
    if found["ended"] != "duration":
        raise InputError(f"bench tick: the loop ended ({found['ended']}): {found['error']}")
    times, _ = in_turns([floor(walk)], len(walk.moments), effort.samples, effort.budget_s)
    for part in PARTS:
        taken = found["compute_cpu_us"] if part == "tick" else found["parts_us"][part]
        us = {name: taken[name] for name in ("p50", "p99", "p999")}
        yield TimingRow(
            benchmark=Benchmark(
                section="tick",
                what=part,
                contacts=None,
                bar=GOAL if part == "tick" else None,
                note=f"{found['missed']} beats missed" if part == "tick" else "",
            ),
            us=us,
            floor_ratio=us["p50"] / float(np.median(times)),
            samples=round(duration * RATE_HZ),
        )
