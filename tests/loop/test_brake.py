"""The brake removes energy at any damping, any period and any pose, within the torque limits."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from idcontrol.loop.brake import brake
from idcontrol.types import State
from tests.loop.rig import arm, limits


def kinetic(system, q, v):
    system.update(q, v)
    return 0.5 * v @ system.M @ v


@pytest.mark.parametrize("damping", [0.01, 1.0, 100.0, 1e6])
@pytest.mark.parametrize("h", [1e-4, 1e-3, 1e-2])
def test_without_gravity_the_brake_always_takes_energy_out(damping, h):
    """Explicit damping adds energy from h D / I = 2 on; here h D / I goes to 1e7."""
    system, rng = arm(), np.random.default_rng(0)
    strong = replace(limits(), torque=np.full(2, np.inf), damping=np.full(2, damping))
    for _ in range(20):
        q, v = rng.uniform(-3, 3, 2), rng.normal(size=2)
        before = kinetic(system, q, v)
        tau = brake(system, strong, State(t=0.0, q=q, v=v), h)
        after = v + h * np.linalg.solve(system.M, tau)
        assert kinetic(system, q, after) < before
        # the brake is the damper of the resulting velocity
        np.testing.assert_allclose(tau, -damping * after, rtol=1e-6, atol=1e-9 * damping)


def test_the_brake_keeps_the_torque_limits():
    tau = brake(arm(), limits(), State(t=0.0, q=np.zeros(2), v=np.array([1e3, -1e3])), 1e-4)
    np.testing.assert_array_equal(np.abs(tau), limits().torque)
