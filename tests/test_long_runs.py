"""A hundred thousand control steps and more: no unreported failure, no broken limit, no memory growth.

The number of steps of each controller is ``IDCONTROL_LONG_STEPS`` (100000).
"""

import os
from collections import Counter

import numpy as np
import pytest

from idcontrol.experiments.endurance import CONVEX, GROWTH_MB, EnduranceConfig, count, experiment, findings, random_walk

STEPS = int(os.environ.get("IDCONTROL_LONG_STEPS", "100000"))
SOUND = Counter(steps=4, solved=2, repaired=1, fallback=1, failed=0, unreported=0, beyond_limit=0, not_finite=0)


def checks(total=SOUND, memory=(100.0, 101.0, 101.0)):
    return {
        one.key: one.holds for one in findings(total, [False] * len(memory), np.array(memory)) if one.holds is False
    }


def test_each_kind_of_step_is_counted():
    tau = np.array([[1.0, 2.0], [1.0, -2.5], [0.0, np.nan], [0.0, 0.0], [1.0, 2.0]])
    status, clipped = np.array([0.0, 1.0, 2.0, 3.0, 0.0]), np.array([1.0, 1.0, 0.0, 0.0, 0.0])
    assert count(tau, status, clipped, np.array([1.0, 2.0])) == Counter(
        steps=5, solved=2, repaired=1, fallback=1, failed=1, unreported=1, beyond_limit=1, not_finite=1
    )


@pytest.mark.parametrize("what", ["failed", "unreported", "beyond_limit", "not_finite"])
def test_a_single_forbidden_step_fails_the_run(what):
    assert checks() == {}
    assert checks(SOUND | Counter({what: 1})) == {what: False}


def test_memory_that_grows_after_the_second_walk_fails_the_run():
    assert checks(memory=(50.0, 101.0, 101.0 + GROWTH_MB)) == {"memory_growth_mb": False}
    assert checks(memory=(50.0, 300.0)) == checks(memory=(50.0,)) == {}


def test_walks_differ_and_can_be_repeated():
    assert random_walk("id-sap", 3, 5.0) == random_walk("id-sap", 3, 5.0)
    assert random_walk("id-sap", 3, 5.0) != random_walk("id-sap", 4, 5.0)


@pytest.mark.slow
@pytest.mark.parametrize("controller", CONVEX)
def test_random_commands_pushes_and_friction_break_nothing(controller, tmp_path):
    metrics = experiment.run(EnduranceConfig(controller=controller, steps=STEPS), tmp_path / "run", lambda share: None)
    assert metrics["control_steps"] >= STEPS
    assert metrics["completed"], metrics["checks"]
    assert metrics["solved"] + metrics["repaired"] + metrics["fallback"] == metrics["control_steps"]
