"""Synthetic logs: joints and base follow sums of sines, and torques and forces follow from inverse dynamics."""

from typing import Any, NamedTuple

import numpy as np
import pinocchio as pin

from idcontrol.dynamics.system import Actuators
from idcontrol.identify.inertia import neighbours, physical, pseudo
from idcontrol.robots import Robot

H = 2e-3
FREQUENCIES = 2.0 * np.pi * np.array([0.31, 0.73, 1.13, 1.71, 2.3])


class Truth(NamedTuple):
    """The robot to identify: bodies, actuators, and each joint's torque for 1 N m that its drive reports."""

    model: Any
    actuators: Actuators
    scale: np.ndarray


def planted(robot: Robot, rng: np.random.Generator, *, bodies: float, armature: float) -> Truth:
    """Return a robot whose bodies and drives differ from the robot file.

    Inertial coordinates differ by up to `bodies`. Rotors (about `armature`), damping, friction and scale vary by 20 %.
    """
    system = robot.system()
    model, a = system.model.copy(), system.n_actuated
    own = np.array([inertia.toDynamicParameters() for inertia in list(model.inertias)[1:]])
    root = np.linalg.cholesky(physical(pseudo(own)))
    for joint, each in enumerate(neighbours(root, bodies * rng.uniform(-1.0, 1.0, own.shape))[0], start=1):
        model.inertias[joint] = pin.Inertia.FromDynamicParameters(each)
    about = np.array([armature, 0.3, 0.5])
    rotors, damping, friction = about[:, None] * rng.uniform(0.8, 1.2, (3, a))
    return Truth(model, Actuators(rotors, damping, friction, np.full(a, np.inf), np.zeros(a)), rng.uniform(0.8, 1.2, a))


def motion(robot: Robot, t: np.ndarray, rng: np.random.Generator, swing: np.ndarray) -> tuple[np.ndarray, ...]:
    """Return configurations, velocities and spatial accelerations, shapes (n, nq), (n, nv), (n, nv), at `t` (n,).

    All coordinates swing by `swing`, shape (nv,); it is zero for rotations of the base.
    """
    system = robot.system()
    model, nv = system.model, system.model.nv
    size = swing[:, None] * rng.uniform(0.3, 1.0, (nv, len(FREQUENCIES)))
    phase = rng.uniform(0.0, 2.0 * np.pi, size.shape)
    angle = FREQUENCIES[:, None] * t
    shift, v, a = (
        np.einsum("ik,ikt->ti", size * FREQUENCIES**order, np.sin(angle + phase[:, :, None] + order * np.pi / 2.0))
        for order in range(3)
    )
    home = robot.standing_state(system).q
    return np.array([pin.integrate(model, home, each) for each in shift]), v, a


def arm_log(robot: Robot, truth: Truth, seconds: float) -> dict[str, np.ndarray]:
    """Return the log of a robot with a fixed base; the torque of each period belongs to the middle of the period."""
    t = H * np.arange(round(seconds / H))
    swing = np.full(truth.model.nv, 0.25)
    q, v, _ = motion(robot, t, np.random.default_rng(7), swing)
    middle = motion(robot, t + H / 2, np.random.default_rng(7), swing)
    data = truth.model.createData()
    tau = np.array([pin.rnea(truth.model, data, *each) for each in zip(*middle, strict=True)])
    return {"t": t, "q": q, "v": v, "tau": (tau + losses(truth, middle[1], middle[2])) / truth.scale}


def losses(truth: Truth, v: np.ndarray, a: np.ndarray) -> np.ndarray:
    """Return the torques of rotors and friction."""
    of = truth.actuators
    return of.armature * a + of.damping * v + of.friction * np.sign(v)


def legged_log(robot: Robot, truth: Truth, seconds: float) -> dict[str, np.ndarray]:
    """Return the log of a robot on feet; the forces on its feet are the smallest that cause the motion of its base."""
    t, system = H * np.arange(round(seconds / H)), robot.system()
    swing = np.r_[0.02 * np.ones(3), np.zeros(3), 0.2 * np.ones(system.n_actuated)]
    q, v, _ = motion(robot, t, np.random.default_rng(7), swing)
    at, speed, acceleration = motion(robot, t + H / 2, np.random.default_rng(7), swing)
    model, data = truth.model, truth.model.createData()
    tau, force = np.zeros((len(t), system.n_actuated)), np.zeros((len(t), len(robot.patches), 3))
    loss = losses(truth, speed[:, 6:], acceleration[:, 6:])
    for n in range(len(t)):
        needed = pin.rnea(model, data, at[n], speed[n], acceleration[n])
        J = contact_jacobian(robot, model, data, at[n])
        force[n] = np.linalg.lstsq(J[:, :6].T, needed[:6], rcond=None)[0].reshape(-1, 3)
        tau[n] = (needed - J.T @ force[n].ravel())[6:] + loss[n]
    return {"t": t, "q": q, "v": v, "tau": tau / truth.scale, "force": force}


def standing_log(robot: Robot, seconds: float) -> dict[str, np.ndarray]:
    """Return the log of a robot whose base sways and turns while its feet roll without slip; its torques are zero."""
    system = robot.system()
    model, data, nv = system.model, system.model.createData(), system.n_velocities
    t = H * np.arange(round(seconds / H))
    size, phase = np.array([0.04, 0.03, 0.02, 0.15, 0.15, 0.2]), np.arange(6)
    q, v = np.tile(robot.standing_state(system).q, (len(t), 1)), np.zeros((len(t), nv))

    def speed(at: float, q: np.ndarray) -> np.ndarray:
        base = size * FREQUENCIES[2] * np.sin(FREQUENCIES[2] * (1.0 + 0.2 * phase) * at)
        J = contact_jacobian(robot, model, data, q)
        return np.r_[base, np.linalg.solve(J[:, 6:], -J[:, :6] @ base)]

    for n in range(len(t)):
        v[n] = speed(t[n], q[n])
        if n + 1 < len(t):
            middle = speed(t[n] + H / 2, pin.integrate(model, q[n], H / 2 * v[n]))
            q[n + 1] = pin.integrate(model, q[n], H * middle)
    force = np.tile([0.0, 0.0, 10.0], (len(t), len(robot.patches), 1))
    return {"t": t, "q": q, "v": v, "tau": np.zeros((len(t), system.n_actuated)), "force": force}


def contact_jacobian(robot: Robot, model: Any, data: Any, q: np.ndarray) -> np.ndarray:
    """Return the Jacobian of the contact points of all feet on level ground, shape (3 k, nv)."""
    pin.computeJointJacobians(model, data, q)
    pin.updateFramePlacements(model, data)
    rows = []
    for foot in robot.description.feet:
        frame = model.getFrameId(foot.frame, pin.FrameType.BODY)
        whole = pin.getFrameJacobian(model, data, frame, pin.ReferenceFrame.LOCAL_WORLD_ALIGNED)
        arm = data.oMf[frame].rotation @ foot.offset_m - [0.0, 0.0, foot.radius_m]
        rows.append(whole[:3] - pin.skew(arm) @ whole[3:])
    return np.concatenate(rows)
