"""A careless policy with and without the torque filter: measures how far feet slide, and how often the robot falls.

::

    python -m idcontrol.experiments.examples.careless_policy 20

The argument is the number of episodes for each friction. In place of a learned policy, a recorded trot provides joint
targets 50 times a second, with random errors. Drives follow the targets with the gains of the robot file.
"""

import argparse

import numpy as np

import idcontrol as idc
from idcontrol.loop.plausible import tilt
from idcontrol.record.metrics import fallen
from idcontrol.scenes.walk import WalkConfig, WalkPath, WalkScene
from idcontrol.types import Array

ROBOT, H, TICKS, HOLD, ERROR_RAD = "go1", 1e-3, 2000, 20, 0.05


def policy() -> Array:
    """Return the joint targets of a trot for each millisecond, shape (ticks, a) [rad]."""
    walk = WalkScene.of(WalkConfig(robot=ROBOT, mu=0.8, path=WalkPath(kind="command"))).simulated()
    return np.array([tick.reference.q for tick in walk.ticks(TICKS + HOLD)])


def episode(targets: Array, mu: float, seed: int, *, through_filter: bool) -> tuple[float, float, bool]:
    """Return the summed path of sliding feet [m], the time to the end [s], and True if the robot fell."""
    robot, rng = idc.robots.load(ROBOT), np.random.default_rng(seed)
    system, start, height = robot.system(), robot.standing_state(), robot.standing_height()
    kp, kd = robot.torque_gains(system.actuated_names)
    torques = idc.filter.Torques(robot, mu)
    plant, feet = idc.plants.make("coulomb-lcp", robot, mu=mu, rate_hz=1.0 / H), robot.contacts(mu=1.0)
    state, slid = plant.reset(start), 0.0
    for k in range(TICKS):
        if k % HOLD == 0:
            target = targets[k + HOLD] + ERROR_RAD * rng.standard_normal(targets.shape[1])
        wanted = kp * (target - system.joint_positions(state.q)) - kd * system.joint_velocities(state.v)
        tau = (
            torques(state, q=target).tau
            if through_filter
            else np.clip(wanted, -system.effort_limit, system.effort_limit)
        )
        state, forces = plant.step(tau, H), plant.contact_forces()
        feet.system.update(state.q, state.v)
        velocity = feet.detect(np.inf).jacobian.reshape(3, -1, len(state.v))[1:] @ state.v[system.order]
        slid += H * np.linalg.norm(velocity[:, forces.identity[forces.force[:, 2] > 5.0]], axis=0).sum()
        if fallen(state.q[2], start.q[2], tilt(state.q[3:7]), height):
            return slid, state.t, True
    return slid, state.t, False


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("episodes", type=int, help="number of episodes for each friction")
    episodes, recorded = parser.parse_args().episodes, policy()
    for friction in (0.3, 0.1):
        for through in (False, True):
            runs = [episode(recorded, friction, seed, through_filter=through) for seed in range(episodes)]
            slid, lasted, fell = (np.array(values) for values in zip(*runs, strict=True))
            print(
                f"mu {friction}, {'with the filter' if through else 'drives alone'}: feet slide"
                f" {slid.sum() / lasted.sum():.2f} m/s, {fell.sum()} of {len(runs)} robots fall"
            )
