"""Contacts of many free bodies with each other, with obstacles and with the ground; their rows are in blocks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from idcontrol.bodies import Body, Obstacle, Surface, rotations
from idcontrol.contact.contacts import Contacts, axes_of
from idcontrol.contact.detection import Detection
from idcontrol.contact.distance import near_pairs
from idcontrol.contact.terrain import Terrain
from idcontrol.errors import InputError
from idcontrol.kernels.jit import njit
from idcontrol.types import Array, Integers

WORLD = -1
"""Stands for body B where that is the ground or an obstacle."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BodyContacts:
    """The n contact points of one step; the rows are in blocks of the two bodies that touch.

    Attributes:
        identity: Number of each contact, the same from step to step, shape (n,).
        body: Bodies A (pushed along the normal) and B, shape (n, 2); `WORLD` where B does not move.
        point: Contact points, world frame, shape (n, 3) [m].
        axes: Rows are normal (to body A), first and second tangent, world frame, right-handed, shape (n, 3, 3).
        gap: Signed distance, shape (n,) [m].
        mu: Friction coefficients, shape (n,).
        stiffness: Shape (n,) [N/m]; inf is rigid.
        damping: Shape (n,) [N s/m].
        rows: Normal, first and second tangential row of body A, and of body B (which carry the minus; zero for the
            world), for velocities of `idcontrol.bodies`, shape (n, 2, 3, 6).
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
        """These contacts with dense rows, for the velocities of all `bodies` bodies."""
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


class _Surfaces(NamedTuple):
    """Surfaces of the shapes; the ground's is the last.

    Attributes:
        body: Body that carries the surface; `WORLD` where it does not move.
        mu: Friction coefficients.
        softness: Inverse stiffness [m/N]; 0 is rigid.
        damping: Normal damping [N s/m].
    """

    body: Integers
    mu: Array
    softness: Array
    damping: Array


class BodyDetector:
    """Finds the contacts of free bodies."""

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
            bodies: The bodies; each can touch every other.
            obstacles: Shapes that do not move.
            terrain: Ground; None means there is none.
            ground: Material of the ground; None is a rigid surface with the friction of whatever touches it.

        Raises:
            InputError: A kind of shape is not supported, has no volume or is not finite, or an obstacle's place is not.
        """
        for obstacle in obstacles:
            place = np.concatenate([np.asarray(obstacle.position, float), np.asarray(obstacle.orientation, float)])
            if place.shape != (7,) or not np.isfinite(place).all() or not np.abs(place[3:]).max() > 0.0:
                raise InputError(f"obstacle {obstacle.name!r}: position and quaternion must be seven finite numbers")
        things: list[Body | Obstacle] = [*bodies, *obstacles]
        n, count = len(bodies), len(things)
        self._n = n
        self._detection = Detection(
            [thing.shape for thing in things], [thing.name for thing in things], np.arange(n), terrain
        )
        every = [*(thing.surface for thing in things), Surface(mu=np.inf) if ground is None else ground]
        body: Integers = np.full(count + 1, WORLD, dtype=np.int64)
        body[:n] = np.arange(n)
        self._surfaces = _Surfaces(
            body=body,
            mu=np.array([surface.mu for surface in every]),
            softness=np.array([1.0 / surface.stiffness for surface in every]),
            damping=np.array([surface.damping for surface in every]),
        )
        self._position, self._rotation = np.zeros((count, 3)), np.zeros((count, 3, 3))
        self._reach: Array = np.zeros(count)  # what does not move has none
        if obstacles:
            self._position[n:] = [obstacle.position for obstacle in obstacles]
            self._rotation[n:] = rotations(np.array([obstacle.orientation for obstacle in obstacles], float))

    @property
    def radius(self) -> Array:
        """Radius of a sphere around each body, shape (n,) [m]."""
        return self._detection.shapes.radius[: self._n]

    def reset(self) -> None:
        """Forget which contacts there were."""
        self._detection.reset()

    def detect(self, position: Array, rotation: Array, reach: Array) -> BodyContacts:
        """The contacts whose gap is below the reach of both bodies together.

        Args:
            position: Centres of mass, world frame, shape (n, 3) [m].
            rotation: Axes of the bodies (columns), shape (n, 3, 3).
            reach: How far each body may reach, shape (n,) [m].
        """
        detection, n = self._detection, self._n
        self._position[:n], self._rotation[:n] = position, rotation
        detection.put(self._position, self._rotation)
        self._reach[:n] = reach
        pair = near_pairs(detection.placed.low, detection.placed.high, self._reach, self._surfaces.body)
        found = detection.find(pair, self._reach[pair[:, 0]] + self._reach[pair[:, 1]], self._reach)
        axes = axes_of(found.normal, 0.0)
        body, mu, stiffness, damping = _pair_up(self._surfaces, found.shape)
        return BodyContacts(
            identity=found.identity,
            body=body,
            point=found.point,
            axes=axes,
            gap=found.gap,
            mu=mu,
            stiffness=stiffness,
            damping=damping,
            rows=_rows(body, self._position, found.point, axes),
        )


@njit(cache=True, error_model="numpy")
def _pair_up(surfaces: _Surfaces, shape: Integers) -> tuple[Integers, Array, Array, Array]:
    """Bodies, friction, stiffness and damping of each contact from its two surfaces, shapes (n, 2), (n,), (n,), (n,).

    They are springs in series: 1/K adds up. So are their dampers, but a rigid surface does not give way: the other's
    damper takes all of the motion.
    """
    n = shape.shape[0]
    body, mu, stiffness, damping = np.empty((n, 2), np.int64), np.empty(n), np.empty(n), np.empty(n)
    for i in range(n):
        soft, yields, least = 0.0, 0.0, np.inf
        for side in range(2):
            g = shape[i, side]  # GROUND, -1, is the last
            body[i, side] = surfaces.body[g]
            least = min(least, surfaces.mu[g])
            soft += surfaces.softness[g]
            if surfaces.softness[g] > 0.0:
                yields += 1.0 / surfaces.damping[g]
        mu[i], stiffness[i] = least, 1.0 / soft
        damping[i] = 1.0 / yields if soft > 0.0 else 0.0
    return body, mu, stiffness, damping


@njit(cache=True, error_model="numpy")
def _rows(body: Integers, position: Array, point: Array, axes: Array) -> Array:
    """Rows of the velocity of A minus that of B at the contact point: ``axis · (v + ω × r)``, r from the body to it."""
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
