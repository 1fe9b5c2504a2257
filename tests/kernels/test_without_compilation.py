"""Kernels run by Python, as coverage and mutation tools need them."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np

import idcontrol as idc


def torques() -> list[float]:
    """What a controller sends to a robot that stands."""
    robot = idc.robots.load("links")
    controller = idc.controllers.make("id-coulomb-qp", robot, mu=0.6, rate_hz=1000.0)
    return [*controller(robot.standing_state(), robot.standing_reference()).tau]


def test_a_control_step_run_by_python_gives_the_compiled_torques():
    code = f"from {__name__} import torques; print(*torques())"
    plain = os.environ | {"NUMBA_DISABLE_JIT": "1"}
    done = subprocess.run([sys.executable, "-c", code], env=plain, capture_output=True, text=True, check=True)
    # compiled sums may be rounded in another order
    np.testing.assert_allclose([float(word) for word in done.stdout.split()], torques(), rtol=1e-9, atol=1e-12)
