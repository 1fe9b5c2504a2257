"""A 250 Hz loop whose drives repeat the feedback of the controller at 10 kHz, compared with other commands.

::

    python -m idcontrol.experiments.examples.linear_feedback 40000 400

The arguments are the stiffness [1/s²] and the damping [1/s] of the joints' feedback. `linearize` gives the derivatives
K of the torques by state and reference. The drives compute
``τ = τ_k + K_x (x ⊖ x_k) + K_r (r - r_k)`` in the period k, so contacts and coupled joints have a share in their
feedback. Impedance commands correct each joint separately, with gains for the standing robot.
"""

import argparse
import dataclasses
from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np
import pinocchio as pin

from idcontrol import controllers
from idcontrol.controllers.feedback import Gains
from idcontrol.controllers.gradient import Linearization
from idcontrol.controllers.inverse import InverseDynamics
from idcontrol.dynamics.system import System
from idcontrol.scenes.settings import FeedbackGains
from idcontrol.scenes.walk import CommandSettings, WalkConfig, WalkScene
from idcontrol.types import Array, State

ROBOT, NAME, DRIVE_S = "go1", "id-coulomb-qp", 1e-4
RATE_S: Final = 1e-3
"""Time over which torques are averaged before their rate is computed [s]."""


class Held(NamedTuple):
    """The data of a control period in the drives.

    Attributes:
        system: Multibody system of the robot.
        gains: Gains of the drives.
        state: State at the beginning of the period.
        reference: Reference positions, velocities and accelerations of the joints at that time, shape (3, a).
        lin: Torques of the control step, and their derivatives.
    """

    system: System
    gains: Gains
    state: State
    reference: Array
    lin: Linearization


class Tracking(NamedTuple):
    """Mean joint error at the beginnings of periods [rad], and mean |Δτ/Δt| of torques averaged over 1 ms [N m/s]."""

    q_err_rad: float
    dtau_nm_s: float


def hold(held: Held, state: State, reference: Array) -> Array:
    """Hold the torques of the period."""
    return held.lin.tau


def impedance(held: Held, state: State, reference: Array) -> Array:
    """Correct each joint by the gains of the drives (`idcontrol.controllers.impedance`)."""
    q, v = held.system.joint_positions(state.q), held.system.joint_velocities(state.v)
    return held.lin.tau + held.gains.kp * (reference[0] - q) + held.gains.kd * (reference[1] - v)


def linear_feedback(held: Held, state: State, reference: Array) -> Array:
    """Follow the derivatives of the control step by state and reference."""
    lin, began = held.lin, held.state
    by_state = lin.jacobian(of="tau", by="q") @ pin.difference(held.system.model, began.q, state.q)
    by_state += lin.jacobian(of="tau", by="v") @ (state.v - began.v)
    return lin.tau + by_state + lin.jacobian(of="tau", by="reference") @ (reference - held.reference).ravel()


def trot(
    law: Callable[[Held, State, Array], Array], rate_hz: float, kp_1_s2: float, kd_1_s: float, duration_s: float = 3.0
) -> Tracking:
    """Trot with control periods of `rate_hz`, and drives that apply `law` at 10 kHz."""
    gains = FeedbackGains(kp_1_s2=kp_1_s2, kd_1_s=kd_1_s)
    command = CommandSettings(kind="torque" if law is hold else "impedance")
    scene = WalkScene.of(WalkConfig(robot=ROBOT, rate_hz=rate_hz, gains=gains, command=command, duration_s=duration_s))
    setup, rng = scene.controller_setup(), np.random.default_rng(0)
    controller = controllers.build(NAME, dataclasses.replace(setup, drive_gains=None))
    assert isinstance(controller, InverseDynamics)
    own, system = setup.drive_gains or setup.acceleration_gains, scene.robot.system()
    plant, planner = scene.plant(DRIVE_S), scene.planner(scene.guide())
    state = plant.reset(scene.start(rng))
    planner.reset(state)
    plan, ticks = scene.plan(planner), round(1.0 / (rate_hz * DRIVE_S))
    errors, torques = [], []
    for _ in range(round(duration_s * rate_hz)):
        wanted = plan(state)
        _, lin = controller.linearize(state, wanted)
        held = Held(system, own, state, np.array([wanted.q, wanted.v, wanted.a]), lin)
        errors.append(np.abs(wanted.q - system.joint_positions(state.q)).mean())
        for tick in range(ticks):
            s, (q, v, a) = tick * DRIVE_S, held.reference
            tau = law(held, state, np.array([q + s * v + 0.5 * s * s * a, v + s * a, a]))
            torques.append(np.clip(tau, -system.effort_limit, system.effort_limit))
            state = plant.step(torques[-1], DRIVE_S)
    means = np.array(torques).reshape(-1, round(RATE_S / DRIVE_S), system.n_actuated).mean(axis=1)
    return Tracking(float(np.mean(errors)), float(np.abs(np.diff(means, axis=0)).mean() / RATE_S))


LOOPS: Final = (
    ("1 kHz, torques", hold, 1000.0),
    ("250 Hz, torques", hold, 250.0),
    ("250 Hz, impedance", impedance, 250.0),
    ("250 Hz, linear feedback", linear_feedback, 250.0),
)

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("stiffness", type=float, help="of the joints' feedback [1/s²]")
    parser.add_argument("damping", type=float, help="of the joints' feedback [1/s]")
    args = parser.parse_args()
    for name, law, rate_hz in LOOPS:
        error, rate = trot(law, rate_hz, args.stiffness, args.damping)
        print(f"{name}: joint error {1e3 * error:.2f} mrad, torque rate {rate:.0f} N m/s")
