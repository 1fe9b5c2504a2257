"""Bullet as plant: the same robot and ground in an external simulator. Needs the extra ``bullet``.

The plant uses Bullet's reduced-coordinate multibody in double precision, without its default motors and damping. Bullet
solves contacts by sequential impulses at velocity level, with circular friction cones; each step removes a share `ERP`
of the penetration. Bullet detects a joint limit after the joint has passed it, by up to one substep's motion. Then it
stops the joint and returns it to the limit slowly (`RETURN_S`).

Bullet describes a base by its principal frame: the position is the centre of mass, the axes are the principal axes of
inertia, and velocities are in world axes. Only `PyBullet._write`, `_read` and `_frame` convert between the conventions.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from idcontrol.contact.fingertips import Fingertips
from idcontrol.contact.spheres import SphereContacts
from idcontrol.contact.terrain import Terrain
from idcontrol.dynamics.system import System
from idcontrol.errors import InputError, install_command
from idcontrol.models.restitution import SLOWEST
from idcontrol.models.step import StepSolution
from idcontrol.plants.exported import RigidLink, grid, quaternion, rigid_links, rotation
from idcontrol.plants.parts import (
    averaged,
    require_positive,
    require_push,
    require_state,
    require_torques,
    substeps,
    touch,
)
from idcontrol.types import Array, ContactForces, State

try:
    import pybullet as bullet
except ImportError:
    raise InputError(f"the plant pybullet needs the package pybullet; {install_command('bullet')}") from None

ITERATIONS = 500
"""Largest number of iterations of the contact solver; most steps reach `RESIDUAL` earlier."""

RESIDUAL = 1e-12
"""The contact solver stops if an iteration changes each contact velocity by at most the square root of this [m²/s²]."""

ERP = 0.2
"""Share of a penetration that a step removes."""

RETURN_S = 0.02
"""Time constant for returning to a joint limit [s]."""

BREAKING = 5e-4
"""Motion after which Bullet drops a contact point and its normal [m]. With Bullet's default of 2 cm, a sphere that has
left a triangle of a few millimetres keeps the triangle's normal."""

FASTEST = 1e6
"""Bullet's bound on joint speeds [rad/s or m/s], set so high that it has no effect."""

STRONGEST = 1e12
"""Bullet's bound on the torque at a joint limit [N m or N]; torques of 1e5 N m in steps of 1 ms exceed its default."""


