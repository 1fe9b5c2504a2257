"""The bodies, stack and chain of `test_bodies` in Drake's SAP. Its quadruped is beside ours in `tests/bench`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from idcontrol.trust.peers import chain
from tests.peers.test_bodies import G, H, falling_chain
from tests.plants import bodies

pytest.importorskip("pydrake")

from pydrake.geometry import AddContactMaterial, Box, ProximityProperties, Sphere
from pydrake.math import RigidTransform
from pydrake.multibody.math import SpatialVelocity
from pydrake.multibody.plant import AddMultibodyPlantSceneGraph, CoulombFriction, DiscreteContactApproximation
from pydrake.multibody.tree import FixedOffsetFrame, RevoluteJoint, SpatialInertia, UnitInertia
from pydrake.systems.analysis import Simulator
from pydrake.systems.framework import DiagramBuilder


class World:
    """Bodies with spheres on level ground, stepped by SAP; contacts are as stiff as a step allows."""

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
        """No more bodies from here on."""
        self.plant.Finalize()
        self.simulator = Simulator(self.builder.Build())
        self.context = self.plant.GetMyMutableContextFromRoot(self.simulator.get_mutable_context())

    def place(self, body, position: Sequence[float], velocity: Sequence[float] = (0.0, 0.0, 0.0)) -> None:
        self.plant.SetFreeBodyPose(self.context, body, RigidTransform(np.array(position)))
        spatial = SpatialVelocity(np.zeros(3), np.array(velocity))
        self.plant.SetFreeBodySpatialVelocity(context=self.context, body=body, V_JpJc=spatial)

    def run(self, seconds: float) -> None:
        self.simulator.AdvanceTo(seconds)


def test_a_thrown_block_slides_as_far_as_the_formula_says():
    """v² / 2 μ g; SAP, too, brakes in the first step before it moves: h v / 2 of the way."""
    mu, v, height = 0.4, 1.0, 0.05 + 0.02
    world = World(mu)
    world.lay_ground()
    corners = [[x, y, -0.05] for x in (0.15, -0.15) for y in (0.1, -0.1)]
    sled = world.add("sled", bodies.MASS, 0.02, corners, 0.02)
    world.start()
    world.place(sled, [0.0, 0.0, height], [v, 0.0, 0.0])
    world.run(0.4)
    assert world.plant.EvalBodyPoseInWorld(world.context, sled).translation()[0] == pytest.approx(
        v**2 / (2.0 * mu * G), rel=5e-3
    )
    assert np.abs(world.plant.EvalBodySpatialVelocityInWorld(world.context, sled).translational()).max() < 1e-3


def test_a_ball_thrown_without_spin_ends_rolling_at_five_sevenths_of_its_speed():
    world = World(0.5)
    world.lay_ground()
    ball = world.add("ball", bodies.MASS, 0.4 * bodies.MASS * bodies.RADIUS**2, [[0.0, 0.0, 0.0]], bodies.RADIUS)
    world.start()
    world.place(ball, [0.0, 0.0, bodies.RADIUS], [1.0, 0.0, 0.0])
    world.run(0.2)
    moving = world.plant.EvalBodySpatialVelocityInWorld(world.context, ball)
    assert moving.translational()[0] == pytest.approx(5.0 / 7.0, rel=1e-2)
    assert moving.rotational()[1] * bodies.RADIUS == pytest.approx(moving.translational()[0], rel=1e-2)


def test_each_ball_of_a_column_carries_the_weight_of_those_above():
    n, mass, radius = 5, 0.5, 0.05
    world = World(0.5)
    world.lay_ground()
    balls = [world.add(f"ball{i}", mass, 0.4 * mass * radius**2, [[0.0, 0.0, 0.0]], radius) for i in range(n)]
    world.start()
    for i, ball in enumerate(balls):
        world.place(ball, [0.0, 0.0, radius * (2 * i + 1)])
    world.run(0.5)
    found = world.plant.get_contact_results_output_port().Eval(world.context)
    pairs = [found.point_pair_contact_info(i) for i in range(found.num_point_pair_contacts())]
    pressing = [np.abs(pair.contact_force()[2]) for pair in sorted(pairs, key=lambda pair: pair.contact_point()[2])]
    np.testing.assert_allclose(pressing, mass * G * np.arange(n, 0, -1), rtol=1e-3)


def fallen_in_drake(h: float) -> np.ndarray:
    """Where the joints of the chain of `test_bodies` are after 0.2 s."""
    model = chain(4).model
    world = World(0.5, h)
    parent, joints = world.plant.world_body(), []
    for i in range(1, model.njoints):
        inertia = model.inertias[i]
        com, mass = inertia.lever, inertia.mass
        about = inertia.inertia + mass * (com @ com * np.eye(3) - np.outer(com, com))
        link = world.plant.AddRigidBody(
            f"link{i}", SpatialInertia(mass, com, UnitInertia(*np.diag(about / mass)), skip_validity_check=True)
        )
        at = RigidTransform(model.jointPlacements[i].translation)
        frame = world.plant.AddFrame(FixedOffsetFrame(f"at{i}", parent.body_frame(), at))
        axis = [0.0, 1.0, 0.0] if i % 2 else [1.0, 0.0, 0.0]
        joints.append(world.plant.AddJoint(RevoluteJoint(f"joint{i}", frame, link.body_frame(), axis)))
        parent = link
    world.start()
    for joint, angle in zip(joints, [0.0, 0.3, 0.1, -0.4], strict=True):
        joint.set_angle(world.context, angle)
    world.run(0.2)
    return np.array([joint.get_angle(world.context) for joint in joints])


def test_a_falling_chain_goes_where_ours_goes():
    """Both step velocities first, from the same terms: alike to rounding. `test_bodies` says that ours goes right."""
    np.testing.assert_allclose(fallen_in_drake(H), falling_chain("coulomb-lcp", H), rtol=0, atol=1e-9)
