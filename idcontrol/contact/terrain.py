"""Ground: a plane or a height map, as two arrays that any kernel can read.

Between its samples a height map is the interpolating cubic B-spline. The spline is twice differentiable. So the normal
turns continuously, the nearest point of a sphere moves smoothly, and J̇v of a rolling foot exists. With facets or
bilinear patches the contact frame would jump at cell borders. The spline overshoots a step in the samples by about a
tenth of its height within the next cells, so build stairs from boxes (`idcontrol.contact.collision`).
"""

from __future__ import annotations

import zipfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from numba import types

from idcontrol.errors import InputError
from idcontrol.kernels.jit import njit
from idcontrol.kernels.linked import late
from idcontrol.types import Array

NEWTON_STEPS = 30
"""Largest number of Newton steps for the nearest point; 3 to 5 suffice if the ground curves less than the sphere."""


@dataclass(frozen=True, slots=True)
class Terrain:
    """Ground as arrays; created by `plane`, `height_map` or `load_height_map`.

    Attributes:
        parameters: For a plane its upward unit normal n and offset, ``n·p = offset``; for a height map origin and
            spacing of the samples: (n_x, n_y, n_z, offset [m], x_0 [m], y_0 [m], dx [m], dy [m]).
        coefficients: B-spline coefficients of a height map, with one more than the samples on every side; shape (0, 0)
            for a plane.
        heights: Samples of a height map, ``heights[i, j]`` at (x_0 + i dx, y_0 + j dy) [m]; shape (0, 0) for a plane.
    """

    parameters: Array
    coefficients: Array
    heights: Array

    def height(self, x: npt.ArrayLike, y: npt.ArrayLike) -> Array:
        """Return the height of the ground [m] at `x`, `y` [m], arrays that broadcast."""
        xs, ys = np.broadcast_arrays(np.asarray(x, float), np.asarray(y, float))
        heights: Array = _sample(self.parameters, self.coefficients, xs.ravel(), ys.ravel())[:, 0].reshape(xs.shape)
        return heights

    def normal(self, x: npt.ArrayLike, y: npt.ArrayLike) -> Array:
        """Return the upward unit normal of the ground, shape (..., 3), at `x`, `y` [m], arrays that broadcast."""
        xs, ys = np.broadcast_arrays(np.asarray(x, float), np.asarray(y, float))
        slope = _sample(self.parameters, self.coefficients, xs.ravel(), ys.ravel())
        up = np.stack([-slope[:, 1], -slope[:, 2], np.ones(xs.size)], axis=1)
        normals: Array = (up / np.linalg.norm(up, axis=1, keepdims=True)).reshape(*xs.shape, 3)
        return normals


def plane(normal: npt.ArrayLike = (0.0, 0.0, 1.0), offset: float = 0.0) -> Terrain:
    """Return the plane ``n·p = offset``.

    Args:
        normal: Any vector that points up (z > 0), shape (3,); it is normalized.
        offset: Distance of the plane from the origin along the normal [m].

    Raises:
        InputError: The normal does not point up, or a number is not finite.
    """
    n = np.asarray(normal, float)
    if n.shape != (3,) or not np.isfinite(n).all() or not n[2] > 0.0:
        raise InputError(f"the normal of ground must have three finite components and z > 0, not {n.tolist()}")
    if not np.isfinite(offset):
        raise InputError(f"the offset of ground must be finite, not {offset}")
    parameters = np.concatenate([n / np.linalg.norm(n), [offset, 0.0, 0.0, 1.0, 1.0]])
    return Terrain(parameters, np.zeros((0, 0)), np.zeros((0, 0)))