class PyBullet:
    """A robot on the ground in Bullet, or a hand with a box."""

    last: StepSolution | None = None
    """Always None: Bullet does not report its solver's outcome."""

    def __init__(
        self, system: System, contacts: SphereContacts | Fingertips, dt: float, *, restitution: float = 0.0
    ) -> None:
        """Build the robot of `system` with the spheres of `contacts`, and the ground or a box.

        Args:
            system: Multibody system of the robot.
            contacts: The robot's contact spheres, their friction, and the ground or the box in its hand.
            dt: Longest substep [s].
            restitution: Returned share of the approach speed of an impact, 0 to 1.

        Raises:
            InputError: `dt` is not positive, `restitution` is out of range, there is a wall, or Bullet cannot represent
                the robot.
        """
        self._dt = require_positive("longest substep", dt)
        if not 0.0 <= restitution <= 1.0:
            raise InputError(f"restitution must be between 0 (plastic) and 1, not {restitution}")
        links = rigid_links(system, contacts)
        machine, boxes = [link for link in links if link.box is None], [link for link in links if link.box is not None]
        _refuse(machine)
        self._system, self._names = system, system.actuated_names
        self._world = _BulletWorld()
        self._world.call(bullet.setGravity, *system.model.gravity.linear)
        self._world.call(
            bullet.setPhysicsEngineParameter,
            numSolverIterations=ITERATIONS,
            solverResidualThreshold=RESIDUAL,
            erp=min(dt / RETURN_S, 1.0),  # for joint limits
            useSplitImpulse=0,  # with 1, Bullet does not correct depths beyond 0.04 m or rad
            contactERP=ERP,
            frictionERP=ERP,
            contactBreakingThreshold=BREAKING,
            restitutionVelocityThreshold=SLOWEST,
            enableConeFriction=1,
            deterministicOverlappingPairs=1,
        )
        if isinstance(contacts, SphereContacts):
            if contacts.walls.size:
                raise InputError("plant 'pybullet' has no walls; take coulomb-lcp, sap or mujoco")
            self._touched = _add_ground(self._world, contacts.terrain)
            self._body = _add_multibody(self._world, machine, restitution)
        else:  # in this order: Bullet reports friction on the body that was added first
            self._body = _add_multibody(self._world, machine, restitution)
            self._touched = _add_multibody(self._world, boxes, restitution)
        # friction and restitution of a pair are products of both
        self._world.call(bullet.changeDynamics, self._touched, -1, lateralFriction=1.0, restitution=1.0)
        first = -1 if machine[0].kind == "free" else 0
        self._carrier = dict(enumerate(machine, start=first))
        # each link, its body in Bullet, and the index of its joint in this body; -1 is the base
        self._links = [(link, self._body, number) for number, link in self._carrier.items()]
        self._links += [(box, self._touched, -1) for box in boxes]
        joint = {link.name: number for number, link in self._carrier.items()}
        self._dry = [(number, link.friction) for number, link in self._carrier.items() if link.friction > 0.0]
        self._motors = [joint[name] for name in self._names]
        self._state = State(t=0.0, q=np.zeros(system.model.nq), v=np.zeros(system.model.nv))
        self._forces = ContactForces.none()

    def reset(self, state: State) -> State:
        """Start from `state`.

        Raises:
            InputError: `state` cannot be a state of this robot.
        """
        self._state, self._forces = require_state(self._system, state), ContactForces.none()
        self._write(self._state)
        return self._state

    def push(self, velocity: Array) -> None:
        """Add `velocity`, world frame, shape (3,) [m/s], to the velocity of the floating base.

        Raises:
            InputError: `velocity` is not three finite numbers.
        """
        velocity = require_push(velocity)
        linear, angular = self._world.call(bullet.getBaseVelocity, self._body)
        self._world.call(bullet.resetBaseVelocity, self._body, np.add(linear, velocity).tolist(), angular)

    def step(self, tau: Array, dt: float) -> State:
        """Hold joint torques `tau`, shape (a,) [N m], for `dt` [s], in equal substeps.

        Raises:
            InputError: `tau` has a wrong shape or is not finite, or `dt` is not positive or too long.
        """
        require_torques(tau, self._names)
        count = substeps(dt, self._dt)
        self._world.call(bullet.setTimeStep, dt / count)
        if self._dry:  # Bullet stores a motor's impulse per step, not its force
            numbers, friction = zip(*self._dry, strict=True)
            self._world.call(
                bullet.setJointMotorControlArray, self._body, numbers, bullet.VELOCITY_CONTROL, forces=friction
            )
        touches: list[ContactForces] = []
        for _ in range(count):
            if self._motors:
                self._world.call(
                    bullet.setJointMotorControlArray,
                    self._body,
                    self._motors,
                    bullet.TORQUE_CONTROL,
                    forces=tau.tolist(),
                )
            self._world.call(bullet.stepSimulation)
            touches += self._touches()
        self._forces = averaged(touches, count)
        self._state = self._read(self._state.t + dt)
        return self._state

    def contact_forces(self) -> ContactForces:
        """Return forces of the last `step`, averaged over it; only pressing contacts are listed."""
        return self._forces

    def _touches(self) -> Iterator[ContactForces]:
        """Yield the contact forces of the last substep, one by one."""
        for contact in self._world.call(bullet.getContactPoints, self._body, self._touched):
            number, at, normal, pressure = contact[3], np.array(contact[5]), np.array(contact[7]), contact[9]
            if not pressure > 0.0:
                continue
            force = pressure * normal + contact[10] * np.array(contact[11]) + contact[12] * np.array(contact[13])
            yield touch(self._sphere(number, at), force, normal)

    def _sphere(self, number: int, at: Array) -> int:
        """Return the identity of the link's sphere whose surface is nearest to the world point `at`."""
        link = self._carrier[number]
        spheres = link.spheres
        if len(spheres) == 1:
            return spheres[0].identity
        position, turn = self._frame(link, self._body, number)
        distances = [abs(float(np.linalg.norm(position + turn @ s.centre - at)) - s.radius) for s in spheres]
        return spheres[int(np.argmin(distances))].identity

    def _frame(self, link: RigidLink, body: int, number: int) -> tuple[Array, Array]:
        """Return origin and axes of a link's frame in the world."""
        if number >= 0:
            pose = self._world.call(bullet.getLinkState, body, number, computeForwardKinematics=1)
            return np.array(pose[4]), rotation(np.array(pose[5]))
        position, turn = self._world.call(bullet.getBasePositionAndOrientation, body)
        axes = rotation(np.array(turn)) @ link.principal()[1].T
        return np.array(position) - axes @ link.com, axes

    def _write(self, state: State) -> None:
        for link, body, number in self._links:
            q, v = state.q[link.at_q :], state.v[link.at_v :]
            if link.kind == "free":
                axes = rotation(q[3:7])
                position = q[:3] + axes @ link.com
                turn = quaternion(axes @ link.principal()[1])
                self._world.call(bullet.resetBasePositionAndOrientation, body, position.tolist(), turn.tolist())
                linear = axes @ (v[:3] + np.cross(v[3:6], link.com))
                angular = axes @ v[3:6]
                self._world.call(bullet.resetBaseVelocity, body, linear.tolist(), angular.tolist())
            else:
                angle = np.arctan2(q[1], q[0]) if link.circle else q[0]
                self._world.call(bullet.resetJointState, body, number, float(angle), float(v[0]))

    def _read(self, t: float) -> State:
        q, v = np.empty_like(self._state.q), np.empty_like(self._state.v)
        for link, body, number in self._links:
            a, b = link.at_q, link.at_v
            if link.kind == "free":
                position, axes = self._frame(link, body, number)
                linear, angular = (np.array(x) for x in self._world.call(bullet.getBaseVelocity, body))
                q[a : a + 3], q[a + 3 : a + 7] = position, quaternion(axes)
                v[b + 3 : b + 6] = axes.T @ angular
                v[b : b + 3] = axes.T @ linear - np.cross(v[b + 3 : b + 6], link.com)
                continue
            angle, v[b] = self._world.call(bullet.getJointState, body, number)[:2]
            if link.circle:
                q[a], q[a + 1] = np.cos(angle), np.sin(angle)
            else:
                q[a] = angle
        return State(t=t, q=q, v=v)


