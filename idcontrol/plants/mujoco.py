"""MuJoCo as plant: the same robot and ground in an external simulator. Needs the extra ``mujoco``.

MuJoCo's contacts are soft. Here they are almost as stiff as possible (`TIME_CONSTANT`, `IMPEDANCE`), with elliptic
friction cones and little creep (`IMPEDANCE_RATIO`).

MuJoCo detects a joint limit after the joint has passed it, by up to one substep's motion. It stops the joint in the
next substep and returns it to the limit slowly (`RETURN_S`).

In MuJoCo, the linear velocity of a free joint is the velocity of the body frame's origin in *world* axes, its angular
velocity is in body axes, and quaternions begin with w. Only `MuJoCo._write` and `MuJoCo._read` convert states
between the conventions.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from idcontrol.contact.fingertips import Fingertips
from idcontrol.contact.spheres import SphereContacts
from idcontrol.contact.terrain import Terrain
from idcontrol.dynamics.system import System
from idcontrol.errors import Diverged, InputError, install_command
from idcontrol.models.step import StepSolution
from idcontrol.plants.exported import ContactSphere, RigidLink, grid, quaternion, rigid_links, rotation
from idcontrol.plants.parts import averaged, require_positive, require_push, require_state, require_torques, substeps
from idcontrol.types import Array, ContactForces, State

try:
    import mujoco
except ImportError:
    raise InputError(f"the plant mujoco needs the package mujoco; {install_command('mujoco')}") from None

TIME_CONSTANT = 2.0
"""Time constant of a contact in substeps: the smallest value that MuJoCo accepts."""

RETURN_S = 0.02
"""Time constant for returning to a joint limit [s]. A limit can push but not pull: with `TIME_CONSTANT`, a joint that
starts 1 rad beyond its limit would leave it at 250 rad/s at 1 kHz."""

IMPEDANCE = (0.95, 0.99, 1e-4, 0.5, 2.0)
"""MuJoCo's ``solimp``: the impedance of a contact or a limit rises from 0.95 to 0.99 over 0.1 mm or 0.1 mrad."""

TOLERANCE = 1e-18
"""Tolerance of the cost in MuJoCo's Newton iterations. Forces scale with the square root of the cost, so they are exact
to 1e-9. With zero, most steps would take the limit of 100 iterations, a millisecond."""

TOUCH_M = 1e-9
"""Gap below which a contact touches [m]. MuJoCo has no contact at a gap of exactly zero: a robot that starts on the
ground would fall for one step, and torques without balancing contact forces would spin the light feet."""

BAD = tuple(int(getattr(mujoco.mjtWarning, f"mjWARN_BAD{what}")) for what in ("QPOS", "QVEL", "QACC"))
"""Warnings after which MuJoCo restarts from its reference pose."""

IMPEDANCE_RATIO = 10.0
"""Stiffness of friction relative to the normal direction: standing feet hardly creep."""

SLIDING_1_S, WALL_IMPEDANCE = 5.0, (0.8, 0.8, 1e-4, 0.5, 2.0)
"""Damping of friction [1/s] and ``solimp`` d of contacts with a wall.

MuJoCo's friction is convex: it opens a contact that slides at the speed v, unless (1 - d)/d f/m > μ b v. Here b is the
damping, f the normal force and m the inertia at the contact. With the b and d of feet, a hand that slides at
millimetres per second would hop. With these values, a hand with an inertia of 8 kg slides at up to 0.2 m/s under 20 N.
But it creeps under tangential loads that friction should hold.
"""