def height_map(heights: npt.ArrayLike, spacing: float, origin: tuple[float, float] | None = None) -> Terrain:
    """Return smooth ground through samples on a grid; beyond a border it keeps the heights of the border.

    Args:
        heights: ``heights[i, j]`` is the height at (x_0 + i spacing, y_0 + j spacing), at least 2 x 2 [m].
        spacing: Distance of the samples [m].
        origin: (x_0, y_0), the position of ``heights[0, 0]`` [m]; None puts the middle of the map at the world's
            origin.

    Raises:
        InputError: There are fewer than 2 x 2 heights, a number is not finite, or the spacing is not positive.
    """
    z = np.ascontiguousarray(heights, dtype=np.float64)
    if z.ndim != 2 or min(z.shape) < 2:
        raise InputError(f"a height map needs at least 2 x 2 heights, not shape {z.shape}")
    if not np.isfinite(z).all():
        i, j = np.argwhere(~np.isfinite(z))[0]
        raise InputError(f"height map: the height in row {i + 1}, column {j + 1} is {z[i, j]}; give a finite number")
    if not (np.isfinite(spacing) and spacing > 0.0):
        raise InputError(f"the spacing of a height map must be positive, not {spacing}")
    x0, y0 = origin if origin is not None else (-0.5 * spacing * (z.shape[0] - 1), -0.5 * spacing * (z.shape[1] - 1))
    if not (np.isfinite(x0) and np.isfinite(y0)):
        raise InputError(f"the origin of a height map must be finite, not {origin}")
    from scipy.ndimage import spline_filter  # imported late: it takes a quarter of this package's import time

    # a spline of reflected samples is level at its ends, like the ground beyond
    coefficients = np.pad(spline_filter(z, order=3, mode="mirror"), 1, mode="reflect")
    parameters = np.array([0.0, 0.0, 1.0, 0.0, x0, y0, spacing, spacing])
    return Terrain(parameters, np.ascontiguousarray(coefficients), z)


def load_height_map(
    path: str | Path, spacing: float | None = None, origin: tuple[float, float] | None = None
) -> Terrain:
    """Read a height map.

    A CSV file has one line of heights [m] per sample along x. An NPZ file has the heights as the array ``z``; it may
    also have the distance of the samples as ``spacing_m``.

    Args:
        path: A file that ends in .csv or .npz.
        spacing: Distance of the samples [m]; required unless the file has it.
        origin: (x_0, y_0), the position of ``heights[0, 0]`` [m]; None puts the middle of the map at the world's
            origin.

    Raises:
        InputError: The file is missing or malformed, or the map is unusable.
    """
    file = Path(path)
    if not file.is_file():
        raise InputError(f"no height map at {file}; give the path of a CSV or NPZ file")
    if file.suffix == ".csv":
        heights = _read_csv(file)
    elif file.suffix == ".npz":
        heights, stored = _read_npz(file)
        spacing = stored if spacing is None else spacing
    else:
        raise InputError(f"{file.name} is neither a .csv nor a .npz height map")
    if spacing is None:
        raise InputError(f"{file.name} does not say how far its samples are apart; give the spacing in metres")
    try:
        return height_map(heights, spacing, origin)
    except InputError as error:
        raise InputError(f"{file.name}: {error}") from None


def _read_csv(file: Path) -> Array:
    rows: list[list[float]] = []
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError:
        raise InputError(f"{file.name} is not a text file; give numbers separated by commas") from None
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            rows.append([float(word) for word in line.split(",")])
        except ValueError:
            raise InputError(
                f"{file.name}, line {number}: not all words are numbers; separate heights by commas"
            ) from None
        if len(rows[-1]) != len(rows[0]):
            raise InputError(
                f"{file.name}, line {number}: {len(rows[-1])} heights, but {len(rows[0])} in the first row"
            )
    return np.array(rows, dtype=np.float64)


def _read_npz(file: Path) -> tuple[Array, float | None]:
    try:
        with np.load(file, allow_pickle=False) as arrays:
            if "z" not in arrays:
                raise InputError(f"{file.name} has no array 'z' of heights; it has {', '.join(arrays) or 'none'}")
            spacing = float(arrays["spacing_m"]) if "spacing_m" in arrays else None
            return np.asarray(arrays["z"], dtype=np.float64), spacing
    except (OSError, ValueError, TypeError, EOFError, zipfile.BadZipFile) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{file.name} cannot be read as an NPZ file of numbers; save it with numpy.savez") from None


