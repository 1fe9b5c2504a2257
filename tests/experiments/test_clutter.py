"""The clutter: momentum balances within tolerance in every step, rest takes few iterations, walls keep all bodies."""

import numpy as np

from idcontrol.experiments import clutter
from idcontrol.experiments.clutter import Config


def test_a_small_heap_passes_every_check(tmp_path):
    config = Config(bodies=6, sizes=(3, 6), sigmas=(1e-3,), duration_s=2.0, solver_steps=2)
    metrics = clutter.experiment.run(config, tmp_path, lambda share: None)
    assert metrics["completed"], {key for key, holds in metrics["checks"].items() if not holds}
    assert metrics["momentum_error_walls"] < 1e-5
    assert metrics["iterations_walls"] < 4.5
    assert (tmp_path / "figure-3.svg").exists()
    assert {(row["heap"], row["bodies"]) for row in metrics["solvers"]} == {
        (where, size) for where in ("walls", "open") for size in (3, 6)
    }


def test_bodies_stay_within_walls_and_leave_without_walls():
    config = Config(duration_s=3.0)
    far = {
        walls: np.abs(clutter.simulate(config, 16, walls=walls).state.position[:, :2]).max() for walls in (True, False)
    }
    assert far[True] < 0.4
    assert far[False] > 0.4
