"""A hundred thousand control steps and more: nothing unreported, no limit broken, no memory growth.

The number of steps of each controller is ``IDCONTROL_LONG_STEPS`` (100000).
"""

from __future__ import annotations

import gc
import os
import shutil
from pathlib import Path

import numpy as np
import pytest

import robots
from experiments.trot import Config, Friction, Kick, Path2D, experiment
from idcontrol.recording import load
from idcontrol.types import Status

STEPS = int(os.environ.get("IDCONTROL_LONG_STEPS", "100000"))
EACH_S = 10.0
CONVEX = ("id-coulomb-qp", "id-noslip-qp", "id-coulomb-qp-1", "id-coulomb-qp-raw", "id-sap", "id-constraint")
GROWTH_MB = 20.0
"""What may be added to the process after the first two runs; a leak of 1 kB in a step would be 80 MB."""


def random_trot(controller: str, seed: int) -> Config:
    """A new command each second, one push, friction that changes with each step, wrongly told by up to a half."""
    rng = np.random.default_rng(seed)
    pieces = tuple(
        (float(t), *(float(x) for x in rng.uniform([-0.3, -0.2, -1.0], [0.3, 0.2, 1.0]))) for t in range(int(EACH_S))
    )
    push = rng.uniform(-0.4, 0.4, 3) * [1.0, 1.0, 0.25]
    return Config(
        robot="go1",
        controller=controller,
        seed=seed,
        duration_s=EACH_S,
        mu_range=(0.3, 1.0),
        friction=Friction(estimate=float(rng.uniform(0.3, 1.0))),
        path=Path2D(kind="command", command=pieces),
        kick=Kick(
            at_s=float(rng.uniform(1.0, EACH_S - 1.0)), velocity_m_s=(float(push[0]), float(push[1]), float(push[2]))
        ),
    )


def resident_mb() -> float:
    """Memory of this process [MB]."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


@pytest.mark.slow
@pytest.mark.parametrize("controller", CONVEX)
def test_random_commands_pushes_and_friction_break_nothing(controller, tmp_path):
    robot = robots.load("go1")
    limit = robot.torque_limit(robot.system().actuated_names)
    done, falls, memory, worst = 0, 0, [], Status.SOLVED
    for seed in range(10 * int(np.ceil(STEPS / (1000 * EACH_S)))):
        folder = tmp_path / str(seed)
        metrics = experiment.run(random_trot(controller, seed), folder, lambda share: None)
        run = load(folder)
        tau, status = run.arrays["tau"], run.arrays["status"]
        assert np.isfinite(tau).all()
        assert (np.abs(tau) <= limit).all()
        # what was not solved as asked says so, and nothing was unusable
        assert np.isin(status, [Status.SOLVED, Status.REPAIRED, Status.FALLBACK]).all()
        assert (run.arrays["clipped"][status == Status.SOLVED] == 0).all()
        assert metrics["solver"]["failed"] == 0
        assert run.complete
        worst = max(worst, Status(int(status.max())))
        falls += metrics["fell_at_s"] is not None
        done += len(tau)
        memory.append(resident_mb())
        shutil.rmtree(folder)
        if done >= STEPS:
            break
    print(f"{controller}: {done} steps, {seed + 1} runs, {falls} falls, worst status {worst.name}, memory {memory}")
    assert done >= STEPS
    assert max(memory[2:], default=0.0) - memory[min(1, len(memory) - 1)] < GROWTH_MB
