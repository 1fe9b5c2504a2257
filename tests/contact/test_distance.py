"""Closed-form distances of spheres and boxes, and against coal; the sweep against all pairs."""

import coal
import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from idcontrol.contact.distance import candidate_pairs, measure
from idcontrol.contact.manifold import Pairs, Placed, place, unplaced
from idcontrol.contact.shapes import ShapeArrays, flatten, from_coal
from idcontrol.kernels.arena import HEAP
from idcontrol.types import Array

pytestmark = pytest.mark.interpreted

KINDS = {
    "ball": lambda: coal.Sphere(0.08),
    "crate": lambda: coal.Box(0.2, 0.16, 0.1),
    "slab": lambda: coal.Box(1, 1, 0.05),
}
every_pair = pytest.mark.parametrize(
    "kinds",
    [
        pytest.param(("ball", "ball"), marks=pytest.mark.slow),
        ("ball", "crate"),
        pytest.param(("crate", "slab"), marks=pytest.mark.slow),
        ("crate", "crate"),
    ],
)


def placed_shapes(geometries: list[object], position: Array, rotation: Array) -> tuple[ShapeArrays, Placed]:
    shapes = flatten([from_coal(geometry, "thing")[0] for geometry in geometries])
    placed = unplaced(shapes)
    place(shapes, position, rotation, placed)
    return shapes, placed


def measured(geometries: list[object], position: Array, rotation: Array) -> tuple[float, Array, Array]:
    shapes, placed = placed_shapes(geometries, position, rotation)
    pairs = Pairs(
        shape=np.array([[0, 1]]),
        margin=np.full(1, np.inf),
        direction=np.empty((1, 3)),
        witness=np.empty((1, 3)),
        distance=np.empty(1),
    )
    measure(shapes, placed, pairs, HEAP)
    return float(pairs.distance[0]), pairs.direction[0], pairs.witness[0]


def by_coal(geometries: list[object], position: Array, rotation: Array) -> float:
    places = [coal.Transform3s(R, p) for R, p in zip(rotation, position, strict=True)]
    result = coal.DistanceResult()
    coal.distance(geometries[0], places[0], geometries[1], places[1], coal.DistanceRequest(), result)
    return float(result.min_distance)


def outside(kind: str, local: Array) -> float:
    """Return the signed distance of a point from a shape, in the axes of the shape."""
    if kind == "ball":
        return float(np.linalg.norm(local)) - 0.08
    over = np.abs(local) - 0.5 * np.array([1, 1, 0.05] if kind == "slab" else [0.2, 0.16, 0.1])
    return float(np.linalg.norm(np.maximum(over, 0.0)) + min(over.max(), 0.0))


@every_pair
def test_distances_apart_and_overlapping_are_coals(kinds: tuple[str, str]) -> None:
    rng = np.random.default_rng(0)
    geometries = [KINDS[kind]() for kind in kinds]
    signs = set()
    for _ in range(120):
        position = np.array([np.zeros(3), rng.uniform(-0.25, 0.25, 3)])
        rotation = Rotation.random(2, rng=rng).as_matrix()
        distance, direction, witness = measured(geometries, position, rotation)
        expected = by_coal(geometries, position, rotation)
        # coal's own tolerance is 1e-6; overlapping, its polytope may stop at a local best that is deeper
        if expected > 0.0:
            assert distance == pytest.approx(expected, abs=3e-6)
            # the witness is in the middle between the nearest points
            for kind, place, R, side in zip(kinds, position, rotation, (0.5, -0.5), strict=True):
                assert abs(outside(kind, R.T @ (witness + side * distance * direction - place))) < 2e-6
        else:
            assert expected - 3e-6 <= distance <= 1e-9
        assert np.linalg.norm(direction) == pytest.approx(1.0, abs=1e-12)
        signs.add(distance > 0.0)
    assert signs == {True, False}