class MuJoCo:
    """A robot on the ground in MuJoCo, or a hand with a box."""

    last: StepSolution | None = None
    """Always None: MuJoCo does not report its solver's outcome."""

    def __init__(self, system: System, contacts: SphereContacts | Fingertips, dt: float) -> None:
        """Build the robot of `system` with the spheres of `contacts`, and the ground or a box.

        Args:
            system: Multibody system of the robot.
            contacts: The robot's contact spheres, their friction, and the ground or the box in its hand.
            dt: Longest substep [s].

        Raises:
            InputError: `dt` is not positive, or MuJoCo cannot represent the robot.
        """
        self._dt = require_positive("longest substep", dt)
        self._links = rigid_links(system, contacts)
        self._system, self._names = system, system.actuated_names
        self._spheres = {
            sphere.identity: f"sphere {sphere.identity}" for link in self._links for sphere in link.spheres
        }
        spheres = contacts if isinstance(contacts, SphereContacts) else None
        try:
            self.model = _specification(self._links, spheres, system.model.gravity.linear, dt).compile()
        except ValueError as error:
            raise InputError(f"MuJoCo cannot represent this robot: {str(error).splitlines()[0]}") from None
        self.data = mujoco.MjData(self.model)
        for link in self._links:  # the compiler may have changed the inertia, see `_specification`
            self.model.body(link.name).inertia[:] = link.principal()[0]
        mujoco.mj_setConst(self.model, self.data)
        joints = [self.model.joint(link.name) for link in self._links]
        self._at_q = [int(joint.qposadr[0]) for joint in joints]
        self._at_v = [int(joint.dofadr[0]) for joint in joints]
        # joints with one coordinate are read together, free joints one by one
        placed = list(zip(self._links, self._at_q, self._at_v, strict=True))
        self._others = [(link, i, j) for link, i, j in placed if link.kind == "free" or link.circle]
        single = [(link.at_q, i, link.at_v, j) for link, i, j in placed if link.kind != "free" and not link.circle]
        self._joint_q, self._joint_at_q, self._joint_v, self._joint_at_v = (
            np.array(single, dtype=np.int64).reshape(-1, 4).T
        )
        motors = {link.name: at for link, at in zip(self._links, self._at_v, strict=True)}
        self._motors = [motors[name] for name in self._names]
        self._sphere_of = {self.model.geom(name).id: identity for identity, name in self._spheres.items()}
        self._n_spheres = contacts.radius.size
        self._state = State(t=0.0, q=np.zeros(system.model.nq), v=np.zeros(system.model.nv))
        self._forces = ContactForces.none()

    def reset(self, state: State) -> State:
        """Start from `state`.

        Raises:
            InputError: `state` cannot be a state of this robot.
        """
        self._state, self._forces = require_state(self._system, state), ContactForces.none()
        mujoco.mj_resetData(self.model, self.data)
        self._write(self._state)
        return self._state

    def push(self, velocity: Array) -> None:
        """Add `velocity`, world frame, shape (3,) [m/s], to the velocity of the floating base.

        Raises:
            InputError: `velocity` is not three finite numbers.
        """
        self.data.qvel[self._at_v[0] : self._at_v[0] + 3] += require_push(velocity)

    def step(self, tau: Array, dt: float) -> State:
        """Hold joint torques `tau`, shape (a,) [N m], for `dt` [s], in equal substeps.

        Raises:
            InputError: `tau` has a wrong shape or is not finite, or `dt` is not positive or too long.
            Diverged: The motion is out of bounds.
        """
        require_torques(tau, self._names)
        count = substeps(dt, self._dt)
        self.model.opt.timestep = dt / count
        self.data.qfrc_applied[self._motors] = tau
        pressed: list[ContactForces] = []
        for _ in range(count):
            mujoco.mj_step(self.model, self.data)
            pressed.append(self._pressed())
        if any(self.data.warning[kind].number for kind in BAD):
            raise Diverged(
                f"the robot in MuJoCo diverged at {self._state.t:.3f} s; take a higher rate or smaller torques"
            )
        self._forces = averaged(pressed, count)
        self._state = self._read(self._state.t + dt)
        return self._state

    def contact_forces(self) -> ContactForces:
        """Return forces of the last `step`, averaged over it; only pressing contacts are listed."""
        return self._forces

    def _pressed(self) -> ContactForces:
        """Return contact forces of the last substep; forces of one sphere on several triangles are added."""
        n, wrench = self._n_spheres, np.zeros(6)
        force, normal, pressed = np.zeros((n, 3)), np.zeros((n, 3)), np.zeros(n, dtype=np.bool_)
        # read arrays: iterating over `data.contact` takes half a millisecond
        geoms, frames = self.data.contact.geom.tolist(), self.data.contact.frame
        for index, (first, second) in enumerate(geoms):
            mujoco.mj_contactForce(self.model, self.data, index, wrench)
            if not wrench[0] > 0.0:
                continue
            # the first axis points from the first geom to the second, and the force acts on the second
            sign, geom = (1.0, second) if second in self._sphere_of else (-1.0, first)
            axes, sphere = frames[index].reshape(3, 3), self._sphere_of[geom]
            force[sphere] += sign * (wrench[:3] @ axes)
            normal[sphere] = sign * axes[0]
            pressed[sphere] = True
        identity = np.flatnonzero(pressed)
        return ContactForces(identity=identity, force=force[identity], normal=normal[identity])

    def _write(self, state: State) -> None:
        qpos, qvel = self.data.qpos, self.data.qvel
        for link, i, j in zip(self._links, self._at_q, self._at_v, strict=True):
            q, v = state.q[link.at_q :], state.v[link.at_v :]
            if link.kind == "free":
                qpos[i : i + 3], qpos[i + 3], qpos[i + 4 : i + 7] = q[:3], q[6], q[3:6]
                qvel[j : j + 3], qvel[j + 3 : j + 6] = rotation(q[3:7]) @ v[:3], v[3:6]
            else:
                qpos[i], qvel[j] = (np.arctan2(q[1], q[0]) if link.circle else q[0]), v[0]

    def _read(self, t: float) -> State:
        qpos, qvel = self.data.qpos, self.data.qvel
        q, v = np.empty_like(self._state.q), np.empty_like(self._state.v)
        q[self._joint_q], v[self._joint_v] = qpos[self._joint_at_q], qvel[self._joint_at_v]
        for link, i, j in self._others:
            a, b = link.at_q, link.at_v
            if link.kind == "free":
                q[a : a + 3], q[a + 3 : a + 6], q[a + 6] = qpos[i : i + 3], qpos[i + 4 : i + 7], qpos[i + 3]
                v[b : b + 3] = rotation(q[a + 3 : a + 7]).T @ qvel[j : j + 3]
                v[b + 3 : b + 6] = qvel[j + 3 : j + 6]
            else:
                q[a], q[a + 1], v[b] = np.cos(qpos[i]), np.sin(qpos[i]), qvel[j]
        return State(t=t, q=q, v=v)


