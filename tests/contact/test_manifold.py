"""The manifold kernels alone: engines that err, crowded faces, identities."""

import coal
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from idcontrol.contact.manifold import (
    MAX_POINTS,
    Pairs,
    Placed,
    Points,
    Tracked,
    close_pairs,
    match,
    pair_contacts,
    place,
    unplaced,
)
from idcontrol.contact.shapes import ShapeArrays, flatten, from_coal
from idcontrol.kernels.arena import HEAP
from idcontrol.types import Array, Integers

pytestmark = pytest.mark.interpreted


def scene(geometries: list[object], positions: list[tuple[float, float, float]]) -> tuple[ShapeArrays, Placed]:
    shapes = flatten([from_coal(geometry, "thing")[0] for geometry in geometries])
    placed = unplaced(shapes)
    place(shapes, np.array(positions), np.tile(np.eye(3), (len(geometries), 1, 1)), placed)
    return shapes, placed


def manifold(
    shapes: ShapeArrays, placed: Placed, direction: tuple[float, float, float], distance: float
) -> tuple[Array, Array, Array]:
    """Gaps, normals and points of shapes 0 (A) and 1 (B) for possible results of an engine."""
    pairs = Pairs(
        shape=np.array([[0, 1]]),
        margin=np.array([1e-3]),
        direction=np.array([direction]),
        witness=np.zeros((1, 3)),
        distance=np.array([distance]),
    )
    points = Points(
        identity=np.empty(MAX_POINTS, dtype=np.int64),
        shape=np.empty((MAX_POINTS, 2), dtype=np.int64),
        gap=np.empty(MAX_POINTS),
        normal=np.empty((MAX_POINTS, 3)),
        point=np.empty((MAX_POINTS, 3)),
    )
    n = pair_contacts(shapes, placed, pairs, points, 0, HEAP)
    return points.gap[:n], points.normal[:n], points.point[:n]


@pytest.mark.parametrize("wrong", [(1.0, 0.0, 0.0), (0.6, 0.0, 0.8), (0.0, 0.0, -1.0)])
def test_a_wrong_normal_of_the_engine_at_touching_is_corrected(wrong: tuple[float, float, float]) -> None:
    for top, bottom in (
        (coal.Box(0.2, 0.2, 0.2), coal.Box(0.3, 0.3, 0.2)),
        (coal.Cylinder(0.1, 0.2), coal.Cylinder(0.15, 0.2)),
    ):
        gap, normal, _ = manifold(*scene([top, bottom], [(0.0, 0.0, 0.2), (0.01, 0.0, 0.0)]), wrong, 0.0)
        assert len(gap) in (4, 8)
        assert np.abs(gap).max() < 1e-15
        assert np.array_equal(normal, np.tile([0.0, 0.0, 1.0], (len(gap), 1)))


def test_crowded_faces_keep_eight_points_that_span_the_face() -> None:
    """Two caps of eight corners each, turned against each other: sixteen corners meet."""
    shapes, placed = scene([coal.Cylinder(0.1, 0.2), coal.Cylinder(0.1, 0.2)], [(0.0, 0.0, 0.2), (0.0, 0.0, 0.0)])
    turn = np.pi / 8
    rotation = np.stack([[[np.cos(turn), -np.sin(turn), 0], [np.sin(turn), np.cos(turn), 0], [0, 0, 1]], np.eye(3)])
    place(shapes, placed.position.copy(), rotation, placed)
    gap, _, point = manifold(shapes, placed, (0.0, 0.0, 1.0), 0.0)
    assert len(gap) == MAX_POINTS
    angle = np.sort(np.arctan2(point[:, 1], point[:, 0]))
    # points lie at multiples of 22.5°: between two neighbours at most two of these directions are missing
    assert np.diff(np.r_[angle, angle[0] + 2 * np.pi]).max() < np.radians(22.5 * 3 + 1e-6)


def test_bounding_boxes_never_hide_a_close_pair() -> None:
    rng = np.random.default_rng(0)
    positions = rng.uniform(-0.3, 0.3, (12, 3))
    _, placed = scene([coal.Sphere(0.05)] * 12, [tuple(p) for p in positions])
    pairs = np.array([(i, j) for i in range(12) for j in range(i)])
    kept = set(close_pairs(placed, pairs, 0.02).tolist())
    gaps = np.linalg.norm(positions[pairs[:, 0]] - positions[pairs[:, 1]], axis=1) - 0.1
    close = set(np.flatnonzero(gaps < 0.02).tolist())
    assert close
    assert close <= kept
    assert len(kept) < len(pairs)


def slots(pair: Integers, point: Array, old: tuple[Integers, Integers, Array]) -> Integers:
    now = Tracked(pair=pair, slot=np.full(len(pair), -7, dtype=np.int64), point=point)
    match(now, Tracked(*old), np.full(len(pair), 0.05))
    return now.slot


@settings(deadline=None)  # the first call compiles
@given(st.permutations(range(6)), st.integers(0, 2**31))
def test_contacts_keep_their_slot_in_any_order(order: list[int], seed: int) -> None:
    """Points on a grid that move by less than half of its width."""
    rng = np.random.default_rng(seed)
    pair = np.array([2, 2, 2, 2, 2, 2])
    point = 0.03 * np.array([[i, j, 0.0] for i in range(2) for j in range(3)])
    old = rng.permutation(MAX_POINTS)[:6].astype(np.int64)
    moved = point[order] + rng.uniform(-0.008, 0.008, (6, 3))
    assert np.array_equal(slots(pair, moved, (pair, old, point)), old[order])


def test_new_contacts_get_free_slots_and_pairs_do_not_mix() -> None:
    none: Integers = np.zeros(0, dtype=np.int64)
    first = slots(np.array([1, 1, 4]), np.array([[0.0] * 3, [0.02] * 3, [0.0] * 3]), (none, none, np.zeros((0, 3))))
    assert np.array_equal(first, [0, 1, 0])
    old = (np.array([1, 1, 4]), np.array([3, 0, 5]), np.array([[0.0, 0, 0], [0.2, 0, 0], [0.0, 0, 0]]))
    pair = np.array([0, 1, 1, 1, 4, 6])
    point = np.array([[0.0, 0, 0], [0.3, 0, 0], [0.01, 0, 0], [0.19, 0, 0], [0.5, 0, 0], [0.0, 0, 0]])
    # in pair 1 the first point is new, and gets the lowest free slot; in pair 4 the old point is too far away
    assert np.array_equal(slots(pair, point, old), [0, 1, 3, 0, 0, 0])