@njit(cache=True, inner=True, error_model="numpy")
def _basis(f: float) -> tuple[tuple[float, ...], tuple[float, ...], tuple[float, ...]]:
    """Return values, slopes and second derivatives of the four cubic B-splines that overlap a cell, at fraction f."""
    g = 1.0 - f
    value = (
        g * g * g / 6.0,
        (4.0 - 6.0 * f * f + 3.0 * f * f * f) / 6.0,
        (4.0 - 6.0 * g * g + 3.0 * g * g * g) / 6.0,
        f * f * f / 6.0,
    )
    slope = (-0.5 * g * g, f * (1.5 * f - 2.0), g * (2.0 - 1.5 * g), 0.5 * f * f)
    return value, slope, (g, 3.0 * f - 2.0, 3.0 * g - 2.0, f)


@njit(cache=True, inner=True, error_model="numpy")
def _cell(s: float, samples: int) -> tuple[int, float]:
    """Return cell and fraction of the grid coordinate `s`, clamped to the map; a NaN stays a NaN in the fraction."""
    if s >= samples - 1:
        return samples - 2, 1.0
    if s > 0.0:
        i = int(s)
        return i, s - i
    return 0, (0.0 if s <= 0.0 else s)


@njit(cache=True, inner=True, error_model="numpy")
def surface(
    parameters: Array, coefficients: Array, x: float, y: float
) -> tuple[float, float, float, float, float, float]:
    """Return the height h of the ground [m] at (x, y) [m], and its derivatives h_x, h_y [-], h_xx, h_xy, h_yy [1/m]."""
    if coefficients.shape[0] == 0:
        nx, ny, nz, offset = parameters[0], parameters[1], parameters[2], parameters[3]
        return (offset - nx * x - ny * y) / nz, -nx / nz, -ny / nz, 0.0, 0.0, 0.0
    return _map_surface(parameters, coefficients, x, y)


@late(lambda *_: types.UniTuple(types.float64, 6))
@njit(cache=True, inner=True, error_model="numpy")
def _map_surface(
    parameters: Array, coefficients: Array, x: float, y: float
) -> tuple[float, float, float, float, float, float]:
    """Return `surface` of a height map."""
    dx, dy = parameters[6], parameters[7]
    i, f = _cell((x - parameters[4]) / dx, coefficients.shape[0] - 2)
    j, g = _cell((y - parameters[5]) / dy, coefficients.shape[1] - 2)
    bx, bx1, bx2 = _basis(f)
    by, by1, by2 = _basis(g)
    h = hx = hy = hxx = hxy = hyy = 0.0
    for k in range(4):
        row = row1 = row2 = 0.0
        for n in range(4):
            c = coefficients[i + k, j + n]
            row += c * by[n]
            row1 += c * by1[n]
            row2 += c * by2[n]
        h += bx[k] * row
        hx += bx1[k] * row
        hxx += bx2[k] * row
        hy += bx[k] * row1
        hxy += bx1[k] * row1
        hyy += bx[k] * row2
    # beyond a border the ground is level across the border
    if not parameters[4] <= x <= parameters[4] + dx * (coefficients.shape[0] - 3):
        hx = hxx = hxy = 0.0
    if not parameters[5] <= y <= parameters[5] + dy * (coefficients.shape[1] - 3):
        hy = hyy = hxy = 0.0
    return h, hx / dx, hy / dy, hxx / (dx * dx), hxy / (dx * dy), hyy / (dy * dy)


@njit(cache=True, error_model="numpy")
def _sample(parameters: Array, coefficients: Array, x: Array, y: Array) -> Array:
    """Return height and slopes at many places, shape (n, 3)."""
    out = np.empty((x.shape[0], 3))
    for i in range(x.shape[0]):
        h, hx, hy, _, _, _ = surface(parameters, coefficients, x[i], y[i])
        out[i, 0], out[i, 1], out[i, 2] = h, hx, hy
    return out


