"""General collision geometry: manifolds, gaps, rows, identities."""

from collections.abc import Iterator, Sequence

import coal
import numpy as np
import pinocchio as pin
import pytest
from scipy.spatial import ConvexHull, HalfspaceIntersection
from scipy.spatial.transform import Rotation

from idcontrol.contact.collision import CollisionContacts
from idcontrol.contact.contacts import Contacts
from idcontrol.contact.spheres import SphereContacts
from idcontrol.contact.terrain import Terrain, height_map, plane
from idcontrol.dynamics.system import System
from idcontrol.errors import InputError
from idcontrol.types import Array

from .machines import box_stack, quadruped, random_state
from .test_shapes import CUBE, hull
from .test_terrain import SPACING, hills

pytestmark = pytest.mark.interpreted

BOX = (0.2, 0.16, 0.1)
EVERY = ("ball", "crate", "rod", "can", "stone")


def shape(kind: str) -> object:
    return {
        "ball": lambda: coal.Sphere(0.1),
        "crate": lambda: coal.Box(*BOX),
        "rod": lambda: coal.Capsule(0.05, 0.2),
        "can": lambda: coal.Cylinder(0.1, 0.12),
        "stone": lambda: hull(0.08 * np.random.default_rng(9).normal(size=(30, 3))),
    }[kind]()


class Scene:
    """Free bodies with a shape each, and shapes that are fixed to the world."""

    def __init__(
        self, free: Sequence[object], fixed: Sequence[object] = (), *, mu: float | list[float] = 0.5, **ground: object
    ) -> None:
        self.system: System = box_stack(len(free))
        geometry = pin.GeometryModel()
        for i, thing in enumerate((*free, *fixed)):
            joint = i + 1 if i < len(free) else 0
            geometry.addGeometryObject(pin.GeometryObject(f"shape{i}", joint, pin.SE3.Identity(), thing))
        geometry.addAllCollisionPairs()
        self.detector = CollisionContacts(self.system, geometry, mu, **ground)  # type: ignore[arg-type]
        self.q = np.array(pin.neutral(self.system.model))

    def put(
        self, body: int, position: Sequence[float] | Array, turn: Sequence[float] | Array = (0.0, 0.0, 0.0)
    ) -> None:
        self.q[7 * body : 7 * body + 7] = [*position, *Rotation.from_rotvec(turn).as_quat()]

    def contacts(self, margin: float = 1e-3) -> Contacts:
        self.system.update(self.q, np.zeros(self.system.n_velocities))
        return self.detector.detect(margin)


def corners_of(contacts: Contacts) -> set[tuple[float, ...]]:
    return {tuple(p) for p in (contacts.point.round(9) + 0.0).tolist()}


@pytest.mark.parametrize("ground", [plane((0.1, -0.2, 1.0), 0.3), height_map(hills(5, (60, 60)), SPACING)])
def test_spheres_on_ground_equal_the_fast_detector(ground: Terrain) -> None:
    rng = np.random.default_rng(0)
    system = quadruped()
    feet = ("LF_FOOT", "RF_FOOT", "LH_FOOT", "RH_FOOT")
    quick = SphereContacts(system, feet, 0.02, ground, 0.5, orientation=0.3)
    geometry = pin.GeometryModel()
    for name in feet:
        frame = system.model.frames[system.frame(name)]
        geometry.addGeometryObject(pin.GeometryObject(name, frame.parentJoint, frame.placement, coal.Sphere(0.02)))
    general = CollisionContacts(system, geometry, 0.5, terrain=ground, orientation=0.3)
    seen = 0
    for _ in range(20):
        system.update(*random_state(system, rng))
        a, b = quick.detect(0.1), general.detect(0.1)
        seen += len(a)
        for name in ("identity", "point", "axes", "gap", "mu", "jacobian"):
            assert np.abs(getattr(a, name) - getattr(b, name)).max(initial=0.0) < 1e-12
    assert seen > 20


