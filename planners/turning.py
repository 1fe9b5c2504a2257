"""Yaw moments of a walk: the friction that turning and swinging legs take from the standing feet.

The horizontal force of a motion by the divergent component of motion passes through the zero-moment point. The moment
of the stance feet about the vertical through this point therefore only changes the angular momentum k about the centre
of mass. For a base that turns at ω, and swinging feet that move at v_i and turn at ω_i relative to the ground,

    k = J ω + Σ h_i (v_i, ω_i)

J and h_i follow from the centroidal momentum matrix in the home pose (Orin, Goswami & Lee 2013, Centroidal dynamics of
a humanoid robot). The effect of the base's velocity cancels for symmetric legs. All horizontal motions and turns in a
step have one minimum-jerk profile, and all feet rise alike, so two constants describe the yaw moment of a step.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from idcontrol.planners.dcm import Footstep, Twist
from idcontrol.types import Array

FLAT_M: Final = 1e-6
"""Contact points closer than this to a line are on it [m]."""


class YawInertia(NamedTuple):
    """Yaw inertia of a machine on n feet in its home pose, in the axes of its base.

    Attributes:
        mass: Mass of the machine [kg].
        base: J, the angular momentum per yaw rate of the base while all feet stay in place [kg m²].
        feet: h_i, the angular momentum per velocity and yaw rate of each foot while the base stays in place, shape
            (n, 4): x, y, z, yaw [kg m, kg m, kg m, kg m²].
        corners: Contact points of each foot relative to its centre, n arrays of shape (k_i, 2) [m].
    """

    mass: float
    base: float
    feet: Array
    corners: Sequence[Array]


def twists(steps: Sequence[Footstep], feet: Array, height_m: float, inertia: YawInertia) -> list[Twist]:
    """Return the yaw moment of each step, and how contact points can share it.

    Args:
        steps: The steps.
        feet: Poses (x, y, yaw) of the n feet at the start, shape (n, 3) [m, m, rad].
        height_m: Height of a swing [m].
        inertia: The machine.
    """
    feet, out = feet.copy(), []
    for step in steps:
        swinging = list(step.feet)
        change = step.places - feet[swinging]
        turned = change @ _about(-feet[:, 2].mean())  # in the axes of the base
        moved = inertia.base * change[:, 2].sum() / len(feet) + np.sum(inertia.feet[swinging][:, [0, 1, 3]] * turned)
        raised = height_m * inertia.feet[swinging, 2].sum()
        stands = [foot for foot in range(len(feet)) if foot not in step.feet]
        points = np.vstack([feet[i, :2] + inertia.corners[i] @ _about(feet[i, 2])[:2, :2] for i in stands])
        tips = bool(np.linalg.matrix_rank(points - points.mean(axis=0), tol=FLAT_M) < 2)
        out.append(Twist(float(moved) / inertia.mass, float(raised) / inertia.mass, spreads(points), tips))
        feet[swinging] = step.places
    return out


def spreads(points: Array) -> Array:
    """Return sets of horizontal forces on k contact points with a total moment of k about the vertical and no sum.

    The forces act across the arms from the centre of all points in proportion to their lengths, or have only the x or
    the y component of these forces; shape (c, k, 2) [1/m] with at most three sets. Sets without a moment are left out.

    Args:
        points: The points, shape (k, 2) [m].
    """
    arms = points - points.mean(axis=0)
    across = np.column_stack([-arms[:, 1], arms[:, 0]])
    sets = [across * axes for axes in ((1.0, 1.0), (1.0, 0.0), (0.0, 1.0))]
    moments = [float(np.mean(np.sum(forces * across, axis=1))) for forces in sets]
    fit = [forces / m for forces, m in zip(sets, moments, strict=True) if m > 0.01 * max(moments)]
    return np.array(fit).reshape(-1, *points.shape)


def _about(yaw: float) -> Array:
    """Return the matrix that turns rows (x, y, yaw) by `yaw` [rad], shape (3, 3)."""
    c, s = math.cos(yaw), math.sin(yaw)
    return np.array([[c, s, 0.0], [-s, c, 0.0], [0.0, 0.0, 1.0]])
