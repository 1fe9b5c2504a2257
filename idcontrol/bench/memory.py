"""Growth of memory over many steps, what a step takes from the heap, peak memory of a long run, and import time."""

from __future__ import annotations

import subprocess
import sys
import time
from typing import Any

import numpy as np
from numba.core.runtime import _nrt_python, rtsys

from idcontrol import controllers, plants
from idcontrol.bench.execute import PLANT, ROBOT
from idcontrol.loop.realtime import resident_mb
from idcontrol.problems import walks
from idcontrol.types import Array, Controller

PEAK_BAR_MB, IMPORT_BAR_S = 500.0, 1.0
LIBRARY = "idcontrol.controllers, idcontrol.plants"
"""Modules that a program imports to control and simulate."""
GROWTH_BAR_MB = 1.0
"""Bound on growth over 10^6 steps [MB]; it leaves room for pages that the allocator takes and keeps."""

HANDLES_BARS = {"control": 0.0, "plant": 0.0}
"""Bounds on what compiled calls take from the heap in a plain step."""

SAMPLES = 20
PERIODS = 320
"""Length of the walk that is repeated, in control periods of 1 ms: one gait period."""


def sampled(steps: int) -> Array:
    """Resident memory over `steps` control and plant steps, after a warm-up, shape (SAMPLES + 1,) [MB]."""
    walk, controller, plant = _machines()

    def go_through(count: int) -> None:
        for step in range(count):
            i = step % PERIODS
            if i == 0:
                controller.reset()
                state = plant.reset(walk.moments[0].state)
            state = plant.step(controller(state, walk.moments[i].reference).tau, walk.h)

    go_through(3 * PERIODS)
    found = [resident_mb()]
    for _ in range(SAMPLES):
        go_through(max(1, steps // SAMPLES))
        found.append(resident_mb())
    return np.array(found)


def _machines() -> tuple[walks.RecordedWalk, Controller, plants.SimulatedPlant]:
    walk = walks.walk(ROBOT, PLANT, PERIODS)
    system, contacts = walk.machine()
    plant = plants.build(PLANT, plants.Setup(system=system, contacts=contacts, dt=walk.h))
    return walk, controllers.build("id-coulomb-qp", walk.setup()), plant


def handles() -> dict[str, float]:
    """How often compiled calls take memory from the heap in a control and in a plant step, medians over a walk.

    Numba takes a handle for each array that a call is given, and for each that does not come from an arena. What else
    a step takes from the heap are the objects that it returns, and what Pinocchio's Python calls copy.
    """
    walk, controller, plant = _machines()
    _nrt_python.memsys_enable_stats()
    state, found = plant.reset(walk.moments[0].state), np.empty((PERIODS, 2))
    for i, moment in enumerate(walk.moments):
        before = rtsys.get_allocation_stats().alloc
        tau = controller(state, moment.reference).tau
        between = rtsys.get_allocation_stats().alloc
        state = plant.step(tau, walk.h)
        found[i] = between - before, rtsys.get_allocation_stats().alloc - between
    control, simulated = np.median(found, axis=0)
    return {"control": float(control), "plant": float(simulated)}


def growth(found: Array, steps: int) -> float:
    """Slope of the later half of the samples, scaled to 10^6 steps [MB]."""
    later = found[len(found) // 2 :]
    per_sample = float(np.polyfit(np.arange(len(later)), later, 1)[0])
    return per_sample * SAMPLES / steps * 1e6


def import_s(modules: str = "idcontrol") -> float:
    """Shortest of three times to start Python and import `modules` [s]."""
    spent = []
    for _ in range(3):
        began = time.perf_counter()
        subprocess.run([sys.executable, "-P", "-c", f"import {modules}"], check=True)
        spent.append(time.perf_counter() - began)
    return min(spent)


def peak_mb() -> float:
    """Peak resident memory of a process that runs a 30 s trot [MB]."""
    code = (
        "import resource, tempfile; from idcontrol.cli import main\n"
        "with tempfile.TemporaryDirectory() as folder:\n"
        "    main(['run', 'trot', '--duration', '30', '--quiet', '--json', '--out', folder + '/run'])\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
    )
    said = subprocess.run([sys.executable, "-P", "-c", code], check=True, capture_output=True, text=True)
    return float(said.stdout.split()[-1]) * 1024 / 1e6


def run(steps: int) -> dict[str, Any]:
    """All measurements of memory and import, as ``idcontrol bench memory --json`` prints them."""
    found = sampled(steps)
    taken = handles()
    measured: dict[str, tuple[float, float | None]] = {
        **{f"handles_{step}_step": (taken[step], bar) for step, bar in HANDLES_BARS.items()},
        "growth_mb_per_million_steps": (growth(found, steps), GROWTH_BAR_MB),
        "peak_trot_30_s_mb": (peak_mb(), PEAK_BAR_MB),
        "import_s": (import_s(), IMPORT_BAR_S),
        "import_controllers_and_plants_s": (import_s(LIBRARY), None),
    }
    return {
        "memory": {
            key: {"value": value, "bar": bar, "met": None if bar is None else value <= bar}
            for key, (value, bar) in measured.items()
        },
        "steps": steps,
        "resident_mb": found.tolist(),
    }
