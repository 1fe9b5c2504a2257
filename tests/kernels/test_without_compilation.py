"""Kernels run by Python, as coverage and mutation tools need them."""

import numpy as np
import pytest

import idcontrol as idc
from idcontrol.kernels.hooks import PLAIN
from tests.kernels.programs import run


def torques() -> list[float]:
    """The command for a standing robot."""
    robot = idc.robots.load("links")
    controller = idc.controllers.make("id-coulomb-qp", robot, mu=0.6, rate_hz=1000.0)
    return [*controller(robot.standing_state(), robot.standing_reference()).tau]


@pytest.mark.skipif(PLAIN, reason="plain Numba compiles more than 300 kernels for it")
def test_a_control_step_run_by_python_gives_the_compiled_torques():
    words, _ = run(f"from {__name__} import torques", "print(*torques())", NUMBA_DISABLE_JIT=1)
    # compiled sums may be rounded in another order
    np.testing.assert_allclose([*map(float, words)], torques(), rtol=1e-9, atol=1e-12)