def _specification(
    machine: list[RigidLink], spheres: SphereContacts | None, gravity: Array, dt: float
) -> mujoco.MjSpec:
    spec = mujoco.MjSpec()
    # Some robot descriptions have inertias that no rigid body can have (A + B < C). MuJoCo's compiler rejects them, but
    # its simulation does not. So the compiler balances them here, and the constructor restores them.
    spec.compiler.balanceinertia = True
    spec.compiler.degree = False
    spec.option.timestep = dt
    spec.option.gravity = gravity
    spec.option.cone = mujoco.mjtCone.mjCONE_ELLIPTIC
    spec.option.impratio = IMPEDANCE_RATIO
    spec.option.tolerance = TOLERANCE
    bodies: list[Any] = []
    for link in machine:
        parent = spec.worldbody if link.parent < 0 else bodies[link.parent]
        body = parent.add_body(name=link.name, pos=link.position, quat=_w_first(quaternion(link.rotation)))
        moments, axes = link.principal()
        body.mass, body.ipos, body.inertia, body.iquat = link.mass, link.com, moments, _w_first(quaternion(axes))
        body.explicitinertial = True
        if link.kind == "free":
            body.add_freejoint(name=link.name)
        else:
            _add_joint(body, link, dt)
        for sphere in link.spheres:
            _add_sphere(body, sphere, dt)
        if link.box is not None:
            box = body.add_geom(type=mujoco.mjtGeom.mjGEOM_BOX, size=0.5 * link.box)
            box.contype, box.conaffinity = 2, 1
        bodies.append(body)
    if spheres is not None:
        _add_ground(spec, spheres.terrain)
        listed = [sphere for link in machine for sphere in link.spheres]
        for number, wall in enumerate(spheres.walls):
            _add_wall(spec, f"wall {number}", wall, listed, dt)
    return spec


