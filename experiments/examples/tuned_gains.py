"""Tune the gains of a trot by their gradient, beside a search without derivatives.

::

    python -m idcontrol.experiments.examples.tuned_gains

The cost is the logarithm of the joint error times the torque rate. Its variables are the logarithms of stiffness and
damping of hips, thighs and calves. `controller.linearize` and `plant.linearize` give the derivatives of each tick, and
`trot` multiplies them forwards in time. References count as constant. A tick in flight has no derivative, and keeps the
derivatives of the state.
"""

import argparse
import dataclasses
import time
from collections.abc import Callable
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
    """Outcome of a run.

    Attributes:
        error: Root mean square over entries and ticks, of a trot's joint errors [rad] or another error.
        dtau_nm_s: Torque rate, root of the mean square [N m/s].
        gradient: Derivative of `cost` by the k variables, shape (k,); zeros if it is not asked for.
    """

    error: float
    dtau_nm_s: float
    gradient: Array

    @property
    def cost(self) -> float:
        """Logarithm of error times torque rate."""
        return float(np.log(self.error * self.dtau_nm_s))


class Row(NamedTuple):
    """A tick: error, shape (e,), torques, shape (a,) [N m], and their derivatives, shapes (e, k) and (a, k)."""

    away: Array
    tau: Array
    away_slope: Array
    tau_slope: Array


def judged(rows: list[Row], h: float) -> Run:
    """Return the outcome of ticks of length h [s]."""
    away, tau, away_slope, tau_slope = map(np.array, zip(*rows, strict=True))
    change, turned, gradient = np.diff(tau, axis=0), np.diff(tau_slope, axis=0), np.zeros(away_slope.shape[-1])
    for value, slope in ((away, away_slope), (change, turned)):
        gradient += np.einsum("ti,tik->k", value, slope) / np.square(value).sum()
    return Run(float(np.sqrt(np.square(away).mean())), float(np.sqrt(np.square(change).mean()) / h), gradient)


def moved(plant: Stepping, tau: Array, h: float, slope: Array, /, **turned: Array) -> tuple[State, Array]:
    """Step a plant; return its state and the derivative of the state by k variables, shape (2 m, k).

    Args:
        plant: The plant.
        tau: Torques, shape (a,) [N m].
        h: Length of the step [s].
        slope: Derivative of the state before the step, tangents (q, v).
        turned: Derivatives of the step's parameters (`Linearization.sizes`) by the variables, by name; of the friction
            of all feet for ``mu``.
    """
    try:
        after, step = plant.linearize(tau, h)
    except InputError:  # in flight
        return plant.step(tau, h), slope
    if "mu" in turned:
        turned["mu"] = turned["mu"][step.identity]
    m = len(slope) // 2
    changes = {"q": slope[:m], "v": slope[m:], **turned}
    parts = [[step.jacobian(of=of, by=by) @ change for by, change in changes.items()] for of in ("q_next", "v_next")]
    return after, np.vstack([np.sum(each, axis=0) for each in parts])


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
    plan, joints, rows = scene.plan(planner), system.order[m - a :], []
    slope, turned = np.zeros((2 * m, 2 * KINDS)), np.zeros((a, 2 * KINDS))
    for _ in range(round(duration_s / h)):
        wanted = plan(state)
        away = system.joint_positions(state.q) - wanted.q
        if derive:
            command, lin = controller.linearize(state, wanted)
            turned = np.hstack([lin.jacobian(of="tau", by=by) for by in ("q", "v")]) @ slope
            turned += lin.jacobian(of="tau", by="gains") @ by_log
        else:
            command = controller(state, wanted)
        rows.append(Row(away, command.tau.copy(), slope[joints], turned))
        if derive:
            state, slope = moved(plant, command.tau, h, slope, tau=turned)
        else:
            state = plant.step(command.tau, h)
    return judged(rows, h)


def tune(run: Callable[..., Run], start: Array, *, derive: bool, runs: int = 150) -> tuple[Array, int]:
    """Minimize the cost with (BFGS) or without (Nelder-Mead) gradient; return the gains' logarithms and the runs."""

    def cost(gains: Array) -> tuple[float, Array] | float:
        result = run(gains, derive=derive)
        return (result.cost, result.gradient) if derive else result.cost

    options = {"maxiter": 10} if derive else {"maxfev": runs, "xatol": 0.02, "fatol": 1e-3}
    best = minimize(cost, start, jac=derive, method="BFGS" if derive else "Nelder-Mead", options=options)
    return best.x, int(best.nfev)


def compare(run: Callable[..., Run], start: Array) -> None:
    """Tune with and without gradient, and print the outcomes beside the start."""
    tuned = [("start", start, 1, 0.0)]
    for name, derive in (("gradient (BFGS)", True), ("Nelder-Mead", False)):
        began = time.perf_counter()
        tuned.append((name, *tune(run, start, derive=derive), time.perf_counter() - began))
    for name, gains, count, seconds in tuned:
        best = run(gains, derive=False)
        print(f"{name}: {count} runs, {seconds:.0f} s, cost {best.cost:.3f}, error {best.error:.3g}, "
              f"torque rate {best.dtau_nm_s:.3g} N m/s, gains {np.round(np.exp(gains), 1).tolist()}")  # fmt: skip


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__.partition("\n")[0]).parse_args()
    compare(trot, START)
