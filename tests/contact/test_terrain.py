"""Ground: heights, normals, distances, and files that cannot be used."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.interpolate import CubicSpline
from scipy.optimize import minimize

from idcontrol.contact.contacts import write_axes
from idcontrol.contact.terrain import Terrain, height_map, load_height_map, plane, sphere_gap
from idcontrol.errors import InputError
from idcontrol.types import Array

SPACING = 0.02


def hills(seed: int = 0, shape: tuple[int, int] = (24, 31)) -> Array:
    """Gaussian hills of 3 cm, as wide as hills in the paper's height map (7 cm)."""
    rng = np.random.default_rng(seed)
    x, y = np.meshgrid(*(SPACING * np.arange(n) for n in shape), indexing="ij")
    centres = rng.uniform((0, 0), (x.max(), y.max()), (12, 2))
    z = sum(np.exp(-((x - a) ** 2 + (y - b) ** 2) / (2 * 0.07**2)) for a, b in centres)
    return np.asarray(0.03 * (z - np.min(z)) / np.ptp(z))


@pytest.fixture(scope="module")
def hilly() -> Terrain:
    return height_map(hills(), SPACING, origin=(0.0, 0.0))


def gap_of(terrain: Terrain, centre: Array, radius: float) -> tuple[float, Array, Array]:
    gap, normal, point = sphere_gap(terrain.parameters, terrain.coefficients, *(float(c) for c in centre), radius)
    return gap, np.array(normal), np.array(point)


def test_an_inclined_plane_has_its_height_normal_and_distance() -> None:
    slope = 0.3
    ground = plane((-np.sin(slope), 0.0, 2.0 * np.cos(slope) - np.cos(slope)), offset=0.1)
    x = np.array([[0.0, 1.0], [2.0, -1.0]])
    expected = 0.1 / np.cos(slope) + x * np.tan(slope)
    assert np.abs(ground.height(x, 0.5) - expected).max() < 1e-15 * 4
    assert ground.normal(x, 0.5).shape == (2, 2, 3)
    assert ground.normal(1.0, 2.0) == pytest.approx([-np.sin(slope), 0.0, np.cos(slope)], abs=1e-15)
    gap, normal, point = gap_of(ground, np.array([0.0, 0.0, 1.0]), 0.05)
    assert gap == pytest.approx(np.cos(slope) - 0.1 - 0.05, abs=1e-15)
    assert np.array([0.0, 0.0, 1.0]) - 0.05 * normal == pytest.approx(point, abs=1e-15)


def test_heights_between_samples_are_a_clamped_cubic_spline(hilly: Terrain) -> None:
    """Along a grid line the tensor product spline equals scipy's clamped spline, which has the same border."""
    knots = SPACING * np.arange(hilly.heights.shape[1])
    spline = CubicSpline(knots, hilly.heights[7], bc_type="clamped")
    y = np.linspace(0.0, knots[-1], 500)
    assert np.abs(hilly.height(7 * SPACING, y) - spline(y)).max() < 1e-15
    normal = hilly.normal(7 * SPACING, y)
    assert np.abs(-normal[:, 1] / normal[:, 2] - spline(y, 1)).max() < 1e-13


def test_normals_are_the_gradient_of_the_height_inside_and_outside(hilly: Terrain) -> None:
    rng = np.random.default_rng(1)
    x, y = rng.uniform(-0.1, 0.7, (2, 500))
    step = 1e-5
    normal = hilly.normal(x, y)
    for axis, (dx, dy) in enumerate(((step, 0.0), (0.0, step))):
        slope = (hilly.height(x + dx, y + dy) - hilly.height(x - dx, y - dy)) / (2 * step)
        # third derivatives of such hills are about 100 / m²: 2e-9; at a border the second jumps: 10 / m times the step
        assert np.abs(-normal[:, axis] / normal[:, 2] - slope).max() < 1e-4
        assert np.median(np.abs(-normal[:, axis] / normal[:, 2] - slope)) < 1e-8
    assert np.abs(np.linalg.norm(normal, axis=1) - 1.0).max() < 1e-15


@pytest.mark.parametrize("seed", range(5))
def test_the_gap_is_the_smallest_distance_to_the_ground(hilly: Terrain, seed: int) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(10):
        x, y = rng.uniform(0.02, 0.42), rng.uniform(0.02, 0.56)
        centre = np.array([x, y, float(hilly.height(x, y)) + rng.uniform(0.005, 0.03)])
        gap, normal, point = gap_of(hilly, centre, 0.01)

        def distance(p: Array, centre: Array = centre) -> float:
            return float(np.sum((centre - [p[0], p[1], float(hilly.height(p[0], p[1]))]) ** 2))

        best = minimize(distance, centre[:2], method="Nelder-Mead", options={"xatol": 1e-10, "fatol": 1e-18})
        # the distance is flat at its minimum: 1e-10 m beside it changes nothing; 1e-18 m² at 5 mm is 1e-16 m
        assert gap == pytest.approx(np.sqrt(best.fun) - 0.01, abs=1e-14)
        foot = centre - (gap + 0.01) * normal
        assert foot[2] == pytest.approx(float(hilly.height(foot[0], foot[1])), abs=1e-15)
        assert normal == pytest.approx(hilly.normal(foot[0], foot[1]), abs=1e-13)
        assert point == pytest.approx(centre - 0.01 * normal, abs=1e-16)


