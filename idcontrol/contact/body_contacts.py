"""Contacts of many free bodies with each other, obstacles and the ground; their Jacobian rows are sparse."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from idcontrol.contact.contacts import Contacts, axes_of
from idcontrol.contact.detection import Detection, contact_points, put, unmeasured, untracked
from idcontrol.contact.distance import candidate_pairs
from idcontrol.contact.manifold import Pairs, Tracked
from idcontrol.contact.terrain import Terrain
from idcontrol.dynamics.bodies import Body, Obstacle, Surface, rotations
from idcontrol.errors import InputError
from idcontrol.kernels.bound import Bound, bind
from idcontrol.kernels.jit import njit
from idcontrol.types import Array, Integers

WORLD = -1
"""Stands for the ground and obstacles in place of the index of body B."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BodyContacts:
    """The n contact points of one step, each with rows for the two bodies that touch.

    Attributes:
        identity: Number of each contact, the same from step to step, shape (n,).
        body: Bodies A (pushed along the normal) and B, shape (n, 2); B is `WORLD` if it does not move.
        point: Contact points, world frame, shape (n, 3) [m].
        axes: Rows are normal (to body A), first and second tangent, world frame, right-handed, shape (n, 3, 3).
        gap: Signed distance, shape (n,) [m].
        mu: Friction coefficients, shape (n,).
        stiffness: Normal stiffness, shape (n,) [N/m]; inf is rigid.
        damping: Normal damping, shape (n,) [N s/m].
        rows: Normal, first and second tangential row of body A and of body B, for velocities of
            `idcontrol.dynamics.bodies`, shape (n, 2, 3, 6). Rows of B include the minus sign, and are zero for the
            world.
    """

    identity: Integers
    body: Integers
    point: Array
    axes: Array
    gap: Array
    mu: Array
    stiffness: Array
    damping: Array
    rows: Array

    def __len__(self) -> int:
        return len(self.identity)

    def dense(self, bodies: int) -> Contacts:
        """Return these contacts with dense rows, for the velocities of all `bodies` bodies."""
        n = len(self)
        rows = np.zeros((3, n, bodies, 6))
        each = np.arange(n)
        for side in range(2):
            there = self.body[:, side] != WORLD
            rows[:, each[there], self.body[there, side]] += self.rows[there, side].swapaxes(0, 1)
        return Contacts(
            identity=self.identity,
            point=self.point,
            axes=self.axes,
            gap=self.gap,
            mu=self.mu,
            jacobian=rows.reshape(3 * n, 6 * bodies),
            stiffness=self.stiffness,
            damping=self.damping,
        )


class BodyArrays(NamedTuple):
    """Fields of `BodyContacts` for compiled code."""

    identity: Integers
    body: Integers
    point: Array
    axes: Array
    gap: Array
    mu: Array
    stiffness: Array
    damping: Array
    rows: Array


class _Surfaces(NamedTuple):
    """Surfaces of all shapes; the last entry is for the ground.

    Attributes:
        body: Body that carries the surface; `WORLD` if it does not move.
        mu: Friction coefficients.
        softness: Inverse stiffness [m/N]; 0 is rigid.
        damping: Normal damping [N s/m].
    """

    body: Integers
    mu: Array
    softness: Array
    damping: Array


class _Scene(NamedTuple):
    """All g shapes of a scene; the shapes of bodies come first.

    Attributes:
        detection: `Detection.scene`.
        surfaces: Surfaces of the shapes and the ground.
        position: Origins of the shapes, world frame, shape (g, 3) [m].
        rotation: Axes of the shapes (columns), shape (g, 3, 3).
        reach: Largest motion of each shape, shape (g,) [m]; 0 for fixed shapes.
    """

    detection: Bound
    surfaces: _Surfaces
    position: Array
    rotation: Array
    reach: Array


class BodyDetector:
    """Detector of the contacts of free bodies.

    Attributes:
        detection: The shapes.
        scene: The argument of `candidates` and `touching`.
    """

    def __init__(
        self,
        bodies: Sequence[Body],
        obstacles: Sequence[Obstacle] = (),
        *,
        terrain: Terrain | None = None,
        ground: Surface | None = None,
    ) -> None:
        """Prepare the shapes.

        Args:
            bodies: The bodies; each can touch every other body.
            obstacles: Shapes that do not move.
            terrain: Ground; None for no ground.
            ground: Material of the ground; None for a rigid surface with the friction of the body that touches it.

        Raises:
            InputError: A shape is of an unsupported kind, has no volume or is not finite, or the pose of an obstacle is
                unusable.
        """
        for obstacle in obstacles:
            place = np.concatenate([np.asarray(obstacle.position, float), np.asarray(obstacle.orientation, float)])
            if place.shape != (7,) or not np.isfinite(place).all() or not np.abs(place[3:]).max() > 0.0:
                raise InputError(f"obstacle {obstacle.name!r}: position and quaternion must be seven finite numbers")
        things: list[Body | Obstacle] = [*bodies, *obstacles]
        n, count = len(bodies), len(things)
        self._n = n
        self.detection = Detection(
            [thing.shape for thing in things], [thing.name for thing in things], np.arange(n), terrain
        )
        every = [*(thing.surface for thing in things), Surface(mu=np.inf) if ground is None else ground]
        body: Integers = np.full(count + 1, WORLD, dtype=np.int64)
        body[:n] = np.arange(n)
        surfaces = _Surfaces(
            body=body,
            mu=np.array([surface.mu for surface in every]),
            softness=np.array([1.0 / surface.stiffness for surface in every]),
            damping=np.array([surface.damping for surface in every]),
        )
        position, rotation = np.zeros((count, 3)), np.zeros((count, 3, 3))
        if obstacles:
            position[n:] = [obstacle.position for obstacle in obstacles]
            rotation[n:] = rotations(np.array([obstacle.orientation for obstacle in obstacles], float))
        self.scene: Bound = bind(_Scene(self.detection.scene, surfaces, position, rotation, np.zeros(count)))
        self.reset()

    @property
    def radius(self) -> Array:
        """Return the radius of a sphere around each body, shape (n,) [m]."""
        return self.detection.shapes.radius[: self._n]

    def reset(self) -> None:
        """Forget the contacts of the last step."""
        self._tracked = untracked()

    def detect(self, position: Array, rotation: Array, reach: Array) -> BodyContacts:
        """Return the contacts whose gap is below the sum of both bodies' reach.

        Args:
            position: Centres of mass, world frame, shape (n, 3) [m].
            rotation: Axes of the bodies (columns), shape (n, 3, 3).
            reach: Largest motion of each body, shape (n,) [m].
        """
        pairs = candidates(self.scene, position, rotation, reach)
        self.detection.measure(pairs)
        points, self._tracked = touching(self.scene, pairs, self._tracked)
        return BodyContacts(**points._asdict())


