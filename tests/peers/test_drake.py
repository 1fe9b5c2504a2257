"""The bodies, stack and chain of `test_bodies`, and the standing and trotting quadruped, in Drake's SAP."""

from collections.abc import Sequence

import numpy as np
import pinocchio as pin
import pytest

from idcontrol import plants
from idcontrol.bench.problems.machines import chain
from idcontrol.contact.spheres import SphereContacts
from idcontrol.contact.terrain import plane
from idcontrol.dynamics.system import System
from idcontrol.plants.exported import rigid_links
from idcontrol.record.recording import load
from idcontrol.scenes.locomotion import record_walk
from idcontrol.scenes.walk import WalkConfig, WalkScene
from idcontrol.types import ContactForces, State
from tests import scenes
from tests.controllers import walker
from tests.peers.test_bodies import G, H, falling_chain

pytest.importorskip("pydrake")

from pydrake.geometry import AddContactMaterial, Box, ProximityProperties, Sphere
from pydrake.math import RigidTransform, RotationMatrix
from pydrake.multibody.math import SpatialVelocity
from pydrake.multibody.plant import AddMultibodyPlantSceneGraph, CoulombFriction, DiscreteContactApproximation
from pydrake.multibody.tree import FixedOffsetFrame, RevoluteJoint, SpatialInertia, UnitInertia
from pydrake.systems.analysis import Simulator
from pydrake.systems.framework import DiagramBuilder


class World:
    """Bodies with spheres on level ground, stepped by SAP with contacts as stiff as the step allows."""

    def __init__(self, mu: float, h: float = H) -> None:
        self.builder = DiagramBuilder()
        self.plant, _ = AddMultibodyPlantSceneGraph(self.builder, time_step=h)
        self.plant.set_discrete_contact_approximation(DiscreteContactApproximation.kSap)
        self.plant.mutable_gravity_field().set_gravity_vector([0.0, 0.0, -G])
        self.surface = ProximityProperties()
        AddContactMaterial(point_stiffness=1e12, friction=CoulombFriction(mu, mu), properties=self.surface)
        self.surface.AddProperty("material", "relaxation_time", h)

    def lay_ground(self) -> None:
        """A box whose top is level with the origin."""
        under = RigidTransform(np.array([0.0, 0.0, -1.0]))
        self.plant.RegisterCollisionGeometry(
            self.plant.world_body(), under, Box(20.0, 20.0, 2.0), "ground", self.surface
        )

    def add(self, name: str, mass: float, inertia: float, centres: Sequence[Sequence[float]], radius: float):
        """A body with the inertia [kg m²] of a ball, and spheres fixed to it."""
        body = self.plant.AddRigidBody(
            name, SpatialInertia(mass, np.zeros(3), UnitInertia(*np.full(3, inertia / mass)))
        )
        for i, centre in enumerate(centres):
            at = RigidTransform(np.array(centre))
            self.plant.RegisterCollisionGeometry(body, at, Sphere(radius), f"{name} {i}", self.surface)
        return body

    def start(self) -> None:
        """Build the simulator; no body can be added afterwards."""
        self.plant.Finalize()
        self.simulator = Simulator(self.builder.Build())
        self.context = self.plant.GetMyMutableContextFromRoot(self.simulator.get_mutable_context())

    def place(self, body, position: Sequence[float], velocity: Sequence[float] = (0.0, 0.0, 0.0)) -> None:
        self.plant.SetFreeBodyPose(self.context, body, RigidTransform(np.array(position)))
        spatial = SpatialVelocity(np.zeros(3), np.array(velocity))
        self.plant.SetFreeBodySpatialVelocity(context=self.context, body=body, V_JpJc=spatial)

    def run(self, seconds: float) -> None:
        self.simulator.AdvanceTo(seconds)


def add_machine(world: World, system: System, contacts: SphereContacts) -> tuple[list, list]:
    """The links of a machine and their joints; None is the joint of the floating base."""
    parts, joints, plant = [], [], world.plant
    for link in rigid_links(system, contacts):
        about = link.inertia + link.mass * (link.com @ link.com * np.eye(3) - np.outer(link.com, link.com))
        unit = about / link.mass
        moments = UnitInertia(*np.diag(unit), unit[0, 1], unit[0, 2], unit[1, 2])
        # some manufacturers publish inertias that no rigid body can have
        part = plant.AddRigidBody(link.name, SpatialInertia(link.mass, link.com, moments, skip_validity_check=True))
        for sphere in link.spheres:
            shape, at = Sphere(sphere.radius), RigidTransform(sphere.centre)
            plant.RegisterCollisionGeometry(part, at, shape, f"foot {sphere.identity}", world.surface)
        joint = None
        if link.kind != "free":
            parent = plant.world_body() if link.parent < 0 else parts[link.parent]
            at = RigidTransform(RotationMatrix(link.rotation), link.position)
            frame = plant.AddFrame(FixedOffsetFrame(f"{link.name} at", parent.body_frame(), at))
            joint = plant.AddJoint(RevoluteJoint(link.name, frame, part.body_frame(), link.axis))
        parts.append(part)
        joints.append(joint)
    return parts, joints


def test_a_falling_chain_goes_where_ours_goes():
    """Both step velocities first and from the same terms, so they agree to rounding; `test_bodies` checks ours."""
    world, system = World(0.5), chain(4)
    _, joints = add_machine(world, system, SphereContacts(system, ("hinge3",), 0.01, plane(), 0.5))
    world.start()
    for joint, angle in zip(joints, [0.0, 0.3, 0.1, -0.4], strict=True):
        joint.set_angle(world.context, angle)
    world.run(0.2)
    fallen = [joint.get_angle(world.context) for joint in joints]
    np.testing.assert_allclose(fallen, falling_chain("coulomb-lcp", H), rtol=0, atol=1e-9)


