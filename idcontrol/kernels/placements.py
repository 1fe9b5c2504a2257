"""Array views of Pinocchio's vectors of placements: reading a single placement from Python costs 1.5 µs."""

from __future__ import annotations

from typing import Any

import numpy as np

from idcontrol.types import Array

_TRANSLATION_AT = 72
"""Bytes from the beginning of an SE3 to its translation, after nine doubles of rotation by columns."""


def placement_views(placements: Any) -> tuple[Array, Array]:
    """Return positions (n, 3) [m] and rotations (n, 3, 3) of a vector of SE3 as strided views.

    Raises:
        RuntimeError: Pinocchio's layout of placements is not the expected one.
    """
    n = len(placements)
    if n == 0:
        return np.zeros((0, 3)), np.zeros((0, 3, 3))
    first, origin = placements[0].rotation, placements[0].translation
    start = [placements[i].rotation.__array_interface__["data"][0] for i in range(n)]
    shift = [placements[i].translation.__array_interface__["data"][0] - start[i] for i in range(n)]
    stride = start[1] - start[0] if n > 1 else 0
    if start != [start[0] + i * stride for i in range(n)] or set(shift) != {_TRANSLATION_AT}:
        raise RuntimeError("this build of Pinocchio lays out placements in an unknown way; please report its version")
    if not first.flags.f_contiguous:
        raise RuntimeError("this build of Pinocchio stores rotations in an unknown way; please report its version")
    rotation = np.lib.stride_tricks.as_strided(first, shape=(n, 3, 3), strides=(stride, 8, 24))
    position = np.lib.stride_tricks.as_strided(origin, shape=(n, 3), strides=(stride, 8))
    return position, rotation
