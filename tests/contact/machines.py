"""Machines that the contact tests share, in random states."""

import numpy as np
import pinocchio as pin

from idcontrol.dynamics.system import System
from idcontrol.types import Array

LEGS = ("LF", "RF", "LH", "RH")


def quadruped() -> System:
    """A floating body with four legs of three joints, and a free box; Pinocchio's order of joints differs from ours."""
    model = pin.Model()
    base = model.addJoint(0, pin.JointModelFreeFlyer(), pin.SE3.Identity(), "base")
    model.appendBodyToJoint(base, pin.Inertia(3.0, np.zeros(3), np.diag([0.02, 0.05, 0.06])), pin.SE3.Identity())
    for leg, (x, y) in zip(LEGS, ((0.2, 0.1), (0.2, -0.1), (-0.2, 0.1), (-0.2, -0.1)), strict=True):
        parent, place = base, pin.SE3(np.eye(3), np.array([x, y, 0.0]))
        for name, joint in (
            ("hip", pin.JointModelRX()),
            ("thigh", pin.JointModelRY()),
            ("shank", pin.JointModelRevoluteUnaligned(np.array([0.1, 0.99, 0.05]) / np.sqrt(0.9926))),
        ):
            parent = model.addJoint(parent, joint, place, f"{leg}_{name}")
            inertia = pin.Inertia(0.2, np.array([0.0, 0.0, -0.07]), np.diag([1e-3, 1e-3, 2e-4]))
            model.appendBodyToJoint(parent, inertia, pin.SE3.Identity())
            place = pin.SE3(np.eye(3), np.array([0.01, 0.02 * np.sign(y), -0.15]))
        model.addFrame(pin.Frame(f"{leg}_FOOT", parent, 0, place, pin.FrameType.OP_FRAME))
    model.lowerPositionLimit[7:] = -np.pi
    model.upperPositionLimit[7:] = np.pi
    names = list(model.names)[2:]
    box = model.addJoint(0, pin.JointModelFreeFlyer(), pin.SE3.Identity(), "box")
    model.appendBodyToJoint(box, pin.Inertia(0.5, np.zeros(3), 1e-3 * np.eye(3)), pin.SE3.Identity())
    model.addJointFrame(box)
    return System(model, actuated=names[::-1])


def box_stack(count: int, mass: float = 1.0) -> System:
    """`count` free bodies and nothing else."""
    model = pin.Model()
    model.name = "boxes"
    for i in range(count):
        joint = model.addJoint(0, pin.JointModelFreeFlyer(), pin.SE3.Identity(), f"box{i}")
        model.appendBodyToJoint(joint, pin.Inertia(mass, np.zeros(3), 0.01 * np.eye(3)), pin.SE3.Identity())
        model.addJointFrame(joint)
    return System(model, actuated=())


def random_state(system: System, rng: np.random.Generator) -> tuple[Array, Array]:
    """A configuration with every free-flyer within a metre of the origin, and a velocity in Pinocchio's order."""
    model = system.model
    q = np.array(pin.integrate(model, pin.neutral(model), rng.uniform(-1.0, 1.0, model.nv)))
    return q, rng.uniform(-1.0, 1.0, model.nv)


def random_axes(n: int, rng: np.random.Generator) -> Array:
    """Right-handed orthonormal triads, rows normal, first and second tangent, shape (n, 3, 3)."""
    axes = np.linalg.qr(rng.normal(size=(n, 3, 3)))[0]
    axes[:, 2] *= np.linalg.det(axes)[:, None]
    return np.ascontiguousarray(axes)
