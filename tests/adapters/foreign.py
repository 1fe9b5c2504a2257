"""A go1 that is not ours: MuJoCo's own import of its makers' URDF, with servos, damping, armature and a soft floor."""

from __future__ import annotations

import re

import mujoco

from idcontrol import robots


def go1() -> mujoco.MjModel:
    """The compiled model; its feet are sites called FL, FR, RL, RR, and its joints have the makers' names."""
    text = robots.load("go1").urdf.read_text(encoding="utf-8")
    text = re.sub(r"<visual>.*?</visual>", "", text, flags=re.S)  # meshes, which MuJoCo does not find
    text = text.replace('ixy="1e-6" ixz="1e-6" iyy="1e-6" iyz="1e-6"', 'ixy="0" ixz="0" iyy="1e-6" iyz="0"')  # singular
    spec = mujoco.MjSpec.from_string(text)
    spec.compiler.fusestatic = False
    spec.compiler.balanceinertia = True
    spec.option.timestep = 0.002
    spec.body("base").add_freejoint()
    spec.worldbody.add_geom(type=mujoco.mjtGeom.mjGEOM_PLANE, size=[0.0, 0.0, 1.0], friction=[0.8, 0.02, 0.01])
    for leg in ("FL", "FR", "RL", "RR"):
        spec.body(f"{leg}_foot").add_site(name=leg)
        for part in ("hip", "thigh", "calf"):
            name = f"{leg}_{part}_joint"
            servo = spec.add_actuator(name=f"{leg}_{part}", target=name, trntype=mujoco.mjtTrn.mjTRN_JOINT)
            servo.set_to_position(kp=100.0)
            servo.ctrllimited, servo.ctrlrange = True, [-0.1, 0.1]
    model = spec.compile()
    model.dof_damping[6:], model.dof_armature[6:], model.dof_frictionloss[6:] = 0.6, 0.01, 0.2
    mujoco.mj_setConst(model, mujoco.MjData(model))
    return model
