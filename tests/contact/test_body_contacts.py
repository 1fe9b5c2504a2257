"""Contacts of free bodies in blocks, against the detector of articulated machines and by finite differences."""

import coal
import numpy as np
import pinocchio as pin
import pytest
from scipy.spatial.transform import Rotation

from idcontrol.contact.body_contacts import WORLD, BodyContacts, BodyDetector
from idcontrol.contact.collision import CollisionContacts
from idcontrol.contact.terrain import plane
from idcontrol.dynamics.bodies import Body, Obstacle, Surface, solid
from idcontrol.errors import InputError
from idcontrol.types import Array

from .machines import box_stack

pytestmark = pytest.mark.interpreted

SHAPES = (
    coal.Sphere(0.08),
    coal.Box(0.2, 0.16, 0.1),
    coal.Box(0.1, 0.1, 0.1),
    coal.Capsule(0.05, 0.2),
    coal.Cylinder(0.1, 0.12),
)


def bodies(surface: Surface | None = None) -> list[Body]:
    return [solid(f"body{i}", shape, 1000.0, surface) for i, shape in enumerate(SHAPES)]


def contacts_by(detector: BodyDetector, position: Array, turn: Rotation, reach: float) -> BodyContacts:
    return detector.detect(position, turn.as_matrix(), np.full(len(position), reach))


def test_contacts_and_relative_velocities_agree_with_the_general_detector() -> None:
    """The same shapes as free-flyers of Pinocchio, whose velocities are in their own axes."""
    rng = np.random.default_rng(0)
    ground = plane((0.1, 0.0, 1.0), -0.3)
    wall = Obstacle(name="wall", shape=coal.Box(0.1, 2.0, 2.0), position=np.array([0.4, 0.0, 0.0]))
    mine = BodyDetector(bodies(), [wall], terrain=ground, ground=Surface(mu=0.3))
    system = box_stack(len(SHAPES))
    geometry = pin.GeometryModel()
    for i, shape in enumerate(SHAPES):
        geometry.addGeometryObject(pin.GeometryObject(f"body{i}", i + 1, pin.SE3.Identity(), shape))
    place = pin.SE3(np.eye(3), np.array(wall.position))
    geometry.addGeometryObject(pin.GeometryObject("wall", 0, place, wall.shape))
    geometry.addAllCollisionPairs()
    theirs = CollisionContacts(system, geometry, 0.5, terrain=ground, terrain_mu=0.3)
    seen = 0
    for _ in range(60):
        position = rng.uniform(-0.3, 0.3, (len(SHAPES), 3))
        turn = Rotation.random(len(SHAPES), rng=rng)
        mine.reset()
        a = contacts_by(mine, position, turn, 0.01)
        q = np.hstack([position, turn.as_quat()]).ravel()
        v = rng.normal(size=(len(SHAPES), 6))
        local = np.hstack([turn.inv().apply(v[:, :3]), turn.inv().apply(v[:, 3:])]).ravel()
        system.update(q, local)
        for margin, world in ((0.01, True), (0.02, False)):  # immovable shapes have no reach
            theirs.reset()
            b = theirs.detect(margin)
            ours, other = (a.body[:, 1] == WORLD) == world, (theirs.joints[:, 1] == 0) == world
            assert a.identity[ours].tolist() == b.identity[other].tolist()
            for name in ("point", "axes", "gap", "mu"):
                assert np.abs(getattr(a, name)[ours] - getattr(b, name)[other]).max(initial=0.0) < 1e-12
            rates = (a.dense(len(SHAPES)).jacobian @ v.ravel()).reshape(3, -1)[:, ours]
            assert np.abs(rates - (b.jacobian @ local).reshape(3, -1)[:, other]).max(initial=0.0) < 1e-12
        seen += len(a)
    assert seen > 100


def test_springs_and_dampers_of_two_surfaces_are_in_series() -> None:
    soft = Surface(mu=0.4, stiffness=1e4, damping=10.0)
    hard = Surface(mu=0.7, stiffness=3e4, damping=30.0)
    rigid = Surface(mu=0.2)
    ball = coal.Sphere(0.1)

    def pair(one: Surface, other: Surface) -> BodyContacts:
        detector = BodyDetector([solid("a", ball, 1000.0, one), solid("b", ball, 1000.0, other)])
        return contacts_by(detector, np.array([[0.0, 0, 0], [0.2, 0, 0]]), Rotation.identity(2), 1e-3)

    both = pair(soft, hard)
    assert both.stiffness == pytest.approx([7.5e3])
    assert both.damping == pytest.approx([7.5])
    assert both.mu == pytest.approx([0.4])
    one = pair(soft, rigid)
    assert (one.stiffness[0], one.damping[0], one.mu[0]) == (1e4, 10.0, 0.2)
    none = pair(rigid, rigid)
    assert (none.stiffness[0], none.damping[0]) == (np.inf, 0.0)
    undamped = pair(soft, Surface(stiffness=1e4))
    assert undamped.damping[0] == 0.0


def test_the_ground_has_the_friction_of_the_touching_body_by_default() -> None:
    body = solid("ball", coal.Sphere(0.1), 1000.0, Surface(mu=0.6))
    for ground, expected in ((None, 0.6), (Surface(mu=0.1), 0.1), (Surface(mu=0.9), 0.6)):
        detector = BodyDetector([body], terrain=plane(), ground=ground)
        contacts = contacts_by(detector, np.array([[0.0, 0.0, 0.1]]), Rotation.identity(1), 1e-3)
        assert contacts.mu.tolist() == [expected]
        assert contacts.body.tolist() == [[0, WORLD]]


def test_an_obstacle_without_a_place_is_refused() -> None:
    for position in (np.full(3, np.nan), np.zeros(2)):
        with pytest.raises(InputError, match="'wall': position and quaternion"):
            BodyDetector([], [Obstacle(name="wall", shape=coal.Box(1, 1, 1), position=position)])
    nowhere = Obstacle(name="wall", shape=coal.Box(1, 1, 1), position=np.zeros(3), orientation=(0.0, 0.0, 0.0, 0.0))
    with pytest.raises(InputError, match="'wall': position and quaternion"):
        BodyDetector([], [nowhere])
