"""The spring-cylinder of Castro et al. 2022: its checks hold, and closed forms match the continuous motion."""

import msgspec
import numpy as np
import pytest

from idcontrol.experiments.spring_cylinder import Config, experiment, frequency, loss_rate, simulate
from idcontrol.models.sap.theta import MIDPOINT


@pytest.mark.slow
def test_every_check_holds_without_the_long_run(tmp_path):
    config = msgspec.structs.replace(Config(), long_s=0.0, refinements=3)
    metrics = experiment.run(config, tmp_path / "run", lambda share: None)
    assert metrics["completed"], metrics["checks"]
    assert metrics["order_midpoint_rolling"] == pytest.approx(2.0, abs=0.02)
    assert metrics["energy_band_symplectic_sliding"] == pytest.approx(0.28, abs=0.01)


def test_a_rolling_cylinder_oscillates_as_if_it_were_half_as_heavy_again():
    config = Config()
    motion = simulate(config, MIDPOINT, 2e-3, 2.0, 1.0)
    crossings = np.flatnonzero(np.diff(np.sign(motion.x)))
    period = 2.0 * np.mean(np.diff(crossings)) * 2e-3
    assert period == pytest.approx(2.0 * np.pi / frequency(config, rolling=True), rel=2e-3)  # half a step in a period
    assert frequency(config, rolling=False) / frequency(config, rolling=True) == pytest.approx(np.sqrt(1.5))


@pytest.mark.parametrize("contacts", [1, 3])
def test_friction_takes_energy_in_proportion_to_the_share_that_each_point_carries(contacts):
    config = Config(contacts=contacts)
    motion = simulate(config, MIDPOINT, config.step_s, 20.0, 1.0)
    assert 1.0 - motion.energy[-1] == pytest.approx(1.0 - np.exp(-20.0 * loss_rate(config)), rel=0.1)
