"""Random rigid bodies in contact with each other and with the world: problems for solvers, without a robot.

A contact is a small sphere on body A that touches a flat face of body B or of the world. Each body has six velocities
in world axes: linear velocity of the centre of mass, then angular velocity.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from idcontrol.contact.contacts import Contacts
from idcontrol.types import Array, Integers

GRAVITY: Final = 9.81
WORLD: Final = -1
"""Number of the body that does not move."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pile:
    """Bodies in contact at one instant.

    Attributes:
        M: Inertia, shape (6 k, 6 k) for k bodies.
        force: Gravity, gyroscopic and applied forces, shape (6 k,) [N, N m].
        v: Velocity at which no gap changes, shape (6 k,).
        contacts: Closed contacts with μ = 0; set μ with `dataclasses.replace`.
        drift: J̇ v, block order, shape (3 n,) [m/s²].
        pairs: Bodies A and B of each contact, shape (n, 2); B may be `WORLD`.
        radius: Radius of the sphere on body A, shape (n,) [m].
        position: Centres of mass, shape (k, 3) [m].
    """

    M: Array
    force: Array
    v: Array
    contacts: Contacts
    drift: Array
    pairs: Integers
    radius: Array
    position: Array


def _places(rng: np.random.Generator, pairs: Integers, bodies: int) -> tuple[Array, Array, Array]:
    """Return random centres of the bodies (bodies, 3), contact points (n, 3) and contact axes (n, 3, 3)."""
    position = np.zeros((bodies, 3))
    for body, parent in enumerate(pairs[:bodies, 1]):
        if parent != WORLD:
            position[body] = position[parent] + rng.uniform(0.2, 0.4) * _direction(rng, (0.0, 0.0, 1.0))
    point, axes = np.empty((len(pairs), 3)), np.empty((len(pairs), 3, 3))
    for i, (a, b) in enumerate(pairs):
        if b == WORLD:
            outward = _direction(rng, (0.0, 0.0, -1.0))
            point[i] = position[a] + 0.15 * outward + 0.03 * rng.normal(size=3)
        else:
            outward = position[b] - position[a]
            point[i] = 0.5 * (position[a] + position[b]) + 0.05 * rng.normal(size=3)
        axes[i] = _axes(rng, -outward / np.linalg.norm(outward) + 0.2 * rng.normal(size=3))
    return position, point, axes


def random_pile(rng: np.random.Generator, bodies: int, contacts: int, sliding: int, *, lightest: float = 0.5) -> Pile:
    """Return bodies that rest on each other, on the floor and between walls.

    Args:
        rng: Source of randomness.
        bodies: Number of bodies; each is held by at least one contact.
        contacts: Number of contacts, at least `bodies`, and at least `bodies` + `sliding` - 1.
        sliding: Number of contacts with the world that slide, because the surface moves; all other contacts roll or
            rest.
        lightest: Smallest mass [kg].

    Returns:
        Bodies of up to 5 kg and 10 to 40 cm; a force of half its weight pushes each body in a random direction.
    """
    mass = np.exp(rng.uniform(np.log(lightest), np.log(5.0), bodies))
    inertia = np.array([_inertia(rng, m) for m in mass])
    pairs = _pairs(rng, bodies, contacts, sliding)
    position, point, axes = _places(rng, pairs, bodies)
    radius = rng.uniform(0.0, 0.1, contacts)
    jacobian = rows(pairs, point, axes, position)

    slides = np.zeros(contacts, dtype=np.bool_)
    slides[rng.permutation(np.flatnonzero(pairs[:, 1] == WORLD))[:sliding]] = True
    still = np.concatenate([np.arange(contacts), *(k * contacts + np.flatnonzero(~slides) for k in (1, 2))])
    v = _allowed(jacobian[still], 0.3 * rng.normal(size=6 * bodies))
    surface = np.zeros((3, contacts))
    angle = rng.uniform(0.0, 2.0 * np.pi, sliding)
    surface[1:, slides] = rng.uniform(0.1, 1.0, sliding) * np.array([np.cos(angle), np.sin(angle)])

    M, force = np.zeros((6 * bodies, 6 * bodies)), np.zeros(6 * bodies)
    for body in range(bodies):
        linear, angular = slice(6 * body, 6 * body + 3), slice(6 * body + 3, 6 * body + 6)
        M[linear, linear], M[angular, angular] = mass[body] * np.eye(3), inertia[body]
        weight = mass[body] * GRAVITY
        force[linear] = 0.5 * weight * _direction(rng) - [0.0, 0.0, weight]
        force[angular] = 0.02 * weight * rng.normal(size=3) - np.cross(v[angular], inertia[body] @ v[angular])
    return Pile(
        M=M,
        force=force,
        v=v,
        contacts=Contacts(
            identity=np.arange(contacts),
            point=point,
            axes=axes,
            gap=np.zeros(contacts),
            mu=np.zeros(contacts),
            jacobian=jacobian,
            surface_velocity=surface.ravel(),
        ),
        drift=drift(pairs, point, axes, radius, position, v),
        pairs=pairs,
        radius=radius,
        position=position,
    )


