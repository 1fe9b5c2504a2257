"""A go1 of other hands in MuJoCo, MuJoCo Menagerie's say, trots under `id-coulomb-qp`.

::

    pip install mujoco-menagerie
    python -m idcontrol.experiments.examples.mujoco_go1             # Menagerie's, downloaded the first time
    python -m idcontrol.experiments.examples.mujoco_go1 SCENE.xml   # or any go1 on a floor

The `Bridge` maps joints and feet by their names and refuses a model in which they mean something else.
"""

from __future__ import annotations

import sys

import mujoco
import numpy as np

import idcontrol as idc
from idcontrol import controllers
from idcontrol.scenes.walk import WalkConfig, WalkScene


def trot(model: mujoco.MjModel, duration_s: float) -> dict[str, float]:
    """Trot for so long [s]; returns how far the robot came and the mean error of its joints."""
    thick = controllers.InverseSettings(contact_margin_m=0.006)  # their feet may be millimetres larger than ours
    scene = WalkScene.of(WalkConfig(robot="go1", mu=0.6, rate_hz=1.0 / model.opt.timestep, inverse=thick))
    bridge, data = idc.adapters.mujoco.Bridge(model, scene.robot), mujoco.MjData(model)
    controller = controllers.build("id-coulomb-qp", scene.controller_setup())
    planner = scene.planner(scene.guide())

    start = state = bridge.place(data, scene.robot.standing_state())
    planner.reset(state)
    errors = []
    while data.time < duration_s:
        reference = planner(state)
        bridge.actuate(data, controller(state, reference).tau)
        mujoco.mj_step(model, data)
        state = bridge.observe(data)
        errors.append(np.abs(reference.q - state.q[7:]).mean())
    return {"distance_m": float(np.hypot(*(state.q - start.q)[:2])), "q_err_rad": float(np.mean(errors))}


if __name__ == "__main__":
    if len(sys.argv) > 1:
        chosen = mujoco.MjModel.from_xml_path(sys.argv[1])
    else:
        import mujoco_menagerie

        chosen = mujoco_menagerie.load("unitree_go1")
    found = trot(chosen, 5.0)
    print(f"walked {found['distance_m']:.2f} m, joints off by {1e3 * found['q_err_rad']:.1f} mrad on average")
