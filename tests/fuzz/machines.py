"""Random machines: trees of joints with masses over six decades, their states, and contacts anywhere on them."""

import numpy as np
import pinocchio as pin
from hypothesis import strategies as st

from idcontrol.contact.contacts import Contacts, contact_rows
from idcontrol.dynamics.system import System

KINDS = ("revolute", "sliding", "continuous")


def machines(most: int = 30) -> st.SearchStrategy[tuple[int, int, bool]]:
    """Seed, number of joints, and whether the root floats."""
    return st.tuples(st.integers(0, 2**32 - 1), st.integers(1, most), st.booleans())


def build(rng: np.random.Generator, joints: int, floating: bool, *, limit: float = 100.0) -> System:
    """Return a tree of joints with random axes, offsets of some decimetres and physical links of 1 g to 1 t."""
    model = pin.Model()
    root = 0
    if floating:
        root = model.addJoint(0, pin.JointModelFreeFlyer(), pin.SE3.Identity(), "root")
        model.appendBodyToJoint(root, link(rng), pin.SE3.Identity())
        model.addJointFrame(root)
    branch = [root]
    for i in range(joints):
        axis = rng.normal(size=3)
        axis /= np.linalg.norm(axis)
        kind = KINDS[rng.choice(3, p=[0.6, 0.2, 0.2])]
        joint = {
            "revolute": pin.JointModelRevoluteUnaligned,
            "sliding": pin.JointModelPrismaticUnaligned,
            "continuous": lambda axis: pin.JointModelRUBX(),
        }[kind](axis)
        placement = pin.SE3(turn(rng), rng.uniform(-0.3, 0.3, 3))
        # depth first, as Pinocchio needs it: on the last link, or on one between it and the root
        del branch[rng.integers(1, len(branch) + 1) if rng.random() < 0.3 else len(branch) :]
        new = model.addJoint(branch[-1], joint, placement, f"joint{i}")
        model.appendBodyToJoint(new, link(rng), pin.SE3.Identity())
        model.addJointFrame(new)
        branch.append(new)
    return System(model, effort_limit=np.full(joints, limit))


def turn(rng: np.random.Generator) -> np.ndarray:
    """Return a random rotation."""
    w, x, y, z = rng.normal(size=4)
    return pin.Quaternion(w, x, y, z).normalized().matrix()


def link(rng: np.random.Generator) -> pin.Inertia:
    """Return the inertia of a random box about a random centre, 1 g to 1 t."""
    mass = 10.0 ** rng.uniform(-3.0, 3.0)
    x, y, z = rng.uniform(0.02, 0.3, 3) ** 2
    axes = turn(rng)
    return pin.Inertia(
        mass, rng.uniform(-0.1, 0.1, 3), axes @ np.diag(mass / 12 * np.array([y + z, x + z, x + y])) @ axes.T
    )


def state(rng: np.random.Generator, system: System, speed: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """Return a random configuration and velocity, joints at up to about `speed`, in Pinocchio's layout."""
    q = pin.integrate(system.model, pin.neutral(system.model), rng.normal(size=system.n_velocities))
    return q, speed * rng.normal(size=system.n_velocities)


def contacts(rng: np.random.Generator, system: System, count: int) -> Contacts:
    """Return random contacts on any link, in, on or above the ground, of an updated `system`."""
    joint = rng.integers(1, system.model.njoints, count)
    axes = np.array([turn(rng) for _ in range(count)]).reshape(count, 3, 3)
    point = np.array([system.data.oMi[int(j)].translation for j in joint]).reshape(count, 3) + rng.uniform(
        -0.1, 0.1, (count, 3)
    )
    jacobian = np.empty((3 * count, system.n_velocities))
    nobody = np.zeros(count, dtype=np.int64)
    contact_rows(system.jacobian, system.support, joint.astype(np.int64), nobody, point, axes, jacobian)
    return Contacts(
        identity=np.arange(count),
        point=point,
        axes=axes,
        gap=rng.choice([0.0, 0.0, 1e-4, 1e-3, -1e-4, -1e-3], count),
        mu=rng.choice([0.0, 0.1, 0.5, 1.0, 2.0], count),
        jacobian=jacobian,
    )
