"""A jar full of marbles with a lid, a bowl and a table, made of boxes and spheres.

The jar is a prism with eight walls on a square foot. The lid is a plate with a handle and a ring of round pegs.
The pegs reach into the mouth, centre the lid and keep it from sliding off; lid and jar touch at some thirty points.
The bowl has eight sloping walls. Each body's frame is at its centre of mass.
"""

from collections.abc import Iterator
from typing import Any, TypeAlias

import coal
import numpy as np

from idcontrol.dynamics.bodies import BodyState
from idcontrol.models.sparse import WORLD
from idcontrol.plants.trees import Mass, Part
from idcontrol.types import Array, Booleans

SIDES = 8
INNER_M, WALL_M, FOOT_M, HEIGHT_M = 0.036, 0.003, 0.004, 0.152
"""The jar: distance of the inner walls from the axis, thickness of walls and foot, height without lid."""

OUTER_M = INNER_M + WALL_M
JAR_KG, LID_KG, BOWL_KG = 0.25, 0.08, 0.4
PLATE_M, PEG_M, PEG_DOWN_M, PEG_PLAY_M = 0.005, 0.005, 0.003, 0.001
HANDLE_M = (0.03, 0.03, 0.095)
MARBLES, MARBLE_KG, MARBLE_M = 16, 0.05, 0.014
"""Number, mass and radius of the marbles; the paper does not state the radius."""

BOWL_INNER_M, BOWL_WALL_M, BOWL_SLOPE = 0.055, 0.09, np.pi / 6
"""The bowl: half width of its foot, length of its walls, their angle from upright."""

JAR, LID, BOWL, FIRST_MARBLE = 0, 1, 2, 3
"""Numbers of the bodies."""

JAR_CENTRE_M = 0.07
_BOWL_CENTRE_M = 0.03
_LID_CENTRE_M = 0.02
"""Height of the centre of mass above the underside of the jar, the bowl and the lid's plate [m]."""

SEAT = np.array([0.0, 0.0, HEIGHT_M - JAR_CENTRE_M + _LID_CENTRE_M])
"""Position of the seated lid in the jar's frame, shape (3,) [m]."""


def masses() -> list[Mass]:
    """Return the bodies: jar, lid, bowl, marbles."""
    tube = JAR_KG * np.array([0.5 * OUTER_M**2 + HEIGHT_M**2 / 12.0] * 2 + [OUTER_M**2])
    lid = LID_KG * np.array([OUTER_M**2 / 3.0 + HANDLE_M[2] ** 2 / 12.0] * 2 + [2.0 / 3.0 * OUTER_M**2])
    bowl = BOWL_KG * 0.08**2 * np.array([0.6, 0.6, 1.0])
    ball = 0.4 * MARBLE_KG * MARBLE_M**2 * np.ones(3)
    return [
        Mass("jar", JAR_KG, np.diag(tube)),
        Mass("lid", LID_KG, np.diag(lid)),
        Mass("bowl", BOWL_KG, np.diag(bowl)),
        *(Mass(f"marble{i}", MARBLE_KG, np.diag(ball)) for i in range(MARBLES)),
    ]


_Placed: TypeAlias = tuple[str, Any, int, Any, Array]
"""Name, shape, body, position and axes of a part."""


def parts(first: int, mu: float, mu_marble: float, table: tuple[Array, Array]) -> list[Part]:
    """Return the table and the parts of all bodies.

    Args:
        first: Number of the first body's tree in the plant.
        mu: Friction of jar, lid, bowl and table.
        mu_marble: Friction of marbles.
        table: Lowest and highest corner of the table, shapes (3,) [m].
    """
    low, high = table
    marble, origin = coal.Sphere(MARBLE_M), (0.0, 0.0, 0.0)
    placed: list[_Placed] = [("table", coal.Box(*(high - low)), WORLD - first, 0.5 * (low + high), np.eye(3))]
    placed += _jar_lid_and_bowl()
    placed += [(f"marble{i}", marble, FIRST_MARBLE + i, origin, np.eye(3)) for i in range(MARBLES)]
    return [
        Part(
            name=name,
            shape=shape,
            tree=first + body,
            position=np.array(at),
            rotation=turn,
            mu=mu_marble if shape is marble else mu,
        )
        for name, shape, body, at, turn in placed
    ]