def test_a_box_at_rest_on_a_plane_stands_on_its_four_corners() -> None:
    scene = Scene([coal.Box(*BOX)], terrain=plane(), terrain_mu=0.3)
    scene.put(0, (1.0, 2.0, 0.05), (0.0, 0.0, 0.5))
    contacts = scene.contacts()
    corners = Rotation.from_rotvec([0, 0, 0.5]).apply(0.5 * np.array(BOX) * CUBE / [0.1, 0.2, 0.3]) + np.array(
        [1.0, 2.0, 0.05]
    )
    assert corners_of(contacts) == {tuple(c) for c in (corners[corners[:, 2] < 0.05].round(9) + 0.0).tolist()}
    assert np.abs(contacts.gap).max() < 1e-15
    assert np.array_equal(contacts.axes[:, 0], np.tile([0.0, 0.0, 1.0], (4, 1)))
    assert np.array_equal(contacts.mu, np.full(4, 0.3))


@pytest.mark.parametrize(
    ("kind", "turn", "height", "expected"),
    [
        ("rod", (np.pi / 2, 0, 0), 0.05, [(0, -0.1, 0), (0, 0.1, 0)]),
        ("rod", (0, 0, 0), 0.15, [(0, 0, 0)]),
        ("can", (np.pi / 2, 0, 0), 0.1, [(0, -0.06, 0), (0, 0.06, 0)]),
        ("can", (0, 0, 0), 0.06, [(0.1, 0, 0), (0, 0.1, 0), (-0.1, 0, 0), (0, -0.1, 0)]),
        ("ball", (1, 2, 3), 0.1, [(0, 0, 0)]),
    ],
)
def test_round_shapes_rest_on_lines_rims_and_points(
    kind: str, turn: tuple[float, ...], height: float, expected: list[tuple[float, ...]]
) -> None:
    scene = Scene([shape(kind)], terrain=plane())
    scene.put(0, (0.0, 0.0, height), turn)
    contacts = scene.contacts()
    assert corners_of(contacts) == {tuple(map(float, p)) for p in expected}
    assert np.abs(contacts.gap).max() < 1e-15


@pytest.mark.parametrize(("turn", "shift"), [(0.0, (0.05, 0.03)), (0.4, (0.02, -0.04)), (np.pi / 4, (0.0, 0.0))])
def test_a_box_on_a_box_touches_at_the_corners_of_the_overlap(turn: float, shift: tuple[float, float]) -> None:
    """Against the intersection of the two rectangles, from half-planes."""
    gap = 1e-4
    scene = Scene([coal.Box(0.2, 0.2, 0.1), coal.Box(0.2, 0.16, 0.1)], mu=[0.4, 0.7])
    scene.put(1, (*shift, 0.1 + gap), (0.0, 0.0, turn))
    contacts = scene.contacts()
    u = np.array([[np.cos(turn), np.sin(turn)], [-np.sin(turn), np.cos(turn)]])
    sides = [(n, 0.1) for n in (*np.eye(2), *-np.eye(2))]
    sides += [(s * u[k], half + s * float(u[k] @ shift)) for k, half in ((0, 0.1), (1, 0.08)) for s in (1, -1)]
    overlap = HalfspaceIntersection(np.array([[*n, -d] for n, d in sides]), np.array(shift)).intersections
    expected = {tuple(p) for p in (np.c_[overlap, np.full(len(overlap), 0.05 + 0.5 * gap)].round(9) + 0.0).tolist()}
    assert corners_of(contacts) == expected
    assert contacts.gap == pytest.approx(np.full(len(contacts), gap), abs=1e-14)
    assert contacts.axes[:, 0] == pytest.approx(np.tile([0.0, 0.0, -1.0], (len(contacts), 1)), abs=1e-14)
    assert np.array_equal(contacts.mu, np.full(len(contacts), 0.4))