@njit(cache=True, error_model="numpy")
def candidates(bound: Bound, position: Array, rotation: Array, reach: Array) -> Pairs:
    """Place the bodies of a scene (arguments as for `BodyDetector.detect`); return candidate pairs of shapes."""
    scene = bound.borrowed
    for i in range(position.shape[0]):
        scene.reach[i] = reach[i]
        for k in range(3):
            scene.position[i, k] = position[i, k]
            for j in range(3):
                scene.rotation[i, k, j] = rotation[i, k, j]
    put(scene.detection, scene.position, scene.rotation)
    _, placed, _, _ = scene.detection.borrowed
    pair = candidate_pairs(placed.low, placed.high, scene.reach, scene.surfaces.body)
    margin = np.empty(pair.shape[0])
    for i in range(pair.shape[0]):
        margin[i] = scene.reach[pair[i, 0]] + scene.reach[pair[i, 1]]
    return unmeasured(pair, margin)


@njit(cache=True, error_model="numpy")
def touching(bound: Bound, pairs: Pairs, before: Tracked) -> tuple[BodyArrays, Tracked]:
    """Return the contacts of a scene, and the record by which the next step matches them.

    Args:
        bound: The scene, placed.
        pairs: From `candidates`; distances without a closed form must have been measured.
        before: Contacts of the previous step.
    """
    scene = bound.borrowed
    points, now = contact_points(scene.detection, pairs, scene.reach, before)
    axes = axes_of(points.normal, 0.0)
    body, mu, stiffness, damping = _pair_up(scene.surfaces, points.shape)
    rows = _rows(body, scene.position, points.point, axes)
    return BodyArrays(points.identity, body, points.point, axes, points.gap, mu, stiffness, damping, rows), now


@njit(cache=True, inner=True, error_model="numpy")
def _pair_up(surfaces: _Surfaces, shape: Integers) -> tuple[Integers, Array, Array, Array]:
    """Return bodies, friction, stiffness and damping of each contact from its surfaces, (n, 2), (n,), (n,), (n,).

    The springs of both surfaces are in series, so their compliances 1/K add. Dampers are in series, too. A rigid
    surface does not yield, so only the damper of the other surface counts.
    """
    n = shape.shape[0]
    body, mu, stiffness, damping = np.empty((n, 2), np.int64), np.empty(n), np.empty(n), np.empty(n)
    for i in range(n):
        soft, yields, least = 0.0, 0.0, np.inf
        for side in range(2):
            g = shape[i, side]  # GROUND is -1, the last entry
            body[i, side] = surfaces.body[g]
            least = min(least, surfaces.mu[g])
            soft += surfaces.softness[g]
            if surfaces.softness[g] > 0.0:
                yields += 1.0 / surfaces.damping[g]
        mu[i], stiffness[i] = least, 1.0 / soft
        damping[i] = 1.0 / yields if soft > 0.0 else 0.0
    return body, mu, stiffness, damping


@njit(cache=True, inner=True, error_model="numpy")
def _rows(body: Integers, position: Array, point: Array, axes: Array) -> Array:
    """Return `BodyContacts.rows`: ``axis · (v + ω × r)`` for A, and minus this for B, shape (n, 2, 3, 6).

    r is the vector from the body's centre of mass, in `position` (bodies, 3) [m], to the contact point.
    """
    rows = np.empty((body.shape[0], 2, 3, 6))
    for i in range(body.shape[0]):
        for side in range(2):
            b, sign = body[i, side], 1.0 - 2.0 * side
            if b < 0:
                rows[i, side] = 0.0
                continue
            rx, ry, rz = point[i, 0] - position[b, 0], point[i, 1] - position[b, 1], point[i, 2] - position[b, 2]
            for k in range(3):
                ax, ay, az = sign * axes[i, k, 0], sign * axes[i, k, 1], sign * axes[i, k, 2]
                rows[i, side, k, 0], rows[i, side, k, 1], rows[i, side, k, 2] = ax, ay, az
                rows[i, side, k, 3] = ry * az - rz * ay
                rows[i, side, k, 4] = rz * ax - rx * az
                rows[i, side, k, 5] = rx * ay - ry * ax
    return rows
