"""Tune the gains of a trot by their gradient, beside a search without derivatives.

::

    python -m idcontrol.experiments.examples.tuned_gains

The cost is the logarithm of the joint error times the torque rate. Its variables are the logarithms of stiffness and
damping of hips, thighs and calves. `controller.linearize` and `plant.linearize` give the derivatives of each tick, and
`trot` multiplies them forwards in time. References count as constant. A tick in flight has no derivative, and keeps the
derivatives of the state.
"""

from __future__ import annotations

import dataclasses
import time
from typing import Final, NamedTuple

import numpy as np
from scipy.optimize import minimize

from idcontrol import controllers
from idcontrol.controllers.feedback import Gains
from idcontrol.controllers.inverse import InverseDynamics
from idcontrol.errors import InputError
from idcontrol.plants.stepping import Stepping
from idcontrol.scenes.walk import WalkConfig, WalkScene
from idcontrol.types import Array, State

ROBOT, NAME, KINDS = "go1", "id-coulomb-qp", 3
START: Final = np.log(np.repeat((900.0, 60.0), KINDS))
"""Logarithms of the gains of the robot file: stiffness [1/s²] of hips, thighs and calves, then damping [1/s]."""


class Run(NamedTuple):
    """Outcome of a trot.

    Attributes:
        q_err_rad: Joint error, root of the mean square over joints and ticks [rad].
        dtau_nm_s: Torque rate, root of the mean square [N m/s].
        gradient: Derivative of `cost` by the logarithms of the gains, shape (6,); zeros if it is not asked for.
    """

    q_err_rad: float
    dtau_nm_s: float
    gradient: Array

    @property
    def cost(self) -> float:
        """Logarithm of joint error times torque rate."""
        return float(np.log(self.q_err_rad * self.dtau_nm_s))


def moved(plant: Stepping, state: State, tau: Array, h: float, slope: Array, turned: Array) -> tuple[State, Array]:
    """Step a plant; return its state and the derivative of the state, shape (2 m, 6).

    Args:
        plant: The plant.
        state: Its state.
        tau: Torques, shape (a,) [N m].
        h: Length of the step [s].
        slope: Derivative of the state before the step, tangents (q, v).
        turned: Derivative of the torques, shape (a, 6).
    """
    try:
        after, step = plant.linearize(tau, h)
    except InputError:  # in flight
        plant.reset(state)
        return plant.step(tau, h), slope
    by = [np.vstack([step.jacobian(of=of, by=by) for of in ("q_next", "v_next")]) for by in ("q", "v", "tau")]
    return after, np.hstack(by[:2]) @ slope + by[2] @ turned


def trot(gains: Array, *, derive: bool, duration_s: float = 0.5) -> Run:
    """Trot with the gains whose logarithms are `gains`, shape (6,)."""
    scene = WalkScene.of(WalkConfig(robot=ROBOT, duration_s=duration_s))
    setup, h, system = scene.controller_setup(), scene.period_s, scene.robot.system()
    m, a = system.n_velocities, system.n_actuated
    each = np.tile(np.eye(KINDS), (a // KINDS, 1))  # the gain of each joint
    kp, kd = (each @ own for own in np.exp(gains).reshape(2, KINDS))
    by_log = np.zeros((2 * a, 2 * KINDS))
    by_log[:a, :KINDS], by_log[a:, KINDS:] = kp[:, None] * each, kd[:, None] * each
    controller = controllers.build(NAME, dataclasses.replace(setup, acceleration_gains=Gains(kp=kp, kd=kd)))
    plant, planner = scene.plant(h), scene.planner(scene.guide())
    assert isinstance(controller, InverseDynamics)
    assert isinstance(plant, Stepping)
    state = plant.reset(scene.start(np.random.default_rng(0)))
    planner.reset(state)
    plan, joints = scene.plan(planner), system.order[m - a :]
    slope, turned, last = np.zeros((2 * m, 2 * KINDS)), np.zeros((a, 2 * KINDS)), (np.zeros(a), np.zeros((a, 6)))
    sums, slopes, ticks = np.zeros(2), np.zeros((2, 2 * KINDS)), round(duration_s / h)
    for tick in range(ticks):
        wanted = plan(state)
        away = system.joint_positions(state.q) - wanted.q
        if derive:
            command, lin = controller.linearize(state, wanted)
            turned = np.hstack([lin.jacobian(of="tau", by=by) for by in ("q", "v")]) @ slope
            turned += lin.jacobian(of="tau", by="gains") @ by_log
        else:
            command = controller(state, wanted)
        change = command.tau - last[0] if tick else np.zeros(a)
        sums += away @ away, change @ change
        slopes += 2.0 * away @ slope[joints], 2.0 * change @ (turned - last[1])
        last = command.tau.copy(), turned
        if derive:
            state, slope = moved(plant, state, command.tau, h, slope, turned)
        else:
            state = plant.step(command.tau, h)
    error, rate = np.sqrt(sums / (a * ticks))
    return Run(float(error), float(rate / h), (slopes / (2.0 * sums[:, None])).sum(axis=0))


def tune(*, derive: bool, runs: int = 150) -> tuple[Array, int]:
    """Minimize the cost with (BFGS) or without (Nelder-Mead) gradient; return the gains' logarithms and the runs."""

    def cost(gains: Array) -> tuple[float, Array] | float:
        run = trot(gains, derive=derive)
        return (run.cost, run.gradient) if derive else run.cost

    options = {"maxiter": 10} if derive else {"maxfev": runs, "xatol": 0.02, "fatol": 1e-3}
    best = minimize(cost, START, jac=derive, method="BFGS" if derive else "Nelder-Mead", options=options)
    return best.x, int(best.nfev)


def show(name: str, gains: Array, runs: int, seconds: float) -> None:
    """Print a trot with these gains."""
    run = trot(gains, derive=False)
    print(f"{name}: {runs} runs, {seconds:.0f} s, cost {run.cost:.3f}, error {1e3 * run.q_err_rad:.2f} mrad, "
          f"torque rate {run.dtau_nm_s:.0f} N m/s, gains {np.round(np.exp(gains)).tolist()}")  # fmt: skip


if __name__ == "__main__":
    show("robot file", START, 1, 0.0)
    for name, derive in (("gradient (BFGS)", True), ("Nelder-Mead", False)):
        began = time.perf_counter()
        tuned, count = tune(derive=derive)
        show(name, tuned, count, time.perf_counter() - began)
