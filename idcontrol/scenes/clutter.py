"""Balls and boxes dropped into a container, or on open ground, simulated with SAP (Castro et al. 2022, section X-C)."""

import coal
import numpy as np

from idcontrol.contact.terrain import plane
from idcontrol.dynamics.bodies import BodyState, Obstacle, Surface, solid
from idcontrol.models import sap
from idcontrol.plants.bodies import FreeBodies

GRAVITY = 9.81
RADIUS_M, SIDE_M, DENSITY_KG_M3 = 0.05, 0.1, 1000.0
"""Radius of the balls [m], side of the boxes [m], density of both [kg/m³]."""

CONTAINER_M, WALL_M = 0.8, 0.1
"""Inner width and height of the container, and thickness of its walls [m]."""

COLUMNS = 4
SPACING_M = 0.18
"""Distance between the bodies of a column [m]; at this distance boxes do not touch in any orientation."""

PARAMETERS = sap.Parameters(tolerance=1e-5)
"""SAP's parameters in Castro et al. 2022, section X-C."""


def drop(
    bodies: int,
    *,
    walls: bool,
    seed: int = 0,
    step_s: float = 0.01,
    mu: float = 1.0,
    stiffness_n_m: float = 1e12,
    parameters: sap.Parameters = PARAMETERS,
) -> tuple[FreeBodies, BodyState]:
    """Return the plant and its start: columns of balls and boxes above the ground.

    Args:
        bodies: Number of bodies.
        walls: True for a container.
        seed: Determines which bodies are balls, and all orientations.
        step_s: Time step; it also determines the damping of the surfaces.
        mu: Friction of all surfaces.
        stiffness_n_m: Stiffness of every surface; the default is near-rigid.
        parameters: SAP's β, σ and tolerance.
    """
    rng = np.random.default_rng(seed)
    surface = Surface(mu=mu, stiffness=stiffness_n_m, damping=stiffness_n_m * step_s)
    ball, box = coal.Sphere(RADIUS_M), coal.Box(SIDE_M, SIDE_M, SIDE_M)
    shapes = [ball if rng.random() < 0.5 else box for _ in range(bodies)]
    column = np.arange(bodies) % COLUMNS
    quarter = 0.25 * CONTAINER_M
    position = np.column_stack(
        [
            quarter * (2.0 * (column % 2) - 1.0),
            quarter * (2.0 * (column // 2) - 1.0),
            SIDE_M + SPACING_M * (np.arange(bodies) // COLUMNS),
        ]
    )
    orientation = rng.normal(size=(bodies, 4))

    plant = FreeBodies(
        [solid(f"body{i}", shape, DENSITY_KG_M3, surface) for i, shape in enumerate(shapes)],
        sap.Sparse(parameters),
        obstacles=_walls(surface) if walls else (),
        terrain=plane(),
        ground=surface,
        gravity=(0.0, 0.0, -GRAVITY),
    )
    return plant, BodyState.at_rest(position, orientation / np.linalg.norm(orientation, axis=1)[:, None])


def _walls(surface: Surface) -> list[Obstacle]:
    middle, length = 0.5 * (CONTAINER_M + WALL_M), CONTAINER_M + 2.0 * WALL_M
    sides = [(1.0, 0.0), (-1.0, 0.0), (0.0, 1.0), (0.0, -1.0)]
    return [
        Obstacle(
            name=f"wall{i}",
            shape=coal.Box(WALL_M if x else length, WALL_M if y else length, CONTAINER_M),
            position=np.array([middle * x, middle * y, 0.5 * CONTAINER_M]),
            surface=surface,
        )
        for i, (x, y) in enumerate(sides)
    ]
