"""The walking robot and the heap of bodies in Drake, stepped by its SAP solver. Needs the package ``drake``."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from pydrake.geometry import AddContactMaterial, Box, ProximityProperties, Sphere
from pydrake.math import RigidTransform, RotationMatrix
from pydrake.multibody.math import SpatialVelocity
from pydrake.multibody.plant import AddMultibodyPlantSceneGraph, CoulombFriction, DiscreteContactApproximation
from pydrake.multibody.tree import FixedOffsetFrame, PrismaticJoint, RevoluteJoint, SpatialInertia, UnitInertia
from pydrake.systems.analysis import Simulator
from pydrake.systems.framework import DiagramBuilder

from idcontrol.bench.problems.walks import FILM, Heap, RecordedWalk
from idcontrol.bench.timing import Job
from idcontrol.dynamics.bodies import BodyState
from idcontrol.plants.exported import RigidLink, rigid_links, rotation
from idcontrol.types import Array, State

STIFFNESS = 1e12
"""Stiffness of a nearly rigid contact [N/m]; SAP reduces it to what the time step allows."""

GROUND = (20.0, 20.0, 2.0)
"""Edges of the box whose top is the ground [m]; Drake prints warnings for half spaces."""
GROUND_POSE = RigidTransform(np.array((0.0, 0.0, -1.0)))


class _DrakeWorld:
    """A Drake plant, its simulator, and the number of steps taken."""

    def __init__(self, period_s: float, gravity: Array) -> None:
        self._builder = DiagramBuilder()
        self.plant, _ = AddMultibodyPlantSceneGraph(self._builder, time_step=period_s)
        self.plant.set_discrete_contact_approximation(DiscreteContactApproximation.kSap)
        self.plant.mutable_gravity_field().set_gravity_vector(gravity)
        self._period, self._count = period_s, 0

    def finish(self) -> None:
        """Build the simulator; no body can be added afterwards."""
        self.plant.Finalize()
        self._simulator = Simulator(self._builder.Build())
        self.context = self.plant.GetMyMutableContextFromRoot(self._simulator.get_mutable_context())
        self._simulator.Initialize()

    def surface(self, mu: float) -> ProximityProperties:
        """Return contact properties of a nearly rigid surface with friction `mu`."""
        properties = ProximityProperties()
        AddContactMaterial(point_stiffness=STIFFNESS, friction=CoulombFriction(mu, mu), properties=properties)
        properties.AddProperty("material", "relaxation_time", self._period)
        return properties

    def step(self) -> None:
        """Advance the simulation by one period."""
        self._count += 1
        self._simulator.AdvanceTo(self._count * self._period)


def _inertia(mass: float, com: Array, central: Array) -> SpatialInertia:
    about = central + mass * (com @ com * np.eye(3) - np.outer(com, com))
    unit = about / mass
    moments = UnitInertia(*np.diag(unit), unit[0, 1], unit[0, 2], unit[1, 2])
    # some manufacturers publish inertias that no rigid body can have
    return SpatialInertia(mass, com, moments, skip_validity_check=True)


def machine(walk: RecordedWalk) -> Job:
    """Return the job that steps the robot from each state of the walk; its answer is the joint velocities."""
    system, contacts = walk.machine()
    tree = rigid_links(system, contacts)
    world = _DrakeWorld(walk.h, np.array(system.model.gravity.linear))
    plant = world.plant
    bodies, joints = _add(tree, world)
    for name in system.actuated_names:
        plant.AddJointActuator(name, joints[name])
    plant.RegisterCollisionGeometry(plant.world_body(), GROUND_POSE, Box(*GROUND), "ground", world.surface(1.0))
    world.finish()
    driven = [joints[name] for name in system.actuated_names]
    torques = plant.get_actuation_input_port().FixValue(world.context, np.zeros(len(driven)))

    def prepare(i: int) -> None:
        torques.GetMutableData().set_value(walk.moments[i].tau)
        for link, body in zip(tree, bodies, strict=True):
            _place(world, link, body, joints, walk.moments[i].state)

    at_v = [joint.velocity_start() for joint in driven]

    def answer(i: int) -> Array:
        world.step()
        return np.asarray(plant.GetVelocities(world.context))[at_v]

    return Job(run=answer, prepare=prepare)


def _add(tree: Sequence[RigidLink], world: _DrakeWorld) -> tuple[list[Any], dict[str, Any]]:
    """Add the links with their spheres to Drake's world; return the bodies, and the joints by name."""
    plant = world.plant
    bodies: list[Any] = []
    joints: dict[str, Any] = {}
    for link in tree:
        body = plant.AddRigidBody(link.name, _inertia(link.mass, link.com, link.inertia))
        for sphere in link.spheres:
            plant.RegisterCollisionGeometry(
                body,
                RigidTransform(sphere.centre),
                Sphere(sphere.radius + FILM),
                f"sphere {sphere.identity}",
                world.surface(sphere.mu),
            )
        if link.kind != "free":
            parent = plant.world_body() if link.parent < 0 else bodies[link.parent]
            pose = RigidTransform(RotationMatrix(link.rotation), link.position)
            at = plant.AddFrame(FixedOffsetFrame(f"{link.name} at", parent.body_frame(), pose))
            kind = RevoluteJoint if link.kind == "hinge" else PrismaticJoint
            joints[link.name] = plant.AddJoint(kind(link.name, at, body.body_frame(), link.axis))
        bodies.append(body)
    return bodies, joints