@pytest.mark.parametrize("gap", [1e-5, 1e-7, 1e-9, 0.0, -1e-9, -1e-7, -1e-5, -1e-3])
def test_equal_boxes_keep_four_corners_through_touching(gap: float) -> None:
    """Boxes are stacked with tilts of rounding size, at which distance engines degenerate."""
    rng = np.random.default_rng(2)
    scene = Scene([coal.Box(*BOX), coal.Box(*BOX)])
    for size in (0.0, 1e-12, 1e-8, 1e-5):
        scene.put(0, (0.3, 0.2, 0.1), size * rng.normal(size=3))
        scene.put(1, (0.3, 0.2, 0.2 + gap), size * rng.normal(size=3))
        contacts = scene.contacts()
        # a turn about the normal by more than the tolerance makes an octagon
        assert len(contacts) == 4 or (size > 1e-8 and len(contacts) <= 8)
        assert np.abs(contacts.gap - gap).max() < 1e-15 + 2 * size
        assert np.abs(contacts.axes[:, 0] + [0, 0, 1]).max() < 1e-12 + 10 * size


@pytest.mark.parametrize(
    ("kinds", "place", "turn", "expected"),
    [
        (("rod", "rod"), (0.0, 0.1, 0.05), (0, 0, 0), [(0, 0.05, -0.05), (0, 0.05, 0.1)]),
        (("rod", "rod"), (0.0, 0.1, 0.05), (0, np.pi / 2, 0), [(0, 0.05, 0.05)]),
        (("crate", "rod"), (0.0, 0.05, 0.1), (np.pi / 2, 0, 0), [(0, 0.08, 0.05), (0, -0.05, 0.05)]),
        (("crate", "can"), (0.0, 0.05, 0.15), (np.pi / 2, 0, 0), [(0, 0.08, 0.05), (0, -0.01, 0.05)]),
        (("can", "rod"), (0.15, 0.0, 0.1), (0, 0, 0), [(0.1, 0, 0), (0.1, 0, 0.06)]),
        (("crate", "ball"), (0.0, 0.0, 0.15), (0, 0, 0), [(0, 0, 0.05)]),
    ],
)
def test_lines_on_faces_and_lines_touch_at_the_ends_of_the_overlap(
    kinds: tuple[str, str], place: tuple[float, ...], turn: tuple[float, ...], expected: list[tuple[float, ...]]
) -> None:
    scene = Scene([shape(kind) for kind in kinds])
    scene.put(1, place, turn)
    contacts = scene.contacts()
    assert corners_of(contacts) == {tuple(map(float, p)) for p in expected}
    assert np.abs(contacts.gap).max() < 1e-12


def close_pairs(kinds: tuple[str, str], trials: int, seed: int) -> Iterator[tuple[Scene, float]]:
    """Scenes with two shapes in random poses, or nearly aligned, near touching; and the distance that coal finds."""
    rng = np.random.default_rng(seed)
    scene = Scene([shape(kind) for kind in kinds])
    query = coal.ComputeDistance(*(thing.geometry for thing in scene.detector.geometry.geometryObjects))
    for trial in range(trials):
        turns = [Rotation.random(rng=rng).as_rotvec() if trial % 2 else 1e-3 * rng.normal(size=3) for _ in range(2)]
        direction = rng.normal(size=3) * ([1.0, 1.0, 1.0] if trial % 2 else [0.3, 0.3, 1.0])
        place = 0.4 * direction / np.linalg.norm(direction)
        target = rng.choice([-1.0, 1.0]) * 10.0 ** rng.uniform(-9, -3)
        result = coal.DistanceResult()
        for _ in range(20):
            result = coal.DistanceResult()
            poses = [
                coal.Transform3s(Rotation.from_rotvec(t).as_matrix(), p)
                for t, p in zip(turns, (np.zeros(3), place), strict=True)
            ]
            query(*poses, coal.DistanceRequest(), result)
            place = place - 0.9 * (result.min_distance - target) * result.normal
        scene.put(0, np.zeros(3), turns[0])
        scene.put(1, place, turns[1])
        scene.contacts(-np.inf)
        yield scene, target


