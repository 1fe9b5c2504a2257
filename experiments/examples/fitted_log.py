"""Fit friction and a payload to a log by gradient, beside the estimators that run in the controller.

::

    python -m idcontrol.experiments.examples.fitted_log

Go1 trots on slippery ground with a payload that its controller does not know. The fit repeats each `PART_S` of the log
with the logged torques, from the logged state. Friction of each foot, mass and mass centre of the payload minimize the
squared differences of the velocities at the ends of these parts. `plant.linearize` gives the derivatives of each tick.
"""

import argparse
from typing import Final, NamedTuple

import numpy as np
import pinocchio as pin
from msgspec import structs
from scipy.optimize import least_squares

from idcontrol import controllers, plants, robots
from idcontrol.controllers.inverse import InverseDynamics
from idcontrol.dynamics.system import System
from idcontrol.experiments.examples.tuned_gains import moved
from idcontrol.plants.stepping import Stepping
from idcontrol.scenes.settings import AssumedFriction
from idcontrol.scenes.walk import WalkConfig, WalkScene
from idcontrol.types import Array, State

ROBOT, PART_S, FEET = "go1", 0.02, 4
NAMES: Final = (*(f"friction of foot {i}" for i in range(FEET)), "mass [kg]", "x [m]", "y [m]", "z [m]")
TRUE: Final = np.array([0.25, 0.25, 0.25, 0.25, 1.5, 0.06, 0.03, 0.1])
"""Friction of each foot, then mass [kg] and mass centre in the axes of the base [m] of the payload."""
START: Final = np.array([0.1, 0.1, 0.1, 0.1, 0.3, 0.0, 0.0, 0.0])
"""Values before the fit. All feet slide at first, since a foot that sticks has no derivative by its friction."""
ASSUMED = 0.6
"""Friction that the controller counts on before feet slide; it uses 0.8 of it."""
NOISE: Final = np.repeat((0.01, 0.01, 0.02), (3, 3, 12))
"""Standard deviations of logged velocities: base [m/s, rad/s], joints [rad/s]."""


class Log(NamedTuple):
    """A log of n ticks.

    Attributes:
        h: Control period [s].
        states: The n + 1 measured states.
        tau: Torques, shape (n, a) [N m].
        online: Friction and mass [kg] that the controller estimates at the end of each tick, shape (n, 2).
    """

    h: float
    states: list[State]
    tau: Array
    online: Array


def payload(values: Array) -> Array:
    """Return the ten inertial parameters of a point mass, from its mass and centre, shape (4,)."""
    return np.asarray(pin.Inertia(values[0], values[1:], np.zeros((3, 3))).toDynamicParameters())


def payload_slope(values: Array) -> Array:
    """Return the derivative of `payload`, shape (10, 4); it is quadratic, so differences are exact."""
    return np.stack([0.5 * (payload(values + step) - payload(values - step)) for step in np.eye(4)], axis=1)


def loaded_plant(values: Array, h: float) -> Stepping:
    """Return a plant with this friction and payload."""
    robot = robots.load(ROBOT)
    like = robot.system()
    model = like.model.copy()
    model.inertias[1] += pin.Inertia.FromDynamicParameters(payload(values[FEET:]))
    system = System(model, actuated=list(like.actuated_names), effort_limit=like.effort_limit, limits=like.limits)
    feet = robot.contacts(1.0, system=system)
    feet.mu = values[:FEET].copy()
    plant = plants.build("coulomb-lcp", plants.Setup(system=system, contacts=feet, dt=h, robot=robot))
    assert isinstance(plant, Stepping)
    return plant


def trot(duration_s: float) -> Log:
    """Trot with the true friction and payload, and log."""
    rng, assumed = np.random.default_rng(0), AssumedFriction(estimate=ASSUMED)
    scene = WalkScene.of(WalkConfig(robot=ROBOT, mu=float(TRUE[0]), friction=assumed, duration_s=duration_s))
    controller, h = controllers.build(scene.config.controller, scene.controller_setup()), scene.period_s
    plant, planner = loaded_plant(TRUE, h), scene.planner(scene.guide())
    assert isinstance(controller, InverseDynamics)
    state = plant.reset(scene.start(rng))
    planner.reset(state)
    plan, states, tau, online = scene.plan(planner), [state], [], []
    for _ in range(round(duration_s / h)):
        command = controller(state, plan(state))
        state = plant.step(command.driven, h)
        tau.append(command.driven.copy())
        online.append((controller.friction, -controller.load[2] / 9.81))
        states.append(structs.replace(state, v=state.v + NOISE * rng.normal(size=NOISE.size)))
    return Log(h, states, np.array(tau), np.array(online))


def missed(values: Array, log: Log, seconds: float) -> tuple[Array, Array]:
    """Return velocity errors at the ends of parts, relative to their noise, and their derivative by `values`."""
    plant, ticks = loaded_plant(values, log.h), round(PART_S / log.h)
    bodies = robots.load(ROBOT).system().model.njoints - 1
    mu, inertia = np.zeros((FEET, values.size)), np.zeros((10 * bodies, values.size))
    mu[:, :FEET], inertia[:10, FEET:] = np.eye(FEET), payload_slope(values[FEET:])
    errors, slopes = [], []
    for first in range(0, round(seconds / log.h) - ticks + 1, ticks):
        state, slope = plant.reset(log.states[first]), np.zeros((2 * NOISE.size, values.size))
        for tau in log.tau[first : first + ticks]:
            state, slope = moved(plant, tau, log.h, slope, mu=mu, inertia=inertia)
        errors.append((state.v - log.states[first + ticks].v) / NOISE)
        slopes.append(slope[NOISE.size :] / NOISE[:, None])
    return np.concatenate(errors), np.vstack(slopes)


def fit(log: Log, seconds: float) -> tuple[Array, Array]:
    """Return friction and payload that fit the first seconds of a log, and their standard deviations."""
    last: dict[bytes, tuple[Array, Array]] = {}

    def at(values: Array) -> tuple[Array, Array]:
        if values.tobytes() not in last:
            last.clear()
            last[values.tobytes()] = missed(values, log, seconds)
        return last[values.tobytes()]

    low, high = np.array([0.01] * FEET + [0.01] + [-0.5] * 3), np.array([2.0] * FEET + [10.0] + [0.5] * 3)
    best = least_squares(
        lambda x: at(x)[0], START, lambda x: at(x)[1], (low, high), x_scale="jac", loss="soft_l1", max_nfev=25
    )
    covariance = np.linalg.pinv(best.jac.T @ best.jac) * (best.fun @ best.fun) / best.fun.size
    return best.x, np.sqrt(np.diag(covariance))


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__.partition("\n")[0]).parse_args()
    whole = trot(1.0)
    for seconds in (0.25, 0.5, 1.0):
        values, sd = fit(whole, seconds)
        friction, mass = whole.online[round(seconds / whole.h) - 1]
        print(f"{seconds} s: on-line estimates: friction {friction:.3f}, mass {mass:.2f} kg; by gradient:")
        for name, value, spread, true in zip(NAMES, values, sd, TRUE, strict=True):
            print(f"  {name}: {value:.3f} ± {spread:.3f}, true {true:g}")
