"""A MuJoCo model of go1, driven at 1 kHz by `id-coulomb-qp` in a loop of one's own.

::

    python -m idcontrol.experiments.examples.mujoco_go1 --duration 5

The loop below is all that such a simulator needs: a `State` in, torques out. (With ``idcontrol loop --plant
mujoco --robot go1`` the same runs with MuJoCo in another process, watchdogs, and a record.)
"""

from __future__ import annotations

import argparse

import mujoco
import numpy as np

from idcontrol import controllers
from idcontrol.loop.clock import NS, Clock, Pacer, VirtualClock, WallClock
from idcontrol.plants.mujoco import MuJoCo
from idcontrol.scenes.walk import WalkConfig, WalkScene
from idcontrol.types import State

H = 1e-3
"""Control period, and MuJoCo's time step [s]."""


def main(clock: Clock, duration_s: float) -> dict[str, float]:
    """Trot between waypoints.

    Args:
        clock: `WallClock` for real time, `VirtualClock` for as fast as possible.
        duration_s: Length of the walk [s].

    Returns:
        How far the robot came, and the mean error of its joints.
    """
    scene = WalkScene.of(WalkConfig(robot="go1"))
    controller = controllers.build("id-coulomb-qp", scene.controller_setup())
    planner = scene.planner(scene.guide())
    feet = scene.observer()
    system = feet.system

    simulator = MuJoCo(system, feet, H)  # builds an mjModel from the URDF; `model` and `data` are MuJoCo's own
    model, data = simulator.model, simulator.data
    state = simulator.reset(scene.start(np.random.default_rng(0)))
    planner.reset(state)
    motors = [model.joint(name).dofadr[0] for name in system.actuated_names]

    pacer, began, errors = Pacer(clock, round(H * NS)), state.q[:2].copy(), []
    for _ in range(round(duration_s / H)):
        beat = pacer.wait()
        reference = planner(state)
        command = controller(state, reference)
        for _ in range(1 + beat.missed):  # MuJoCo's world goes on with the last torques while we are late
            data.qfrc_applied[motors] = command.tau
            mujoco.mj_step(model, data)
        state = observe(data, motors)
        errors.append(np.abs(reference.q - system.joint_positions(state.q)).mean())
    return {"distance_m": float(np.linalg.norm(state.q[:2] - began)), "q_err_rad": float(np.mean(errors))}


def observe(data: mujoco.MjData, motors: list[int]) -> State:
    """MuJoCo's state in our words: quaternions end with w, and the base's velocity is in its own axes."""
    w, x, y, z = data.qpos[3:7]
    linear = np.empty(3)
    mujoco.mju_rotVecQuat(linear, data.qvel[:3], np.array([w, -x, -y, -z]))
    joints = np.array(motors)
    return State(
        t=float(data.time),
        q=np.concatenate([data.qpos[:3], [x, y, z, w], data.qpos[joints + 1]]),
        v=np.concatenate([linear, data.qvel[3:6], data.qvel[joints]]),
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--duration", type=float, default=5.0, help="how long [s]")
    parser.add_argument("--fast", action="store_true", help="do not wait for the wall clock")
    options = parser.parse_args()
    found = main(VirtualClock() if options.fast else WallClock(), options.duration)
    print(f"walked {found['distance_m']:.2f} m, joints off by {1e3 * found['q_err_rad']:.1f} mrad on average")