def signed_distance(kind: str, p: Array) -> float:
    """Distance of the point `p`, in the shape's frame, from its surface; for the stone the largest of its planes."""
    if kind == "ball":
        return float(np.linalg.norm(p) - 0.1)
    if kind == "rod":
        return float(np.linalg.norm(p - [0.0, 0.0, np.clip(p[2], -0.1, 0.1)]) - 0.05)
    if kind == "stone":
        planes = ConvexHull(np.array(shape("stone").points())).equations  # type: ignore[attr-defined]
        return float((planes[:, :3] @ p + planes[:, 3]).max())
    over = (
        np.abs(p) - 0.5 * np.array(BOX) if kind == "crate" else np.array([np.hypot(p[0], p[1]) - 0.1, abs(p[2]) - 0.06])
    )
    return float(np.linalg.norm(np.maximum(over, 0.0)) + min(over.max(), 0.0))


@pytest.mark.parametrize("kinds", [(a, b) for i, a in enumerate(EVERY) for b in EVERY[i:]])
def test_the_smallest_gap_is_the_distance_and_gaps_lead_between_surfaces(kinds: tuple[str, str]) -> None:
    for scene, target in close_pairs(kinds, 30, 3):
        contacts = scene.contacts(2e-3)
        assert len(contacts) <= 8
        # the engine is accurate to 1e-6, a witness is added at 1e-5 (manifold.ENGINE_TOLERANCE), targets are met to
        # 1e-5
        assert contacts.gap.min() == pytest.approx(target, abs=3e-5)
        assert np.abs(np.linalg.norm(contacts.axes, axis=2) - 1.0).max() < 1e-12
        for point, axes, gap in zip(contacts.point, contacts.axes, contacts.gap, strict=True):
            for body, kind in enumerate(kinds):
                on_surface = point + (0.5 - body) * gap * axes[0]
                turn = Rotation.from_quat(scene.q[7 * body + 3 : 7 * body + 7])
                apart = signed_distance(kind, turn.inv().apply(on_surface - scene.q[7 * body : 7 * body + 3]))
                assert abs(apart) < 3e-5


def test_normal_rows_give_the_rate_of_each_gap() -> None:
    """Corners of a box over a fixed box, and of a box over ground, followed by identity along a motion."""
    rng = np.random.default_rng(4)
    step = 1e-6
    scene = Scene([coal.Box(*BOX)], [coal.Box(2.0, 2.0, 0.2)], terrain=plane((0.1, 0.0, 1.0), -0.2))
    for _ in range(10):
        scene.put(0, (0.0, 0.0, 0.152), 0.01 * rng.normal(size=3))
        v = rng.normal(size=6)
        contacts = scene.contacts(1.0)
        assert len(contacts) == 12
        rate = dict(zip(contacts.identity.tolist(), contacts.N @ v, strict=True))
        q, gaps = scene.q.copy(), []
        for sign in (1.0, -1.0):
            scene.q = np.array(pin.integrate(scene.system.model, q, sign * step * v))
            moved = scene.contacts(1.0)
            gaps.append(dict(zip(moved.identity.tolist(), moved.gap.tolist(), strict=True)))
        scene.q = q
        for identity, expected in rate.items():
            # rounding 1e-16 / 1e-6; gap and row belong to the same corner
            assert (gaps[0][identity] - gaps[1][identity]) / (2 * step) == pytest.approx(expected, abs=3e-9)


def test_action_is_reaction() -> None:
    """The sum of any contact impulses between free bodies has no force and no torque about the world's origin."""
    rng = np.random.default_rng(5)
    for kinds in (("crate", "crate"), ("can", "stone"), ("rod", "ball")):
        for scene, _ in close_pairs(kinds, 5, 6):
            contacts = scene.contacts(2e-3)
            impulse = contacts.jacobian.T @ rng.normal(size=3 * len(contacts))
            force, torque = np.zeros(3), np.zeros(3)
            for body in range(2):
                x, R = scene.q[7 * body : 7 * body + 3], Rotation.from_quat(scene.q[7 * body + 3 : 7 * body + 7])
                push, twist = R.apply(impulse[6 * body : 6 * body + 3]), R.apply(impulse[6 * body + 3 : 6 * body + 6])
                force, torque = force + push, torque + twist + np.cross(x, push)
            assert np.abs(force).max() < 1e-14
            assert np.abs(torque).max() < 1e-14