@late(lambda *_: types.UniTuple(types.float64, 2))
@njit(cache=True, inner=True, error_model="numpy")
def nearest_point(parameters: Array, coefficients: Array, cx: float, cy: float, cz: float) -> tuple[float, float]:
    """Return (x, y) of the ground point closest to c: a local minimum of ½|c - (x, y, h(x, y))|² (Newton's method).

    The search starts at the point of the tangent plane below c that is closest to c. Where the Hessian ``I + ∇h∇hᵀ + (h
    - c_z)∇²h`` is not positive definite (c is farther above a hollow than its radius of curvature), its last term is
    omitted. Every step is halved until it descends.
    """
    h, hx, hy, hxx, hxy, hyy = surface(parameters, coefficients, cx, cy)
    x = cx - (h - cz) * hx / (1.0 + hx * hx + hy * hy)
    y = cy - (h - cz) * hy / (1.0 + hx * hx + hy * hy)
    h, hx, hy, hxx, hxy, hyy = surface(parameters, coefficients, x, y)
    value = (x - cx) ** 2 + (y - cy) ** 2 + (h - cz) ** 2
    for _ in range(NEWTON_STEPS):
        up = h - cz
        gx, gy = x - cx + up * hx, y - cy + up * hy
        a, b, d = 1.0 + hx * hx + up * hxx, hx * hy + up * hxy, 1.0 + hy * hy + up * hyy
        if not (a > 0.1 and a * d - b * b > 0.1):
            a, b, d = 1.0 + hx * hx, hx * hy, 1.0 + hy * hy
        determinant = a * d - b * b
        step_x, step_y = (b * gy - d * gx) / determinant, (b * gx - a * gy) / determinant
        size = abs(step_x) + abs(step_y)
        if not size > 1e-15:
            break
        fraction = 1.0
        while True:
            h, hx, hy, hxx, hxy, hyy = surface(parameters, coefficients, x + fraction * step_x, y + fraction * step_y)
            trial = (x + fraction * step_x - cx) ** 2 + (y + fraction * step_y - cy) ** 2 + (h - cz) ** 2
            # the descent of a step below 1e-8 m is smaller than the rounding of the value
            if trial < value or fraction * size < 1e-8:
                break
            fraction *= 0.5
        x, y, value = x + fraction * step_x, y + fraction * step_y, trial
    return x, y


@njit(cache=True, error_model="numpy")
def sphere_gap(
    parameters: Array, coefficients: Array, cx: float, cy: float, cz: float, radius: float
) -> tuple[float, tuple[float, float, float], tuple[float, float, float]]:
    """Return the distance of a sphere from the ground, ``φ = n̂·(c - p) - r`` with p the closest point of the ground.

    Only one contact is returned: a sphere whose radius exceeds the radius of curvature of a hollow has a second
    contact.

    Args:
        parameters: `Terrain.parameters`.
        coefficients: `Terrain.coefficients`.
        cx: Centre of the sphere along the world's x axis [m].
        cy: Centre along y [m].
        cz: Centre along z [m].
        radius: Radius of the sphere, 0 for a point [m].

    Returns:
        Gap φ [m], unit normal n̂ of the ground at p, contact point ``c - r n̂`` [m].
    """
    if coefficients.shape[0] == 0:
        nx, ny, nz = parameters[0], parameters[1], parameters[2]
        gap = nx * cx + ny * cy + nz * cz - parameters[3] - radius
    else:
        x, y = nearest_point(parameters, coefficients, cx, cy, cz)
        h, hx, hy, _, _, _ = surface(parameters, coefficients, x, y)
        nz = 1.0 / np.sqrt(1.0 + hx * hx + hy * hy)
        nx, ny = -hx * nz, -hy * nz
        gap = nx * (cx - x) + ny * (cy - y) + nz * (cz - h) - radius
    return gap, (nx, ny, nz), (cx - radius * nx, cy - radius * ny, cz - radius * nz)
