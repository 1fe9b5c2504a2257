"""Times of a whole tick and of its parts, in a loop on the wall clock whose plant is in another process.

Between two ticks the processor idles or does other work. So caches are colder than in the section `controllers`, where
steps follow one another. At 1 kHz a rehearsal shortly before each tick warms the caches (`idcontrol.loop.rehearsal`).
The loop's metrics contain the CPU time of a tick and the times of its parts (`idcontrol.loop.telemetry.PARTS`).
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from idcontrol.bench.measurement import Bar, Benchmark, Effort, TimingRow, floor
from idcontrol.bench.problems.walks import RecordedWalk
from idcontrol.bench.timing import in_turns
from idcontrol.errors import InputError

CONTROLLER, RATE_HZ, FAST_HZ = "id-coulomb-qp", 1000, 4000
PARTS = ("tick", "read", "plan", "control", "gate", "record")
"""The whole tick and its parts, without state estimation."""
BARS = {
    "tick": Bar(of="us", bar=100.0, goal=60.0),
    "tick, p99.9": Bar(of="us", bar=200.0, goal=120.0, at="p999"),
}


def rows(walk: RecordedWalk, effort: Effort) -> Iterator[TimingRow]:
    """Yield rows of the whole tick, of its parts, and of a tick at 4 kHz.

    Each loop runs six times as long as the time budget of a row, as it measures the six `PARTS` together.

    Raises:
        InputError: A loop could not begin, or the loop at 1 kHz stopped early. If the loop at 4 kHz stops early, its
            row reports this.
    """
    duration = effort.budget_s * len(PARTS)
    metrics = _loop(walk.robot, RATE_HZ, duration)
    if metrics["ended"] != "duration":
        raise InputError(f"bench tick: the loop ended ({metrics['ended']}): {metrics['error']}")
    times, _ = in_turns([floor(walk)], len(walk.moments), effort.samples, effort.budget_s)
    floor_us = float(np.median(times))
    for part in (*PARTS, "tick, p99.9"):
        taken = metrics["parts_us"][part] if part in metrics["parts_us"] else metrics["compute_cpu_us"]
        note = f"{metrics['missed']} ticks missed" if part == "tick" else ""
        yield _row(part, taken, round(duration * RATE_HZ), floor_us, note)
    metrics = _loop(walk.robot, FAST_HZ, duration)
    ends = "" if metrics["ended"] == "duration" else f"the loop ended ({metrics['ended']}): {metrics['error']}"
    note = ends or f"{metrics['missed']} ticks missed"
    yield _row(f"tick at {FAST_HZ} Hz", metrics["compute_cpu_us"], round(duration * FAST_HZ), floor_us, note)


def _row(what: str, taken: Mapping[str, float | None], samples: int, floor_us: float, note: str) -> TimingRow:
    us = {name: np.nan if (value := taken[name]) is None else value for name in ("p50", "p99", "p999")}
    asked = Benchmark(what=what, bar=BARS.get(what), note=note)
    return TimingRow(benchmark=asked, us=us, floor_ratio=us["p50"] / floor_us, samples=samples)


def _loop(robot: str, rate_hz: int, duration_s: float) -> dict[str, Any]:
    """Run a loop on the wall clock and return its metrics.

    Raises:
        InputError: The loop could not begin.
    """
    asked = [
        "--controller", CONTROLLER, "--robot", robot, "--rate", str(rate_hz), "--duration", str(duration_s),
        "--set", "loop.start=standing",
    ]  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        said = subprocess.run(
            [sys.executable, "-P", "-m", "idcontrol", "loop", *asked, "--json", "--out", f"{folder}/loop"],
            check=False, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
    if not said.stdout:
        raise InputError("bench tick: the loop could not begin; see its message above")
    return json.loads(said.stdout)
