"""Derivatives of the rows of tasks against differences of the rows themselves."""

import numpy as np
import pinocchio as pin
import pytest

from idcontrol import tasks
from idcontrol.dynamics.derivatives import inverse_dynamics, motions
from idcontrol.kernels.arena import HEAP
from idcontrol.kernels.bound import bind
from idcontrol.tasks import gather
from idcontrol.tasks.rows import task_rows
from idcontrol.tasks.sensitivity import Body, miss_slopes, transposed_slope
from tests.differences import extended
from tests.tasks.machine import moving

pytestmark = pytest.mark.interpreted  # the kernels of derivatives take 8 s to compile

ROUNDING = 1e-8  # of extended differences with a step of 1e-3 and terms of order 100


def frame(axes):
    task = tasks.Frame("FL_foot", kp=20.0, kd=3.0, axes=axes)
    task.set(pin.exp6(np.linspace(-0.4, 0.5, 6)), np.linspace(-1.0, 1.0, 6), np.linspace(2.0, -1.0, 6))
    return task


def centre():
    task = tasks.CoM(kp=30.0)
    task.set([0.3, 0.1, 0.4], [0.1, 0.2, -0.1], [1.0, 2.0, 3.0])
    return task


def pendulum():
    task = centre()
    task.pendulum_m = 0.3
    return task


def momentum():
    task = tasks.Momentum(kd=5.0)
    task.set([0.1, 0.2, 0.3], [1.0, 0.5, 0.2])
    return task


@pytest.mark.parametrize(
    "task",
    [*(frame(axes) for axes in ("WORLD", "LOCAL_WORLD_ALIGNED", "LOCAL")), centre(), pendulum(), momentum()],
    ids=["world", "aligned", "local", "centre", "pendulum", "momentum"],
)
def test_rows_of_tasks_have_their_derivatives(task):
    of = moving(np.random.default_rng(4))
    system, a, m = of.system, np.linspace(-3.0, 5.0, of.v.size), of.v.size
    targets, _ = gather([task], system, of.q)
    part = task._part
    s = np.linspace(0.5, -1.0, part.stop - part.start)

    def outputs(q: np.ndarray, v: np.ndarray) -> np.ndarray:
        system.update(q, v)
        A, y, _ = task_rows(system.M, system.bias, v, of.at, targets, HEAP)
        return np.concatenate((y - A @ a, A.T @ s))

    ways = np.random.default_rng(5).standard_normal((4, m))
    by_q = np.transpose(
        [extended(lambda h, way=way: outputs(pin.integrate(system.model, of.q, h * way), of.v), 1e-3) for way in ways]
    )
    by_v = np.transpose([extended(lambda h, way=way: outputs(of.q, of.v + h * way), 1e-3) for way in ways])
    system.update(of.q, of.v)
    force = inverse_dynamics(system, of.q, of.v, a)
    motion = motions(system, (of.at.position, of.at.rotation), of.v)
    body = bind(Body(of.at, targets, motion, system.M, of.v, a, system.M @ a + system.bias, *force))
    miss_q, miss_v = miss_slopes(body)
    rows = part.stop - part.start
    for derived, measured in ((miss_q, by_q[:rows]), (miss_v, by_v[:rows]), (transposed_slope(body, s), by_q[rows:])):
        np.testing.assert_allclose(derived @ ways.T, measured, rtol=0, atol=ROUNDING * max(np.abs(measured).max(), 1.0))
