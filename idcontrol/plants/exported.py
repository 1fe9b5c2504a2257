"""Robot, ground and a held box, described for external simulators: rigid links, contact spheres, a height grid.

The description comes from the Pinocchio model, not from the URDF. So each simulator gets exactly the same robot,
without its own URDF reader, and needs no meshes. Joint limits come from `System.limits` and joint friction from
`System.actuators`; values of the URDF are not used.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import coal
import numpy as np
import pinocchio as pin
from scipy.optimize import linear_sum_assignment

from idcontrol.contact.fingertips import Fingertips
from idcontrol.contact.spheres import SphereContacts
from idcontrol.contact.terrain import Terrain
from idcontrol.dynamics.system import System
from idcontrol.errors import InputError
from idcontrol.types import Array, Integers

NO_SLIP_MU = 100.0
"""Largest friction coefficient in external simulators; it also replaces infinite friction."""

POINT_M = 1e-6
"""Radius of a sphere that replaces a point [m]: simulators need a positive radius. The point is its centre."""

SMALLEST_ON_MAP_M = 1e-3
"""Smallest radius of a sphere on the triangles of a height map [m]. In Bullet spheres of 0.1 mm fall through triangles,
and in MuJoCo spheres of 0.3 mm keep moving."""

GRID = 4
"""Number of exported samples per sample of the height map along each axis. Simulators put triangles between samples: at
a spacing of 5 mm the triangles are within 0.02 mm of the smooth ground, on hills as steep as in Zapolsky & Drumwright
(2017)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContactSphere:
    """A contact sphere.

    Attributes:
        identity: Identity of the sphere's contact.
        centre: Centre in the frame of the link, shape (3,) [m].
        radius: Radius, at least `POINT_M` [m].
        mu: Friction coefficient; at most `NO_SLIP_MU`.
    """

    identity: int
    centre: Array
    radius: float
    mu: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RigidLink:
    """A rigid body and the joint that carries it; the link frame is the joint's frame.

    Attributes:
        name: Name of the joint.
        parent: Index of the parent in the list of links; -1 for the world.
        position: Origin of the link frame in the parent's frame, with the joint at zero, shape (3,) [m].
        rotation: Axes of the link frame (columns) in the parent's frame, with the joint at zero, shape (3, 3).
        kind: Motion that the joint allows: ``free`` for any, ``hinge`` for a rotation about `axis`, ``slide`` for a
            translation along `axis`.
        axis: Joint axis in the link frame, shape (3,); zeros for a free joint.
        mass: Mass [kg].
        com: Centre of mass in the link frame, shape (3,) [m].
        inertia: Inertia about the centre of mass, in the axes of the link frame, shape (3, 3) [kg m²].
        armature: Rotor inertia reflected at the joint [kg m² or kg].
        damping: Viscous friction of the joint [N m s/rad or N s/m].
        friction: Dry friction of the joint [N m or N].
        lower: Lower limit of the joint [rad or m]; -inf for no limit.
        upper: Upper limit of the joint [rad or m]; inf for no limit.
        at_q: Index of the joint's first coordinate in the configuration.
        at_v: Index of the joint's first velocity, in Pinocchio's order.
        circle: True if the configuration has cosine and sine of the angle instead of the angle.
        spheres: Contact spheres on the link.
        box: Side lengths of the held box, which is centred on the origin of the link frame, shape (3,) [m]; None for
            other links.
    """

    name: str
    parent: int
    position: Array
    rotation: Array
    kind: Literal["free", "hinge", "slide"]
    axis: Array
    mass: float
    com: Array
    inertia: Array
    armature: float
    damping: float
    friction: float
    lower: float
    upper: float
    at_q: int
    at_v: int
    circle: bool
    spheres: tuple[ContactSphere, ...]
    box: Array | None

    def principal(self) -> tuple[Array, Array]:
        """Return the principal moments of inertia (3,) [kg m²], and their right-handed axes as columns, shape (3, 3).

        Order and signs of the axes are chosen closest to the link frame: simulators convert rotations to Euler angles
        and back, which loses digits close to right angles.
        """
        moments, axes = np.linalg.eigh(self.inertia)
        _, order = linear_sum_assignment(-np.abs(axes))
        moments, axes = moments[order], axes[:, order]
        axes = axes * np.where(np.diag(axes) < 0.0, -1.0, 1.0)
        if np.linalg.det(axes) < 0.0:
            axes[:, np.argmin(np.diag(axes))] *= -1.0
        return moments, axes


def _spheres(contacts: SphereContacts | Fingertips, centres: Array, chosen: Integers) -> tuple[ContactSphere, ...]:
    """Return the chosen spheres; `centres` (n, 3) [m] of all spheres are in the frames of their links."""
    return tuple(
        ContactSphere(
            identity=int(i),
            centre=centres[i],
            radius=max(float(contacts.radius[i]), POINT_M),
            mu=min(float(contacts.mu[i]), NO_SLIP_MU),
        )
        for i in chosen
    )