@every_pair
def test_moved_along_the_normal_by_the_distance_the_shapes_just_touch(kinds: tuple[str, str]) -> None:
    """After a motion by the signed distance along the direction, the surfaces meet at the witness.

    If two boxes touch with a face, there is a manifold of such points, and the witness is not used.
    """
    rng = np.random.default_rng(1)
    geometries = [KINDS[kind]() for kind in kinds]
    for trial in range(50):
        # every second pose is nearly aligned, like boxes at rest on each other
        turns = Rotation.random(2, rng=rng) if trial % 2 else Rotation.from_rotvec(1e-9 * rng.normal(size=(2, 3)))
        position = np.array([np.zeros(3), rng.uniform(-0.2, 0.2, 3)])
        distance, direction, _ = measured(geometries, position, turns.as_matrix())
        position[0] -= distance * direction
        touching, direction, witness = measured(geometries, position, turns.as_matrix())
        assert abs(touching) < 1e-6  # FLAT: a face's normal may replace a slightly tilted direction
        if "ball" not in kinds and max(np.abs(turn.inv().apply(direction)).max() for turn in turns) > 1.0 - 1e-6:
            continue
        for g, kind in enumerate(kinds):
            assert abs(outside(kind, turns[g].inv().apply(witness - position[g]))) < 2e-6


def test_boxes_edge_to_edge_and_corner_to_corner_have_their_closed_form() -> None:
    cube = [coal.Box(2, 2, 2), coal.Box(2, 2, 2)]
    upright = np.stack([np.eye(3)] * 2)
    distance, direction, witness = measured(cube, np.array([[0.0, 0, 0], [3.0, 3.0, 3.0]]), upright)
    assert distance == pytest.approx(np.sqrt(3.0), abs=1e-14)
    assert direction == pytest.approx(-np.ones(3) / np.sqrt(3.0), abs=1e-14)
    assert witness == pytest.approx(np.full(3, 1.5), abs=1e-14)
    # an edge along z of one, an edge along y of the other, turned by 45 degrees so that they face each other along x
    turns = Rotation.from_euler("xyz", [[0, 0, 45], [0, 45, 0]], degrees=True).as_matrix()
    apart = 2.0 * np.sqrt(2.0)
    for gap in (0.1, 1e-3, 1e-9, -1e-9, -1e-3):
        distance, direction, witness = measured(cube, np.array([[0.0, 0, 0], [apart + gap, 0.2, 0.1]]), turns)
        assert distance == pytest.approx(gap, abs=1e-12)
        assert direction == pytest.approx([-1.0, 0.0, 0.0], abs=1e-9)
        assert witness == pytest.approx([np.sqrt(2.0) + 0.5 * gap, 0.0, 0.1], abs=1e-9)


def test_centres_that_coincide_still_have_a_direction() -> None:
    for kinds in (("ball", "ball"), ("ball", "crate"), ("crate", "crate")):
        distance, direction, _ = measured(
            [KINDS[kind]() for kind in kinds], np.zeros((2, 3)), np.stack([np.eye(3)] * 2)
        )
        assert distance <= -0.1
        assert np.linalg.norm(direction) == 1.0


def test_a_nan_stays_visible() -> None:
    for kinds in (("ball", "ball"), ("ball", "crate"), ("crate", "crate")):
        position = np.array([[np.nan, 0.0, 0.0], [0.0, 0.0, 0.0]])
        distance, _, _ = measured([KINDS[kind]() for kind in kinds], position, np.stack([np.eye(3)] * 2))
        assert np.isnan(distance)


@pytest.mark.parametrize("count", [0, 1, 2, 60])
def test_the_sweep_finds_the_pairs_that_all_comparisons_find(count: int) -> None:
    rng = np.random.default_rng(count)
    for _ in range(20):
        low = rng.uniform(0.0, 1.0, (count, 3))
        high = low + rng.uniform(0.0, 0.3, (count, 3))
        reach = rng.uniform(0.0, 0.1, count)
        group = rng.integers(-1, max(1, count // 2), count)
        expected = []
        for a in range(count):
            for b in range(a + 1, count):
                margin = reach[a] + reach[b]
                meets = (low[a] - high[b] <= margin).all() and (low[b] - high[a] <= margin).all()
                if meets and group[a] != group[b]:
                    expected.append((b, a) if group[a] < 0 else (a, b))
        assert candidate_pairs(low, high, reach, group).tolist() == sorted(map(list, expected))