def rows(pairs: Integers, point: Array, axes: Array, position: Array) -> Array:
    """Return contact rows [N; S; T] over the velocities of all bodies (math.md, section 2), shape (3 n, 6 k)."""
    n = pairs.shape[0]
    J = np.zeros((3, n, position.shape[0], 6))
    for i, (a, b) in enumerate(pairs):
        for body, sign in ((a, 1.0), (b, -1.0)):
            if body != WORLD:
                J[:, i, body, :3] = sign * axes[i]
                J[:, i, body, 3:] = sign * np.cross(point[i] - position[body], axes[i])
    return J.reshape(3 * n, -1)


def drift(pairs: Integers, point: Array, axes: Array, radius: Array, position: Array, v: Array) -> Array:
    r"""Return J̇ v of spheres on A against faces of B, shape (3 n,) [m/s²]; contact axes rotate with B (math.md, 9).

    With C and R the sphere's centre and radius, n the normal, p the contact point and e a contact axis, the relative
    velocity is ``u = v_C - R ω_A × n - v_B(p)``. At v̇ = 0, with a_C the acceleration of C,

        d/dt (e·u) = e·(a_C - R ω_A × ṅ - ω_B × (ṗ - v_B)) + ė·u,    ṅ = ω_B × n, ṗ = v_C - R ṅ, ė = ω_B × e
    """
    n = pairs.shape[0]
    out = np.empty((3, n))
    for i, (a, b) in enumerate(pairs):
        v_a, omega_a = v[6 * a : 6 * a + 3], v[6 * a + 3 : 6 * a + 6]
        v_b, omega_b, x_b = np.zeros(3), np.zeros(3), point[i]
        if b != WORLD:
            v_b, omega_b, x_b = v[6 * b : 6 * b + 3], v[6 * b + 3 : 6 * b + 6], position[b]
        normal = axes[i, 0]
        arm = point[i] + radius[i] * normal - position[a]
        v_centre = v_a + np.cross(omega_a, arm)
        turning = np.cross(omega_b, normal)
        moving = v_centre - radius[i] * turning
        u = v_centre - radius[i] * np.cross(omega_a, normal) - v_b - np.cross(omega_b, point[i] - x_b)
        rate = np.cross(omega_a, np.cross(omega_a, arm)) - radius[i] * np.cross(omega_a, turning)
        rate -= np.cross(omega_b, moving - v_b)
        out[:, i] = axes[i] @ rate + np.cross(omega_b, axes[i]) @ u
    return out.ravel()


def axes_about(normal: Array, first: Array) -> Array:
    """Return right-handed contact axes as rows: `normal`, `first` scaled to unit length, and the second tangent."""
    first = first / np.linalg.norm(first)
    return np.array([normal, first, np.cross(normal, first)])


def _direction(rng: np.random.Generator, bias: tuple[float, float, float] = (0.0, 0.0, 0.0)) -> Array:
    """Return a random unit vector, usually on the side of `bias`."""
    x = rng.normal(size=3) + np.array(bias)
    return x / np.linalg.norm(x)


def _axes(rng: np.random.Generator, normal: Array) -> Array:
    """Return right-handed contact axes as rows: the normal, and two tangents at a random angle."""
    normal = normal / np.linalg.norm(normal)
    return axes_about(normal, np.cross(normal, _direction(rng)))


def _inertia(rng: np.random.Generator, mass: float) -> Array:
    """Return the inertia of a box of 10 to 40 cm in a random pose, about its centre, in world axes."""
    squares = rng.uniform(0.1, 0.4, 3) ** 2
    axes = _axes(rng, _direction(rng))
    about = axes.T @ np.diag(mass / 12.0 * (squares.sum() - squares)) @ axes
    return 0.5 * (about + about.T)


def _pairs(rng: np.random.Generator, bodies: int, contacts: int, sliding: int) -> Integers:
    """Pair the bodies: the first rests on the world, each later body on an earlier body.

    The remaining pairs are random, but at least `sliding` pairs are with the world.
    """
    pairs = [(0, WORLD)] + [(body, int(rng.integers(body))) for body in range(1, bodies)]
    while len(pairs) < contacts:
        missing = sliding - sum(b == WORLD for _, b in pairs)
        body = int(rng.integers(bodies))
        parent = pairs[body][1]
        if contacts - len(pairs) <= missing or rng.random() < 0.5:
            parent = WORLD
        pairs.append((body, parent))
    return np.array(pairs, dtype=np.int64)


def _allowed(held: Array, v: Array) -> Array:
    """Return v, shape (m,), projected so that ``held v = 0``; `held` has shape (k, m)."""
    _, sigma, across = np.linalg.svd(held, full_matrices=False)
    across = across[sigma > 1e-9 * sigma[0]]
    return v - across.T @ (across @ v)