def _jar_lid_and_bowl() -> Iterator[_Placed]:
    """Yield the parts of jar, lid and bowl."""
    level = np.eye(3)
    half = HEIGHT_M - FOOT_M
    down = -JAR_CENTRE_M
    yield "jar_foot", coal.Box(2 * OUTER_M, 2 * OUTER_M, FOOT_M), JAR, (0.0, 0.0, down + 0.5 * FOOT_M), level
    side = 2.0 * OUTER_M * np.tan(np.pi / SIDES)
    for i in range(SIDES):
        angle = 2.0 * np.pi * i / SIDES
        c, s = np.cos(angle), np.sin(angle)
        r = INNER_M + 0.5 * WALL_M
        wall = coal.Box(WALL_M, side, half)
        yield f"jar_wall{i}", wall, JAR, (r * c, r * s, down + FOOT_M + 0.5 * half), _about_z(angle)
        r = INNER_M - PEG_M - PEG_PLAY_M
        yield f"lid_peg{i}", coal.Sphere(PEG_M), LID, (r * c, r * s, -_LID_CENTRE_M - PEG_DOWN_M), level
        width = 2.0 * (BOWL_INNER_M + BOWL_WALL_M * np.sin(BOWL_SLOPE)) * np.tan(np.pi / SIDES)
        out_r = BOWL_INNER_M + 0.5 * BOWL_WALL_M * np.sin(BOWL_SLOPE)
        up = -_BOWL_CENTRE_M + FOOT_M + 0.5 * BOWL_WALL_M * np.cos(BOWL_SLOPE)
        tilt = _about_z(angle) @ _about_y(BOWL_SLOPE)
        yield f"bowl_wall{i}", coal.Box(WALL_M, width, BOWL_WALL_M), BOWL, (out_r * c, out_r * s, up), tilt
    plate = coal.Box(2 * OUTER_M, 2 * OUTER_M, PLATE_M)
    yield "lid_plate", plate, LID, (0.0, 0.0, -_LID_CENTRE_M + 0.5 * PLATE_M), level
    yield "lid_handle", coal.Box(*HANDLE_M), LID, (0.0, 0.0, -_LID_CENTRE_M + PLATE_M + 0.5 * HANDLE_M[2]), level
    foot = 2.0 * BOWL_INNER_M
    yield "bowl_foot", coal.Box(foot, foot, FOOT_M), BOWL, (0.0, 0.0, -_BOWL_CENTRE_M + 0.5 * FOOT_M), level


def start(jar: Array, bowl: Array) -> BodyState:
    """Return the bodies before settling: the closed jar with its marbles in four layers, and the bowl.

    Args:
        jar: Position of the jar, shape (3,) [m].
        bowl: Position of the bowl, shape (3,) [m].
    """
    layers = []
    for i in range(MARBLES):
        angle = 0.25 * np.pi * (2.0 * (i % 4) + i // 4 % 2) + 0.1
        r = 1.02 * np.sqrt(2.0) * MARBLE_M
        height = FOOT_M + 1.02 * MARBLE_M + 0.0265 * (i // 4)
        layers.append(jar + np.array([r * np.cos(angle), r * np.sin(angle), height]))
    up = np.array([0.0, 0.0, 1.0])
    return BodyState.at_rest(
        np.array([jar + JAR_CENTRE_M * up, jar + (HEIGHT_M + _LID_CENTRE_M) * up, bowl + _BOWL_CENTRE_M * up, *layers])
    )


def in_bowl(points: Array) -> Booleans:
    """True if points in the bowl's frame, shape (n, 3) [m], are within its walls and below its rim; shape (n,)."""
    height = points[:, 2] + _BOWL_CENTRE_M - FOOT_M
    rim = BOWL_WALL_M * np.cos(BOWL_SLOPE)
    wide = BOWL_INNER_M + height * np.tan(BOWL_SLOPE)
    return (height > 0.0) & (height < rim) & (np.hypot(points[:, 0], points[:, 1]) < wide)


def _about_z(angle: float) -> Array:
    c, s = np.cos(angle), np.sin(angle)
    return np.array([[c, -s, 0.0], [s, c, 0.0], [0.0, 0.0, 1.0]])


def _about_y(angle: float) -> Array:
    c, s = np.cos(angle), np.sin(angle)
    return np.array([[c, 0.0, s], [0.0, 1.0, 0.0], [-s, 0.0, c]])