class _BulletWorld:
    """A physics client, disconnected when the object is deleted."""

    def __init__(self) -> None:
        self._client = bullet.connect(bullet.DIRECT)

    def call(self, function: Any, *args: Any, **options: Any) -> Any:
        return function(*args, physicsClientId=self._client, **options)

    def __del__(self) -> None:
        with contextlib.suppress(Exception):  # at exit the module may already be deleted
            bullet.disconnect(self._client)


def _refuse(machine: list[RigidLink]) -> None:
    """Raise `InputError` unless Bullet can represent the robot: one base, free or fixed, and no rotors."""
    roots = [link for link in machine if link.parent < 0]
    if any(link.kind == "free" for link in machine) and (len(roots) > 1 or machine[0].kind != "free"):
        raise InputError(
            f"Bullet takes one robot, floating or fixed, not {', '.join(link.name for link in roots)}; "
            "use another plant for a robot and free bodies"
        )
    for link in machine:
        if link.armature != 0.0:
            raise InputError(f"joint {link.name!r} has armature {link.armature}, which Bullet lacks; use another plant")


def _add_multibody(world: _BulletWorld, machine: list[RigidLink], restitution: float) -> int:
    floats = machine[0].kind == "free"
    carried = machine[1:] if floats else machine
    base: dict[str, Any] = {"baseMass": 0.0}
    if floats:
        _, axes = machine[0].principal()
        base = {
            "baseMass": machine[0].mass,
            "baseCollisionShapeIndex": _shape(world, machine[0]),
            "baseInertialFramePosition": machine[0].com.tolist(),
            "baseInertialFrameOrientation": quaternion(axes).tolist(),
        }
    kinds = {"hinge": bullet.JOINT_REVOLUTE, "slide": bullet.JOINT_PRISMATIC}
    body: int = world.call(
        bullet.createMultiBody,
        linkMasses=[link.mass for link in carried],
        linkCollisionShapeIndices=[_shape(world, link) for link in carried],
        linkVisualShapeIndices=[-1] * len(carried),
        linkPositions=[link.position.tolist() for link in carried],
        linkOrientations=[quaternion(link.rotation).tolist() for link in carried],
        linkInertialFramePositions=[link.com.tolist() for link in carried],
        linkInertialFrameOrientations=[quaternion(link.principal()[1]).tolist() for link in carried],
        linkParentIndices=[link.parent if floats else link.parent + 1 for link in carried],
        linkJointTypes=[kinds[link.kind] for link in carried],
        linkJointAxis=[link.axis.tolist() for link in carried],
        **base,
    )
    for number, link in enumerate(machine, start=-1 if floats else 0):
        properties = {
            "lateralFriction": link.spheres[0].mu if link.spheres else 0.0,
            "restitution": restitution,
            "linearDamping": 0.0,
            "angularDamping": 0.0,
            "jointDamping": link.damping,
            "maxJointVelocity": FASTEST,
            "activationState": bullet.ACTIVATION_STATE_DISABLE_SLEEPING,
            "localInertiaDiagonal": link.principal()[0].tolist(),
        }
        # one by one: Bullet silently ignores some properties of a link that are set together
        for name, value in properties.items():
            world.call(bullet.changeDynamics, body, number, **{name: value})
        if np.isfinite([link.lower, link.upper]).any():
            ends = {"jointLowerLimit": link.lower, "jointUpperLimit": link.upper}
            world.call(bullet.changeDynamics, body, number, jointLimitForce=STRONGEST, **ends)
    joints = list(range(len(carried)))
    if joints:
        world.call(bullet.setJointMotorControlArray, body, joints, bullet.VELOCITY_CONTROL, forces=[0.0] * len(joints))
    return body