def _add_joint(body: Any, link: RigidLink, dt: float) -> None:
    joint = body.add_joint(
        name=link.name,
        type=mujoco.mjtJoint.mjJNT_HINGE if link.kind == "hinge" else mujoco.mjtJoint.mjJNT_SLIDE,
        axis=link.axis,
        armature=link.armature,
        frictionloss=link.friction,
        limited=bool(np.isfinite([link.lower, link.upper]).any()),
        range=[link.lower, link.upper],
    )
    # stiffness and damping that stop the joint in one substep and return it slowly
    stiffness, damping = IMPEDANCE[1] ** 2 / (RETURN_S * dt), IMPEDANCE[1] / dt
    joint.solref_limit, joint.solimp_limit = [-stiffness, -damping], IMPEDANCE
    joint.damping = [link.damping, 0.0, 0.0]
    joint.solref_friction, joint.solimp_friction = [TIME_CONSTANT * dt, 1.0], IMPEDANCE


def _add_sphere(body: Any, sphere: ContactSphere, dt: float) -> None:
    geom = body.add_geom(
        name=f"sphere {sphere.identity}",
        type=mujoco.mjtGeom.mjGEOM_SPHERE,
        pos=sphere.centre,
        size=[sphere.radius, 0.0, 0.0],
        friction=[sphere.mu, 0.0, 0.0],
    )
    geom.condim = 3 if sphere.mu > 0.0 else 1
    # spheres touch the ground or the box (bit 1) but not each other
    geom.contype, geom.conaffinity = 1, 2
    geom.solref[:2] = TIME_CONSTANT * dt, 1.0
    geom.solimp[:] = IMPEDANCE
    geom.margin = TOUCH_M
    geom.priority = 1  # the sphere's parameters apply to its contacts


def _add_ground(spec: mujoco.MjSpec, terrain: Terrain) -> None:
    if terrain.heights.size == 0:
        geom = _add_plane(spec, terrain.parameters[:3], terrain.parameters[3])
        geom.contype, geom.conaffinity = 2, 1
        return
    x, y, heights = grid(terrain)
    low, rise = heights.min(), max(float(np.ptp(heights)), 1e-6)
    spec.add_hfield(
        name="ground",
        size=[0.5 * (x[-1] - x[0]), 0.5 * (y[-1] - y[0]), rise, 0.1],
        nrow=y.size,
        ncol=x.size,
        userdata=(heights.T - low).ravel(),
    )
    middle = [0.5 * (x[0] + x[-1]), 0.5 * (y[0] + y[-1]), low]
    geom = spec.worldbody.add_geom(type=mujoco.mjtGeom.mjGEOM_HFIELD, hfieldname="ground", pos=middle)
    geom.contype, geom.conaffinity = 2, 1


def _add_plane(spec: mujoco.MjSpec, normal: Array, offset: float) -> Any:
    tilt = np.array([-normal[1], normal[0], 0.0, 1.0 + normal[2]])
    place = {"pos": offset * normal, "quat": _w_first(tilt / np.linalg.norm(tilt))}
    return spec.worldbody.add_geom(type=mujoco.mjtGeom.mjGEOM_PLANE, size=[0.0, 0.0, 1.0], **place)


def _add_wall(spec: mujoco.MjSpec, name: str, wall: Array, spheres: list[ContactSphere], dt: float) -> None:
    """Add a wall whose contacts let a hand slide (`SLIDING_1_S`)."""
    geom = _add_plane(spec, wall[:3], wall[3])
    geom.name, geom.contype, geom.conaffinity = name, 0, 0
    for sphere in spheres:
        pair = spec.add_pair(name=f"{name} sphere {sphere.identity}", geomname1=name)
        pair.geomname2 = f"sphere {sphere.identity}"
        pair.condim, pair.friction[:2], pair.margin = 3 if sphere.mu > 0.0 else 1, sphere.mu, TOUCH_M
        pair.solref[:2], pair.solimp[:] = (TIME_CONSTANT * dt, 1.0), WALL_IMPEDANCE
        pair.solreffriction[:2] = -1.0, -SLIDING_1_S


def _w_first(quaternion: Array) -> Array:
    return quaternion[[3, 0, 1, 2]]
