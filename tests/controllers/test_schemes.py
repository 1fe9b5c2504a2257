"""What the schemes say of the solutions that they pass on."""

from __future__ import annotations

import numpy as np
import pytest
from msgspec import structs

from experiments.random_steps import random_step
from idcontrol.controllers.schemes import Step, friction_lcp, nearest_torque
from idcontrol.models import coulomb
from idcontrol.types import Status


@pytest.mark.parametrize("scheme", [friction_lcp, nearest_torque])
@pytest.mark.parametrize(("regularization", "dropped"), [(0.0, ()), (1e-10, ("exactness",))])
def test_a_step_whose_problem_was_regularized_says_what_was_given_up(monkeypatch, scheme, regularization, dropped):
    problem = random_step(np.random.default_rng(0), feet=True, inverse=True, contacts=2)
    found = coulomb.solve(problem)
    assert found.status is Status.SOLVED
    if regularization > 0.0:
        found = structs.replace(found, status=Status.REPAIRED, regularization=regularization, note="regularized")
    monkeypatch.setattr(coulomb, "solve", lambda *_: found)
    joints = found.multipliers.size
    step = Step(
        warm={},
        reluctance=None,
        edge_speed_m_s=0.0,
        last=np.zeros(joints),
        limit=np.full(joints, np.inf),
    )
    assert scheme(problem, step).dropped == dropped