def rigid_links(system: System, contacts: SphereContacts | Fingertips) -> list[RigidLink]:
    """Return the robot as a tree of links; parents come before their children.

    Raises:
        InputError: A joint is neither free nor a hinge nor a slide, a link has no mass, a sphere is too small for a
            height map, or the held body is not a box.
    """
    if isinstance(contacts, SphereContacts):
        _require_spheres_that_fit(contacts)
    model, neutral = system.model, pin.neutral(system.model)
    joints, centres = contacts.mounting()
    held = contacts.body if isinstance(contacts, Fingertips) else None
    sides = _sides(contacts) if isinstance(contacts, Fingertips) else None
    damping, friction = np.zeros((2, model.nv))
    lower, upper = np.full(model.nv, -np.inf), np.full(model.nv, np.inf)
    driven, angles = system.order[system.n_unactuated :], ~system.joint_circle
    lower[driven[angles]], upper[driven[angles]] = system.limits.lower[angles], system.limits.upper[angles]
    if system.actuators is not None:
        damping[driven], friction[driven] = system.actuators.damping, system.actuators.friction
    links = []
    for j in range(1, model.njoints):
        joint, inertia, place = model.joints[j], model.inertias[j], model.jointPlacements[j]
        name = str(model.names[j])
        if not inertia.mass > 0.0:
            raise InputError(
                f"the link that joint {name!r} moves has no mass; external simulators need a positive mass"
            )
        kind, axis = _motion(joint, name, neutral)
        links.append(
            RigidLink(
                name=name,
                parent=int(model.parents[j]) - 1,
                position=np.array(place.translation),
                rotation=np.array(place.rotation),
                kind=kind,
                axis=axis,
                mass=float(inertia.mass),
                com=np.array(inertia.lever),
                inertia=np.array(inertia.inertia),
                armature=float(model.armature[joint.idx_v]),
                damping=float(damping[joint.idx_v]),
                friction=float(friction[joint.idx_v]),
                lower=float(lower[joint.idx_v]),
                upper=float(upper[joint.idx_v]),
                at_q=joint.idx_q,
                at_v=joint.idx_v,
                circle=joint.nq == 2,
                spheres=_spheres(contacts, centres, np.flatnonzero(joints == j)),
                box=sides if name == held else None,
            )
        )
    return links


def _motion(joint: Any, name: str, neutral: Array) -> tuple[Literal["free", "hinge", "slide"], Array]:
    """Return a joint's kind and its axis, shape (3,); zeros for a free joint.

    Raises:
        InputError: The joint is neither free nor a hinge nor a slide.
    """
    data = joint.createData()
    joint.calc(data, neutral)
    motion = np.array(data.S).reshape(6, -1)
    if joint.nv == 1:
        return ("slide", motion[:3, 0]) if motion[:3].any() else ("hinge", motion[3:, 0])
    if joint.shortname() == "JointModelFreeFlyer":
        return "free", np.zeros(3)
    raise InputError(f"joint {name!r} is a {joint.shortname()}; external simulators take free, hinge and slide")


def _require_spheres_that_fit(contacts: SphereContacts) -> None:
    small = contacts.radius.min(initial=np.inf)
    if contacts.terrain.heights.size and small < SMALLEST_ON_MAP_M:
        raise InputError(
            f"a sphere of radius {small:g} m is too small for a height map in external simulators; give it at least "
            f"{SMALLEST_ON_MAP_M:g} m, or use a plane or another plant"
        )


def _sides(tips: Fingertips) -> Array:
    if not isinstance(tips.shape, coal.Box):
        raise InputError(f"external simulators take only a box in a hand, not a {type(tips.shape).__name__}")
    return 2.0 * np.array(tips.shape.halfSide)


def quaternion(rotation: Array) -> Array:
    """Return the unit quaternion (x, y, z, w) of a rotation matrix (3, 3)."""
    return pin.Quaternion(rotation).coeffs()


def rotation(quaternion: Array) -> Array:
    """Return the rotation matrix (3, 3) of a unit quaternion (x, y, z, w)."""
    x, y, z, w = quaternion
    return pin.Quaternion(w, x, y, z).matrix()


def grid(terrain: Terrain) -> tuple[Array, Array, Array]:
    """Return samples of a height map, for simulators with triangle meshes: x (i,), y (j,) and heights (i, j) [m]."""
    _, _, _, _, x0, y0, dx, dy = terrain.parameters
    n_x, n_y = terrain.heights.shape
    x = x0 + dx / GRID * np.arange(GRID * (n_x - 1) + 1)
    y = y0 + dy / GRID * np.arange(GRID * (n_y - 1) + 1)
    return x, y, terrain.height(x[:, None], y[None, :])
