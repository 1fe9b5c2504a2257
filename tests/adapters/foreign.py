"""MuJoCo models: the maker's go1 with servos, damping, armature and soft floor, and exact copies of our robots."""

import functools
import re
from collections.abc import Callable

import mujoco
import numpy as np

from idcontrol import robots
from idcontrol.contact.spheres import on_flat_ground
from idcontrol.plants.exported import RigidLink, rigid_links
from idcontrol.plants.mujoco import _specification

Change = Callable[[mujoco.MjSpec], None]


def go1() -> mujoco.MjModel:
    """Return the compiled model; its feet are sites FL, FR, RL, RR, and its joints have the makers' names."""
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


def same(*changes: Change, robot: str = "go1") -> mujoco.MjModel:
    """Return one of our robots with exact masses and lengths, without ground and without actuators.

    Args:
        changes: Applied to the specification before it is compiled; bodies have the names of the joints that move them.
        robot: Name of the robot.
    """
    links = _links(robot)
    spec = _specification(links, None, np.array([0.0, 0.0, -9.81]), 1e-3)
    for change in changes:
        change(spec)
    model = spec.compile()
    for link in links:  # the compiler balances inertias
        body = model.body(link.name)
        if np.allclose(body.mass, link.mass) and np.allclose(np.sum(body.inertia), np.trace(link.inertia), rtol=0.2):
            body.inertia[:] = link.principal()[0]
    mujoco.mj_setConst(model, mujoco.MjData(model))
    return model


@functools.cache
def _links(robot: str) -> list[RigidLink]:
    contacts = on_flat_ground(robots.load(robot), 0.8)
    return rigid_links(contacts.system, contacts)
