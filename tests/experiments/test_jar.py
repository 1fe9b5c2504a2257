"""Two arms and the jar: the task is completed by playing it to its end, and only so."""

import msgspec
import numpy as np
import pytest

from idcontrol.experiments import jar
from idcontrol.experiments.jar import Config
from idcontrol.experiments.jar.task import KEYFRAMES
from idcontrol.record.recording import load


def test_a_run_that_ends_early_has_not_done_the_task(tmp_path):
    metrics = jar.experiment.run(Config(keyframes=1), tmp_path, lambda share: None)
    assert not metrics["completed"]
    assert not metrics["task_done"]
    assert metrics["failed_keyframe"] is None
    assert metrics["velocities"] == 160
    missed = {key for key, holds in metrics["checks"].items() if not holds}
    assert missed >= {"task_done", "keyframes", "lid_off_m", "jar_lifted_m", "marbles_in_bowl"}
    assert metrics["checks"]["residual"]
    run = load(tmp_path)
    assert run.arrays["pose_marble0"].shape == (15, 7)
    assert np.linalg.norm(run.arrays["pose_0_0_palm"][:, 3:], axis=1) == pytest.approx(1.0)


def test_a_keyframe_that_fails_is_named(tmp_path, monkeypatch):
    never = KEYFRAMES[0]._replace(name="never", duration_s=0.02, until=lambda scene: False)
    monkeypatch.setattr(jar, "KEYFRAMES", (never,))
    metrics = jar.experiment.run(Config(keyframes=1), tmp_path, lambda share: None)
    assert metrics["failed_keyframe"] == "never"
    assert not metrics["completed"]


@pytest.mark.slow
@pytest.mark.parametrize("changes", [{}, {"mu": 0.7}, {"mu_marble": 0.2}, {"step_s": 4e-3}])
def test_the_jar_is_opened_poured_closed_and_put_back(tmp_path, changes):
    metrics = jar.experiment.run(msgspec.structs.replace(Config(), **changes), tmp_path, lambda share: None)
    assert metrics["completed"], {key for key, holds in metrics["checks"].items() if not holds}
    assert metrics["marbles_in_bowl"] == 16
    assert metrics["contacts_mean"] > 80
    assert metrics["iterations_mean"] < 8