class Quadruped:
    """A machine on level ground, as a plant of the experiments that cannot be pushed."""

    def __init__(self, setup: plants.Setup) -> None:
        self.last = None
        self._system, spheres = setup.system, setup.contacts
        self._world = world = World(float(spheres.mu[0]), setup.dt)
        world.lay_ground()
        parts, joints = add_machine(world, self._system, spheres)
        self._base = parts[0]
        self._foot = {
            part.index(): sphere.identity
            for part, link in zip(parts, rigid_links(self._system, spheres), strict=True)
            for sphere in link.spheres
        }
        by_name = {joint.name(): joint for joint in joints if joint is not None}
        self._driven = [by_name[name] for name in self._system.actuated_names]
        for joint in self._driven:
            world.plant.AddJointActuator(joint.name(), joint)
        world.start()
        self._motors = world.plant.get_actuation_input_port().FixValue(world.context, np.zeros(len(self._driven)))
        self._t = 0.0

    def reset(self, state: State) -> State:
        world, system = self._world, self._system
        quaternion = pin.Quaternion(state.q[3:7])
        turn, v = quaternion.matrix(), system.from_pinocchio(state.v)
        pose = RigidTransform(RotationMatrix(turn), state.q[:3])
        world.plant.SetFreeBodyPose(world.context, self._base, pose)
        moving = SpatialVelocity(turn @ v[3:6], turn @ v[:3])
        world.plant.SetFreeBodySpatialVelocity(context=world.context, body=self._base, V_JpJc=moving)
        angles = system.joint_positions(state.q)
        for joint, angle, rate in zip(self._driven, angles, v[6:], strict=True):
            joint.set_angle(world.context, angle)
            joint.set_angular_rate(world.context, rate)
        return state

    def step(self, tau: np.ndarray, dt: float) -> State:
        self._motors.GetMutableData().set_value(tau)
        self._t += dt
        self._world.run(self._t)
        return self._state()

    def _state(self) -> State:
        world, system = self._world, self._system
        pose = world.plant.EvalBodyPoseInWorld(world.context, self._base)
        moving = world.plant.EvalBodySpatialVelocityInWorld(world.context, self._base)
        turn = pose.rotation().matrix()
        angles = np.array([joint.get_angle(world.context) for joint in self._driven])
        rates = [joint.get_angular_rate(world.context) for joint in self._driven]
        base = np.concatenate((pose.translation(), pin.Quaternion(turn).coeffs()))
        v = np.concatenate((turn.T @ moving.translational(), turn.T @ moving.rotational(), rates))
        return State(t=self._t, q=system.configuration(angles, base=base), v=system.to_pinocchio(v))

    def contact_forces(self) -> ContactForces:
        touching = self._world.plant.get_contact_results_output_port().Eval(self._world.context)
        force = np.zeros((len(self._foot), 3))
        for i in range(touching.num_point_pair_contacts()):
            touch = touching.point_pair_contact_info(i)
            if touch.bodyB_index() in self._foot:
                force[self._foot[touch.bodyB_index()]] += touch.contact_force()
            else:
                force[self._foot[touch.bodyA_index()]] -= touch.contact_force()
        identity = np.flatnonzero(force.any(axis=1))
        return ContactForces(
            identity=identity, force=force[identity], normal=np.tile([0.0, 0.0, 1.0], (identity.size, 1))
        )


@pytest.mark.parametrize("name", ["id-coulomb-qp", "id-sap"])
def test_a_standing_quadruped_is_carried_by_the_forces_that_were_predicted(name):
    system = scenes.links()
    spheres = SphereContacts(system, scenes.FEET, scenes.RADIUS, plane(), 0.7)
    plant = Quadruped(plants.Setup(system=system, contacts=spheres, dt=H))
    state = plant.reset(walker.at_home(scenes.links()))
    control, carried = walker.controller(name), []
    for _ in range(300):
        command = control(state, walker.stand())
        state = plant.step(command.tau, H)
        carried.append((plant.contact_forces().force[:, 2].sum(), command.predicted.force[:, 2].sum()))
    # SAP's feet creep, and the trunk sways by hundredths of a millimetre: the mean of 200 steps is the weight
    measured, predicted = np.array(carried[100:]).T
    assert measured.mean() == pytest.approx(walker.WEIGHT, rel=2e-3)
    assert predicted.mean() == pytest.approx(walker.WEIGHT, rel=2e-3)
    assert np.abs(measured - predicted).mean() < 5e-3 * walker.WEIGHT
    # the soft first touch lifts the trunk by a quarter of a millimetre, which is 4 mrad at knees of 0.1 m
    assert np.abs(system.joint_positions(state.q) - scenes.HOME).max() < 1e-2


@pytest.mark.slow
def test_a_trotting_quadruped_is_carried_by_its_weight_and_walks_as_far(tmp_path, monkeypatch):
    """The bounds are the same as in `test_quadruped` for the other simulators."""
    monkeypatch.setattr(
        WalkScene,
        "plant",
        lambda scene, h: Quadruped(plants.Setup(system=scene.robot.system(), contacts=scene.observer(), dt=h)),
    )
    record_walk(WalkScene.of(WalkConfig(duration_s=3.0)), tmp_path / "run")
    run = load(tmp_path / "run")
    walking = run.arrays["t"] > 1.0
    # over whole strides the mean force is the weight, except for the incomplete last stride
    assert run.arrays["force"][walking].sum(axis=1)[:, 2].mean() == pytest.approx(walker.WEIGHT, rel=0.01)
    assert np.abs(run.arrays["com"][-1, :2] - run.arrays["base_ref"][-1, :2]).max() < 0.03
    assert run.metrics["completed"]