def _shape(world: _BulletWorld, link: RigidLink) -> int:
    if link.box is not None:
        return world.call(bullet.createCollisionShape, bullet.GEOM_BOX, halfExtents=(0.5 * link.box).tolist())
    if not link.spheres:
        return -1
    if len({sphere.mu for sphere in link.spheres}) > 1:
        raise InputError(
            f"the spheres of link {link.name!r} differ in friction, but Bullet has one coefficient per link; "
            "use another plant"
        )
    return world.call(
        bullet.createCollisionShapeArray,
        shapeTypes=[bullet.GEOM_SPHERE] * len(link.spheres),
        radii=[sphere.radius for sphere in link.spheres],
        collisionFramePositions=[sphere.centre.tolist() for sphere in link.spheres],
    )


def _add_ground(world: _BulletWorld, terrain: Terrain) -> int:
    if terrain.heights.size == 0:
        normal, offset = terrain.parameters[:3], terrain.parameters[3]
        shape = world.call(bullet.createCollisionShape, bullet.GEOM_PLANE, planeNormal=normal.tolist())
        place = offset * normal
    else:
        x, y, heights = grid(terrain)
        shape = world.call(
            bullet.createCollisionShape,
            bullet.GEOM_HEIGHTFIELD,
            meshScale=[x[1] - x[0], y[1] - y[0], 1.0],
            heightfieldData=heights.T.ravel().tolist(),
            numHeightfieldRows=x.size,
            numHeightfieldColumns=y.size,
        )
        place = np.array([0.5 * (x[0] + x[-1]), 0.5 * (y[0] + y[-1]), 0.5 * (heights.min() + heights.max())])
    return world.call(bullet.createMultiBody, 0.0, shape, basePosition=place.tolist())
