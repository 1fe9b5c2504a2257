"""Growth of memory over many steps, peak memory of a long run, and import time."""

import subprocess
import sys
import time
from typing import Any

import numpy as np

from idcontrol import controllers, plants
from idcontrol.bench.execute import PLANT, ROBOT
from idcontrol.bench.problems import walks
from idcontrol.loop.realtime import resident_mb
from idcontrol.types import Array

PEAK_BAR_MB, IMPORT_BAR_S = 500.0, 1.0
GROWTH_BAR_MB = 1.0
"""Bound on growth over 10^6 steps [MB]; it allows for pages that the allocator does not return."""

SAMPLES = 20
PERIODS = 320
"""Length of the repeated walk, in control periods of 1 ms: one gait period."""


def sampled(steps: int) -> Array:
    """Return the resident memory over `steps` control and plant steps, after a warm-up, shape (SAMPLES + 1,) [MB]."""
    walk = walks.walk(ROBOT, PLANT, PERIODS)
    system, contacts = walk.machine()
    plant = plants.build(PLANT, plants.Setup(system=system, contacts=contacts, dt=walk.h))
    controller = controllers.build("id-coulomb-qp", walk.setup())

    def go_through(count: int) -> None:
        for step in range(count):
            i = step % PERIODS
            if i == 0:
                controller.reset()
                state = plant.reset(walk.moments[0].state)
            state = plant.step(controller(state, walk.moments[i].reference).tau, walk.h)

    go_through(3 * PERIODS)
    samples = [resident_mb()]
    for _ in range(SAMPLES):
        go_through(max(1, steps // SAMPLES))
        samples.append(resident_mb())
    return np.array(samples)


def growth(samples: Array, steps: int) -> float:
    """Return the slope of the later half of the samples, scaled to 10^6 steps [MB].

    Args:
        samples: Resident memory at equal distances [MB].
        steps: Number of steps from the first sample to the last.
    """
    later = samples[len(samples) // 2 :]
    per_sample = float(np.polyfit(np.arange(len(later)), later, 1)[0])
    return per_sample * SAMPLES / steps * 1e6


def import_s() -> float:
    """Start Python and import idcontrol three times; return the shortest time [s]."""
    spent = []
    for _ in range(3):
        began = time.perf_counter()
        subprocess.run([sys.executable, "-P", "-c", "import idcontrol"], check=True)
        spent.append(time.perf_counter() - began)
    return min(spent)


def peak_mb() -> float:
    """Return the peak resident memory of a process that runs a 30 s trot [MB]."""
    code = (
        "import resource, tempfile; from idcontrol.cli import main\n"
        "with tempfile.TemporaryDirectory() as folder:\n"
        "    main(['run', 'trot', '--duration', '30', '--quiet', '--json', '--out', folder + '/run'])\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
    )
    said = subprocess.run([sys.executable, "-P", "-c", code], check=True, capture_output=True, text=True)
    return float(said.stdout.split()[-1]) * 1024 / 1e6


def run(steps: int) -> dict[str, Any]:
    """Return all measurements of memory and import time, as ``idcontrol bench memory --json`` prints them."""
    samples = sampled(steps)
    measured = {
        "growth_mb_per_million_steps": (growth(samples, steps), GROWTH_BAR_MB),
        "peak_trot_30_s_mb": (peak_mb(), PEAK_BAR_MB),
        "import_s": (import_s(), IMPORT_BAR_S),
    }
    return {
        "memory": {key: {"value": value, "bar": bar, "met": value <= bar} for key, (value, bar) in measured.items()},
        "steps": steps,
        "resident_mb": samples.tolist(),
    }
