"""Dynamics of a robot whose feet stand: torques of a motion, and motion and forces under torques.

Both functions solve ``M a + c = Pᵀτ + Jᵀf``, where c is the bias force, P selects the actuated joints, and J are the
contact rows of the standing feet.
"""

from __future__ import annotations

import numpy as np

from idcontrol.contact.spheres import SphereContacts
from idcontrol.types import Array, Booleans, Integers

__all__ = ["motion", "torques"]


def __dir__() -> list[str]:
    return __all__


def torques(
    contacts: SphereContacts, stance: Booleans, motion: tuple[Array, Array, Array], forces: Array | None
) -> Array:
    """Return the joint torques of a motion, in the order of `System.actuated_names`, shape (a,) [N m].

    Args:
        contacts: The feet; their system is updated.
        stance: True for feet that stand, shape (n_feet,).
        motion: Configuration, velocity and acceleration in Pinocchio's layout.
        forces: Wanted forces of the ground on the feet, world axes, shape (n_feet, 3) [N]; None for zero. The torques
            assume the forces that are nearest to `forces` among all forces that cause the motion.
    """
    q, v, a = motion
    standing, J, _ = _contacts(contacts, stance, q, v)
    system, u = contacts.system, contacts.system.n_unactuated
    foot = contacts.patch[standing]
    f = np.zeros(J.shape[0])
    if forces is not None:
        f = np.einsum("ixy,iy->xi", contacts.axes[standing], forces[foot] / np.bincount(foot)[foot, None]).ravel()
    need = system.M @ (system.from_pinocchio(a) + _turning(v)) + system.bias - f @ J
    return (need - np.linalg.pinv(J[:, :u].T) @ need[:u] @ J)[u:]


def motion(contacts: SphereContacts, stance: Booleans, q: Array, v: Array, tau: Array) -> tuple[Array, Array]:
    """Return the motion under joint torques if the standing feet do not accelerate.

    Args:
        contacts: The feet; their system is updated.
        stance: True for feet that stand, shape (n_feet,).
        q: Configuration, Pinocchio's layout.
        v: Velocity, Pinocchio's layout.
        tau: Joint torques, in the order of `System.actuated_names`, shape (a,) [N m].

    Returns:
        Acceleration in Pinocchio's layout, shape (nv,); and forces of the ground on the feet, world axes, shape
            (n_feet, 3) [N].
    """
    standing, J, drift = _contacts(contacts, stance, q, v)
    system, u = contacts.system, contacts.system.n_unactuated
    columns = np.linalg.solve(system.M, np.column_stack((np.r_[np.zeros(u), tau] - system.bias, J.T)))
    free, responses = columns[:, 0], columns[:, 1:]
    f = -np.linalg.pinv(J @ responses, hermitian=True) @ (J @ free + drift)
    forces = np.zeros((contacts.n_feet, 3))
    world = np.einsum("ixy,xi->iy", contacts.axes[standing], f.reshape(3, -1))
    np.add.at(forces, contacts.patch[standing], world)
    return system.to_pinocchio(free + responses @ f - _turning(v)), forces


def _contacts(contacts: SphereContacts, stance: Booleans, q: Array, v: Array) -> tuple[Integers, Array, Array]:
    """Return the spheres of standing feet: indices (n,), contact rows J (3 n, m), and J̇ v (3 n,) [m/s²]."""
    contacts.system.update(q, v)
    standing = contacts.detect(np.inf).take(stance[contacts.patch])
    return standing.identity, standing.jacobian, standing.drift


def _turning(v: Array) -> Array:
    """Return the classical minus the spatial acceleration of the robot, shape (nv,): ω × v for the floating base."""
    out = np.zeros_like(v)
    out[:3] = np.cross(v[3:6], v[:3])
    return out
