"""Compare the feet that stand with each other: an encoder that slips on its joint.

The points of the ground below two feet that stand do not move relative to each other. Joints and gyroscope say how fast
they do: u = J v, with the base's linear velocity left out. Among the points that stand, differences of u from its mean
are noise, a foot that slides, or the error ω of one joint's velocity, ``u - ū = (J_j - J̄_j) ω``. By least squares over
`SPAN_S`,

    ω_j = Σ (J_j - J̄_j)ᵀ (u - ū) / Σ ‖J_j - J̄_j‖².

The encoder of the joint that explains most of ``Σ ‖u - ū‖²`` slips if this is more than `EXPLAINED` and ω is more than
`RATE`. Friction opposes a foot that slides, so motion against the tangential forces f is not reported:
``Σ f · (u - ū) < -SLIDES Σ ‖f‖ ‖u - ū‖``. Without this, a robot that turns on ice would look like a slip at a hip.

Drives and controller believe such an encoder, and a velocity that matches its position contradicts nothing else.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from idcontrol.kernels.jit import njit
from idcontrol.types import Array

SPAN_S: Final = 0.1
"""Time constant of the sums, in time in which two points stand [s]."""
LOADED: Final = 0.6
"""Normal force of a point that stands, as a share of the weight over the number of all points."""
LANDED_S: Final = 0.03
"""Time for which a point must be loaded before it counts as standing [s]: filters forget the landing."""
RATE: Final = 0.1
"""Smallest error of a joint's velocity that is reported [rad/s or m/s]; 12-bit encoders show 0.12 in walks of `links`,
but explain less than half."""
EXPLAINED: Final = 0.85
"""Smallest share of the differences that the error explains. Feet that slide at frictions of 0.1 to 0.2 show 0.68, in
rare cases 0.87."""
SLIDES: Final = 0.8
"""Smallest cosine between friction and motion of a foot that slides."""
LEVER: Final = 0.05
"""Smallest lever arm of a joint that is judged [m]."""


class Stance(NamedTuple):
    """Sums over the time in which at least two of k points stand; a joints.

    Attributes:
        loaded: Time for which each point has been loaded, shape (k,) [s].
        u: Velocities of the points without the base's linear velocity, axes of the base, shape (3 k,) [m/s].
        sums: Sums of time [s], ``‖u - ū‖²`` [m²/s], ``f · (u - ū)`` [N m] and ``‖f‖ ‖u - ū‖`` [N m], shape (4,).
        squares: Sum of ``‖J_j - J̄_j‖²``, shape (a,) [m² s].
        products: Sum of ``(J_j - J̄_j)ᵀ (u - ū)``, shape (a,) [m²].
    """

    loaded: Array
    u: Array
    sums: Array
    squares: Array
    products: Array


def nobody(points: int, joints: int) -> Stance:
    """Return a `Stance` before any point stands."""
    return Stance(np.zeros(points), np.zeros(3 * points), np.zeros(4), *np.zeros((2, joints)))


@njit(cache=True, inner=True, error_model="numpy")
def stand(
    stance: Stance, B: Array, force: Array, up: Array, weight: float, v: Array, h: float
) -> int:  # pragma: no cover - compiled
    """Update the velocities u, and the time for which points have been loaded; return how many stand.

    Arguments have the same names as in `slipping`.
    """
    count, points = 0, stance.loaded.shape[0]
    for k in range(points):
        load = 0.0
        for r in range(3 * k, 3 * k + 3):
            load += force[r] * up[r - 3 * k]
            stance.u[r] = 0.0
            for i in range(3, v.shape[0]):
                stance.u[r] += B[r, i] * v[i]
        stance.loaded[k] = stance.loaded[k] + h if load * points > LOADED * weight else 0.0
        count += stance.loaded[k] > LANDED_S
    return count


@njit(cache=True, inner=True, error_model="numpy")
def center(stance: Stance, force: Array, up: Array, count: int, h: float) -> None:  # pragma: no cover - compiled
    """Subtract the mean from u of the `count` points that stand, and update `Stance.sums`.

    Other arguments have the same names as in `stand`.
    """
    u, sums = stance.u, stance.sums
    for x in range(3):
        mean = 0.0
        for k in range(stance.loaded.shape[0]):
            if stance.loaded[k] > LANDED_S:
                mean += u[3 * k + x] / count
        for k in range(stance.loaded.shape[0]):
            u[3 * k + x] -= mean
    sums[:] /= 1.0 + h / SPAN_S
    sums[0] += h
    for k in range(stance.loaded.shape[0]):
        if stance.loaded[k] > LANDED_S:
            square, load, friction, work = 0.0, 0.0, 0.0, 0.0
            for x in range(3):
                load += force[3 * k + x] * up[x]
            for x in range(3):
                tangent = force[3 * k + x] - load * up[x]
                square += u[3 * k + x] ** 2
                friction += tangent**2
                work += tangent * u[3 * k + x]
            sums[1] += h * square
            sums[2] += h * work
            sums[3] += h * np.sqrt(friction * square)


@njit(cache=True, inner=True, error_model="numpy")
def slipping(
    stance: Stance, B: Array, scale: Array, force: Array, up: Array, weight: float, v: Array, h: float
) -> int:  # pragma: no cover - compiled
    """Update the sums with the next velocities; return the joint whose encoder slips, or -1.

    Args:
        stance: The sums.
        B: Jacobians of the points, axes of the base, with columns times `scale`, shape (3 k, m); the last a are joints.
        scale: Shape (m,).
        force: Forces on the points, shape (3 k,) [N].
        up: Vertical direction, shape (3,).
        weight: Weight of the robot [N].
        v: Velocities over `scale`, shape (m,); the base has no linear velocity.
        h: Time since the last call [s].
    """
    squares, products, sums = stance.squares, stance.products, stance.sums
    count = stand(stance, B, force, up, weight, v, h)
    if count < 2:
        return -1
    center(stance, force, up, count, h)
    slips, most, kept = -1, EXPLAINED * sums[1], 1.0 / (1.0 + h / SPAN_S)
    for j in range(squares.shape[0]):
        i = v.shape[0] - squares.shape[0] + j
        square, product = 0.0, 0.0
        for x in range(3):
            total = 0.0
            for k in range(stance.loaded.shape[0]):
                if stance.loaded[k] > LANDED_S:
                    b = B[3 * k + x, i]
                    total += b
                    square += b * b
                    product += b * stance.u[3 * k + x]  # the sum of u is zero, so J̄ does not matter
            square -= total * total / count
        squares[j] = kept * squares[j] + h * square / scale[i] ** 2
        products[j] = kept * products[j] + h * product / scale[i]
        if squares[j] > LEVER**2 * sums[0] and products[j] ** 2 / squares[j] > most:
            slips, most = j, products[j] ** 2 / squares[j]
    if slips < 0 or sums[0] < 0.8 * SPAN_S or sums[2] < -SLIDES * sums[3]:
        return -1
    return slips if abs(products[slips]) > RATE * squares[slips] else -1
