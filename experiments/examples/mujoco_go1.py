"""A third-party MuJoCo model of the go1, such as MuJoCo Menagerie's, trots under `id-coulomb-qp`.

::

    pip install mujoco-menagerie
    python -m idcontrol.experiments.examples.mujoco_go1             # Menagerie's, downloaded the first time
    python -m idcontrol.experiments.examples.mujoco_go1 SCENE.xml   # or any go1 on a floor

The `Bridge` maps joints and feet by their names and refuses a model in which these names mean something else.
"""

import argparse
from typing import Any

import mujoco
import numpy as np

import idcontrol as idc
from idcontrol import controllers
from idcontrol.loop.plausible import tilt
from idcontrol.record.metrics import fallen
from idcontrol.scenes.walk import ActuatorSettings, WalkConfig, WalkScene


def trot(model: mujoco.MjModel, duration_s: float) -> dict[str, Any]:
    """Trot for `duration_s` [s] or until a fall; return distance, mean joint error, and time of the fall, if any."""
    # if the controller neglected the rotors' inertia, the legs would lag and the robot would fall
    known = ActuatorSettings(kind="robot")
    scene = WalkScene.of(WalkConfig(robot="go1", mu=0.6, rate_hz=1.0 / model.opt.timestep, actuators=known))
    bridge, data = idc.adapters.mujoco.Bridge(model, scene.robot), mujoco.MjData(model)
    controller = controllers.build("id-coulomb-qp", scene.controller_setup())
    planner = scene.planner(scene.guide())

    start = state = bridge.place(data, scene.robot.standing_state())
    planner.reset(state)
    errors, fell = [], None
    while data.time < duration_s and fell is None:
        reference = planner(state)
        bridge.actuate(data, controller(state, reference).tau)
        mujoco.mj_step(model, data)
        state = bridge.observe(data)
        errors.append(np.abs(reference.q - state.q[7:]).mean())
        if fallen(state.q[2], reference.base_position[2], tilt(state.q[3:7]), scene.robot.standing_height()):
            fell = state.t
    distance = float(np.hypot(*(state.q - start.q)[:2]))
    return {"distance_m": distance, "q_err_rad": float(np.mean(errors)), "fell_at_s": fell}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("scene", nargs="?", help="MuJoCo file of a go1 on a floor; Menagerie's go1 by default")
    scene = parser.parse_args().scene
    if scene is not None:
        chosen = mujoco.MjModel.from_xml_path(scene)
    else:
        import mujoco_menagerie

        chosen = mujoco_menagerie.load("unitree_go1")
    summary = trot(chosen, 5.0)
    outcome = "stood to the end" if summary["fell_at_s"] is None else f"fell at {summary['fell_at_s']:.2f} s"
    print(f"{outcome}: walked {summary['distance_m']:.2f} m, joints off by {1e3 * summary['q_err_rad']:.1f} mrad")