def _place(world: _DrakeWorld, link: RigidLink, body: Any, joints: Mapping[str, Any], state: State) -> None:
    """Set pose and velocity of `link` if it is free, otherwise position and velocity of its joint, from `state`."""
    q, v = state.q[link.at_q :], state.v[link.at_v :]
    if link.kind == "free":
        axes = rotation(q[3:7])
        world.plant.SetFreeBodyPose(world.context, body, RigidTransform(RotationMatrix(axes), q[:3]))
        velocity = SpatialVelocity(axes @ v[3:6], axes @ v[:3])
        world.plant.SetFreeBodySpatialVelocity(context=world.context, body=body, V_JpJc=velocity)
        return
    angle = np.arctan2(q[1], q[0]) if link.circle else q[0]
    if link.kind == "hinge":
        joints[link.name].set_angle(world.context, angle)
        joints[link.name].set_angular_rate(world.context, v[0])
    else:
        joints[link.name].set_translation(world.context, angle)
        joints[link.name].set_translation_rate(world.context, v[0])


def heap(scene: Heap, states: Sequence[BodyState]) -> Job:
    """Return the job that steps the heap from each of `states`.

    Its answer is the velocities of the bodies, shape (n, 6), as in `BodyState`.
    """
    world = _DrakeWorld(scene.period_s, np.array((0.0, 0.0, -9.81)))
    plant, inertias = world.plant, scene.plant.inertias
    bodies = []
    for i, ball in enumerate(scene.round):
        body = plant.AddRigidBody(f"body{i}", _inertia(inertias.mass[i], np.zeros(3), inertias.inertia[i]))
        shape = Sphere(scene.radius_m) if ball else Box(*[scene.side_m] * 3)
        plant.RegisterCollisionGeometry(body, RigidTransform(), shape, f"shape{i}", world.surface(scene.mu))
        bodies.append(body)
    fixed = plant.world_body()
    plant.RegisterCollisionGeometry(fixed, GROUND_POSE, Box(*GROUND), "ground", world.surface(scene.mu))
    middle, length = 0.5 * (scene.width_m + scene.wall_m), scene.width_m + 2.0 * scene.wall_m
    for i, (x, y) in enumerate(((1.0, 0.0), (-1.0, 0.0), (0.0, 1.0), (0.0, -1.0))):
        box = Box(scene.wall_m if x else length, scene.wall_m if y else length, scene.width_m)
        at = RigidTransform(np.array((middle * x, middle * y, 0.5 * scene.width_m)))
        plant.RegisterCollisionGeometry(fixed, at, box, f"wall{i}", world.surface(scene.mu))
    world.finish()

    def prepare(i: int) -> None:
        state = states[i]
        for body, position, turn, v in zip(bodies, state.position, state.orientation, state.velocity, strict=True):
            axes = RotationMatrix(rotation(turn / np.linalg.norm(turn)))
            plant.SetFreeBodyPose(world.context, body, RigidTransform(axes, position))
            plant.SetFreeBodySpatialVelocity(context=world.context, body=body, V_JpJc=SpatialVelocity(v[3:], v[:3]))

    def answer(i: int) -> Array:
        world.step()
        velocities = [plant.EvalBodySpatialVelocityInWorld(world.context, body) for body in bodies]
        return np.array([(*v.translational(), *v.rotational()) for v in velocities])

    return Job(run=answer, prepare=prepare)