def test_a_sliding_turning_box_keeps_the_identities_of_its_contacts() -> None:
    scene = Scene([coal.Box(*BOX)], [coal.Box(4.0, 4.0, 0.2)], terrain=plane((0.0, 0.0, 1.0), 0.1))
    before: dict[int, Array] = {}
    for k in range(300):
        scene.put(0, (0.002 * k, 0.001 * k, 0.15), (0.0, 0.0, 0.01 * k))
        contacts = scene.contacts()
        now = dict(zip(contacts.identity.tolist(), contacts.point, strict=True))
        assert len(now) == 8  # four on the ground, four on the fixed box
        if before:
            assert now.keys() == before.keys()
            # 2.2 mm of sliding and 0.13 m times 0.01 rad of turning
            assert max(np.linalg.norm(now[i] - before[i]) for i in now) < 4e-3
        before = now


def test_ended_contacts_release_their_identity_and_others_keep_theirs() -> None:
    scene = Scene([coal.Box(*BOX)], [coal.Box(4.0, 4.0, 0.2)])
    scene.put(0, (0.0, 0.0, 0.15))
    flat = scene.contacts()
    by_place = {tuple(p[:2].round(2)): i for p, i in zip(flat.point, flat.identity, strict=True)}
    scene.put(0, (0.0, 0.0, 0.15 + 0.1 * np.sin(0.02)), (0.0, 0.02, 0.0))  # stands on the edge x = 0.1
    edge = scene.contacts()
    assert len(edge) == 2
    for point, identity in zip(edge.point, edge.identity, strict=True):
        assert by_place[tuple(point[:2].round(2))] == identity
    scene.put(0, (0.0, 0.0, 0.15))
    assert sorted(scene.contacts().identity) == sorted(flat.identity)


def test_results_after_a_reset_do_not_depend_on_the_past() -> None:
    scene = Scene([coal.Box(*BOX), shape("can")], terrain=plane())
    scene.put(0, (0.0, 0.0, 0.05))
    scene.put(1, (0.0, 0.05, 0.16), (0.0, 0.001, 0.0))
    first = scene.contacts()
    assert len(first) > 4
    for k in range(20):
        scene.put(1, (0.01 * k, 0.05, 0.16), (0.0, 0.0, 0.1 * k))
        scene.contacts()
    scene.detector.reset()
    scene.put(1, (0.0, 0.05, 0.16), (0.0, 0.001, 0.0))
    again = scene.contacts()
    for name in ("identity", "point", "axes", "gap", "mu", "jacobian"):
        assert np.array_equal(getattr(first, name), getattr(again, name))


def test_only_listed_pairs_of_different_bodies_can_touch() -> None:
    system = box_stack(2)
    geometry = pin.GeometryModel()
    for name, joint in (("a", 1), ("b", 2), ("c", 2)):
        geometry.addGeometryObject(pin.GeometryObject(name, joint, pin.SE3.Identity(), coal.Sphere(0.1)))
    geometry.addCollisionPair(pin.CollisionPair(1, 2))  # one body: its rows would be zero
    geometry.addCollisionPair(pin.CollisionPair(0, 2))
    system.update(np.array(pin.neutral(system.model)), np.zeros(12))
    detector = CollisionContacts(system, geometry, 0.5)
    assert len(detector.detect(0.0)) == 1
    assert np.array_equal(detector.joints, [[1, 2]])


def test_a_nan_in_the_state_stays_visible() -> None:
    for kinds in (("crate", "crate"), ("ball", "can"), ("rod", "stone")):
        scene = Scene([shape(kind) for kind in kinds], terrain=plane())
        scene.put(1, (np.nan, 0.0, 5.0))
        scene.system.update(scene.q, np.zeros(12))
        assert np.isnan(scene.detector.detect(1e-3).gap).any()


def test_negative_friction_is_refused() -> None:
    with pytest.raises(InputError, match="friction"):
        Scene([coal.Sphere(0.1)], mu=-1.0)
    with pytest.raises(InputError, match="friction"):
        Scene([coal.Sphere(0.1)], terrain=plane(), terrain_mu=-1.0)
    with pytest.raises(InputError, match="one friction coefficient for each of 1 geometries"):
        Scene([coal.Sphere(0.1)], mu=[0.1, 0.2])