def test_a_flat_height_map_is_the_plane_and_goes_on_beyond_its_border() -> None:
    flat, level = height_map(np.full((3, 2), 0.2), 0.1), plane(offset=0.2)
    for centre in np.random.default_rng(3).uniform(-1.0, 1.0, (50, 3)):
        for a, b in zip(gap_of(flat, centre, 0.03), gap_of(level, centre, 0.03), strict=True):
            assert a == pytest.approx(b, abs=1e-15)


def test_a_height_map_is_centred_by_default() -> None:
    z = np.zeros((5, 3))
    z[2, 1] = 1.0
    assert height_map(z, 0.5).height(0.0, 0.0) == pytest.approx(1.0)
    assert height_map(z, 0.5, origin=(1.0, 2.0)).height(2.0, 2.5) == pytest.approx(1.0)


@pytest.mark.parametrize("terrain", [plane(), height_map(hills(), SPACING)])
def test_a_nan_centre_gives_a_nan_gap(terrain: Terrain) -> None:
    for k in range(3):
        centre = np.zeros(3)
        centre[k] = np.nan
        assert np.isnan(gap_of(terrain, centre, 0.01)[0])


@given(st.lists(st.floats(-1, 1), min_size=3, max_size=3), st.floats(-4, 4))
def test_axes_are_right_handed_and_orthonormal(direction: list[float], angle: float) -> None:
    n = np.array(direction)
    if np.linalg.norm(n) < 1e-3:
        return
    n /= np.linalg.norm(n)
    axes = np.empty((3, 3))
    write_axes(*n, angle, axes)
    assert np.abs(axes @ axes.T - np.eye(3)).max() < 1e-14
    assert np.abs(np.cross(axes[0], axes[1]) - axes[2]).max() < 1e-14


def test_the_first_tangent_is_the_projected_x_axis_turned_by_the_angle() -> None:
    axes = np.empty((3, 3))
    write_axes(0.0, 0.0, 1.0, 0.0, axes)
    assert np.array_equal(axes, [[0, 0, 1], [1, 0, 0], [0, 1, 0]])
    write_axes(0.0, 0.0, 1.0, 0.5, axes)
    assert axes[1] == pytest.approx([np.cos(0.5), np.sin(0.5), 0.0])
    n = np.array([0.3, -0.4, np.sqrt(0.75)])
    write_axes(*n, 0.0, axes)
    s = np.array([1.0, 0.0, 0.0]) - 0.3 * n
    assert axes[1] == pytest.approx(s / np.linalg.norm(s), abs=1e-15)


def test_maps_are_read_from_csv_and_npz(tmp_path: Path) -> None:
    z = hills()
    np.savetxt(tmp_path / "map.csv", z, delimiter=",", fmt="%.18e")
    np.savez(tmp_path / "map.npz", z=z, spacing_m=SPACING)
    for terrain in (load_height_map(tmp_path / "map.csv", SPACING), load_height_map(tmp_path / "map.npz")):
        assert np.array_equal(terrain.heights, z)
        assert np.array_equal(terrain.parameters, height_map(z, SPACING).parameters)


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("missing.csv", None, "no height map at"),
        ("map.txt", "1,2\n3,4", "neither a .csv nor a .npz"),
        ("map.csv", "1,2\n3,x", "line 2: not all words are numbers"),
        ("map.csv", "1,2\n3", "line 2: 1 heights, but 2"),
        ("map.csv", "1,2\n3,nan", "row 2, column 2 is nan"),
        ("map.csv", "", "at least 2 x 2"),
        ("map.csv", "1,2,3", "at least 2 x 2"),
        ("map.csv", b"\xff\xfe\x00", "not a text file"),
        ("map.npz", "not a zip", "cannot be read as an NPZ"),
        ("map.npz", "", "cannot be read as an NPZ"),
    ],
)
def test_files_that_are_no_maps_give_one_line(
    tmp_path: Path, name: str, content: str | bytes | None, says: str
) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content.encode() if isinstance(content, str) else content)
    with pytest.raises(InputError) as caught:
        load_height_map(tmp_path / name, SPACING)
    assert says in str(caught.value)
    assert name in str(caught.value)
    assert "\n" not in str(caught.value)


def test_npz_files_without_heights_or_spacing_are_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", heights=hills())
    with pytest.raises(InputError, match="no array 'z' of heights; it has heights"):
        load_height_map(tmp_path / "a.npz", SPACING)
    np.savez(tmp_path / "b.npz", z=hills())
    with pytest.raises(InputError, match=r"b\.npz does not say how far"):
        load_height_map(tmp_path / "b.npz")
    np.savez(tmp_path / "c.npz", z=np.array([{}, {}]))
    with pytest.raises(InputError, match="cannot be read as an NPZ file of numbers"):
        load_height_map(tmp_path / "c.npz", SPACING)


@pytest.mark.parametrize("normal", [(0, 0, 0), (1, 0, 0), (0, 0, -1), (0, np.nan, 1), (0, 1)])
def test_ground_must_face_up(normal: tuple[float, ...]) -> None:
    with pytest.raises(InputError, match="normal of ground"):
        plane(normal)


def test_impossible_numbers_are_refused() -> None:
    with pytest.raises(InputError, match="offset"):
        plane(offset=np.inf)
    for spacing in (0.0, -0.1, np.nan):
        with pytest.raises(InputError, match="spacing"):
            height_map(hills(), spacing)
    with pytest.raises(InputError, match="origin"):
        height_map(hills(), SPACING, origin=(0.0, np.nan))
