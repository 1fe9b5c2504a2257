"""The paper's quadruped in a bowl: each foot touches its own tangent plane, which tests can turn."""

import numpy as np

from idcontrol.contact.spheres import SphereContacts
from idcontrol.contact.terrain import height_map, plane
from idcontrol.dynamics.system import System
from tests import scenes


def feet(system: System, q: np.ndarray, mu: float) -> tuple[SphereContacts, np.ndarray]:
    """Feet in a bowl of radius 1 m, detected at the configuration q lowered until the last foot touches."""
    side = np.linspace(-1.0, 1.0, 41)
    ground = height_map(0.5 * (side[:, None] ** 2 + side**2), 0.05)
    place, q = SphereContacts(system, scenes.FEET, scenes.RADIUS, ground, mu), q.copy()
    for _ in range(2):
        system.update(q, np.zeros(18))
        place.detect(np.inf)
        q[2] -= (place.gap / place.axes[:, 0, 2]).max()
    system.update(q, np.zeros(18))
    place.detect(np.inf)
    return place, q


def along(place: SphereContacts, q: np.ndarray, v: np.ndarray, n: int) -> np.ndarray:
    """Velocity v without the velocities of the first n feet across the ground."""
    place.system.update(q, np.zeros(18))
    normals = place.detect(np.inf).N[:n]
    return v - np.linalg.pinv(normals) @ (normals @ v)


def turned(system: System, place: SphereContacts, turn: np.ndarray) -> SphereContacts:
    """Feet of `system` on the tangent planes of `place`, turned by `turn` (4, 2) [rad] at constant gaps."""
    normals = place.axes[:, 0] + np.einsum("ib,ibx->ix", turn, place.axes[:, 1:])
    normals /= np.linalg.norm(normals, axis=1)[:, None]
    offsets = np.einsum("ix,ix->i", normals, place.centre) - place.radius - place.gap
    walls = np.column_stack((normals, offsets))
    return SphereContacts(system, scenes.FEET, scenes.RADIUS, plane(offset=-5.0), place.mu, walls=walls)
